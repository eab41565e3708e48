"""Positions that are tensors without dimensions, and operations whose decompositions read values."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import pytest

torch = pytest.importorskip("torch")

import deplodock  # noqa: E402
from deplodock.errors import UnsupportedError  # noqa: E402
from deplodock.frontend import capture, retrace  # noqa: E402

X = torch.arange(60.0).reshape(3, 4, 5)
READ = "a branch, a number or a size depends on the values of a tensor, which are known only when the program runs"
"""The refusal where a version of PyTorch reads the number itself, as 2.11 does."""

READS: dict[str, Callable[[Any, Any], Any]] = {
    "x[i]": lambda x, i: x[i],
    "x[:, i]": lambda x, i: x[:, i],
    "x[..., i]": lambda x, i: x[..., i],
    "x[i, 1:]": lambda x, i: x[i, 1:],
    "x[i, i]": lambda x, i: x[i, i] * 2,
    "x[i.item()]": lambda x, i: x[i.item()],
    "x[i] + x[i + 1]": lambda x, i: x[i] + x[(i + 1) % 3],
    "select": lambda x, i: x.select(-1, i),
    "the position of the largest": lambda x, i: x[:, 0, 0][x.sum((1, 2)).argmax()] + i,
}


@pytest.mark.parametrize("name", READS)
@pytest.mark.parametrize("dtype", [torch.int64, torch.int32])
def test_a_tensor_without_dimensions_is_a_position(name: str, dtype: Any) -> None:
    function = READS[name]
    compiled = deplodock.compile(function, (X, torch.tensor(0, dtype=dtype)))
    for position in (0, 1, 2, -1, -3):
        i = torch.tensor(position, dtype=dtype)
        assert torch.equal(compiled(X, i), function(X, i))


def test_a_position_outside_is_an_index_error() -> None:
    compiled = deplodock.compile(lambda x, i: x[:, i], (X, torch.tensor(0)))
    for position in (4, -5):
        with pytest.raises(IndexError, match="an index is out of bounds for dimension 1 with size 4"):
            compiled(X, torch.tensor(position))


def _views(x: Any, i: Any) -> Any:
    y = x.clone()
    y[i].zero_()
    y[i, 1:].add_(1)
    column = y[..., i]
    column *= 3
    return y, column


def _slices(x: Any, i: Any) -> Any:
    y = x.clone()
    y[:, 1] = x[:, i]
    y[i] = 3
    y[:, i - 1] = x[:, 0]
    y[..., i] = x[0, 0, 0]
    y[i, :, i] += 2
    return y


def _beside_others(x: Any, i: Any) -> Any:
    y = x.clone()
    y[i, torch.tensor([1, 2])] = 7
    y[None, i, 1:, torch.tensor([[1], [3]])] = 5
    y[i, x[0] > 20] = 4
    return y, x[i, torch.tensor([1, 2])], x[torch.tensor([1, 2]), :, i], x[i, None, i]


@pytest.mark.parametrize("function", [_views, _slices, _beside_others])
@pytest.mark.parametrize("dtype", [torch.int64, torch.int8])
def test_writes_at_such_a_position(function: Callable[..., Any], dtype: Any) -> None:
    compiled = deplodock.compile(function, (X, torch.tensor(0, dtype=dtype)))
    for position in (0, 2, -1, -3):
        i = torch.tensor(position, dtype=dtype)
        for got, wanted in zip(compiled(X, i), function(X, i), strict=True):
            assert torch.equal(got, wanted)


def test_a_write_outside_is_an_index_error() -> None:
    compiled = deplodock.compile(_slices, (X, torch.tensor(0)))
    with pytest.raises(IndexError, match="an index is out of bounds for dimension 0 with size 3"):
        compiled(X, torch.tensor(3))


def test_a_byte_is_a_mask_and_no_position() -> None:
    with pytest.raises(UnsupportedError, match=f"is not supported|{READ}"):
        deplodock.compile(lambda x, i: x[i], (X, torch.tensor(1, dtype=torch.uint8)))


@pytest.mark.parametrize(
    "function", [lambda x, i: x[i:], lambda x, i: x * i.item(), lambda x, i: torch.full((3,), i.item())]
)
def test_a_number_read_from_a_tensor_is_refused(function: Callable[..., Any]) -> None:
    message = re.escape("aten.item.default is not supported: it reads a number from a tensor, which is known only when")
    with pytest.raises(UnsupportedError, match=rf"test_positions\.py:\d+: error: ({message}|{READ})"):
        deplodock.compile(function, (X, torch.tensor(2)))


def test_a_decomposition_that_fails_names_the_operation(monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(x: Any) -> Any:
        raise ValueError("no such thing")

    def reads(x: Any) -> Any:
        return x * 2 if x.sum() > 1 else x

    aten = torch.ops.aten
    for module in (capture, retrace):
        monkeypatch.setattr(module, "decompositions", lambda: {aten.frac.default: fails, aten.erfinv.default: reads})
    message = "aten.frac.default is not supported: its decomposition raises ValueError: no such thing"
    with pytest.raises(UnsupportedError, match=rf"test_positions\.py:\d+: error: {message}"):
        deplodock.compile(lambda x: x.frac() + 1, (X,))
    message = "aten.erfinv.default is not supported: its decomposition depends on the values of a tensor"
    with pytest.raises(UnsupportedError, match=rf"test_positions\.py:\d+: error: {message}"):
        deplodock.compile(lambda x: x.erfinv() + 1, (X,))
