"""Operations that move, select, join and make elements, decomposed and evaluated: bit for bit what PyTorch gives."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from xdsl.utils.exceptions import PassFailedException

from deplodock.dialects.torch import ATEN_OPS
from deplodock.errors import Error

torch = pytest.importorskip("torch")
F = torch.nn.functional
aten = torch.ops.aten

NAN, INF = float("nan"), float("inf")


def numbers(*shape: int) -> Any:
    """Distinct numbers, NaN, -0.0 and infinities among them."""
    values = torch.arange(torch.Size(shape).numel(), dtype=torch.float32) - 5
    for position, value in enumerate((NAN, -0.0, INF, -INF)):
        values[position * 3 : position * 3 + 1] = value
    return values.reshape(shape)


x, e, z = numbers(3, 4), torch.zeros(3, 0), torch.tensor(2.0)
cube = numbers(2, 5, 3)
b = torch.tensor([[True, False, True, False], [False, False, True, True]])
i = torch.tensor([[2, 0, 1, 1], [0, 2, 2, 0]])

Case = tuple[Callable[..., Any], tuple[Any, ...]]


def _written(x: Any, c: Any) -> tuple[Any, ...]:
    """Writes into intermediate tensors, seen through views."""
    h = x * 2
    before = h.sum(dim=0)
    part = h[:, 1:3]
    part.add_(1.0)
    h[2] = x[0]
    kept = h + 0
    h.relu_()
    mixed = c[0].clone()
    mixed[1:5:3] = c[1, 1:5:3]
    mixed[..., 0] = 7
    mixed[0, 0] = mixed[-1, -1]
    return before, part, kept, h, mixed


CASES: dict[str, Case] = {
    "slice.Tensor": (
        lambda x, c, e: (
            *(x[1:], x[:, ::2], x[:-1, 1:], x[5:], x[-2:, 3:1], x[:, 1::3], c[:, 1:4:2, 2:]),
            *(e[1:], e[:, 2:], aten.slice.Tensor(x, -1, -3, 100, 2), c.narrow(1, 2, 2)),
        ),
        (x, cube, e),
    ),
    "select.int": (lambda x, c: (x[1], x[:, -1], c[:, 2], c[..., 0], c[1, -1, 0]), (x, cube)),
    "split.Tensor split_with_sizes unbind.int": (
        lambda x, c, e: (
            *(*x.split(2, 1), *x.split(3, -1), *x.split([1, 0, 3], 1), *c.chunk(3, 1), *x.unbind(1), *c.unbind(-1)),
            *(*e.split(2, 1), *e.split(2, 0), *torch.tensor_split(c, 2, 1), x.split(2, 1)[1]),
        ),
        (x, cube, e),
    ),
    "cat stack": (
        lambda x, c, e: (
            *(torch.cat([x, x[:1], x]), torch.cat((x[:, 2:], x[:, :2]), -1), torch.stack([x, -x]), torch.cat([x])),
            *(torch.stack([x, x], -1), torch.cat([c, c[:, :0]], 1), torch.cat([e, x], 1), torch.cat([e, e])),
            torch.concat([c, c], 2),
        ),
        (x, cube, e),
    ),
    "cat stack promotion": (lambda x, i: (torch.cat([x[:2], i]), torch.stack([i, i.int()])), (x, i)),
    "diagonal unfold": (
        lambda x, c: (
            *(x.diagonal(), x.diagonal(1), x.diagonal(-2), c.diagonal(0, 1, 2), c.diagonal(1, -1, 0), x.diagonal(9)),
            *(x.unfold(1, 3, 1), x.unfold(0, 2, 2), c.unfold(1, 2, 1)),
        ),
        (x, cube),
    ),
    "flip roll": (
        lambda x, c, z: (
            *(x.flip(0), x.flip((-1, 0)), c.flip([1]), z.flip(0), x.roll(1, 0), x.roll(-3, 1), c.roll(2)),
            *(c.roll((1, -1), (0, 1)), x.roll(4, 1), x[:0].roll(1, 0)),
        ),
        (x, cube, z),
    ),
    "repeat repeat_interleave.self_int": (
        lambda x, c, e: (
            *(x.repeat(2, 1), x.repeat(2, 1, 3), c.repeat(1, 1, 2), e.repeat(2, 3), x.repeat(0, 1)),
            *(x.repeat_interleave(2), x.repeat_interleave(3, 0), c.repeat_interleave(2, -1)),
        ),
        (x, cube, e),
    ),
    "tril triu": (
        lambda x, c, b, i: (
            *(x.tril(), x.triu(), x.tril(-1), x.triu(2), c.tril(1), b.tril(), i.triu(-1), x.tril(-9), x.triu(9)),
            torch.ones(4, 4, dtype=torch.bool).tril(),
        ),
        (x, cube, b, i),
    ),
    "full zeros ones scalar_tensor": (
        lambda x: (
            *(x + torch.full((4,), 1.5), torch.zeros(2, 3), torch.ones(2, dtype=torch.int64), torch.full((2,), True)),
            *(torch.full((2, 0), 3), torch.scalar_tensor(2.5), torch.full((), -INF), torch.zeros(())),
        ),
        (x,),
    ),
    "empty.memory_format empty_like new_empty": (
        lambda x: (torch.empty(3, 2).fill_(1), torch.empty_like(x).fill_(2), x.new_empty(2).copy_(x[0, :2])),
        (x,),
    ),
    "full_like zeros_like ones_like new_full new_zeros new_ones": (
        lambda x, i: (
            *(torch.full_like(x, 3), torch.zeros_like(i), torch.ones_like(x, dtype=torch.int32), x.new_full((2,), 7)),
            *(x.new_zeros(2, 2), i.new_ones(3), torch.full_like(i, 2.0, dtype=torch.float64)),
        ),
        (x, i),
    ),
    "arange arange.start_step arange.start": (
        lambda x: (
            *(torch.arange(4), torch.arange(2, 9, 3), torch.arange(3.0), torch.arange(5, 0, -2), torch.arange(0)),
            *(torch.arange(0, 1, 0.25), torch.arange(4, dtype=torch.int32), aten.arange.start(1, 4), x[0, 0]),
        ),
        (x,),
    ),
    "eye eye.m": (lambda x: (x @ torch.eye(4), torch.eye(2, 3, dtype=torch.int64)), (torch.ones(2, 4),)),
    "gather": (
        lambda x, i: (x.gather(0, i), x.gather(1, i), x.gather(1, i[:, :2]), x.gather(-1, i[:1]), x[0].gather(0, i[0])),
        (x, i),
    ),
    "gather scalar": (lambda z, j: (z.gather(0, j), j.gather(0, j[0])), (z, torch.tensor([0]))),
    "index_select embedding": (
        lambda x, i: (
            *(x.index_select(0, i[0]), x.index_select(-1, i[1].int()), x.index_select(1, i[0, 0])),
            *(F.embedding(i, x), F.embedding(i[0, 0], x), F.embedding(i[:0].int(), x, padding_idx=1)),
        ),
        (x, i),
    ),
    "index.Tensor": (
        lambda x, c, i: (
            *(
                x[i],
                x[:, i],
                x[i, i],
                x[-1 - i],
                c[:, [-1]],
                c[[1, 0, 1], :, [2, 0, -1]],
                c[:, i, 1],
                c[i.int() % 2, i],
            ),
            *(c[1, :, i], x[[0, 1], [1, 2]], c[i[:, :1] % 2, :, i], x[i[:, :0]]),
        ),
        (x, cube, i),
    ),
    "slice_scatter select_scatter copy": (_written, (torch.arange(12.0).view(3, 4) - 5, cube)),
    "slice_scatter": (
        lambda x, c: (
            *(
                aten.slice_scatter(x, x[:, :2], 1, 1, 4, 2),
                aten.slice_scatter(x, -x, 0),
                aten.slice_scatter(x, x[:0], 0, 3),
            ),
            *(aten.slice_scatter(c, c[:, :2], 1, 1, 5, 3), aten.slice_scatter(c, c[:, 1:3], 1, -2, 9)),
        ),
        (x, cube),
    ),
    "fill.Scalar fill.Tensor": (lambda x, z: (aten.fill.Scalar(x, 3), aten.fill.Tensor(x, z)), (x, z)),
    "pad constant_pad_nd": (
        lambda x, c, e, b: (
            *(F.pad(x, (1, 2)), F.pad(x, (0, 0, 2, 1), value=0.5), F.pad(x, (0, 0)), F.pad(x, (-1, 1, 0, -2))),
            *(F.pad(c, (0, 1, 2, 0, 1, 1), value=-INF), F.pad(e, (1, 2), value=3.0), F.pad(x, (-3, -1))),
            *(aten.constant_pad_nd(b, [1, 0], True), aten.constant_pad_nd(x, [0, 1], 2)),
            *(F.pad(c, (1, 2, 0, -1), mode=mode) for mode in ("reflect", "replicate", "circular")),
            *(F.pad(c, (-1, 2), mode=mode) for mode in ("reflect", "replicate", "circular")),
        ),
        (x, cube, e, b),
    ),
    "any all": (lambda x, b, i, e: (b.any(), b.all(), x.any(), i.all(), e.any(), e.all()), (x, b, i, e)),
    "any.dim any.dims all.dim all.dims": (
        lambda x, b, i, e: (
            *(b.any(0), b.all(-1), x.any(1, keepdim=True), i.all(0), e.any(1), e.all(1), e.all(0)),
            *(b.any((0, 1)), b.all((-1,)), b.any(dim=()), i.all(dim=()), aten.any.dims(b, None)),
            *(b.any((0, 1), keepdim=True), aten.all.dims(b, [0, -1])),
        ),
        (x, b, i, e),
    ),
    "any all any.dim any.dims all.dim all.dims of uint8": (
        lambda u: (
            *(u.any(), u.all(), u.any(0), u.all(1), u.any(0, keepdim=True), u.any(dim=(0, 1)), u.all(dim=())),
            *(u[:0].any(), u[:0].all(0), u[0, 1].all(), u.any() * 200 + 100, -u.all(1), u.any(1) / 2, u.bool().any(1)),
        ),
        (torch.tensor([[0, 3], [0, 0], [255, 128]], dtype=torch.uint8),),
    ),
    "argmax argmin max.dim min.dim": (
        lambda x, c, k, s: (
            *(c.argmax(), (c.mT + 0.5).argmin(), c.argmax(1), c.argmin(-1, keepdim=True), k.argmax(0), k.argmin(1)),
            *(s.argmax(1), s.argmin(1), s.argmax(0), s.argmax(), k[0, 0].argmax(), k[0, 0].argmin(0), x.argmin(0)),
            *(c.argmax(keepdim=True), k.argmax(), *k.max(1), *s.max(0), *c.min(-1, keepdim=True), k.min(0)[0]),
        ),
        (
            x,
            cube,
            torch.tensor([[3, 1, 3], [1, 1, 3]]),
            torch.tensor([[-INF, -INF], [NAN, INF], [NAN, NAN], [INF, INF]]),
        ),
    ),
    "max min amax amin bool": (lambda b, x: (b.max(), b.min(), b.amax(0), b.amin(1), x.min(), x.amin(0)), (b, x)),
    "same input twice": (lambda x, y: (x + y, x * y, torch.cat([x, y])), (x, x)),
    "strided inputs": (lambda x, y: (x + 1, y * 2, x.reshape(-1)), (x.t(), z.expand(3, 4))),
}


@pytest.mark.parametrize("name", CASES)
def test_equals_torch(name: str, check_with_torch: Callable[..., set[str]]) -> None:
    function, args = CASES[name]
    assert {word for word in name.split() if word in ATEN_OPS} <= check_with_torch(function, *args, exact=True)


@pytest.mark.parametrize("index", [4, -1])
def test_index_out_of_range_is_reported(index: int, run_at_tensor_level: Callable[..., Any]) -> None:
    rows = torch.tensor([0, index])
    with pytest.raises(Error, match="outside the buffer"):
        run_at_tensor_level(lambda x, i: x.index_select(0, i), x, torch.tensor([0, 1]), inputs=[x, rows])


@pytest.mark.parametrize(
    ("function", "message"),
    [
        (
            lambda x: F.scaled_dot_product_attention(x, x, x, dropout_p=0.5),
            r"dropout_p = 0\.5 is not supported; only 0 is",
        ),
    ],
)
def test_refused_by_decompose(function: Any, message: str, run_at_tensor_level: Callable[..., Any]) -> None:
    with pytest.raises(PassFailedException, match=r"test_decompose_indexing\.py:\d+:\d+: error: .*" + message):
        run_at_tensor_level(function, x)
