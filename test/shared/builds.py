"""C sources of tests as libraries."""

from __future__ import annotations

import subprocess
from collections.abc import Sequence
from pathlib import Path


def build(sources: Sequence[Path], library: Path, toolkit: Path) -> None:
    """Compile sources to a library, with warnings as errors, and with the headers of a toolkit of CUDA."""
    flags = ("-std=c11", "-Wall", "-Wextra", "-Werror", "-pedantic", "-shared", "-fPIC")
    subprocess.run(["cc", *flags, f"-I{toolkit}/include", *sources, "-o", library], check=True)
