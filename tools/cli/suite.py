"""`deplodock bench --suite`: a folder of problems in KernelBench's form, each in a process of its own."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from deplodock.dialects.precision import PRECISIONS
from deplodock.errors import Error
from deplodock.runtime import device
from deplodock.runtime.cubins import check_compiler
from deplodock.tools.bench.report import products_of_pytorch
from deplodock.tools.bench.rows import Row
from deplodock.tools.cli.table import conditions, default_target, record, results_folder, without_known
from deplodock.tools.progress import tracked
from deplodock.tools.suite.options import SuiteOptions
from deplodock.tools.suite.report import page
from deplodock.tools.suite.workers import answers


def measure_suite(
    rows: Sequence[Row], suite: Path, folder: Path | None, options: SuiteOptions, *, resume: bool
) -> bool:
    """Measure problems on the GPU and write the results after each; whether all are right and measured.

    The folder of the results is by default bench/results/CARD/SUITE, and in it that of a precision below the highest.
    With `resume`, problems that have results there are not measured again. Raises Error where there is no GPU.
    """
    if (reason := device.missing()) is not None:
        raise Error(f"{reason}; --compile-only compiles the problems without a GPU")
    precision = rows[0].precision
    folder = folder or results_folder() / suite.resolve().name / ("" if precision == PRECISIONS[0] else precision)
    todo, passed = without_known(rows, folder) if resume else (rows, True)
    target = options.target or default_target()
    found = {**conditions(device.device_name(), target), **_setting(precision)}
    return record(answers(todo, replace(options, target=target)), len(todo), folder, found, page) and passed


def compile_suite(rows: Sequence[Row], options: SuiteOptions) -> bool:
    """Compile problems into the cache on all cores and print what went wrong; whether nothing did.

    Raises CompileError if there is no compiler.
    """
    check_compiler()
    passed = True
    options = replace(options, target=options.target or default_target())
    for row, found in tracked(answers(rows, options), len(rows), "compiling"):
        passed &= "error" not in found
        print(f"{row.name}: {found['error'] if 'error' in found else _compiled(found)}", flush=True)
    return passed


def _setting(precision: str) -> dict[str, str]:
    """How products of FP32 are computed, ours and PyTorch's."""
    tf32 = "TF32 on" if products_of_pytorch(precision) == "TF32" else "TF32 off"
    return {"tf32": tf32} if precision == PRECISIONS[0] else {"tf32": tf32, "precision": f"ours {precision}"}


def _compiled(found: dict[str, Any]) -> str:
    return f"compiled in {found['seconds']:.1f} s"
