"""How a warpgroup runs a contract of the engine `wgmma`: which axes of the launch stand for its rows, columns and k.

The factors are read from shared memory by the engine, so no thread holds them: the right factor's columns and k are
`engine` axes, and the left factor's rows those of the result. With threads of a warpgroup numbered q * 32 + g * 4 + t,

    result  row = q * 16 + h * 8 + g        column = j * 8 + t * 2 + r        h, r, j: registers

A left factor that is computed is held by threads, as a result is: its columns, j, t and r, are k, and the right factor
is taken where an engine axis is at that k. Of f32 it is held by words: k = j * 4 + t.

Source: PTX ISA, "Register Fragments for wgmma.mma_async.m64nNk16" and "Register Fragments for Matrix A".
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from xdsl.dialects.builtin import f32
from xdsl.ir import SSAValue

from deplodock.analysis.affine.linear import Linear, equal, extent_or_one, forms_of
from deplodock.analysis.machine.atoms import NoAtomError
from deplodock.analysis.operations import ancestors, label
from deplodock.analysis.shape.dependence import Dependence, wheres, without
from deplodock.analysis.shape.lanes import carried, thread_strides
from deplodock.dialects import loop, tile
from deplodock.dialects.engines import Digit
from deplodock.dialects.kernel.wgmma import FACTORS, WARPGROUP, columns_of, depth_of
from deplodock.dialects.math_ext import WithLowPartOp
from deplodock.dialects.tile import Binding

NAME = "wgmma"
"""The engine's name in contracts."""

WARPS, GROUPS, LANES = Digit(32, 4), Digit(4, 8), Digit(1, 4)
"""The digits of a thread's number in its warpgroup: q, g and t."""


@dataclass(frozen=True)
class WarpgroupTile:
    """The axes of one product of a warpgroup, and the loads of its factors."""

    left: loop.LoadOp | None
    """The read of the left factor; None where threads hold it."""
    rights: Sequence[loop.LoadOp]
    """The reads of the right factors."""
    warps: SSAValue
    groups: SSAValue
    halves: SSAValue
    blocks: SSAValue | None
    """The blocks of 8 columns, None for one."""
    pairs: SSAValue
    column: SSAValue
    """The engine axis of the right factor's columns."""
    depth: SSAValue
    """The engine axis of k, of the right factor at least."""
    held: tuple[SSAValue, SSAValue | None] | None = None
    """Where threads hold the left factor, the register axes of its blocks along k, and of pairs, which f32 has not."""

    @property
    def columns(self) -> int:
        """The columns of the product."""
        return extent_or_one(self.column)

    @property
    def steps(self) -> int:
        """The products along k."""
        return extent_or_one(self.depth) // self.step

    @property
    def step(self) -> int:
        """The elements along k of a product."""
        return depth_of(self.rights[0].result.type)


def column_axis(op: tile.ContractOp) -> SSAValue:
    """The engine axis of a contract's right factor that is a column of the result: its place is over no folded axis."""
    places = zip(op.moved, forms_of(op.places.data, op.place_axes), strict=True)
    return next(axis for axis, form in places if not set(form.roots()) & set(op.axes))


def warpgroup_tile(launch: tile.LaunchOp, op: tile.ContractOp, dependence: Dependence) -> WarpgroupTile:
    """The axes that a product of a contract runs.

    Raises NoAtomError where the factors or the result do not lie where the engine wants them.
    """
    type = op.lhs[0].type
    if type != op.rhs[0].type or FACTORS.get(type) != op.result.type:
        raise NoAtomError(f"{NAME} does not multiply {type} by {op.rhs[0].type} to {op.result.type}")
    threads = math.prod(extent_or_one(axis) for axis in launch.bound_to(Binding.THREAD))
    if threads % WARPGROUP:
        raise NoAtomError(f"{NAME} takes whole warpgroups, and the launch has {threads} threads")
    rights, left = [_load(launch, factor) for factor in op.rhs], _held_or_load(launch, op)
    depth, column = _depth(launch, op, is_held=left is None)
    if extent_or_one(depth) % depth_of(type):
        extent = extent_or_one(depth)
        raise NoAtomError(f"{label(depth)} has {extent} elements along k, not a multiple of {depth_of(type)}")
    if extent_or_one(column) not in columns_of(type):
        raise NoAtomError(f"{label(column)} has {extent_or_one(column)} columns, not a multiple of 8 up to 256")
    _check_whole(launch, op, dependence)
    blocks, pairs = _columns(launch, op, column)
    held = None
    if left is None:
        held = _words(launch, op, depth) if type == f32 else _pairs_along(launch, op, depth)
    rows = without(dependence.of(op.lhs[0]), set(op.axes))
    warps, groups = (_thread(launch, digit, what) for digit, what in ((WARPS, "warps"), (GROUPS, "rows of a warp")))
    halves = next((axis for axis in reversed(launch.bound_to(Binding.REGISTER)) if axis in rows), None)
    if halves is None or extent_or_one(halves) != 2:
        raise NoAtomError("no register axis of 2 rows is the left factor's")
    for axis in (*launch.bound_to(Binding.THREAD), halves):
        if axis in dependence.of(*op.rhs) and extent_or_one(axis) > 1:
            raise NoAtomError(f"the right factor varies along {label(axis)}, where a warpgroup reads one tile")
    return WarpgroupTile(left, rights, warps, groups, halves, blocks, pairs, column, depth, held)


def _held_or_load(launch: tile.LaunchOp, op: tile.ContractOp) -> loop.LoadOp | None:
    """The read of the left factor, None where threads hold it: they have the columns of a result, as k."""
    if all(launch.binding(axis) is not Binding.ENGINE for axis in op.axes):
        return None
    if len(op.pairs) != 1:
        raise NoAtomError(f"{NAME} adds one pair of factors from slabs, got {len(op.pairs)}")
    return _load(launch, op.lhs[0])


def _depth(launch: tile.LaunchOp, op: tile.ContractOp, is_held: bool) -> tuple[SSAValue, SSAValue]:
    """The engine axes of k and of the right factor's columns."""
    if any(launch.binding(axis) is not Binding.ENGINE for axis in op.moved):
        raise NoAtomError("the right factor must be taken `at` engine axes")
    if not is_held:
        if len(op.axes) != 1 or len(op.moved) != 1:
            raise NoAtomError("k and the right factor's columns must be one engine axis each")
        return op.axes[0], op.moved[0]
    along = [
        axis
        for axis, form in zip(op.moved, forms_of(op.places.data, op.place_axes), strict=True)
        if set(form.roots()) == set(op.axes)
    ]
    if len(op.moved) != 2 or len(along) != 1:
        raise NoAtomError(
            "where threads hold the left factor, the right one must be taken `at` two engine axes: k, over the axes "
            "that are folded, and its columns"
        )
    return along[0], next(axis for axis in op.moved if axis is not along[0])


def _load(launch: tile.LaunchOp, factor: SSAValue) -> loop.LoadOp:
    load = factor.owner.value.owner if isinstance(factor.owner, WithLowPartOp) else factor.owner
    if not isinstance(load, loop.LoadOp) or not launch.is_ancestor(load):
        raise NoAtomError(f"the factor {label(factor)} is computed, and {NAME} reads slabs")
    return load


def _check_whole(launch: tile.LaunchOp, op: tile.ContractOp, dependence: Dependence) -> None:
    """Raises NoAtomError where some points of a product do not count, or not all threads reach it."""
    around = [each for each in ancestors(op, below=launch) if isinstance(each, loop.LoopLike)]
    limits = [where for each in (*around, launch) for where in wheres(each.body.block)]
    limited = dependence.of(*(value for where in limits for value in where.indices))
    bounds = dependence.of(*(value for each in around for value in each.bound_operands))
    for axis in (*op.axes, *op.moved):
        if axis in limited:
            raise NoAtomError(f"it adds the products of all points along {label(axis)}, which a loop.where limits")
    for axis in launch.axes:
        if axis in bounds and axis not in launch.ctas:
            raise NoAtomError(f"the bound of a loop around it varies along {label(axis)}; a warpgroup runs it as one")


def _thread(launch: tile.LaunchOp, wanted: Digit, what: str) -> SSAValue:
    """The thread axis that is a digit of a thread's number."""
    for axis, stride in thread_strides(launch).items():
        if Digit(stride, extent_or_one(axis)) == wanted:
            return axis
    raise NoAtomError(f"no thread axis of {wanted.extent} {what} is {wanted.weight} threads apart")


def _pairs_along(launch: tile.LaunchOp, op: tile.ContractOp, depth: SSAValue) -> tuple[SSAValue, SSAValue]:
    """The register axes of blocks of 8 along k, and of pairs, where threads hold a left factor."""
    along, near = _columns(launch, op, depth)
    assert along is not None, "the elements along k of a product are several blocks"
    return along, near


def _words(launch: tile.LaunchOp, op: tile.ContractOp, depth: SSAValue) -> tuple[SSAValue, None]:
    """The register axis of blocks of 4 along k, where threads hold a left factor of f32."""
    place = list(op.moved).index(depth)
    form, lanes = carried(launch, forms_of(op.places.data, op.place_axes)[place]), _thread(launch, LANES, "k")
    for blocks in launch.bound_to(Binding.REGISTER):
        if equal(form, Linear.of(lanes) + Linear.of(blocks, 4)) and 4 * extent_or_one(blocks) == extent_or_one(depth):
            return blocks, None
    raise NoAtomError(f"{label(depth)} must be taken at `block * 4 + thread`, block a register")


def _columns(launch: tile.LaunchOp, op: tile.ContractOp, moved: SSAValue) -> tuple[SSAValue | None, SSAValue]:
    """The register axes of the place of an engine axis, columns of a result: those of blocks of 8, and of pairs."""
    place = list(op.moved).index(moved)
    form = carried(launch, forms_of(op.places.data, op.place_axes)[place])
    lanes = _thread(launch, LANES, "pairs of columns")
    for pairs in launch.bound_to(Binding.REGISTER):
        for blocks in (None, *launch.bound_to(Binding.REGISTER)):
            wanted = Linear.of(lanes, 2) + Linear.of(pairs) + (Linear() if blocks is None else Linear.of(blocks, 8))
            count = 8 * (1 if blocks is None else extent_or_one(blocks))
            if equal(form, wanted) and extent_or_one(pairs) == 2 and count == extent_or_one(moved):
                return blocks, pairs
    raise NoAtomError(f"{label(moved)} must be taken at `block * 8 + thread * 2 + pair`, block and pair registers")
