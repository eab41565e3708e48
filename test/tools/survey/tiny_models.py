"""Two models for the test of the survey: a net that is compiled whole, and one that asks for what is not supported."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from torch import nn


class Net(nn.Module):
    """A convolution and a linear layer, behind a slice."""

    def __init__(self) -> None:
        super().__init__()
        self.conv, self.norm, self.head = nn.Conv2d(3, 4, 3), nn.LayerNorm(14), nn.Linear(14, 2)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.head(self.norm(self.conv(x[:, :3])).relu())


class Roots(nn.Module):
    """Eigenvalues."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.linalg.eigvals(x).real + x


@dataclass(frozen=True)
class TinyModel:
    """A model of the list."""

    name: str
    module: type[nn.Module]
    shape: tuple[int, ...]
    train: bool

    def build(self, size: str) -> nn.Module:
        assert size == "full"
        return self.module()

    def inputs(self, model: nn.Module, size: str, device: str) -> tuple[tuple[Any, ...], dict[str, Any]]:
        return (), {"x": torch.ones(self.shape, device=device)}

    def loss(self, result: Any) -> torch.Tensor:
        return result.float().square().mean()


ZOO = [TinyModel("net", Net, (2, 4, 16, 16), True), TinyModel("roots", Roots, (3, 3), False)]
