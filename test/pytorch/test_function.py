"""Functions that are compiled for several sets of shapes."""

from __future__ import annotations

import pytest
import torch

import deplodock


def test_the_number_of_compilations_has_a_limit() -> None:
    run = deplodock.compile(torch.neg, max_shapes=1)
    for extent in (2, 3, 4, 5, 5):
        run(torch.ones(extent))
    assert len(run.programs) == 1
    with pytest.raises(deplodock.InvalidInputError, match=r"neg was compiled for 4 sets .* larger max_shapes than 1"):
        run(torch.ones(6))
    with pytest.raises(deplodock.InvalidInputError, match="max_shapes must be a number of sets of shapes, 1 or more"):
        deplodock.compile(torch.neg, max_shapes=0)
