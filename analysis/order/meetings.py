"""Which accesses of shared memory may meet: touch the same element, by the same thread or by different ones."""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.ir import Operation, SSAValue

from deplodock.analysis.access.shared_accesses import SharedAccess, conditions_of
from deplodock.analysis.affine.linear import Atom
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
        self._told: dict[tuple[SharedAccess, SSAValue], bool] = {}
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
        roots = [self.team(first.op).thread_id, *around]
        return all(self._tells(second, root) for root in roots)

    def _tells(self, access: SharedAccess, root: SSAValue) -> bool:
        """Whether the elements of an access tell the value of a coordinate."""
        if (access, root) not in self._told:
            self._told[access, root] = thread_of(root, access.subscripts, access.width) is not None
        return self._told[access, root]

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
            subscripts = () if access.by_proxy else access.subscripts
            thread = self.team(access.op).thread_id
            self._owners[access] = thread_of(thread, subscripts, access.width, _zeros(access.op))
        return self._owners.get(access)


def _zeros(op: Operation) -> list[Atom]:
    """The ids, loop variables and remainders that guards around an operation leave at 0."""
    found: list[Atom] = []
    for guard in ancestors(op):
        for form in conditions_of(guard) if isinstance(guard, loop.GuardOp) else ():
            bounds = form.range()
            if bounds is not None and bounds[0] == form.constant == -1 and len(form.terms) == 1:
                found.append(form.terms[0][0])
    return found
