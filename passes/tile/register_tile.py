"""register-tile: let each thread compute several outputs.

    tile.launch (%m_b = 4 : block, %n_b = 28 : block,      tile.launch (%m_b = 4 : block, %n_b = 28 : block,
                 %m_t = 128 : thread,                                   %m_t = 8 : thread, %n_t = 16 : thread,
                 %n_t = 128 : thread) {               ->                %m_r = 16 : register, %n_r = 8 : register) {
      %m = loop.index [%m_b * 128 + %m_t]                    %m_c = loop.index [%m_t * 16 + %m_r]
      ..                                                     %m = loop.index [%m_b * 128 + %m_c] ..

A contraction gets a register tile of m x n by the roles of its axes, so that each value read is used many times. Any
other kernel gets a register axis along the dimension that its stores walk, so that accesses are wide. Neighbouring
outputs belong to one thread; permute-register-tile places them otherwise.
"""

from __future__ import annotations

from dataclasses import dataclass

from xdsl.context import Context
from xdsl.dialects import func
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import SSAValue

from deplodock.analysis.access.alignment import address
from deplodock.analysis.affine.linear import subscripts_of
from deplodock.analysis.shape.dependence import Dependence, bound_along
from deplodock.analysis.shape.roles import contraction_of
from deplodock.dialects import loop, tile
from deplodock.dialects.tile import Binding, Memory
from deplodock.passes.tile.edits import rebind, reorder, split_axis
from deplodock.passes.tile.rule import Rule, Skip, apply_rule, each_launch, folded, is_mixed, positive
from deplodock.schedule.choose.sizes import CELLS, VECTOR
from deplodock.schedule.steps import Options


@dataclass(frozen=True)
class RegisterTilePass(Rule):
    """Let each thread compute several outputs.

    Parameters:
        m: rows of a contraction's output that one thread computes.
        n: columns of a contraction's output that one thread computes.
        vector: neighbouring outputs that one thread of any other kernel computes.
    """

    name = "register-tile"
    after = ("cooperative-reduce", "split-matmul-k", "blockify-launch")
    m: int | None = None
    n: int | None = None
    vector: int | None = None

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        apply_rule(self, op, register_tile)


def register_tile(function: func.FuncOp, options: Options) -> None:
    """Give every launch a register tile; Skip with the reason if none takes one."""
    each_launch(function, lambda launch: _tile(launch, options))


def _tile(launch: tile.LaunchOp, options: Options) -> None:
    if launch.bound_to(Binding.REGISTER):
        raise Skip("the launch has register axes already")
    cells = _cells(launch, options)
    if not cells:
        raise Skip("each thread has one output along every axis to tile, or its axes are not constant")
    for axis, _ in cells:
        if (name := _private_slab(launch, axis)) is not None:
            along = axis.name_hint or "?"
            raise Skip(f"the register slab %{name} is of one output along %{along}; run stage-inputs later")
    order: list[SSAValue] = list(launch.axes)
    registers: list[SSAValue] = []
    for axis, size in cells:
        place = order.index(axis)
        order[place : place + 1], register = _split(launch, axis, size)
        registers.append(register)
    reorder(launch, [*(axis for axis in order if launch.binding(axis) is not Binding.REGISTER), *registers])


def _cells(launch: tile.LaunchOp, options: Options) -> list[tuple[SSAValue, int]]:
    """The thread axes to split and the coordinates of each that one thread takes, more than one."""
    roles = contraction_of(launch)
    is_tile, is_vector = "m" in options or "n" in options, "vector" in options
    has_both = is_tile and is_vector and is_mixed(launch)
    if roles is None:
        if is_tile and not has_both:
            raise Skip("m and n tile a contraction, and the launch has none; give vector")
        wanted = [([_contiguous_axis(launch)], positive(options, "vector", VECTOR))]
    else:
        if is_vector and not has_both:
            raise Skip("vector is for kernels without a contraction; give m and n")
        wanted = [(roles.m, positive(options, "m", CELLS)), (roles.n, positive(options, "n", CELLS))]
    cells: list[tuple[SSAValue, int]] = []
    for axes, size in wanted:
        threads = [axis for axis in axes if launch.binding(axis) is Binding.THREAD]
        extent = launch.extent(threads[-1]) if threads else None
        if extent is not None and (taken := min(size, extent)) > 1:
            if (inner := bound_along(threads[-1], launch.body)) is not None:
                names = (inner.iv.name_hint or "?", threads[-1].name_hint or "?")
                raise Skip("the bound of the loop over %{} varies along %{}, so outputs share no loop".format(*names))
            cells.append((threads[-1], taken))
    return cells


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


def _split(launch: tile.LaunchOp, axis: SSAValue, size: int) -> tuple[list[SSAValue], SSAValue]:
    """Split a thread axis; returns what stands in its place, and the register axis."""
    if size == launch.extent(axis):
        rebind(launch, axis, Binding.REGISTER)
        return [axis], axis
    hint = (axis.name_hint or "a").removesuffix("_t")
    is_part = hint != axis.name_hint
    thread, register = split_axis(launch, axis, size, Binding.THREAD, Binding.REGISTER)
    thread.name_hint, register.name_hint = f"{hint}_t", f"{hint}_r"
    for use in register.uses:
        if is_part and isinstance(use.operation, loop.IndexOp):
            use.operation.result.name_hint = f"{hint}_c"
    return [thread], register
