"""The order of all passes: the one list that the tools, the universe and the trace read.

A pass is listed by its name. Its file and class follow from the name, its number from its place in the list. Sixteen
scheduling rules have the numbers 1 to 16; those that run behind the seventh, before the eighth, have 107, 207 and 307.
"""

from __future__ import annotations

import importlib
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from xdsl.passes import ModulePass


@dataclass(frozen=True)
class Stage:
    """One pass: its level's letter, its number there, its name, and its folder in `passes/`."""

    letter: str
    number: int
    name: str
    folder: str

    @property
    def position(self) -> str:
        """The place in the list, such as `t:007`."""
        return f"{self.letter}:{self.number:03d}"

    @property
    def label(self) -> str:
        """The name in traces, such as `t:007_stage_inputs`."""
        return f"{self.position}_{self._file}"

    @property
    def module(self) -> str:
        """The module of the pass, which is named after it."""
        return ".".join(("deplodock.passes", *filter(None, (self.folder, self._file))))

    @property
    def cls(self) -> str:
        """The name of its class there, such as `StageInputsPass`."""
        return "".join(word.capitalize() for word in self.name.split("-")) + "Pass"

    @property
    def _file(self) -> str:
        return self.name.replace("-", "_")

    def load(self) -> type[ModulePass]:
        """Import the pass class."""
        return getattr(importlib.import_module(self.module), self.cls)


def _listed(letter: str, folder: str, *names: str, first: int = 1) -> tuple[Stage, ...]:
    return tuple(Stage(letter, number, name, folder) for number, name in enumerate(names, first))


def _beside(letter: str, folder: str, *rows: tuple[str, ...]) -> tuple[Stage, ...]:
    """Stages in rows: the n-th row has the number n, those beside its first 100 + n, 200 + n, and so on."""
    return tuple(
        Stage(letter, 100 * beside + number, name, folder)
        for number, row in enumerate(rows, 1)
        for beside, name in enumerate(row)
    )


_TILE = _beside(
    "t",
    "tile",
    ("tileify", "flatten-contraction"),
    ("chunk-matmul-k",),
    ("split-matmul-k", "split-stream"),
    ("cooperative-reduce",),
    ("blockify-launch",),
    ("chunk-reduce",),
    ("stage-inputs", "stream-tile", "tensor-tile", "split-factors"),
    ("register-tile", "stage-windows"),
    ("permute-register-tile",),
    ("double-buffer",),
    ("tma-copy",),
    ("split-inner-for-swizzle",),
    ("async-copy",),
    ("pad-smem", "swap-pairs"),
    ("pipeline-k-outer",),
    ("mark-unroll", "stream-matmul-k", "tma-store", "start-early", "round-factors"),
)
RULES = _TILE[:-1]
"""The scheduling rules, which a schedule may name, in their order: sixteen, and those beside them."""

STAGES = (
    *_listed("d", "torch", "decompose"),
    *_listed("o", "tensor", "split-variances", "split-reductions", "store-low-parts", "form-kernels"),
    *_listed(
        "l",
        "loop",
        "lower-to-loops",
        "stream-reductions",
        "fold-copies",
        "skip-masked",
        "skip-padding",
        "delay-monotone",
        "multiply-reciprocals",
        "coalesce-loops",
        "split-quotients",
        "join-contractions",
    ),
    *_listed("t", "tile", "choose-schedule", first=0),
    *_TILE,
    *_listed(
        "k",
        "kernel",
        "expand-launch",
        "lower-copies",
        "outline",
        "place-barriers",
        "keep-values",
        "fuse-multiply-add",
        "snake-register-tile",
        "merge-products",
        "overlap-products",
        "take-turns",
        "prefetch-factors",
        "verify-barriers",
        "verify-resources",
    ),
)
"""The passes of the pipeline in order."""

VERIFIERS = _listed("v", "", "verify-dominance", "verify-rings", "verify-contract")
"""The passes that only check facts across ops; `--verify-each` runs them between passes."""

SEQUENCES = _listed("k", "kernel", "materialize", first=0)
"""Names for several passes of the pipeline in a row."""

PASSES = (*STAGES, *VERIFIERS, *SEQUENCES)
"""Every pass once, and the sequences."""
