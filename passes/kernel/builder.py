"""Operations that are appended to a block, with forms as maps over the values that stand there.

Coordinates of axes as digits of a linear id.

What passes share that run a step of a loop outside of it.
"""

from __future__ import annotations

from collections.abc import Generator, Iterable, Iterator, Sequence
from contextlib import contextmanager

from xdsl.dialects.builtin import AffineMapAttr, IndexType, LocationAttr, MemRefType, UnknownLoc
from xdsl.ir import Attribute, Block, BlockArgument, Operation, Region, SSAValue
from xdsl.ir.affine import AffineExpr, AffineMap

from deplodock.analysis.affine.linear import Linear, constant_place, form_of_value, to_map, to_sides
from deplodock.dialects import kernel, loop, tile
from deplodock.dialects.tile import Binding
from deplodock.passes.kernel.workspace import positive_extent
from deplodock.passes.remarks import failure

Condition = Linear
"""A condition of activity as the form `lhs - rhs`, which is below 0 where it holds."""


def require_expanded(launch: tile.LaunchOp) -> None:
    """Raises PassFailedException for a launch that is not expanded."""
    if tile.EXPANDED not in launch.attributes:
        raise failure(launch, "it is not expanded; run expand-launch first")


class ThreadBuilder:
    """Appends what one thread of an expanded launch runs."""

    def __init__(self, expanded: tile.LaunchOp) -> None:
        self.block: Block = expanded.body.block
        self.location: LocationAttr = expanded.location
        """Where the operation that is being lowered stands in the program."""
        (self.thread,) = expanded.bound_to(Binding.THREAD)
        self.threads = positive_extent(self.thread)

    def here(self, root: SSAValue) -> SSAValue | int:
        """What stands for a value or coordinate at this point."""
        return root

    def add(self, op: Operation, name: str | None = None) -> SSAValue:
        """Append an operation; returns its first result, with the name hint."""
        self.run(op)
        if op.results and name:
            op.results[0].name_hint = name
        return op.results[0]

    def run(self, op: Operation) -> None:
        """Append an operation; one that was made for the launch has the location of what is being lowered."""
        if type(op.location) is UnknownLoc:
            op.location = self.location
        self.block.add_op(op)

    def alloc(self, type: MemRefType[Attribute], name: str | None) -> SSAValue:
        """Append the allocation of a buffer on chip."""
        return self.add(kernel.AllocOp(type), name)

    def map(
        self, forms: Iterable[Linear | SSAValue], dims: Sequence[SSAValue] = ()
    ) -> tuple[AffineMap, list[SSAValue]]:
        """Forms, or the values of coordinates, as a map over the values here, and its operands.

        Where `dims` are given, these roots are the dimensions of the map and the values its symbols.
        """
        operands: dict[SSAValue, int] = {}

        def position(root: SSAValue) -> AffineExpr:
            if root in dims:
                return AffineExpr.dimension(dims.index(root))
            value = self.here(root)
            if isinstance(value, int):
                return AffineExpr.constant(value)
            place = operands.setdefault(value, len(operands))
            return AffineExpr.symbol(place) if dims else AffineExpr.dimension(place)

        exprs = tuple((form if isinstance(form, Linear) else form_of_value(form)).affine(position) for form in forms)
        return AffineMap(len(dims) or len(operands), len(operands) if dims else 0, exprs), list(operands)

    def condition_map(self, conditions: Sequence[Condition]) -> tuple[AffineMap, list[SSAValue]]:
        """Conditions as a map of sides `lhs < rhs`, constants on the right."""
        return self.map(to_sides(conditions))

    def enter_loop(self, trips: int, name: str | None, unroll: bool = True) -> BlockArgument:
        """Append a loop and emit into its body from now on; returns its variable."""
        body = Block(arg_types=[IndexType()])
        self.run(loop.ForOp(trips, Region(body), unroll=unroll))
        body.args[0].name_hint = name
        self.block = body
        return body.args[0]

    @contextmanager
    def guarded(self, conditions: Sequence[Condition]) -> Generator[None]:
        """Emit into a guard on the conditions, or in place if there are none."""
        outer = self.block
        if conditions:
            map, indices = self.condition_map(conditions)
            body = Block()
            self.run(loop.GuardOp(map, indices, Region(body)))
            self.block = body
        yield
        self.block = outer


def in_shape(
    type: MemRefType[Attribute], subscripts: Sequence[Linear], reach: Sequence[Linear] | None = None
) -> list[Condition]:
    """When subscripts lie inside a buffer, less the conditions that always hold; an unknown range is trusted.

    `reach` are forms with the values that the subscripts can have, if others than all of theirs.
    """
    conditions: list[Condition] = []
    for form, values, extent in zip(subscripts, reach or subscripts, type.get_shape(), strict=True):
        bounds = values.range()
        if bounds is None:
            continue
        if bounds[1] >= extent:
            conditions.append(form - extent)
        if bounds[0] < 0:
            conditions.append(-form - 1)
    return conditions


def digits(axes: Sequence[SSAValue], id: SSAValue) -> Iterator[tuple[SSAValue, Linear]]:
    """Each axis with its coordinate as a form of their linear id, the last axis fastest."""
    stride = 1
    forms: list[tuple[SSAValue, Linear]] = []
    for axis in reversed(axes):
        extent = positive_extent(axis)
        digit = Linear.of(id) // stride
        forms.append((axis, digit if axis is axes[0] else digit % extent))
        stride *= extent
    return reversed(forms)


def step_at(form: Linear, name: str | None = None) -> loop.IndexOp:
    """The number of a step, which stands for a loop's variable outside of it, or in another step."""
    made = loop.IndexOp(*to_map([form]))
    made.result.name_hint = name
    return made


def run_less(steps: loop.ForOp) -> None:
    """Let a loop of known trips run a step less."""
    assert steps.trips is not None
    steps.properties["bound"] = AffineMapAttr(constant_place(steps.trips - 1)[0])
