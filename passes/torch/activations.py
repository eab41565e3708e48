"""Patterns for activation functions, as PyTorch computes them so that both tails come out right."""

from __future__ import annotations

from math import pi, sqrt

from xdsl.dialects import arith, math
from xdsl.ir import SSAValue

from deplodock.dialects.torch import AtenOp
from deplodock.passes.torch.pattern import AtenPattern
from deplodock.passes.torch.tensor_builder import TensorBuilder


class LowerRelu(AtenPattern):
    """`maximum(x, 0)`, which propagates NaN."""

    overloads = ("relu",)

    def lower(self, op: AtenOp, build: TensorBuilder) -> SSAValue:
        x = op.operand("self")
        return build.apply("maximum", x, build.constant_like(0, x))


class LowerLeakyRelu(AtenPattern):
    """`x` where it is positive, else `x * negative_slope`."""

    overloads = ("leaky_relu",)

    def lower(self, op: AtenOp, build: TensorBuilder) -> SSAValue:
        x = op.operand("self")
        scaled = build.map(arith.MulfOp, x, build.constant_like(op.value("negative_slope"), x), name="scaled")
        return build.select(build.compare_with("gt", x, 0), x, scaled)


class LowerSigmoid(AtenPattern):
    """`1 / (1 + exp(-x))`; silu is x times that, in one division."""

    overloads = ("sigmoid", "silu")

    def lower(self, op: AtenOp, build: TensorBuilder) -> SSAValue:
        x = op.operand("self")
        one = build.constant_like(1, x)
        exp = build.map(math.ExpOp, build.map(arith.NegfOp, x, name="neg"), name="exp")
        denominator = build.map(arith.AddfOp, one, exp, name="denominator")
        return build.map(arith.DivfOp, one if op.schema().name == "sigmoid" else x, denominator)


class LowerGelu(AtenPattern):
    """`x / 2 * (1 + erf(x / sqrt 2))`; approximate: `x / 2 * (1 + tanh(sqrt(2 / pi) * (x + 0.044715 * x^3)))`."""

    overloads = ("gelu",)

    def lower(self, op: AtenOp, build: TensorBuilder) -> SSAValue:
        x = op.operand("self")
        approximate = op.value("approximate")
        if approximate not in ("none", "tanh"):
            raise ValueError(f"approximate must be 'none' or 'tanh', not '{approximate}'")
        if approximate == "none":
            scaled = build.map(arith.MulfOp, x, build.constant_like(sqrt(0.5), x), name="scaled")
            inner = build.map(math.ErfOp, scaled, name="erf")
        else:
            square = build.map(arith.MulfOp, x, x, name="square")
            cube = build.map(arith.MulfOp, square, x, name="cube")
            small = build.map(arith.MulfOp, cube, build.constant_like(0.044715, x), name="small")
            bent = build.map(arith.AddfOp, x, small, name="bent")
            scaled = build.map(arith.MulfOp, bent, build.constant_like(sqrt(2 / pi), x), name="scaled")
            inner = build.map(math.TanhOp, scaled, name="tanh")
        half = build.map(arith.MulfOp, x, build.constant_like(0.5, x), name="half")
        return build.map(arith.MulfOp, half, build.map(arith.AddfOp, inner, build.constant_like(1, x), name="above"))


class LowerSoftplus(AtenPattern):
    """`log(1 + exp(beta * x)) / beta`, and x itself where beta * x is above the threshold."""

    overloads = ("softplus",)

    def lower(self, op: AtenOp, build: TensorBuilder) -> SSAValue:
        x, beta = op.operand("self"), op.value("beta")
        scaled = x if beta == 1 else build.map(arith.MulfOp, x, build.constant_like(beta, x), name="scaled")
        soft = build.map(math.Log1pOp, build.map(math.ExpOp, scaled, name="exp"), name="soft")
        if beta != 1:
            soft = build.map(arith.DivfOp, soft, build.constant_like(beta, x), name="soft")
        return build.select(build.compare_with("gt", scaled, op.value("threshold")), x, soft)
