"""Lowers stores of fragments: neighbouring lanes exchange their pairs, so that each writes 16 bytes.

An engine of products leaves a lane two neighbouring columns of each block of eight, and its quad the other six:

    block        0  0  0  0   1  1  1  1   2 ..          lane t of a quad writes block t whole:
    lane         0  1  2  3   0  1  2  3   0 ..
    columns     01 23 45 67  89 ..

The pairs, a word of 32 bits each, are a square of blocks by lanes, which a butterfly of shuffles transposes: in each
step half of the words change places with those of the lane that differs in one bit. Up to three last blocks stay pairs.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

from xdsl.dialects import arith
from xdsl.dialects.builtin import AnyFloat, IntegerAttr, MemRefType, i16, i32
from xdsl.ir import Attribute, SSAValue
from xdsl.ir.affine import AffineExpr, AffineMap

from deplodock.analysis.access.alignment import address, element_bytes, strides_of
from deplodock.analysis.affine.linear import Linear, extent_or_one
from deplodock.analysis.machine.targets import ACCESS_BYTES, WARP
from deplodock.dialects import kernel, loop
from deplodock.dialects.tile import Binding, Memory, memory_of
from deplodock.passes.kernel.builder import Condition
from deplodock.passes.kernel.emit import Array, Emitter

PAIR = 2
"""The neighbours that a lane holds: two halves make a word, which one shuffle moves."""


@dataclass(frozen=True)
class Exchange:
    """The axes of what lanes exchange: blocks of a lane's registers, lanes of a quad, neighbours of a pair."""

    blocks: SSAValue
    lanes: SSAValue
    pair: SSAValue
    count: int
    """How many blocks change places with as many lanes."""
    weight: int
    """The distance of neighbouring lanes in a warp."""

    @property
    def width(self) -> int:
        """The neighbours that a lane holds after the exchange."""
        return PAIR * self.count

    @property
    def left(self) -> range:
        """The blocks that make no square with the lanes: they stay as they are."""
        extent = extent_or_one(self.blocks)
        return range(extent // self.count * self.count, extent)


def found_exchange(
    emitter: Emitter, destination: SSAValue, forms: Sequence[Linear], conditions: Sequence[Condition], array: Array
) -> Exchange | None:
    """The exchange that makes aligned accesses of 16 bytes of an array's stores in pairs; None where there is none.

    All lanes reach what stands in no loop and no branch. Each condition must hold for all columns of a block or none.
    """
    is_reached = emitter.block is emitter.expanded.body.block and emitter.threads % WARP == 0
    if not array.axes or not is_reached or memory_of(destination) is not None:
        return None
    *others, pair = array.axes
    type = loop.memref_of(destination)
    is_half = isinstance(type.element_type, AnyFloat) and element_bytes(type.element_type) == 2
    if not is_half or emitter.extent(pair) != PAIR or strides_of(type)[-1] != 1:
        return None
    count, weight = ACCESS_BYTES // element_bytes(type.element_type) // PAIR, 1
    for lanes in reversed(emitter.launch.bound_to(Binding.THREAD)):
        for blocks in others:
            found = Exchange(blocks, lanes, pair, count, weight)
            is_square = emitter.extent(lanes) == count <= emitter.extent(blocks)
            if is_square and WARP % (weight * count) == 0 and _fits(found, type, forms, conditions):
                return found
        weight *= emitter.extent(lanes)
    return None


def _fits(
    found: Exchange, type: MemRefType[Attribute], forms: Sequence[Linear], conditions: Sequence[Condition]
) -> bool:
    """Whether columns alone walk the axes of an exchange, and whole blocks are aligned, stored or left out."""
    roots = (found.blocks, found.lanes, found.pair)
    moving = [condition for condition in conditions if any(condition.depends_on(root) for root in roots)]
    if any(form.depends_on(root) for form in forms[:-1] for root in roots):
        return False
    starts = [_start(found, form) for form in (forms[-1], *moving)]
    if any(start is None for start in starts):
        return False
    start, *limits = (start for start in starts if start is not None)
    aligned = [address(type, [*forms[:-1], start]), *limits]
    return all(form.divisor() % found.width == 0 for form in aligned)


def _start(found: Exchange, form: Linear) -> Linear | None:
    """Where a block starts in a form that walks its columns one by one; None for other forms."""
    walked = Linear.of(found.lanes, PAIR) + Linear.of(found.pair) + Linear.of(found.blocks, found.width)
    rest = form - walked
    if any(rest.depends_on(root) for root in (found.blocks, found.lanes, found.pair)):
        return None
    return rest + Linear.of(found.blocks, found.width)


@contextmanager
def exchanged(
    emitter: Emitter, array: Array, found: Exchange
) -> Generator[tuple[SSAValue, Callable[[Linear], Linear]]]:
    """Emit the exchange of an array's pairs, into a nest where a lane holds a whole block.

    Gives the register buffer of that block, and what takes a form to its value at the first element.
    """
    element = loop.memref_of(array.buffer).element_type
    bits = [1 << bit for bit in range(found.count.bit_length() - 1)]
    is_high = {bit: _has_bit(emitter, found.lanes, bit) for bit in bits}
    outer = emitter.block
    with emitter.nest([axis for axis in array.axes if axis not in (found.blocks, found.pair)]):
        first = Linear()
        if (groups := emitter.extent(found.blocks) // found.count) > 1:
            first = Linear.of(emitter.enter_loop(groups, found.blocks.name_hint), found.count)
        words = [_packed(emitter, array, found, first + block) for block in range(found.count)]
        for bit in bits:
            _swap(emitter, words, bit, is_high[bit], found.weight)
        vector = emitter.allocate(element, [found.width], Memory.REGISTER, "vector")
        for place, word in enumerate(words):
            for half, value in enumerate(_halves(emitter, word, element)):
                at = AffineMap(0, 0, (AffineExpr.constant(PAIR * place + half),))
                emitter.run(loop.StoreOp(value, vector, at, []))
        yield vector, _at_block(found, first)
    emitter.block = outer


def _at_block(found: Exchange, first: Linear) -> Callable[[Linear], Linear]:
    """What takes a form to its value at the first column of the block that a lane writes."""

    def at(form: Linear) -> Linear:
        form = form.substitute(found.lanes, Linear()).substitute(found.pair, Linear())
        return form.substitute(found.blocks, first + Linear.of(found.lanes))

    return at


def _has_bit(emitter: Emitter, lanes: SSAValue, bit: int) -> SSAValue:
    """Whether the number of this thread along an axis has a bit."""
    map, indices = emitter.condition_map([-(Linear.of(lanes) // bit % 2)])
    return emitter.add(loop.InsideOp(map, indices), "high")


def _swap(emitter: Emitter, words: list[SSAValue], bit: int, is_high: SSAValue, weight: int) -> None:
    """Let words whose numbers differ in a bit change places with those of the lane that differs in it."""
    for low in (number for number in range(len(words)) if not number & bit):
        one, other = words[low], words[low | bit]
        sent = emitter.add(arith.SelectOp(is_high, one, other))
        taken = emitter.add(kernel.ShuffleXorOp(sent, bit * weight))
        words[low] = emitter.add(arith.SelectOp(is_high, taken, one))
        words[low | bit] = emitter.add(arith.SelectOp(is_high, other, taken))


def _packed(emitter: Emitter, array: Array, found: Exchange, block: Linear) -> SSAValue:
    """The two neighbours of a block that this lane holds, as a word whose low half is the first."""
    halves: list[SSAValue] = []
    for half in range(PAIR):
        places = {found.blocks: block, found.pair: Linear(constant=half)}
        forms = [places.get(axis, Linear.of(axis)) for axis in array.axes]
        value = emitter.add(loop.LoadOp(array.buffer, *emitter.map(forms)))
        halves.append(emitter.add(arith.ExtUIOp(emitter.add(arith.BitcastOp(value, i16)), i32)))
    shifted = emitter.add(arith.ShLIOp(halves[1], emitter.literal(IntegerAttr(16, i32))))
    return emitter.add(arith.OrIOp(halves[0], shifted))


def _halves(emitter: Emitter, word: SSAValue, element: Attribute) -> list[SSAValue]:
    """The elements of a word."""
    shifted = emitter.add(arith.ShRUIOp(word, emitter.literal(IntegerAttr(16, i32))))
    halves = [emitter.add(arith.TruncIOp(value, i16)) for value in (word, shifted)]
    return [emitter.add(arith.BitcastOp(half, element)) for half in halves]
