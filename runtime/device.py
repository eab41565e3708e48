"""Runs programs at kernel level on a GPU, on the primary context that PyTorch uses, too."""

from __future__ import annotations

import atexit
import importlib
import importlib.util
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from ctypes import c_void_p
from functools import cache
from typing import Any

import numpy as np
from xdsl.dialects.builtin import ModuleOp

from deplodock.analysis.machine.targets import card_named, nvcc_arch
from deplodock.errors import DeviceError, Error, InvalidInputError
from deplodock.interpreters.values import Array
from deplodock.runtime.cubins import Cubin, cubins
from deplodock.runtime.driver import DriverError, KernelModule
from deplodock.runtime.launches import Launches, refused
from deplodock.runtime.nvcc import LIMIT, CompiledKernel
from deplodock.runtime.plan import BufferPlan, ProgramPlan
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
        if self.program.cubin is None:
            (self.cubin,) = cubins([self.program.text], nvcc_arch(arch), limit=limit)
        else:
            self.cubin = Cubin(CompiledKernel(self.program.cubin, {}, ""), is_new=False)
        with _current():
            self._functions = self._load() if self.plan.launches else {}
            self._scratch = self._driver.mem_alloc(max(1, self.plan.scratch))
            if counters := self.plan.counters:
                self._driver.memset_d8(int(self._scratch) + self.plan.scratch - counters, 0, counters)

    def bind(self, numbers: Sequence[int]) -> Launches:
        """The launches on buffers of these numbers, which are all that are not in scratch memory.

        `Launches.place` is to be told their addresses in that order.
        """
        return Launches(self.plan, self._functions, int(self._scratch), numbers)

    def launch(self, launches: Launches, stream: int = 0, only: Sequence[int] | None = None) -> None:
        """Start launches on a stream, by its handle; see `Launches.start`. The null stream is 0."""
        with _current():
            launches.start(stream, only)

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
        launches = self.bind([*memory])
        launches.place([*map(int, memory.values())])
        for number, launch in enumerate(self.plan.launches):
            self.launch(launches, only=[number])
            try:
                self._driver.Context.synchronize()
            except self._driver.Error as error:
                raise DeviceError(
                    f"the GPU reports a fault in @{launch.kernel}: {error}; `run --device sim` says where"
                ) from None
        return [self._fetch(self.plan.buffers[number], memory[number]) for number in self.plan.outputs]

    def _fetch(self, buffer: BufferPlan, address: Any) -> Array:
        values = np.empty(buffer.shape, buffer.dtype)
        if values.size:
            self._driver.memcpy_dtoh(values, address)
        return values

    def _load(self) -> dict[str, c_void_p]:
        """The functions by name, with the dynamic shared memory that they ask for."""
        try:
            module = self._module = KernelModule(self.cubin.kernel.cubin)
        except DriverError as error:
            raise DeviceError(f"the GPU does not take the machine code: {error}") from None
        functions: dict[str, c_void_p] = {}
        for launch in self.plan.launches:
            try:
                functions[launch.kernel] = module.function(launch.kernel, launch.shared, launch.is_early)
            except DriverError as error:
                raise refused(launch, error) from None
        return functions


def device_name() -> str:
    """The name of the card, as its driver says it."""
    return _driver().Device(0).name()


def device_target() -> str:
    """The name of the target that the card is: its own, else that of its architecture."""
    driver = _driver()
    major, minor = driver.Device(0).compute_capability()
    return card_named(driver.Device(0).name(), f"sm_{major}{minor}")


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
