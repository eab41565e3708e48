"""The `torch` dialect: a captured PyTorch program, one operation per ATen overload, named as torch-mlir names them.

The operation classes are made from one table of ATen schemas, so that adding an operation is one line here and one
pattern in the `decompose` pass. Tensors are builtin `tensor` types of f32, f64, i32, i64 or i1. A parameter of the
schema that is a tensor is an operand; every other one is a property, left out where it has its default. `other` of the
`.Tensor` overloads may be a number, which is then a property too.

    %0 = torch.aten.rms_norm %x, %w {normalized_shape = [8], eps = 1.0e-06}
         : tensor<2x8xf32>, tensor<8xf32> -> tensor<2x8xf32>
    %1 = torch.aten.add.Tensor %0 {other = 1.5} : tensor<2x8xf32> -> tensor<2x8xf32>

Operands have the element type of the result: a promotion is an explicit `torch.aten._to_copy`.
"""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Self, cast

from xdsl.dialects.builtin import (
    DenseArrayBase,
    FloatAttr,
    IndexType,
    IntegerAttr,
    IntegerType,
    TensorType,
    f32,
    f64,
    i1,
    i32,
    i64,
)
from xdsl.ir import Attribute, Dialect, SSAValue, TypeAttribute
from xdsl.irdl import IRDLOperation, irdl_op_definition, opt_prop_def, result_def, traits_def, var_operand_def
from xdsl.parser import Parser
from xdsl.printer import Printer
from xdsl.traits import Pure
from xdsl.utils.exceptions import VerifyException

FLOAT = (f32, f64)
NUMBER = (f32, f64, i32, i64)
ANY = (f32, f64, i32, i64, i1)

# Element types that the operation computes on, and its schema as ATen prints it.
_TABLE = (
    (NUMBER, "add.Tensor(Tensor self, Tensor other, *, Scalar alpha=1) -> Tensor"),
    (NUMBER, "sub.Tensor(Tensor self, Tensor other, *, Scalar alpha=1) -> Tensor"),
    (NUMBER, "rsub.Scalar(Tensor self, Scalar other, Scalar alpha=1) -> Tensor"),
    (NUMBER, "mul.Tensor(Tensor self, Tensor other) -> Tensor"),
    (FLOAT, "div.Tensor(Tensor self, Tensor other) -> Tensor"),
    (NUMBER, "maximum(Tensor self, Tensor other) -> Tensor"),
    (NUMBER, "minimum(Tensor self, Tensor other) -> Tensor"),
    (NUMBER, "pow.Tensor_Scalar(Tensor self, Scalar exponent) -> Tensor"),
    (NUMBER, "square(Tensor self) -> Tensor"),
    (NUMBER, "neg(Tensor self) -> Tensor"),
    (NUMBER, "abs(Tensor self) -> Tensor"),
    (NUMBER, "relu(Tensor self) -> Tensor"),
    (FLOAT, "exp(Tensor self) -> Tensor"),
    (FLOAT, "log(Tensor self) -> Tensor"),
    (FLOAT, "sqrt(Tensor self) -> Tensor"),
    (FLOAT, "rsqrt(Tensor self) -> Tensor"),
    (FLOAT, "reciprocal(Tensor self) -> Tensor"),
    (FLOAT, "tanh(Tensor self) -> Tensor"),
    (FLOAT, "sigmoid(Tensor self) -> Tensor"),
    (NUMBER, "sum(Tensor self, *, ScalarType? dtype=None) -> Tensor"),
    (NUMBER, "sum.dim_IntList(Tensor self, int[1]? dim, bool keepdim=False, *, ScalarType? dtype=None) -> Tensor"),
    (FLOAT, "mean(Tensor self, *, ScalarType? dtype=None) -> Tensor"),
    (FLOAT, "mean.dim(Tensor self, int[1]? dim, bool keepdim=False, *, ScalarType? dtype=None) -> Tensor"),
    (NUMBER, "max(Tensor self) -> Tensor"),
    (NUMBER, "amax(Tensor self, int[1] dim=[], bool keepdim=False) -> Tensor"),
    (FLOAT, "softmax.int(Tensor self, int dim, ScalarType? dtype=None) -> Tensor"),
    (FLOAT, "rms_norm(Tensor input, SymInt[] normalized_shape, Tensor? weight=None, float? eps=None) -> Tensor"),
    (NUMBER, "linear(Tensor input, Tensor weight, Tensor? bias=None) -> Tensor"),
    (NUMBER, "matmul(Tensor self, Tensor other) -> Tensor"),
    (NUMBER, "mm(Tensor self, Tensor mat2) -> Tensor"),
    (NUMBER, "bmm(Tensor self, Tensor mat2) -> Tensor"),
    (NUMBER, "mv(Tensor self, Tensor vec) -> Tensor"),
    (NUMBER, "dot(Tensor self, Tensor tensor) -> Tensor"),
    (ANY, "t(Tensor(a) self) -> Tensor(a)"),
    (ANY, "transpose.int(Tensor(a) self, int dim0, int dim1) -> Tensor(a)"),
    (ANY, "permute(Tensor(a) self, int[] dims) -> Tensor(a)"),
    (ANY, "view(Tensor(a) self, SymInt[] size) -> Tensor(a)"),
    (ANY, "_unsafe_view(Tensor self, SymInt[] size) -> Tensor"),
    (ANY, "unsqueeze(Tensor(a) self, int dim) -> Tensor(a)"),
    (ANY, "squeeze(Tensor(a) self) -> Tensor(a)"),
    (ANY, "squeeze.dim(Tensor(a) self, int dim) -> Tensor(a)"),
    (ANY, "squeeze.dims(Tensor(a) self, int[] dim) -> Tensor(a)"),
    (ANY, "expand(Tensor(a) self, SymInt[] size, *, bool implicit=False) -> Tensor(a)"),
    (ANY, "clone(Tensor self, *, MemoryFormat? memory_format=None) -> Tensor"),
    (ANY, "detach(Tensor(a) self) -> Tensor(a)"),
    (ANY, "alias(Tensor(a) self) -> Tensor(a)"),
    (
        ANY,
        "_to_copy(Tensor self, *, ScalarType? dtype=None, Layout? layout=None, Device? device=None, "
        "bool? pin_memory=None, bool non_blocking=False, MemoryFormat? memory_format=None) -> Tensor",
    ),
)

# Schema types of parameters that say where and how a result is stored; its values do not depend on them.
_STORAGE = ("MemoryFormat?", "Layout?", "Device?", "bool?")
_STORAGE_NAMES = ("non_blocking",)


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
        """Whether the parameter is an operand."""
        return self.kind == "Tensor"

    @property
    def is_storage(self) -> bool:
        """Whether the parameter concerns the storage of the result only and is no part of the operation."""
        return self.kind == "storage"


@dataclass(frozen=True)
class Schema:
    """An ATen overload: its name (`add.Tensor`; the default overload has no suffix), parameters and element types."""

    name: str
    text: str
    parameters: tuple[Parameter, ...]
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
    def casts(self) -> bool:
        """Whether the operation changes the element type."""
        return self.name == "_to_copy"

    def takes_number(self, parameter: Parameter) -> bool:
        """Whether this tensor parameter may be a number instead, as in `x + 1`."""
        return parameter.name == "other" and self.name.endswith(".Tensor")


def _parse_parameter(text: str, keyword_only: bool) -> Parameter:
    kind, _, declaration = text.partition(" ")
    name, has_default, default = declaration.partition("=")
    if kind in _STORAGE or name in _STORAGE_NAMES:
        return Parameter(name, "storage", True, keyword_only, True, None)
    optional = kind.endswith("?")
    kind = re.sub(r"\(\w+\)", "", kind.removesuffix("?")).replace("SymInt", "int")
    kind = re.sub(r"\[\d+\]", "[]", kind)
    values: dict[str, object] = {"None": None, "True": True, "False": False, "[]": ()}
    value = values[default] if default in values else int(default) if default else None
    return Parameter(name, kind, optional, keyword_only, bool(has_default), value)


def _parse_schema(text: str, elements: tuple[Attribute, ...]) -> Schema:
    name, _, rest = text.partition("(")
    items = rest[: rest.rindex(") ->")].split(", ")
    star = items.index("*") if "*" in items else len(items)
    parameters = [_parse_parameter(item, i > star) for i, item in enumerate(items) if item != "*"]
    return Schema(name, text, tuple(parameters), elements)


SCHEMAS = {schema.name: schema for schema in (_parse_schema(text, elements) for elements, text in _TABLE)}


class AtenOp(IRDLOperation):
    """An ATen operation of the table: tensor operands, the other arguments as properties, one tensor result."""

    tensors = var_operand_def(TensorType)
    result = result_def(TensorType)
    traits = traits_def(Pure())

    @classmethod
    def schema(cls) -> Schema:
        """The ATen overload that this operation is."""
        return SCHEMAS[cls.name.removeprefix("torch.aten.")]

    @classmethod
    def of(cls, arguments: dict[str, SSAValue | Attribute], result_type: TensorType[Attribute]) -> Self:
        """The operation on these arguments, by the names of the schema; arguments with their default are left out."""
        return cls.create(
            operands=[value for value in arguments.values() if isinstance(value, SSAValue)],
            properties={name: value for name, value in arguments.items() if isinstance(value, Attribute)},
            result_types=[result_type],
        )

    @property
    def tensor_type(self) -> TensorType[Attribute]:
        """The type of the result."""
        return self.result.type

    def tensor(self, name: str) -> SSAValue | None:
        """The operand for the tensor parameter `name`, or None if it is absent or a number."""
        given = [p.name for p in self.schema().tensors if p.name not in self.properties]
        position = given.index(name) if name in given else len(self.tensors)
        return self.tensors[position] if position < len(self.tensors) else None

    def operand(self, name: str) -> SSAValue:
        """The operand for the required tensor parameter `name`."""
        value = self.tensor(name)
        assert value is not None, f"{self.name} has no operand {name}"
        return value

    def value(self, name: str) -> Any:
        """The parameter `name`, its default if left out: an int, float, bool, tuple of int, element type or None."""
        attribute = self.properties.get(name)
        if attribute is None:
            return next(p.default for p in self.schema().parameters if p.name == name)
        return python_value(attribute)

    def verify_(self) -> None:
        self._verify_operands()
        for parameter in self.schema().attributes:
            self._verify_attribute(parameter)
        self._verify_elements()

    def _verify_operands(self) -> None:
        numbers = [p for p in self.schema().tensors if p.name in self.properties]
        for parameter in numbers:
            if not self.schema().takes_number(parameter):
                raise VerifyException(f"{parameter.name} must be a tensor operand, not a number")
            if not _matches(self.properties[parameter.name], "Scalar"):
                raise VerifyException(
                    f"{parameter.name} must be an operand or a number such as {{{parameter.name} = 1.0}}"
                )
        most = len(self.schema().tensors) - len(numbers)
        least = most - sum(p.optional for p in self.schema().tensors)
        if not least <= len(self.tensors) <= most:
            names = ", ".join(p.name + (" (optional)" if p.optional else "") for p in self.schema().tensors)
            raise VerifyException(f"expected the tensor operands {names}; got {len(self.tensors)} of them")

    def _verify_attribute(self, parameter: Parameter) -> None:
        attribute = self.properties.get(parameter.name)
        example = _EXAMPLES[parameter.kind]
        if attribute is None:
            if not parameter.has_default and not parameter.optional:
                raise VerifyException(f"{parameter.name} is missing: write {{{parameter.name} = {example}}}")
            return
        if not _matches(attribute, parameter.kind):
            raise VerifyException(
                f"{parameter.name} must be {_KINDS[parameter.kind]} such as {{{parameter.name} = {example}}}"
            )
        if parameter.name == "dtype" and attribute != self.tensor_type.element_type:
            raise VerifyException(f"dtype is {attribute}, but the result is {self.tensor_type}")

    def _verify_elements(self) -> None:
        element = self.tensor_type.element_type
        if element not in self.schema().elements:
            names = ", ".join(str(e) for e in self.schema().elements)
            raise VerifyException(f"{self.name} computes on {names}, not {element}: cast with torch.aten._to_copy")
        for value in self.tensors:
            found = cast(TensorType[Attribute], value.type).element_type
            if found not in ANY:
                raise VerifyException(f"tensors hold f32, f64, i32, i64 or i1, not {found}")
            if found != element and not self.schema().casts:
                raise VerifyException(
                    f"the operand is {value.type}, the result {self.tensor_type}: cast with torch.aten._to_copy"
                )

    def print(self, printer: Printer) -> None:
        printer.print_string(" ")
        printer.print_list(self.tensors, printer.print_operand)
        names = [p.name for p in self.schema().parameters if p.name in self.properties]
        if names:
            printer.print_string(" ")
            with printer.in_braces():
                printer.print_list(names, lambda name: _print_entry(printer, name, self.properties[name]))
        printer.print_op_attributes(self.attributes, print_keyword=True)
        printer.print_string(" : ")
        printer.print_list([value.type for value in self.tensors], printer.print_attribute)
        printer.print_string(" -> ")
        printer.print_attribute(self.result.type)

    @classmethod
    def parse(cls, parser: Parser) -> Self:
        pos = parser.pos
        operands = parser.parse_comma_separated_list(parser.Delimiter.NONE, parser.parse_unresolved_operand)
        entries = parser.parse_optional_comma_separated_list(
            parser.Delimiter.BRACES, lambda: _parse_entry(parser, cls.schema())
        )
        attributes = parser.parse_optional_attr_dict_with_keyword()
        parser.parse_punctuation(":")
        types = parser.parse_comma_separated_list(parser.Delimiter.NONE, parser.parse_type)
        parser.parse_punctuation("->")
        result = parser.parse_type()
        return cls.create(
            operands=parser.resolve_operands(operands, types, pos),
            properties=dict(entries or []),
            attributes=attributes.data if attributes is not None else {},
            result_types=[result],
        )


_KINDS = {
    "int": "an integer",
    "int[]": "a list of integers",
    "float": "a float",
    "Scalar": "a number",
    "bool": "true or false",
    "ScalarType": "an element type",
}
_EXAMPLES = {"int": "-1", "int[]": "[0, 1]", "float": "1.0e-06", "Scalar": "1.0", "bool": "true", "ScalarType": "f32"}


def attribute_of(value: object, kind: str) -> Attribute | None:
    """The property for a Python value of a parameter of this kind, or None if it is no such value."""
    if kind == "bool" and isinstance(value, bool):
        return IntegerAttr(int(value), i1)
    if kind in ("int", "Scalar") and isinstance(value, int):
        return IntegerAttr(int(value), i64) if -(1 << 63) <= value < 1 << 63 else None
    if kind in ("float", "Scalar") and isinstance(value, int | float):
        return FloatAttr(float(value), f64)
    if kind == "int[]" and isinstance(value, Sequence):
        values = list(cast(Sequence[object], value))
        return (
            DenseArrayBase.from_list(i64, cast(list[int], values)) if all(isinstance(v, int) for v in values) else None
        )
    if kind == "ScalarType" and isinstance(value, TypeAttribute) and value in ANY:
        return value
    return None


def python_value(attribute: Attribute) -> Any:
    """The Python value that a property stands for."""
    if isinstance(attribute, IntegerAttr):
        value = cast(IntegerAttr[IntegerType | IndexType], attribute)
        return bool(value.value.data) if value.type == i1 else value.value.data
    if isinstance(attribute, FloatAttr):
        return attribute.value.data
    if isinstance(attribute, DenseArrayBase):
        return tuple(attribute.get_values())
    return attribute


def _matches(attribute: Attribute, kind: str) -> bool:
    return attribute_of(python_value(attribute), kind) == attribute


def _print_entry(printer: Printer, name: str, attribute: Attribute) -> None:
    printer.print_string(f"{name} = ")
    value = python_value(attribute)
    if isinstance(attribute, DenseArrayBase):
        with printer.in_square_brackets():
            printer.print_list(value, printer.print_int)
    elif isinstance(value, bool):
        printer.print_string("true" if value else "false")
    elif isinstance(value, int):
        printer.print_int(value)
    elif isinstance(value, float) and not math.isfinite(value):
        printer.print_attribute(attribute)
    elif isinstance(value, float):
        printer.print_float(value, f64)
    else:
        printer.print_attribute(attribute)


def _parse_entry(parser: Parser, schema: Schema) -> tuple[str, Attribute]:
    pos = parser.pos
    name = parser.parse_identifier()
    parameter = next((p for p in schema.parameters if p.name == name and not p.is_storage), None)
    if parameter is None:
        known = ", ".join(p.name for p in schema.attributes) or "none"
        parser.raise_error(f"{schema.name} has no attribute '{name}'; it has {known}", pos, parser.pos)
    parser.parse_punctuation("=")
    pos = parser.pos
    kind = "Scalar" if parameter.is_tensor else parameter.kind
    attribute = attribute_of(_parse_value(parser, kind), kind)
    if attribute is None:
        parser.raise_error(f"{name} must be {_KINDS[kind]} such as {_EXAMPLES[kind]}", pos, parser.pos)
    return name, attribute


def _parse_value(parser: Parser, kind: str) -> object:
    if kind == "int[]":
        return parser.parse_comma_separated_list(parser.Delimiter.SQUARE, parser.parse_integer)
    if kind == "bool":
        return parser.parse_boolean()
    if kind == "ScalarType":
        return parser.parse_type()
    number = parser.parse_optional_number()
    if number is None:
        parser.raise_error(f"expected {_KINDS[kind]} such as {_EXAMPLES[kind]}")
    if isinstance(number, int) and parser.parse_optional_punctuation(":"):
        parser.parse_keyword("f64")
        return f64.unpack(number.to_bytes(8, "little"), 1)[0]
    return number


def _op_class(schema: Schema) -> type[AtenOp]:
    fields: dict[str, object] = {
        "__doc__": f"`aten::{schema.text}`",
        "__module__": __name__,
        "name": f"torch.aten.{schema.name}",
    }
    for parameter in schema.parameters:
        if not parameter.is_storage:
            fields[f"{parameter.name}_property"] = opt_prop_def(Attribute, prop_name=parameter.name)
    words = re.split(r"[._]", schema.name)
    name = "Aten" + "".join(word[:1].upper() + word[1:] for word in words) + "Op"
    return irdl_op_definition(cast(type[AtenOp], type(name, (AtenOp,), fields)))


ATEN_OPS = {schema.name: _op_class(schema) for schema in SCHEMAS.values()}

Torch = Dialect("torch", list(ATEN_OPS.values()))
