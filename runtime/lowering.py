"""Lowered programs by content: a module that the same compiler has lowered once is not lowered again.

They are kept as IR text, beside the cubins.
"""

from __future__ import annotations

import hashlib
import importlib.metadata
import os
import re
from functools import cache, partial
from io import StringIO
from pathlib import Path

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.printer import Printer

from deplodock.dialects.float_literals import FloatLiteralsParser
from deplodock.dialects.kernel import TargetAttr
from deplodock.passes.driver import Level, Observer, level_of, set_target, without_collection
from deplodock.passes.packages import packages
from deplodock.runtime.cubins import cache_folder
from deplodock.runtime.net import lower_held, lower_in_steps
from deplodock.runtime.store import Store
from deplodock.runtime.tuned import Tuned, become

ALWAYS = "DEPLODOCK_LOWER_ALWAYS"
"""The environment variable that, if it is not empty, has every program lowered, whatever is kept."""

_PLAIN = re.compile(rb"[ !#-\[\]-~]*")
"""What a string literal holds without escapes."""

_ROOT = Path(__file__).parent.parent

_SOURCES = ("dialects", "analysis", "schedule", "passes")
"""The folders of our package that lowering depends on."""


def lower_once(
    module: ModuleOp,
    ctx: Context,
    to_level: Level,
    *,
    target: str | TargetAttr | None = None,
    schedule: str | None = None,
    stream: str | None = None,
    observer: Observer | None = None,
    folder: Path | None = None,
) -> bool:
    """`net.lower_held`, or what that gave for the same module, options and compiler before; whether passes ran.

    Names and locations belong to a module, so that what is found is the text that the passes would give. Where other
    packages add passes to the pipeline, nothing is kept.

    Args:
        module: the program; it is changed.
        ctx: a context with the dialects that the module may come to use.
        to_level: where to stop.
        target: see `driver.lower`.
        schedule: see `driver.lower`.
        stream: see `driver.lower`.
        observer: called after each stage that runs.
        folder: where programs are kept; by default where cubins are.

    Raises what `net.lower_held` raises.
    """
    set_target(module, target)
    run = partial(lower_held, module, ctx, to_level, schedule=schedule, stream=stream, observer=observer)
    identity = compiler_identity()
    if identity is None or not is_kept() or level_of(module) is Level.KERNEL:
        run()
        return True
    store = Store(folder or cache_folder())
    last = Level.KERNEL if to_level is Level.CUDA else to_level
    key = hashlib.sha256(
        "\0".join([identity, last, schedule or "", stream or "", located_text(module)]).encode()
    ).hexdigest()
    if (kept := store.read(key)) is not None:
        become(module, read_text(ctx, kept.decode()))
        return False
    run()
    store.write(key, located_text(module).encode())
    return True


def is_kept() -> bool:
    """Whether what is lowered is kept: not where other packages add passes, or `ALWAYS` says otherwise."""
    return compiler_identity() is not None and not packages().added and not os.environ.get(ALWAYS)


def lower_by_loops(
    module: ModuleOp,
    ctx: Context,
    *,
    target: str | TargetAttr | None = None,
    schedule: str | None = None,
    tuned: Tuned | None = None,
) -> ModuleOp:
    """Lower a module to kernel level by `lower_once`, with the net. Returns and raises as `net.lower_in_steps`."""
    set_target(module, target)
    return lower_in_steps(module, tuned, partial(lower_once, module, ctx), schedule=schedule)


def compiler_identity() -> str | None:
    """What lowering depends on besides the program; None if our sources are not there."""
    return sources_identity(_SOURCES)


@cache
def sources_identity(folders: tuple[str, ...]) -> str | None:
    """What folders of our package hold, and the version of xDSL; None if no sources are there."""
    digest = hashlib.sha256()
    paths = [Path(__file__), *(path for folder in folders for path in sorted((_ROOT / folder).rglob("*.py")))]
    if len(paths) == 1:
        return None
    for path in paths:
        digest.update(hashlib.sha256(path.read_bytes()).digest())
    return f"{digest.hexdigest()} xdsl {importlib.metadata.version('xdsl')}"


def located_text(module: ModuleOp) -> str:
    """The text of a module with the locations of its operations."""
    stream = StringIO()
    _Printer(stream, print_debuginfo=True).print_op(module)
    return stream.getvalue()


def read_text(ctx: Context, text: str) -> ModuleOp:
    """The module that `located_text` gave a text of."""
    with without_collection():
        return FloatLiteralsParser(ctx, text).parse_module()


class _Printer(Printer):
    """Prints strings at once, as the names of files are, which xDSL prints letter by letter."""

    def print_bytes_literal(self, bytestring: bytes) -> None:
        if _PLAIN.fullmatch(bytestring) is None:
            super().print_bytes_literal(bytestring)
        else:
            self.print_string(f'"{bytestring.decode("ascii")}"')
