"""The precision of products: an option, or else what PyTorch is set to, also after a compilation."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest
import torch

import deplodock
from deplodock.frontend.precision import pytorch_at

if TYPE_CHECKING:
    from deplodock.pytorch.partition import PartsRunner

X = torch.randn(4, 4)


@pytest.fixture(autouse=True)
def _setting_is_restored() -> Iterator[None]:  # pyright: ignore[reportUnusedFunction]
    with pytorch_at("highest"):
        yield


@pytest.fixture
def taken(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The precisions of the products of what is compiled, in order."""
    from deplodock.pytorch import compiled

    found: list[str] = []
    stock = compiled.make_runner

    def noted(module: object, *args: object) -> object:
        text = str(module)
        found.extend(word for word in ("high", "medium") if f'precision = "{word}"' in text)
        found.extend(["highest"] * ("deplodock.precision" not in text))
        return stock(module, *args)  # pyright: ignore[reportArgumentType]

    for place in ("compiled", "partition"):
        monkeypatch.setattr(f"deplodock.pytorch.{place}.make_runner", noted)
    return found


@pytest.mark.parametrize("dynamic", [False, True])
def test_a_function_is_compiled_for_each_precision(taken: list[str], dynamic: bool) -> None:
    step = deplodock.compile(lambda x: x @ x, dynamic=dynamic)
    for word in ("highest", "high", "medium", "high", "highest"):
        torch.set_float32_matmul_precision(word)
        torch.testing.assert_close(step(X), X @ X)
    assert taken == ["highest", "high", "medium"]


def test_an_option_says_it_once(taken: list[str]) -> None:
    step = deplodock.compile(lambda x: x @ x, precision="high")
    for word in ("highest", "medium"):
        torch.set_float32_matmul_precision(word)
        step(X)
    deplodock.compile(lambda x: x @ x, (X,), precision="highest")
    assert taken == ["high", "highest"]


def test_a_program_for_examples_keeps_its_precision(taken: list[str]) -> None:
    torch.set_float32_matmul_precision("high")
    step = deplodock.compile(lambda x: x @ x, (X,))
    torch.set_float32_matmul_precision("highest")
    step(X)
    assert taken == ["high"]


def test_a_graph_is_compiled_for_each_precision(
    taken: list[str], runners: list[PartsRunner], caplog: pytest.LogCaptureFixture
) -> None:
    step = torch.compile(lambda x: x @ x, backend="deplodock")
    with caplog.at_level(logging.INFO, "deplodock"):
        for word in ("highest", "high", "medium", "high"):
            torch.set_float32_matmul_precision(word)
            step(X)
    assert taken == ["highest", "high", "medium"]
    assert any("the precision is 'medium', was 'high'" in record.getMessage() for record in caplog.records)


def test_the_option_of_a_graph_says_it_once(taken: list[str], runners: list[PartsRunner]) -> None:
    step = torch.compile(lambda x: x @ x, backend="deplodock", options={"precision": "medium"})
    for word in ("high", "medium"):
        torch.set_float32_matmul_precision(word)
        step(X)
    assert taken == ["medium"]


def test_unknown_words_are_refused() -> None:
    message = r"there is no precision 'tf32'; there are highest, high, medium"
    with pytest.raises(deplodock.InvalidInputError, match=message):
        deplodock.compile(lambda x: x @ x, precision="tf32")
    with pytest.raises(Exception, match=message):
        torch.compile(lambda x: x @ x, backend="deplodock", options={"precision": "tf32"})(X)
