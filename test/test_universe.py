"""What every xDSL tool of the environment gets from deplodock."""

import subprocess
from collections.abc import Callable
from itertools import pairwise

import pytest
from xdsl.universe import XDSL_UNIVERSE, Universe

from deplodock.passes.pipeline import PASSES, RULES, STAGES, Stage
from deplodock.universe import DEPLODOCK_UNIVERSE

Tool = Callable[..., subprocess.CompletedProcess[str]]


@pytest.mark.parametrize("name", DEPLODOCK_UNIVERSE.all_dialects)
def test_dialect_key_is_its_name(name: str) -> None:
    assert DEPLODOCK_UNIVERSE.all_dialects[name]().name == name


@pytest.mark.parametrize("name", DEPLODOCK_UNIVERSE.all_passes)
def test_pass_key_is_its_name(name: str) -> None:
    assert DEPLODOCK_UNIVERSE.all_passes[name]().name == name


@pytest.mark.parametrize("name", DEPLODOCK_UNIVERSE.all_targets)
def test_target_key_is_its_name(name: str) -> None:
    assert DEPLODOCK_UNIVERSE.all_targets[name]().name == name


@pytest.mark.parametrize("kind", ["all_dialects", "all_passes", "all_targets", "all_frontends"])
def test_no_clash_with_xdsl(kind: str) -> None:
    assert not set(getattr(XDSL_UNIVERSE, kind)) & set(getattr(DEPLODOCK_UNIVERSE, kind))


def test_installed_as_plugin() -> None:
    multiverse = Universe.get_multiverse()
    assert multiverse.all_dialects["tensor_ext"] is DEPLODOCK_UNIVERSE.all_dialects["tensor_ext"]
    assert "cuda" in multiverse.all_targets


def test_stages_are_named_once() -> None:
    assert len({stage.name for stage in PASSES}) == len(PASSES)
    assert len({stage.label for stage in PASSES}) == len(PASSES)


def test_sixteen_rules_are_numbered_and_others_beside_them() -> None:
    tiles = [stage for stage in STAGES if stage.letter == "t"]
    assert tiles[1 : len(RULES) + 1] == list(RULES)
    assert [stage.number for stage in tiles if stage.number < 100] == list(range(17))
    for before, stage in pairwise(tiles):
        assert stage.number in (before.number % 100 + 1, before.number + 100)


def test_label_of_a_stage() -> None:
    assert Stage("t", 7, "stage-inputs", "tile").label == "t:007_stage_inputs"


@pytest.mark.parametrize("stage", PASSES, ids=lambda stage: stage.name)
def test_stage_lives_in_the_file_named_after_it(stage) -> None:
    cls = stage.load()
    assert cls.__module__.rpartition(".")[2] == stage.name.replace("-", "_")
    assert cls.__name__ == "".join(word.capitalize() for word in stage.name.split("-")) + "Pass"


def test_stock_tool_loads_dialects_passes_and_target(tool: Tool) -> None:
    everything = ",".join(stage.name for stage in STAGES)
    kernel = """
    func.func @k(%out: memref<4xf32>) {
      %c = arith.constant 1.0 : f32
      loop.for %i = 0 to 4 {
        loop.store %c, %out[%i] : memref<4xf32>
      }
      func.return
    }"""
    done = tool("xdsl-opt", "-p", everything, "-t", "cuda", input=kernel)
    assert done.returncode == 0
    assert "__global__" in done.stdout
