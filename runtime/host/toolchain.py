"""The host's C++ compiler, and what it compiles once: the header of printed kernels and the machine that runs them."""

from __future__ import annotations

import hashlib
import re
import shutil
import subprocess
import tempfile
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from deplodock.errors import CompileError
from deplodock.runtime.cubins import cache_folder
from deplodock.runtime.environment import compiler_environment
from deplodock.runtime.files import is_private
from deplodock.runtime.store import is_used, make_private

_SOURCES = Path(__file__).parent
_HEADERS = ("types.h", "engine.h", "memory.h", "ptx.h", "machine.h", "cuda.h")
_UNITS = ("engine.cpp", "program.cpp")
_STANDARD = ("-std=c++17", "-w", "-U_FORTIFY_SOURCE")
_FLAGS = (
    *_STANDARD,
    # As nvcc with -fmad=false: a product and a sum round twice. math.h sets errno otherwise.
    *("-O1", "-ffp-contract=off", "-fno-math-errno"),
    # Variables that nobody has written hold a pattern, the same in each run.
    "-ftrivial-auto-var-init=pattern",
    # Bounds and alignment are checked by memory.h, which knows the names of buffers.
    *("-fsanitize=signed-integer-overflow,shift,integer-divide-by-zero", "-fno-sanitize-recover=undefined"),
)
_ERROR = re.compile(r"error: (.*)")


def find_compiler() -> Path | None:
    """g++ or clang++ on PATH, None if there is neither."""
    found = shutil.which("g++") or shutil.which("clang++")
    return None if found is None else Path(found)


@dataclass(frozen=True)
class Toolchain:
    """A compiler, and the folder of what it compiled of our own sources."""

    compiler: Path
    folder: Path

    def build(self, code: str, output: Path) -> None:
        """Compile a translation unit to an executable. Raises CompileError if the compiler rejects it."""
        with tempfile.TemporaryDirectory(prefix="deplodock-") as name:
            source = Path(name) / "programs.cpp"
            source.write_text(code, encoding="utf-8")
            objects = [str(self.folder / f"{unit}.o") for unit in _UNITS]
            _run(
                [
                    str(self.compiler),
                    *_FLAGS,
                    "-include",
                    str(self.folder / "cuda.h"),
                    str(source),
                    *objects,
                    "-o",
                    str(output),
                ]
            )


@cache
def toolchain() -> Toolchain:
    """The compiler of this machine, with our own sources compiled.

    Raises CompileError if there is no compiler, or it does not compile them.
    """
    compiler = find_compiler()
    if compiler is None:
        raise CompileError("no C++ compiler found: put g++ or clang++ on PATH")
    version = _done([str(compiler), "--version"]).stdout
    sources = [(_SOURCES / name).read_text(encoding="utf-8") for name in (*_HEADERS, *_UNITS)]
    key = hashlib.sha256("\0".join([str(compiler), version, *_FLAGS, *sources]).encode()).hexdigest()[:32]
    folder = cache_folder() / f"host-{key}"
    if not is_used(folder.parent) or not _can_make(folder.parent):
        folder = Path(_own_folder().name) / folder.name
    if not _is_ours(folder):
        shutil.rmtree(folder, ignore_errors=True)
        _prepare(compiler, folder)
    return Toolchain(compiler, folder)


def _can_make(folder: Path) -> bool:
    """Make the folder of what is kept; whether that is possible."""
    try:
        make_private(folder)
    except OSError:
        return False
    return True


@cache
def _own_folder() -> tempfile.TemporaryDirectory[str]:
    """A folder of this process, where no other can be had."""
    return tempfile.TemporaryDirectory(prefix="deplodock-")


def _is_ours(folder: Path) -> bool:
    """Whether a folder and all that is linked from it are there, and this user's alone."""
    try:
        statuses = [path.lstat() for path in (folder, *folder.iterdir())]
    except OSError:
        return False
    return all(map(is_private, statuses))


def _prepare(compiler: Path, folder: Path) -> None:
    """Compile our own sources to a folder, which appears when all of it is there."""
    with tempfile.TemporaryDirectory(prefix=f"{folder.name}-", dir=folder.parent) as name:
        place = Path(name) / "made"
        place.mkdir(mode=0o700)
        for header in _HEADERS:
            shutil.copyfile(_SOURCES / header, place / header)
        for unit in _UNITS:
            _run([str(compiler), *_STANDARD, "-O2", "-c", str(_SOURCES / unit), "-o", str(place / f"{unit}.o")])
        _run([str(compiler), *_FLAGS, "-x", "c++-header", str(place / "cuda.h"), "-o", str(place / "cuda.h.gch")])
        try:
            place.rename(folder)
        except OSError:
            # Another process was faster.
            if not folder.is_dir():
                raise


def _run(command: list[str]) -> None:
    done = _done(command)
    if done.returncode != 0:
        first = _ERROR.search(done.stderr)
        message = first[1] if first is not None else f"exit code {done.returncode}"
        raise CompileError(
            f"{Path(command[0]).name} rejected the text for the host: {message}\n{done.stderr.strip()[:4000]}"
        )


def _done(command: list[str]) -> subprocess.CompletedProcess[str]:
    environment = compiler_environment()
    return subprocess.run(command, env=environment, capture_output=True, text=True, errors="replace", check=False)
