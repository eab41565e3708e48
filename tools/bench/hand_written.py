"""Our kernels beside hand-written ones and PyTorch's, on the shapes that those cover.

    python -m deplodock.tools.bench.hand_written FOLDER

The folder holds CUDA files with what builds and launches them: `build.one(variant)` compiles a variant to a cubin, and
`tk.gemm`, `tk.fn` and `tk.Launch` launch it. All contestants run on the same rotating inputs, in CUDA graphs that are
replayed in turns; outputs of timed runs of ours and theirs are compared with float64. Exit code 1 if one is wrong.
"""

from __future__ import annotations

import argparse
import ctypes
import importlib
import os
import sys
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from deplodock.analysis.shape.roundings import roundings
from deplodock.frontend.expression import read_expression
from deplodock.passes.driver import Level, lower, new_context
from deplodock.runtime.compare import compare
from deplodock.runtime.device import POISON, Executable, device_name, device_target
from deplodock.runtime.graph_timing import OwnRuns, rotation, time_graphs

Launches = Callable[[Any, Sequence[torch.Tensor], torch.Tensor], Callable[[], None]]
"""Given the harness, the inputs and the output of one set: what launches the hand-written kernel."""


@dataclass(frozen=True)
class HandWritten:
    """A program, the variants of hand-written kernels that it takes, and how they are launched."""

    text: str
    variants: tuple[str, ...]
    launches: Launches


def linear(m: int, n: int, k: int, variant: str, parts: int, mode: int, group: int = 16) -> HandWritten:
    """A linear layer; the modes split k over clusters, over a workspace and a second kernel, or over tickets."""

    def launches(tk: Any, inputs: Sequence[torch.Tensor], out: torch.Tensor) -> Callable[[], None]:
        workspace = torch.empty(parts * max(m, 128) * n, device="cuda") if mode else None
        return tk.gemm(variant, *inputs, out, parts, mode, workspace, group)

    text = f"F.linear(torch.randn({m}, {k}), torch.randn({n}, {k}))"
    return HandWritten(text, (variant, "a0b1") if mode == 1 else (variant,), launches)


def rows(text: str, kernel: str, threads: int, *scalars: float) -> HandWritten:
    """A kernel with a CTA for each row of its output."""

    def launches(tk: Any, inputs: Sequence[torch.Tensor], out: torch.Tensor) -> Callable[[], None]:
        arguments = [*map(tk.P, inputs), tk.P(out), *map(ctypes.c_float, scalars)]
        return tk.Launch(tk.fn("membound", kernel), (out.shape[0], 1, 1), threads, 0, arguments)

    return HandWritten(text, ("membound",), launches)


CASES = (
    linear(32, 2048, 2048, "m32n64", 4, 2),
    linear(32, 2048, 5632, "m32n64", 4, 1),
    linear(32, 3584, 3584, "m32n64", 4, 0),
    linear(32, 18944, 3584, "m32n64", 4, 1),
    linear(32, 3584, 18944, "m32n64", 4, 0),
    linear(128, 3584, 3584, "p11d1o2lag", 9, 1),
    linear(128, 18944, 3584, "skv", 264, 0),
    linear(128, 3584, 18944, "skv", 264, 0),
    linear(512, 3584, 3584, "skv", 264, 0),
    linear(512, 18944, 3584, "skv", 264, 0),
    linear(512, 3584, 18944, "skv", 264, 0),
    linear(2048, 3584, 3584, "skv", 264, 0, 4),
    linear(2048, 18944, 3584, "skv", 264, 0, 4),
    linear(2048, 3584, 18944, "skv", 264, 0, 4),
    linear(2048, 2048, 2048, "p11d1o2lag", 1, 0),
    linear(4096, 4096, 4096, "skv", 264, 0, 4),
    rows("F.rms_norm(torch.randn(512, 3584), (3584,), torch.randn(3584), 1e-6)", "rms_3584_448", 448, 1e-6),
    rows("F.rms_norm(torch.randn(2048, 2048), (2048,), torch.randn(2048), 1e-6)", "rms_2048_256", 256, 1e-6),
    rows("F.rms_norm(torch.randn(16384, 4096), (4096,), torch.randn(4096), 1e-6)", "rms_4096_256", 256, 1e-6),
    rows("F.softmax(torch.randn(14336, 512), dim=-1)", "smx_512_128", 128),
    rows("F.softmax(torch.randn(57344, 2048), dim=-1)", "smx_2048_256", 256),
)


def measure(case: HandWritten, tk: Any) -> tuple[str, bool]:
    """A line of the table, and whether ours and theirs are right."""
    program = read_expression(case.text).on("cuda")
    context = new_context()
    lower(program.module, context, Level.TENSOR, target=device_target())
    rounded = roundings(program.module)
    lower(program.module, context, Level.KERNEL)
    (out,), (reference,) = program.eager(), program.reference()
    size = sum(value.numel() * value.element_size() for value in (*program.inputs, out))
    sets = [[value.clone() for value in program.inputs] for _ in range(rotation(size))]
    arguments, outs = [program.arguments(values) for values in sets], [torch.empty_like(out) for _ in sets]
    stream = torch.cuda.Stream()
    ours = OwnRuns(Executable(program.module), sets, stream)
    theirs = [case.launches(tk, values, result) for values, result in zip(sets, outs, strict=True)]

    def prepare() -> None:
        ours.poison()
        for result in outs:
            result.view(torch.uint8).fill_(POISON)

    contestants = {
        "PyTorch": lambda: [program.graph(*each) for each in arguments],
        "hand-written": lambda: [launch() for launch in theirs],
        "deplodock": ours.run,
    }
    with torch.no_grad():
        timings = time_graphs(contestants, len(sets), stream, prepare)
    eager, truth = out.cpu().numpy(), reference.cpu().numpy()
    verdicts = [compare(got, truth, eager, rounded) for got in (ours.outputs(-1)[0], outs[-1].cpu().numpy())]
    wrong = "".join(f" {who} WRONG" for who, v in zip(("ours", "theirs"), verdicts, strict=True) if not v.passed)
    peer, hand, own = (timing.microseconds for timing in timings)
    return (
        f"| {case.text} | {own:.1f} | {hand:.1f} | {peer:.1f} | {hand / own:.3f} | {peer / own:.3f} |{wrong}",
        not wrong,
    )


def main() -> int:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--name", default="", help="cases whose program contains this")
    options = parser.parse_args()
    if not (options.folder / "tk.py").is_file():
        print(f"{options.folder} holds no hand-written kernels (no tk.py)", file=sys.stderr)
        return 1
    # The harness writes its log beside its cubins, below the current folder.
    os.chdir(options.folder)
    sys.path.insert(0, os.getcwd())
    Path("build").mkdir(exist_ok=True)
    cases = [case for case in CASES if options.name in case.text]
    build = importlib.import_module("build")
    with ThreadPoolExecutor() as pool:
        for report in pool.map(build.one, sorted({variant for case in cases for variant in case.variants})):
            if "FAIL" in report[1]:
                print(*report, file=sys.stderr)
    tk = importlib.import_module("tk")
    print(f"{device_name()}: microseconds, ratios are their time by ours")
    head = ["program", "deplodock", "hand-written", "PyTorch", "hand-written ratio", "PyTorch ratio"]
    print(f"| {' | '.join(head)} |\n{'|---' * len(head)}|")
    passed = True
    for case in cases:
        line, right = measure(case, tk)
        print(line, flush=True)
        passed &= right
        torch.cuda.empty_cache()
    return 0 if passed else 1


if __name__ == "__main__":
    sys.exit(main())
