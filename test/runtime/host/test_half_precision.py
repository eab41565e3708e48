"""Functions that are approximate in FP32 where they are rounded to half precision: every number of its types."""

from __future__ import annotations

import numpy as np
import pytest
from ml_dtypes import bfloat16

from deplodock.codegen.cuda import print_module
from deplodock.passes.driver import Level, lower, new_context
from deplodock.runtime.host.harness import build

torch = pytest.importorskip("torch")

from deplodock.frontend.capture import export  # noqa: E402


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16], ids=str)
@pytest.mark.parametrize(
    "function", [torch.sigmoid, torch.nn.functional.silu, torch.nn.functional.mish], ids=["sigmoid", "silu", "mish"]
)
def test_approximate_functions(dtype: torch.dtype, function: torch.nn.Module) -> None:
    """Each result is a neighbour of the exact value, and special values give what they give in float64."""
    x = torch.arange(-(2**15), 2**15).to(torch.int16).view(dtype)
    captured = export(lambda x: function(x), (x,))
    lower(captured.module, new_context(), Level.KERNEL)
    (program,) = build([captured.module])
    assert "__fdividef" in print_module(captured.module)
    element = np.dtype(bfloat16) if dtype == torch.bfloat16 else np.dtype(np.float16)
    (output,) = program.run([x.view(torch.int16).numpy().view(element)])
    exact = function(x.double()).numpy()
    got = output.astype(np.float64)
    np.testing.assert_array_equal(np.isnan(got), np.isnan(exact))
    # Of f16 the least number is 2^-24; quotients by more than 2^126, of x up to 128, are 0.
    step, least = (2.0**-7, 2.0**-119) if dtype == torch.bfloat16 else (2.0**-10, 2.0**-24)
    with np.errstate(invalid="ignore"):
        near = np.isnan(exact) | (got == exact) | (np.abs(got - exact) <= step * np.abs(exact) + least)
    assert near.all(), (x[~near][:5], got[~near][:5], exact[~near][:5])


def test_single_precision_is_exact() -> None:
    """The functions of FP32 keep CUDA's own."""
    captured = export(lambda x: torch.nn.functional.silu(x), (torch.randn(64),))
    lower(captured.module, new_context(), Level.KERNEL)
    assert "__fdividef" not in print_module(captured.module)
