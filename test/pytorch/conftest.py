"""What all tests of PyTorch programs have in common."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from deplodock.pytorch.partition import PartsRunner


@pytest.fixture
def runners(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[PartsRunner]]:
    """The graphs in parts that the backend makes: of the results, then of the gradients."""
    import torch

    from deplodock.pytorch import backend
    from deplodock.pytorch.partition import PartsRunner

    made: list[PartsRunner] = []

    def make(*args: Any) -> PartsRunner:
        made.append(PartsRunner(*args))
        return made[-1]

    monkeypatch.setattr(backend, "PartsRunner", make)
    torch._dynamo.reset()
    yield made
    torch._dynamo.reset()
