"""The order of all passes: the one list that the tools, the universe and the trace read."""

from __future__ import annotations

import importlib
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from xdsl.passes import ModulePass


@dataclass(frozen=True)
class Stage:
    """One pass: its level's letter, its number there, its name, and where its class is."""

    letter: str
    number: int
    name: str
    module: str
    cls: str

    @property
    def label(self) -> str:
        """The name in traces, such as `t:007_stage_inputs`."""
        return f"{self.letter}:{self.number:03d}_{self.name.replace('-', '_')}"

    @property
    def only_checks(self) -> bool:
        """Whether the pass changes nothing."""
        return self.name.startswith("verify-")

    def load(self) -> type[ModulePass]:
        """Import the pass class."""
        return getattr(importlib.import_module(self.module), self.cls)


STAGES = (
    Stage("d", 1, "decompose", "deplodock.passes.torch.decompose", "DecomposePass"),
    Stage("o", 1, "split-reductions", "deplodock.passes.tensor.split_reductions", "SplitReductionsPass"),
    Stage("o", 2, "form-kernels", "deplodock.passes.tensor.form_kernels", "FormKernelsPass"),
    Stage("l", 1, "lower-to-loops", "deplodock.passes.loop.lower_to_loops", "LowerToLoopsPass"),
    Stage("l", 2, "skip-masked", "deplodock.passes.loop.skip_masked", "SkipMaskedPass"),
    Stage("t", 0, "choose-schedule", "deplodock.passes.tile.choose_schedule", "ChooseSchedulePass"),
    Stage("t", 1, "tileify", "deplodock.passes.tile.tileify", "TileifyPass"),
    Stage("t", 2, "chunk-matmul-k", "deplodock.passes.tile.chunk_matmul_k", "ChunkMatmulKPass"),
    Stage("t", 3, "split-matmul-k", "deplodock.passes.tile.split_matmul_k", "SplitMatmulKPass"),
    Stage("t", 4, "cooperative-reduce", "deplodock.passes.tile.cooperative_reduce", "CooperativeReducePass"),
    Stage("t", 5, "blockify-launch", "deplodock.passes.tile.blockify_launch", "BlockifyLaunchPass"),
    Stage("t", 6, "chunk-reduce", "deplodock.passes.tile.chunk_reduce", "ChunkReducePass"),
    Stage("t", 7, "stage-inputs", "deplodock.passes.tile.stage_inputs", "StageInputsPass"),
    Stage("t", 8, "register-tile", "deplodock.passes.tile.register_tile", "RegisterTilePass"),
    Stage("t", 9, "permute-register-tile", "deplodock.passes.tile.permute_register_tile", "PermuteRegisterTilePass"),
    Stage("t", 10, "double-buffer", "deplodock.passes.tile.double_buffer", "DoubleBufferPass"),
    Stage("t", 11, "tma-copy", "deplodock.passes.tile.tma_copy", "TmaCopyPass"),
    Stage(
        "t", 12, "split-inner-for-swizzle", "deplodock.passes.tile.split_inner_for_swizzle", "SplitInnerForSwizzlePass"
    ),
    Stage("t", 13, "async-copy", "deplodock.passes.tile.async_copy", "AsyncCopyPass"),
    Stage("t", 14, "pad-smem", "deplodock.passes.tile.pad_smem", "PadSmemPass"),
    Stage("t", 15, "pipeline-k-outer", "deplodock.passes.tile.pipeline_k_outer", "PipelineKOuterPass"),
    Stage("t", 16, "mark-unroll", "deplodock.passes.tile.mark_unroll", "MarkUnrollPass"),
    Stage("k", 1, "materialize", "deplodock.passes.kernel.materialize", "MaterializePass"),
    Stage("k", 2, "place-barriers", "deplodock.passes.kernel.place_barriers", "PlaceBarriersPass"),
    Stage("k", 3, "fuse-multiply-add", "deplodock.passes.kernel.fuse_multiply_add", "FuseMultiplyAddPass"),
    Stage("k", 4, "snake-register-tile", "deplodock.passes.kernel.snake_register_tile", "SnakeRegisterTilePass"),
    Stage("k", 5, "verify-barriers", "deplodock.passes.kernel.verify_barriers", "VerifyBarriersPass"),
    Stage("k", 6, "verify-resources", "deplodock.passes.kernel.verify_resources", "VerifyResourcesPass"),
)
"""The passes of the pipeline in order."""

VERIFIERS = (
    Stage("v", 1, "verify-dominance", "deplodock.passes.verify_dominance", "VerifyDominancePass"),
    Stage("v", 2, "verify-rings", "deplodock.passes.tile.verify_rings", "VerifyRingsPass"),
)
"""The passes that only check facts across ops; `--verify-each` runs them between passes."""

PASSES = tuple(dict.fromkeys((*STAGES, *VERIFIERS)))
"""Every pass once."""
