"""The interactive tool: what it offers, what it needs, and a file and a pass in it where textual is installed.

xDSL's own knows nothing of packages, and opens our files in generic form.
"""

import asyncio
import os
import re
import shlex
import sys
from collections.abc import Callable
from io import StringIO
from pathlib import Path
from typing import Any

import pytest
from xdsl.context import Context
from xdsl.dialects import get_all_dialects
from xdsl.interactive.passes import get_new_registered_context
from xdsl.parser import Parser
from xdsl.passes import ModulePass
from xdsl.printer import Printer

from deplodock.passes.driver import new_context
from deplodock.passes.pipeline import PASSES
from deplodock.tools.gui import dialects, main, new_app, passes
from deplodock.universe import DEPLODOCK_UNIVERSE

LOOPS = """func.func @k(%x: memref<4xf32>, %out: memref<4xf32>) {
  loop.for %i = 0 to 4 {
    %v = loop.load %x[%i] : memref<4xf32>
    loop.store %v, %out[%i] : memref<4xf32>
  }
  func.return
}
"""


def test_all_dialects_and_passes_are_offered() -> None:
    assert set(DEPLODOCK_UNIVERSE.all_dialects) | {"arith", "func"} <= set(dict(dialects()))
    assert [name for name, _ in passes()][: len(PASSES)] == [stage.name for stage in PASSES]
    assert all(cls.name == name for name, cls in passes())
    assert "cse" in dict(passes())


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("k.mlir", "deplodock-gui: error: textual is not installed: pip install 'deplodock[gui]'\n"),
        ("none.mlir", "deplodock-gui: error: none.mlir: No such file or directory\n"),
    ],
)
def test_what_is_missing_is_said(
    name: str, message: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "k.mlir").write_text(LOOPS)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "argv", ["deplodock-gui", name])
    monkeypatch.setitem(sys.modules, "textual", None)
    monkeypatch.setitem(sys.modules, "pyclip", type(sys)("pyclip"))
    monkeypatch.delitem(sys.modules, "xdsl.interactive.app", raising=False)
    with pytest.raises(SystemExit) as end:
        main()
    assert end.value.code == 1
    assert capsys.readouterr() == ("", message)


def test_a_file_and_a_pass(tmp_path: Path) -> None:
    pytest.importorskip("textual")
    pytest.importorskip("pyclip")
    file = tmp_path / "k.mlir"
    file.write_text(LOOPS)
    app = new_app(str(file))
    shown = in_terminal(app, (), (dict(passes())["tileify"](),))
    assert "loop.for %i = 0 to 4 {" in shown[0]
    assert "tile.launch (%i = 4 : thread) {" in shown[1]


def in_terminal(app: Any, *pipelines: tuple[ModulePass, ...] | None) -> list[str]:
    """What the tool shows of its file after each pipeline; None stands for the one that it was started with."""

    async def use() -> list[str]:
        shown: list[str] = []
        async with app.run_test() as pilot:
            for pipeline in pipelines:
                if pipeline is not None:
                    app.pass_pipeline = pipeline
                await pilot.pause()
                shown.append(app.output_text_area.text)
        return shown

    return asyncio.run(use())


def test_the_tool_of_xdsl_opens_files_in_generic_form_and_runs_passes(
    repository: Path, tools: Path, tool: Callable[..., Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By the commands of the page, with what is in xDSL alone."""
    pytest.importorskip("textual")
    pytest.importorskip("pyclip")
    from xdsl.interactive import app as stock

    page = (repository / "docs/levels.md").read_text()
    commands = re.findall(r"^\$ (.*--print-op-generic.*)$", page, re.MULTILINE)
    (_, *convert), (_, *arguments) = map(shlex.split, commands)
    (tmp_path / "loop.mlir").write_text(LOOPS)
    monkeypatch.chdir(tmp_path)
    tool("deplodock-opt", *convert)
    opened: list[stock.InputApp] = []
    monkeypatch.setattr(stock.InputApp, "run", lambda app: opened.append(app))
    monkeypatch.setattr(sys, "argv", ["xdsl-gui", *arguments])
    monkeypatch.setenv("PATH", str(tools), prepend=os.pathsep)
    stock.main()
    (app,) = opened
    assert "loop" not in dict(app.all_dialects)
    tiled, read = in_terminal(app, None, ())
    assert '"loop.for"' in read
    assert tool("deplodock-opt", input=read).stdout == tool("deplodock-opt", input=LOOPS).stdout
    assert "tile.launch (%i = 4 : thread) {" in tool("deplodock-opt", input=tiled).stdout


@pytest.mark.parametrize("level", ["torch", "tensor", "loop", "tile", "kernel"])
def test_the_tool_of_xdsl_reads_each_level_in_generic_form(level: str, repository: Path) -> None:
    text = (repository / "test/dialects" / level / "ops.mlir").read_text().partition("// -----")[0]
    ours = new_context()
    form = generic(ours, text)
    stock = get_new_registered_context(tuple(get_all_dialects().items()))
    assert "unregistered" not in form
    assert generic(ours, generic(stock, form)) == form


def generic(context: Context, text: str) -> str:
    """A text in generic form."""
    module = Parser(context, text).parse_module()
    module.verify()
    stream = StringIO()
    Printer(stream, print_generic_format=True).print_op(module)
    return stream.getvalue()
