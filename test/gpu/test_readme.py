"""What the README does with a printed kernel, without deplodock."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path


def test_pycuda_compiles_loads_and_starts_a_printed_kernel(repository: Path, nvcc: Path, tmp_path: Path) -> None:
    page = (repository / "README.md").read_text()
    (expression,) = re.findall(r"^    E='(.*)'$", page, re.MULTILINE)
    ((line, program),) = re.findall(
        r"^    deplodock (compile [^\n]*) -o norm\.cu\n\n```python\n(.*?)^```", page, re.MULTILINE | re.DOTALL
    )
    arguments = [expression if argument == '"$E"' else argument for argument in line.split()]
    command = [sys.executable, "-m", "deplodock.tools.cli", *arguments, "-o", "norm.cu"]
    subprocess.run(command, cwd=tmp_path, check=True)
    assert len(program.splitlines()) == 10
    path = f"{nvcc.parent}{os.pathsep}{os.environ['PATH']}"
    done = subprocess.run(
        [sys.executable, "-c", program],
        cwd=tmp_path,
        env={**os.environ, "PATH": path},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
