"""Tensor maps as the hardware reads them: 128 bytes that the CUDA driver encodes for a buffer at an address."""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Sequence
from functools import cache
from typing import Any

from deplodock.analysis.machine.targets import TENSOR_MAP_ALIGNMENT, TENSOR_MAP_BYTES
from deplodock.errors import Error
from deplodock.runtime.plan import TensorMapPlan

_BANKS = {90: 0x210}
_BANK = 0x380


def parameters_start(capability: int) -> int:
    """Where the parameters of kernels start in their bank of constant memory, whose address is aligned.

    Source: EIATTR_PARAM_CBANK of cubins that nvcc 13.0 makes for sm_90, sm_100, sm_103 and sm_120.
    """
    return _BANKS.get(capability, _BANK)


_TYPES = {"int32": 3, "int64": 5, "float16": 6, "float32": 7, "float64": 8, "bfloat16": 9}
"""CUtensorMapDataType by element type."""

_SWIZZLES = {0: 0, 32: 1, 64: 2, 128: 3}
"""CUtensorMapSwizzle by span in bytes."""

_L2_PROMOTION_128 = 2
"""CU_TENSOR_MAP_L2_PROMOTION_L2_128B: lines of L2 are fetched whole."""

Encoder = Callable[..., int]


def encode(map: TensorMapPlan, address: int, encoder: Encoder | None = None) -> bytes:
    """The bytes of a tensor map of the buffer at an address; `encoder` stands for the driver's function.

    Raises Error where the driver refuses the map.
    """
    memory = ctypes.create_string_buffer(TENSOR_MAP_BYTES + TENSOR_MAP_ALIGNMENT)
    start = -ctypes.addressof(memory) % TENSOR_MAP_ALIGNMENT
    result = (encoder or _driver_encoder())(
        ctypes.c_void_p(ctypes.addressof(memory) + start),
        _TYPES[map.dtype.name],
        len(map.shape),
        ctypes.c_void_p(address),
        _array(ctypes.c_uint64, map.shape[::-1]),
        _array(ctypes.c_uint64, _strides(map)),
        _array(ctypes.c_uint32, map.box[::-1]),
        _array(ctypes.c_uint32, [1] * len(map.shape)),
        0,
        _SWIZZLES[map.swizzle],
        _L2_PROMOTION_128,
        0,
    )
    if result:
        raise Error(f"cuTensorMapEncodeTiled refuses {map} at {address:#x} with error {result}")
    return memory.raw[start : start + TENSOR_MAP_BYTES]


def _strides(map: TensorMapPlan) -> list[int]:
    """The strides in bytes of all dimensions but the last, the fastest first."""
    strides: list[int] = []
    size = map.dtype.itemsize
    for extent in map.shape[:0:-1]:
        size *= extent
        strides.append(size)
    return strides


def _array(type: Any, values: Sequence[int]) -> Any:
    return (type * max(1, len(values)))(*values)


@cache
def _driver_encoder() -> Encoder:
    return ctypes.CDLL("libcuda.so.1").cuTensorMapEncodeTiled
