"""Rows of special values, streamed: attention, softmax and sums of exponentials, beside PyTorch."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

torch = pytest.importorskip("torch")
import torch.nn.functional as F  # noqa: E402

from deplodock.analysis.shape.streaming import streams  # noqa: E402
from deplodock.dialects import loop  # noqa: E402
from deplodock.frontend.capture import export  # noqa: E402
from deplodock.interpreters.evaluate import evaluate  # noqa: E402
from deplodock.interpreters.simulate import simulate  # noqa: E402
from deplodock.passes import remarks  # noqa: E402
from deplodock.passes.clean_up import clean_up  # noqa: E402
from deplodock.passes.driver import Level, lower, new_context  # noqa: E402
from deplodock.passes.loop.stream_reductions import StreamReductionsPass  # noqa: E402

INF, NAN = np.inf, np.nan
ROWS = np.array(
    [
        [1, 2, 3, 4],
        [-INF, 2, -INF, 1],
        [-INF, -INF, -INF, -INF],
        [1, INF, 3, 4],
        [-INF, INF, 3, INF],
        [1, NAN, 3, 4],
        [-INF, NAN, -INF, INF],
        [3e38, -3e38, 3e38, 0],
        [-3e38, -INF, -3e38, -3e38],
    ],
    np.float32,
)


def streamed(program: Callable[..., torch.Tensor], *inputs: torch.Tensor) -> np.ndarray:
    """What a program gives at loop level, all of whose rows are streamed; a kernel gives nearly the same."""
    module, context = export(program, inputs).module, new_context()
    with remarks.collect():
        lower(module, context, Level.LOOP, stream="always")
        StreamReductionsPass(rows="all").apply(context, module)
    clean_up(context, module)
    module.verify()
    assert any(streams(op) for op in module.walk())
    (got,) = evaluate(module, [value.numpy() for value in inputs])
    with remarks.collect():
        lower(module, context, Level.KERNEL)
    simulation = simulate(module, [value.numpy() for value in inputs])
    assert not simulation.findings
    np.testing.assert_allclose(simulation.outputs[0], got, rtol=1e-5, atol=1e-6)
    return got


@pytest.mark.parametrize(
    "program",
    [
        lambda x: F.softmax(x, -1),
        lambda x: F.log_softmax(x, -1),
        lambda x: torch.logsumexp(x, -1),
        lambda x: F.softmax(x, -1) @ torch.arange(12.0).reshape(4, 3),
    ],
    ids=["softmax", "log_softmax", "logsumexp", "weighted"],
)
def test_special_rows_are_those_of_eager(program: Callable[[torch.Tensor], torch.Tensor]) -> None:
    rows = torch.tensor(ROWS)
    np.testing.assert_allclose(streamed(program, rows), program(rows).numpy(), rtol=1e-5, atol=1e-6)


def test_attention_of_special_scores() -> None:
    """A mask that adds the rows makes them scores: rows of -inf give 0, and NaN and infinities NaN."""
    value = torch.arange(12.0).reshape(1, 1, 4, 3)
    nothing = torch.zeros(1, 1, len(ROWS), 2), torch.zeros(1, 1, 4, 2)
    got = streamed(
        lambda q, k, v, mask: F.scaled_dot_product_attention(q, k, v, attn_mask=mask),
        *nothing,
        value,
        torch.tensor(ROWS).reshape(1, 1, -1, 4),
    )
    shares = F.softmax(torch.tensor(ROWS), -1)
    shares[2] = 0
    np.testing.assert_allclose(got[0, 0], (shares @ value[0, 0]).numpy(), rtol=1e-5, atol=1e-6)


def test_causal_attention_stores_its_output_and_nothing_else() -> None:
    """Keys that all queries of a tile hide are left out; the scores and shares have no memory."""
    query, key, value = (torch.randn(1, 2, 300, 8, generator=torch.Generator().manual_seed(i)) for i in range(3))
    program = export(lambda q, k, v: F.scaled_dot_product_attention(q, k, v, is_causal=True), (query, key, value))
    with remarks.collect():
        lower(program.module, new_context(), Level.LOOP, stream="always")
    stores = [op for op in program.module.walk() if isinstance(op, loop.StoreOp)]
    assert len(stores) == 1
    assert sum(isinstance(op, loop.WhereOp) for op in program.module.walk()) == 1
    (got,) = evaluate(program.module, [x.numpy() for x in (query, key, value)])
    want = F.scaled_dot_product_attention(query.double(), key.double(), value.double(), is_causal=True)
    np.testing.assert_allclose(got, want.numpy(), rtol=1e-5, atol=1e-6)


def test_long_rows_of_equal_large_scores() -> None:
    rows = torch.full((2, 20_000), 80.0)
    np.testing.assert_allclose(streamed(lambda x: torch.logsumexp(x, -1), rows), 80 + np.log(20_000), rtol=1e-6)
