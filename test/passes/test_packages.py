"""What installed packages add, and what is said of those that have names of ours or do not load."""

import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest
from packages import install
from xdsl.transforms.common_subexpression_elimination import CommonSubexpressionElimination
from xdsl.universe import Universe

from deplodock.errors import InvalidInputError
from deplodock.passes.packages import PipelineUniverse, packages, with_added
from deplodock.passes.pipeline import PASSES
from deplodock.universe import DEPLODOCK_UNIVERSE

Tool = Callable[..., subprocess.CompletedProcess[str]]

NAMESAKES = {
    "pyproject.toml": """
[project]
name = "clash"
version = "0.1"

[project.entry-points."xdsl.universe"]
clash = "clash:CLASH"
broken = "clash:ABSENT"
number = "clash:NUMBER"
""",
    "clash.py": """
from xdsl.ir import Dialect
from xdsl.universe import Universe

NUMBER = 1
CLASH = Universe(
    all_dialects={"aaa": lambda: Dialect("aaa"), "kernel": lambda: Dialect("kernel"), "loop": lambda: Dialect("loop")},
    all_passes={"tileify": lambda: None, "cse": lambda: None},
    all_targets={"cuda": lambda: None},
)
""",
}
LOOPS = """func.func @k(%x: memref<4xf32>, %out: memref<4xf32>) {
  loop.for %i = 0 to 4 {
    %v = loop.load %x[%i] : memref<4xf32>
    loop.store %v, %out[%i] : memref<4xf32>
  }
  func.return
}
"""
SAID = (
    "deplodock: warning: the packages deplodock and clash have the same names: pass tileify, dialect kernel, dialect "
    "loop, target cuda; here they mean deplodock's, and what clash means by them cannot be used; xdsl-opt does not "
    "start while both packages are installed\n"
    "deplodock: warning: the packages xdsl and clash have the same names: pass cse; here they mean xdsl's, and what "
    "clash means by them cannot be used; xdsl-opt does not start while both packages are installed\n"
)
LEFT_OUT = (
    "deplodock: warning: the package clash is left out, as its universe does not load: AttributeError: module 'clash' "
    "has no attribute 'ABSENT'\n"
    "deplodock: warning: the package clash is left out, as its universe does not load: InvalidInputError: clash:NUMBER "
    "is no Universe\n"
)


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> str:
    """Where a package is installed that has names of ours, and universes that do not load."""
    return str(install(NAMESAKES, tmp_path_factory.mktemp("clash")))


@pytest.mark.parametrize(
    "command",
    [
        ("deplodock-opt", "-p", "tileify,cse,materialize", "-t", "cuda"),
        ("deplodock", "compile", "-", "--ir", "kernel"),
        ("deplodock", "run", "-", "--device", "sim"),
    ],
)
def test_tools_start_beside_a_package_with_names_of_ours(tool: Tool, site: str, command: tuple[str, ...]) -> None:
    alone = tool(*command, input=LOOPS)
    beside = tool(*command, input=LOOPS, PYTHONPATH=site)
    assert beside.returncode == alone.returncode == 0
    assert without_times(beside.stdout) == without_times(alone.stdout)
    assert without_times(beside.stderr) == LEFT_OUT + SAID + without_times(alone.stderr)


def without_times(text: str) -> str:
    return "".join(line for line in text.splitlines(keepends=True) if "simulated in" not in line)


def test_stock_tools_stop_there(tool: Tool, site: str) -> None:
    """So the warning is right; the universes that do not load would be another reason, so they are taken away."""
    text = Path(site, "clash-0.1.dist-info", "entry_points.txt")
    whole = text.read_text()
    text.write_text("[xdsl.universe]\nclash = clash:CLASH\n")
    done = tool("xdsl-opt", input=LOOPS, PYTHONPATH=site)
    text.write_text(whole)
    assert done.returncode != 0
    assert "Duplicate definition of" in done.stderr


def test_what_the_other_package_has_alone_is_there(site: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(site)
    found = packages().universe
    assert found.all_dialects["aaa"]().name == "aaa"
    assert found.all_dialects["kernel"] is DEPLODOCK_UNIVERSE.all_dialects["kernel"]
    assert found.all_targets["cuda"] is DEPLODOCK_UNIVERSE.all_targets["cuda"]


def test_without_other_packages_all_is_as_in_xdsl() -> None:
    theirs, ours = Universe.get_multiverse(), packages().universe
    for kind in ("all_dialects", "all_passes", "all_targets", "all_frontends"):
        assert getattr(ours, kind) == getattr(theirs, kind)
    assert with_added(PASSES) == list(PASSES)
    assert not packages().unplaced


@pytest.mark.parametrize(
    ("before", "message"),
    [
        ({"other": "decompose"}, "other is to run before decompose, and is not in all_passes"),
        ({"own": "decompile"}, "own is to run before decompile, which is no pass of deplodock's pipeline"),
    ],
)
def test_passes_before_nothing(before: dict[str, str], message: str) -> None:
    with pytest.raises(InvalidInputError, match=message):
        PipelineUniverse(all_passes={"own": lambda: CommonSubexpressionElimination}, before=before)
