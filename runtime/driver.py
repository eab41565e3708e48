"""CUDA's driver by ctypes, for what pycuda does not do.

To start kernels on any stream, on arguments that stay, and to use a GPU in threads that others use for others.
"""

from __future__ import annotations

import ctypes
import weakref
from collections.abc import Callable, Sequence
from contextlib import suppress
from ctypes import c_char_p, c_int, c_size_t, c_uint, c_uint64, c_void_p
from functools import cache
from typing import Any, TypeAlias

_STARTS_EARLY = 6
"""CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION (cuda.h)."""


class _Attribute(ctypes.Structure):
    """CUlaunchAttribute (cuda.h), whose value is a number that is 0 or not."""

    _fields_ = (("id", c_uint64), ("value", c_int * 16))


class LaunchConfig(ctypes.Structure):
    """CUlaunchConfig (cuda.h): the grid, the threads of a CTA, shared memory in bytes, the stream, and attributes."""

    _fields_ = (
        *((name, c_uint) for name in ("blocks", "_y", "_z", "threads", "_ty", "_tz", "shared")),
        ("stream", c_void_p),
        ("attributes", ctypes.POINTER(_Attribute)),
        ("count", c_uint),
    )


LaunchCall: TypeAlias = tuple[Any, ...]
"""The arguments of cuLaunchKernelEx."""

_DYNAMIC_SHARED = 8
"""CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES (cuda.h)."""

_SHARED_PERCENT = 9
"""CU_FUNC_ATTRIBUTE_PREFERRED_SHARED_MEMORY_CARVEOUT (cuda.h)."""


class DriverError(Exception):
    """A call of the driver that failed: its function, and what the driver says."""


class Context:
    """The primary context of a GPU by its number, which is PyTorch's, too.

    `with` makes it the current one of a thread, and then the one before it, of whatever GPU. Raises DriverError.
    """

    def __init__(self, number: int) -> None:
        device, self._handle = c_int(), c_void_p()
        call("cuInit", c_uint(0))
        call("cuDeviceGet", ctypes.byref(device), c_int(number))
        call("cuDevicePrimaryCtxRetain", ctypes.byref(self._handle), device)

    def __enter__(self) -> None:
        call("cuCtxPushCurrent_v2", self._handle)

    def __exit__(self, *_: object) -> None:
        call("cuCtxPopCurrent_v2", ctypes.byref(c_void_p()))

    def releases(self, owner: object, name: str, resource: Any) -> None:
        """Have a function of the driver release what it made in this context, when nobody keeps its owner any more."""
        weakref.finalize(owner, self._release, name, resource).atexit = False

    def _release(self, name: str, resource: Any) -> None:
        # A GPU that has reported a fault takes nothing back.
        with suppress(DriverError), self:
            getattr(library(), name)(resource)


class DeviceMemory:
    """So many bytes of a GPU at `address`, as long as this object is kept. Raises DriverError where it has no more."""

    def __init__(self, context: Context, size: int) -> None:
        address = c_uint64()
        with context:
            call("cuMemAlloc_v2", ctypes.byref(address), c_size_t(size))
        self.address = address.value
        context.releases(self, "cuMemFree_v2", address)


class KernelModule:
    """Machine code, loaded into a context as long as this object is kept.

    Raises DriverError if the driver does not take it.
    """

    def __init__(self, context: Context, image: bytes) -> None:
        self._module, self._context = c_void_p(), context
        with context:
            call("cuModuleLoadData", ctypes.byref(self._module), image)
        context.releases(self, "cuModuleUnload", self._module)

    def function(self, name: str, shared: int, is_early: bool) -> c_void_p:
        """A kernel by name, which may be started with so many bytes of dynamic shared memory. Raises DriverError.

        Those that start early all get the same division of an SM's memory into shared memory and cache, the most of the
        former: for another one the SM first has to be idle (CUDA driver API, `CUfunc_cache`).
        """
        function = c_void_p()
        with self._context:
            call("cuModuleGetFunction", ctypes.byref(function), self._module, name.encode())
            if shared:
                call("cuFuncSetAttribute", function, c_int(_DYNAMIC_SHARED), c_int(shared))
            if is_early:
                call("cuFuncSetAttribute", function, c_int(_SHARED_PERCENT), c_int(100))
        return function


def launch_config(blocks: int, threads: int, shared: int, is_early: bool) -> LaunchConfig:
    """The configuration of a launch, whose stream is to be set; an early one starts while the kernel before it runs."""
    config = LaunchConfig(blocks, 1, 1, threads, 1, 1, shared, None, None, int(is_early))
    if is_early:
        config.attributes = (_Attribute * 1)(_Attribute(_STARTS_EARLY, (c_int * 16)(1)))
    return config


def launch_call(function: c_void_p, config: LaunchConfig, parameters: Sequence[int]) -> LaunchCall:
    """What `starter` takes: each start reads the configuration, and the parameters at these addresses."""
    values = (c_void_p * max(1, len(parameters)))(*parameters)
    return ctypes.byref(config), function, values, None


def starter() -> Callable[..., int]:
    """cuLaunchKernelEx, which starts a kernel without waiting for it, and gives the number of an error, 0 for none."""
    return library().cuLaunchKernelEx


def is_capturing(stream: int) -> bool:
    """Whether a CUDA graph is captured on a stream, by its handle. Raises DriverError."""
    status = c_int()
    call("cuStreamIsCapturing", c_void_p(stream), ctypes.byref(status))
    return bool(status.value)


def call(name: str, *arguments: Any) -> None:
    """Call a function of the driver. Raises DriverError where it fails."""
    if result := getattr(library(), name)(*arguments):
        raise DriverError(f"{name} fails: {error_text(result)}")


def error_text(result: int) -> str:
    """What the driver says of the number of an error."""
    text = c_char_p()
    library().cuGetErrorString(c_int(result), ctypes.byref(text))
    return text.value.decode() if text.value else f"error {result}"


@cache
def library() -> ctypes.CDLL:
    """The driver."""
    return ctypes.CDLL("libcuda.so.1")
