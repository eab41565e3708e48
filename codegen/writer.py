"""Writes the statements of one kernel: lines, names of values, elements of buffers, and handlers of operations.

An SSA value has its name hint as an identifier of C, made unique in the function. An affine expression is a linear sum
over names, `int` where ranges prove that it fits, else `long long`. `x floordiv 8` and `x mod 8` print as `x / 8` and
`x % 8` where x cannot be negative and C's truncation is the floor; elsewhere they call `floor_div` and `floor_mod`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, TypeAlias

from xdsl.dialects.arith import ConstantOp, IndexCastOp
from xdsl.dialects.builtin import IndexType, IntegerAttr, NoneAttr, i32
from xdsl.ir import Attribute, BlockArgument, Operation, SSAValue
from xdsl.ir.affine import AffineMap

from deplodock.analysis.access.alignment import address, flips
from deplodock.analysis.affine.linear import (
    Atom,
    Division,
    Linear,
    Range,
    form_of,
    form_of_value,
    range_of,
    value_range,
)
from deplodock.analysis.machine.resources import shared_memory
from deplodock.codegen import scalars
from deplodock.dialects import kernel, loop
from deplodock.dialects.tile import Memory, memory_of


class KernelWriter:
    """The lines of a kernel so far, and what they name."""

    def __init__(self, function: kernel.FuncOp, is_reserved: Callable[[str], bool]) -> None:
        self.function = function
        self.team: kernel.Team = function
        """What has the threads that run what is written."""
        self.names = Identifiers(is_reserved)
        self.indices = IndexWriter(self.names)
        self.lines: list[str] = []
        self.shared = shared_memory(function)
        self._depth = 0

    @property
    def thread(self) -> str:
        """The name of the thread's number in its CTA, or role."""
        return self.names[self.team.thread_id]

    def line(self, text: str) -> None:
        """Write a line."""
        self.lines.append("  " * self._depth + text)

    @contextmanager
    def braces(self, head: str) -> Generator[None]:
        """Write `head { ... }` around what is written inside the context."""
        self.line(f"{head} {{")
        self._depth += 1
        yield
        self._depth -= 1
        self.line("}")

    def define(self, value: SSAValue, text: str) -> None:
        """Write the definition of an SSA value."""
        type = c_type_of(value)
        self.line(f"const {type} {self.names.define(value)} = {text};")

    def element(self, buffer: SSAValue, map: AffineMap, indices: Sequence[SSAValue]) -> str:
        """An element of a buffer, as a C lvalue.

        In global memory what unrolled loops add is added to a pointer, where it becomes a constant of the instruction:
        in a subscript, a sum of 32 bits that is widened, each access would take an addition of 64 bits.
        """
        subscripts = forms(map, indices)
        if memory_of(buffer) is None:
            start, turn = split_unrolled(offset(buffer, subscripts))
            if turn.terms:
                return f"({self.names[buffer]} + ({self.indices.text(start)}))[{self.indices.text(turn)}]"
        if not is_multidimensional(buffer):
            return f"{self.names[buffer]}[{self.indices.position(buffer, subscripts)}]"
        return self.names[buffer] + "".join(f"[{self.indices.text(form)}]" for form in subscripts)


Texts: TypeAlias = Mapping[type[Operation], Callable[[KernelWriter, Any], None]]
"""How the operations of one kind are written, by their class."""


def c_type(type: Attribute) -> str:
    """The C type of the elements or values of a type."""
    return scalars.C_TYPES[scalars.type_name(type)]


def c_type_of(value: SSAValue) -> str:
    """The C type of a value; an index is `int` where its range allows."""
    return "int" if isinstance(value.type, IndexType) and is_int(value) else c_type(value.type)


def is_multidimensional(buffer: SSAValue) -> bool:
    """Whether a buffer is declared with the extents of its shape: registers in row-major order."""
    return memory_of(buffer) is Memory.REGISTER and isinstance(loop.memref_of(buffer).layout, NoneAttr)


_WORDS = """
alignas alignof and and_eq asm auto bitand bitor bool break case catch char char16_t char32_t char8_t class co_await
co_return co_yield compl concept const const_cast consteval constexpr constinit continue decltype default delete do
double dynamic_cast else enum explicit export extern false float for friend goto if inline int long mutable
namespace new noexcept not not_eq nullptr operator or or_eq private protected public register reinterpret_cast
requires return short signed sizeof static static_assert static_cast struct switch template this thread_local throw
true try typedef typeid typename typeof union unsigned using virtual void volatile wchar_t while xor xor_eq
assert errno linux main major math_errhandling minor stderr stdin stdout unix
blockDim blockIdx gridDim threadIdx warpSize dim3
"""

KEYWORDS = frozenset(_WORDS.split())
"""The keywords of C++, and what the compiler and its implicit headers define as macros or special names."""

MACRO = re.compile(r"[A-Z][A-Z][A-Z0-9_]\w*|[LMP]_\w*|cuda[A-Z]\w*")
"""How most macros of the implicit headers are called, such as INT_MAX, M_PI and cudaEventDefault."""


@cache
def declared_names() -> frozenset[str]:
    """What else CUDA and the C library declare in each text, so that no kernel can have the name; variables can.

    `python -m deplodock.tools.cuda_names` makes the list: nvcc 13.0 was asked, beside glibc 2.36.
    """
    return frozenset(Path(__file__).with_name("cuda_names.txt").read_text(encoding="utf-8").split())


class Identifiers:
    """Gives each SSA value a C identifier that is unique in the function, in the order of definition."""

    def __init__(self, is_reserved: Callable[[str], bool]) -> None:
        self._is_reserved = is_reserved
        self._taken = {*KEYWORDS}
        self._names: dict[SSAValue, str] = {}
        self._next: dict[str, int] = {}

    def __getitem__(self, value: SSAValue) -> str:
        return self._names[value]

    def define(self, value: SSAValue, default: str = "v") -> str:
        """The new name of a value: its hint as an identifier, or `default`, numbered if taken."""
        name = self._unique(identifier(value.name_hint or default))
        self._names[value] = name
        return name

    def is_free(self, name: str) -> bool:
        """Whether a name is neither reserved nor given to a value."""
        return name not in self._taken and not self._is_reserved(name)

    def alias(self, value: SSAValue, text: str) -> None:
        """Let an expression stand for the value wherever it is used."""
        self._names[value] = text

    def _unique(self, base: str) -> str:
        name, number = base, self._next.get(base, 1)
        while not self.is_free(name):
            name, number = f"{base}_{number}", number + 1
        self._next[base] = number
        self._taken.add(name)
        return name


def identifier(hint: str) -> str:
    """A hint with everything replaced that C does not allow in an identifier or keeps for itself."""
    name = re.sub(r"\W+", "_", hint, flags=re.ASCII)
    name = re.sub(r"__+", "_", name).lstrip("_") or "v"
    name = name if name[0].isalpha() else f"v{name}"
    return f"{name}_" if MACRO.fullmatch(name) else name


def comment_text(text: str) -> str:
    """A text as it may stand in a comment of C, whatever it holds: ASCII in a line, and nothing that ends a comment."""
    plain = re.sub(r"[^ -~]|\\", "_", text)
    return re.sub(r"\*(?=/)|/(?=\*)|\?(?=\?)", r"\g<0>_", plain)


INT_MAX = 2**31 - 1
_ANY: Range = (-(2**63), 2**63 - 1)


def forms(map: AffineMap, operands: Sequence[SSAValue]) -> list[Linear]:
    """The results of a map as sums over its operands themselves, which are not folded further, except constants."""
    atoms = [Linear.of(value) if (n := _constant(value)) is None else Linear((), n) for value in operands]
    return [form_of(expr, (), atoms) for expr in map.results]


def offset(buffer: SSAValue, subscripts: Sequence[Linear]) -> Linear:
    """The position of an element in its buffer, counted in elements. Raises UnsupportedError for a dynamic layout."""
    return address(loop.memref_of(buffer), subscripts)


def split_unrolled(form: Linear) -> tuple[Linear, Linear]:
    """A position as what is known when the code runs only, and a constant for each turn of the unrolled loops around.

    The second is 0 where there is none, or where a part could be negative and so lie outside its buffer.
    """
    turn, rest = form.split(_is_unrolled)
    if not turn.terms or not rest.terms or min(form_bounds(turn)[0], form_bounds(rest)[0]) < 0:
        return form, Linear()
    return rest, turn


def _is_unrolled(root: SSAValue) -> bool:
    parent = root.block.parent_op() if isinstance(root, BlockArgument) else None
    return isinstance(parent, loop.ForOp) and bool(parent.unroll)


def _constant(value: SSAValue) -> int | None:
    match value.owner:
        case ConstantOp(value=IntegerAttr() as constant):
            return constant.value.data
        case _:
            return None


def form_bounds(form: Linear) -> Range:
    """The least and greatest value that a form can have."""
    return range_of(form, bounds) or _ANY


def bounds(value: SSAValue) -> Range:
    """The least and greatest value that an index can have; any of a `long long` where nothing is known."""
    if (number := _constant(value)) is not None:
        return number, number
    match value.owner:
        case loop.IndexOp():
            return form_bounds(form_of_value(value))
        case IndexCastOp(input=source) if source.type == i32:
            return -INT_MAX - 1, INT_MAX
        case _:
            return value_range(value, bounds) or _ANY


def is_int(value: SSAValue) -> bool:
    """Whether an index is declared `int`: its range, and for a loop variable also its bound, fits."""
    low, high = bounds(value)
    return low >= -INT_MAX - 1 and high <= (INT_MAX - 1 if isinstance(value, BlockArgument) else INT_MAX)


@dataclass(frozen=True)
class IndexWriter:
    """Prints forms with the names of their atoms."""

    names: Identifiers

    def text(self, form: Linear) -> str:
        """The form as a C expression."""
        return self._sum(form)[0]

    def position(self, buffer: SSAValue, subscripts: Sequence[Linear]) -> str:
        """The position of an element in its buffer, with the swizzle of its layout, as a C expression."""
        flipped = flips(loop.memref_of(buffer), subscripts)
        if flipped is None or not (flipped.terms or flipped.constant):
            return self.text(offset(buffer, subscripts))
        row = self.text(offset(buffer, [*subscripts[:-1], Linear()]))
        return f"{row} + ({self.text(subscripts[-1])} ^ {self.text(flipped)})"

    def conditions(self, map: AffineMap, operands: Sequence[SSAValue]) -> str:
        """The conjunction of the conditions `lhs < rhs` that a map of sides stands for."""
        texts = [self.text(form) for form in forms(map, operands)]
        return " && ".join(f"{lhs} < {rhs}" for lhs, rhs in zip(texts[::2], texts[1::2], strict=True))

    def _sum(self, form: Linear) -> tuple[str, bool]:
        """The text of a sum, and whether it is a `long long`: some partial sum may not fit in an `int`."""
        if len(form.terms) == 1 and form.terms[0][1] == 1 and not form.constant:
            return self._atom(form.terms[0][0])
        magnitudes = [abs(c) * max(abs(end) for end in form_bounds(Linear.of(atom))) for atom, c in form.terms]
        is_wide = sum(magnitudes) + abs(form.constant) > INT_MAX
        text = ""
        for (atom, coefficient), magnitude in zip(form.terms, magnitudes, strict=True):
            factor, atom_is_wide = self._atom(atom)
            is_wide = is_wide or atom_is_wide
            if is_wide and not atom_is_wide and (not text or magnitude > INT_MAX):
                factor = f"(long long){factor}" if factor.isidentifier() else f"(long long)({factor})"
            text += self._term(factor, coefficient, is_first=not text)
        if form.constant or not text:
            text += self._constant(form.constant, is_first=not text)
        return text, is_wide

    def _term(self, factor: str, coefficient: int, is_first: bool) -> str:
        times = "" if abs(coefficient) == 1 else f" * {abs(coefficient)}"
        sign = "-" if coefficient < 0 else ""
        if is_first:
            return f"{sign}{factor if not sign else _grouped(factor)}{times}"
        return f" {sign or '+'} {factor}{times}"

    def _constant(self, value: int, is_first: bool) -> str:
        if is_first:
            return str(value)
        return f" {'-' if value < 0 else '+'} {abs(value)}"

    def _atom(self, atom: Atom) -> tuple[str, bool]:
        if not isinstance(atom, Division):
            return self.names[atom], not is_int(atom)
        text, is_wide = self._sum(atom.form)
        if atom.divisor > INT_MAX and not is_wide:
            text, is_wide = f"(long long)({text})", True
        if form_bounds(atom.form)[0] < 0:
            helper = "floor_mod" if atom.remainder else "floor_div"
            return f"{helper}({text}, {atom.divisor}{'LL' if is_wide else ''})", is_wide
        is_product = len(atom.form.terms) == 1 and not atom.form.constant
        return f"{text if is_product else f'({text})'} {'%' if atom.remainder else '/'} {atom.divisor}", is_wide


def _grouped(factor: str) -> str:
    return factor if factor.isidentifier() else f"({factor})"
