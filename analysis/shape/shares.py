"""Shares of CTAs in the steps of all tiles of a launch: stream-K.

The steps of the tiles follow each other in one line, and each CTA runs a stretch of it, all of one length. So a CTA may
start and end within a tile, whose parts then are those of CTAs that follow each other. From Osama et al., "Stream-K:
Work-centric Parallel Decomposition for Dense Matrix-Matrix Multiplication on the GPU" (2023).

CTAs that take whole tiles take them in turn, so that those of one turn are neighbours.
"""

from __future__ import annotations

from dataclasses import dataclass

from deplodock.analysis.affine.linear import Linear


@dataclass(frozen=True)
class Shares:
    """`ctas` CTAs share `tiles` tiles of `steps` steps each."""

    tiles: int
    steps: int
    ctas: int
    takes_tiles: bool = False
    """Whether each CTA takes whole tiles, every `ctas`-th one."""

    @property
    def turns(self) -> int:
        """The tiles of a CTA that takes whole ones; the last one may lie behind all tiles."""
        return -(-self.tiles // self.ctas)

    @property
    def length(self) -> int:
        """The steps of a CTA; the last ones may lie behind those of all tiles."""
        if self.takes_tiles:
            return self.turns * self.steps
        return -(-self.tiles * self.steps // self.ctas)

    @property
    def busy(self) -> int:
        """The CTAs that have a step; of those that take whole tiles, as few as need no more turns."""
        if self.takes_tiles:
            return -(-self.tiles // self.turns)
        return -(-self.tiles * self.steps // self.length)

    @property
    def is_whole(self) -> bool:
        """Whether no tile has parts of several CTAs."""
        return self.length % self.steps == 0

    @property
    def most_parts(self) -> int:
        """The most CTAs that share a tile."""
        return -(-(self.steps - 1) // self.length) + 1

    def first(self, tile: Linear) -> Linear:
        """The first CTA of a tile."""
        return tile * self.steps // self.length

    def parts(self, tile: Linear) -> Linear:
        """The number of CTAs that share a tile."""
        return (tile * self.steps + (self.steps - 1)) // self.length - self.first(tile) + 1
