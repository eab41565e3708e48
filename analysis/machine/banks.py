"""Bank conflicts of shared memory: the wavefronts that accesses take, from the linear forms of their addresses.

Shared memory has 32 banks of 4 bytes; a wavefront serves one word of each. The 32 lanes of a warp access
together, those of an 8-byte access half a warp at a time and those of a 16-byte access a quarter; lanes that touch one
word share it.
That is how NVIDIA GPUs are observed to behave, and what the simulator counts; no document guarantees it.

Wavefronts depend only on where lanes are from each other. So coordinates that are the same for all lanes are taken at
0, unless they meet those of lanes in a quotient, a remainder or a condition.
"""

from __future__ import annotations

import itertools
import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from itertools import takewhile

from xdsl.dialects.builtin import MemRefType
from xdsl.ir import Attribute, Operation, SSAValue

from deplodock.analysis.access.alignment import element_bytes, lanes_along, strides_of
from deplodock.analysis.access.slabs import Slab, slab_of, stand_in, stand_in_buffer
from deplodock.analysis.affine.division import Division
from deplodock.analysis.affine.linear import (
    Linear,
    condition_forms,
    extent_or_one,
    forms_of,
    known_points,
    subscripts_of,
    value_range,
)
from deplodock.analysis.machine.targets import ACCESS_BYTES, BANK_BYTES, BANKS, WARP
from deplodock.analysis.operations import ancestors
from deplodock.analysis.shape.dependence import Dependence, carried
from deplodock.dialects import kernel, loop, tile
from deplodock.dialects.buffers import LINE_BYTES, last_dimension
from deplodock.dialects.interfaces import accesses_of
from deplodock.dialects.tile import Binding, Memory

SAMPLES = 16
"""The most values of the coordinates shared by all lanes that are looked at, where they matter."""

Column = Sequence[int]
"""A value for each lane."""


@dataclass(frozen=True)
class Wavefronts:
    """The wavefronts that accesses take, and the fewest possible for as many lanes at once."""

    needed: int = 0
    ideal: int = 0

    def __add__(self, other: Wavefronts) -> Wavefronts:
        return Wavefronts(self.needed + other.needed, self.ideal + other.ideal)

    def __mul__(self, times: int) -> Wavefronts:
        return Wavefronts(self.needed * times, self.ideal * times)

    @property
    def has_conflicts(self) -> bool:
        """Whether some bank is to serve more than one word at once."""
        return self.needed > self.ideal

    def __str__(self) -> str:
        return f"{self.needed} wavefronts of {self.ideal} ideal"


@dataclass(frozen=True)
class Lanes:
    """Who accesses a buffer, and where.

    `threads`: the coordinates whose mixed radix number, the last fastest, is that of a thread in its CTA. `subscripts`:
    the element it accesses. `conditions`: forms below 0 where it takes part. `repeats`: the other coordinates for whose
    values all of this is done.
    """

    threads: tuple[SSAValue, ...]
    subscripts: tuple[Linear, ...]
    conditions: tuple[Linear, ...] = ()
    repeats: tuple[SSAValue, ...] = ()

    def wavefronts(self, type: MemRefType[Attribute], width: int) -> Wavefronts | None:
        """The wavefronts of accesses of `width` elements of a buffer of this type by all warps of a CTA.

        Where lanes differ along with `repeats`, the first `SAMPLES` of their values stand for all. None where
        subscripts or conditions are read from memory, or a coordinate has no known range.
        """
        size = element_bytes(type.element_type)
        if any(value_range(root) is None for root in (*self._roots(), *self.threads, *self.repeats)):
            return None
        combinations = self._combinations(every=size % BANK_BYTES != 0)
        total = Wavefronts()
        for columns in combinations:
            lanes = self._addresses(type, columns)
            for first in range(0, len(lanes), WARP):
                total += warp_wavefronts(lanes[first : first + WARP], width * size)
        times = math.prod(_values(root) for root in self.repeats)
        return Wavefronts(total.needed * times // len(combinations), total.ideal * times // len(combinations))

    def _addresses(self, type: MemRefType[Attribute], columns: Mapping[SSAValue, Column]) -> list[int | None]:
        """The byte address of each thread, None where it takes no part."""
        size, offset = element_bytes(type.element_type), type.get_offset() or 0
        count = math.prod(_values(root) for root in self.threads)
        address = [offset * size] * count
        for form, stride in zip(self.subscripts, strides_of(type), strict=True):
            column = _column(form, columns, count)
            address = [sum + value * stride * size for sum, value in zip(address, column, strict=True)]
        if isinstance(swizzle := type.layout, tile.SwizzleAttr):
            address = [byte ^ swizzle.flips(byte // LINE_BYTES) for byte in address]
        lanes: list[int | None] = list(address)
        for condition in self.conditions:
            column = _column(condition, columns, count)
            lanes = [None if value >= 0 else lane for lane, value in zip(lanes, column, strict=True)]
        return lanes

    def _combinations(self, every: bool) -> list[Mapping[SSAValue, Column]]:
        """The values of coordinates at each thread, for each combination of the repeats that matter, or of all."""
        columns: dict[SSAValue, Column] = {}
        count, stride = math.prod(_values(root) for root in self.threads), 1
        for root in reversed(self.threads):
            extent = _values(root)
            columns[root] = [number // stride % extent for number in range(count)]
            stride *= extent
        matter = self._repeats_that_matter(every)
        combinations = itertools.product(*(range(_values(root)) for root in matter))
        return [
            columns | {root: [value] * count for root, value in zip(matter, values, strict=True)}
            for values in itertools.islice(combinations, SAMPLES)
        ]

    def _repeats_that_matter(self, every: bool) -> list[SSAValue]:
        """The repeats that share a quotient, a remainder or a condition with a thread coordinate, or all."""
        groups = [list(form.roots()) for form in self.conditions]
        for form in self.subscripts:
            groups += [list(atom.form.roots()) for atom, _ in form.terms if isinstance(atom, Division)]
        met = {root for group in groups if not set(group).isdisjoint(self.threads) for root in group}
        return [root for root in self.repeats if every or root in met]

    def _roots(self) -> list[SSAValue]:
        return [root for form in (*self.subscripts, *self.conditions) for root in form.roots()]


def warp_wavefronts(lanes: Sequence[int | None], bytes: int) -> Wavefronts:
    """The wavefronts of an access of `bytes` by the lanes of a warp, from their byte addresses; None takes no part."""
    start = min((address for address in lanes if address is not None), default=0) // ACCESS_BYTES * ACCESS_BYTES
    return _warp_wavefronts(tuple(None if address is None else address - start for address in lanes), bytes)


@lru_cache(maxsize=1 << 12)
def _warp_wavefronts(lanes: tuple[int | None, ...], bytes: int) -> Wavefronts:
    total = Wavefronts()
    for start in range(0, bytes, ACCESS_BYTES):
        piece = min(bytes - start, ACCESS_BYTES)
        together = min(WARP, WARP * BANK_BYTES // piece)
        for first in range(0, len(lanes), together):
            served = [address + start for address in lanes[first : first + together] if address is not None]
            words = {(address + part) // BANK_BYTES for address in served for part in range(0, piece, BANK_BYTES)}
            banks = Counter(word % BANKS for word in words)
            total += Wavefronts(max(banks.values(), default=0), int(bool(served)))
    return total


def _values(root: SSAValue) -> int:
    """The number of values of a coordinate."""
    bounds = value_range(root)
    assert bounds is not None
    return bounds[1] + 1


def _column(form: Linear, columns: Mapping[SSAValue, Column], count: int) -> Column:
    """The `count` values of a form, where coordinates that have no column are 0."""
    result = [form.constant] * count
    for atom, coefficient in form.terms:
        if isinstance(atom, Division):
            inner, divisor = _column(atom.form, columns, count), atom.divisor
            part = [value % divisor for value in inner] if atom.remainder else [value // divisor for value in inner]
        elif atom in columns:
            part = columns[atom]
        else:
            continue
        result = [sum + value * coefficient for sum, value in zip(result, part, strict=True)]
    return result


class SlabBanks:
    """The wavefronts of a shared slab of a launch: of the copies that fill it once, and of its readers until then."""

    def __init__(self, launch: tile.LaunchOp, stage: tile.StageOp) -> None:
        self._stage = stage
        self._launch = launch
        self._threads = tuple(launch.bound_to(Binding.THREAD))
        self._registers = tuple(launch.bound_to(Binding.REGISTER))
        self._dependence = Dependence()
        self._slabs: dict[MemRefType[Attribute], Slab] = {}
        self._readers = [use.operation for use in stage.slab.uses if isinstance(use.operation, loop.LoadOp)]

    def total(self, type: MemRefType[Attribute]) -> Wavefronts:
        """The wavefronts of all accesses if the slab had this type; those that cannot be told are left out."""
        return sum((self.reading(load, type) for load in self._readers), self.filling(type))

    def widths(self, type: MemRefType[Attribute]) -> tuple[int, ...]:
        """The elements that the copies, then each reader would take at once."""
        return (self._slab(type).copy_width, *(len(self._vector(load, type)[1]) for load in self._readers))

    def filling(self, type: MemRefType[Attribute]) -> Wavefronts:
        """The wavefronts of the copies that fill the slab once; boxes take none of the threads'."""
        if self._stage.is_tma:
            return Wavefronts()
        slab = self._slab(type)
        threads = slab.copiers(known_points(self._threads))
        copies = slab.copies(threads)
        if not copies:
            return Wavefronts()
        number, thread, trip = stand_in(copies), stand_in(threads), stand_in(-(-copies // threads))
        flat = Linear(((trip, threads), (thread, 1)))
        coordinates = slab.coordinates(Linear.of(number), threads)
        subscripts = [form.substitute(number, flat) for form in coordinates]
        beyond = (
            *((flat - copies,) if copies % threads else ()),
            *(end.substitute(number, flat) for end in slab.ends(coordinates)),
        )
        return Lanes((thread,), tuple(subscripts), beyond, (trip,)).wavefronts(type, slab.copy_width) or Wavefronts()

    def reading(self, load: loop.LoadOp, type: MemRefType[Attribute]) -> Wavefronts:
        """The wavefronts of a reader while the slab holds the same elements; none where they cannot be told."""
        along, places = self._vector(load, type)
        width = len(places)
        subscripts = [carried(self._launch, form) for form in subscripts_of(load)]
        repeats = [*self._registers_of(load), *self._loops_around(load)]
        if along is not None:
            step = stand_in(extent_or_one(along) // width)
            subscripts = [form.substitute(along, Linear.of(step, width)) for form in subscripts]
            subscripts[last_dimension(type)] = subscripts[last_dimension(type)] - places[0]
            repeats = [step if root is along else root for root in repeats]
        lanes = Lanes(self._threads, tuple(subscripts), repeats=tuple(repeats))
        return lanes.wavefronts(type, width) or Wavefronts()

    def _slab(self, type: MemRefType[Attribute]) -> Slab:
        """The slab as it would be copied to a buffer of this type."""
        if type not in self._slabs:
            slab = slab_of(self._stage)
            self._slabs[type] = replace(slab, destination=stand_in_buffer(type), shape=type.get_shape())
        return self._slabs[type]

    def _vector(self, load: loop.LoadOp, type: MemRefType[Attribute]) -> tuple[SSAValue | None, tuple[int, ...]]:
        """The coordinate along which a reader takes several elements at once, and their places in the access."""
        forms = subscripts_of(load)
        around = load.parent_op()
        if isinstance(around, loop.ReduceOp) and around.unroll and around.trips is not None:
            lanes = lanes_along(type, forms, around.iv, around.trips)
            if len(lanes) == around.trips > 1:
                return around.iv, lanes
        for axis in reversed(self._registers_of(load)):
            if len(lanes := lanes_along(type, forms, axis, extent_or_one(axis))) > 1:
                return axis, lanes
        return None, (0,)

    def _registers_of(self, load: loop.LoadOp) -> list[SSAValue]:
        found = self._dependence.of(load.result)
        return [axis for axis in self._registers if axis in found]

    def _loops_around(self, load: loop.LoadOp) -> list[SSAValue]:
        """The variables of the loops between the stage and a reader."""
        inside = takewhile(lambda around: not around.is_ancestor(self._stage), ancestors(load))
        return [around.iv for around in inside if isinstance(around, loop.LoopLike)]


def kernel_wavefronts(function: kernel.FuncOp) -> dict[Operation, Wavefronts]:
    """The wavefronts of each access of shared memory in a kernel, over all its CTAs; those that can be told.

    An operation that reads and writes shared memory has those of both. Copies of boxes and reads of other CTAs' memory
    are left out.
    """
    found: dict[Operation, Wavefronts] = {}
    for op in function.body.walk():
        for access in accesses_of(op):
            if access.memory is not Memory.SHARED or access.by_proxy or access.rank is not None:
                continue
            around, guards = _context(op, function)
            conditions = () if access.where is None else condition_forms(*access.where)
            forms = tuple(forms_of(access.map, access.indices))
            lanes = Lanes((kernel.team_of(op).thread_id,), forms, (*conditions, *guards), (function.block_id, *around))
            if (wavefronts := lanes.wavefronts(loop.memref_of(access.buffer), access.width)) is not None:
                found[op] = found.get(op, Wavefronts()) + wavefronts
    return found


def _context(op: Operation, function: kernel.FuncOp) -> tuple[list[SSAValue], list[Linear]]:
    """The variables of the loops around an operation, and the conditions of the guards around it."""
    loops: list[SSAValue] = []
    guards: list[Linear] = []
    for around in ancestors(op, below=function):
        if isinstance(around, loop.ForOp):
            loops.append(around.iv)
        elif isinstance(around, loop.GuardOp):
            guards += condition_forms(around.conditions.data, around.indices)
    return loops, guards
