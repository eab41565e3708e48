"""What the backend tells its user: what it compiles anew and why, and what it leaves to PyTorch."""

from __future__ import annotations

import logging
import warnings
from collections.abc import Mapping, Sequence
from typing import Any

from torch import fx
from torch._dynamo.guards import recompiles_log

from deplodock.frontend.importer import place_of
from deplodock.pytorch.counting import count
from deplodock.pytorch.partition import PartsRunner
from deplodock.pytorch.shapes import MANY_SHAPES

_LOG = logging.getLogger("deplodock")


class GraphReport:
    """What is told of one graph of TorchDynamo, whose results and gradients are compiled each for themselves."""

    def __init__(self, graph: fx.GraphModule) -> None:
        places = (place_of(node) for node in graph.graph.nodes)
        self._place = next((f" at {file}:{line}" for file, line in filter(None, places)), "")
        self._known: set[str] = set()

    def compiled(self, name: str, runner: PartsRunner, seconds: float, kept: str) -> None:
        """Log and count what was compiled and is kept, and warn of what is left to PyTorch, of each operation once."""
        calls = runner.compiled + runner.left
        count("operations_compiled", runner.compiled)
        count("operations_left", runner.left)
        _LOG.info(
            "deplodock: compiled %s%s: %d of %d operations, as %d programs, in %.1f s, %s",
            name, self._place, runner.compiled, calls, len(runner.parts), seconds, kept,
        )  # fmt: skip
        self.left(runner.reasons, runner.places)

    def left(self, reasons: Mapping[str, str], places: Mapping[str, tuple[str, int]]) -> None:
        """Warn of what is left to PyTorch, and why, at the line of the program that calls the first of it."""
        new = {name: reason for name, reason in reasons.items() if name not in self._known}
        self._known |= new.keys()
        if not new:
            return
        found = "; ".join(f"{name} ({reason.replace(': error: ', ': ')})" for name, reason in new.items())
        message = f"deplodock leaves to PyTorch: {found}"
        place = next((places[name] for name in new if name in places), None)
        if place is None:
            warnings.warn(message, stacklevel=2)
        else:
            warnings.warn_explicit(message, UserWarning, *place)

    def recompiles(self, name: str, old: Sequence[Any], new: Sequence[Any], count: int) -> None:
        """Log that a graph is compiled once more, and why: another precision, which comes first, or an argument."""
        changes = [
            f"{f'argument {number}' if number >= 0 else 'the precision'} is {_shown(value)}, was {_shown(other)}"
            for number, (value, other) in enumerate(zip(new, old, strict=True), -1)
            if value != other
        ]
        message = f"deplodock: compiling {name}{self._place} again, for set {count} of shapes: {'; '.join(changes)}"
        _LOG.info(message)
        recompiles_log.debug(message)
        if count == MANY_SHAPES:
            _LOG.warning("%s; each set of shapes takes a compilation, so pad to fewer", message)


def _shown(key: Any) -> str:
    if not isinstance(key, tuple):
        return repr(key)
    shape, strides = key
    return f"of shape {tuple(shape)} and strides {tuple(strides)}"
