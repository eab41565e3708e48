"""Coordinates of axes as digits of a linear id."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from xdsl.ir import SSAValue

from deplodock.analysis.affine.linear import Linear
from deplodock.passes.kernel.workspace import positive_extent


def digits(axes: Sequence[SSAValue], id: SSAValue) -> Iterator[tuple[SSAValue, Linear]]:
    """Each axis with its coordinate as a form of their linear id, the last axis fastest."""
    stride = 1
    forms: list[tuple[SSAValue, Linear]] = []
    for axis in reversed(axes):
        extent = positive_extent(axis)
        digit = Linear.of(id) // stride
        forms.append((axis, digit if axis is axes[0] else digit % extent))
        stride *= extent
    return reversed(forms)
