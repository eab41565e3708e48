"""Models that were captured once, by their configuration: PyTorch need not even be imported to read them again.

The program of a model without weights follows from its configuration, the sizes that are asked for, and the versions of
PyTorch, transformers and our own frontend: code that comes with a model is not run.
"""

from __future__ import annotations

import hashlib
import importlib.util
import json
import os
import sys
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import TYPE_CHECKING, Any

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp

from deplodock.runtime.cubins import cache_folder
from deplodock.runtime.lowering import ALWAYS, located_text, read_text, sources_identity
from deplodock.runtime.store import Store

if TYPE_CHECKING:
    from deplodock.frontend.program import CapturedProgram

_SOURCES = ("frontend", "interpreters", "analysis", "dialects")
"""The folders of our package that a capture depends on."""


class ModelStore:
    """The programs of models in the folder of what is kept.

    A model is found if its configuration is a file here, and the packages that captured it are releases.
    """

    def __init__(self, ctx: Context) -> None:
        self._ctx = ctx
        self._store = Store(cache_folder())

    def key(self, name: str, sizes: dict[str, Any]) -> str | None:
        """What the program of a model is kept under; None if it is not kept."""
        config, sources = Path(name) / "config.json", sources_identity(_SOURCES)
        found = importlib.util.find_spec("transformers")
        if sources is None or found is None or os.environ.get(ALWAYS) or not config.is_file():
            return None
        try:
            versions = [version(package) for package in ("torch", "transformers")]
        except PackageNotFoundError:
            return None
        if any("dev" in each for each in versions):
            return None
        # Operations have locations in the files of transformers, and in this Python's.
        facts = [sources, *versions, found.origin, sys.version, config.read_text(encoding="utf-8"), sizes]
        # PyTorch starts with TF32 allowed where it is set, which products then have as their precision.
        facts.append(os.environ.get("TORCH_ALLOW_TF32_CUBLAS_OVERRIDE"))
        return hashlib.sha256(json.dumps(facts).encode()).hexdigest()

    def read(self, key: str) -> tuple[ModuleOp, str] | None:
        """A program, and the line of what it amounts to; None if it is not there."""
        if (kept := self._store.read(key)) is None:
            return None
        amounts, _, text = kept.decode().partition("\n")
        return read_text(self._ctx, text), amounts

    def write(self, key: str, module: ModuleOp, amounts: str) -> None:
        """Keep a program, and the line of what it amounts to."""
        self._store.write(key, f"{amounts}\n{located_text(module)}".encode())


def amounts_of(captured: CapturedProgram) -> str:
    """A line about the parameters and the operations of a captured program."""
    state = [value for value, path in zip(captured.inputs, captured.paths, strict=True) if path is not None]
    stored = sum(value.numel() * value.element_size() for value in state)
    return f"{size(stored)} of parameters, {captured.flops():.3g} FLOP in products"


def size(size: int) -> str:
    """A number of bytes, in units of 1000."""
    amount, units = float(size), ["bytes", "kB", "MB", "GB", "TB"]
    while amount >= 1000 and len(units) > 1:
        amount, units = amount / 1000, units[1:]
    return f"{amount:.3g} {units[0]}"
