"""How an engine's instruction runs a contract: which axes of the launch are the digits of its rows, columns and k.

`dialects/engines.py` has the layouts of instructions. An axis of threads is a digit by its place in the number of a
thread; one of registers by its step in the form at which the contract takes a coordinate, or by what the factors vary
along.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from xdsl.dialects.builtin import AnyFloat, f32
from xdsl.ir import Attribute, SSAValue

from deplodock.analysis.affine.linear import Linear, equal, extent_or_one, forms_of, known_points, subscripts_of
from deplodock.analysis.operations import ancestors, label
from deplodock.analysis.shape.dependence import Dependence, carried, place_among_threads, wheres, without
from deplodock.analysis.shape.roles import Contraction, factors_of, read_of, summed_products
from deplodock.analysis.shape.streaming import StreamedProduct, approximates, weighing
from deplodock.dialects import loop, tile
from deplodock.dialects.engines import Digit, Engine, Layout, engine, engine_names, points, reads_slabs
from deplodock.dialects.kernel.wgmma import columns_of
from deplodock.dialects.loop import memref_of
from deplodock.dialects.math_ext import WithLowPartOp
from deplodock.dialects.precision import HIGHEST, MEDIUM, precision_of
from deplodock.dialects.tile import Binding
from deplodock.errors import Error

Axes: TypeAlias = dict[str, SSAValue]
"""The axes that are the digits of a coordinate, by letter; `j` is that of blocks, where there are several."""


class NoAtomError(Error):
    """A contract that its engine cannot run, for the reason in the text."""


@dataclass(frozen=True)
class Atom:
    """The axes of a launch that an instruction of a contract takes whole, or in steps."""

    engine: Engine
    rows: Axes
    columns: Axes
    """Of the result."""
    depth: tuple[SSAValue, ...]
    """The register axes along k of a left factor that threads hold, of one instruction after the other."""
    moved: SSAValue
    """The axis of the right factor's columns: a lane axis, or one that the engine walks."""
    along: SSAValue | None = None
    """The axis of k that the engine walks."""

    @property
    def steps(self) -> int:
        """The instructions along k."""
        held = known_points(self.depth) // self.engine.depth
        return held if self.along is None else extent_or_one(self.along) // self.engine.k

    @property
    def tile(self) -> list[SSAValue]:
        """The register axes of what a thread holds of the result, in the order of an instruction's sums."""
        return [axis for axis in (self.columns.get("j"), self.rows["h"], self.columns["r"]) if axis is not None]


def atom_of(launch: tile.LaunchOp, op: tile.ContractOp, dependence: Dependence) -> Atom:
    """The axes that an instruction of a contract's engine runs.

    Raises NoAtomError where the factors or the result do not lie where the engine wants them.
    """
    row = _engine(op)
    threads = known_points(launch.bound_to(Binding.THREAD))
    if threads % row.threads:
        raise NoAtomError(f"{row.name} takes whole {row.team}s, and the launch has {threads} threads")
    return (_of_slabs if row.reads_slabs else _of_lanes)(launch, op, row, dependence)


def _of_lanes(launch: tile.LaunchOp, op: tile.ContractOp, row: Engine, dependence: Dependence) -> Atom:
    """The axes of an instruction whose factors threads hold."""
    _check_whole(launch, op, row, dependence, op.axes)
    moved = op.moved[0] if len(op.moved) == 1 else None
    if moved is None or moved not in launch.carried_axes() or not _is_digit(launch, moved, row.row):
        raise NoAtomError(f"the right factor's columns must be taken `at` one lane axis, {_lanes(row.row)}")
    (form,) = forms_of(op.places.data, op.place_axes)
    if (columns := digits_of(launch, form, row.columns)) is None:
        raise NoAtomError(
            f"the columns must be taken at `thread * {row.column.step} + register` for a thread axis, "
            f"{_lanes(row.column)}, and a register axis of {row.held[1]} columns"
        )
    depth = _depth(launch, op, row, columns["t"])
    left, right = dependence.of(*op.lhs), dependence.of(*op.rhs)
    rows = _rows(launch, row, without(left, {*right, *op.axes}))
    _check_lacks("left", left, (moved, *columns.values()))
    _check_lacks("right", right, (*rows.values(), *columns.values()))
    return Atom(row, rows, columns, depth, moved)


def _of_slabs(launch: tile.LaunchOp, op: tile.ContractOp, row: Engine, dependence: Dependence) -> Atom:
    """The axes of an instruction that reads the right factor, and the left one that no thread holds, from slabs."""
    is_held = all(launch.binding(axis) is not Binding.ENGINE for axis in op.axes)
    for factor in op.rhs:
        _check_slab(launch, factor, row)
    if not is_held:
        if len(op.pairs) != 1:
            raise NoAtomError(f"{row.name} adds one pair of factors from slabs, got {len(op.pairs)}")
        _check_slab(launch, op.lhs[0], row)
    along, moved = _walked(launch, op, is_held)
    if (extent := extent_or_one(along)) % row.k:
        raise NoAtomError(f"{label(along)} has {extent} elements along k, not a multiple of {row.k}")
    if (extent := extent_or_one(moved)) not in columns_of(op.lhs[0].type):
        raise NoAtomError(f"{label(moved)} has {extent} columns, not a multiple of 8 up to 256")
    _check_whole(launch, op, row, dependence, (*op.axes, *op.moved))
    columns = _blocks(launch, op, moved, row.columns)
    depth = [axis for letter, axis in _blocks(launch, op, along, row.along).items() if letter != "t"] if is_held else []
    rows = _rows(launch, row, without(dependence.of(op.lhs[0]), set(op.axes)))
    varying = dependence.of(*op.rhs)
    for axis in (*launch.bound_to(Binding.THREAD), rows["h"]):
        if axis in varying and extent_or_one(axis) > 1:
            raise NoAtomError(f"the right factor varies along {label(axis)}, where a {row.team} reads one tile")
    return Atom(row, rows, columns, tuple(depth), moved, along)


def column_axis(op: tile.ContractOp) -> SSAValue:
    """The axis of a contract's right factor that is a column of the result: its place is over no folded axis."""
    places = zip(op.moved, forms_of(op.places.data, op.place_axes), strict=True)
    return next(axis for axis, form in places if not set(form.roots()) & set(op.axes))


def slab_read(factor: SSAValue) -> loop.LoadOp | None:
    """The read of a factor, or of the leading part of one whose low part is stored; None if it is computed."""
    read = factor.owner.value.owner if isinstance(factor.owner, WithLowPartOp) else factor.owner
    return read if isinstance(read, loop.LoadOp) else None


def digits_of(launch: tile.LaunchOp, form: Linear, layout: Layout, block: int = 0) -> Axes | None:
    """The axes of a launch that make a form a coordinate of a layout, or of blocks of it, if they have a size."""
    found: Axes = {}
    for digit in layout:
        fitting = (axis for axis in form.roots() if form.coefficient(axis) == digit.step)
        if (axis := next((axis for axis in fitting if _is_digit(launch, axis, digit)), None)) is None:
            return None
        found[digit.letter], form = axis, form - Linear.of(axis, digit.step)
    for axis in form.roots() if block else ():
        if equal(form, Linear.of(axis, block)) and axis in launch.bound_to(Binding.REGISTER):
            return {**found, "j": axis}
    return found if equal(form, Linear()) else None


def _is_digit(launch: tile.LaunchOp, axis: SSAValue, digit: Digit) -> bool:
    """Whether an axis is a digit: of threads, itself or by its carrier, or of registers."""
    if digit.weight is not None:
        return place_among_threads(launch, axis) == (digit.weight, digit.extent)
    return axis in launch.bound_to(Binding.REGISTER) and extent_or_one(axis) == digit.extent


def _thread(launch: tile.LaunchOp, digit: Digit, what: str) -> SSAValue:
    """The thread axis that is a digit of a thread's number."""
    for axis in launch.bound_to(Binding.THREAD):
        if _is_digit(launch, axis, digit):
            return axis
    raise NoAtomError(f"no thread axis of {digit.extent} {what} is {digit.weight} threads apart")


def _rows(launch: tile.LaunchOp, row: Engine, varying: Collection[SSAValue]) -> Axes:
    """The axes of rows: those of threads, and the last one of registers that fits; the left factor varies along it."""
    found: Axes = {}
    for digit in row.rows:
        if digit.weight is not None:
            found[digit.letter] = _thread(launch, digit, "rows of a warp" if digit == row.row else "warps")
            continue
        held = [axis for axis in launch.bound_to(Binding.REGISTER) if axis in varying]
        held = [axis for axis in held if _is_digit(launch, axis, digit)] if not row.reads_slabs else held[-1:]
        if not held or not _is_digit(launch, held[-1], digit):
            alone = "" if row.reads_slabs else " alone"
            raise NoAtomError(f"no register axis of {digit.extent} rows is the left factor's{alone}")
        found[digit.letter] = held[-1]
    return found


def _depth(launch: tile.LaunchOp, op: tile.ContractOp, row: Engine, column: SSAValue) -> tuple[SSAValue, ...]:
    """The register axes of k; the other axis of k is one of the lanes of the columns."""
    registers = [axis for axis in launch.bound_to(Binding.REGISTER) if axis in op.axes]
    lanes = [axis for axis in op.axes if axis not in registers]
    carriers = launch.carried_axes()
    if len(lanes) != 1 or carriers.get(lanes[0]) is not carriers.get(column, column) or lanes[0] is column:
        raise NoAtomError(f"k must run over one lane axis on the threads of {label(column)}, and over registers")
    if (count := known_points(registers)) % row.depth:
        raise NoAtomError(f"a lane holds {count} of the elements along k, not a multiple of {row.depth}")
    return tuple(registers)


def _walked(launch: tile.LaunchOp, op: tile.ContractOp, is_held: bool) -> tuple[SSAValue, SSAValue]:
    """The axes of k and of the right factor's columns that the engine walks."""
    if any(launch.binding(axis) is not Binding.ENGINE for axis in op.moved):
        raise NoAtomError("the right factor must be taken `at` engine axes")
    if not is_held:
        if len(op.axes) != 1 or len(op.moved) != 1:
            raise NoAtomError("k and the right factor's columns must be one engine axis each")
        return op.axes[0], op.moved[0]
    places = zip(op.moved, forms_of(op.places.data, op.place_axes), strict=True)
    along = [axis for axis, form in places if set(form.roots()) == set(op.axes)]
    if len(op.moved) != 2 or len(along) != 1:
        raise NoAtomError(
            "where threads hold the left factor, the right one must be taken `at` two engine axes: k, over the axes "
            "that are folded, and its columns"
        )
    return along[0], next(axis for axis in op.moved if axis is not along[0])


def _blocks(launch: tile.LaunchOp, op: tile.ContractOp, walked: SSAValue, layout: Layout) -> Axes:
    """The axes of the place at which an axis that the engine walks is taken: one or more blocks of a layout."""
    is_pairs, size = len(layout) > 1, points(layout)
    _thread(launch, layout[0], "pairs of columns" if is_pairs else "k")
    form = carried(launch, forms_of(op.places.data, op.place_axes)[list(op.moved).index(walked)])
    found = digits_of(launch, form, layout, size)
    if found is None or size * known_points([found["j"]] if "j" in found else []) != extent_or_one(walked):
        place = "thread * 2 + pair`, block and pair registers" if is_pairs else "thread`, block a register"
        raise NoAtomError(f"{label(walked)} must be taken at `block * {size} + {place}")
    return found


def _check_lacks(side: str, varying: Collection[SSAValue], axes: Iterable[SSAValue]) -> None:
    """Raises NoAtomError for a factor that varies along an axis of which its lanes hold one value."""
    for axis in axes:
        if axis in varying:
            raise NoAtomError(f"the {side} factor varies along {label(axis)}, where its lanes hold one value")


def _check_slab(launch: tile.LaunchOp, factor: SSAValue, row: Engine) -> None:
    """Raises NoAtomError for a factor that is not read in the launch."""
    if (read := slab_read(factor)) is None or not launch.is_ancestor(read):
        raise NoAtomError(f"the factor {label(factor)} is computed, and {row.name} reads slabs")


def _check_whole(
    launch: tile.LaunchOp, op: tile.ContractOp, row: Engine, dependence: Dependence, axes: Sequence[SSAValue]
) -> None:
    """Raises NoAtomError where some points of a product do not count, or not all threads of a team reach it."""
    around = [each for each in ancestors(op, below=launch) if isinstance(each, loop.LoopLike)]
    limits = [where for each in (*around, launch) for where in wheres(each.body.block)]
    limited = dependence.of(*(value for where in limits for value in where.indices))
    bounds = dependence.of(*(value for each in around for value in each.bound_operands))
    for axis in launch.axes:
        if axis in bounds and axis not in launch.ctas:
            raise NoAtomError(f"the bound of a loop around it varies along {label(axis)}; a {row.team} runs it as one")
    for axis in axes:
        if axis in limited:
            raise NoAtomError(f"it adds the products of all points along {label(axis)}, which a loop.where limits")


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
    found = engine(name, left, MEDIUM if reads_slabs(name) else precision_of(op))
    if found is None or left != right or found.result != result:
        raise NoAtomError(f"{name} does not multiply {left} by {right} to {result}")
    return found
