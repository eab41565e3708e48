"""Emission of one launch as what one thread runs.

Register axes become unrolled loops: consecutive operations that vary along the same register axes share one nest, and a
value that leaves its nest lives in a register buffer with one dimension for each of those axes. Subscripts are folded
to the axes and loop variables they come from, which are then renamed to the values that stand for them in the kernel.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TypeAlias

from xdsl.dialects import arith
from xdsl.dialects.builtin import ArrayAttr, IndexType, MemRefType
from xdsl.ir import Attribute, Operation, Region, SSAValue
from xdsl.ir.affine import AffineMap
from xdsl.traits import ConstantLike

from deplodock.analysis.affine.linear import Linear, form_of_value
from deplodock.analysis.operations import label
from deplodock.analysis.shape.dependence import Dependence
from deplodock.analysis.shape.roles import contraction_of
from deplodock.dialects import loop, tile
from deplodock.dialects.loop.folds import AxisFold
from deplodock.dialects.tile import Binding, Memory
from deplodock.passes.kernel.builder import Condition, ThreadBuilder, Workspace, positive_extent
from deplodock.passes.remarks import failure


@dataclass(frozen=True)
class Array:
    """A register buffer that holds a value for every coordinate of some register axes, one dimension each."""

    buffer: SSAValue
    axes: tuple[SSAValue, ...]


Place: TypeAlias = tuple[SSAValue, AffineMap, list[SSAValue]]
"""Where an access starts: a buffer, and a map over operands that gives the subscripts."""

Held: TypeAlias = Array | SSAValue
"""A value of the launch in the kernel: in a register buffer where it varies along register axes, else the value."""


class Emitter(ThreadBuilder):
    """Builds the kernel's operations and knows what stands for each value of the launch."""

    def __init__(self, launch: tile.LaunchOp, expanded: tile.LaunchOp) -> None:
        super().__init__(expanded)
        self.launch = launch
        self.expanded = expanded
        """The launch that is built."""
        self.dependence = Dependence()
        self.registers = tuple(launch.bound_to(Binding.REGISTER))
        self.contraction = contraction_of(launch)
        self.cells = self._register_tile()
        """The register axes of a contraction's accumulators where they run along both its rows and its columns."""
        self.values: dict[SSAValue, SSAValue] = {}
        """Values that vary along no register axis, and buffers, by the launch's value."""
        self.arrays: dict[SSAValue, Array] = {}
        self.coordinates: dict[SSAValue, SSAValue | int] = {}
        """What stands for an axis or loop variable of the launch, here and now."""
        self.conditions: list[Condition] = []
        """The activity conditions in force that no branch has checked."""
        self.carries: dict[loop.ScanOp, list[Array]] = {}
        """What the scans of the loops around have folded in the iterations before this one."""
        self.workspaces: dict[tile.CombineOp, Workspace] = {}
        """The memory of the combines over block axes."""
        self.folded = {axis for op in launch.body.walk() if isinstance(op, tile.CombineOp) for axis in op.axes}
        """The axes that some combine folds."""
        self.lanes = [axis for axis in launch.axes if axis not in launch.ctas or axis in self.folded]
        """The axes along which no branch may vary: those within a CTA, and those of CTAs that a combine folds."""
        self.own: list[Condition] = []
        """That a thread's results are finished by this CTA of the cluster, once a combine has shared them."""
        self.copies: Callable[[tile.CopyOp], None] = self.keep
        """How the copies of a ring's steps are emitted."""
        self.elected: set[SSAValue] = set()
        """The axes of CTAs of which one coordinate goes on, or the stores of one for each thread."""
        self._constants: dict[SSAValue, SSAValue] = {}
        self._last_constant: Operation | None = None

    def _register_tile(self) -> set[SSAValue]:
        roles = self.contraction
        if roles is None or isinstance(roles.products[0], tile.ContractOp):
            return set()
        if not all(any(axis in self.registers for axis in axes) for axes in (roles.m, roles.n)):
            return set()
        return set(self.axes_of(roles.reduction.results))

    def axes_of(self, values: Iterable[SSAValue]) -> tuple[SSAValue, ...]:
        """The register axes that any of the values varies along, in the launch's order."""
        found = self.dependence.of(*values)
        return tuple(axis for axis in self.registers if axis in found)

    def extent(self, axis: SSAValue) -> int:
        """The constant extent of an axis or loop, at least 1: a launch without points becomes a kernel without CTAs.

        Raises PassFailedException where it is not constant.
        """
        return positive_extent(axis)

    def here(self, root: SSAValue) -> SSAValue | int:
        """What stands for a value, axis or loop variable of the launch at this point of the kernel."""
        return self.coordinates[root] if root in self.coordinates else self.value(root)

    def keep(self, op: Operation) -> None:
        """Emit an operation as it is, on what stands for its operands."""
        clone = op.clone()
        for position, operand in enumerate(op.operands):
            value = self.here(operand)
            assert isinstance(value, SSAValue)
            clone.operands[position] = value
        self.run(clone)
        self.values |= zip(op.results, clone.results, strict=True)

    def value(self, old: SSAValue) -> SSAValue:
        """What stands for a value of the launch at this point of the kernel."""
        if (known := self.values.get(old)) is not None:
            return known
        if (array := self.arrays.get(old)) is not None:
            return self.load(array, old.name_hint)
        if isinstance(old.type, IndexType) and self._is_computed_index(old):
            return self.index(form_of_value(old), old.name_hint)
        if isinstance(old.owner, Operation) and old.owner.has_trait(ConstantLike):
            return self.constant(old)
        if self._is_of_kernel(old):
            return old
        raise failure(self.launch, f"{label(old)} is defined outside the launch and is not a constant or buffer")

    def index(self, form: Linear, name: str | None) -> SSAValue:
        """Emit a coordinate."""
        return self.add(loop.IndexOp(*self.map([form])), name)

    def constant(self, old: SSAValue) -> SSAValue:
        """A copy of a constant at the start of the kernel, one for each constant of the launch."""
        if old not in self._constants:
            assert isinstance(old.owner, Operation)
            self._constants[old] = self._hoist(old.owner.clone(), old.name_hint)
        return self._constants[old]

    def literal(self, attribute: Attribute) -> SSAValue:
        """A constant of this value, here."""
        assert hasattr(attribute, "type")
        return self.add(arith.ConstantOp(attribute))  # pyright: ignore[reportArgumentType]

    def allocate(self, element: Attribute, shape: Sequence[int], memory: Memory, name: str | None) -> SSAValue:
        """Allocate a buffer on chip."""
        return self.alloc(MemRefType(element, shape, memory_space=tile.MemoryAttr(memory)), name)

    def register(self, element: Attribute, axes: Sequence[SSAValue], name: str | None) -> Array:
        """Allocate a register buffer for a value that varies along these axes."""
        shape = [self.extent(axis) for axis in axes]
        return Array(self.allocate(element, shape, Memory.REGISTER, name), tuple(axes))

    def load(self, array: Array, name: str | None = None) -> SSAValue:
        """Read a register buffer at the current register coordinates."""
        return self.add(loop.LoadOp(array.buffer, *self.map(array.axes)), name)

    def store(self, value: SSAValue, array: Array) -> None:
        """Write a register buffer at the current register coordinates."""
        self.run(loop.StoreOp(value, array.buffer, *self.map(array.axes)))

    def read(self, held: Held) -> SSAValue:
        """A value at the current register coordinates."""
        return self.load(held) if isinstance(held, Array) else held

    def bind(self, old: SSAValue, held: Held) -> None:
        """Let this stand for a value of the launch from now on."""
        if isinstance(held, Array):
            self.arrays[old] = held
        else:
            self.values[old] = held

    def bind_array(self, old: SSAValue, array: Array) -> None:
        """Let a register buffer stand for a value of the launch; one without axes is read now."""
        self.bind(old, array if array.axes else self.load(array, old.name_hint))

    @contextmanager
    def nest(self, axes: Sequence[SSAValue]) -> Generator[None]:
        """Emit into unrolled loops over register axes."""
        outer, known = self.block, dict(self.coordinates)
        for axis in axes:
            if self.extent(axis) == 1:
                self.coordinates[axis] = 0
            else:
                self.coordinates[axis] = self.enter_loop(self.extent(axis), axis.name_hint)
        yield
        self.block, self.coordinates = outer, known

    @contextmanager
    def rolled(self, axes: Sequence[SSAValue]) -> Generator[None]:
        """Emit into loops over register axes that stay loops: a value within varies along the other ones alone."""
        outer, known, registers = self.block, dict(self.coordinates), self.registers
        for axis in axes:
            self.coordinates[axis] = self.enter_loop(self.extent(axis), axis.name_hint, unroll=False)
        self.registers = tuple(axis for axis in registers if axis not in axes)
        yield
        self.block, self.coordinates, self.registers = outer, known, registers

    def combine(self, combiner: Region, accumulators: Sequence[SSAValue], values: Sequence[SSAValue]) -> list[SSAValue]:
        """Append the operations of a combiner on these values; returns what it yields."""
        mapping: dict[SSAValue, SSAValue] = dict(zip(combiner.block.args, [*accumulators, *values], strict=True))
        for op in combiner.block.ops:
            if isinstance(op, loop.YieldOp):
                return [mapping.get(value) or self.value(value) for value in op.operands]
            for operand in op.operands:
                if operand not in mapping:
                    mapping[operand] = self.value(operand)
            self.block.add_op(op.clone(mapping))
        raise AssertionError("a combiner yields")

    def accumulators(self, op: loop.ReduceOp | AxisFold, axes: Sequence[SSAValue] | None = None) -> list[Array]:
        """Allocate what a fold's values are folded into, set to its identities, along these axes or those of each."""
        arrays = [
            self.register(result.type, self.axes_of([result]) if axes is None else axes, result.name_hint)
            for result in op.results
        ]
        self.reset(op, arrays)
        return arrays

    def reset(self, op: loop.ReduceOp | AxisFold, arrays: Sequence[Array]) -> None:
        """Set the accumulators of a fold to its identities."""
        for along in dict.fromkeys(array.axes for array in arrays):
            with self.nest(along):
                for array, identity in zip(arrays, op.identities, strict=True):
                    if array.axes == along:
                        self.store(self.literal(identity), array)

    def fold_into(self, arrays: Sequence[Array], combiner: Region, values: Sequence[SSAValue]) -> None:
        """Fold values into accumulators at the current register coordinates."""
        results = self.combine(combiner, [self.load(array) for array in arrays], values)
        for value, array in zip(results, arrays, strict=True):
            self.store(value, array)

    def select_active(
        self, conditions: Sequence[Condition], values: Sequence[SSAValue], identities: ArrayAttr[Attribute]
    ) -> list[SSAValue]:
        """The values where the conditions hold, the identities elsewhere."""
        if not conditions:
            return list(values)
        map, indices = self.condition_map(conditions)
        inside = self.add(loop.InsideOp(map, indices))
        return [
            self.add(arith.SelectOp(inside, value, self.literal(identity)))
            for value, identity in zip(values, identities, strict=True)
        ]

    def _hoist(self, op: Operation, name: str | None) -> SSAValue:
        entry = self.expanded.body.block
        if self._last_constant is None and entry.first_op is None:
            entry.add_op(op)
        elif self._last_constant is None:
            assert entry.first_op is not None
            entry.insert_op_before(op, entry.first_op)
        else:
            entry.insert_op_after(op, self._last_constant)
        self._last_constant = op
        op.results[0].name_hint = name
        return op.results[0]

    def _is_computed_index(self, old: SSAValue) -> bool:
        return old in self.coordinates or isinstance(old.owner, loop.IndexOp)

    def _is_of_kernel(self, value: SSAValue) -> bool:
        return self.expanded.is_ancestor(value.owner)
