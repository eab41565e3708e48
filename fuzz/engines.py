"""Random products of 16-bit matrices, with schedules that give them to tensor cores, with and without producers.

Their extents are large enough for a warpgroup, and boxes can take their rows; tiles are ragged all the same.
"""

from __future__ import annotations

import random

import torch

from deplodock.fuzz.program import Expression, make_input, make_node
from deplodock.passes.options import Value
from deplodock.schedule.steps import Schedule, steps

ROWS = (64, 70, 128, 140)
COLUMNS = (40, 56, 72)
DEPTHS = (64, 96, 200)
"""Of rows of whole 16 bytes, so that boxes take them."""

TEMPLATES = {
    "F.linear({}, {})": "xw",
    "F.relu(F.linear({}, {}))": "xw",
    "F.linear({}, {}) * 2": "xw",
    "F.linear({}, {}).sum(-1)": "xw",
    "F.linear({}, {}) + {}": "xwr",
    "F.silu(F.linear({}, {})) * F.linear({}, {})": "xwxv",
}
"""Products and what follows them, with the inputs that they take."""

PRODUCER_SHARE = 0.7
"""The share of rings of boxes whose copies a warpgroup of its own makes."""


def draw_product(draw: random.Random) -> Expression:
    """A product of two matrices, and what follows it."""
    dtype = draw.choice((torch.bfloat16, torch.float16))
    m, n, k = draw.choice(ROWS), draw.choice(COLUMNS), draw.choice(DEPTHS)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(draw.randrange(2**16))
        template, names = draw.choice(list(TEMPLATES.items()))
        shapes = {"x": (m, k), "w": (n, k), "v": (n, k), "r": (m, n)}
        inputs = {
            name: make_input(name, f"{name} = torch.randn({shapes[name]}, dtype={dtype})")
            for name in dict.fromkeys(names)
        }
        return Expression((make_node(template, [inputs[name] for name in names]),))


def draw_engine(draw: random.Random) -> Schedule:
    """The rules of a contraction for an engine of tensor cores."""
    depth, is_boxed = draw.choice((2, 3)), True
    rules: dict[str, dict[str, Value]] = {"tileify": {}, "chunk-matmul-k": {"bk": draw.choice((32, 64)), "kv": 1}}
    if draw.random() < 0.6:
        rules["blockify-launch"] = {"m": draw.choice((64, 64, 128)), "n": draw.choice((24, 32, 40))}
        engine: dict[str, Value] = {"engine": "wgmma"}
    else:
        rules["blockify-launch"] = {"m": 64, "n": 32}
        engine, is_boxed = {"engine": "mma", "m": 32, "n": 16}, draw.random() < 0.7
    rules |= {"stage-inputs": {"memory": "shared", "transpose": "never"}, "tensor-tile": engine}
    rules |= {"double-buffer": {"depth": depth}}
    rules |= {"tma-copy": {}, "split-inner-for-swizzle": {}} if is_boxed else {"async-copy": {}, "pad-smem": {}}
    distance = "producer" if is_boxed and draw.random() < PRODUCER_SHARE else draw.randrange(1, depth)
    rules["pipeline-k-outer"] = {"distance": distance, "barrier": "mbarrier" if is_boxed else "cta"}
    return steps(rules)
