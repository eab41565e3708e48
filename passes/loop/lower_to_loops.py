"""lower-to-loops: turn tensor kernels into loops over buffers, and their functions into host functions.

    func.func @main(%x: tensor<32x8xf32>) -> ..      func.func @main(%x: memref<32x8xf32>) -> .. {
      %s = tensor_ext.kernel @k_s(..) -> .. {          %s = memref.alloc() : memref<32xf32>
        %s_1 = tensor_ext.reduce .. dims [1]           func.call @k_s(%x, %s) : ..
        tensor_ext.yield %s_1                          func.return %s : memref<32xf32>
      }                                          ->  }
      func.return %s : tensor<32xf32>                func.func @k_s(%x: memref<32x8xf32>, %out: memref<32xf32>) {
    }                                                  loop.for %a0 = 0 to 32 {
                                                         %s = loop.reduce {arith.addf} %a1 = 0 to 8 : f32 {..}
                                                         loop.store %s, %out[%a0] : memref<32xf32>
                                                       } ..

Index maps become subscripts, and dimensions of extent 1 the subscript 0; an iota is the coordinate itself, a gather a
read whose subscript was read before, a pad one that gives 0 outside its buffer, a concat a store of each part to its
place in one buffer. A recurrence becomes calls that are repeated (`passes/loop/recurrences.py`). Every element is
computed once, in the outermost loops that have its axes. The loops walk the largest output, the axes that reductions
leave free first, else in the order of its dimensions. Outputs that have no place in those loops get loops of their own
after them. The attributes of a kernel move to its function. Kernels that compute the same, apart from names and the
order of their operands, are one function, called for each.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from typing import cast

from xdsl.context import Context
from xdsl.dialects import func, memref
from xdsl.dialects.builtin import FunctionType, MemRefType, ModuleOp, StringAttr, TensorType
from xdsl.ir import Attribute, Block, Operation, SSAValue
from xdsl.passes import ModulePass
from xdsl.rewriter import InsertPoint, Rewriter

from deplodock.analysis.host.arguments import cell_of
from deplodock.analysis.shape.fusion import Demand, TensorOp, dependence
from deplodock.analysis.shape.kernel_identity import structure
from deplodock.dialects import loop
from deplodock.dialects.elements import ELEMENTS, listed
from deplodock.dialects.tensor import InMemory, KernelOp, RecurrenceOp
from deplodock.loading import loaded
from deplodock.passes.copying import Symbols
from deplodock.passes.loop.nest_builder import BlockConstants, Destination, NestBuilder
from deplodock.passes.remarks import failure


@dataclass(frozen=True)
class LowerToLoopsPass(ModulePass):
    """Turn tensor kernels into loops over buffers, and tensors into buffers."""

    name = "lower-to-loops"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        names, shared = Symbols(op), _Shared()
        functions = [each for each in op.ops if isinstance(each, func.FuncOp) and _has_tensors(each)]
        lowered, cells = set[func.FuncOp](), set[func.FuncOp]()

        def lower(function: func.FuncOp) -> None:
            """Lower a function after the cells of its recurrences."""
            if function in lowered:
                return
            lowered.add(function)
            recurrences = [each for each in function.body.walk() if isinstance(each, RecurrenceOp)]
            for recurrence in recurrences:
                cells.add(cell_of(recurrence))
                lower(cell_of(recurrence))
                loaded("deplodock.passes.loop.recurrences:align_rows")(recurrence, names)
            _lower_function(function, names, shared)
            for recurrence in recurrences:
                loaded("deplodock.passes.loop.recurrences:lower_recurrence")(recurrence, cell_of(recurrence))

        for function in functions:
            lower(function)
        for cell in cells:
            Rewriter.erase_op(cell)


def _has_tensors(function: func.FuncOp) -> bool:
    types = (*function.function_type.inputs, *function.function_type.outputs)
    inside = (op for block in function.body.blocks for op in block.ops)
    return any(isinstance(type, TensorType) for type in types) or any(map(_is_tensor_op, inside))


def _is_tensor_op(op: Operation) -> bool:
    return any(isinstance(value.type, TensorType) for value in (*op.operands, *op.results))


class _Shared:
    """The functions made so far, each once for all kernels that compute the same; equal kernels are lowered once."""

    def __init__(self) -> None:
        self._lowered: dict[Hashable, tuple[func.FuncOp, Sequence[int], Sequence[int]]] = {}
        self._made: dict[Hashable, tuple[func.FuncOp, Sequence[int]]] = {}

    def function_of(self, kernel: KernelOp) -> tuple[func.FuncOp, list[int]]:
        """The function that computes a kernel, and for each of its parameters the input or output to pass."""
        found = structure(kernel)
        if found.key not in self._lowered:
            self._lowered[found.key] = (*self._first(_lower_kernel(kernel)), found.parameters)
        function, passed, inputs = self._lowered[found.key]
        renamed = dict(zip(inputs, found.parameters, strict=True))
        return function, [renamed.get(i, i) for i in passed]

    def _first(self, function: func.FuncOp) -> tuple[func.FuncOp, list[int]]:
        """The first function that computes the same, and for each of its parameters the one of `function` to pass."""
        found = structure(function)
        first, order = self._made.setdefault(found.key, (function, found.parameters))
        passed = dict(zip(order, found.parameters, strict=True))
        return first, [passed[i] for i in range(len(passed))]


def _lower_function(function: func.FuncOp, names: Symbols, shared: _Shared) -> None:
    """Make a function on tensors a host function on buffers, followed by the functions of its kernels."""
    if len(function.body.blocks) != 1:
        raise failure(function, f"@{function.sym_name.data} has tensors and needs a body of one block")
    block = function.body.block
    for op in block.ops:
        if _is_tensor_op(op) and not isinstance(op, InMemory | func.ReturnOp):
            raise failure(op, "lower-to-loops takes tensors in kernels only; run form-kernels first")
    after: Operation = function
    for kernel in [op for op in block.ops if isinstance(op, KernelOp)]:
        lowered, order = shared.function_of(kernel)
        if lowered.parent is None:
            lowered.properties["sym_name"] = StringAttr(names.renamed(kernel.sym_name.data))
            Rewriter.insert_op(lowered, InsertPoint.after(after))
            after = lowered
        _call(kernel, lowered, order)
    for argument in block.args:
        Rewriter.replace_value_with_new_type(argument, _buffer_type(argument.type, function))
    inputs = [_buffer_type(type, function) for type in function.function_type.inputs]
    outputs = [_buffer_type(type, function) for type in function.function_type.outputs]
    function.function_type = FunctionType.from_lists(inputs, outputs)


def _buffer_type(type: Attribute, op: Operation) -> Attribute:
    """The memref that holds a tensor; other types stay. Raises PassFailedException for what is not supported."""
    if not isinstance(type, TensorType):
        return type
    tensor = cast(TensorType[Attribute], type)
    if not tensor.has_static_shape():
        raise failure(op, f"dynamic shapes are not supported, got {tensor}; give every dimension an extent")
    if tensor.element_type not in ELEMENTS:
        raise failure(op, f"elements of type {tensor.element_type} are not supported; use {listed(ELEMENTS)}")
    return MemRefType(tensor.element_type, tensor.get_shape())


def _call(kernel: KernelOp, function: func.FuncOp, order: Sequence[int]) -> None:
    """Replace a kernel by the buffers of its outputs and a call that fills them, its operands in the given order."""
    buffers = [memref.AllocOp([], [], _buffer_type(result.type, kernel)) for result in kernel.outputs]
    for result, alloc in zip(kernel.outputs, buffers, strict=True):
        alloc.memref.name_hint = result.name_hint
    operands = [*kernel.inputs, *(alloc.memref for alloc in buffers)]
    call = func.CallOp(function.sym_name.data, [operands[i] for i in order], [])
    for made in (*buffers, call):
        made.location = kernel.location
    Rewriter.replace_op(kernel, [*buffers, call], [alloc.memref for alloc in buffers])


def _lower_kernel(kernel: KernelOp) -> func.FuncOp:
    """The function of a kernel: its inputs, then its outputs, as buffers."""
    body = kernel.body.block
    for op in body.ops:
        if not isinstance(op, TensorOp) and op is not body.last_op:
            raise failure(op, "a kernel holds tensor_ext operations and tensor constants only")
    yielded = _yielded(body)
    types = [_buffer_type(value.type, kernel) for value in (*body.args, *yielded)]
    function = func.FuncOp(kernel.sym_name.data, (types, []))
    function.location = kernel.location
    function.attributes |= kernel.attributes
    arguments = function.body.block.args
    _name_arguments(body, yielded, arguments)
    buffers: dict[SSAValue, SSAValue] = dict(zip(body.args, arguments, strict=False))
    constants = BlockConstants()
    demand = Demand(dependence(body))
    outputs = zip(yielded, arguments[len(body.args) :], strict=True)
    left = [part for value, buffer in outputs for part in Destination.at_origin(value, buffer).parts()]
    blocks: list[Block] = []
    while left:
        nest = NestBuilder(demand, buffers, left)
        blocks.append(nest.build(list(body.ops), constants))
        placed = [output.target for output in nest.outputs]
        left = [target for target in left if target not in placed]
    _fill(function.body.block, constants, blocks)
    return function


def _yielded(body: Block) -> Sequence[SSAValue]:
    assert body.last_op is not None
    return body.last_op.operands


def _name_arguments(body: Block, yielded: Sequence[SSAValue], arguments: Sequence[SSAValue]) -> None:
    outputs = ["out"] if len(yielded) == 1 else [f"out{i}" for i in range(len(yielded))]
    for argument, name in zip(arguments, [*(value.name_hint for value in body.args), *outputs], strict=True):
        argument.name_hint = name


def _fill(block: Block, constants: BlockConstants, nests: Sequence[Block]) -> None:
    """Put the constants, then the nests, into the entry block, and number the loops in reading order."""
    block.add_ops(constants.ops.values())
    for nest in nests:
        for op in list(nest.ops):
            op.detach()
            block.add_op(op)
    block.add_op(func.ReturnOp())
    loops = [op for op in block.walk() if isinstance(op, loop.LoopLike)]
    for number, op in enumerate(loops):
        op.iv.name_hint = f"a{number}"
