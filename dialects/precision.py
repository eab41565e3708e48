"""How exactly products of f32 are computed: PyTorch's words, on the products that may be less exact than FP32."""

from __future__ import annotations

from xdsl.dialects.builtin import StringAttr
from xdsl.ir import Operation

PRECISION = "deplodock.precision"
"""The attribute of a product of f32 factors: `high` or `medium`, as `torch.set_float32_matmul_precision` has them."""

HIGH, MEDIUM = "high", "medium"
"""As exact as FP32 in the end, by sums of products of parts; and as exact as TF32."""


def precision_of(op: Operation) -> str | None:
    """The precision that a product may have; None for that of its type."""
    found = op.attributes.get(PRECISION)
    return found.data if isinstance(found, StringAttr) else None
