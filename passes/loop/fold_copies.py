"""fold-copies: have a kernel store its result where a loop that only copies it would put it.

    %a = memref.alloc() : memref<28x32x128xf32>
    func.call @k(%x, %a)                                   %b = memref.alloc() : memref<32x3584xf32>
    %b = memref.alloc() : memref<32x3584xf32>       ->     func.call @k(%x, %b)
    func.call @k_copy(%a, %b)

    func.func @k(%x, %out) {                               func.func @k(%x, %out) {
      .. loop.store %v, %out[%h, %s, %d]                     .. loop.store %v, %out[%s, %h * 128 + %d]

The copy must put each element into a place of its own, as a transposition, a reshape or a part of a concat does, at a
sum of multiples of its coordinates; elements that lie side by side must do so for at least a sector of memory, so that
the stores stay as wide. Nothing else may read what the kernel stored. Each nest of loops of a function is looked at by
itself, for all calls of the function. A kernel that other calls need as it is gets a function of its own.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod

from xdsl.context import Context
from xdsl.dialects import func, memref
from xdsl.dialects.builtin import ModuleOp, StringAttr, SymbolRefAttr
from xdsl.ir import BlockArgument, Operation, SSAValue, Use
from xdsl.passes import ModulePass
from xdsl.rewriter import InsertPoint, Rewriter

from deplodock.analysis.access.alignment import element_bytes
from deplodock.analysis.affine.division import Division
from deplodock.analysis.affine.linear import Linear, extent_of, subscripts_of, to_map
from deplodock.analysis.machine.targets import SECTOR_BYTES
from deplodock.analysis.shape.fusion import ZERO, Index, axes_in, axis_of, new_loop, substitute, walked_axes
from deplodock.analysis.shape.nest import kernels
from deplodock.dialects import loop
from deplodock.passes.copying import Symbols


@dataclass(frozen=True)
class FoldCopiesPass(ModulePass):
    """Have kernels store their results where loops that only copy them would put them."""

    name = "fold-copies"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        program = _Program(op)
        for function in kernels(op):
            for nest in list(function.body.block.ops):
                if isinstance(nest, loop.ForOp) and (copy := _copy_of(function, nest)) is not None:
                    program.fold(copy)


@dataclass(frozen=True)
class _Copy:
    """A nest of loops that copies all of a buffer, which nothing else in its function reads.

    It has the element at `coordinates` of the source and puts it at `places` of the destination.
    """

    function: func.FuncOp
    nest: loop.ForOp
    source: BlockArgument
    destination: BlockArgument
    coordinates: Index
    places: Index

    def place(self, index: Sequence[Linear]) -> Index:
        """Where the element at an index of the source goes."""
        axes = map(axis_of, self.coordinates)
        values = {axis: form for axis, form in zip(axes, index, strict=True) if axis is not None}
        return tuple(substitute(form, values) for form in self.places)


def _copy_of(function: func.FuncOp, nest: loop.ForOp) -> _Copy | None:
    """What a nest of a function does that only copies a buffer, where kernels may store in its place; else None."""
    inner = [op for op in nest.walk() if not isinstance(op, loop.IndexOp)]
    loops = [op for op in inner if isinstance(op, loop.ForOp)]
    match [op for op in inner if not isinstance(op, loop.ForOp)]:
        case [loop.LoadOp() as load, loop.StoreOp() as store] if store.value is load.result:
            source, destination = load.source, store.destination
        case _:
            return None
    if not isinstance(source, BlockArgument) or not isinstance(destination, BlockArgument):
        return None
    is_whole = prod(op.trips or 0 for op in loops) == prod(_shape(source))
    if (
        not source.has_one_use()
        or not is_whole
        or walked_axes(tuple(subscripts_of(store)), _shape(destination)) is None
    ):
        return None
    read, axes = tuple(subscripts_of(load)), [op.iv for op in loops]
    coordinates = tuple(ZERO if extent == 1 else Linear.of(new_loop(extent).iv) for extent in _shape(source))
    values: dict[SSAValue, Linear] = {}
    for axis in axes:
        if (form := _solved(Linear.of(axis), read, coordinates)) is None:
            return None
        values[axis] = form
    places = tuple(substitute(form, values) for form in subscripts_of(store))
    is_inverse = tuple(substitute(form, values) for form in read) == coordinates
    if not is_inverse or not _stays_wide(coordinates, places, destination):
        return None
    return _Copy(function, nest, source, destination, coordinates, places)


def _solved(form: Linear, read: Index, coordinates: Index) -> Linear | None:
    """A form over the axes of a copy in coordinates of its source, which it reads at `read`; None if they do not say.

    They have the form itself, or its remainder by a number and, in the same way, its quotient.
    """
    if form in read:
        return coordinates[read.index(form)]
    for part, low in zip(read, coordinates, strict=True):
        match part.terms:
            case ((Division(form=whole, divisor=divisor, remainder=True), 1),) if whole == form and not part.constant:
                high = _solved(form // divisor, read, coordinates)
                return None if high is None else high * divisor + low
            case _:
                pass
    return None


def _stays_wide(coordinates: Index, places: Index, destination: BlockArgument) -> bool:
    """Whether places are sums of multiples of coordinates, and elements side by side stay so, for a sector at least."""
    if any(isinstance(atom, Division) for form in places for atom, _ in form.terms):
        return False
    flat = ZERO
    for form, extent in zip(places, _shape(destination), strict=True):
        flat = flat * extent + form
    axes = axes_in(coordinates)
    if not axes or flat.coefficient(axes[-1]) != 1:
        return False
    return (extent_of(axes[-1]) or 0) * element_bytes(loop.memref_of(destination).element_type) >= SECTOR_BYTES


@dataclass(frozen=True)
class _Write:
    """A call that stores a buffer, for the parameter `position` of its callee."""

    call: func.CallOp
    position: int


class _Program:
    """The kernels of a module and their calls."""

    def __init__(self, module: ModuleOp) -> None:
        self._names = Symbols(module)
        self._functions = {function.sym_name.data: function for function in kernels(module)}
        self._calls: dict[str, list[func.CallOp]] = {name: [] for name in self._functions}
        hosts = (op for op in module.ops if isinstance(op, func.FuncOp) and op.sym_name.data not in self._functions)
        for call in (op for host in hosts for op in host.body.walk()):
            if isinstance(call, func.CallOp) and call.callee.string_value() in self._calls:
                self._calls[call.callee.string_value()].append(call)

    def fold(self, copy: _Copy) -> None:
        """Have the kernels that store what a nest copies store it in its place, if they all can."""
        name = copy.function.sym_name.data
        readers = self._calls[name]
        writes = [write for reader in readers if (write := self._write_of(reader, copy)) is not None]
        positions = {write.call.callee.string_value(): write.position for write in writes}
        alike = all(positions[write.call.callee.string_value()] == write.position for write in writes)
        if not writes or len(writes) < len(readers) or not alike:
            return
        for reader, write in zip(readers, writes, strict=True):
            _redirect(write, reader, copy)
        for callee, position in positions.items():
            own = [write.call for write in writes if write.call.callee.string_value() == callee]
            _store_through(self._apart(callee, own), position, copy)
        Rewriter.erase_op(copy.nest)
        copy.function.body.block.erase_arg(copy.source)
        copy.function.update_function_type()
        if any(isinstance(op, loop.StoreOp) for op in copy.function.walk()):
            return
        for reader in readers:
            Rewriter.erase_op(reader)
        Rewriter.erase_op(copy.function)
        del self._calls[name], self._functions[name]

    def _write_of(self, reader: func.CallOp, copy: _Copy) -> _Write | None:
        """The call that stores what a call of a copy reads, into a buffer that nobody else uses; else None."""
        buffer, destination = reader.arguments[copy.source.index], reader.arguments[copy.destination.index]
        match [use for use in buffer.uses if use.operation is not reader]:
            case [Use(operation=func.CallOp() as call, index=position)] if call.parent is reader.parent:
                pass
            case _:
                return None
        writer = self._functions.get(call.callee.string_value())
        are_new = isinstance(buffer.owner, memref.AllocOp) and isinstance(destination.owner, memref.AllocOp)
        if writer is None or writer is copy.function or not are_new or list(reader.arguments).count(buffer) > 1:
            return None
        others = (use for use in destination.uses if use.operation is not reader)
        is_first = all(self._stores(use) or _follows(use.operation, reader) for use in others)
        return _Write(call, position) if is_first and _is_stored(writer.args[position]) else None

    def _stores(self, use: Use) -> bool:
        """Whether a use of a buffer is a call that only stores to it, as kernels do whose copies are folded already."""
        call = use.operation
        writer = self._functions.get(call.callee.string_value()) if isinstance(call, func.CallOp) else None
        return writer is not None and _is_stored(writer.args[use.index])

    def _apart(self, name: str, calls: Sequence[func.CallOp]) -> func.FuncOp:
        """The function of these calls alone: the one that they have, or a copy where others call that, too."""
        function = self._functions[name]
        others = [call for call in self._calls[name] if call not in calls]
        if not others:
            return function
        own = function.clone()
        fresh = self._names.fresh(name)
        own.properties["sym_name"] = StringAttr(fresh)
        Rewriter.insert_op(own, InsertPoint.after(function))
        for call in calls:
            call.properties["callee"] = SymbolRefAttr(fresh)
        self._functions[fresh], self._calls[fresh], self._calls[name] = own, [*calls], others
        return own


def _follows(op: Operation, other: Operation) -> bool:
    """Whether an operation comes after another one in the same block."""
    return op.parent is other.parent and other.is_before_in_block(op)


def _is_stored(parameter: BlockArgument) -> bool:
    """Whether a kernel does nothing with a parameter but store to it."""
    users = [use.operation for use in parameter.uses]
    return bool(users) and all(isinstance(op, loop.StoreOp) and op.destination is parameter for op in users)


def _redirect(write: _Write, reader: func.CallOp, copy: _Copy) -> None:
    """Have a call store into the buffer of the copy after it, which no longer takes what the call stored."""
    buffer, destination = write.call.arguments[write.position].owner, reader.arguments[copy.destination.index]
    assert isinstance(buffer, memref.AllocOp)
    assert isinstance(destination.owner, memref.AllocOp)
    if write.call.is_before_in_block(destination.owner):
        destination.owner.detach()
        Rewriter.insert_op(destination.owner, InsertPoint.before(write.call))
    write.call.operands[write.position] = destination
    reader.operands = [value for value in reader.operands if value.owner is not buffer]
    Rewriter.erase_op(buffer)


def _store_through(function: func.FuncOp, position: int, copy: _Copy) -> None:
    """Have a kernel store one of its buffers where a copy would put the elements."""
    parameter = function.args[position]
    stores = [use.operation for use in parameter.uses]
    moved = Rewriter.replace_value_with_new_type(parameter, copy.destination.type)
    for op in stores:
        assert isinstance(op, loop.StoreOp)
        made = loop.StoreOp(op.value, moved, *to_map(copy.place(subscripts_of(op))))
        made.location = op.location
        Rewriter.replace_op(op, made)
    function.update_function_type()


def _shape(buffer: BlockArgument) -> tuple[int, ...]:
    return loop.memref_of(buffer).get_shape()
