"""Fixtures of the tests that need a GPU: programs of each kind of kernel, compiled together."""

from __future__ import annotations

import os
import secrets
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from typing import Any

import pytest
from kinds import KINDS, Kind
from xdsl.dialects.builtin import ModuleOp

from deplodock.analysis.machine.targets import nvcc_arch, target_of
from deplodock.analysis.shape.roundings import Roundings, roundings
from deplodock.codegen.cuda import print_module
from deplodock.passes.driver import Level, lower, new_context
from deplodock.runtime.cubins import cubins
from deplodock.runtime.device import device_target, missing

SEED = secrets.randbits(31)
FUZZED = 30
"""Programs of the fuzzer that the sanitizer looks at."""


@dataclass(frozen=True)
class Lowered:
    """A program at kernel level, on fresh inputs, and PyTorch's results in float64 and in its own types."""

    module: ModuleOp
    inputs: list[Any]
    reference: list[Any]
    eager: list[Any]
    rounded: Roundings


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """A test of a kind is one of each."""
    if "kind" in metafunc.fixturenames:
        metafunc.parametrize("kind", KINDS, ids=str)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Everything in this folder needs a GPU."""
    reason = missing()
    folder = str(Path(__file__).parent) + os.sep
    for item in items:
        if str(item.path).startswith(folder):
            item.add_marker(pytest.mark.gpu)
            if reason is not None:
                item.add_marker(pytest.mark.skip(reason=reason))


@pytest.fixture(scope="session")
def seed() -> int:
    """The seed of this session's inputs."""
    return SEED


@pytest.fixture(scope="session")
def lowered(seed: int) -> dict[str, Lowered]:
    """Every kind at kernel level for the GPU that is there, its cubin in the cache."""
    programs = {kind.name: _lower(kind, seed) for kind in KINDS}
    arch = nvcc_arch(target_of(next(iter(programs.values())).module).arch.data)
    cubins([print_module(program.module) for program in programs.values()], arch)
    return programs


def _lower(kind: Kind, seed: int) -> Lowered:
    # Here, so that tests are collected without PyTorch.
    from deplodock.frontend.arrays import to_array
    from deplodock.frontend.expression import read_expression

    program = read_expression(kind.text, seed=seed)
    context = new_context()
    module = program.module
    lower(module, context, Level.TENSOR, target=device_target(), stream=kind.stream)
    rounded = roundings(module)
    lower(module, context, Level.KERNEL, schedule=kind.schedule)
    inputs, reference, eager = (
        [to_array(value) for value in values] for values in (program.inputs, program.reference(), program.eager())
    )
    return Lowered(module, inputs, reference, eager, rounded)


@pytest.fixture(scope="session")
def fuzzed(seed: int) -> dict[str, Lowered]:
    """Programs of the fuzzer with drawn schedules at kernel level, their cubins in the cache."""
    from deplodock.fuzz.case import Checker, NotDrawn
    from deplodock.fuzz.run import draw_case

    programs: dict[str, Lowered] = {}
    for number in count(seed):
        _, case = draw_case(number, compile_every=0)
        checker = Checker(case)
        try:
            checker.run()
        except NotDrawn:
            continue
        results = checker.results
        own = (results.inputs, results.reference, results.eager, checker.rounded)
        programs[f"fuzzed_{number}"] = Lowered(checker.module, *own)
        if len(programs) == FUZZED:
            break
    arch = nvcc_arch(target_of(next(iter(programs.values())).module).arch.data)
    cubins([print_module(program.module) for program in programs.values()], arch)
    return programs


@pytest.fixture(scope="session")
def run_tool() -> Callable[..., Any]:
    """Run a tool of the package in a process of its own, so that a fault stays there."""

    def run(module: str, *args: str) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "-m", module, *args]
        return subprocess.run(command, capture_output=True, text=True, check=False)

    return run
