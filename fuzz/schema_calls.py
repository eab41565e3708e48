"""Random calls of any overload of the torch dialect, their arguments drawn by what its schema says of them."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch

from deplodock.dialects.torch.aten import SCHEMAS
from deplodock.dialects.torch.schema import OWN_ELEMENTS, Parameter, Schema, TypeRule
from deplodock.fuzz.drawing import DTYPES, ELEMENTS, INTEGERS, Drawer
from deplodock.fuzz.program import Node

BY_FAMILY = (
    *("gather", "index_select", "index.Tensor", "embedding"),
    *("linear", "matmul", "mm", "bmm", "mv", "dot", "outer", "addmm", "baddbmm", "addmv", "einsum"),
    *("scaled_dot_product_attention", "rms_norm", "layer_norm", "group_norm", "_native_batch_norm_legit_no_training"),
    *("view", "_unsafe_view", "expand", "as_strided", "view.dtype", "copysign.Tensor", "signbit"),
    *(f"{kind}_pool{n}d" for kind in ("max", "avg", "adaptive_avg") for n in (1, 2, 3)),
    *(f"{name}_pool{n}d{rest}" for name, rest in (("max", "_with_indices"), ("adaptive_max", "")) for n in (2, 3)),
)
"""Overloads whose arguments depend on each other in ways that schemas do not say; `families.py` draws them."""

UNSPECIFIED = ("empty.memory_format", "empty_like", "new_empty")
"""Overloads whose values PyTorch leaves open, so that there is nothing to compare with."""

UNREGISTERED = ("prims.fma",)
"""Overloads that are no ATen operations: PyTorch registers them where its own compiler is imported."""

DRAWN = tuple(name for name in SCHEMAS if name not in (*BY_FAMILY, *UNSPECIFIED, *UNREGISTERED))
"""The overloads that are drawn by their schema alone."""

Text = Callable[[Drawer, list[Node]], str]
"""Draws the text of an argument, given the operands before it."""


def call(drawer: Drawer, name: str | None = None) -> tuple[str, Sequence[Node]]:
    """A call of an overload (default: any of DRAWN) as a template and its operands."""
    schema = SCHEMAS[name or drawer.draw.choice(DRAWN)]
    operands: list[Node] = []
    texts: list[str] = []
    for parameter in schema.parameters:
        text = _argument(drawer, schema, parameter, operands)
        if text is not None:
            texts.append(f"{parameter.name}={text}" if parameter.keyword_only else text)
        elif not parameter.keyword_only and not parameter.is_storage:
            break
    packet, _, overload = schema.name.partition(".")
    return f"torch.ops.aten.{packet}.{overload or 'default'}({', '.join(texts)})", operands


def _argument(drawer: Drawer, schema: Schema, parameter: Parameter, operands: list[Node]) -> str | None:
    """The text of an argument, None to leave it out; tensors are added to the operands."""
    if parameter.is_storage or (parameter.has_default and parameter.keyword_only and drawer.chance(0.5)):
        return None
    if parameter.is_tensor:
        return _operand(drawer, schema, parameter, operands)
    if parameter.name in _BY_NAME:
        return _BY_NAME[parameter.name](drawer, operands)
    if parameter.optional and drawer.chance(0.3):
        return "None"
    return _BY_KIND[parameter.kind](drawer, operands)


def _operand(drawer: Drawer, schema: Schema, parameter: Parameter, operands: list[Node]) -> str:
    if parameter.optional and drawer.chance(0.3):
        return "None"
    dtypes = _dtypes(schema, parameter)
    if parameter.is_list:
        first = drawer.value(dtypes, 1)
        others = [drawer.shaped(first.value.shape, first.value.dtype) for _ in range(drawer.draw.randint(0, 2))]
        operands += [first, *others]
        return f"[{', '.join(['{}'] * (1 + len(others)))}]"
    if not operands:
        operands.append(drawer.value(dtypes))
    elif parameter.name in OWN_ELEMENTS or drawer.chance(0.2):
        operands.append(drawer.like(operands[0], dtypes))
    else:
        operands.append(drawer.like(operands[0]) if operands[0].value.dtype in dtypes else drawer.value(dtypes))
    return "{}"


def _dtypes(schema: Schema, parameter: Parameter) -> list[torch.dtype]:
    """The element types that an operand may have."""
    if parameter.name in OWN_ELEMENTS:
        elements = OWN_ELEMENTS[parameter.name]
    elif schema.rule is TypeRule.FREE:
        return list(DTYPES)
    else:
        elements = schema.elements
    return [dtype for dtype, element in ELEMENTS.items() if element in elements]


def _scalar(drawer: Drawer, operands: list[Node]) -> str:
    dtype = operands[0].value.dtype if operands else torch.float32
    if dtype in INTEGERS or dtype == torch.bool:
        return str(drawer.draw.choice([1, 2, 3] if dtype in (torch.bool, torch.uint8) else [-2, -1, 1, 2, 3]))
    return str(drawer.draw.choice([-1, 0.5, 1, 2, 0.1, 3, -1.5]))


def _dim(drawer: Drawer, operands: list[Node]) -> str:
    return str(drawer.dim(operands[0]))


def _dims(drawer: Drawer, operands: list[Node]) -> str:
    return str(drawer.dims(operands[0]))


def _permutation(drawer: Drawer, operands: list[Node]) -> str:
    """All dimensions where the operation needs that (permute), else PyTorch refuses the call and it is drawn again."""
    rank = operands[0].value.dim()
    return str(drawer.draw.sample(range(rank), rank if drawer.chance(0.7) else drawer.draw.randint(0, rank)))


def _size(drawer: Drawer, operands: list[Node]) -> str:
    return str(list(drawer.shape(1)))


def _each_dim(least: int, most: int) -> Text:
    def draw(drawer: Drawer, operands: list[Node]) -> str:
        rank = operands[0].value.dim() if operands else 1
        return str([drawer.draw.randint(least, most) for _ in range(rank)])

    return draw


def _pad(drawer: Drawer, operands: list[Node]) -> str:
    rank = drawer.draw.randint(0, operands[0].value.dim())
    return str([drawer.draw.randint(-1, 3) for _ in range(2 * rank)])


def _split_sizes(drawer: Drawer, operands: list[Node]) -> str:
    extent = operands[0].value.shape[0]
    first = drawer.draw.randint(0, extent)
    return str([size for size in (first, extent - first) if size])


def _word(*words: str | None) -> Text:
    return lambda drawer, operands: repr(drawer.draw.choice(words))


def _number(*numbers: float | None) -> Text:
    return lambda drawer, operands: str(drawer.draw.choice(numbers))


def _either(one: Text, other: Text) -> Text:
    return lambda drawer, operands: (one if drawer.chance(0.5) else other)(drawer, operands)


def _dtype(drawer: Drawer, operands: list[Node]) -> str:
    return str(drawer.dtype())


def _bool(drawer: Drawer, operands: list[Node]) -> str:
    return str(drawer.chance(0.5))


_BY_NAME: dict[str, Text] = {
    "dim": _either(_dim, _dims),
    "dim0": _dim,
    "dim1": _dim,
    "dims": _permutation,
    "size": _size,
    "repeats": lambda drawer, operands: (_number(1, 2, 3) if drawer.chance(0.5) else _each_dim(1, 2))(drawer, operands),
    "shifts": lambda drawer, operands: (_number(-2, 1, 3) if drawer.chance(0.5) else _each_dim(-3, 5))(
        drawer, operands
    ),
    "pad": _pad,
    "split_sizes": _split_sizes,
    "split_size": _number(1, 2, 3, 5),
    "rounding_mode": _word("floor", "trunc", None),
    "approximate": _word("none", "tanh"),
    "mode": _word("constant"),
    "alpha": _number(1, 2, -1),
    "correction": _number(0, 1, None),
    "exponent": _number(-1, 0.5, 1, 2, 3, 4),
    "output_size": _number(None),
    "step": _number(1, 1, 2, 3),
    "start": _number(None, 0, 0, 1, 2, -2),
    "end": _number(3, 5, 7, 9, 1000),
    "n": _number(1, 3, 8, 17),
    "m": _number(1, 3, 8, 17),
    "diagonal": _number(-2, -1, 0, 1, 2),
    "index": _number(0, 1, -1),
    "beta": _number(1, 2, 0.5),
    "threshold": _number(20, 2),
    "eps": _number(1e-3, 1e-5, 0.1),
}

_BY_KIND: dict[str, Text] = {
    "Scalar": _scalar,
    "int": _number(0, 1, 2, -1),
    "int[]": _dims,
    "bool": _bool,
    "float": _number(0.5, 1.0, 2.0),
    "str": _word(""),
    "ScalarType": _dtype,
}
