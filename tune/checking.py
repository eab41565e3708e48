"""Whether results on a GPU are right, there: by the one error bar (`runtime/compare.py`), which has the last word."""

from __future__ import annotations

from collections.abc import Sequence

import torch

from deplodock.frontend.arrays import to_array
from deplodock.runtime.compare import allowed_error, allowed_worst, compare
from deplodock.tune.drawing import derive
from deplodock.tune.requests import Begin


def wrong_results(
    request: Begin, inputs: Sequence[torch.Tensor], results: Sequence[torch.Tensor], references: Sequence[torch.Tensor]
) -> str:
    """What is wrong with the results of a kernel, which output and how; empty if they are right.

    A derived output is compared with what it is derived from, which has the rounding that it has, bit for bit.
    """
    buffers = [*inputs, *results]
    for place, (got, reference) in enumerate(zip(results, references, strict=True)):
        if (own := request.derived.get(len(inputs) + place)) is not None:
            right = derive(own.operation, buffers[own.source])
            is_right = bool((got.view(torch.int32) == right.view(torch.int32)).all())
            reason = "" if is_right else f"it is not {own.operation} of what it is derived from"
        else:
            reason = wrong(got, reference, request.reduction_extent, request.roundoff)
        if reason:
            return f"output {place}: {reason}"
    return ""


def wrong(got: torch.Tensor, reference: torch.Tensor, reduction_extent: int, roundoff: float = 0.0) -> str:
    """What is wrong with a result; empty if it is right.

    Args:
        got: the result.
        reference: that of the same kernel in float64 (integers and booleans: in their own type).
        reduction_extent: see `compare`.
        roundoff: see `compare`.
    """
    if _is_within(got, reference, reduction_extent, roundoff):
        return ""
    verdict = compare(to_array(got), to_array(reference), None, reduction_extent, roundoff=roundoff)
    return "" if verdict.passed else str(verdict)


def _is_within(got: torch.Tensor, reference: torch.Tensor, reduction_extent: int, roundoff: float) -> bool:
    """Whether a result is right, as far as that is seen without copying it from the GPU."""
    if not got.is_floating_point():
        return bool((got == reference).all())
    expected = reference.to(got.dtype)
    finite = got.isfinite() & reference.isfinite()
    specials = ~got.isfinite() | ~expected.isfinite()
    if not bool((~specials | (got == expected) | (got.isnan() & expected.isnan())).all()):
        return False
    truth = torch.where(finite, reference, 0.0)
    differences = torch.where(finite, got.double() - reference, 0.0)
    bar = allowed_error(torch.finfo(got.dtype).eps, got.dtype == torch.float64, reduction_extent, roundoff)
    allowed = bar * _norm(truth)
    worst = float(differences.abs().max()) if differences.numel() else 0.0
    return _norm(differences) <= allowed and worst <= allowed_worst(allowed, int(finite.sum()))


def _norm(values: torch.Tensor) -> float:
    return float(torch.linalg.vector_norm(values)) if values.numel() else 0.0
