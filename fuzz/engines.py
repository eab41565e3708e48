"""Random products of matrices of 16 bits or bytes, and attention, with schedules that give them to tensor cores.

Their extents are large enough for a warpgroup, and boxes can take their rows; tiles are ragged all the same. Others
have few rows, which are the columns of the instruction, and are read with and without slabs.
"""

from __future__ import annotations

import random

import torch

from deplodock.dialects.buffers import UNIT_BYTES
from deplodock.fuzz.program import Expression, make_input, make_node
from deplodock.passes.options import Kind, Value
from deplodock.schedule.choose.sizes import PRODUCER
from deplodock.schedule.steps import RuleStep, Schedule, steps

ROWS = (64, 70, 128, 140)
COLUMNS = (40, 56, 72)
DEPTHS = (64, 96, 200)
"""Of rows of whole 16 bytes, so that boxes take them."""

FEW_ROWS = (2, 5, 8, 19, 32)
MANY_COLUMNS = (64, 72, 75)
FEW_SHARE = 0.3
"""The share of products of few rows, whose columns and k are any."""

LONG_DEPTHS = (*DEPTHS, 131, 616, 2048)
"""The k of products of few rows."""

SLICED_SHARE = 0.3
"""The share of products whose factors are slices along k, and of rows, of larger matrices."""

EDGES = (0, 16, 32)
"""The elements before and behind such a slice: whole units of boxes."""

TEMPLATES = {
    "F.linear({}, {})": "xw",
    "F.relu(F.linear({}, {}))": "xw",
    "F.linear({}, {}) * 2": "xw",
    "F.linear({}, {}).sum(-1)": "xw",
    "F.linear({}, {}) + {}": "xwr",
    "F.silu(F.linear({}, {})) * F.linear({}, {})": "xwxv",
}
"""Products and what follows them, with the inputs that they take."""

STRIDED = {"{} @ {}": "xw", "F.silu({} @ {})": "xw"}
"""Products by weights that k walks with a stride."""

BYTE_SHARE = 0.3
"""The share of products of bytes, whose sums are integers."""

BYTES = {
    "torch._int_mm({}, {})": "xw",
    "torch._int_mm({}, {}) * 3 - 1": "xw",
    "(torch._int_mm({}, {}) * 0.01).bfloat16()": "xw",
}
"""Products of bytes, whose weights lie transposed but where k walks them with a stride."""

PRODUCER_SHARE = 0.8
"""The share of rings of boxes whose copies a warpgroup of its own makes."""

STREAM_SHARE = 0.3
"""The share of products for engines whose CTAs go on from tile to tile."""

STORE_SHARE = 0.4
"""The share of products of boxes whose results are stored in boxes."""


ATTENTION_SHARE = 0.15
"""The share of attention among what tensor cores multiply."""

ATTENTION_ROWS = (20, 64)
"""Queries and keys: few, as levels above the kernel are evaluated point by point."""
ATTENTION_WIDTHS = (8, 24)
"""Of rows of whole 16 bytes, so that boxes take them."""


SPLIT_SHARE = 0.3
"""The share of attention whose keys several CTAs share."""


def draw_for_engine(draw: random.Random) -> tuple[Expression, Kind, Schedule]:
    """A program that an engine of tensor cores multiplies in, the kind of its kernel, and the rules for that."""
    if draw.random() < ATTENTION_SHARE:
        return _draw_attention(draw)
    expression, schedule = draw_product(draw)
    return expression, Kind.CONTRACTION, schedule


def _draw_attention(draw: random.Random) -> tuple[Expression, Kind, Schedule]:
    """Attention in half precision, with and without masks and shared heads."""
    dtype, width = draw.choice(("bfloat16", "float16")), draw.choice(ATTENTION_WIDTHS)
    option = draw.choice(("", "is_causal=True", "attn_mask={}", "scale=0.3"))
    is_group = draw.random() < 0.6
    queries = ATTENTION_ROWS if is_group or option == "is_causal=True" else (1, *ATTENTION_ROWS)
    rows, keys = draw.choice(queries), 64 if option == "attn_mask={}" else draw.choice(ATTENTION_ROWS)
    shapes = {"q": (1, 2, rows, width), "k": (1, 1, keys, width), "v": (1, 1, keys, width)}
    texts = {name: f"{name} = torch.randn({shape}, dtype=torch.{dtype})" for name, shape in shapes.items()}
    if option == "attn_mask={}":
        texts["m"] = f"m = torch.rand({rows}, {keys}) > 0.3"
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(draw.randrange(2**16))
        inputs = [make_input(name, text) for name, text in texts.items()]
    template = f"F.scaled_dot_product_attention({{}}, {{}}, {{}}, enable_gqa=True{', ' * bool(option)}{option})"
    rules: dict[str, dict[str, Value]] = {"tileify": {}}
    depth, keys_of_step = draw.choice((2, 3)), draw.choice((16, 32))
    if is_group:
        rules["stream-tile"] = {"engine": "wgmma", "m": 64, "n": keys_of_step, "slices": 1}
        rules |= {"double-buffer": {"depth": depth}, "tma-copy": {}, "split-inner-for-swizzle": {}}
    else:
        warp = draw.choice((16, 32))
        shape = {"m": draw.choice((32, 64)), "n": keys_of_step, "warp": warp, "slices": draw.choice((1, 2, 4))}
        rules["stream-tile"] = {"engine": "mma", **shape}
        rules |= {"double-buffer": {"depth": depth}, "async-copy": {}}
    rules["pipeline-k-outer"] = {"distance": 1}
    schedule = steps(rules)
    if draw.random() < SPLIT_SHARE:
        split = {"s": draw.choice((2, 3)), "unit": draw.choice((1, keys_of_step))}
        schedule += RuleStep("split-stream", split), RuleStep("blockify-launch", {"threads": 64}, "out")
    return Expression((make_node(template, inputs, "attention on tensor cores"),)), Kind.OTHER, schedule


def draw_product(draw: random.Random) -> tuple[Expression, Schedule]:
    """A product of two matrices and what follows it, and rules that give it to an engine of tensor cores."""
    dtype = torch.int8 if draw.random() < BYTE_SHARE else draw.choice((torch.bfloat16, torch.float16))
    is_few, is_strided = draw.random() < FEW_SHARE, False
    if is_few:
        m, n, k = draw.choice(FEW_ROWS), draw.choice(MANY_COLUMNS), draw.choice(LONG_DEPTHS)
    else:
        m, n, k = draw.choice(ROWS), draw.choice(COLUMNS), draw.choice(DEPTHS)
        is_strided = draw.random() < 0.3
    is_integer, start, end = dtype == torch.int8, 0, 0
    if draw.random() < SLICED_SHARE:
        start, end = draw.choice(EDGES), draw.choice(EDGES)
    whole = start + k + end
    weights = (whole, n) if is_strided else (n, whole)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(draw.randrange(2**16))
        templates = BYTES if is_integer else STRIDED if is_strided else TEMPLATES
        template, names = draw.choice(list(templates.items()))
        shapes = {"x": (m, whole), "w": weights, "v": weights, "r": (m, n)}
        draws = "torch.randint(-128, 128, {}, dtype=torch.int8)" if is_integer else f"torch.randn({{}}, dtype={dtype})"
        inputs = {name: make_input(name, f"{name} = {draws.format(shapes[name])}") for name in dict.fromkeys(names)}
        for name in [name for name in inputs if name != "r" and whole > k]:
            part = "{}[%d:%d]" if is_strided and name != "x" else "{}[:, %d:%d]"
            inputs[name] = make_node(part % (start, start + k), [inputs[name]])
        if is_integer and not is_strided:
            inputs["w"] = make_node("{}.T", [inputs["w"]])
        expression = Expression((make_node(template, [inputs[name] for name in names], "product on tensor cores"),))
    has_boxes = whole * dtype.itemsize % UNIT_BYTES == 0 and not (is_integer and is_strided)
    return expression, _draw_few(draw, m, has_boxes) if is_few else _draw_engine(draw, k, is_strided, has_boxes)


def _draw_few(draw: random.Random, m: int, has_boxes: bool) -> Schedule:
    """The rules of a product of so few rows: read straight from memory, or in a ring of slabs, maybe of boxes."""
    if has_boxes and m % 8 == 0 and draw.random() < 0.4:
        return _draw_few_by_warpgroups(draw, m)
    n, slices, is_staged = draw.choice((16, 32)), draw.choice((1, 2, 4)), m % 8 == 0 and draw.random() < 0.5
    rules: dict[str, dict[str, Value]] = {"tileify": {}, "chunk-matmul-k": {"bk": draw.choice((64, 128)), "kv": 1}}
    rules["blockify-launch"] = {"m": m, "n": draw.choice((n, 2 * n))}
    if is_staged:
        rules["stage-inputs"] = {"memory": "shared", "transpose": "never"}
    rules["tensor-tile"] = {"engine": "mma", "rows": "n", "m": draw.choice((8, 32)), "n": n, "slices": slices}
    if is_staged:
        rules |= {"double-buffer": {"depth": 2}, "async-copy": {}, "pad-smem": {}, "pipeline-k-outer": {"distance": 1}}
    return steps(rules)


def _draw_few_by_warpgroups(draw: random.Random, m: int) -> Schedule:
    """The rules of a product of few rows whose columns are the rows of warpgroups."""
    depth, is_split = draw.choice((2, 3)), draw.random() < 0.5
    rules: dict[str, dict[str, Value]] = {"tileify": {}, "chunk-matmul-k": {"bk": 32, "kv": 1}}
    rules |= {"split-matmul-k": {"s": 2, "over": "ticket"}} if is_split else {}
    rules |= {"blockify-launch": {"m": m, "n": 64}, "stage-inputs": {"memory": "shared", "transpose": "never"}}
    rules["tensor-tile"] = {"engine": "wgmma", "m": m, "n": 64, "rows": "n", "slices": 1}
    rules |= {"double-buffer": {"depth": depth}, "tma-copy": {}, "split-inner-for-swizzle": {}}
    rules["pipeline-k-outer"] = {"distance": 1 if is_split else PRODUCER, "barrier": "mbarrier"}
    return steps(rules)


def _draw_engine(draw: random.Random, k: int, is_strided: bool, has_boxes: bool) -> Schedule:
    """The rules of a contraction for an engine of tensor cores; columns that walk memory fill lines of a slab."""
    depth, is_boxed = draw.choice((2, 3)), True
    chunk = draw.choice((32, 64)) if k > 64 else 32
    rules: dict[str, dict[str, Value]] = {"tileify": {}, "chunk-matmul-k": {"bk": chunk, "kv": 1}}
    if draw.random() < 0.6 and has_boxes:
        columns = (32,) if is_strided else (24, 32, 48)
        rules["blockify-launch"] = {"m": draw.choice((64, 64, 128)), "n": draw.choice(columns)}
        engine: dict[str, Value] = {"engine": "wgmma", "m": 64, "n": 128, "rows": "m", "slices": 1}
    else:
        rules["blockify-launch"] = {"m": 64, "n": 32}
        engine = {"engine": "mma", "m": 32, "n": 16, "rows": "m", "slices": 1}
        is_boxed = has_boxes and draw.random() < 0.7
    is_split = -(-k // chunk) > 2 and draw.random() < 0.3
    if is_split:
        over = draw.choice(("block", "ticket"))
        rules["split-matmul-k"] = {"s": 2, "over": over}
        rules["blockify-launch"] |= {"threads": 64} if over == "block" else {}
    rules |= {"stage-inputs": {"memory": "shared", "transpose": "never"}, "tensor-tile": engine}
    rules |= {"double-buffer": {"depth": depth}}
    rules |= {"tma-copy": {}, "split-inner-for-swizzle": {}} if is_boxed else {"async-copy": {}, "pad-smem": {}}
    distance = PRODUCER if is_boxed and draw.random() < PRODUCER_SHARE else draw.randrange(1, depth)
    rules["pipeline-k-outer"] = {"distance": distance, "barrier": "mbarrier" if is_boxed else "cta"}
    if not is_split and draw.random() < STREAM_SHARE:
        rules["stream-matmul-k"] = {"ctas": draw.choice((1, 2, 3)), "unit": draw.choice(("step", "tile"))}
    if is_boxed and draw.random() < STORE_SHARE:
        rules["tma-store"] = {}
    return steps(rules)
