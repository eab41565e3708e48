"""Reductions, norms, products and attention, decomposed and evaluated: what PyTorch gives."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from deplodock.dialects.torch import ATEN_OPS
from deplodock.interpreters.evaluate import evaluate
from deplodock.passes.driver import Level, lower, new_context
from deplodock.tools.source import LocatingParser

torch = pytest.importorskip("torch")
F = torch.nn.functional
nn = torch.nn
aten = torch.ops.aten

NAN, INF = float("nan"), float("inf")


def randn(*shape: int) -> Any:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(sum(shape)))


x, y, e, cube = randn(3, 4), randn(4), torch.zeros(3, 0), randn(2, 5, 3)
i = torch.tensor([[2, 0, 1, 1], [-3, 2, 2, 5], [1, -1, 4, 2]])
s = torch.tensor([[1.0, NAN, 2.0], [INF, 1.0, 2.0], [-INF, -INF, -INF], [INF, -INF, 0.0], [-0.0, 0.0, -0.0]])
query, key, value = randn(2, 6, 5, 8), randn(2, 6, 7, 8), randn(2, 6, 7, 3)
keep = torch.ones(5, 7, dtype=torch.bool).tril(1)
keep[3] = False
NORM = nn.LayerNorm(6)

Case = tuple[Callable[..., Any], tuple[Any, ...]]

CASES: dict[str, Case] = {
    "prod prod.dim_int": (
        lambda x, i, e, b: (x.prod(), x.prod(1), x.prod(-2, keepdim=True), i.prod(0), e.prod(1), e.prod(), b.prod()),
        (x, i, e, i > 0),
    ),
    "sum prod of bool": (
        lambda x, s, b: (
            *(x.sum(dtype=torch.bool), s.sum(1, dtype=torch.bool), x.prod(0, dtype=torch.bool)),
            *(
                b.prod(dtype=torch.bool),
                b.sum(),
                b.sum(1),
                b.prod(0),
                b.cumsum(1),
                b.sum(1, dtype=torch.uint8),
                b.sum(0) * b,
                b.sum(0) / 3,
            ),
        ),
        (torch.tensor([[0.0, 0.0], [0.5, NAN]]), s, torch.arange(600).reshape(2, 300) % 7 > 0),
    ),
    "min amin": (lambda x, i, s: (x.min(), x.amin((0, 1), keepdim=True), x.amin(-1), i.amin(0), s.amin(1)), (x, i, s)),
    "amax max of NaN": (lambda s: (s.amax(1), s.amax(), s.amin(0), s.max(), s.min()), (s,)),
    "var var.dim var.correction": (
        lambda x, c, e: (
            *(aten.var(x), x.var(), x.var(1), x.var(1, unbiased=False), x.var((0, 1), correction=2, keepdim=True)),
            *(
                c.var((0, -1)),
                x[:, :1].var(1),
                x[:1].var(0, correction=3),
                e.var(1),
                (x + 8).var(0),
                x.var(correction=0),
            ),
        ),
        (x, cube, e),
    ),
    "std std.dim std.correction var_mean.correction": (
        lambda x: (aten.std(x), x.std(), x.std(1, keepdim=True), *torch.var_mean(x, dim=1, correction=0, keepdim=True)),
        (x,),
    ),
    "reductions of rank 6": (
        lambda c, o: (
            c.sum((-1, 1, 3)),
            c.mean((-3, 0), keepdim=True),
            c.permute(3, 0, 5, 1, 4, 2).amax((0, -2, 3)) + o,
        ),
        (randn(2, 3, 4, 2, 3, 5), randn(1, 1, 1)),
    ),
    "log_softmax.int": (
        lambda x, s: (F.log_softmax(x, 1), x.log_softmax(0), (x * 1e4).log_softmax(-1), s.log_softmax(1)),
        (x, s),
    ),
    "softmax.int of large numbers": (
        lambda x, k: ((x * k).softmax(-1), (x - 500).softmax(0)),
        (x, torch.tensor(-1e14)),
    ),
    "logsumexp": (lambda x, s: (x.logsumexp(1), x.logsumexp((0, 1), keepdim=True), s.logsumexp(1)), (x, s)),
    "layer_norm": (
        lambda x, w, c: (
            *(F.layer_norm(x, (4,)), F.layer_norm(x, (4,), w, w), F.layer_norm(x, (4,), None, w, 1e-3)),
            *(
                F.layer_norm(c, (5, 3)),
                F.layer_norm(x * 1e18 + 1e19, (4,), w),
                F.layer_norm(x * 0 + 3, (4,), eps=1e-12),
            ),
        ),
        (x, y, cube),
    ),
    "group_norm": (
        lambda c, v, p: (
            *(
                F.group_norm(c, 1),
                F.group_norm(c, 5, v, v),
                F.group_norm(p, 2, eps=1e-3),
                F.group_norm(p, 4, p[0, :, 0]),
            ),
            F.group_norm(p[:, :, 0], 2),
        ),
        (cube, randn(5), randn(3, 4, 2)),
    ),
    "_native_batch_norm_legit_no_training": (
        lambda c, m, v: (
            F.batch_norm(c, m, v),
            F.batch_norm(c, m, v, m, v, eps=1e-3),
            F.batch_norm(c[:, :, 0], m, v, None, m),
        ),
        (cube, randn(5), randn(5).abs()),
    ),
    "cumprod": (lambda x: (x.cumprod(0), x.cumprod(-1), x.int().cumprod(1)), (x,)),
    "cumsum": (
        lambda x, i, s, z: (
            *(x.cumsum(0), x.cumsum(-1), x.cumsum(1, dtype=torch.float64), i.cumsum(1), (i > 0).cumsum(0)),
            *(s.cumsum(1), z.cumsum(0), x[:, :0].cumsum(1)),
        ),
        (x, i, s, torch.tensor(2.0)),
    ),
    "cummax cummin": (
        lambda x, i, t, z: (
            *(*x.cummax(0), *x.cummin(-1), *i.cummax(1), *i.cummin(0), *(i > 0).cummax(1), *(i > 0).cummin(0)),
            *(*t.cummax(0), *t.cummin(0), *z.cummax(0), *x[:, :0].cummin(1), *x.half().cummin(1)),
        ),
        (x, i, torch.tensor([-INF, 2.0, 2.0, -0.0, 0.0, 3.0, NAN, 7.0, NAN, INF, 3.0]), torch.tensor(2.0)),
    ),
    "logcumsumexp": (
        lambda x, t, u, z: (
            *((x * 30).logcumsumexp(0), x.logcumsumexp(-1), t.logcumsumexp(0), u.logcumsumexp(0), z.logcumsumexp(0)),
            *(x[:0].logcumsumexp(0), x.half().logcumsumexp(1)),
        ),
        (
            x,
            torch.tensor([-INF, -INF, 1.0, -INF, INF, 2.0, INF]),
            torch.tensor([-INF, 1.0, NAN, 2.0]),
            torch.tensor(2.0),
        ),
    ),
    "addmm baddbmm addmv": (
        lambda x, m, v, c: (
            *(torch.addmm(v, x, m), torch.addmm(m, m, m, beta=0.5, alpha=2), torch.addmm(v * NAN, x, m, beta=0)),
            *(torch.baddbmm(c[:, :, :1], c, c.mT), torch.baddbmm(c[:, :, :1] * INF, c, c.mT, beta=0.0, alpha=0.5)),
            torch.addmv(x[:, 0], x, v, alpha=-1),
        ),
        (x, randn(4, 4), y, cube),
    ),
    "addmm int": (lambda i: torch.addmm(i, i, i[:, :3].repeat(2, 2)[:4, :4], beta=2), (i,)),
    "outer einsum": (
        lambda x, v, c, q, k: (
            *(torch.outer(v, v), torch.einsum("ij,j->i", x, v), torch.einsum("ij,kj", x, x), torch.einsum("ij->", x)),
            *(torch.einsum("bhqd,bhkd->bhqk", q, k), torch.einsum("bij,bkj->bik", c, c), torch.einsum("i,i", v, v)),
            *(torch.einsum("...ij,...j->...i", c, c[:, 0]), torch.einsum("ii->i", x[:, :3]), torch.einsum("ij->ji", x)),
            torch.einsum("i,ij,j->", v[:3], x, v),
        ),
        (x, y, cube, query, key),
    ),
    "matmul shapes": (
        lambda c, v, r, m: (c @ v, v @ c.mT, r @ c[0], r[0, 0] @ m, m @ m, r @ m, m[0] @ m[0]),
        (cube, randn(3), randn(4, 1, 2, 5), randn(5, 5)),
    ),
    "matmul zero": (lambda a, b: (a @ b, b[:, :0] @ a[:0], b.mT @ b), (torch.zeros(4, 0), torch.zeros(0, 5))),
    "scaled_dot_product_attention": (
        lambda q, k, v: (
            F.scaled_dot_product_attention(q, k, v),
            F.scaled_dot_product_attention(q, k, v, scale=0.3),
            F.scaled_dot_product_attention(q, k, v, is_causal=True),
            F.scaled_dot_product_attention(k, q, q, is_causal=True),
            F.scaled_dot_product_attention(q[0, 0], k[0, 0], v[0, 0]),
            F.scaled_dot_product_attention(q, k[:1, :1], v[:1, :1]),
            F.scaled_dot_product_attention(q.abs(), torch.full_like(k, -INF), v),
            F.scaled_dot_product_attention(q.abs(), torch.full_like(k, -INF), v, is_causal=True),
        ),
        (query, key, value),
    ),
    "scaled_dot_product_attention masks": (
        lambda q, k, v, b: (
            F.scaled_dot_product_attention(q, k, v, attn_mask=b),
            F.scaled_dot_product_attention(q, k, v, attn_mask=b[None, None, :1]),
            F.scaled_dot_product_attention(q, k, v, attn_mask=torch.where(b, 0.5, -INF)),
            F.scaled_dot_product_attention(q[0], k[0], v[0], attn_mask=b),
        ),
        (query, key, value, keep),
    ),
    "scaled_dot_product_attention enable_gqa": (
        lambda q, k, v: (
            F.scaled_dot_product_attention(q, k[:, :2], v[:, :2], enable_gqa=True),
            F.scaled_dot_product_attention(q, k[:, :3], v[:, :3], enable_gqa=True, is_causal=True),
        ),
        (query, key, value),
    ),
    "scaled_dot_product_attention empty": (
        lambda q, k, v: (
            F.scaled_dot_product_attention(q, k[:, :, :0], v[:, :, :0]),
            F.scaled_dot_product_attention(q[:, :, :0], k, v),
        ),
        (query, key, value),
    ),
    "cat stack slice.Tensor as RoPE in both conventions": (
        lambda q, a: (_half_split(q, a), _interleaved(q, a)),
        (query, randn(5, 4)),
    ),
    "silu linear as SwiGLU": (
        lambda x, gate, up, down: F.linear(F.silu(F.linear(x, gate)) * F.linear(x, up), down),
        (x, randn(6, 4), randn(6, 4) * 2, randn(4, 6)),
    ),
    "layer_norm rms_norm linear gelu as a transformer block": (
        lambda t, w: _block(t, w),
        (randn(2, 5, 6), randn(18, 6) / 2),
    ),
}


def _half_split(t: Any, angles: Any) -> Any:
    cos, sin = torch.cat([angles, angles], -1).cos(), torch.cat([angles, angles], -1).sin()
    half = t.shape[-1] // 2
    return t * cos + torch.cat((-t[..., half:], t[..., :half]), -1) * sin


def _interleaved(t: Any, angles: Any) -> Any:
    even, odd = t[..., ::2], t[..., 1::2]
    cos, sin = angles.cos(), angles.sin()
    return torch.stack((even * cos - odd * sin, even * sin + odd * cos), -1).flatten(-2)


def _block(t: Any, w: Any) -> Any:
    h = F.layer_norm(t, (6,))
    q, k, v = (part.view(2, 5, 2, 3).transpose(1, 2) for part in F.linear(h, w).chunk(3, -1))
    attended = F.scaled_dot_product_attention(q, k, v, is_causal=True).transpose(1, 2).reshape(2, 5, 6)
    t = t + F.linear(attended, w[:6])
    return t + F.gelu(F.linear(F.rms_norm(t, (6,)), w)) @ w


@pytest.mark.parametrize("name", CASES)
def test_matches_torch(name: str, check_with_torch: Callable[..., set[str]]) -> None:
    function, args = CASES[name]
    assert {word for word in name.split() if word in ATEN_OPS} <= check_with_torch(function, *args, units=256)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16, torch.float16])
@pytest.mark.parametrize(("features", "keys"), [(0, 4), (0, 0), (2, 0)])
def test_attention_without_features_or_keys(
    features: int, keys: int, dtype: Any, check_with_torch: Callable[..., Any]
) -> None:
    def program(q: Any, k: Any, v: Any, seen: Any, mask: Any) -> Any:
        attention = F.scaled_dot_product_attention
        return (
            *(attention(q, k, v), attention(q, k, v, is_causal=True), attention(q, k, v, scale=0.5)),
            *(attention(q, k, v, attn_mask=seen), attention(q, k, v, attn_mask=mask), attention(q[0], k[0], v[0])),
            *(attention(q, k, v, attn_mask=mask.isnan()), attention(q, k, v, attn_mask=mask * INF)),
        )

    q, k, v = (randn(2, 3, n, m).to(dtype) for n, m in ((3, features), (keys, features), (keys, 2)))
    mask = randn(3, keys).abs().to(dtype)
    check_with_torch(program, q, k, v, mask > 0.5, mask)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_norms_of_half_precision_with_factors_of_f32(dtype: Any, check_with_torch: Callable[..., Any]) -> None:
    """They are computed in f32, and rounded once."""

    def program(c: Any, m: Any, v: Any) -> Any:
        return F.batch_norm(c, m, v, v, m), F.group_norm(c, 5, v, m), F.layer_norm(c.transpose(1, 2), (5,), v, m)

    check_with_torch(program, cube.to(dtype), randn(5), randn(5).abs(), units=2)


def test_batch_norm_gives_statistics_where_pytorch_does() -> None:
    """On a GPU they are the mean and one over the deviation that it was given, one for each channel."""
    text = """
    func.func @main(%x: tensor<2x3xf32>, %m: tensor<3xf32>, %v: tensor<3xf32>) -> (tensor<3xf32>, tensor<3xf32>) {
      %y, %mean, %scale = torch.aten._native_batch_norm_legit_no_training %x, %m, %v
        {weight = none, bias = none, momentum = 1.0e-01, eps = 1.0e-05}
        : tensor<2x3xf32>, tensor<3xf32>, tensor<3xf32> -> tensor<2x3xf32>, tensor<3xf32>, tensor<3xf32>
      func.return %mean, %scale : tensor<3xf32>, tensor<3xf32>
    }"""
    module = LocatingParser(new_context(), text, "a").parse_module()
    lower(module, new_context(), Level.LOOP)
    variance = np.array([1, 4, 0.25], np.float32)
    mean, scale = evaluate(module, [np.zeros((2, 3), np.float32), np.arange(3, dtype=np.float32), variance])
    np.testing.assert_array_equal(mean, np.arange(3))
    np.testing.assert_allclose(scale, (variance + 1e-5) ** -0.5, rtol=1e-6)


def test_means_without_elements(check_with_torch: Callable[..., Any]) -> None:
    def program(x: Any, w: Any) -> Any:
        return (
            *(x.mean(1), x.var(1), x.std(1, correction=0), x.norm(dim=1), x.logsumexp(1), x.mean(), x.std()),
            *(x.softmax(1), F.layer_norm(x, (0,), w, w), F.rms_norm(x, (0,), w), x @ x.t(), F.normalize(x)),
            *(F.mse_loss(x, x), F.l1_loss(x, x), F.huber_loss(x, x, reduction="sum"), F.cosine_similarity(x, x)),
        )

    check_with_torch(program, torch.zeros(3, 0), torch.zeros(0))


def test_attention_of_nan(run_at_tensor_level: Callable[..., Any]) -> None:
    hidden = key[:1, :1].clone()
    hidden[:, :, 2] = NAN
    run = run_at_tensor_level(
        lambda q, h, n, v: (
            F.scaled_dot_product_attention(q, h, v, is_causal=True),
            F.scaled_dot_product_attention(q, n, v),
            F.scaled_dot_product_attention(q, h, v, attn_mask=(torch.arange(7) != 2).expand(5, 7)),
        ),
        *(query[:1, :1], hidden, torch.full_like(hidden, NAN), value[:1, :1]),
    )
    assert np.isnan(run.got[0][0, 0]).all(1).tolist() == [False, False, True, True, True]
    assert np.isnan(run.got[1]).all()
    assert np.isnan(run.got[2]).all()


def test_the_mean_of_infinite_elements(run_at_tensor_level: Callable[..., Any]) -> None:
    values = torch.tensor([[-INF, 1.0, -INF], [INF, 2.0, 1.0], [INF, -INF, 0.0]])
    run = run_at_tensor_level(lambda x: torch.var_mean(x, 1), values)
    np.testing.assert_array_equal(run.got[1], [-INF, INF, NAN])
    assert np.isnan(run.got[0]).all()
