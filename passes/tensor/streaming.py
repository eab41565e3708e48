"""Puts a sum that is weighted by a softmax into one kernel with that softmax and its scores, as attention is.

Grouping leaves several kernels: of the scores, of the softmax, and of the sum of products with its shares. Together
they are one whose reductions stand in each other's loops; stream-reductions makes one loop of those, in which each
score is computed once. Here is the choice between the two, by their price, and nowhere else.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from math import prod

from xdsl.dialects import arith, math
from xdsl.dialects.builtin import f32
from xdsl.dialects.func import ReturnOp
from xdsl.ir import Block, Operation, SSAValue

from deplodock.analysis.affine.division import Division
from deplodock.analysis.affine.linear import Linear
from deplodock.analysis.machine.cost import Rates, Work
from deplodock.analysis.operations import reached, users_of
from deplodock.analysis.shape.fusion import Demand, Index, bytes_of, dependence, long_axes, new_loop
from deplodock.analysis.shape.streaming import approximates, folds, reassociates
from deplodock.dialects.engines import MMA, engine
from deplodock.dialects.precision import HIGH, precision_of
from deplodock.dialects.tensor import ElementwiseOp, IndexMapOp, InMemory, ReduceOp, element_of, shape_of
from deplodock.passes.tensor.decisions import Streams
from deplodock.passes.tensor.group import Group, new_index
from deplodock.schedule.choose.sizes import STREAM_LANES

LARGEST_SCORES = 2**33
"""The bytes of scores that are stored at most by default, those of 32 heads of 8,192 queries and keys in FP32. Shares
take as much again, and both grow with the square of the length."""

_STORED = 3
"""The factors that lie in memory: those of the scores, and the values that the shares weigh."""

_STEP = 64
"""Keys of a step of a single row, 16 of each warp of a CTA."""

STREAM_SHARE = 0.5
"""The share of the rate at which kernels of their own multiply that one kernel is taken to reach: it holds the tiles of
two products and of the scores at once. Tensor cores hold them in registers, and reach the whole rate."""


WAIT_NS = 1200.0
"""What each kernel of a chain takes beyond its price, as it waits for the one before. On an H200, causal in FP32, 32
heads of 128 rows of 64 take 12.2 us as three kernels, 9.5 as one; 28 heads of 128 x 128 take 16.0 and 17.6."""

START_NS = 4000.0
"""What each wave of CTAs of the one kernel takes beyond its price, as a CTA waits for its first keys and folds its last
sums; one of three kernels does so in its other CTAs. On an H200, in FP32, 1,576 heads of 2 rows of 64 took about 25 us
more as one kernel, in six waves, than as three."""

_CTAS = 2
"""CTAs of the one kernel that an SM runs at once in FP32."""


def stream_groups(groups: Sequence[Group], block: Block, rates: Rates, streams: Streams) -> list[Group]:
    """The groups of a block with each weighted sum in one group with its softmax and scores, as `streams` says."""
    left = list(groups)
    if streams == "never":
        return left
    demand = Demand(dependence(block))
    positions = {op: position for position, op in enumerate(block.ops)}
    for op in block.ops:
        if not isinstance(op, ReduceOp) or (softmax := _softmax_of(op, demand, positions)) is None:
            continue
        total, *others = _groups_of(softmax, left, positions)
        chain = [total, *others]
        refusal, stored = _refusal(softmax, chain, left), _stored_factors(softmax, chain, demand)
        is_narrow = _is_narrow(softmax, stored, rates) or _is_split(softmax, stored, chain, rates)
        is_alone = len(stored) == _STORED and _rows(softmax) == 1 and _stays_on_chip(softmax, stored, rates)
        is_large = bytes_of(softmax.scores) > LARGEST_SCORES
        if refusal is None and streams != "always" and not is_large:
            ctas = rates.sms if is_alone else total.ctas() if is_narrow else min(total.ctas(), _tiles(softmax))
            joined = _joined_ns(chain, rates, 1 if is_narrow or is_alone else STREAM_SHARE, ctas)
            joined += 0 if is_narrow or is_alone else _tiles(softmax) // (_CTAS * rates.sms) * START_NS
            apart = sum(group.nanoseconds(rates) + WAIT_NS for group in chain)
            price = f"one kernel costs {joined / 1000:.3f} us, {len(others) + 1} kernels {apart / 1000:.3f} us"
            refusal = None if joined <= apart else price
        if refusal is not None:
            total.refusals.append(f"its softmax is stored, not streamed: {refusal}")
        elif others:
            left = [group for group in left if group is not total and group not in others]
            left.append(_merged(total, others))
    return left


def weighs_by_softmax(block: Block) -> bool:
    """Whether a block has a sum that a softmax weighs, for which there is a choice."""
    demand = Demand(dependence(block))
    positions = {op: position for position, op in enumerate(block.ops)}
    return any(isinstance(op, ReduceOp) and _softmax_of(op, demand, positions) is not None for op in block.ops)


@dataclass(frozen=True)
class _Softmax:
    """The softmax whose shares a reduction adds up: the maximum of its scores, and what needs that on the way."""

    total: ReduceOp
    scores: SSAValue
    inside: frozenset[Operation]


def _softmax_of(op: ReduceOp, demand: Demand, positions: Mapping[Operation, int]) -> _Softmax | None:
    """The softmax that weighs the elements which a reduction adds, each with the share of its own place; or None."""
    if not folds(op, "addf") or len(along := long_axes(op)) != 1:
        return None
    axis = new_loop(shape_of(op.inputs[0])[along[0]]).iv
    (start,) = demand.operands(op, new_index(op.results[0]), [axis])
    found = _exponential(*start, demand)
    if found is None or found[0] is op.inputs[0]:
        return None
    exponential, index = found
    shift = exponential.owner.operands[0].owner if isinstance(exponential.owner, Operation) else None
    if not isinstance(shift, ElementwiseOp) or not isinstance(shift.body.block.first_op, arith.SubfOp):
        return None
    scores = shift.inputs[0]
    maxima = [use.operation for use in scores.uses if isinstance(use.operation, ReduceOp)]
    maxima = [maximum for maximum in maxima if folds(maximum, "maximumf")]
    walked = [d for d, form in enumerate(index) if form.depends_on(axis)]
    if len(maxima) != 1 or long_axes(maxima[0]) != walked or index[walked[0]] != Linear.of(axis):
        return None
    behind = _behind(op, positions[maxima[0]], positions)

    def users(one: Operation) -> list[Operation]:
        return [user for user in users_of(one) if user in behind]

    inside = reached([maxima[0]], users)
    return _Softmax(op, scores, frozenset(inside)) if op in inside else None


def _exponential(value: SSAValue, index: Index, demand: Demand) -> tuple[SSAValue, Index] | None:
    """The exponentials that a value is a multiple of, and the index of the one that an element is a multiple of."""
    op = value.owner
    if isinstance(op, IndexMapOp):
        ((value, index),) = demand.operands(op, index, ())
        return _exponential(value, index, demand)
    if not isinstance(op, ElementwiseOp) or len(list(op.body.block.ops)) != 2:
        return None
    match op.body.block.first_op:
        case math.ExpOp() as scalar if reassociates(scalar):
            return value, index
        case arith.DivfOp() as scalar if reassociates(scalar):
            sides = op.inputs[:1]
        case arith.MulfOp():
            sides = op.inputs
        case _:
            return None
    found = (_exponential(side, demand.normal(side, index), demand) for side in sides)
    return next((one for one in found if one is not None), None)


def _behind(op: Operation, first: int, positions: Mapping[Operation, int]) -> set[Operation]:
    """The operations that one is computed from, itself among them, from a position on."""

    def sources(one: Operation) -> list[Operation]:
        owners = [value.owner for value in one.operands]
        return [owner for owner in owners if isinstance(owner, Operation) and positions[owner] >= first]

    return reached([op], sources)


def _groups_of(softmax: _Softmax, groups: Sequence[Group], positions: Mapping[Operation, int]) -> list[Group]:
    """The groups of a softmax, that of the sum first, with the one that computes the scores as sums."""
    total = next(group for group in groups if softmax.total in group.indices)
    found = [group for group in groups if group is not total and not softmax.inside.isdisjoint(group.indices)]
    read = {
        group: [op for op in group.indices if isinstance(op, ReduceOp)]
        for group in groups
        if group not in (total, *found)
        and any(value in reader.reads for value in group.outputs for reader in (total, *found))
    }
    first = min((positions[op] for reductions in read.values() for op in reductions), default=0)
    scores = softmax.scores.owner
    behind = _behind(scores, first, positions) if isinstance(scores, Operation) else set[Operation]()
    sums = [group for group, reductions in read.items() if not behind.isdisjoint(reductions)]
    alone = sums if len(sums) == 1 and _stays_inside(sums[0], [total, *found], groups) else []
    return [total, *found, *alone]


def _refusal(softmax: _Softmax, chain: Sequence[Group], groups: Sequence[Group]) -> str | None:
    """Why the groups of a softmax cannot be one, or None."""
    total, *others = chain
    if any(isinstance(atom, Division) for form in total.indices[softmax.total][0] for atom, _ in form.terms):
        return "its kernel runs along a part of an axis, whose scores it would compute again for each of the rest"
    if not all(_stays_inside(group, chain, groups) for group in others):
        return "others need what it computes, too"
    if total.parts or len(total.outputs) > 1:
        return "the kernel of the sum stores more than that"
    return None


def _stays_inside(group: Group, chain: Sequence[Group], groups: Sequence[Group]) -> bool:
    """Whether only some groups need what a group stores."""
    if any(isinstance(use.operation, ReturnOp | InMemory) for value in group.outputs for use in value.uses):
        return False
    return all(value not in other.reads for other in groups if other not in chain for value in group.outputs)


def _rows(softmax: _Softmax) -> int:
    """The rows of scores side by side."""
    return (shape_of(softmax.scores)[-2:-1] or (1,))[0]


def _tiles(softmax: _Softmax) -> int:
    """The CTAs of threads that multiply, of the fewest rows."""
    *outer, _ = shape_of(softmax.scores)
    return prod(outer[:-1]) * -(-_rows(softmax) // STREAM_LANES)


def _stored_factors(softmax: _Softmax, chain: Sequence[Group], demand: Demand) -> list[SSAValue]:
    """The factors of the scores and of the weighted sum that lie in memory and are not stored by the chain."""
    inner, found = {value for group in chain for value in group.outputs}, list[SSAValue]()
    for group in chain:
        for op in group.indices:
            if isinstance(op, ReduceOp) and folds(op, "addf") and (op is softmax.total or op not in softmax.inside):
                factors = demand.factors(op, group.indices[op][0], group.reduction_axes[op], group.reads)
                found += [value for value, _ in factors if value in group.reads and value not in inner]
    return found


def _is_narrow(softmax: _Softmax, stored: Sequence[SSAValue], rates: Rates) -> bool:
    """Whether tensor cores take the products of the scores of several rows, and those with the shares.

    Factors are stored in half precision, and the exponentials may be as inexact.
    """
    exponentials = [op.body.block.first_op for op in softmax.inside if isinstance(op, ElementwiseOp)]
    if not rates.multiplies_narrow or _rows(softmax) == 1 or not any(map(approximates, exponentials)):
        return False
    return len(stored) == _STORED and all(engine(MMA, str(element_of(value))) is not None for value in stored)


def _is_split(softmax: _Softmax, stored: Sequence[SSAValue], chain: Sequence[Group], rates: Rates) -> bool:
    """Whether tensor cores take both products of several rows as sums of products of FP32 parts."""
    if not rates.multiplies_narrow or _rows(softmax) == 1 or len(stored) != _STORED:
        return False
    products = [
        op.body.block.first_op
        for group in chain
        for op in group.indices
        if isinstance(op, ElementwiseOp) and isinstance(op.body.block.first_op, arith.MulfOp)
    ]
    split = [product for product in products if precision_of(product) == HIGH]
    return len(split) == 2 and all(element_of(value) == f32 for value in stored)


def _stays_on_chip(softmax: _Softmax, stored: Sequence[SSAValue], rates: Rates) -> bool:
    """Whether `_STEP` keys and values stay in the shared memory of a CTA."""
    count = shape_of(softmax.scores)[-1]
    rows = [bytes_of(value) // prod(shape_of(value)) * _features(value, count) for value in stored]
    return _STEP * sum(sorted(rows)[-2:]) <= rates.shared_bytes


def _features(value: SSAValue, count: int) -> int:
    """The features of each of so many keys."""
    *_, rows, features = (1, *shape_of(value))
    return rows if features == count else features


def _joined_ns(chain: Sequence[Group], rates: Rates, share: float, ctas: int) -> float:
    """The nanoseconds of the one kernel of a chain: the work of all, and the bytes that do not stay inside.

    It multiplies at a share of the rate of kernels of their own.
    """
    _, *others = chain
    moved, work = 0, Work()
    inner = {value for group in others for value in group.outputs}
    for group in chain:
        bytes, own = group.traffic(rates)
        work += own
        moved += bytes - sum(bytes_of(value) for value in (*group.reads, *group.outputs) if value in inner)
    slower = replace(rates, instructions=rates.instructions * share)
    return slower.kernel_ns(max(0, moved), work, ctas)


def _merged(total: Group, others: Sequence[Group]) -> Group:
    """One group of all operations, which stores what the sum's does."""
    chain = (total, *others)
    indices = {op: found for group in chain for op, found in group.indices.items()}
    reads = {value: found for group in chain for value, found in group.reads.items() if value.owner not in indices}
    refusals = [text for group in chain for text in group.refusals]
    return replace(total, indices=indices, reads=reads, refusals=refusals)
