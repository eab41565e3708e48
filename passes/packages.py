"""What the installed packages add: dialects, passes, targets and frontends, and passes in the pipeline.

xDSL's `Universe.get_multiverse` ends each tool where two packages have the same name for something. Here the name
belongs to the first package that has it: deplodock, then xDSL, then the others in the order of their names. A warning
says what is left out.
"""

from __future__ import annotations

import logging
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from importlib.metadata import EntryPoint, entry_points
from typing import Any, TypeVar

from xdsl.passes import ModulePass
from xdsl.universe import Universe

from deplodock.errors import InvalidInputError
from deplodock.passes.pipeline import STAGES, Stage

_LOG = logging.getLogger("deplodock")
_FIRST = ("deplodock", "xdsl")
"""The packages whose names come first, and without which no tool works."""

Value = TypeVar("Value")


class PipelineUniverse(Universe):
    """A universe with passes that run in deplodock's pipeline.

    Args:
        before: for the name of each of those, the name of the pass of the pipeline that it runs before.
        universe: `all_dialects`, `all_passes`, `all_targets`, `all_frontends`, as every universe has them.

    Raises InvalidInputError if there is no pass of such a name.
    """

    def __init__(self, *, before: Mapping[str, str], **universe: dict[str, Callable[[], Any]]) -> None:
        super().__init__(**universe)
        self.before = before
        for name, place in before.items():
            if name not in self.all_passes:
                raise InvalidInputError(f"{name} is to run before {place}, and is not in all_passes")
            if all(stage.name != place for stage in STAGES):
                raise InvalidInputError(f"{name} is to run before {place}, which is no pass of deplodock's pipeline")


@dataclass(frozen=True)
class AddedStage(Stage):
    """A pass of another package in the pipeline."""

    factory: Callable[[], type[ModulePass]]

    @property
    def position(self) -> str:
        """The letter of the pass that it runs before, and a plus sign for the number."""
        return f"{self.letter}:+"

    def load(self) -> type[ModulePass]:
        """Import the pass class."""
        return self.factory()


@dataclass(frozen=True)
class Packages:
    """What all packages have; the stages that they add, by the name of the one after; their passes without a place."""

    universe: Universe
    added: Mapping[str, Sequence[AddedStage]]
    unplaced: Mapping[str, Callable[[], type[ModulePass]]]


def packages() -> Packages:
    """What the packages on the search path of modules have. What is left out is a warning, once."""
    return _packages(tuple(sys.path))


def with_added(stages: Sequence[Stage]) -> list[Stage]:
    """Stages of ours, and before them those that packages add there."""
    added = packages().added
    return [each for stage in stages for each in (*added.get(stage.name, ()), stage)]


@cache
def _packages(_: tuple[str, ...]) -> Packages:
    names, whole = _Names(), Universe()
    added: dict[str, list[AddedStage]] = {}
    unplaced: dict[str, Callable[[], type[ModulePass]]] = {}
    for package, universe in _universes():
        passes = names.new(package, "pass", universe.all_passes)
        whole.all_passes |= passes
        whole.all_dialects |= names.new(package, "dialect", universe.all_dialects)
        whole.all_targets |= names.new(package, "target", universe.all_targets)
        whole.all_frontends |= names.new(package, "frontend", universe.all_frontends)
        before = universe.before if isinstance(universe, PipelineUniverse) else dict[str, str]()
        for name, factory in passes.items() if package not in _FIRST else ():
            if name in before:
                letter = next(stage.letter for stage in STAGES if stage.name == before[name])
                added.setdefault(before[name], []).append(AddedStage(letter, 0, name, "", factory))
            else:
                unplaced[name] = factory
    names.report()
    return Packages(whole, added, unplaced)


class _Names:
    """Which package a name of a kind belongs to, and which others have it, too."""

    def __init__(self) -> None:
        self._owners: dict[tuple[str, str], str] = {}
        self._clashes: dict[tuple[str, str], list[str]] = {}

    def new(self, package: str, kind: str, given: Mapping[str, Value]) -> dict[str, Value]:
        """What a package has under names that none before it has."""
        for name in given:
            owner = self._owners.setdefault((kind, name), package)
            if owner != package:
                self._clashes.setdefault((owner, package), []).append(f"{kind} {name}")
        return {name: value for name, value in given.items() if self._owners[kind, name] == package}

    def report(self) -> None:
        """Warn of each pair of packages that have the same names."""
        for (owner, package), names in self._clashes.items():
            _warn(
                f"the packages {owner} and {package} have the same names: {', '.join(names)}; here they mean "
                f"{owner}'s, and what {package} means by them cannot be used; xdsl-opt does not start while "
                "both packages are installed"
            )


def _universes() -> Iterator[tuple[str, Universe]]:
    """The packages that have a universe, by name in the order in which their names count."""
    found = [(_package(point), point) for point in entry_points(group="xdsl.universe")]
    for package, point in sorted(found, key=lambda each: (each[0] not in _FIRST, each)):
        try:
            universe = point.load()
            if not isinstance(universe, Universe):
                raise InvalidInputError(f"{point.value} is no Universe")
        except Exception as error:
            if package in _FIRST:
                raise
            reason = f"{type(error).__name__}: {error}"
            _warn(f"the package {package} is left out, as its universe does not load: {reason}")
            continue
        yield package, universe


def _warn(text: str) -> None:
    _LOG.warning("%s", f"deplodock: warning: {text}")


def _package(point: EntryPoint) -> str:
    return point.name if point.dist is None else point.dist.name
