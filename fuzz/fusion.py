"""Random decisions of fusion, written as overrides on the operations of a tensor module before kernels are formed."""

from __future__ import annotations

import random
from collections.abc import Mapping

from xdsl.context import Context
from xdsl.dialects import arith
from xdsl.dialects.builtin import ModuleOp, StringAttr
from xdsl.ir import Operation
from xdsl.utils.exceptions import PassFailedException

from deplodock.analysis.shape.fusion import TensorOp
from deplodock.passes.driver import Level, lower
from deplodock.passes.tensor.grouping import FUSE

Overrides = Mapping[int, str]
"""`never` or `always` by the position of an operation among the tensor operations of a module."""


def tensor_ops(module: ModuleOp) -> list[Operation]:
    """The tensor operations that are fused or stored, in order; a constant is in every kernel that needs it."""
    return [op for op in module.walk() if isinstance(op, TensorOp) and not isinstance(op, arith.ConstantOp)]


def override(module: ModuleOp, overrides: Overrides) -> None:
    """Write overrides on the operations of a module that has no kernels yet; positions beyond its end are left out."""
    for position, op in enumerate(tensor_ops(module)):
        if position in overrides:
            op.attributes[FUSE] = StringAttr(overrides[position])


def draw_overrides(draw: random.Random, module: ModuleOp, ctx: Context) -> dict[int, str]:
    """Overrides for some operations of a module; `always` only where it is possible."""
    count = len(tensor_ops(module))
    overrides = {position: "never" for position in range(count) if draw.random() < 0.2}
    for position in draw.sample(range(count), min(count, 2)):
        wanted = overrides | {position: "always"}
        if _is_possible(module, wanted, ctx):
            overrides = wanted
    return overrides


def _is_possible(module: ModuleOp, overrides: Overrides, ctx: Context) -> bool:
    trial = module.clone()
    override(trial, overrides)
    try:
        lower(trial, ctx, Level.TENSOR)
    except PassFailedException as error:
        if "is not possible" in str(error):
            return False
        raise
    return True
