"""Builds the loop nest of a tensor kernel: the elements it needs, the loop that computes each, and the operations."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import prod
from typing import cast

from xdsl.dialects import arith
from xdsl.dialects.builtin import FloatAttr, IndexType, IntegerAttr, IntegerType
from xdsl.ir import Attribute, Block, BlockArgument, Operation, Region, SSAValue

from deplodock.analysis.affine.linear import Linear, extent_or_one, form_of, to_map
from deplodock.analysis.shape.fusion import (
    ZERO,
    Course,
    Demand,
    Index,
    Operands,
    TensorOp,
    axes_in,
    axis_of,
    compose,
    is_permutation,
    long_axes,
    new_loop,
    splat_of,
    substitute,
    unify,
)
from deplodock.dialects import loop
from deplodock.dialects.tensor import (
    ConcatOp,
    ElementwiseOp,
    GatherOp,
    IndexMapOp,
    IotaOp,
    PadOp,
    ReduceOp,
    ScanOp,
    element_of,
    shape_of,
)
from deplodock.passes.clean_up import location_of
from deplodock.passes.remarks import failure

Site = Operation | BlockArgument
"""Where a value comes from: all results of an operation are computed together."""

Point = tuple[Site, Index]
"""An element of a value, for every point of the loops whose axes the index has."""


def site_of(value: SSAValue) -> Site:
    """The operation or kernel argument that a value comes from."""
    return value if isinstance(value, BlockArgument) else cast(Operation, value.owner)


@dataclass(frozen=True, eq=False)
class Destination:
    """Where a value goes: its element `[i, j]` to `buffer[i + offsets[0], j + offsets[1]]`."""

    value: SSAValue
    buffer: SSAValue
    offsets: tuple[int, ...]

    @staticmethod
    def at_origin(value: SSAValue, buffer: SSAValue) -> Destination:
        """A whole buffer for a value."""
        return Destination(value, buffer, (0,) * len(shape_of(value)))

    def parts(self) -> list[Destination]:
        """The target itself, or those of the tensors that a concat lays side by side there."""
        op = self.value.owner
        if not isinstance(op, ConcatOp):
            return [self]
        dim, offset = op.dim.value.data, 0
        parts: list[Destination] = []
        for value in op.inputs:
            moved = [start + offset if d == dim else start for d, start in enumerate(self.offsets)]
            parts += Destination(value, self.buffer, tuple(moved)).parts()
            offset += shape_of(value)[dim]
        return parts


@dataclass(frozen=True)
class Output:
    """A value's place in a nest: the index of the element that a point stores, and where to."""

    target: Destination
    index: Index


class Needs:
    """The elements that outputs need, each once, with the loops of the reductions among them."""

    def __init__(self, demand: Demand) -> None:
        self.demand = demand
        self.indices: dict[Site, dict[Index, None]] = {}
        self.reductions: dict[Point, list[loop.ReduceOp]] = {}

    def add(self, value: SSAValue, index: Index) -> None:
        """Note that the element `index` of `value` is needed, and all that it is computed from."""
        pending = [(value, self.demand.normal(value, index))]
        while pending:
            value, index = pending.pop()
            site = site_of(value)
            known = self.indices.setdefault(site, {})
            if index in known:
                continue
            known[index] = None
            if isinstance(site, Operation):
                pending += reversed(self.operands(cast(TensorOp, site), index))

    def operands(self, op: TensorOp, index: Index) -> Operands:
        """Each operand of `op` with the index at which the element `index` of its results needs it."""
        axes = [inner.iv for inner in self._loops(op, index)] if isinstance(op, ReduceOp) else []
        return self.demand.operands(op, index, axes)

    def course(self) -> Course | None:
        """The course of the first scan, or None."""
        points = [(op, index) for op, indices in self.indices.items() if isinstance(op, ScanOp) for index in indices]
        return next(filter(None, (Course.of(op, index) for op, index in points)), None)

    def in_order(self, ops: Sequence[Operation]) -> list[tuple[TensorOp, Index]]:
        """The elements of operations in the order of these, but what a reduction does not need comes after it.

        Values that wait for a reduction would stay in registers all the while.
        """
        points = [(cast(TensorOp, op), index) for op in ops for index in self.indices.get(op, ())]
        position: dict[Point, int] = {point: number for number, point in enumerate(points)}
        ordered: dict[int, None] = {}
        for number, (op, _) in enumerate(points):
            pending, needed = [number] if isinstance(op, ReduceOp) else [], set[int]()
            while pending:
                current = pending.pop()
                if current not in needed and current not in ordered:
                    needed.add(current)
                    operands = self.operands(*points[current])
                    sources = (position.get((site_of(value), index)) for value, index in operands)
                    pending += [source for source in sources if source is not None]
            ordered |= dict.fromkeys(sorted(needed))
        ordered |= dict.fromkeys(range(len(points)))
        return [points[number] for number in ordered]

    def _loops(self, op: ReduceOp, index: Index) -> list[loop.ReduceOp]:
        """The loops of a reduction, outermost first, still without a place in the program."""
        if (op, index) not in self.reductions:
            shape = shape_of(op.inputs[0])
            self.reductions[op, index] = [_new_reduce(op, shape[d]) for d in long_axes(op)]
        return self.reductions[op, index]


def _combiner(op: ReduceOp | ScanOp) -> Region:
    combiner = op.combiner.clone()
    terminator = combiner.block.last_op
    assert terminator is not None
    combiner.block.add_op(loop.YieldOp(*terminator.operands))
    terminator.detach()
    terminator.erase()
    return combiner


def _new_reduce(op: ReduceOp, extent: int) -> loop.ReduceOp:
    template = new_loop(extent)
    made = loop.ReduceOp(template.bound.data, template.detach_region(template.body), op.identities, _combiner(op))
    made.location = op.location
    return made


@dataclass(frozen=True)
class Scope:
    """A block that values are computed in, and how many other scopes it is nested in."""

    block: Block
    depth: int


class NestBuilder:
    """One loop nest: the loops over the space of its largest output, and every output that has a place in them.

    A value is computed in the outermost scope where its axes are there. The axis that scans run along is the innermost,
    in their direction. The loops that no reduction or smaller output
    separates form one scope, so that free loops stay perfectly nested.
    """

    def __init__(self, demand: Demand, buffers: Mapping[SSAValue, SSAValue], targets: Sequence[Destination]) -> None:
        main = _main(targets)
        value = main.value
        self._needs = Needs(demand)
        self._loops = [new_loop(extent) for extent in shape_of(value) if extent != 1]
        ivs = iter([free.iv for free in self._loops])
        index = tuple(ZERO if extent == 1 else Linear.of(next(ivs)) for extent in shape_of(value))
        self._needs.add(value, index)
        self._course = self._needs.course()
        if self._course is not None and self._course.backwards:
            index = _turned(index, self._course.axis)
            self._needs = Needs(demand)
            self._needs.add(value, index)
        self.outputs = [Output(main, index)]
        self._place_others([target for target in targets if target is not main])
        self._buffers = buffers
        self._values: dict[tuple[SSAValue, Index], SSAValue] = {}
        self._subscripts: dict[tuple[SSAValue, Index], SSAValue] = {}
        self._scopes: dict[SSAValue, Scope] = {}
        self._base = Scope(Block(), 0)

    def _place_others(self, others: Sequence[Destination]) -> None:
        """Find places for the other outputs: those with all axes, then, as these fix the loop order, smaller ones."""
        axes: list[SSAValue] = [free.iv for free in self._loops]
        found = [(target, self._index_of(target.value)) for target in others]
        for target, index in found:
            if index is not None and set(axes_in(index)) == set(axes):
                self._add_output(target, index)
        uses = dict.fromkeys(axes, 0)
        for (_, index), _ in self._needs.reductions.items():
            for axis in axes_in(index):
                if axis in uses:
                    uses[axis] += 1
        along = None if self._course is None else self._course.axis
        self._loops.sort(key=lambda free: (free.iv is along, -uses[free.iv]))
        for target, index in found:
            if index is None or len(axes_in(index)) == len(axes):
                continue
            if set(axes_in(index)) == {free.iv for free in self._loops[: len(axes_in(index))]}:
                self._add_output(target, index)

    def _add_output(self, target: Destination, index: Index) -> None:
        self.outputs.append(Output(target, index))
        self._needs.add(target.value, index)

    def _index_of(self, value: SSAValue) -> Index | None:
        """The element of `value` that belongs to a point of this nest: the one that something both need determines."""
        shape = shape_of(value)
        axes: list[SSAValue] = [free.iv for free in self._loops]
        own: list[SSAValue] = [new_loop(extent).iv for extent in shape if extent != 1]
        ivs = iter(own)
        index = tuple(ZERO if extent == 1 else Linear.of(next(ivs)) for extent in shape)
        needs = Needs(self._needs.demand)
        needs.add(value, index)
        for site, indices in needs.indices.items():
            for target in self._needs.indices.get(site, ()):
                forms = unify(next(iter(indices)), target, own)
                if forms is None:
                    continue
                moved = tuple(substitute(form, forms) for form in index)
                if is_permutation(moved, shape) and set(axes_in(moved)) <= set(axes):
                    return moved
        main = self.outputs[0]
        return main.index if shape == shape_of(main.target.value) else None

    def build(self, ops: Sequence[Operation], constants: BlockConstants) -> Block:
        """Emit the nest for the operations of the kernel; the result is the block around its outermost loop."""
        outer, enclosing = self._open_loops()
        for (_, index), loops in self._needs.reductions.items():
            depth = self._scope(index).depth + 1
            for inner in loops:
                self._scopes[inner.iv] = Scope(loops[-1].body.block, depth)
        for op, index in self._needs.in_order(ops):
            self._emit(op, index, constants)
        for output in self.outputs:
            target = output.target
            value = self._read(target.value, self._needs.demand.normal(target.value, output.index))
            place = [form + start for form, start in zip(output.index, target.offsets, strict=True)]
            map, indices = to_map(place)
            self._scope(output.index).block.add_op(loop.StoreOp(value, target.buffer, map, indices))
        for block, free in reversed(enclosing):
            free.location = location_of(self.outputs[0].target.value)
            block.add_op(free)
        return outer

    def _open_loops(self) -> tuple[Block, list[tuple[Block, loop.ForOp]]]:
        """Make a scope of each run of loops; the outer block, and the loops with the block that each goes to."""
        order: dict[SSAValue, int] = {free.iv: position for position, free in enumerate(self._loops)}
        whole = [index for _, index in self._needs.reductions] + [output.index for output in self.outputs]
        free_only = [axes for axes in map(axes_in, whole) if all(axis in order for axis in axes)]
        depths = sorted({max((order[axis] + 1 for axis in axes), default=0) for axes in free_only})
        blocks = [Block(), *(free.body.block for free in self._loops)]
        for axis, position in order.items():
            depth = next(depth for depth in depths if depth > position)
            self._scopes[axis] = Scope(blocks[depth], depth)
        self._base = Scope(blocks[depths[0]], depths[0])
        return blocks[0], list(zip(blocks[:-1], self._loops, strict=True))

    def _scope(self, index: Index) -> Scope:
        scopes = [self._base, *(self._scopes[axis] for axis in axes_in(index))]
        return max(scopes, key=lambda scope: scope.depth)

    def _emit(self, op: TensorOp, index: Index, constants: BlockConstants) -> None:
        scope = self._scope(index)
        match op:
            case arith.ConstantOp():
                results = [constants.of_tensor(op)]
            case IndexMapOp():
                return
            case ElementwiseOp():
                results = self._apply(op, index, scope.block, constants)
            case ReduceOp():
                results = self._fold(op, index, scope.block)
            case ScanOp():
                results = self._scan(op, index, scope.block, constants)
            case IotaOp():
                results = [self._count(op, index, scope.block, constants)]
            case GatherOp():
                results = [self._gather(op, index)]
            case PadOp():
                results = [self._pad(op, index, scope.block)]
            case ConcatOp():
                raise failure(op, "a kernel yields a concat and does nothing else with it; store it for its readers")
        for result, value in zip(op.results, results, strict=True):
            self._values[result, index] = value

    def _apply(self, op: ElementwiseOp, index: Index, block: Block, constants: BlockConstants) -> list[SSAValue]:
        """Copy the body of an elementwise operation to a block."""
        operands = [self._read(value, inner) for value, inner in self._needs.operands(op, index)]
        mapping: dict[SSAValue, SSAValue] = dict(zip(op.body.block.args, operands, strict=True))
        terminator = op.body.block.last_op
        assert terminator is not None
        for inner in op.body.block.ops:
            if isinstance(inner, arith.ConstantOp):
                mapping[inner.result] = constants.of(inner.value, inner.result.name_hint)
            elif inner is not terminator:
                block.add_op(inner.clone(mapping))
        results = [mapping[value] for value in terminator.operands]
        for tensor, scalar in zip(op.outputs, results, strict=True):
            if scalar.name_hint is None:
                scalar.name_hint = tensor.name_hint
        return results

    def _fold(self, op: ReduceOp, index: Index, block: Block) -> list[SSAValue]:
        """Place the loops of a reduction and yield from each, innermost first; over one element there is none."""
        values = [self._read(value, inner) for value, inner in self._needs.operands(op, index)]
        loops = self._needs.reductions[op, index]
        blocks = [block, *(outer.body.block for outer in loops[:-1])]
        for inner, around in zip(reversed(loops), reversed(blocks), strict=bool(loops)):
            inner.body.block.add_op(loop.YieldOp(*values))
            around.add_op(inner)
            values = list[SSAValue](inner.outputs)
            for tensor, value in zip(op.outputs, values, strict=True):
                value.name_hint = tensor.name_hint or "acc"
        return values

    def _scan(self, op: ScanOp, index: Index, block: Block, constants: BlockConstants) -> Sequence[SSAValue]:
        """Place a scan along its loop; one element is its only prefix."""
        values = [self._read(value, inner) for value, inner in self._needs.operands(op, index)]
        if shape_of(op.inputs[0])[op.dim.value.data] == 1:
            return [constants.of(identity, None) for identity in op.identities] if op.exclusive else values
        course = Course.of(op, index)
        if course is None or course.backwards or course.axis is not self._loops[-1].iv:
            raise failure(op, "the scans of a kernel run along one axis of its largest output, in one direction")
        made = loop.ScanOp(values, [course.axis], op.identities, _combiner(op), exclusive=bool(op.exclusive))
        made.location = op.location
        block.add_op(made)
        for tensor, value in zip(op.outputs, made.outputs, strict=True):
            value.name_hint = tensor.name_hint or "acc"
        return made.outputs

    def _count(self, op: IotaOp, index: Index, block: Block, constants: BlockConstants) -> SSAValue:
        """The coordinate of an index along a dimension as a number."""
        form = index[op.dim.value.data]
        type = cast(IntegerType, element_of(op.result))
        if not form.terms:
            return constants.of(IntegerAttr(form.constant, type), None)
        axis = axis_of(form)
        if axis is None:
            coordinate = loop.IndexOp(*to_map((form,)))
            block.add_op(coordinate)
            axis = coordinate.result
        number = arith.IndexCastOp(axis, type)
        number.result.name_hint = op.result.name_hint
        block.add_op(number)
        return number.result

    def _gather(self, op: GatherOp, index: Index) -> SSAValue:
        """Read the source where the index tensors say."""
        symbols = [self._subscript(value, inner) for value, inner in self._needs.operands(op, index)]
        place = tuple(form_of(expr, symbols, index) for expr in op.map.data.results)
        source, place = self._through_maps(op.source, self._needs.demand.normal(op.source, place))
        if source not in self._buffers:
            raise failure(op, "a gather reads an argument of its kernel, or an index map of one; store its source")
        return self._read(source, place)

    def _pad(self, op: PadOp, index: Index, block: Block) -> SSAValue:
        """Read the source, or zero outside."""
        if op.source not in self._buffers:
            raise failure(op, "a pad reads an argument of its kernel; store its source")
        load = loop.LoadOp(self._buffers[op.source], *to_map(compose(op.map.data, index)), padded=True)
        load.result.name_hint = "in"
        block.add_op(load)
        return load.result

    def _subscript(self, value: SSAValue, index: Index) -> SSAValue:
        """An element of an index tensor as a subscript."""
        if (value, index) not in self._subscripts:
            element, scope = self._read(value, index), self._scope(index)
            subscript = arith.IndexCastOp(element, IndexType())
            scope.block.add_op(subscript)
            self._subscripts[value, index] = subscript.result
            self._scopes[subscript.result] = scope
        return self._subscripts[value, index]

    def _through_maps(self, value: SSAValue, index: Index) -> tuple[SSAValue, Index]:
        """The element of what index maps read that is the element `index` of their result."""
        while isinstance(value.owner, IndexMapOp):
            ((value, index),) = self._needs.operands(value.owner, index)
        return value, index

    def _read(self, value: SSAValue, index: Index) -> SSAValue:
        """The element `index` of a value: computed already, or loaded now."""
        value, index = self._through_maps(value, index)
        if (value, index) not in self._values:
            buffer = self._buffers[value]
            map, indices = to_map(index)
            load = loop.LoadOp(buffer, map, indices)
            load.result.name_hint = "in"
            self._scope(index).block.add_op(load)
            self._values[value, index] = load.result
        return self._values[value, index]


def _main(targets: Sequence[Destination]) -> Destination:
    """The largest output; of several, one that a scan is computed for."""
    largest = max(_size(target.value) for target in targets)
    found = [target for target in targets if _size(target.value) == largest]
    return found[0] if len(found) == 1 else next((target for target in found if _is_scanned(target.value)), found[0])


def _is_scanned(value: SSAValue) -> bool:
    """Whether a value is computed from a scan."""
    pending, seen = [value], set[SSAValue]()
    while pending:
        op = pending.pop().owner
        if isinstance(op, ScanOp):
            return True
        found = [operand for operand in op.operands if operand not in seen] if isinstance(op, Operation) else []
        seen.update(found)
        pending += found
    return False


def _turned(index: Index, axis: SSAValue) -> Index:
    """The index with the coordinates of an axis in the opposite order."""
    forms = {axis: -Linear.of(axis) + (extent_or_one(axis) - 1)}
    return tuple(substitute(form, forms) for form in index)


def _size(value: SSAValue) -> tuple[int, int]:
    shape = shape_of(value)
    return sum(extent != 1 for extent in shape), prod(shape)


class BlockConstants:
    """The scalar constants of a kernel, each once."""

    def __init__(self) -> None:
        self.ops: dict[str, arith.ConstantOp] = {}

    def of(self, value: Attribute, name: str | None) -> SSAValue:
        """The constant with this value."""
        key = str(value)
        if key not in self.ops:
            self.ops[key] = arith.ConstantOp(cast(FloatAttr | IntegerAttr, value))
            self.ops[key].result.name_hint = name
        return self.ops[key].result

    def of_tensor(self, op: arith.ConstantOp) -> SSAValue:
        """The one value of a tensor constant. Raises PassFailedException if it has several."""
        value = splat_of(op)
        if value is None:
            raise failure(op, "a tensor constant with different elements is not supported; pass it as an argument")
        return self.of(value, op.result.name_hint)
