"""What is left of a program when it runs on a GPU: its plan, the CUDA text of its kernels, and their machine code."""

from __future__ import annotations

from dataclasses import dataclass, replace

from xdsl.dialects.builtin import ModuleOp

from deplodock.analysis.machine.targets import nvcc_arch, target_of
from deplodock.codegen.cuda import print_module
from deplodock.dialects import kernel
from deplodock.errors import CompileError
from deplodock.runtime.cubins import check_compiler, cubins
from deplodock.runtime.plan import ProgramPlan, program_plan


@dataclass(frozen=True)
class PlannedProgram:
    """A plan, the text of its kernels, empty without any, and the architecture, as `sm_90`, that both are for.

    `cubin` is what the text was compiled to, None if that is still to be done.
    """

    plan: ProgramPlan
    text: str
    arch: str
    cubin: bytes | None = None


def planned_program(module: ModuleOp) -> PlannedProgram:
    """What is left of a module at kernel level. Raises what `program_plan` and `print_module` raise."""
    text = print_module(module) if kernel.functions(module) else ""
    return PlannedProgram(program_plan(module), text, target_of(module).arch.data)


def compiled(program: PlannedProgram) -> PlannedProgram:
    """The program with its cubin, or as it is where nothing compiles CUDA. Raises CompileError for a rejected text."""
    try:
        check_compiler()
    except CompileError:
        return program
    (cubin,) = cubins([program.text], nvcc_arch(program.arch))
    return replace(program, cubin=cubin.kernel.cubin)
