"""Which loops of a kernel may run as one step, and which subscripts are constants once loops are unrolled."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass

from xdsl.ir import BlockArgument, Operation, OpResult, SSAValue
from xdsl.ir.affine import AffineMap
from xdsl.traits import MemoryEffectKind, get_effects

from deplodock.analysis.affine.linear import forms_of
from deplodock.analysis.operations import ancestors
from deplodock.dialects.buffers import Memory
from deplodock.dialects.interfaces import Access, accesses_of
from deplodock.dialects.loop import ForOp, IndexOp


@dataclass(frozen=True)
class Batch:
    """Loops that run as one step: how many are nested, and the number of their iterations together."""

    depth: int
    points: int


class Nests:
    """The loops whose iterations may run at once, as a further dimension of the lanes.

    That is the same as running them in order if no iteration sees what another one writes: each buffer that the body
    writes has a dimension along which the iterations take elements of their own, or, outside registers, is written by
    one op and not read; its writes then happen in the loops' order. Barriers, groups and allocations stay in
    order.
    """

    def __init__(self, identity: Callable[[SSAValue], Hashable], most_points: int) -> None:
        """`identity` tells buffers apart; nests have at most `most_points` points, to bound the size of arrays."""
        self._identity = identity
        self._most_points = most_points
        self._nests: dict[ForOp, Batch | None] = {}

    def of(self, loop: ForOp) -> Batch | None:
        """The nest that starts at `loop`, or None if its iterations must run in order."""
        if loop not in self._nests:
            self._nests[loop] = self._nest(loop)
        return self._nests[loop]

    def _nest(self, loop: ForOp) -> Batch | None:
        if not loop.trips or any(_is_in_order(op) for op in loop.body.walk()):
            return None
        by_buffer: dict[Hashable, list[Access]] = {}
        for op in loop.body.walk():
            for access in accesses_of(op):
                by_buffer.setdefault(self._identity(access.buffer), []).append(access)
        for group in by_buffer.values():
            if any(access.writes for access in group) and not (
                _apart_along(loop.iv, group) or self._alone(loop, group)
            ):
                return None
        inner = [nest for op in loop.body.walk() if isinstance(op, ForOp) and (nest := self.of(op)) is not None]
        depth = 1 + max((nest.depth for nest in inner), default=0)
        points = loop.trips * max((nest.points for nest in inner), default=1)
        return Batch(depth, points) if points <= self._most_points else None

    def _alone(self, loop: ForOp, group: Sequence[Access]) -> bool:
        """Whether the buffer is only written, by one op, and all loops around it inside `loop` run as one step."""
        if len(group) != 1 or group[0].memory is Memory.REGISTER:
            return False
        around = ancestors(group[0].op, below=loop)
        return all(self.of(inner) is not None for inner in around if isinstance(inner, ForOp))


def _is_in_order(op: Operation) -> bool:
    """Whether an operation allocates, or orders memory as its effects say: writes that are of no one buffer."""
    effects = () if op.regions else get_effects(op) or ()
    return any(effect.value is None or effect.kind is MemoryEffectKind.ALLOC for effect in effects)


def _apart_along(iv: SSAValue, group: Sequence[Access]) -> bool:
    """Whether different values of `iv` mean different elements in all accesses to one buffer.

    In one dimension, the coordinates of all accesses must be `iv` times the same step, and differ by less than it.
    """
    for dim in range(len(group[0].map.results)):
        places = [_steps_along(access, dim, iv) for access in group]
        known = [place for place in places if place is not None]
        steps, starts = {step for step, _ in known}, [start for _, start in known]
        if len(known) == len(places) and len(steps) == 1 and max(starts) - min(starts) < abs(steps.pop()):
            return True
    return False


def _steps_along(access: Access, dim: int, iv: SSAValue) -> tuple[int, int] | None:
    """The coordinate in dimension `dim` as a multiple of `iv` and a constant; None where it is anything else."""
    if access.width > 1 and dim == access.along % len(access.map.results):
        return None
    expr = access.map.results[dim]
    form = forms_of(AffineMap(access.map.num_dims, access.map.num_symbols, (expr,)), access.indices)[0]
    return (form.coefficient(iv), form.constant) if [atom for atom, _ in form.terms] == [iv] else None


def varying_index(access: Access) -> SSAValue | None:
    """The first value in the subscripts that is no constant once the loops marked `unroll` are unrolled."""
    used = {dim for expr in access.map.results for dim in expr.used_dims()}
    return next((value for i, value in enumerate(access.indices) if i in used and not _is_constant(value)), None)


def _is_constant(value: SSAValue) -> bool:
    if isinstance(value, BlockArgument):
        loop = value.block.parent_op()
        if not isinstance(loop, ForOp) or loop.trips is None:
            return False
        return bool(loop.unroll) or loop.trips <= 1
    if not isinstance(value, OpResult) or accesses_of(value.op):
        return False
    return value.op.name == "arith.constant" or (
        (isinstance(value.op, IndexOp) or value.op.name.startswith("arith."))
        and all(_is_constant(operand) for operand in value.op.operands)
    )
