"""`deplodock bench`: the table, row by row, in a process of its own that a hanging or faulting kernel may take down."""

from __future__ import annotations

import contextlib
import gc
import json
import multiprocessing
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from functools import partial
from io import StringIO
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any, Protocol

import deplodock
from deplodock.analysis.machine.targets import DEFAULT, nvcc_arch, target_of
from deplodock.errors import Error
from deplodock.passes.driver import Level
from deplodock.runtime import device
from deplodock.runtime.cubins import check_compiler, cubins
from deplodock.runtime.processes import Ended, Process, TooLate
from deplodock.tools.bench.report import UNMEASURED, Result, markdown, read_results, short, write_results
from deplodock.tools.bench.rows import Row
from deplodock.tools.cli.options import Options
from deplodock.tools.cli.program import Session
from deplodock.tools.cli.run import RunOptions, RunOutcome, run
from deplodock.tools.clock import Clock
from deplodock.tools.progress import tracked

_SPAWN = multiprocessing.get_context("spawn")


@dataclass(frozen=True)
class TableOptions:
    """How rows are measured.

    `limit` is the seconds that a row may take, `budget` those after which none is started, `replacement` a file of IR
    text to run in place of every row's program; `modes` are those in which torch.compile is timed, too. With `resume`,
    rows that have results are not measured again. `tuned` is a file of schedules for the kernels.
    """

    limit: float = 120.0
    budget: float = 3600.0
    replacement: str | None = None
    modes: tuple[str, ...] = ("default",)
    resume: bool = False
    tuned: Path | None = None


class Worker(Protocol):
    """Measures rows, each within a limit of seconds: what `run --bench --json` prints, or {"error": why}."""

    def measure(self, row: Row, limit: float) -> dict[str, Any]:
        """Measure one row."""
        ...


def run_table(
    rows: Sequence[Row], worker: Worker, folder: Path, conditions: dict[str, str], *, limit: float, budget: float
) -> bool:
    """Measure rows and write the results after each; whether all are right and measured.

    Rows that were measured before and are not measured now stay in the results, with the conditions of then.

    Args:
        rows: the rows.
        worker: who measures.
        folder: where the results go.
        conditions: how it is measured.
        limit: seconds that a row may take.
        budget: seconds after which no row is started.
    """
    end = time.monotonic() + budget

    def answers() -> Iterator[tuple[Row, dict[str, Any]]]:
        for row in rows:
            yield row, worker.measure(row, limit) if time.monotonic() < end else {"error": UNMEASURED}

    return record(answers(), len(rows), folder, conditions, markdown)


def record(
    answers: Iterable[tuple[Row, dict[str, Any]]],
    count: int,
    folder: Path,
    conditions: dict[str, str],
    page: Callable[[Sequence[Result]], str],
) -> bool:
    """Write the results of a folder after each answer, as JSON lines and as a page; whether all are right and measured.

    Rows that have no answer stay as they were.
    """
    results = read_results(folder)
    passed = True
    for row, found in tracked(answers, count, "measuring"):
        result = _result(row, found, conditions)
        passed &= result.passed
        if result.error != UNMEASURED or row.name not in results:
            results[row.name] = result.with_compiled(results.get(row.name))
        write_results(folder, results.values(), page)
        print(f"{row.name}: {result.error or _times(result)}", flush=True)
    return passed


def without_known(rows: Sequence[Row], folder: Path) -> tuple[list[Row], bool]:
    """The rows that a folder has no results of, and whether all others are right and measured there."""
    results = read_results(folder)
    known = {name: result for name, result in results.items() if result.error != UNMEASURED}
    return [row for row in rows if row.name not in known], all(known[r.name].passed for r in rows if r.name in known)


def _result(row: Row, found: dict[str, Any], conditions: dict[str, str]) -> Result:
    error = found.get("error") or ("" if found.get("passed") else "wrong")
    return Result(row.name, row.kind, found.get("bench"), error, conditions)


def _times(result: Result) -> str:
    timings = [] if result.bench is None else result.bench["timings"]
    return ", ".join(f"{each['name']} {each['microseconds']:.1f} us" for each in timings)


class RowProcess:
    """A worker in a process of its own, started again after an error: faults stay with a CUDA context."""

    def __init__(self, target: str, options: TableOptions = TableOptions()) -> None:
        self._process = Process(_serve, target, options)

    def measure(self, row: Row, limit: float) -> dict[str, Any]:
        """Measure one row; a process that does not answer within the limit is killed."""
        try:
            found = self._process.ask(row, limit)
        except TooLate:
            return {"error": f"no end in {limit:.0f} s"}
        except Ended:
            return {"error": "the process ended"}
        if "error" in found:
            self.close()
        return found

    def close(self) -> None:
        """End the process."""
        self._process.kill()


def _serve(connection: Connection, target: str, options: TableOptions) -> None:
    import torch

    while True:
        connection.send(_measure(connection.recv(), target, options))
        gc.unfreeze()
        gc.collect()
        torch.cuda.empty_cache()


def _measure(row: Row, target: str, options: TableOptions) -> dict[str, Any]:
    """Run one row as `deplodock run --bench --json`; whatever goes wrong is its result."""
    output, log = StringIO(), StringIO()
    try:
        with contextlib.redirect_stdout(output), contextlib.redirect_stderr(log):
            session = Session(Options(target=target, precision=row.precision, tuned=options.tuned), Clock())
            program = session.read_expression(row.text)
            how = RunOptions("cuda", bench=True, modes=options.modes, json=True)
            outcome = run(session, program, None, options.replacement, how)
    except Exception as error:
        return {"error": short(error)}
    if outcome is not RunOutcome.PASSED:
        return {"error": f"wrong: {_verdict(log.getvalue())}"}
    return json.loads(output.getvalue().splitlines()[-1])


def _verdict(log: str) -> str:
    """The line about the first wrong output, else the last line."""
    lines = log.splitlines()
    return next((line for line in lines if "WRONG" in line), lines[-1] if lines else "")


def measure_table(rows: Sequence[Row], target: str | None, folder: Path | None, options: TableOptions) -> bool:
    """Measure rows on the GPU; see `run_table`. The target is by default the GPU's, the folder bench/results/CARD.

    Raises Error where there is no GPU.
    """
    if (reason := device.missing()) is not None:
        raise Error(f"{reason}; --compile-only compiles the rows without a GPU")
    folder, target = folder or results_folder(), target or device.device_target()
    worker = RowProcess(target, options)
    found = conditions(device.device_name(), target)
    todo, passed = without_known(rows, folder) if options.resume else (rows, True)
    try:
        return run_table(todo, worker, folder, found, limit=options.limit, budget=options.budget) and passed
    finally:
        worker.close()


def compile_table(rows: Sequence[Row], target: str | None, tuned: Path | None = None) -> bool:
    """Compile rows into the cache on all cores and print what went wrong; whether nothing did.

    The target is by default the GPU's, else sm_90; `tuned` is a file of schedules. Raises CompileError if there is no
    compiler.
    """
    target = target or default_target()
    passed = True
    check_compiler()
    with ProcessPoolExecutor(mp_context=_SPAWN) as pool:
        compiled = zip(rows, pool.map(partial(_compile, target=target, tuned=tuned), rows), strict=True)
        for row, error in tracked(compiled, len(rows), "compiling"):
            passed &= not error
            print(f"{row.name}: {error or 'compiled'}", flush=True)
    return passed


def _compile(row: Row, target: str, tuned: Path | None) -> str:
    try:
        session = Session(Options(target=target, precision=row.precision, tuned=tuned), Clock())
        module = session.read_expression(row.text).module
        session.lower(module, Level.KERNEL)
        cubins([session.text(module, Level.CUDA)], nvcc_arch(target_of(module).arch.data))
    except Exception as error:
        return short(error)
    return ""


def results_folder() -> Path:
    """Where the results of this card are by default."""
    return Path("bench", "results", device.device_name().replace(" ", "-"))


def default_target() -> str:
    """What rows are compiled for by default: the GPU, else sm_90."""
    return DEFAULT if device.missing() is not None else device.device_target()


def conditions(card: str, target: str) -> dict[str, str]:
    """How a table is measured."""
    import torch

    return {
        "card": card,
        "target": target,
        "driver": _first_line("nvidia-smi", "--query-gpu=driver_version", "--format=csv,noheader"),
        "deplodock": deplodock.__version__,
        "torch": str(torch.__version__),
        "cuda": str(torch.version.cuda),
        "commit": _first_line("git", "-C", str(Path(deplodock.__file__).parent), "rev-parse", "--short", "HEAD"),
        "command": " ".join(["deplodock", *sys.argv[1:]]),
    }


def _first_line(*command: str) -> str:
    """The first line that a command prints; `unknown` where it cannot run."""
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=20, check=True)
    except (OSError, subprocess.SubprocessError):
        return "unknown"
    return next(iter(done.stdout.splitlines()), "unknown")
