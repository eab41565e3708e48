"""Strategies of search: which points of a space are measured next, given the times of those that were."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import TypeAlias

from deplodock.tune.search.moves import AnnealStrategy, BeamStrategy, CoordinateStrategy, RandomStrategy
from deplodock.tune.search.strategy import Strategy
from deplodock.tune.search.tree import TreeStrategy
from deplodock.tune.space import Space

NewStrategy: TypeAlias = Callable[[Space, int, int], Strategy]
"""Makes a strategy for a space, a seed, and how many points are to be measured."""

DEFAULT = "mcts"
"""The strategy where nothing else is said."""


def strategies() -> Mapping[str, NewStrategy]:
    """The strategies by name."""
    return MappingProxyType(
        {
            "mcts": TreeStrategy,
            "random": RandomStrategy,
            "beam": BeamStrategy,
            "coordinate": CoordinateStrategy,
            "anneal": AnnealStrategy,
        }
    )
