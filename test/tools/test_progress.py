"""Progress bars, for people at a terminal only."""

from __future__ import annotations

import os
import pty
import subprocess
import sys

CODE = "from deplodock.tools.progress import tracked\nfor i in tracked(range(3), 3, 'measuring'):\n  print(i)\n"


def test_a_pipe_sees_no_bar() -> None:
    done = subprocess.run([sys.executable, "-c", CODE], capture_output=True, text=True, check=True)
    assert (done.stdout, done.stderr) == ("0\n1\n2\n", "")


def test_a_terminal_sees_a_bar_and_a_pipe_the_results() -> None:
    terminal, end = pty.openpty()
    done = subprocess.run([sys.executable, "-c", CODE], stdout=subprocess.PIPE, stderr=end, text=True, check=True)
    os.close(end)
    assert done.stdout == "0\n1\n2\n"
    assert b"measuring" in os.read(terminal, 1 << 16)
    os.close(terminal)
