"""The engines of contracts: what one instruction multiplies, and which lanes hold its factors and its result.

A warp's instruction multiplies `m` x `k` by `k` x `n`. Lanes are numbered by digits, the last one fastest: `Digit`
names those whose weight and extent are given. With rows' digit r, columns' digit c and the registers of a lane counted
from 0,

    left    row = r + rows of the registers * extent(r)     k = any, the same for both factors, over c and registers
    right   column = r                                      k = any, as on the left
    result  row as on the left                              column = c * pair + register

Rows may be in any order, as they do not meet, and so may k, as it is summed.

Factors of f32 are read as TF32, without their last 13 bits.

Source: PTX ISA, "Matrix Fragments for mma.m16n8k16 with floating point type", "Matrix Fragments for mma.m16n8k8" and
"Matrix Fragments for mma.m16n8k32".
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from deplodock.dialects.precision import HIGHEST


@dataclass(frozen=True)
class Digit:
    """Lanes that differ in one digit: its weight in the number of the lane, and how many values it has."""

    weight: int
    extent: int


@dataclass(frozen=True)
class Engine:
    """One instruction of an engine."""

    name: str
    instruction: str
    factors: tuple[str, ...]
    """The element types of its factors, both of one."""
    result: str
    row: Digit
    """The lanes of the left factor's and the result's rows, and of the right factor's columns."""
    column: Digit
    """The lanes of the result's columns, and of k."""
    rows: int
    """The rows that one lane holds."""
    pair: int
    """The columns of the result that one lane holds, neighbours."""
    depth: int
    """The elements along k that one lane holds of a row or column."""
    packed: int
    """The elements along k that one register of a factor holds, neighbours."""

    @property
    def size(self) -> int:
        """The bytes of an element of the factors: four of them, or two, are a register."""
        return 4 // self.packed

    @property
    def adds_integers(self) -> bool:
        """Whether its sums are integers, which wrap; else they are floats, which are rounded."""
        return self.result == "i32"

    @property
    def m(self) -> int:
        """The rows that one instruction multiplies."""
        return self.row.extent * self.rows

    @property
    def n(self) -> int:
        """The columns."""
        return self.column.extent * self.pair

    @property
    def k(self) -> int:
        """The products that it adds up for each element of the result."""
        return self.column.extent * self.depth


_ROW, _COLUMN = Digit(4, 8), Digit(1, 4)

ENGINES = (
    Engine("mma", "m16n8k16", ("bf16", "f16"), "f32", _ROW, _COLUMN, rows=2, pair=2, depth=4, packed=2),
    Engine("mma", "m16n8k8", ("f32",), "f32", _ROW, _COLUMN, rows=2, pair=2, depth=2, packed=1),
    Engine("mma", "m16n8k32", ("i8",), "i32", _ROW, _COLUMN, rows=2, pair=2, depth=8, packed=4),
)
"""Every instruction that contracts are lowered to."""


def engine(name: str, factor: str, precision: str = HIGHEST) -> Engine | None:
    """The instruction of an engine for factors of an element type; None also for f32 in products that must be exact."""
    if factor == "f32" and precision == HIGHEST:
        return None
    return next((row for row in ENGINES if row.name == name and factor in row.factors), None)


def engine_names() -> Sequence[str]:
    """The names that contracts may give."""
    return list(dict.fromkeys(row.name for row in ENGINES))
