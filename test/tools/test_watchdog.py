"""How tools end where a GPU does not: after a limit, and after a fault."""

from __future__ import annotations

import subprocess
import sys


def run(code: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)


def test_what_takes_too_long_is_ended_with_a_message() -> None:
    done = run(
        "import time\nfrom deplodock.tools.watchdog import limited\n"
        "with limited(60, 'this ends'):\n  pass\n"
        "with limited(0.01, '@k_waits'):\n  print('started')\n  time.sleep(600)\n"
    )
    assert (done.returncode, done.stdout) == (1, "started\n")
    assert done.stderr == "deplodock: error: no end in 0.01 s: @k_waits\n"


def test_after_a_fault_nothing_is_cleaned_up() -> None:
    done = run(
        "import atexit\nfrom deplodock.errors import DeviceError\nfrom deplodock.tools.diagnostics import run_tool\n"
        "def body():\n  raise DeviceError('a fault in @k')\n"
        "atexit.register(print, 'clean-up')\nrun_tool('deplodock', body)\n"
    )
    assert (done.returncode, done.stdout, done.stderr) == (1, "", "deplodock: error: a fault in @k\n")
