"""Reading what Nsight Compute measures."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from deplodock.errors import Error
from deplodock.runtime.ncu import measure, read_metrics

LOG = """==PROF== Connected to process 71 (/usr/bin/python3.12)
==PROF== Profiling "k_rms_norm" - 0: 0%....50%....100% - 1 pass
==PROF== Disconnected from process 71
"ID","Process ID","Kernel Name","Block Size","Section Name","Metric Name","Metric Unit","Metric Value"
"0","71","k_rms_norm","(256, 1, 1)","Command line","dram__throughput.avg.pct_of_peak_sustained_elapsed","%","40.5"
"0","71","k_rms_norm","(256, 1, 1)","Command line","smsp__issue_active.avg.pct_of_peak_sustained_active","%","1,000"
"1","71","k_rms_norm","(256, 1, 1)","Command line","dram__throughput.avg.pct_of_peak_sustained_elapsed","%","41.5"
"2","71","k_add(const float *)","(256, 1, 1)","Command line","gpc__cycles_elapsed.max","cycle","8"
"""


def test_metrics_are_the_means_of_launches() -> None:
    assert read_metrics(LOG) == {"k_rms_norm": {"DRAM throughput": 41.0, "issue active": 1000.0}}
    assert read_metrics("==ERROR== nothing\n") == {}


def script(folder: Path, body: str) -> None:
    """Put an `ncu` in a folder, which runs Python with its command line's options in `options`."""
    path = folder / "ncu"
    head = f"#!{sys.executable}\nimport sys\noptions = dict(zip(sys.argv, sys.argv[1:]))\n"
    path.write_text(f"{head}log = open(options['--log-file'], 'w')\n{body}\n", encoding="utf-8")
    path.chmod(0o755)


def test_ncu_gets_the_program(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    script(tmp_path, f"assert open(options['run']).read() == 'text'\nlog.write({LOG!r})")
    assert list(measure("text", ["k_rms_norm"], limit=60)) == ["k_rms_norm"]


def test_why_there_are_no_metrics_is_one_line(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(Error, match=r"^ncu \(Nsight Compute\) is not on PATH$"):
        measure("", ["k"], limit=60)
    script(tmp_path, "log.write('==PROF== hello\\n==ERROR== ERR_NVGPUCTRPERM - no permission\\n')")
    with pytest.raises(Error, match=r"^ncu: ERR_NVGPUCTRPERM - no permission$"):
        measure("", ["k"], limit=60)
    script(tmp_path, "sys.exit(3)")
    with pytest.raises(Error, match=r"^ncu measured nothing, its exit code is 3$"):
        measure("", ["k"], limit=60)
