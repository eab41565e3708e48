"""A kernel in the making: the operations that fusion has put in it, and the indices at which it computes each."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from math import prod

from xdsl.dialects import arith
from xdsl.dialects.builtin import StringAttr
from xdsl.ir import Operation, SSAValue

from deplodock.analysis.access.alignment import element_bytes
from deplodock.analysis.affine.linear import Linear, extent_of
from deplodock.analysis.machine.cost import Rates, Work
from deplodock.analysis.machine.targets import ACCESS_BYTES, OLD_PARAMETER_BYTES, POINTER_BYTES, WARP
from deplodock.analysis.shape.fusion import (
    ZERO,
    Course,
    Demand,
    Index,
    TensorOp,
    axes_in,
    is_permutation,
    long_axes,
    new_loop,
    substitute,
    walked_axes,
)
from deplodock.dialects.engines import MMA, engine
from deplodock.dialects.tensor import ConcatOp, GatherOp, PadOp, ReduceOp, ScanOp, element_of, shape_of
from deplodock.schedule.choose.sizes import CELLS, CTA_THREADS, IN_FLIGHT, ROW_VALUES, THREAD_VALUES

MAX_INDICES = 8
"""At how many indices a kernel may compute one value."""

WORD = 4
"""Bytes of a value that a row keeps on chip."""

MAX_PARAMETERS = OLD_PARAMETER_BYTES // POINTER_BYTES
"""The pointers that fit in the parameters of a kernel with any CUDA."""

LONG_ROW = 4
"""How many times `CTA_THREADS` a CTA has where a row is long: 1,024, what every GPU allows."""

FUSE = "deplodock.fuse"
"""The attribute that overrides fusion: "never" stores the operation's results, "always" never does."""

MAX_CONTRACTIONS = 4
"""The contractions of one kernel, whose sums share the registers of its threads: more leave them too few columns."""

MAX_INSTRUCTIONS = 2048
"""The instructions for one element that a kernel may have, as `code_size` counts them: nvcc takes a few seconds for so
many, and its time grows faster than their number."""


@dataclass(eq=False)
class Group:
    """The operations of one kernel.

    `axes` span the space of the kernel's largest output. `rows` are the axes that all reductions leave free (None
    before the first): an output has all axes, or the rows. A kernel that stores a concat has a space for each of its
    parts instead, and no reductions. `reads` are the values it loads, and where; `work` is what it computes, by the
    axes that the indices have.
    """

    number: int
    demand: Demand
    axes: tuple[SSAValue, ...] = ()
    rows: frozenset[SSAValue] | None = None
    indices: dict[Operation, list[Index]] = field(default_factory=dict[Operation, list[Index]])
    outputs: dict[SSAValue, Index] = field(default_factory=dict[SSAValue, Index])
    reads: dict[SSAValue, dict[Index, None]] = field(default_factory=dict[SSAValue, dict[Index, None]])
    work: dict[frozenset[SSAValue], Work] = field(default_factory=dict[frozenset[SSAValue], Work])
    instructions: int = 0
    reduction_axes: dict[Operation, tuple[SSAValue, ...]] = field(default_factory=dict[Operation, tuple[SSAValue, ...]])
    contractions: tuple[ReduceOp, ...] = ()
    course: Course | None = None
    """That of its scans."""
    parts: tuple[Index, ...] = ()
    refusals: list[str] = field(default_factory=list[str])

    @staticmethod
    def around(number: int, op: TensorOp, demand: Demand) -> Group:
        """The kernel that computes and stores `op`."""
        group = Group(number, demand)
        index = new_index(op.results[0])
        group.axes = tuple(axes_in(index))
        group.outputs = dict.fromkeys(op.results, index)
        if isinstance(op, ConcatOp):
            group.parts = tuple(map(new_index, op.inputs))
        if isinstance(op, ReduceOp):
            group.rows = frozenset(group.axes)
        group.add(op, [demand.normal(op.results[0], index)])
        return group

    def add(self, op: TensorOp, indices: Sequence[Index]) -> None:
        """Compute `op` at `indices` (one, where it is a reduction)."""
        if isinstance(op, ReduceOp):
            self._add_reduction(op, indices[0])
        if isinstance(op, ScanOp):
            self.course = self.course or Course.of(op, indices[0])
        self.indices[op] = list(indices)
        for result in op.results:
            self.reads.pop(result, None)
        self._account(op, indices)

    def remove(self, op: TensorOp) -> None:
        """Read the results of `op`, whose operands nothing else here needs, in place of computing them."""
        indices, (work, size) = self.indices.pop(op), self.demand.work(op)
        for index in indices:
            self.work[self.demand.span(index).axes] += work * -1
            self.instructions -= size
            for value, _ in self._operands(op, index):
                self.reads.pop(value, None)
        for result in op.results:
            self.reads[result] = dict.fromkeys(indices)

    def _account(self, op: TensorOp, indices: Iterable[Index]) -> None:
        """Note what computing `op` at `indices` reads and takes."""
        for index in indices:
            self._add_work(op, index)
            for value, needed in self._operands(op, index):
                if not isinstance(value.owner, arith.ConstantOp) and value.owner not in self.indices:
                    self.reads.setdefault(value, {})[needed] = None

    def _add_work(self, op: Operation, index: Index) -> None:
        used = self.demand.span(index).axes.union(self.reduction_axes.get(op, ()))
        work, size = self.demand.work(op)
        self.work[used] = self.work.get(used, Work()) + work
        self.instructions += size

    def _operands(self, op: TensorOp, index: Index) -> list[tuple[SSAValue, Index]]:
        """All operands with an index that has the axes along which they are read."""
        if isinstance(op, ConcatOp):
            return list(zip(op.inputs, self.parts, strict=True))
        source = [(op.source, index)] if isinstance(op, GatherOp | PadOp) else []
        return [*source, *self.demand.operands(op, index, self.reduction_axes.get(op, ()))]

    def fork(self) -> Group:
        """A copy to try something on."""
        return replace(
            self,
            indices=dict(self.indices),
            outputs=dict(self.outputs),
            reads={value: dict(indices) for value, indices in self.reads.items()},
            work=dict(self.work),
            reduction_axes=dict(self.reduction_axes),
            refusals=list(self.refusals),
        )

    def nanoseconds(self, rates: Rates) -> float:
        """What the kernel costs, its launch included."""
        moved, work = self.traffic(rates)
        if self.contractions or not self.reduction_axes:
            return rates.kernel_ns(moved, work, self.ctas())
        awaited = moved - sum(map(self.demand.bytes, self.outputs))
        in_flight = min(
            (bytes_in_flight(shape, reduced) for shape, reduced in self._loops()), default=CTA_THREADS * WORD
        )
        return rates.kernel_ns(moved, work, self.ctas(), awaited, in_flight)

    def _loops(self) -> Iterator[tuple[tuple[int, ...], tuple[int, ...]]]:
        """The shapes and dimensions of its reductions of several elements."""
        for op in self.reduction_axes:
            assert isinstance(op, ReduceOp)
            if long_axes(op):
                yield shape_of(op.inputs[0]), op.reduced

    def traffic(self, rates: Rates) -> tuple[int, Work]:
        """The bytes that the kernel moves, and its work."""
        work = Work()
        for axes, share in self.work.items():
            work += share * self._points(axes)
        moved, overflows = sum(map(self.demand.bytes, self.outputs)), self.rows_overflow(rates)
        for value, indices in self.reads.items():
            touched = sum(self.demand.span(index).points for index in indices) * element_bytes(element_of(value))
            moved += touched if overflows else min(touched, self.demand.bytes(value))
        return moved, work

    def computes_often(self, index: Index, shape: Sequence[int]) -> bool:
        """Whether the loops around an index of a value of `shape` run more often than the value has elements."""
        return self._points(self.demand.span(index).axes) > prod(shape)

    def _points(self, axes: frozenset[SSAValue]) -> int:
        """How often the loops that have these axes run: those around them too, as loops nest.

        An operand of a contraction is computed once for each `CELLS` outputs along the axes that it lacks.
        """
        for op, reduced in self.reduction_axes.items():
            if axes.isdisjoint(reduced):
                continue
            around = axes_in(self.indices[op][0])
            lacks = [axis for axis in around if axis not in axes] if op in self.contractions else []
            return self.demand.volume([*around, *reduced]) // max(1, min(CELLS, self.demand.volume(lacks)))
        if self.rows is not None and axes <= self.rows:
            return self.demand.volume(self.rows)
        return self.demand.volume(next((part for part in map(axes_in, self.parts) if axes <= set(part)), self.axes))

    def rows_overflow(self, rates: Rates) -> bool:
        """Whether a row is too long to stay on chip between the loops over it."""
        rows = [self.demand.volume(axes) for op, axes in self.reduction_axes.items() if op not in self.contractions]
        return max(rows, default=0) * WORD > rates.shared_bytes

    def ctas(self) -> int:
        """How many CTAs the kernel is likely to have: those of a CTA share a row only along contiguous memory."""
        if self.rows is None:
            spaces = [axes_in(part) for part in self.parts] or [self.axes]
            return -(-sum(map(self.demand.volume, spaces)) // CTA_THREADS)
        threads = 1
        if not self.contractions:
            threads = min((row_threads(shape, reduced) for shape, reduced in self._loops()), default=1)
        return -(-self.demand.volume(self.rows) * threads // CTA_THREADS)

    def _add_reduction(self, op: ReduceOp, index: Index) -> None:
        self.reduction_axes[op] = self.demand.axes(op)
        if self.rows is None:
            self.rows = frozenset(axes_in(index))
        if self.demand.contracts(op):
            self.contractions = (*self.contractions, op)

    def demands(self, user: TensorOp) -> dict[SSAValue, dict[Index, None]]:
        """The indices at which `user`, an operation of this kernel, needs its operands."""
        found: dict[SSAValue, dict[Index, None]] = {}
        if isinstance(user, ConcatOp):
            for part, index in zip(user.inputs, self.parts, strict=True):
                found.setdefault(part, {})[self.demand.normal(part, index)] = None
            return found
        axes = self.reduction_axes.get(user, ())
        for index in self.indices[user]:
            for operand, needed in self.demand.operands(user, index, axes):
                found.setdefault(operand, {})[needed] = None
        return found

    def refusal(self, op: TensorOp, indices: Sequence[Index], *, may_ask: bool = False) -> str | None:
        """The hard limit that keeps `op`, needed at `indices`, out of this kernel, or None.

        `may_ask` leaves out those that `always` lifts.
        """
        if len(indices) > MAX_INDICES:
            return f"the kernel would compute it at {len(indices)} indices; the limit is {MAX_INDICES}"
        reads = {value for value in op.operands if not isinstance(value.owner, arith.ConstantOp)}
        parameters = len((self.reads.keys() | reads) - set(op.results)) + len(self.outputs) + len(op.results)
        if parameters > MAX_PARAMETERS:
            return f"the kernel would take more than {MAX_PARAMETERS} parameters"
        if self.indices and self.instructions + self.demand.work(op)[1] * len(indices) > MAX_INSTRUCTIONS:
            return f"the kernel would have more than {MAX_INSTRUCTIONS} instructions for an element"
        if isinstance(op, ConcatOp):
            return "its parts are stored side by side"
        if isinstance(op, ScanOp):
            return self._scan_refusal(op, indices)
        return self._reduction_refusal(op, indices, may_ask) if isinstance(op, ReduceOp) else None

    def _scan_refusal(self, op: ScanOp, indices: Sequence[Index]) -> str | None:
        if len(indices) > 1:
            return "the kernel needs the scan at several indices and would compute it again"
        course = Course.of(op, indices[0])
        if course is None and shape_of(op.inputs[0])[op.dim.value.data] != 1:
            return "the kernel needs the scan along a part of an axis"
        if self.parts or frozenset(axes_in(indices[0])) != frozenset(self.axes):
            return "the kernel has not the axes of the scan"
        return self.course_refusal(course)

    def course_refusal(self, course: Course | None) -> str | None:
        """Why a scan of this course cannot be in the kernel with what is there, or None."""
        if course is None:
            return None
        if self.course not in (None, course):
            return "the scans of a kernel run along one axis, in one direction"
        if self.contractions:
            return "a kernel with a contraction has no scans"
        if self.rows is not None and course.axis in self.rows:
            return "it runs along the rows of the kernel"
        return None

    def _reduction_refusal(self, op: ReduceOp, indices: Sequence[Index], may_ask: bool) -> str | None:
        if self.parts:
            return "the kernel stores a concat, whose parts have spaces of their own"
        if len(indices) > 1:
            return "the kernel needs the reduction at several indices and would compute it again"
        if any(axis in axes_in(indices[0]) for axes in self.reduction_axes.values() for axis in axes):
            return "a reduction does not run inside the loop of another one"
        rows = walked_axes(indices[0], shape_of(op.results[0]))
        if rows is None:
            return "the kernel needs the reduction along a part of an axis and would compute it again"
        if self.rows is not None and self.rows != frozenset(rows):
            return "its free dimensions are not the rows of the kernel"
        is_product = self.demand.contracts(op)
        if self.course is not None and is_product:
            return "a kernel with scans has no contraction"
        if self.course is not None and self.course.axis in rows:
            return "the kernel has scans along a free dimension of it"
        if self.contractions and is_product:
            return self._contraction_refusal(op, indices[0], may_ask)
        return None

    def _contraction_refusal(self, op: ReduceOp, index: Index, may_ask: bool) -> str | None:
        """Why a contraction cannot join those of this kernel, or should not."""
        if len(self.contractions) == MAX_CONTRACTIONS:
            return f"a kernel holds {MAX_CONTRACTIONS} contractions at most"
        for other in self.contractions:
            axes = self.reduction_axes[other]
            is_along = [shape_of(op.inputs[0])[d] for d in long_axes(op)] == [extent_of(axis) for axis in axes]
            factors = self.demand.factors(op, index, axes) if is_along else []
            known = self.demand.factors(other, self.indices[other][0], axes)
            if not any(factor in known for factor in factors):
                return "a kernel holds one contraction, or several that share a factor and run through the same k"
            types = {element_of(value) for value, _ in factors}
            is_asked = may_ask or op.attributes.get(FUSE) == StringAttr("always")
            if not is_asked and any(engine(MMA, str(type)) is None for type in types):
                return "no tensor core takes the factors, and contractions in registers would halve each other's tile"
        return None

    def can_output(self, index: Index, shape: Sequence[int], reduces: bool) -> bool:
        """Whether a value of `shape` computed at `index` can be one more output: it has all axes, or the rows.

        `reduces` is whether a reduction makes the value; then its axes may become the rows.
        """
        axes = frozenset(axes_in(index))
        rows = axes if self.rows is None and reduces else self.rows
        return not self.parts and is_permutation(index, shape) and axes in (frozenset(self.axes), rows)

    def add_output(self, value: SSAValue, index: Index) -> None:
        """Store a value that `can_output` allows."""
        self.outputs[value] = index
        if len(axes_in(index)) < len(self.axes):
            self.rows = frozenset(axes_in(index))

    def course_along(self, values: Mapping[SSAValue, SSAValue]) -> Course | None:
        """The course of its scans in a kernel whose axes are `values` for these."""
        return None if self.course is None else replace(self.course, axis=values[self.course.axis])

    def absorb(self, other: Group, values: Mapping[SSAValue, SSAValue]) -> None:
        """Take over all operations of `other`, whose axes become the axes `values`."""
        forms = {axis: Linear.of(value) for axis, value in values.items()}

        def moved(index: Index) -> Index:
            return tuple(substitute(form, forms) for form in index)

        self.outputs |= {value: moved(index) for value, index in other.outputs.items()}
        self.reduction_axes |= other.reduction_axes
        for op, indices in other.indices.items():
            known = self.indices.setdefault(op, [])
            for index in map(moved, indices):
                if index not in known:
                    known.append(index)
                    self._add_work(op, index)
        if self.rows is None and other.rows is not None:
            self.rows = frozenset(values[axis] for axis in other.rows)
        if self.rows is None and len(values) < len(self.axes):
            self.rows = frozenset(values.values())
        self.contractions = self.contractions or other.contractions
        self.course = self.course or other.course_along(values)
        self.refusals += other.refusals
        for value, indices in other.reads.items():
            self.reads.setdefault(value, {}).update(dict.fromkeys(map(moved, indices)))
        self.reads = {value: indices for value, indices in self.reads.items() if value.owner not in self.indices}


def new_index(value: SSAValue) -> Index:
    """An index with an axis of its own along each dimension that is not 1."""
    return tuple(ZERO if extent == 1 else Linear.of(new_loop(extent).iv) for extent in shape_of(value))


def row_threads(shape: Sequence[int], reduced: Sequence[int]) -> int:
    """The threads that share a row of a reduction of `shape`: of a CTA along contiguous memory, else of a warp.

    Those that the innermost loop along memory leaves share the outermost one.
    """
    long = [d for d, extent in enumerate(shape) if extent != 1]
    loops = [shape[d] for d in long if d in reduced]
    contiguous = bool(loops) and long[-1] in reduced and loops[-1] * (loops[0] if len(loops) > 1 else 1) >= WARP
    elements = prod(shape[d] for d in reduced)
    return min(CTA_THREADS, elements) if contiguous else max(1, min(WARP, elements // (2 * THREAD_VALUES)))


def bytes_in_flight(shape: Sequence[int], reduced: Sequence[int]) -> int:
    """The bytes that a CTA which reduces `shape` loads before it waits for them.

    A row that its threads can hold is loaded at once, a longer one in steps of `IN_FLIGHT`; along contiguous
    memory it may have all threads of a CTA. In loops within each other a thread waits for each access.
    """
    if sum(shape[d] != 1 for d in reduced) > 1:
        return CTA_THREADS * ACCESS_BYTES
    threads = row_threads(shape, reduced)
    values, most = prod(shape[d] for d in reduced) // threads, LONG_ROW if threads == CTA_THREADS else 1
    return CTA_THREADS * (WORD * max(1, values) if values <= ROW_VALUES * most else IN_FLIGHT * most)


def reduction_ns(
    rates: Rates, read: int, written: int, work: Work, shape: Sequence[int], reduced: Sequence[int]
) -> float:
    """What a kernel costs that reduces values of `shape` which it computes from `read` bytes."""
    threads = prod(n for d, n in enumerate(shape) if d not in reduced) * row_threads(shape, reduced)
    return rates.kernel_ns(read + written, work, -(-threads // CTA_THREADS), read, bytes_in_flight(shape, reduced))
