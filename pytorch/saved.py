"""Compiled programs in files: `CompiledProgram.save` and `deplodock.load`.

A file is a zip archive, the same bytes for the same program:

* `program.json`: the version of the format, that of deplodock, the architecture, where the program ran, its signature
* `plan.json`: the plan, see `runtime/plan_text.py`
* `tensor.mlir`, `loop.mlir`, `kernel.mlir`: the program at three levels
* `kernels.cu`, `kernels.cubin`: its kernels, as machine code if there was a compiler of CUDA
* `tensors.safetensors`: tensors from elsewhere than a module, and its parameters and buffers if they were asked for

Nothing in a file is run or imported when it is read, but the kernels are, when the program is called.
"""

from __future__ import annotations

import importlib
import json
import os
import zipfile
from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from io import BytesIO
from itertools import chain
from pathlib import Path
from typing import Any

import torch
from xdsl.dialects.builtin import ModuleOp

from deplodock.analysis.machine.targets import nvcc_arch, target_of
from deplodock.dialects.float_literals import FloatLiteralsParser
from deplodock.errors import InvalidInputError, missing_package
from deplodock.passes.driver import Level, lower, new_context
from deplodock.pytorch.nests import dtype_named, read_form, write_form
from deplodock.pytorch.signature import CallSignature, TensorFacts
from deplodock.runtime.plan_text import natural, naturals, read_plan, write_plan
from deplodock.runtime.planned import PlannedProgram, compiled, planned_program
from deplodock.version import __version__

FORMAT = 1
"""The version of the format. It grows with each change after which an older deplodock reads a file wrong."""

_LEVELS = (Level.TENSOR, Level.LOOP, Level.KERNEL)
_FACTS, _PLAN, _TENSORS = "program.json", "plan.json", "tensors.safetensors"
_TEXT, _CUBIN = "kernels.cu", "kernels.cubin"


@dataclass(frozen=True)
class ProgramFile:
    """What a file holds: `levels` are texts of IR, `device` a kind of device, `tensors` state by `state_names`."""

    signature: CallSignature
    device: str
    levels: Mapping[Level, str]
    planned: PlannedProgram
    tensors: Mapping[str, torch.Tensor]

    def module(self, level: Level) -> ModuleOp:
        """The program at a level. Raises a ParseError if this deplodock does not read the text."""
        return FloatLiteralsParser(new_context(), self.levels[level], level).parse_module()


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
    unfinished = path.with_name(f"{path.name}.{os.getpid()}.unfinished")
    try:
        unfinished.write_bytes(packed(program))
        unfinished.replace(path)
    except OSError as error:
        unfinished.unlink(missing_ok=True)
        raise InvalidInputError(f"{path} cannot be written: {error.strerror or error}") from None


def packed(program: ProgramFile) -> bytes:
    """What a file of a program holds. Raises InvalidInputError where safetensors is missing, which writes tensors."""
    planned = program.planned
    facts = {"format": FORMAT, "deplodock": __version__, "arch": planned.arch, "device": program.device}
    facts["signature"] = _written(program.signature)
    members: dict[str, str | bytes] = {_FACTS: json.dumps(facts, indent=1), _PLAN: write_plan(planned.plan)}
    members |= {f"{level}.mlir": program.levels[level] for level in _LEVELS} | {_TEXT: planned.text}
    if planned.cubin is not None:
        members[_CUBIN] = planned.cubin
    if program.tensors:
        members[_TENSORS] = _safetensors().save({name: _dense(value) for name, value in program.tensors.items()})
    made = BytesIO()
    with zipfile.ZipFile(made, "w") as archive:
        for name, content in members.items():
            # A ZipInfo without a time, so that equal programs are equal bytes.
            kind = zipfile.ZIP_STORED if name == _TENSORS else zipfile.ZIP_DEFLATED
            archive.writestr(zipfile.ZipInfo(name), content, kind)
    return made.getvalue()


def read_file(path: Path) -> ProgramFile:
    """Read a file.

    Raises InvalidInputError, which names the file, where it is missing, damaged, of another version, or none of ours.
    """
    try:
        return unpacked(path.read_bytes())
    except InvalidInputError as error:
        raise InvalidInputError(f"{path}: {error}") from None
    except OSError as error:
        raise InvalidInputError(f"{path} cannot be read: {error.strerror or error}") from None
    except Exception as error:
        # The readers of archives, JSON and safetensors raise all kinds of errors for what is damaged.
        raise InvalidInputError(f"{path} is damaged, or no program that deplodock has saved: {error}") from None


def unpacked(data: bytes) -> ProgramFile:
    """The program of which `packed` made these bytes.

    Raises InvalidInputError where they are of another version, or none of ours, and any error where they are damaged.
    """
    with zipfile.ZipFile(BytesIO(data)) as archive:
        members = {name: archive.read(name) for name in archive.namelist()}
    if _FACTS not in members:
        raise InvalidInputError("it is no program that deplodock has saved")
    facts = json.loads(members[_FACTS])
    if facts["format"] != FORMAT:
        raise InvalidInputError(
            f"deplodock {facts['deplodock']} has saved it in version {facts['format']} of the format, and this is "
            f"deplodock {__version__}, which reads version {FORMAT}: save it again with this one"
        )
    return _read(facts, members)


def _read(facts: Mapping[str, Any], members: Mapping[str, bytes]) -> ProgramFile:
    levels = {level: members[f"{level}.mlir"].decode() for level in _LEVELS}
    plan, text = read_plan(members[_PLAN].decode()), members[_TEXT].decode()
    planned = PlannedProgram(plan, text, facts["arch"], members.get(_CUBIN))
    nvcc_arch(planned.arch)
    tensors = _safetensors().load(members[_TENSORS]) if _TENSORS in members else {}
    signature = _read_signature(facts["signature"])
    if len(plan.inputs) != len(signature.inputs) or len(plan.outputs) != len(signature.outputs):
        raise ValueError("its plan is that of another program")
    return ProgramFile(signature, facts["device"], levels, planned, tensors)


def _written(signature: CallSignature) -> dict[str, Any]:
    """A signature as values of JSON."""
    facts = {field.name: getattr(signature, field.name) for field in fields(signature)}
    facts |= {name: [None if one is None else _facts(one) for one in facts[name]] for name in ("inputs", "results")}
    return facts | {name: write_form(facts[name]) for name in ("form", "result_form")}


def _read_signature(facts: Mapping[str, Any]) -> CallSignature:
    inputs = tuple(map(_tensor_facts, facts["inputs"]))
    numbers = {name: naturals(facts[name]) for name in ("whole", "writes")}
    if any(number >= len(inputs) for number in chain(*numbers.values())):
        raise ValueError("its signature numbers inputs that there are not")
    return CallSignature(
        form=read_form(facts["form"]),
        values=tuple(None if value is None else (str(value[0]), str(value[1])) for value in facts["values"]),
        inputs=inputs,
        paths=tuple(None if path is None else str(path) for path in facts["paths"]),
        asks_layout=bool(facts["asks_layout"]),
        results=tuple(None if result is None else _tensor_facts(result) for result in facts["results"]),
        checks=tuple(map(str, facts["checks"])),
        result_form=read_form(facts["result_form"]),
        **numbers,
    )


def _facts(tensor: TensorFacts) -> dict[str, Any]:
    return asdict(tensor) | {"dtype": str(tensor.dtype).removeprefix("torch.")}


def _tensor_facts(facts: Mapping[str, Any]) -> TensorFacts:
    shape, strides = naturals(facts["shape"]), naturals(facts["strides"])
    return TensorFacts(str(facts["name"]), shape, dtype_named(facts["dtype"]), strides, natural(facts["offset"]))


def _dense(value: torch.Tensor) -> torch.Tensor:
    """A tensor in memory of its own, in order, as files of safetensors hold it."""
    return value.detach().cpu().resolve_neg().clone(memory_format=torch.contiguous_format)


def _safetensors() -> Any:
    """The functions of safetensors. Raises InvalidInputError, with the extra to install, where it is missing."""
    try:
        return importlib.import_module("safetensors.torch")
    except ModuleNotFoundError as error:
        raise InvalidInputError(missing_package(error.name or "") or str(error)) from None
