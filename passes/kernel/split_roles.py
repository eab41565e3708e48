"""Splits an expanded launch into roles: a warpgroup that makes the copies of rings with a producer, and all else.

    tile.launch (.. : block, %thread = 256 : thread) {    tile.launch (.. : block, %thread = 384 : thread) {
      %ring = tile.ring 4 mbarrier producer                 %ring = tile.ring 4 mbarrier producer
      ..                                                    kernel.roles {
      loop.for %k = 0 to 56 {                                 kernel.role producer(%copier = 128) registers 24 {
        tile.copy %x[..] to %xs at %ring[%k] tma : ..           loop.guard where (%copier < 1) {
        tile.wait %ring[%k]                         ->            loop.for %k = 0 to 56 { tile.copy .. }
        ..                                                    ..
        tile.release %ring[%k]                                kernel.role consumers(%reader = 256) registers 240 {
      }                                                         .. loop.for %k = 0 to 56 { tile.wait .. }
                                                                ..

The producer's part is the slice of the launch that reaches those copies: loops, guards, and the subscripts that the
copies use. One thread of it runs that; the others have nothing to do.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from xdsl.dialects.builtin import IndexType
from xdsl.ir import Block, Operation, Region, SSAValue
from xdsl.ir.affine import AffineExpr, AffineMap
from xdsl.rewriter import Rewriter
from xdsl.traits import ConstantLike

from deplodock.analysis.machine.resources import role_registers
from deplodock.analysis.machine.targets import target_at
from deplodock.analysis.operations import label
from deplodock.dialects import kernel, loop, tile
from deplodock.dialects.kernel.roles import WARPGROUP
from deplodock.dialects.tile import Binding
from deplodock.passes.kernel.builder import constant_extent, positive_extent
from deplodock.passes.remarks import failure

PRODUCER, CONSUMERS = "producer", "consumers"
"""The names of the roles."""


def split_roles(launch: tile.LaunchOp) -> tile.LaunchOp:
    """Split an expanded launch that has rings with a producer; returns what takes its place, or itself without any.

    Raises PassFailedException where its threads cannot be split so, or the copies use what the producer cannot compute.
    """
    rings = [op for op in launch.body.walk() if isinstance(op, tile.RingOp) and op.has_producer]
    if not rings:
        return launch
    (thread,) = launch.bound_to(Binding.THREAD)
    readers = positive_extent(thread)
    if readers % WARPGROUP:
        raise failure(rings[0], f"a producer is a warpgroup beside others, and {readers} threads are no whole ones")
    copies = [op for op in launch.body.walk() if isinstance(op, tile.CopyOp) and op.ring.owner in rings]
    shared = [
        *rings,
        *dict.fromkeys(op.destination.owner for op in copies if isinstance(op.destination.owner, Operation)),
        *(op for op in launch.body.block.ops if isinstance(op, kernel.AwaitLaunchesOp)),
    ]
    slice = _Slice(copies, {*launch.ctas, *(result for op in shared for result in op.results)})
    copying = slice.of(launch.body.block, {}, ())
    for op in copies:
        _erase(op)
    for op in shared:
        op.detach()
    return _split(launch, shared, copying, readers)


def _split(launch: tile.LaunchOp, shared: Sequence[Operation], copying: Block, readers: int) -> tile.LaunchOp:
    """The launch of a producer that runs `copying` and readers that run the launch's body; `shared` stands in front."""
    budget = role_registers(target_at(launch), readers, WARPGROUP, launch.ctas_per_sm)
    registers = (None, None) if budget is None else budget
    body = Block(arg_types=[axis.type for axis in launch.axes])
    for old, new in zip(launch.axes, body.args, strict=True):
        new.name_hint = old.name_hint
    copier, reader = Block(arg_types=[IndexType()]), Block(arg_types=[IndexType()])
    copier.args[0].name_hint, reader.args[0].name_hint = "copier", "reader"
    first = AffineMap(1, 0, (AffineExpr.dimension(0), AffineExpr.constant(1)))
    copier.add_op(loop.GuardOp(first, [copier.args[0]], Region(copying)))
    for op in list(launch.body.block.ops):
        op.detach()
        reader.add_op(op)
    roles = [
        kernel.RoleOp(PRODUCER, WARPGROUP, Region(copier), registers[0]),
        kernel.RoleOp(CONSUMERS, readers, Region(reader), registers[1]),
    ]
    body.add_ops([*shared, kernel.RolesOp(Region(Block(roles)))])
    for old, new in zip(launch.axes, body.args, strict=True):
        old.replace_all_uses_with(reader.args[0] if launch.binding(old) is Binding.THREAD else new)
    extents = [constant_extent(axis) + WARPGROUP * (launch.binding(axis) is Binding.THREAD) for axis in launch.axes]
    occupancy = None if launch.occupancy is None else launch.occupancy.value.data
    split = tile.LaunchOp(extents, [launch.binding(axis) for axis in launch.axes], Region(body), occupancy=occupancy)
    split.location, split.attributes = launch.location, dict(launch.attributes)
    Rewriter.replace_op(launch, split)
    return split


class _Slice:
    """The part of a launch that reaches some copies, cloned."""

    def __init__(self, copies: Sequence[tile.CopyOp], known: set[SSAValue]) -> None:
        self._copies = copies
        self._known = known
        """What there is without the slice: the axes of CTAs, and what stands in front of it."""

    def of(self, block: Block, values: Mapping[SSAValue, SSAValue], arguments: Sequence[SSAValue]) -> Block:
        """The slice of a block, where `values` stand for those of the launch, with these of its arguments."""
        mapping, into = dict(values), Block(arg_types=[old.type for old in arguments])
        for old, new in zip(arguments, into.args, strict=True):
            mapping[old], new.name_hint = new, old.name_hint
        for op in block.ops:
            if op in self._copies:
                self._operands(op, mapping, into)
                into.add_op(op.clone(mapping))
            elif op.regions and any(op.is_ancestor(copy) for copy in self._copies):
                self._operands(op, mapping, into)
                shell = op.clone_without_regions(mapping)
                inner = op.regions[0].block
                shell.regions[0].add_block(self.of(inner, mapping, inner.args))
                into.add_op(shell)
        return into

    def _operands(self, op: Operation, mapping: dict[SSAValue, SSAValue], into: Block) -> None:
        """Compute what an operation uses."""
        for operand in op.operands:
            if operand in mapping or operand in self._known or not _is_inside(operand):
                continue
            owner = operand.owner
            if not isinstance(owner, Operation) or not (
                isinstance(owner, loop.IndexOp) or owner.has_trait(ConstantLike)
            ):
                raise failure(op, f"a producer cannot compute {label(operand)}, which it takes")
            self._operands(owner, mapping, into)
            into.add_op(owner.clone(mapping))


def _is_inside(value: SSAValue) -> bool:
    """Whether a value is of a launch."""
    around = value.owner if isinstance(value.owner, Operation) else value.owner.parent_op()
    while around is not None and not isinstance(around, tile.LaunchOp):
        around = around.parent_op()
    return around is not None


def _erase(op: Operation) -> None:
    """Erase an operation, and the loops and guards around it that it leaves with nothing but subscripts."""
    around = op.parent_op()
    Rewriter.erase_op(op)
    if around is None or isinstance(around, tile.LaunchOp):
        return
    if all(isinstance(left, loop.IndexOp) for left in around.regions[0].block.ops):
        _erase(around)
