"""The ATen operations that programs may use: what `deplodock ops` prints and `docs/ops.md` holds."""

from __future__ import annotations

import inspect
import textwrap

from xdsl.ir import Attribute

from deplodock.dialects.elements import INTEGERS, listed
from deplodock.dialects.torch.aten import ALIASES, ANY, BOOL, FLOAT, INTEGER, NUMBER, SCHEMAS
from deplodock.dialects.torch.schema import Schema, TypeRule
from deplodock.passes.torch.lowering import lowerings

_NAMES: dict[tuple[Attribute, ...], str] = {
    ANY: "all",
    NUMBER: "numbers",
    FLOAT: "floats",
    INTEGERS: "integers",
    INTEGER: "integers, booleans",
    BOOL: "booleans",
}


def listing() -> str:
    """A line for each operation: its name, the elements it computes on or gives, and what it becomes."""
    width = max(len(name) for name in SCHEMAS)
    columns = max(len(_elements(schema)) for schema in SCHEMAS.values())
    lines = [
        f"{name:{width}}  {_elements(schema):{columns}}  {_meaning(name)}" for name, schema in sorted(SCHEMAS.items())
    ]
    return "\n".join(lines) + "\n"


def page() -> str:
    """The text of docs/ops.md."""
    rows = [
        f"| `{name}` | {_elements(schema)} | {_meaning(name).replace('|', chr(92) + '|')} |"
        for name, schema in sorted(SCHEMAS.items())
    ]
    aliases = ", ".join(f"`{alias}` is `{name}`" for alias, name in sorted(ALIASES.items()))
    others = textwrap.fill(f"Other names: {aliases}.", 120, break_on_hyphens=False)
    return f"""# Operations

Made by `make docs`; `deplodock ops` prints this table. These are the overloads of ATen that the `torch` dialect has.
An operation that is not among them is decomposed by PyTorch where it can be, and else refused by name with its line.

Floats are {listed(FLOAT)}, integers {listed(INTEGERS)} (ui8 is uint8), numbers both, all also i1 (bool).
Types are promoted as in PyTorch.
Results of a comparison are i1; of operations marked `to`, operands are of any type and only the results are limited.

| operation | elements | what it becomes |
|---|---|---|
{chr(10).join(rows)}

{others}
"""


def _elements(schema: Schema) -> str:
    names = _NAMES.get(schema.elements) or listed(schema.elements)
    return f"to {names}" if schema.rule is TypeRule.FREE else names


def _meaning(name: str) -> str:
    """The first sentence of the formula that lowers an operation."""
    paragraph = (inspect.getdoc(lowerings()[name].formula) or "").split("\n\n")[0]
    return " ".join(paragraph.split())
