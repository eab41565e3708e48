"""Decides which operations of a function share a kernel, in one sweep from its results to its arguments."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import combinations
from typing import cast

from xdsl.dialects import arith, func
from xdsl.dialects.builtin import StringAttr
from xdsl.ir import Block, Operation, SSAValue

from deplodock.analysis.affine.linear import extent_of
from deplodock.analysis.machine.cost import Rates
from deplodock.analysis.operations import reached, users_of
from deplodock.analysis.shape.fusion import (
    Demand,
    Index,
    TensorOp,
    axis_of,
    bytes_of,
    dependence,
    knows_low_part,
    narrows,
    reducing,
    unify,
    widens,
)
from deplodock.analysis.shape.masking import masks, pads_reductions
from deplodock.dialects.tensor import (
    ConcatOp,
    ElementwiseOp,
    GatherOp,
    IndexMapOp,
    InMemory,
    IotaOp,
    PadOp,
    ReduceOp,
    ScanOp,
    shape_of,
)
from deplodock.passes.remarks import failure
from deplodock.passes.tensor.group import FUSE, MAX_INDICES, MAX_INSTRUCTIONS, MAX_PARAMETERS, Group
from deplodock.passes.tensor.pricing import Price, Pricing

Needs = dict[Group, list[Index]]
"""The kernels that need an operation, each with the indices at which it does."""


class Grouping:
    """The kernels of a block of tensor operations.

    Every operation is decided once, after all that use it: it joins the kernel that needs it, or is computed in each
    of several, or is stored by a kernel of its own, whichever costs less. A decision looks at the operation's users
    and at a bounded number of operations behind it, and keeps at most MAX_INDICES indices for each kernel.
    """

    def __init__(self, block: Block, rates: Rates, *, weighs: bool = False) -> None:
        """Decide all operations; `weighs` is whether to note what else is possible, in `alternatives`."""
        self.groups: list[Group] = []
        self.alternatives: list[tuple[TensorOp, str, float]] = []
        """Operations, the modes that are possible and may change their kernels, and the nanoseconds which they add."""
        self._weighs = weighs
        self._cuts = set[Operation]()
        """Operations that might be stored where they are not, or what uses them in their place."""
        self._created = 0
        self._reducing = reducing(block)
        self._demand = Demand(dependence(block))
        positions = {op: position for position, op in enumerate(block.ops)}
        self._pricing = Pricing(self._demand, rates, positions)
        self._homes: dict[Operation, list[Group]] = {}
        for op in reversed(list(block.ops)):
            if isinstance(op, TensorOp):
                self._decide(op)
        self._merge_scalars()

    def _decide(self, op: TensorOp) -> None:
        needs = self._needs(op)
        kept = any(isinstance(use.operation, func.ReturnOp | InMemory) for result in op.results for use in result.uses)
        if not needs and not kept:
            return
        mode = _fuse_mode(op)
        if mode == "never" and isinstance(op, arith.ConstantOp):
            raise failure(op, f'{FUSE} = "never" is not possible: a constant is in every kernel that needs it')
        if mode == "never":
            refusal = f'{FUSE} = "never"'
        else:
            needs = self._merged(op, needs)
            price = self._price_of_both(op, needs, kept) if self._weighs and mode is None else None
            refusal = self._join(op, needs, kept, mode == "always")
            if price is not None:
                self._note(op, price, is_joined=refusal is None)
            if refusal is not None and mode is None and self._stored_by_one(op, needs):
                return
        if refusal is None:
            return
        if mode == "always":
            raise failure(op, f'deplodock.fuse = "always" is not possible: {refusal}')
        for group in needs:
            group.refusals.append(f"{_name_of(op)} is stored, not fused: {refusal}")
        if isinstance(op, ReduceOp) and not kept and (cast := self._narrowing(op)) is not None:
            self._store_narrow(op, cast)
        else:
            self._homes[op] = [self._store(op)]

    def _stored_by_one(self, op: TensorOp, needs: Needs) -> bool:
        """Have one of the kernels that need `op` compute and store it for the others, if that costs less."""
        if len(needs) < 2:
            return False
        for group, indices in needs.items():
            if len(needs.keys() & reached([group], self._behind)) > 1:
                continue  # It waits for another one.
            if self._join(op, {group: indices}, kept=True, always=False) is None:
                return True
        return False

    def _narrowing(self, op: ReduceOp) -> TensorOp | None:
        """The cast to a narrower type that alone needs the results of `op`, itself needed by one kernel."""
        users = {use.operation for result in op.results for use in result.uses}
        cast = users.pop() if len(users) == 1 else None
        if not isinstance(cast, ElementwiseOp) or cast.attributes or not narrows(cast):
            return None
        is_output = any(cast.outputs[0] in group.outputs for group in self._homes[cast])
        return None if is_output or len(self._homes[cast]) > 1 else cast

    def _store_narrow(self, op: ReduceOp, cast: TensorOp) -> None:
        """Store what a cast makes of the results of `op`, which are of more bytes, in a kernel of both."""
        (user,) = self._homes[cast]
        user.remove(cast)
        home = self._store(cast)
        self._homes[cast] = [home]
        home.add(op, self._needs(op)[home])
        self._homes[op] = [home]

    def _store(self, op: TensorOp) -> Group:
        group = Group.around(self._created, op, self._demand)
        self._created += 1
        self.groups.append(group)
        return group

    def _needs(self, op: TensorOp) -> Needs:
        found: dict[Group, dict[Index, None]] = {}
        for result in op.results:
            for user in dict.fromkeys(use.operation for use in result.uses):
                for group in self._homes.get(user, ()):
                    needed = group.demands(cast(TensorOp, user)).get(result, {})
                    found.setdefault(group, {}).update(needed)
        return {group: list(found[group]) for group in sorted(found, key=lambda group: group.number)}

    def _price_of_both(self, op: TensorOp, needs: Needs, kept: bool) -> Price | None:
        """The prices of an operation where there is a choice: no limit keeps it out of the kernels that need it.

        Products of a contraction are as many as both its factors have elements together, and are not stored.
        """
        is_product = isinstance(op, ElementwiseOp) and any(map(self._contracts, users_of(op)))
        if isinstance(op, arith.ConstantOp) or _stays(op) or is_product:
            return None
        return None if self._limit(op, needs, kept, may_ask=True) is not None else self._pricing.of(op, needs, kept)

    def _contracts(self, op: Operation) -> bool:
        return isinstance(op, ReduceOp) and self._demand.contracts(op)

    def _note(self, op: TensorOp, price: Price, *, is_joined: bool) -> None:
        """Note the other fate of an operation, unless another one can be stored in its place that is no larger.

        That is what an index map reads, or else an elementwise operation that alone uses it.
        """
        if not is_joined:
            self.alternatives.append((op, "always", price.joined - price.stored))
            return
        if isinstance(op, IndexMapOp) and (_is_computed(op.source) or bytes_of(op.source) < bytes_of(op.result)):
            return
        self._cuts.add(op)
        users = {use.operation for result in op.results for use in result.uses} & self._cuts
        if not any(isinstance(user, ElementwiseOp) and _is_alone(user, op) for user in users):
            self.alternatives.append((op, "never", price.stored - price.joined))

    def _join(self, op: TensorOp, needs: Needs, kept: bool, always: bool) -> str | None:
        """Put `op` into the kernels that need it, or say why not."""
        if isinstance(op, arith.ConstantOp):
            return self._join_constant(op, needs, kept)
        refusal = self._limit(op, needs, kept)
        if refusal is None and not always and not self._is_free(op, needs):
            price = self._pricing.of(op, needs, kept)
            refusal = None if price.joined <= price.stored else str(price)
        if refusal is not None:
            return refusal
        for group, indices in needs.items():
            group.add(op, indices)
            if kept and (index := self._output_index(op, group, indices)) is not None:
                for result in op.results:
                    group.add_output(result, index)
        self._homes[op] = list(needs)
        return None

    def _limit(self, op: TensorOp, needs: Needs, kept: bool, *, may_ask: bool = False) -> str | None:
        """What keeps `op` out of the kernels that need it, whatever that costs, or None; `may_ask` see `refusal`."""
        if not needs:
            return "it is returned"
        uses = [(use.operation, result) for result in op.results for use in result.uses]
        if any(isinstance(user, GatherOp) and user.source is result for user, result in uses):
            return "a gather reads it where an index tensor says"
        if any(isinstance(user, PadOp) for user, _ in uses):
            return "a pad reads it, or zeros beyond its ends"
        refusal = self._kept_refusal(op, needs) if kept else None
        if all(isinstance(user, ConcatOp) for user, _ in uses) and _ends_reduction(op):
            refusal = refusal or "the kernel of the reduction can store it in its place in the concat"
        if isinstance(op, ReduceOp) and len(needs) > 1:
            refusal = refusal or "several kernels need the reduction"
        for group, indices in needs.items():
            refusal = refusal or group.refusal(op, indices, may_ask=may_ask)
        return refusal

    def _join_constant(self, op: arith.ConstantOp, needs: Needs, kept: bool) -> str | None:
        """A constant is in every kernel that needs it, and in one of its own if it is returned."""
        for group, indices in needs.items():
            group.add(op, indices)
        self._homes[op] = list(needs)
        if kept:
            self._homes[op].append(self._store(op))
        return None

    def _kept_refusal(self, op: TensorOp, needs: Needs) -> str | None:
        """Why a value that the function also returns cannot be one more output of the kernel that needs it."""
        if any(isinstance(use.operation, InMemory) for result in op.results for use in result.uses):
            return "another kernel reads it"
        if len(needs) > 1:
            return "it is returned, and several kernels need it"
        ((group, indices),) = needs.items()
        if self._output_index(op, group, indices) is None:
            return "it is returned, and the kernel has no place where it computes each of its elements once"
        return None

    def _output_index(self, op: TensorOp, group: Group, indices: list[Index]) -> Index | None:
        """Where a kernel that computes `op` can store it; a row may be computed again in the loops of reductions."""
        shape, reduces = shape_of(op.results[0]), op.results[0] in self._reducing
        return next((index for index in indices if group.can_output(index, shape, reduces)), None)

    def _is_free(self, op: TensorOp, needs: Needs) -> bool:
        """Whether computing `op` where it is needed surely costs less than storing it."""
        if _stays(op):
            return True
        if isinstance(op, ReduceOp) or len(needs) > 1:
            return isinstance(op, IndexMapOp | IotaOp)
        ((group, indices),) = needs.items()
        return len(indices) < 2 and not any(group.computes_often(i, shape_of(op.results[0])) for i in indices)

    def _merged(self, op: TensorOp, needs: Needs) -> Needs:
        """The needs after merging kernels that compute `op` at the same points, so that they share it."""
        if len(needs) < 2 or isinstance(op, IndexMapOp | arith.ConstantOp):
            return needs
        left = dict(needs)
        by_size = sorted(needs, key=lambda group: (-len(group.axes), group.number))
        for base, other in combinations(by_size, 2):
            if base not in left or other not in left:
                continue
            values = self._common_axes(op, base, needs[base], other, needs[other])
            if values is None or not self._shares_rows(op, needs, base, other, values):
                continue
            self._absorb(base, other, values)
            del left[other]
        return left

    def _merge_scalars(self) -> None:
        """Have one kernel compute all single numbers that do not wait for each other: they cost a launch, not work."""
        scalars = [group for group in self.groups if not group.axes and not group.reduction_axes and not group.parts]
        for base, other in combinations(scalars, 2):
            known = base in self.groups and other in self.groups
            if known and not (_too_large(base, other) or self._reaches(base, other) or self._reaches(other, base)):
                self._absorb(base, other, {})

    def _absorb(self, base: Group, other: Group, values: Mapping[SSAValue, SSAValue]) -> None:
        """Have `base` compute all of `other`, whose axes are its `values`."""
        base.absorb(other, values)
        self.groups.remove(other)
        for op in other.indices:
            self._homes[op] = list(dict.fromkeys(base if g is other else g for g in self._homes[op]))

    def _shares_rows(
        self, op: TensorOp, needs: Needs, base: Group, other: Group, values: Mapping[SSAValue, SSAValue]
    ) -> bool:
        """Whether a kernel may have rows as its CTAs: it has them already, or two kernels would cost more.

        A concat is in memory for both.
        """
        if base.rows is not None or len(values) == len(base.axes):
            return True
        return not isinstance(op, ConcatOp) and self._pricing.merging(
            op, {base: needs[base], other: needs[other]}, values
        )

    def _common_axes(
        self, op: TensorOp, base: Group, base_indices: list[Index], other: Group, other_indices: list[Index]
    ) -> dict[SSAValue, SSAValue] | None:
        """The axis of `base` that each axis of `other` is, if both compute `op` at the same points and may merge."""
        if len(base_indices) != 1 or len(other_indices) != 1 or base.parts or other.parts:
            return None
        forms = unify(other_indices[0], base_indices[0], other.axes)
        if forms is None:
            return None
        values = {axis: found for axis, form in forms.items() if (found := axis_of(form)) is not None}
        image = frozenset(values.values())
        if len(image) < len(other.axes) or any(extent_of(a) != extent_of(b) for a, b in values.items()):
            return None
        moved = None if other.rows is None else frozenset(values[axis] for axis in other.rows)
        if base.rows is not None and moved is not None and base.rows != moved:
            return None
        rows = moved if base.rows is None else base.rows
        if rows is None and op.results[0] in self._reducing:
            rows = image
        if image not in (frozenset(base.axes), rows):
            return None
        if _scans_clash(base, other, values, rows) or _too_large(base, other):
            return None
        if self._reaches(base, other) or self._reaches(other, base):
            return None
        return values

    def _reaches(self, start: Group, goal: Group) -> bool:
        """Whether `goal` reads something that is computed from an output of `start`."""
        return start in reached([goal], self._behind)

    def _behind(self, kernel: Group | InMemory) -> Iterator[Group | InMemory]:
        """The kernels that store what a kernel reads: of the operations that are decided by now."""
        for value in kernel.operands if isinstance(kernel, InMemory) else kernel.reads:
            source = value.owner
            if isinstance(source, InMemory):
                yield source
            elif isinstance(source, Operation):
                yield from (group for group in self._homes.get(source, ()) if value in group.outputs)


def _scans_clash(base: Group, other: Group, values: dict[SSAValue, SSAValue], rows: frozenset[SSAValue] | None) -> bool:
    """Whether two kernels, of which one has axes that are `values` in the other, have scans that keep them apart."""
    moved = other.course_along(values)
    if moved is not None and (len(values) < len(base.axes) or base.course_refusal(moved) is not None):
        return True
    course = moved or base.course
    return course is not None and (bool(other.contractions) or course.axis in (rows or ()))


def _too_large(base: Group, other: Group) -> bool:
    """Whether the union of two kernels breaks a limit that does not depend on their spaces."""
    reads = {value for value in (*base.reads, *other.reads) if value.owner not in base.indices}
    shared = [op for op in other.indices if op in base.indices]
    return (
        bool(base.contractions and other.contractions)
        or len(reads) + len(base.outputs) + len(other.outputs) > MAX_PARAMETERS
        or base.instructions + other.instructions > MAX_INSTRUCTIONS
        or any(len(base.indices[op]) + len(other.indices[op]) > MAX_INDICES for op in shared)
    )


def _stays(op: TensorOp) -> bool:
    """Whether an operation is computed where it is needed, if it can be.

    That holds where fewer bytes are read then, for a mask that is known from coordinates alone, for padding that a
    reduction leaves out, and for zeros around what is read.
    """
    return widens(op) or knows_low_part(op) or masks(op) or pads_reductions(op) or isinstance(op, PadOp)


def _is_computed(value: SSAValue) -> bool:
    """Whether a value is computed by an operation that might store it."""
    return isinstance(value.owner, TensorOp) and not isinstance(value.owner, arith.ConstantOp)


def _is_alone(user: Operation, op: Operation) -> bool:
    """Whether nothing else uses an operation, and what the user makes of it takes no more bytes."""
    is_less = sum(map(bytes_of, user.results)) <= sum(map(bytes_of, op.results))
    return is_less and all(use.operation is user for result in op.results for use in result.uses)


def _ends_reduction(op: TensorOp) -> bool:
    """Whether an operation computes what follows a reduction or a scan, element by element."""
    shape = shape_of(op.results[0])

    def sources(one: Operation) -> list[Operation]:
        """What computes elements for those of an elementwise operation."""
        if not isinstance(one, ElementwiseOp):
            return []
        return [value.owner for value in one.inputs if isinstance(value.owner, ElementwiseOp | ReduceOp | ScanOp)]

    found = reached([op], sources)
    return any(
        one is not op and not isinstance(one, ElementwiseOp) and shape_of(one.results[0]) == shape for one in found
    )


def _fuse_mode(op: Operation) -> str | None:
    match op.attributes.get(FUSE):
        case None:
            return None
        case StringAttr(data="never" | "always" as mode):
            return mode
        case other:
            raise failure(op, f'{FUSE} must be "never" or "always", not {other}')


def _name_of(op: Operation) -> str:
    hint = op.results[0].name_hint
    return f"%{hint}" if hint else op.name
