"""Powers."""

from __future__ import annotations

from xdsl.dialects.builtin import bf16

from deplodock.passes.torch.lowering import lowers
from deplodock.passes.torch.tensors import Tensor, rsqrt, sqrt


@lowers("pow.Tensor_Tensor", "pow.Scalar", broadcasts=True)
def power(self: Tensor, exponent: Tensor) -> Tensor:
    """`pow(x, e)`: of floats `math.powf`, of integers `math.ipowi`."""
    return self.apply("pow", exponent)


@lowers("pow.Tensor_Scalar", "square")
def power_of_number(self: Tensor, exponent: float = 2) -> Tensor:
    """`pow(x, e)`: as PyTorch computes it for e in {0, 1, 2, 3, 1/2, -1/2, -1, -2}, else by `math.powf`.

    Integers are raised to a number by repeated squaring. Products of bf16 are each rounded, as PyTorch does it on a
    CPU.
    """
    if not self.is_float:
        return _integer_power(self, exponent)
    x = self.in_steps() if self.build.narrow == bf16 else self
    if exponent in (0, 1, 2, 3):
        return _product(x, int(exponent))
    if exponent == 0.5:
        return sqrt(x)
    if exponent == -0.5:
        return rsqrt(x)
    if exponent in (-1, -2):
        return x.like(1) / _product(x, -int(exponent))
    return x.apply("pow", exponent)


def _product(x: Tensor, count: int) -> Tensor:
    """x multiplied `count` times with itself, from the left."""
    value = x.like(1) if count == 0 else x
    for _ in range(count - 1):
        value = value * x
    return value


def _integer_power(x: Tensor, exponent: float) -> Tensor:
    if exponent < 0 or exponent != int(exponent):
        raise ValueError(f"an integer cannot be raised to {exponent}; cast to a float first")
    power, value, rest = x, None, int(exponent)
    while rest:
        if rest % 2:
            value = power if value is None else value * power
        rest //= 2
        power = power * power if rest else power
    return x.like(1) if value is None else value
