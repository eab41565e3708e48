"""Random expressions of the operations whose arguments depend on each other, by families, a function each."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import torch

from deplodock.fuzz.drawing import DTYPES, FLOATS, Drawer, Drawn
from deplodock.fuzz.program import Node
from deplodock.fuzz.schema_calls import call
from deplodock.fuzz.slices import sliced

EDGES = (16, 17, 24, 31, 32, 33, 48, 64, 65)
"""Extents of contractions: tiles whole and ragged, and several steps of chunks."""


def _tuple(values: Sequence[int]) -> str:
    return f"({', '.join(map(str, values))}{',' if len(values) == 1 else ''})"


def _edges(drawer: Drawer, count: int) -> list[int]:
    extents = [drawer.draw.choice(EDGES) if drawer.chance(0.7) else drawer.draw.randint(1, 40) for _ in range(count)]
    return [4 * max(1, extent // 4) for extent in extents] if drawer.chance(0.3) else extents


def _rows(drawer: Drawer, dtypes: Sequence[torch.dtype] = FLOATS) -> Node:
    """Rows to multiply from the left: those of a value that is there, or of a new matrix."""
    if drawer.pool and drawer.chance(0.6):
        return drawer.value(dtypes, 2)
    return drawer.input(_edges(drawer, 2), drawer.dtype(dtypes))


def matmul(drawer: Drawer) -> Drawn:
    """x @ w with matrices in any layout."""
    x = _rows(drawer)
    (columns,) = _edges(drawer, 1)
    depth, dtype = x.value.shape[-1], x.value.dtype
    if drawer.chance(0.3):
        return "{} @ {}.t()", [x, drawer.shaped((columns, depth), dtype)]
    return "{} @ {}", [x, drawer.shaped((depth, columns), dtype)]


def linear(drawer: Drawer) -> Drawn:
    """A linear layer with bias, activation or residual."""
    x = _rows(drawer)
    (columns,) = _edges(drawer, 1)
    w = drawer.shaped((columns, x.value.shape[-1]), x.value.dtype)
    b = drawer.shaped((columns,), x.value.dtype)
    e = drawer.input((*x.value.shape[:-1], columns), x.value.dtype)
    match drawer.draw.choice(["plain", "bias", "residual", "activation", *["addmm"] * (x.value.dim() == 2)]):
        case "plain":
            return "F.linear({}, {})", [x, w]
        case "bias":
            return "F.linear({}, {}, {})", [x, w, b]
        case "residual":
            return "F.linear({}, {}) + {}", [x, w, e]
        case "activation":
            return "F.silu(F.linear({}, {}, {}))", [x, w, b]
        case _:
            return "torch.addmm({}, {}, {}.t(), alpha=2)", [drawer.draw.choice([b, e]), x, w]


def batched(drawer: Drawer) -> Drawn:
    """Products of batches of matrices, also with broadcast batches and as einsum."""
    batch = drawer.draw.randint(1, 3)
    m, n, k = (min(extent, 33) for extent in _edges(drawer, 3))
    dtype = drawer.dtype(FLOATS)
    x, w = drawer.shaped((batch, m, k), dtype), drawer.shaped((batch, k, n), dtype)
    match drawer.draw.choice(["bmm", "matmul", "broadcast", "transposed", "einsum", "baddbmm"]):
        case "bmm":
            return "torch.bmm({}, {})", [x, w]
        case "matmul":
            return "{} @ {}", [x, w]
        case "broadcast":
            return "{} @ {}", [x, drawer.shaped((k, n), dtype)]
        case "transposed":
            return "{}.transpose(1, 2) @ {}", [drawer.shaped((batch, k, m), dtype), w]
        case "einsum":
            return "torch.einsum('bmk,bkn->nbm', {}, {})", [x, w]
        case _:
            return "torch.baddbmm({}, {}, {}, beta=2)", [drawer.shaped((1, m, n), dtype), x, w]


def convolution(drawer: Drawer) -> Drawn:
    """Convolutions, also transposed, of lines, images and volumes, with strides, paddings, holes and groups.

    Transposed ones multiply the zeros beyond their input, and eager does not: 0 times infinity is NaN (numerics.md).
    """
    spaces, is_transposed = drawer.draw.choice([1, 2, 2, 3]), drawer.chance(0.4) and not drawer.has_specials
    groups, (inside, made) = (
        drawer.draw.choice([1, 1, 1, 2, 3]),
        (drawer.draw.choice([1, 2, 3, 4, 8]) for _ in range(2)),
    )
    made = drawer.draw.choice([made, 16, 33]) if groups == 1 else made
    extents = [drawer.draw.choice([1, 3, 4, 5, 9] if spaces < 3 else [1, 2, 3, 4]) for _ in range(spaces)]
    size, stride, padding, dilation = (
        [drawer.draw.choice(values) for _ in range(spaces)]
        for values in ((1, 2, 3, 3, 5), (1, 1, 2, 3), (0, 1), (1, 1, 1, 2))
    )
    channels = (groups * inside, made) if is_transposed else (groups * made, inside)
    dtype = drawer.dtype(FLOATS)
    x = drawer.shaped((drawer.draw.choice([1, 2, 3]), groups * inside, *extents), dtype)
    walk = f"None, {stride}, {padding}, " + (f"0, {groups}, {dilation}" if is_transposed else f"{dilation}, {groups}")
    name = f"F.conv{'_transpose' * is_transposed}{spaces}d"
    return f"{name}({{}}, {{}}, {walk})", [x, drawer.shaped((*channels, *size), dtype)]


def vectors(drawer: Drawer) -> Drawn:
    """Products with vectors."""
    dtype = drawer.dtype(FLOATS)
    m, k = _edges(drawer, 2)
    x, u, v = drawer.shaped((m, k), dtype), drawer.shaped((k,), dtype), drawer.shaped((m,), dtype)
    match drawer.draw.choice(["mv", "dot", "outer", "addmv"]):
        case "mv":
            return "{} @ {}", [x, u]
        case "dot":
            return "torch.dot({}, {})", [u, drawer.shaped((k,), dtype)]
        case "outer":
            return "torch.outer({}, {})", [u, v]
        case _:
            return "torch.addmv({}, {}, {})", [v, x, u]


def attention(drawer: Drawer) -> Drawn:
    """Attention, causal, also of so many keys that some are skipped, masked, with fewer heads of keys."""
    dtype = drawer.dtype(FLOATS)
    kind = drawer.draw.choice(["plain", "causal", "causal", "mask", "bias", "grouped"])
    extents = [136, 160, 257] if kind == "causal" and drawer.chance(0.5) else [1, 5, 8, 17, 32]
    rows, keys = (drawer.draw.choice(extents) for _ in range(2))
    width, heads = drawer.draw.choice([4, 8, 16]), drawer.draw.choice([1, 2])
    q, k, v = (drawer.input((1, heads, extent, width), dtype) for extent in (rows, keys, keys))
    match kind:
        case "plain":
            return "F.scaled_dot_product_attention({}, {}, {}, scale=0.5)", [q, k, v]
        case "causal":
            return "F.scaled_dot_product_attention({}, {}, {}, is_causal=True)", [q, k, v]
        case "mask":
            mask = drawer.input((rows, keys), torch.bool)
            return "F.scaled_dot_product_attention({}, {}, {}, attn_mask={})", [q, k, v, mask]
        case "bias":
            mask = drawer.input((rows, keys), dtype)
            return "F.scaled_dot_product_attention({}, {}, {}, attn_mask={})", [q, k, v, mask]
        case _:
            q = drawer.input((1, 2 * heads, rows, width), dtype)
            return "F.scaled_dot_product_attention({}, {}, {}, enable_gqa=True)", [q, k, v]


def norm(drawer: Drawer) -> Drawn:
    """Softmax and normalizations over rows, columns and groups."""
    x = drawer.value(FLOATS, 1)
    shape, dtype = x.value.shape, x.value.dtype
    last = (shape[-1],)
    match drawer.draw.choice(["softmax", "log_softmax", "logsumexp", "rms", "layer", "group", "batch", "manual"]):
        case "softmax" | "log_softmax" | "logsumexp" as name:
            return f"torch.{name}({{}}, {drawer.dim(x)})", [x]
        case "rms":
            weight = [drawer.shaped(last, dtype)] if drawer.chance(0.6) else []
            return f"F.rms_norm({{}}, {_tuple(last)}{', {}' * len(weight)})", [x, *weight]
        case "layer":
            affine = [drawer.shaped(last, dtype) for _ in range(drawer.draw.choice([0, 1, 2]))]
            return f"F.layer_norm({{}}, {_tuple(last)}{', {}' * len(affine)})", [x, *affine]
        case "group":
            channels = shape[1] if len(shape) > 1 else 1
            groups = drawer.draw.choice([g for g in range(1, channels + 1) if channels % g == 0])
            return f"F.group_norm({{}}, {groups})", [x]
        case "batch":
            channels = (shape[1] if len(shape) > 1 else shape[0],)
            mean, weight = drawer.shaped(channels, dtype), drawer.shaped(channels, dtype)
            return "F.batch_norm({}, {}, {} * {} + 1, {})", [x, mean, weight, weight, weight]
        case _:
            return "({} - {}.mean(-1, keepdim=True)) / ({}.std(-1, keepdim=True, unbiased=False) + 1)", [x, x, x]


def view(drawer: Drawer) -> Drawn:
    """The same elements in another shape or order."""
    x = drawer.value(least=1)
    shape = list(x.value.shape)
    dim = drawer.dim(x)
    match drawer.draw.choice(
        ["flatten", "reshape", "split dim", "expand", "step", "slice", "none", "transpose", "dims"]
    ):
        case "flatten":
            return "{}.flatten()", [x]
        case "reshape":
            divisor = drawer.draw.choice([d for d in range(1, 12) if math.prod(shape) % d == 0])
            return f"{{}}.reshape({divisor}, -1)", [x]
        case "split dim":
            divisor = drawer.draw.choice([d for d in range(1, 12) if shape[dim] % d == 0])
            return f"{{}}.unflatten({dim}, ({divisor}, {shape[dim] // divisor}))", [x]
        case "expand":
            return f"{{}}.unsqueeze(0).expand({drawer.draw.choice([2, 3])}, {', '.join(['-1'] * len(shape))})", [x]
        case "step":
            return f"{{}}[..., ::{drawer.draw.choice([2, 3])}]", [x]
        case "slice":
            return f"{{}}[{drawer.draw.randint(-3, 2)}:]", [x]
        case "none":
            return "{}[None, ..., 0]", [x]
        case "transpose":
            return "{}.transpose(0, -1)", [x]
        case _:
            return f"{{}}.movedim(0, {dim})", [x]


def combine(drawer: Drawer) -> Drawn:
    """Several values side by side."""
    x = drawer.value(least=1)
    y = drawer.shaped(x.value.shape, x.value.dtype)
    dim = drawer.dim(x)
    return drawer.draw.choice(
        [
            (f"torch.cat([{{}}, {{}}], {dim})", [x, y]),
            (f"torch.cat([{{}}, {{}}, {{}}], {dim})", [x, y, x]),
            (f"torch.stack([{{}}, {{}}], {dim})", [y, x]),
            (f"torch.cat({{}}.chunk(2, {dim})[::-1], {dim})", [x]),
        ]
    )


def indexed(drawer: Drawer) -> Drawn:
    """Elements, rows and columns that index tensors name."""
    x = drawer.value(least=1)
    shape, dim = x.value.shape, drawer.dim(x)
    few = drawer.shape(1, 2)
    match drawer.draw.choice(["rows", "gather", "select", "embedding", "middle", "two"]):
        case "rows":
            return "{}[{}]", [x, drawer.indices(few, shape[0])]
        case "gather":
            extents = [drawer.draw.randint(1, extent) for extent in shape]
            return f"torch.gather({{}}, {dim}, {{}})", [x, _long(drawer, extents, shape[dim])]
        case "select":
            return f"torch.index_select({{}}, {dim}, {{}})", [x, drawer.indices(few[:1], shape[dim])]
        case "embedding":
            table = drawer.input(
                (drawer.draw.choice([3, 11, 33]), drawer.draw.choice([1, 8, 17])), drawer.dtype(FLOATS)
            )
            return "F.embedding({}, {})", [drawer.indices(few, table.value.shape[0]), table]
        case "middle":
            return "{}[:, {}]", [x, drawer.indices(few, shape[min(1, len(shape) - 1)])]
        case _:
            others = [drawer.indices(few, extent) for extent in shape[:2]]
            return f"{{}}[{', '.join(['{}'] * len(others))}]", [x, *others]


def ordered(drawer: Drawer) -> Drawn:
    """Elements in order along a dimension, some of them, their positions, and places in an order."""
    x = drawer.value(least=1)
    dim, is_bool = drawer.dim(x), x.value.dtype == torch.bool
    extent, down = x.value.shape[dim], drawer.chance(0.5)
    k = drawer.draw.randint(1, extent)
    match drawer.draw.choice(["sort", "argsort", "extreme", "topk", "kth", "median", "search"]):
        case "argsort":
            return f"{{}}.argsort(stable=True, dim={dim}, descending={down})", [x]
        case "extreme":
            return f"{{}}.{drawer.draw.choice(['max', 'min'])}({dim})[{drawer.draw.choice([0, 1])}]", [x]
        case "topk" if not is_bool:
            return f"{{}}.topk({k}, {dim}, largest={down})[0]", [x]
        case "kth" if not is_bool:
            return f"{{}}.kthvalue({k}, {dim}, keepdim={down})[0]", [x]
        case "median" if not is_bool:
            return f"{{}}.{drawer.draw.choice(['median', 'nanmedian'])}({dim})[0]", [x]
        case "search" if not is_bool:
            boundaries = drawer.shaped((drawer.draw.randint(1, 9),), x.value.dtype)
            return f"torch.searchsorted({{}}.sort()[0], {{}}, right={down})", [boundaries, x]
        case _:
            return f"{{}}.sort(stable=True, dim={dim}, descending={down})[0]", [x]


def scattered(drawer: Drawer) -> Drawn:
    """Elements and slices written, added or combined at positions that are in a tensor."""
    x = drawer.value(least=1)
    shape, dtype, dim = x.value.shape, x.value.dtype, drawer.dim(x)
    source = drawer.shaped(shape, dtype)
    extents = [drawer.draw.randint(1, extent) for extent in shape]
    match drawer.draw.choice(["scatter", "reduce", "add", "slices", "put", "fill", "masked"]):
        case "scatter":
            return f"{{}}.scatter({dim}, {{}}, {{}})", [x, _long(drawer, extents, shape[dim]), source]
        case "reduce" if dtype != torch.bool:
            reduce = drawer.draw.choice(["sum", "mean", "amax", "amin"])
            text = f"{{}}.scatter_reduce({dim}, {{}}, {{}}, '{reduce}', include_self={drawer.chance(0.5)})"
            return text, [x, _long(drawer, extents, shape[dim]), source]
        case "slices":
            return f"{{}}.index_copy({dim}, {{}}, {{}})", [x, _long(drawer, shape[dim:][:1], shape[dim]), source]
        case "put":
            others = [drawer.indices((3,), extent) for extent in shape[:2]]
            values = drawer.shaped((*(3,), *shape[2:]), dtype)
            indices = ", ".join(["{}.long()"] * len(others))
            return f"{{}}.index_put(({indices},), {{}}, accumulate={drawer.chance(0.5)})", [x, *others, values]
        case "fill":
            return f"{{}}.index_fill({dim}, {{}}, 1)", [x, _long(drawer, (2,), shape[dim])]
        case "masked":
            return "{}.masked_scatter({}, {})", [x, drawer.like(x, (torch.bool,)), source]
        case _:
            return f"{{}}.index_add({dim}, {{}}, {{}})", [x, _long(drawer, shape[dim:][:1], shape[dim]), source]


def _long(drawer: Drawer, shape: Sequence[int], bound: int) -> Node:
    node = drawer.indices(shape, bound)
    while node.value.dtype != torch.int64:
        node = drawer.indices(shape, bound)
    return node


def cast(drawer: Drawer) -> Drawn:
    """The values in another type; floats that no integer can hold are not asked for."""
    x = drawer.value()
    dtype = drawer.draw.choice(_castable(x))
    scaled = x.value.dtype.is_floating_point and not dtype.is_floating_point and drawer.chance(0.5)
    return (f"({{}} * 3).to({dtype})" if scaled else f"{{}}.to({dtype})"), [x]


def _castable(node: Node) -> list[torch.dtype]:
    """The types that a value can be cast to: all, but no unsigned one from what may be negative."""
    return [dtype for dtype in DTYPES if dtype != torch.uint8 or not node.value.dtype.is_floating_point]


def pointwise(drawer: Drawer) -> Drawn:
    """Arithmetic with what broadcasts, as operators write it."""
    x = drawer.value()
    kind = x.value.dtype
    if kind == torch.bool:
        return drawer.draw.choice(
            [("(~{})", [x]), ("({} & {})", [x, drawer.like(x)]), ("({} ^ {})", [x, drawer.like(x)])]
        )
    y = drawer.like(x)
    operator = drawer.draw.choice(["+", "-", "*", "<", ">=", "=="])
    choices: list[Drawn] = [(f"{{}} {operator} {{}}", [x, y])] * 3
    choices += [("torch.where({}, {}, {})", [drawer.like(x, (torch.bool,)), x, y])]
    choices += [("{} * 2 + 1", [x]), ("{} + {}", [x, x]), ("torch.where({} > 0, {}, {} * 3)", [x, x, x])]
    if kind.is_floating_point:
        choices += [
            ("{} / ({} * {} + 1)", [x, y, y]),
            ("torch.exp(-{}.abs())", [x]),
            ("torch.sigmoid({}) * {}", [x, y]),
        ]
    return drawer.draw.choice(choices)


def reduction(drawer: Drawer) -> Drawn:
    """Reductions over one dimension, some, or all, and what follows them."""
    x = drawer.value(least=1)
    name = drawer.draw.choice(["sum", "amax", "amin", "any", "all", "mean", "prod", "argmax"])
    if name in ("mean", "prod") and not x.value.dtype.is_floating_point:
        name = "sum"
    dim = drawer.dim(x)
    match drawer.draw.choice(["dim", "kept", "whole", "two"]):
        case "whole" if name not in ("amax", "amin"):
            return f"{{}}.{name}()", [x]
        case "kept":
            return f"{{}}.{name}({dim}, keepdim=True)", [x]
        case "two" if name in ("sum", "amax", "amin", "mean"):
            return f"{{}}.{name}({_tuple(drawer.dims(x))})", [x]
        case _:
            return f"{{}}.{name}({dim})", [x]


def scan(drawer: Drawer) -> Drawn:
    """Folds up to each element, with and without it, forwards and backwards, of elements of which a mask takes some."""
    x = drawer.value(least=1) if drawer.chance(0.5) else drawer.shaped(_edges(drawer, 2), drawer.dtype(DTYPES))
    dim, kind = drawer.dim(x), x.value.dtype
    names = ["cumsum", "cummax", "cummin", *(["cumprod", "logcumsumexp"] if kind.is_floating_point else [])]
    name = drawer.draw.choice(names)
    result = f"[{drawer.draw.choice([0, 1])}]" if name in ("cummax", "cummin") else ""
    match drawer.draw.choice(["plain", "exclusive", "backwards", "masked"]):
        case "exclusive" if name == "cumsum" and kind != torch.bool:
            return f"({{}}.cumsum({dim}) - {{}})", [x, x]
        case "backwards":
            return f"{{}}.flip({dim}).{name}({dim}){result}.flip({dim})", [x]
        case "masked" if kind != torch.bool:
            return f"torch.where({{}}, {{}}, 0).{name}({dim}){result}", [drawer.like(x, (torch.bool,)), x]
        case _:
            return f"{{}}.{name}({dim}){result}", [x]


_BITS = {2: "int16", 4: "int32", 8: "int64"}


def bits(drawer: Drawer) -> Drawn:
    """Signs and bits of new inputs, of whose zeros and NaN no operation has chosen the sign; memory as it lies."""
    x = drawer.input(drawer.shape(1), drawer.dtype(FLOATS))
    match drawer.draw.choice(["sign", "copysign", "bits", "memory"]):
        case "sign":
            return "torch.signbit({})", [x]
        case "copysign":
            return "torch.copysign({}, {})", [drawer.like(x), x]
        case "bits":
            return f"{{}}.view(torch.{_BITS[x.value.dtype.itemsize]})", [x]
        case _:
            size, stride = [drawer.draw.randint(1, 4) for _ in range(2)], [drawer.draw.randint(0, 3) for _ in range(2)]
            reach = sum((n - 1) * step for n, step in zip(size, stride, strict=True))
            last = max(0, x.value.numel() - 1 - reach)
            return f"torch.cat([{{}}.flatten()]).as_strided({size}, {stride}, {drawer.draw.randint(0, last)})", [x]


MONOTONE = ("torch.tanh({})", "({}.exp() * 0.5 + 1)", "({}.clamp(-1, 2) - 0.25)", "{}.ceil()")
"""Functions that keep the order of their arguments."""


def pool(drawer: Drawer) -> Drawn:
    """Pools of windows and of parts, whole and uneven, with the places of the largest elements; of values as they are,
    and maxima of what a function that keeps the order of its arguments makes of them."""
    spaces = drawer.draw.choice([1, 2, 2, 3])
    extents = [drawer.draw.choice([1, 3, 5, 8, 9]) for _ in range(spaces)]
    x = drawer.shaped((*drawer.draw.choice([(3,), (1, 2), (2, 3)]), *extents), drawer.dtype(FLOATS))
    size = [drawer.draw.randint(1, min(3, extent)) for extent in extents]
    padding = [drawer.draw.randint(0, n // 2) for n in size]
    parts = [drawer.draw.randint(1, extent + 1) for extent in extents]
    rest = f"{spaces}d({{}}, {size}, {drawer.draw.randint(1, 2)}, {padding}, ceil_mode={drawer.chance(0.3)}"
    match drawer.draw.choice(["max", "delayed", "places", "average", "parts", "largest parts", "places of parts"]):
        case "max":
            return f"F.max_pool{rest})", [x]
        case "delayed":
            raised = drawer.draw.choice(MONOTONE)
            return f"F.max_pool{rest})".format(raised), [x]
        case "places":
            return f"F.max_pool{rest}, return_indices=True)[1]", [x]
        case "average" if spaces < 3 or x.value.dtype.itemsize > 2:
            return f"F.avg_pool{rest}, count_include_pad={drawer.chance(0.5)})", [x]
        case "largest parts":
            return f"F.adaptive_max_pool{spaces}d({{}}, {parts})", [x]
        case "places of parts":
            return f"F.adaptive_max_pool{spaces}d({{}}, {parts}, return_indices=True)[1]", [x]
        case _:
            return f"F.adaptive_avg_pool{spaces}d({{}}, {parts})", [x]


def recurrent(drawer: Drawer) -> Drawn:
    """Recurrent layers: outputs and last states of some steps, of several layers, in one direction or both."""
    name, gates = drawer.draw.choice([("lstm", 4), ("gru", 3), ("rnn_tanh", 1), ("rnn_relu", 1)])
    layers, both, first, biased = drawer.draw.randint(1, 3), *(drawer.chance(share) for share in (0.3, 0.5, 0.7))
    steps, batch, features = drawer.draw.randint(1, 6), drawer.draw.randint(1, 9), drawer.draw.randint(1, 9)
    hidden, directions, dtype = drawer.draw.choice([1, 3, 7, 8, 16, 128]), 2 if both else 1, drawer.dtype(FLOATS)
    x = drawer.input((batch, steps, features) if first else (steps, batch, features), dtype)
    states = [drawer.input((layers * directions, batch, hidden), dtype) for _ in range(2 if name == "lstm" else 1)]
    weights: list[Node] = []
    for unit in range(layers * directions):
        size = features if unit < directions else hidden * directions
        shapes = [(gates * hidden, size), (gates * hidden, hidden), *[(gates * hidden,)] * (2 if biased else 0)]
        weights += [drawer.input(shape, dtype) for shape in shapes]
    given = "({}, {})" if name == "lstm" else "{}"
    scaled = ", ".join(["{} * 0.2"] * len(weights))
    options = f"{biased}, {layers}, 0.0, False, {both}, {first}"
    result = drawer.draw.randint(0, len(states))
    return f"torch.{name}({{}}, {given}, [{scaled}], {options})[{result}]", [x, *states, *weights]


FAMILIES: tuple[tuple[int, Callable[[Drawer], Drawn]], ...] = (
    (8, matmul),
    (8, linear),
    (6, batched),
    (6, convolution),
    (6, sliced),
    (2, vectors),
    (2, attention),
    (8, norm),
    (7, view),
    (5, combine),
    (4, indexed),
    (3, ordered),
    (3, scattered),
    (7, cast),
    (14, pointwise),
    (9, reduction),
    (8, scan),
    (2, bits),
    (5, pool),
    (3, recurrent),
    (24, call),
)
"""The families and how often each is drawn; any other operation of the dialect comes by its schema."""


def family(drawer: Drawer) -> Callable[[Drawer], Drawn]:
    """One of the families."""
    return drawer.draw.choices([made for _, made in FAMILIES], [weight for weight, _ in FAMILIES])[0]
