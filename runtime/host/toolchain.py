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
    version = subprocess.run([str(compiler), "--version"], capture_output=True, text=True, check=False).stdout
    sources = [(_SOURCES / name).read_text(encoding="utf-8") for name in (*_HEADERS, *_UNITS)]
    key = hashlib.sha256("\0".join([str(compiler), version, *_FLAGS, *sources]).encode()).hexdigest()[:32]
    folder = cache_folder() / f"host-{key}"
    if not folder.is_dir():
        _prepare(compiler, folder)
    return Toolchain(compiler, folder)


def _prepare(compiler: Path, folder: Path) -> None:
    """Compile our own sources to a folder, which appears when all of it is there."""
    folder.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix=f"{folder.name}-", dir=folder.parent) as name:
        place = Path(name) / "made"
        place.mkdir()
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
    done = subprocess.run(command, capture_output=True, text=True, errors="replace", check=False)
    if done.returncode != 0:
        first = _ERROR.search(done.stderr)
        message = first[1] if first is not None else f"exit code {done.returncode}"
        raise CompileError(
            f"{Path(command[0]).name} rejected the text for the host: {message}\n{done.stderr.strip()[:4000]}"
        )
