"""Whole programs and shapes of the kinds on which tensor compilers go wrong, compared with PyTorch at every level."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

torch = pytest.importorskip("torch")
nn, F = torch.nn, torch.nn.functional

INF = float("inf")


def randn(*shape: int) -> Any:
    return torch.randn(shape, generator=torch.Generator().manual_seed(sum(shape)))


def seeded(module: Any) -> Any:
    generator = torch.Generator().manual_seed(1)
    with torch.no_grad():
        for parameter in module.parameters():
            parameter.copy_(torch.randn(parameter.shape, generator=generator) / 3)
    return module.eval()


def dead_rows(scores: Any, keep: Any) -> Any:
    raw = torch.softmax(scores.masked_fill(~keep, -INF), dim=-1)
    alive = keep.any(dim=-1, keepdim=True)
    return raw, torch.where(alive, raw, torch.zeros_like(raw))


def rows_and_columns(x: Any) -> Any:
    y = x * 2 + 0.25
    return y.amax(dim=-1), y.sum(dim=0)


def empty_tensors(x: Any, y: Any, w: Any, bias: Any) -> Any:
    return (
        *(x.exp(), x.sum(0), x.sum(1), x.sum(), x.prod(0), x.mean(0), torch.cat([x, y]) * 2, w.softmax(-1)),
        *(x @ y.t(), w.reshape(0, 3) + 1, x.t() @ x, F.linear(w, w.new_zeros(4, 0), bias)),
    )


def expanded(x: Any, wide: Any) -> Any:
    return x.expand(4, 3).reshape(12) * 2, wide + torch.arange(4.0)[:, None], wide.sum(0), (wide * wide).reshape(-1)


def viewed_outputs(x: Any) -> Any:
    a = x.permute(2, 0, 1).abs()
    return a, a.flatten(), a.reshape(4, -1).t(), x.mean(dim=1), a


def promotions(i64: Any, i32: Any, f: Any, b: Any, s64: Any, d: Any) -> Any:
    return (
        *(i64 + 0.5, i32 * f, b + 1, b.sum(), (i64 > 1) & (i32 > 1), i64.float().mean(), i64.sum(0)),
        *(torch.mean(i64, dim=0, dtype=torch.float64), d.sub(1, alpha=2), d * f, b & (f > 0), i32 / 2, f * s64),
        *(torch.where(b, i32, f), i32 // 2, i64 % 3, d + s64, torch.maximum(i32, i64[0])),
    )


def repeated_heads(q: Any, k: Any, v: Any) -> Any:
    k, v = (t.repeat_interleave(q.shape[1] // k.shape[1], dim=1) for t in (k, v))
    keep = torch.ones(q.shape[2], q.shape[2], dtype=torch.bool).tril()
    scores = (q @ k.transpose(-2, -1) / q.shape[-1] ** 0.5).masked_fill(~keep, -INF)
    return scores.softmax(-1) @ v


def shared_subexpressions(a: Any, b: Any) -> Any:
    for _ in range(12):
        a, b = 0.8 * a - 0.6 * b, 0.6 * a + 0.8 * b + 0.01 * torch.tanh(a * b)
    return a + b, a * b


class Tied(nn.Module):
    """The embedding is the head too, and one linear layer is used transposed."""

    def __init__(self) -> None:
        super().__init__()
        self.embedding = nn.Embedding(11, 6)
        self.middle = nn.Linear(6, 6, bias=False)
        self.head = nn.Linear(6, 11, bias=False)
        self.head.weight = self.embedding.weight

    def forward(self, ids: Any) -> Any:
        h = torch.tanh(self.middle(self.embedding(ids)))
        return self.head(F.linear(h, self.middle.weight.t()))


class Residual(nn.Module):
    """A stack of small blocks that share a norm."""

    def __init__(self) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(8)
        self.layers = nn.ModuleList(nn.Linear(8, 8) for _ in range(6))

    def forward(self, x: Any) -> Any:
        for layer in self.layers:
            x = x + 0.1 * F.silu(layer(self.norm(x)))
        return x


KEEP = torch.ones(2, 1, 5, 5, dtype=torch.bool).tril()
KEEP[0, 0, 2] = False
i64, i32 = torch.tensor([[3, 1, 2, 0], [0, 5, 1, 2]]), torch.tensor([7, -3, 2, 5], dtype=torch.int32)
TRUTHS = torch.tensor([True, False, True, True])

CASES: dict[str, tuple[Callable[..., Any], tuple[Any, ...]]] = {
    "dead rows of a mask": (dead_rows, (randn(2, 3, 5, 5), KEEP)),
    "row maximum and column sum": (rows_and_columns, (randn(37, 29),)),
    "empty tensors": (empty_tensors, (torch.zeros(0, 5), randn(3, 5), torch.zeros(3, 0), randn(4))),
    "expanded arguments": (expanded, (randn(3), randn(1, 6).expand(4, 6))),
    "outputs that are views of each other": (viewed_outputs, (randn(3, 5, 8),)),
    "promotions": (
        promotions,
        (i64, i32, randn(4), TRUTHS, torch.tensor(-0.1, dtype=torch.float64), randn(4).double()),
    ),
    "grouped heads": (repeated_heads, (randn(2, 6, 7, 4), randn(2, 2, 7, 4), randn(2, 2, 7, 4))),
    "shared subexpressions": (shared_subexpressions, (randn(5, 3), randn(3, 5).t())),
    "tied weights": (seeded(Tied()), (torch.tensor([[0, 10, 3], [7, 7, 1]]),)),
    "tiny eps in half precision": (
        lambda h: (F.layer_norm(h, (8,), eps=1e-8), F.rms_norm(h, (8,), eps=1e-8), F.rms_norm(h * 0, (8,))),
        (torch.cat([torch.ones(3, 8), randn(2, 8)]).half(),),
    ),
    "promotions of half precision and bytes": (
        lambda h, s, u8, i: (
            h + s,
            h * 0.1,
            h + i,
            h * h.float(),
            (i > 1) & (u8 > 1),
            u8 + u8,
            u8 / 2,
            u8.sum(),
            i - u8,
        ),
        (randn(4).bfloat16(), torch.tensor(-0.1, dtype=torch.float64), torch.tensor([1, 2, 200, 0]).byte(), i32),
    ),
    "extremes of an expansion": (lambda x: x.expand(3000, 5000).amax(1), (randn(3000, 1),)),
    "patches of an image": (seeded(nn.Conv2d(3, 8, 4, 4)), (randn(2, 3, 8, 8),)),
    "residual stack": (seeded(Residual()), (randn(3, 8),)),
}


@pytest.mark.parametrize("name", CASES)
def test_case(check_levels: Callable[..., int], name: str) -> None:
    check_levels(*CASES[name])


def rotary_halves(q: Any, k: Any, angles: Any) -> Any:
    cos, sin = (f(torch.cat([angles, angles], -1)) for f in (torch.cos, torch.sin))

    def rotate(x: Any) -> Any:
        low, high = x.chunk(2, -1)
        return x * cos + torch.cat([-high, low], -1) * sin

    return rotate(q), rotate(k)


def rotary_pairs(q: Any, angles: Any) -> Any:
    even, odd = q[..., ::2], q[..., 1::2]
    cos, sin = angles.cos(), angles.sin()
    return torch.stack([even * cos - odd * sin, even * sin + odd * cos], -1).flatten(-2)


def swiglu(x: Any, gate: Any, up: Any, down: Any) -> Any:
    return F.linear(F.silu(F.linear(x, gate)) * F.linear(x, up), down)


def propagated(x: Any, y: Any) -> Any:
    return (
        *(torch.maximum(x, y), torch.minimum(x, y), torch.relu(x), x.clamp(-1, 1), x.amax(-1), x.amin(0), x.max()),
        *(torch.softmax(x, -1), x + y, x * y, x.sum(-1)),
    )


SPECIAL = torch.tensor([[1.0, float("nan"), -0.0, 2.0], [-INF, 0.5, INF, -1.0], [-INF, -INF, -INF, -INF]])


def attention(q: Any, k: Any, v: Any) -> Any:
    return F.scaled_dot_product_attention(q, k, v, is_causal=True, enable_gqa=q.shape[1] != k.shape[1])


SHAPES: dict[str, tuple[Callable[..., Any], tuple[Any, ...], int]] = {
    "pointwise of a million": (torch.add, (randn(1000, 1000), randn(1000, 1000)), 1),
    "softmax 64x1000": (lambda x: x.softmax(-1), (randn(64, 1000),), 1),
    "softmax 4096x48": (lambda x: x.softmax(-1), (randn(4096, 48),), 1),
    "softmax 100000x7": (lambda x: x.softmax(-1), (randn(100000, 7),), 1),
    "rms_norm 512x1000": (lambda x, w: F.rms_norm(x, (1000,), w), (randn(512, 1000), randn(1000)), 1),
    "sum and its rms_norm": (lambda x, y: (x + y, F.rms_norm(x + y, (33,))), (randn(7, 33), randn(7, 33)), 1),
    "rms_norm of rows of 1e-5": (lambda x: F.rms_norm(x, (64,)), (randn(4, 64) * 1e-5,), 1),
    "layer_norm 7x100": (lambda x, w, b: F.layer_norm(x, (100,), w, b), (randn(7, 100), randn(100), randn(100)), 1),
    "linear 50x96x130": (F.linear, (randn(50, 96), randn(130, 96), randn(130)), 1),
    "matmul 1x64x64": (torch.matmul, (randn(1, 64), randn(64, 64)), 1),
    "matmul 7x13x11": (torch.matmul, (randn(7, 13), randn(13, 11)), 1),
    "matmul 500x100x200": (torch.matmul, (randn(500, 100), randn(100, 200)), 1),
    "matmul 33x1025x127": (torch.matmul, (randn(33, 1025), randn(1025, 127)), 1),
    "batched matmul": (torch.matmul, (randn(3, 33, 65), randn(3, 65, 17)), 1),
    "vector matmul": (torch.matmul, (randn(65), randn(3, 65, 17)), 1),
    "sum of 4097": (lambda x: x.sum(), (randn(4097),), 1),
    "mean over the first axis": (lambda x: x.mean(0), (randn(300, 70),), 1),
    "rank 0": (lambda x: x.exp() + 1, (randn(),), 1),
    "rank 5": (lambda x: x.sum((0, -2), keepdim=True), (randn(2, 3, 4, 5, 6),), 1),
    "rank 6": (lambda x: x.amax((1, 3, -1)), (randn(2, 3, 2, 5, 2, 3),), 1),
    "no elements": (lambda x: x + 1, (torch.zeros(0, 5),), 1),
    "an empty axis": (lambda x: (x.sum(0), x.prod(0)), (torch.zeros(0, 5),), 2),
    "70000 rows": (lambda x: x.softmax(-1) * 2, (randn(70000, 3),), 1),
    "70000 columns": (lambda x: x.sum(0), (randn(3, 70000),), 1),
    "70000 batches": (torch.matmul, (randn(70000, 2, 3), randn(70000, 3, 2)), 1),
    "a long middle": (lambda x: x.mean((0, 2)), (randn(2, 70000, 2),), 1),
    "logits times a huge factor": (lambda x, s: torch.softmax(x * s, -1), (randn(4, 33), torch.tensor(-3e7)), 1),
    "causal attention": (attention, (randn(1, 4, 33, 16), randn(1, 4, 33, 16), randn(1, 4, 33, 16)), 3),
    "grouped causal attention": (attention, (randn(1, 4, 33, 16), randn(1, 2, 33, 16), randn(1, 2, 33, 16)), 3),
    "rotary halves": (rotary_halves, (randn(1, 4, 7, 16), randn(1, 2, 7, 16), randn(7, 8)), 4),
    "rotary pairs": (rotary_pairs, (randn(1, 4, 7, 16), randn(7, 8)), 2),
    "swiglu": (swiglu, (randn(9, 32), randn(48, 32), randn(48, 32), randn(32, 48)), 3),
    "NaN and infinities": (propagated, (SPECIAL, SPECIAL.flip(-1)), 11),
}


@pytest.mark.parametrize("name", SHAPES)
def test_shape(check_levels: Callable[..., int], name: str) -> None:
    """Shapes and values of the parts of a transformer; the number is the most kernels that they may take."""
    program, args, most = SHAPES[name]
    assert check_levels(program, args) <= most
