"""What accesses of memory cost, as counts; it finds no mistakes."""

from __future__ import annotations

from deplodock.dialects.interfaces import Access
from deplodock.interpreters.simulate.access import Check, Touch
from deplodock.interpreters.simulate.checks.warps import sectors, warps, wavefronts
from deplodock.interpreters.simulate.lanes import Frame
from deplodock.interpreters.simulate.memory import Buffer
from deplodock.interpreters.values import Array


class Costs(Check):
    """Counts the bytes, sectors and wavefronts of the accesses of lanes; of boxes the bytes."""

    def on_touch(self, touch: Touch) -> None:
        """Count an access of shared or global memory."""
        access, buffer, frame = touch.access, touch.buffer, touch.frame
        if not isinstance(buffer, Buffer):
            return
        counters, bytes = self.memory.counters, access.width * buffer.layout.dtype.itemsize
        total = frame.active * bytes
        rows, times = warps(touch.address, frame.mask, frame.shape)
        memory = "shared" if self.memory.is_shared(buffer) else "global"
        is_async = access.lands is not None
        kind = (memory, "write" if access.writes else "read")
        counters.widest[kind] = max(bytes, counters.widest.get(kind, 0))
        if memory == "shared":
            needed, ideal = wavefronts(rows, bytes)
            counters.shared_wavefronts += needed * times
            counters.shared_ideal_wavefronts += ideal * times
            counters.shared_bytes_written += total * access.writes
            counters.shared_bytes_read += total * (not access.writes)
            counters.async_bytes += total * is_async
            counters.async_wavefronts += needed * times * is_async
            counters.async_ideal_wavefronts += ideal * times * is_async
        elif access.writes:
            counters.global_bytes_written += total
            counters.global_sectors_written += sectors(rows, bytes) * times
        else:
            touched = sectors(rows, bytes) * times
            counters.global_bytes_read += total
            counters.global_sectors_read += touched
            counters.async_sectors += touched * is_async

    def on_box(self, access: Access, buffer: Buffer, start: Array, elements: int, frame: Frame) -> None:
        """Count the bytes of a box."""
        counters, bytes = self.memory.counters, frame.active * elements * buffer.layout.dtype.itemsize
        if access.writes:
            counters.shared_bytes_written += bytes
            counters.global_bytes_read += bytes
        else:
            counters.shared_bytes_read += bytes
