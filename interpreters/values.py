"""How the values of the IR are held: numpy arrays, one dtype for each element type."""

from __future__ import annotations

from typing import Any, Literal, TypeAlias

import numpy as np
from xdsl.dialects.builtin import Float32Type, Float64Type, IndexType, IntegerType
from xdsl.ir import Attribute

from deplodock.errors import UnsupportedError

Array: TypeAlias = np.ndarray[Any, np.dtype[Any]]
DType: TypeAlias = np.dtype[Any]

Precision = Literal["native", "float64"]
"""`native` computes every type as it is; `float64` computes f32 in float64, for reference runs."""

_INTEGERS = {1: np.dtype(np.bool_), 32: np.dtype(np.int32), 64: np.dtype(np.int64)}
_F32, _F64 = np.dtype(np.float32), np.dtype(np.float64)


def dtype_of(type: Attribute, precision: Precision = "native") -> DType:
    """The dtype that holds a scalar type: f32, f64, i32, i64, i1 (bool) or index (int64).

    Raises UnsupportedError for any other type.
    """
    match type:
        case Float32Type():
            return _F32 if precision == "native" else _F64
        case Float64Type():
            return _F64
        case IndexType():
            return _INTEGERS[64]
        case IntegerType() if type.width.data in _INTEGERS:
            return _INTEGERS[type.width.data]
        case _:
            raise UnsupportedError(f"values are f32, f64, i32, i64, i1 or index, not {type}")


def poison(dtype: DType) -> Array:
    """The value that stands for an unspecified one: NaN, or bytes 0x5a, so that a use of it shows in the results."""
    if dtype.kind == "f":
        return np.asarray(np.nan, dtype)
    if dtype.kind == "b":
        return np.asarray(True)
    return np.frombuffer(b"\x5a" * dtype.itemsize, dtype)[0]


def bits(values: Array) -> Array:
    """The values as unsigned integers of their size, so that equality is equality of bits."""
    return np.asarray(values, order="C").view(np.dtype(f"u{values.dtype.itemsize}"))
