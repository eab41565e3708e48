"""Fixtures shared by all Python tests: tools, programs compared with PyTorch at tensor level, work without a clock."""

from __future__ import annotations

import cProfile
import gc
import logging
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from xdsl.context import Context

from deplodock.dialects.torch import AtenOp
from deplodock.interpreters.evaluate import evaluate
from deplodock.passes.torch.decompose import DecomposePass
from deplodock.runtime.falls import DEBUG
from deplodock.runtime.lowering import ALWAYS
from deplodock.runtime.nvcc import find_nvcc

# Tests change passes, and want those to run.
os.environ[ALWAYS] = "1"
# For users a kernel that is refused falls, and a fault leaves its calls to PyTorch; here both are errors.
os.environ[DEBUG] = "1"
# PyTorch would collect garbage after each program that it compiles.
os.environ["TORCH_DYNAMO_RUN_GC_AFTER_COMPILE"] = "0"


# Nothing is garbage while PyTorch and the tests are imported.
gc.disable()


def pytest_collection_finish() -> None:
    """Let the collector of garbage look at what tests make, not at PyTorch and the tests, and not all the time."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(100_000, 20, 20)
    gc.enable()
    leave_traces_alone()


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup() -> None:
    """PyTorch may have been imported since."""
    leave_traces_alone()


def leave_traces_alone() -> None:
    """Keep pytest, which listens to loggers that do not propagate, from the one for which PyTorch prints each graph."""
    logging.getLogger("torch.__trace").propagate = True


@pytest.fixture(scope="session")
def nvcc() -> Path:
    """nvcc; without one the test is skipped, or fails if `DEPLODOCK_REQUIRE_NVCC` is set."""
    path = find_nvcc()
    if path is not None:
        return path
    message = "no nvcc: install the dev extra, or set CUDA_HOME"
    if os.environ.get("DEPLODOCK_REQUIRE_NVCC"):
        pytest.fail(message)
    pytest.skip(message)


@pytest.fixture(scope="session")
def repository() -> Path:
    """The root of the repository."""
    return Path(__file__).parent.parent


SERVERS = {
    "tools": (),
    "tools_with_torch": ("deplodock.frontend.expression", "deplodock.pytorch.backend", "torch._dynamo.convert_frame"),
}
"""What the fork servers have imported, besides the tools."""


class ForkServer:
    """A process that runs the tools in forks of itself, see fork_server.py; it ends with this one."""

    def __init__(self, name: str) -> None:
        self.folder = Path(tempfile.mkdtemp())
        command = [sys.executable, str(Path(__file__).parent / "fork_server.py"), str(self.folder), *SERVERS[name]]
        self._process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)

    def end(self) -> None:
        """End the process, and remove its folder."""
        self._process.communicate()
        shutil.rmtree(self.folder)


class SharedServers:
    """Fork servers of the process that divides the tests between others, which all use them."""

    def __init__(self) -> None:
        self._servers = {name: ForkServer(name) for name in SERVERS}

    @pytest.hookimpl(optionalhook=True)
    def pytest_configure_node(self, node: Any) -> None:
        node.workerinput |= {name: str(server.folder) for name, server in self._servers.items()}

    def pytest_unconfigure(self) -> None:
        for server in self._servers.values():
            server.end()


def pytest_configure(config: pytest.Config) -> None:
    """Start the fork servers for all processes, if there are several."""
    if getattr(config.option, "numprocesses", None) and not hasattr(config, "workerinput"):
        config.pluginmanager.register(SharedServers())


@pytest.fixture(scope="session")
def tools(pytestconfig: pytest.Config) -> Iterator[Path]:
    """The folder of scripts that run the tools in forks of one process, see fork_server.py."""
    yield from serving(pytestconfig, "tools")


@pytest.fixture(scope="session")
def tools_with_torch(pytestconfig: pytest.Config) -> Iterator[Path]:
    """The same, where each has PyTorch already."""
    yield from serving(pytestconfig, "tools_with_torch")


def serving(config: pytest.Config, name: str) -> Iterator[Path]:
    """The folder of a fork server, of this process if it is alone, once it serves."""
    given = getattr(config, "workerinput", {}).get(name)
    own = None if given else ForkServer(name)
    folder = Path(given) if own is None else own.folder
    deadline = time.monotonic() + 120
    while not (folder / "socket").exists():
        assert time.monotonic() < deadline, "the fork server does not start"
        time.sleep(0.02)
    yield folder
    if own is not None:
        own.end()


Tool = Callable[..., subprocess.CompletedProcess[str]]


@pytest.fixture(scope="session")
def tool(tools: Path) -> Tool:
    """Run a tool: `tool("deplodock-opt", "-p", "cse", input="...")`."""
    return partial(run, tools)


@pytest.fixture(scope="session")
def process() -> Tool:
    """Run a tool as users do, from the start of Python on."""
    return partial(run, Path(sys.executable).parent)


def run(folder: Path, name: str, *args: str, input: str = "", **env: str) -> subprocess.CompletedProcess[str]:
    """Run an executable of a folder, with `env` on top of this process's environment."""
    environment = {**os.environ, **env}
    return subprocess.run(
        [str(folder / name), *args], input=input, env=environment, capture_output=True, text=True, check=False
    )


@dataclass(frozen=True)
class TensorRun:
    """A captured program: its ATen operations, the evaluator's results, PyTorch's own, and those in float64."""

    overloads: set[str]
    got: list[np.ndarray[Any, Any]]
    program: Any

    @cached_property
    def eager(self) -> list[Any]:
        return self.program.eager()

    @cached_property
    def reference(self) -> list[Any]:
        return self.program.reference()


@pytest.fixture(scope="session")
def run_at_tensor_level() -> Callable[..., TensorRun]:
    """Capture `function(*args)`, decompose it and evaluate it, on `inputs` if given."""
    pytest.importorskip("torch")
    from deplodock.frontend.arrays import to_array
    from deplodock.frontend.capture import export

    def run(function: Callable[..., Any], *args: Any, inputs: Sequence[Any] | None = None) -> TensorRun:
        program = export(function, args)
        program.module.verify()
        overloads = {op.schema().name for op in program.module.walk() if isinstance(op, AtenOp)}
        DecomposePass().apply(Context(), program.module)
        program.module.verify()
        assert not [op.name for op in program.module.walk() if op.name.startswith("torch.")]
        got = evaluate(program.module, [to_array(value) for value in inputs or program.inputs])
        return TensorRun(overloads, got, program)

    return run


@pytest.fixture(scope="session")
def check_with_torch(run_at_tensor_level: Callable[..., TensorRun]) -> Callable[..., set[str]]:
    """Run and compare, bit for bit with `exact=True`; returns the operations that were captured."""
    import torch

    from deplodock.frontend.arrays import to_array

    def check(function: Callable[..., Any], *args: Any, exact: bool = False, units: float = 64) -> set[str]:
        result = run_at_tensor_level(function, *args)
        for place, (value, own) in enumerate(zip(result.got, result.eager, strict=True)):
            assert value.shape == tuple(own.shape)
            assert value.dtype == to_array(own).dtype
            if exact or not own.dtype.is_floating_point:
                # numpy takes NaNs of its own types for equal, but not those of bfloat16.
                value, wanted = (
                    v.astype(np.float64) if own.dtype == torch.bfloat16 else v for v in (value, to_array(own))
                )
                np.testing.assert_array_equal(value, wanted)
                number = ~np.isnan(value)
                np.testing.assert_array_equal(np.signbit(value[number]), np.signbit(to_array(own)[number]))
                continue
            # The float64 run rounded to the type, so that what overflows there is infinite in both.
            expected, unit = to_array(result.reference[place].to(own.dtype)), torch.finfo(own.dtype).eps / 2
            np.testing.assert_allclose(value, expected, rtol=units * unit, atol=units * unit, equal_nan=True)
            np.testing.assert_array_equal(np.isnan(value), np.isnan(to_array(own)))
        return result.overloads

    return check


@pytest.fixture(scope="session")
def count_calls() -> Callable[[Callable[[], object]], int]:
    """Count the Python and C functions that a function calls: a measure of work that no other process disturbs."""

    def count(work: Callable[[], object]) -> int:
        profile = cProfile.Profile()
        gc.disable()
        profile.runcall(work)
        gc.enable()
        return sum(entry.callcount for entry in profile.getstats())

    return count


@pytest.fixture(scope="session")
def run_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder that belongs to this run of pytest, the same in all its processes."""
    own = tmp_path_factory.getbasetemp()
    return own.parent if "PYTEST_XDIST_WORKER" in os.environ else own
