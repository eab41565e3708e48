"""Runs programs at kernel level on a GPU, in the primary context that PyTorch uses, too."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from typing import Any

import numpy as np
from xdsl.dialects.builtin import ModuleOp

from deplodock.analysis.machine.targets import card_named, nvcc_arch
from deplodock.errors import DeviceError, Error, InvalidInputError
from deplodock.interpreters.values import Array
from deplodock.runtime.cubins import Cubin, cubins
from deplodock.runtime.driver import Context, DeviceMemory, DriverError, KernelModule, bindings, is_capturing, pycuda
from deplodock.runtime.launches import Launches, refused
from deplodock.runtime.nvcc import LIMIT, CompiledKernel
from deplodock.runtime.plan import BufferPlan, ProgramPlan
from deplodock.runtime.planned import PlannedProgram, planned_program

POISON = 0xFF
"""The byte that fills buffers before a run: NaN in floats, so that what nobody writes shows."""


def missing() -> str | None:
    """Why programs cannot run on a GPU here, in one line; None if they can."""
    try:
        driver = pycuda()
        bindings()
        driver.init()
        return None if driver.Device.count() else "the CUDA driver finds no GPU"
    except ModuleNotFoundError as error:
        package = "cuda-bindings" if str(error.name).startswith("cuda") else "pycuda"
        return f"{package} is not installed: pip install 'deplodock[cuda]'"
    except Exception as error:
        return f"the CUDA driver does not start: {error}"


class Executable:
    """A program, compiled in at most `limit` seconds, if it comes without machine code, and loaded.

    It runs on the GPU of a number, whatever GPU is the current one of PyTorch.

    Raises Error where it cannot be, CompileError if nvcc rejects its text or takes longer, DeviceError if the GPU
    rejects a kernel or has too little memory.
    """

    plan: ProgramPlan
    cubin: Cubin

    def __init__(self, program: ModuleOp | PlannedProgram, gpu: int = 0, *, limit: float = LIMIT) -> None:
        self._driver = _driver()
        self.program = planned_program(program) if isinstance(program, ModuleOp) else program
        self.plan, arch = self.program.plan, self.program.arch
        _check_arch(arch, gpu)
        if self.program.cubin is None:
            (self.cubin,) = cubins([self.program.text], nvcc_arch(arch), limit=limit)
        else:
            self.cubin = Cubin(CompiledKernel(self.program.cubin, {}, ""), is_new=False)
        self._context = _context(gpu)
        self._functions = self._load() if self.plan.launches else {}
        self._scratch = self._memory(self.plan.scratch)
        if counters := self.plan.counters:
            with self._context:
                self._driver.memset_d8(self._scratch.address + self.plan.scratch - counters, 0, counters)

    def bind(self, numbers: Sequence[int]) -> Launches:
        """The launches on buffers of these numbers, which are all that are not in scratch memory.

        `Launches.place` is to be told their addresses in that order.
        """
        return Launches(self.plan, self._functions, self._scratch.address, numbers)

    def launch(self, launches: Launches, stream: int = 0, only: Sequence[int] | None = None) -> None:
        """Start launches on a stream, by its handle; see `Launches.start`. The null stream is 0."""
        with self._context:
            launches.start(stream, only)

    def is_capturing(self, stream: int) -> bool:
        """Whether a CUDA graph is captured on a stream, by its handle."""
        with self._context:
            return is_capturing(stream)

    def poison(self) -> None:
        """Fill scratch memory, so that what is read unwritten shows; counters stay zero."""
        if size := self.plan.scratch - self.plan.counters:
            with self._context:
                self._driver.memset_d8(self._scratch.address, POISON, size)

    def run(self, inputs: Sequence[Array]) -> list[Array]:
        """Run on copies of arrays of the planned shapes and dtypes, and return the outputs.

        Raises:
            InvalidInputError: the inputs do not fit.
            DeviceError: the GPU cannot run a kernel, or reports a fault in it.
        """
        if len(inputs) != len(self.plan.inputs):
            raise InvalidInputError(f"the program takes {len(self.plan.inputs)} inputs, got {len(inputs)}")
        with self._context:
            return self._run(inputs)

    def _run(self, inputs: Sequence[Array]) -> list[Array]:
        own = {n: buffer for n, buffer in enumerate(self.plan.buffers) if buffer.offset is None}
        memory = {number: self._memory(buffer.bytes) for number, buffer in own.items()}
        for number, buffer in own.items():
            self._driver.memset_d8(memory[number].address, POISON, max(1, buffer.bytes))
        self.poison()
        for number, values in zip(self.plan.inputs, inputs, strict=True):
            _check_input(number, self.plan.buffers[number], values)
            if values.size:
                self._driver.memcpy_htod(memory[number].address, np.ascontiguousarray(values))
        launches = self.bind([*memory])
        launches.place([own.address for own in memory.values()])
        for number, launch in enumerate(self.plan.launches):
            self.launch(launches, only=[number])
            try:
                self._driver.Context.synchronize()
            except self._driver.Error as error:
                raise DeviceError(
                    f"the GPU reports a fault in @{launch.kernel}: {error}; `run --device sim` says where"
                ) from None
        return [self._fetch(self.plan.buffers[number], memory[number].address) for number in self.plan.outputs]

    def _fetch(self, buffer: BufferPlan, address: int) -> Array:
        values = np.empty(buffer.shape, buffer.dtype)
        if values.size:
            self._driver.memcpy_dtoh(values, address)
        return values

    def _memory(self, size: int) -> DeviceMemory:
        try:
            return DeviceMemory(self._context, max(1, size))
        except self._driver.Error as error:
            raise DeviceError(f"the GPU has no {size} bytes of memory for the program: {error}") from None

    def _load(self) -> dict[str, Any]:
        """The functions by name, with the dynamic shared memory that they ask for."""
        try:
            module = self._module = KernelModule(self._context, self.cubin.kernel.cubin)
        except (DriverError, self._driver.Error) as error:
            raise DeviceError(f"the GPU does not take the machine code: {error}") from None
        functions: dict[str, Any] = {}
        for launch in self.plan.launches:
            try:
                functions[launch.kernel] = module.function(launch)
            except (DriverError, self._driver.Error) as error:
                raise refused(launch, error) from None
        return functions


def device_count() -> int:
    """How many GPUs the driver finds."""
    return _driver().Device.count()


def device_name(gpu: int = 0) -> str:
    """The name of a card by its number, as its driver says it."""
    return _driver().Device(gpu).name()


def device_target(gpu: int = 0) -> str:
    """The name of the target that a card is: its own, else that of its architecture."""
    return card_named(device_name(gpu), _arch(gpu))


def _arch(gpu: int) -> str:
    major, minor = _driver().Device(gpu).compute_capability()
    return f"sm_{major}{minor}"


@cache
def _driver() -> Any:
    """pycuda's driver. Raises Error where it has no GPU."""
    if (reason := missing()) is not None:
        raise Error(f"{reason}; --device sim runs the program in the simulator")
    return pycuda()


@cache
def _context(gpu: int) -> Context:
    return Context(gpu)


def _check_arch(arch: str, gpu: int) -> None:
    if arch != (own := _arch(gpu)):
        raise InvalidInputError(f"the program is for {arch}, but the GPU is {own}: give --target {own}")


def _check_input(number: int, buffer: BufferPlan, values: Array) -> None:
    if values.shape != buffer.shape or values.dtype != buffer.dtype:
        raise InvalidInputError(
            f"input {number} must be {buffer.dtype} of shape {buffer.shape}, got {values.dtype} of shape {values.shape}"
        )
