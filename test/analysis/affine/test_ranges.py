"""The range of a form, from those that are given for its roots."""

from __future__ import annotations

import pytest
from xdsl.dialects.builtin import IndexType
from xdsl.ir import Block, Region, SSAValue
from xdsl.ir.affine import AffineExpr, AffineMap

from deplodock.analysis.affine.division import Division
from deplodock.analysis.affine.linear import Linear, extent_of, value_range
from deplodock.analysis.affine.ranges import Range, range_of
from deplodock.dialects import loop
from deplodock.dialects.kernel import FuncOp

A, B, UNKNOWN = Block(arg_types=[IndexType()] * 3).args
GIVEN: dict[SSAValue, Range] = {A: (-3, 5), B: (2, 4)}


@pytest.mark.parametrize(
    ("form", "expected"),
    [
        (Linear(constant=7), (7, 7)),
        (Linear.of(A, 2) + Linear.of(B, -10) + 1, (-45, -9)),
        (Linear.of(Division(Linear.of(A), 4, False)), (-1, 1)),
        (Linear.of(Division(Linear.of(A), 4, True)), (0, 3)),
        (Linear.of(Division(Linear.of(B), 5, True), -1), (-4, -2)),
        (Linear.of(Division(Linear.of(B), 4, True)), (0, 3)),
        (Linear.of(Division(Linear.of(UNKNOWN), 4, True)), (0, 3)),
        (Linear.of(Division(Linear.of(UNKNOWN), 4, False)), None),
        (Linear.of(A) + Linear.of(UNKNOWN), None),
    ],
)
def test_range_of_a_form(form: Linear, expected: Range | None) -> None:
    assert range_of(form, GIVEN.get) == expected


def test_a_loop_stays_below_the_least_of_its_bounds_for_the_given_roots() -> None:
    bound = AffineMap(2, 0, (AffineExpr.dimension(0) * 2, AffineExpr.dimension(1)))
    op = loop.ForOp(bound, Region(Block(arg_types=[IndexType()])), [B, UNKNOWN])
    assert value_range(op.iv) is None
    assert value_range(op.iv, GIVEN.get) == (0, 7)
    assert value_range(op.iv, lambda root: (0, 3)) == (0, 2)


def test_operations_say_the_extents_of_their_indices() -> None:
    function = FuncOp("k", [IndexType()], 6, 64, Region(Block(arg_types=[IndexType()] * 3)))
    assert [extent_of(value) for value in function.body.block.args] == [None, 6, 64]
    assert value_range(function.thread_id) == (0, 63)
