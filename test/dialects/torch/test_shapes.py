"""The shapes that ATen operations give: those of real calls verify, and no others."""

from __future__ import annotations

import itertools
import math
import random
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import pytest
from xdsl.dialects.builtin import ModuleOp, TensorType, f32
from xdsl.utils.exceptions import VerifyException

from deplodock.dialects.torch import AtenOp
from deplodock.dialects.torch.aten import MIXED, SCHEMAS
from deplodock.dialects.torch.shapes import RULES
from deplodock.tools.source import LocatingParser

torch = pytest.importorskip("torch")

from torch._dispatch.python import enable_python_dispatcher  # noqa: E402
from torch._subclasses.fake_tensor import FakeTensorMode  # noqa: E402

from deplodock.errors import Error  # noqa: E402
from deplodock.frontend.importer import import_graph  # noqa: E402
from deplodock.frontend.recurrences import without_cells  # noqa: E402
from deplodock.fuzz import schema_calls  # noqa: E402
from deplodock.fuzz.drawing import Drawer  # noqa: E402
from deplodock.passes.driver import new_context  # noqa: E402

TRIES, WANTED = 400, 4
MODE = FakeTensorMode(allow_non_fake_inputs=True)
CONTEXT = new_context()


def test_every_overload_has_a_rule() -> None:
    assert set(RULES) == set(SCHEMAS)


BY_HAND: dict[str, list[tuple[list[tuple[int, ...]], tuple[Any, ...]]]] = {
    "convolution": [
        ([(2, 4, 9), (6, 2, 3), (6,)], ([2], [1], [2], False, [0], 2)),
        ([(1, 4, 9, 8), (6, 4, 3, 1)], ([2, 1], [1, 0], [1, 1], False, [0, 0], 1)),
        ([(0, 4, 9), (6, 4, 3)], ([2], [1], [1], False, [0], 1)),
        ([(2, 4, 9, 5), (4, 3, 3, 2), (6,)], ([2, 3], [1, 1], [1, 2], True, [1, 2], 2)),
        ([(1, 4, 9), (4, 5, 3), (5,)], ([2], [1], [1], True, [0], 1)),
    ],
    "max_pool1d": [([(2, 9)], ([2], [], [1], [1], True)), ([(3, 2, 9)], ([3], [2], [0], [2]))],
    "max_pool2d_with_indices": [([(2, 9, 8)], ([2], [], [1], [1], True)), ([(3, 2, 9, 8)], ([3], [2], [0], [2]))],
    "max_pool3d": [([(2, 5, 6, 7)], ([2, 3, 2], [2, 1, 3], [1, 1, 0], [1, 2, 1], True))],
    "max_pool3d_with_indices": [([(2, 5, 6, 7)], ([2, 3, 2], [2, 1, 3], [1, 1, 0], [1, 2, 1], True))],
    "adaptive_max_pool2d": [([(2, 12, 6)], ([5, 3],)), ([(3, 2, 12, 6)], ([6, 1],))],
    "adaptive_max_pool3d": [([(2, 12, 6, 4)], ([4, 3, 3],))],
    "avg_pool3d": [([(1, 2, 5, 6, 7)], ([2, 3, 2], [], [1, 1, 0], True))],
    "adaptive_avg_pool1d": [([(2, 12)], ([4],)), ([(3, 2, 12)], ([6],))],
    "adaptive_avg_pool2d": [([(2, 12, 6)], ([4, 3],)), ([(3, 2, 12, 6)], ([6, 1],))],
    "adaptive_avg_pool3d": [([(2, 12, 6, 4)], ([4, 3, 2],))],
    "_native_batch_norm_legit_no_training": [
        ([(3, 5), *[(5,)] * 4], (0.1, 1e-5)),
        ([(2, 5, 4), *[(5,)] * 4], (0.1, 1e-5)),
    ],
    "layer_norm": [([(3, 5), (5,), (5,)], ([5],))],
    "group_norm": [([(3, 4, 5), (4,), (4,)], (2,))],
    "unfold": [([(7, 5)], (0, 3, 2)), ([(7, 5)], (-1, 5, 1)), ([()], (0, 1, 1))],
}
"""Shapes of operands, and the other arguments, of overloads whose calls are seldom right when they are drawn."""

RECURRENT = {"lstm.input": (4, 2), "gru.input": (3, 1), "rnn_tanh.input": (1, 1), "rnn_relu.input": (1, 1)}
"""The gates of a cell, and its states, by the overload of a layer."""


def graph_of(
    name: str, values: list[Any], arguments: Callable[[list[Any]], tuple[Any, Any]], device: str | None
) -> ModuleOp:
    """The graph of a call of the overload, with the shapes that PyTorch gives, or would give on a device."""
    if device is not None:
        with without_cells(), enable_python_dispatcher():
            return _graph_of(name, [on(value, device) for value in values], arguments)
    return _graph_of(name, values, arguments)


def on(value: Any, device: str) -> Any:
    """A tensor like a value, without elements, on a device that need not be there."""
    with MODE:
        return torch.empty_strided(value.shape, value.stride(), dtype=value.dtype, device=device)


def _graph_of(name: str, values: list[Any], arguments: Callable[[list[Any]], tuple[Any, Any]]) -> ModuleOp:
    packet, _, overload = name.partition(".")
    target = getattr(getattr(torch.ops.aten, packet), overload or "default")
    graph = torch.fx.Graph()
    nodes = [graph.placeholder(f"x{position}") for position in range(len(values))]
    for node, value in zip(nodes, values, strict=True):
        node.meta["val"] = value
    args, kwargs = arguments(values)
    results = target(*args, **kwargs)
    args, kwargs = arguments(nodes)
    node = graph.call_function(target, args, kwargs)
    node.meta["val"] = results
    graph.output((node,) if isinstance(results, torch.Tensor) else ())
    return import_graph(torch.fx.GraphModule(torch.nn.Module(), graph), [(n, n.name) for n in nodes], None)


def named(name: str, rest: Sequence[Any]) -> Callable[[list[Any]], tuple[Any, Any]]:
    """The arguments of a call by name, of its tensors and the others; optional tensors that it lacks are None."""
    schema = SCHEMAS[name]
    absent = dict.fromkeys(parameter.name for parameter in schema.tensors if parameter.optional)
    tensors, others = ([parameter.name for parameter in part] for part in (schema.tensors, schema.attributes))
    return lambda given: (
        (),
        {**absent, **dict(zip(tensors, given, strict=False)), **dict(zip(others, rest, strict=False))},
    )


def drawn(name: str, device: str | None = None) -> Iterator[ModuleOp]:
    """Graphs of calls of the overload that PyTorch and the importer take; see `graph_of`."""
    for shapes, rest in BY_HAND.get(name, ()):
        values = [torch.ones(shape) for shape in shapes]
        yield graph_of(name, values, named(name, rest), device)
    for is_batch_first in (False, True) if name in RECURRENT else ():
        gates, states = RECURRENT[name]
        shapes = [(4, 4, 5), *[(1, 4, 7)] * states, (gates * 7, 5), (gates * 7, 7), *[(gates * 7,)] * 2]

        def layer(given: list[Any], states: int = states, last: bool = is_batch_first) -> tuple[Any, Any]:
            input, *others = given
            state = others[:states] if states > 1 else others[0]
            return (input, state, others[states:], True, 1, 0.0, False, False, last), {}

        yield graph_of(name, [torch.ones(shape) for shape in shapes], layer, device)
    for number in range(0 if name in {*BY_HAND, *RECURRENT} else TRIES):
        template, operands = schema_calls.call(Drawer(random.Random(f"{name} {number}")), name)
        _, _, text = template.partition("(")

        def arguments(values: list[Any], text: str = text) -> tuple[Any, Any]:
            names = {f"x{position}": value for position, value in enumerate(values)}
            call = "(lambda *args, **kwargs: (args, kwargs))(" + text.format(*names)
            return eval(call, {"torch": torch, "math": math, **names})

        try:
            yield graph_of(name, [operand.value for operand in operands], arguments, device)
        except (RuntimeError, IndexError, ValueError, Error):
            continue


@pytest.mark.parametrize("name", schema_calls.DRAWN)
def test_the_shapes_of_pytorch_verify_and_no_others(name: str) -> None:
    modules = list(itertools.islice(drawn(name), WANTED))
    assert modules
    for module in modules:
        module.verify()
        for op in module.walk():
            if isinstance(op, AtenOp):
                refuses_other_results(op)


OF_SEVERAL_RESULTS = [name for name, schema in SCHEMAS.items() if schema.has_many_results]


@pytest.mark.parametrize("device", ["cpu", "cuda"])
@pytest.mark.parametrize("name", sorted({*OF_SEVERAL_RESULTS, *MIXED}))
def test_several_results_are_those_of_each_device(name: str, device: str) -> None:
    """The importer takes what PyTorch gives there, which the verifier has found to be what the rules give."""
    assert list(itertools.islice(drawn(name, device), WANTED))


@pytest.mark.parametrize("device", ["cpu", "cuda"])
@pytest.mark.parametrize("name", MIXED)
def test_half_precision_beside_f32(name: str, device: str) -> None:
    for shapes, rest in BY_HAND[name]:
        for dtypes in itertools.product((torch.float16, torch.bfloat16), (None, torch.float32)):
            types = [dtypes[0], *[dtypes[1] or dtypes[0]] * (len(shapes) - 1)]
            values = [torch.ones(shape, dtype=dtype) for shape, dtype in zip(shapes, types, strict=True)]
            (call,) = [
                op
                for op in graph_of(name, values, named(name, rest), device).walk()
                if isinstance(op, AtenOp) and op.schema().name == name
            ]
            # What has other types beside it is computed in f32, and rounded at its end.
            assert call.tensor_type.element_type == f32 or len({*types}) == 1


def refuses_other_results(op: AtenOp) -> None:
    """Check that no result of another extent or rank verifies."""
    for position, result in enumerate(op.outputs):
        shape = list(result.type.get_shape())
        others = [[*shape, 1], [2, *shape], *([*shape[:d], shape[d] + 1, *shape[d + 1 :]] for d in range(len(shape)))]
        for other in others:
            types = [value.type for value in op.outputs]
            types[position] = TensorType(types[position].element_type, other)
            damaged = type(op).create(operands=op.operands, properties=op.properties, result_types=types)
            with pytest.raises(VerifyException, match="the operands and attributes give a result of type"):
                damaged.verify_()
            damaged.drop_all_references()


WRONG = [
    ("mm", "4x8, 9x3", "", "4x3", "the inner dimensions 8 and 9 differ"),
    ("mm", "4x8, 8x3", "", "4x5", "give a result of type tensor<4x3xf32>, not tensor<4x5xf32>"),
    ("mm", "2x4x8, 8x3", "", "4x5", r"operands of ranks \(2, 2\) are needed, not \(3, 2\)"),
    ("bmm", "2x4x8, 3x8x3", "", "2x4x3", "the batches 2 and 3 differ"),
    ("bmm", "2x4x8, 1x8x3", "", "2x4x3", "the batches 2 and 1 differ"),
    ("matmul", "2x4x8, 3x8x3", "", "2x4x3", r"shapes \[2\] and \[3\] do not broadcast"),
    ("matmul", "8, ", "", "8", "both operands must have at least one dimension"),
    ("mv", "4x8, 9", "", "4", "the inner dimensions 8 and 9 differ"),
    ("dot", "8, 9", "", "", "the inner dimensions 8 and 9 differ"),
    ("outer", "8, 9x1", "", "8x9", r"two vectors are needed, not shapes \[8\] and \[9, 1\]"),
    ("addmm", "5, 4x8, 8x3", "", "4x3", r"shape \[5\] does not broadcast to \[4, 3\]"),
    ("linear", "4x8, 3x9", "", "4x3", r"a weight of shape \[3, 9\] does not fit an input of shape \[4, 8\]"),
    ("linear", "4x8, 3x8, 4", "", "4x3", r"shape \[4\] does not broadcast to \[4, 3\]"),
    ("einsum", "4x8, 9x3", '{equation = "ij,jk->ik"}', "4x3", "the label 'j' has the extents 8 and 9"),
    ("einsum", "4x8, 8x3", '{equation = "ij->ik"}', "4x3", "the equation 'ij->ik' names 1 operands of 2"),
    ("einsum", "4x8", '{equation = "i->i"}', "4", "the term 'i' of the equation does not name 2 dimensions"),
    ("einsum", "4x8", '{equation = "i1->i"}', "4", "the term 'i1' of the equation may hold letters and '...' only"),
    (
        "einsum",
        "4x8",
        '{equation = "ij->ik"}',
        "4x8",
        "the output labels ik must each be one of an operand, and differ",
    ),
    (
        "scaled_dot_product_attention",
        "4x8, 5x9, 5x3",
        "",
        "4x3",
        r"the features of query and key, or the rows of key and value differ: \[4, 8\], \[5, 9\], \[5, 3\]",
    ),
    ("scaled_dot_product_attention", "4, 5x9, 5x3", "", "4x3", "query, key and value must have at least 2 dimensions"),
    ("scaled_dot_product_attention", "4x8, 5x8, 5x3, 3x5", "", "4x3", r"shape \[3, 5\] does not broadcast to \[4, 5\]"),
    (
        "scaled_dot_product_attention",
        "3x4x8, 2x5x8, 2x5x3",
        "{enable_gqa = true}",
        "3x4x3",
        r"the heads of the shapes \[3, 4, 8\] and \[2, 5, 8\] do not fit enable_gqa",
    ),
    ("add.Tensor", "3x4, 4x3", "", "3x4", r"shapes \[3, 4\] and \[4, 3\] do not broadcast"),
    ("masked_fill.Tensor", "3, 3:i1, 3", "", "3", r"value must have no dimensions, not the shape \[3\]"),
    ("copy", "3, 2x3", "", "3", r"shape \[2, 3\] does not broadcast to \[3\]"),
    ("softmax.int", "3x4", "{dim = 2}", "3x4", "dimension 2 is out of range for rank 2"),
    ("sum.dim_IntList", "3x4", "{dim = [0, -2]}", "4", r"dimensions \[0, -2\] name one twice"),
    ("layer_norm", "3x4", "{normalized_shape = [3]}", "3x4", "must be the last dimensions of the shape"),
    ("layer_norm", "3x4, 3", "{normalized_shape = [4]}", "3x4", r"the weight must have the shape \[4\], not \[3\]"),
    (
        "group_norm",
        "2x4x5",
        "{num_groups = 3}",
        "2x4x5",
        r"3 groups do not divide the channels, dimension 1 of the shape \[2, 4, 5\]",
    ),
    (
        "group_norm",
        "2x4x5, 5",
        "{num_groups = 2}",
        "2x4x5",
        r"the weight must have an element for each channel, dimension 1 of the shape \[2, 4, 5\]",
    ),
    (
        "max_pool2d",
        "4x5",
        "{kernel_size = [2]}",
        "2x2",
        r"a pool over 2 dimensions has 1 or 2 before them, got the shape \[4, 5\]",
    ),
    ("max_pool2d", "1x4x5", "{kernel_size = [2, 2, 2]}", "1x2x2", "must hold 1 or 2 numbers"),
    ("max_pool1d", "1x4", "{kernel_size = [0]}", "1x2", r"no windows of size \[0\] by \[0\]"),
    (
        "max_pool1d",
        "1x4",
        "{kernel_size = [9], stride = [1]}",
        "1x2",
        r"windows of size \[9\] do not fit the shape \[4\]",
    ),
    ("adaptive_avg_pool1d", "4", "{output_size = [2]}", "2", "a pool over 1 dimensions has 1 or 2 before them"),
    (
        "as_strided",
        "6",
        "{size = [2, 2], stride = [1]}",
        "2x2",
        r"no elements of size \[2, 2\] are \[1\] apart from 0 on",
    ),
    ("as_strided", "6", "{size = [4], stride = [2]}", "4", "element 6 is outside of a memory of 6 elements"),
    ("t", "2x3x4", "", "4x3x2", "t takes at most 2 dimensions, not 3; use transpose.int"),
    ("permute", "2x3", "{dims = [0]}", "2", r"dims \[0\] do not name each of 2 dimensions"),
    ("view", "2x3", "{size = [4]}", "4", r"shape \[2, 3\] holds 6 elements, \[4\] 4"),
    ("view", "2x3", "{size = [4, -1]}", "4x1", r"shape \[2, 3\] cannot be viewed as \[4, -1\]"),
    ("expand", "2x3", "{size = [4, 3]}", "4x3", r"shape \[2, 3\] does not broadcast to \[4, 3\]"),
    ("slice.Tensor", "4", "{step = 0}", "4", "the step of a slice must be positive, not 0"),
    ("slice.Tensor", "", "{dim = 0}", "", "dimension 0 is out of range for rank 0"),
    ("select.int", "4", "{dim = 0, index = 4}", "", "the index 4 is out of range for dimension 0"),
    ("slice_scatter", "4, 3", "{end = 2}", "4", r"src must have the shape \[2\], not \[3\], along dimension 0"),
    ("diagonal", "4x4", "{dim1 = 1}", "4", "a diagonal is of two dimensions, not of 1 alone"),
    ("unfold", "4", "{dimension = 0, size = 5, step = 1}", "1x5", "no slices of 5 elements, 1 apart, of 4"),
    ("roll", "4", "{shifts = [1, 2], dims = [0]}", "4", r"shifts \[1, 2\] and dims \[0\] must be equally many"),
    ("repeat", "4x4", "{repeats = [2]}", "4x8", "must name every dimension of the shape"),
    ("repeat_interleave.self_int", "4", "{repeats = -1}", "4", "repeats must not be negative, but is -1"),
    ("split.Tensor", "4", "{split_size = 0}", "4", "split_size must be positive, not 0"),
    ("split_with_sizes", "4", "{split_sizes = [1, 2]}", "1", r"the parts \[1, 2\] do not make up the extent 4"),
    ("cat", "2x3, 3x2", "", "5x3", r"shapes \[2, 3\] and \[3, 2\] do not fit one after the other along dimension 0"),
    ("stack", "2x3, 3x2", "", "2x2x3", r"shapes \[2, 3\] and \[3, 2\] cannot be stacked, they differ"),
    ("pad", "4", "{pad = [1, 2, 3, 4]}", "7", "must hold two amounts for each of at most 1 dimensions"),
    ("pad", "4", "{pad = [-3, -3]}", "4", "cuts off more than the shape"),
    ("tril", "4", "", "4", r"a triangle needs at least 2 dimensions, not the shape \[4\]"),
    ("gather", "4x4, 4:i64", "{dim = 0}", "4", r"the index of shape \[4\] must have 2 dimensions as the source has"),
    ("index_select", "4x4, 2x2:i64", "{dim = 0}", "4x4", "the index must be a vector, not of shape"),
    ("embedding", "4, 2:i64", "", "2", "the weight must have 2 dimensions, not the shape"),
    ("index.Tensor", "4, 2:i64, 2:i64", "{indices = [0, 1]}", "2", "2 indices are too many for the shape"),
    ("zeros", None, "{size = [-1]}", "1", "has a negative extent"),
    ("arange.start_step", None, "{start = 0, end = 4, step = 0}", "4", "arange gives a vector and needs a step, not 0"),
    ("relu", "?x4", "", "?x4", "the tensors of a captured program have static shapes, got tensor"),
    (
        "convolution",
        "1x3x4, 4x2x1",
        "{stride = [1], padding = [0], dilation = [1], transposed = false, output_padding = [0], groups = 1}",
        "1x4x4",
        r"a weight of shape \[4, 2, 1\] does not fit \[1, 3, 4\]",
    ),
    (
        "convolution",
        "1x2x4, 4x2x1, 3",
        "{stride = [1], padding = [0], dilation = [1], transposed = false, output_padding = [0], groups = 1}",
        "1x4x4",
        r"the bias must have the shape \[4\], not \[3\]",
    ),
    (
        "convolution",
        "1x4x4, 3x2x1",
        "{stride = [1], padding = [0], dilation = [1], transposed = false, output_padding = [0], groups = 2}",
        "1x4x4",
        "does not fall into 2 groups",
    ),
]


@pytest.mark.parametrize(("name", "operands", "attributes", "result", "message"), WRONG)
def test_what_does_not_fit_is_refused(
    name: str, operands: str | None, attributes: str, result: str, message: str
) -> None:
    parts = [] if operands is None else [part.strip().partition(":") for part in operands.split(",")]
    types = [f"tensor<{shape}{'x' if shape else ''}{element or 'f32'}>" for shape, _, element in parts]
    values = [f"%{number}" for number in range(len(types))]
    arguments = ", ".join(f"{value}: {type}" for value, type in zip(values, types, strict=True))
    stated = f"tensor<{result}{'x' if result else ''}f32>"
    call = f"torch.aten.{name} {', '.join(values)} {attributes} : {', '.join(types)} -> {stated}"
    module = LocatingParser(CONTEXT, f"func.func @f({arguments}) {{ %r = {call} func.return }}", "a").parse_module()
    with pytest.raises(VerifyException, match=message):
        module.verify()
