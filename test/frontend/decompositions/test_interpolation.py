"""Interpolation gives the elements of eager, for every mode, scale and size."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch.nn import functional as F
from torch.utils._python_dispatch import TorchDispatchMode

import deplodock
from deplodock.errors import UnsupportedError
from deplodock.frontend.capture import export
from deplodock.frontend.decompositions.interpolation import INTERPOLATION

MODES = {
    1: ("nearest", "nearest-exact", "linear"),
    2: ("nearest", "nearest-exact", "bilinear", "bicubic"),
    3: ("nearest", "nearest-exact", "trilinear"),
}
SCALES = (1, 1.01, 1.05, 1.1, 1.3, 1.5, 2, 2.16, 0.5, 0.7, 3.3)
TOLERANCES = {torch.float32: 2e-6, torch.float64: 1e-12, torch.bfloat16: 0.012, torch.float16: 1.5e-3, torch.uint8: 0}
"""Of values up to 1; several sums of half precision round once here and after each dimension in eager."""


class Ours(TorchDispatchMode):
    """Calls of the overloads of the table are computed by it."""

    def __torch_dispatch__(
        self, func: Callable[..., Any], types: Any, args: tuple[Any, ...] = (), kwargs: Any = None
    ) -> Any:
        ours: Callable[..., Any] = INTERPOLATION.get(func, func)
        return ours(*args, **(kwargs or {}))


def draw_options(rank: int, mode: str, draw: random.Random) -> dict[str, Any]:
    options: dict[str, Any] = {"mode": mode}
    if mode.endswith(("linear", "cubic")):
        options["align_corners"] = draw.choice([True, False, None])
    if draw.random() < 0.25:
        return {**options, "size": [draw.randint(1, 11) for _ in range(rank)]}
    scale = tuple(draw.choice(SCALES) for _ in range(rank)) if draw.random() < 0.7 else draw.choice(SCALES)
    return {**options, "scale_factor": scale, "recompute_scale_factor": draw.choice([None, True])}


@pytest.mark.parametrize("mode", ["nearest", "nearest-exact", "linear", "bilinear", "bicubic", "trilinear"])
def test_equals_eager(mode: str) -> None:
    draw, compared = random.Random(mode), 0
    generator = torch.Generator().manual_seed(0)
    for rank in (rank for rank, modes in MODES.items() if mode in modes for _ in range(150)):
        shape = [draw.randint(1, 2), draw.randint(1, 3), *(draw.randint(1, 9) for _ in range(rank))]
        options = draw_options(rank, mode, draw)
        for dtype, tolerance in TOLERANCES.items():
            x = torch.rand(shape, generator=generator)
            x = x.to(dtype) if dtype.is_floating_point else (x * 255).to(dtype)
            if not dtype.is_floating_point and "nearest" not in mode:
                continue
            try:
                wanted = F.interpolate(x, **options)
            except RuntimeError:
                # The scale leaves no elements.
                continue
            with Ours():
                got = F.interpolate(x, **options)
            exact = 0 if "nearest" in mode else tolerance
            assert got.dtype == wanted.dtype
            assert got.shape == wanted.shape
            assert (got.double() - wanted.double()).abs().max() <= exact, (dtype, shape, options)
            compared += 1
    assert compared > 400


PROGRAMS: dict[str, tuple[Callable[[Any], Any], tuple[int, ...]]] = {
    "nearest": (lambda x: F.interpolate(x, scale_factor=(1.3, 1.5)), (1, 1, 3, 4)),
    "by numbers": (lambda x: torch.ops.aten.upsample_nearest2d(x, [3, 6], 1.3, 1.5), (1, 1, 3, 4)),
    "one row": (lambda x: F.interpolate(x, scale_factor=1.3), (1, 1, 1, 2)),
    "line": (lambda x: F.interpolate(x, scale_factor=1.3), (1, 2, 3)),
    "bilinear": (lambda x: F.interpolate(x, scale_factor=1.3, mode="bilinear"), (1, 1, 3, 4)),
    "trilinear": (lambda x: torch.nn.Upsample(scale_factor=1.2, mode="trilinear")(x), (1, 1, 3, 4, 6)),
    "bicubic": (lambda x: F.interpolate(x, scale_factor=(1.1, 1.7), mode="bicubic"), (1, 1, 3, 4)),
    "exact": (lambda x: F.interpolate(x, scale_factor=1.2, mode="nearest-exact"), (1, 1, 3, 6)),
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_a_scale_may_leave_an_extent_as_it_is(name: str) -> None:
    program, shape = PROGRAMS[name]
    x = torch.rand(shape, generator=torch.Generator().manual_seed(1))
    torch.testing.assert_close(deplodock.compile(program, (x,))(x), program(x))


REFUSED: dict[str, tuple[dict[str, Any], torch.dtype]] = {
    r"aten\.upsample_bilinear2d\.vec is not supported on integers, which PyTorch weighs": (
        {"mode": "bilinear"},
        torch.uint8,
    ),
    r"aten\.upsample_bicubic2d\.vec is not supported on integers, which PyTorch weighs": (
        {"mode": "bicubic"},
        torch.uint8,
    ),
}


@pytest.mark.parametrize("message", REFUSED)
def test_what_eager_computes_otherwise_is_refused_by_name(message: str) -> None:
    options, dtype = REFUSED[message]
    with pytest.raises(UnsupportedError, match=message):
        export(lambda x: F.interpolate(x, scale_factor=1.7, **options), (torch.ones(2, 3, 4, 4).to(dtype),))
