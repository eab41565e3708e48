"""The forms in which `deplodock compile` gives a program: a level of IR, CUDA, or what its compiler makes of that."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path

from xdsl.dialects.builtin import ModuleOp

from deplodock.analysis.machine.targets import nvcc_arch, target_of
from deplodock.errors import InvalidInputError
from deplodock.passes.driver import Level
from deplodock.runtime.cubins import cubins
from deplodock.runtime.nvcc import compile_ptx
from deplodock.runtime.sass import disassembly
from deplodock.tools.cli.program import Session


class OutputForm(StrEnum):
    """The levels, and the code of the kernels: text in PTX, in the assembly of the GPU, or machine code."""

    TORCH = "torch"
    TENSOR = "tensor"
    LOOP = "loop"
    TILE = "tile"
    KERNEL = "kernel"
    CUDA = "cuda"
    PTX = "ptx"
    SASS = "sass"
    CUBIN = "cubin"

    @property
    def level(self) -> Level:
        """The last level on the way."""
        return Level.CUDA if self in _CODES else Level(self.value)


_CODES = (OutputForm.PTX, OutputForm.SASS, OutputForm.CUBIN)


def form_of(given: OutputForm | None, output: Path | None) -> OutputForm:
    """The form that is asked for: by name, else by how the name of the file ends, else CUDA.

    Raises InvalidInputError where both say something else, and for machine code without a file.
    """
    ending = "" if output is None else output.suffix.removeprefix(".")
    by_file = next((form for form in _CODES if form.value == ending), None)
    if given is not None and by_file is not None and given is not by_file:
        raise InvalidInputError(f"--ir {given} does not go into {output}: a file of that name holds {by_file}")
    form = given or by_file or OutputForm.CUDA
    if form is OutputForm.CUBIN and output is None:
        raise InvalidInputError("--ir cubin is machine code, not text: give the file to write with -o")
    return form


def code(session: Session, module: ModuleOp, text: str, form: OutputForm) -> bytes:
    """The CUDA text of a module, or what is compiled of it. Raises CompileError where that cannot be done."""
    if form not in _CODES:
        return text.encode()
    arch = nvcc_arch(target_of(module).arch.data)
    with session.clock.part("nvcc"):
        if form is OutputForm.PTX:
            return compile_ptx(text, arch).encode()
        (cubin,) = cubins([text], arch)
        return cubin.kernel.cubin if form is OutputForm.CUBIN else disassembly(cubin.kernel.cubin).encode()
