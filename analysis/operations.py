"""Where an operation stands, in the source and in other operations, what touches no memory, how values are called."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Iterator
from functools import cache
from typing import TypeVar

from xdsl.dialects.arith import Arith
from xdsl.dialects.builtin import FileLineColLoc, NameLoc
from xdsl.ir import Operation, SSAValue
from xdsl.traits import MemoryEffect, MemoryEffectKind, NoMemoryEffect, Pure, only_has_effect

_Node = TypeVar("_Node", bound=Hashable)


def position_of(op: Operation) -> str | None:
    """`file:line:column` of an operation that was read from a file, or is from a call in a program."""
    location = op.location
    match location.location if isinstance(location, NameLoc) else location:
        case FileLineColLoc(filename=file, line=line, column=column):
            return f"{file.data}:{line.data}:{column.data}"
        case _:
            return None


def ancestors(op: Operation, below: Operation | None = None) -> Iterator[Operation]:
    """The operations around one, the innermost first; where `below` is given, those inside of it."""
    parent = op.parent_op()
    while parent is not None and parent is not below:
        yield parent
        parent = parent.parent_op()


def operands_of(op: Operation) -> tuple[SSAValue, ...]:
    """The operands of an operation, of which `op.operands` makes a view at each call."""
    return op._operands  # pyright: ignore[reportPrivateUsage]


@cache
def is_pure(cls: type[Operation]) -> bool:
    """Whether operations of a class touch no memory, which their traits say once for all of them."""
    kinds = [type(trait) for trait in cls.get_traits_of_type(MemoryEffect)]
    return bool(kinds) and all(kind in (Pure, NoMemoryEffect) for kind in kinds)


def users_of(op: Operation) -> Iterable[Operation]:
    """The operations that use results of one."""
    return (use.operation for result in op.results for use in result.uses)


def reached(roots: Iterable[_Node], following: Callable[[_Node], Iterable[_Node]]) -> set[_Node]:
    """The operations, or other nodes, that lie on paths from the roots, these too."""
    found, pending = set[_Node](), list(roots)
    while pending:
        if (node := pending.pop()) not in found:
            found.add(node)
            pending += following(node)
    return found


def label(value: SSAValue) -> str:
    """How messages call a value: `%k`, or `%?` where it has no name."""
    return f"%{value.name_hint or '?'}"


def only_reads(op: Operation) -> bool:
    """Whether an operation does nothing to memory but read it.

    xDSL states no effects for the integer divisions of arith and for `arith.extsi`; they have none.
    """
    return only_has_effect(op, MemoryEffectKind.READ) or is_arithmetic(op)


def is_arithmetic(op: Operation) -> bool:
    """Whether an operation is of the arith dialect, which computes values of values and nothing else."""
    return op.dialect_name() == Arith.name
