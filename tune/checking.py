"""Whether results on a GPU are right, there: by the one error bar (`runtime/compare.py`), which has the last word."""

from __future__ import annotations

from collections.abc import Sequence

import torch

from deplodock.analysis.shape.roundings import Roundings
from deplodock.frontend.arrays import to_array
from deplodock.runtime.compare import FEWEST, SPREAD, compare
from deplodock.tune.drawing import derive
from deplodock.tune.requests import Begin


def wrong_results(
    request: Begin,
    inputs: Sequence[torch.Tensor],
    results: Sequence[torch.Tensor],
    references: Sequence[torch.Tensor],
    narrow: Sequence[torch.Tensor] | None = None,
) -> str:
    """What is wrong with the results of a kernel, which output and how; empty if they are right.

    `references` and `narrow` are what the programs of those names of the request give.

    A derived output is compared with what it is derived from, which has the rounding that it has, bit for bit.
    """
    buffers = [*inputs, *results]
    for place, (got, reference) in enumerate(zip(results, references, strict=True)):
        if (own := request.derived.get(len(inputs) + place)) is not None:
            right = derive(own.operation, buffers[own.source])
            is_right = bool((got.view(torch.int32) == right.view(torch.int32)).all())
            reason = "" if is_right else f"it is not {own.operation} of what it is derived from"
        else:
            reason = wrong(got, reference, request.rounded, None if narrow is None else narrow[place])
        if reason:
            return f"output {place}: {reason}"
    return ""


def wrong(got: torch.Tensor, reference: torch.Tensor, rounded: Roundings, narrow: torch.Tensor | None = None) -> str:
    """What is wrong with a result; empty if it is right.

    Args:
        got: the result.
        reference: that of the same kernel in float64 (integers and booleans: in their own type).
        rounded: see `compare`.
        narrow: the reference with roundings to types of 16 bits on the way; None if there are none.
    """
    if _is_within(got, reference, rounded):
        return ""
    own = None if narrow is None else to_array(narrow.to(got.dtype))
    verdict = compare(to_array(got), to_array(reference), own, rounded)
    return "" if verdict.passed else str(verdict)


def _is_within(got: torch.Tensor, reference: torch.Tensor, rounded: Roundings) -> bool:
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
    bar = rounded.bar(torch.finfo(got.dtype).eps)
    if _norm(differences) > bar * _norm(truth):
        return False
    return bool((differences.abs() <= SPREAD * bar * torch.maximum(truth.abs(), _like(truth, finite))).all())


def _like(values: torch.Tensor, counts: torch.Tensor) -> torch.Tensor:
    """The mean size of the elements in an element's row, column and so on, as `compare` has it."""
    squares = values.square()
    total = squares.sum() / counts.sum().clamp(min=1)
    product = torch.where(total > 0, total, 0.0)
    for axis in range(values.dim() if values.numel() else 0):
        others = [other for other in range(values.dim()) if other != axis]
        sums = squares.sum(others, keepdim=True) if others else squares
        found = counts.sum(others, keepdim=True) if others else counts.long()
        product = product * torch.where(found < FEWEST, 1.0, sums / found.clamp(min=1) / total.clamp(min=1e-300))
    return product.sqrt()


def _norm(values: torch.Tensor) -> float:
    return float(torch.linalg.vector_norm(values)) if values.numel() else 0.0
