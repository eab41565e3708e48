"""Tensor maps as the hardware reads them: 128 bytes that the CUDA driver encodes for a buffer at an address."""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Sequence
from functools import cache
from typing import Any

from deplodock.analysis.machine.targets import TENSOR_MAP_ALIGNMENT, TENSOR_MAP_BYTES
from deplodock.dialects.elements import ROWS
from deplodock.errors import Error
from deplodock.runtime.plan import TensorMapPlan

_TYPES = {**{row.dtype: row.tensor_map for row in ROWS if row.tensor_map is not None}, "tfloat32": 11}
"""CUtensorMapDataType by element type; elements of TFLOAT32 are f32 in memory."""

_SWIZZLES = {0: 0, 32: 1, 64: 2, 128: 3}
"""CUtensorMapSwizzle by span in bytes."""

L2_PROMOTION = "CU_TENSOR_MAP_L2_PROMOTION_L2_128B"
"""Lines of L2 are fetched whole."""

_L2_PROMOTION_128 = 2
"""The number of `L2_PROMOTION`."""

Encoder = Callable[..., int]


class TensorMap:
    """A tensor map in memory of its own, aligned, which kernels are given by value."""

    def __init__(self, map: TensorMapPlan, encoder: Encoder | None = None) -> None:
        """`encoder` stands for the driver's function."""
        self.plan = map
        self._memory = ctypes.create_string_buffer(TENSOR_MAP_BYTES + TENSOR_MAP_ALIGNMENT)
        start = ctypes.addressof(self._memory)
        self.pointer = start + -start % TENSOR_MAP_ALIGNMENT
        """Where it lies."""
        self._encoder = encoder or _encoder()
        self._address = ctypes.c_void_p()
        shape, strides, box = dimensions(map)
        self._arguments = (
            ctypes.c_void_p(self.pointer),
            _TYPES[_type(map)],
            len(shape),
            self._address,
            _array(ctypes.c_uint64, shape),
            _array(ctypes.c_uint64, strides),
            _array(ctypes.c_uint32, box),
            _array(ctypes.c_uint32, [1] * len(shape)),
            0,
            _SWIZZLES[map.swizzle],
            _L2_PROMOTION_128,
            0,
        )

    @property
    def bytes(self) -> bytes:
        """What kernels are given."""
        return ctypes.string_at(self.pointer, TENSOR_MAP_BYTES)

    def place(self, address: int) -> None:
        """Make it one of the buffer at an address. Raises Error where the driver refuses it."""
        if self._address.value == address:
            return
        self._address.value = address
        if result := self._encoder(*self._arguments):
            self._address.value = None
            raise Error(f"cuTensorMapEncodeTiled refuses {self.plan} at {address:#x} with error {result}")


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
    name = _type(map)
    return f"CU_TENSOR_MAP_DATA_TYPE_{'UINT8' if name == 'int8' else name.upper()}"


def _type(map: TensorMapPlan) -> str:
    """The element type by its name in `_TYPES`."""
    return "tfloat32" if map.is_tf32 else map.dtype.name


def swizzle_name(map: TensorMapPlan) -> str:
    """The CUtensorMapSwizzle of a map by its name in C."""
    return f"CU_TENSOR_MAP_SWIZZLE_{f'{map.swizzle}B' if map.swizzle else 'NONE'}"


@cache
def _encoder() -> Encoder:
    """The driver's own function: the bindings have it write where Python allocates, at no multiple of 64 bytes."""
    return ctypes.CDLL("libcuda.so.1").cuTensorMapEncodeTiled


def _array(type: Any, values: Sequence[int]) -> Any:
    return (type * max(1, len(values)))(*values)
