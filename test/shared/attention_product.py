"""The product of types, masks, shared heads, lengths and head sizes that attention must be right for."""

from __future__ import annotations

import itertools
from dataclasses import astuple, dataclass
from functools import cache
from typing import Any

from deplodock.analysis.shape.roundings import Roundings

DTYPES = ("float32", "bfloat16", "float16")
MASKS = {
    "none": ("", ""),
    "causal": ("is_causal=True, ", ""),
    "boolean": ("attn_mask=m, ", "torch.rand({queries}, {keys}) > 0.3"),
    "additive": ("attn_mask=m, ", "torch.randn({queries}, {keys}, dtype=t)"),
    "window": (
        "attn_mask=(torch.arange({keys}) <= torch.arange({queries}).unsqueeze(1))"
        " & (torch.arange({keys}) > torch.arange({queries}).unsqueeze(1) - 70), ",
        "",
    ),
}
"""Masks of numbers of queries and keys, as arguments of attention, and inputs that they need."""

HEADS = (2, 1)
"""Heads of keys and values, of two of queries."""

LENGTHS = (1, 7, 64, 127, 513)
SIZES = (40, 64, 96, 128, 192)


@dataclass(frozen=True)
class Combination:
    """One element of the product."""

    dtype: str
    mask: str
    heads: int
    queries: int
    size: int

    @property
    def keys(self) -> int:
        """The number of keys: over all sizes of heads, each length meets each of the queries' lengths."""
        return LENGTHS[(LENGTHS.index(self.queries) + SIZES.index(self.size)) % len(LENGTHS)]

    @property
    def text(self) -> str:
        """The program."""
        shapes = (2, self.queries), (self.heads, self.keys), (self.heads, self.keys)
        tensors = ", ".join(f"torch.randn(1, {count}, {length}, {self.size}, dtype=t)" for count, length in shapes)
        mask, given = (text.format(queries=self.queries, keys=self.keys) for text in MASKS[self.mask])
        call = f"F.scaled_dot_product_attention(q, k, v, {mask}enable_gqa=True)"
        return f"t = torch.{self.dtype}; (lambda q, k, v, m=None: {call})({tensors}, {given})"

    def __str__(self) -> str:
        return f"{self.dtype}-{self.mask}-{self.heads}-{self.queries}x{self.keys}x{self.size}"


PRODUCT = [Combination(*found) for found in itertools.product(DTYPES, MASKS, HEADS, LENGTHS, SIZES)]


def pairwise() -> list[Combination]:
    """Some of the product in which any two values of different factors come together, by a greedy choice."""
    left = set[tuple[Any, ...]]().union(*map(_pairs, PRODUCT))
    chosen: list[Combination] = []
    while left:
        best = max(PRODUCT, key=lambda one: (len(_pairs(one) & left), -one.queries * one.keys))
        chosen.append(best)
        left -= _pairs(best)
    return chosen


@cache
def _pairs(one: Combination) -> set[tuple[Any, ...]]:
    return set(itertools.combinations(enumerate(astuple(one)), 2))


@dataclass(frozen=True)
class Compiled:
    """A program at kernel level as text, its cubins in the cache, with inputs and what PyTorch gives in float64."""

    name: str
    module: str
    inputs: list[Any]
    reference: list[Any]
    eager: list[Any]
    rounded: Roundings


def compiled(target: Any, named: tuple[str, str]) -> Compiled:
    """Compile a program in a process without a GPU."""
    import torch

    from deplodock.analysis.machine.targets import nvcc_arch, target_of
    from deplodock.analysis.shape.roundings import roundings
    from deplodock.codegen.cuda import print_module
    from deplodock.frontend.arrays import to_array
    from deplodock.frontend.expression import read_expression
    from deplodock.passes.driver import Level, lower, new_context
    from deplodock.runtime.cubins import cubins

    torch.set_num_threads(1)
    name, text = named
    program = read_expression(text, seed=11)
    context = new_context()
    lower(program.module, context, Level.TENSOR, target=target, stream="always")
    rounded = roundings(program.module)
    lower(program.module, context, Level.KERNEL)
    cubins([print_module(program.module)], nvcc_arch(target_of(program.module).arch.data))
    inputs, reference, eager = (
        [to_array(value) for value in values] for values in (program.inputs, program.reference(), program.eager())
    )
    return Compiled(name, str(program.module), inputs, reference, eager, rounded)
