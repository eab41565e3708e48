"""The order of all passes: the one list that the tools, the universe and the trace read.

A pass is listed by its name, and by the operations that it acts on, where a program may have none of them: then the
pass is not even imported. Its file and class follow from the name, its number from its place in the list. Sixteen
scheduling rules have the numbers 1 to 16; those that run behind the seventh, before the eighth, have 107, 207 and 307.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from deplodock.loading import loaded

if TYPE_CHECKING:
    from xdsl.passes import ModulePass


ORDER = "order"
"""What a pass acts on that looks at how threads meet: shared memory, and any operation that they run together or that
orders what they access."""


@dataclass(frozen=True)
class Stage:
    """One pass: its level's letter, its number there, its name, and its folder in `passes/`.

    It leaves a program as it is that has none of the operations of the names `acts_on`, of which `ORDER` is one; any
    program may be its own if that is empty.
    """

    letter: str
    number: int
    name: str
    folder: str
    acts_on: tuple[str, ...] = field(default=(), kw_only=True)

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
        return loaded(f"{self.module}:{self.cls}")


def _listed(letter: str, folder: str, *entries: str, first: int = 1) -> tuple[Stage, ...]:
    return tuple(_stage(letter, number, entry, folder) for number, entry in enumerate(entries, first))


def _beside(letter: str, folder: str, *rows: tuple[str, ...]) -> tuple[Stage, ...]:
    """Stages in rows: the n-th row has the number n, those beside its first 100 + n, 200 + n, and so on."""
    return tuple(
        _stage(letter, 100 * beside + number, entry, folder)
        for number, row in enumerate(rows, 1)
        for beside, entry in enumerate(row)
    )


def _stage(letter: str, number: int, entry: str, folder: str) -> Stage:
    """The stage of an entry: its name, and behind a colon the operations that it acts on."""
    name, *acts_on = entry.replace(":", " ").replace(",", " ").split()
    return Stage(letter, number, name, folder, acts_on=tuple(acts_on))


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
    ("mark-unroll", "stream-matmul-k", "tma-store", "start-early", "round-factors: tile.contract"),
)
RULES = _TILE[:-1]
"""The scheduling rules, which a schedule may name, in their order: sixteen, and those beside them."""

STAGES = (
    *_listed("d", "torch", "decompose"),
    *_listed(
        "o",
        "tensor",
        "split-variances: tensor_ext.reduce",
        "split-reductions: tensor_ext.reduce",
        "store-low-parts: tensor_ext.reduce",
        "form-kernels",
    ),
    *_listed(
        "l",
        "loop",
        "lower-to-loops",
        "stream-reductions: loop.reduce",
        "fold-copies",
        "skip-masked: arith.cmpi",
        "skip-padding: loop.reduce",
        "delay-monotone: loop.reduce",
        "multiply-reciprocals: arith.divf",
        "coalesce-loops",
        "split-quotients",
        "join-contractions: loop.reduce",
    ),
    *_listed("t", "tile", "choose-schedule", first=0),
    *_TILE,
    *_listed(
        "k",
        "kernel",
        "expand-launch",
        "lower-copies: tile.stage, tile.alloc, tile.ring, tile.copy, tile.wait, tile.release, tile.store",
        "outline",
        f"place-barriers: {ORDER}",
        "keep-values: kernel.alloc",
        "fuse-multiply-add: arith.mulf",
        "snake-register-tile: math.fma",
        "merge-products: kernel.wgmma",
        "overlap-products: kernel.wgmma_wait",
        "take-turns: kernel.role",
        "prefetch-factors: kernel.role",
        f"verify-barriers: {ORDER}",
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
