"""fold-copies: have a kernel store its result where a kernel that only copies it would put it.

    %a = memref.alloc() : memref<28x32x128xf32>
    func.call @k(%x, %a)                                   %b = memref.alloc() : memref<32x3584xf32>
    %b = memref.alloc() : memref<32x3584xf32>       ->     func.call @k(%x, %b)
    func.call @k_copy(%a, %b)

    func.func @k(%x, %out) {                               func.func @k(%x, %out) {
      .. loop.store %v, %out[%h, %s, %d]                     .. loop.store %v, %out[%s, %h * 128 + %d]

The copy must put each element into a place of its own, as a transposition or a reshape does, at a sum of multiples of
its coordinates; elements that lie side by side must do so for at least a sector of memory, so that the stores stay as
wide. Nothing else may read what the kernel stored, at any of its calls.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod

from xdsl.context import Context
from xdsl.dialects import func, memref
from xdsl.dialects.builtin import MemRefType, ModuleOp
from xdsl.ir import BlockArgument
from xdsl.passes import ModulePass
from xdsl.rewriter import InsertPoint, Rewriter

from deplodock.analysis.access.alignment import element_bytes
from deplodock.analysis.affine.division import Division
from deplodock.analysis.affine.linear import Linear, extent_of, subscripts_of, to_map
from deplodock.analysis.machine.targets import SECTOR_BYTES
from deplodock.analysis.shape.fusion_index import ZERO, Index, axes_in, axis_of, new_loop, substitute, walked_axes
from deplodock.analysis.shape.nest import kernels
from deplodock.dialects import loop


@dataclass(frozen=True)
class FoldCopiesPass(ModulePass):
    """Have kernels store their results where kernels that only copy them would put them."""

    name = "fold-copies"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        functions, copied = kernels(op), list[func.FuncOp]()
        calls: dict[str, list[func.CallOp]] = {function.sym_name.data: [] for function in functions}
        for call in op.walk():
            if isinstance(call, func.CallOp) and call.callee.string_value() in calls:
                calls[call.callee.string_value()].append(call)
        for function in functions:
            copies = calls[function.sym_name.data]
            if not copies or (copy := _copy_of(function)) is None:
                continue
            for writer in functions:
                _fold(writer, calls[writer.sym_name.data], copy, copies)
            if not copies:
                copied.append(function)
        for function in copied:
            Rewriter.erase_op(function)


@dataclass(frozen=True)
class _Copy:
    """A function that copies all of a buffer: its parameters, and where it puts the element at `coordinates`."""

    source: BlockArgument
    destination: BlockArgument
    coordinates: Index
    places: Index

    def place(self, index: Sequence[Linear]) -> Index:
        """Where the element at an index of the source goes."""
        axes = map(axis_of, self.coordinates)
        values = {axis: form for axis, form in zip(axes, index, strict=True) if axis is not None}
        return tuple(substitute(form, values) for form in self.places)


def _copy_of(function: func.FuncOp) -> _Copy | None:
    """What a function does that only copies a buffer, where kernels may store in its place; else None."""
    inner = [op for op in function.walk() if not isinstance(op, func.FuncOp | func.ReturnOp | loop.IndexOp)]
    loops, moves = (
        [op for op in inner if isinstance(op, loop.ForOp)],
        [op for op in inner if not isinstance(op, loop.ForOp)],
    )
    match moves:
        case [loop.LoadOp() as load, loop.StoreOp() as store] if store.value is load.result:
            source, destination = load.source, store.destination
        case _:
            return None
    if not isinstance(source, BlockArgument) or not isinstance(destination, BlockArgument):
        return None
    points = prod(op.trips or 0 for op in loops)
    if not _elements(source) == _elements(destination) == points:
        return None
    read, written, axes = tuple(subscripts_of(load)), tuple(subscripts_of(store)), [op.iv for op in loops]
    if walked_axes(written, _shape(destination)) is None:
        return None
    coordinates = tuple(ZERO if extent == 1 else Linear.of(new_loop(extent).iv) for extent in _shape(source))
    values = {axis: form for axis in axes if (form := _solved(Linear.of(axis), read, coordinates)) is not None}
    places = tuple(substitute(form, values) for form in written)
    is_inverse = len(values) == len(axes) and tuple(substitute(form, values) for form in read) == coordinates
    if not is_inverse or not _stays_wide(coordinates, places, destination):
        return None
    return _Copy(source, destination, coordinates, places)


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
    (last, *_) = (*reversed(axes_in(coordinates)), None)
    if last is None or flat.coefficient(last) != 1:
        return False
    assert isinstance(destination.type, MemRefType)
    return (extent_of(last) or 0) * element_bytes(destination.type.element_type) >= SECTOR_BYTES


def _fold(writer: func.FuncOp, writes: list[func.CallOp], copy: _Copy, copies: list[func.CallOp]) -> None:
    """Have a kernel store each buffer that all its calls leave to the copy alone where that would put it."""
    for parameter in writer.args:
        stores = [use.operation for use in parameter.uses]
        is_stored = all(isinstance(op, loop.StoreOp) and op.destination is parameter for op in stores)
        if parameter.type != copy.source.type or not stores or not is_stored:
            continue
        pairs = [(call, _copied(call, parameter.index, copy, copies)) for call in writes]
        if not pairs or any(found is None for _, found in pairs):
            continue
        for call, found in pairs:
            assert found is not None
            _redirect(call, parameter.index, found, copy)
            copies.remove(found)
        moved = Rewriter.replace_value_with_new_type(parameter, copy.destination.type)
        for op in stores:
            assert isinstance(op, loop.StoreOp)
            made = loop.StoreOp(op.value, moved, *to_map(copy.place(subscripts_of(op))))
            made.location = op.location
            Rewriter.replace_op(op, made)
        writer.update_function_type()


def _copied(call: func.CallOp, position: int, copy: _Copy, copies: Sequence[func.CallOp]) -> func.CallOp | None:
    """The copy that alone reads what a call stores, into a buffer that nobody uses before; else None."""
    buffer = call.arguments[position]
    readers = [use.operation for use in buffer.uses if use.operation is not call]
    match readers:
        case [func.CallOp() as reader] if reader in copies and reader.parent is call.parent:
            pass
        case _:
            return None
    destination = reader.arguments[copy.destination.index]
    if reader.arguments[copy.source.index] is not buffer or list(call.arguments).count(buffer) > 1:
        return None
    if not isinstance(buffer.owner, memref.AllocOp) or not isinstance(destination.owner, memref.AllocOp):
        return None
    others = [use.operation for use in destination.uses if use.operation is not reader]
    return reader if all(op.parent is reader.parent and reader.is_before_in_block(op) for op in others) else None


def _redirect(call: func.CallOp, position: int, copied: func.CallOp, copy: _Copy) -> None:
    """Have a call store into the buffer of the copy after it, which goes."""
    buffer, destination = call.arguments[position].owner, copied.arguments[copy.destination.index]
    assert isinstance(buffer, memref.AllocOp)
    assert isinstance(destination.owner, memref.AllocOp)
    destination.owner.detach()
    Rewriter.insert_op(destination.owner, InsertPoint.before(call))
    call.operands[position] = destination
    Rewriter.erase_op(copied)
    Rewriter.erase_op(buffer)


def _shape(buffer: BlockArgument) -> tuple[int, ...]:
    assert isinstance(buffer.type, MemRefType)
    return buffer.type.get_shape()


def _elements(buffer: BlockArgument) -> int:
    return prod(_shape(buffer))
