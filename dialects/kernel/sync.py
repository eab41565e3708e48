"""Operations of the kernel dialect that order accesses of shared memory: barriers, fences and groups of copies."""

from __future__ import annotations

from typing import ClassVar

from xdsl.dialects.builtin import IntegerAttr, i64
from xdsl.irdl import IRDLOperation, prop_def, traits_def
from xdsl.utils.exceptions import VerifyException

from deplodock.dialects.formats import op_definition
from deplodock.dialects.interfaces import Collective, Feature, Landing, NeedsFeature
from deplodock.dialects.kernel.order import CloseGroup, FenceProxy, Meet, OrdersAccesses, OrdersSharedMemory, WaitGroups


@op_definition
class BarrierOp(IRDLOperation, OrdersAccesses):
    """Waits for all threads of the CTA; their accesses to shared memory before it are seen by all accesses after it.

    kernel.barrier
    """

    name = "kernel.barrier"
    traits = traits_def(OrdersSharedMemory(), Collective())
    assembly_format = "attr-dict"

    def order(self) -> Meet:
        """All threads of the CTA meet."""
        return Meet()


@op_definition
class FenceProxyAsyncOp(IRDLOperation, OrdersAccesses, NeedsFeature):
    """Orders what this thread wrote to shared memory before copies of boxes that touch it, which see memory otherwise.

    What counts is memory that this thread wrote by itself, and the barriers with phases that it initialised. The fence
    stands before the barrier that hands them over.

        kernel.fence_proxy_async
    """

    name = "kernel.fence_proxy_async"
    traits = traits_def(OrdersSharedMemory())
    assembly_format = "attr-dict"

    def order(self) -> FenceProxy:
        """The thread fences."""
        return FenceProxy()

    def needs(self) -> Feature:
        """What copies of boxes need."""
        return Feature.BOXES


class ClosesGroup(IRDLOperation, OrdersAccesses):
    """Closes the group of what was started since the last group; it may be empty."""

    OF: ClassVar[Landing]
    """What the groups are of."""
    traits = traits_def(OrdersSharedMemory(), Collective())
    assembly_format = "attr-dict"

    def order(self) -> CloseGroup:
        """The thread closes its group."""
        return CloseGroup(self.OF)


class WaitsForGroups(IRDLOperation, OrdersAccesses):
    """Waits until all groups but the `pending` last ones are over."""

    OF: ClassVar[Landing]
    """What the groups are of."""
    pending = prop_def(IntegerAttr.constr(i64))
    traits = traits_def(OrdersSharedMemory(), Collective())
    assembly_format = "$pending attr-dict"

    def __init__(self, pending: int):
        super().__init__(properties={"pending": IntegerAttr(pending, i64)})

    def order(self) -> WaitGroups:
        """The thread waits for its groups."""
        return WaitGroups(self.pending.value.data, self.OF)

    def verify_(self) -> None:
        if self.pending.value.data < 0:
            raise VerifyException(f"the groups that may stay in flight are 0 or more, got {self.pending.value.data}")


@op_definition
class CommitGroupOp(ClosesGroup, NeedsFeature):
    """Closes the group of asynchronous moves that this thread has issued since its last group; it may be empty.

    kernel.commit_group
    """

    name = "kernel.commit_group"
    OF: ClassVar[Landing] = Landing.GROUP

    def needs(self) -> Feature:
        """Groups of copies."""
        return Feature.GROUPS


@op_definition
class WaitGroupOp(WaitsForGroups, NeedsFeature):
    """Waits until all groups of this thread but the `pending` last ones have landed.

    What landed is written by this thread here; other threads see it after a barrier.

        kernel.wait_group 1
    """

    name = "kernel.wait_group"
    OF: ClassVar[Landing] = Landing.GROUP

    def needs(self) -> Feature:
        """Groups of copies."""
        return Feature.GROUPS
