"""Programs that `deplodock.compile` captures once for all shapes."""

from __future__ import annotations

import gc
import logging
import weakref

import pytest
import torch
from torch import nn
from torch.export import Dim

import deplodock

Tensor = torch.Tensor


@pytest.fixture
def captures(monkeypatch: pytest.MonkeyPatch) -> list[object]:
    """What torch.export is called with."""
    calls: list[object] = []
    stock = torch.export.export

    def counted(*args: object, **kwargs: object) -> torch.export.ExportedProgram:
        calls.append(args)
        return stock(*args, **kwargs)  # pyright: ignore[reportArgumentType]

    monkeypatch.setattr(torch.export, "export", counted)
    return calls


class Head(nn.Module):
    """Its sizes are numbers in the graph, it reshapes, and it adds to a buffer."""

    def __init__(self) -> None:
        super().__init__()
        self.inner = nn.Linear(6, 6)
        self.register_buffer("calls", torch.zeros(1))

    def forward(self, x: Tensor, *, scale: float = 2.0) -> tuple[Tensor, Tensor]:
        self.calls += x.shape[0]
        rows = self.inner(x).reshape(-1, 3, 2)
        return rows * scale + torch.arange(x.shape[0]).view(-1, 1, 1), x.mean(0)


def test_a_program_is_captured_once(captures: list[object], caplog: pytest.LogCaptureFixture) -> None:
    torch.manual_seed(0)
    model, own = Head().eval(), Head().eval()
    own.load_state_dict(model.state_dict())
    run = deplodock.compile(model, (torch.randn(4, 6),), dynamic=True)
    with torch.no_grad(), caplog.at_level(logging.INFO, "deplodock"):
        for x in (torch.randn(5, 6), torch.randn(6, 3).t(), torch.randn(5, 6)):
            torch.testing.assert_close(run(x), own(x))
    torch.testing.assert_close(model.calls, own.calls)
    assert len(captures) == 1
    assert len(run.programs) == 3
    told = [record.getMessage() for record in caplog.records if record.name == "deplodock"]
    assert len(told) == 2
    assert "its set 2 of shapes (2 of 16 kept): argument 0 was a tensor of shape (4, 6)" in told[0]


def test_extents_of_1_are_captured_apart(captures: list[object], caplog: pytest.LogCaptureFixture) -> None:
    # Where there is one row, PyTorch's own program squeezes.
    run = deplodock.compile(lambda x: x.squeeze(0) if x.shape[0] == 1 else x * 2, dynamic=True)
    with caplog.at_level(logging.INFO, "deplodock"):
        for rows in (3, 1, 4):
            x = torch.randn(rows, 2)
            torch.testing.assert_close(run(x), x.squeeze(0) if rows == 1 else x * 2)
    assert len(captures) == 2
    told = [record.getMessage() for record in caplog.records if record.name == "deplodock"]
    assert "captured anew, as x.size()[0] is 1" in told[1]


def test_other_values_are_captured_apart(captures: list[object]) -> None:
    run = deplodock.compile(lambda x, scale: x * scale, dynamic=True)
    for scale in (2.0, 3.0, 2.0):
        torch.testing.assert_close(run(torch.ones(3), scale), torch.full((3,), scale))
    assert len(captures) == 2


def test_a_branch_on_a_size_is_captured_apart(captures: list[object]) -> None:
    run = deplodock.compile(lambda x: x * 2 if x.shape[0] > 4 else x - 1, dynamic=True)
    for rows in (6, 5, 3, 7):
        x = torch.randn(rows)
        torch.testing.assert_close(run(x), x * 2 if rows > 4 else x - 1)
    assert len(captures) == 2


def test_given_extents_are_held() -> None:
    rows = Dim("rows", min=2, max=8)
    run = deplodock.compile(nn.ReLU(), (torch.randn(4, 3),), dynamic_shapes=({0: rows},))
    x = torch.randn(8, 3)
    torch.testing.assert_close(run(x), x.relu())
    for wrong in (torch.randn(9, 3), torch.randn(4, 2), torch.randn(4, 3).double(), torch.randn(1, 3)):
        with pytest.raises(deplodock.InvalidInputError, match=r"dynamic_shapes do not allow these arguments: .*input"):
            run(wrong)


def test_programs_that_ask_for_strides_are_refused() -> None:
    with pytest.raises(deplodock.UnsupportedError, match="asks where its arguments lie in memory"):
        deplodock.compile(lambda x: x * x.stride(0), (torch.ones(3),), dynamic=True)


def test_the_number_of_compilations_has_a_limit() -> None:
    run = deplodock.compile(torch.neg, (torch.ones(2),), dynamic=True, max_shapes=1)
    for extent in (3, 4, 5, 5):
        run(torch.ones(extent))
    with pytest.raises(deplodock.InvalidInputError, match=r"compiled for 4 sets .* larger max_shapes than 1"):
        run(torch.ones(6))
    with pytest.raises(deplodock.InvalidInputError, match="max_shapes must be a number of sets of shapes, 1 or more"):
        deplodock.compile(torch.neg, max_shapes=0)


def test_no_argument_of_any_shape_is_kept() -> None:
    run = deplodock.compile(lambda x: x + 1, dynamic=True)
    kept = []
    for extent in (3, 4):
        x = torch.ones(extent)
        run(x)
        kept += [weakref.ref(x), weakref.ref(x.untyped_storage())]
        del x
    gc.collect()
    assert [ref() for ref in kept] == [None] * 4
