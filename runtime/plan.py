"""What a host program does, flat: its buffers, where they lie, and its launches in order."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TypeAlias

from xdsl.dialects.builtin import MemRefType, ModuleOp
from xdsl.dialects.func import FuncOp as HostFuncOp
from xdsl.dialects.func import ReturnOp
from xdsl.dialects.memref import AllocOp
from xdsl.ir import Attribute, Block, Operation, SSAValue
from xdsl.utils.exceptions import VerifyException

from deplodock.analysis.host.arguments import Call, Function, Role, argument_roles, callee, entry_function, parameters
from deplodock.analysis.machine.resources import parameter_bytes, shared_memory
from deplodock.analysis.machine.targets import POINTER_BYTES, TENSOR_MAP_ALIGNMENT, TENSOR_MAP_BYTES
from deplodock.dialects.buffers import memory_of, verify_buffer
from deplodock.dialects.interfaces import MakesZeros
from deplodock.dialects.kernel import FuncOp, TensorMapType
from deplodock.dialects.loop import PartOp, RepeatOp, memref_of
from deplodock.dialects.tile import SwizzleAttr
from deplodock.errors import UnsupportedError
from deplodock.interpreters.values import DType, dtype_of
from deplodock.passes.remarks import located
from deplodock.runtime import scratch


@dataclass(frozen=True)
class BufferPlan:
    """A contiguous buffer; `offset` is its first byte in the scratch memory of the program, None if it has its own.

    A part of a buffer in scratch memory is one, too.
    """

    shape: tuple[int, ...]
    dtype: DType
    offset: int | None = None

    @property
    def bytes(self) -> int:
        """Its size in bytes."""
        size = self.dtype.itemsize
        for extent in self.shape:
            size *= extent
        return size


@dataclass(frozen=True)
class TensorMapPlan:
    """A tensor map of a buffer, by number: its shape, that of a box, and the bytes of a swizzled row, 0 for none.

    With `is_tf32` its elements, of f32, are rounded to TF32 as they are copied.
    """

    buffer: int
    shape: tuple[int, ...]
    dtype: DType
    box: tuple[int, ...]
    swizzle: int = 0
    is_tf32: bool = False


Argument: TypeAlias = int | TensorMapPlan
"""What a kernel gets: a buffer by number, or a tensor map by value."""


@dataclass(frozen=True)
class LaunchPlan:
    """One launch: the kernel, its arguments, CTAs, threads of each, and bytes of dynamic shared memory.

    One that is early starts while the launches before it still run, for which its kernel waits.
    """

    kernel: str
    arguments: tuple[Argument, ...]
    blocks: int
    threads: int
    shared: int
    is_early: bool = False

    @property
    def parameter_bytes(self) -> int:
        """The bytes of its kernel's parameters, each at a multiple of its alignment: pointers and tensor maps."""
        pointer, map = (POINTER_BYTES, POINTER_BYTES), (TENSOR_MAP_BYTES, TENSOR_MAP_ALIGNMENT)
        return parameter_bytes(map if isinstance(one, TensorMapPlan) else pointer for one in self.arguments)


@dataclass(frozen=True)
class ProgramPlan:
    """Buffers by number, those that the caller gives and gets, the launches, and the bytes of scratch memory.

    The `counters` last bytes of scratch memory are zero before the first run, and each run leaves them zero.
    """

    buffers: tuple[BufferPlan, ...]
    inputs: tuple[int, ...]
    outputs: tuple[int, ...]
    launches: tuple[LaunchPlan, ...]
    scratch: int
    counters: int = 0


def program_plan(module: ModuleOp) -> ProgramPlan:
    """The plan of the entry function of a module at kernel level.

    The inputs are the arguments that the entry reads (all of them if it returns values), the outputs what it returns,
    else the arguments that it writes.

    Raises:
        Error: the module does not have exactly one entry.
        UnsupportedError: an operation in a host function that is no allocation, call, launch or return.
    """
    entry = entry_function(module)
    planner = _Planner(entry)
    arguments = [planner.add(value) for value in parameters(entry)]
    returned = planner.run(entry, arguments)
    roles = argument_roles(entry)
    if entry.function_type.outputs.data:
        inputs, outputs = arguments, returned
    else:
        inputs = [number for number, role in zip(arguments, roles, strict=True) if role is not Role.OUT]
        outputs = [number for number, role in zip(arguments, roles, strict=True) if role is not Role.IN]
    buffers, launches = tuple(planner.buffers), tuple(planner.launches)
    size = planner.scratch.size + planner.counters
    return ProgramPlan(buffers, tuple(inputs), tuple(outputs), launches, size, planner.counters)


@dataclass
class _Planner:
    entry: Function
    buffers: list[BufferPlan] = field(default_factory=list[BufferPlan])
    launches: list[LaunchPlan] = field(default_factory=list[LaunchPlan])
    counters: int = 0
    """The bytes of all counters so far, which lie behind the rest of scratch memory."""
    parts: dict[BufferPlan, int] = field(default_factory=dict[BufferPlan, int])
    """The numbers of the parts of buffers."""
    steps: dict[SSAValue, int] = field(default_factory=dict[SSAValue, int])
    """The values of the indices of what is repeated."""

    shared: dict[FuncOp, int] = field(default_factory=dict[FuncOp, int])
    """The bytes of dynamic shared memory of each kernel."""

    def __post_init__(self) -> None:
        entry = self.entry
        self.scratch = scratch.plan(entry) if isinstance(entry, HostFuncOp) else scratch.Scratch({}, 0)

    def add(self, value: SSAValue) -> int:
        """Number a buffer."""
        return self._place(value, self.scratch.offsets.get(value))

    def _add_counters(self, value: SSAValue) -> int:
        number = self._place(value, self.scratch.size + self.counters)
        self.counters += -(-self.buffers[number].bytes // scratch.ALIGNMENT) * scratch.ALIGNMENT
        return number

    def _place(self, value: SSAValue, offset: int | None) -> int:
        type = memref_of(value)
        _check_buffer(value, type)
        self.buffers.append(BufferPlan(tuple(type.get_shape()), dtype_of(type.element_type), offset))
        return len(self.buffers) - 1

    def run(self, function: Function, arguments: Sequence[Argument]) -> list[int]:
        """Plan a function on its arguments. Returns the numbers of the buffers that it returns."""
        if isinstance(function, FuncOp):
            self._launch(function, arguments)
            return []
        numbers: dict[SSAValue, Argument] = dict(zip(function.body.block.args, arguments, strict=True))
        return self._run(function, function.body.block, numbers)

    def _run(self, function: Function, block: Block, numbers: dict[SSAValue, Argument]) -> list[int]:
        for op in block.ops:
            match op:
                case RepeatOp():
                    for step in range(op.trips):
                        self.steps[op.iv] = step
                        self._run(function, op.body.block, numbers)
                case PartOp():
                    numbers[op.result] = self._part(op, self.buffers[_buffer(numbers[op.source])])
                case AllocOp():
                    numbers[op.memref] = self.add(op.memref)
                case Operation(results=[made]) if op.has_trait(MakesZeros):
                    numbers[made] = self._add_counters(made)
                case Operation(operands=[source], results=[made]) if isinstance(made.type, TensorMapType):
                    numbers[made] = _tensor_map(made.type, _buffer(numbers[source]))
                case _ if isinstance(op, Call):
                    results = self.run(callee(op), [numbers[value] for value in op.arguments])
                    numbers.update(zip(op.results, results, strict=True))
                case ReturnOp():
                    return [_buffer(numbers[value]) for value in op.operands]
                case _:
                    raise UnsupportedError(
                        f"the runtime does not run {op.name} in the host function @{function.sym_name.data}; "
                        "lower the module to kernel level first"
                    )
        return []

    def _part(self, op: PartOp, source: BufferPlan) -> int:
        """Number a part of a buffer, once."""
        if source.offset is None:
            raise UnsupportedError(located(op, "only buffers of a program's own have parts; copy this one first"))
        type = memref_of(op.result)
        start = op.start([self.steps[index] for index in op.indices]) * source.dtype.itemsize
        part = BufferPlan(tuple(type.get_shape()), source.dtype, source.offset + start)
        if part not in self.parts:
            self.parts[part] = len(self.buffers)
            self.buffers.append(part)
        return self.parts[part]

    def _launch(self, kernel: FuncOp, arguments: Sequence[Argument]) -> None:
        if kernel.num_blocks == 0:
            return
        if kernel not in self.shared:
            self.shared[kernel] = shared_memory(kernel).dynamic_bytes
        name, blocks, threads = kernel.sym_name.data, kernel.num_blocks, kernel.num_threads
        shared = self.shared[kernel]
        self.launches.append(LaunchPlan(name, tuple(arguments), blocks, threads, shared, kernel.starts_early))


def _check_buffer(value: SSAValue, type: MemRefType[Attribute]) -> None:
    """Raise an UnsupportedError, with its place, for a buffer whose shape does not give its bytes."""
    owner = value.owner.parent_op() if isinstance(value.owner, Block) else value.owner
    message = None
    try:
        verify_buffer(type)
    except VerifyException as error:
        message = str(error)
    if memory_of(value) is not None:
        message = f"the buffers of a host function are in global memory, got {type}"
    elif any(extent < 0 for extent in type.get_shape()):
        message = f"the runtime needs static shapes, got {type}"
    if message is not None:
        raise UnsupportedError(message if owner is None else located(owner, message))


def _buffer(argument: Argument) -> int:
    assert isinstance(argument, int)
    return argument


def _tensor_map(type: TensorMapType, buffer: int) -> TensorMapPlan:
    dtype = dtype_of(type.source.element_type)
    swizzle = type.swizzle.span if isinstance(type.swizzle, SwizzleAttr) else 0
    return TensorMapPlan(buffer, type.source.get_shape(), dtype, type.extents, swizzle, type.is_tf32)
