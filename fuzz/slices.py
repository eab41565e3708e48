"""Random expressions of parts of tensors: products whose factors are slices, also of long k, and writes in place."""

from __future__ import annotations

import torch

from deplodock.fuzz.drawing import DTYPES, FLOATS, Drawer, Drawn
from deplodock.fuzz.program import Node

DEPTHS = (40, 65, 136, 600, 1030, 2064, 4100)
"""The k of which slices are taken: chunks whole and ragged, and up to some thousands."""

STARTS = (0, 0, 1, 8, 16)
"""Where slices start: at, beside and behind multiples of 16 bytes."""


def sliced(drawer: Drawer) -> Drawn:
    """Products of few rows and columns whose factors are slices: of k, which may be long, and of rows and columns."""
    k, dtype = drawer.draw.choice(DEPTHS), drawer.dtype(FLOATS)
    m, n = (drawer.draw.choice([2, 5, 8, 17] if k > 600 else [8, 17, 33]) for _ in range(2))
    start, end = drawer.draw.choice(STARTS), k - drawer.draw.choice(STARTS)
    first = drawer.draw.choice([0, 0, 1, 4])
    x, along = drawer.input((first + m, k), dtype), f"{start}:{end}"
    match drawer.draw.choice(["both", "one", "transposed", "linear", "batched"]):
        case "both":
            return f"{{}}[{first}:, {along}] @ {{}}[{along}]", [x, drawer.input((k, n), dtype)]
        case "one":
            return f"{{}}[{first}:, :{end - start}] @ {{}}[{along}, 1:]", [x, drawer.input((k, n), dtype)]
        case "transposed":
            return f"{{}}[:, {along}] @ {{}}[:, {along}].t()", [x, drawer.input((n, k), dtype)]
        case "linear":
            return f"F.linear({{}}[..., {along}], {{}}[{first}:, {along}])", [x, drawer.input((first + n, k), dtype)]
        case _:
            w = drawer.input((2, k, 4), dtype)
            return f"{{}}[{first}:, {along}] @ {{}}[:, {along}]", [x, w]


def written(drawer: Drawer) -> Drawn:
    """A value written in place, the whole of it or a part, also as an argument of the program."""
    x = drawer.value(least=1)
    part = drawer.draw.choice(["", "", "[1:]", "[..., ::2]", "[:, 1:]", ".transpose(0, -1)"])
    other = _broadcast(drawer, f"{{}}{part}", x)
    if x.value.dtype == torch.bool:
        return drawer.draw.choice([(f"{{}}{part}.logical_not_()", [x]), (f"{{}}{part}.copy_({{}})", [x, other])])
    name = drawer.draw.choice(["add_", "mul_", "copy_", "zero_", "clamp_", "masked_fill_", "sub_"])
    match name:
        case "zero_":
            return f"{{}}{part}.zero_()", [x]
        case "clamp_":
            return f"{{}}{part}.clamp_(-1, 2)", [x]
        case "masked_fill_":
            return f"{{}}{part}.masked_fill_({{}} > 0, 1)", [x, other]
        case _:
            return f"{{}}{part}.{name}({{}})", [x, other]


def _broadcast(drawer: Drawer, template: str, x: Node) -> Node:
    """A value that is written to what a template makes of another, or may be."""
    seen = eval(template.format("x"), {"x": x.value})
    if drawer.chance(0.3) and seen.shape == x.value.shape:
        return drawer.draw.choice([node for node in drawer.pool if node.value.shape == seen.shape])
    return drawer.shaped(drawer.broadcasting(seen.shape), drawer.draw.choice([x.value.dtype, *_narrower(x)]))


def _narrower(x: Node) -> list[torch.dtype]:
    """Types whose values can be added to a value in place."""
    return [dtype for dtype in DTYPES if torch.can_cast(dtype, x.value.dtype)]
