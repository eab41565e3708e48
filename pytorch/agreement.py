"""Whether the members of a file are those of one program: what each says of buffers, kernels and types is compared.

What they cannot tell is what machine code does: it is run as it is, when the program is called on a GPU.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from math import prod
from typing import Any, TypeAlias

import torch
from xdsl.dialects.builtin import MemRefType, ModuleOp
from xdsl.ir import Attribute
from xdsl.utils.exceptions import DiagnosticException, ParseError, VerifyException

from deplodock.analysis.host.arguments import entry_function, parameters
from deplodock.codegen.tma import PARAMETER
from deplodock.dialects.float_literals import FloatLiteralsParser
from deplodock.dialects.loop import RepeatOp, memref_of
from deplodock.errors import InvalidInputError
from deplodock.interpreters.values import dtype_of
from deplodock.passes.driver import new_context
from deplodock.pytorch.signature import CallSignature, TensorFacts
from deplodock.runtime.plan import ProgramPlan, TensorMapPlan, program_plan
from deplodock.runtime.planned import PlannedProgram
from deplodock.runtime.records import one_line
from deplodock.runtime.simulated import repeats

_Kind: TypeAlias = tuple[tuple[int, ...], str]
"""The shape of a buffer, and the name of its type."""

_TOKEN = re.compile(r"\w+|[^\w\s]")
_MOST_TOKENS = 1_000_000
"""The words and signs of a text of IR: they take some hundreds of bytes each when they are read."""

_MOST_ELEMENTS = 1 << 20
"""The elements of a constant in a text, which may be one number for all of them."""

_MOST_STEPS = 1 << 20
"""The steps of what a host function repeats: a plan has the launches of each."""

_HEADER_BYTES = 1024
"""The bytes that a file of tensors says of each, at most."""

_KERNEL = re.compile(r'^extern "C" __global__ void (?:__\w+__\([^)]*\) )*(\w+)\(([^)]*)\)', re.MULTILINE)


def most_bytes(signature: CallSignature) -> int:
    """The bytes of a file of the tensors that no call of a program gives."""
    return sum(_HEADER_BYTES + facts.bytes for facts, _ in signature.state) + _HEADER_BYTES


def check_together(
    signature: CallSignature,
    planned: PlannedProgram,
    state: Mapping[str, TensorFacts],
    tensors: Mapping[str, torch.Tensor],
) -> None:
    """Raise ValueError where signature, plan, kernels and tensors are not those of one program; `state` is by name."""
    plan = planned.plan
    if _kinds(signature.inputs) != _buffers(plan, plan.inputs) or _kinds(signature.outputs) != _buffers(
        plan, plan.outputs
    ):
        raise ValueError("its plan is that of another program")
    if signature.values.count(None) + len(signature.paths) != len(signature.inputs):
        raise ValueError("its inputs are not those that its arguments and its state give")
    _check_kernels(planned)
    for name, value in tensors.items():
        facts = state.get(name)
        if facts is None or (value.shape, value.dtype) != (facts.shape, facts.dtype):
            raise ValueError(f"its tensor {name!r:.60} is that of another program")


def read_ir(text: str, name: str) -> ModuleOp:
    """A module of a file.

    Raises InvalidInputError where the text is none, nests too deep, or takes much more memory than programs do.
    """
    try:
        check_length(text)
        module = _FileParser(new_context(), text, name).parse_module()
        module.verify()
    except RecursionError:
        raise InvalidInputError(_unread(name, "it nests too deep")) from None
    except ParseError as error:
        place, _, _ = error.span.print_with_context().partition("\n")
        raise InvalidInputError(_unread(name, f"{place}: {error.msg}")) from None
    except (VerifyException, DiagnosticException, ValueError, AssertionError) as error:
        raise InvalidInputError(_unread(name, str(error))) from None
    return module


def check_length(text: str) -> None:
    """Raise ValueError for a text of IR that takes much more memory than programs do."""
    if sum(1 for _ in _TOKEN.finditer(text)) > _MOST_TOKENS:
        raise ValueError(f"it has more than {_MOST_TOKENS} words and signs")


def check_modules(plan: ProgramPlan, kernels: ModuleOp, loops: ModuleOp) -> None:
    """Raise InvalidInputError where modules at kernel and at loop level are not those of a plan."""
    steps = (repeats(op) * op.trips for op in kernels.walk() if isinstance(op, RepeatOp))
    try:
        if max(steps, default=0) > _MOST_STEPS or program_plan(kernels) != plan:
            raise InvalidInputError("its plan is not that of its kernels")
        entry = entry_function(loops)
        inputs = [memref_of(value) for value in parameters(entry)]
        outputs = [type for type in entry.function_type.outputs if isinstance(type, MemRefType)]
        if outputs and (_types(inputs), _types(outputs)) != (_buffers(plan, plan.inputs), _buffers(plan, plan.outputs)):
            raise InvalidInputError("its loops are those of another program")
    except DiagnosticException as error:
        raise InvalidInputError(one_line(str(error))) from None


class _FileParser(FloatLiteralsParser):
    """A parser of texts that somebody else may have written: constants of it are bounded."""

    def _parse_dense_literal_type(self) -> Any:
        type = super()._parse_dense_literal_type()
        if prod(type.get_shape()) > _MOST_ELEMENTS:
            self.raise_error(f"a constant has more than {_MOST_ELEMENTS} elements")
        return type


def _check_kernels(planned: PlannedProgram) -> None:
    """Raise ValueError where launches are of kernels that text or machine code lacks, or take other arguments."""
    found = {name: listed.split(", ") if listed else [] for name, listed in _KERNEL.findall(planned.text)}
    for launch in planned.plan.launches:
        maps = [PARAMETER in parameter for parameter in found.get(launch.kernel, ())]
        if launch.kernel not in found or maps != [isinstance(own, TensorMapPlan) for own in launch.arguments]:
            raise ValueError(f"its plan starts {launch.kernel} with other arguments than its kernels have")
    if (cubin := planned.cubin) is None:
        return
    if not cubin.startswith(b"\x7fELF") or not all(f".text.{name}\0".encode() in cubin for name in found):
        raise ValueError("its machine code is not that of its kernels")


def _kinds(tensors: Sequence[TensorFacts]) -> list[_Kind]:
    return [(own.shape, str(own.dtype).removeprefix("torch.")) for own in tensors]


def _buffers(plan: ProgramPlan, numbers: Sequence[int]) -> list[_Kind]:
    return [(plan.buffers[number].shape, plan.buffers[number].dtype.name) for number in numbers]


def _types(types: Sequence[MemRefType[Attribute]]) -> list[_Kind]:
    return [(tuple(type.get_shape()), dtype_of(type.element_type).name) for type in types]


def _unread(name: str, reason: str) -> str:
    return f"its {name}.mlir is no IR that this deplodock reads: {one_line(reason)}"
