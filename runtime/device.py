"""Runs programs at kernel level on a GPU through pycuda, on the primary context that PyTorch uses, too."""

from __future__ import annotations

import atexit
import importlib
import importlib.util
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np
from xdsl.dialects.builtin import ModuleOp

from deplodock.analysis.machine.targets import (
    POINTER_BYTES,
    TENSOR_MAP_ALIGNMENT,
    TENSOR_MAP_BYTES,
    capability,
    card_named,
    nvcc_arch,
    target,
)
from deplodock.errors import DeviceError, Error, InvalidInputError
from deplodock.interpreters.values import Array
from deplodock.runtime import tensor_maps
from deplodock.runtime.cubins import Cubin, cubins
from deplodock.runtime.nvcc import LIMIT, CompiledKernel
from deplodock.runtime.plan import Argument, BufferPlan, LaunchPlan, ProgramPlan, TensorMapPlan
from deplodock.runtime.planned import PlannedProgram, planned_program

POISON = 0xFF
"""The byte that fills buffers before a run: NaN in floats, so that what nobody writes shows."""


def missing() -> str | None:
    """Why programs cannot run on a GPU here, in one line; None if they can."""
    if importlib.util.find_spec("pycuda") is None:
        return "pycuda is not installed: pip install 'deplodock[cuda]'"
    try:
        driver = importlib.import_module("pycuda.driver")
        driver.init()
        return None if driver.Device.count() else "the CUDA driver finds no GPU"
    except Exception as error:
        return f"the CUDA driver does not start: {error}"


@dataclass(frozen=True)
class _Bound:
    """A launch with the values of its arguments: the addresses of buffers, and the bytes of tensor maps of them."""

    function: Any
    launch: LaunchPlan
    values: tuple[int | bytes, ...]


class Executable:
    """A program, compiled in at most `limit` seconds, if it comes without machine code, and loaded.

    Raises Error where it cannot be, CompileError if nvcc rejects its text or takes longer, DeviceError if the GPU
    rejects a kernel.
    """

    plan: ProgramPlan
    cubin: Cubin

    def __init__(self, program: ModuleOp | PlannedProgram, *, limit: float = LIMIT) -> None:
        self._driver = _driver()
        self.program = planned_program(program) if isinstance(program, ModuleOp) else program
        self.plan, arch = self.program.plan, self.program.arch
        _check_arch(arch, self._driver)
        self._parameters_start = tensor_maps.parameters_start(capability(target(arch)))
        if self.program.cubin is None:
            (self.cubin,) = cubins([self.program.text], nvcc_arch(arch), limit=limit)
        else:
            self.cubin = Cubin(CompiledKernel(self.program.cubin, {}, ""), is_new=False)
        with _current():
            self._functions = self._load() if self.plan.launches else {}
            self._scratch = self._driver.mem_alloc(max(1, self.plan.scratch))
            if counters := self.plan.counters:
                self._driver.memset_d8(int(self._scratch) + self.plan.scratch - counters, 0, counters)

    def bind(self, addresses: Mapping[int, int]) -> list[_Bound]:
        """The launches on the buffers at these addresses, by number; those in scratch memory have theirs.

        The addresses are multiples of 16 bytes.
        """
        for number, address in addresses.items():
            if address % 16:
                raise InvalidInputError(f"buffer {number} starts at {address:#x}, which is no multiple of 16 bytes")
        scratch = int(self._scratch)
        offsets = {n: buffer.offset for n, buffer in enumerate(self.plan.buffers) if buffer.offset is not None}
        placed = {**{n: scratch + offset for n, offset in offsets.items()}, **addresses}
        return [
            _Bound(self._functions[launch.kernel], launch, tuple(_value(a, placed) for a in launch.arguments))
            for launch in self.plan.launches
        ]

    def launch(self, bound: Sequence[_Bound], stream: Any = None) -> None:
        """Start bound launches in order on a pycuda stream, by default the null stream; does not wait for them.

        Raises DeviceError if the driver refuses one.
        """
        with _current():
            for call in bound:
                grid, block = (call.launch.blocks, 1, 1), (call.launch.threads, 1, 1)
                try:
                    call.function.prepared_async_call(grid, block, stream, *call.values, shared_size=call.launch.shared)
                except self._driver.Error as error:
                    raise _refused(call.launch, error) from None

    def poison(self) -> None:
        """Fill scratch memory, so that what is read unwritten shows; counters stay zero."""
        if size := self.plan.scratch - self.plan.counters:
            with _current():
                self._driver.memset_d8(self._scratch, POISON, size)

    def run(self, inputs: Sequence[Array]) -> list[Array]:
        """Run on copies of arrays of the planned shapes and dtypes, and return the outputs.

        Raises:
            InvalidInputError: the inputs do not fit.
            DeviceError: the GPU cannot run a kernel, or reports a fault in it.
        """
        if len(inputs) != len(self.plan.inputs):
            raise InvalidInputError(f"the program takes {len(self.plan.inputs)} inputs, got {len(inputs)}")
        with _current():
            return self._run(inputs)

    def _run(self, inputs: Sequence[Array]) -> list[Array]:
        own = {n: buffer for n, buffer in enumerate(self.plan.buffers) if buffer.offset is None}
        memory = {n: self._driver.mem_alloc(max(1, buffer.bytes)) for n, buffer in own.items()}
        for number, buffer in own.items():
            self._driver.memset_d8(memory[number], POISON, max(1, buffer.bytes))
        self.poison()
        for number, values in zip(self.plan.inputs, inputs, strict=True):
            _check_input(number, self.plan.buffers[number], values)
            if values.size:
                self._driver.memcpy_htod(memory[number], np.ascontiguousarray(values))
        for call in self.bind({number: int(address) for number, address in memory.items()}):
            self.launch([call])
            try:
                self._driver.Context.synchronize()
            except self._driver.Error as error:
                raise DeviceError(
                    f"the GPU reports a fault in @{call.launch.kernel}: {error}; `run --device sim` says where"
                ) from None
        return [self._fetch(self.plan.buffers[number], memory[number]) for number in self.plan.outputs]

    def _fetch(self, buffer: BufferPlan, address: Any) -> Array:
        values = np.empty(buffer.shape, buffer.dtype)
        if values.size:
            self._driver.memcpy_dtoh(values, address)
        return values

    def _load(self) -> dict[str, Any]:
        """The functions by name, prepared for their arguments and with the dynamic shared memory that they ask for."""
        module = self._driver.module_from_buffer(self.cubin.kernel.cubin)
        attribute = self._driver.function_attribute.MAX_DYNAMIC_SHARED_SIZE_BYTES
        functions: dict[str, Any] = {}
        for launch in self.plan.launches:
            function = module.get_function(launch.kernel)
            if launch.shared:
                try:
                    function.set_attribute(attribute, launch.shared)
                except self._driver.Error as error:
                    raise _refused(launch, error) from None
            function.prepare(parameter_formats(launch.arguments, self._parameters_start))
            functions[launch.kernel] = function
        self._module = module
        return functions


def parameter_formats(arguments: Sequence[Argument], start: int) -> list[str]:
    """How the parameters of a kernel lie side by side, as the struct module writes it: pointers, and aligned maps.

    Args:
        arguments: what the kernel gets.
        start: the address of the first parameter.
    """
    formats: list[str] = []
    size = 0
    for argument in arguments:
        if isinstance(argument, TensorMapPlan):
            if gap := -(start + size) % TENSOR_MAP_ALIGNMENT:
                formats.append(f"{gap}x")
            size += gap + TENSOR_MAP_BYTES
            formats.append(f"{TENSOR_MAP_BYTES}s")
        else:
            size += POINTER_BYTES
            formats.append("P")
    return formats


def _value(argument: Argument, addresses: Mapping[int, int]) -> int | bytes:
    """What a kernel gets for an argument where buffers lie at these addresses."""
    if isinstance(argument, TensorMapPlan):
        return tensor_maps.encode(argument, addresses[argument.buffer])
    return addresses[argument]


def device_name() -> str:
    """The name of the card, as its driver says it."""
    return _driver().Device(0).name()


def device_target() -> str:
    """The name of the target that the card is: its own, else that of its architecture."""
    driver = _driver()
    major, minor = driver.Device(0).compute_capability()
    return card_named(driver.Device(0).name(), f"sm_{major}{minor}")


def new_stream() -> Any:
    """A pycuda stream, whose `handle` PyTorch can take over as an ExternalStream; pycuda takes over none."""
    with _current() as driver:
        return driver.Stream()


@cache
def _driver() -> Any:
    """pycuda's driver. Raises Error where it has no GPU."""
    if (reason := missing()) is not None:
        raise Error(f"{reason}; --device sim runs the program in the simulator")
    return importlib.import_module("pycuda.driver")


@contextmanager
def _current() -> Iterator[Any]:
    """pycuda's driver, with the primary context of the first GPU current in this thread.

    pycuda knows what is current in each thread. It stays so in the main thread until the process ends; any other
    thread, as that in which PyTorch computes gradients, must not end before it is taken back.
    """
    driver = _driver()
    if threading.current_thread() is threading.main_thread():
        _stay_current()
        yield driver
        return
    _primary_context().push()
    try:
        yield driver
    finally:
        driver.Context.pop()


@cache
def _primary_context() -> Any:
    return _driver().Device(0).retain_primary_context()


@cache
def _stay_current() -> None:
    _primary_context().push()
    atexit.register(_driver().Context.pop)


def _refused(launch: LaunchPlan, error: Exception) -> DeviceError:
    return DeviceError(
        f"the GPU cannot start @{launch.kernel} with {launch.blocks} blocks of {launch.threads} threads and "
        f"{launch.shared} bytes of dynamic shared memory: {error}"
    )


def _check_arch(arch: str, driver: Any) -> None:
    major, minor = driver.Device(0).compute_capability()
    if arch != f"sm_{major}{minor}":
        raise InvalidInputError(
            f"the program is for {arch}, but the GPU is sm_{major}{minor}: give --target sm_{major}{minor}"
        )


def _check_input(number: int, buffer: BufferPlan, values: Array) -> None:
    if values.shape != buffer.shape or values.dtype != buffer.dtype:
        raise InvalidInputError(
            f"input {number} must be {buffer.dtype} of shape {buffer.shape}, got {values.dtype} of shape {values.shape}"
        )
