"""Cubins by content: a text that was compiled once with the same compiler and flags is not compiled again."""

from __future__ import annotations

import hashlib
import json
import os
import tempfile
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass
from pathlib import Path

from deplodock.errors import CompileError
from deplodock.runtime import nvrtc
from deplodock.runtime.nvcc import (
    LIMIT,
    CompiledKernel,
    KernelReport,
    compile_cubin,
    compiles_at_once,
    find_nvcc,
    nvcc_identity,
    stop,
)
from deplodock.runtime.store import Store


@dataclass(frozen=True)
class Cubin:
    """Compiled kernels and whether they were compiled now, not found."""

    kernel: CompiledKernel
    is_new: bool


def cubins(texts: Sequence[str], arch: str, *, folder: Path | None = None, limit: float = LIMIT) -> list[Cubin]:
    """Compile CUDA texts, equal ones once and as many at a time as there are cores.

    Args:
        texts: CUDA C.
        arch: an nvcc name such as `sm_90a`.
        folder: where cubins are kept; by default `$DEPLODOCK_CACHE`, else `deplodock` in the user's cache folder.
        limit: the seconds that nvcc may take for a text; NVRTC, which is part of this process, has no limit.

    Raises:
        CompileError: there is neither nvcc nor NVRTC, it rejects a text, or takes longer than the limit.
    """
    store = Store(folder or cache_folder())
    identity, compile = _compiler(limit)
    distinct = list(dict.fromkeys(texts))

    def made(text: str) -> Cubin:
        key = hashlib.sha256("\0".join([text, arch, identity]).encode()).hexdigest()
        if (stored := store.read(key)) is not None:
            return Cubin(_unpack(stored), is_new=False)
        kernel = compile(text, arch)
        store.write(key, _pack(kernel))
        return Cubin(kernel, is_new=True)

    with ThreadPoolExecutor(os.cpu_count()) as pool:
        try:
            by_text = dict(zip(distinct, pool.map(made, distinct), strict=True))
        except KeyboardInterrupt:
            pool.shutdown(wait=False, cancel_futures=True)
            stop()
            raise
    return [by_text[text] for text in texts]


def compiled_text(text: str, arch: str, *, limit: float = LIMIT) -> CompiledKernel:
    """Compile a CUDA text that nobody will ask for again, and keep nothing. Raises as `cubins`."""
    _, compile = _compiler(limit)
    return compile(text, arch)


def cache_folder() -> Path:
    """The folder of compiled kernels (XDG base directory specification); a variable that is empty is as if not set."""
    if own := os.environ.get("DEPLODOCK_CACHE"):
        return Path(own)
    if (cache := Path(os.environ.get("XDG_CACHE_HOME", ""))).is_absolute():
        return cache / "deplodock"
    try:
        return Path.home() / ".cache" / "deplodock"
    except RuntimeError:
        # A user without a home, as in some containers.
        return Path(tempfile.gettempdir()) / f"deplodock-{os.geteuid()}"


def _pack(kernel: CompiledKernel) -> bytes:
    """A line of JSON with the log and the reports, and the cubin behind it."""
    facts = {"log": kernel.log, "reports": [asdict(report) for report in kernel.reports.values()]}
    return json.dumps(facts).encode() + b"\n" + kernel.cubin


def _unpack(data: bytes) -> CompiledKernel:
    line, _, cubin = data.partition(b"\n")
    facts = json.loads(line)
    reports = [KernelReport(**values) for values in facts["reports"]]
    return CompiledKernel(cubin, {report.name: report for report in reports}, facts["log"])


def check_compiler() -> None:
    """Raise CompileError if there is nothing here that compiles CUDA."""
    _compiler(LIMIT)


def _compiler(limit: float) -> tuple[str, Callable[[str, str], CompiledKernel]]:
    """What a cubin depends on besides its source, and what compiles it: nvcc, else NVRTC."""
    if (nvcc := find_nvcc()) is not None:
        at_once = compiles_at_once(nvcc)
        return nvcc_identity(nvcc), lambda text, arch: compile_cubin(
            text, arch, nvcc=nvcc, limit=limit, at_once=at_once
        )
    if (identity := nvrtc.identity()) is not None:
        return identity, nvrtc.compile_cubin
    raise CompileError(
        "no nvcc found: install the wheel nvidia-cuda-nvcc, set CUDA_HOME, or put nvcc on PATH; NVRTC does as well, "
        "from the wheels cuda-bindings and nvidia-cuda-nvrtc"
    )
