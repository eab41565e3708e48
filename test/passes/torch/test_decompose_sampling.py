"""grid_sample and affine_grid against PyTorch: points inside, outside, on edges and on centres."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

import pytest

torch = pytest.importorskip("torch")
F = torch.nn.functional

MODES = [
    *itertools.product(("bilinear", "nearest"), ("zeros", "border", "reflection"), (2, 3)),
    *itertools.product(("bicubic",), ("zeros", "border", "reflection"), (2,)),
]

SAMPLED = {2: [((5, 4), torch.float32), ((1, 2), torch.float64)], 3: [((5, 4, 3), torch.float32)]}
"""What is sampled in a plane and in a space. An extent of 1 has both ends in one place."""


def grid(spaces: int) -> Any:
    generator = torch.Generator().manual_seed(spaces)
    points = torch.rand(2, 3, *[4] * (spaces - 1), spaces, generator=generator) * 3 - 1.5
    edges = [0.0, 1.0, -1.0, 0.5, 1.25, -1.25, 0.2, 3.0, -3.0, 0.75, 0.25, torch.nan if spaces == 2 else 0.1, 0.1]
    points.view(-1)[: len(edges)] = torch.tensor(edges)
    return points


@pytest.mark.parametrize("align_corners", [True, False])
@pytest.mark.parametrize(("mode", "padding", "spaces"), MODES)
def test_grid_sample(
    check_with_torch: Callable[..., set[str]], mode: str, padding: str, spaces: int, align_corners: bool
) -> None:
    def program(x: Any, y: Any) -> Any:
        return F.grid_sample(x, y, mode=mode, padding_mode=padding, align_corners=align_corners)

    # A graph of bicubic reads takes long to capture; of the paddings only reflection has a case for an extent of 1.
    is_short = mode == "bicubic" and padding != "reflection"
    for extents, dtype in SAMPLED[spaces][: 1 if is_short else None]:
        x = torch.randn(2, 2, *extents, generator=torch.Generator().manual_seed(1), dtype=dtype)
        check_with_torch(program, x, grid(spaces).to(dtype))


def test_grids_of_halves_are_read_in_float(run_at_tensor_level: Callable[..., Any]) -> None:
    x, points = torch.randn(2, 2, 5, 4).bfloat16(), grid(2).nan_to_num(0).bfloat16()
    result = run_at_tensor_level(lambda x, y: F.grid_sample(x, y, mode="nearest", align_corners=False), x, points)
    wanted = F.grid_sample(x.float(), points.float(), mode="nearest", align_corners=False)
    assert torch.equal(torch.from_numpy(result.got[0].astype("float32")), wanted)


def test_affine_grid(check_with_torch: Callable[..., set[str]]) -> None:
    def program(plane: Any, volume: Any) -> Any:
        return (
            *(F.affine_grid(plane, [2, 1, 4, 5], align_corners=flag) for flag in (True, False)),
            *(F.affine_grid(volume, [2, 1, 2, 3, 4], align_corners=flag) for flag in (True, False)),
        )

    check_with_torch(program, torch.randn(2, 2, 3), torch.randn(2, 3, 4))
