"""The engines of contracts: what one instruction multiplies, and which threads and registers hold its matrices.

An instruction of a team of threads, a warp or a warpgroup, multiplies `m` x `k` by `k` x `n`. A coordinate of a matrix
is a sum of digits. Each has a letter; threads so many apart in the team tell its values apart, or registers do. That is
a layout, and all that rules, checks and lowerings know of an instruction. With q, g and t digits of threads, and h, r
and j of registers,

    rows     of the left factor and of the result   q * 16 + h * 8 + g    q for warpgroups alone
    columns  of the result                          j * 8 + t * 2 + r     j for warpgroups alone
    k        of a factor that threads hold          any, the same for both factors, over t and registers
             of one beside a factor in a slab       as the columns, or j * 4 + t of f32

A thread of a warp holds the columns g of the right factor. Those of a warpgroup hold none: the engine reads the right
factor from a slab, and the left one, too, where no thread holds it. Rows of a warp may be in any order, as they do not
meet, and so may k, as it is summed.

Factors of f32 are read as TF32, without their last 13 bits.

Source: PTX ISA, "Matrix Fragments for mma.m16n8k16 with floating point type", "Matrix Fragments for mma.m16n8k8",
"Matrix Fragments for mma.m16n8k32", "Register Fragments for wgmma.mma_async.m64nNk16" and those of its other depths.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from math import prod
from typing import TypeAlias

from deplodock.dialects.precision import HIGHEST

MMA, WGMMA = "mma", "wgmma"
"""The engines of warps and of warpgroups, as contracts name them."""


@dataclass(frozen=True)
class Digit:
    """A digit of a coordinate: its letter, how many values it has, and how far apart those are in the coordinate.

    Threads `weight` apart in the number of a thread tell it apart; registers do if there is no weight.
    """

    letter: str
    extent: int
    step: int
    weight: int | None = None


Layout: TypeAlias = tuple[Digit, ...]
"""A coordinate as a sum of digits, the threads' among them."""

_EIGHTS, _QUADS = Digit("g", 8, 1, weight=4), Digit("t", 4, 2, weight=1)
_HALVES, _PAIR = Digit("h", 2, 8), Digit("r", 2, 1)


@dataclass(frozen=True)
class Engine:
    """One instruction of an engine."""

    name: str
    instruction: str
    """What it is called; nothing where columns and types are in the name."""
    factors: tuple[str, ...]
    """The element types of its factors, both of one."""
    result: str
    depth: int
    """The elements along k that one thread holds of a row or column."""
    packed: int
    """The elements along k that one register of a factor holds, neighbours."""
    rows: Layout = (_HALVES, _EIGHTS)
    columns: Layout = (_QUADS, _PAIR)
    """Of the result, in one block: an instruction of warpgroups has one or more, side by side."""
    team: str = "warp"
    threads: int = 32
    """Those of a team."""
    reads_slabs: bool = False
    """Whether it reads the right factor from a slab, and the left one where no thread holds it."""

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
        return points(self.rows)

    @property
    def n(self) -> int:
        """The columns, of one block."""
        return points(self.columns)

    @property
    def k(self) -> int:
        """The products that it adds up for each element of the result."""
        return self.column.extent * self.depth

    @property
    def row(self) -> Digit:
        """The threads of rows, and of the right factor's columns where they hold these."""
        return self.rows[-1]

    @property
    def column(self) -> Digit:
        """The threads of the result's columns, and of k."""
        return self.columns[0]

    @property
    def held(self) -> tuple[int, int]:
        """The rows, and the columns of a block, that one thread holds."""
        rows, columns = (
            points([digit for digit in side if digit.weight is None]) for side in (self.rows, self.columns)
        )
        return rows, columns

    @property
    def along(self) -> Layout:
        """One block along k of a left factor that threads hold beside a right one in a slab."""
        return self.columns if self.packed > 1 else (replace(self.column, step=1),)


def points(layout: Iterable[Digit]) -> int:
    """How many values a coordinate has."""
    return prod(digit.extent for digit in layout)


ENGINES = (
    Engine(MMA, "m16n8k16", ("bf16", "f16"), "f32", depth=4, packed=2),
    Engine(MMA, "m16n8k8", ("f32",), "f32", depth=2, packed=1),
    Engine(MMA, "m16n8k32", ("i8",), "i32", depth=8, packed=4),
)
"""The instructions of warps."""

WARPGROUPS = tuple(
    replace(
        row,
        name=WGMMA,
        instruction="",
        rows=(Digit("q", 4, 16, weight=32), *row.rows),
        team="warpgroup",
        threads=128,
        reads_slabs=True,
    )
    for row in ENGINES
)
"""The instructions of warpgroups: those of their four warps, one below the other."""


def engine(name: str, factor: str, precision: str = HIGHEST) -> Engine | None:
    """The instruction of an engine for factors of an element type; None also for f32 in products that must be exact."""
    if factor == "f32" and precision == HIGHEST:
        return None
    return next((row for row in (*ENGINES, *WARPGROUPS) if row.name == name and factor in row.factors), None)


def row_of(name: str, other: Engine) -> Engine:
    """The instruction of an engine that multiplies what one of any engine does."""
    return next(row for row in (*ENGINES, *WARPGROUPS) if (row.name, row.factors) == (name, other.factors))


def reads_slabs(name: str) -> bool:
    """Whether an engine reads factors from slabs; threads hold those of others."""
    return any(row.reads_slabs and row.name == name for row in WARPGROUPS)


def engine_names() -> Sequence[str]:
    """The names that contracts may give."""
    return list(dict.fromkeys(row.name for row in (*ENGINES, *WARPGROUPS)))
