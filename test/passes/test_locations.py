"""Operations know the line of the Python program that they stand for, at every level."""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from dataclasses import replace
from functools import cache

import pytest
import torch
from xdsl.dialects.builtin import ModuleOp, UnknownLoc
from xdsl.parser import Parser
from xdsl.utils.exceptions import DiagnosticException

from deplodock.analysis.operations import position_of
from deplodock.dialects.precision import PRECISIONS
from deplodock.dialects.torch import set_precision
from deplodock.frontend.expression import read_expression
from deplodock.interpreters.simulate import simulate
from deplodock.passes.clean_up import locate
from deplodock.passes.driver import Level, lower, new_context
from deplodock.passes.kernel.place_barriers import PlaceBarriersPass
from deplodock.passes.kernel.verify_barriers import VerifyBarriersPass
from deplodock.tools.bench.rows import Row, read_models, read_rows
from deplodock.tools.source import LocatingParser

BELOW_TORCH = (Level.TENSOR, Level.LOOP, Level.TILE, Level.KERNEL)

PROGRAM = """\
class Layer(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm = nn.RMSNorm(600)

    def forward(self, x):
        y = torch.relu(x)
        y = self.norm(y)
        return last(y)


def last(y):
    return torch.exp(y)


Layer()(torch.randn(3, 600))
"""


LENGTHS = (None, 32, 128)
"""Of longer sequences a program takes long to capture, and of shorter ones a matrix is a vector."""


def programs() -> list[Row]:
    """A row for each program of the table: rows whose texts differ in numbers alone are one at each precision.

    It is the smallest row or the next one, in turn, so that both lengths occur. One that is of no model has a quarter
    of its extents.
    """
    rows: dict[tuple[str, str], list[Row]] = defaultdict(list)
    for row in sorted(read_rows(), key=lambda row: sum(map(int, re.findall(r"\d+", row.text)))):
        if row.s in LENGTHS:
            rows[re.sub(r"\d+", "N", row.text.replace("bfloat16", "bf")), row.precision].append(row)
    chosen = [same[number % 2 % len(same)] for number, same in enumerate(rows.values())]
    return [row if row.model else replace(row, text=_smaller(row.text)) for row in chosen]


def _smaller(text: str) -> str:
    return re.sub(r"\d{3,}", lambda extent: str(int(extent[0]) // 4), text)


def test_programs_are_of_all_kinds() -> None:
    rows = programs()
    assert len(rows) == len({(row.text, row.precision) for row in rows}) >= 36
    assert {row.precision for row in rows} == set(PRECISIONS)
    assert {row.model for row in rows} == {"", *read_models()}
    assert {row.s for row in rows} == set(LENGTHS)


@cache
def _captured(text: str) -> ModuleOp:
    return read_expression(text).module


@pytest.mark.parametrize("row", programs(), ids=lambda row: row.name)
def test_operations_have_locations(row: Row, monkeypatch: pytest.MonkeyPatch) -> None:
    """At least 95 percent at each level."""
    # What random numbers an input holds changes no program, and drawing them takes most of the time.
    monkeypatch.setattr(torch, "randn", torch.zeros)
    module, context = _captured(row.text).clone(), new_context()
    set_precision(module, row.precision)
    for level in BELOW_TORCH:
        lower(module, context, level)
        known = Counter(not isinstance(op.location, UnknownLoc) for op in module.walk())
        assert known[True] >= 0.95 * known.total(), level


@cache
def _lowered(level: Level) -> ModuleOp:
    module = read_expression(PROGRAM, filename="program.py").module
    lower(module, new_context(), level)
    return module


@pytest.mark.parametrize("level", [Level.TENSOR, Level.LOOP, Level.TILE, Level.KERNEL])
@pytest.mark.parametrize(
    ("name", "line"), [("arith.maximumf", 7), ("math.rsqrt", 8), ("arith.divf", 8), ("math.exp", 13)]
)
def test_operations_stand_for_the_line_of_the_function_that_calls(level: Level, name: str, line: int) -> None:
    places = {position_of(op) for op in _lowered(level).walk() if op.name == name}
    assert places == {f"program.py:{line}:{5 if line > 9 else 9}"}


@pytest.mark.parametrize(
    ("name", "line"),
    [("kernel.barrier", 8), ("kernel.shuffle_xor", 8), ("kernel.launch", 13), ("kernel.func", 13), ("func.call", None)],
)
def test_what_a_pass_adds_stands_for_what_needs_it(name: str, line: int | None) -> None:
    places = {position_of(op) for op in _lowered(Level.KERNEL).walk() if op.name == name}
    assert places == (set() if line is None else {f"program.py:{line}:{5 if line > 9 else 9}"})


def _without_barriers(monkeypatch: pytest.MonkeyPatch) -> ModuleOp:
    """The program at kernel level, with the barriers forgotten and nobody checking that."""
    with monkeypatch.context() as patched:
        for cls in (PlaceBarriersPass, VerifyBarriersPass):
            patched.setattr(cls, "apply", lambda *_: None)
        module = read_expression(PROGRAM, filename="program.py").module
        lower(module, new_context(), Level.KERNEL)
    return module


def test_a_race_is_named_with_the_line_of_the_program(monkeypatch: pytest.MonkeyPatch) -> None:
    captured = read_expression(PROGRAM, filename="program.py")
    inputs = [tensor.detach().numpy() for tensor in captured.inputs]
    findings = simulate(_without_barriers(monkeypatch), inputs).findings
    assert findings
    assert all(finding.kind == "data race" and finding.location == "program.py:8:9" for finding in findings)
    assert all("writes in" in finding.message and "(program.py:8:9)" in finding.message for finding in findings)


def test_a_missing_barrier_is_named_with_the_line_of_the_program(monkeypatch: pytest.MonkeyPatch) -> None:
    module = _without_barriers(monkeypatch)
    with pytest.raises(DiagnosticException, match=r"^verify-barriers: @k_exp: program\.py:8:9: %sum_part is written"):
        VerifyBarriersPass().apply(new_context(), module)


def test_a_failing_pass_names_the_line_of_the_program() -> None:
    module = read_expression("x = torch.randn(1024, 1024)\ntorch.relu(x) @ x", filename="program.py").module
    schedule = "tileify,chunk-matmul-k{bk=512},blockify-launch{m=64 n=64},stage-inputs{memory=shared}"
    with pytest.raises(DiagnosticException, match=r"^program\.py:2:\d+: error: "):
        lower(module, new_context(), Level.KERNEL, schedule=schedule)


def test_equal_kernels_of_different_lines_are_one() -> None:
    text = "def f(x, w):\n  y = x @ w\n  return y @ w\n\nf(torch.randn(64, 64), torch.randn(64, 64))"
    module = read_expression(text, filename="program.py").module
    lower(module, new_context(), Level.LOOP)
    calls = [op for op in module.walk() if op.name == "func.call"]
    assert [position_of(op) for op in calls] == ["program.py:2:3", "program.py:3:3"]
    assert len({op.properties["callee"] for op in calls}) == 1


def _place(text: str) -> list[str | None]:
    """The positions of the operations of a function after `locate`; the text says which are known, as `loc(..)`."""
    module = Parser(new_context(), text).parse_module()
    locate(module)
    return [position_of(op) for op in module.walk() if not isinstance(op, ModuleOp)]


FUNCTION = """
func.func @f(%x: f32, %m: memref<f32>) {{
  {}
  func.return loc("f.py":9:1)
}} loc("f.py":1:1)
"""


@pytest.mark.parametrize(
    ("body", "lines"),
    [
        ('%a = arith.addf %x, %x : f32 loc("f.py":2:1)\nloop.store %a, %m[] : memref<f32>', [2, 2]),
        ("%a = loop.load %m[] : memref<f32>\n%b = arith.negf %a : f32", [9, 9]),
        ('%a = loop.load %m[] : memref<f32>\n%b = arith.negf %a : f32 loc("f.py":3:1)', [3, 3]),
        ('loop.for %i = 0 to 4 {\n%a = loop.load %m[] : memref<f32>\n} loc("f.py":4:1)', [4, 4]),
    ],
)
def test_the_place_of_an_operation_without_a_location(body: str, lines: list[int]) -> None:
    assert _place(FUNCTION.format(body)) == [f"f.py:{line}:1" for line in (1, *lines, 9)]


def test_without_any_location_there_is_none() -> None:
    assert set(_place("func.func @f() {\n func.return\n}")) == {None}


def test_text_says_where_it_stands_unless_it_gives_a_location() -> None:
    text = 'func.func @f(%x: f32) {\n  %a = arith.addf %x, %x : f32 loc("f.py":2:1)\n  func.return\n}'
    module = LocatingParser(new_context(), text, "f.mlir").parse_module()
    assert [position_of(op) for op in module.walk()][1:] == ["f.mlir:1:1", "f.py:2:1", "f.mlir:3:3"]
