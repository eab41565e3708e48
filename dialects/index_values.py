"""Operations that introduce indices: how many values each index has."""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.ir import SSAValue
from xdsl.ir.affine import AffineMap


class IntroducesIndices:
    """An operation whose result, or whose body's arguments, are indices from 0 below an extent."""

    def extent(self, index: SSAValue) -> int | None:
        """The number of values of an index, where it is constant; None also for a value that is no index of it."""
        raise NotImplementedError

    def bound_of(self, index: SSAValue) -> tuple[AffineMap, Sequence[SSAValue]] | None:
        """A map over operands whose results are all above an index, where its extent is such a map."""
        return None
