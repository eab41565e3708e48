"""PyTorch's operator database: a fixed part of it, and the command that runs it."""

from __future__ import annotations

import logging
import os
import subprocess
import time
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

torch = pytest.importorskip("torch")

from deplodock.tools import opinfo  # noqa: E402
from deplodock.tools.opinfo import file as opinfo_file  # noqa: E402
from deplodock.tools.opinfo import samples as opinfo_samples  # noqa: E402
from deplodock.tools.opinfo import workers as opinfo_workers  # noqa: E402
from deplodock.tools.opinfo.samples import Sample, SampleKind, SampleOutcome, judge, samples  # noqa: E402


def test_a_fixed_part_is_as_expected(tools_with_torch: Path) -> None:
    """The part in a process of its own: PyTorch's test utilities change settings of the process that imports them."""
    command = [tools_with_torch / "python", "-m", "deplodock.tools.opinfo", "--part", "--jobs", "1"]
    run = subprocess.run(command, capture_output=True, text=True, check=False)
    assert run.returncode == 0, run.stdout + run.stderr
    assert " are right" in run.stdout


@dataclass(frozen=True)
class Entry:
    """An entry of a database: an operation of float32 with one sample, or those of `sizes`."""

    op: Callable[..., Any]
    sizes: tuple[int, ...] = (3,)
    dtypes: frozenset[Any] = frozenset([torch.float32])

    def sample_inputs(self, device: str, dtype: Any) -> Iterator[Any]:
        for size in self.sizes:
            yield SimpleNamespace(input=torch.arange(size, dtype=dtype, device=device), args=(), kwargs={})


def sample(operation: Callable[..., Any], *args: Any, **kwargs: Any) -> Sample:
    given = SimpleNamespace(input=args[0], args=args[1:], kwargs=kwargs)
    entry: Any = SimpleNamespace(op=operation, sample_inputs=lambda device, dtype: [given])
    return next(samples(entry, torch.float32, 1))


def inconsistent(change: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """A function that adds 1 where PyTorch runs it, first and in float64, and is something else when captured."""
    calls = iter(range(100))
    return lambda x: x + 1 if next(calls) == 0 or x.dtype == torch.float64 else change(x + 1)


def hang(x: Any) -> Any:
    time.sleep(60)
    return x


def loop(x: Any) -> Any:
    while True:
        x = x + 1


def die(x: Any) -> Any:
    os._exit(3)


def test_a_sample_is_right() -> None:
    x = torch.randn(4, 5)
    assert judge(sample(torch.add, x, torch.ones(5), alpha=2)) == SampleOutcome(SampleKind.RIGHT)
    assert judge(sample(lambda xs, dim: torch.cat(xs, dim), [x, x], 1)) == SampleOutcome(SampleKind.RIGHT)
    assert judge(sample(lambda x: (x.t(), x.view(-1), x), x)) == SampleOutcome(SampleKind.RIGHT)
    assert judge(sample(lambda x: x.add_(1).view(-1), x)) == SampleOutcome(SampleKind.RIGHT)
    assert judge(sample(lambda x: x / 0, torch.zeros(3))) == SampleOutcome(SampleKind.RIGHT)
    assert judge(sample(torch.sum, torch.randn(1000), dtype=torch.bfloat16)) == SampleOutcome(SampleKind.RIGHT)


def test_any_of_equal_elements_is_right_where_pytorch_leaves_that_open() -> None:
    x = torch.tensor([[2, 1, 2, 1, 2], [0, 0, 3, 0, 0]])
    first, last, wrong = torch.tensor([[0, 2], [2, 0]]), torch.tensor([[4, 0], [2, 4]]), torch.tensor([[0, 1], [2, 0]])
    call = sample(torch.topk, x, 2, 1)
    assert call.finds_equals(1, first, last)
    assert not call.finds_equals(1, wrong, last)
    assert not call.finds_equals(1, torch.tensor([[0, 0], [2, 0]]), last)
    assert not call.finds_equals(1, torch.tensor([[0, 5], [2, 0]]), last)
    assert not call.finds_equals(0, first, last)
    assert sample(torch.kthvalue, x, 1, 1).finds_equals(1, torch.tensor([1, 0]), torch.tensor([3, 4]))
    assert sample(torch.argsort, x[1]).finds_equals(0, torch.tensor([0, 1, 3, 4, 2]), torch.tensor([4, 1, 3, 0, 2]))
    stable = sample(torch.argsort, x[1], stable=True)
    assert not stable.finds_equals(0, torch.tensor([4, 1, 3, 0, 2]), torch.tensor([0, 1, 3, 4, 2]))
    assert not sample(torch.max, x, 1).finds_equals(1, torch.tensor([2, 2]), torch.tensor([0, 2]))


def test_a_sample_is_refused_by_name() -> None:
    outcome = judge(sample(torch.linalg.eigvalsh, torch.eye(3)))
    assert outcome.kind is SampleKind.REFUSED
    assert outcome.reason.startswith("aten.")


@pytest.mark.parametrize(
    ("operation", "reason"),
    [
        (torch.bernoulli, "it draws random numbers"),
        (torch.empty_like, "it returns memory that nobody wrote"),
        (lambda x: x.new_empty(3), "it returns memory that nobody wrote"),
        (lambda x: x.reshape(7), "PyTorch raises RuntimeError"),
        (lambda x: x * 2 if x.sum() > 1 else x, "torch.export cannot capture it"),
    ],
)
def test_a_sample_is_left_out(operation: Callable[..., Any], reason: str) -> None:
    assert judge(sample(operation, torch.full((3,), 0.5))) == SampleOutcome(SampleKind.LEFT_OUT, reason)


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        (lambda x: x * 1.0001, "element"),
        (lambda x: x * float("nan"), "is nan"),
        (lambda x: x.double(), "torch.float64"),
        (lambda x: x[:2], "[2], not torch.float32 [3]"),
        (lambda x: (x, x), "the results are"),
    ],
)
def test_a_sample_is_wrong(change: Callable[[Any], Any], reason: str) -> None:
    outcome = judge(sample(inconsistent(change), torch.randn(3)))
    assert outcome.kind is SampleKind.WRONG
    assert reason in outcome.reason


def test_a_write_that_is_lost_is_wrong() -> None:
    calls = iter(range(100))

    def add(x: Any) -> Any:
        return x.add_(1) if next(calls) == 0 or x.dtype == torch.float64 else x + 1

    outcome = judge(sample(add, torch.randn(3)))
    assert outcome.kind is SampleKind.WRONG


def test_integers_are_exact() -> None:
    outcome = judge(sample(inconsistent(lambda x: x + (x > 1_000_000)), torch.tensor([1, 2_000_000])))
    assert outcome.kind is SampleKind.WRONG


def test_other_exceptions_are_failures(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*args: Any) -> Any:
        raise IndexError("tuple index out of range")

    monkeypatch.setattr(opinfo_samples, "compile", broken)
    outcome = judge(sample(torch.abs, torch.randn(3)))
    assert outcome.kind is SampleKind.TRACEBACK
    assert "IndexError: tuple index out of range (" in outcome.reason


def test_the_file_reads_back() -> None:
    right, out = SampleOutcome(SampleKind.RIGHT), SampleOutcome(SampleKind.LEFT_OUT)
    refused, other = SampleOutcome(SampleKind.REFUSED, "aten.x: no, never"), SampleOutcome(SampleKind.REFUSED, "aten.y")
    outcomes = {
        "add": {"float32": [right, right], "bool": [right, right], "int64": [right, refused, out]},
        "sort.stable": {"float32": [other, refused, other]},
    }
    text = opinfo_file.written("2.13.0", outcomes)
    assert "add: float32 bool .., int64 .a-\n  a: aten.x: no, never\n" in text
    assert opinfo_file.read(text) == ("2.13.0", outcomes)


@pytest.fixture
def command(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Callable[..., int]:
    """Run the command on a database of three operations, with its file in a folder of its own."""
    entries = {
        "abs": Entry(torch.abs, sizes=(2, 3)),
        "eigvals": Entry(lambda x: torch.linalg.eigvals(x.diag())),
        "inconsistent": Entry(inconsistent(lambda x: x * 2), sizes=()),
    }
    monkeypatch.setattr(opinfo, "database", lambda: entries)
    monkeypatch.setattr(opinfo_workers, "LIMIT", 1.0)
    monkeypatch.setattr(opinfo_workers, "PATIENCE", 8.0)

    def run(*arguments: str, **more: Entry) -> int:
        entries.update(more)
        return opinfo.main([*arguments, "--jobs", "2"], tmp_path / "opinfo.txt")

    return run


def test_the_command(command: Callable[..., int], capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    assert command("--update") == 0
    assert "2 right, 1 refused, 0 left out, 0 wrong, 0 traceback, 0 timeout\n66.7%" in capsys.readouterr().out
    assert command() == 0
    path = tmp_path / "opinfo.txt"
    text = path.read_text()
    assert "abs: float32 ..\n" in text
    path.write_text(text.replace("abs: float32 ..", "abs: float32 .-"))
    capsys.readouterr()
    assert command() == 1
    assert "abs float32 sample 1: right, expected left out\n" in capsys.readouterr().out
    path.write_text(text.replace("PyTorch " + torch.__version__.partition("+")[0], "PyTorch 2.10.0"))
    assert command() == 0
    assert "was made with PyTorch 2.10.0" in capsys.readouterr().out
    assert command("--update", "abs") == 2


def test_the_log_says_the_same_after_the_command(
    command: Callable[..., int], caplog: pytest.LogCaptureFixture, recwarn: pytest.WarningsRecorder
) -> None:
    assert command("--update") == 0
    logging.getLogger("deplodock").warning("a note")
    warnings.warn("a warning", stacklevel=1)
    assert "a note" in caplog.text
    assert [str(warning.message) for warning in recwarn] == ["a warning"]


def test_the_command_runs_some_operations(command: Callable[..., int], capsys: pytest.CaptureFixture[str]) -> None:
    assert command("--update") == 0
    assert command("a*") == 0
    assert command("nothing") == 2
    assert "no operation nothing" in capsys.readouterr().err


def test_failures_count_whatever_the_file_says(command: Callable[..., int], capsys: pytest.CaptureFixture[str]) -> None:
    wrong = Entry(inconsistent(lambda x: x * 2))
    assert command("--update", wrong=wrong) == 1
    assert command("wrong", wrong=wrong) == 1
    assert "wrong float32 sample 0: wrong: result 0: " in capsys.readouterr().out


def test_processes_that_hang_or_die(command: Callable[..., int], capsys: pytest.CaptureFixture[str]) -> None:
    assert command(hang=Entry(hang), loop=Entry(loop), die=Entry(die, sizes=(1, 2))) == 1
    out = capsys.readouterr().out
    assert "hang float32 sample 0: timeout: it took more than 8 s on the clock\n" in out
    assert "loop float32 sample 0: timeout: it took more than 1 s\n" in out
    assert [line for line in out.splitlines() if line.startswith("die")] == [
        "die float32 sample 0: traceback: the process ended with 3",
        "die float32 sample 1: traceback: the process ended with 3",
    ]
    assert "2 right, 1 refused, 0 left out, 0 wrong, 2 traceback, 2 timeout" in out
