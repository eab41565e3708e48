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


SLOW = """
import time
from deplodock.tools.clock import Clock
from deplodock.tools.progress import working
with Clock().part("reading"):
    time.sleep(1.2)
    with working("case 1") as say:
        time.sleep(0.8)
        say("case 2")
        time.sleep(0.8)
print("done")
"""


def test_a_part_is_shown_from_the_first_second_and_cleared() -> None:
    terminal, end = pty.openpty()
    done = subprocess.run([sys.executable, "-c", SLOW], stdout=subprocess.PIPE, stderr=end, text=True, check=True)
    os.close(end)
    assert done.stdout == "done\n"
    shown = os.read(terminal, 1 << 16).decode().split("\r\x1b[K")
    os.close(terminal)
    texts = [text.rpartition(",")[0] for text in shown if text]
    assert texts[0] == "deplodock: reading"
    assert list(dict.fromkeys(texts)) == ["deplodock: reading", "deplodock: case 1", "deplodock: case 2"]
    assert shown[-1] == ""
    piped = subprocess.run([sys.executable, "-c", SLOW], capture_output=True, text=True, check=True)
    assert piped.stderr == ""
