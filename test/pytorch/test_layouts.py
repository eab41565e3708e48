"""Tensors that are not dense, wherever a program meets them, are refused in one line."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import nn

import deplodock

Tensor = torch.Tensor
DENSE = torch.eye(4)


def made(kind: str) -> Tensor:
    makers: dict[str, Callable[[], Tensor]] = {
        "csr": DENSE.to_sparse_csr,
        "csc": DENSE.to_sparse_csc,
        "bsr": lambda: DENSE.to_sparse_bsr((2, 2)),
        "bsc": lambda: DENSE.to_sparse_bsc((2, 2)),
        "coo": DENSE.to_sparse,
        "mkldnn": DENSE.to_mkldnn,
        "nested": lambda: torch.nested.nested_tensor([torch.ones(2, 4), torch.ones(3, 4)]),
        "jagged": lambda: torch.nested.nested_tensor([torch.ones(2, 4), torch.ones(3, 4)], layout=torch.jagged),
        "quantized": lambda: torch.quantize_per_tensor(DENSE, 0.1, 0, torch.qint8),
    }
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return makers[kind]()


class Holds(nn.Module):
    """A product with a tensor that it holds."""

    def __init__(self, value: Tensor, how: str) -> None:
        super().__init__()
        if how == "parameter":
            self.weight = nn.Parameter(value, requires_grad=False)
        elif how == "buffer":
            self.register_buffer("weight", value)
        else:
            self.weight = value

    def forward(self, x: Tensor) -> Tensor:
        return self.weight @ x


@pytest.fixture(scope="module")
def program() -> Any:
    return deplodock.compile(torch.mm, (DENSE, DENSE))


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("kind", ["csr", "csc", "bsr", "bsc", "coo", "mkldnn", "nested", "jagged", "quantized"])
def test_refused(kind: str, program: Any) -> None:
    value = made(kind)
    calls: list[Callable[[], object]] = [
        lambda: deplodock.compile(torch.mm)(value, DENSE),
        lambda: deplodock.compile(torch.mm, (value, DENSE)),
        lambda: deplodock.compile(torch.mm, dynamic=True)(value, DENSE),
        lambda: deplodock.compile(lambda x: value @ x)(DENSE),
        lambda: program(value, DENSE),
        *(lambda how=how: deplodock.compile(Holds(value, how))(DENSE) for how in ("parameter", "buffer", "attribute")),
    ]
    for number, call in enumerate(calls):
        with pytest.raises((deplodock.UnsupportedError, deplodock.InvalidInputError)) as raised:
            call()
        assert "\n" not in str(raised.value), number
        if number in (0, 1, 2, 4) and kind not in ("jagged", "quantized"):
            assert "supported are dense tensors" in str(raised.value)
