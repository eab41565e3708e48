"""Writes the statements of one kernel: lines, names of values, elements of buffers, and handlers of operations."""

from __future__ import annotations

from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, TypeAlias

from xdsl.dialects.builtin import IndexType, NoneAttr
from xdsl.ir import Attribute, Operation, SSAValue
from xdsl.ir.affine import AffineMap

from deplodock.analysis.machine.resources import shared_memory
from deplodock.codegen import scalars
from deplodock.codegen.indices import IndexWriter, forms, is_int, offset, split_unrolled
from deplodock.codegen.names import Identifiers
from deplodock.dialects import kernel, loop
from deplodock.dialects.tile import Memory, memory_of


class KernelWriter:
    """The lines of a kernel so far, and what they name."""

    def __init__(self, function: kernel.FuncOp, is_reserved: Callable[[str], bool]) -> None:
        self.function = function
        self.team: kernel.Team = function
        """What has the threads that run what is written."""
        self.names = Identifiers(is_reserved)
        self.indices = IndexWriter(self.names)
        self.lines: list[str] = []
        self.shared = shared_memory(function)
        self._depth = 0

    @property
    def thread(self) -> str:
        """The name of the thread's number in its CTA, or role."""
        return self.names[self.team.thread_id]

    def line(self, text: str) -> None:
        """Write a line."""
        self.lines.append("  " * self._depth + text)

    @contextmanager
    def braces(self, head: str) -> Generator[None]:
        """Write `head { ... }` around what is written inside the context."""
        self.line(f"{head} {{")
        self._depth += 1
        yield
        self._depth -= 1
        self.line("}")

    def define(self, value: SSAValue, text: str) -> None:
        """Write the definition of an SSA value."""
        type = c_type_of(value)
        self.line(f"const {type} {self.names.define(value)} = {text};")

    def element(self, buffer: SSAValue, map: AffineMap, indices: Sequence[SSAValue]) -> str:
        """An element of a buffer, as a C lvalue.

        In global memory what unrolled loops add is added to a pointer, where it becomes a constant of the instruction:
        in a subscript, a sum of 32 bits that is widened, each access would take an addition of 64 bits.
        """
        subscripts = forms(map, indices)
        if memory_of(buffer) is None:
            start, turn = split_unrolled(offset(buffer, subscripts))
            if turn.terms:
                return f"({self.names[buffer]} + ({self.indices.text(start)}))[{self.indices.text(turn)}]"
        if not is_multidimensional(buffer):
            return f"{self.names[buffer]}[{self.indices.position(buffer, subscripts)}]"
        return self.names[buffer] + "".join(f"[{self.indices.text(form)}]" for form in subscripts)


Texts: TypeAlias = Mapping[type[Operation], Callable[[KernelWriter, Any], None]]
"""How the operations of one kind are written, by their class."""


def c_type(type: Attribute) -> str:
    """The C type of the elements or values of a type."""
    return scalars.C_TYPES[scalars.type_name(type)]


def c_type_of(value: SSAValue) -> str:
    """The C type of a value; an index is `int` where its range allows."""
    return "int" if isinstance(value.type, IndexType) and is_int(value) else c_type(value.type)


def is_multidimensional(buffer: SSAValue) -> bool:
    """Whether a buffer is declared with the extents of its shape: registers in row-major order."""
    return memory_of(buffer) is Memory.REGISTER and isinstance(loop.memref_of(buffer).layout, NoneAttr)
