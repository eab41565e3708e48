"""The names that a kernel cannot have, as nvcc declares them: `python -m deplodock.tools.cuda_names` prints them.

nvcc includes headers of CUDA and of the C library in each text. Their identifiers are those of the headers after the
preprocessor; a name is taken if nvcc does not compile an empty kernel of that name.
"""

from __future__ import annotations

import re
import subprocess
import tempfile
from collections.abc import Sequence
from pathlib import Path

from deplodock.codegen.names import KEYWORDS, identifier
from deplodock.codegen.scalars import HEADERS
from deplodock.runtime.nvcc import find_nvcc

_INCLUDES = "".join(f"#include <{header}>\n" for header in HEADERS.values())
_FLAGS = ("-arch=sm_90a", "-Xcudafe", "--error_limit=1000000")


def header_names() -> list[str]:
    """The identifiers in the headers that a kernel may have as its name by their spelling."""
    with tempfile.TemporaryDirectory() as folder:
        source = Path(folder, "names.cu")
        source.write_text(_INCLUDES)
        declared, macros = (_nvcc(source, "-E", *flags) for flags in ((), ("-Xcompiler", "-dM")))
    found = {*re.findall(r"\b[A-Za-z_]\w*\b", declared), *re.findall(r"(?m)^#define (\w+)", macros)}
    return sorted(name for name in found if name == identifier(name) and name not in KEYWORDS)


def taken_names(names: Sequence[str]) -> list[str]:
    """Those of the names by which nvcc compiles no kernel."""
    first, left, taken = _INCLUDES.count("\n") + 1, list(names), set[str]()
    while True:
        with tempfile.TemporaryDirectory() as folder:
            source = Path(folder, "names.cu")
            kernels = (f'extern "C" __global__ void {name}(float* x) {{}}\n' for name in left)
            source.write_text(_INCLUDES + "".join(kernels))
            log = _nvcc(source, "-cubin", "-o", str(Path(folder, "names.cubin")))
        lines = [int(line) for line in re.findall(r"names\.cu[:(](\d+)(?:\)|:\d+): error", log)]
        # An error of the preprocessor ends a run before nvcc looks at declarations, so what is left is tried again.
        found = {left[line - first] for line in lines if 0 <= line - first < len(left)}
        if not found:
            return sorted(taken)
        taken |= found
        left = [name for name in left if name not in found]


def _nvcc(source: Path, *flags: str) -> str:
    command = [str(find_nvcc()), *_FLAGS, *flags, str(source)]
    done = subprocess.run(command, capture_output=True, text=True, errors="replace", check=False)
    return done.stdout + done.stderr


if __name__ == "__main__":
    print("\n".join(taken_names(header_names())))
