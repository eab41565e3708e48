"""The same kernel in float64: what it gives is what the results of a kernel's schedules are compared with.

Of the passes only those below loops differ from schedule to schedule, so that is where a wrong one shows: in float64 a
kernel has another schedule, and no tensor core. Conversions between floats are left out, as every value has all digits,
and so are low parts: a buffer of them, which is derived from another one (`analysis/shape/derived.py`), has whole
numbers here, and those are no reference.
"""

from __future__ import annotations

from xdsl.dialects import arith
from xdsl.dialects.builtin import BFloat16Type, DenseIntOrFPElementsAttr, ModuleOp, StringAttr, f16, f32, f64
from xdsl.ir import Attribute
from xdsl.pattern_rewriter import PatternRewriteWalker, TypeConversionPattern
from xdsl.rewriter import InsertPoint, Rewriter

from deplodock.dialects import loop, math_ext
from deplodock.dialects.elements import FLOATS
from deplodock.dialects.precision import HIGHEST, set_precision_of
from deplodock.errors import UnsupportedError

bf16 = BFloat16Type()

_NARROW = "deplodock.narrow"
"""The name of the type that a cast rounds to."""

_WHOLE = (arith.ExtFOp, arith.TruncFOp, math_ext.LowPartOp, math_ext.WithLowPartOp)
"""What gives the float that is its first operand, if that has all digits."""


def widen(module: ModuleOp, *, rounds: bool = False) -> None:
    """Make every float of a module at loop level an f64, its buffers' elements among them, and every product exact.

    With `rounds`, casts to a type narrower than FP32 round to that type still, and nothing else does: that is what a
    kernel's own roundings there do to its results. Raises UnsupportedError where an operation depends on the bits of a
    float.
    """
    narrow = {"f16": f16, "bf16": bf16}
    for op in module.walk():
        given = (*op.properties.values(), *op.attributes.values())
        set_precision_of(op, HIGHEST)
        if isinstance(op, arith.BitcastOp) or any(isinstance(each, DenseIntOrFPElementsAttr) for each in given):
            raise UnsupportedError(f"{op.name} depends on the bits of its floats, and has no counterpart in float64")
        if rounds and isinstance(op, arith.TruncFOp) and str(op.result.type) in narrow:
            op.attributes[_NARROW] = StringAttr(str(op.result.type))
    PatternRewriteWalker(_Widen(recursive=True), apply_recursively=False).rewrite_module(module)
    for op in list(module.walk()):
        if isinstance(op, _WHOLE):
            value = op.operands[0]
            if isinstance(name := op.attributes.get(_NARROW), StringAttr):
                to, back = arith.TruncFOp(value, f32), arith.ExtFOp
                casts = [to, cast := arith.TruncFOp(to, narrow[name.data]), back(cast, f32)]
                casts.append(back(casts[-1], f64))
                Rewriter.insert_op(casts, InsertPoint.before(op))
                value = casts[-1].result
            op.results[0].replace_all_uses_with(value)
            op.detach()
            op.erase()


def rounds_inside(module: ModuleOp) -> bool:
    """Whether a kernel at loop level computes with what it has rounded to a type narrower than FP32."""
    casts = (op.result for op in module.walk() if isinstance(op, arith.TruncFOp) and op.result.type in (f16, bf16))
    return any(not isinstance(use.operation, loop.StoreOp) for result in casts for use in result.uses)


class _Widen(TypeConversionPattern):
    def convert_type(self, typ: Attribute, /) -> Attribute | None:
        return f64 if typ in FLOATS else None
