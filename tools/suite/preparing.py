"""A problem compiled without its values: captured on the device meta, lowered, and compiled by nvcc.

What comes of it is kept by content, as cubins are: the next process only reads it.
"""

from __future__ import annotations

import hashlib
import json
import os
import sys
from pathlib import Path

import torch

from deplodock.dialects.precision import PRECISIONS
from deplodock.dialects.torch import set_precision
from deplodock.errors import InvalidInputError
from deplodock.frontend.capture import export
from deplodock.frontend.program import CapturedProgram
from deplodock.passes.driver import Level, lower, new_context
from deplodock.pytorch.saved import ProgramFile, packed, state_names, unpacked
from deplodock.pytorch.signature import CallSignature, signature_of
from deplodock.runtime.cubins import cache_folder
from deplodock.runtime.lowering import ALWAYS, sources_identity
from deplodock.runtime.planned import compiled, planned_program
from deplodock.runtime.store import Store
from deplodock.tools.suite import building

_SOURCES = (
    *("dialects", "analysis", "interpreters", "schedule", "passes", "codegen"),
    *("runtime", "frontend", "pytorch"),
)
"""The folders of our package that a compiled problem depends on, beside this file and `building`."""


def prepared(path: Path, target: str, precision: str = PRECISIONS[0]) -> ProgramFile:
    """A problem compiled for a target, or what came of that before. What the file imports counts as it was then.

    `precision` is that of its products of FP32.

    Raises:
        OSError, InvalidInputError: as `built`, or the program raises.
        UnsupportedError: it cannot be captured as a whole, or a part of it is not supported.
        CompileError: the compiler of CUDA rejects its kernels.
    """
    store, key = Store(cache_folder()), _key(path, target, precision)
    if key is not None and (kept := store.read(key)) is not None:
        return unpacked(kept)
    program = _compiled(path, target, precision)
    if key is not None:
        store.write(key, packed(program))
    return program


def _key(path: Path, target: str, precision: str) -> str | None:
    """What a problem is kept under; None if it is not kept."""
    sources = sources_identity(_SOURCES)
    if sources is None or os.environ.get(ALWAYS):
        return None
    # Builds of a release of PyTorch, for a CPU or for a GPU, capture alike.
    release = str(torch.__version__).partition("+")[0]
    own = [Path(file).read_text(encoding="utf-8") for file in (__file__, building.__file__)]
    facts = [sources, *own, release, sys.version_info[:2], target, precision, path.read_text(encoding="utf-8")]
    return hashlib.sha256(json.dumps(facts).encode()).hexdigest()


def _compiled(path: Path, target: str, precision: str) -> ProgramFile:
    captured, signature = _captured(path)
    set_precision(captured.module, precision)
    module, context, levels = captured.module, new_context(), dict[Level, str]()
    for level in (Level.TENSOR, Level.LOOP, Level.KERNEL):
        lower(module, context, level, target=target)
        levels[level] = str(module) + "\n"
    constants = _constants(captured, signature)
    return ProgramFile(signature, "cuda", levels, compiled(planned_program(module)), constants)


def _captured(path: Path) -> tuple[CapturedProgram, CallSignature]:
    """A problem captured without values, or on the CPU where it asks for some."""
    try:
        captured, signature = _captured_on(path, "meta")
    except InvalidInputError:
        return _captured_on(path, "cpu")
    if any(value.is_meta for value in _constants(captured, signature).values()):
        return _captured_on(path, "cpu")
    return captured, signature


def _captured_on(path: Path, device: str) -> tuple[CapturedProgram, CallSignature]:
    module, args = building.built(path, device)
    captured = export(module, args, is_called=True)
    return captured, signature_of(captured, (args, {}))


def _constants(captured: CapturedProgram, signature: CallSignature) -> dict[str, torch.Tensor]:
    """The tensors of the program's state that are none of its module, by their names in a file."""
    values = captured.originals[len(captured.originals) - len(signature.paths) :]
    named = zip(state_names(signature), signature.paths, values, strict=True)
    return {name: value for name, path, value in named if path is None}
