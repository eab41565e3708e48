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

L2_PROMOTION = "CU_TENSOR_MAP_L2_PROMOTION_L2_128B"
"""Lines of L2 are fetched whole."""

_L2_PROMOTION_128 = 2
"""The number of `L2_PROMOTION`."""

Encoder = Callable[..., int]


def encode(map: TensorMapPlan, address: int, encoder: Encoder | None = None) -> bytes:
    """The bytes of a tensor map of the buffer at an address; `encoder` stands for the driver's function.

    Raises Error where the driver refuses the map.
    """
    memory = ctypes.create_string_buffer(TENSOR_MAP_BYTES + TENSOR_MAP_ALIGNMENT)
    start = -ctypes.addressof(memory) % TENSOR_MAP_ALIGNMENT
    shape, strides, box = dimensions(map)
    result = (encoder or _driver_encoder())(
        ctypes.c_void_p(ctypes.addressof(memory) + start),
        _TYPES[map.dtype.name],
        len(shape),
        ctypes.c_void_p(address),
        _array(ctypes.c_uint64, shape),
        _array(ctypes.c_uint64, strides),
        _array(ctypes.c_uint32, box),
        _array(ctypes.c_uint32, [1] * len(shape)),
        0,
        _SWIZZLES[map.swizzle],
        _L2_PROMOTION_128,
        0,
    )
    if result:
        raise Error(f"cuTensorMapEncodeTiled refuses {map} at {address:#x} with error {result}")
    return memory.raw[start : start + TENSOR_MAP_BYTES]


def dimensions(map: TensorMapPlan) -> tuple[list[int], list[int], list[int]]:
    """The extents, the strides in bytes but for the first, and the extents of a box; the fastest dimension first."""
    strides: list[int] = []
    size = map.dtype.itemsize
    for extent in map.shape[:0:-1]:
        size *= extent
        strides.append(size)
    return [*map.shape[::-1]], strides, [*map.box[::-1]]


def type_name(map: TensorMapPlan) -> str:
    """The CUtensorMapDataType of a map by its name in C."""
    return f"CU_TENSOR_MAP_DATA_TYPE_{map.dtype.name.upper()}"


def swizzle_name(map: TensorMapPlan) -> str:
    """The CUtensorMapSwizzle of a map by its name in C."""
    return f"CU_TENSOR_MAP_SWIZZLE_{f'{map.swizzle}B' if map.swizzle else 'NONE'}"


def _array(type: Any, values: Sequence[int]) -> Any:
    return (type * max(1, len(values)))(*values)


@cache
def _driver_encoder() -> Encoder:
    return ctypes.CDLL("libcuda.so.1").cuTensorMapEncodeTiled
