"""Draws what random expressions work on: shapes, element types, inputs, and arguments among the values there are."""

from __future__ import annotations

import contextlib
import math
import random
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import TypeAlias

import torch
from xdsl.ir import Attribute

from deplodock.errors import UnsupportedError
from deplodock.frontend.importer import tensor_type
from deplodock.fuzz.program import Node, make_input, make_node

EXTENTS = (1, 2, 3, 5, 7, 8, 11, 16, 17, 33)
"""Extents: 1, primes, powers of two, and one beside a warp."""

MAX_ELEMENTS = 6000
MAX_RANK = 5
LARGEST = 1e4
"""The size of values beyond which an expression is not built upon, unless huge inputs are wanted."""

SPECIALS = ("math.nan", "math.inf", "-math.inf", "-0.0", "1e30", "3e38", "1e-40")
SMALL_SPECIALS = ("math.nan", "math.inf", "-math.inf", "-0.0", "6e4", "1e-7")


def _elements() -> dict[torch.dtype, Attribute]:
    """The element types that the frontend takes, in PyTorch's order of names."""
    found: dict[torch.dtype, Attribute] = {}
    for name, dtype in sorted(vars(torch).items()):
        if (
            not isinstance(dtype, torch.dtype)
            or dtype in found
            or name.startswith(("q", "complex", "chalf", "cfloat", "cdouble"))
        ):
            continue
        with contextlib.suppress(UnsupportedError, RuntimeError):
            found[dtype] = tensor_type(torch.empty(1, dtype=dtype), name).element_type
    return found


ELEMENTS = _elements()
"""The element types of the IR by those of PyTorch, as far as the frontend takes them."""

DTYPES = tuple(ELEMENTS)
FLOATS = tuple(dtype for dtype in DTYPES if dtype.is_floating_point)
INTEGERS = tuple(dtype for dtype in DTYPES if not dtype.is_floating_point and dtype != torch.bool)
INDICES = tuple(dtype for dtype in INTEGERS if dtype in (torch.int32, torch.int64))


Drawn: TypeAlias = tuple[str, Sequence[Node]]
"""An expression as it is drawn: its template and its arguments."""


class Drawer:
    """A program being drawn: the random choices, and the values that there are.

    With `is_called` most inputs are views of other memory, which several may share.
    """

    def __init__(self, draw: random.Random, *, is_called: bool = False) -> None:
        self.draw = draw
        self.pool: list[Node] = []
        self._memory: list[Node] = []
        self._is_called = is_called
        self.used: set[Node] = set()
        self._inputs = 0
        self.has_specials = draw.random() < 0.15
        self._main = torch.float32 if draw.random() < 0.45 else draw.choice(DTYPES)

    # Choices

    def chance(self, probability: float) -> bool:
        """Whether something of that probability happens."""
        return self.draw.random() < probability

    def shape(self, least: int = 0, most: int = 3) -> tuple[int, ...]:
        """A shape of that many dimensions, of at most MAX_ELEMENTS elements."""
        extents = [self.draw.choice(EXTENTS) for _ in range(self.draw.randint(max(least, 1), most))]
        while math.prod(extents) > MAX_ELEMENTS:
            extents[self.draw.randrange(len(extents))] = 2
        return tuple(extents) if least or self.chance(0.95) else ()

    def dtype(self, among: Sequence[torch.dtype] = DTYPES) -> torch.dtype:
        """An element type, more often that of most of the program."""
        return self._main if self._main in among and self.chance(0.6) else self.draw.choice(among)

    def broadcasting(self, shape: Sequence[int]) -> tuple[int, ...]:
        """A shape that broadcasts to another."""
        kept = tuple(shape)[self.draw.choice([0, 0, self.draw.randint(0, len(shape))]) :]
        return tuple(1 if self.chance(0.2) else extent for extent in kept)

    def dim(self, node: Node) -> int:
        """A dimension of a value, counted from either end."""
        rank = max(node.value.dim(), 1)
        return self.draw.randint(-rank, rank - 1)

    def dims(self, node: Node) -> list[int]:
        """Some different dimensions of a value, at least one where it has any."""
        rank = node.value.dim()
        return self.draw.sample(range(rank), self.draw.randint(1, rank)) if rank else []

    # Values

    def input(self, shape: Sequence[int], dtype: torch.dtype) -> Node:
        """A new input of normal numbers, small integers or booleans; some are strided, some have special values."""
        number = self._inputs
        self._inputs += 1
        if (shared := self._shared(tuple(shape), dtype)) is not None:
            return self.keep(shared)
        stored, view = self._layout(tuple(shape))
        if not view:
            return self.keep(self._made(f"x{number}", stored, dtype))
        memory = self._made(f"b{number}", stored, dtype)
        self._memory += [memory] * self._is_called
        return self.keep(make_input(f"x{number}", f"x{number} = {memory.template}{view}", memory))

    def _shared(self, shape: tuple[int, ...], dtype: torch.dtype) -> Node | None:
        """An input of which an earlier one sees the memory, or a part of it."""
        size = math.prod(shape)
        fitting = [node for node in self._memory if node.value.dtype == dtype and node.value.numel() >= size]
        if not shape or not fitting or not self.chance(0.5):
            return None
        memory, name = self.draw.choice(fitting), f"x{self._inputs - 1}"
        start = self.draw.randint(0, memory.value.numel() - size)
        return make_input(name, f"{name} = {memory.template}.view(-1)[{start}:{start + size}].view{shape}", memory)

    def _made(self, name: str, shape: tuple[int, ...], dtype: torch.dtype) -> Node:
        """An input that is all of its memory."""
        sizes = ", ".join(map(str, shape))
        kind = "" if dtype in (torch.float32, torch.int64) else f", dtype={dtype}"
        if dtype == torch.bool:
            setup = f"{name} = torch.rand({sizes or '()'}) > 0.4"
        elif dtype.is_floating_point:
            setup = f"{name} = torch.randn({sizes or '()'}{kind})" + self._special(name, shape, dtype)
        else:
            low = 0 if dtype == torch.uint8 else -4
            setup = f"{name} = torch.randint({low}, 6, ({sizes}{',' if len(shape) == 1 else ''}){kind})"
        return make_input(name, setup)

    def indices(self, shape: Sequence[int], bound: int) -> Node:
        """A new input of subscripts from 0 below a bound, or as often from -bound."""
        name = f"x{self._inputs}"
        self._inputs += 1
        dtype = self.draw.choice(INDICES)
        kind = "" if dtype == torch.int64 else f", dtype={dtype}"
        return make_input(name, f"{name} = torch.randint(0, {bound}, {tuple(shape)}{kind})")

    def value(self, dtypes: Sequence[torch.dtype] = DTYPES, least: int = 0) -> Node:
        """A value that is there, the latest and unused ones first, or else a new input."""
        fitting = [node for node in self.pool if node.value.dtype in dtypes and node.value.dim() >= least]
        fresh = [node for node in fitting if node not in self.used]
        if fitting and self.chance(0.9):
            return fresh[-1] if fresh and self.chance(0.7) else self.draw.choice(fitting)
        return self.input(self.shape(least), self.dtype(dtypes))

    def like(self, node: Node, dtypes: Sequence[torch.dtype] | None = None) -> Node:
        """A value that broadcasts with another, of the same type or of one of others."""
        wanted = (node.value.dtype,) if dtypes is None else dtypes

        def fits(other: Node) -> bool:
            try:
                torch.broadcast_shapes(other.value.shape, node.value.shape)
            except RuntimeError:
                return False
            return other.value.dtype in wanted

        fitting = [other for other in self.pool if fits(other)]
        if fitting and self.chance(0.6):
            return self.draw.choice(fitting)
        return self.input(self.broadcasting(node.value.shape), self.dtype(wanted))

    def shaped(self, shape: Sequence[int], dtype: torch.dtype) -> Node:
        """A value of exactly that shape and type, a new one if there is none."""
        fitting = [node for node in self.pool if tuple(node.value.shape) == tuple(shape) and node.value.dtype == dtype]
        return self.draw.choice(fitting) if fitting and self.chance(0.4) else self.input(shape, dtype)

    def keep(self, node: Node) -> Node:
        """Add a value to those that there are."""
        self.pool.append(node)
        return node

    def try_node(self, build: Callable[[Drawer], Drawn]) -> bool:
        """Draw an expression and keep it, unless PyTorch refuses it or its value is of no use."""
        count, inputs, memory = len(self.pool), self._inputs, len(self._memory)
        try:
            template, args = build(self)
            node = make_node(template, args)
        except (RuntimeError, ValueError, IndexError, TypeError, AttributeError, NotImplementedError):
            node = None
        parts = node.value if node is not None and isinstance(node.value, tuple | list) else None
        if node is not None and parts is not None and len(parts):
            chosen = self.draw.randrange(len(parts))
            node = Node("{}[" + str(chosen) + "]", (node,), parts[chosen])
        if node is None or not self._is_useful(node.value):
            del self.pool[count:], self._memory[memory:]
            self._inputs = inputs
            return False
        self.used.update(node.args)
        self.keep(replace(node, family=build.__name__))
        return True

    def _is_useful(self, value: object) -> bool:
        if not isinstance(value, torch.Tensor) or value.dtype not in DTYPES:
            return False
        if not 0 < value.numel() <= MAX_ELEMENTS or value.dim() > MAX_RANK:
            return False
        if not value.dtype.is_floating_point or self.has_specials:
            return True
        return bool(value.isfinite().all()) and float(value.abs().max()) < LARGEST

    def _layout(self, shape: tuple[int, ...]) -> tuple[tuple[int, ...], str]:
        """The shape to store, and how the wanted shape is seen in it."""
        if not shape or not self.chance(0.6 if self._is_called else 0.2):
            return shape, ""
        match self.draw.choice(["transposed", "stepped", "expanded", "offset"]):
            case "transposed":
                return shape[::-1], f".permute({', '.join(str(dim) for dim in reversed(range(len(shape))))})"
            case "stepped":
                return (*shape[:-1], 2 * shape[-1]), "[..., ::2]"
            case "expanded":
                return (1, *shape[1:]), f".expand{shape}"
            case _:
                return (shape[0] + 2, *shape[1:]), self.draw.choice(["[2:]", "[1:-1]", "[:-2]"])

    def _special(self, name: str, shape: tuple[int, ...], dtype: torch.dtype) -> str:
        if not self.has_specials or not shape or not self.chance(0.5):
            return ""
        value = self.draw.choice(SPECIALS if torch.finfo(dtype).max > 1e30 else SMALL_SPECIALS)
        return f"; {name}.view(-1)[{self.draw.randint(0, 2)}::{self.draw.randint(5, 13)}] = {value}"
