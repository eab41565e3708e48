"""The scalar operations of `arith`, `math` and `math_ext` as CUDA C expressions: a flat table with their exact meaning.

Floating point is IEEE without contraction or approximation (nvcc's defaults with `-fmad=false`): `/` and `sqrt` round
correctly, the other functions are the accurate ones of the CUDA math library, minima and maxima treat NaN and signed
zeros as IEEE 754-2019 says. Signed integers wrap around, through unsigned arithmetic where C leaves overflow undefined.
i1 is `bool`; as a signed number, true is -1.
"""

from __future__ import annotations

import math
import re
import struct
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from xdsl.dialects.arith import CMPF_COMPARISON_OPERATIONS, CMPI_COMPARISON_OPERATIONS, CmpfOp, CmpiOp, DivfOp
from xdsl.dialects.builtin import (
    BFloat16Type,
    Float16Type,
    Float32Type,
    Float64Type,
    FloatAttr,
    IndexType,
    IntegerAttr,
)
from xdsl.dialects.math import Exp2Op, ExpOp
from xdsl.dialects.utils import FastMathFlag
from xdsl.ir import Attribute, Operation

from deplodock.dialects.elements import BY_NAME, ELEMENTS, ROWS, listed
from deplodock.errors import UnsupportedError

C_TYPES = {**{row.name: row.c for row in ROWS}, "index": "long long"}
"""The C type of each scalar type; an index is narrowed to `int` where its range allows."""

HEADERS = {row.c: row.header for row in ROWS if row.header}
"""The headers that declare C types."""

VECTORS = {
    **{(row.name, width): vector for row in ROWS for width, vector in row.vectors.items()},
    ("index", 2): BY_NAME["i64"].vectors[2],
}
"""The CUDA vector type that moves `width` elements of a type in one access of 2 to 16 bytes."""

_HALVES = {row.name: (f"__{row.word}2float({{0}})", f"__float2{row.word}_rn({{0}})") for row in ROWS if row.word}
"""The conversions of each half precision to and from `float`, the second rounding to nearest, ties to even."""


class Signature(NamedTuple):
    """What selects an expression: the op, its predicate if it compares, its last operand's type and its result's."""

    op: str
    predicate: str
    operand: str
    result: str


_FLOAT_OPERATIONS = {
    "arith.addf": "{0} + {1}",
    "arith.subf": "{0} - {1}",
    "arith.mulf": "{0} * {1}",
    "arith.divf": "{0} / {1}",
    "arith.negf": "-{0}",
    "arith.maximumf": "maximum{f}({0}, {1})",
    "arith.minimumf": "minimum{f}({0}, {1})",
    "arith.maxnumf": "fmax{f}({0}, {1})",
    "arith.minnumf": "fmin{f}({0}, {1})",
    "math.absf": "fabs{f}({0})",
    "math.round": "round{f}({0})",
    "math.roundeven": "rint{f}({0})",
    "math.powf": "pow{f}({0}, {1})",
    "math.atan2": "atan2{f}({0}, {1})",
    "math.copysign": "copysign{f}({0}, {1})",
    "math.fma": "fma{f}({0}, {1}, {2})",
    "math_ext.fmod": "fmod{f}({0}, {1})",
}

_FLOAT_FUNCTIONS = (
    *("acos", "acosh", "asin", "asinh", "atan", "atanh", "cbrt", "ceil", "cos", "cosh", "erf", "exp", "exp2", "expm1"),
    *("floor", "log", "log10", "log1p", "log2", "rsqrt", "sin", "sinh", "sqrt", "tan", "tanh", "trunc"),
)

_FLOAT_COMPARISONS = {
    "false": "false",
    "oeq": "{0} == {1}",
    "ogt": "{0} > {1}",
    "oge": "{0} >= {1}",
    "olt": "{0} < {1}",
    "ole": "{0} <= {1}",
    "one": "{0} < {1} || {0} > {1}",
    "ord": "{0} == {0} && {1} == {1}",
    "ueq": "!({0} < {1} || {0} > {1})",
    "ugt": "!({0} <= {1})",
    "uge": "!({0} < {1})",
    "ult": "!({0} >= {1})",
    "ule": "!({0} > {1})",
    "une": "{0} != {1}",
    "uno": "{0} != {0} || {1} != {1}",
    "true": "true",
}

_INTEGER_OPERATIONS = {
    "arith.addi": "({T})(({U}){0} + ({U}){1})",
    "arith.subi": "({T})(({U}){0} - ({U}){1})",
    "arith.muli": "({T})(({U}){0} * ({U}){1})",
    "arith.divsi": "{0} / {1}",
    "arith.divui": "({T})(({U}){0} / ({U}){1})",
    "arith.floordivsi": "floor_div({0}, {1})",
    "arith.ceildivsi": "ceil_div({0}, {1})",
    "arith.ceildivui": "({T})(({U}){0} / ({U}){1} + (({U}){0} % ({U}){1} != 0))",
    "arith.remsi": "{0} % {1}",
    "arith.remui": "({T})(({U}){0} % ({U}){1})",
    "arith.minsi": "{0} < {1} ? {0} : {1}",
    "arith.maxsi": "{0} > {1} ? {0} : {1}",
    "arith.minui": "({U}){0} < ({U}){1} ? {0} : {1}",
    "arith.maxui": "({U}){0} > ({U}){1} ? {0} : {1}",
    "arith.andi": "{0} & {1}",
    "arith.ori": "{0} | {1}",
    "arith.xori": "{0} ^ {1}",
    "arith.shli": "({T})(({U}){0} << {1})",
    "arith.shrsi": "{0} >> {1}",
    "arith.shrui": "({T})(({U}){0} >> {1})",
    "math.absi": "{0} < 0 ? ({T})-({U}){0} : {0}",
    "math.ipowi": "ipowi({0}, {1})",
    "math.ctlz": "__clz{ll}({0})",
    "math.cttz": "__clz{ll}(__brev{ll}({0}))",
    "math.ctpop": "__popc{ll}({0})",
}

_INTEGER_COMPARISONS = {
    "eq": "{0} == {1}",
    "ne": "{0} != {1}",
    "slt": "{0} < {1}",
    "sle": "{0} <= {1}",
    "sgt": "{0} > {1}",
    "sge": "{0} >= {1}",
    "ult": "({U}){0} < ({U}){1}",
    "ule": "({U}){0} <= ({U}){1}",
    "ugt": "({U}){0} > ({U}){1}",
    "uge": "({U}){0} >= ({U}){1}",
}

_BOOL_OPERATIONS = {
    "arith.addi": "{0} != {1}",
    "arith.subi": "{0} != {1}",
    "arith.muli": "{0} && {1}",
    "arith.andi": "{0} && {1}",
    "arith.ori": "{0} || {1}",
    "arith.xori": "{0} != {1}",
    "arith.minsi": "{0} || {1}",
    "arith.maxsi": "{0} && {1}",
    "arith.minui": "{0} && {1}",
    "arith.maxui": "{0} || {1}",
}

_BOOL_COMPARISONS = {
    "eq": "{0} == {1}",
    "ne": "{0} != {1}",
    "slt": "{0} > {1}",
    "sle": "{0} >= {1}",
    "sgt": "{0} < {1}",
    "sge": "{0} <= {1}",
    "ult": "{0} < {1}",
    "ule": "{0} <= {1}",
    "ugt": "{0} > {1}",
    "uge": "{0} >= {1}",
}

_CASTS = {
    ("arith.extf", "f32", "f64"): "(double){0}",
    ("arith.truncf", "f64", "f32"): "(float){0}",
    ("math_ext.high_part", "f32", "f32"): "__int_as_float(__float_as_int({0}) & ~0x1fff)",
    ("math_ext.round_tf32", "f32", "f32"): "round_tf32({0})",
    ("math_ext.low_part", "f32", "f32"): "low_part({0})",
    ("math_ext.with_low_part", "f32", "f32"): "{0}",
    ("arith.bitcast", "f32", "i32"): "__float_as_int({0})",
    ("arith.bitcast", "i32", "f32"): "__int_as_float({0})",
    ("arith.bitcast", "f64", "i64"): "__double_as_longlong({0})",
    ("arith.bitcast", "i64", "f64"): "__longlong_as_double({0})",
    ("arith.bitcast", "f16", "i16"): "__half_as_short({0})",
    ("arith.bitcast", "i16", "f16"): "__short_as_half({0})",
    ("arith.bitcast", "bf16", "i16"): "__bfloat16_as_short({0})",
    ("arith.bitcast", "i16", "bf16"): "__short_as_bfloat16({0})",
    ("arith.trunci", "i64", "i32"): "(int){0}",
    ("arith.trunci", "i32", "i8"): "(signed char){0}",
    ("arith.trunci", "i32", "i16"): "(short){0}",
    ("arith.trunci", "i32", "ui8"): "(unsigned char){0}",
    ("arith.extsi", "i8", "i32"): "(int){0}",
    ("arith.extsi", "i16", "i32"): "(int){0}",
    ("arith.extui", "ui8", "i32"): "(int){0}",
    ("arith.extui", "i16", "i32"): "(int)(unsigned short){0}",
    ("arith.trunci", "i64", "i1"): "({0} & 1) != 0",
    ("arith.trunci", "i32", "i1"): "({0} & 1) != 0",
    ("arith.extsi", "i32", "i64"): "(long long){0}",
    ("arith.extsi", "i1", "i64"): "{0} ? -1 : 0",
    ("arith.extsi", "i1", "i32"): "{0} ? -1 : 0",
    ("arith.extui", "i32", "i64"): "(long long)(unsigned){0}",
    ("arith.extui", "i1", "i64"): "(long long){0}",
    ("arith.extui", "i1", "i32"): "(int){0}",
    ("arith.index_cast", "i32", "index"): "{0}",
    ("arith.index_cast", "i64", "index"): "{0}",
    ("arith.index_cast", "i1", "index"): "{0} ? -1 : 0",
    ("arith.index_cast", "index", "i32"): "(int){0}",
    ("arith.index_cast", "index", "i64"): "(long long){0}",
    ("arith.index_cast", "index", "i1"): "({0} & 1) != 0",
}


def _float_rows(type: str) -> Iterator[tuple[Signature, str]]:
    suffix = "f" if type == "f32" else ""
    functions = {f"math.{name}": f"{name}{{f}}({{0}})" for name in _FLOAT_FUNCTIONS}
    for op, text in (_FLOAT_OPERATIONS | functions).items():
        yield Signature(op, "", type, type), text.replace("{f}", suffix)
    for predicate, text in _FLOAT_COMPARISONS.items():
        yield Signature("arith.cmpf", predicate, type, "i1"), text
    for integer in ("i32", "i64"):
        unsigned = _unsigned(C_TYPES[integer])
        yield Signature("arith.sitofp", "", integer, type), f"({C_TYPES[type]}){{0}}"
        yield Signature("arith.uitofp", "", integer, type), f"({C_TYPES[type]})({unsigned}){{0}}"
        yield Signature("arith.fptosi", "", type, integer), f"({C_TYPES[integer]}){{0}}"
        yield Signature("arith.fptoui", "", type, integer), f"({C_TYPES[integer]})({unsigned}){{0}}"
    yield Signature("arith.sitofp", "", "i1", type), f"{{0}} ? -1.0{suffix} : 0.0{suffix}"
    yield Signature("arith.uitofp", "", "i1", type), f"({C_TYPES[type]}){{0}}"


def _half_rows(type: str) -> Iterator[tuple[Signature, str]]:
    """Half precision is computed in `float` and rounded; a sum or a product is then rounded correctly."""
    to_float, from_float = _HALVES[type]
    yield Signature("arith.extf", "", type, "f32"), to_float
    yield Signature("arith.truncf", "", "f32", type), from_float
    for key, text in _float_rows("f32"):
        if key.operand != "f32" or key.op == "math.fma":
            continue
        inside = re.sub(r"\{\d\}", lambda match: to_float.replace("{0}", match[0]), text)
        result = type if key.result == "f32" else key.result
        yield key._replace(operand=type, result=result), from_float.replace("{0}", inside) if result == type else inside


def _integer_rows(type: str) -> Iterator[tuple[Signature, str]]:
    bits = {"{T}": C_TYPES[type], "{U}": _unsigned(C_TYPES[type]), "{ll}": "" if type == "i32" else "ll"}

    def specialised(text: str) -> str:
        return re.sub(r"\{\D+?\}", lambda match: bits[match[0]], text)

    for op, text in _INTEGER_OPERATIONS.items():
        if type not in ("i32", "i64") and op.startswith("math."):
            continue
        yield Signature(op, "", type, type), specialised(text)
    for predicate, text in _INTEGER_COMPARISONS.items():
        yield Signature("arith.cmpi", predicate, type, "i1"), specialised(text)


def _bool_rows() -> Iterator[tuple[Signature, str]]:
    for op, text in _BOOL_OPERATIONS.items():
        yield Signature(op, "", "i1", "i1"), text
    for predicate, text in _BOOL_COMPARISONS.items():
        yield Signature("arith.cmpi", predicate, "i1", "i1"), text


def _unsigned(c_type: str) -> str:
    return "unsigned" if c_type == "int" else f"unsigned {c_type.removeprefix('signed ')}"


def _rows() -> Iterator[tuple[Signature, str]]:
    for type in ("f32", "f64"):
        yield from _float_rows(type)
    for type in _HALVES:
        yield from _half_rows(type)
    for type in ("i32", "i64", "i8", "i16", "index"):
        yield from _integer_rows(type)
    yield from _bool_rows()
    for (op, operand, result), text in _CASTS.items():
        yield Signature(op, "", operand, result), text
    for type in C_TYPES:
        yield Signature("arith.select", "", type, type), "{0} ? {1} : {2}"


SCALARS = dict(_rows())
"""The C expression of every scalar operation, over its operands `{0}`, `{1}`, `{2}`, which are names or literals."""

_APPROXIMATIONS = {
    Signature("math.exp", "", "f32", "f32"): "exp2_approx({0} * 1.44269504f)",
    Signature("math.exp2", "", "f32", "f32"): "exp2_approx({0})",
    Signature("arith.divf", "", "f32", "f32"): "__fdividef({0}, {1})",
}
"""The C expressions of operations that may be approximate."""


def _extremum_f32(name: str, instruction: str) -> str:
    return f"""\
__device__ __forceinline__ float {name}(float a, float b) {{
  float r;
  asm("{instruction} %0, %1, %2;" : "=f"(r) : "f"(a), "f"(b));
  return r;
}}
"""


def _extremum_f64(name: str, instruction: str) -> str:
    return f"""\
__device__ __forceinline__ double {name}(double a, double b) {{
  double r;
  asm("{instruction} %0, %1, %2;" : "=d"(r) : "d"(a), "d"(b));
  return a != a || b != b ? a + b : r;
}}
"""


_EXP2_APPROX = """\
__device__ __forceinline__ float exp2_approx(float x) {
  float r;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(r) : "f"(x));
  return r;
}
"""
"""2^x within 2^-22, where results below 2^-126 are 0 (PTX ISA, `ex2`)."""

_LOW_PART = """\
__device__ __forceinline__ float low_part(float x) {
  return __uint_as_float(__float_as_uint(__fsub_rn(x, __uint_as_float(__float_as_uint(x) & ~0x1fffu))) + 0x1000u);
}
"""
"""Half of what TF32 keeps last is added as to an integer; of the NaN that a GPU gives, 0x7fffffff, that makes
0x80000fff, which TF32 reads as -0."""

_ROUND_TF32 = """\
__device__ __forceinline__ float round_tf32(float x) {
  unsigned r;
  asm("cvt.rn.tf32.f32 %0, %1;" : "=r"(r) : "f"(x));
  return __uint_as_float(r);
}
"""

HELPERS = {
    "exp2_approx": _EXP2_APPROX,
    "low_part": _LOW_PART,
    "round_tf32": _ROUND_TF32,
    "maximumf": _extremum_f32("maximumf", "max.NaN.f32"),
    "minimumf": _extremum_f32("minimumf", "min.NaN.f32"),
    "maximum": _extremum_f64("maximum", "max.f64"),
    "minimum": _extremum_f64("minimum", "min.f64"),
    "floor_div": """\
template <typename T>
__device__ __forceinline__ T floor_div(T a, T b) {
  return a / b - (a % b != 0 && (a < 0) != (b < 0));
}
""",
    "floor_mod": """\
template <typename T>
__device__ __forceinline__ T floor_mod(T a, T b) {
  const T r = a % b;
  return r != 0 && (r < 0) != (b < 0) ? r + b : r;
}
""",
    "ceil_div": """\
template <typename T>
__device__ __forceinline__ T ceil_div(T a, T b) {
  return a / b + (a % b != 0 && (a < 0) == (b < 0));
}
""",
    "ipowi": """\
template <typename T>
__device__ __forceinline__ T ipowi(T base, T exponent) {
  if (exponent < 0) return base == 1 || base == -1 ? (exponent & 1 ? base : 1) : 0;
  unsigned long long result = 1, power = base;
  for (; exponent > 0; exponent >>= 1, power *= power)
    if (exponent & 1) result *= power;
  return (T)result;
}
""",
}
"""The device functions that expressions may call, by name, in the order they are printed."""

CALL = re.compile(r"\b([A-Za-z_]\w*)\(")
"""A call, with the name of the function as its group."""

FUNCTIONS = frozenset(name for text in (*SCALARS.values(), *_APPROXIMATIONS.values()) for name in CALL.findall(text))
"""The names of all functions that the expressions call."""


def type_name(type: Attribute) -> str:
    """The name of a scalar type, such as `f32`.

    Raises:
        UnsupportedError: it is neither index nor the type of an element.
    """
    if not isinstance(type, IndexType) and type not in ELEMENTS:
        raise UnsupportedError(f"the type {type} has no CUDA form; use {listed(ELEMENTS)}")
    return str(type)


def signature(op: Operation) -> Signature:
    """The key of a scalar operation in the table.

    Raises:
        UnsupportedError: the op has not one result, or a type is not a scalar of the table.
    """
    if len(op.results) != 1 or not op.operands:
        raise UnsupportedError(f"{op.name} has no CUDA form; lower it before printing")
    predicate = ""
    if isinstance(op, CmpfOp):
        predicate = CMPF_COMPARISON_OPERATIONS[op.predicate.value.data]
    elif isinstance(op, CmpiOp):
        predicate = CMPI_COMPARISON_OPERATIONS[op.predicate.value.data]
    return Signature(op.name, predicate, type_name(op.operands[-1].type), type_name(op.results[0].type))


def _is_inexact(op: Operation) -> bool:
    return isinstance(op, ExpOp | Exp2Op | DivfOp) and FastMathFlag.APPROX_FUNC in op.fastmath.data


def expression(op: Operation, operands: Sequence[str]) -> str:
    """The C expression of a scalar operation on operands that are names or literals.

    Raises:
        UnsupportedError: the table has no such operation on these types.
    """
    key = signature(op)
    template = _APPROXIMATIONS.get(key) if _is_inexact(op) else None
    template = template or SCALARS.get(key)
    if template is None:
        raise UnsupportedError(f"{key.op} from {key.operand} to {key.result} has no CUDA form")
    return template.format(*operands)


def literal(value: Attribute) -> str:
    """A constant as a C literal that has exactly its value; negative ones are parenthesised.

    Raises:
        UnsupportedError: it is not a scalar number.
    """
    match value:
        case FloatAttr(type=Float32Type()):
            return _float_literal(value.value.data)
        case FloatAttr(type=Float64Type()):
            return _double_literal(value.value.data)
        case FloatAttr(type=Float16Type() | BFloat16Type()):
            _, from_float = _HALVES[type_name(value.type)]
            return from_float.replace("{0}", _float_literal(value.value.data))
        case IntegerAttr():
            return _integer_literal(value.value.data, type_name(value.type))
        case _:
            raise UnsupportedError(f"the constant {value} has no CUDA form; only scalar constants have")


def _float_literal(value: float) -> str:
    if not math.isfinite(value):
        (bits,) = struct.unpack("<I", struct.pack("<f", value))
        return f"__int_as_float(0x{bits:08x})"
    texts = (f"{value:.{digits}g}" for digits in range(6, 10))
    shortest = next(text for text in texts if struct.unpack("<f", struct.pack("<f", float(text)))[0] == value)
    return _signed(f"{float(shortest)!r}f")


def _double_literal(value: float) -> str:
    if not math.isfinite(value):
        (bits,) = struct.unpack("<Q", struct.pack("<d", value))
        return f"__longlong_as_double(0x{bits:016x})"
    return _signed(repr(value))


def _integer_literal(value: int, type: str) -> str:
    if type == "i1":
        return "true" if value & 1 else "false"
    bits = int(re.sub(r"\D", "", type) or 64)
    value = (value + (1 << (bits - 1))) % (1 << bits) - (1 << (bits - 1))
    suffix = "LL" if type == "i64" else ""
    if value == -(1 << (bits - 1)):
        return f"({value + 1}{suffix} - 1)"
    return _signed(f"{value}{suffix}")


def _signed(text: str) -> str:
    return f"({text})" if text.startswith("-") else text
