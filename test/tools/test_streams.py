"""The tools with closed standard streams, and interrupted while they start."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

FOLDER = Path(sys.executable).parent
MODULE = """func.func @f(%x: memref<4xf32>, %out: memref<4xf32>) {
  loop.for %i = 0 to 4 {
    %v = loop.load %x[%i] : memref<4xf32>
    loop.store %v, %out[%i] : memref<4xf32>
  }
  func.return
}
"""
OUTPUT, INPUT = "standard output is closed", "standard input is closed"


@pytest.mark.parametrize(
    ("command", "code", "message"),
    [
        ("deplodock-opt {file} >&-", 1, f"deplodock-opt: error: {OUTPUT}\n"),
        ("deplodock compile {file} >&-", 1, f"deplodock: error: {OUTPUT}\n"),
        ("deplodock-opt --show-passes >&-", 1, f"deplodock-opt: error: {OUTPUT}\n"),
        ("deplodock --help >&-", 1, f"deplodock: error: {OUTPUT}\n"),
        ("deplodock-opt {file} -o {file}.out >&-", 0, ""),
        ("deplodock compile {file} -o {file}.cu >&- 2>&- <&-", 0, ""),
        ("deplodock-opt <&-", 1, f"deplodock-opt: error: {INPUT}\n"),
        ("deplodock compile - <&-", 1, f"deplodock: error: {INPUT}\n"),
        ("deplodock-opt {file} <&- >/dev/null", 0, ""),
        ("deplodock-opt {file} 2>&- >/dev/null", 0, ""),
        ("deplodock-opt {file}.none 2>&-", 1, ""),
        ("deplodock compile {file} 2>&- >/dev/null", 0, ""),
        ("deplodock compile {file} >&- 2>&-", 1, ""),
    ],
)
def test_closed_streams(tmp_path: Path, command: str, code: int, message: str) -> None:
    file = tmp_path / "in.mlir"
    file.write_text(MODULE)
    done = subprocess.run(
        f"{FOLDER}/{command.format(file=file)}", shell=True, capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stdout, done.stderr) == (code, "", message)
    for name in (".out", ".cu"):
        if f"{{file}}{name}" in command:
            assert Path(f"{file}{name}").stat().st_size > 0


INTERRUPTED = """
import builtins, os, signal, sys
from deplodock.tools import cli

def interrupted(name, *_):
    try:
        os.kill(os.getpid(), signal.SIGINT)
    except KeyboardInterrupt:
        raise ImportError(name)

builtins.__import__ = interrupted
sys.argv = ["tool", *sys.argv[2:]]
{"opt": cli.optimizer, "main": cli.main}[os.environ["ENTRY"]]()
"""
"""An entry of the tools whose imports are interrupted, by a module that takes the exception for an error of its own."""


def heed_interrupts() -> None:
    """A process that a shell starts in the background ignores interrupts, and so do those that it starts."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)


@pytest.mark.parametrize("entry", ["opt", "main"])
@pytest.mark.parametrize("arguments", [[], ["-c", "torch.ones(3)"]])
def test_interrupt_during_imports(entry: str, arguments: list[str]) -> None:
    done = subprocess.run(
        [sys.executable, "-c", INTERRUPTED, "-", *arguments],
        env=os.environ | {"ENTRY": entry},
        preexec_fn=heed_interrupts,
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stdout, done.stderr) == (130, "", "")


def test_interrupt_while_the_tool_waits_for_input() -> None:
    process = subprocess.Popen(
        [FOLDER / "deplodock-opt", "--print-ir-before-all"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        preexec_fn=heed_interrupts,
    )
    time.sleep(3)
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=60)
    assert (process.returncode, out, err) == (130, "", "")
