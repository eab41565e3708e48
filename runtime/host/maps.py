"""Tensor maps for the host: 128 bytes that `program.cpp` reads, in the place of those that the CUDA driver encodes."""

from __future__ import annotations

import ctypes
import struct
from typing import Any

from deplodock.runtime.plan import TensorMapPlan
from deplodock.runtime.tensor_maps import TensorMap

_BYTES = {0: 1, 3: 4, 5: 8, 6: 2, 7: 4, 8: 8, 9: 2, 11: 4}
"""The bytes of an element by CUtensorMapDataType."""

_TFLOAT32 = 11
"""The CUtensorMapDataType whose elements are rounded to TF32."""

_SPANS = {0: 0, 1: 32, 2: 64, 3: 128}
"""The bytes of a swizzled row by CUtensorMapSwizzle."""

_UNIT = 16
_LARGEST_BOX = 256
_INVALID_VALUE = 1


def encode(map: TensorMapPlan) -> bytes:
    """The bytes of a tensor map; its buffer goes by its number. Raises Error where the driver would refuse it."""
    made = TensorMap(map, _encoder)
    made.place(_UNIT * (map.buffer + 1))
    return made.bytes


def _encoder(
    memory: ctypes.c_void_p,
    type: int,
    rank: int,
    address: ctypes.c_void_p,
    extents: Any,
    strides: Any,
    box: Any,
    steps: Any,
    interleave: int,
    swizzle: int,
    promotion: int,
    fill: int,
) -> int:
    """What cuTensorMapEncodeTiled checks of its arguments (CUDA Driver API, "Tensor Map Object Managment")."""
    element, span = _BYTES[type], _SPANS[swizzle]
    sizes, rows, lengths = list(extents)[:rank], list(strides)[: rank - 1], list(box)[:rank]
    row = lengths[0] * element
    is_valid = (
        1 <= rank <= 5
        and all(0 < size < 2**32 for size in sizes)
        and all(stride % _UNIT == 0 and stride < 2**40 for stride in rows)
        and all(0 < length <= _LARGEST_BOX for length in lengths)
        and list(steps)[:rank] == [1] * rank
        and row % _UNIT == 0
        and (span == 0 or row <= span)
        and interleave == fill == 0
    )
    if not is_valid:
        return _INVALID_VALUE
    number = (address.value or 0) // _UNIT - 1
    values = [*_filled(sizes, 5), *_filled(rows, 4), *_filled(lengths, 5)]
    ctypes.memmove(
        memory, struct.pack("<Q8B14Q", number, rank, span, element, type == _TFLOAT32, *[0] * 4, *values), 128
    )
    return 0


def _filled(values: list[int], length: int) -> list[int]:
    return [*values, *[0] * (length - len(values))]
