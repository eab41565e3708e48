"""A process that compiles programs and drops them returns to its memory."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

CODE = """
import ctypes, gc, sys
import psutil, torch, deplodock
from deplodock.pytorch.partition import PartsRunner
from deplodock.pytorch.compiled import CompiledProgram

def compile_one(number):
    x, program = torch.ones(3, number + 2), lambda x: (x * number).relu().sum(1)
    if sys.argv[1] == "compile":
        deplodock.compile(program, (x,))(x)
    else:
        torch._dynamo.reset()
        torch.compile(program, backend="deplodock")(x)

def measure():
    gc.collect()
    ctypes.CDLL(None).malloc_trim(0)
    process = psutil.Process()
    kept = [value for value in gc.get_objects() if type(value) in (PartsRunner, CompiledProgram)]
    return process.memory_info().rss, process.num_fds(), len(kept)

for number in range(110):
    compile_one(number)
    if number in (59, 69):
        before = measure()
print(*before)
print(*measure())
"""
MOST_BYTES = 100_000
"""What each program may leave behind. PyTorch itself keeps the text of graphs and types of calls: the backend `eager`
leaves some 11,000 bytes, this one 20,000 to 40,000."""


@pytest.mark.parametrize("kind", ["compile", "backend"])
def test_memory_and_files_stay(kind: str, tools_with_torch: Path) -> None:
    command = [tools_with_torch / "python", "-c", CODE, kind]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    (before, files, _), (after, files_after, kept) = (map(int, line.split()) for line in done.stdout.splitlines())
    print(f"{kind}: {(after - before) / 40:.0f} bytes a program")
    assert after - before < 40 * MOST_BYTES
    assert files_after == files
    # TorchDynamo holds the last.
    assert kept <= 1
