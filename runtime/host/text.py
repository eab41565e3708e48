"""The text of kernels as C++ for the host: what macros cannot do, line by line, so that numbers of lines stay.

Declarations of what has bounds (parameters, shared buffers, register arrays) become those of types that check them;
includes of CUDA's headers and inline assembly (`assembly.py`) are replaced, too. All else is compiled as printed.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

from deplodock.errors import CompileError
from deplodock.runtime.host.assembly import translate

_TYPE = r"(?:unsigned |signed )?(?:long long|char|short|int|float|double|bool|__half|__nv_bfloat16)"
_HEADERS = {"cuda_fp16.h": "fp16", "cuda_bf16.h": "bf16"}
_INCLUDE = re.compile(r"^#include <(.*)>$", re.MULTILINE)
_KERNEL = re.compile(
    r'^extern "C" __global__ void (?:__cluster_dims__\((\d+), 1, 1\) )?__launch_bounds__\((\d+)(?:, \d+)?\) '
    r"(\w+)\((.*)\) \{$",
    re.MULTILINE,
)
_PARAMETER = re.compile(rf"(const )?({_TYPE})\*(?: __restrict__)? (\w+)")
_MAP_PARAMETER = re.compile(r"const __grid_constant__ tensor_map (\w+)")
_POOL = re.compile(r"^( *)extern __shared__ __align__\((\d+)\) unsigned char (\w+)\[\];$", re.MULTILINE)
_IN_POOL = re.compile(
    rf"^( *)({_TYPE})\* const (\w+) = reinterpret_cast<({_TYPE})\*>\((\w+) \+ (\d+)\);$", re.MULTILINE
)
_SHARED = re.compile(rf"^( *)__shared__ __align__\((\d+)\) ({_TYPE}) (\w+)\[(\d+)\];$", re.MULTILINE)
_REGISTERS = re.compile(rf"^( *)(__align__\(16\) )?({_TYPE}) (\w+)((?:\[\d+\])+);$", re.MULTILINE)


@dataclass(frozen=True)
class KernelText:
    """What the text says of a kernel: its name, its parameters, the most threads of a CTA, the CTAs of a cluster."""

    name: str
    parameters: tuple[str, ...]
    threads: int
    cluster: int


@dataclass(frozen=True)
class HostText:
    """C++ for the host, and the kernels that it defines."""

    code: str
    kernels: tuple[KernelText, ...]


def host_text(text: str, arch: int, pools: Mapping[str, Mapping[int, int]]) -> HostText:
    """The C++ of printed kernels.

    Args:
        text: CUDA C as `codegen.cuda` prints it.
        arch: what `__CUDA_ARCH__` is, such as 900.
        pools: the bytes of each buffer in dynamic shared memory, by the name of its kernel and its first byte there.

    Raises:
        CompileError: a line has another form than the printer's.
    """
    found = list(_KERNEL.finditer(text))
    if text.count("__global__") != len(found):
        raise CompileError("a kernel's first line has another form than the printer's")
    kernels = [
        KernelText(match[3], tuple(map(_parameter_name, _parameters(match[4]))), int(match[2]), int(match[1] or 1))
        for match in found
    ]
    starts = [*(match.start() for match in found), len(text)]
    bodies = [
        _kernel(text[match.start() : end], pools.get(match[3], {}))
        for match, end in zip(found, starts[1:], strict=True)
    ]
    code = "".join([_INCLUDE.sub(_include, text[: starts[0]]), *bodies])
    arch_lines = f"#undef __CUDA_ARCH__\n#define __CUDA_ARCH__ {arch}\n"
    return HostText(f'{arch_lines}#line 1 "kernel.cu"\n{translate(code)}', tuple(kernels))


def _kernel(text: str, pool: Mapping[int, int]) -> str:
    """A kernel whose parameters, shared buffers and arrays know their bounds; `pool` as in `host_text`."""
    text = _KERNEL.sub(_signature, text)
    text = _POOL.sub(r"\1const host::Pool \3(\2);", text)
    text = _IN_POOL.sub(lambda match: _in_pool(match, pool), text)
    text = _SHARED.sub(r'\1const host::Shared<\3> \4("\4", __LINE__, \5, \2);', text)
    return _REGISTERS.sub(_registers, text)


def _signature(match: re.Match[str]) -> str:
    return f"static void {match[3]}({', '.join(map(_parameter, _parameters(match[4])))}) {{"


def _include(match: re.Match[str]) -> str:
    if match[1] not in _HEADERS:
        raise CompileError(f"the text includes {match[1]}, which the host has no types for")
    return f"using namespace host::{_HEADERS[match[1]]};"


def _parameters(text: str) -> list[str]:
    return text.split(", ") if text else []


def _parameter_name(text: str) -> str:
    return text.split()[-1]


def _parameter(text: str) -> str:
    if (match := _PARAMETER.fullmatch(text)) is not None:
        return f"const host::Pointer<{match[1] or ''}{match[2]}> {match[3]}"
    if _MAP_PARAMETER.fullmatch(text) is not None:
        return text
    raise CompileError(f"the parameter '{text}' has another form than the printer's")


def _in_pool(match: re.Match[str], pool: Mapping[int, int]) -> str:
    indent, type, name, cast, memory, first = match.groups()
    if type != cast or int(first) not in pool:
        raise CompileError(f"'{match[0].strip()}' is no buffer of the kernel")
    return f'{indent}const host::Shared<{type}> {name}("{name}", __LINE__, {memory}, {first}, {pool[int(first)]});'


def _registers(match: re.Match[str]) -> str:
    indent, align, type, name, extents = match.groups()
    numbers = ", ".join(re.findall(r"\d+", extents))
    return f'{indent}host::Registers<{type}, {"true" if align else "false"}, {numbers}> {name}("{name}");'


def translation_unit(programs: list[HostText]) -> str:
    """One C++ file of several programs, each in a namespace of its own."""
    parts = [f"namespace program{number} {{\n{_program(text)}}}\n" for number, text in enumerate(programs)]
    rows = "".join(
        f"  {{program{number}::host_kernels, {len(text.kernels)}}},\n" for number, text in enumerate(programs)
    )
    return "".join([*parts, f"extern const host::Program programs[] = {{\n{rows}}};\n"])


def _program(text: HostText) -> str:
    calls = "".join(_call(number, kernel) for number, kernel in enumerate(text.kernels))
    rows = "".join(
        f'  {{"{kernel.name}", {len(kernel.parameters)}, {kernel.threads}, {kernel.cluster}, host_call_{number}}},\n'
        for number, kernel in enumerate(text.kernels)
    )
    return f'{text.code}\n#line 1 "calls"\n{calls}static const host::Kernel host_kernels[] = {{\n{rows}}};\n'


def _call(number: int, kernel: KernelText) -> str:
    arguments = ", ".join(
        f'host::Named{{arguments[{position}], "{name}"}}' for position, name in enumerate(kernel.parameters)
    )
    return f"static void host_call_{number}(const host::Argument* arguments) {{ {kernel.name}({arguments}); }}\n"
