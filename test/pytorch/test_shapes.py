"""Which sets of shapes are kept, and how many may be compiled."""

from __future__ import annotations

import pytest

from deplodock.errors import InvalidInputError
from deplodock.pytorch.shapes import Shapes


def test_the_set_that_was_not_used_for_longest_makes_place() -> None:
    shapes = Shapes[str](2)
    assert shapes.add(1, "one") == "its set 1 of shapes (1 of 2 kept)"
    shapes.add(2, "two")
    assert shapes[1] == "one"
    assert shapes.add(3, "three") == "its set 3 of shapes (2 of 2 kept)"
    assert shapes.get(2) is None
    assert dict(shapes) == {1: "one", 3: "three"}


def test_a_limit_says_what_to_do() -> None:
    shapes = Shapes[int](1)
    for number in range(4):
        shapes.check("f")
        shapes.add(number, number)
    with pytest.raises(InvalidInputError, match=r"f was compiled for 4 sets .* Pad its arguments .* max_shapes than 1"):
        shapes.check("f")
