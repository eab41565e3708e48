"""What a schema of ATen says: its parameters, and how the element types of operands and results belong together."""

from __future__ import annotations

import ast
import re
from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum, auto
from typing import Any, Protocol

from xdsl.dialects.builtin import i1, i32, i64
from xdsl.ir import Attribute, SSAValue

from deplodock.dialects.elements import FLOATS


class TypeRule(Enum):
    """How the element types of operands and results belong together, but for the operands of `OWN_ELEMENTS`."""

    SAME = auto()
    """Operands and results have one element type of the table: promotion is an explicit cast."""
    COMPARE = auto()
    """Operands have one element type of the table, the result is i1."""
    FREE = auto()
    """Operands have any element type, results one of the table."""


OWN_ELEMENTS: dict[str, tuple[Attribute, ...]] = {
    "condition": (i1,),
    "mask": (i1,),
    "attn_mask": (i1, *FLOATS),
    "index": (i32, i64),
    "indices": (i32, i64),
}
"""Tensor parameters and results that have an element type of their own whatever the operation computes on: which."""

_WITH_POSITIONS = (
    *("max_pool2d_with_indices", "max_pool3d_with_indices", "adaptive_max_pool2d", "adaptive_max_pool3d"),
)
"""Overloads whose second result, which has no name in their schema, holds positions."""

# Schema types of parameters that say where and how a result is stored, and names of parameters that only gradients
# depend on or that choose among equal implementations; no value depends on them.
_STORAGE = ("MemoryFormat?", "Layout?", "Device?", "bool?")
_STORAGE_NAMES = ("non_blocking", "cudnn_enable", "padding_idx", "scale_grad_by_freq", "sparse", "sparse_grad", "path")


@dataclass(frozen=True)
class Parameter:
    """One parameter of an ATen schema; `kind` is its type without size and alias marks: `Tensor`, `int[]`, `float`."""

    name: str
    kind: str
    optional: bool
    keyword_only: bool
    has_default: bool
    default: object

    @property
    def is_tensor(self) -> bool:
        """Whether the parameter is an operand, or a list of them."""
        return self.kind == "Tensor" or self.is_list

    @property
    def is_list(self) -> bool:
        """Whether the parameter is a list of operands; it is the last tensor parameter then."""
        return self.kind in ("Tensor[]", "Tensor?[]")

    @property
    def is_storage(self) -> bool:
        """Whether no value depends on the parameter, so that it is no part of the operation."""
        return self.kind == "storage"


@dataclass(frozen=True)
class Schema:
    """An ATen overload: its name (`add.Tensor`; the default overload has no suffix), parameters and element types."""

    name: str
    text: str
    parameters: tuple[Parameter, ...]
    rule: TypeRule
    elements: tuple[Attribute, ...]

    @property
    def tensors(self) -> tuple[Parameter, ...]:
        """The parameters that are operands, in order."""
        return tuple(p for p in self.parameters if p.is_tensor)

    @property
    def attributes(self) -> tuple[Parameter, ...]:
        """The parameters that are properties, in order."""
        return tuple(p for p in self.parameters if not p.is_tensor and not p.is_storage)

    @property
    def has_many_results(self) -> bool:
        """Whether the operation gives a list or tuple of tensors."""
        return not self.text.endswith(("-> Tensor", "-> Tensor(a)"))

    def result_elements(self, position: int) -> tuple[Attribute, ...]:
        """The element types that a result may have."""
        if position and self.name in _WITH_POSITIONS:
            return (i64,)
        names = re.findall(r"Tensor (\w+)", self.text.rpartition(" -> ")[2])
        if position < len(names) and names[position] in OWN_ELEMENTS:
            return OWN_ELEMENTS[names[position]]
        return (i1,) if self.rule is TypeRule.COMPARE else self.elements

    def shares_element(self, position: int) -> bool:
        """Whether a result has the element type of the first one."""
        return not position or self.result_elements(position) == self.elements

    def takes_number(self, parameter: Parameter) -> bool:
        """Whether this tensor parameter may be a number instead, as in `x + 1`."""
        if self.name == "prims.fma":
            return parameter.name == "b"
        numeric = self.name == "floor_divide" or self.name.endswith((".Tensor", ".Tensor_mode"))
        return numeric and parameter.name in ("self", "other") and "other" in (p.name for p in self.tensors)


def _parse_parameter(text: str, keyword_only: bool) -> Parameter:
    kind, _, declaration = text.rpartition(" ")
    name, has_default, default = declaration.partition("=")
    if kind in _STORAGE or name in _STORAGE_NAMES:
        return Parameter(name, "storage", True, keyword_only, True, None)
    optional = kind.endswith("?")
    kind = re.sub(r"\(.+?\)", "", kind.removesuffix("?")).replace("SymInt", "int")
    kind = re.sub(r"\[\d+\]", "[]", kind)
    value = () if default == "[]" else ast.literal_eval(default) if default else None
    return Parameter(name, kind, optional, keyword_only, bool(has_default), value)


def parse_schema(rule: TypeRule, elements: tuple[Attribute, ...], text: str) -> Schema:
    """The schema of a line of the table."""
    name, _, rest = text.partition("(")
    items = [item for item in rest[: rest.index(") ->")].split(", ") if item]
    star = items.index("*") if "*" in items else len(items)
    parameters = [_parse_parameter(item, i > star) for i, item in enumerate(items) if item != "*"]
    return Schema(name, text, tuple(parameters), rule, elements)


class AtenCall(Protocol):
    """Operands and arguments by the names of the schema, and the number of results."""

    @property
    def tensors(self) -> Sequence[SSAValue]:
        """All operands in order."""
        ...

    @property
    def outputs(self) -> Sequence[SSAValue]:
        """The results as they are stated."""
        ...

    def schema(self) -> Schema:
        """The overload."""
        ...

    def has(self, name: str) -> bool:
        """Whether the overload has a parameter of this name."""
        ...

    def value(self, name: str) -> Any:
        """A parameter that is no tensor, or its default."""
        ...

    def tensor(self, name: str) -> SSAValue | None:
        """The operand for a tensor parameter, None if it is absent or a number."""
        ...

    def operand(self, name: str) -> SSAValue:
        """The operand for a required tensor parameter."""
        ...

    def tensor_list(self, name: str) -> Sequence[SSAValue | None]:
        """The operands for a list parameter, None where the list has none."""
        ...
