"""Inline assembly of printed kernels as C++: each PTX instruction becomes a call of the function of its name in ptx.h.

So an instruction that ptx.h lacks, an operand of the wrong kind, or one too many is an error of the C++ compiler.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

from deplodock.errors import CompileError

_PURE = ("max.", "min.", "mapa.", "ex2.", "cvt.", "mma.", "wgmma.mma_async.")
"""How instructions start that touch no memory, or, as products of warpgroups, stand between fences and waits that do.

All others must be volatile and clobber memory, to stay where they are.
"""

_REGISTERS = {".b64": "uint64_t", ".pred": "bool"}
_START = re.compile(r"\basm( volatile)?\s*\(")
_STRING = re.compile(r'"((?:[^"\\]|\\.)*)"')
_OPERAND = re.compile(r'\s*"[=+]?([a-z])"\s*\((.*)\)\s*', re.DOTALL)
_STATEMENT = re.compile(
    r"(?:(?P<label>\w+):\s*)?(?:@(?P<negated>!?)(?P<guard>\w+)\s+)?(?P<name>[.\w:]+)\s*(?P<rest>.*)"
)
_CLOSING = {"(": ")", "[": "]", "{": "}"}


@dataclass(frozen=True)
class _Statement:
    """The parts of `asm volatile(text : outputs : inputs : clobbers);`, and where it ends."""

    text: str
    outputs: list[str]
    inputs: list[str]
    clobbers: list[str]
    end: int


def translate(text: str) -> str:
    """The text with a call in the place of each instruction; lines stay where they are.

    Raises CompileError for inline assembly in another form than the printer's.
    """
    parts: list[str] = []
    position = 0
    while (match := _START.search(text, position)) is not None:
        parts.append(text[position : match.start()])
        statement = _read(text, match.end())
        position = statement.end
        code = _code(statement, is_volatile=match[1] is not None)
        parts.append(code + "\n" * text.count("\n", match.start(), position))
    return "".join([*parts, text[position:]])


def _read(text: str, start: int) -> _Statement:
    """The statement whose parenthesis opens before `start`."""
    depth, position = 1, start
    pieces: list[list[str]] = [[""]]
    while depth:
        if position >= len(text):
            raise CompileError("inline assembly does not end")
        if (string := _STRING.match(text, position)) is not None:
            pieces[-1][-1] += string[0]
            position = string.end()
            continue
        character = text[position]
        position += 1
        depth += (character in "([") - (character in ")]")
        if depth == 1 and character == ":":
            pieces.append([""])
        elif depth == 1 and character == ",":
            pieces[-1].append("")
        elif depth:
            pieces[-1][-1] += character
    if not (end := re.compile(r"\s*;").match(text, position)):
        raise CompileError("inline assembly ends without a semicolon")
    template, *rest = pieces
    outputs, inputs, clobbers = ([one for one in part if one.strip()] for part in [*rest, [], [], []][:3])
    strings = "".join(_STRING.findall(template[0])).replace("\\n", "\n")
    return _Statement(strings, outputs, inputs, clobbers, end.end())


def _code(statement: _Statement, is_volatile: bool) -> str:
    operands = [_operand(text, is_output=True) for text in statement.outputs]
    operands += [_operand(text, is_output=False) for text in statement.inputs]
    code = "".join(_instruction(text, operands) for text in _instructions(statement.text))
    is_pure = not statement.text or statement.text.startswith(_PURE)
    if not is_pure and not (is_volatile and '"memory"' in "".join(statement.clobbers)):
        raise CompileError(f"'{statement.text}' touches memory, but is not volatile or does not clobber it")
    return f"{{ {code}}}"


def _operand(text: str, is_output: bool) -> str:
    """An operand as an argument of a call: a variable for an output, a value of its constraint for an input."""
    match = _OPERAND.fullmatch(text)
    if match is None or ('"=' in text or '"+' in text) != is_output:
        raise CompileError(f"the operand {text.strip()} of inline assembly has another form than the printer's")
    return match[2] if is_output else f"host::ptx::{match[1]}({match[2]})"


def _instructions(text: str) -> Iterator[str]:
    """The instructions of a template, without the braces around them."""
    stripped = text.strip()
    if stripped.startswith("{") != stripped.endswith("}"):
        raise CompileError(f"unbalanced braces in '{text}'")
    inner = stripped[1:-1] if stripped.startswith("{") else stripped
    if inner.strip() and not inner.strip().endswith(";"):
        raise CompileError(f"'{text}' ends without a semicolon")
    yield from filter(None, (part.strip() for part in inner.split(";")))


def _instruction(text: str, operands: list[str]) -> str:
    match = _STATEMENT.fullmatch(" ".join(text.split()))
    if match is None:
        raise CompileError(f"the instruction '{text}' has another form than the printer's")
    name, rest = match["name"], match["rest"]
    if name == ".reg":
        type, variable = rest.split()
        return f"{_REGISTERS.get(type, type)} {variable}; "
    label = f"{match['label']}: " if match["label"] else ""
    guard = f"if ({match['negated']}{match['guard']}) " if match["guard"] else ""
    if name == "bra":
        return f"{label}{guard}goto {rest}; "
    arguments = ", ".join(_argument(part, operands) for part in _split(rest))
    return f"{label}{guard}host::ptx::{re.sub(r'[.:]+', '_', name)}({arguments}); "


def _split(text: str) -> list[str]:
    """The operands of an instruction, which commas separate outside of brackets."""
    parts, depth = [""], 0
    for character in text:
        depth += (character in _CLOSING) - (character in _CLOSING.values())
        if character == "," and depth == 0:
            parts.append("")
        else:
            parts[-1] += character
    return [part.strip() for part in parts if part.strip()]


def _argument(text: str, operands: list[str]) -> str:
    if text.startswith("[") and text.endswith("]"):
        inner = _split(text[1:-1])
        if len(inner) == 1:
            return f"host::ptx::At{{{_argument(inner[0], operands)}}}"
        corner = ", ".join(_argument(part, operands) for part in _split(inner[1].strip("{}")))
        return f"host::ptx::box({_argument(inner[0], operands)}, {corner})"
    if text.startswith("{") and text.endswith("}"):
        return f"host::ptx::group({', '.join(_argument(part, operands) for part in _split(text[1:-1]))})"
    if text.startswith("%"):
        if not text[1:].isdigit() or int(text[1:]) >= len(operands):
            raise CompileError(f"inline assembly has no operand {text}")
        return operands[int(text[1:])]
    return text
