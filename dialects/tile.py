"""The `tile` dialect: a kernel bound to the blocks, threads and registers of a GPU, with data staged on chip.

A launch owns a list of axes, each with an extent and a binding, and its body is the program of one point. Coordinates
are values: splitting an axis adds axes and one `loop.index` that recomputes the old coordinate, so users are not
touched.

    tile.launch (%row = 32 : block, %t = 256 : thread, %v = 4 : register) {
      %k = loop.index [%t * 4 + %v]
      %in = loop.load %x[%row, %k] : memref<32x1024xf32>
      %sum = tile.combine {arith.addf} %in over (%t, %v) : f32
      loop.store %sum, %out[%row] : memref<32xf32>
    }
"""

from __future__ import annotations

from collections.abc import Sequence
from collections.abc import Set as AbstractSet
from typing import Self

from xdsl.dialects.builtin import AffineMapAttr, ArrayAttr, IndexType, IntegerAttr, MemRefType, i64
from xdsl.dialects.utils import EnumAttribute
from xdsl.ir import Attribute, BlockArgument, Dialect, Operation, Region, SSAValue
from xdsl.ir.affine import AffineExpr, AffineMap
from xdsl.irdl import (
    AttrSizedOperandSegments,
    IRDLOperation,
    irdl_attr_definition,
    irdl_op_definition,
    operand_def,
    opt_prop_def,
    prop_def,
    region_def,
    result_def,
    traits_def,
    var_operand_def,
    var_result_def,
)
from xdsl.parser import AttrParser, Parser
from xdsl.printer import Printer
from xdsl.traits import EffectInstance, MemoryEffect, MemoryEffectKind, NoTerminator, RecursiveMemoryEffect
from xdsl.utils.exceptions import VerifyException
from xdsl.utils.str_enum import StrEnum

from deplodock.dialects import scalar_regions
from deplodock.dialects.affine_syntax import (
    AffineReader,
    AffineWriter,
    parse_i64,
    parse_subscripts,
    verify_divisors,
    verify_map,
)
from deplodock.dialects.loop import ReadsSource, YieldOp, constant_bound, memref_of, parse_body, parse_memref


class Binding(StrEnum):
    """What runs the coordinates of a launch axis."""

    BLOCK = "block"
    THREAD = "thread"
    REGISTER = "register"


@irdl_attr_definition
class BindingAttr(EnumAttribute[Binding]):
    """`#tile.binding<block>`: one CTA, one thread, or one register of a thread for each coordinate."""

    name = "tile.binding"

    def print_parameter(self, printer: Printer) -> None:
        with printer.in_angle_brackets():
            printer.print_string(self.data.value)

    @classmethod
    def parse_parameter(cls, parser: AttrParser) -> Binding:
        with parser.in_angle_brackets():
            return parser.parse_str_enum(Binding)


class Memory(StrEnum):
    """Where an on-chip buffer lives; a memref without a memory space is in global memory."""

    SHARED = "shared"
    REGISTER = "register"


@irdl_attr_definition
class MemoryAttr(EnumAttribute[Memory]):
    """`#tile.memory<shared>`: the memory space of a buffer owned by a CTA, or by one thread (`register`)."""

    name = "tile.memory"

    def print_parameter(self, printer: Printer) -> None:
        with printer.in_angle_brackets():
            printer.print_string(self.data.value)

    @classmethod
    def parse_parameter(cls, parser: AttrParser) -> Memory:
        with parser.in_angle_brackets():
            return parser.parse_str_enum(Memory)


def memory_of(buffer: SSAValue) -> Memory | None:
    """The memory of a buffer: shared, register, or None for global memory."""
    space = memref_of(buffer).memory_space
    return space.data if isinstance(space, MemoryAttr) else None


@irdl_op_definition
class LaunchOp(IRDLOperation):
    """Runs its body at every point of the axes' product.

    `block` axes are CTAs, `thread` axes the threads of a CTA, `register` axes coordinates that one thread owns
    together. The order of the thread axes is the order of the lanes, the last one fastest; so for blocks. `occupancy`
    is the wanted number of CTAs per SM. The limits of a GPU are checked later, so any extents are legal here.

        tile.launch (%b = %n ceildiv 256 : block, %t = 256 : thread, %v = 4 : register) occupancy 2 {
        }
    """

    name = "tile.launch"
    extent_operands = var_operand_def(IndexType)
    extents = prop_def(ArrayAttr[AffineMapAttr])
    bindings = prop_def(ArrayAttr[BindingAttr])
    occupancy = opt_prop_def(IntegerAttr.constr(i64))
    body = region_def("single_block")
    traits = traits_def(NoTerminator(), RecursiveMemoryEffect())

    def __init__(
        self,
        extents: Sequence[AffineMap | int],
        bindings: Sequence[Binding],
        body: Region,
        extent_operands: Sequence[SSAValue] = (),
        occupancy: int | None = None,
    ):
        dims = len(extent_operands)
        maps = [AffineMap(dims, 0, (AffineExpr.constant(e),)) if isinstance(e, int) else e for e in extents]
        super().__init__(
            operands=[extent_operands],
            properties={
                "extents": ArrayAttr([AffineMapAttr(map) for map in maps]),
                "bindings": ArrayAttr([BindingAttr(binding) for binding in bindings]),
                "occupancy": None if occupancy is None else IntegerAttr(occupancy, i64),
            },
            regions=[body],
        )

    @property
    def axes(self) -> Sequence[BlockArgument]:
        """The coordinates, one block argument an axis."""
        return self.body.block.args

    def extent(self, axis: SSAValue) -> int | None:
        """The extent of an axis where it is constant, else None."""
        assert isinstance(axis, BlockArgument)
        return constant_bound(self.extents.data[axis.index].data)

    def binding(self, axis: SSAValue) -> Binding:
        """What runs the coordinates of an axis."""
        assert isinstance(axis, BlockArgument)
        return self.bindings.data[axis.index].data

    def bound_to(self, binding: Binding) -> list[BlockArgument]:
        """The axes of one binding, in order."""
        return [axis for axis in self.axes if self.binding(axis) is binding]

    def verify_(self) -> None:
        axes = self.body.block.args
        if any(axis.type != IndexType() for axis in axes):
            raise VerifyException("launch axes are of type index")
        if not len(axes) == len(self.extents) == len(self.bindings):
            raise VerifyException(
                f"a launch needs one extent and one binding for each of its {len(axes)} axes,"
                f" got {len(self.extents)} and {len(self.bindings)}"
            )
        for extent in self.extents:
            verify_map("the extent of an axis", extent.data, self.extent_operands, results=1)
        if self.occupancy is not None and self.occupancy.value.data < 1:
            raise VerifyException("occupancy, the wanted CTAs per SM, must be at least 1")

    def print(self, printer: Printer) -> None:
        def print_axis(axis: BlockArgument) -> None:
            printer.print_ssa_value(axis)
            printer.print_string(" = ")
            AffineWriter(printer, self.extent_operands).bound(self.extents.data[axis.index].data.results)
            printer.print_string(f" : {self.binding(axis).value}")

        printer.print_string(" ")
        with printer.in_parens():
            printer.print_list(self.axes, print_axis)
        if self.occupancy is not None:
            printer.print_string(f" occupancy {self.occupancy.value.data}")
        printer.print_op_attributes(self.attributes, print_keyword=True)
        printer.print_string(" ")
        printer.print_region(self.body, print_entry_block_args=False, print_empty_block=False)

    @classmethod
    def parse(cls, parser: Parser) -> Self:
        reader = AffineReader(parser)

        def parse_axis() -> tuple[Parser.Argument, AffineExpr, Binding]:
            axis = parser.parse_argument(expect_type=False).resolve(IndexType())
            parser.parse_punctuation("=")
            extent = reader.expression()
            parser.parse_punctuation(":")
            return axis, extent, parser.parse_str_enum(Binding)

        axes = parser.parse_comma_separated_list(parser.Delimiter.PAREN, parse_axis)
        occupancy = parse_i64(parser) if parser.parse_optional_keyword("occupancy") else None
        attributes = parser.parse_optional_attr_dict_with_keyword()
        body = parse_body(parser, [axis for axis, _, _ in axes])
        op = cls([reader.map([e]) for _, e, _ in axes], [b for _, _, b in axes], body, reader.operands, occupancy)
        if attributes is not None:
            op.attributes |= attributes.data
        return op


class _ReadsActivity(MemoryEffect):
    """Depends on which points of the launch are active here, besides the operands.

    It is modelled as a read of the first axis: equal combines merge in one block, where the same points are active, but
    not with one in a loop around it.
    """

    @classmethod
    def get_effects(cls, op: Operation) -> AbstractSet[EffectInstance]:
        assert isinstance(op, CombineOp)
        return {EffectInstance(MemoryEffectKind.READ, axis) for axis in op.axes[:1]}


@irdl_op_definition
class CombineOp(IRDLOperation):
    """Folds a value over the active points of launch axes; the result is the same at all of them.

    Registers are folded by their thread, lanes by shuffles, warps through shared memory. Every thread of the CTA takes
    part. The n-valued form is as in loop.reduce.

        %sum = tile.combine {arith.addf} %p over (%t, %v) : f32
    """

    name = "tile.combine"
    inputs = var_operand_def()
    axes = var_operand_def(IndexType)
    identities = prop_def(ArrayAttr)
    outputs = var_result_def()
    combiner = region_def("single_block")
    irdl_options = (AttrSizedOperandSegments(as_property=True),)
    traits = traits_def(_ReadsActivity())

    def __init__(
        self, inputs: Sequence[SSAValue], axes: Sequence[SSAValue], identities: ArrayAttr[Attribute], combiner: Region
    ):
        super().__init__(
            operands=[inputs, axes],
            properties={"identities": identities},
            result_types=[[value.type for value in inputs]],
            regions=[combiner],
        )

    def verify_(self) -> None:
        types = [value.type for value in self.inputs]
        if not types or [value.type for value in self.outputs] != types:
            raise VerifyException("combine gives one result for each value, of the value's type")
        scalar_regions.verify_combiner(self.combiner, self.identities, types, YieldOp)
        if not self.axes or len(set(self.axes)) != len(self.axes):
            raise VerifyException("combine folds over one or more distinct launch axes")
        for axis in self.axes:
            if not isinstance(axis, BlockArgument) or not isinstance(axis.block.parent_op(), LaunchOp):
                raise VerifyException("combine folds over axes of the enclosing tile.launch only")

    def print(self, printer: Printer) -> None:
        names = scalar_regions.short_combiner(self.combiner, self.identities)
        printer.print_string(" ")
        if names is not None:
            scalar_regions.print_op_names(printer, names)
            printer.print_string(" ")
        printer.print_list(self.inputs, printer.print_operand)
        printer.print_string(" over ")
        with printer.in_parens():
            printer.print_list(self.axes, printer.print_operand)
        printer.print_op_attributes(self.attributes)
        printer.print_string(" : ")
        printer.print_list([value.type for value in self.inputs], printer.print_attribute)
        if names is None:
            scalar_regions.print_combiner(printer, self.combiner, self.identities)

    @classmethod
    def parse(cls, parser: Parser) -> Self:
        ops = scalar_regions.parse_op_names(parser)
        pos = parser.pos
        values = parser.parse_comma_separated_list(parser.Delimiter.NONE, parser.parse_unresolved_operand)
        parser.parse_keyword("over")
        axes = [
            parser.resolve_operand(axis, IndexType())
            for axis in parser.parse_comma_separated_list(parser.Delimiter.PAREN, parser.parse_unresolved_operand)
        ]
        attributes = parser.parse_optional_attr_dict()
        parser.parse_punctuation(":")
        types = parser.parse_comma_separated_list(parser.Delimiter.NONE, parser.parse_type)
        inputs = parser.resolve_operands(values, types, pos)
        combiner, identities = scalar_regions.parse_combiner(parser, ops, types, YieldOp)
        op = cls(inputs, axes, identities, combiner)
        op.attributes |= attributes
        return op


@irdl_op_definition
class StageOp(IRDLOperation):
    """Copies a slab of a read-only buffer on chip: slab[d0, d1, ...] = source[subscripts].

    The subscripts are affine in the slab's own coordinates, written bare (`d0`, `d1`), and in SSA indices, so one form
    says origin, rank reduction, transposition and stride. A source element outside the buffer reads as zero. `shared`
    slabs are filled by the whole CTA, so their origin may vary along block axes and CTA-uniform loops only; `register`
    slabs belong to one thread. The slab is immutable.

        %xs = tile.stage %x[%mb * 128 + d1, %ko * 32 + d0]
          : memref<500x3584xf32> to memref<32x128xf32, #tile.memory<shared>>
    """

    name = "tile.stage"
    source = operand_def(MemRefType)
    indices = var_operand_def(IndexType)
    map = prop_def(AffineMapAttr)
    slab = result_def(MemRefType)
    traits = traits_def(ReadsSource())

    def __init__(self, source: SSAValue, map: AffineMap, indices: Sequence[SSAValue], slab: MemRefType[Attribute]):
        super().__init__(operands=[source, indices], properties={"map": AffineMapAttr(map)}, result_types=[slab])

    def verify_(self) -> None:
        source, slab, map = memref_of(self.source), memref_of(self.slab), self.map.data
        if memory_of(self.source) is not None:
            raise VerifyException(f"stage copies from global memory, got {source}")
        if memory_of(self.slab) is None:
            raise VerifyException(f"a slab lives in #tile.memory<shared> or #tile.memory<register>, got {slab}")
        if any(extent < 0 for extent in slab.get_shape()):
            raise VerifyException(f"a slab needs a static shape, got {slab}")
        if source.element_type != slab.element_type:
            raise VerifyException(f"stage keeps the element type, got {source} and {slab}")
        verify_divisors("the subscripts", map)
        if (map.num_dims, map.num_symbols) != (len(slab.get_shape()), len(self.indices)):
            raise VerifyException(
                f"the map must be over {len(slab.get_shape())} slab coordinates and {len(self.indices)} operands,"
                f" got {map}"
            )
        if len(map.results) != len(source.get_shape()):
            raise VerifyException(f"{source} needs {len(source.get_shape())} subscripts, got {len(map.results)}")

    def print(self, printer: Printer) -> None:
        printer.print_string(" ")
        printer.print_operand(self.source)
        AffineWriter(printer, self.indices, as_symbols=True).subscripts(self.map.data.results)
        printer.print_op_attributes(self.attributes)
        printer.print_string(" : ")
        printer.print_attribute(self.source.type)
        printer.print_string(" to ")
        printer.print_attribute(self.slab.type)

    @classmethod
    def parse(cls, parser: Parser) -> Self:
        buffer = parser.parse_unresolved_operand()
        reader = AffineReader(parser, as_symbols=True)
        pos = parser.pos
        subscripts = parse_subscripts(parser, reader)
        attributes = parser.parse_optional_attr_dict()
        parser.parse_punctuation(":")
        source = parser.resolve_operand(buffer, parse_memref(parser))
        parser.parse_keyword("to")
        slab = parse_memref(parser)
        rank = len(slab.get_shape())
        used = {position for expr in subscripts for position in expr.used_dims()}
        if used and max(used) >= rank:
            parser.raise_error(f"the slab has {rank} dimensions, so d{max(used)} is not one of its coordinates", pos)
        op = cls(source, reader.map(subscripts, rank), reader.operands, slab)
        op.attributes |= attributes
        return op


Tile = Dialect("tile", [LaunchOp, CombineOp, StageOp], [BindingAttr, MemoryAttr])
