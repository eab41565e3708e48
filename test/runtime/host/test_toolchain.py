"""What is compiled once is taken from folders that are this user's alone."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from deplodock.runtime import environment
from deplodock.runtime.host import toolchain as toolchain_module
from deplodock.runtime.host.toolchain import toolchain

COMPILER = """#!/bin/sh
[ "$1" = --version ] && echo "fake $CPLUS_INCLUDE_PATH" && exit
while [ "$1" != -o ]; do shift; done
echo compiled > "$2"
"""


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder for what is kept, beside a compiler that writes a line."""
    (compiler := tmp_path / "g++").write_text(COMPILER)
    compiler.chmod(0o755)
    monkeypatch.setattr(toolchain_module, "find_compiler", lambda: compiler)
    monkeypatch.setenv("DEPLODOCK_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache"


def folder() -> Path:
    """Where what is compiled once lies now."""
    return toolchain.__wrapped__().folder


def test_it_is_compiled_once(cache: Path) -> None:
    own = folder()
    assert own.parent == cache
    assert (cache.stat().st_mode & 0o777, own.stat().st_mode & 0o777) == (0o700, 0o700)
    (own / "engine.cpp.o").write_text("kept")
    assert folder() == own
    assert (own / "engine.cpp.o").read_text() == "kept"


@pytest.mark.parametrize("name", ["", "engine.cpp.o", "cuda.h"])
def test_what_others_may_write_is_compiled_again(cache: Path, name: str) -> None:
    own = folder()
    (own / "engine.cpp.o").write_text("evil")
    (own / name).chmod(0o777)
    assert folder() == own
    assert (own / "engine.cpp.o").read_text() == "compiled\n"
    assert (own.stat().st_mode & 0o777, (own / name).stat().st_mode & 0o022) == (0o700, 0)


def test_a_link_is_not_taken(cache: Path, tmp_path: Path) -> None:
    own = folder()
    (tmp_path / "evil").write_text("evil")
    (own / "engine.cpp.o").unlink()
    (own / "engine.cpp.o").symlink_to(tmp_path / "evil")
    folder()
    assert (own / "engine.cpp.o").read_text() == "compiled\n"
    assert (tmp_path / "evil").read_text() == "evil"


def test_a_cache_that_others_may_write_is_not_used(cache: Path) -> None:
    own = folder()
    cache.chmod(0o777)
    before = os.listdir(cache)
    other = folder()
    assert other.parent != cache
    assert other.name == own.name
    assert os.listdir(cache) == before


def test_folders_of_headers_of_others_are_left_out(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    own = folder()
    environment._note_once.cache_clear()
    monkeypatch.setenv("CPLUS_INCLUDE_PATH", "/evil")
    assert folder() == own
