"""How the values of the IR are held: numpy arrays, one dtype for each element type."""

from __future__ import annotations

from functools import cache
from typing import Any, Literal, TypeAlias

import numpy as np
from xdsl.dialects.builtin import BFloat16Type, IndexType, f16, f32, f64, i1, i8, i16, i32, i64
from xdsl.ir import Attribute

from deplodock.dialects.elements import ELEMENTS, FLOATS, listed, ui8
from deplodock.errors import UnsupportedError

Array: TypeAlias = np.ndarray[Any, np.dtype[Any]]
DType: TypeAlias = np.dtype[Any]

Precision = Literal["native", "float64"]
"""`native` computes every type as it is; `float64` computes every float in float64, for reference runs."""

_DTYPES: dict[Attribute, DType] = {
    f32: np.dtype(np.float32),
    f64: np.dtype(np.float64),
    f16: np.dtype(np.float16),
    i32: np.dtype(np.int32),
    i64: np.dtype(np.int64),
    i16: np.dtype(np.int16),
    i8: np.dtype(np.int8),
    ui8: np.dtype(np.uint8),
    i1: np.dtype(np.bool_),
    IndexType(): np.dtype(np.int64),
}


def dtype_of(type: Attribute, precision: Precision = "native") -> DType:
    """The dtype that holds a scalar type: the one of its name; bool for i1, int64 for index.

    Raises UnsupportedError for a type that no element has.
    """
    if precision == "float64" and type in FLOATS:
        return _DTYPES[f64]
    if isinstance(type, BFloat16Type):
        return _bfloat16()
    if type not in _DTYPES:
        raise UnsupportedError(f"values are of index, {listed(ELEMENTS)}, not {type}")
    return _DTYPES[type]


@cache
def _bfloat16() -> DType:
    """The bfloat16 that ml_dtypes adds to numpy, imported by the first program that has such values."""
    import ml_dtypes

    return np.dtype(ml_dtypes.bfloat16)


def is_float(dtype: DType) -> bool:
    """Whether values are floating-point numbers; to numpy itself bfloat16 is an opaque kind."""
    return dtype.kind in "fV"


def epsilon(dtype: DType) -> float:
    """The distance from 1 to the next number of a floating-point dtype; bfloat16 has 7 bits after the leading one."""
    return 2.0**-7 if dtype.kind == "V" else float(np.finfo(dtype).eps)


def smallest(dtype: DType) -> float:
    """The smallest positive number of a floating-point dtype, a subnormal one; bfloat16 has the exponents of FP32."""
    return 2.0**-133 if dtype.kind == "V" else float(np.finfo(dtype).smallest_subnormal)


def poison(dtype: DType) -> Array:
    """The value that stands for an unspecified one: NaN, or bytes 0x5a, so that a use of it shows in the results."""
    if is_float(dtype):
        return np.asarray(np.nan, dtype)
    if dtype.kind == "b":
        return np.asarray(True)
    return np.frombuffer(b"\x5a" * dtype.itemsize, dtype)[0]


def bits(values: Array) -> Array:
    """The values as unsigned integers of their size, so that equality is equality of bits."""
    return np.asarray(values, order="C").view(np.dtype(f"u{values.dtype.itemsize}"))
