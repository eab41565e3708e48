"""What the rules read of an ATen operation."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

from xdsl.ir import SSAValue

from deplodock.dialects.torch.schema import Schema


class AtenCall(Protocol):
    """Operands and arguments by the names of the schema, and the number of results."""

    @property
    def tensors(self) -> Sequence[SSAValue]:
        """All operands in order."""
        ...

    @property
    def outputs(self) -> Sequence[SSAValue]:
        """The results as they are stated."""
        ...

    def schema(self) -> Schema:
        """The overload."""
        ...

    def has(self, name: str) -> bool:
        """Whether the overload has a parameter of this name."""
        ...

    def value(self, name: str) -> Any:
        """A parameter that is no tensor, or its default."""
        ...

    def tensor(self, name: str) -> SSAValue | None:
        """The operand for a tensor parameter, None if it is absent or a number."""
        ...

    def operand(self, name: str) -> SSAValue:
        """The operand for a required tensor parameter."""
        ...

    def tensor_list(self, name: str) -> Sequence[SSAValue | None]:
        """The operands for a list parameter, None where the list has none."""
        ...
