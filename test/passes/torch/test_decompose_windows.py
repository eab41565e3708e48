"""Convolutions and pooling against PyTorch: strides, paddings, dilations, groups, windows that reach outside."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

torch = pytest.importorskip("torch")
F = torch.nn.functional


def randn(*shape: int) -> Any:
    return torch.randn(shape, generator=torch.Generator().manual_seed(sum(shape)))


CONVOLUTIONS = {
    "convolution patches": (lambda x, w: F.conv2d(x, w, stride=4), (2, 3, 8, 8), (5, 3, 4, 4)),
    "convolution padded": (lambda x, w: F.conv2d(x, w, w.sum((1, 2, 3)), padding=1), (2, 3, 5, 6), (4, 3, 3, 3)),
    "convolution dilated groups": (
        lambda x, w: F.conv2d(x, w, stride=(2, 1), padding=(1, 2), dilation=2, groups=2),
        (1, 4, 7, 7),
        (6, 2, 3, 3),
    ),
    "convolution depthwise": (lambda x, w: F.conv1d(x, w, padding="same", groups=3), (2, 3, 7), (3, 1, 3)),
    "convolution causal": (lambda x, w: F.conv1d(F.pad(x, (2, 0)), w), (2, 3, 7), (4, 3, 3)),
    "convolution transposed": (
        lambda x, w: F.conv_transpose2d(x, w, w.sum((0, 1, 2))[:2], 2, (1, 3), (1, 0), dilation=(1, 3)),
        (2, 3, 4, 5),
        (3, 2, 3, 2),
    ),
    "convolution transposed between zeros": (
        lambda x, w: F.conv_transpose2d(x, w, w.sum((0, 2, 3)), (4, 2), (3, 1), (3, 0), dilation=(2, 4)),
        (2, 3, 4, 5),
        (3, 2, 3, 2),
    ),
    "convolution transposed out of reach": (
        lambda x, w: F.conv_transpose1d(x, w, None, 2, 1, 0, dilation=2),
        (1, 3, 1),
        (3, 2, 2),
    ),
    "convolution transposed groups": (lambda x, w: F.conv_transpose1d(x, w, groups=2), (4, 6), (4, 3, 2)),
    "convolution unbatched": (lambda x, w: F.conv2d(x, w), (3, 5, 5), (2, 3, 2, 2)),
    "convolution volume": (lambda x, w: F.conv3d(x, w, stride=2), (1, 2, 4, 4, 4), (3, 2, 2, 2, 2)),
}


@pytest.mark.parametrize("case", CONVOLUTIONS)
def test_convolutions(check_with_torch: Callable[..., Any], case: str) -> None:
    function, input, weight = CONVOLUTIONS[case]
    assert "convolution" in check_with_torch(function, randn(*input), randn(*weight))


POOLS = {
    "max_pool1d max_pool2d max_pool3d": (
        lambda x: (
            *(F.max_pool2d(x, 2), F.max_pool2d(x, 3, 2, 1), F.max_pool2d(x, (3, 2), 1, dilation=2)),
            *(F.max_pool2d(x, 3, 2, ceil_mode=True), F.max_pool2d(x[0], 2)),
            *(F.max_pool1d(x[0], 3, 2, 1), F.max_pool3d(x, (2, 3, 1), 2, (0, 1, 0))),
        )
    ),
    "avg_pool1d avg_pool2d avg_pool3d": (
        lambda x: (
            *(F.avg_pool2d(x, 2), F.avg_pool2d(x, 3, 2, 1), F.avg_pool2d(x, 3, 2, 1, count_include_pad=False)),
            *(F.avg_pool2d(x, 3, 2, 1, ceil_mode=True), F.avg_pool2d(x, 2, divisor_override=3)),
            F.avg_pool2d(x[..., :5], (1, 2), 3, (0, 1), ceil_mode=True),
            *(F.avg_pool1d(x[0], 3, 2, 1), F.avg_pool3d(x, (1, 2, 4)), F.avg_pool3d(x, 3, 1, 1, divisor_override=2)),
        )
    ),
    "adaptive_avg_pool1d adaptive_avg_pool2d adaptive_avg_pool3d": (
        lambda x: (
            *(F.adaptive_avg_pool2d(x, 1), F.adaptive_avg_pool2d(x, (4, 2)), F.adaptive_avg_pool1d(x[0], 4)),
            *(F.adaptive_avg_pool3d(x, (3, 2, 1)), torch.ops.aten._adaptive_avg_pool2d(x, (2, 2))),
            *(F.adaptive_avg_pool2d(x, 3), F.adaptive_avg_pool2d(x, (None, 5)), F.adaptive_avg_pool1d(x[0], 11)),
            *(F.adaptive_avg_pool3d(x, (2, 8, 7)), F.interpolate(x, size=(3, 5), mode="area")),
            *(F.lp_pool2d(x.abs(), 2, 3), F.lp_pool1d(x[0].abs(), 3, 2, ceil_mode=True)),
        )
    ),
}


@pytest.mark.parametrize("case", POOLS)
def test_pools(check_with_torch: Callable[..., Any], case: str) -> None:
    x = randn(2, 3, 8, 8)
    x[0, 0, 3, 3], x[1, 1] = torch.nan, -torch.inf
    check_with_torch(POOLS[case], x)


EXACT_POOLS = {
    "max_pool2d_with_indices max_pool3d_with_indices": (
        lambda x: (
            *(*F.max_pool2d(x, 2, return_indices=True), *F.max_pool2d(x, 3, 2, 1, return_indices=True)),
            *F.max_pool2d(x, (3, 2), 1, (1, 0), 2, ceil_mode=True, return_indices=True),
            *(*F.max_pool1d(x[0], 3, 2, 1, return_indices=True), *F.max_pool2d(x[1], 5, return_indices=True)),
            *F.max_pool3d(x, (2, 3, 1), 2, (0, 1, 0), return_indices=True),
        )
    ),
    "adaptive_max_pool2d adaptive_max_pool3d": (
        lambda x: (
            *(*F.adaptive_max_pool2d(x, 3, return_indices=True), F.adaptive_max_pool2d(x, (5, 2))),
            *(*F.adaptive_max_pool1d(x[0], 5, return_indices=True), F.adaptive_max_pool1d(x[1], 1)),
            *F.adaptive_max_pool3d(x, (2, 8, 7), return_indices=True),
        )
    ),
}


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.float16, torch.bfloat16], ids=str)
@pytest.mark.parametrize("case", EXACT_POOLS)
def test_pools_with_indices(check_with_torch: Callable[..., Any], case: str, dtype: Any) -> None:
    # Few values, so that windows have ties: of equal elements the first counts, but of NaNs the last.
    values = torch.tensor([0.0, 1.0, 2.0, 2.0, -torch.inf], dtype=dtype)
    x = values[torch.randint(0, 5, (2, 3, 8, 8), generator=torch.Generator().manual_seed(0))]
    x[0, 0, 3, 3:5], x[1, 1] = torch.nan, -torch.inf
    assert set(case.split()) <= check_with_torch(EXACT_POOLS[case], x, exact=True)


def test_pools_of_integers(check_with_torch: Callable[..., Any]) -> None:
    x = torch.arange(-200, 184).view(2, 3, 8, 8)
    check_with_torch(
        lambda x: (
            *(F.max_pool2d(x, 3, 2, 1), F.max_pool3d(x, 2), *F.max_pool2d(x, 2, return_indices=True)),
            *(F.max_pool2d(x.to(dtype), 3, 2, 1) for dtype in (torch.uint8, torch.int8, torch.int16, torch.int32)),
            *(F.avg_pool2d(x, 3), F.avg_pool1d(x[0], 3, 2, 1, count_include_pad=False)),
            F.avg_pool3d(x - 3, 2, divisor_override=3),
        ),
        x,
        exact=True,
    )


def test_what_is_refused(run_at_tensor_level: Callable[..., Any]) -> None:
    from xdsl.utils.exceptions import PassFailedException

    with pytest.raises(PassFailedException, match=r"a window of size \[1, 2\] lies in the padding alone"):
        run_at_tensor_level(lambda x: F.max_pool2d(x, (1, 2), 1, (0, 1), 3, return_indices=True), randn(1, 1, 2))
