"""The compiler without its features is the small one, and it is whole: programs that have none compile as before."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from sizes import code_of

FEATURES = {
    "tensor cores": """
        codegen/mma codegen/wgmma passes/tile/tensor_engine passes/tile/tensor_tile passes/tile/split_factors
        passes/tile/round_factors passes/kernel/lower_contract passes/kernel/lower_exchange
        passes/kernel/lower_matrices passes/kernel/merge_products passes/kernel/overlap_products
        passes/kernel/prefetch_factors passes/kernel/take_turns""",
    "boxes": """
        codegen/tma codegen/mbarrier passes/tile/tma_copy passes/tile/tma_store passes/tile/split_inner_for_swizzle""",
    "attention": """
        passes/tile/stream_engine passes/tile/stream_steps passes/tile/stream_tile passes/tile/split_stream
        passes/torch/attention""",
    "scans and recurrences": """
        passes/kernel/lower_scan passes/loop/recurrences passes/torch/recurrences dialects/torch/shapes/recurrences""",
    "CTAs that share steps": """
        passes/tile/stream_matmul_k passes/kernel/lower_stream codegen/grid codegen/cluster dialects/kernel/grid
        dialects/kernel/cluster""",
    "windows": "passes/tile/stage_windows passes/torch/windows dialects/torch/shapes/windows",
    "masks": "passes/loop/skip_masked",
}
"""The files of features, which no program needs that has none of them."""

PROGRAMS = (
    "torch.relu(torch.randn(64, 64))",
    "nn.RMSNorm(256)(torch.randn(32, 256))",
    "torch.randn(512, 512) @ torch.randn(512, 512)",
)

COMPILE = """
import sys
from deplodock.codegen.cuda import print_module
from deplodock.frontend.expression import read_expression
from deplodock.passes.driver import Level, lower, new_context

for text in sys.argv[1:]:
    module = read_expression(text).module
    lower(module, new_context(), Level.KERNEL, target="sm_80")
    print(print_module(module))
"""


def compiled(site: Path, text: str = COMPILE) -> subprocess.CompletedProcess[str]:
    """Compile the programs with the package that lies in a folder."""
    return subprocess.run(
        [sys.executable, "-c", text, *PROGRAMS],
        cwd=site,
        env={**os.environ, "PYTHONPATH": str(site)},
        capture_output=True,
        text=True,
        check=False,
    )


def test_programs_compile_without_the_files_of_features(repository: Path, tmp_path: Path) -> None:
    pytest.importorskip("torch", reason="needs PyTorch")
    copy = shutil.copytree(
        repository,
        tmp_path / "deplodock",
        ignore=lambda folder, names: [
            name
            for name in names
            if name.startswith((".", "__pycache__")) or (Path(folder) == repository and name in ("build", "test"))
        ],
    )
    whole = compiled(tmp_path)
    assert whole.returncode == 0, whole.stderr
    files = [copy / f"{name}.py" for names in FEATURES.values() for name in names.split()]
    assert sum(len(code_of(file)) for file in files) > 3500
    for file in files:
        file.unlink()
    small = compiled(tmp_path)
    assert small.returncode == 0, small.stderr
    assert small.stdout == whole.stdout
    assert whole.stdout.count("__global__") >= len(PROGRAMS)
    half = COMPILE.replace("sys.argv[1:]", "['torch.eye(512).bfloat16() @ torch.eye(512).bfloat16()']")
    assert compiled(tmp_path, half).returncode != 0, "products of bf16 need the files of tensor cores"
