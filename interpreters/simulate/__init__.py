"""The SIMT simulator: runs a module at kernel level on a CPU and reports what a GPU must not do.

    simulation = simulate(module, [x, w])
    simulation.outputs, simulation.findings, simulation.counters["k_rms_norm"].global_sectors_read

All threads of many CTAs run in lockstep, as the lanes of numpy arrays. Arithmetic is that of the types (f32 is
float32), in the program's order. Findings do not depend on the order in which threads happen to run: a race is found if
the program allows it on these inputs, whether or not it changes the result.

Barriers order shared memory, the end of a launch orders global memory: within a launch no two threads may touch one
global element if one of them writes it, unless fences and tickets order them. Every buffer starts at a 16-byte aligned
address.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from xdsl.dialects.builtin import ModuleOp
from xdsl.dialects.func import ReturnOp
from xdsl.dialects.memref import AllocOp
from xdsl.ir import Block, Operation, SSAValue

from deplodock.analysis.host.arguments import Call, Function, Role, argument_roles, callee, entry_function, parameters
from deplodock.dialects.interfaces import MakesZeros
from deplodock.dialects.kernel import FuncOp, TensorMapType
from deplodock.dialects.loop import PartOp, RepeatOp
from deplodock.errors import Error, InvalidInputError, UnsupportedError
from deplodock.interpreters.limits import check_limits
from deplodock.interpreters.simulate import report as kinds
from deplodock.interpreters.simulate.launch import Launch
from deplodock.interpreters.simulate.memory import Buffer, Layout
from deplodock.interpreters.simulate.report import Counters, Finding, Report
from deplodock.interpreters.values import Array

__all__ = ["Counters", "Finding", "Simulation", "simulate"]


@dataclass(frozen=True)
class Simulation:
    """The outputs of a program, what it did wrong (one finding a kind and op), the counts of each kernel by name."""

    outputs: list[Array]
    findings: list[Finding]
    counters: dict[str, Counters]
    seconds: float


def simulate(
    module: ModuleOp,
    inputs: Sequence[Array],
    *,
    entry: str | None = None,
    check: bool = True,
    counts: bool = True,
    order: int | None = None,
    most_steps: int | None = None,
) -> Simulation:
    """Run a module at kernel level.

    Args:
        module: host functions that launch kernels, or one kernel.func alone. It is not changed.
        inputs: an array of the memref's shape and dtype for each argument of the entry; if it returns nothing, only for
            those that it reads. They are not changed: an argument that is also written comes back as an output.
        entry: the function to run; needed if several functions are called by no other.
        check: whether to look for mistakes; without it the run is faster and `findings` is empty.
        counts: whether to count what accesses cost; without it the run is faster and `counters` has the steps alone.
        order: the seed of a random order in which the CTAs of each launch run; by default they run by their ids.
        most_steps: the lane steps that each kernel may take.

    The outputs are the values that the entry returns or, if it returns nothing, the arguments that it writes, in order.

    Raises:
        Error: the module does not have exactly one entry and `entry` names none, or functions are missing or recursive.
        InvalidInputError: the inputs do not fit the entry's arguments.
        UnsupportedError: an op, a type or an extent that the simulator does not know.
        TooLong: more lane steps than may run.
    """
    start = time.perf_counter()
    check_limits(module)
    host = _Host(module, check, counts, order, most_steps)
    outputs = host.run(entry_function(module, entry), inputs)
    return Simulation(outputs, host.report.findings, host.counters, time.perf_counter() - start)


class _Host:
    """Runs host functions: allocations, calls and launches, in order."""

    def __init__(self, module: ModuleOp, check: bool, counts: bool, order: int | None, most_steps: int | None) -> None:
        self.report = Report(module)
        self.counters: dict[str, Counters] = {}
        self._check, self._counts = check, counts
        self._most_steps = most_steps
        self._order = None if order is None else np.random.default_rng(order)
        self._writers: dict[int, Operation] = {}

    def run(self, function: Function, inputs: Sequence[Array]) -> list[Array]:
        """The outputs of the entry function."""
        names = parameters(function)
        roles = argument_roles(function)
        returns = len(function.function_type.outputs.data) > 0
        given = [value for value, role in zip(names, roles, strict=True) if returns or role is not Role.OUT]
        arguments = _arguments(function, given, inputs)
        outputs = self._call(function, arguments, function)
        last = function.body.block.last_op
        if returns and isinstance(last, ReturnOp):
            names = tuple(last.operands)
        else:
            written = [i for i, role in enumerate(roles) if role is not Role.IN]
            names, outputs = tuple(names[i] for i in written), [arguments[i] for i in written]
        if self._check:
            for name, buffer in zip(names, outputs, strict=True):
                self._check_output(function, name, buffer)
        return [buffer.values for buffer in outputs]

    def _call(self, function: Function, arguments: Sequence[Buffer], caller: Operation) -> list[Buffer]:
        if isinstance(function, FuncOp):
            self._launch(function, arguments, caller)
            return []
        buffers: dict[SSAValue, Buffer] = dict(zip(function.body.block.args, arguments, strict=True))
        return self._run(function, function.body.block, buffers, {})

    def _run(
        self, function: Function, block: Block, buffers: dict[SSAValue, Buffer], indices: dict[SSAValue, int]
    ) -> list[Buffer]:
        for op in block.ops:
            match op:
                case RepeatOp():
                    for step in range(op.trips):
                        indices[op.iv] = step
                        self._run(function, op.body.block, buffers, indices)
                case PartOp():
                    start = op.start([indices[index] for index in op.indices])
                    buffers[op.result] = buffers[op.source].part(Layout.of(op.result), start)
                case AllocOp():
                    buffers[op.memref] = Buffer.unwritten(Layout.of(op.memref))
                case Operation(results=[made]) if op.has_trait(MakesZeros):
                    layout = Layout.of(made)
                    buffers[made] = Buffer.of(layout, np.zeros(layout.shape, layout.dtype))
                case Operation(operands=[source], results=[made]) if isinstance(made.type, TensorMapType):
                    buffers[made] = buffers[source]
                case _ if isinstance(op, Call):
                    results = self._call(callee(op), [buffers[value] for value in op.arguments], op)
                    buffers.update(zip(op.results, results, strict=True))
                case ReturnOp():
                    return [buffers[value] for value in op.operands]
                case _:
                    raise UnsupportedError(
                        f"the simulator does not run {op.name} in the host function @{function.sym_name.data}; "
                        "lower the module to kernel level first"
                    )
        return []

    def _launch(self, kernel: FuncOp, arguments: Sequence[Buffer], caller: Operation) -> None:
        name, roles = kernel.sym_name.data, argument_roles(kernel)
        outputs = [value for value, role in zip(arguments, roles, strict=True) if role is not Role.IN]
        if any(sum(value is other for other in arguments) > 1 for value in outputs):
            raise Error(f"@{name}: an argument that it writes is passed twice; buffers must not overlap")
        counters = self.counters.setdefault(name, Counters())
        order, size = None, kernel.cluster_size
        if self._order is not None:
            clusters = self._order.permutation(kernel.num_blocks // size)
            order = (clusters.reshape(-1, 1) * size + np.arange(size)).reshape(-1)
        launch = Launch(
            kernel, arguments, self.report, counters, self._check, order, self._most_steps, counts=self._counts
        )
        launch.run()
        for buffer, role in zip(arguments, roles, strict=True):
            if role is not Role.IN:
                self._writers[id(buffer.whole or buffer)] = caller

    def _check_output(self, function: Function, value: SSAValue, buffer: Buffer) -> None:
        """Report elements of an output that nobody wrote, at the launch that should have."""
        missing = None if buffer.written is None else ~buffer.written.flags[: buffer.layout.size]
        if missing is None or not missing.any():
            return
        count = int(missing.sum())
        self.report.add(
            kinds.UNWRITTEN_OUTPUT,
            self._writers.get(id(buffer), function),
            count,
            lambda: (
                f"{count} of the {buffer.layout.size} elements of the output {self.report.names.value(value)} are "
                f"never written, the first is {buffer.layout.element(int(missing.argmax()))}"
            ),
        )


def _arguments(function: Function, given: Sequence[SSAValue], inputs: Sequence[Array]) -> list[Buffer]:
    """The buffers of all arguments; those that are not given hold nothing yet."""
    if len(given) != len(inputs):
        wanted = ", ".join(str(value.type) for value in given)
        raise InvalidInputError(
            f"@{function.sym_name.data} takes {len(given)} inputs ({wanted}), got {len(inputs)} arrays"
        )
    remaining = iter(inputs)
    return [
        _input(function, parameter, Layout.of(parameter), next(remaining))
        if any(parameter is value for value in given)
        else Buffer.unwritten(Layout.of(parameter))
        for parameter in parameters(function)
    ]


def _input(function: Function, parameter: SSAValue, layout: Layout, values: Array) -> Buffer:
    if values.shape != layout.shape or values.dtype != layout.dtype:
        name = parameter.name_hint or "?"
        raise InvalidInputError(
            f"the input for %{name} of @{function.sym_name.data} must be {layout.dtype} of shape {layout.shape}, "
            f"got {values.dtype} of shape {values.shape}"
        )
    return Buffer.of(layout, values)
