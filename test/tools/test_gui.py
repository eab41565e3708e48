"""The interactive tool: what it offers, what it needs, and a file and a pass in it where textual is installed."""

import asyncio
import sys
from pathlib import Path

import pytest

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

    async def use() -> tuple[str, str]:
        async with app.run_test() as pilot:
            await pilot.pause()
            read = app.output_text_area.text
            app.pass_pipeline = (dict(passes())["tileify"](),)
            await pilot.pause()
            return read, app.output_text_area.text

    read, tiled = asyncio.run(use())
    assert "loop.for %i = 0 to 4 {" in read
    assert "tile.launch (%i = 4 : thread) {" in tiled
