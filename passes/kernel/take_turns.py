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
from xdsl.ir import BlockArgument, SSAValue
from xdsl.ir.affine import AffineExpr, AffineMap
from xdsl.passes import ModulePass
from xdsl.rewriter import InsertPoint, Rewriter

from deplodock.analysis.machine.targets import WARP
from deplodock.dialects import kernel, loop
from deplodock.dialects.buffers import Memory, memref_of
from deplodock.dialects.interfaces import Collective, Landing, Place, accesses_of
from deplodock.dialects.kernel.wgmma import WARPGROUP

TEAMS = 2
"""The warpgroups that take turns."""

_OF_WARPGROUPS = (kernel.WgmmaOp, kernel.WgmmaFenceOp, kernel.WgmmaCommitOp, kernel.WgmmaWaitOp)
"""The collective operations that each warpgroup reaches by itself."""


@dataclass(frozen=True)
class TakeTurnsPass(ModulePass):
    """Let two warpgroups that do more than multiply multiply in turns."""

    name = "take-turns"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        for function in kernel.functions(op):
            for role in [each for each in function.body.walk() if isinstance(each, kernel.RoleOp)]:
                if role.num_threads == TEAMS * WARPGROUP and _can_take_turns(role):
                    _take_turns(function, role)


def _can_take_turns(role: kernel.RoleOp) -> bool:
    """Whether the steps of a role's loop multiply once and do other work, too, and its warpgroups can be apart.

    Threads of a role that are to be apart do not meet, and write no shared memory for each other.
    """
    ops = list(role.body.walk())
    commits = [op for op in ops if isinstance(op, kernel.WgmmaCommitOp)]
    steps = commits[0].parent_op() if len(commits) == 1 else None
    if not isinstance(steps, loop.ForOp) or steps.parent_op() is not role or (steps.trips or 0) < TEAMS:
        return False
    meets = any(op.has_trait(Collective) and not isinstance(op, (*_OF_WARPGROUPS, kernel.TicketOp)) for op in ops)
    shares = any(access.writes and access.memory is Memory.SHARED for op in ops for access in accesses_of(op))
    works = any(access.lands is not Landing.PRODUCT for op in steps.body.walk() for access in accesses_of(op))
    return works and not meets and not shares


def _take_turns(function: kernel.FuncOp, role: kernel.RoleOp) -> None:
    """Split a role into one for each warpgroup, of which each waits for the products of the other."""
    roles = role.parent_op()
    assert isinstance(roles, kernel.RolesOp)
    assert roles.parent is not None
    turns = kernel.MbarrierOp(TEAMS, WARPGROUP // WARP)
    turns.result.name_hint = "turns"
    last = [op for op in roles.parent.ops if isinstance(op, kernel.MbarrierOp)][-1]
    Rewriter.insert_op(turns, InsertPoint.after(last))
    for counter in dict.fromkeys(op.counter for op in role.body.walk() if isinstance(op, kernel.TicketOp)):
        _count_teams(function, counter)
    made = [_team(role, number, turns) for number in range(TEAMS)]
    Rewriter.insert_op(made, InsertPoint.before(role))
    Rewriter.erase_op(role)


def _team(role: kernel.RoleOp, number: int, turns: kernel.MbarrierOp) -> kernel.RoleOp:
    """The role of one warpgroup."""
    copy = role.clone()
    body = copy.detach_region(copy.body)
    team = kernel.RoleOp(f"{role.role_name}_{number}", WARPGROUP, body, role.num_registers)
    team.location, team.attributes = role.location, dict(role.attributes)
    id = team.thread_id
    id.name_hint = role.thread_id.name_hint
    if number:
        index = loop.IndexOp(AffineMap(1, 0, (AffineExpr.dimension(0) + number * WARPGROUP,)), [id])
        index.result.name_hint = id.name_hint
        id.replace_uses_with_if(index.result, lambda use: use.operation is not index)
        Rewriter.insert_op(index, InsertPoint.at_start(team.body.block))
    fence = next(op for op in team.body.walk() if isinstance(op, kernel.WgmmaFenceOp))
    commit = next(op for op in team.body.walk() if isinstance(op, kernel.WgmmaCommitOp))
    steps = commit.parent_op()
    assert isinstance(steps, loop.ForOp)
    parity = AffineMap(1, 0, ((AffineExpr.dimension(0) + 1 - number) % 2,))
    Rewriter.insert_op(kernel.WaitPhaseOp(turns.result, _slot(number), (parity, [steps.iv])), InsertPoint.before(fence))
    for ticket in [op for op in team.body.walk() if isinstance(op, kernel.TicketOp)]:
        (place,) = ticket.map.data.results
        map = AffineMap(ticket.map.data.num_dims, 0, (place * TEAMS + number,))
        ticket.properties["map"] = AffineMapAttr(map)
    other = kernel.ArriveOp(turns.result, _slot(1 - number), is_warp=True)
    Rewriter.insert_op(other, InsertPoint.after(commit))
    return team


def _count_teams(function: kernel.FuncOp, counter: SSAValue) -> None:
    """Let a kernel have counters for each warpgroup, where it has them for all threads of a CTA."""
    for value in (counter, *_given(function, counter)):
        (count,) = memref_of(value).get_shape()
        Rewriter.replace_value_with_new_type(value, MemRefType(i32, [count * TEAMS]))
    types = [parameter.type for parameter in function.parameters]
    function.properties["function_type"] = FunctionType.from_lists(types, [])


def _given(function: kernel.FuncOp, counter: SSAValue) -> dict[SSAValue, None]:
    """The counters that launches of a kernel give it."""
    assert isinstance(counter, BlockArgument)
    module = function.parent_op()
    assert module is not None
    launches = [op for op in module.walk() if isinstance(op, kernel.LaunchOp)]
    own = [op for op in launches if op.callee.string_value() == function.sym_name.data]
    return dict.fromkeys(op.arguments[counter.index] for op in own)


def _slot(number: int) -> Place:
    return AffineMap(0, 0, (AffineExpr.constant(number),)), []
