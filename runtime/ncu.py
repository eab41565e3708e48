"""What Nsight Compute measures of kernels: it runs a program of kernel IR in a process of its own."""

from __future__ import annotations

import csv
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from deplodock.errors import Error

METRICS = {
    "sm__throughput.avg.pct_of_peak_sustained_elapsed": "SM throughput",
    "dram__throughput.avg.pct_of_peak_sustained_elapsed": "DRAM throughput",
    "smsp__issue_active.avg.pct_of_peak_sustained_active": "issue active",
    "sm__warps_active.avg.pct_of_peak_sustained_active": "achieved occupancy",
}
"""The names of metrics in Nsight Compute, and ours; all are percent."""


def measure(text: str, kernels: Sequence[str], *, limit: float) -> dict[str, dict[str, float]]:
    """The metrics of each kernel, the mean of its launches, in a run of a program on drawn inputs.

    Args:
        text: the program at kernel level.
        kernels: the names of its kernels.
        limit: seconds that it may take.

    Raises:
        Error: there is no ncu, or it may not read the counters; in one line.
    """
    ncu = shutil.which("ncu")
    if ncu is None:
        raise Error("ncu (Nsight Compute) is not on PATH")
    with tempfile.TemporaryDirectory(prefix="deplodock-") as name:
        program, log = Path(name, "program.mlir"), Path(name, "ncu.csv")
        program.write_text(text, encoding="utf-8")
        command = [ncu, *_options(kernels, log), sys.executable, "-m", "deplodock.tools.cli", "run", str(program)]
        try:
            done = subprocess.run([*command, "--device", "cuda"], capture_output=True, timeout=limit, check=False)
        except subprocess.TimeoutExpired:
            raise Error(f"ncu did not end in {limit:g} s") from None
        found = log.read_text(encoding="utf-8", errors="replace") if log.is_file() else ""
    metrics = read_metrics(found)
    if not metrics:
        raise Error(_reason(found) or f"ncu measured nothing, its exit code is {done.returncode}")
    return metrics


def read_metrics(log: str) -> dict[str, dict[str, float]]:
    """Read the table of ncu's CSV output, in which a row is a metric of a launch, among its messages."""
    values: dict[str, dict[str, list[float]]] = {}
    for row in csv.DictReader(line for line in log.splitlines() if line.startswith('"')):
        metric = METRICS.get(row.get("Metric Name", ""))
        if metric is not None:
            of_kernel = values.setdefault(row["Kernel Name"].partition("(")[0], {})
            of_kernel.setdefault(metric, []).append(float(row["Metric Value"].replace(",", "")))
    return {
        kernel: {metric: sum(each) / len(each) for metric, each in found.items()} for kernel, found in values.items()
    }


def _options(kernels: Sequence[str], log: Path) -> list[str]:
    """Clocks stay as they are, so that the metrics are those of the times."""
    names = f"regex:^({'|'.join(kernels)})$"
    options = {
        "--log-file": str(log),
        "--clock-control": "none",
        "--metrics": ",".join(METRICS),
        "--kernel-name": names,
    }
    return ["--csv", *(part for option in options.items() for part in option)]


def _reason(log: str) -> str:
    """The first error among ncu's messages."""
    errors = (line.partition("==ERROR==")[2].strip() for line in log.splitlines() if "==ERROR==" in line)
    return next((f"ncu: {error}" for error in errors), "")
