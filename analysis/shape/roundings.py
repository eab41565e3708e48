"""What rounds on the way to the results of a program, and how large an error it may make: the error bar of a result.

An error grows with the additions that may follow each other on the way to a result.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from xdsl.dialects import arith
from xdsl.dialects import math as math_ir
from xdsl.dialects.builtin import BFloat16Type, ModuleOp, f16, f32, f64
from xdsl.dialects.func import CallOp, ReturnOp
from xdsl.ir import Attribute, Block, Operation, SSAValue

from deplodock.analysis.affine.linear import value_range
from deplodock.analysis.host.arguments import Function, callee, cell_of, entry_function, parameters
from deplodock.analysis.shape.roles import accumulating_loops, adds_in_place, innermost_reduction, summed_products
from deplodock.dialects import loop, tensor, tile
from deplodock.dialects.loop.folds import AxisFold
from deplodock.dialects.precision import MEDIUM, coarsest_precision, precision_of
from deplodock.errors import UnsupportedError

FP32_ULP, FP64_ULP = 2.0**-23, 2.0**-52
"""The distances from 1 to the next number of both types in which sums are computed."""

TF32_ROUNDOFF = 2.0**-11
"""The unit roundoff of factors that are rounded to TF32, which has 11 bits."""

_ULPS: dict[Attribute, float] = {BFloat16Type(): 2.0**-7, f16: 2.0**-10, f32: FP32_ULP}
"""The ulps of what a value may be cast to from a wider float."""

_NARROW = 1.5
"""The error of a rounding to a narrow type that is allowed, in unit roundoffs; that of normal numbers is 0.41."""

MOST = 8.0
"""The most roundings to the type of the sums that count besides those of the sums."""

_FUNCTION = 4.0
"""The roundings that a function of a number makes: two ulps."""

_EXACT = (math_ir.AbsFOp, math_ir.CeilOp, math_ir.CopySignOp, math_ir.FloorOp, math_ir.RoundEvenOp, math_ir.TruncOp)

_FACTORS = 3.0
"""The error of a product of factors of TF32, in unit roundoffs: rounded ones make 0.6, those that are cut off 1.6."""


@dataclass(frozen=True)
class Roundings:
    """What rounds on the way to the results of a program, along the path on which most does.

    `sums` is the longest chain of additions. `narrow` is the root of the sum of squares of the unit roundoffs of casts
    to narrower floats, and `factors` the sum of those of products whose factors may be rounded to TF32. `others` is
    that root of the other roundings, in unit roundoffs of FP32 or float64, where it is known, and 8 at most.
    """

    sums: int = 1
    narrow: float = 0.0
    factors: float = 0.0
    others: float = MOST

    def bar(self, ulp: float) -> float:
        """The relative error that a result may have whose type has this distance from 1 to the next number.

        A result of a type narrower than FP32 is rounded to it at least once.
        """
        narrow = max(self.narrow, ulp / 2 if ulp > FP32_ULP else 0.0)
        return _NARROW * narrow + self._of_sums(ulp) + _FACTORS * self.factors

    def noise(self, ulp: float, *, is_rounded: bool, is_factor: bool) -> float:
        """The largest random error of a value that stands for what rounds there: one, uniform, of so much moves as far.

        Args:
            ulp: the distance from 1 to the next number of the type of the value.
            is_rounded: whether the value was rounded to that type, as a result is, and an input is not.
            is_factor: whether it is a factor of a product of FP32.
        """
        narrow = _NARROW * ulp / 2 if is_rounded and ulp > FP32_ULP else 0.0
        factor = _FACTORS * TF32_ROUNDOFF / math.sqrt(2) if is_factor and self.factors else 0.0
        return math.sqrt(3) * max(narrow, factor, self._of_sums(ulp))

    def _of_sums(self, ulp: float) -> float:
        """The relative error of sums: the reference is rounded as sums of float64 are."""
        unit = ulp if ulp <= FP64_ULP else min(ulp, FP32_ULP) / 2
        return unit * (self.others + math.sqrt(self.sums))


def roundings(module: ModuleOp) -> Roundings:
    """What rounds on the way to the results of the entry function of a module at tensor, loop or tile level.

    Raises as `longest_reduction`.
    """
    narrow, factors = longest_path(module, _narrowed), longest_path(module, _rounded_factors)
    # At tile level a contraction adds to accumulators on its own, past the path.
    least = TF32_ROUNDOFF if coarsest_precision(module) == MEDIUM else 0.0
    others = max(1.0, math.sqrt(longest_path(module, _rounded)))
    return Roundings(longest_reduction(module), math.sqrt(narrow), max(factors, least), min(MOST, others))


def _narrowed(op: Operation) -> float:
    """The square of the unit roundoff of a rounding to a narrower type; 0 of what does not round so."""
    if not isinstance(op, arith.TruncFOp | arith.FloatingPointLikeBinaryOperation):
        return 0.0
    type = op.results[0].type
    is_narrow = isinstance(op, arith.TruncFOp) or type != f32
    return (_ULPS.get(type, 0.0) / 2) ** 2 if is_narrow else 0.0


def _rounded(op: Operation) -> float:
    """The square of the unit roundoffs that an operation of FP32 or float64 makes."""
    if not op.results or op.results[0].type not in (f32, f64) or isinstance(op, _EXACT):
        return 0.0
    if isinstance(op, arith.FloatingPointLikeBinaryOperation | arith.TruncFOp):
        return 1.0
    return _FUNCTION**2 if op.name.startswith("math.") else 0.0


def _rounded_factors(op: Operation) -> float:
    return TF32_ROUNDOFF if precision_of(op) == MEDIUM else 0.0


def longest_reduction(module: ModuleOp) -> int:
    """The longest chain of additions that any result of the entry function is computed through, in reductions.

    A reduction adds its extent to the chain of what it folds. Loops with one accumulator are one reduction, whose
    extent is the product of theirs; a loop whose bound varies counts with its greatest. Works on tensor, loop and tile
    level; 1 where nothing is reduced. Rounding errors of sums grow with it.

    Raises:
        Error: there is no entry function, or several.
        UnsupportedError: an extent has no greatest value that is known.
    """
    return max(1, int(longest_path(module, _extent)))


def longest_path(module: ModuleOp, weight: Callable[[Operation], float]) -> float:
    """The greatest sum of the weights of operations that follow each other on the way to a result of the entry.

    All that an elementwise operation of tensor level computes counts as one path. Raises as `longest_reduction`.
    """
    function = entry_function(module)
    paths = _Paths(weight)
    paths.run(function, [0] * len(parameters(function)))
    return max((0, *(paths.length(value) for value in (*parameters(function), *_returned(function)))))


def _returned(function: Function) -> Sequence[SSAValue]:
    last = function.body.block.last_op
    return last.operands if isinstance(last, ReturnOp) else ()


class _Paths:
    """The longest path to each value; that to a buffer is the longest to any value stored there."""

    def __init__(self, weight: Callable[[Operation], float]) -> None:
        self._weight = weight
        self._lengths: dict[SSAValue, float] = {}

    def length(self, value: SSAValue) -> float:
        """The longest path to a value."""
        return self._lengths.get(value, 0)

    def run(self, function: Function, lengths: Sequence[float]) -> None:
        """Follow a function whose arguments have the given paths."""
        self._lengths.update(zip(parameters(function), lengths, strict=True))
        self._block(function.body.block)

    def _block(self, block: Block) -> None:
        for op in block.ops:
            self._op(op)

    def _op(self, op: Operation) -> None:
        match op:
            case loop.StoreOp():
                self._raise(op.destination, max(self.length(op.value), self.length(op.destination)))
                return
            case CallOp():
                function = callee(op)
                arguments = [*map(loop.whole, op.arguments)]
                self.run(function, [self.length(value) for value in arguments])
                for argument, parameter in zip(arguments, parameters(function), strict=True):
                    self._raise(argument, self.length(parameter))
                sources = _returned(function)
            case tensor.RecurrenceOp():
                # Once: what steps add up is the program's own sum, of which no order is another.
                cell = cell_of(op)
                self.run(cell, [self.length(value) for value in op.operands])
                sources = _returned(cell)
            case tensor.KernelOp():
                for argument, operand in zip(op.body.block.args, op.inputs, strict=True):
                    self._raise(argument, self.length(operand))
                self._block(op.body.block)
                last = op.body.block.last_op
                sources = () if last is None else last.operands
            case loop.ReduceOp():
                self._block(op.body.block)
                added = _contracts_of(op)
                factors = [factor for contract in added for factor in (*contract.lhs, *contract.rhs)]
                sources = factors or innermost_reduction(op).yielded
            case _:
                for block in (block for region in op.regions for block in region.blocks):
                    self._block(block)
                sources = op.operands
        longest = max((self.length(value) for value in sources), default=0) + self._own(op)
        for result in op.results:
            self._raise(result, longest)

    def _own(self, op: Operation) -> float:
        """The weight of an operation, and of those in it if it is an elementwise one of tensor level."""
        inner = [*op.body.walk()] if isinstance(op, tensor.ElementwiseOp) else []
        return sum(map(self._weight, (op, *inner)))

    def _raise(self, value: SSAValue, length: float) -> None:
        self._lengths[value] = max(length, self.length(value))


def _contracts_of(op: loop.ReduceOp) -> list[tile.ContractOp]:
    """The contracts that add to the accumulators of a reduction, one for each, if there are any."""
    return [op for op in summed_products(op) if isinstance(op, tile.ContractOp) and adds_in_place(op)]


def _contract_extents(op: tile.ContractOp) -> list[int | None]:
    return [len(op.pairs), *(_greatest(axis) for axis in op.axes)]


def _extent(op: Operation) -> int:
    """How many values an op folds into one; 0 if it is no reduction."""
    match op:
        case tensor.ReduceOp():
            shape = tensor.shape_of(op.inputs[0])
            extents = [shape[dim] if shape[dim] >= 0 else None for dim in op.reduced]
        case tensor.ScanOp():
            extents = [tensor.shape_of(op.inputs[0])[op.dim.value.data]]
        case loop.ReduceOp():
            extents = [_greatest(each.iv) for each in accumulating_loops(op)]
            extents += max(([], *map(_contract_extents, _contracts_of(op))), key=_folded)
        case AxisFold():
            extents = [_greatest(axis) for axis in op.axes]
        case tile.ContractOp():
            extents = _contract_extents(op)
        case _:
            return 0
    if None in extents:
        raise UnsupportedError(f"{op.name}: the extent of a reduction is not constant")
    return _folded(extents)


def _folded(extents: Sequence[int | None]) -> int:
    """How many values loops of these extents fold; one that is empty or not known counts as 1."""
    return math.prod(extent or 1 for extent in extents)


def _greatest(root: SSAValue) -> int | None:
    """The most values that an axis or a loop variable may have; None where that is not known."""
    bounds = value_range(root)
    return None if bounds is None else bounds[1] + 1
