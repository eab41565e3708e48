"""register-tile: let each thread compute several outputs.

    tile.launch (%m_b = 4 : block, %n_b = 28 : block,      tile.launch (%m_b = 4 : block, %n_b = 28 : block,
                 %m_t = 128 : thread,                                   %m_t = 8 : thread, %n_t = 16 : thread,
                 %n_t = 128 : thread) {               ->                %m_r = 16 : register, %n_r = 8 : register) {
      %m = loop.index [%m_b * 128 + %m_t]                    %m_c = loop.index [%m_t * 16 + %m_r]
      ..                                                     %m = loop.index [%m_b * 128 + %m_c] ..

A contraction gets a register tile of m x n by the roles of its axes, so that each value read is used many times. Any
other kernel gets a register axis along the dimension that its stores walk, so that accesses are wide, and one along
another whose windows overlap, so that a thread reads what they share once. Neighbouring outputs belong to one thread;
permute-register-tile places them otherwise.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from xdsl.ir import SSAValue
from xdsl.pattern_rewriter import PatternRewriter

from deplodock.analysis.access.alignment import address
from deplodock.analysis.affine.linear import subscripts_of
from deplodock.analysis.operations import label
from deplodock.analysis.shape.dependence import Dependence, bound_along
from deplodock.analysis.shape.nest import launch_nest
from deplodock.analysis.shape.roles import contraction_of, window_axes
from deplodock.dialects import loop, tile
from deplodock.dialects.tile import Binding, Memory
from deplodock.passes.options import Integers, Kind, option
from deplodock.passes.tile.edits import rebind, reorder, split_axis
from deplodock.passes.tile.rule import LaunchRule, Skip, folded
from deplodock.schedule.choose.sizes import CELLS, VECTOR

_SIDES = Integers((1, 2, 4, 8, 12, 16))


@dataclass(frozen=True)
class RegisterTilePass(LaunchRule):
    """Let each thread compute several outputs."""

    name = "register-tile"
    after = ("cooperative-reduce", "split-matmul-k", "blockify-launch")
    m: int = option(CELLS, _SIDES, "rows of a contraction's output that one thread computes", kind=Kind.CONTRACTION)
    n: int = option(CELLS, _SIDES, "columns of a contraction's output that one thread computes", kind=Kind.CONTRACTION)
    vector: int = option(
        VECTOR,
        Integers((1, 2, 4)),
        "neighbouring outputs that one thread of any other kernel computes",
        kind=Kind.OTHER,
    )
    rows: int = option(
        1,
        Integers((1, 2, 4, 8)),
        "for how many outputs along another axis whose windows overlap, as the rows of an image",
        kind=Kind.OTHER,
    )

    def rewrite(self, launch: tile.LaunchOp, rewriter: PatternRewriter, /) -> None:
        if any(axis not in folded(launch) for axis in launch.bound_to(Binding.REGISTER)):
            raise Skip("the launch has register axes already")
        cells = _cells(launch, self)
        if not cells:
            raise Skip("each thread has one output along every axis to tile, or its axes are not constant")
        for axis, _ in cells:
            if axis in launch.carried_axes().values():
                raise Skip(f"{label(axis)} carries lane axes; register-tile runs before what adds those")
            if (name := _private_slab(launch, axis)) is not None:
                along = axis.name_hint or "?"
                raise Skip(f"the register slab %{name} is of one output along %{along}; run stage-inputs later")
        order: list[SSAValue] = list(launch.axes)
        registers: list[SSAValue] = []
        for axis, size in cells:
            place = order.index(axis)
            order[place : place + 1], register = _split(rewriter, launch, axis, size)
            registers.append(register)
        others = [axis for axis in order if axis not in registers]
        inner = [axis for axis in others if launch.binding(axis) is Binding.REGISTER]
        reorder(rewriter, launch, [*(axis for axis in others if axis not in inner), *registers, *inner])


def _cells(launch: tile.LaunchOp, rule: RegisterTilePass) -> list[tuple[SSAValue, int]]:
    """The thread axes to split and the coordinates of each that one thread takes, more than one."""
    roles = contraction_of(launch)
    wanted = _neighbours(launch, rule) if roles is None else [(roles.m, rule.m), (roles.n, rule.n)]
    cells: list[tuple[SSAValue, int]] = []
    for axes, size in wanted:
        threads = [axis for axis in axes if launch.binding(axis) is Binding.THREAD]
        extent = launch.extent(threads[-1]) if threads else None
        if extent is not None and (taken := min(size, extent)) > 1:
            if (inner := bound_along(threads[-1], launch.body)) is not None:
                raise Skip(
                    f"the bound of the loop over {label(inner.iv)} varies along {label(threads[-1])}, so outputs share "
                    "no loop"
                )
            cells.append((threads[-1], taken))
    return cells


def _neighbours(launch: tile.LaunchOp, rule: RegisterTilePass) -> list[tuple[Sequence[SSAValue], int]]:
    """The axes to split in a kernel without a contraction: that of contiguous memory, and one of windows before it."""
    contiguous, shared = _contiguous_axis(launch), folded(launch)
    rows = [axis for axis in window_axes(launch_nest(launch)) if axis is not contiguous and axis not in shared]
    return [(rows[-1:], rule.rows), ([contiguous], rule.vector)]


def _private_slab(launch: tile.LaunchOp, axis: SSAValue) -> str | None:
    """The name of a slab in registers whose origin varies along an axis, so that outputs cannot share it, or None."""
    dependence = Dependence()
    kept = [op for op in launch.body.walk() if isinstance(op, tile.StageOp)]
    kept = [op for op in kept if tile.memory_of(op.slab) is Memory.REGISTER and axis in dependence.of(*op.indices)]
    return kept[0].slab.name_hint or "?" if kept else None


def _contiguous_axis(launch: tile.LaunchOp) -> SSAValue:
    """The thread axis, folded by no combine, along which every store walks contiguous memory."""
    shared = folded(launch)
    stores = [op for op in launch.body.walk() if isinstance(op, loop.StoreOp)]
    for axis in (axis for axis in reversed(launch.bound_to(Binding.THREAD)) if axis not in shared):
        forms = [address(loop.memref_of(op.destination), subscripts_of(op)) for op in stores]
        if all(form.coefficient(axis) == 1 for form in forms):
            return axis
    raise Skip("no thread axis walks contiguous memory in every store")


def _split(
    rewriter: PatternRewriter, launch: tile.LaunchOp, axis: SSAValue, size: int
) -> tuple[list[SSAValue], SSAValue]:
    """Split a thread axis; returns what stands in its place, and the register axis."""
    if size == launch.extent(axis):
        rebind(rewriter, launch, axis, Binding.REGISTER)
        return [axis], axis
    hint = (axis.name_hint or "a").removesuffix("_t")
    is_part = hint != axis.name_hint
    thread, register = split_axis(rewriter, launch, axis, size, Binding.THREAD, Binding.REGISTER)
    thread.name_hint, register.name_hint = f"{hint}_t", f"{hint}_r"
    for use in register.uses:
        if is_part and isinstance(use.operation, loop.IndexOp):
            use.operation.result.name_hint = f"{hint}_c"
    return [thread], register
