"""take-turns: two warpgroups that do more than multiply multiply in turns.

    %full = kernel.mbarrier 4 arrivals 1          %full = kernel.mbarrier 4 arrivals 1
    ..                                            %turns = kernel.mbarrier 2 arrivals 4
    kernel.role consumers(%reader = 256) {        ..
      ..                                          kernel.role consumers_0(%reader = 128) { .. }
      loop.for %k = 0 to 112 {                    kernel.role consumers_1(%reader_1 = 128) {
        kernel.wait_phase %full[%k mod 4], ..  ->   %reader_2 = loop.index [%reader_1 + 128]
        ..                                          loop.for %k = 0 to 112 {
        kernel.wgmma_fence                            kernel.wait_phase %full[%k mod 4], ..
        ..                                            ..
        kernel.wgmma_commit                           kernel.wait_phase %turns[1], %k mod 2
        kernel.wgmma_wait 0                           kernel.wgmma_fence
        ..                                            ..
      }                                               kernel.wgmma_commit
                                                      kernel.arrive warp %turns[0]
                                                      kernel.wgmma_wait 0
                                                      ..

A step of such a warpgroup is its products and what it does before and behind them, as to compute the parts of a factor
or to add up sums. If both came to their products at once, tensor cores would do nothing while both do the rest, and
nothing parts them again: on an H200 512x3584x3584 in parts takes 133 us so, and 106 where they are apart. So each waits
until the other has issued its products. Each has a role of its own then, which a phase can order, and where CTAs add
their parts, tickets of its own: a thread adds what the same thread of other CTAs left.
"""

from __future__ import annotations

from dataclasses import dataclass

from xdsl.context import Context
from xdsl.dialects.builtin import AffineMapAttr, FunctionType, MemRefType, ModuleOp, i32
from xdsl.ir import BlockArgument, Operation, SSAValue
from xdsl.ir.affine import AffineExpr, AffineMap
from xdsl.passes import ModulePass
from xdsl.rewriter import InsertPoint, Rewriter

from deplodock.analysis.affine.linear import constant_place
from deplodock.analysis.machine.targets import WARP
from deplodock.dialects import kernel, loop
from deplodock.dialects.buffers import Memory, memref_of
from deplodock.dialects.interfaces import Collective, Landing, accesses_of
from deplodock.dialects.kernel.mbarrier import arrival_of_warp
from deplodock.dialects.kernel.order import CloseGroup, FenceProducts, WaitGroups, order_of
from deplodock.dialects.kernel.roles import WARPGROUP, split_role

TEAMS = 2
"""The warpgroups that take turns."""


@dataclass(frozen=True)
class TakeTurnsPass(ModulePass):
    """Let two warpgroups that do more than multiply multiply in turns."""

    name = "take-turns"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        for function in kernel.functions(op):
            found = [role for role in function.roles if role.num_threads == TEAMS * WARPGROUP and _can_take_turns(role)]
            for role in found:
                turns = _turns(function, role)
                for number, team in enumerate(split_role(role, TEAMS)):
                    _wait_in(team, number, turns)


def _can_take_turns(role: Operation) -> bool:
    """Whether the steps of a role's loop multiply once and do other work, too, and its warpgroups can be apart.

    Threads of a role that are to be apart do not meet, and write no shared memory for each other.
    """
    ops = list(role.walk())
    commits = [op for op in ops if _closes_products(op)]
    steps = commits[0].parent_op() if len(commits) == 1 else None
    if not isinstance(steps, loop.ForOp) or steps.parent_op() is not role or (steps.trips or 0) < TEAMS:
        return False
    apart = [op for op in ops if op.has_trait(Collective) and not _is_of_warpgroup(op)]
    shares = any(access.writes and access.memory is Memory.SHARED for op in ops for access in accesses_of(op))
    works = any(access.lands is not Landing.PRODUCT for op in _in_each(steps) for access in accesses_of(op))
    return works and not shares and all(isinstance(op, kernel.TicketOp) for op in apart)


def _in_each(steps: loop.ForOp) -> list[Operation]:
    """What every step of a loop runs, under no condition."""
    guards = [op for op in steps.body.walk() if isinstance(op, loop.GuardOp)]
    return [op for op in steps.body.walk() if not any(guard.is_ancestor(op) for guard in guards)]


def _closes_products(op: Operation) -> bool:
    order = order_of(op)
    return isinstance(order, CloseGroup) and order.of is Landing.PRODUCT


def _is_of_warpgroup(op: Operation) -> bool:
    """Whether each warpgroup reaches a collective operation by itself: a product, or what orders products."""
    order = order_of(op)
    if isinstance(order, CloseGroup | WaitGroups):
        return order.of is Landing.PRODUCT
    return isinstance(order, FenceProducts) or any(access.lands is Landing.PRODUCT for access in accesses_of(op))


def _turns(function: kernel.FuncOp, role: Operation) -> SSAValue:
    """The barriers of turns, of a role that is to be split, whose tickets get counters for each warpgroup."""
    turns = kernel.MbarrierOp(TEAMS, WARPGROUP // WARP)
    turns.result.name_hint = "turns"
    last = [op for op in function.body.block.ops if isinstance(op, kernel.MbarrierOp)][-1]
    Rewriter.insert_op(turns, InsertPoint.after(last))
    for counter in dict.fromkeys(op.counter for op in role.walk() if isinstance(op, kernel.TicketOp)):
        _count_teams(function, counter)
    return turns.result


def _wait_in(team: Operation, number: int, turns: SSAValue) -> None:
    """Let a warpgroup multiply in its turns, and take tickets of its own."""
    fence = next(op for op in team.walk() if isinstance(order_of(op), FenceProducts))
    commit = next(op for op in team.walk() if _closes_products(op))
    steps = commit.parent_op()
    assert isinstance(steps, loop.ForOp)
    parity = AffineMap(1, 0, ((AffineExpr.dimension(0) + 1 - number) % TEAMS,))
    own, other = constant_place(number), constant_place(1 - number)
    Rewriter.insert_op(kernel.WaitPhaseOp(turns, own, (parity, [steps.iv])), InsertPoint.before(fence))
    Rewriter.insert_op(arrival_of_warp(turns, other), InsertPoint.after(commit))
    for ticket in [op for op in team.walk() if isinstance(op, kernel.TicketOp)]:
        (place,) = ticket.map.data.results
        map = AffineMap(ticket.map.data.num_dims, 0, (place * TEAMS + number,))
        ticket.properties["map"] = AffineMapAttr(map)


def _count_teams(function: kernel.FuncOp, counter: SSAValue) -> None:
    """Let a kernel have counters for each warpgroup, where it has them for all threads of a CTA."""
    assert isinstance(counter, BlockArgument)
    for value in (counter, *function.given(counter)):
        (count,) = memref_of(value).get_shape()
        Rewriter.replace_value_with_new_type(value, MemRefType(i32, [count * TEAMS]))
    types = [parameter.type for parameter in function.parameters]
    function.properties["function_type"] = FunctionType.from_lists(types, [])
