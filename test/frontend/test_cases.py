"""Whole programs of the kinds on which tensor compilers go wrong, captured and evaluated at tensor level."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from xdsl.context import Context

from deplodock.analysis.reductions import longest_reduction
from deplodock.interpreters.evaluate import evaluate
from deplodock.passes.torch.decompose import DecomposePass
from deplodock.runtime.compare import compare

torch = pytest.importorskip("torch")
nn, F = torch.nn, torch.nn.functional

from deplodock.frontend.capture import export  # noqa: E402

INF = float("inf")


def randn(*shape: int) -> Any:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(sum(shape)))


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
    "residual stack": (seeded(Residual()), (randn(3, 8),)),
}


@pytest.mark.parametrize("name", CASES)
def test_case(name: str) -> None:
    program = export(*CASES[name])
    DecomposePass().apply(Context(), program.module)
    program.module.verify()
    got = evaluate(program.module, [value.numpy() for value in program.inputs])
    expected = zip(got, program.reference(), program.eager(), strict=True)
    extent = longest_reduction(program.module)
    for number, (value, reference, eager) in enumerate(expected):
        assert value.dtype == eager.numpy().dtype
        verdict = compare(value, reference.numpy(), eager.numpy(), extent)
        assert verdict.passed, f"output {number}: {verdict}"
