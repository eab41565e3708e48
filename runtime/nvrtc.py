"""Compile CUDA C with NVRTC, the compiler as a library, through the bindings of NVIDIA: for where there is no nvcc.

It is no faster than nvcc with our header, and its code is another: the addresses of shared memory have 64 bits. Of 113
programs for sm_90a 22 had the code of nvcc 13.0, and kernels took from 32 registers less to 27 more.
"""

from __future__ import annotations

import contextlib
import importlib
import importlib.metadata
import os
from pathlib import Path
from typing import Any

from deplodock.errors import CompileError
from deplodock.runtime.nvcc import SOURCE, CompiledKernel, parse_ptxas_report, rejection

_FLAGS = ("--fmad=false", "--ptxas-options=-v")
_HEADERS = "nvidia-cuda-runtime"


def identity() -> str | None:
    """What a cubin depends on besides its source: the library's version and our flags; None if it is not there."""
    try:
        nvrtc = importlib.import_module("cuda.bindings.nvrtc")
        major, minor = _checked(nvrtc, nvrtc.nvrtcVersion())
    except (ImportError, RuntimeError):
        return None
    return " ".join([f"NVRTC {major}.{minor}", *_FLAGS])


def compile_cubin(source: str, arch: str) -> CompiledKernel:
    """Compile CUDA C `source` for `arch` (an nvcc name such as `sm_90a`) without contracting to FMA.

    Raises CompileError if NVRTC rejects the source, with the kernels that are to blame and its own message.
    """
    nvrtc = importlib.import_module("cuda.bindings.nvrtc")
    program = _checked(nvrtc, nvrtc.nvrtcCreateProgram(source.encode(), SOURCE.encode(), 0, [], []))
    options = [f"--gpu-architecture={arch}", *_FLAGS, *(f"--include-path={path}" for path in _include_paths())]
    try:
        status, *_ = nvrtc.nvrtcCompileProgram(program, len(options), [option.encode() for option in options])
        log = _bytes(nvrtc, program, "nvrtcGetProgramLog").rstrip(b"\0 \n").decode(errors="replace")
        if status != nvrtc.nvrtcResult.NVRTC_SUCCESS:
            raise rejection("NVRTC", arch, log, {SOURCE: source}.get)
        return CompiledKernel(_bytes(nvrtc, program, "nvrtcGetCUBIN"), parse_ptxas_report(log), log)
    finally:
        nvrtc.nvrtcDestroyProgram(program)


def _bytes(nvrtc: Any, program: Any, getter: str) -> bytes:
    """What a getter of NVRTC writes into memory of the size that its twin tells."""
    data = b" " * _checked(nvrtc, getattr(nvrtc, f"{getter}Size")(program))
    _checked(nvrtc, getattr(nvrtc, getter)(program, data))
    return data


def _checked(nvrtc: Any, results: tuple[Any, ...]) -> Any:
    """The results of a call behind its status: one alone, or all of them. Raises CompileError if it failed."""
    status, *values = results
    if status != nvrtc.nvrtcResult.NVRTC_SUCCESS:
        raise CompileError(f"NVRTC fails: {nvrtc.nvrtcGetErrorString(status)[1].decode()}")
    return values[0] if len(values) == 1 else values


def _include_paths() -> list[Path]:
    """Where the headers of the toolkit may be: in the wheel, or in `CUDA_HOME`."""
    homes = [Path(os.environ[name]) for name in ("CUDA_HOME", "CUDA_PATH") if os.environ.get(name)]
    with contextlib.suppress(importlib.metadata.PackageNotFoundError):
        homes.append(Path(str(importlib.metadata.distribution(_HEADERS).locate_file("nvidia/cu13"))))
    return [home / "include" for home in homes if (home / "include").is_dir()]
