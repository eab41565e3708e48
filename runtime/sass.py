"""Disassemble a cubin and read off its hot loops what predicts their speed.

A contraction on FFMAs takes about as many cycles for each as it issues instructions for it, plus one for each conflict
of register banks (measured on an H100), given that the loop fits the instruction cache and its shared loads come early
enough. All of that is in the code, so no GPU is needed to see it.
"""

from __future__ import annotations

import os
import re
import shutil
import statistics as numbers
import subprocess
import tempfile
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from deplodock.errors import CompileError
from deplodock.runtime.nvcc import find_nvcc

_WHEEL = "nvidia-cuda-nvdisasm"
_SECTION = re.compile(r"^\.text\.(\S+):$", re.MULTILINE)
_LABEL = re.compile(r"^(\.L\S*):$")
_INSTRUCTION = re.compile(r"/\*([0-9a-f]{4,})\*/\s+(?:@!?U?P\w+\s+)?([A-Z]\w*(?:\.\w+)*)\s*(.*?)\s*;")
_TARGET = re.compile(r"`\((\.L\S*)\)")
_REGISTER = re.compile(r"\bR(\d+)\b")
_SOURCE = re.compile(r"-?\|?(R\d+)(\.reuse)?\|?$")

_BITS = re.compile(r"\.[US]?(8|16|32|64|128)\b")
_ACCESSES = ("LDS", "STS", "LDG", "STG", "LDGSTS")
_SPILLS = ("LDL", "STL")
_PRODUCTS = ("FFMA", "HMMA", "HGMMA")


@dataclass(frozen=True)
class Instruction:
    """One instruction: its address, its name with modifiers (`LDS.128`), and its operands."""

    address: int
    name: str
    operands: tuple[str, ...]
    target: int | None = None
    """Where a branch goes."""

    @property
    def opcode(self) -> str:
        """The name without modifiers."""
        return self.name.partition(".")[0]

    @property
    def bits(self) -> int:
        """The width of an access: 32 where the name says none."""
        found = _BITS.search(self.name)
        return int(found[1]) if found else 32

    @property
    def registers(self) -> frozenset[int]:
        """The registers that the operands name; of a wide one, the first."""
        return frozenset(int(number) for operand in self.operands for number in _REGISTER.findall(operand))


@dataclass(frozen=True)
class LoopStatistics:
    """The loop of a kernel with the most products, inner loops not counted; the whole kernel where it has no loop.

    Products are FFMAs and those of tensor cores.

    `instructions`: those of the body. `ffma`: the FFMAs among them. `hmma`, `hgmma`: the products of warps, and of
    warpgroups. `conflicts`: the issue slots that FFMAs lose to register banks. `lds_to_use`: for each shared load in
    order, the instructions from it to the first use of what it loads, at most once round the loop. `widths`: how many
    accesses of each kind (`LDS`, `STS`, `LDG`, `STG`, `LDGSTS`) have each width in bits. `spills`: the accesses to
    local memory in the whole kernel.
    """

    instructions: int
    ffma: int
    conflicts: int
    lds_to_use: tuple[int, ...]
    widths: Mapping[str, Mapping[int, int]]
    spills: int
    is_loop: bool
    hmma: int = 0
    hgmma: int = 0

    @property
    def instructions_per_ffma(self) -> float:
        """Issue slots for each FFMA, itself included; infinite without FFMAs."""
        return self.instructions / self.ffma if self.ffma else float("inf")

    @property
    def conflicts_per_ffma(self) -> float:
        """Issue slots lost to register banks for each FFMA."""
        return self.conflicts / self.ffma if self.ffma else 0.0

    @property
    def cycles_per_ffma(self) -> float:
        """The issue slots that each FFMA takes in all: the estimate that ranks schedules of a contraction."""
        return self.instructions_per_ffma + self.conflicts_per_ffma

    @property
    def median_lds_to_use(self) -> float | None:
        """The median distance in instructions from a shared load to its first use; None without shared loads."""
        return numbers.median(self.lds_to_use) if self.lds_to_use else None

    def __str__(self) -> str:
        parts = [f"{'loop' if self.is_loop else 'no loop'} of {self.instructions} instructions, {self.ffma} FFMA"]
        if self.ffma:
            parts.append(
                f"{self.instructions_per_ffma:.2f} instructions + {self.conflicts_per_ffma:.2f} bank conflicts"
                f" = {self.cycles_per_ffma:.2f} slots per FFMA"
            )
        if self.hmma:
            parts.append(f"{self.hmma} HMMA")
        if self.hgmma:
            parts.append(f"{self.hgmma} HGMMA")
        for kind, widths in self.widths.items():
            parts.append(f"{kind} " + " + ".join(f"{count} x {bits} bit" for bits, count in widths.items()))
        if self.lds_to_use:
            parts.append(f"LDS to use {self.median_lds_to_use:g} (least {min(self.lds_to_use)})")
        return ", ".join([*parts, f"{self.spills} spills"])


def find_nvdisasm() -> Path | None:
    """Return nvdisasm beside nvcc, where wheels and toolkits put it, else of `PATH`; None if there is none."""
    nvcc, found = find_nvcc(), shutil.which("nvdisasm")
    candidates = [nvcc.with_name("nvdisasm")] if nvcc else []
    candidates += [Path(found)] if found else []
    return next((path for path in candidates if os.access(path, os.X_OK)), None)


def disassemble(cubin: bytes, *, nvdisasm: Path | None = None) -> dict[str, list[Instruction]]:
    """The instructions of each kernel of a cubin, by name. Raises as `disassembly` does."""
    return parse_sass(disassembly(cubin, nvdisasm=nvdisasm))


def disassembly(cubin: bytes, *, nvdisasm: Path | None = None) -> str:
    """The text of all kernels of a cubin, as `nvdisasm -c -ndf` prints it.

    What that leaves out, an analysis of where data flows, names the targets of branches that GPUs before sm_70 have.

    Raises:
        CompileError: no nvdisasm was found, or it cannot read the cubin.
    """
    nvdisasm = nvdisasm or find_nvdisasm()
    if nvdisasm is None:
        raise CompileError(f"no nvdisasm found: install the wheel {_WHEEL}, set CUDA_HOME, or put nvdisasm on PATH")
    with tempfile.NamedTemporaryFile(prefix="deplodock-", suffix=".cubin") as file:
        file.write(cubin)
        file.flush()
        done = subprocess.run([str(nvdisasm), "-c", "-ndf", file.name], capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise CompileError(f"nvdisasm cannot read the cubin: {done.stderr.strip()}")
    return done.stdout


def parse_sass(text: str) -> dict[str, list[Instruction]]:
    """The instructions of each kernel in the output of `nvdisasm -c`, by name."""
    sections = _SECTION.split(text)[1:]
    return {name: _instructions(code) for name, code in zip(sections[::2], sections[1::2], strict=True)}


def loop_statistics(code: Sequence[Instruction]) -> LoopStatistics:
    """The statistics of a kernel's instructions: of the loop where products are many and dense.

    Divisions and `expf` of an unrolled epilogue have FFMAs too, and slow paths that jump back.
    """
    loops = _loops(code)
    body = max(loops, key=lambda loop: _count(loop, *_PRODUCTS) ** 2 / len(loop), default=list(code))
    return LoopStatistics(
        instructions=len(body),
        ffma=_count(body, "FFMA"),
        conflicts=bank_conflicts(body),
        lds_to_use=tuple(_lds_to_use(body)),
        widths=_widths(body),
        spills=sum(instruction.opcode in _SPILLS for instruction in code),
        is_loop=bool(loops),
        hmma=_count(body, "HMMA"),
        hgmma=_count(body, "HGMMA"),
    )


def bank_conflicts(body: Sequence[Instruction]) -> int:
    """The issue slots that FFMAs lose because registers they read lie in one bank.

    There are two banks, the even and the odd registers, each read once a cycle. A register marked `.reuse` is kept for
    the same place of the next FFMA, which does not read it again; shared loads in between leave it there, other
    instructions do not. The model's counts are within 0.05 for each FFMA of the dispatch stalls measured on an H100.
    """
    conflicts = 0
    kept: dict[int, str] = {}
    for instruction in body:
        if instruction.opcode != "FFMA":
            kept = kept if instruction.opcode == "LDS" else {}
            continue
        sources = {place: match for place, match in enumerate(map(_SOURCE.match, instruction.operands[1:])) if match}
        read = {match[1] for place, match in sources.items() if kept.get(place) != match[1]}
        banks = Counter(int(register[1:]) % 2 for register in read)
        conflicts += max(0, max(banks.values(), default=0) - 1)
        kept = {place: match[1] for place, match in sources.items() if match[2]}
    return conflicts


def _instructions(code: str) -> list[Instruction]:
    found: list[tuple[int, str, str]] = []
    labels: dict[str, int] = {}
    waiting: list[str] = []
    for line in code.splitlines():
        if (label := _LABEL.match(line)) is not None:
            waiting.append(label[1])
        elif (match := _INSTRUCTION.search(line)) is not None:
            address = int(match[1], 16)
            labels |= dict.fromkeys(waiting, address)
            waiting = []
            found.append((address, match[2], match[3]))
    return [_instruction(address, name, operands, labels) for address, name, operands in found]


def _instruction(address: int, name: str, operands: str, labels: Mapping[str, int]) -> Instruction:
    target = _TARGET.search(operands) if name.startswith("BRA") else None
    parts = tuple(part.strip() for part in operands.split(",")) if operands else ()
    return Instruction(address, name, parts, labels.get(target[1]) if target else None)


def _loops(code: Sequence[Instruction]) -> list[list[Instruction]]:
    """The bodies of the loops, from the target of a backward branch to the branch, each without those inside it.

    A branch to itself is no loop: it stands behind the end of a kernel.
    """
    ranges = [(i.target, i.address) for i in code if i.target is not None and i.target < i.address]
    bodies: dict[tuple[int, int], list[Instruction]] = {}
    for instruction in code:
        around = [(first, last) for first, last in ranges if first <= instruction.address <= last]
        if around:
            innermost = min(around, key=lambda ends: ends[1] - ends[0])
            bodies.setdefault(innermost, []).append(instruction)
    return [bodies[ends] for ends in sorted(bodies)]


def _count(body: Sequence[Instruction], *opcodes: str) -> int:
    return sum(instruction.opcode in opcodes for instruction in body)


def _lds_to_use(body: Sequence[Instruction]) -> Iterator[int]:
    for place, load in enumerate(body):
        destination = _REGISTER.fullmatch(load.operands[0]) if load.opcode == "LDS" else None
        if destination is None:
            continue
        first = int(destination[1])
        loaded = frozenset(range(first, first + max(load.bits // 32, 1)))
        following = [*body[place + 1 :], *body[:place]]
        used = (distance for distance, other in enumerate(following, start=1) if loaded & other.registers)
        yield next(used, len(body))


def _widths(body: Sequence[Instruction]) -> dict[str, dict[int, int]]:
    counts = {kind: Counter(i.bits for i in body if i.opcode == kind) for kind in _ACCESSES}
    return {kind: dict(sorted(found.items(), reverse=True)) for kind, found in counts.items() if found}
