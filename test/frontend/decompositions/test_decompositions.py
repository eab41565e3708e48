"""What the torch dialect lacks and a decomposition gives, PyTorch's or ours; and what stays refused by its own name."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from deplodock.errors import UnsupportedError

torch = pytest.importorskip("torch")
F = torch.nn.functional


def written(x: Any) -> Any:
    y = x.clone()
    y[y > 0] = 3
    y[x.sum(1) > 0] = -1
    y[:, torch.tensor([2, -4, 2])] = x[:, :3] + 5
    y.index_copy_(0, torch.tensor([3]), x[:1])
    return y.mul_(2)


def program(x: Any, labels: Any) -> Any:
    image = x.view(1, 2, 2, 4)
    return (
        *(F.one_hot(labels, 5), written(x), F.elu(x), F.selu(x), F.normalize(x), x.norm(), x.norm(1, dim=0)),
        *(F.interpolate(image, scale_factor=2), F.interpolate(image, size=(3, 5), mode="bilinear")),
        *(F.hardswish(x), F.mish(x), torch.triu_indices(3, 3), F.cosine_similarity(x, x + 1)),
        *(x.index_fill(1, torch.tensor([0, 3]), 7), (x * 30).round(decimals=-1), x.round(decimals=2)),
        *(F.batch_norm(x, None, None, training=True), F.instance_norm(image), F.pairwise_distance(x, x + 1)),
        *(F.cross_entropy(x[:3].repeat(1, 2), labels, label_smoothing=0.1), torch.ops.aten.sub.Scalar(x, 2, 3)),
    )


def ordered(x: Any, i: Any) -> Any:
    return (
        *(*x.sort(1, descending=True), x.argsort(0), *x.topk(2), *x.t().kthvalue(2), *x.median(1), *x.mode(0)),
        *(x.msort(), x.nanmedian(), *x.cummax(1), *x.cummin(0), x.logcumsumexp(1), *(x > 0).max(1), *(x > 0).sort(0)),
        *(x.quantile(0.3), x.nanquantile(torch.tensor([0.1, 0.6]), 1), torch.searchsorted(x.sort()[0], x, right=True)),
        *(
            torch.bucketize(x, x[0]),
            torch.histc(x, 4, -1, 1),
            *(x.repeat(1, 30) + torch.arange(120)).topk(3, largest=False),
        ),
    )


def scattered(x: Any, i: Any) -> Any:
    y, rows = x.clone(), i[:, None].expand(3, 4)
    y[i, i - 1] = 7
    y.index_put_((i - 4,), x[:3], accumulate=True)
    y[x > 1] = x[0, 0]
    y[:, x[0] > 0] = x[:, :1]
    return (
        *(y, x.scatter(0, rows, x), x.scatter(1, i[None], 3), x.scatter(1, rows, x, reduce="multiply")),
        *(x.scatter_add(0, rows, x), x.index_add(1, i, x[:, 1:], alpha=2), x.index_reduce(0, i, x[:3], "amax")),
        *(x.scatter_reduce(1, rows, x, kind, include_self=kind == "mean") for kind in ("sum", "prod", "mean", "amin")),
        *(x.index_fill(0, i, 2), x.put(i, x[0, :3]), x.take(-i), x.masked_scatter(x > 0, x + 1)),
        *(
            x.bfloat16().scatter_add(0, rows, x.bfloat16()),
            x.int().to(torch.uint8).index_add(0, i, x[:3].to(torch.uint8)),
        ),
        x[:3].repeat_interleave(i, 0, output_size=6),
    )


@pytest.mark.parametrize("order", [ordered, scattered])
def test_what_orders_and_scatters_equals_pytorch(
    order: Callable[[Any, Any], Any], check_levels: Callable[..., int]
) -> None:
    x = torch.randn(4, 4, generator=torch.Generator().manual_seed(2))
    check_levels(order, (x, torch.tensor([3, 0, 3])))


def products(x: Any, w: Any, v: Any, three: Any) -> Any:
    image = x.view(1, 2, 2, 4)
    return (
        *(torch.native_layer_norm(x, (4,), w, w, 1e-5), *torch.native_group_norm(image, w[:2], None, 1, 2, 8, 2, 1e-5)),
        *(torch.cdist(x, x + w, p) for p in (0.0, 1.0, 2.0, 3.0, torch.inf)),
        *(F.pdist(x, p) for p in (1.0, 2.0)),
        *(torch.addbmm(x, three, three.mT), torch.addbmm(x * torch.nan, three, three.mT, beta=0, alpha=2)),
        *(F.bilinear(x, x + 1, v, w[:2]), F.fold(F.unfold(image, 2), (2, 4), 2), F.rrelu(x, 0.1, 0.5)),
        *(F.interpolate(image, size=3, mode="area"), *F.adaptive_max_pool2d(image, 2, return_indices=True)),
        *(F.max_unpool1d(*F.max_pool1d(x, 2, return_indices=True), 2), F.grid_sample(image, w.view(1, 1, 2, 2))),
        *(torch.hypot(x, w), torch.erfc(x), torch.lgamma(x), torch.polygamma(2, x), torch.i0(x), *torch.frexp(x)),
        torch._int_mm((x * 99).clamp(-128, 127).to(torch.int8), (x * 50).clamp(-128, 127).to(torch.int8)),
        *(torch.copysign(x, -w), torch.nextafter(x, w), (x > 0).to(torch.uint8).any(0) * 200 + 100),
        *(x.as_strided((2, 3), (3, 1), 2), torch.diagonal_scatter(x, w), torch.angle(x).signbit()),
    )


def test_products_distances_and_samples_equal_pytorch(check_levels: Callable[..., int]) -> None:
    generator = torch.Generator().manual_seed(2)
    x, w, v, three = (torch.randn(shape, generator=generator) for shape in ((4, 4), (4,), (2, 4, 4), (3, 4, 2)))
    check_levels(products, (x, w, v, three))


def test_equals_pytorch(check_levels: Callable[..., int]) -> None:
    x = torch.randn(4, 4, generator=torch.Generator().manual_seed(1))
    check_levels(program, (x, torch.tensor([4, 0, 2])))


REFUSED: dict[str, Callable[[Any, Any], Any]] = {
    "nonzero.default": lambda x, i: x.nonzero(),
    "masked_select.default": lambda x, i: x.masked_select(x > 0),
    "_unique2.default": lambda x, i: x.unique(),
    "bincount.default": lambda x, i: torch.bincount(i, minlength=9),
    "repeat_interleave.self_Tensor": lambda x, i: x.repeat_interleave(i.repeat(2), 0),
    "rand.default": lambda x, i: x + torch.rand(4),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_is_refused_is_named_with_its_line(name: str) -> None:
    from deplodock.frontend.capture import export

    with pytest.raises(UnsupportedError, match=rf"test_decompositions\.py:\d+: error: aten\.{name} is not supported"):
        export(REFUSED[name], (torch.ones(4, 4), torch.tensor([0, 2])))


def test_infinite_weights_of_transposed_convolutions(run_at_tensor_level: Callable[..., Any]) -> None:
    """The zeros beyond the input are multiplied, too, which makes NaN of the border."""
    x, weight = torch.ones(1, 1, 2), torch.full((1, 1, 2), torch.inf)
    (result,) = run_at_tensor_level(torch.nn.functional.conv_transpose1d, x, weight).got
    border = torch.tensor([[[torch.nan, torch.inf, torch.nan]]])
    torch.testing.assert_close(torch.as_tensor(result), border, equal_nan=True)
