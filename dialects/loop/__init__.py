"""The `loop` dialect: one kernel as loops over buffers, with reductions as values.

Loops run from 0 to an affine bound; subscripts are affine in SSA `index` values of any origin, so a gathered index is a
subscript like any other. The operations on points and memory serve the tile and kernel dialects too.

    loop.for %i = 0 to 32 {
      %sum = loop.reduce {arith.addf} %k = 0 to 2048 : f32 {
        %v = loop.load %x[%i, %k] : memref<32x2048xf32>
        loop.yield %v : f32
      }
      loop.store %sum, %out[%i] : memref<32xf32>
    }
"""

from __future__ import annotations

from collections.abc import Sequence
from collections.abc import Set as AbstractSet
from typing import Self

from xdsl.dialects.builtin import AffineMapAttr, ArrayAttr, IndexType, IntegerType, MemRefType, NoneAttr, UnitAttr
from xdsl.ir import Attribute, BlockArgument, Dialect, Operation, OpResult, Region, SSAValue
from xdsl.ir.affine import AffineConstantExpr, AffineExpr, AffineMap
from xdsl.irdl import (
    IRDLOperation,
    opt_prop_def,
    prop_def,
    region_def,
    result_def,
    traits_def,
    var_operand_def,
    var_result_def,
)
from xdsl.parser import Parser
from xdsl.printer import Printer
from xdsl.traits import (
    EffectInstance,
    MemoryEffect,
    MemoryEffectKind,
    NoTerminator,
    Pure,
    RecursiveMemoryEffect,
    get_effects,
)
from xdsl.utils.exceptions import VerifyException

from deplodock.dialects import scalar_regions
from deplodock.dialects.affine_syntax import (
    AffineReader,
    AffineWriter,
    verify_conditions,
    verify_map,
)
from deplodock.dialects.formats import op_definition, parse_attributes, parse_body, print_body
from deplodock.dialects.index_values import IntroducesIndices
from deplodock.dialects.loop.access import LoadOp, StoreOp, memref_of, verify_subscripts
from deplodock.dialects.loop.folds import PartOp, RepeatOp, ScanOp, YieldOp, whole
from deplodock.dialects.precision import verify_precision

__all__ = [
    "ForOp",
    "GuardOp",
    "IndexOp",
    "InsideOp",
    "LoadOp",
    "Loop",
    "LoopLike",
    "PartOp",
    "ReduceOp",
    "RepeatOp",
    "ScanOp",
    "StoreOp",
    "WhereOp",
    "YieldOp",
    "constant_bound",
    "memref_of",
    "verify_subscripts",
    "whole",
]


def constant_bound(map: AffineMap) -> int | None:
    """The value of a bound whose results are all constants, or None."""
    values = [expr.value for expr in map.results if isinstance(expr, AffineConstantExpr)]
    return max(0, min(values)) if len(values) == len(map.results) else None


class DeclaresActivity(MemoryEffect):
    """States a fact of the enclosing points: kept while they are, and no obstacle to merging the loads around it.

    It is modelled as an allocation on the enclosing block's first argument: never dead by itself, dead with the loop
    that owns the argument.
    """

    @classmethod
    def get_effects(cls, op: Operation) -> AbstractSet[EffectInstance]:
        block = op.parent_block()
        argument = block.args[0] if block is not None and block.args else None
        return {EffectInstance(MemoryEffectKind.ALLOC, argument)}


class LoopLike(IRDLOperation, IntroducesIndices):
    """A loop over an induction variable from 0 below a bound, the minimum of the results of an affine map."""

    bound_operands = var_operand_def(IndexType)
    bound = prop_def(AffineMapAttr)
    unroll = opt_prop_def(UnitAttr)
    body = region_def("single_block")

    @property
    def iv(self) -> BlockArgument:
        """The induction variable."""
        return self.body.block.args[0]

    @property
    def trips(self) -> int | None:
        """The number of iterations where the bound is constant, else None."""
        return constant_bound(self.bound.data)

    def extent(self, index: SSAValue) -> int | None:
        return self.trips if index.owner is self.body.block else None

    def bound_of(self, index: SSAValue) -> tuple[AffineMap, Sequence[SSAValue]] | None:
        return (self.bound.data, self.bound_operands) if index.owner is self.body.block else None


def _parse_header(parser: Parser) -> tuple[Parser.Argument, AffineMapAttr, list[SSAValue], bool]:
    """Parse `%iv = 0 to bound unroll?`."""
    iv = parser.parse_argument(expect_type=False).resolve(IndexType())
    parser.parse_punctuation("=")
    pos = parser.pos
    if parser.parse_integer(allow_boolean=False) != 0:
        parser.raise_error("a loop starts at 0; shift the subscripts instead", pos)
    parser.parse_keyword("to")
    reader = AffineReader(parser)
    map = reader.map(reader.bound())
    unroll = parser.parse_optional_keyword("unroll") is not None
    return iv, AffineMapAttr(map), reader.operands, unroll


def _print_header(printer: Printer, op: LoopLike) -> None:
    printer.print_ssa_value(op.iv)
    printer.print_string(" = 0 to ")
    AffineWriter(printer, op.bound_operands).bound(op.bound.data.results)
    if op.unroll:
        printer.print_string(" unroll")


def _verify_header(op: LoopLike) -> None:
    if [arg.type for arg in op.body.block.args] != [IndexType()]:
        raise VerifyException("a loop body takes one argument, the induction variable of type index")
    verify_map("the loop bound", op.bound.data, op.bound_operands)
    if not op.bound.data.results:
        raise VerifyException("the loop bound needs at least one result")


@op_definition
class ForOp(LoopLike):
    """Runs its body for every value of the induction variable from 0 below the bound, in any order.

    The bound is the minimum of the results of an affine map; `unroll` asks for a fully unrolled loop in the printed
    code.

        loop.for %i = 0 to min(%q * 64 + 64, %n) unroll {
        }
    """

    name = "loop.for"
    traits = traits_def(NoTerminator(), RecursiveMemoryEffect())

    def __init__(
        self,
        bound: AffineMap | int,
        body: Region,
        bound_operands: Sequence[SSAValue] = (),
        unroll: bool = False,
    ):
        map = AffineMap(0, 0, (AffineExpr.constant(bound),)) if isinstance(bound, int) else bound
        super().__init__(
            operands=[bound_operands],
            properties={"bound": AffineMapAttr(map), "unroll": UnitAttr() if unroll else None},
            regions=[body],
        )

    def verify_(self) -> None:
        _verify_header(self)

    def print(self, printer: Printer) -> None:
        printer.print_string(" ")
        _print_header(printer, self)
        print_body(printer, self, self.body)

    @classmethod
    def parse(cls, parser: Parser) -> Self:
        iv, bound, operands, unroll = _parse_header(parser)
        body, attributes = parse_body(parser, [iv])
        op = cls(bound.data, body, operands, unroll)
        op.attributes |= attributes
        return op


@op_definition
class ReduceOp(LoopLike):
    """Folds the values its body yields for each iteration with a combiner; the fold over nothing is the identity.

    The n results are values: the body reads memory and writes none but on-chip copies. The combiner takes n
    accumulators, then n values, and is total on the identities; the order of the fold is the loop's order unless the
    schedule changes it. What an iteration yields may be a fold itself, of a reduction or a contract in the body: that
    goes on with the accumulators of this one where the combiners are the same. With `apart` it starts from the identity
    in each iteration, and the combiner takes it in: a long sum then is one of shorter ones.

        %m = loop.reduce {arith.maximumf} %k = 0 to 1000 : f32 {
          %v = loop.load %x[%k] : memref<1000xf32>
          loop.yield %v : f32
        }
        %p = loop.reduce %k = 0 to 1000 : f32 {
          loop.yield %v : f32
        } combine (%a: f32, %b: f32) identity [1.0 : f32] {
          %c = arith.mulf %a, %b : f32
          loop.yield %c : f32
        }
        %s = loop.reduce {arith.addf} %ko = 0 to 112 apart : f32 {
        }
    """

    name = "loop.reduce"
    identities = prop_def(ArrayAttr)
    apart = opt_prop_def(UnitAttr)
    outputs = var_result_def()
    # Declared again because regions are counted in the order of their declaration, those of this class first.
    body = region_def("single_block")
    combiner = region_def("single_block")
    traits = traits_def(RecursiveMemoryEffect())

    def __init__(
        self,
        bound: AffineMap | int,
        body: Region,
        identities: ArrayAttr[Attribute],
        combiner: Region,
        bound_operands: Sequence[SSAValue] = (),
        unroll: bool = False,
    ):
        map = AffineMap(0, 0, (AffineExpr.constant(bound),)) if isinstance(bound, int) else bound
        arguments = combiner.block.args
        super().__init__(
            operands=[bound_operands],
            properties={
                "bound": AffineMapAttr(map),
                "identities": identities,
                "unroll": UnitAttr() if unroll else None,
            },
            result_types=[[arg.type for arg in arguments[: len(arguments) // 2]]],
            regions=[body, combiner],
        )

    @property
    def yielded(self) -> Sequence[SSAValue]:
        """The values of one iteration."""
        terminator = self.body.block.last_op
        assert isinstance(terminator, YieldOp)
        return terminator.operands

    def verify_(self) -> None:
        _verify_header(self)
        if not self.outputs:
            raise VerifyException("a reduction needs at least one result")
        types = [value.type for value in self.outputs]
        scalar_regions.verify_combiner(self.combiner, self.identities, types, YieldOp)
        terminator = self.body.block.last_op
        if not isinstance(terminator, YieldOp) or [value.type for value in terminator.operands] != types:
            wanted = ", ".join(str(type) for type in types)
            raise VerifyException(f"the body must end with loop.yield of values of the types ({wanted})")
        for inner in self.body.walk():
            effects = () if inner.regions else get_effects(inner) or ()
            if any(effect.kind is MemoryEffectKind.WRITE and not _is_on_chip(effect) for effect in effects):
                raise VerifyException(f"the body of a reduction only reads; move {inner.name} out of it")
            verify_precision(inner)

    def print(self, printer: Printer) -> None:
        with scalar_regions.print_combiner(printer, self.combiner, self.identities):
            _print_header(printer, self)
            if self.apart:
                printer.print_string(" apart")
            printer.print_string(" : ")
            printer.print_list([value.type for value in self.outputs], printer.print_attribute)
            printer.print_op_attributes(self.attributes, print_keyword=True)
            printer.print_string(" ")
            printer.print_region(self.body, print_entry_block_args=False)

    @classmethod
    def parse(cls, parser: Parser) -> Self:
        ops = scalar_regions.parse_op_names(parser)
        iv, bound, operands, unroll = _parse_header(parser)
        is_apart = parser.parse_optional_keyword("apart") is not None
        parser.parse_punctuation(":")
        types = parser.parse_comma_separated_list(parser.Delimiter.NONE, parser.parse_type)
        attributes, body = parse_attributes(parser), parser.parse_region([iv])
        combiner, identities = scalar_regions.parse_combiner(parser, ops, types, YieldOp)
        return cls.create(
            operands=operands,
            result_types=types,
            properties={
                "bound": bound,
                "identities": identities,
                **({"unroll": UnitAttr()} if unroll else {}),
                **({"apart": UnitAttr()} if is_apart else {}),
            },
            attributes=attributes,
            regions=[body, combiner],
        )


@op_definition
class IndexOp(IRDLOperation):
    """An affine function of indices.

    Splitting an axis recomputes the old coordinate with one.

        %m = loop.index [%mb * 128 + %mi]
    """

    name = "loop.index"
    indices = var_operand_def(IndexType)
    map = prop_def(AffineMapAttr)
    result = result_def(IndexType)
    traits = traits_def(Pure())
    assembly_format = "` ` custom<Subscript>($indices, $map) attr-dict"

    def __init__(self, map: AffineMap, indices: Sequence[SSAValue]):
        super().__init__(operands=[indices], properties={"map": AffineMapAttr(map)}, result_types=[IndexType()])

    def verify_(self) -> None:
        verify_map("the index", self.map.data, self.indices, results=1)


@op_definition
class WhereOp(IRDLOperation):
    """Points of the enclosing loop or launch where `lhs < rhs` fails contribute nothing.

    The body runs at every point. At an inactive point a store does not happen, a reduction takes its identity, and a
    load touches nothing outside its buffer and yields an unspecified value.

        loop.where %m < 500
    """

    name = "loop.where"
    indices = var_operand_def(IndexType)
    condition = prop_def(AffineMapAttr)
    traits = traits_def(DeclaresActivity())
    assembly_format = "custom<Condition>($indices, $condition) attr-dict"

    def __init__(self, condition: AffineMap, indices: Sequence[SSAValue]):
        super().__init__(operands=[indices], properties={"condition": AffineMapAttr(condition)})

    def verify_(self) -> None:
        verify_conditions("the condition", self.condition.data, self.indices)
        if len(self.condition.data.results) != 2:
            raise VerifyException("loop.where takes one condition; write one op for each")
        if isinstance(self.parent_op(), GuardOp):
            raise VerifyException(
                "loop.where belongs to a loop or launch, not to loop.guard; put the condition on the guard"
            )


@op_definition
class GuardOp(IRDLOperation):
    """Runs its body where all its conditions `lhs < rhs` hold.

    No collective operation may stand in one that varies over threads.

        loop.guard where (%t * 4 < 1000, %i < 3) {
        }
    """

    name = "loop.guard"
    indices = var_operand_def(IndexType)
    conditions = prop_def(AffineMapAttr)
    body = region_def("single_block")
    traits = traits_def(NoTerminator(), RecursiveMemoryEffect())

    def __init__(self, conditions: AffineMap, indices: Sequence[SSAValue], body: Region):
        super().__init__(operands=[indices], properties={"conditions": AffineMapAttr(conditions)}, regions=[body])

    def verify_(self) -> None:
        verify_conditions("the guard", self.conditions.data, self.indices)
        if self.body.block.args:
            raise VerifyException("the body of loop.guard takes no arguments")

    def print(self, printer: Printer) -> None:
        printer.print_string(" where ")
        AffineWriter(printer, self.indices).conditions(self.conditions.data.results)
        print_body(printer, self, self.body)

    @classmethod
    def parse(cls, parser: Parser) -> Self:
        parser.parse_keyword("where")
        reader = AffineReader(parser)
        sides = reader.conditions()
        body, attributes = parse_body(parser)
        op = cls(reader.map(sides), reader.operands, body)
        op.attributes |= attributes
        return op


@op_definition
class InsideOp(IRDLOperation):
    """Whether all conditions `lhs < rhs` hold at this point, as an i1.

    %c = loop.inside where (%t * 4 + %v < 1000)
    """

    name = "loop.inside"
    indices = var_operand_def(IndexType)
    conditions = prop_def(AffineMapAttr)
    result = result_def(IntegerType(1))
    traits = traits_def(Pure())
    assembly_format = "`where` custom<Conditions>($indices, $conditions) attr-dict"

    def __init__(self, conditions: AffineMap, indices: Sequence[SSAValue]):
        super().__init__(
            operands=[indices], properties={"conditions": AffineMapAttr(conditions)}, result_types=[IntegerType(1)]
        )

    def verify_(self) -> None:
        verify_conditions("the conditions", self.conditions.data, self.indices)


def _is_on_chip(effect: EffectInstance) -> bool:
    """Whether what an effect writes is on chip: a buffer with a memory space, or the state of a ring."""
    written = effect.value
    if not isinstance(written, OpResult | BlockArgument):
        return False
    return not isinstance(written.type, MemRefType) or not isinstance(memref_of(written).memory_space, NoneAttr)


Loop = Dialect(
    "loop",
    [ForOp, YieldOp, ReduceOp, ScanOp, IndexOp, WhereOp, GuardOp, InsideOp, LoadOp, StoreOp, RepeatOp, PartOp],
    [],
)
