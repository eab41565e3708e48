"""Decompositions of arithmetic."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import torch

from deplodock.frontend.decompositions.table import ATEN, Decompositions


def _round_decimals(x: torch.Tensor, decimals: int) -> Any:
    """`round(x * 10 ** decimals) / 10 ** decimals`, with a division where that is exact, as PyTorch computes it."""
    if x.dtype not in (torch.float32, torch.float64):
        return NotImplemented
    scale = 10.0 ** abs(decimals)
    return (x * scale).round() / scale if decimals > 0 else (x / scale).round() * scale


def _hypot(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    """`sqrt(x^2 + y^2)` without overflow between; infinite if one of both is, even beside NaN."""
    dtype = torch.result_type(x, y)
    if dtype == torch.float64:
        x, y = x.to(dtype).abs(), y.to(dtype).abs()
        large, small = torch.maximum(x, y), torch.minimum(x, y)
        ratio = torch.where(large == 0, 0, small / large)
        value = large * torch.sqrt(1 + ratio * ratio)
    else:
        x, y = x.double(), y.double()
        value = torch.sqrt(x * x + y * y)
    return torch.where(x.isinf() | y.isinf(), math.inf, value).to(dtype)


@dataclass(frozen=True)
class _Format:
    """The fields of a float: an integer type of its width, the bits of its fraction, the bias of its exponent."""

    bits: torch.dtype
    fraction: int
    bias: int


_FORMATS = {
    torch.float64: _Format(torch.int64, 52, 1023),
    torch.float32: _Format(torch.int32, 23, 127),
    torch.bfloat16: _Format(torch.int16, 7, 127),
    torch.float16: _Format(torch.int16, 10, 15),
}


def _frexp(x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """`x = mantissa * 2^exponent` with a mantissa from 0.5 to 1; zeros, infinities and NaN have the exponent 0."""
    wide = x if x.dtype == torch.float64 else x.float()
    form = _FORMATS[wide.dtype]
    # A factor makes numbers below the normal ones normal.
    tiny = wide.abs() < torch.finfo(wide.dtype).tiny
    scale = form.fraction + 1
    bits = torch.where(tiny, wide * 2.0**scale, wide).view(form.bits)
    mask = ((1 << (form.bias.bit_length() + 1)) - 1) << form.fraction
    exponent = ((bits & mask) >> form.fraction) - (form.bias - 1)
    mantissa = (bits & ~mask | ((form.bias - 1) << form.fraction)).view(wide.dtype)
    is_plain = (wide == 0) | (wide * 0 != 0)
    exponent = torch.where(is_plain, 0, torch.where(tiny, exponent - scale, exponent))
    return torch.where(is_plain, wide, mantissa).to(x.dtype), exponent.to(torch.int32)


def _nextafter(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    """The neighbour of `x` in the direction of `y`: the bits of floats of one sign count like integers."""
    dtype = torch.result_type(x, y)
    x, y = torch.broadcast_tensors(x.to(dtype), y.to(dtype))
    bits = x.view(_FORMATS[dtype].bits)
    moved = torch.where((y > x) == (x > 0), bits + 1, bits - 1).view(dtype)
    smallest = torch.copysign(torch.ones_like(bits).view(dtype), y)
    value = torch.where(x == 0, smallest, moved)
    return torch.where(x == y, y, torch.where((x != x) | (y != y), x + y, value))


def _angle(x: torch.Tensor) -> Any:
    """0, or pi of negative numbers, and NaN of NaN."""
    if x.dtype.is_complex:
        return NotImplemented
    x = x if x.dtype.is_floating_point else x.to(torch.get_default_dtype())
    return torch.where(x != x, x, torch.where(x < 0, math.pi, torch.zeros_like(x)))


def _copysign_scalar(x: torch.Tensor, other: float) -> torch.Tensor:
    dtype = x.dtype if x.dtype.is_floating_point else torch.get_default_dtype()
    return torch.copysign(x, x.new_full((), other, dtype=dtype))


def _rrelu(
    x: torch.Tensor, lower: float = 1 / 8, upper: float = 1 / 3, training: bool = False, generator: object = None
) -> Any:
    """leaky_relu by the mean of the slopes, of which training draws one for each element."""
    return NotImplemented if training else torch.nn.functional.leaky_relu(x, (lower + upper) / 2)


def _ldexp(x: torch.Tensor, other: torch.Tensor) -> torch.Tensor:
    """`x * 2 ** other`, in half precision with a factor in FP32, which the type may not hold, and rounded once."""
    if x.dtype not in (torch.float16, torch.bfloat16) or other.is_floating_point():
        return x * torch.pow(2.0, other)
    return (x.float() * torch.pow(2.0, other)).to(x.dtype)


ARITHMETIC: Decompositions = {
    ATEN.ldexp.Tensor: _ldexp,
    ATEN.hypot.default: _hypot,
    ATEN.frexp.Tensor: _frexp,
    ATEN.nextafter.default: _nextafter,
    # PyTorch's own decompositions of calls with numbers use it.
    torch.ops.prims.scalar_tensor.default: lambda s, dtype=None, device=None: torch.full(
        (), s, dtype=dtype, device=device
    ),
    ATEN.angle.default: _angle,
    ATEN.rrelu.default: _rrelu,
    ATEN.copysign.Scalar: _copysign_scalar,
    ATEN.round.decimals: _round_decimals,
    ATEN.add.Scalar: lambda x, other, alpha=1: torch.add(x, other, alpha=alpha),
    ATEN.sub.Scalar: lambda x, other, alpha=1: torch.sub(x, other, alpha=alpha),
    ATEN.mul.Scalar: torch.mul,
    ATEN.bitwise_and.Scalar_Tensor: lambda number, x: torch.bitwise_and(x, number),
    ATEN.bitwise_or.Scalar_Tensor: lambda number, x: torch.bitwise_or(x, number),
    ATEN.bitwise_xor.Scalar_Tensor: lambda number, x: torch.bitwise_xor(x, number),
    ATEN.div.Scalar: torch.div,
    torch.ops.prims.convert_element_type.default: lambda x, dtype: ATEN._to_copy.default(x, dtype=dtype),
}
