"""Static performance gates: what some programs compile to, kept in `test/codegen/expected/`, compared without a GPU.

    python -m deplodock.tools.gates             shows what differs, exit code 1 if anything does
    python -m deplodock.tools.gates --update    writes the files anew

A file holds programs of one kind, and each program its kernels. What follows from the IR alone is exact. What ptxas
decides may move a little between its versions; `MEASURES` says how far before it counts as a regression.
"""

from __future__ import annotations

import json
import math
import re
import sys
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Operation, SSAValue

from deplodock.analysis.access.alignment import element_bytes
from deplodock.analysis.machine.banks import kernel_wavefronts
from deplodock.analysis.machine.resources import shared_bytes
from deplodock.analysis.machine.targets import nvcc_arch
from deplodock.analysis.operations import ancestors
from deplodock.codegen.cuda import print_module
from deplodock.dialects import kernel, loop
from deplodock.dialects.interfaces import accesses_of
from deplodock.frontend.expression import read_expression
from deplodock.passes.driver import Level, lower, new_context
from deplodock.runtime.cubins import cubins
from deplodock.runtime.nvcc import CompiledKernel, find_nvcc, nvcc_identity
from deplodock.runtime.sass import Instruction, disassemble, loop_statistics

FOLDER = Path(__file__).parents[1] / "test" / "codegen" / "expected"

Value = int | float | str
Figures = Mapping[str, Value]
Kernels = Mapping[str, Figures]


@dataclass(frozen=True)
class GateMeasure:
    """A figure of a kernel. It is worse when it grows by more than the slack, or changes at all if it is exact.

    `slack` is a number of units, `share` a part of the expected figure; `grows` is false for what is better if larger.
    """

    name: str
    is_exact: bool = False
    slack: float = 0
    share: float = 0
    grows: bool = True

    def is_worse(self, expected: Value, found: Value) -> bool:
        """Whether a figure is a regression."""
        if self.is_exact or isinstance(expected, str) or isinstance(found, str):
            return found != expected
        limit = max(self.slack, self.share * expected)
        return found > expected + limit if self.grows else found < expected - limit


MEASURES = (
    GateMeasure("launch", is_exact=True),
    GateMeasure("shared_bytes"),
    GateMeasure("global_bytes"),
    GateMeasure("bank_conflicts"),
    GateMeasure("widths", is_exact=True),
    GateMeasure("registers", slack=8),
    GateMeasure("spills"),
    GateMeasure("loop_instructions", share=0.03),
    GateMeasure("slots_per_ffma", slack=0.04),
    GateMeasure("lds_to_use", share=0.25, grows=False),
)
"""In the order of the files. `launch`: CTAs and threads. `global_bytes`: asked of global memory by all threads, as if
every guard let all of them through. `bank_conflicts`: wavefronts of shared memory beyond the ideal. `widths`: of all
accesses, in bits. The last three are of the loop with the most FFMAs, as in `deplodock.runtime.sass`."""


@dataclass(frozen=True)
class GatedProgram:
    """A program of a file, and the figures expected of its kernels."""

    name: str
    expression: str
    target: str
    schedule: str | None
    kernels: Kernels
    stream: str | None = None
    """Where attention is one kernel, as `--stream` says."""


def read(path: Path) -> list[GatedProgram]:
    """The programs of a file."""
    programs: list[GatedProgram] = []
    for name, entry in tomllib.loads(path.read_text(encoding="utf-8")).items():
        if isinstance(entry, dict):
            kernels = {key: value for key, value in entry.items() if isinstance(value, dict)}
            schedule, stream = entry.get("schedule"), entry.get("stream")
            programs.append(GatedProgram(name, entry["expression"], entry["target"], schedule, kernels, stream))
    return programs


def written(programs: Sequence[GatedProgram], found: Sequence[Kernels]) -> str:
    """The text of a file of these programs with the figures found."""
    lines = ["# Written by `python -m deplodock.tools.gates --update`.", f"nvcc = {json.dumps(compiler())}"]
    for program, kernels in zip(programs, found, strict=True):
        lines += ["", f"[{program.name}]", f"expression = {json.dumps(program.expression)}"]
        lines.append(f"target = {json.dumps(program.target)}")
        given = {"schedule": program.schedule, "stream": program.stream}
        lines += [f"{key} = {json.dumps(value)}" for key, value in given.items() if value is not None]
        for name, figures in kernels.items():
            lines += ["", f"[{program.name}.{name}]"]
            lines += [f"{key} = {json.dumps(value)}" for key, value in figures.items()]
    return "\n".join(lines) + "\n"


def compiler() -> str:
    """The version of nvcc; empty without one."""
    nvcc = find_nvcc()
    version = re.search(r"V(\d+\.\d+\.\d+)", nvcc_identity(nvcc)) if nvcc is not None else None
    return version[1] if version is not None else ""


def measured(programs: Sequence[GatedProgram]) -> list[Kernels]:
    """The figures of each program's kernels, compiled on all cores or found among cubins kept.

    Raises:
        CompileError: there is no compiler or no nvdisasm.
    """
    modules = [_lowered(program) for program in programs]
    found: list[CompiledKernel | None] = [None] * len(programs)
    for target in dict.fromkeys(program.target for program in programs):
        places = [place for place, program in enumerate(programs) if program.target == target]
        compiled = cubins([print_module(modules[place]) for place in places], nvcc_arch(target))
        for place, cubin in zip(places, compiled, strict=True):
            found[place] = cubin.kernel
    return [_kernels(module, binary) for module, binary in zip(modules, found, strict=True) if binary is not None]


def differences(program: GatedProgram, found: Kernels) -> Iterator[tuple[str, bool]]:
    """What differs from the figures expected of a program, and whether it is a regression."""
    if list(found) != list(program.kernels):
        yield f"{program.name}: kernels {', '.join(found)}, expected {', '.join(program.kernels) or 'none'}", True
        return
    for name, figures in found.items():
        expected = program.kernels[name]
        for measure in MEASURES:
            before, now = expected.get(measure.name), figures.get(measure.name)
            if before == now:
                continue
            is_worse = before is None or now is None or measure.is_worse(before, now)
            verdict = "worse" if is_worse else "within what is allowed, or better"
            yield f"{program.name}.{name}: {measure.name} {now}, expected {before}: {verdict}", is_worse


def _lowered(program: GatedProgram) -> ModuleOp:
    context = new_context()
    module = read_expression(program.expression).module
    lower(module, context, Level.KERNEL, target=program.target, schedule=program.schedule, stream=program.stream)
    return module


def _kernels(module: ModuleOp, compiled: CompiledKernel) -> dict[str, dict[str, Value]]:
    code = disassemble(compiled.cubin)
    return {f.sym_name.data: _figures(f, compiled, code[f.sym_name.data]) for f in kernel.functions(module)}


def _figures(function: kernel.FuncOp, compiled: CompiledKernel, code: Sequence[Instruction]) -> dict[str, Value]:
    report, hot = compiled.reports[function.sym_name.data], loop_statistics(code)
    wavefronts = kernel_wavefronts(function).values()
    figures: dict[str, Value] = {
        "launch": f"{function.num_blocks} x {function.num_threads}",
        "shared_bytes": shared_bytes(function),
        "global_bytes": sum(_asked_bytes(op, function) for op in function.body.walk()),
        "bank_conflicts": sum(found.needed - found.ideal for found in wavefronts),
        "widths": _widths(code),
        "registers": report.registers,
        "spills": report.spill_stores + report.spill_loads,
    }
    if hot.ffma and hot.is_loop:
        figures["loop_instructions"] = hot.instructions
        figures["slots_per_ffma"] = round(hot.cycles_per_ffma, 2)
    if hot.ffma and hot.is_loop and hot.median_lds_to_use is not None:
        figures["lds_to_use"] = hot.median_lds_to_use
    return figures


def _widths(code: Sequence[Instruction]) -> str:
    kinds = ("LDG", "STG", "LDGSTS", "LDS", "STS")
    found = {kind: sorted({i.bits for i in code if i.opcode == kind}, reverse=True) for kind in kinds}
    return ", ".join(f"{kind} {'+'.join(map(str, bits))}" for kind, bits in found.items() if bits)


def _asked_bytes(op: Operation, function: kernel.FuncOp) -> int:
    """The bytes of global memory that an operation reads or writes in all threads, boxes and counters left out."""
    sizes = (
        access.width * _size(access.buffer)
        for access in accesses_of(op)
        if access.memory is None and not (access.by_proxy or access.is_atomic)
    )
    size = sum(sizes)
    return size * math.prod(_trips(op)) * function.num_blocks * kernel.team_of(op).num_threads if size else 0


def _size(buffer: SSAValue) -> int:
    return element_bytes(loop.memref_of(buffer).element_type)


def _trips(op: Operation) -> Iterator[int]:
    """The trips of the loops around an operation; a loop without a constant bound counts once."""
    return (around.trips or 1 for around in ancestors(op) if isinstance(around, loop.ForOp))


def main(arguments: Sequence[str], folder: Path = FOLDER) -> int:
    """Compare or update the files of a folder; returns the exit code."""
    if set(arguments) - {"--update"}:
        print("usage: python -m deplodock.tools.gates [--update]", file=sys.stderr)
        return 2
    differ = False
    for path in sorted(folder.glob("*.toml")):
        programs = read(path)
        found = measured(programs)
        for program, kernels in zip(programs, found, strict=True):
            for text, _ in differences(program, kernels):
                differ = True
                print(f"{path.name}: {text}")
        if "--update" in arguments:
            path.write_text(written(programs, found), encoding="utf-8")
    return int(differ and "--update" not in arguments)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
