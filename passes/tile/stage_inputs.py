"""stage-inputs: copy slabs of inputs that are read more than once on chip, and let their readers read the copy.

    tile.launch (%m = 16 : thread, %n = 16 : thread) {       tile.launch (%m = 16 : thread, %n = 16 : thread) {
                                                               %xs = tile.stage %x[d0, d1] : memref<16x64xf32> to
      %acc = loop.reduce {arith.addf} %k = 0 to 64 : f32 {                    memref<16x64xf32, #tile.memory<shared>>
        %a = loop.load %x[%m, %k] : memref<16x64xf32>    ->    %acc = loop.reduce {arith.addf} %k = 0 to 64 : f32 {
        ..                                                       %a = loop.load %xs[%m, %k] : memref<16x64xf32, ..>

A slab is filled just outside the innermost loop around its readers, or, where that loop is a chunk of a reduction, just
outside the chunk. Registers hold it when each thread reads only its own elements, several times or after threads have
combined what they reduced, and they are few enough to be indexed by constants (the loops over them are unrolled). What
is read after such a `tile.combine` is filled before the reduction, so that memory does not wait for it.
Otherwise shared memory holds it, when several warps or several loops read its elements and it fits beside the other
slabs; not what is read beside the loops of a contraction, as a bias. Buffers that the kernel writes are left alone.
Elements of a register slab at which no reader counts are not copied: `tile.stage %x[%row, d0] where (d0 < %row + 1)`
for readers under `loop.where %i < %row + 1`.

A contraction whose operand walks k in memory may have its slab transposed, `%xs = tile.stage %x[%m_b * 128 + d1, %ko *
32 + d0]`: then threads read vectors along m or n, which the register banks of an FFMA take without conflicts.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal, TypeAlias

from xdsl.dialects import func
from xdsl.dialects.builtin import MemRefType
from xdsl.ir import Attribute, Block, Operation, SSAValue
from xdsl.ir.affine import AffineExpr, AffineMap
from xdsl.pattern_rewriter import PatternRewriter
from xdsl.rewriter import InsertPoint

from deplodock.analysis.access.alignment import element_bytes
from deplodock.analysis.affine.division import Division
from deplodock.analysis.affine.linear import (
    Linear,
    condition_of,
    equal,
    form_of_value,
    known_points,
    subscripts_of,
    to_sides,
)
from deplodock.analysis.machine.resources import buffer_bytes, shared_budget
from deplodock.analysis.machine.targets import WARP
from deplodock.analysis.operations import ancestors, label
from deplodock.analysis.shape.dependence import Dependence, wheres
from deplodock.analysis.shape.footprint import (
    Footprint,
    Reader,
    gathered_footprint,
    register_footprint,
    shared_footprint,
)
from deplodock.analysis.shape.roles import contraction_of, is_part_of
from deplodock.dialects import loop, tile
from deplodock.dialects.tile import Binding, Memory
from deplodock.passes.options import Integers, option
from deplodock.passes.tile.edits import read_from, unroll
from deplodock.passes.tile.rule import LaunchRule, apply_to_any, shared_slabs
from deplodock.schedule.choose.sizes import ROW_VALUES

Place: TypeAlias = Literal["auto", "shared", "register"]
Operands: TypeAlias = Literal["never", "auto", "m", "n"]


@dataclass(frozen=True)
class StageInputsPass(LaunchRule):
    """Copy slabs of inputs that are read more than once on chip."""

    name = "stage-inputs"
    after = ("chunk-matmul-k", "split-matmul-k", "chunk-reduce", "cooperative-reduce", "blockify-launch")
    memory: Place = option("auto", Place, "where slabs go: by benefit (auto), or only to shared memory or registers")
    transpose: Operands = option(
        "never",
        Operands,
        "which operands of a contraction that walk k in memory get a slab with k first: none (never), all (auto), or "
        "the one with the rows (m) or the columns (n)",
    )
    values: int = option(
        ROW_VALUES,
        Integers((8, 16, 32, 64)),
        "the most registers of a thread that a slab in registers takes, of 4 bytes",
    )

    def rewrite(self, launch: tile.LaunchOp, rewriter: PatternRewriter, /) -> None:
        apply_to_any(
            _groups(launch), lambda group: _stage(rewriter, launch, group, self), "no input is read from global memory"
        )


@dataclass(frozen=True)
class LoadGroup:
    """The loads of one buffer whose innermost loops stand in one block, or that stand in it themselves."""

    block: Block
    loads: tuple[loop.LoadOp, ...]

    @property
    def name(self) -> str:
        """The buffer's name for messages."""
        return label(self.loads[0].source)

    def anchor(self) -> Operation:
        """The first operation of the block that reads the buffer."""
        return next(op for op in self.block.ops if any(op.is_ancestor(load) for load in self.loads))


def _groups(launch: tile.LaunchOp) -> list[LoadGroup]:
    """The loads of read-only global buffers that could share a slab, in program order."""
    groups: list[LoadGroup] = []
    for op in launch.body.walk():
        if not isinstance(op, loop.LoadOp) or tile.memory_of(op.source) is not None or _is_written(launch, op.source):
            continue
        inner = _loops_inside(op)
        block = inner[-1].parent if inner else launch.body.block
        assert block is not None
        for i, group in enumerate(groups):
            if group.block is block and group.loads[0].source is op.source:
                groups[i] = replace(group, loads=(*group.loads, op))
                break
        else:
            groups.append(LoadGroup(block, (op,)))
    return groups


def _is_written(launch: tile.LaunchOp, buffer: SSAValue) -> bool:
    """Whether a launch writes a buffer, or a call may."""
    writes = [use.operation for use in buffer.uses if isinstance(use.operation, loop.StoreOp | func.CallOp)]
    return any(isinstance(op, func.CallOp) or launch.is_ancestor(op) for op in writes)


def _loops_inside(op: Operation) -> list[loop.LoopLike]:
    """The loops that a slab of a load spans, innermost first: the one around it, or those of a chunk of a reduction."""
    around = (parent for parent in ancestors(op) if isinstance(parent, loop.LoopLike | tile.LaunchOp))
    parent = next(around, None)
    if not isinstance(parent, loop.LoopLike):
        return []
    loops = [parent]
    while isinstance(inner := loops[-1], loop.ReduceOp):
        outer = inner.parent_op()
        if not isinstance(outer, loop.ReduceOp) or not is_part_of(inner, outer):
            break
        loops.append(outer)
    return loops[:-1] or loops


def _reduction(launch: tile.LaunchOp, group: LoadGroup) -> Operation | None:
    """The first reduction of a row, where threads combine what its loops give before anything reads the buffer."""
    anchor = group.anchor()
    combines = [op for op in launch.body.block.ops if isinstance(op, tile.CombineOp)]
    if group.block is not launch.body.block or not any(op.is_before_in_block(anchor) for op in combines):
        return None
    if any(axis in launch.ctas for op in combines for axis in op.axes) or contraction_of(launch) is not None:
        return None
    return next((op for op in group.block.ops if isinstance(op, loop.ReduceOp)), None)


def _stage(rewriter: PatternRewriter, launch: tile.LaunchOp, group: LoadGroup, rule: StageInputsPass) -> str | None:
    """Stage a group where it pays. Returns the reason where it does not."""
    reduction = _reduction(launch, group)
    registers, reason = _in_registers(launch, group, rule.values, is_late=reduction is not None)
    if registers is not None and rule.memory != "shared":
        for load in group.loads:
            for around in _loops_inside(load):
                unroll(rewriter, around)
        _rewrite(rewriter, group, registers, Memory.REGISTER, reduction or group.anchor())
        return None
    if rule.memory == "register":
        return f"{group.name}: {reason or 'a thread reads each element once'}"
    shared, shared_reason = _in_shared(launch, group)
    if shared is not None:
        _rewrite(
            rewriter, group, _k_first(launch, group, shared, rule.transpose), Memory.SHARED, reduction or group.anchor()
        )
        return None
    return f"{group.name}: {'; '.join(dict.fromkeys(filter(None, (reason, shared_reason))))}"


def _in_registers(launch: tile.LaunchOp, group: LoadGroup, most: int, *, is_late: bool) -> tuple[Footprint | None, str]:
    """The slab of one thread, or why registers do not serve ("" where a thread reads nothing twice or late)."""
    footprints: list[Footprint] = []
    for load in group.loads:
        footprint = register_footprint(load, _inner_axes(launch, load, Binding.REGISTER))
        if footprint is None:
            return None, "its subscripts are not affine in the axes"
        footprints.append(footprint)
    merged = _merge(footprints)
    if merged is None or not merged.elements or (len(merged.readers) < 2 and not is_late):
        return None, ""
    values = merged.elements * element_bytes(loop.memref_of(group.loads[0].source).element_type) // 4
    if values > most:
        return None, f"{values} values of a thread exceed {most} registers"
    if is_late:
        return merged, ""
    box = shared_footprint(group.loads[0], _inner_axes(launch, group.loads[0], Binding.THREAD, Binding.REGISTER))
    threads = known_points(launch.bound_to(Binding.THREAD))
    if box is None or box.elements < merged.elements * threads:
        return None, "several threads read the same elements"
    return merged, ""


def _in_shared(launch: tile.LaunchOp, group: LoadGroup) -> tuple[Footprint | None, str]:
    """The slab of a CTA, or the reason why shared memory does not serve."""
    if (
        group.block is launch.body.block
        and contraction_of(launch) is not None
        and not any(map(_loops_inside, group.loads))
    ):
        return None, "each thread reads it once beside the contraction, so the L1 cache serves it"
    if (around := _divergent_loop(launch, group)) is not None:
        return None, f"not all threads run the loop over {label(around.iv)} alike"
    footprints: list[Footprint] = []
    reads = 0
    for load in group.loads:
        inside = _inner_axes(launch, load, Binding.THREAD, Binding.REGISTER)
        footprint = _window_footprint(launch, load, inside) or shared_footprint(load, inside)
        if footprint is None:
            return None, "its subscripts are not affine in the axes"
        if not footprint.shape:
            return None, "one element is read"
        footprints.append(footprint)
        reads += known_points(inside)
    merged = _merge(footprints)
    if merged is None:
        return None, "its loops read different slabs"
    if reads <= merged.elements:
        return None, "each element is read once by a CTA"
    if len(merged.readers) == 1 and known_points(launch.bound_to(Binding.THREAD)) <= WARP:
        return None, "one warp reads it, so the L1 cache serves it"
    size = merged.elements * element_bytes(loop.memref_of(group.loads[0].source).element_type)
    limit = _free_shared_bytes(launch)
    if size > limit:
        return None, f"its slab of {size} bytes exceeds the {limit} bytes of shared memory left to a CTA"
    return merged, ""


def _k_first(launch: tile.LaunchOp, group: LoadGroup, slab: Footprint, transpose: str) -> Footprint:
    """The slab with the dimensions of k first where it is of a contraction's operand that is to be transposed."""
    roles = contraction_of(launch) if transpose != "never" else None
    if roles is None or not all(roles.reduction.is_ancestor(load) for load in group.loads):
        return slab
    wanted = {"m": roles.m, "n": roles.n}.get(transpose, (*roles.m, *roles.n))
    variables = [around.iv for load in group.loads for around in _loops_inside(load)]
    k = [d for d in range(len(slab.shape)) if _varies(slab, d, variables)]
    others = [d for d in range(len(slab.shape)) if d not in k]
    walks_k = any(slab.walks(d) for d in k)
    return slab.reordered([*k, *others]) if walks_k and any(_varies(slab, d, wanted) for d in others) else slab


def _window_footprint(launch: tile.LaunchOp, load: loop.LoadOp, inside: Sequence[SSAValue]) -> Footprint | None:
    """The slab of k and an axis of the output, where a factor of a contraction divides one of them; else None.

    Such a factor has k in several dimensions, as the channels and places of windows, or the output's axis, as images
    and their pixels.
    """
    roles = contraction_of(launch)
    if roles is None or not roles.innermost.is_ancestor(load):
        return None
    atoms = [atom for form in subscripts_of(load) for atom, _ in form.terms if isinstance(atom, Division)]
    if not any(root in inside for atom in atoms for root in atom.form.roots()):
        return None
    return gathered_footprint(load, inside)


def _varies(slab: Footprint, dim: int, roots: Sequence[SSAValue]) -> bool:
    """Whether a reader's subscript in a slab dimension varies along one of the roots."""
    return any(reader.subscripts[dim].depends_on(root) for reader in slab.readers for root in roots)


def _divergent_loop(launch: tile.LaunchOp, group: LoadGroup) -> loop.LoopLike | None:
    """The innermost loop around the place of a slab whose bound differs between threads or registers, or None."""
    dependence = Dependence()
    lanes = [axis for axis in launch.axes if axis not in launch.ctas]
    for around in ancestors(group.anchor()):
        if isinstance(around, loop.LoopLike):
            found = dependence.of(*around.bound_operands)
            if any(axis in found for axis in lanes):
                return around
    return None


def _inner_axes(launch: tile.LaunchOp, load: loop.LoadOp, *bindings: Binding) -> list[SSAValue]:
    """The variables of the loops that a slab spans, and the launch axes with one of the bindings."""
    axes: list[SSAValue] = [around.iv for around in reversed(_loops_inside(load))]
    return axes + [axis for axis in launch.axes if launch.binding(axis) in bindings]


def _merge(footprints: Sequence[Footprint]) -> Footprint | None:
    """One footprint with all readers, or None if they differ."""
    first, *rest = footprints
    if not all(first.same_slab(other) for other in rest):
        return None
    return replace(first, readers=tuple(reader for footprint in footprints for reader in footprint.readers))


def _free_shared_bytes(launch: tile.LaunchOp) -> int:
    used = sum(buffer_bytes(op.slab) for op in shared_slabs(launch))
    return shared_budget(launch) - used


def _rewrite(
    rewriter: PatternRewriter, group: LoadGroup, footprint: Footprint, memory: Memory, anchor: Operation
) -> None:
    """Fill the slab before `anchor` and read it instead of the buffer."""
    source = group.loads[0].source
    element = loop.memref_of(source).element_type
    slab: MemRefType[Attribute] = MemRefType(element, footprint.shape, memory_space=tile.MemoryAttr(memory))
    named = footprint.origin
    if not footprint.coordinates:
        named = tuple(_named(form, _dominating(group.loads[0].indices, anchor)) for form in footprint.origin)
    map, operands = replace(footprint, origin=named).map()
    where = None
    if memory is Memory.REGISTER:
        loops = {reader.load: _loops_inside(reader.load) for reader in footprint.readers}
        map, operands, where = with_conditions(map, operands, footprint.readers, loops)
    stage = tile.StageOp(source, map, operands, slab, where)
    stage.slab.name_hint = (
        f"{source.name_hint}_{'smem' if memory is Memory.SHARED else 'reg'}" if source.name_hint else None
    )
    rewriter.insert(stage, InsertPoint.before(anchor))
    for reader in footprint.readers:
        _read_slab(rewriter, reader, stage.slab)


def _read_slab(rewriter: PatternRewriter, reader: Reader, slab: SSAValue) -> None:
    read_from(rewriter, reader.load, slab, [_named(form, reader.load.indices) for form in reader.subscripts])


def _dominating(indices: Sequence[SSAValue], anchor: Operation) -> list[SSAValue]:
    """The indices, and those they are computed from, that are computed before an operation."""
    found: list[SSAValue] = []
    pending = list(indices)
    while pending:
        value = pending.pop(0)
        if not isinstance(value.owner, loop.IndexOp):
            continue
        pending.extend(value.owner.indices)
        around = None if value.owner.parent is None else value.owner.parent.find_ancestor_op_in_block(anchor)
        if around is not None and value.owner.is_before_in_block(around):
            found.append(value)
    return found


def _named(form: Linear, indices: Sequence[SSAValue]) -> Linear:
    """A coordinate that the program computes already, from what the form has alone, and that equals it; else the form.

    A quotient may be the same for all threads though it is computed from theirs.
    """
    pending, dependence, roots = list(indices), Dependence(), set(form.roots())
    while pending:
        value = pending.pop(0)
        if equal(form_of_value(value), form) and roots >= set(dependence.of(value)):
            return Linear.of(value)
        if isinstance(value.owner, loop.IndexOp):
            pending.extend(value.owner.indices)
    return form


Loops = Mapping[loop.LoadOp, Sequence[loop.LoopLike]]
"""For each reader of a slab, the loops around it that the slab spans."""


def with_conditions(
    map: AffineMap, operands: Sequence[SSAValue], readers: Sequence[Reader], loops: Loops
) -> tuple[AffineMap, list[SSAValue], AffineMap | None]:
    """The map of a register slab and its operands, with the conditions of its elements; None if there are none."""
    operands = list(operands)
    coordinates = [form.terms[0][0] for form in readers[0].subscripts]

    def position(root: SSAValue) -> AffineExpr:
        if root in coordinates:
            return AffineExpr.dimension(coordinates.index(root))
        if root not in operands:
            operands.append(root)
        return AffineExpr.symbol(operands.index(root))

    sides = [side.affine(position) for side in to_sides(_common(readers, loops))]
    where = AffineMap(map.num_dims, len(operands), tuple(sides)) if sides else None
    return AffineMap(map.num_dims, len(operands), map.results), operands, where


def _common(readers: Sequence[Reader], loops: Loops) -> list[Linear]:
    """The conditions of all readers, below 0 where they hold, over the coordinates that the first one has in the slab.

    What says no more than that the source has such an element is left out.
    """
    first, *others = readers
    coordinates = [form.terms[0][0] for form in first.subscripts]
    inside = [around.iv for around in loops[first.load]]
    found = [form for form in _conditions(loops[first.load]) if not _is_in_shape(form, first.load)]
    found = [form for form in found if not any(root in inside and root not in coordinates for root in form.roots())]
    for reader in others:
        renamed = _conditions(loops[reader.load])
        for old, new in zip(reader.subscripts, first.subscripts, strict=True):
            if isinstance(root := old.terms[0][0], SSAValue):
                renamed = [form.substitute(root, new) for form in renamed]
        found = [form for form in found if any(equal(form, other) for other in renamed)]
    return found


def _conditions(loops: Sequence[loop.LoopLike]) -> list[Linear]:
    return [condition_of(where) for op in loops for where in wheres(op.body.block)]


def _is_in_shape(form: Linear, load: loop.LoadOp) -> bool:
    """Whether a condition only says that a subscript of a load is below the extent of its dimension."""
    extents = loop.memref_of(load.source).get_shape()
    subscripts = subscripts_of(load)
    return any(equal(form, s - n) for s, n in zip(subscripts, extents, strict=True))
