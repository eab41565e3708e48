"""Programs at kernel level, run on the host as the CUDA text that they print to.

(program,) = build([module])
outputs = program.run([x, w])
"""

from __future__ import annotations

import subprocess
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from xdsl.dialects.builtin import ModuleOp

from deplodock.analysis.machine.resources import buffer_bytes, shared_memory
from deplodock.analysis.machine.targets import capability, target_of
from deplodock.codegen.cuda import print_module
from deplodock.dialects import kernel
from deplodock.errors import Error
from deplodock.interpreters.values import Array
from deplodock.runtime.host import maps
from deplodock.runtime.host.text import HostText, host_text, translation_unit
from deplodock.runtime.host.toolchain import toolchain
from deplodock.runtime.plan import Argument, ProgramPlan, TensorMapPlan, program_plan

SECONDS = 60
"""How long a program may take."""


class HostFault(Error):
    """What a program must not do: the kernel, the block and the thread, and what they did."""


@dataclass(frozen=True)
class Order:
    """In which order threads go on, and when asynchronous copies land.

    `is_reversed`: the last thread and the last CTA come first, else lane 0 of all warps, then lane 1. `lands_early`:
    copies land when they are issued, else as late as they may.
    """

    is_reversed: bool
    lands_early: bool


ORDERS = (Order(is_reversed=False, lands_early=True), Order(is_reversed=True, lands_early=False))
"""Both extremes: what is overwritten too early shows in the first, what is read too early in the second."""


@dataclass(frozen=True)
class GlobalAccess:
    """An access of global memory by a thread that runs alone: the buffer's number, its first byte, bytes, direction."""

    buffer: int
    first: int
    bytes: int
    is_store: bool


@dataclass(frozen=True)
class BuiltProgram:
    """A compiled program: its plan, and its number in an executable."""

    plan: ProgramPlan
    number: int
    executable: Path
    _folder: tempfile.TemporaryDirectory[str]

    def run(self, inputs: Sequence[Array], orders: Sequence[Order] = ORDERS) -> list[Array]:
        """The outputs on inputs of the planned shapes and dtypes, the same in all orders.

        Raises HostFault where the program does what it must not, or its results depend on the order.
        """
        lines = [f"run {order.is_reversed:d} {order.lands_early:d}" for order in orders]
        data = self._execute(lines, inputs)
        size = len(data) // len(orders)
        results = [self._outputs(data[start : start + size]) for start in range(0, len(data), size or 1)] or [[]]
        for other in results[1:]:
            for number, (one, two) in enumerate(zip(results[0], other, strict=True)):
                if one.tobytes() != two.tobytes():
                    raise HostFault(f"output {number} depends on the order in which threads run")
        return results[0]

    def accesses(self, threads: Sequence[tuple[int, int, int]]) -> list[list[GlobalAccess]]:
        """What each of some threads, given as (launch, block, thread), accesses when it runs alone.

        It reads zeros, and its buffers take no memory.
        """
        data = self._execute([f"alone {launch} {block} {thread}" for launch, block, thread in threads], None)
        rows = np.frombuffer(data, np.int64).reshape(-1, 4)
        found: list[list[GlobalAccess]] = []
        for buffer, first, bytes, is_store in rows.tolist():
            if buffer < 0:
                found.append([])
            else:
                found[-1].append(GlobalAccess(buffer, first, bytes, bool(is_store)))
        return found

    def _execute(self, runs: Sequence[str], inputs: Sequence[Array] | None) -> bytes:
        with tempfile.TemporaryDirectory(prefix="deplodock-") as name:
            plan, data, results = (Path(name) / file for file in ("plan", "inputs", "outputs"))
            plan.write_text("\n".join([*self._plan_lines(inputs), *runs]) + "\n", encoding="utf-8")
            data.write_bytes(b"".join(np.ascontiguousarray(values).tobytes() for values in inputs or ()))
            command = [str(self.executable), str(plan), str(data), str(results), str(SECONDS)]
            environment = {"UBSAN_OPTIONS": "abort_on_error=1:print_stacktrace=0"}
            done = subprocess.run(
                command, env=environment, capture_output=True, text=True, errors="replace", check=False
            )
            if done.returncode != 0:
                raise HostFault(done.stderr.strip() or f"the program ended with exit code {done.returncode}")
            return results.read_bytes()

    def _plan_lines(self, inputs: Sequence[Array] | None) -> list[str]:
        plan = self.plan
        starts = dict.fromkeys(range(len(plan.buffers)), -1)
        at = 0
        for number, values in zip(plan.inputs, inputs or (), strict=inputs is not None):
            starts[number] = at
            at += values.nbytes
        lines = [f"program {self.number}", f"scratch {plan.scratch} {plan.counters}"]
        for number, buffer in enumerate(plan.buffers):
            lines.append(f"buffer {buffer.bytes} {-1 if buffer.offset is None else buffer.offset} {starts[number]}")
        lines += [f"output {number}" for number in plan.outputs]
        for launch in plan.launches:
            arguments = " ".join(map(_argument, launch.arguments))
            lines.append(f"launch {launch.kernel} {launch.blocks} {launch.threads} {launch.shared} {arguments}")
        return lines

    def _outputs(self, data: bytes) -> list[Array]:
        outputs: list[Array] = []
        at = 0
        for number in self.plan.outputs:
            buffer = self.plan.buffers[number]
            outputs.append(np.frombuffer(data[at : at + buffer.bytes], buffer.dtype).reshape(buffer.shape))
            at += buffer.bytes
        return outputs


def build(modules: Sequence[ModuleOp], printer: Callable[[ModuleOp], str] = print_module) -> list[BuiltProgram]:
    """Compile modules at kernel level together.

    Args:
        modules: each with one entry function.
        printer: what gives the CUDA text of a module.

    Raises:
        CompileError: there is no C++ compiler, or it rejects a text.
    """
    texts = [_host_text(module, printer(module)) for module in modules]
    folder = tempfile.TemporaryDirectory(prefix="deplodock-")
    executable = Path(folder.name) / "programs"
    toolchain().build(translation_unit(texts), executable)
    return [BuiltProgram(program_plan(module), number, executable, folder) for number, module in enumerate(modules)]


def _host_text(module: ModuleOp, text: str) -> HostText:
    functions = kernel.functions(module)
    pools = {
        function.sym_name.data: {first: buffer_bytes(buffer) for buffer, first in shared.offsets}
        for function in functions
        if not (shared := shared_memory(function)).is_static
    }
    return host_text(text, capability(target_of(module)) * 10, pools)


def _argument(argument: Argument) -> str:
    return f"m{maps.encode(argument).hex()}" if isinstance(argument, TensorMapPlan) else f"b{argument}"
