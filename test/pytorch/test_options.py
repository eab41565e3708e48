"""`mode` and `options` of `torch.compile`, and what one can see of a compilation."""

from __future__ import annotations

import json
import logging
import os
import re
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import torch

import deplodock
from deplodock.errors import InvalidInputError
from deplodock.frontend.capture import export
from deplodock.passes.driver import Level, lower, new_context
from deplodock.pytorch import compiled as compiled_module
from deplodock.pytorch.options import DUMP, BackendOptions, read_options
from deplodock.pytorch.runners import CpuRunner
from deplodock.runtime.tuned import TunedEntry, write_tuned
from deplodock.tune.task import tasks

X = torch.ones(3, 4)


@pytest.fixture(autouse=True)
def _fresh() -> Iterator[None]:  # pyright: ignore[reportUnusedFunction]
    torch._dynamo.reset()
    yield
    torch._dynamo.reset()


def program(x: torch.Tensor) -> torch.Tensor:
    return x.softmax(1) * 2


@pytest.fixture
def modules(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The text of the kernels of each program that is compiled."""
    found: list[str] = []

    class Runner(CpuRunner):
        def __init__(self, module: Any, loops: Any) -> None:
            super().__init__(module, loops)
            found.append(str(module))

    monkeypatch.setattr(compiled_module, "CpuRunner", Runner)
    return found


def run(**given: Any) -> None:
    torch.testing.assert_close(torch.compile(program, backend="deplodock", **given)(X), program(X))


def tuned(folder: Path, threads: int) -> Path:
    """A file that has a schedule with so many threads for the program's kernel."""
    module = export(program, (X,)).module
    lower(module, new_context(), Level.LOOP)
    (task,) = tasks(module)
    schedule = f"tileify,cooperative-reduce{{threads={threads} vector=1}},blockify-launch{{threads={threads}}}"
    write_tuned(path := folder / "tuned.jsonl", [TunedEntry(task.key, "", "", schedule, "", 1.0, 2.0, 3)])
    return path


def test_tuned(modules: list[str], tmp_path: Path) -> None:
    path = tuned(tmp_path, 64)
    run(options={"tuned": path})
    run(options={"tuned": path, "dump": tmp_path / "dump"})
    torch.testing.assert_close(deplodock.compile(program, (X,), tuned=path)(X), program(X))
    assert ["threads(%thread = 64)" in text for text in modules] == [True] * 3
    run()
    assert "threads(%thread = 64)" not in modules[3]


def test_bad_files_of_tuned_schedules(tmp_path: Path) -> None:
    for refuse in (lambda path: read_options(None, {"tuned": path}), lambda path: deplodock.compile(tuned=path)):
        with pytest.raises(InvalidInputError, match="none: error: the file of tuned schedules cannot be read"):
            refuse(tmp_path / "none")
    with pytest.raises(InvalidInputError, match="nothing is left for tuned: give one of them"):
        deplodock.compile(tuned=tmp_path / "none", schedule="tileify")


def test_target(modules: list[str]) -> None:
    run(options={"target": "a100"})
    assert "#kernel.target<sm_80, sms = 108" in modules[0]


def test_schedule(modules: list[str]) -> None:
    for threads in (64, 128):
        schedule = f"tileify,blockify-launch{{threads={threads}}}"
        torch.compile(torch.sin, backend="deplodock", options={"schedule": schedule})(torch.ones(512))
    assert "%a0_b * 64 + %a0_t" in modules[0]
    assert "%a0_b * 128 + %a0_t" in modules[1]


def test_dump(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run(options={"dump": tmp_path / "one"})
    (part,) = (tmp_path / "one").glob("graph*/forward/part0")
    names = sorted(path.name for path in part.iterdir())
    assert names[0] == "00_input_torch.mlir"
    assert any(name.endswith(".cu") for name in names)
    assert (part / names[0]).read_text().startswith("builtin.module {\n")
    assert "aten.softmax.int" in (part / names[0]).read_text()
    monkeypatch.setenv(DUMP, str(tmp_path / "two"))
    torch._dynamo.reset()
    run()
    assert list((tmp_path / "two").glob("graph*/forward/part0/*.cu"))
    deplodock.compile(program, (X,))
    assert list((tmp_path / "two").glob("program*/*.cu"))


def test_a_dump_folder_that_cannot_be_written(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(Exception, match=r"dump folder .* cannot be written: (Not a directory|File exists)"):
        run(options={"dump": tmp_path / "file"})


def test_the_default_mode() -> None:
    run(mode="default")
    assert read_options("default", None) == BackendOptions()


@pytest.mark.parametrize(
    ("mode", "options", "message"),
    [
        ("max-autotune", None, "deplodock has no mode 'max-autotune'; leave mode out"),
        ("reduce-overhead", None, "deplodock has no mode 'reduce-overhead'"),
        (None, {"engine": "tf32"}, "no option 'engine'; there are target, schedule, precision, tuned, dump"),
        (None, {"tiles": "x"}, "deplodock has no option 'tiles'"),
        (None, {"target": "sm_1"}, "unknown target 'sm_1'"),
        (None, {"target": 90}, "the option target must be text, got 90"),
        (None, {"schedule": "tilefy"}, "tilefy"),
        (None, {"schedule": "tileify{"}, "malformed schedule"),
        (None, {"max_shapes": 0}, "max_shapes must be a number of sets of shapes, 1 or more, got 0"),
    ],
)
def test_what_there_is_not(mode: str | None, options: dict[str, Any] | None, message: str) -> None:
    with pytest.raises(InvalidInputError, match=message):
        read_options(mode, options)
    given = {"mode": mode} if mode else {"options": options}
    with pytest.raises(Exception, match=message):
        run(**given)


def test_compilations_are_logged(caplog: pytest.LogCaptureFixture) -> None:
    step = torch.compile(lambda x: x.softmax(0) * x.shape[0], backend="deplodock", dynamic=True)
    with caplog.at_level(logging.INFO, "deplodock"):
        for extent in range(2, 11):
            step(torch.ones(extent, 12))
    found = [record.getMessage() for record in caplog.records if record.name == "deplodock"]
    first, second, third = found[:3]
    place = rf"at {__file__}:\d+"
    assert_matches(rf"deplodock: compiled graph\d+/forward {place}: 2 of 2 operations, as 1 programs, in \d", first)
    assert_matches(
        rf"deplodock: compiling graph\d+/forward {place} again, for set 2 of shapes: argument 0 is 3, was 2", second
    )
    assert_matches(r"deplodock: compiled graph\d+/forward_1 ", third)
    warned = [record.getMessage() for record in caplog.records if record.levelno == logging.WARNING]
    assert len([text for text in warned if "set 8 of shapes" in text and "pad to fewer" in text]) == 1


def test_max_shapes() -> None:
    step = torch.compile(torch.neg, backend="deplodock", dynamic=True, options={"max_shapes": 1})
    for extent in range(2, 6):
        step(torch.ones(extent))
    with pytest.raises(InvalidInputError, match=r"forward was compiled for 4 sets .* larger max_shapes than 1"):
        step(torch.ones(6))


def assert_matches(pattern: str, text: str) -> None:
    assert re.match(pattern, text), text


SCRIPT = """
import torch
step = torch.compile(lambda x: x.softmax(0) * x.shape[0], backend="deplodock", dynamic=True)
for extent in (4, 5):
    step(torch.ones(extent, 7))
"""


@pytest.fixture
def script(tools_with_torch: Path, tmp_path: Path) -> Callable[..., str]:
    """What a process writes to stderr that compiles for two shapes, with some variables in its environment."""
    path = tmp_path / "program.py"
    path.write_text(SCRIPT)

    def run(**env: str) -> str:
        command = [tools_with_torch / "python", path]
        result = subprocess.run(command, capture_output=True, text=True, env=os.environ | env, check=False)
        assert result.returncode == 0, result.stderr
        return result.stderr

    return run


def test_torch_logs(script: Callable[..., str]) -> None:
    shown = script(TORCH_LOGS="recompiles")
    assert "again, for set 2 of shapes: argument 0 is 5, was 4" in shown
    assert "compiled graph0" not in shown
    assert "deplodock: compiled graph0/forward_1" in script(TORCH_LOGS="+deplodock")
    assert "deplodock" not in script()


def test_torch_trace(script: Callable[..., str], tmp_path: Path) -> None:
    script(TORCH_TRACE=str(tmp_path / "trace"))
    (log,) = (tmp_path / "trace").iterdir()
    records = [
        json.loads(line[line.index("{") :]) for line in log.read_text().splitlines() if "deplodock_graph" in line
    ]
    assert all(record["frame_id"] == 0 and record["has_payload"] for record in records)
    names = [record["artifact"]["name"] for record in records]
    levels = ("torch", "tensor", "loop", "tile", "kernel", "cuda")
    graphs = ("graph0_forward_part0", "graph0_forward_1_part0")
    assert names == [f"deplodock_{graph}_{level}" for graph in graphs for level in levels]
    assert 'extern "C" __global__' in log.read_text()


def test_the_warning_stands_at_the_line_of_the_program() -> None:
    def values(x: torch.Tensor) -> torch.Tensor:
        y = x * 2
        return torch.linalg.eigvalsh(y) + 1

    with pytest.warns(UserWarning, match=r"leaves to PyTorch: aten\._linalg_eigh") as caught:
        torch.compile(values, backend="deplodock")(torch.zeros(2, 2))
    (warning,) = (found for found in caught if "deplodock" in str(found.message))
    assert (warning.filename, warning.lineno) == (__file__, values.__code__.co_firstlineno + 2)
