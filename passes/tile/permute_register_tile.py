"""permute-register-tile: choose which outputs of the tile a thread owns, and which threads share a warp.

    %m_c = loop.index [%m_t * 16 + %m_r]  ->  %m_c = loop.index [%m_ro * 32 + %m_t * 4 + %m_rv]

The coordinate of thread t of T, register r of R, is one of

    blocked   t * R + r
    strided   r * T + t
    strips    (r floordiv vec) * (vec * T) + t * vec + r mod vec

Strips split the register axis in two, so that loads and stores move `vec` neighbours at once. `lanes` names the axis of
each bit of the lane, the lowest first: `nmnnm` puts 8 columns and 4 rows in a warp, interleaved. Only the axes and the
`loop.index` that recomputes the coordinate change, for all readers and writers alike.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Literal, TypeAlias

from xdsl.ir import BlockArgument, SSAValue
from xdsl.ir.affine import AffineExpr, AffineMap
from xdsl.pattern_rewriter import PatternRewriter

from deplodock.analysis.affine.linear import Linear, form_of
from deplodock.analysis.operations import label
from deplodock.analysis.shape.roles import Contraction, contraction_of
from deplodock.dialects import loop, tile
from deplodock.dialects.tile import Binding
from deplodock.passes.options import Integers, Letters, option
from deplodock.passes.tile.edits import Axis, append_axis, drop_axis, recompute, reorder, split_axis
from deplodock.passes.tile.rule import LaunchRule, Skip, folded
from deplodock.schedule.choose.sizes import VECTOR

Placement: TypeAlias = Literal["blocked", "strided", "strips"]


@dataclass(frozen=True)
class PermuteRegisterTilePass(LaunchRule):
    """Choose which outputs of its tile a thread owns, and of a contraction which threads share a warp."""

    name = "permute-register-tile"
    after = ("register-tile",)
    m: Placement | None = option(
        None, Placement, "placement of the rows of a thread; as they are if another option is given, else strips"
    )
    n: Placement | None = option(None, Placement, "placement of the columns of a thread, likewise")
    vec: int = option(VECTOR, Integers((1, 2, 4, 8)), "neighbours in a strip")
    lanes: str | None = option(
        None,
        Letters("mn", ("nm", "mn", "n", "nmnnm")),
        "the axis of each bit of the lane, the lowest first, such as nmnnm",
    )

    def rewrite(self, launch: tile.LaunchOp, rewriter: PatternRewriter, /) -> None:
        roles = contraction_of(launch)
        if roles is None:
            _permute_other(rewriter, launch, self)
            return
        if launch.carried_axes():
            raise Skip("tensor-tile has placed the registers as its instruction wants them")
        if not launch.bound_to(Binding.REGISTER):
            raise Skip("the launch has no register axes; run register-tile first")
        vec, lanes = self.vec, self.lanes
        wanted: dict[str, str] = {name: place for name, place in (("m", self.m), ("n", self.n)) if place is not None}
        if not wanted and lanes is None:
            wanted = {"m": "strips", "n": "strips"}
        moves = [
            (found, placement)
            for name, placement in wanted.items()
            for found in [_tile_along(launch, roles.m if name == "m" else roles.n, name)]
            if found is not None and _changes(found, placement, vec)
        ]
        order = _lane_order(launch, roles, lanes) if lanes is not None else None
        if not moves and order is None:
            raise Skip("the register tile is placed so already")
        axes: list[SSAValue] = list(launch.axes)
        for found, placement in moves:
            _place(rewriter, launch, axes, found, placement, vec)
        if order is not None:
            _order_lanes(rewriter, launch, axes, order)
        reorder(rewriter, launch, axes)


@dataclass(frozen=True)
class RegisterTile:
    """One dimension of a register tile: its thread coordinate, register axis, and the index computed from them."""

    thread: SSAValue
    threads: int
    register: BlockArgument
    registers: int
    index: loop.IndexOp

    @property
    def is_blocked(self) -> bool:
        """Whether each thread owns neighbours."""
        form = form_of(self.index.map.data.results[0], (), [Linear.of(value) for value in self.index.indices])
        return form.coefficient(self.thread) == self.registers and form.coefficient(self.register) == 1


def _permute_other(rewriter: PatternRewriter, launch: tile.LaunchOp, rule: PermuteRegisterTilePass) -> None:
    """Place the neighbours that a thread of any other kernel computes, as `n` says."""
    if rule.n is None:
        raise Skip("the launch has no contraction; n places the outputs of a thread of other kernels")
    found = _tile_along(launch, [axis for axis in launch.axes if axis not in folded(launch)], "n")
    if found is None or not _changes(found, rule.n, rule.vec):
        raise Skip("no register tile is there, or it is placed so already")
    axes: list[SSAValue] = list(launch.axes)
    _place(rewriter, launch, axes, found, rule.n, rule.vec)
    reorder(rewriter, launch, axes)


def _tile_along(launch: tile.LaunchOp, axes: Sequence[SSAValue], name: str) -> RegisterTile | None:
    """The register tile along the axes of a role, None where a thread has one coordinate or all of them."""
    registers = [axis for axis in axes if launch.binding(axis) is Binding.REGISTER]
    if not registers:
        return None
    if len(registers) > 1:
        raise Skip(f"the register tile along {name} is placed already")
    register = registers[0]
    assert isinstance(register, BlockArgument)
    cells = launch.extent(register)
    for index in (use.operation for use in register.uses):
        others = [value for value in index.operands if value is not register]
        threads = _thread_count(others[0], launch) if isinstance(index, loop.IndexOp) and len(others) == 1 else None
        if threads is None or cells is None:
            continue
        if not (register.has_one_use() and others[0].has_one_use()):
            raise Skip(f"the threads and registers along {name} are used apart from the coordinate they make")
        assert isinstance(index, loop.IndexOp)
        return RegisterTile(others[0], threads, register, cells, index)
    return None


def _thread_count(value: SSAValue, launch: tile.LaunchOp) -> int | None:
    """The number of values of a thread coordinate: a thread axis, or an index computed from several."""
    if isinstance(value, BlockArgument):
        return launch.extent(value) if launch.binding(value) is Binding.THREAD else None
    if not isinstance(value.owner, loop.IndexOp):
        return None
    bounds = form_of(value.owner.map.data.results[0], value.owner.indices).range()
    return None if bounds is None else bounds[1] + 1


def _changes(found: RegisterTile, placement: str, vec: int) -> bool:
    """Whether a placement differs from the one that is; Skip where it cannot be made."""
    if placement == "strips" and found.registers % vec:
        raise Skip(f"strips of {vec} do not divide {found.registers} registers")
    if not found.is_blocked:
        raise Skip(f"the register tile of {label(found.index.result)} is placed already")
    return placement == "strided" or (placement == "strips" and found.registers > vec)


def _place(
    rewriter: PatternRewriter,
    launch: tile.LaunchOp,
    axes: list[SSAValue],
    found: RegisterTile,
    placement: str,
    vec: int,
) -> None:
    """Give a coordinate another placement; `axes` are those of the launch in the order they are to have."""
    t, first, second = (AffineExpr.dimension(i) for i in range(3))
    if placement == "strided":
        index = loop.IndexOp(AffineMap(2, 0, (t * found.threads + first,)), [found.register, found.thread])
    else:
        place = axes.index(found.register)
        hint = found.register.name_hint or "r"
        outer, inner = split_axis(rewriter, launch, found.register, vec, Binding.REGISTER, Binding.REGISTER)
        outer.name_hint, inner.name_hint = f"{hint}o", f"{hint}v"
        axes[place : place + 1] = [outer, inner]
        expr = t * (vec * found.threads) + first * vec + second
        index = loop.IndexOp(AffineMap(3, 0, (expr,)), [outer, found.thread, inner])
    old = found.index.indices
    rewriter.replace(found.index, index)
    for value in old:
        if isinstance(value.owner, loop.IndexOp) and not list(value.uses):
            rewriter.erase(value.owner)


@dataclass(frozen=True)
class AxisDigit:
    """A run of lane bits that belong to one axis: its letter, its number of values and its weight in the coordinate."""

    letter: str
    size: int
    weight: int


def _lane_order(
    launch: tile.LaunchOp, roles: Contraction, lanes: str
) -> tuple[dict[str, BlockArgument], list[AxisDigit]] | None:
    """The thread axis of each letter and the digits of the thread index, the slowest first; None if they are so now."""
    axes: dict[str, BlockArgument] = {}
    digits: list[AxisDigit] = []
    weights = {"m": 1, "n": 1}
    for letter, run in groupby(lanes):
        size = 2 ** len(list(run))
        digits.append(AxisDigit(letter, size, weights[letter]))
        weights[letter] *= size
    for letter, role in (("m", roles.m), ("n", roles.n)):
        threads = [axis for axis in role if launch.binding(axis) is Binding.THREAD]
        if len(threads) > 1:
            raise Skip(f"{len(threads)} thread axes run along {letter} already; lanes are made of one")
        extent = launch.extent(threads[0]) if threads else 1
        if extent is None or extent % weights[letter]:
            raise Skip(f"{weights[letter]} lanes along {letter} do not divide {extent} threads")
        if extent != 1:
            assert isinstance(threads[0], BlockArgument)
            axes[letter] = threads[0]
            digits.append(AxisDigit(letter, extent // weights[letter], weights[letter]))
    warps = [digit for letter in "mn" for digit in digits[len(digits) - len(axes) :] if digit.letter == letter]
    in_warp = digits[: len(digits) - len(axes)]
    order = [digit for digit in (*warps, *reversed(in_warp)) if digit.size > 1]
    now = [letter for thread in launch.bound_to(Binding.THREAD) for letter, axis in axes.items() if axis is thread]
    return None if [digit.letter for digit in order] == now else (axes, order)


def _order_lanes(
    rewriter: PatternRewriter,
    launch: tile.LaunchOp,
    axes: list[SSAValue],
    order: tuple[dict[str, BlockArgument], list[AxisDigit]],
) -> None:
    """Replace the thread axes by their digits; `axes` are those of the launch in the order they are to have."""
    threads, digits = order
    parts: list[tuple[str, SSAValue, int]] = []
    for digit in digits:
        hint = threads[digit.letter].name_hint or digit.letter
        is_whole = digit.size == launch.extent(threads[digit.letter])
        name = hint if is_whole else f"{hint.removesuffix('_t')}_l{digit.weight}"
        parts.append(
            (digit.letter, append_axis(rewriter, launch, Axis(digit.size, Binding.THREAD, name)), digit.weight)
        )
    place = min(axes.index(thread) for thread in threads.values())
    for letter, thread in threads.items():
        own = [(part, weight) for name, part, weight in parts if name == letter]
        if len(own) == 1:
            rewriter.replace_all_uses_with(thread, own[0][0])
        else:
            recompute(rewriter, thread, own, launch.body.block, None)
        drop_axis(rewriter, launch, thread)
    axes[:] = [axis for axis in axes if axis not in threads.values()]
    axes[place:place] = [part for _, part, _ in parts]
