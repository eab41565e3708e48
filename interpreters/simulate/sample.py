"""Runs a sample of the CTAs of each launch: corners and edges of what it writes, and others drawn by a seed.

CTAs that work together with those, in a cluster or by tickets of one counter, run too. Where a launch reads what an
earlier one wrote, the CTAs of that one run which write the elements that it reads. All others do not run, so their
elements stay unwritten.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import product

import numpy as np
from xdsl.dialects.builtin import ModuleOp

from deplodock.analysis.host.program import Step
from deplodock.dialects.kernel import FuncOp
from deplodock.errors import Error
from deplodock.interpreters.simulate import report as kinds
from deplodock.interpreters.simulate.footprint import NOBODY, Writers, companions, readers, writers
from deplodock.interpreters.simulate.launch import Launch
from deplodock.interpreters.simulate.memory import Buffer
from deplodock.interpreters.simulate.report import Counters, Report
from deplodock.interpreters.values import Array, bits

MOST_CTAS = 16
"""The CTAs of a launch that are drawn; those that work together count once."""

_CORNERS = 4
"""The dimensions, the longest, of whose corners the CTAs are taken."""


class TooManyCtas(Error):
    """The CTAs that have to run together are more work than the sample may be."""


@dataclass(frozen=True)
class SampledWrites:
    """What the CTAs that ran did to a buffer, flat: its elements, which of them they wrote, and which any CTA writes.

    The last is None where it cannot be told.
    """

    data: Array
    mask: Array
    by_any: Array | None


@dataclass
class _Planned:
    """A launch: its arguments, those whose values are known before it runs, who writes, and the CTAs that will run."""

    step: Step
    kernel: FuncOp
    arguments: list[Buffer]
    known: list[int]
    writers: Writers | None = None
    ctas: Array = field(default_factory=lambda: np.zeros(0, np.int64))


class Sampler:
    """Runs samples of launches of one module; findings and counts add up, and `ran` has the CTAs of each kernel."""

    def __init__(self, module: ModuleOp, seed: int, most_steps: Mapping[FuncOp, tuple[int, int]]) -> None:
        """`most_steps` has for each kernel the lane steps of a CTA and how many all CTAs that run may take."""
        self.report = Report(module)
        self.counters: dict[str, Counters] = {}
        self.ran: dict[str, int] = {}
        self._most_steps = most_steps
        self._random = np.random.default_rng(seed)

    def run(
        self, steps: Sequence[Step], buffers: Mapping[int, Buffer], outputs: Collection[int]
    ) -> dict[int, SampledWrites]:
        """Run samples of launches in order, on buffers by number. Gives what happened to the buffers `outputs`.

        Raises TooManyCtas if what has to run together is too much.
        """
        planned = [self._planned(steps[:number], step, buffers) for number, step in enumerate(steps)]
        drawn = MOST_CTAS
        while True:
            try:
                self._choose(planned, outputs, drawn)
                break
            except TooManyCtas:
                # Each CTA of a later launch may need many of an earlier one.
                if drawn == 1:
                    raise
                drawn //= 2
        before = {number: _state(buffers[number]) for number in outputs}
        for launch in planned:
            self._run(launch)
        return {number: self._written(number, planned, buffers[number], before[number]) for number in outputs}

    def _planned(self, earlier: Sequence[Step], step: Step, buffers: Mapping[int, Buffer]) -> _Planned:
        kernel = step.function
        assert isinstance(kernel, FuncOp)
        made = {number for other in earlier for number in other.writes()}
        known = [position for position, number in enumerate(step.buffers) if number not in made]
        launch = _Planned(step, kernel, [buffers[number] for number in step.buffers], known)
        launch.writers = writers(kernel, launch.arguments, known, self.report)
        self._report_overlap(launch)
        return launch

    def _choose(self, planned: Sequence[_Planned], outputs: Collection[int], drawn: int) -> None:
        """Choose the CTAs of each launch, the last one first, as it decides what the others must write."""
        needed: dict[int, Array] = {}
        for place, launch in reversed(list(enumerate(planned))):
            chosen = self._needed(launch, needed)
            if not len(chosen) or any(number in outputs for number in launch.step.writes()):
                chosen = np.union1d(chosen, self._drawn(launch, drawn))
            launch.ctas = self._together(launch, chosen)
            self._need(launch, [other.step for other in planned[:place]], needed)

    def _needed(self, launch: _Planned, needed: Mapping[int, Array]) -> Array:
        """The CTAs that write what later launches read."""
        found: list[Array] = []
        for position, number in enumerate(launch.step.buffers):
            if number not in needed or number not in launch.step.writes():
                continue
            if launch.writers is None:
                return np.arange(launch.kernel.num_blocks)
            found.append(np.unique(launch.writers.owners[position][needed[number]]))
        chosen = np.unique(np.concatenate([*found, np.zeros(0, np.int64)]).astype(np.int64))
        return chosen[chosen != NOBODY]

    def _need(self, launch: _Planned, earlier: Sequence[Step], needed: dict[int, Array]) -> None:
        """Note what the CTAs of a launch read of what earlier ones wrote."""
        made = {number for step in earlier for number in step.writes()}
        positions = [position for position, number in enumerate(launch.step.buffers) if number in made]
        if not positions:
            return
        masks = readers(launch.kernel, launch.arguments, positions, launch.known, launch.ctas, self.report)
        for position in positions:
            number, size = launch.step.buffers[position], launch.arguments[position].data.size
            mask = np.ones(size, np.bool_) if masks is None else masks[position]
            needed[number] = needed.get(number, np.zeros(size, np.bool_)) | mask

    def _drawn(self, launch: _Planned, drawn: int) -> Array:
        """So many CTAs at corners and edges of what the launch writes, and others; as many as may run, at least one."""
        blocks = launch.kernel.num_blocks
        each, most = self._most_steps[launch.kernel]
        count = max(1, min(drawn, most // max(1, each)))
        if not blocks or blocks <= count:
            return np.arange(blocks)
        order = [0, blocks - 1] if launch.writers is None else list(self._corners(launch, launch.writers))
        order += [int(cta) for cta in self._random.integers(0, blocks, 4 * count)]
        return np.array(list(dict.fromkeys(order))[:count])

    def _corners(self, launch: _Planned, writers: Writers) -> list[int]:
        """The CTAs that write the corners of buffers, then one of each edge."""
        corners, edges = list[int](), list[int]()
        for position, owners in writers.owners.items():
            shape = launch.arguments[position].layout.shape
            if not math.prod(shape):
                continue
            owner = owners[: math.prod(shape)].reshape(shape)
            long = sorted(range(len(shape)), key=lambda d: -shape[d])[:_CORNERS]
            for ends in product((0, -1), repeat=len(long)):
                at = [0] * len(shape)
                for dim, end in zip(long, ends, strict=True):
                    at[dim] = end
                corners.append(int(owner[tuple(at)]))
            for dim, end in product(long, (0, -1)):
                inside = [int(self._random.integers(extent)) for extent in shape]
                inside[dim] = end
                edges.append(int(owner[tuple(inside)]))
        return [cta for cta in (*corners, *edges) if cta != NOBODY]

    def _together(self, launch: _Planned, chosen: Array) -> Array:
        """The chosen CTAs, and those that they work together with. Raises TooManyCtas if that is too much."""
        found = companions(launch.kernel, launch.arguments, launch.known, self.report)
        ctas = np.arange(launch.kernel.num_blocks) if found is None else found.with_others(chosen)
        each, most = self._most_steps[launch.kernel]
        if len(ctas) * each > most:
            raise TooManyCtas(
                f"{len(ctas)} of the CTAs must run together, of about {each:.1e} lane steps each, which is too long "
                f"for a CPU (the limit is {most:.0e}); make the loops shorter, or run it on a GPU"
            )
        return ctas

    def _run(self, launch: _Planned) -> None:
        name = launch.kernel.sym_name.data
        counters = self.counters.setdefault(name, Counters())
        most = self._most_steps[launch.kernel][1]
        Launch(launch.kernel, launch.arguments, self.report, counters, True, launch.ctas, most).run()
        self.ran[name] = max(self.ran.get(name, 0), len(launch.ctas))

    def _written(
        self, number: int, planned: Sequence[_Planned], buffer: Buffer, before: tuple[Array, Array]
    ) -> SampledWrites:
        size, (data, flags) = buffer.layout.size, _state(buffer)
        mask, by_any = (bits(data) != bits(before[0])) | (flags & ~before[1]), np.zeros(buffer.data.size, np.bool_)
        is_known = True
        for launch in planned:
            for position, argument in enumerate(launch.step.buffers):
                if argument != number or number not in launch.step.writes():
                    continue
                if launch.writers is None:
                    is_known = False
                    continue
                ran = np.zeros(launch.kernel.num_blocks + 1, np.bool_)
                ran[launch.ctas] = True
                mask |= ran[launch.writers.owners[position]]
                by_any |= launch.writers.owners[position] != NOBODY
        return SampledWrites(buffer.data[:size], mask[:size], by_any[:size] if is_known else None)

    def _report_overlap(self, launch: _Planned) -> None:
        overlap = None if launch.writers is None else launch.writers.overlap
        if overlap is None:
            return
        first, second = overlap.ctas
        layout, name = launch.arguments[overlap.parameter].layout, launch.kernel.parameters[overlap.parameter]
        self.report.add(
            kinds.DATA_RACE,
            overlap.op,
            1,
            lambda: (
                f"CTAs {first} and {second} both write {self.report.names.value(name)}"
                f"{layout.element(overlap.element)}, and nothing orders the threads of a launch"
            ),
        )


def _state(buffer: Buffer) -> tuple[Array, Array]:
    """Copies of what a buffer holds, and of which elements hold a value."""
    flags = np.ones(buffer.data.size, np.bool_) if buffer.written is None else buffer.written.flags.copy()
    return buffer.data.copy(), flags
