"""What operations do to memory, where xDSL leaves it open."""

from __future__ import annotations

from xdsl.dialects.arith import Arith
from xdsl.ir import Operation
from xdsl.traits import MemoryEffectKind, only_has_effect


def only_reads(op: Operation) -> bool:
    """Whether an operation does nothing to memory but read it.

    xDSL states no effects for the integer divisions of arith and for `arith.extsi`; they have none.
    """
    return only_has_effect(op, MemoryEffectKind.READ) or is_arithmetic(op)


def is_arithmetic(op: Operation) -> bool:
    """Whether an operation is of the arith dialect, which computes values of values and nothing else."""
    return op.dialect_name() == Arith.name
