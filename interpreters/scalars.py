"""The scalar operations of `arith`, `math` and `math_ext` on numpy arrays: one table, operation class -> function.

Floats follow IEEE 754 as MLIR words it: `maximumf` and `minimumf` propagate NaN and order -0 below +0, `maxnumf` and
`minnumf` prefer the number. Integers wrap; an i1 is signed, so its true is -1 in `sitofp`, `extsi` and signed
comparisons. What MLIR leaves undefined (division by zero, a shift past the width) gives `values.poison`. Evaluate under
`numpy.errstate(all="ignore")` to silence numpy's own warnings.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, cast

import numpy as np
from xdsl.dialects import arith
from xdsl.dialects import math as math_dialect
from xdsl.dialects.builtin import FloatAttr, IntegerAttr
from xdsl.ir import Operation

from deplodock.analysis.operations import position_of
from deplodock.dialects import math_ext
from deplodock.errors import UnsupportedError
from deplodock.interpreters.values import Array, DType, Precision, bits, dtype_of, poison

Function = Callable[..., Array]
Binary = Callable[[Array, Array], Array]
Entry = Callable[[Operation, DType, Sequence[Array]], Array]


def _dropped(dtype: DType) -> int:
    """The bits of a fraction that its leading part lacks; of float64 half of them, so that two parts are all of it."""
    return math_ext.DROPPED_BITS if dtype == np.float32 else 27


def high_part(value: Array) -> Array:
    """The leading part of values of f32, as `math_ext.high_part` says, or of float64."""
    dropped = _dropped(value.dtype)
    return (bits(value) >> dropped << dropped).view(value.dtype)


def round_tf32(value: Array) -> Array:
    """Values of f32 rounded to TF32, as `math_ext.round_tf32` says; of float64, whose digits are all wanted, as is."""
    if value.dtype != np.float32:
        return value
    raw = bits(value)
    carried = raw + ((1 << (math_ext.DROPPED_BITS - 1)) - 1) + (raw >> math_ext.DROPPED_BITS & 1)
    return np.where(np.isfinite(value), high_part(carried.view(np.float32)), value)


def _with_low_part(value: Array, low: Array) -> Array:
    return value


def _low_part(value: Array) -> Array:
    """What the leading part leaves, as `math_ext.low_part` says."""
    unsigned = bits(value).dtype
    low = bits(value - high_part(value))
    nan = np.asarray(np.iinfo(unsigned).max >> 1, unsigned)
    half = np.asarray(1 << (_dropped(value.dtype) - 1), unsigned)
    return (np.where(np.isnan(value) | np.isinf(value), nan, low) + half).view(value.dtype)


def evaluate_scalar(op: Operation, operands: Sequence[Array], precision: Precision = "native") -> Array:
    """The result of a scalar operation on arrays that broadcast against each other.

    The table has it (`check_scalar`). Raises UnsupportedError if its type is none of `values.dtype_of`.
    """
    return TABLE[type(op)](op, dtype_of(op.results[0].type, precision), operands)


def check_scalar(op: Operation) -> None:
    """Raise UnsupportedError for an operation that is not in the table."""
    if type(op) not in TABLE:
        raise UnsupportedError(f"{describe(op)}: it cannot be evaluated here; arith, math and math_ext are")


def describe(op: Operation) -> str:
    """An operation for a message: its position if known, and its text without regions."""
    text = op.name if op.regions else " ".join(str(op).split())
    position = position_of(op)
    return text if position is None else f"{position}: {text}"


def scalar_value(attribute: object, dtype: DType) -> Array:
    """The value of a FloatAttr or IntegerAttr as a 0-d array."""
    if isinstance(attribute, FloatAttr):
        return np.asarray(attribute.value.data, dtype)
    if isinstance(attribute, IntegerAttr):
        return np.asarray(cast(IntegerAttr[Any], attribute).value.data).astype(dtype)
    raise UnsupportedError(f"expected a float or integer attribute, got {attribute}")


def _plain(function: Function) -> Entry:
    """The function of the operands alone, computed in their own type."""
    return lambda op, dtype, operands: function(*operands)


def _elementary(function: Function) -> Entry:
    """A function on contiguous operands: numpy's results on strided ones may differ in the last bit."""
    return lambda op, dtype, operands: function(*(np.asarray(value, order="C") for value in operands))


def _signed(value: Array) -> Array:
    return -value.astype(np.int8) if value.dtype == np.bool_ else value


def _unsigned(value: Array) -> Array:
    width = value.dtype.itemsize
    return value.astype(np.uint8) if value.dtype == np.bool_ else value.astype(np.dtype(f"u{width}"))


def _wrap(value: Array, dtype: DType) -> Array:
    """An integer result truncated to its type; an i1 keeps the lowest bit."""
    return (value & 1).astype(np.bool_) if dtype == np.bool_ else value.astype(dtype)


def _on_signed(function: Function) -> Entry:
    return lambda op, dtype, operands: _wrap(function(*(_signed(value) for value in operands)), dtype)


def _on_unsigned(function: Function) -> Entry:
    return lambda op, dtype, operands: _wrap(function(*(_unsigned(value) for value in operands)), dtype)


def _quotient(function: Function) -> Function:
    """A division with poison where the divisor is zero."""

    def divide(lhs: Array, rhs: Array) -> Array:
        undefined = rhs == 0
        result = function(lhs, np.where(undefined, np.ones_like(rhs), rhs))
        return np.where(undefined, poison(result.dtype), result)

    return divide


def _truncating(lhs: Array, rhs: Array) -> Array:
    inexact = lhs % rhs != 0
    return lhs // rhs + (inexact & ((lhs < 0) != (rhs < 0))).astype(lhs.dtype)


def _ceiling(lhs: Array, rhs: Array) -> Array:
    return lhs // rhs + (lhs % rhs != 0).astype(lhs.dtype)


def _shift(function: Function, unsigned: bool = False) -> Entry:
    """A shift with poison where the amount, read as unsigned, reaches the width."""

    def run(op: Operation, dtype: DType, operands: Sequence[Array]) -> Array:
        value, amount = operands
        width = 1 if dtype == np.bool_ else 8 * dtype.itemsize
        shifted = _unsigned(value) if unsigned else _signed(value)
        undefined = _unsigned(amount) >= width
        safe = np.where(undefined, np.zeros_like(amount), amount).astype(shifted.dtype)
        return np.where(undefined, poison(dtype), _wrap(function(shifted, safe), dtype))

    return run


def _zeros_ordered(result: Array, lhs: Array, rhs: Array, of_zeros: Function) -> Array:
    """`result`, with `of_zeros` where both operands are zeros, which numpy does not order."""
    if not np.any(result == 0):
        return result
    return np.where((lhs == 0) & (rhs == 0), of_zeros(lhs, rhs), result)


def _maximum_zero(lhs: Array, rhs: Array) -> Array:
    return lhs + rhs


def _minimum_zero(lhs: Array, rhs: Array) -> Array:
    return -(-lhs - rhs)


def _maximum(lhs: Array, rhs: Array) -> Array:
    return _zeros_ordered(np.maximum(lhs, rhs), lhs, rhs, _maximum_zero)


def _minimum(lhs: Array, rhs: Array) -> Array:
    return _zeros_ordered(np.minimum(lhs, rhs), lhs, rhs, _minimum_zero)


def _maxnum(lhs: Array, rhs: Array) -> Array:
    return _zeros_ordered(np.fmax(lhs, rhs), lhs, rhs, _maximum_zero)


def _minnum(lhs: Array, rhs: Array) -> Array:
    return _zeros_ordered(np.fmin(lhs, rhs), lhs, rhs, _minimum_zero)


def _unordered(lhs: Array, rhs: Array) -> Array:
    return np.isnan(lhs) | np.isnan(rhs)


_FLOAT_PREDICATES: dict[str, Binary] = {
    "false": lambda a, b: np.zeros(np.broadcast_shapes(a.shape, b.shape), np.bool_),
    "oeq": lambda a, b: a == b,
    "ogt": lambda a, b: a > b,
    "oge": lambda a, b: a >= b,
    "olt": lambda a, b: a < b,
    "ole": lambda a, b: a <= b,
    "one": lambda a, b: (a < b) | (a > b),
    "ord": lambda a, b: ~_unordered(a, b),
    "ueq": lambda a, b: ~((a < b) | (a > b)),
    "ugt": lambda a, b: ~(a <= b),
    "uge": lambda a, b: ~(a < b),
    "ult": lambda a, b: ~(a >= b),
    "ule": lambda a, b: ~(a > b),
    "une": lambda a, b: a != b,
    "uno": _unordered,
    "true": lambda a, b: np.ones(np.broadcast_shapes(a.shape, b.shape), np.bool_),
}

_INTEGER_PREDICATES: dict[str, Function] = {
    "eq": np.equal,
    "ne": np.not_equal,
    "lt": np.less,
    "le": np.less_equal,
    "gt": np.greater,
    "ge": np.greater_equal,
}


def _cmpf(op: Operation, dtype: DType, operands: Sequence[Array]) -> Array:
    assert isinstance(op, arith.CmpfOp)
    name = arith.CMPF_COMPARISON_OPERATIONS[cast(IntegerAttr[Any], op.predicate).value.data]
    return _FLOAT_PREDICATES[name](*operands)


def _cmpi(op: Operation, dtype: DType, operands: Sequence[Array]) -> Array:
    assert isinstance(op, arith.CmpiOp)
    name = arith.CMPI_COMPARISON_OPERATIONS[cast(IntegerAttr[Any], op.predicate).value.data]
    view = _unsigned if name[0] == "u" else _signed
    return _INTEGER_PREDICATES[name[-2:]](*(view(value) for value in operands))


def _constant(op: Operation, dtype: DType, operands: Sequence[Array]) -> Array:
    assert isinstance(op, arith.ConstantOp)
    return scalar_value(op.value, dtype)


def _convert(op: Operation, dtype: DType, operands: Sequence[Array]) -> Array:
    return operands[0].astype(dtype)


def _from_signed(op: Operation, dtype: DType, operands: Sequence[Array]) -> Array:
    value = _signed(operands[0])
    return _wrap(value, dtype) if dtype.kind in "biu" else value.astype(dtype)


def _from_unsigned(op: Operation, dtype: DType, operands: Sequence[Array]) -> Array:
    return _unsigned(operands[0]).astype(dtype)


def _to_integer(*, signed: bool) -> Entry:
    """A float truncated to an integer of its range as `cvt.rzi` of PTX does it, where MLIR leaves others undefined.

    What is outside gives the nearest end. NaN gives 0, but the bit of the sign where either type has 64 bits.
    """

    def run(op: Operation, dtype: DType, operands: Sequence[Array]) -> Array:
        bits = 8 * dtype.itemsize
        lowest, end = (-(2 ** (bits - 1)), 2 ** (bits - 1)) if signed else (0, 2**bits)
        value = np.trunc(operands[0].astype(np.float64))
        is_wide = bits == 64 or dtype_of(op.operands[0].type) == np.float64
        of_nan = 0 if not is_wide else lowest if signed else end // 2
        holder = np.int64 if signed else np.uint64
        whole = np.where((value >= lowest) & (value < end), value, 0).astype(holder)
        whole = np.where(value >= end, holder(end - 1), np.where(value < lowest, holder(lowest), whole))
        return _wrap(np.where(np.isnan(value), holder(of_nan), whole), dtype)

    return run


def _bitcast(op: Operation, dtype: DType, operands: Sequence[Array]) -> Array:
    source, result = dtype_of(op.operands[0].type), dtype_of(op.results[0].type)
    return np.ascontiguousarray(operands[0].astype(source)).view(result).reshape(operands[0].shape).astype(dtype)


def _round(value: Array) -> Array:
    """Rounds to the nearest integer, halves away from zero."""
    whole = np.trunc(value)
    away = (np.abs(value - whole) >= 0.5).astype(value.dtype)
    return np.copysign(np.abs(whole) + away, value)


def _erf(value: Array) -> Array:
    return np.asarray(np.frompyfunc(math.erf, 1, 1)(value)).astype(value.dtype)


def _rsqrt(value: Array) -> Array:
    """1 / sqrt: two roundings in f32 and f64, while a narrow result is rounded to its type once."""
    wide = value if value.dtype.itemsize > 2 else value.astype(np.float32)
    return np.reciprocal(np.sqrt(wide)).astype(value.dtype)


def _fma(a: Array, b: Array, c: Array) -> Array:
    """a * b + c rounded once, but for rare ties: in f32 through f64, in f64 with the errors of product and sum."""
    if a.dtype != np.float64:
        return (a.astype(np.float64) * b + c).astype(a.dtype)
    product = a * b
    a_high, b_high = _high(a), _high(b)
    a_low, b_low = a - a_high, b - b_high
    product_error = a_low * b_low - (product - a_high * b_high - a_low * b_high - a_high * b_low)
    total = product + c
    rest = total - product
    sum_error = (product - (total - rest)) + (c - rest)
    exact = total + (product_error + sum_error)
    result = np.where(np.isfinite(exact), exact, total)
    overflows = np.isinf(product) & np.isfinite(a) & np.isfinite(b)
    if not overflows.any():
        return result
    # A product beyond the largest number counts with its value, so that c can bring the sum back.
    return np.where(overflows, _fma(a * _SMALLER, b, c * _SMALLER) / _SMALLER, result)


_SMALLER = 2.0**-1000
"""A factor that keeps products of all numbers below the largest one."""


def _high(value: Array) -> Array:
    """The upper half of the bits of a f64: T. J. Dekker's splitting."""
    scaled = value * 134217729.0
    return scaled - (scaled - value)


def _ipowi(base: Array, exponent: Array) -> Array:
    """An integer power by repeated squaring; 1 / base^-exponent, rounded to 0, for negative exponents."""
    result, power, rest = np.ones_like(base), base, np.abs(exponent)
    while (rest > 0).any():
        result = np.where(rest & 1, result * power, result)
        power, rest = power * power, rest >> 1
    inverse = np.where(np.abs(base) == 1, result, 0)
    return np.where(exponent < 0, inverse, result)


def _fpowi(base: Array, exponent: Array) -> Array:
    return np.power(base, exponent.astype(np.float64)).astype(base.dtype)


TABLE: dict[type[Operation], Entry] = {
    arith.ConstantOp: _constant,
    arith.AddfOp: _plain(np.add),
    arith.SubfOp: _plain(np.subtract),
    arith.MulfOp: _plain(np.multiply),
    arith.DivfOp: _plain(np.divide),
    arith.NegfOp: _plain(np.negative),
    arith.MaximumfOp: _plain(_maximum),
    arith.MinimumfOp: _plain(_minimum),
    arith.MaxnumfOp: _plain(_maxnum),
    arith.MinnumfOp: _plain(_minnum),
    arith.AddiOp: _on_signed(np.add),
    arith.SubiOp: _on_signed(np.subtract),
    arith.MuliOp: _on_signed(np.multiply),
    arith.DivSIOp: _on_signed(_quotient(_truncating)),
    arith.DivUIOp: _on_unsigned(_quotient(np.floor_divide)),
    arith.FloorDivSIOp: _on_signed(_quotient(np.floor_divide)),
    arith.CeilDivSIOp: _on_signed(_quotient(_ceiling)),
    arith.CeilDivUIOp: _on_unsigned(_quotient(_ceiling)),
    arith.RemSIOp: _on_signed(_quotient(np.fmod)),
    arith.RemUIOp: _on_unsigned(_quotient(np.fmod)),
    arith.MinSIOp: _on_signed(np.minimum),
    arith.MaxSIOp: _on_signed(np.maximum),
    arith.MinUIOp: _on_unsigned(np.minimum),
    arith.MaxUIOp: _on_unsigned(np.maximum),
    arith.AndIOp: _on_signed(np.bitwise_and),
    arith.OrIOp: _on_signed(np.bitwise_or),
    arith.XOrIOp: _on_signed(np.bitwise_xor),
    arith.ShLIOp: _shift(np.left_shift),
    arith.ShRSIOp: _shift(np.right_shift),
    arith.ShRUIOp: _shift(np.right_shift, unsigned=True),
    arith.CmpiOp: _cmpi,
    arith.CmpfOp: _cmpf,
    arith.SelectOp: _plain(np.where),
    arith.ExtFOp: _convert,
    arith.TruncFOp: _convert,
    arith.IndexCastOp: _from_signed,
    arith.ExtSIOp: _from_signed,
    arith.ExtUIOp: _from_unsigned,
    arith.TruncIOp: _from_signed,
    arith.SIToFPOp: _from_signed,
    arith.UIToFPOp: _from_unsigned,
    arith.FPToSIOp: _to_integer(signed=True),
    arith.FPToUIOp: _to_integer(signed=False),
    arith.BitcastOp: _bitcast,
    math_dialect.AbsFOp: _plain(np.abs),
    math_dialect.AbsIOp: _on_signed(np.abs),
    math_dialect.AcosOp: _elementary(np.arccos),
    math_dialect.AcoshOp: _elementary(np.arccosh),
    math_dialect.AsinOp: _elementary(np.arcsin),
    math_dialect.AsinhOp: _elementary(np.arcsinh),
    math_dialect.AtanOp: _elementary(np.arctan),
    math_dialect.Atan2Op: _elementary(np.arctan2),
    math_dialect.AtanhOp: _elementary(np.arctanh),
    math_dialect.CbrtOp: _elementary(np.cbrt),
    math_dialect.CeilOp: _plain(np.ceil),
    math_dialect.CopySignOp: _plain(np.copysign),
    math_dialect.CosOp: _elementary(np.cos),
    math_dialect.CoshOp: _elementary(np.cosh),
    math_dialect.ErfOp: _plain(_erf),
    math_dialect.ExpOp: _elementary(np.exp),
    math_dialect.Exp2Op: _elementary(np.exp2),
    math_dialect.ExpM1Op: _elementary(np.expm1),
    math_dialect.FloorOp: _plain(np.floor),
    math_dialect.FmaOp: _plain(_fma),
    math_ext.FmodOp: _plain(np.fmod),
    math_ext.HighPartOp: _plain(high_part),
    math_ext.RoundTf32Op: _plain(round_tf32),
    math_ext.LowPartOp: _plain(_low_part),
    math_ext.WithLowPartOp: _plain(_with_low_part),
    math_dialect.FPowIOp: _plain(_fpowi),
    math_dialect.IPowIOp: _on_signed(_ipowi),
    math_dialect.LogOp: _elementary(np.log),
    math_dialect.Log10Op: _elementary(np.log10),
    math_dialect.Log1pOp: _elementary(np.log1p),
    math_dialect.Log2Op: _elementary(np.log2),
    math_dialect.PowFOp: _elementary(np.power),
    math_dialect.RoundOp: _plain(_round),
    math_dialect.RoundEvenOp: _plain(np.rint),
    math_dialect.RsqrtOp: _plain(_rsqrt),
    math_dialect.SinOp: _elementary(np.sin),
    math_dialect.SinhOp: _elementary(np.sinh),
    math_dialect.SqrtOp: _plain(np.sqrt),
    math_dialect.TanOp: _elementary(np.tan),
    math_dialect.TanhOp: _elementary(np.tanh),
    math_dialect.TruncOp: _plain(np.trunc),
}
