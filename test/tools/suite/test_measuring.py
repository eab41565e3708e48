"""A problem built, compiled without values and checked, here in the simulator; and mistakes that the check must see."""

from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path

import pytest
import torch

from deplodock.errors import InvalidInputError, UnsupportedError
from deplodock.passes.driver import Level
from deplodock.runtime.graph_timing import Timing
from deplodock.tools.suite import building, measuring
from deplodock.tools.suite.checking import wrong
from deplodock.tools.suite.measuring import Subject, check, subject
from deplodock.tools.suite.preparing import prepared
from deplodock.tools.suite.state import ModuleState

ADD = """
import torch
from torch import nn


class Model(nn.Module):
    def forward(self, x):
        return x.add_(1)


def get_inputs():
    return [torch.rand(5)]


def get_init_inputs():
    return []
"""

ROUNDED = """
import torch
from torch import nn


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("calls", torch.zeros(()))

    def forward(self, x):
        self.calls.add_(1)
        return x + 1e6 - 1e6


def get_inputs():
    return [torch.rand(64)]


def get_init_inputs():
    return []
"""

RECURRENT = """
import torch
from torch import nn


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.recurrent = nn.LSTM(4, 8)
        self.last = nn.Linear(8, 3)

    def forward(self, x):
        return self.last(self.recurrent(x)[0][-1])


def get_inputs():
    return [torch.rand(5, 2, 4)]


def get_init_inputs():
    return []
"""

CELL = """
import torch
from torch import nn


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.mix = nn.Linear(7, 4)
        self.hidden, self.calls = [torch.zeros(2, 4)], 0

    def forward(self, x, start):
        self.calls += 1
        self.hidden[0].copy_(start)
        self.hidden = [torch.tanh(self.mix(torch.cat((x, self.hidden[0]), 1)))]
        self.last = self.hidden[0] * 2
        return self.hidden[0]


def get_inputs():
    return [torch.rand(2, 3), torch.rand(2, 4)]


def get_init_inputs():
    return []
"""


def of(path: Path) -> Subject:
    return subject(path, prepared(path, "sm_90"), "cpu")


def test_a_precision_is_that_of_all_products(tmp_path: Path) -> None:
    path = tmp_path / "1_square.py"
    path.write_text(ADD.replace("x.add_(1)", "x @ x.T").replace("(5)", "(5, 3)"))
    for precision, is_written in (("highest", False), ("high", True)):
        text = prepared(path, "sm_90", precision).levels[Level.TENSOR]
        assert ('deplodock.precision = "high"' in text) is is_written


def test_a_problem_is_compiled_without_values_and_right(suite: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    devices: list[str] = []
    stock = building.drawn
    monkeypatch.setattr(building, "drawn", lambda path, device: (devices.append(device), stock(path, device))[1])
    with torch.no_grad():
        program = prepared(suite / "level1/2_scale.py", "sm_90")
        assert devices == ["meta"]
        checked = check(subject(suite / "level1/2_scale.py", program, "cpu"))
    assert (checked.reason, checked.left) == ("", [])
    assert checked.results is not None


def test_a_module_is_compiled_in_training_mode_and_its_buffers_are_compared(suite: Path) -> None:
    with torch.no_grad():
        given = of(suite / "level1/10_norm.py")
        assert check(given).reason == ""
        assert check(replace(given, own_module=torch.nn.BatchNorm2d(5))).reason.startswith("result 1: ")


def cell(path: Path) -> Subject:
    path.write_text(CELL, encoding="utf-8")
    return subject(path, None, "cpu")


def test_calls_leave_the_state_of_a_cell_as_it_was(tmp_path: Path) -> None:
    with torch.no_grad():
        module = cell(tmp_path / "1_cell.py").module
        state, (start,) = ModuleState(module), module.hidden
        expected = [value.clone() for value in state.apart([module(torch.ones(2, 3), torch.ones(2, 4)), start])]
        assert start.eq(1).all()
        state.restore()
        assert module.hidden[0] is start
        assert start.eq(0).all()
        assert not hasattr(module, "last")
        again = module(torch.ones(2, 3), torch.ones(2, 4))
    assert torch.equal(again, expected[0])
    assert module.calls == 1


def test_what_a_cell_keeps_is_compared(tmp_path: Path) -> None:
    with torch.no_grad():
        given = cell(tmp_path / "1_cell.py")
        assert check(given).reason == ""
        other, _ = building.built(tmp_path / "1_cell.py", "cpu")
        assert check(replace(given, own_module=other)).reason == "2 results, not 3"


def test_what_is_drawn_is_read_by_one_program(suite: Path) -> None:
    path = suite / "level2/3_dropout.py"
    with pytest.raises(UnsupportedError, match="dropout"):
        prepared(path, "sm_90")
    with torch.no_grad():
        checked = check(subject(path, None, "cpu"))
    assert checked.reason == ""
    assert (checked.left, checked.parts) == ([], ["4 of 4 operations, as 1 programs"])


def test_a_recurrent_layer_is_part_of_the_program(tmp_path: Path) -> None:
    path = tmp_path / "1_recurrent.py"
    path.write_text(RECURRENT, encoding="utf-8")
    with torch.no_grad():
        checked = check(of(path))
    assert (checked.reason, checked.left) == ("", [])


def test_a_recurrent_layer_is_compiled_beside_what_pytorch_draws(tmp_path: Path) -> None:
    path = tmp_path / "1_drawn.py"
    path.write_text(RECURRENT.replace("(x)[0]", "(torch.nn.functional.dropout(x))[0]"), encoding="utf-8")
    with torch.no_grad():
        checked = check(subject(path, None, "cpu"))
    assert checked.reason == ""
    assert all("dropout" in left for left in checked.left)
    assert checked.parts


def test_a_program_that_writes_into_its_arguments_is_compared_on_fresh_ones(tmp_path: Path) -> None:
    path = tmp_path / "1_add.py"
    path.write_text(ADD, encoding="utf-8")
    with torch.no_grad():
        checked = check(of(path))
    assert (checked.reason, checked.results) == ("", None)


def test_a_wrong_program_is_wrong(suite: Path) -> None:
    with torch.no_grad():
        given = of(suite / "level1/2_scale.py")
        assert check(replace(given, own=lambda x, factor: torch.relu(x) * factor + 1e-3)).reason.startswith(
            "result 0: 63 of 63 elements are not within 0.0001, the largest difference is 0.001; result 0 is further"
        )
        assert "not torch.float32" in check(replace(given, own=lambda x, factor: x[0])).reason


def test_roundings_are_judged_by_float64() -> None:
    exact = torch.linspace(1, 2, 1000, dtype=torch.float64)
    eager, far = (exact + 0.01 * torch.randn(1000).double()).float(), (exact + 0.2).float()
    near = (exact - 0.01 * torch.randn(1000).double()).float()
    assert wrong([near], [eager], lambda: [exact]) == ""
    assert "further from float64" in wrong([far], [eager], lambda: [exact])
    spike = near.clone()
    spike[7] += 0.8
    assert "further from float64" in wrong([spike], [eager], lambda: [exact])


def test_one_large_rounding_is_no_mistake_where_pytorch_has_such_ones() -> None:
    exact, one = torch.ones(10_000, dtype=torch.float64), torch.ones(10_000)
    expected = one.index_fill(0, torch.tensor([3]), 1.01)
    assert wrong([one.index_fill(0, torch.tensor([5]), 1.03)], [expected], lambda: [exact]) == ""
    assert wrong([one.index_fill(0, torch.tensor([5]), 1.05)], [expected], lambda: [exact]) != ""


def test_buffers_are_compared_as_the_call_left_them(tmp_path: Path) -> None:
    path = tmp_path / "rounded.py"
    path.write_text(ROUNDED, encoding="utf-8")
    with torch.no_grad():
        module, args = building.built(path, "cpu")

        def precise(x: torch.Tensor) -> torch.Tensor:
            module.get_buffer("calls").add_(1)
            return x.clone()

        assert check(Subject(path, "cpu", module, precise, module, args)).reason == ""
        assert "result 1" in check(Subject(path, "cpu", module, torch.clone, module, args)).reason


def test_infinities_and_nan_must_be_where_pytorch_has_them() -> None:
    special = torch.tensor([1.0, torch.nan, torch.inf])
    assert wrong([special], [special.clone()], lambda: []) == ""
    assert wrong([torch.tensor([1.0, 2.0, torch.inf])], [special], lambda: [special.double()])


def test_integers_must_be_equal() -> None:
    assert wrong([torch.tensor([1, 2])], [torch.tensor([1, 3])], lambda: []) == "result 0: 1 of 2 elements differ"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("x = 1\n", "the file has no Model and no get_init_inputs and no get_inputs"),
        ("1 / 0\n", "the file raises ZeroDivisionError"),
        ("Model = get_inputs = lambda: []\nget_init_inputs = lambda: [1]\n", "the module raises TypeError"),
    ],
)
def test_what_is_no_problem_is_refused(tmp_path: Path, text: str, message: str) -> None:
    path = tmp_path / "1_none.py"
    path.write_text(text)
    with pytest.raises(InvalidInputError, match=message):
        building.built(path, "cpu")


class Replayed:
    """A graph on a CPU: a replay runs the call again and gives what it gives in the same memory."""

    def __init__(self, run: Callable[[], torch.Tensor]) -> None:
        self._run = run
        self.result = run()
        self.count = 0

    def replay(self) -> None:
        self.count += 1
        self.result.copy_(self._run())


@pytest.fixture
def replayed(monkeypatch: pytest.MonkeyPatch) -> list[Replayed]:
    """The graphs of a measurement, which here is one on a CPU without a clock."""
    graphs: list[Replayed] = []

    def in_graph(run: Callable[[], torch.Tensor], pool: object) -> tuple[Replayed, torch.Tensor]:
        graphs.append(Replayed(run))
        return graphs[-1], graphs[-1].result

    def times(runs: Mapping[str, Callable[[], object]]) -> list[Timing]:
        for run in runs.values():
            run()
        return [Timing(name, float(len(name)), 0.0) for name in runs]

    monkeypatch.setattr(measuring, "subject", lambda path, program, *_: subject(path, program, "cpu"))
    monkeypatch.setattr(measuring, "in_graph", in_graph)
    monkeypatch.setattr(measuring, "times", times)
    monkeypatch.setattr(torch.cuda, "graph_pool_handle", lambda: None)
    return graphs


def test_loops_and_graphs_are_timed_and_the_last_replay_is_compared(suite: Path, replayed: list[Replayed]) -> None:
    path = suite / "level1/10_norm.py"
    found = measuring.measure(path, prepared(path, "sm_90"), "", compiled=False)
    names = ["PyTorch, loop", "deplodock, loop", "PyTorch, graph", "deplodock"]
    assert [timing["name"] for timing in found["bench"]["timings"]] == names
    assert [graph.count for graph in replayed] == [1, 2]
    assert (found["bench"]["left"], found["bench"]["without"], found["bench"]["launches"] > 0) == ([], {}, True)


def test_a_replay_that_is_wrong_is_an_error(
    suite: Path, replayed: list[Replayed], monkeypatch: pytest.MonkeyPatch
) -> None:
    path = suite / "level1/2_scale.py"
    program = prepared(path, "sm_90")
    monkeypatch.setattr(Replayed, "replay", lambda self: None)
    reason = measuring.measure(path, program, "", compiled=False)["error"]
    assert reason.startswith("the timed runs are wrong: result 0: 63 of 63 elements are not within 0.0001")


def test_a_call_of_seconds_is_not_put_into_a_graph(
    suite: Path, replayed: list[Replayed], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(measuring, "_SLOW_US", 14.0)
    path = suite / "level1/2_scale.py"
    found = measuring.measure(path, prepared(path, "sm_90"), "", compiled=False)
    assert found["bench"]["without"] == {"deplodock": "a call takes 0.0 s"}
    assert len(replayed) == 1


def test_a_problem_in_parts_says_what_is_compiled(tmp_path: Path, replayed: list[Replayed]) -> None:
    path = tmp_path / "1_parts.py"
    path.write_text(ADD.replace("x.add_(1)", "torch.linalg.eigh((x * 2).expand(5, 5))[0] + 1"), encoding="utf-8")
    found = measuring.measure(path, None, "it is refused", compiled=False)["bench"]
    assert (found["left"][0], found["parts"]) == ("it is refused", ["2 of 3 operations, as 2 programs"])


def test_a_problem_of_which_nothing_is_compiled_runs_in_pytorch(tmp_path: Path, replayed: list[Replayed]) -> None:
    path = tmp_path / "1_left.py"
    path.write_text(ADD.replace("x.add_(1)", "torch.linalg.eigh(x.expand(5, 5))[0]"), encoding="utf-8")
    found = measuring.measure(path, None, "it is refused", compiled=False)["bench"]
    assert (found["left"][0], len(found["left"]), found["parts"]) == ("it is refused", 2, [])
