"""Cubins by content: a text that was compiled once with the same compiler and flags is not compiled again."""

from __future__ import annotations

import hashlib
import json
import os
import tempfile
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass
from functools import cache
from pathlib import Path

from deplodock.errors import CompileError
from deplodock.runtime import nvrtc
from deplodock.runtime.nvcc import CompiledKernel, KernelReport, compile_cubin, find_nvcc, nvcc_identity


@dataclass(frozen=True)
class Cubin:
    """Compiled kernels and whether they were compiled now, not found."""

    kernel: CompiledKernel
    is_new: bool


def cubins(texts: Sequence[str], arch: str, *, folder: Path | None = None) -> list[Cubin]:
    """Compile CUDA texts, equal ones once and as many at a time as there are cores.

    Args:
        texts: CUDA C.
        arch: an nvcc name such as `sm_90a`.
        folder: where cubins are kept; by default `$DEPLODOCK_CACHE`, else `deplodock` in the user's cache folder.

    Raises:
        CompileError: there is neither nvcc nor NVRTC, or it rejects a text.
    """
    place = folder or cache_folder()
    distinct = list(dict.fromkeys(texts))
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        made = dict(zip(distinct, pool.map(lambda text: _cubin(text, arch, place), distinct), strict=True))
    return [made[text] for text in texts]


def cache_folder() -> Path:
    """The folder of compiled kernels (XDG base directory specification)."""
    if (own := os.environ.get("DEPLODOCK_CACHE")) is not None:
        return Path(own)
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "deplodock"


def _cubin(text: str, arch: str, folder: Path) -> Cubin:
    identity, compile = _compiler()
    key = hashlib.sha256("\0".join([text, arch, identity]).encode()).hexdigest()
    binary, report = folder / f"{key}.cubin", folder / f"{key}.json"
    if binary.is_file() and report.is_file():
        stored = json.loads(report.read_text(encoding="utf-8"))
        reports = {name: KernelReport(**values) for name, values in stored["reports"].items()}
        return Cubin(CompiledKernel(binary.read_bytes(), reports, stored["log"]), is_new=False)
    kernel = compile(text, arch)
    folder.mkdir(parents=True, exist_ok=True)
    _write(binary, kernel.cubin)
    stored = {"log": kernel.log, "reports": {name: asdict(report) for name, report in kernel.reports.items()}}
    _write(report, json.dumps(stored).encode())
    return Cubin(kernel, is_new=True)


def _write(path: Path, data: bytes) -> None:
    """Write a file so that no other process sees half of it."""
    with tempfile.NamedTemporaryFile(dir=path.parent, delete=False) as file:
        file.write(data)
    Path(file.name).replace(path)


@cache
def _compiler() -> tuple[str, Callable[[str, str], CompiledKernel]]:
    """What a cubin depends on besides its source, and what compiles it: nvcc, else NVRTC."""
    if (nvcc := find_nvcc()) is not None:
        return nvcc_identity(nvcc), compile_cubin
    if (identity := nvrtc.identity()) is not None:
        return identity, nvrtc.compile_cubin
    raise CompileError(
        "no nvcc found: install the wheel nvidia-cuda-nvcc, set CUDA_HOME, or put nvcc on PATH; NVRTC does as well, "
        "from the wheels cuda-bindings and nvidia-cuda-nvrtc"
    )
