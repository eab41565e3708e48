"""A GPU that others use, too: contexts, memory and kernels by pycuda, launches by NVIDIA's bindings of the driver.

pycuda starts kernels on streams of its own alone, not on PyTorch's, and none early.
"""

from __future__ import annotations

import ctypes
import importlib
import weakref
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import cache
from typing import Any, TypeAlias

from deplodock.runtime.plan import LaunchPlan

LaunchCall: TypeAlias = tuple[Any, ...]
"""The arguments of cuLaunchKernelEx."""


_NON_BLOCKING = 1
"""CU_STREAM_NON_BLOCKING (cuda.h)."""


class DriverError(Exception):
    """A call of the bindings that failed: its function, and what the driver says."""


class Context:
    """The primary context of a GPU by its number, which is PyTorch's, too.

    `with` makes it the current one of a thread, and then the one before it, of whatever GPU. Raises pycuda's Error.
    """

    def __init__(self, number: int) -> None:
        self._pycuda = pycuda()
        self._context = self._pycuda.Device(number).retain_primary_context()
        _keep(self._context)

    def __enter__(self) -> None:
        self._context.push()

    def __exit__(self, *_: object) -> None:
        self._pycuda.Context.pop()

    def keeps(self, owner: object, made: Any) -> list[Any]:
        """Keep what pycuda made in this context until nobody keeps its owner any more; then it is destroyed in it.

        Returns a list that has it until then.
        """
        _keep(made)
        kept = [made]
        weakref.finalize(owner, self._destroy, kept).atexit = False
        return kept

    def _destroy(self, kept: list[Any]) -> None:
        # A GPU that has reported a fault takes nothing back, and neither does one of another process, in a fork.
        with suppress(self._pycuda.Error), self:
            self._pycuda.mem_get_info()
            ctypes.pythonapi.Py_DecRef(ctypes.py_object(kept.pop()))


class DeviceMemory:
    """So many bytes of a GPU at `address`, as long as this object is kept.

    Raises pycuda's Error where it has no more.
    """

    def __init__(self, context: Context, size: int) -> None:
        with context:
            memory = pycuda().mem_alloc(size)
        self.address = int(memory)
        context.keeps(self, memory)


class KernelModule:
    """Machine code, loaded into a context as long as this object is kept.

    Raises pycuda's Error if the driver does not take it.
    """

    def __init__(self, context: Context, image: bytes) -> None:
        self._context = context
        with context:
            self._kept = context.keeps(self, pycuda().module_from_buffer(image))

    def function(self, launch: LaunchPlan) -> int:
        """The handle of the kernel of a launch, which may be started with the bytes of dynamic shared memory of that.

        Those that start early all get the same division of an SM's memory into shared memory and cache, the most of the
        former: for another one the SM first has to be idle (CUDA driver API, `CUfunc_cache`).

        Raises pycuda's Error where the driver refuses it, and DriverError where it tells no handle.
        """
        kinds = pycuda().function_attribute
        with self._context:
            function = self._kept[0].get_function(launch.kernel)
            if launch.shared:
                function.set_attribute(kinds.MAX_DYNAMIC_SHARED_SIZE_BYTES, launch.shared)
            if launch.is_early:
                function.set_attribute(kinds.PREFERRED_SHARED_MEMORY_CARVEOUT, 100)
            return _handle(function, launch)


def _handle(function: Any, launch: LaunchPlan) -> int:
    """The handle of a function, which pycuda does not tell: a graph does, in which a launch of it is captured."""
    stream = pycuda().Stream(_NON_BLOCKING)
    function.prepare(f"{launch.parameter_bytes}s")
    call("cuStreamBeginCapture", stream.handle, bindings().CUstreamCaptureMode.CU_STREAM_CAPTURE_MODE_RELAXED)
    function.prepared_async_call((launch.blocks, 1), (launch.threads, 1, 1), stream, b"", shared_size=launch.shared)
    graph = call("cuStreamEndCapture", stream.handle)
    (node,), _ = call("cuGraphGetNodes", graph, 1)
    handle = int(call("cuGraphKernelNodeGetParams", node).func)
    call("cuGraphDestroy", graph)
    return handle


def launch_call(function: Any, launch: LaunchPlan, parameters: Sequence[int]) -> LaunchCall:
    """What `starter` takes for a launch of a kernel: each start reads the parameters at these addresses.

    First comes the configuration, whose stream, `hStream`, is to be set; an early launch starts while the kernel before
    it runs.
    """
    config = bindings().CUlaunchConfig()
    config.gridDimX, config.gridDimY, config.gridDimZ = launch.blocks, 1, 1
    config.blockDimX, config.blockDimY, config.blockDimZ = launch.threads, 1, 1
    config.sharedMemBytes = launch.shared
    if launch.is_early:
        early = bindings().CUlaunchAttribute()
        early.id = bindings().CUlaunchAttributeID.CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION
        early.value.programmaticStreamSerializationAllowed = 1
        config.attrs, config.numAttrs = [early], 1
    return config, function, (ctypes.c_void_p * max(1, len(parameters)))(*parameters), 0


def starter() -> Callable[..., tuple[int]]:
    """cuLaunchKernelEx, which starts a kernel without waiting for it, and gives the status alone, 0 for success."""
    return bindings().cuLaunchKernelEx


def is_capturing(stream: int) -> bool:
    """Whether a CUDA graph is captured on a stream, by its handle. Raises DriverError."""
    return bool(call("cuStreamIsCapturing", stream))


def call(name: str, *arguments: Any) -> Any:
    """Call a function of the bindings for what it gives beside its status, if anything. Raises DriverError."""
    status, *values = getattr(bindings(), name)(*arguments)
    if status:
        raise DriverError(f"{name} fails: {error_text(status)}")
    return values[0] if len(values) == 1 else values


def error_text(status: int) -> str:
    """What the driver says of a status."""
    _, text = bindings().cuGetErrorString(status)
    return text.decode() if text else f"error {int(status)}"


def _keep(made: Any) -> None:
    """Keep pycuda from destroying an object by itself.

    Where it does so, it prints what fails, as all does on a GPU that has reported a fault; in threads that did not make
    the context it warns and fails; and a process that is a fork it ends.
    """
    ctypes.pythonapi.Py_IncRef(ctypes.py_object(made))


@cache
def pycuda() -> Any:
    """The driver by pycuda."""
    return importlib.import_module("pycuda.driver")


@cache
def bindings() -> Any:
    """The driver by NVIDIA's bindings."""
    return importlib.import_module("cuda.bindings.driver")
