"""Compile CUDA C with nvcc to a cubin and read what ptxas reports about each kernel."""

import contextlib
import hashlib
import importlib.metadata
import os
import re
import shutil
import signal
import subprocess
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from deplodock.errors import CompileError
from deplodock.runtime.environment import compiler_environment

SOURCE = "kernel.cu"
"""The name of the source in messages."""

LIMIT = 300.0
"""The seconds that nvcc may take for one text where nothing else is said."""

_VERSION_LIMIT = 60.0
"""The seconds that `nvcc --version` may take."""

_WHEEL = "nvidia-cuda-nvcc"
_WHEEL_NVCC = "nvidia/cu13/bin/nvcc"
CODE_FLAGS = ("-O3", "-fmad=false")
"""The flags that decide the code, with the architecture: products and sums round as the IR says."""

_FLAGS = (*CODE_FLAGS, "-Xptxas", "-v", "-keep")
_AT_ONCE = ("--split-compile=0", "-Xptxas", "--split-compile=0")
"""The flags with which nvcc compiles the kernels of a text at once, on all cores, to the same code."""

_SPLITS = 13
"""The first release of nvcc with which we have compared the code."""

HEADERS = Path(__file__).with_name("headers")
"""The folder of the header that nvcc reads instead of CUDA's own: those take 0.25 s of a core for each text, 0.4 s for
one with half precision."""

_VARIABLE = "NVCC_CCBIN"
"""What nvcc takes from the environment: its preprocessor (nvcc's manual, "NVCC Environment Variables")."""

_STARTS = {"cubin": b"\x7fELF", "ptx": b"//"}
"""What files of each kind begin with (ELF specification, e_ident; PTX ISA, "Comments")."""

_ENTRY = re.compile(r"Compiling entry function '([^']+)'")
_PROPERTIES = re.compile(r"Function properties for (\S+)")
_STACK = re.compile(r"(\d+) bytes stack frame, (\d+) bytes spill stores, (\d+) bytes spill loads")
_REGISTERS = re.compile(r"Used (\d+) registers")
_SHARED = re.compile(r"(\d+) bytes smem")
_IS_REPORT = re.compile(r"ptxas\s+(info|\.) ")
"""A line of a report; those of NVRTC that go on have a dot."""

_PTX_POSITION = re.compile(r"(\S+\.ptx), line (\d+);")
_POSITION = re.compile(r"(\S+\.(?:cu|ptx))(?:\(|, line )(\d+)[);]")
_KERNEL = re.compile(r"(?:\.entry |__global__ void (?:__\w+__\([^)]*\) )*)(\w+)\(")


@dataclass(frozen=True)
class KernelReport:
    """What ptxas says of one kernel: registers per thread, the rest in bytes (shared memory: the static part)."""

    name: str
    registers: int
    stack_frame: int
    spill_stores: int
    spill_loads: int
    shared: int


@dataclass(frozen=True)
class CompiledKernel:
    """A cubin, the report of each kernel in it by name, and the compiler's whole log."""

    cubin: bytes
    reports: dict[str, KernelReport]
    log: str


def find_nvcc() -> Path | None:
    """Return nvcc of the PyPI wheel, else of `CUDA_HOME`, else of `PATH`; None if there is none."""
    candidates = [_wheel_nvcc(), *_cuda_home_nvcc(), *_path_nvcc()]
    return next((path for path in candidates if path is not None and os.access(path, os.X_OK)), None)


def nvcc_identity(nvcc: Path) -> str:
    """What a cubin depends on besides its source: the compiler's version, our header and flags, its preprocessor.

    Raises CompileError if nvcc does not say its version.
    """
    own = [f"{_VARIABLE}={found}"] if (found := os.environ.get(_VARIABLE)) else []
    return " ".join([_version(nvcc), _digest(HEADERS), *_FLAGS, *own])


@cache
def _digest(folder: Path) -> str:
    """A digest of the files in a folder."""
    return hashlib.sha256(b"".join(file.read_bytes() for file in sorted(folder.iterdir()))).hexdigest()[:16]


@cache
def _version(nvcc: Path) -> str:
    status, output = _run([str(nvcc), "--version"], Path.cwd(), _VERSION_LIMIT, "say its version")
    if status != 0:
        raise CompileError(f"{nvcc} --version {_ending(status)}: {output.strip() or 'there is no message'}")
    return output.strip()


def compiles_at_once(nvcc: Path) -> bool:
    """Whether nvcc compiles several kernels of a text at once. Raises CompileError if it does not say its version."""
    found = re.search(r"release (\d+)\.", _version(nvcc))
    return found is not None and int(found[1]) >= _SPLITS


def compile_cubin(
    source: str, arch: str, *, nvcc: Path | None = None, limit: float = LIMIT, at_once: bool = False
) -> CompiledKernel:
    """Compile CUDA C `source` for `arch` (an nvcc name such as `sm_90a`) without contracting to FMA.

    `at_once` is whether several kernels are compiled at once, see `compiles_at_once`; the code is the same.

    Raises:
        CompileError: no nvcc was found, it rejected the source, was killed, or took more than `limit` seconds; the
            message names the kernels that are to blame and holds nvcc's own, with the offending lines.
    """
    is_split = at_once and len(_KERNEL.findall(source)) > 1
    cubin, log = _made("cubin", (*_FLAGS, *_AT_ONCE) if is_split else _FLAGS, source, arch, nvcc, limit)
    return CompiledKernel(cubin, parse_ptxas_report(log), log)


def compile_ptx(source: str, arch: str, *, nvcc: Path | None = None, limit: float = LIMIT) -> str:
    """The PTX of which `compile_cubin` makes a cubin. Raises as that does."""
    return _made("ptx", CODE_FLAGS, source, arch, nvcc, limit)[0].decode()


def _made(
    kind: str, flags: Sequence[str], source: str, arch: str, nvcc: Path | None, limit: float
) -> tuple[bytes, str]:
    """What nvcc makes of a source, and its log; see `compile_cubin`.

    What our header lacks, CUDA's own have, so a source that is rejected with it has another run without.
    """
    nvcc = nvcc or find_nvcc()
    if nvcc is None:
        raise CompileError(f"no nvcc found: install the wheel {_WHEEL}, set CUDA_HOME, or put nvcc on PATH")
    with tempfile.TemporaryDirectory(prefix="deplodock-") as name:
        folder = Path(name)
        (folder / SOURCE).write_text(source, encoding="utf-8")
        output = folder / f"out.{kind}"
        command = [str(nvcc), f"-{kind}", *flags, f"-arch={arch}", "-o", output.name, SOURCE]
        purpose = f"compile {_kernels(source)} for {arch}"
        status, log = _run([*command, "-I", str(HEADERS)], folder, limit, purpose)
        if status > 0:
            status, log = _run(command, folder, limit, purpose)
        if status > 0:
            raise rejection("nvcc", arch, log, lambda name: _text_of(folder / name))
        if status < 0 or not output.is_file() or not output.read_bytes().startswith(_STARTS[kind]):
            raise CompileError(
                f"nvcc {_ending(status)} for {_kernels(source)} and {arch}, without a {kind}:\n{log}".rstrip()
            )
        return output.read_bytes(), log


def stop() -> None:
    """Kill every nvcc that other threads wait for, with the processes that it started."""
    for process in list(_running):
        _kill(process)


_running: set[subprocess.Popen[bytes]] = set()


def _run(command: Sequence[str], folder: Path, limit: float, purpose: str) -> tuple[int, str]:
    """The exit status and output of a command, which gets a process group of its own.

    Raises CompileError if it cannot be started, or has not ended after `limit` seconds, when it is killed.
    """
    try:
        process = subprocess.Popen(
            command,
            cwd=folder,
            env=compiler_environment(),
            process_group=0,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
        )
    except OSError as error:
        raise CompileError(f"{command[0]} cannot be started: {error.strerror}") from None
    with process:
        _running.add(process)
        try:
            output, _ = process.communicate(timeout=limit)
        except subprocess.TimeoutExpired:
            raise CompileError(f"{Path(command[0]).name} did not {purpose} in {limit:g} s and was stopped") from None
        finally:
            _running.discard(process)
            if process.poll() is None:
                _kill(process)
    return process.returncode, output.decode(errors="replace")


def _kill(process: subprocess.Popen[bytes]) -> None:
    """Kill a process and what it started: nvcc runs its parts as processes of their own, all in its group."""
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)


def _ending(status: int) -> str:
    """How a process ended, as a verb."""
    return f"was killed by {signal.Signals(-status).name}" if status < 0 else f"ended with exit status {status}"


def _kernels(source: str) -> str:
    """The kernels of a source by name."""
    return ", ".join(f"@{name}" for name in _KERNEL.findall(source)) or "the program"


def parse_ptxas_report(log: str) -> dict[str, KernelReport]:
    """Read the reports of all kernels from the output of `ptxas -v`."""
    sections = _ENTRY.split(log)[1:]
    return {name: _kernel_report(name, text) for name, text in zip(sections[::2], sections[1::2], strict=True)}


def _kernel_report(name: str, text: str) -> KernelReport:
    functions = _PROPERTIES.split(text)
    own = next((part for function, part in zip(functions[1::2], functions[2::2], strict=True) if function == name), "")
    stack_frame, spill_stores, spill_loads = _numbers(_STACK, own)
    (registers,) = _numbers(_REGISTERS, text)
    shared = _SHARED.search(text)
    return KernelReport(name, registers, stack_frame, spill_stores, spill_loads, int(shared[1]) if shared else 0)


def _numbers(pattern: re.Pattern[str], text: str) -> tuple[int, ...]:
    match = pattern.search(text)
    if match is None:
        raise CompileError(f"unexpected output of ptxas, no '{pattern.pattern}' in:\n{text.strip()}")
    return tuple(int(number) for number in match.groups())


def rejection(compiler: str, arch: str, log: str, read: Callable[[str], str | None]) -> CompileError:
    """The error for a rejected source: the kernels in which positions of the log lie, else all, and the log.

    The log comes without ptxas's reports, each PTX position followed by the line it names; `read` gives the text of the
    source, or the PTX, by file name.
    """
    blamed: dict[str, None] = {}
    for file, number in _POSITION.findall(log):
        before = "\n".join((read(file) or "").splitlines()[: int(number)])
        blamed |= dict.fromkeys(_KERNEL.findall(before)[-1:])
    names = ", ".join(f"@{name}" for name in blamed) or _kernels(read(SOURCE) or "")
    return CompileError(f"{compiler} rejected {names} for {arch}:\n{_failure(log, read)}")


def _failure(log: str, read: Callable[[str], str | None]) -> str:
    lines: list[str] = []
    for line in log.strip().splitlines():
        if _IS_REPORT.match(line):
            continue
        lines.append(line)
        if (position := _PTX_POSITION.search(line)) is not None:
            number = int(position[2])
            lines += [f"  {text.strip()}" for text in (read(position[1]) or "").splitlines()[number - 1 : number]]
    if "host compiler" in log:
        lines.append("nvcc runs the host's C++ compiler as its preprocessor: put g++ or clang++ on PATH")
    return "\n".join(lines) or "there is no message"


def _text_of(path: Path) -> str | None:
    return path.read_text(encoding="utf-8", errors="replace") if path.is_file() else None


def _wheel_nvcc() -> Path | None:
    try:
        wheel = importlib.metadata.distribution(_WHEEL)
    except importlib.metadata.PackageNotFoundError:
        return None
    return Path(str(wheel.locate_file(_WHEEL_NVCC)))


def _cuda_home_nvcc() -> list[Path]:
    return [Path(os.environ[name]) / "bin" / "nvcc" for name in ("CUDA_HOME", "CUDA_PATH") if os.environ.get(name)]


def _path_nvcc() -> list[Path]:
    found = shutil.which("nvcc")
    return [Path(found)] if found else []
