"""Translates the ATen graph of torch.export into IR of the torch dialect."""

from __future__ import annotations

import operator
import os
import re
import sysconfig
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeAlias

import torch
from torch import fx
from torch.utils._python_dispatch import is_traceable_wrapper_subclass
from xdsl.dialects.builtin import (
    UNKNOWN_LOC,
    FileLineColLoc,
    IntAttr,
    ModuleOp,
    NameLoc,
    StringAttr,
    TensorType,
    i64,
)
from xdsl.dialects.func import FuncOp, ReturnOp
from xdsl.ir import Attribute, Block, Region, SSAValue
from xdsl.utils.exceptions import VerifyException

from deplodock.analysis.host.arguments import name_checks
from deplodock.dialects.elements import FLOATS, ROWS, WIDE
from deplodock.dialects.torch import AtenOp, aten_op, attribute_of, set_precision
from deplodock.dialects.torch.aten import ALIASES, MIXED, WIDE_NUMBERS
from deplodock.dialects.torch.schema import OWN_ELEMENTS, Parameter, Schema, TypeRule
from deplodock.errors import Error, UnsupportedError
from deplodock.frontend.precision import matmul_precision
from deplodock.frontend.source import Position, Source

_ELEMENTS: dict[torch.dtype, Attribute] = {getattr(torch, row.dtype): row.type for row in ROWS}
Argument: TypeAlias = SSAValue | Attribute | Sequence[SSAValue | None]
_ATEN = torch.ops.aten
_TORCH_FOLDERS = tuple(f"{Path(torch.__file__).parent.with_name(name)}{os.sep}" for name in ("torch", "functorch"))
_OWN_FOLDERS = tuple(f"{init.parent}{os.sep}" for init in Path(__file__).parents[1].glob("*/__init__.py"))
_LIBRARY = f"{sysconfig.get_path('stdlib')}{os.sep}"


def check_layout(value: torch.Tensor, what: str) -> None:
    """Raise UnsupportedError, whose message starts with `what`, for a tensor that is not dense."""
    if value.is_nested or value.layout != torch.strided:
        layout = "nested" if value.is_nested else f"of layout {value.layout}"
        raise UnsupportedError(f"{what} is {layout}; supported are dense tensors")


def check_dense(value: torch.Tensor, what: str) -> None:
    """Raise UnsupportedError, whose message starts with `what`, for a tensor that is not dense or holds others."""
    if is_traceable_wrapper_subclass(value):
        name = type(value).__name__
        raise UnsupportedError(
            f'{what} is a {name}, which torch.compile(.., backend="deplodock") takes apart: use that'
        )
    check_layout(value, what)


def is_scalar(value: torch.Tensor) -> bool:
    """Whether a tensor is a number to PyTorch, which takes it beside tensors of any device."""
    return not value.dim() and value.device.type == "cpu"


def tensor_type(value: Any, what: str) -> TensorType[Attribute]:
    """The IR type of a tensor.

    Raises:
        UnsupportedError: deplodock has no such element type or storage, or it is no tensor but a number read from one;
            the message starts with `what`.
    """
    if not isinstance(value, torch.Tensor):
        raise UnsupportedError(f"{what} is a number that is known only when the program runs")
    if value.dtype not in _ELEMENTS:
        known = ", ".join(str(dtype) for dtype in _ELEMENTS)
        raise UnsupportedError(f"{what} is of {value.dtype}; supported are {known}")
    check_layout(value, what)
    if not all(isinstance(extent, int) for extent in value.shape):
        raise UnsupportedError(f"{what} has a shape that depends on the values of a tensor")
    return TensorType(_ELEMENTS[value.dtype], list(value.shape))


def is_whole(value: torch.Tensor) -> bool:
    """Whether a tensor is all of its memory in row-major order, so that `as_strided` reads the tensor."""
    bytes = value.untyped_storage().nbytes()
    return value.is_contiguous() and not value.storage_offset() and bytes == value.numel() * value.element_size()


def memory_of(node: fx.Node) -> fx.Node | None:
    """The node whose value is, in row-major order, all of the memory that a node's value views, if there is one."""
    value = node.meta["val"]
    storage, source = value.untyped_storage()._cdata, node
    while source is not None and not (is_whole(source.meta["val"]) and source.meta["val"].dtype == value.dtype):
        source = _viewed(source, storage)
    return source


def _viewed(node: fx.Node, storage: int) -> fx.Node | None:
    """The operand whose memory a node's value views, also where this is one of several views."""
    for operand in node.all_input_nodes:
        value = operand.meta["val"]
        if isinstance(value, list | tuple):
            return _viewed(operand, storage)
        if isinstance(value, torch.Tensor) and value.untyped_storage()._cdata == storage:
            return operand
    return None


def overload_of(node: fx.Node) -> str:
    """The ATen overload that a node stands for: of a decomposed operation, the one that the program calls."""
    name, sources = str(node.target), node.meta.get("from_node")
    while sources:
        target, sources = str(sources[-1].target), sources[-1].from_node
        name = target if target.startswith("aten.") else name
    return name


def has_operation(overload: object) -> bool:
    """Whether the torch dialect has an operation for an overload of ATen."""
    return aten_op(_overload_name(str(overload))) is not None


def import_graph(
    graph: fx.GraphModule,
    arguments: Sequence[tuple[fx.Node, str]],
    source: Source | None,
    checks: Sequence[str] = (),
) -> ModuleOp:
    """A module with one function `@main` of the given arguments (placeholder and name) that computes the graph.

    Its last results are asserted, with the messages `checks`. Its products of FP32 have the precision that PyTorch is
    set to now.

    Raises:
        UnsupportedError: an operation, overload, argument or dtype is outside the torch dialect; the message has a part
            for each, which names it and points into `source` where the place is known.
    """
    types = [tensor_type(node.meta["val"], f"the input {name}") for node, name in arguments]
    block = Block(arg_types=types)
    importer = _Importer(block, source)
    for value, (node, name) in zip(block.args, arguments, strict=True):
        value.name_hint = _hint(name)
        importer.values[node] = value
    importer.calls(graph.graph)
    results = importer.results(graph.graph.output_node())
    block.add_op(ReturnOp(*results))
    function = FuncOp("main", (types, [value.type for value in results]), Region(block))
    name_checks(function, checks)
    module = ModuleOp([function])
    if block.first_op is not None:
        function.location = module.location = block.first_op.location
    set_precision(module, matmul_precision())
    return module


@dataclass
class _Importer:
    """Appends one operation for each node of the graph to a block."""

    block: Block
    source: Source | None

    def __post_init__(self) -> None:
        self.values: dict[fx.Node, SSAValue] = {}
        self.lists: dict[fx.Node, Sequence[SSAValue]] = {}

    def calls(self, graph: fx.Graph) -> None:
        """Append the operations of all calls. Raises UnsupportedError with what stands against any of them."""
        errors: dict[str, UnsupportedError] = {}
        failed: set[fx.Node] = set()
        for node in graph.nodes:
            if node.op != "call_function":
                continue
            follows = not failed.isdisjoint(node.all_input_nodes)
            if follows and (node.target is operator.getitem or has_operation(node.target) or not _results(node)):
                failed.add(node)
                continue
            try:
                self.call(node)
            except UnsupportedError as error:
                errors.setdefault(str(error), error)
                failed.add(node)
        if len(errors) > 1:
            raise UnsupportedError("\n".join(errors))
        for error in errors.values():
            raise error

    def call(self, node: fx.Node) -> None:
        """Append the operation of a call."""
        if node.target is operator.getitem:
            source, position = node.args
            assert isinstance(source, fx.Node)
            assert isinstance(position, int)
            self.values[node] = self.lists[source][position]
            return
        op_class = aten_op(_overload(node))
        if op_class is None:
            raise self.error(node, _unsupported(node))
        schema = op_class.schema()
        results = self.result_types(node, schema)
        element = self.computed_element(node, schema, results)
        types = [
            TensorType(element, result.get_shape()) if schema.shares_element(position) else result
            for position, result in enumerate(results)
        ]
        op = op_class.of(self.arguments(node, schema, element), types)
        try:
            op.verify()
        except VerifyException as error:
            raise self.error(node, f"{node.target} is not supported here: {error}") from None
        made = zip(self.append(node, op, node.name), results, strict=True)
        values = [self.cast(node, value, result.element_type) for value, result in made]
        if schema.has_many_results:
            self.lists[node] = values
        else:
            (self.values[node],) = values

    def computed_element(self, node: fx.Node, schema: Schema, results: Sequence[TensorType[Attribute]]) -> Attribute:
        """The element type that a call computes, which may be wider than that of its first result."""
        element = results[0].element_type
        if element not in WIDE or element not in FLOATS:
            return element
        if schema.name in MIXED:
            operands = [tensor_type(source.meta["val"], "an operand") for source in node.all_input_nodes]
            is_wide = any(type.element_type != element for type in (*operands, *results))
        elif schema.name in WIDE_NUMBERS:
            other = node.args[1] if len(node.args) > 1 else None
            value = other.meta["val"] if isinstance(other, fx.Node) else torch.empty(0)
            is_wide = not value.shape and value.is_floating_point() and _ELEMENTS.get(value.dtype) != element
        else:
            is_wide = False
        return WIDE[element] if is_wide else element

    def result_types(self, node: fx.Node, schema: Schema) -> list[TensorType[Attribute]]:
        """The types of the results of a call."""
        found = node.meta["val"]
        values = list(found) if isinstance(found, list | tuple) else [found]
        if not values:
            raise self.error(node, f"{node.target} that gives no tensor is not supported")
        for position, value in enumerate(values):
            self.check_device(node, value)
            try:
                element = tensor_type(value, f"the result of {node.target}").element_type
            except UnsupportedError as error:
                raise self.error(node, str(error)) from None
            if element not in schema.result_elements(position):
                raise self.error(node, f"{node.target} on {value.dtype} is not supported")
        return [tensor_type(value, "a result") for value in values]

    def check_device(self, node: fx.Node, value: torch.Tensor) -> None:
        """Refuse a result on another device than the operands, but for tensors that are numbers to PyTorch."""
        operands = [n.meta["val"] for n in node.all_input_nodes if isinstance(n.meta["val"], torch.Tensor)]
        if any(operand.device != value.device and not is_scalar(operand) for operand in operands):
            raise self.error(node, f"{node.target} moves a tensor to {value.device}; pass inputs on one device instead")

    def arguments(self, node: fx.Node, schema: Schema, element: Attribute) -> dict[str, Argument]:
        """The arguments of the operation by name, without those that have their default."""
        positional = [p.name for p in schema.parameters if not p.keyword_only]
        given: dict[str, Any] = {**dict(zip(positional, node.args, strict=False)), **node.kwargs}
        given = self.in_memory(node, given) if schema.name == "as_strided" else given
        element = self.common_element(node, given) if schema.rule is TypeRule.COMPARE else element
        arguments: dict[str, Argument] = {}
        for parameter in schema.parameters:
            value = given.pop(parameter.name, parameter.default)
            if parameter.is_storage or value is None or (parameter.has_default and value == parameter.default):
                continue
            own = schema.rule is TypeRule.FREE or parameter.name in OWN_ELEMENTS
            wanted = None if own else element
            if parameter.is_list:
                tensors = [self.values.get(item) for item in value]
                arguments[parameter.name] = [
                    None if tensor is None else self.cast(node, tensor, wanted) for tensor in tensors
                ]
            elif isinstance(value, fx.Node) and parameter.is_tensor:
                # PyTorch lets the positions of gather have any type where there are none.
                is_idle = schema.name == "gather" and own and not value.meta["val"].numel()
                arguments[parameter.name] = self.cast(node, self.values[value], i64 if is_idle else wanted)
            elif schema.takes_number(parameter) and not node.all_input_nodes and not arguments:
                # A call on numbers alone: one of them becomes a tensor without dimensions.
                arguments[parameter.name] = self.number(node, value, element)
            elif parameter.name != "dtype" or schema.name in ("_to_copy", "view.dtype"):
                arguments[parameter.name] = self.attribute(node, schema.takes_number(parameter), parameter, value)
        if given:
            raise self.error(node, f"{node.target} with {', '.join(given)} is not supported")
        return arguments

    def in_memory(self, node: fx.Node, given: dict[str, Any]) -> dict[str, Any]:
        """The arguments of as_strided, of the memory of its operand: of the tensor of which this is a view."""
        source = memory_of(given["self"])
        if source not in self.values:
            raise self.error(
                node, f"{node.target} is not supported here: its operand is no view of a contiguous tensor"
            )
        offset = given.get("storage_offset")
        offset = given["self"].meta["val"].storage_offset() if offset is None else offset
        return {**given, "self": source, "storage_offset": offset}

    def number(self, node: fx.Node, value: Any, element: Attribute) -> SSAValue:
        """A number as a tensor without dimensions."""
        scalar_tensor, number = aten_op("scalar_tensor"), attribute_of(value, "Scalar")
        assert scalar_tensor is not None
        assert number is not None
        return self.append(node, scalar_tensor.of({"s": number}, [TensorType(element, [])]), "number")[0]

    def common_element(self, node: fx.Node, given: Mapping[str, Any]) -> Attribute:
        """The element type to which PyTorch promotes what it compares."""
        values = [value.meta["val"] if isinstance(value, fx.Node) else value for value in given.values()]
        dtype = values[0].dtype if len(values) == 1 else torch.result_type(*values)
        if dtype not in _ELEMENTS:
            raise self.error(node, f"{node.target} on {dtype} is not supported")
        return _ELEMENTS[dtype]

    def attribute(self, node: fx.Node, takes_number: bool, parameter: Parameter, value: Any) -> Attribute:
        """The property for an argument that is no tensor."""
        kind = "Scalar" if takes_number else parameter.kind
        if isinstance(value, torch.dtype):
            value = _ELEMENTS.get(value, value)
        attribute = attribute_of(value, kind)
        if attribute is None:
            raise self.error(node, f"{node.target} with {parameter.name}={value} is not supported")
        return attribute

    def cast(self, node: fx.Node, operand: SSAValue, element: Attribute | None) -> SSAValue:
        """The operand in the element type that is computed on, if given: ATen promotes before it computes."""
        source = operand.type
        assert isinstance(source, TensorType)
        if element is None or source.element_type == element:
            return operand
        if _overload(node) == "rms_norm":
            raise self.error(node, f"{node.target} on tensors of different dtypes is not supported; cast them first")
        to_copy = aten_op("_to_copy")
        assert to_copy is not None
        cast = to_copy.of({"self": operand, "dtype": element}, [TensorType(element, source.get_shape())])
        return self.append(node, cast, "cast")[0]

    def append(self, node: fx.Node, op: AtenOp, name: str) -> Sequence[SSAValue]:
        """Append an operation with a name, and what a node calls and where as its location; returns its results."""
        for result in op.outputs:
            result.name_hint = _hint(name)
        location, place = UNKNOWN_LOC, _place(node, self.source)
        if place is not None:
            filename, position = place
            location = FileLineColLoc(StringAttr(filename), IntAttr(position.line), IntAttr(position.column))
        op.location = NameLoc(StringAttr(overload_of(node)), location)
        self.block.add_op(op)
        return op.outputs

    def results(self, node: fx.Node) -> list[SSAValue]:
        """The values that the program returns, without None."""
        results: list[SSAValue] = []
        (given,) = node.args
        for value in given if isinstance(given, tuple | list) else [given]:
            if value is None:
                continue
            if not isinstance(value, fx.Node):
                raise UnsupportedError(f"the program returns {value}; only tensors can be returned")
            results.append(self.values[value])
        return results

    def error(self, node: fx.Node, message: str) -> Error:
        """An UnsupportedError at the source position of a node."""
        return node_error(node, message, self.source)


_IN_EVALUATION = "; call .eval() on a module in training mode"
"""What makes layers that draw random numbers in training plain formulas."""


def _unsupported(node: fx.Node) -> str:
    """Why a call has no operation: the program calls what it names, of which PyTorch may have made something else."""
    name, own = overload_of(node), str(node.target)
    if torch.Tag.nondeterministic_seeded in getattr(node.target, "tags", ()):
        is_layer = any(layer in name for layer in ("dropout", "rrelu"))
        return f"{name} is not supported: it draws random numbers" + (
            _IN_EVALUATION if is_layer else "; pass them as an argument"
        )
    if not all(isinstance(extent, int) for value in _results(node) for extent in value.shape):
        return f"{name} is not supported: its result has a shape that depends on the values of a tensor"
    if node.target in (_ATEN.item.default, _ATEN._local_scalar_dense.default):
        return (
            f"{name} is not supported: it reads a number from a tensor, which is known only when the program runs; "
            "use the tensor itself"
        )
    if name.startswith("aten.upsample_") and not any(value.is_floating_point() for value in _results(node)):
        return f"{name} is not supported on integers, which PyTorch weighs with integers; cast them to a float first"
    return f"{name} is not supported" + ("" if own == name else f": it needs {own}")


def _results(node: fx.Node) -> list[torch.Tensor]:
    """The tensors that a call gives."""
    found = node.meta.get("val")
    return [
        value for value in (found if isinstance(found, list | tuple) else [found]) if isinstance(value, torch.Tensor)
    ]


def is_users(filename: str) -> bool:
    """Whether a file is none of PyTorch's, of Python's library or of deplodock, so that messages may point into it."""
    is_library = filename.startswith(_LIBRARY) and "site-packages" not in filename
    return not is_library and not filename.startswith((*_TORCH_FOLDERS, *_OWN_FOLDERS, "<eval_with_key>", "<frozen "))


def node_error(node: fx.Node, message: str, source: Source | None) -> Error:
    """An UnsupportedError at the source position of a node."""
    place = _place(node, source)
    if source is not None and (place is None or place[0] == source.filename):
        return source.error(UnsupportedError, message, None if place is None else place[1])
    if place is None:
        return UnsupportedError(message)
    filename, position = place
    return UnsupportedError(f"{filename}:{position.line}: error: {message}")


def place_of(node: fx.Node) -> tuple[str, int] | None:
    """The file and the number of the innermost line outside PyTorch that led to a node, if that is known."""
    place = _place(node, None)
    return None if place is None else (place[0], place[1].line)


def _place(node: fx.Node, source: Source | None) -> tuple[str, Position] | None:
    """The file and position of the innermost line outside PyTorch that led to a node."""
    frames = re.findall(r'File "(.+?)", line (\d+)', node.meta.get("stack_trace") or "")
    for filename, line in reversed(frames):
        if source is not None and filename == source.filename:
            return filename, source.position(int(line))
        if is_users(filename):
            return filename, Position(int(line), 1, 2)
    return None


def _overload(node: fx.Node) -> str:
    """The name of a node's operation in the table of the torch dialect."""
    return _overload_name(str(node.target))


def _overload_name(name: str) -> str:
    if not name.startswith(("aten.", "prims.")):
        return f"{name} (not ATen)"
    name = name.removeprefix("aten.").removesuffix(".default")
    return ALIASES.get(name, name)


def _hint(name: str) -> str:
    """A name for the printed IR; xDSL numbers equal names itself and reads `_1` at the end as such a number."""
    return re.sub(r"(_\d+)+$", "", name) or name
