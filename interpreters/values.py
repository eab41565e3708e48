"""How the values of the IR are held: numpy arrays, one dtype for each element type."""

from __future__ import annotations

from functools import cache
from typing import Any, Literal, TypeAlias

import numpy as np
from xdsl.dialects.builtin import IndexType
from xdsl.ir import Attribute

from deplodock.dialects.elements import BY_NAME, ELEMENTS, FLOATS, listed
from deplodock.errors import UnsupportedError

Array: TypeAlias = np.ndarray[Any, np.dtype[Any]]
DType: TypeAlias = np.dtype[Any]

Precision = Literal["native", "float64"]
"""`native` computes every type as it is; `float64` computes every float in float64, for reference runs."""


def dtype_of(type: Attribute, precision: Precision = "native") -> DType:
    """The dtype that holds a scalar type: the one of its name; bool for i1, int64 for index.

    Raises UnsupportedError for a type that no element has.
    """
    if isinstance(type, IndexType):
        return np.dtype(np.int64)
    if type not in ELEMENTS:
        raise UnsupportedError(f"values are of index, {listed(ELEMENTS)}, not {type}")
    return np.dtype(np.float64) if precision == "float64" and type in FLOATS else _dtype(BY_NAME[str(type)].dtype)


@cache
def _dtype(name: str) -> DType:
    """The dtype of a name, of numpy or of ml_dtypes, which the first program imports that has such values."""
    if hasattr(np, name):
        return np.dtype(name)
    import ml_dtypes

    return np.dtype(getattr(ml_dtypes, name))


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
