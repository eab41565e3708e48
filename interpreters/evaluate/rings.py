"""What has happened to the steps of a ring while a program runs."""

from __future__ import annotations

from dataclasses import dataclass, field

from xdsl.ir import SSAValue

from deplodock.analysis.operations import label


@dataclass
class Ring:
    """The steps in the slots of a ring, and those that may be read."""

    depth: int
    readable: set[int] = field(default_factory=set[int])
    """The steps that were waited for and are not released."""
    released: set[int] = field(default_factory=set[int])
    held: dict[SSAValue, dict[int, int]] = field(default_factory=dict[SSAValue, dict[int, int]])
    """For each buffer the step in each slot."""

    def fill(self, buffer: SSAValue, step: int) -> str | None:
        """Put a step of a buffer into its slot. Returns what is wrong with that, or None."""
        slots = self.held.setdefault(buffer, {})
        known = slots.get(step % self.depth)
        if known is not None and known not in self.released:
            return f"step {step} takes slot {step % self.depth} of step {known}, which is not released"
        slots[step % self.depth] = step
        return None

    def wait(self, step: int) -> str | None:
        """Make a step readable. Returns what is wrong with that, or None."""
        for buffer, slots in self.held.items():
            if slots.get(step % self.depth) != step:
                return f"step {step} was not copied to {label(buffer)}"
        self.readable.add(step)
        return None

    def release(self, step: int) -> str | None:
        """End the reads of a step. Returns what is wrong with that, or None."""
        if step not in self.readable:
            return f"step {step} was not waited for, or is released already"
        self.readable.discard(step)
        self.released.add(step)
        return None

    def read(self, buffer: SSAValue, slot: int) -> str | None:
        """Why a slot of a buffer may not be read, or None."""
        step = self.held[buffer].get(slot)
        if step is None:
            return f"nothing was copied to slot {slot}"
        return (
            None if step in self.readable else f"slot {slot} holds step {step}, which is not waited for or is released"
        )
