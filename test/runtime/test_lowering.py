"""Programs that are lowered once: what is found again, and when it is not."""

from __future__ import annotations

import importlib.metadata
import re
from pathlib import Path

import pytest
from xdsl.dialects.builtin import ModuleOp
from xdsl.utils.exceptions import DiagnosticException

from deplodock.codegen.cuda import print_module
from deplodock.passes.driver import Level, lower, new_context
from deplodock.runtime import lowering
from deplodock.runtime.lowering import ALWAYS, located_text, lower_once, sources_identity
from deplodock.tools.cli import model_store
from deplodock.tools.source import LocatingParser

PROGRAM = """
func.func @main(%x: tensor<64x96xf32>, %w: tensor<96x64xf32>) -> tensor<64x64xf32> {
  %y = torch.aten.mm %x, %w : tensor<64x96xf32>, tensor<96x64xf32> -> tensor<64x64xf32>
  %z = torch.aten.relu %y : tensor<64x64xf32> -> tensor<64x64xf32>
  func.return %z : tensor<64x64xf32>
}
"""
CTX = new_context()


@pytest.fixture(autouse=True)
def _finds(monkeypatch: pytest.MonkeyPatch) -> None:  # pyright: ignore[reportUnusedFunction]
    monkeypatch.delenv(ALWAYS)


def read(text: str = PROGRAM) -> ModuleOp:
    return LocatingParser(CTX, text, "program.mlir").parse_module()


@pytest.mark.parametrize("level", [Level.LOOP, Level.KERNEL])
def test_what_is_found_is_what_the_passes_give(tmp_path: Path, level: Level) -> None:
    wanted, first, second = read(), read(), read()
    lower(wanted, CTX, level)
    assert lower_once(first, CTX, level, folder=tmp_path)
    assert not lower_once(second, CTX, level, folder=tmp_path)
    assert located_text(wanted) == located_text(first) == located_text(second)
    assert "program.mlir" in located_text(second)
    if level is Level.KERNEL:
        assert print_module(second) == print_module(wanted)


def test_what_a_program_is_found_by(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    lower_once(read(), CTX, Level.TILE, folder=tmp_path)
    assert not lower_once(read(), CTX, Level.TILE, folder=tmp_path)
    assert lower_once(read(), CTX, Level.LOOP, folder=tmp_path)
    assert lower_once(read(), CTX, Level.TILE, target="sm_80", folder=tmp_path)
    assert lower_once(read(), CTX, Level.TILE, schedule="tileify,blockify-launch", folder=tmp_path)
    assert lower_once(read(), CTX, Level.TILE, stream="never", folder=tmp_path)
    assert lower_once(read(PROGRAM.replace("%z", "%name")), CTX, Level.TILE, folder=tmp_path)
    high = PROGRAM.replace("%x, %w :", '%x, %w attributes {deplodock.precision = "high"} :')
    assert lower_once(read(high), CTX, Level.TILE, folder=tmp_path)
    monkeypatch.setattr(lowering, "compiler_identity", lambda: "another compiler")
    assert lower_once(read(), CTX, Level.TILE, folder=tmp_path)
    monkeypatch.setattr(lowering, "compiler_identity", lambda: None)
    count = len(list(tmp_path.iterdir()))
    assert lower_once(read(), CTX, Level.LOOP, folder=tmp_path)
    assert len(list(tmp_path.iterdir())) == count


def test_passes_run_where_they_are_to(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    lower_once(read(), CTX, Level.LOOP, folder=tmp_path)
    monkeypatch.setenv(ALWAYS, "1")
    assert lower_once(read(), CTX, Level.LOOP, folder=tmp_path)


def test_no_failure_is_kept(tmp_path: Path) -> None:
    for _ in range(2):
        with pytest.raises(DiagnosticException):
            lower_once(read(), CTX, Level.TILE, schedule="no-such-rule", folder=tmp_path)
    assert not list(tmp_path.iterdir())


def test_the_compiler_is_its_sources_and_xdsl(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def identity() -> str | None:
        return sources_identity.__wrapped__(("passes",))

    monkeypatch.setattr(lowering, "_ROOT", tmp_path)
    assert identity() is None
    (tmp_path / "passes").mkdir()
    (tmp_path / "passes" / "one.py").write_text("A = 1")
    first = identity()
    (tmp_path / "passes" / "one.py").write_text("A = 2")
    second = identity()
    monkeypatch.setattr(importlib.metadata, "version", lambda _: "1000")
    third = identity()
    assert len({None, first, second, third}) == 4


@pytest.mark.parametrize("folders", [lowering._SOURCES, model_store._SOURCES])
def test_all_sources_that_decide_are_looked_at(repository: Path, folders: tuple[str, ...]) -> None:
    texts = [path.read_text(encoding="utf-8") for folder in folders for path in (repository / folder).rglob("*.py")]
    imported = {
        name for text in texts for name in re.findall(r"^ *(?:from|import) deplodock\.(\w+)", text, re.MULTILINE)
    }
    assert imported - {"errors", "loading"} == set(folders)
