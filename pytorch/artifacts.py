"""What becomes of a program of PyTorch at each level: files for people, artifacts for PyTorch's own trace."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from pathlib import Path

from torch._logging import trace_structured
from torch._logging._internal import trace_log
from xdsl.dialects.builtin import ModuleOp

from deplodock.codegen.cuda import print_module
from deplodock.passes.driver import Level, StageRun, level_of, stages
from deplodock.runtime.dump import Dump

_NUMBERS: Iterator[int] = itertools.count()

_LAST = {StageRun(stage, 0.0, (), ()).level: stage for stage in stages(Level.TORCH, Level.KERNEL)}
"""The last stage of each level."""


def new_name(kind: str) -> str:
    """A name for something to compile that nothing else in this process has, such as `graph3`."""
    return f"{kind}{next(_NUMBERS)}"


def is_watched(folder: Path | None) -> bool:
    """Whether programs are wanted after each pass: there is a folder for them, or PyTorch traces."""
    # PyTorch makes the trace's file when the first record comes.
    return folder is not None or bool(trace_log.handlers)


class Artifacts:
    """Takes a program through its passes: `begin`, a call after each pass, `finish`.

    In the folder, if one is given, `name` is a folder with the module after each pass and the CUDA of each kernel, as
    the option `--dump-dir` of the command line makes it. Where `TORCH_TRACE` is set, the trace has an artifact for each
    level, `deplodock_NAME_LEVEL`, which tlparse shows.
    """

    def __init__(self, name: str, folder: Path | None) -> None:
        self._name = name.replace("/", "_")
        self._dump = None if folder is None else Dump(folder / name)
        self._is_traced = is_watched(None)

    def begin(self, module: ModuleOp) -> None:
        """Note the program as it was captured."""
        level = level_of(module)
        if self._dump is not None:
            self._dump.module(f"input_{level}", str(module) + "\n")
        self._trace(level, module)

    def __call__(self, run: StageRun, module: ModuleOp) -> None:
        """Note the program after a pass: an observer of `driver.lower`."""
        if self._dump is not None:
            self._dump.module(run.stage.label.replace(":", ""), str(module) + "\n")
        if _LAST[run.level] is run.stage:
            self._trace(run.level, module)

    def finish(self, module: ModuleOp) -> None:
        """Note the kernels of a program at kernel level."""
        if self._dump is not None:
            self._dump.kernels(module)
        self._trace(Level.CUDA, module)

    def _trace(self, level: Level, module: ModuleOp) -> None:
        if self._is_traced:
            trace_structured(
                "artifact",
                metadata_fn=lambda: {"name": f"deplodock_{self._name}_{level}", "encoding": "string"},
                payload_fn=lambda: print_module(module) if level is Level.CUDA else str(module) + "\n",
            )
