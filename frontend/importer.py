"""Translates the ATen graph of torch.export into IR of the torch dialect."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import fx
from xdsl.dialects.builtin import FileLineColLoc, IntAttr, ModuleOp, StringAttr, TensorType, f32, f64, i1, i32, i64
from xdsl.dialects.func import FuncOp, ReturnOp
from xdsl.ir import Attribute, Block, Region, SSAValue

from deplodock.dialects.torch import ATEN_OPS, AtenOp, Parameter, attribute_of
from deplodock.errors import Error, UnsupportedError
from deplodock.frontend.program import ASSERT_METADATA
from deplodock.frontend.source import Position, Source

_ELEMENTS: dict[torch.dtype, Attribute] = {
    torch.float32: f32,
    torch.float64: f64,
    torch.int32: i32,
    torch.int64: i64,
    torch.bool: i1,
}
_TORCH_FOLDER = str(Path(torch.__file__).parent)


def tensor_type(value: torch.Tensor, what: str) -> TensorType[Attribute]:
    """The IR type of a tensor.

    Raises:
        UnsupportedError: deplodock has no such element type or storage; the message starts with `what`.
    """
    if value.dtype not in _ELEMENTS:
        known = ", ".join(str(dtype) for dtype in _ELEMENTS)
        raise UnsupportedError(f"{what} is of {value.dtype}; supported are {known}")
    if value.layout != torch.strided:
        raise UnsupportedError(f"{what} is of layout {value.layout}; supported are dense tensors: use .to_dense()")
    return TensorType(_ELEMENTS[value.dtype], list(value.shape))


def import_graph(graph: fx.GraphModule, arguments: Sequence[tuple[fx.Node, str]], source: Source | None) -> ModuleOp:
    """A module with one function `@main` of the given arguments (placeholder and name) that computes the graph.

    Raises:
        UnsupportedError: an operation, overload, argument or dtype is outside the torch dialect; the message names it
            and points into `source` where the place is known.
    """
    types = [tensor_type(node.meta["val"], f"the input {name}") for node, name in arguments]
    block = Block(arg_types=types)
    importer = _Importer(block, source)
    for value, (node, name) in zip(block.args, arguments, strict=True):
        value.name_hint = _hint(name)
        importer.values[node] = value
    for node in graph.graph.nodes:
        if node.op == "call_function" and node.target is not ASSERT_METADATA:
            importer.values[node] = importer.call(node)
    results = importer.results(graph.graph.output_node())
    block.add_op(ReturnOp(*results))
    return ModuleOp([FuncOp("main", (types, [value.type for value in results]), Region(block))])


@dataclass
class _Importer:
    """Appends one operation for each node of the graph to a block."""

    block: Block
    source: Source | None

    def __post_init__(self) -> None:
        self.values: dict[fx.Node, SSAValue] = {}

    def call(self, node: fx.Node) -> SSAValue:
        """Append the operation of a call."""
        op_class = ATEN_OPS.get(_overload(node))
        if op_class is None:
            raise self.error(node, f"{node.target} is not supported")
        value = node.meta["val"]
        assert isinstance(value, torch.Tensor)
        try:
            result_type = tensor_type(value, f"the result of {node.target}")
        except UnsupportedError as error:
            raise self.error(node, str(error)) from None
        if result_type.element_type not in op_class.schema().elements:
            raise self.error(node, f"{node.target} on {value.dtype} is not supported")
        if value.device != _device(node):
            raise self.error(node, f"{node.target} moves a tensor to {value.device}; pass inputs on one device instead")
        arguments = self.arguments(node, op_class, result_type.element_type)
        return self.append(node, op_class.of(arguments, result_type), node.name)

    def arguments(self, node: fx.Node, op_class: type[AtenOp], element: Attribute) -> dict[str, SSAValue | Attribute]:
        """The arguments of the operation by name, without those that have their default."""
        schema = op_class.schema()
        positional = [p.name for p in schema.parameters if not p.keyword_only]
        given: dict[str, Any] = {**dict(zip(positional, node.args, strict=False)), **node.kwargs}
        arguments: dict[str, SSAValue | Attribute] = {}
        for parameter in schema.parameters:
            value = given.pop(parameter.name, parameter.default)
            if parameter.is_storage or value is None or (parameter.has_default and value == parameter.default):
                continue
            if isinstance(value, fx.Node) and parameter.is_tensor:
                operand = self.values[value]
                arguments[parameter.name] = operand if schema.casts else self.cast(node, operand, element)
            elif parameter.name != "dtype" or schema.casts:
                arguments[parameter.name] = self.attribute(node, schema.takes_number(parameter), parameter, value)
        if given:
            raise self.error(node, f"{node.target} with {', '.join(given)} is not supported")
        return arguments

    def attribute(self, node: fx.Node, takes_number: bool, parameter: Parameter, value: Any) -> Attribute:
        """The property for an argument that is no tensor."""
        kind = "Scalar" if takes_number else parameter.kind
        if isinstance(value, torch.dtype):
            value = _ELEMENTS.get(value, value)
        attribute = attribute_of(value, kind)
        if attribute is None:
            raise self.error(node, f"{node.target} with {parameter.name}={value} is not supported")
        return attribute

    def cast(self, node: fx.Node, operand: SSAValue, element: Attribute) -> SSAValue:
        """The operand in the element type of the result: ATen promotes before it computes."""
        source = operand.type
        assert isinstance(source, TensorType)
        if source.element_type == element:
            return operand
        if _overload(node) == "rms_norm":
            raise self.error(node, f"{node.target} on tensors of different dtypes is not supported; cast them first")
        cast = ATEN_OPS["_to_copy"].of({"self": operand, "dtype": element}, TensorType(element, source.get_shape()))
        return self.append(node, cast, "cast")

    def append(self, node: fx.Node, op: AtenOp, name: str) -> SSAValue:
        """Append an operation with a name and the source position of a node."""
        op.result.name_hint = _hint(name)
        place = _place(node, self.source)
        if place is not None:
            filename, position = place
            op.location = FileLineColLoc(StringAttr(filename), IntAttr(position.line), IntAttr(position.column))
        self.block.add_op(op)
        return op.result

    def results(self, node: fx.Node) -> list[SSAValue]:
        """The values that the program returns."""
        results: list[SSAValue] = []
        for value in node.args[0]:  # pyright: ignore
            if not isinstance(value, fx.Node):
                raise UnsupportedError(f"the program returns {value}; only tensors can be returned")
            results.append(self.values[value])
        return results

    def error(self, node: fx.Node, message: str) -> Error:
        """An UnsupportedError at the source position of a node."""
        return node_error(node, message, self.source)


def node_error(node: fx.Node, message: str, source: Source | None) -> Error:
    """An UnsupportedError at the source position of a node."""
    place = _place(node, source)
    if source is not None and (place is None or place[0] == source.filename):
        return source.error(UnsupportedError, message, None if place is None else place[1])
    if place is None:
        return UnsupportedError(message)
    filename, position = place
    return UnsupportedError(f"{filename}:{position.line}: error: {message}")


def _place(node: fx.Node, source: Source | None) -> tuple[str, Position] | None:
    """The file and position of the innermost line outside PyTorch that led to a node."""
    frames = re.findall(r'File "(.+?)", line (\d+)', node.meta.get("stack_trace") or "")
    for filename, line in reversed(frames):
        if source is not None and filename == source.filename:
            return filename, source.position(int(line))
        if not filename.startswith(_TORCH_FOLDER):
            return filename, Position(int(line), 1, 2)
    return None


def _overload(node: fx.Node) -> str:
    """The name of a node's operation in the table of the torch dialect."""
    name = str(node.target)
    return name.removeprefix("aten.").removesuffix(".default") if name.startswith("aten.") else f"{name} (not ATen)"


def _device(node: fx.Node) -> torch.device:
    """The device of a node's first tensor argument."""
    return next(n.meta["val"].device for n in node.all_input_nodes)


def _hint(name: str) -> str:
    """A name for the printed IR; xDSL numbers equal names itself and reads `_1` at the end as such a number."""
    return re.sub(r"(_\d+)+$", "", name) or name
