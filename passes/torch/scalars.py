"""Elements of tensors: the numbers that they hold, and the scalar operations for their type."""

from __future__ import annotations

from math import isfinite

from xdsl.dialects import arith, math
from xdsl.dialects.builtin import AnyFloat, FloatAttr, IntegerAttr, i1
from xdsl.ir import Attribute, Block, Operation, Region

from deplodock.dialects.elements import ui8
from deplodock.dialects.tensor import YieldOp

# The scalar operations of each arithmetic operation: on floats, on integers.
_OPS: dict[str, tuple[type[Operation], type[Operation]]] = {
    "add": (arith.AddfOp, arith.AddiOp),
    "sub": (arith.SubfOp, arith.SubiOp),
    "mul": (arith.MulfOp, arith.MuliOp),
    "div": (arith.DivfOp, arith.DivSIOp),
    "pow": (math.PowFOp, math.IPowIOp),
    "maximum": (arith.MaximumfOp, arith.MaxSIOp),
    "minimum": (arith.MinimumfOp, arith.MinSIOp),
    "fmax": (arith.MaxnumfOp, arith.MaxSIOp),
    "fmin": (arith.MinnumfOp, arith.MinSIOp),
    "abs": (math.AbsFOp, math.AbsIOp),
}

# On i1, whose true is -1 as a signed number; PyTorch adds booleans as 0 and 1, and 2 is true.
_BOOL_OPS: dict[str, type[Operation]] = {
    **dict.fromkeys(("maximum", "fmax", "add"), arith.OrIOp),
    **dict.fromkeys(("minimum", "fmin"), arith.AndIOp),
}

# The predicates of each comparison: on floats, signed integers and i1.
_PREDICATES = {
    "eq": ("oeq", "eq", "eq"),
    "ne": ("une", "ne", "ne"),
    "lt": ("olt", "slt", "ult"),
    "le": ("ole", "sle", "ule"),
    "gt": ("ogt", "sgt", "ugt"),
    "ge": ("oge", "sge", "uge"),
}


def scalar_op(operation: str, element: Attribute) -> type[Operation]:
    """The scalar operation of an arithmetic operation, such as `add`, on an element type."""
    on_floats, on_integers = _OPS[operation]
    if element == i1:
        return _BOOL_OPS.get(operation, on_integers)
    return on_floats if isinstance(element, AnyFloat) else on_integers


def cast_op(source: Attribute, target: Attribute) -> type[Operation]:
    """The scalar conversion between two different element types; `i1` counts 0 and 1."""
    widens = width_of(target) > width_of(source)
    if isinstance(target, AnyFloat):
        if isinstance(source, AnyFloat):
            return arith.ExtFOp if widens else arith.TruncFOp
        return arith.UIToFPOp if source == i1 else arith.SIToFPOp
    if isinstance(source, AnyFloat):
        return arith.FPToSIOp
    if source in (i1, ui8):
        return arith.ExtUIOp
    return arith.ExtSIOp if widens else arith.TruncIOp


def comparison(predicate: str, element: Attribute) -> Region:
    """The scalar computation `x <predicate> y`; with NaN only `ne` holds."""
    on_floats, on_integers, on_bools = _PREDICATES[predicate]
    block = Block(arg_types=[element, element])
    if isinstance(element, AnyFloat):
        compare = arith.CmpfOp(block.args[0], block.args[1], on_floats)
    else:
        compare = arith.CmpiOp(block.args[0], block.args[1], on_bools if element == i1 else on_integers)
    block.add_ops([compare, YieldOp(compare.result)])
    return Region(block)


def is_nonzero(element: Attribute) -> Region:
    """The scalar computation `x != 0`; NaN is not zero."""
    block = Block(arg_types=[element])
    if isinstance(element, AnyFloat):
        zero = arith.ConstantOp(FloatAttr(0.0, element))
        compare = arith.CmpfOp(block.args[0], zero.result, "une")
    else:
        zero = arith.ConstantOp(IntegerAttr(0, element))  # pyright: ignore
        compare = arith.CmpiOp(block.args[0], zero.result, "ne")
    block.add_ops([zero, compare, YieldOp(compare.result)])
    return Region(block)


def number_of(value: float, element: Attribute) -> float:
    """A number as one of the element type, out of an integer's range as PyTorch wraps it.

    Raises:
        ValueError: the element type cannot hold the value.
    """
    if isinstance(element, AnyFloat):
        return float(value)
    if not isfinite(value) or value != int(value):
        raise ValueError(f"{value} is no {element}; cast the tensor with torch.aten._to_copy first")
    return int(value != 0) if element == i1 else wrapped(int(value), element)


def wrapped(value: int, element: Attribute) -> int:
    """A number in the range of an integer type, wrapped around."""
    width = width_of(element)
    lowest = 0 if element == ui8 else -(1 << (width - 1))
    return (value - lowest) % (1 << width) + lowest


def filling(value: float, element: Attribute) -> float:
    """A number as PyTorch fills tensors with it: integers get it truncated, booleans whether it is not 0."""
    if element == i1:
        return int(value != 0)
    return value if isinstance(element, AnyFloat) or not isfinite(value) else int(value)


def width_of(element: Attribute) -> int:
    """The bits of an element."""
    return element.bitwidth if isinstance(element, AnyFloat) else element.width.data  # pyright: ignore
