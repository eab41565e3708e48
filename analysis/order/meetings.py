"""Which accesses of shared memory may meet: touch the same element, by the same thread or by different ones."""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.ir import Operation, SSAValue

from deplodock.analysis.access.shared_accesses import SharedAccess, conditions_of
from deplodock.analysis.access.slabs import stand_in
from deplodock.analysis.affine.linear import Atom, Linear
from deplodock.analysis.affine.ranges import Range
from deplodock.analysis.operations import ancestors
from deplodock.analysis.order.ownership import Path, thread_of
from deplodock.dialects import kernel, loop


class Meetings:
    """The accesses of one kernel, and what is known of them."""

    def __init__(self, function: kernel.FuncOp) -> None:
        self._function = function
        self._roles = {op: role for role in function.roles for op in role.walk()}
        self._owners: dict[SharedAccess, Path | None] = {}
        self._told: dict[tuple[SharedAccess, SSAValue | None], bool] = {}
        self._ranges: dict[SharedAccess, list[Range | None]] = {}

    def team(self, op: Operation) -> kernel.Team:
        """What has the threads that run an operation."""
        return self._roles.get(op, self._function)

    def conflict(self, first: SharedAccess, second: SharedAccess) -> bool:
        """Whether different threads may touch the same element, and one of them write it."""
        if not (first.writes or second.writes) or not self.meet(first, second):
            return False
        owner = self._owner(first)
        is_of_one_team = self.team(first.op) is self.team(second.op)
        return owner is None or not is_of_one_team or owner != self._owner(second)

    def meet(self, first: SharedAccess, second: SharedAccess) -> bool:
        """Whether two accesses may touch the same element: the same buffer, and no subscript that is never equal."""
        if first.buffer is not second.buffer:
            return False
        pairs = zip(self._range(first), self._range(second), strict=True)
        return not any(a is not None and b is not None and (a[1] < b[0] or b[1] < a[0]) for a, b in pairs)

    def is_repeated(self, first: SharedAccess, second: SharedAccess, around: Sequence[SSAValue]) -> bool:
        """Whether two walks of one operation are of different iterations of the loops around, which elements tell."""
        if first is not second:
            return False
        return all(self._tells(second, root) for root in (None, *around))

    def _tells(self, access: SharedAccess, root: SSAValue | None) -> bool:
        """Whether the elements of an access tell the value of a coordinate, or without one the thread."""
        if (access, root) not in self._told:
            thread, (subscripts, _) = self._placed(access)
            self._told[access, root] = thread_of(root or thread, subscripts, access.width) is not None
        return self._told[access, root]

    def _placed(self, access: SharedAccess) -> tuple[SSAValue, tuple[Sequence[Linear], Sequence[Linear]]]:
        """The id of a thread, of those that guards leave of a team; the subscripts of an access and all conditions."""
        thread = self.team(access.op).thread_id
        guards = [guard for guard in ancestors(access.op) if isinstance(guard, loop.GuardOp)]
        forms = [form for guard in guards for form in conditions_of(guard)]
        left = [-form.constant for form in forms if form - form.constant == Linear.of(thread)]
        if not left:
            return thread, (access.subscripts, forms)
        one = stand_in(min(left))
        subscripts = [form.substitute(thread, Linear.of(one)) for form in access.subscripts]
        return one, (subscripts, [form.substitute(thread, Linear.of(one)) for form in forms])

    def _range(self, access: SharedAccess) -> list[Range | None]:
        """The least and greatest subscript along each dimension."""
        if access not in self._ranges:
            found = [form.range() for form in access.subscripts]
            self._ranges[access] = [
                bounds and (bounds[0], bounds[1] + extent - 1)
                for bounds, extent in zip(found, access.extents, strict=True)
            ]
        return self._ranges[access]

    def _owner(self, access: SharedAccess) -> Path | None:
        if access not in self._owners and not access.is_remote:
            thread, (subscripts, conditions) = self._placed(access)
            told = () if access.by_proxy else subscripts
            self._owners[access] = thread_of(thread, told, access.width, _zeros(conditions))
        return self._owners.get(access)


def _zeros(conditions: Sequence[Linear]) -> list[Atom]:
    """The ids, loop variables and remainders that conditions leave at 0."""
    found: list[Atom] = []
    for form in conditions:
        bounds = form.range()
        if bounds is not None and bounds[0] == form.constant == -1 and len(form.terms) == 1:
            found.append(form.terms[0][0])
    return found
