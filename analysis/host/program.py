"""The host functions of a program as one flat list: its buffers, and what is called on them, in order."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from xdsl.dialects.builtin import ModuleOp
from xdsl.dialects.func import FuncOp as HostFuncOp
from xdsl.dialects.func import ReturnOp
from xdsl.dialects.memref import AllocOp
from xdsl.ir import Operation, SSAValue

from deplodock.analysis.host.arguments import Call, Function, Role, argument_roles, callee, entry_function, parameters
from deplodock.dialects.interfaces import MakesZeros
from deplodock.dialects.kernel import FuncOp, TensorMapType
from deplodock.errors import UnsupportedError


@dataclass(frozen=True)
class Step:
    """One call of a function that is no host code, by the operation `caller`, on buffers by number."""

    function: Function
    buffers: tuple[int, ...]
    caller: Operation

    def writes(self) -> list[int]:
        """The numbers of the buffers that it writes."""
        roles = argument_roles(self.function)
        return [number for number, role in zip(self.buffers, roles, strict=True) if role is not Role.IN]


@dataclass
class HostProgram:
    """The buffers of a program by number, each as a value that stands for it, and the steps that work on them.

    `arguments` are those of the entry, `inputs` the ones among them that a run is given, `outputs` what it gives: what
    the entry returns or, if it returns nothing, the arguments that it writes. `counters` are zero before each step.
    """

    values: list[SSAValue] = field(default_factory=list[SSAValue])
    arguments: tuple[int, ...] = ()
    inputs: tuple[int, ...] = ()
    outputs: tuple[int, ...] = ()
    steps: list[Step] = field(default_factory=list[Step])
    counters: set[int] = field(default_factory=set[int])

    def made_before(self, step: int) -> list[int]:
        """The numbers of the buffers that are allocated between a step and the one before it, in order."""
        return self._made[step]

    _made: list[list[int]] = field(default_factory=lambda: [[]])

    def add(self, value: SSAValue) -> int:
        """Number a buffer."""
        self.values.append(value)
        return len(self.values) - 1

    def _allocate(self, value: SSAValue) -> int:
        number = self.add(value)
        self._made[-1].append(number)
        return number

    def run(self, function: Function, buffers: Sequence[int], is_step: Callable[[Function], bool]) -> list[int]:
        """Note what a host function does on these buffers. Returns the numbers of the buffers that it returns."""
        numbers: dict[SSAValue, int] = dict(zip(function.body.block.args, buffers, strict=True))
        for op in function.body.block.ops:
            match op:
                case AllocOp():
                    numbers[op.memref] = self._allocate(op.memref)
                case Operation(results=[made]) if op.has_trait(MakesZeros):
                    numbers[made] = self._allocate(made)
                    self.counters.add(numbers[made])
                case Operation(operands=[source], results=[made]) if isinstance(made.type, TensorMapType):
                    numbers[made] = numbers[source]
                case _ if isinstance(op, Call):
                    given = [numbers[value] for value in op.arguments]
                    numbers.update(zip(op.results, self.call(callee(op), given, op, is_step), strict=True))
                case ReturnOp():
                    return [numbers[value] for value in op.operands]
                case _:
                    raise UnsupportedError(f"{op.name} in the host function @{function.sym_name.data}")
        return []

    def call(
        self, function: Function, buffers: Sequence[int], caller: Operation, is_step: Callable[[Function], bool]
    ) -> list[int]:
        """Note the call of a function. Returns the numbers of the buffers that it returns."""
        if not is_step(function):
            return self.run(function, buffers, is_step)
        self.steps.append(Step(function, tuple(buffers), caller))
        self._made.append([])
        return []


def host_program(module: ModuleOp, kernels: Sequence[Function] = ()) -> HostProgram:
    """The program of a module's entry function; its steps are calls of kernels, and of the functions `kernels`.

    Raises:
        Error: the module does not have exactly one entry, or functions are missing or recursive.
        UnsupportedError: an operation in a host function that is no allocation, call, launch or return.
    """
    entry = entry_function(module)
    roles = argument_roles(entry)
    program = HostProgram()
    arguments = tuple(program.add(value) for value in parameters(entry))
    returned = program.call(entry, arguments, entry, lambda f: isinstance(f, FuncOp) or any(f is k for k in kernels))
    program.arguments = program.inputs = arguments
    if isinstance(entry, HostFuncOp) and entry.function_type.outputs.data:
        program.outputs = tuple(returned)
    else:
        pairs = list(zip(arguments, roles, strict=True))
        program.inputs = tuple(number for number, role in pairs if role is not Role.OUT)
        program.outputs = tuple(number for number, role in pairs if role is not Role.IN)
    return program
