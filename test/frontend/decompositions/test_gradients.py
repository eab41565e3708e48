"""Gradients that PyTorch has kernels for, and embedding_bag: our formulas give those of eager."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import nn
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.nn import functional as F
from torch.utils._python_dispatch import TorchDispatchMode

from deplodock.frontend.decompositions.bags import BAGS
from deplodock.frontend.decompositions.gradients import GRADIENTS
from deplodock.frontend.decompositions.interpolation import INTERPOLATION
from deplodock.frontend.decompositions.lists import LISTS
from deplodock.frontend.decompositions.sampling import SAMPLING

Tensor = torch.Tensor
TABLE = {**BAGS, **GRADIENTS, **INTERPOLATION, **LISTS, **SAMPLING}


class Recorded(TorchDispatchMode):
    """Calls of the overloads of the tables are computed by them; `seen` are those."""

    def __init__(self) -> None:
        super().__init__()
        self.seen: set[str] = set()

    def __torch_dispatch__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        ours: Callable[..., Any] = TABLE.get(func, func)
        if ours is not func:
            self.seen.add(str(func.overloadpacket))
        return ours(*args, **(kwargs or {}))


def numbers(*shape: int, dtype: torch.dtype = torch.float64) -> Tensor:
    made = torch.randn(shape, generator=torch.Generator().manual_seed(len(shape) + sum(shape)), dtype=torch.float64)
    return made.to(dtype).requires_grad_()


def check(function: Callable[..., Tensor], *args: Tensor, tolerance: float = 1e-9) -> set[str]:
    """Compare what a function gives, and its gradients, with eager's; the overloads that we computed."""
    given = [arg.detach().clone().requires_grad_(arg.requires_grad) for arg in args]
    parameters = list(function.parameters()) if isinstance(function, nn.Module) else []
    leaves = [arg for arg in (*args, *parameters) if arg.requires_grad]
    with (mode := Recorded()):
        result = function(*given)
        weight = torch.linspace(-1, 2, result.numel(), dtype=result.dtype).reshape(result.shape)
        ours = torch.autograd.grad((result * weight).sum(), [arg for arg in (*given, *parameters) if arg.requires_grad])
    expected = function(*args)
    eager = torch.autograd.grad((expected * weight).sum(), leaves)
    for one, other in zip([result, *ours], [expected, *eager], strict=True):
        assert one.dtype == other.dtype
        torch.testing.assert_close(one, other, rtol=tolerance, atol=tolerance, equal_nan=True)
    return mode.seen


MODES = {
    1: ("nearest", "nearest-exact", "linear"),
    2: ("nearest", "nearest-exact", "bilinear", "bicubic"),
    3: ("nearest", "nearest-exact", "trilinear"),
}


@pytest.mark.parametrize(("rank", "mode"), [(rank, mode) for rank, modes in MODES.items() for mode in modes])
def test_interpolation(rank: int, mode: str) -> None:
    for sizes in ({"size": (5,) * rank}, {"size": (8,) * rank}, {"scale_factor": 1.7}, {"scale_factor": 0.6}):
        for aligned in (None, True) if mode.endswith(("linear", "cubic")) else (None,):
            seen = check(
                lambda x, options=sizes, a=aligned: F.interpolate(x, mode=mode, align_corners=a, **options),
                numbers(1, 2, *(4,) * rank),
            )
            assert any("backward" in name for name in seen)


@pytest.mark.parametrize("mode", ["bilinear", "bicubic"])
@pytest.mark.parametrize("aligned", [False, True])
def test_interpolation_with_antialias(mode: str, aligned: bool) -> None:
    for size in ((3, 9), (7, 2), (7, 7)):
        seen = check(
            lambda x, size=size: F.interpolate(x, size=size, mode=mode, antialias=True, align_corners=aligned),
            numbers(1, 2, 7, 7),
        )
        assert len(seen) == 2
    scaled = lambda x: F.interpolate(x, scale_factor=0.6, mode=mode, antialias=True, align_corners=aligned)  # noqa: E731
    check(scaled, numbers(1, 2, 7, 8))


@pytest.mark.parametrize("mode", ["bilinear", "nearest", "bicubic"])
@pytest.mark.parametrize("padding", ["zeros", "border", "reflection"])
@pytest.mark.parametrize("aligned", [False, True])
def test_grid_sample(mode: str, padding: str, aligned: bool) -> None:
    options = {"mode": mode, "padding_mode": padding, "align_corners": aligned}
    seen = check(lambda x, grid: F.grid_sample(x, grid, **options), numbers(2, 2, 5, 4), numbers(2, 4, 3, 2))
    assert "aten.grid_sampler_2d_backward" in seen
    if mode != "bicubic":
        check(lambda x, grid: F.grid_sample(x, grid, **options), numbers(1, 2, 4, 3, 5), numbers(1, 3, 3, 2, 3))


@pytest.mark.parametrize("rank", [1, 2, 3])
def test_adaptive_pools(rank: int) -> None:
    for size in (1, 3, 9):
        for kind in ("max", "avg"):
            pool = getattr(F, f"adaptive_{kind}_pool{rank}d")
            check(lambda x, pool=pool, size=size: pool(x, size), numbers(1, 2, *(7,) * rank))


def test_fractional_pools() -> None:
    draws = torch.tensor([[[0.3, 0.7], [0.1, 0.9]]], dtype=torch.float64)
    seen = check(lambda x: F.fractional_max_pool2d(x, 2, output_size=3, _random_samples=draws), numbers(1, 2, 7, 7))
    assert "aten.fractional_max_pool2d_backward" in seen


@pytest.mark.parametrize("p", [0.0, 0.5, 1.0, 1.5, 2.0, 3.0, math.inf])
def test_distances(p: float) -> None:
    assert "aten._cdist_backward" in check(lambda a, b: torch.cdist(a, b, p), numbers(2, 4, 3), numbers(5, 3))
    assert "aten._pdist_backward" in check(lambda a: F.pdist(a, p), numbers(5, 3))


def test_weight_norm() -> None:
    for dim in (0, 1):
        layer = nn.utils.parametrizations.weight_norm(nn.Conv1d(3, 4, 2), dim=dim).double()
        check(layer, numbers(2, 3, 6))


def test_masked_scatter() -> None:
    seen = check(lambda x, source: x.masked_scatter(x > 0, source), numbers(2, 4), numbers(3, 5))
    assert "aten.masked_scatter_backward" in seen


def test_rrelu() -> None:
    check(lambda x: torch.rrelu(x, 0.1, 0.3, False), numbers(4, 4))
    grad, x, noise = numbers(4, 4).detach(), numbers(4, 5)[:, :4].detach(), numbers(5, 4)[:4].detach().abs()
    backward = torch.ops.aten.rrelu_with_noise_backward.default
    for trains in (False, True):
        given = grad, x, noise, 0.1, 0.3, trains, False
        assert torch.equal(TABLE[backward](*given), backward(*given))


INDICES, OFFSETS = torch.tensor([1, 2, 4, 5, 4, 3, 2, 9]), torch.tensor([0, 4, 4, 8])


@pytest.mark.parametrize("mode", ["sum", "mean", "max"])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16])
def test_embedding_bags(mode: str, dtype: torch.dtype) -> None:
    for options in ({}, {"padding_idx": 2}, {"include_last_offset": True}):
        check(
            lambda table, options=options: F.embedding_bag(INDICES, table, OFFSETS, mode=mode, **options),
            numbers(10, 4, dtype=dtype),
            tolerance=2e-2 if dtype == torch.bfloat16 else 1e-6,
        )


def test_embedding_bags_with_weights() -> None:
    for options in ({}, {"padding_idx": 4}):
        run = lambda table, weights, options=options: F.embedding_bag(  # noqa: E731
            INDICES, table, OFFSETS, mode="sum", per_sample_weights=weights, **options
        )
        assert "aten._embedding_bag_per_sample_weights_backward" in check(run, numbers(10, 4), numbers(8))


def test_gradients_of_bags_may_be_divided_by_frequencies() -> None:
    table = numbers(10, 4)
    with Recorded():
        F.embedding_bag(INDICES, table, OFFSETS, mode="sum", scale_grad_by_freq=True).sum().backward()
    named = (INDICES[:, None] == torch.arange(10)).any(0)
    torch.testing.assert_close(table.grad, named.double()[:, None].expand(10, 4))


@pytest.mark.parametrize("padding", [-1, 2])
@pytest.mark.parametrize("mode", [0, 1, 2])
@pytest.mark.parametrize("device", ["cpu", "meta"])
def test_all_results_of_embedding_bags_have_pytorchs_shapes(device: str, mode: int, padding: int) -> None:
    given = numbers(10, 4, dtype=torch.float32).detach(), INDICES, OFFSETS
    for overload in (torch.ops.aten._embedding_bag.default, torch.ops.aten._embedding_bag_forward_only.default):
        for last in (False, True):
            form = False, mode, False, None, last, padding
            places = [value.to(device) for value in given]
            with FakeTensorMode() as fakes:
                tensors = [fakes.from_tensor(value) for value in places]
                shapes = [(value.shape, value.dtype) for value in overload(*tensors, *form)]
                got = TABLE[overload](*tensors, *form)
            assert [(value.shape, value.dtype) for value in got] == shapes


def test_rows_are_renormalized() -> None:
    table = numbers(10, 4).detach()
    for p in (1.0, 2.0, math.inf):
        given = table, torch.tensor([1, 2, 2]), 0.5, p
        overload = torch.ops.aten.embedding_renorm.default
        torch.testing.assert_close(TABLE[overload](*given), overload(*given), rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("reduce", ["sum", "mean", "prod", "max", "min"])
@pytest.mark.parametrize("initial", [None, 1.5])
def test_segments(reduce: str, initial: float | None) -> None:
    overload = torch.ops.aten.segment_reduce.default
    for data in (numbers(5, 3).detach(), numbers(5).detach()):
        for form in ({"lengths": torch.tensor([2, 0, 3])}, {"offsets": torch.tensor([0, 2, 2, 5])}):
            got = TABLE[overload](data, reduce, **form, initial=initial)
            expected = overload(data, reduce, **form, initial=initial)
            torch.testing.assert_close(got, expected, rtol=1e-12, atol=1e-12, equal_nan=True)


def test_calls_on_lists() -> None:
    x, y = [numbers(4, 3).detach().abs(), numbers(5).detach().abs()], [numbers(4, 3).detach(), numbers(5).detach()]
    calls = (
        *((name, (x, y)) for name in ("add", "sub", "mul", "div", "maximum", "minimum", "pow")),
        *((name, (x, 0.5)) for name in ("add", "mul", "div", "clamp_min", "clamp_max", "pow")),
        *((name, (x, [0.5, 2.0])) for name in ("add", "mul", "div")),
        *((name, (x, x, y)) for name in ("addcmul", "addcdiv", "lerp")),
        *((name, (x, y, x, [0.5, 2.0])) for name in ("addcmul", "addcdiv")),
        *((name, (x, y, x, torch.tensor([0.5, 2.0]))) for name in ("addcmul", "addcdiv")),
        *((name, (x,)) for name in ("sqrt", "rsqrt", "neg", "abs", "sign", "exp", "reciprocal", "norm", "max")),
    )
    for name, given in calls:
        function = getattr(torch, f"_foreach_{name}")
        with (mode := Recorded()):
            got = function(*given)
        assert mode.seen == {f"aten._foreach_{name}"}
        torch.testing.assert_close(got, function(*given), rtol=1e-12, atol=1e-12)
