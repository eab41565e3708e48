"""How an engine's instruction runs a contract: which axes of the launch are its rows, columns and k.

The roles of axes follow from what the factors vary along, and from the lanes that the engine's table gives them.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from xdsl.dialects.builtin import AnyFloat, f32
from xdsl.ir import Attribute, SSAValue

from deplodock.analysis.affine.linear import Linear, extent_or_one, forms_of, subscripts_of
from deplodock.analysis.machine.targets import WARP
from deplodock.analysis.operations import ancestors, label
from deplodock.analysis.shape.dependence import Dependence, wheres
from deplodock.analysis.shape.lanes import thread_strides
from deplodock.analysis.shape.roles import Contraction, factors_of, read_of, summed_products
from deplodock.analysis.shape.streaming import StreamedProduct, approximates, weighing
from deplodock.dialects import loop, tile
from deplodock.dialects.engines import Digit, Engine, engine, engine_names
from deplodock.dialects.loop import memref_of
from deplodock.dialects.precision import HIGHEST, precision_of
from deplodock.dialects.tile import Binding
from deplodock.errors import Error


class NoAtomError(Error):
    """A contract that its engine cannot run, for the reason in the text."""


@dataclass(frozen=True)
class Atom:
    """The register axes of a launch that one instruction of a contract takes whole, or in steps."""

    engine: Engine
    rows: SSAValue
    """The rows of the left factor and of the result that a lane holds."""
    pair: SSAValue
    """The columns of the result that a lane holds."""
    depth: tuple[SSAValue, ...]
    """The coordinates along k that a lane holds, of one instruction after the other."""

    @property
    def steps(self) -> int:
        """The instructions along k."""
        return math.prod(extent_or_one(axis) for axis in self.depth) // self.engine.depth


def atom_of(launch: tile.LaunchOp, op: tile.ContractOp, dependence: Dependence) -> Atom:
    """The axes that an instruction of a contract's engine runs.

    Raises NoAtomError where the factors or the result do not lie in the lanes that the engine wants.
    """
    return _Atoms(launch, op, dependence).atom()


class _Atoms:
    def __init__(self, launch: tile.LaunchOp, op: tile.ContractOp, dependence: Dependence) -> None:
        self.launch = launch
        self.op = op
        self.engine = _engine(op)
        self.threads = {*launch.bound_to(Binding.THREAD), *launch.bound_to(Binding.LANE)}
        self.left = dependence.of(*op.lhs)
        self.right = dependence.of(*op.rhs)
        self.around = [around for around in ancestors(op, below=launch) if isinstance(around, loop.LoopLike)]
        limits = [where for around in (*self.around, launch) for where in wheres(around.body.block)]
        self.limited = dependence.of(*(value for where in limits for value in where.indices))
        self.bounds = dependence.of(*(value for around in self.around for value in around.bound_operands))

    def atom(self) -> Atom:
        launch, engine = self.launch, self.engine
        threads = math.prod(extent_or_one(axis) for axis in launch.bound_to(Binding.THREAD))
        if threads % WARP:
            raise NoAtomError(f"{engine.name} takes whole warps, and the launch has {threads} threads")
        for axis in launch.axes:
            if axis in self.bounds and axis not in launch.ctas:
                raise NoAtomError(f"the bound of a loop around it varies along {label(axis)}; a warp runs it as one")
        for axis in self.op.axes:
            if axis in self.limited:
                raise NoAtomError(f"it adds the products of all points along {label(axis)}, which a loop.where limits")
        moved, column, pair = self._places()
        depth = self._depth(column)
        rows = self._rows()
        row = next(axis for axis in launch.bound_to(Binding.THREAD) if self._digit(axis) == engine.row)
        self._lacks("left", self.left, (moved, column, pair))
        self._lacks("right", self.right, (row, rows, column, pair))
        return Atom(engine, rows, pair, depth)

    def _digit(self, axis: SSAValue) -> Digit | None:
        """The digit that a thread axis, or a lane axis by its carrier, is of the number of a thread."""
        axis = self.launch.carried_axes().get(axis, axis)
        stride = thread_strides(self.launch).get(axis)
        return None if stride is None else Digit(stride, extent_or_one(axis))

    def _places(self) -> tuple[SSAValue, SSAValue, SSAValue]:
        """The axis of the right factor's columns, and the thread and register axes of the result's."""
        op, engine = self.op, self.engine
        if len(op.moved) != 1 or self._digit(op.moved[0]) != engine.row or not self._is(op.moved[0], Binding.LANE):
            raise NoAtomError(f"the right factor's columns must be taken `at` one lane axis, {_lanes(engine.row)}")
        (form,) = forms_of(op.places.data, op.place_axes)
        for column in op.place_axes:
            for pair in op.place_axes:
                wanted = Linear.of(column, engine.pair) + Linear.of(pair)
                if column is not pair and form == wanted and self._are_columns(column, pair):
                    return op.moved[0], column, pair
        raise NoAtomError(
            f"the columns must be taken at `thread * {engine.pair} + register` for a thread axis, "
            f"{_lanes(engine.column)}, and a register axis of {engine.pair} columns"
        )

    def _are_columns(self, column: SSAValue, pair: SSAValue) -> bool:
        is_column = column in self.threads and self._digit(column) == self.engine.column
        return is_column and self._is(pair, Binding.REGISTER) and extent_or_one(pair) == self.engine.pair

    def _depth(self, column: SSAValue) -> tuple[SSAValue, ...]:
        """The register axes of k; the other axis of k is one of the lanes of the columns."""
        engine, launch = self.engine, self.launch
        registers = [axis for axis in launch.axes if axis in self.op.axes and self._is(axis, Binding.REGISTER)]
        lanes = [axis for axis in self.op.axes if axis not in registers]
        carriers = launch.carried_axes()
        if len(lanes) != 1 or carriers.get(lanes[0]) is not carriers.get(column, column) or lanes[0] is column:
            raise NoAtomError(f"k must run over one lane axis on the threads of {label(column)}, and over registers")
        count = math.prod(extent_or_one(axis) for axis in registers)
        if count % engine.depth:
            raise NoAtomError(f"a lane holds {count} of the elements along k, not a multiple of {engine.depth}")
        return tuple(registers)

    def _rows(self) -> SSAValue:
        """The last register axis of as many rows as a lane holds."""
        for axis in reversed(self.launch.bound_to(Binding.REGISTER)):
            is_row = axis in self.left and axis not in self.right and axis not in self.op.axes
            if is_row and extent_or_one(axis) == self.engine.rows:
                return axis
        raise NoAtomError(f"no register axis of {self.engine.rows} rows is the left factor's alone")

    def _is(self, axis: SSAValue, binding: Binding) -> bool:
        return self.launch.binding(axis) is binding

    def _lacks(self, side: str, found: dict[SSAValue, None], axes: tuple[SSAValue, ...]) -> None:
        for axis in axes:
            if axis in found:
                raise NoAtomError(f"the {side} factor varies along {label(axis)}, where its lanes hold one value")


def narrow_factors(found: Contraction, name: str) -> tuple[Engine, list[tuple[loop.LoadOp, loop.LoadOp]]]:
    """The instruction of an engine for a contraction that is not one of its own yet, and the reads of its factors.

    The reads are pairs, one for each product.

    Raises NoAtomError for factors that are computed, of other types, or not read along k in one dimension.
    """
    k, pairs = found.innermost.iv, [(_read(left), _read(right)) for left, right in found.factors]
    rows = [
        _row(name, pair, result.type, precision_of(product))
        for pair, result, product in zip(pairs, found.reduction.results, found.products, strict=True)
    ]
    for load in (load for pair in pairs for load in pair):
        if load.parent is not found.innermost.body.block:
            raise NoAtomError(f"{label(load.result)} is read outside the loop over {label(k)}")
        along = [form.coefficient(k) for form in subscripts_of(load) if form.depends_on(k)]
        if along != [1]:
            raise NoAtomError(f"{label(k)} does not walk {label(load.source)} along one dimension")
    return rows[0], pairs


def streamed_engine(found: StreamedProduct, name: str) -> Engine:
    """The instruction of an engine for both products of a streaming reduction of products.

    Raises NoAtomError for factors that are computed or of other types, and for weights that may not be rounded to the
    type of what they weigh.
    """
    (product,) = summed_products(found.scores)
    reads, precision = [_read(factor) for factor in factors_of(product)[0]], precision_of(product)
    row = _row(name, reads, found.scores.results[0].type, precision)
    dependence = Dependence()
    for value, by in weighing(found.reduction):
        if found.columns not in dependence.of(value):
            continue
        type = memref_of(_read(value).source).element_type
        if not isinstance(type, AnyFloat) or type.name not in row.factors or value.type != found.scores.results[0].type:
            raise NoAtomError(f"{name} does not multiply weights by {type}")
        if type == f32 and precision_of(by) != precision:
            raise NoAtomError(f"{name} takes products of one precision, not {precision} and {precision_of(by)}")
        if type != f32 and not approximates(by.rhs.owner):
            raise NoAtomError(f"the exponentials are not fastmath<afn>, so weights may not be rounded to {type}")
    return row


def _read(factor: SSAValue) -> loop.LoadOp:
    """The read that gives a factor. Raises NoAtomError where it is computed."""
    if (read := read_of(factor)) is None:
        raise NoAtomError(f"the factor {label(factor)} is computed, not read")
    return read


def _row(name: str, loads: Sequence[loop.LoadOp], result: Attribute, precision: str) -> Engine:
    """The instruction of an engine for factors that are read. Raises NoAtomError where there is none."""
    left, right = (memref_of(load.source).element_type for load in loads)
    found = engine(name, left.name if isinstance(left, AnyFloat) else str(left), precision)
    if found is None and left == right == f32 and precision == HIGHEST:
        raise NoAtomError(f"{name} reads f32 as TF32, which the precision of the product does not allow")
    if found is None or left != right or str(result) != found.result:
        raise NoAtomError(f"{name} does not multiply {left} by {right} to {result}")
    return found


def warp_share(extent: int, wanted: int, atom: int) -> int | None:
    """What a warp takes of an axis of a tile: the most whole instructions, up to `wanted`, that divide its extent.

    None where its extent is no multiple of an instruction.
    """
    sides = range(min(wanted, extent) // atom * atom, 0, -atom)
    return next((side for side in sides if extent % side == 0), None)


def walks_neighbours(load: loop.LoadOp, k: SSAValue) -> bool:
    """Whether neighbours along a coordinate are neighbours in memory."""
    return subscripts_of(load)[-1].depends_on(k)


def _lanes(digit: Digit) -> str:
    """How messages say where an axis must lie."""
    return f"{digit.extent} lanes that are {digit.weight} apart"


def _engine(op: tile.ContractOp) -> Engine:
    """The instruction of a contract. Raises NoAtomError where there is none for its types."""
    name, types = op.engine.data, [op.lhs[0].type, op.rhs[0].type, op.result.type]
    if name not in engine_names():
        raise NoAtomError(f"there is no engine {name}; there are {', '.join(engine_names())}")
    left, right, result = (type.name if isinstance(type, AnyFloat) else str(type) for type in types)
    found = engine(name, left, precision_of(op))
    if found is None or left != right or found.result != result:
        raise NoAtomError(f"{name} does not multiply {left} by {right} to {result}")
    return found
