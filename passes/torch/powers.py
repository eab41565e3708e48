"""The pattern for powers."""

from __future__ import annotations

from xdsl.dialects import arith, math
from xdsl.dialects.builtin import AnyFloat, bf16
from xdsl.ir import SSAValue

from deplodock.dialects.tensor import element_of
from deplodock.dialects.torch import AtenOp
from deplodock.passes.torch.pattern import AtenPattern, operand_pair
from deplodock.passes.torch.tensor_builder import TensorBuilder


class LowerPow(AtenPattern):
    """`pow(x, e)`: as PyTorch computes it for e in {0, 1, 2, 3, 1/2, -1/2, -1, -2}, else by `math.powf`.

    Integers are raised to a number by repeated squaring, to a tensor by `math.ipowi`. Products of bf16 are
    each rounded, as PyTorch does it on a CPU.
    """

    overloads = ("pow.Tensor_Scalar", "pow.Tensor_Tensor", "pow.Scalar", "square")

    def lower(self, op: AtenOp, build: TensorBuilder) -> SSAValue:
        if op.schema().name in ("pow.Tensor_Tensor", "pow.Scalar"):
            return build.apply("pow", *operand_pair(op, build, "self", "exponent"))
        x = op.operand("self")
        exponent = 2 if op.schema().name == "square" else op.value("exponent")
        if not isinstance(element_of(x), AnyFloat):
            return _integer_power(build, x, exponent)
        if build.narrow == bf16:
            build = build.in_steps()
        if exponent in (0, 1, 2, 3):
            return _product(build, x, int(exponent))
        if exponent == 0.5:
            return build.map(math.SqrtOp, x)
        if exponent == -0.5:
            return build.map(math.RsqrtOp, x)
        if exponent in (-1, -2):
            return build.map(arith.DivfOp, build.constant_like(1, x), _product(build, x, -int(exponent)))
        return build.map(math.PowFOp, x, build.constant_like(exponent, x))


def _product(build: TensorBuilder, x: SSAValue, count: int) -> SSAValue:
    """x multiplied `count` times with itself, from the left."""
    value = build.constant_like(1, x) if count == 0 else x
    for _ in range(count - 1):
        value = build.apply("mul", value, x)
    return value


def _integer_power(build: TensorBuilder, x: SSAValue, exponent: float) -> SSAValue:
    if exponent < 0 or exponent != int(exponent):
        raise ValueError(f"an integer cannot be raised to {exponent}; cast to a float first")
    power, value, rest = x, None, int(exponent)
    while rest:
        if rest % 2:
            value = power if value is None else build.apply("mul", value, power)
        rest //= 2
        power = build.apply("mul", power, power) if rest else power
    return build.constant_like(1, x) if value is None else value
