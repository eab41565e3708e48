"""Contractions whose columns lie in swapped pairs in their slab: the same values, in stores of 16 bytes."""

from __future__ import annotations

import numpy as np
import pytest
import torch
import torch.nn.functional as F

from deplodock.dialects import kernel
from deplodock.frontend.arrays import to_array
from deplodock.frontend.capture import export
from deplodock.interpreters.simulate import simulate
from deplodock.passes.driver import Level, lower, new_context

RING = (
    "tileify,chunk-matmul-k{bk=8},blockify-launch{m=16 n=32},stage-inputs{memory=shared transpose=auto},"
    "register-tile{m=4 n=4},permute-register-tile{m=strips n=strips},double-buffer{depth=3},async-copy,pad-smem,"
    "swap-pairs,pipeline-k-outer{distance=1 barrier=mbarrier},mark-unroll"
)


@pytest.mark.parametrize(("rows", "columns", "k", "is_scaled"), [(16, 64, 32, True), (20, 40, 27, False)])
def test_products_are_those_of_columns_in_order(rows: int, columns: int, k: int, is_scaled: bool) -> None:
    """Whole tiles, what follows the sums included, and sums of ragged ones."""
    random = torch.Generator().manual_seed(1)
    x, w = (torch.randint(-8, 9, shape, generator=random).float() for shape in ((rows, k), (columns, k)))

    def program(x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
        return torch.relu(F.linear(x, w)) * 0.5 if is_scaled else F.linear(x, w)

    captured = export(program, (x, w))
    lower(captured.module, new_context(), Level.KERNEL, schedule=RING)
    simulation = simulate(captured.module, [to_array(value) for value in captured.inputs], order=3)
    assert not simulation.findings
    np.testing.assert_array_equal(simulation.outputs[0], program(x, w).numpy())
    moves = [op for op in captured.module.walk() if isinstance(op, kernel.MoveOp)]
    assert {op.elements for op in moves if _is_stored(op)} == {4}


def _is_stored(move: kernel.MoveOp) -> bool:
    """Whether a move is to memory outside of a CTA."""
    return move.destination.name_hint == "out"
