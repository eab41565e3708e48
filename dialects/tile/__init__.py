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

from collections.abc import Mapping, Sequence
from functools import partial
from typing import ClassVar, Self

from xdsl.dialects.builtin import AffineMapAttr, ArrayAttr, IndexType, IntegerAttr, MemRefType, UnitAttr, i64
from xdsl.ir import Attribute, BlockArgument, Dialect, Region, SSAValue
from xdsl.ir.affine import AffineExpr, AffineMap
from xdsl.irdl import (
    IRDLOperation,
    operand_def,
    opt_prop_def,
    prop_def,
    region_def,
    result_def,
    traits_def,
    var_operand_def,
)
from xdsl.parser import Parser, UnresolvedOperand
from xdsl.printer import Printer
from xdsl.traits import NoTerminator, RecursiveMemoryEffect
from xdsl.utils.exceptions import VerifyException

from deplodock.dialects.affine_syntax import (
    AffineReader,
    AffineWriter,
    parse_i64,
    verify_divisors,
    verify_map,
)
from deplodock.dialects.buffers import Memory, MemoryAttr, SwizzleAttr, memory_of
from deplodock.dialects.formats import op_definition, parse_body, print_body
from deplodock.dialects.index_values import IntroducesIndices
from deplodock.dialects.loop import constant_bound, memref_of
from deplodock.dialects.loop.access import ReadsSource
from deplodock.dialects.loop.folds import AxisFold, Maker, ReadsActivity
from deplodock.dialects.tile.contract import ContractOp
from deplodock.dialects.tile.ring import (
    AllocOp,
    CopyOp,
    KeepOp,
    ReleaseOp,
    RingOp,
    RingType,
    StoreOp,
    WaitOp,
    depth_of,
    verify_engine,
)
from deplodock.dialects.tile.slab import (
    NOWHERE,
    Binding,
    BindingAttr,
    Places,
    SlabConditions,
    SlabSubscripts,
    SlabType,
    verify_slab,
)

__all__ = [
    "AllocOp",
    "Binding",
    "BindingAttr",
    "CombineOp",
    "ContractOp",
    "CopyOp",
    "KeepOp",
    "LaunchOp",
    "Memory",
    "MemoryAttr",
    "Places",
    "ReleaseOp",
    "RingOp",
    "RingType",
    "StageOp",
    "StoreOp",
    "SwizzleAttr",
    "Tile",
    "WaitOp",
    "depth_of",
    "memory_of",
    "memref_of",
]


EXPANDED = "expanded"
"""The attribute of a launch whose body one thread runs: its axes are those of CTAs, and one of threads."""


@op_definition
class LaunchOp(IRDLOperation, IntroducesIndices):
    """Runs its body at every point of the axes' product.

    `block` axes are CTAs, `cluster` axes CTAs that run together and see each other's shared memory, `thread` axes the
    threads of a CTA, `register` axes coordinates that one thread owns together. The order of the thread axes is the
    order of the lanes, the last one fastest; so for blocks. A `lane` axis adds no threads: the threads of another axis,
    its carrier, hold the values at the same coordinates of it, so a value varies along one of the two at most. The
    values along an `engine` axis no thread holds: the engine of a contract reads them from slabs. `occupancy` is the
    wanted number of CTAs per SM. The limits of a GPU are checked later, so any extents are legal here.

    With `stream` so many CTAs run all points of the block axes: each runs an equal stretch of the steps of the
    launch's reduction, which follow each other from tile to tile. With `stream .. tiles` they take whole tiles in turn.
    It says who runs what, and nothing of the results. One that is `early` starts while the launches before it still
    run, and waits for them there.

        tile.launch (%b = %n ceildiv 256 : block, %t = 64 : thread, %u = 4 : thread, %v = 4 : register,
                     %k = 4 : lane %u) occupancy 2 stream 264 early {
        }
    """

    name = "tile.launch"
    extent_operands = var_operand_def(IndexType)
    extents = prop_def(ArrayAttr[AffineMapAttr])
    bindings = prop_def(ArrayAttr[BindingAttr])
    carriers = opt_prop_def(ArrayAttr[IntegerAttr])
    occupancy = opt_prop_def(IntegerAttr.constr(i64))
    stream = opt_prop_def(IntegerAttr.constr(i64))
    early = opt_prop_def(UnitAttr)
    takes_tiles = opt_prop_def(UnitAttr, prop_name="tiles")
    body = region_def("single_block")
    traits = traits_def(NoTerminator(), RecursiveMemoryEffect())

    def __init__(
        self,
        extents: Sequence[AffineMap | int],
        bindings: Sequence[Binding],
        body: Region,
        extent_operands: Sequence[SSAValue] = (),
        occupancy: int | None = None,
        carriers: Sequence[int] = (),
    ):
        """`carriers` are the places of the axes that carry the lane axes, one for each of these, in order."""
        dims = len(extent_operands)
        maps = [AffineMap(dims, 0, (AffineExpr.constant(e),)) if isinstance(e, int) else e for e in extents]
        super().__init__(
            operands=[extent_operands],
            properties={
                "extents": ArrayAttr([AffineMapAttr(map) for map in maps]),
                "bindings": ArrayAttr([BindingAttr(binding) for binding in bindings]),
                "carriers": _places(carriers),
                "occupancy": None if occupancy is None else IntegerAttr(occupancy, i64),
            },
            regions=[body],
        )

    @property
    def axes(self) -> Sequence[BlockArgument]:
        """The coordinates, one block argument an axis."""
        return self.body.block.args

    def extent(self, index: SSAValue) -> int | None:
        """The extent of an axis where it is constant, else None."""
        assert isinstance(index, BlockArgument)
        return constant_bound(self.extents.data[index.index].data)

    def binding(self, axis: SSAValue) -> Binding:
        """What runs the coordinates of an axis."""
        assert isinstance(axis, BlockArgument)
        return self.bindings.data[axis.index].data

    def bound_to(self, binding: Binding) -> list[BlockArgument]:
        """The axes of one binding, in order."""
        return [axis for axis in self.axes if self.binding(axis) is binding]

    def carrier(self, axis: SSAValue) -> BlockArgument | None:
        """The thread axis whose threads hold the values along a lane axis; None for an axis of another binding."""
        return self.carried_axes().get(axis)

    def carried_axes(self) -> dict[SSAValue, BlockArgument]:
        """The lane axes, in order, each with its carrier."""
        places = [] if self.carriers is None else [place.value.data for place in self.carriers]
        return {axis: self.axes[place] for axis, place in zip(self.bound_to(Binding.LANE), places, strict=True)}

    def carry(self, carriers: Mapping[SSAValue, SSAValue]) -> None:
        """Set the carriers of the lane axes, all of them."""
        place: dict[SSAValue, int] = {axis: i for i, axis in enumerate(self.axes)}
        self.carriers = _places([place[carriers[axis]] for axis in self.bound_to(Binding.LANE)])

    @property
    def ctas_per_sm(self) -> int:
        """The wanted CTAs per SM, 1 by default."""
        return 1 if self.occupancy is None else self.occupancy.value.data

    @property
    def ctas(self) -> list[BlockArgument]:
        """The axes whose coordinates are CTAs: block axes, then cluster axes."""
        return [*self.bound_to(Binding.BLOCK), *self.bound_to(Binding.CLUSTER)]

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
        self._verify_carriers()
        if self.occupancy is not None and self.occupancy.value.data < 1:
            raise VerifyException("occupancy, the wanted CTAs per SM, must be at least 1")
        if self.early is not None and EXPANDED in self.attributes:
            raise VerifyException("an expanded launch says with kernel.await_launches that it is early")
        if self.stream is not None and (self.stream.value.data < 1 or EXPANDED in self.attributes):
            raise VerifyException(
                "stream, the CTAs that share the steps of all tiles, is at least 1, and no more once a launch is "
                "expanded"
            )
        if self.takes_tiles and self.stream is None:
            raise VerifyException("tiles says how the CTAs of a stream share the steps of all tiles, and there is none")
        inside = [binding.data for binding in self.bindings if binding.data not in (Binding.BLOCK, Binding.CLUSTER)]
        if EXPANDED in self.attributes and inside != [Binding.THREAD]:
            raise VerifyException("an expanded launch has one thread axis, and axes of CTAs besides")

    def _verify_carriers(self) -> None:
        lanes, places = self.bound_to(Binding.LANE), self.carriers or ()
        if len(lanes) != len(places):
            raise VerifyException(f"{len(lanes)} lane axes need a carrier each, got {len(places)}")
        for lane, place in zip(lanes, places, strict=True):
            if not 0 <= place.value.data < len(self.axes):
                raise VerifyException(f"the launch has no axis {place.value.data} to carry a lane axis")
            carrier = self.axes[place.value.data]
            if self.binding(carrier) not in (Binding.THREAD, Binding.CLUSTER):
                raise VerifyException(
                    f"a thread or cluster axis carries a lane axis, not a {self.binding(carrier)} axis"
                )
            extents = self.extents.data[lane.index], self.extents.data[carrier.index]
            if extents[0] != extents[1]:
                raise VerifyException("a lane axis and its carrier must have the same extent")

    def print(self, printer: Printer) -> None:
        carriers = self.carried_axes()

        def print_axis(axis: BlockArgument) -> None:
            printer.print_ssa_value(axis)
            printer.print_string(" = ")
            AffineWriter(printer, self.extent_operands).bound(self.extents.data[axis.index].data.results)
            printer.print_string(f" : {self.binding(axis).value}")
            if axis in carriers:
                printer.print_string(" ")
                printer.print_ssa_value(carriers[axis])

        printer.print_string(" ")
        with printer.in_parens():
            printer.print_list(self.axes, print_axis)
        if self.occupancy is not None:
            printer.print_string(f" occupancy {self.occupancy.value.data}")
        if self.stream is not None:
            printer.print_string(f" stream {self.stream.value.data}" + " tiles" * bool(self.takes_tiles))
        if self.early is not None:
            printer.print_string(" early")
        print_body(printer, self, self.body)

    @classmethod
    def parse(cls, parser: Parser) -> Self:
        reader = AffineReader(parser)
        carriers: list[UnresolvedOperand] = []

        def parse_axis() -> tuple[Parser.Argument, AffineExpr, Binding]:
            axis = parser.parse_argument(expect_type=False).resolve(IndexType())
            parser.parse_punctuation("=")
            extent = reader.expression()
            parser.parse_punctuation(":")
            binding = parser.parse_str_enum(Binding)
            if binding is Binding.LANE:
                carriers.append(parser.parse_unresolved_operand())
            return axis, extent, binding

        axes = parser.parse_comma_separated_list(parser.Delimiter.PAREN, parse_axis)
        names = [axis.name.text for axis, _, _ in axes]
        for carrier in carriers:
            if carrier.span.text not in names:
                parser.raise_error("the carrier of a lane axis must be an axis of the launch", at_position=carrier.span)
        occupancy = parse_i64(parser) if parser.parse_optional_keyword("occupancy") else None
        stream = parse_i64(parser) if parser.parse_optional_keyword("stream") else None
        takes_tiles = stream is not None and parser.parse_optional_keyword("tiles") is not None
        early = UnitAttr() if parser.parse_optional_keyword("early") else None
        body, attributes = parse_body(parser, [axis for axis, _, _ in axes])
        places = [names.index(carrier.span.text) for carrier in carriers]
        extents, bindings = [reader.map([e]) for _, e, _ in axes], [b for _, _, b in axes]
        op = cls(extents, bindings, body, reader.operands, occupancy, places)
        op.stream, op.early = None if stream is None else IntegerAttr(stream, i64), early
        op.takes_tiles = UnitAttr() if takes_tiles else None
        op.attributes |= attributes
        return op


def _places(carriers: Sequence[int]) -> ArrayAttr[IntegerAttr] | None:
    return ArrayAttr([IntegerAttr(place, i64) for place in carriers]) if carriers else None


@op_definition
class CombineOp(AxisFold):
    """Folds a value over the active points of launch axes; the result is the same at all of them.

    The fold may be taken where axes named after `at` have the values of forms over axes of the result: so threads that
    fold the registers of all of them keep a share each, along lane axes.

    Registers are folded by their thread, lanes by shuffles, warps through shared memory, the CTAs of a cluster through
    theirs, other CTAs through global memory. Every thread of the CTA takes part. The n-valued form is as in
    loop.reduce.

        %sum = tile.combine {arith.addf} %p over (%t, %v) : f32
        %share = tile.combine {arith.addf} %p over (%k_w) at (%n_j = %n_l) : f32       // %n_l = 4 : lane %k_w
    """

    name = "tile.combine"
    # Named again, as operands of a class stand before those of its base.
    inputs = var_operand_def()
    axes = var_operand_def(IndexType)
    moved = var_operand_def(IndexType)
    place_axes = var_operand_def(IndexType)
    places = opt_prop_def(AffineMapAttr)
    traits = traits_def(ReadsActivity())

    WORD: ClassVar[str] = "over"

    def __init__(
        self,
        inputs: Sequence[SSAValue],
        axes: Sequence[SSAValue],
        identities: ArrayAttr[Attribute],
        combiner: Region,
        at: Places = NOWHERE,
    ):
        super().__init__(inputs, axes, identities, combiner, at.moved, at.axes)
        self.places = AffineMapAttr(at.map) if at.moved else None

    @property
    def at(self) -> Places:
        """Where the fold is taken."""
        return NOWHERE if self.places is None else Places(self.moved, self.places.data, self.place_axes)

    def verify_axes(self) -> None:
        for axis in (*self.axes, *self.moved, *self.place_axes):
            if not isinstance(axis, BlockArgument) or not isinstance(axis.block.parent_op(), LaunchOp):
                raise VerifyException("combine folds over axes of the enclosing tile.launch only")
        self.at.verify(self.axes, "combine")

    def print_options(self, printer: Printer) -> None:
        self.at.print(printer)

    @classmethod
    def parse_options(cls, parser: Parser) -> Maker[Self]:
        return partial(cls, at=Places.parse(parser))


@op_definition
class StageOp(IRDLOperation):
    """Copies a slab of a read-only buffer on chip: slab[d0, d1, ...] = source[subscripts].

    The subscripts are affine in the slab's own coordinates, written bare (`d0`, `d1`), and in SSA indices, so one form
    says origin, rank reduction, transposition and stride. A source element outside the buffer reads as zero; one that
    nobody wrote has no value in the slab either, so only inactive points may load it. `shared` slabs are filled by the
    whole CTA, so their origin may vary along block axes and CTA-uniform loops only; `register` slabs belong to one
    thread. The slab is immutable. `buffers` is the depth of the ring that pipeline-k-outer makes of a stage in a loop;
    `async` fills a shared slab beside the program, by copies of all threads, and `tma` by copies of boxes that one
    thread issues to the tensor memory accelerator; with `tf32` that rounds each f32 as `math_ext.round_tf32` does. A
    register slab may have conditions on its coordinates: an element where one fails is not read, and zero.

        %xs = tile.stage %x[%mb * 128 + d1, %ko * 32 + d0]
          : memref<500x3584xf32> to memref<32x128xf32, #tile.memory<shared>>
        %ys = tile.stage %y[%row, d0 * 1024 + %t * 4 + d1] where (d0 * 1024 + %t * 4 + d1 < %row + 1)
          : memref<2048x2048xf32> to memref<2x4xf32, #tile.memory<register>>
    """

    name = "tile.stage"
    source = operand_def(MemRefType)
    indices = var_operand_def(IndexType)
    map = prop_def(AffineMapAttr)
    buffers = opt_prop_def(IntegerAttr.constr(i64))
    is_async = opt_prop_def(UnitAttr, prop_name="async")
    is_tma = opt_prop_def(UnitAttr, prop_name="tma")
    is_tf32 = opt_prop_def(UnitAttr, prop_name="tf32")
    where = opt_prop_def(AffineMapAttr)
    slab = result_def(MemRefType)
    traits = traits_def(ReadsSource())
    custom_directives = (SlabSubscripts, SlabConditions, SlabType)
    assembly_format = (
        "$source custom<SlabSubscripts>($indices, $map) (`buffers` $buffers^)? (`async` $async^)? (`tma` $tma^)?"
        " (`tf32` $tf32^)?"
        " (`where` custom<SlabConditions>(ref($indices), $where)^)? attr-dict `:`"
        " custom<Memref>(type($source)) `to` custom<SlabType>(type($slab), ref($map), ref($where))"
    )

    def __init__(
        self,
        source: SSAValue,
        map: AffineMap,
        indices: Sequence[SSAValue],
        slab: MemRefType[Attribute],
        where: AffineMap | None = None,
    ):
        super().__init__(
            operands=[source, indices],
            properties={"map": AffineMapAttr(map), "where": None if where is None else AffineMapAttr(where)},
            result_types=[slab],
        )

    @property
    def depth(self) -> int:
        """The number of slabs that are to be in flight."""
        return 1 if self.buffers is None else self.buffers.value.data

    def verify_(self) -> None:
        shape = memref_of(self.slab).get_shape()
        verify_slab("stage", self.source, self.slab, shape, self.map.data, self.indices)
        if self.depth < 1:
            raise VerifyException(f"buffers, the number of slabs, must be at least 1, got {self.depth}")
        is_beside = bool(self.is_async) or bool(self.is_tma)
        if memory_of(self.slab) is Memory.REGISTER and (is_beside or self.buffers is not None):
            raise VerifyException("buffers, async and tma are for shared slabs; registers are filled by their thread")
        if self.where is not None:
            self._verify_where(self.where.data)
        verify_engine(self)

    def _verify_where(self, where: AffineMap) -> None:
        if memory_of(self.slab) is not Memory.REGISTER:
            raise VerifyException("conditions are for register slabs")
        wanted = self.map.data.num_dims, self.map.data.num_symbols
        if (where.num_dims, where.num_symbols) != wanted:
            raise VerifyException(f"the conditions must be over {wanted[0]} slab coordinates and {wanted[1]} operands")
        if not where.results or len(where.results) % 2:
            raise VerifyException(f"the conditions must be pairs of sides `lhs < rhs`, got {len(where.results)} sides")
        verify_divisors("the conditions", where)


Tile = Dialect(
    "tile",
    [LaunchOp, CombineOp, ContractOp, StageOp, KeepOp, StoreOp, RingOp, AllocOp, CopyOp, WaitOp, ReleaseOp],
    [BindingAttr, MemoryAttr, RingType, SwizzleAttr],
)
