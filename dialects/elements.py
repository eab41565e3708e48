"""The element types of tensors and buffers: one row each, which all that names types reads.

A `ui8` is PyTorch's uint8; signless integers are signed where it matters. `arith` has no operations on narrow elements
here but conversions to and from the wide type: what is computed rounds or wraps once, at its end.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from xdsl.dialects.builtin import AnyFloat, IntegerType, Signedness, bf16, f16, f32, f64, i1, i8, i16, i32, i64
from xdsl.ir import Attribute

ui8 = IntegerType(8, Signedness.UNSIGNED)


@dataclass(frozen=True)
class Element:
    """An element type, and what stands for it elsewhere."""

    type: AnyFloat | IntegerType
    c: str
    """Its C type."""
    dtype: str
    """The name of its dtype in numpy, or in ml_dtypes."""
    vectors: Mapping[int, str] = field(default_factory=dict[int, str])
    """The CUDA vector types that move several elements in one access of 2 to 16 bytes, by how many."""
    wide: Attribute | None = None
    """The type in which its elements are computed, if that is another one."""
    word: str = ""
    """How CUDA's functions that convert it to and from `float` are called: `__half2float` and `__float2half_rn`."""
    header: str = ""
    """The header that declares its C type."""
    ptx: str = ""
    """What PTX calls factors of tensor cores; f32 are read as TF32."""
    tensor_map: int | None = None
    """Its CUtensorMapDataType (cuda.h), if boxes may have it; bytes have no sign there, as only zero is filled in."""

    @property
    def name(self) -> str:
        """What it is called in IR."""
        return str(self.type)

    @property
    def bytes(self) -> int:
        """Its size in memory: an i1 takes one byte."""
        return max(1, self.type.bitwidth // 8)


_TWO_BYTES = {2: "short2", 4: "short4", 8: "uint4"}
_ONE_BYTE = {2: "uchar2", 4: "uchar4", 8: "uint2", 16: "uint4"}

ROWS = (
    Element(f32, "float", "float32", {2: "float2", 4: "float4"}, ptx="tf32", tensor_map=7),
    Element(f64, "double", "float64", {2: "double2"}, tensor_map=8),
    Element(f16, "__half", "float16", _TWO_BYTES, f32, "half", "cuda_fp16.h", "f16", 6),
    Element(bf16, "__nv_bfloat16", "bfloat16", _TWO_BYTES, f32, "bfloat16", "cuda_bf16.h", "bf16", 9),
    Element(i32, "int", "int32", {2: "int2", 4: "int4"}, tensor_map=3),
    Element(i64, "long long", "int64", {2: "longlong2"}, tensor_map=5),
    Element(i8, "signed char", "int8", _ONE_BYTE, i32, ptx="s8", tensor_map=0),
    Element(i16, "short", "int16", _TWO_BYTES, i32),
    Element(ui8, "unsigned char", "uint8", _ONE_BYTE, i32),
    Element(i1, "bool", "bool", _ONE_BYTE),
)
"""Every type that an element of a tensor or buffer may have."""

ELEMENTS: tuple[Attribute, ...] = tuple(row.type for row in ROWS)
FLOATS: tuple[Attribute, ...] = tuple(type for type in ELEMENTS if isinstance(type, AnyFloat))
INTEGERS: tuple[Attribute, ...] = tuple(type for type in ELEMENTS if type not in (*FLOATS, i1))

WIDE: dict[Attribute, Attribute] = {row.type: row.wide for row in ROWS if row.wide is not None}
"""The type in which the elements of a narrow type are computed."""

BY_NAME = {row.name: row for row in ROWS}
"""The rows by the names of their types."""


def listed(elements: Sequence[Attribute]) -> str:
    """The types for a message: `f32, f64 or i1`."""
    *first, last = (str(element) for element in elements)
    return f"{', '.join(first)} or {last}" if first else last
