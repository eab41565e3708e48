"""What masks leave out of causal attention, from PyTorch to the simulator."""

from __future__ import annotations

import math

import numpy as np
import pytest
from xdsl.dialects.builtin import ModuleOp

torch = pytest.importorskip("torch")
import torch.nn.functional as F  # noqa: E402

from deplodock.dialects import loop  # noqa: E402
from deplodock.frontend.capture import export  # noqa: E402
from deplodock.interpreters.evaluate import evaluate  # noqa: E402
from deplodock.interpreters.simulate import simulate  # noqa: E402
from deplodock.passes import remarks  # noqa: E402
from deplodock.passes.driver import Level, lower, new_context  # noqa: E402

ROWS, FEATURES = 300, 16


def inputs() -> list[np.ndarray]:
    """A query, key and value of one head."""
    draw = np.random.default_rng(1)
    return [draw.standard_normal((1, 1, ROWS, FEATURES)).astype(np.float32) for _ in range(3)]


def attention(level: Level, schedule: str | None = None) -> ModuleOp:
    """Causal attention at a level, as three kernels."""
    program = export(
        lambda q, k, v: F.scaled_dot_product_attention(q, k, v, is_causal=True), tuple(map(torch.tensor, inputs()))
    )
    with remarks.collect():
        lower(program.module, new_context(), level, schedule=schedule, stream="never")
    return program.module


def reference(query: np.ndarray, key: np.ndarray, value: np.ndarray) -> np.ndarray:
    """The formula in float64."""
    scores = query.astype(np.float64) @ key.astype(np.float64).swapaxes(-1, -2) / math.sqrt(FEATURES)
    scores = np.where(np.tri(ROWS, dtype=bool), scores, -np.inf)
    shares = np.exp(scores - scores.max(-1, keepdims=True))
    return shares / shares.sum(-1, keepdims=True) @ value


@pytest.fixture(scope="module")
def loops() -> ModuleOp:
    return attention(Level.LOOP)


def test_every_kernel_skips_what_is_hidden(loops: ModuleOp) -> None:
    assert sum(isinstance(op, loop.WhereOp) for op in loops.walk()) == 5
    (got,) = evaluate(loops, inputs())
    np.testing.assert_allclose(got, reference(*inputs()), rtol=1e-5, atol=1e-6)


def test_values_of_hidden_keys(loops: ModuleOp) -> None:
    query, key, value = inputs()
    value[0, 0, 200] = np.nan
    (got,) = evaluate(loops, [query, key, value])
    np.testing.assert_allclose(got[0, 0, :128], reference(*inputs())[0, 0, :128], rtol=1e-5, atol=1e-6)
    assert np.isnan(got[0, 0, 200:]).all()


def test_rows_without_finite_scores(loops: ModuleOp) -> None:
    query, key, value = inputs()
    query[0, 0, 5] = np.nan
    query[0, 0, 140] = 1e30
    key[0, 0, :141] = -1e30
    (got,) = evaluate(loops, [query, key, value])
    assert np.isnan(got[0, 0, 5]).all()
    assert (got[0, 0, 140] == 0).all()
    assert not np.isnan(np.delete(got[0, 0], 5, 0)).any()


SCHEDULE = (
    "tileify,chunk-matmul-k{bk=32},blockify-launch{m=96 n=16},stage-inputs{memory=shared},register-tile{m=4 n=4},"
    "double-buffer{depth=2},tma-copy,async-copy"
)
"""Tiles that do not divide 128: their slabs hold elements that no kernel stored."""


@pytest.mark.parametrize("schedule", [None, SCHEDULE])
def test_simulated_without_findings(schedule: str | None) -> None:
    simulation = simulate(attention(Level.KERNEL, schedule), inputs())
    assert not simulation.findings
    np.testing.assert_allclose(simulation.outputs[0], reference(*inputs()), rtol=1e-5, atol=1e-6)
