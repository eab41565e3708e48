"""The `torch` dialect: a captured PyTorch program, one operation per ATen overload, named as torch-mlir names them.

The operation classes are made from the table of ATen schemas in `aten.py`, so that adding an operation is one line
there and one formula in `passes/torch/`. Tensors are builtin `tensor` types of the elements in `elements.py`. A
parameter of the schema that is a tensor is an operand; every other one is a property, left out where it has its
default. `other` of the `.Tensor` overloads may be a number, which is then a property too, and an optional tensor that
is left out before one that is given is `none`. A list of tensors with gaps says where its tensors stand.

    %0 = torch.aten.rms_norm %x, %w {normalized_shape = [8], eps = 1.0e-06}
         : tensor<2x8xf32>, tensor<8xf32> -> tensor<2x8xf32>
    %1 = torch.aten.add.Tensor %0 {other = 1.5} : tensor<2x8xf32> -> tensor<2x8xf32>

    %2 = torch.aten.clamp.Tensor %0, %max {min = none} : tensor<2x8xf32>, tensor<8xf32> -> tensor<2x8xf32>
    %3 = torch.aten.index.Tensor %0, %i {indices = [-1, 0]} : tensor<2x8xf32>, tensor<5xi64> -> tensor<2x5xf32>
    %4, %5 = torch.aten.split.Tensor %0 {split_size = 1} : tensor<2x8xf32> -> tensor<1x8xf32>, tensor<1x8xf32>
    %6 = torch.aten.arange {end = 4} : -> tensor<4xi64>

A promotion is an explicit `torch.aten._to_copy`: operands have the element type of the result, but for the operations
and operands that `aten.py` exempts. The shapes of results are those that operands and attributes give (`shapes`).
"""

from __future__ import annotations

import itertools
import math
import re
from collections.abc import Mapping, Sequence
from functools import cache
from typing import TYPE_CHECKING, Any, Self, cast

from xdsl.dialects.builtin import (
    DenseArrayBase,
    FloatAttr,
    IndexType,
    IntegerAttr,
    IntegerType,
    ModuleOp,
    StringAttr,
    TensorType,
    UnitAttr,
    f32,
    f64,
    i1,
    i64,
)
from xdsl.ir import Attribute, Dialect, OpResult, SSAValue, TypeAttribute
from xdsl.irdl import IRDLOperation, opt_prop_def, traits_def, var_operand_def, var_result_def
from xdsl.parser import Parser
from xdsl.printer import Printer
from xdsl.traits import Pure
from xdsl.utils.exceptions import VerifyException

from deplodock.dialects.elements import listed
from deplodock.dialects.formats import op_definition, parse_attributes, parse_operands, parse_types
from deplodock.dialects.precision import ATTRIBUTE, precision_of, set_precision_of
from deplodock.dialects.tensor.indexing import shape_of, tensor_of
from deplodock.dialects.torch.aten import ANY, PRODUCTS, SCHEMAS
from deplodock.dialects.torch.schema import OWN_ELEMENTS, Parameter, Schema, TypeRule
from deplodock.dialects.torch.shapes import result_shapes

if TYPE_CHECKING:
    ATEN_OPS: dict[str, type[AtenOp]]
    Torch: Dialect


class AtenOp(IRDLOperation):
    """An ATen operation of the table: tensor operands, the other arguments as properties, tensor results."""

    tensors = var_operand_def(TensorType)
    outputs = var_result_def(TensorType)
    traits = traits_def(Pure())

    @classmethod
    def schema(cls) -> Schema:
        """The ATen overload that this operation is."""
        return SCHEMAS[cls.name.removeprefix("torch.").removeprefix("aten.")]

    @classmethod
    def of(
        cls,
        arguments: Mapping[str, SSAValue | Attribute | Sequence[SSAValue | None]],
        result_types: Sequence[Attribute],
    ) -> Self:
        """The operation on these arguments, by the names of the schema; arguments with their default are left out."""
        operands: list[SSAValue] = []
        properties: dict[str, Attribute] = {}
        skipped: list[str] = []
        for parameter in cls.schema().parameters:
            value = arguments.get(parameter.name)
            if isinstance(value, Attribute):
                properties[parameter.name] = value
            elif value is None:
                skipped += [parameter.name] if parameter.is_tensor else []
            else:
                given = [value] if isinstance(value, SSAValue) else value
                if parameter.kind == "Tensor?[]":
                    properties[parameter.name] = _positions(given)
                operands += [tensor for tensor in given if tensor is not None]
                properties.update((name, UnitAttr()) for name in skipped)
                skipped = []
        return cls.create(operands=operands, properties=properties, result_types=result_types)

    @property
    def result(self) -> OpResult[TensorType[Attribute]]:
        """The result of an operation that has one."""
        (result,) = self.outputs
        return result

    @property
    def tensor_type(self) -> TensorType[Attribute]:
        """The type of the first result."""
        return self.outputs[0].type

    def has(self, name: str) -> bool:
        """Whether the overload has a parameter `name`."""
        return any(parameter.name == name for parameter in self.schema().parameters)

    @property
    def has_precision(self) -> bool:
        """Whether there are products of FP32 whose precision the operation says."""
        return self.schema().name in PRODUCTS and self.tensor_type.element_type == f32

    def tensor(self, name: str) -> SSAValue | None:
        """The operand for the tensor parameter `name`, or None if it is absent or a number."""
        given = [p.name for p in self._plain()]
        position = given.index(name) if name in given else len(self.tensors)
        return self.tensors[position] if position < len(self.tensors) else None

    def operand(self, name: str) -> SSAValue:
        """The operand for the required tensor parameter `name`."""
        value = self.tensor(name)
        assert value is not None, f"{self.name} has no operand {name}"
        return value

    def tensor_list(self, name: str) -> list[SSAValue | None]:
        """The operands for the list parameter `name`, None where the list has none."""
        tensors = self.tensors[len(self._plain()) :]
        positions = self.properties.get(name)
        if positions is None:
            return list(tensors)
        return [None if i < 0 else tensors[i] for i in python_value(positions)]

    def _plain(self) -> list[Parameter]:
        return [p for p in self.schema().tensors if p.name not in self.properties and not p.is_list]

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
        self._verify_shapes()
        if precision_of(self) != "highest" and not self.has_precision:
            raise VerifyException(f"{ATTRIBUTE} is for products of matrices of f32; leave it out")

    def _verify_operands(self) -> None:
        for parameter in self.schema().tensors:
            self._verify_absent(parameter)
        plain = self._plain()
        most, least = len(plain), len(plain) - sum(p.optional for p in plain)
        lists = [p for p in self.schema().tensors if p.is_list]
        if lists:
            most, least = len(self.tensors), least + 1
        elif self.schema().tensors:
            least = max(1, least)
        if not least <= len(self.tensors) <= most:
            names = ", ".join(p.name + (" (optional)" if p.optional else "") for p in self.schema().tensors)
            raise VerifyException(f"expected the tensor operands {names}; got {len(self.tensors)} of them")
        for parameter in lists:
            self._verify_positions(parameter, len(self.tensors) - len(plain))

    def _verify_absent(self, parameter: Parameter) -> None:
        """Check the property in the place of a tensor operand: a number, or none."""
        attribute = self.properties.get(parameter.name)
        if attribute is None or parameter.is_list or (parameter.optional and isinstance(attribute, UnitAttr)):
            return
        if not self.schema().takes_number(parameter):
            raise VerifyException(f"{parameter.name} must be a tensor operand, not a number")
        if not _matches(attribute, "Scalar"):
            raise VerifyException(f"{parameter.name} must be an operand or a number such as {{{parameter.name} = 1.0}}")

    def _verify_positions(self, parameter: Parameter, count: int) -> None:
        """Check that the property of a list with gaps names each of its `count` tensors once, in order."""
        attribute = self.properties.get(parameter.name)
        if parameter.kind == "Tensor[]" and attribute is None:
            return
        given = python_value(cast(Attribute, attribute)) if isinstance(attribute, DenseArrayBase) else ()
        if parameter.kind != "Tensor?[]" or [i for i in given if i >= 0] != list(range(count)):
            raise VerifyException(
                f"{parameter.name} must say where its {count} tensors stand in the list, such as"
                f" {{{parameter.name} = [-1, 0]}} for the first in the second place and nothing in the first"
            )

    def _verify_attribute(self, parameter: Parameter) -> None:
        attribute = self.properties.get(parameter.name)
        what, example = _KINDS[parameter.kind]
        if attribute is None:
            if not parameter.has_default and not parameter.optional:
                raise VerifyException(f"{parameter.name} is missing: write {{{parameter.name} = {example}}}")
            return
        if not _matches(attribute, parameter.kind):
            raise VerifyException(f"{parameter.name} must be {what} such as {{{parameter.name} = {example}}}")
        if parameter.name == "dtype" and attribute != self.tensor_type.element_type:
            raise VerifyException(f"dtype is {attribute}, but the result is {self.tensor_type}")

    def _verify_elements(self) -> None:
        schema, results = self.schema(), [value.type for value in self.outputs]
        if not results or (len(results) > 1 and not schema.has_many_results):
            raise VerifyException(f"expected {'results' if schema.has_many_results else 'one result'}")
        for position, type in enumerate(results):
            wanted = schema.result_elements(position)
            same = not schema.shares_element(position) or type.element_type == results[0].element_type
            if type.element_type not in wanted or not same:
                raise self._computes_on(wanted, type.element_type)
        common = None if schema.rule is TypeRule.COMPARE else results[0]
        for name, type in self._operand_types():
            if type.element_type not in ANY:
                raise VerifyException(f"tensors hold {listed(ANY)}, not {type.element_type}")
            if name in OWN_ELEMENTS:
                if type.element_type not in OWN_ELEMENTS[name]:
                    raise VerifyException(f"{name} must hold {listed(OWN_ELEMENTS[name])}, not {type.element_type}")
                continue
            if schema.rule is TypeRule.FREE:
                continue
            if common is not None and type.element_type != common.element_type:
                what = "the other" if schema.rule is TypeRule.COMPARE else "the result"
                raise VerifyException(f"the operand is {type}, {what} {common}: cast with torch.aten._to_copy")
            if type.element_type not in schema.elements:
                raise self._computes_on(schema.elements, type.element_type)
            common = type

    def _verify_shapes(self) -> None:
        for type in [tensor_of(value) for value in (*self.tensors, *self.outputs)]:
            if not type.has_static_shape():
                raise VerifyException(f"the tensors of a captured program have static shapes, got {type}")
        try:
            shapes = result_shapes(self)
        except ValueError as error:
            raise VerifyException(str(error)) from None
        if list(shapes) != [shape_of(value) for value in self.outputs]:
            element = self.tensor_type.element_type
            given = ", ".join(str(TensorType(element, shape)) for shape in shapes)
            wanted = ", ".join(str(value.type) for value in self.outputs)
            raise VerifyException(f"the operands and attributes give a result of type {given}, not {wanted}")

    def _computes_on(self, elements: Sequence[Attribute], found: Attribute) -> VerifyException:
        verb = "gives" if self.schema().rule is not TypeRule.SAME else "computes on"
        return VerifyException(f"{self.name} {verb} {listed(elements)}, not {found}: cast with torch.aten._to_copy")

    def _operand_types(self) -> list[tuple[str, TensorType[Attribute]]]:
        """The parameter name and type of each operand."""
        names = [p.name for p in self._plain()]
        lists = [p.name for p in self.schema().tensors if p.is_list]
        names += lists * (len(self.tensors) - len(names))
        return [
            (name, cast(TensorType[Attribute], value.type)) for name, value in zip(names, self.tensors, strict=False)
        ]

    def print(self, printer: Printer) -> None:
        printer.print_string(" " if self.tensors else "")
        printer.print_list(self.tensors, printer.print_operand)
        names = [p.name for p in self.schema().parameters if p.name in self.properties]
        if names:
            printer.print_string(" ")
            with printer.in_braces():
                printer.print_list(names, lambda name: _print_entry(printer, name, self.properties[name]))
        printer.print_op_attributes(self.attributes, print_keyword=True)
        printer.print_string(" : ")
        printer.print_list([value.type for value in self.tensors], printer.print_attribute)
        printer.print_string(" -> " if self.tensors else "-> ")
        printer.print_list([value.type for value in self.outputs], printer.print_attribute)

    @classmethod
    def parse(cls, parser: Parser) -> Self:
        pos = parser.pos
        operands = parse_operands(parser)
        entries = parser.parse_optional_comma_separated_list(
            parser.Delimiter.BRACES, lambda: _parse_entry(parser, cls.schema())
        )
        attributes = parse_attributes(parser)
        parser.parse_punctuation(":")
        types = parse_types(parser)
        parser.parse_punctuation("->")
        results = parser.parse_comma_separated_list(parser.Delimiter.NONE, parser.parse_type)
        return cls.create(
            operands=parser.resolve_operands(operands, types, pos),
            properties=dict(entries or []),
            attributes=attributes,
            result_types=results,
        )


def _positions(tensors: Sequence[SSAValue | None]) -> Attribute:
    """The property of a list with gaps: for each entry its number among the tensors given, -1 for none."""
    present = itertools.count()
    return DenseArrayBase.from_list(i64, [-1 if tensor is None else next(present) for tensor in tensors])


_KINDS = {
    "int": ("an integer", "-1"),
    "int[]": ("a list of integers", "[0, 1]"),
    "float": ("a float", "1.0e-06"),
    "Scalar": ("a number", "1.0"),
    "bool": ("true or false", "true"),
    "ScalarType": ("an element type", "f32"),
    "str": ("a string", '"none"'),
}
"""What the value of a parameter is, by its kind, and an example."""


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
    return StringAttr(value) if kind == "str" and isinstance(value, str) else None


def python_value(attribute: Attribute) -> Any:
    """The Python value that a property stands for."""
    if isinstance(attribute, IntegerAttr):
        value = cast(IntegerAttr[IntegerType | IndexType], attribute)
        return bool(value.value.data) if value.type == i1 else value.value.data
    if isinstance(attribute, FloatAttr):
        return attribute.value.data
    if isinstance(attribute, DenseArrayBase):
        return tuple(attribute.get_values())
    if isinstance(attribute, StringAttr):
        return attribute.data
    return None if isinstance(attribute, UnitAttr) else attribute


def _matches(attribute: Attribute, kind: str) -> bool:
    return attribute_of(python_value(attribute), kind) == attribute


def _print_entry(printer: Printer, name: str, attribute: Attribute) -> None:
    printer.print_string(f"{name} = ")
    value = python_value(attribute)
    if isinstance(attribute, DenseArrayBase):
        with printer.in_square_brackets():
            printer.print_list(value, printer.print_int)
    elif isinstance(attribute, UnitAttr):
        printer.print_string("none")
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
    if parameter.is_tensor and not parameter.is_list and parser.parse_optional_keyword("none"):
        return name, UnitAttr()
    kind = "int[]" if parameter.is_list else "Scalar" if parameter.is_tensor else parameter.kind
    attribute = attribute_of(_parse_value(parser, kind), kind)
    if attribute is None:
        parser.raise_error(f"{name} must be {' such as '.join(_KINDS[kind])}", pos, parser.pos)
    return name, attribute


def _parse_value(parser: Parser, kind: str) -> object:
    if kind == "int[]":
        return parser.parse_comma_separated_list(parser.Delimiter.SQUARE, parser.parse_integer)
    if kind == "bool":
        return parser.parse_boolean()
    if kind == "str":
        return parser.parse_str_literal()
    if kind == "ScalarType":
        return parser.parse_type()
    number = parser.parse_optional_number()
    if number is None:
        parser.raise_error(f"expected {' such as '.join(_KINDS[kind])}")
    if isinstance(number, int) and parser.parse_optional_punctuation(":"):
        parser.parse_keyword("f64")
        return f64.unpack(number.to_bytes(8, "little"), 1)[0]
    return number


@cache
def aten_op(overload: str) -> type[AtenOp] | None:
    """The class of an overload (`add.Tensor`), or None where the table has no such overload."""
    return _op_class(SCHEMAS[overload]) if overload in SCHEMAS else None


def _op_class(schema: Schema) -> type[AtenOp]:
    space = "" if schema.name.startswith("prims.") else "aten."
    fields: dict[str, object] = {
        "__doc__": f"`{(space + schema.text).replace('.', '::', 1)}`",
        "__module__": __name__,
        "name": f"torch.{space}{schema.name}",
    }
    for parameter in schema.parameters:
        if not parameter.is_storage:
            fields[f"{parameter.name}_property"] = opt_prop_def(Attribute, prop_name=parameter.name)
    words = re.split(r"[._]", schema.name)
    name = "Aten" + "".join(word[:1].upper() + word[1:] for word in words) + "Op"
    return op_definition(cast(type[AtenOp], type(name, (AtenOp,), fields)))


def set_precision(module: ModuleOp, word: str) -> None:
    """Write a precision, one of `PRECISIONS`, on all operations of the torch dialect that have products of FP32."""
    for op in module.walk():
        if isinstance(op, AtenOp) and op.has_precision:
            set_precision_of(op, word)


def __getattr__(name: str) -> object:
    """The table of all classes and the dialect, made when they are asked for first: a program uses a few overloads."""
    if name == "ATEN_OPS":
        return {overload: aten_op(overload) for overload in SCHEMAS}
    if name == "Torch":
        return _dialect()
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


@cache
def _dialect() -> Dialect:
    return Dialect("torch", [cls for overload in SCHEMAS if (cls := aten_op(overload)) is not None])
