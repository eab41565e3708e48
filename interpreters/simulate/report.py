"""What a simulation reports: findings, each once an op, and the counts of each kernel."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from io import StringIO

from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Operation, SSAValue
from xdsl.printer import Printer

from deplodock.analysis.operations import ancestors, position_of
from deplodock.dialects.kernel import FuncOp

DATA_RACE = "data race"
DIVERGENT_BARRIER = "divergent barrier"
DIVERGENT_SHUFFLE = "divergent shuffle"
DIVERGENT_MMA = "divergent mma"
DIVERGENT_WARPGROUP = "divergent warpgroup"
UNREADABLE_TILE = "unreadable tile"
OUT_OF_BOUNDS = "out of bounds"
UNWRITTEN_READ = "unwritten read"
READ_IN_FLIGHT = "read in flight"
UNWRITTEN_OUTPUT = "unwritten output"
MISALIGNED_ACCESS = "misaligned access"
INCOMPLETE_PHASE = "phase never completes"
WRONG_PHASE = "wrong phase"
WRONG_BYTES = "wrong byte count"
MISALIGNED_SLOT = "misaligned slot"
MISSING_FENCE = "missing proxy fence"
REPEATED_ISSUE = "repeated issue"
UNFINISHED_STORE = "unfinished store"
UNINITIALISED_BARRIER = "uninitialised barrier"
OPEN_TICKET = "open ticket"
MISSING_CLUSTER_BARRIER = "missing cluster barrier"
DYNAMIC_REGISTER_INDEX = "dynamic register index"


@dataclass(frozen=True)
class Finding:
    """Something that a program must not do, at one op: the first time it happened, and how often it did.

    `location` is `file:line:column` for an op read from a file, else `kernel @name`.
    """

    kind: str
    message: str
    location: str
    op: Operation = field(repr=False)
    count: int

    def __str__(self) -> str:
        times = "" if self.count == 1 else f" ({self.count} times)"
        return f"{self.location}: {self.kind}: {self.message}{times}"


@dataclass
class Counters:
    """Counts of one kernel, summed over its launches, CTAs and threads.

    A sector is 32 aligned bytes of global memory, counted once for each access of a warp. A wavefront is one pass over
    the 32 banks of 4 bytes of shared memory; without bank conflicts an access takes `shared_ideal_wavefronts`. What
    asynchronous copies do is counted with the rest and once more by itself, their bytes once. A lane step is one op run
    by one thread. `widest` maps (memory, direction), such as ("global", "read"), to the bytes of the
    widest access of a thread.
    """

    global_bytes_read: int = 0
    global_bytes_written: int = 0
    global_sectors_read: int = 0
    global_sectors_written: int = 0
    shared_bytes_read: int = 0
    shared_bytes_written: int = 0
    shared_wavefronts: int = 0
    shared_ideal_wavefronts: int = 0
    async_bytes: int = 0
    async_sectors: int = 0
    async_wavefronts: int = 0
    async_ideal_wavefronts: int = 0
    barriers: int = 0
    lane_steps: int = 0
    widest: dict[tuple[str, str], int] = field(default_factory=dict[tuple[str, str], int])


class ValueNames(Printer):
    """The text of each op (without its regions) and the name of each value, as the printed module has them."""

    def __init__(self, module: ModuleOp) -> None:
        self._text = StringIO()
        super().__init__(self._text)
        self._ops: dict[Operation, str] = {}
        self.print_op(module)

    def print_op(self, op: Operation) -> None:
        """Print an op and keep its first line."""
        start = self._text.tell()
        super().print_op(op)
        end = self._text.tell()
        self._text.seek(start)
        line = self._text.readline().rstrip("\n")
        self._text.seek(end)
        self._ops[op] = line.removesuffix("{").rstrip() if op.regions else line

    def op(self, op: Operation) -> str:
        """The first line of an op of the module."""
        return self._ops[op]

    def value(self, value: SSAValue) -> str:
        """The name of a value of the module, such as `%acc`."""
        return f"%{self.print_ssa_value(value)}"


def kernel_of(op: Operation) -> FuncOp | None:
    """The kernel that an op is in."""
    return next((around for around in (op, *ancestors(op)) if isinstance(around, FuncOp)), None)


class Report:
    """Collects findings, one for each kind and op; names are made only when there is something to report."""

    def __init__(self, module: ModuleOp) -> None:
        self._module = module
        self._names: ValueNames | None = None
        self._findings: dict[tuple[str, Operation], Finding] = {}

    @property
    def findings(self) -> list[Finding]:
        """The findings, in the order in which they were first met."""
        return list(self._findings.values())

    @property
    def names(self) -> ValueNames:
        """The names of the module's ops and values."""
        if self._names is None:
            self._names = ValueNames(self._module)
        return self._names

    def add(self, kind: str, op: Operation, count: int, message: Callable[[], str]) -> None:
        """Report `count` occurrences at `op`; `message` describes the first one and is asked for only once an op."""
        known = self._findings.get((kind, op))
        if known is not None:
            self._findings[kind, op] = Finding(kind, known.message, known.location, op, known.count + count)
            return
        kernel = kernel_of(op)
        where = "the host function" if kernel is None else f"kernel @{kernel.sym_name.data}"
        position = position_of(op)
        text = f"`{self.names.op(op)}`: {message()}"
        if position is not None:
            text = f"{where}: {text}"
        self._findings[kind, op] = Finding(kind, text, position or where, op, count)

    def reference(self, op: Operation) -> str:
        """Another op, as a message names it."""
        position = position_of(op)
        return f"`{self.names.op(op)}`" + (f" ({position})" if position is not None else "")
