"""GPUs by pycuda and by NVIDIA's bindings, of which nothing is there but notes of what they are asked for."""

from __future__ import annotations

import ctypes
from types import SimpleNamespace
from typing import Any

SCRATCH = 1 << 40
"""The address of all memory."""

_ERRORS = {1: b"another error"}
_CAPTURED = 5
"""The handle of the stream on which launches are captured."""


class PycudaError(Exception):
    """A call that failed."""


class Recorder:
    """Two GPUs, and the calls that they get, a line each; one of the second starts with its number.

    An image is text: the first line is its name, each further one that of a kernel, with a letter for each parameter,
    `p` for a pointer and `m` for a tensor map.
    """

    def __init__(self) -> None:
        self.has_fault = False
        """Whether a GPU has reported a fault, after which each call fails."""
        self.kernels: list[list[str]] = []
        """The kernels of which a launch was captured; the handle of one is its place."""
        self.current: list[int] = []
        """The GPUs whose contexts are pushed, the current one last."""
        self._lines: list[str] = []
        self.pycuda, self.bindings = _Pycuda(self), _Bindings(self)

    def note(self, line: str) -> None:
        """Note a call on the current GPU."""
        self._lines.append(f"{'1: ' if self.current[-1:] == [1] else ''}{line}")

    def __call__(self) -> list[str]:
        """The calls since the last time."""
        lines, self._lines = self._lines, []
        return lines


class _Pycuda:
    Error = PycudaError
    function_attribute = SimpleNamespace(MAX_DYNAMIC_SHARED_SIZE_BYTES=8, PREFERRED_SHARED_MEMORY_CARVEOUT=9)

    def __init__(self, recorder: Recorder) -> None:
        self._recorder = recorder
        self.Context = SimpleNamespace(pop=recorder.current.pop)

    def Device(self, number: int) -> SimpleNamespace:
        if number > 1:
            raise PycudaError("cuDeviceGet failed: another error")
        context = SimpleNamespace(push=lambda: self._recorder.current.append(number))
        return SimpleNamespace(retain_primary_context=lambda: context, compute_capability=lambda: (9, 0))

    def mem_alloc(self, size: int) -> _Memory:
        self._recorder.note(f"allocate {size}")
        return _Memory(self._recorder)

    def module_from_buffer(self, image: bytes) -> _Module:
        name = image.decode().splitlines()[0]
        self._recorder.note(f"load {name}")
        if name.startswith("wrong"):
            raise PycudaError("cuModuleLoadDataEx failed: no kernel image")
        return _Module(self._recorder, image.decode())

    @staticmethod
    def Stream(flags: int) -> SimpleNamespace:
        return SimpleNamespace(handle=_CAPTURED)

    def mem_get_info(self) -> None:
        if self._recorder.has_fault:
            raise PycudaError("cuMemGetInfo failed: an illegal memory access")

    def memset_d8(self, address: int, byte: int, size: int) -> None:
        self._recorder.note(f"fill {address} {byte} {size}")


class _Memory:
    """Memory of pycuda, which frees it with its last reference."""

    def __init__(self, recorder: Recorder) -> None:
        self._recorder = recorder

    def __int__(self) -> int:
        return SCRATCH

    def __del__(self) -> None:
        self._recorder.note(f"free {SCRATCH}")


class _Module:
    """A module of pycuda, which unloads it with its last reference."""

    def __init__(self, recorder: Recorder, text: str) -> None:
        self._recorder, self._text = recorder, text

    def get_function(self, name: str) -> _Function:
        kernels = [line.split() for line in self._text.splitlines()[1:-1]]
        found = [kernel for kernel in kernels if kernel[0] == name]
        if not found:
            raise PycudaError("cuModuleGetFunction failed: another error")
        return _Function(self._recorder, found[0])

    def __del__(self) -> None:
        self._recorder.note("unload")


class _Function:
    def __init__(self, recorder: Recorder, kernel: list[str]) -> None:
        self._recorder, self._kernel = recorder, kernel

    def set_attribute(self, attribute: int, value: int) -> None:
        self._recorder.note(f"attribute {self._kernel[0]} {attribute} {value}")

    def prepare(self, types: str) -> None:
        """Say what the parameters are: so many bytes, as many as they have."""
        size = 0
        for kind in self._kernel[1]:
            size = -(-size // 64) * 64 + 128 if kind == "m" else size + 8
        assert types == f"{size}s"

    def prepared_async_call(
        self, grid: object, block: object, stream: SimpleNamespace, *arguments: object, shared_size: int
    ) -> None:
        """A launch while a graph is captured, which has a node of it."""
        assert stream.handle == _CAPTURED
        self._recorder.kernels.append(self._kernel)


class _Config:
    hStream: int
    numAttrs = 0
    attrs: tuple[Any, ...] = ()


class _Bindings:
    CUlaunchConfig = _Config
    CUlaunchAttributeID = SimpleNamespace(CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION=6)
    CUstreamCaptureMode = SimpleNamespace(CU_STREAM_CAPTURE_MODE_RELAXED=2)

    def __init__(self, recorder: Recorder) -> None:
        self._recorder = recorder

    @staticmethod
    def CUlaunchAttribute() -> SimpleNamespace:
        return SimpleNamespace(value=SimpleNamespace())

    @staticmethod
    def cuGetErrorString(status: int) -> tuple[int, bytes]:
        return 0, _ERRORS[status]

    @staticmethod
    def cuStreamBeginCapture(stream: int, mode: int) -> tuple[int]:
        return (0,)

    @staticmethod
    def cuStreamEndCapture(stream: int) -> tuple[int, str]:
        return 0, "graph"

    @staticmethod
    def cuGraphGetNodes(graph: str, most: int) -> tuple[int, list[str], int]:
        return 0, ["node"], 1

    def cuGraphKernelNodeGetParams(self, node: str) -> tuple[int, SimpleNamespace]:
        return 0, SimpleNamespace(func=len(self._recorder.kernels) - 1)

    @staticmethod
    def cuGraphDestroy(graph: str) -> tuple[int]:
        return (0,)

    def cuStreamIsCapturing(self, stream: int) -> tuple[int, int]:
        return 0, int(stream == 9)

    def cuLaunchKernelEx(self, config: Any, function: int, parameters: Any, extra: int) -> tuple[int]:
        assert (config.gridDimY, config.gridDimZ, config.blockDimY, config.blockDimZ, extra) == (1, 1, 1, 1, 0)
        assert len(config.attrs) == config.numAttrs
        name, kinds = self._recorder.kernels[function]
        words = [name, config.gridDimX, config.blockDimX, config.sharedMemBytes, config.hStream]
        for attribute in config.attrs:
            assert attribute.id == self.CUlaunchAttributeID.CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION
            words.append(f"early={attribute.value.programmaticStreamSerializationAllowed}")
        for kind, address in zip(kinds, parameters, strict=True):
            word = ctypes.c_uint64.from_address(address).value if kind == "p" else ctypes.string_at(address).decode()
            words.append(word)
        self._recorder.note(f"launch {' '.join(map(str, words))}")
        return (0,)


def encoder(memory: Any, type: int, rank: int, address: Any, *rest: Any) -> int:
    """What writes a tensor map as text."""
    shape, strides, box, steps, *modes = rest
    boxes = (number for pair in zip(box, steps, strict=True) for number in pair)
    values = (type, rank, address.value, *shape, *list(strides)[: rank - 1], *boxes, *modes)
    text = ",".join(map(str, values)).encode() + b"\0"
    ctypes.memmove(memory, text, len(text))
    return 0
