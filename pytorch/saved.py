"""Compiled programs in files: `CompiledProgram.save` and `deplodock.load`.

A file is a zip archive, the same bytes for the same program:

* `program.json`: the version of the format, that of deplodock, the architecture, where the program ran, its signature
* `plan.json`: the plan, see `runtime/plan_text.py`
* `tensor.mlir`, `loop.mlir`, `kernel.mlir`: the program at three levels
* `kernels.cu`, `kernels.cubin`: its kernels, as machine code if there was a compiler of CUDA
* `tensors.safetensors`: tensors from elsewhere than a module, and its parameters and buffers if they were asked for

One digest is over all of it. Nothing in a file is run or imported when it is read, but the kernels are, when the
program is called.
"""

from __future__ import annotations

import importlib
from collections.abc import Mapping
from dataclasses import dataclass
from io import BytesIO
from pathlib import Path
from typing import IO, Any

import torch
from xdsl.dialects.builtin import ModuleOp

from deplodock.analysis.machine.targets import nvcc_arch, target_of
from deplodock.errors import InvalidInputError, UnsupportedError, missing_package
from deplodock.passes.driver import Level, lower, new_context
from deplodock.pytorch.agreement import check_length, check_together, most_bytes, read_ir
from deplodock.pytorch.archive import CUBIN, PLAN, TENSORS, TEXT, ProgramArchive, pack
from deplodock.pytorch.signature import CallSignature
from deplodock.pytorch.signature_text import read_signature, write_signature
from deplodock.runtime.files import opened, write_whole
from deplodock.runtime.plan_text import read_plan, write_plan
from deplodock.runtime.planned import PlannedProgram, compiled, planned_program
from deplodock.runtime.records import one_line, shown
from deplodock.version import __version__

FORMAT = 2
"""The version of the format. It grows with each change after which an older deplodock reads a file wrong."""

_LEVELS = (Level.TENSOR, Level.LOOP, Level.KERNEL)

_FACTS = {"format", "deplodock", "arch", "device", "signature", "digest"}
"""What `program.json` says."""


@dataclass(frozen=True)
class ProgramFile:
    """What a file holds: `levels` are texts of IR, `device` a kind of device, `tensors` state by `state_names`."""

    signature: CallSignature
    device: str
    levels: Mapping[Level, str]
    planned: PlannedProgram
    tensors: Mapping[str, torch.Tensor]

    def module(self, level: Level) -> ModuleOp:
        """The program at a level. Raises InvalidInputError if this deplodock does not read the text."""
        return read_ir(self.levels[level], level)


def program_file(captured: ModuleOp, kernels: ModuleOp, signature: CallSignature, device: str) -> ProgramFile:
    """What a file holds of a program, given as it was captured and at kernel level, without tensors.

    Kernels are compiled where there is a compiler of CUDA.
    """
    module, context, levels = captured.clone(), new_context(), {Level.KERNEL: str(kernels) + "\n"}
    for level in (Level.TENSOR, Level.LOOP):
        lower(module, context, level, target=target_of(kernels))
        levels[level] = str(module) + "\n"
    return ProgramFile(signature, device, levels, compiled(planned_program(kernels)), {})


def state_names(signature: CallSignature) -> list[str]:
    """A name for each tensor of the state of a program: its path in a module, else its number."""
    return [path or f"constant {number}" for number, (_, path) in enumerate(signature.state)]


def write_file(path: Path, program: ProgramFile) -> None:
    """Write a file, of which nobody sees a half. Raises InvalidInputError where it cannot be written."""
    try:
        write_whole(path, packed(program))
    except OSError as error:
        raise InvalidInputError(f"{path} cannot be written: {error.strerror or error}") from None


def packed(program: ProgramFile) -> bytes:
    """What a file of a program holds.

    Raises:
        InvalidInputError: safetensors is missing, which writes tensors.
        UnsupportedError: the program is larger than files may be, or its nests are none that they hold.
    """
    planned = program.planned
    facts = {"format": FORMAT, "deplodock": __version__, "arch": planned.arch, "device": program.device}
    facts["signature"] = write_signature(program.signature)
    texts = {PLAN: write_plan(planned.plan)} | {f"{level}.mlir": program.levels[level] for level in _LEVELS}
    members = {name: text.encode() for name, text in {**texts, TEXT: planned.text}.items()}
    try:
        for level in _LEVELS:
            check_length(program.levels[level])
    except ValueError as error:
        raise UnsupportedError(f"the program is too large for a file: {error}") from None
    if planned.cubin is not None:
        members[CUBIN] = planned.cubin
    if program.tensors:
        members[TENSORS] = _safetensors().save({name: _dense(value) for name, value in program.tensors.items()})
    return pack(facts, members)


def read_file(path: Path) -> ProgramFile:
    """Read a file.

    Raises InvalidInputError, which names the file, where it is missing, damaged, of another version, or none of ours.
    """
    try:
        with opened(path) as file:
            return _read(file)
    except InvalidInputError as error:
        raise InvalidInputError(f"{path}: {one_line(str(error))}") from None
    except OSError as error:
        raise InvalidInputError(f"{path} cannot be read: {error.strerror or error}") from None
    except Exception as error:
        # The readers of archives, JSON and safetensors raise all kinds of errors for what is damaged.
        reason = "it nests too deep" if isinstance(error, RecursionError) else one_line(str(error))
        raise InvalidInputError(f"{path} is damaged, or no program that deplodock has saved: {reason}") from None


def unpacked(data: bytes) -> ProgramFile:
    """The program of which `packed` made these bytes.

    Raises InvalidInputError where they are of another version, or none of ours, and any error where they are damaged.
    """
    return _read(BytesIO(data))


def _read(file: IO[bytes]) -> ProgramFile:
    archive = ProgramArchive(file)
    facts = archive.facts
    if type(facts["format"]) is not int or facts["format"] != FORMAT:
        version, format = (shown(facts[name]).strip('"') for name in ("deplodock", "format"))
        raise InvalidInputError(
            f"deplodock {version} has saved it in version {format} of the format, "
            f"and this is deplodock {__version__}, which reads version {FORMAT}: save it again with this one"
        )
    archive.check_members()
    if not {*facts} <= _FACTS:
        raise ValueError("its facts are not those of a program")
    signature = read_signature(facts["signature"])
    names = [PLAN, *(f"{level}.mlir" for level in _LEVELS), TEXT, *([CUBIN] if CUBIN in archive else [])]
    members = {name: archive.read(name) for name in names}
    if TENSORS in archive:
        members[TENSORS] = archive.read(TENSORS, most_bytes(signature))
    plan, text = read_plan(members[PLAN].decode()), members[TEXT].decode()
    planned = PlannedProgram(plan, text, facts["arch"], members.get(CUBIN))
    nvcc_arch(planned.arch)
    if facts["device"] not in ("cpu", "cuda"):
        raise ValueError(f"there is no device {shown(facts['device'])}")
    tensors = _safetensors().load(members[TENSORS]) if TENSORS in members else {}
    state = {name: own for name, (own, _) in zip(state_names(signature), signature.state, strict=True)}
    check_together(signature, planned, state, tensors)
    archive.check(members)
    levels = {level: members[f"{level}.mlir"].decode() for level in _LEVELS}
    return ProgramFile(signature, facts["device"], levels, planned, tensors)


def _dense(value: torch.Tensor) -> torch.Tensor:
    """A tensor in memory of its own, in order, as files of safetensors hold it."""
    return value.detach().cpu().resolve_neg().clone(memory_format=torch.contiguous_format)


def _safetensors() -> Any:
    """The functions of safetensors. Raises InvalidInputError, with the extra to install, where it is missing."""
    try:
        return importlib.import_module("safetensors.torch")
    except ModuleNotFoundError as error:
        raise InvalidInputError(missing_package(error.name or "") or str(error)) from None
