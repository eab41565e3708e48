"""Whether a program's results are worth comparing: rounding errors neither cancel all digits nor flip a decision."""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import partial
from typing import Any

import torch
from torch import fx
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.utils import _pytree as pytree
from xdsl.dialects.builtin import AnyFloat

from deplodock.dialects.precision import coarsest_precision
from deplodock.dialects.torch.aten import PRODUCTS, SCHEMAS
from deplodock.frontend.program import CapturedProgram

_LOST = 1e-3
"""PyTorch's own error, of the size of the result, from which on all digits count as cancelled."""

_LOST_HALF = 5e-2
"""The same for types of 16 bits, and where factors of products are rounded to TF32."""

_TF32_ULP = 2.0**-10

_ULPS = 4.0
"""The errors, in ulps of a result and of its root mean square, that another order of operations may make."""

_CONTRACTIONS = ("linear", "matmul", "mm", "bmm", "mv", "dot", "addmm", "baddbmm", "addmv", "einsum")

_FOLDS = (*_CONTRACTIONS, "sum", "prod", "cumsum", "pow")
"""Operations on all numbers whose results depend on the order, or on the library, where they are floats."""

_CONVOLUTIONS = ("convolution", *(f"conv{way}{dims}d" for way in ("", "_transpose") for dims in (1, 2, 3)))

_SUMS = (
    *(*_CONTRACTIONS, *_CONVOLUTIONS, "scaled_dot_product_attention", "sum", "cumsum", "mean"),
    *("var", "std", "var_mean", "layer_norm", "rms_norm", "group_norm"),
)
"""Operations that add products or squares, which overflow in one order and not in another, or not with an FMA."""


class _Undefined(Exception):
    """An operation whose result hardware and libraries choose, as the text says."""


class _Perturbed(fx.Interpreter):
    """Runs a captured graph with errors of a few ulps after every operation that may round in several ways.

    Where factors of products are rounded to TF32, that is ulps of TF32 after those. Raises _Undefined where an
    operation's result is not defined.
    """

    def __init__(self, graph: fx.GraphModule, *, rounds_factors: bool) -> None:
        super().__init__(graph)
        self._rounds_factors = rounds_factors
        self.extra_traceback = False
        """An exception keeps its text, without the graph."""
        self._generator = torch.Generator().manual_seed(0)

    def call_function(self, target: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Run one operation."""
        name = str(target).removeprefix("aten.").removesuffix(".default")
        if name.partition(".")[0] in ("var", "var_mean"):
            # They square what is left of values when their rounded mean is subtracted, however little it is.
            args = (self._perturb(args[0]), *args[1:])
        result = super().call_function(target, args, kwargs)
        if name in ("_to_copy", "type_as"):
            _check_cast(args[0], result)
        if name.partition(".")[0] in _SUMS:
            _check_sum([value for value in pytree.tree_leaves(args) if isinstance(value, torch.Tensor)])
        if name.startswith("var_mean") and not args[0].isfinite().all():
            raise _Undefined("a mean that PyTorch updates element by element has no value for infinite ones")
        if name == "scaled_dot_product_attention":
            if kwargs.get("is_causal", args[5:6] == (True,)):
                _check_hidden(*args[:2])
            with sdpa_kernel(SDPBackend.MATH):
                _check_attention(result, super().call_function(target, args, kwargs))
        if not _is_rounded(name):
            return result
        is_coarse = self._rounds_factors and name in PRODUCTS
        return pytree.tree_map(partial(self._perturb, is_coarse=is_coarse), result)

    def _perturb(self, value: Any, *, is_coarse: bool = False) -> Any:
        if not isinstance(value, torch.Tensor) or not value.is_floating_point():
            return value
        ulp = _TF32_ULP if is_coarse and value.dtype == torch.float32 else torch.finfo(value.dtype).eps
        wide = value.double()
        finite = wide[wide.isfinite()]
        size = finite.square().mean().sqrt() if finite.numel() else torch.zeros(())
        noise = torch.rand(wide.shape, generator=self._generator, dtype=torch.float64) * 2 - 1
        moved = wide + noise * _ULPS * ulp * (wide.abs() + size)
        return torch.where(wide.isfinite(), moved, wide).to(value.dtype)


def _is_rounded(name: str) -> bool:
    schema = SCHEMAS.get(name)
    if schema is None or name.partition(".")[0] in _FOLDS:
        return True
    return bool(schema.elements) and all(isinstance(element, AnyFloat) for element in schema.elements)


def _check_cast(value: torch.Tensor, result: torch.Tensor) -> None:
    if not value.is_floating_point() or result.is_floating_point() or result.dtype == torch.bool:
        return
    info = torch.iinfo(result.dtype)
    wide = value.double()
    if not bool(((wide > float(info.min) - 1) & (wide < float(info.max))).all()):
        raise _Undefined("a float is cast to an integer type that cannot hold it")


def _check_sum(values: Sequence[torch.Tensor]) -> None:
    for value in (value for value in values if value.is_floating_point()):
        wide = value.double().abs()
        largest = float(wide[wide.isfinite()].max()) if bool(wide.isfinite().any()) else 0.0
        if largest * largest * value.numel() > torch.finfo(torch.promote_types(value.dtype, torch.float32)).max:
            raise _Undefined("parts of a sum overflow")


def _check_attention(result: torch.Tensor, formula: torch.Tensor) -> None:
    """PyTorch's kernel for CPUs gives 0 to a query all of whose scores are NaN, its formula NaN."""
    if bool((formula.isnan() & (result == 0)).any()):
        raise _Undefined("the scores of a query are all NaN")


def _check_hidden(query: torch.Tensor, key: torch.Tensor) -> None:
    """PyTorch's kernels replace the scores that `is_causal` hides by -inf; its formula, for keys whose features are
    not next to each other, adds -inf to them.
    """
    heads = query.shape[-3] // key.shape[-3] if query.dim() > 2 and key.dim() > 2 else 1
    keys = key.double().repeat_interleave(heads, -3) if heads > 1 else key.double()
    hidden = (query.double() @ keys.mT).triu(1)
    if not bool((hidden < math.inf).all()):
        raise _Undefined("a score that is_causal hides is NaN or infinite")


def unstable(captured: CapturedProgram, eager: Sequence[torch.Tensor], reference: Sequence[torch.Tensor]) -> str | None:
    """Why results of a program cannot be compared, or None: digits that cancel, decisions that roundings flip."""
    is_coarse = coarsest_precision(captured.module) == "medium"
    try:
        disturbed = captured.run(_Perturbed(captured.graph, rounds_factors=is_coarse), captured.inputs)
    except _Undefined as reason:
        return str(reason)
    for own, wanted, other in zip(eager, reference, disturbed, strict=True):
        reason = _difference(own, wanted, is_coarse) or _difference(own, other, is_coarse)
        if reason is not None:
            return reason
    return None


def _difference(own: torch.Tensor, other: torch.Tensor, is_coarse: bool) -> str | None:
    if not own.is_floating_point():
        return None if torch.equal(own, other) else "roundings flip an integer or a condition"
    values, rounded = own.double(), other.to(own.dtype).double()
    finite = values.isfinite()
    if not torch.equal(finite, rounded.isfinite()):
        return "PyTorch itself overflows where float64 does not"
    error, size = (values - rounded)[finite], rounded[finite]
    limit = _LOST_HALF if own.dtype.itemsize == 2 or is_coarse else _LOST
    if float(error.norm()) > limit * float(size.norm()):
        return "nearly all digits cancel"
    jump = float(error.abs().max()) > 8 * limit * float(size.square().mean().sqrt()) if size.numel() else False
    return "roundings flip an element" if jump else None
