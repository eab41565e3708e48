"""Products of `high` and `medium` on the GPU: their errors beside those of cuBLAS, and their special values."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
import pytest

from deplodock.passes.driver import Level, lower, new_context
from deplodock.runtime.device import Executable, device_target

if TYPE_CHECKING:
    import torch

    Tensor = torch.Tensor

BAR = 1e-6
"""The error of `high`, relative in the Frobenius norm, where cuBLAS has a smaller one."""

ROUNDED = 3.5e-4
"""The error of factors that are rounded to TF32 is 2.9e-4, and 7.8e-4 where they are cut off."""

SHAPES = [(1024, 256), (128, 1024), (32, 512), (8, 512)]
"""Rows and columns: of warpgroups, which take either side of the product for their rows, and of warps."""


def multiplied(
    x: Tensor, w: Tensor, precision: Literal["high", "medium"] = "high", *, is_along: bool = True
) -> np.ndarray[Any, Any]:
    """The product of x and the transpose of w on the GPU, of which w lies along k, or the transpose along columns."""
    import torch
    from torch.nn import functional

    from deplodock.frontend.arrays import to_array
    from deplodock.frontend.capture import export
    from deplodock.frontend.precision import pytorch_at

    with pytorch_at(precision):
        captured = export(functional.linear, (x, w)) if is_along else export(torch.matmul, (x, w.T.contiguous()))
    lower(captured.module, new_context(), Level.KERNEL, target=device_target())
    assert ("math_ext.low_part" in str(captured.module)) == (precision == "high")
    executable = Executable(captured.module)
    inputs = [to_array(value) for value in captured.inputs]
    (first,), (second,) = executable.run(inputs), executable.run(inputs)
    assert first.tobytes() == second.tobytes()
    return first


def exact(x: Tensor, w: Tensor) -> np.ndarray[Any, Any]:
    return (x.double() @ w.double().T).numpy()


def error(got: np.ndarray[Any, Any], reference: np.ndarray[Any, Any]) -> float:
    """Relative, in the Frobenius norm, of numbers whose squares may overflow."""
    largest = np.abs(reference).max()
    return float(np.linalg.norm((got - reference) / largest) / np.linalg.norm(reference / largest))


@pytest.mark.parametrize("draw", ["randn", "rand"])
@pytest.mark.parametrize("k", [64, 400, 3584, 18944])
def test_error_is_that_of_cublas(draw: str, k: int, seed: int) -> None:
    import torch

    from deplodock.frontend.precision import pytorch_at

    torch.manual_seed(seed)
    function: Callable[..., Tensor] = getattr(torch, draw)
    for rows, columns in SHAPES:
        x, w = function(rows, k), function(columns, k)
        reference = exact(x, w)
        with pytorch_at("highest"):
            cublas = (x.cuda() @ w.cuda().T).cpu().numpy()
        got = error(multiplied(x, w), reference)
        assert got <= max(BAR, error(cublas, reference)), f"{rows} x {columns}, seed {seed}"


@pytest.mark.parametrize("k", [64, 400, 3584])
def test_the_error_of_medium_is_that_of_cublas_in_tf32(k: int, seed: int) -> None:
    import torch

    from deplodock.frontend.precision import pytorch_beside

    torch.manual_seed(seed)
    for rows, columns in SHAPES:
        x, w = torch.randn(rows, k), torch.randn(columns, k)
        reference = exact(x, w)
        with pytorch_beside("medium"):
            cublas = (x.cuda() @ w.cuda().T).cpu().numpy()
        for is_along in (True, False):
            got = error(multiplied(x, w, "medium", is_along=is_along), reference)
            assert got <= max(ROUNDED, 1.1 * error(cublas, reference)), f"{rows} x {columns}, {is_along}, seed {seed}"


@pytest.mark.parametrize("special", [float("nan"), float("inf"), float(np.finfo(np.float32).max)])
@pytest.mark.parametrize("side", ["left", "right"])
def test_a_factor_that_tf32_lacks_reaches_its_row_or_column_alone_in_medium(
    special: float, side: str, seed: int
) -> None:
    """NaN gives NaN, an infinite one infinity, and so does a number that rounds to it."""
    import torch

    torch.manual_seed(seed)
    for rows, columns in SHAPES:
        x, w = torch.randn(rows, 512), torch.randn(columns, 512)
        (x if side == "left" else w)[3, 70] = special
        got, reference = multiplied(x, w, "medium"), exact(x, w)
        reached = np.zeros(got.shape, np.bool_)
        reached[(3,) if side == "left" else (slice(None), 3)] = True
        assert (np.isnan(got[reached]) if np.isnan(special) else np.isinf(got[reached])).all()
        assert error(got[~reached], reference[~reached]) <= ROUNDED, f"{rows} x {columns}, seed {seed}"


@pytest.mark.parametrize(("left", "right"), [(1e-30, 1.0), (1e30, 1.0), (1e-30, 1e30), (1e-15, 1e-15), (1e15, 1e15)])
def test_large_and_small_factors(left: float, right: float, seed: int) -> None:
    import torch

    torch.manual_seed(seed)
    for rows, columns in SHAPES:
        x, w = torch.randn(rows, 512) * left, torch.randn(columns, 512) * right
        assert error(multiplied(x, w), exact(x, w)) <= BAR, f"{rows} x {columns}, seed {seed}"


@pytest.mark.parametrize("special", [float("nan"), float("inf"), float("-inf")])
@pytest.mark.parametrize("side", ["left", "right"])
def test_a_special_factor_reaches_its_row_or_column_alone(special: float, side: str, seed: int) -> None:
    """There it gives NaN, or, where it is infinite, infinity or NaN; all other elements are right."""
    import torch

    torch.manual_seed(seed)
    for rows, columns in SHAPES:
        x, w = torch.randn(rows, 512), torch.randn(columns, 512)
        (x if side == "left" else w)[3, 70] = special
        got, reference = multiplied(x, w), exact(x, w)
        reached = np.zeros(got.shape, np.bool_)
        reached[(3,) if side == "left" else (slice(None), 3)] = True
        assert not np.isfinite(got[reached]).any()
        assert np.isnan(got[reached]).all() or not np.isnan(special)
        assert (np.isnan(got[reached]) | (got[reached] == reference[reached])).all()
        assert error(got[~reached], reference[~reached]) <= BAR, f"{rows} x {columns}, seed {seed}"
