"""C identifiers for SSA values: their name hints, made unique in the function."""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import cache
from pathlib import Path

from xdsl.ir import SSAValue

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
