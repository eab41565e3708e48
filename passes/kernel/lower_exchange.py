"""Lowers accesses of fragments: neighbouring lanes exchange their pairs, so that each reads or writes 16 bytes.

An engine of products leaves a lane two neighbouring columns of each block of eight, and its quad the other six:

    block        0  0  0  0   1  1  1  1   2 ..          lane t of a quad writes block t whole:
    lane         0  1  2  3   0  1  2  3   0 ..
    columns     01 23 45 67  89 ..

The pairs, a word of 32 bits each, are a square of blocks by lanes, which a butterfly of shuffles transposes: in each
step half of the words change places with those of the lane that differs in one bit. Up to three last blocks stay pairs.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

from xdsl.dialects import arith
from xdsl.dialects.builtin import AnyFloat, IntegerAttr, MemRefType, i16, i32
from xdsl.ir import Attribute, Operation, SSAValue

from deplodock.analysis.access.alignment import address, element_bytes, strides_of
from deplodock.analysis.affine.linear import Linear, constant_place, extent_or_one, form_of_value
from deplodock.analysis.machine.targets import ACCESS_BYTES, WARP
from deplodock.analysis.shape.dependence import thread_strides
from deplodock.dialects import kernel, loop
from deplodock.dialects.interfaces import GivesUniform
from deplodock.dialects.kernel.ldmatrix import PAIR
from deplodock.dialects.tile import Memory, memory_of
from deplodock.passes.kernel.builder import Condition
from deplodock.passes.kernel.emit import Array, Emitter, Place


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
    emitter: Emitter, buffer: SSAValue, forms: Sequence[Linear], conditions: Sequence[Condition], array: Array
) -> Exchange | None:
    """The exchange that makes aligned accesses of 16 bytes of an array's accesses in pairs; None where there is none.

    Each condition must hold for all columns of a block or none, and other quads of a warp must walk other rows: what
    they share, as a bias, is one sector anyway.
    """
    if not array.axes or memory_of(buffer) is not None or not _is_reached(emitter):
        return None
    *others, pair = array.axes
    type = loop.memref_of(buffer)
    is_half = isinstance(type.element_type, AnyFloat) and element_bytes(type.element_type) == 2
    if not is_half or emitter.extent(pair) != PAIR or strides_of(type)[-1] != 1:
        return None
    count, weights = ACCESS_BYTES // element_bytes(type.element_type) // PAIR, thread_strides(emitter.launch)
    walked = [root for form in forms for root in form.roots()]
    for lanes in weights:
        is_alone = not any(axis in walked for axis in weights if axis is not lanes and weights[axis] < WARP)
        if is_alone or emitter.extent(lanes) != count or WARP % (weights[lanes] * count):
            continue
        for blocks in others:
            found = Exchange(blocks, lanes, pair, count, weights[lanes])
            if emitter.extent(blocks) >= count and _fits(found, type, forms, conditions):
                return found
    return None


def _is_reached(emitter: Emitter) -> bool:
    """Whether whole warps are here: in no branch and no loop but those that a CTA runs as one."""
    around = emitter.block.parent_op()
    while isinstance(around, loop.GuardOp | loop.ForOp) and _is_run_as_one(emitter, around):
        around = around.parent_op()
    return around is emitter.expanded and emitter.threads % WARP == 0


def _is_run_as_one(emitter: Emitter, around: loop.GuardOp | loop.ForOp) -> bool:
    """Whether a branch is taken by all threads of a CTA or none, or a loop stays one that all run equally often."""
    if isinstance(around, loop.GuardOp):
        return all(_is_uniform(emitter, index) for index in around.indices)
    return not around.unroll and around.trips is not None


def _is_uniform(emitter: Emitter, index: SSAValue) -> bool:
    """Whether an index is the same in all threads of a CTA: of CTAs, loops, and what one operation gives to all."""
    return all(
        root in emitter.expanded.ctas
        or (isinstance(root.owner, Operation) and root.owner.has_trait(GivesUniform))
        or (isinstance(around := root.owner.parent_op(), loop.ForOp) and _is_run_as_one(emitter, around))
        for root in form_of_value(index).roots()
    )


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
    emitter: Emitter, array: Array, found: Exchange, *, reads: bool = False
) -> Generator[tuple[SSAValue, Callable[[Linear], Linear]]]:
    """Emit the exchange of an array's pairs, into a nest where a lane holds a whole block.

    Gives the register buffer of that block, and what takes a form to its value at the first element. Where the caller
    `reads` memory, it fills that buffer, and the array has its pairs behind it.
    """
    is_high = {1 << bit: _has_bit(emitter, found.lanes, 1 << bit) for bit in range(found.count.bit_length() - 1)}
    outer = emitter.block
    with emitter.nest([axis for axis in array.axes if axis not in (found.blocks, found.pair)]):
        first = Linear()
        if (groups := emitter.extent(found.blocks) // found.count) > 1:
            first = Linear.of(emitter.enter_loop(groups, found.blocks.name_hint), found.count)
        element = loop.memref_of(array.buffer).element_type
        vector = emitter.allocate(element, [found.width], Memory.REGISTER, "vector")
        pairs = [_pair_of(emitter, array, found, first + block) for block in range(found.count)]
        held = [(vector, *constant_place(number)) for number in range(PAIR * found.count)]
        block = [held[at : at + PAIR] for at in range(0, len(held), PAIR)]
        if not reads:
            _transpose(emitter, pairs, block, is_high, found.weight)
        yield vector, _at_block(found, first)
        if reads:
            _transpose(emitter, block, pairs, is_high, found.weight)
    emitter.block = outer


def _pair_of(emitter: Emitter, array: Array, found: Exchange, block: Linear) -> list[Place]:
    """Where this lane holds its two neighbours of a block."""
    halves: list[dict[SSAValue, Linear]] = [
        {found.blocks: block, found.pair: Linear(constant=half)} for half in range(PAIR)
    ]
    return [
        (array.buffer, *emitter.map([places.get(axis, Linear.of(axis)) for axis in array.axes])) for places in halves
    ]


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


def _transpose(
    emitter: Emitter,
    taken: Sequence[Sequence[Place]],
    given: Sequence[Sequence[Place]],
    is_high: Mapping[int, SSAValue],
    weight: int,
) -> None:
    """Move pairs from places to places, in a butterfly: the number of a word changes place with that of its lane.

    `is_high` says which lanes have a bit, `weight` is the distance of lanes that differ in the lowest one.
    """
    words = [_packed(emitter, [emitter.add(loop.LoadOp(*place)) for place in pair]) for pair in taken]
    for bit, high in is_high.items():
        for low in (number for number in range(len(words)) if not number & bit):
            one, other = words[low], words[low | bit]
            sent = emitter.add(arith.SelectOp(high, one, other))
            swapped = emitter.add(kernel.ShuffleXorOp(sent, bit * weight))
            words[low] = emitter.add(arith.SelectOp(high, swapped, one))
            words[low | bit] = emitter.add(arith.SelectOp(high, other, swapped))
    for word, pair in zip(words, given, strict=True):
        element = loop.memref_of(pair[0][0]).element_type
        for value, place in zip(_halves(emitter, word, element), pair, strict=True):
            emitter.run(loop.StoreOp(value, *place))


def _packed(emitter: Emitter, pair: Sequence[SSAValue]) -> SSAValue:
    """Two halves as a word, the first one low."""
    low, high = (emitter.add(arith.ExtUIOp(emitter.add(arith.BitcastOp(half, i16)), i32)) for half in pair)
    return emitter.add(arith.OrIOp(low, emitter.add(arith.ShLIOp(high, emitter.literal(IntegerAttr(16, i32))))))


def _halves(emitter: Emitter, word: SSAValue, element: Attribute) -> list[SSAValue]:
    """The halves of a word, the low one first."""
    shifted = emitter.add(arith.ShRUIOp(word, emitter.literal(IntegerAttr(16, i32))))
    halves = [emitter.add(arith.TruncIOp(value, i16)) for value in (word, shifted)]
    return [emitter.add(arith.BitcastOp(half, element)) for half in halves]
