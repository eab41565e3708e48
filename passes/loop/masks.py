"""Where masks make values constant: what a value is at the points where a comparison of coordinates fails.

A mask is a form over loop variables that is below 0 where elements count; at the others a value may be known: -inf
where `select` chose it, 0 after `exp`. Two lemmas about a row x[n] go beyond the arithmetic of IEEE 754:

* `-inf - m` is -inf, if m is the maximum of the row x, which has that -inf, or a finite number
* `0 / s` is 0, if s is the sum of the row x of exponentials, which has that 0, or a number other than 0

They fail where m is NaN or -inf, or where s is NaN or 0. Then `x[n] - m`, or `x[n] / s`, is NaN at every n, and so is
what is computed of it: a fold along the row that keeps one element is NaN with the others and without them.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TypeAlias, cast

from xdsl.dialects import arith
from xdsl.dialects import math as math_dialect
from xdsl.dialects.builtin import FloatAttr, IndexType, IntegerAttr, IntegerType
from xdsl.dialects.utils import FastMathFlag
from xdsl.ir import BlockArgument, Operation, SSAValue
from xdsl.ir.affine import AffineExpr

from deplodock.analysis.affine.linear import Linear, condition_of, form_of, form_of_value, subscripts_of
from deplodock.analysis.shape.dependence import Dependence, alike, wheres
from deplodock.analysis.shape.streaming import streams, weighing
from deplodock.dialects import loop, scalar_regions
from deplodock.passes.loop.buffers import Buffers

Subscripts: TypeAlias = Sequence[Linear]


@dataclass(frozen=True)
class Mask:
    """A form that is below 0 where elements count, and the loop variable whose elements it leaves out."""

    form: Linear
    along: BlockArgument

    def hides(self, other: Linear) -> bool:
        """Whether another form is 0 or more at every element that does not count."""
        bounds = (other - self.form).with_remainders().range()
        return bounds is not None and bounds[0] >= 0


@dataclass(frozen=True)
class Fact:
    """The elements of a buffer where an expression of their subscripts is 0 or more are all of one value.

    That holds for each row along the dimension `row` which is not all NaN.
    """

    mask: AffineExpr
    value: float
    row: int

    def at(self, subscripts: Subscripts) -> Linear:
        """The form of the mask for the subscripts of a load."""
        return form_of(self.mask, (), subscripts)

    def is_along(self, root: SSAValue, subscripts: Subscripts) -> bool:
        """Whether a loop variable walks a row."""
        return _is_row(root, subscripts, self.row)


def over_subscripts(form: Linear, subscripts: Subscripts) -> AffineExpr | None:
    """A form over loop variables as one over the subscripts that they are; None where one is no subscript alone."""
    dims = {form.terms[0][0]: d for d, form in enumerate(subscripts) if form.terms}
    dims = {root: d for root, d in dims.items() if subscripts[d] == Linear.of(root)}
    if any(root not in dims for root in form.roots()):
        return None
    return form.affine(lambda root: AffineExpr.dimension(dims[root]))


class Masks:
    """The constants that masks make of values, in functions at loop level that pass buffers to each other."""

    def __init__(self, buffers: Buffers) -> None:
        self._buffers = buffers
        self._dependence = Dependence()
        self._stored: dict[loop.StoreOp, list[Fact]] = {}

    def masks(self, value: SSAValue, along: BlockArgument) -> list[Mask]:
        """The masks along a loop variable that may make a value constant, one element after another counting less."""
        forms = [form for found in _behind(value) for form in self._forms(found)]
        return [Mask(form, along) for form in dict.fromkeys(forms) if form.coefficient(along) == 1]

    def starts(self, value: SSAValue, along: BlockArgument) -> list[Mask]:
        """Those that leave out the first elements along a loop variable."""
        forms = [form for found in _behind(value) for form in self._forms(found)]
        return [Mask(form, along) for form in dict.fromkeys(forms) if form.coefficient(along) == -1]

    def constant(self, value: SSAValue, mask: Mask) -> float | None:
        """What a value is wherever an element does not count, if not all of the row is NaN; None if it is not known."""
        match value.owner:
            case arith.MulfOp() as op:
                return self._product(op, mask)
            case arith.AddfOp() as op if FastMathFlag.NO_NANS in op.fastmath.data:
                return -math.inf if -math.inf in (self.constant(op.lhs, mask), self.constant(op.rhs, mask)) else None
            case arith.SubfOp() as op:
                return -math.inf if self._is_below(op, mask) else None
            case arith.DivfOp() as op if isinstance(op.lhs.owner, math_dialect.ExpOp):
                return 0.0 if self._is_share(op, mask) else None
            case math_dialect.ExpOp() as op:
                return 0.0 if self.constant(op.operand, mask) == -math.inf else None
            case arith.ExtFOp() | arith.TruncFOp() as op:
                return self.constant(op.input, mask)
            case loop.LoadOp(padded=None) as op:
                subscripts = subscripts_of(op)
                known = (fact for fact in self._facts(op.source) if fact.is_along(mask.along, subscripts))
                return next((fact.value for fact in known if mask.hides(fact.at(subscripts))), None)
            case _:
                return _chosen(value, mask)

    def _product(self, op: arith.MulfOp, mask: Mask) -> float | None:
        """0 where a factor is, if the product says that NaN and the sign of a zero do not matter."""
        return 0.0 if _is_lax(op) and any(self.constant(factor, mask) == 0 for factor in (op.lhs, op.rhs)) else None

    def _is_below(self, op: arith.SubfOp, mask: Mask) -> bool:
        """Whether -inf less the maximum of its row, or less a finite number, is taken wherever an element is hidden."""
        return self.constant(op.lhs, mask) == -math.inf and all(
            math.isfinite(number)
            if (number := _number(value)) is not None
            else self._folds(value, op.lhs, mask, "maximumf")
            for value in self._choices(op.rhs, mask)
        )

    def _is_share(self, op: arith.DivfOp, mask: Mask) -> bool:
        """Whether 0 is divided by the sum of its row, or by a number, wherever an element is hidden."""
        return self.constant(op.lhs, mask) == 0 and all(
            not math.isnan(number) and number != 0
            if (number := _number(value)) is not None
            else self._folds(value, op.lhs, mask, "addf")
            for value in self._choices(op.rhs, mask)
        )

    def _choices(self, value: SSAValue, mask: Mask) -> Iterator[SSAValue]:
        """The values among which selects choose one for the whole row."""
        if isinstance(op := value.owner, arith.SelectOp) and mask.along not in self._dependence.of(op.cond):
            yield from self._choices(op.lhs, mask)
            yield from self._choices(op.rhs, mask)
        else:
            yield value

    def _folds(self, fold: SSAValue, element: SSAValue, mask: Mask, name: str) -> bool:
        """Whether a value is the fold by `arith.<name>` of the row of an element along the mask's loop variable."""
        op = fold.owner
        if not isinstance(op, loop.ReduceOp) or len(op.results) != 1 or mask.along in self._dependence.of(fold):
            return False
        ops = scalar_regions.combiner_ops(op.combiner)
        around = mask.along.block.parent_op()
        return (
            ops is not None
            and ops[0].name == f"arith.{name}"
            and isinstance(around, loop.LoopLike)
            and op.bound == around.bound
            and tuple(op.bound_operands) == tuple(around.bound_operands)
            and alike(op.yielded[0], element, {op.iv: mask.along})
            and self.is_whole(op)
        )

    def is_whole(self, op: loop.ReduceOp) -> bool:
        """Whether the conditions in a reduction leave out nothing but identities of its combiner."""
        conditions = [Mask(condition_of(where), op.iv) for where in wheres(op.body.block)]
        return all(self.is_identity(op, mask) for mask in conditions)

    def is_identity(self, op: loop.ReduceOp, mask: Mask) -> bool:
        """Whether the elements of a reduction that do not count are the identity of its combiner, or all are NaN.

        In a streaming reduction it is the score that counts: the weight of -inf is 0.
        """
        (identity, *others), (score, *_) = op.identities, op.yielded
        if others and not (streams(op) and all(_is_lax(by) or _number(value) == 1 for value, by in weighing(op))):
            return False
        return isinstance(identity, FloatAttr) and self.constant(score, mask) == identity.value.data

    def _forms(self, op: Operation) -> Iterator[Linear]:
        """The forms of the masks that an operation may bring in."""
        match op:
            case arith.CmpiOp() if (form := comparison(op)) is not None:
                yield form
                yield -form - 1
            case loop.LoadOp():
                yield from (fact.at(subscripts_of(op)) for fact in self._facts(op.source))
            case _:
                return

    def _facts(self, source: SSAValue) -> list[Fact]:
        """What masks make of the elements of a buffer, which one operation writes."""
        writers = self._buffers.writers(source)
        if len(writers) != 1:
            return []
        (store,) = writers
        if store not in self._stored:
            self._stored[store] = []  # A buffer is not computed from itself.
            subscripts = subscripts_of(store)
            self._stored[store] = [fact for row in range(len(subscripts)) for fact in self._row(store, subscripts, row)]
        return self._stored[store]

    def _row(self, store: loop.StoreOp, subscripts: Subscripts, row: int) -> Iterator[Fact]:
        """What masks along a dimension make of the elements that are stored."""
        (root, _), *_ = subscripts[row].terms or ((None, 0),)
        if not isinstance(root, BlockArgument) or not _is_row(root, subscripts, row):
            return
        for mask in self.masks(store.value, root):
            expr, value = over_subscripts(mask.form, subscripts), self.constant(store.value, mask)
            if expr is not None and value is not None:
                yield Fact(expr, value, row)


def _is_lax(op: arith.MulfOp) -> bool:
    """Whether a product says that NaN and the sign of a zero do not matter."""
    return FastMathFlag.NO_NANS in op.fastmath.data and FastMathFlag.NO_SIGNED_ZEROS in op.fastmath.data


def _is_row(along: SSAValue, subscripts: Subscripts, row: int) -> bool:
    """Whether a loop variable is the subscript of a dimension, and moves along no other."""
    others = [form for d, form in enumerate(subscripts) if d != row]
    return subscripts[row] == Linear.of(along) and not any(form.depends_on(along) for form in others)


def _number(value: SSAValue) -> float | None:
    """The value of a constant of floating point."""
    op = value.owner
    return op.value.value.data if isinstance(op, arith.ConstantOp) and isinstance(op.value, FloatAttr) else None


def _chosen(value: SSAValue, mask: Mask) -> float | None:
    """The constant that selects choose wherever an element does not count; None where they may choose otherwise."""
    match value.owner:
        case arith.ConstantOp():
            return _number(value)
        case arith.SelectOp() as op:
            holds = _truth(op.cond, mask)
            sides = [] if holds is False else [op.lhs]
            sides += [] if holds is True else [op.rhs]
            numbers = {_chosen(side, mask) for side in sides}
            return numbers.pop() if len(numbers) == 1 else None
        case arith.ExtFOp() | arith.TruncFOp() as op:
            return _chosen(op.input, mask)
        case _:
            return None


def _behind(value: SSAValue) -> Iterator[Operation]:
    """The scalar operations and loads that a value is computed from without reductions, each once."""
    pending, seen = [value], set[Operation]()
    while pending:
        op = pending.pop().owner
        if isinstance(op, Operation) and op not in seen and not op.regions:
            seen.add(op)
            yield op
            pending += [] if isinstance(op, loop.LoadOp) else op.operands


def _truth(value: SSAValue, mask: Mask) -> bool | None:
    """Whether a condition holds wherever an element does not count; None where that differs or is not known."""
    match value.owner:
        case arith.ConstantOp() as op if isinstance(op.value, IntegerAttr):
            return bool(op.value.value.data)
        case arith.CmpiOp() as op if (form := comparison(op)) is not None:
            if mask.hides(form):
                return False
            return True if mask.hides(-form - 1) else None
        case arith.AndIOp() as op:
            sides = _truth(op.lhs, mask), _truth(op.rhs, mask)
            return False if False in sides else True if None not in sides else None
        case arith.OrIOp() as op:
            sides = _truth(op.lhs, mask), _truth(op.rhs, mask)
            return True if True in sides else False if None not in sides else None
        case _:
            return None


def comparison(op: arith.CmpiOp) -> Linear | None:
    """A form that is below 0 exactly where a comparison of coordinates holds."""
    lhs, rhs = _coordinate(op.lhs), _coordinate(op.rhs)
    if lhs is None or rhs is None:
        return None
    match arith.CMPI_COMPARISON_OPERATIONS[op.predicate.value.data]:
        case "slt":
            return lhs - rhs
        case "sle":
            return lhs - rhs - 1
        case "sgt":
            return rhs - lhs
        case "sge":
            return rhs - lhs - 1
        case _:
            return None


def _coordinate(value: SSAValue) -> Linear | None:
    """The form of an integer that is a sum of loop variables and constants and never wraps around."""
    match value.owner:
        case arith.IndexCastOp() as op if isinstance(op.input.type, IndexType):
            form = form_of_value(op.input)
        case arith.ConstantOp() as op if isinstance(op.value, IntegerAttr):
            form = Linear(constant=op.value.value.data)
        case arith.AddiOp() | arith.SubiOp() as op:
            lhs, rhs = _coordinate(op.lhs), _coordinate(op.rhs)
            if lhs is None or rhs is None:
                return None
            form = lhs + rhs if isinstance(op, arith.AddiOp) else lhs - rhs
        case _:
            return None
    bounds = form.range()
    if bounds is None or not isinstance(value.type, IntegerType):
        return None
    limit = 1 << cast(IntegerType, value.type).width.data - 1
    return form if -limit <= bounds[0] and bounds[1] < limit else None
