"""The same kernel in float64: what it gives is what the results of a kernel's schedules are compared with.

Of the passes only those below loops differ from schedule to schedule, so that is where a wrong one shows: in float64 a
kernel has another schedule, and no tensor core. Conversions between floats are left out, as every value has all digits,
and so are low parts: a buffer of them, which is derived from another one (`analysis/shape/derived.py`), has whole
numbers here, and those are no reference.
"""

from __future__ import annotations

from xdsl.dialects import arith
from xdsl.dialects.builtin import DenseIntOrFPElementsAttr, ModuleOp, f64
from xdsl.ir import Attribute
from xdsl.pattern_rewriter import PatternRewriteWalker, TypeConversionPattern

from deplodock.dialects import math_ext
from deplodock.dialects.elements import FLOATS
from deplodock.dialects.precision import HIGHEST, set_precision_of
from deplodock.errors import UnsupportedError

_WHOLE = (arith.ExtFOp, arith.TruncFOp, math_ext.LowPartOp, math_ext.WithLowPartOp)
"""What gives the float that is its first operand, if that has all digits."""


def widen(module: ModuleOp) -> None:
    """Make every float of a module at loop level an f64, its buffers' elements among them, and every product exact.

    Raises UnsupportedError where an operation depends on the bits of a float.
    """
    for op in module.walk():
        given = (*op.properties.values(), *op.attributes.values())
        set_precision_of(op, HIGHEST)
        if isinstance(op, arith.BitcastOp) or any(isinstance(each, DenseIntOrFPElementsAttr) for each in given):
            raise UnsupportedError(f"{op.name} depends on the bits of its floats, and has no counterpart in float64")
    PatternRewriteWalker(_Widen(recursive=True), apply_recursively=False).rewrite_module(module)
    for op in list(module.walk()):
        if isinstance(op, _WHOLE):
            op.results[0].replace_all_uses_with(op.operands[0])
            op.detach()
            op.erase()


class _Widen(TypeConversionPattern):
    def convert_type(self, typ: Attribute, /) -> Attribute | None:
        return f64 if typ in FLOATS else None
