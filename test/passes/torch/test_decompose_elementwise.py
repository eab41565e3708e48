"""Operations at every index, decomposed and evaluated: what PyTorch gives, special values included."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from typing import Any

import pytest

from deplodock.dialects.torch import ATEN_OPS

torch = pytest.importorskip("torch")
F = torch.nn.functional
aten = torch.ops.aten

NAN, INF = float("nan"), float("inf")


def randn(*shape: int) -> Any:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(sum(shape)))


def fma(*args: Any) -> Any:
    """PyTorch registers the operation where its own compiler is imported."""
    importlib.import_module("torch._inductor.inductor_prims")
    return torch.ops.prims.fma.default(*args)


def pairs(values: list[float]) -> tuple[Any, Any]:
    """Every pair of these values."""
    return tuple(part.contiguous() for part in torch.meshgrid(*[torch.tensor(values)] * 2, indexing="ij"))


x, y = randn(3, 4) * 3, randn(4)
s = torch.tensor([NAN, INF, -INF, 0.0, -0.0, 1.0, -2.5, 1e-10, 3e38, 1e-40, 88.8, -104.0, 1e4])
p, q = pairs([NAN, INF, -INF, 0.0, -0.0, 1.0, -2.5, 3.0, 1e10, 0.1, -1e-3])
i, j = (part.long() for part in pairs([-8, -7, -1, 0, 1, 2, 7, 9]))
k = torch.where(j == 0, 3, j)
b, c = (part.bool() for part in pairs([0, 1]))
tails = torch.tensor([-1e30, -1e4, -104.0, -88.8, -20.0, -5.53, -1.0, -1e-3, 0.0, 1e-3, 1.0, 15.5, 88.8, 1e4, 1e30])

Case = tuple[Callable[..., Any], tuple[Any, ...]]

CASES: dict[str, Case] = {
    "exp2 expm1 log1p log2 log10": (lambda s: (s.exp2(), s.expm1(), s.log1p(), s.log2(), s.log10()), (s,)),
    "sin cos tan erf": (lambda x: (x.sin(), x.cos(), x.tan(), x.erf()), (x,)),
    "asin acos atan atan2 sinh cosh": (
        lambda x, s: (x.sin().asin(), x.cos().acos(), s.atan(), torch.atan2(x, -x), x.sinh(), x.cosh()),
        (x, s),
    ),
    "asinh acosh atanh": (lambda x, y: (x.asinh(), (1 + x.abs()).acosh(), (y / 4).atanh()), (x, y)),
    "silu mish gelu softplus": (
        lambda t: (
            F.silu(t),
            F.mish(t),
            F.gelu(t),
            F.gelu(t, approximate="tanh"),
            F.softplus(t),
            F.softplus(t, beta=2, threshold=10),
        ),
        (tails,),
    ),
    "prims.fma": (lambda x, y: (fma(x, y, y), fma(x, 0.3, -x), fma(x.bfloat16(), y.bfloat16(), x.bfloat16())), (x, y)),
    "leaky_relu": (lambda s: (F.leaky_relu(s), F.leaky_relu(s, 0.5)), (s,)),
    "pow.Tensor_Tensor": (lambda p, q: p**q, (p, q)),
    "pow.Scalar": (lambda s: (2.0**s, 1.0**s, 0**s, (-3.0) ** s), (s,)),
    "mul.Tensor bool": (lambda b, c: (b * c, b + c.int()), (b, c)),
}

EXACT: dict[str, Case] = {
    "floor ceil trunc round": (
        lambda s, i: (s.floor(), s.ceil(), s.trunc(), s.round(), (s + 0.5).round(), i.floor(), i.round()),
        (s, i),
    ),
    "add.Tensor maximum minimum bool": (lambda b, c: (b + c, torch.maximum(b, c), torch.minimum(b, c)), (b, c)),
    "fmax fmin": (lambda p, q, i: (torch.fmax(p, q), torch.fmin(p, q), torch.fmax(i, -i)), (p.abs(), q.abs() + 1, i)),
    "bitwise_left_shift.Tensor bitwise_left_shift.Tensor_Scalar bitwise_left_shift.Scalar_Tensor": (
        lambda i, n: (i << n, i << 3, i << 70, 3 << n, i.int() << n.int(), torch.bitwise_left_shift(i, 1)),
        (i, j.abs() * 8),
    ),
    "bitwise_right_shift.Tensor bitwise_right_shift.Tensor_Scalar bitwise_right_shift.Scalar_Tensor": (
        lambda i, n: (i >> n, i >> 1, i >> 70, -300 >> n, i.int() >> n.int(), torch.bitwise_right_shift(i, 1)),
        (i, j.abs() * 8),
    ),
    "sign": (lambda s, i, b: (s.sign(), i.sign(), b.sign()), (s, i, b)),
    "copysign.Tensor signbit": (
        lambda p, q, i: (
            *(torch.copysign(p, q), torch.copysign(i, -i), torch.copysign(p, -0.0), torch.copysign(i, 2)),
            *(torch.copysign(p.double(), q), torch.copysign(p.bfloat16(), q.nan_to_num().bfloat16())),
            *(p.signbit(), i.signbit(), p.half().signbit(), (i > 0).signbit(), i.to(torch.uint8).signbit()),
        ),
        (p, q, i),
    ),
    "view.dtype": (
        lambda s, i: (
            *(s.view(torch.int32), s.double().view(torch.int64), i.view(torch.float64), i.int().view(torch.float32)),
            *(s.half().view(torch.int16), s.nan_to_num().bfloat16().view(torch.int16), i.short().view(torch.bfloat16)),
            *(i.short().view(torch.float16), i.to(torch.int8).view(torch.uint8), s.view(torch.float32)),
            (s.view(torch.int32) >> 23 & 255) - 127,
        ),
        (s, i),
    ),
    "fmax fmin outer bool": (
        lambda b, c: (torch.fmax(b, c), torch.fmin(b, c), torch.outer(b[0], c[1]), torch.outer(b[1], c[1])),
        (b, c),
    ),
    "bitwise_and.Scalar_Tensor bitwise_or.Scalar_Tensor bitwise_xor.Scalar_Tensor": (
        lambda i: (torch.bitwise_and(3, i), torch.bitwise_or(4, i), torch.bitwise_xor(-1, i)),
        (i,),
    ),
    "eq.Tensor ne.Tensor lt.Tensor le.Tensor gt.Tensor ge.Tensor": (
        lambda p, q, i, j, b, c: (
            *(p == q, p != q, p < q, p <= q, p > q, p >= q),
            *(i == j, i != j, i < j, i <= j, i > j, i >= j),
            *(b == c, b != c, b < c, b <= c, b > c, b >= c),
            *(i < j.int(), i[:2, :2] < b, i > p[:8, :8], p.double() == p),
        ),
        (p, q, i, j, b, c),
    ),
    "eq.Scalar ne.Scalar lt.Scalar le.Scalar gt.Scalar ge.Scalar": (
        lambda s, i, b: (
            *(s == 1, s != 0.0, s < 0, s <= INF, s > 0.5, s >= -2.5),
            *(i == 1, i != 0, i < 1.5, i <= 2, i > -7, i >= 0.5),
            *(b == True, b < 1, b > 0.5),  # noqa: E712
        ),
        (s, i, b),
    ),
    "isnan isinf": (lambda s, i: (s.isnan(), s.isinf(), i.isnan(), aten.isinf(i)), (s, i)),
    "logical_and logical_or logical_xor logical_not": (
        lambda s, t, i, b: (
            *(torch.logical_and(s, t), torch.logical_or(s, t), torch.logical_xor(s, t), torch.logical_not(s)),
            *(torch.logical_and(i[:2, :2], b), torch.logical_or(b, b.int()), torch.logical_not(b)),
        ),
        (s, s.flip(0), i, b),
    ),
    "bitwise_and.Tensor bitwise_or.Tensor bitwise_xor.Tensor bitwise_not": (
        lambda i, j, b, c: (i & j, i | j, i ^ j, ~i, b & c, b | c, b ^ c, ~b, i.int() & j.int(), i & j.int()),
        (i, j, b, c),
    ),
    "bitwise_and.Scalar bitwise_or.Scalar bitwise_xor.Scalar": (
        lambda i, b: (i & 3, i | 4, i ^ -1, b & True, b | False, b ^ True, 5 & i),
        (i, b),
    ),
    "where.self where.ScalarOther where.ScalarSelf where.Scalar": (
        lambda b, x, i: (
            *(torch.where(b, x[:2, :2], -x[:2, :2]), torch.where(b[0], x[:, :2], 0.0), torch.where(b, 1, x[:2, :2])),
            *(torch.where(b, 1.0, NAN), torch.where(b, i[:2, :2], x[:2, :2]), torch.where(b, -INF, x[0, 0])),
        ),
        (b, x, i),
    ),
    "masked_fill.Scalar masked_fill.Tensor": (
        lambda p, i, z: (
            *(p.masked_fill(p > 0, 0), p.masked_fill(p.isnan(), -INF), p.masked_fill(p[0] > 0, z)),
            *(i.masked_fill(i < 0, 7), i.masked_fill(i < 0, z.long())),
        ),
        (p, i, torch.tensor(2.5)),
    ),
    "clamp clamp_min clamp_max hardtanh": (
        lambda s, i: (
            *(s.clamp(-1, 1), s.clamp(min=1.5), s.clamp(max=-2), s.clamp(3, 2), s.clamp(NAN, 1)),
            *(i.clamp(0, 2), i.clamp(0.5), s.clamp_min(1), s.clamp_max(-1), i.clamp_max(1.5), F.hardtanh(s)),
        ),
        (s, i),
    ),
    "clamp.Tensor clamp_min.Tensor clamp_max.Tensor": (
        lambda p, q: (
            *(p.clamp(min=q), p.clamp(max=q), p.clamp(q, -q), aten.clamp_min.Tensor(p, q)),
            *(torch.clamp_max(p, q), p.clamp(max=q[0])),
        ),
        (p, q.where(q != 0, 0.5)),
    ),
    "pow.Tensor_Tensor int": (lambda i, j: (i ** j.abs(), i**j, (i.int() ** j.abs().int())), (i, j)),
    "pow.Scalar int": (lambda i: (2 ** i.abs(), (-3) ** i.abs(), 1**i), (i,)),
    "div.Tensor_mode floor_divide int": (
        lambda i, k: (i // k, torch.div(i, k, rounding_mode="trunc"), i // 2, i.int() // k.int(), 5 // k),
        (i, k),
    ),
    "remainder.Tensor remainder.Scalar remainder.Scalar_Tensor int": (
        lambda i, k: (i % k, i % 3, i % -3, 5 % k),
        (i, k),
    ),
    "fmod.Tensor fmod.Scalar int": (lambda i, k: (torch.fmod(i, k), torch.fmod(i, -3)), (i, k)),
    "floor_divide div.Tensor_mode": (
        lambda p, q, x: (
            *(p // q, torch.div(p, q, rounding_mode="floor"), p // 2, x // 0.1, 2 // x),
            torch.div(p, q, rounding_mode="trunc"),
        ),
        (p, q, x),
    ),
    "remainder.Tensor remainder.Scalar remainder.Scalar_Tensor": (lambda p, q: (p % q, p % 0.3, p % -2, 5 % p), (p, q)),
    "fmod.Tensor fmod.Scalar": (
        lambda p, q, d: (torch.fmod(p, q), torch.fmod(p, 0.3), torch.fmod(d, d.flip(0))),
        (p, q, randn(40).double() * 100),
    ),
    "type_as": (lambda x, i: (x.type_as(i), i.type_as(x)), (x, i)),
}


@pytest.mark.parametrize("name", CASES)
def test_matches_torch(name: str, check_with_torch: Callable[..., set[str]]) -> None:
    function, args = CASES[name]
    assert {word for word in name.split() if word in ATEN_OPS} <= check_with_torch(function, *args)


@pytest.mark.parametrize("name", EXACT)
def test_equals_torch(name: str, check_with_torch: Callable[..., set[str]]) -> None:
    function, args = EXACT[name]
    assert {word for word in name.split() if word in ATEN_OPS} <= check_with_torch(function, *args, exact=True)
