"""What passes share that run a step of a loop outside of it."""

from __future__ import annotations

from xdsl.dialects.builtin import AffineMapAttr

from deplodock.analysis.affine.linear import Linear, constant_place, to_map
from deplodock.dialects import loop


def step_at(form: Linear, name: str | None = None) -> loop.IndexOp:
    """The number of a step, which stands for a loop's variable outside of it, or in another step."""
    made = loop.IndexOp(*to_map([form]))
    made.result.name_hint = name
    return made


def run_less(steps: loop.ForOp) -> None:
    """Let a loop of known trips run a step less."""
    assert steps.trips is not None
    steps.properties["bound"] = AffineMapAttr(constant_place(steps.trips - 1)[0])
