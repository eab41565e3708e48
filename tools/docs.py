"""The reference pages `docs/dialects.md`, `docs/passes.md` and `docs/ops.md`, which `make docs` writes."""

from __future__ import annotations

import inspect
import re
import sys
import textwrap
from pathlib import Path

from xdsl.ir import Dialect, Operation
from xdsl.passes import ModulePass
from xdsl.traits import MemoryEffect, MemoryReadEffect, MemoryWriteEffect, NoMemoryEffect, Pure, RecursiveMemoryEffect

from deplodock.dialects.kernel import Kernel
from deplodock.dialects.loop import Loop
from deplodock.dialects.math_ext import MathExt
from deplodock.dialects.tensor import TensorExt
from deplodock.dialects.tile import Tile
from deplodock.dialects.torch import Torch
from deplodock.errors import Error
from deplodock.passes.options import Option, OptionsPass
from deplodock.passes.pipeline import PASSES, Stage
from deplodock.tools import operations

_DIALECTS = (Torch, TensorExt, MathExt, Loop, Tile, Kernel)
_EFFECTS: dict[type[MemoryEffect], str] = {
    Pure: "None.",
    NoMemoryEffect: "None.",
    RecursiveMemoryEffect: "Those of the operations in its regions.",
    MemoryReadEffect: "Reads any memory.",
    MemoryWriteEffect: "Writes any memory.",
}
"""The effects that xDSL's traits state; ours say it in the first sentence of their docstrings."""


def dialect_page() -> str:
    """The text of docs/dialects.md: for each operation what it means, an example and its memory effects.

    Raises:
        Error: an operation has no docstring, or no example where its dialect needs one.
    """
    parts = ["# Dialects", "Made by `make docs` from the docstrings of `dialects/`."]
    for dialect in _DIALECTS:
        parts += [f"## {dialect.name}", _markdown(_module_doc(next(dialect.operations)))]
        parts += _table(dialect) if dialect is Torch else [_operation(op) for op in dialect.operations]
    return "\n\n".join(parts) + "\n"


def passes_page() -> str:
    """The text of docs/passes.md: every pass in pipeline order, with what it does and its options."""
    parts = ["# Passes", "Made by `make docs` from the docstrings of `passes/`, in the order of `passes/pipeline.py`."]
    return "\n\n".join([*parts, *(_pass(stage) for stage in PASSES)]) + "\n"


def _table(dialect: Dialect) -> list[str]:
    rows = [_item(f"`{op.name}`: {inspect.getdoc(op) or ''}") for op in dialect.operations]
    return ["All operations have no memory effects.", "\n".join(rows)]


def _operation(op: type[Operation]) -> str:
    doc = op.__dict__.get("__doc__") or ""
    # The example is the last part of the docstring: the operation, after its results if it has any.
    start = re.search(rf"^ *(%\S.* = )?{re.escape(op.name)}( |$)", doc, re.MULTILINE)
    if start is None:
        raise Error(f"the docstring of {op.name} has no example; end it with one")
    text, example = inspect.cleandoc(doc[: start.start()]), inspect.cleandoc("\n" + doc[start.start() :])
    return f"### {op.name}\n\n{text}\n\n```mlir\n{example}\n```\n\nMemory effects: {_effects(op)}"


def _effects(op: type[Operation]) -> str:
    traits = op.get_traits_of_type(MemoryEffect)
    if not traits:
        raise Error(f"{op.name} does not state its memory effects; give it a trait such as Pure()")
    stated = [_EFFECTS.get(type(trait)) or _first_sentence(inspect.getdoc(trait) or "") for trait in traits]
    return " ".join(sorted(set(stated)))


def _pass(stage: Stage) -> str:
    cls = stage.load()
    doc = _module_doc(cls).removeprefix(f"{stage.name}: ")
    parts = [f"## {stage.label}: {stage.name}", _markdown(doc[0].upper() + doc[1:])]
    if issubclass(cls, OptionsPass):
        if options := cls.options().values():
            parts += ["Options:", "\n".join(_item(_option(option)) for option in options)]
        if cls.after:
            parts.append(_lines("After " + ", ".join(f"`{name}`" for name in cls.after) + "."))
    return "\n\n".join(parts)


def _option(option: Option) -> str:
    default = "" if option.default is None else f" = {option.default}"
    return f"`{option.name}{default}`, {option.domain}: {option.documentation}."


def _item(text: str) -> str:
    """An item of a list, in lines of 120 columns."""
    return _lines(f"- {' '.join(text.split())}", indent="  ")


def _lines(text: str, indent: str = "") -> str:
    """Text in lines of 120 columns."""
    return textwrap.fill(text, 120, subsequent_indent=indent, break_long_words=False, break_on_hyphens=False)


def _module_doc(cls: type[Operation | ModulePass]) -> str:
    return inspect.getdoc(sys.modules[cls.__module__]) or ""


def _markdown(doc: str) -> str:
    """A docstring with its indented paragraphs, which are code, fenced."""
    fenced = re.sub(r"(?:^    .*\n?|(?<=\n)\n(?=    ))+", _fence, doc, flags=re.MULTILINE)
    return re.sub(r"\n{3,}", "\n\n", fenced).strip()


def _fence(code: re.Match[str]) -> str:
    return f"\n```mlir\n{inspect.cleandoc(chr(10) + code[0])}\n```\n\n"


def _first_sentence(doc: str) -> str:
    return " ".join(re.split(r"(?<=\.)\s", doc, maxsplit=1)[0].split())


def main() -> None:
    """Write the pages into the folder that the command line names."""
    folder = Path(sys.argv[1])
    (folder / "dialects.md").write_text(dialect_page(), encoding="utf-8")
    (folder / "passes.md").write_text(passes_page(), encoding="utf-8")
    (folder / "ops.md").write_text(operations.page(), encoding="utf-8")


if __name__ == "__main__":
    main()
