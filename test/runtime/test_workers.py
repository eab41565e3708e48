"""Programs that are lowered in worker processes, and how these begin and end."""

from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from torch.nn import functional as F
from xdsl.dialects.builtin import ModuleOp

import deplodock
from deplodock.analysis.machine.targets import target
from deplodock.dialects.float_literals import FloatLiteralsParser
from deplodock.dialects.kernel import TargetAttr
from deplodock.passes.driver import Level, new_context
from deplodock.pytorch.function import CompiledFunction
from deplodock.runtime import lowering, net, workers
from deplodock.runtime.falls import DEBUG, FallKind, falls_of
from deplodock.runtime.lowering import lower_by_loops, lower_once
from deplodock.runtime.workers import Request, Workers, lower_all

CONTEXT = new_context()
RELU = """
func.func @f(%x: tensor<SIZExf32>) -> tensor<SIZExf32> {
  %z = torch.aten.relu %x : tensor<SIZExf32> -> tensor<SIZExf32>
  func.return %z : tensor<SIZExf32>
}
"""


def relu(size: int) -> ModuleOp:
    return FloatLiteralsParser(CONTEXT, RELU.replace("SIZE", str(size))).parse_module()


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty folder of what is kept; small programs count as large ones."""
    monkeypatch.setenv("DEPLODOCK_CACHE", str(tmp_path))
    monkeypatch.delenv(lowering.ALWAYS, raising=False)
    monkeypatch.setattr(workers, "LEAST_LINES", 0)
    return tmp_path


@pytest.fixture
def here(monkeypatch: pytest.MonkeyPatch) -> list[ModuleOp]:
    """The modules that passes lower in this process."""
    found: list[ModuleOp] = []
    lower: Callable[..., None] = net.lower

    def note(module: ModuleOp, *args: object, **kwargs: object) -> None:
        found.append(module)
        lower(module, *args, **kwargs)

    monkeypatch.setattr(net, "lower", note)
    return found


@pytest.fixture
def one() -> Iterator[Workers]:
    own = Workers(1)
    yield own
    own.close()


def test_what_workers_lower_is_found_here(cache: Path, here: list[ModuleOp]) -> None:
    requests = [Request.of(relu(size), "sm_80", None, compiles=False) for size in (100, 200, 100)]
    assert lower_all(requests) == ["", "", ""]
    module = relu(200)
    assert not lower_once(module, CONTEXT, Level.LOOP, target="sm_80")
    assert not lower_once(module, CONTEXT, Level.KERNEL)
    assert here == []


def test_what_falls_in_a_worker_is_told_here(
    cache: Path, here: list[ModuleOp], one: Workers, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.delenv(DEBUG)
    full = target("h200")
    card = TargetAttr(full.arch.data, {name: full.fact(name) for name in full.facts.data} | {"threads_per_block": 32})
    assert one.answers([Request.of(relu(2000), card, None, compiles=False)]) == [""]
    module = relu(2000)
    lower_by_loops(module, CONTEXT, target=card)
    assert here == []
    assert [fall.kind for fall in falls_of(module)] == [FallKind.SIMPLER]
    assert "takes the simpler schedule" in caplog.text


def test_one_program_small_ones_and_those_that_are_not_kept_are_left(
    cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Workers, "answers", lambda *_: pytest.fail("a worker was asked"))
    requests = [Request.of(relu(size), None, None, compiles=False) for size in (100, 200)]
    assert lower_all([requests[0], requests[0]]) == ["", ""]
    monkeypatch.setattr(workers, "LEAST_LINES", 1000)
    assert lower_all(requests) == ["", ""]
    monkeypatch.setattr(workers, "LEAST_LINES", 0)
    monkeypatch.setenv(lowering.ALWAYS, "1")
    assert lower_all(requests) == ["", ""]


def test_errors_come_back_and_a_worker_that_is_gone_is_replaced(cache: Path, one: Workers) -> None:
    right = Request.of(relu(100), None, None, compiles=False)
    wrong = replace(right, schedule="no-such-rule")
    first, second = one.answers([wrong, right])
    assert first.startswith("PassFailedException: the schedule 'no-such-rule' names no-such-rule")
    assert second == ""
    (process,) = one._idle
    environment = Path(f"/proc/{process.pid}/environ").read_bytes().split(b"\0")
    assert b"CUDA_VISIBLE_DEVICES=" in environment
    process.kill()
    process.wait()
    (gone,) = one.answers([right])
    assert gone.startswith("the worker has ended: ")
    assert one.answers([right]) == [""]
    (process,) = one._idle
    one.close()
    assert process.returncode == 0


def test_new_shapes_are_lowered_at_once(cache: Path, here: list[ModuleOp]) -> None:
    double = deplodock.compile(lambda x: x.softmax(-1) * x.shape[0], (torch.ones(4, 7),), dynamic=True)
    assert isinstance(double, CompiledFunction)
    here.clear()
    arguments = [torch.randn(rows, 7) for rows in (4, 5, 6, 5)]
    programs = double.prepare_all([((x,), {}) for x in arguments])
    assert here == []
    assert programs[1] is programs[3]
    assert len(double.programs) == 3
    for program, x in zip(programs, arguments, strict=True):
        torch.testing.assert_close(program(x), x.softmax(-1) * len(x))


def test_an_error_of_a_worker_is_raised_here(cache: Path) -> None:
    compiled = deplodock.compile(F.silu, schedule="no-such-rule")
    assert isinstance(compiled, CompiledFunction)
    with pytest.raises(deplodock.UnsupportedError, match="the schedule 'no-such-rule' names no-such-rule"):
        compiled.prepare_all([((torch.ones(size),), {}) for size in (8, 9)])


def test_the_parts_of_a_graph_are_lowered_at_once(cache: Path, here: list[ModuleOp]) -> None:
    def program(x: torch.Tensor) -> torch.Tensor:
        return torch.linalg.eigvalsh((x @ x.t()).relu()) * 2 + 1

    x = torch.randn(5, 5)
    with pytest.warns(UserWarning, match="leaves to PyTorch"):
        result = torch.compile(program, backend="deplodock")(x)
    assert here == []
    torch.testing.assert_close(result, program(x), rtol=1e-4, atol=1e-4)
