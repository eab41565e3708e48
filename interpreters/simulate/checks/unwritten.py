"""Values of memory that nobody wrote: they are unspecified, so they may be copied and computed with, but not count.

A value of a lane that comes from such memory has an origin: the tag of the element and of the op that read it; all
others have 0. Copies carry origins along, and a scalar operation those of its operands, but a select only those of what
it chooses, as LLVM's poison. It is a finding where one counts: in a store to global memory, in a condition or a bound,
or in the subscripts of a store. MemorySanitizer finds reads of uninitialised memory in this way (Stepanov and
Serebryany, CGO 2015).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from xdsl.dialects import arith
from xdsl.ir import Operation, SSAValue

from deplodock.dialects.interfaces import accesses_of
from deplodock.dialects.kernel import MmaOp
from deplodock.interpreters.simulate import report as kinds
from deplodock.interpreters.simulate.access import MemoryUnit
from deplodock.interpreters.simulate.lanes import Frame
from deplodock.interpreters.simulate.memory import Buffer, Registers, read_by
from deplodock.interpreters.simulate.report import Report
from deplodock.interpreters.values import Array


class Origins:
    """The origins of the values of one launch, those that have any."""

    def __init__(self, memory: MemoryUnit, buffers: Mapping[SSAValue, Buffer | Registers], report: Report) -> None:
        self._memory = memory
        self._buffers = buffers
        self._report = report
        self._origins: dict[SSAValue, Array] = {}

    def of(self, values: Sequence[SSAValue]) -> Array | None:
        """The origins of what depends on these values; None if there are none."""
        result: Array | None = None
        for value in values if self._origins else ():
            result = joined(result, self._origins.get(value))
        return result

    def note(self, value: SSAValue, origin: Array | None) -> None:
        """Note the origins of a value that has just been computed."""
        if origin is not None and origin.any():
            self._origins[value] = origin
        elif self._origins:
            self._origins.pop(value, None)

    def note_scalar(self, op: Operation, operands: Sequence[Array]) -> None:
        """Note the origins of the result of a scalar operation on these operands."""
        if not self._origins:
            return
        origin = self.of(op.operands)
        if origin is not None and isinstance(op, arith.SelectOp):
            lhs, rhs = (self._origins.get(value, np.asarray(0)) for value in (op.lhs, op.rhs))
            origin = joined(self.of([op.cond]), np.where(operands[0], lhs, rhs))
        self.note(op.results[0], origin)

    def count(self, op: Operation, origin: Array | None, frame: Frame) -> None:
        """Report the active lanes at which an operation counts what has origins."""
        if origin is None:
            return
        tags = np.where(True if frame.mask is None else frame.mask, origin, 0)
        reads, elements = read_by(tags)
        for number in np.unique(reads[tags != 0]).tolist():
            self._report_counted(op, number, elements, (tags != 0) & (reads == number), frame)

    def _report_counted(self, op: Operation, number: int, elements: Array, lanes: Array, frame: Frame) -> None:
        read = self._memory.ops[number]

        def message() -> str:
            position = frame.first(lanes)
            if isinstance(read, MmaOp):
                return (
                    f"an element of a fragment holds no value yet, and {self._report.reference(op)} in "
                    f"{self._memory.lane(position)} depends on it"
                )
            buffer = _source(read)
            layout = self._buffers[buffer].layout
            element = int(np.broadcast_to(elements, frame.shape)[position]) % max(1, layout.size)
            return (
                f"{self._report.names.value(buffer)}{layout.element(element)} holds no value yet, and "
                f"{self._report.reference(op)} in {self._memory.lane(position)} depends on it"
            )

        self._report.add(kinds.UNWRITTEN_READ, read, frame.count(lanes), message)


def joined(a: Array | None, b: Array | None) -> Array | None:
    """The origins of what depends on two values; where both have one, one of them."""
    if a is None or b is None:
        return b if a is None else a
    return np.maximum(a, b)


def _source(read: Operation) -> SSAValue:
    """What an operation reads memory of."""
    return next(access.buffer for access in accesses_of(read) if not access.writes)
