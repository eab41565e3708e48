"""Random ATen calls on random shapes and values, each imported on its own, decomposed and evaluated."""

from __future__ import annotations

import math
import operator
import os
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, reject, settings
from hypothesis import strategies as st
from xdsl.context import Context

from deplodock.analysis.shape.roundings import Roundings
from deplodock.interpreters.evaluate import evaluate
from deplodock.passes.torch.decompose import DecomposePass
from deplodock.runtime.compare import compare

torch = pytest.importorskip("torch")
aten = torch.ops.aten

from deplodock.frontend.importer import import_graph  # noqa: E402

DRAWS = 200 * int(os.environ.get("DEPLODOCK_FUZZ_FACTOR", "1"))
EXTENTS = st.sampled_from([0, 1, 1, 2, 3, 5, 7])
SHAPES = st.lists(EXTENTS, max_size=4).map(tuple)
FLOATS = (torch.float32, torch.float64)
NUMBERS = (*FLOATS, torch.int32, torch.int64)
ANY = (*NUMBERS, torch.bool)
SPECIAL = [math.nan, math.inf, -math.inf, 0.0, -0.0, 1.0, -1.0]
Call = tuple[Any, tuple[Any, ...], dict[str, Any]]
Draw = Callable[[st.SearchStrategy[Any]], Any]


def tensor(draw: Draw, shape: Any, dtypes: Any = FLOATS, low: int = -4, high: int = 5) -> Any:
    """A tensor of normal numbers with, sometimes, special ones among them; integers from `low` below `high`."""
    dtype = draw(st.sampled_from(dtypes))
    generator = torch.Generator().manual_seed(draw(st.integers(0, 1000)))
    if not dtype.is_floating_point:
        return torch.randint(low, high, shape, generator=generator).to(dtype)
    values = torch.randn(shape, generator=generator, dtype=dtype)
    if values.numel() and draw(st.booleans()):
        places = torch.randint(0, values.numel(), (2,), generator=generator)
        values.view(-1)[places] = torch.tensor(draw(st.sampled_from(SPECIAL)), dtype=dtype)
    return values


def broadcasting(draw: Draw, shape: Any) -> Any:
    """A shape that broadcasts to `shape`, or that `shape` broadcasts with."""
    kept = shape[draw(st.integers(0, len(shape))) :]
    return tuple(draw(st.sampled_from([n, 1, n])) for n in kept)


def dim_of(draw: Draw, shape: Any) -> int:
    rank = max(1, len(shape))
    return draw(st.integers(-rank, rank - 1))


def dims_of(draw: Draw, shape: Any) -> list[int]:
    """Some different dimensions, in any order, counted from either end."""
    chosen = draw(st.permutations(range(len(shape))))[: draw(st.integers(0, len(shape)))]
    return [dim - draw(st.sampled_from([0, len(shape)])) for dim in chosen]


UNARY = (
    *("exp", "expm1", "log", "log1p", "sqrt", "rsqrt", "sin", "cos", "erf", "tanh"),
    *("sigmoid", "silu", "mish", "gelu", "softplus", "reciprocal", "isinf"),
)
UNARY_NUMBER = ("neg", "abs", "sign", "relu", "floor", "ceil", "trunc", "round", "square", "isnan")
BINARY = (
    *("add.Tensor", "sub.Tensor", "mul.Tensor", "maximum", "minimum"),
    *("eq.Tensor", "ne.Tensor", "lt.Tensor", "le.Tensor", "gt.Tensor", "ge.Tensor"),
)
ROUNDED = ["floor_divide", "remainder.Tensor", "fmod.Tensor"]
WHOLE_REDUCTIONS = ["sum", "prod", "max", "min", "any", "all"]
SOME_REDUCTIONS = ["sum.dim_IntList", "amax", "amin", "any.dims", "all.dims"]


def named(name: str) -> Any:
    packet, _, overload = name.partition(".")
    return getattr(getattr(aten, packet), overload or "default")


def unary(draw: Draw) -> Call:
    if draw(st.booleans()):
        return named(draw(st.sampled_from(UNARY))), (tensor(draw, draw(SHAPES)),), {}
    return named(draw(st.sampled_from(UNARY_NUMBER))), (tensor(draw, draw(SHAPES), NUMBERS),), {}


def binary(draw: Draw) -> Call:
    shape = draw(SHAPES)
    pair = tensor(draw, shape, NUMBERS), tensor(draw, broadcasting(draw, shape), NUMBERS)
    return named(draw(st.sampled_from(BINARY))), pair if draw(st.booleans()) else pair[::-1], {}


def rounded(draw: Draw) -> Call:
    shape = draw(SHAPES)
    lhs, rhs = tensor(draw, shape, NUMBERS), tensor(draw, broadcasting(draw, shape), NUMBERS, 1)
    return named(draw(st.sampled_from(ROUNDED))), (lhs, rhs), {}


def choice(draw: Draw) -> Call:
    shape = draw(SHAPES)
    condition = tensor(draw, broadcasting(draw, shape), (torch.bool,), 0, 2)
    return aten.where.self, (condition, tensor(draw, shape, ANY), tensor(draw, broadcasting(draw, shape), ANY)), {}


def reduction(draw: Draw) -> Call:
    shape = draw(SHAPES)
    if draw(st.booleans()):
        return named(draw(st.sampled_from(WHOLE_REDUCTIONS))), (tensor(draw, shape, ANY),), {}
    name = draw(st.sampled_from(SOME_REDUCTIONS))
    return named(name), (tensor(draw, shape, ANY), dims_of(draw, shape), draw(st.booleans())), {}


def statistic(draw: Draw) -> Call:
    shape = draw(SHAPES)
    x, dims, keepdim = tensor(draw, shape), dims_of(draw, shape), draw(st.booleans())
    match draw(st.integers(0, 3)):
        case 0:
            return aten.mean.dim, (x, dims, keepdim), {}
        case 1:
            return aten.var.correction, (x, dims), {"correction": draw(st.sampled_from([0, 1, 2])), "keepdim": keepdim}
        case 2:
            return named(draw(st.sampled_from(["softmax.int", "log_softmax.int"]))), (x, dim_of(draw, shape)), {}
        case _:
            normalized = list(shape[-draw(st.integers(1, max(1, len(shape)))) :])
            weight = tensor(draw, normalized, (x.dtype,)) if draw(st.booleans()) else None
            return named(draw(st.sampled_from(["layer_norm", "rms_norm"]))), (x, normalized, weight), {}


def movement(draw: Draw) -> Call:
    shape = draw(SHAPES)
    x, dim = tensor(draw, shape, ANY), dim_of(draw, shape)
    bound = st.integers(-8, 8)
    match draw(st.integers(0, 8)):
        case 0:
            return aten.slice.Tensor, (x, dim, draw(bound), draw(bound), draw(st.integers(1, 3))), {}
        case 1:
            return aten.flip.default, (x, dims_of(draw, shape)), {}
        case 2:
            return aten.roll.default, (x, [draw(bound)], [dim] if draw(st.booleans()) and shape else []), {}
        case 3:
            return aten.permute.default, (x, draw(st.permutations(range(len(shape))))), {}
        case 4:
            return aten.repeat.default, (x, [draw(st.integers(0, 3)) for _ in range(len(shape))]), {}
        case 5:
            return aten.split.Tensor, (x, draw(st.integers(1, 4)), dim), {}
        case 6:
            return aten.view.default, (x, draw(st.permutations(shape))), {}
        case 7:
            amounts = [draw(st.integers(-2, 3)) for _ in range(2 * draw(st.integers(0, len(shape))))]
            return aten.constant_pad_nd.default, (x, amounts, 1), {}
        case _:
            return named(draw(st.sampled_from(["tril", "triu"]))), (x, draw(bound)), {}


def joining(draw: Draw) -> Call:
    shape = draw(SHAPES)
    dim = dim_of(draw, shape)
    if draw(st.booleans()):
        return aten.stack.default, ([tensor(draw, shape, ANY) for _ in range(draw(st.integers(1, 3)))], dim), {}
    parts = [list(shape) for _ in range(draw(st.integers(1, 3)))]
    for part in parts:
        if part:
            part[dim] = draw(EXTENTS)
    return aten.cat.default, ([tensor(draw, part, ANY) for part in parts], dim), {}


def lookup(draw: Draw) -> Call:
    shape = draw(SHAPES.filter(bool))
    x, dim = tensor(draw, shape, ANY), dim_of(draw, shape)
    extent, integers = shape[dim], (torch.int32, torch.int64)
    match draw(st.integers(0, 2)):
        case 0:
            index = tensor(
                draw, [draw(st.sampled_from([0, n, max(n - 1, 0)])) for n in shape], (torch.int64,), 0, 1 << 30
            )
            return aten.gather.default, (x, dim, index % max(extent, 1)), {}
        case 1:
            index = tensor(draw, (draw(EXTENTS),), integers, 0, 1 << 30)
            return aten.index_select.default, (x, dim, index % max(extent, 1)), {}
        case _:
            common = draw(st.lists(EXTENTS, max_size=2).map(tuple))
            indices = [
                tensor(draw, broadcasting(draw, common), (torch.int64,), 0, 1 << 30) % (2 * n) - n
                if n and draw(st.booleans())
                else None
                for n in shape
            ]
            if not any(index is not None for index in indices):
                reject()
            return aten.index.Tensor, (x, indices), {}


def product(draw: Draw) -> Call:
    batch, (m, n, k) = draw(st.lists(EXTENTS, max_size=2).map(tuple)), [draw(EXTENTS) for _ in range(3)]
    dtype = draw(st.sampled_from(NUMBERS))
    left, right = (*broadcasting(draw, batch), m, k), (*broadcasting(draw, batch), k, n)
    match draw(st.integers(0, 3)):
        case 0:
            return aten.matmul.default, (tensor(draw, left[-1:], (dtype,)), tensor(draw, right, (dtype,))), {}
        case 1:
            bias = tensor(draw, draw(st.sampled_from([(n,), (m, n), (1,), (m, 1)])), (dtype,))
            a, b = tensor(draw, (m, k), (dtype,)), tensor(draw, (k, n), (dtype,))
            return aten.addmm.default, (bias, a, b), {"beta": draw(st.sampled_from([0, 1, 2])), "alpha": 3}
        case 2:
            bias = tensor(draw, (n,), (dtype,))
            return aten.linear.default, (tensor(draw, left, (dtype,)), tensor(draw, (n, k), (dtype,)), bias), {}
        case _:
            return aten.matmul.default, (tensor(draw, left, (dtype,)), tensor(draw, right, (dtype,))), {}


FAMILIES = (unary, binary, rounded, choice, reduction, statistic, movement, joining, lookup, product)


@st.composite
def calls(draw: Draw) -> Call:
    return draw(st.sampled_from(FAMILIES))(draw)


def graph_of(call: Call) -> tuple[Any, list[Any], list[Any], list[Any]]:
    """A graph of the call alone, its input nodes, their values, and the results."""
    target, args, kwargs = call
    graph, nodes, values = torch.fx.Graph(), [], []

    def place(value: Any) -> Any:
        if not isinstance(value, torch.Tensor):
            return value
        nodes.append(graph.placeholder(f"x{len(nodes)}"))
        nodes[-1].meta["val"] = value
        values.append(value)
        return nodes[-1]

    placed = torch.utils._pytree.tree_map(place, args)
    with torch.no_grad():
        results = target(*args, **kwargs)
    node = graph.call_function(target, placed, kwargs)
    node.meta["val"] = results
    outputs = [node]
    if not isinstance(results, torch.Tensor):
        results = list(results)
        outputs = [graph.call_function(operator.getitem, (node, i)) for i in range(len(results))]
        for output, result in zip(outputs, results, strict=True):
            output.meta["val"] = result
    graph.output(tuple(outputs))
    return (
        torch.fx.GraphModule(torch.nn.Module(), graph),
        nodes,
        values,
        results if isinstance(results, list) else [results],
    )


def in_float64(call: Call) -> list[Any]:
    """The results with every float widened; rms_norm's default eps stays that of its own type."""
    target, args, kwargs = call
    if target is aten.rms_norm.default:
        kwargs = {"eps": torch.finfo(args[0].dtype).eps}
    widened = torch.utils._pytree.tree_map(
        lambda value: value.double() if isinstance(value, torch.Tensor) and value.is_floating_point() else value, args
    )
    results = target(*widened, **kwargs)
    return [results] if isinstance(results, torch.Tensor) else list(results)


@given(calls())
@settings(max_examples=DRAWS, deadline=None, derandomize=True, suppress_health_check=list(HealthCheck))
def test_call_matches_torch(call: Call) -> None:
    try:
        graph, nodes, values, eager = graph_of(call)
    except (RuntimeError, IndexError, ValueError):
        reject()
    program = import_graph(graph, [(node, node.name) for node in nodes], None)
    program.verify()
    DecomposePass().apply(Context(), program)
    program.verify()
    got = evaluate(program, [value.numpy() for value in values])
    exact = in_float64(call)
    extent = max((value.numel() for value in values), default=1)
    for value, own, reference in zip(got, eager, exact, strict=True):
        assert value.dtype == own.numpy().dtype
        verdict = compare(value, reference.numpy(), own.numpy(), Roundings(max(1, extent)))
        assert verdict.passed or cancels(value, reference.numpy(), values, extent), f"{call[0]}: {verdict}"


def cancels(value: Any, reference: Any, inputs: list[Any], extent: int) -> bool:
    """Whether a sum is so much smaller than its terms that its error is within what those allow."""
    if value.dtype.kind != "f":
        return False
    largest = max(float(np.abs(x.numpy()[np.isfinite(x.numpy())]).max(initial=1)) for x in inputs)
    bar = 8 * np.finfo(value.dtype).eps * extent * largest**2
    return np.allclose(value, reference, rtol=0, atol=bar, equal_nan=True)
