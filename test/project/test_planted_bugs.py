"""Bugs planted in the printed IR of real kernels: `deplodock run FILE` names each, with the operation and its place."""

from __future__ import annotations

import contextlib
import io
import re
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import pytest
from typer.testing import CliRunner

from deplodock.tools.cli.app import app
from deplodock.tools.diagnostics import run_tool

pytest.importorskip("torch")

RING = (
    "tileify,chunk-matmul-k{bk=8 kv=1},blockify-launch{m=16 n=16},stage-inputs{memory=shared},double-buffer{depth=3},"
    "async-copy,pipeline-k-outer{distance=2}"
)
PHASES = RING.replace("distance=2", "distance=1 barrier=mbarrier")
BOXES = PHASES.replace("async-copy", "tma-copy,split-inner-for-swizzle").replace("memory=", "transpose=never memory=")
SPLIT = RING.replace("blockify", "split-matmul-k{s=3 over=ticket},blockify")
ROLES = (
    "tileify,chunk-matmul-k{bk=64 kv=1},blockify-launch{m=64 n=24},stage-inputs{memory=shared transpose=never},"
    "tensor-tile{engine=wgmma m=64 n=24},double-buffer{depth=3},tma-copy,split-inner-for-swizzle,"
    "pipeline-k-outer{distance=producer}"
)
PERSISTENT = f"{ROLES},stream-matmul-k{{ctas=2 unit=tile}},tma-store"
PROGRAMS = {
    "boxes": ("F.linear(torch.randn(20, 52), torch.randn(24, 52))", ("--schedule", BOXES)),
    "phases": ("F.linear(torch.randn(20, 50), torch.randn(24, 50))", ("--schedule", PHASES)),
    "ring": ("F.linear(torch.randn(20, 50), torch.randn(24, 50))", ("--schedule", RING)),
    "ticket": ("F.linear(torch.randn(20, 50), torch.randn(24, 50))", ("--schedule", SPLIT)),
    "cluster": (
        "F.linear(torch.randn(20, 50), torch.randn(24, 50))",
        ("--schedule", SPLIT.replace("ticket", "cluster")),
    ),
    "roles": (
        "t = torch.bfloat16; F.linear(torch.randn(64, 320, dtype=t), torch.randn(40, 320, dtype=t))",
        ("--schedule", ROLES, "--target", "sm_90"),
    ),
    "stores": (
        "t = torch.bfloat16; F.linear(torch.randn(64, 320, dtype=t), torch.randn(64, 320, dtype=t))",
        ("--schedule", PERSISTENT.replace("=24", "=16"), "--target", "sm_90"),
    ),
    "rows": ("torch.nn.RMSNorm(600)(torch.randn(3, 600))", ()),
}


def deplodock(*args: str) -> tuple[int, str]:
    """The exit code and output of a command, run in this process."""
    result = CliRunner().invoke(app, list(args))
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        raise result.exception
    return result.exit_code, result.stdout


@cache
def kernel_text(program: str) -> str:
    expression, options = PROGRAMS[program]
    code, text = deplodock("compile", "-c", expression, *options, "--ir", "kernel")
    assert code == 0
    return text


@dataclass(frozen=True)
class Bug:
    """An edit of a kernel's text, and what is to be found: of this kind, at an operation whose line holds `at`."""

    program: str
    pattern: str
    replacement: str
    kind: str
    at: str


BUGS = {
    "parts that are not fenced before the ticket": Bug(
        "ticket", r"kernel\.fence\n(.*kernel\.ticket)", r"\1", "data race", "kernel.move 1 %linear_part["
    ),
    "parts that are read without a fence": Bug(
        "ticket",
        r"(loop\.guard where \(0 < %last\) \{\n) *kernel\.fence\n",
        r"\1",
        "data race",
        "kernel.move 1 %linear_part[",
    ),
    "guard that lets all CTAs in": Bug(
        "ticket",
        r"loop\.guard where \(0 < %last\)",
        "loop.guard where (0 < %last + 1)",
        "data race",
        "kernel.move 1 %linear_part[",
    ),
    "tickets of too few CTAs": Bug(
        "ticket", r"(kernel\.ticket .* of) 3", r"\1 2", "open ticket", "kernel.ticket %turns["
    ),
    "missing cluster barrier": Bug(
        "cluster",
        r"kernel\.cluster_barrier",
        "kernel.barrier",
        "missing cluster barrier",
        "kernel.cluster_move 1 %part[",
    ),
    "CTA that ends too early": Bug(
        "cluster",
        r"(kernel\.cluster_move(?:.*\n)*?.*)kernel\.cluster_barrier",
        r"\1kernel.barrier",
        "missing cluster barrier",
        "kernel.cluster_move 1 %part[",
    ),
    "rank outside of the cluster": Bug(
        "cluster", r"(kernel\.cluster_move .* of) %cta", r"\1 %cta + 1", "out of bounds", "kernel.cluster_move 1 %part["
    ),
    "wrong parity of a full slot": Bug(
        "phases",
        r"(wait_phase %full\[%a2o mod 3\], )%a2o floordiv 3 mod 2",
        r"\1(%a2o floordiv 3 + 1) mod 2",
        "phase never completes",
        "kernel.wait_phase %full[",
    ),
    "parity that stays": Bug(
        "phases",
        r"(wait_phase %empty\[\(%a2o \+ 1\) mod 3\], ).*",
        r"\g<1>1",
        "phase never completes",
        "kernel.wait_phase %empty[",
    ),
    "missing wait for a full slot": Bug(
        "phases", r"kernel\.wait_phase %full\[%a2o .*", "", "read in flight", "loop.load %x_smem["
    ),
    "missing wait for an empty slot": Bug(
        "phases", r"kernel\.wait_phase %empty.*", "", "data race", "kernel.move 2 async %x["
    ),
    "slot released early": Bug(
        "phases",
        r"( *loop\.for %a2i = 0 to 8 \{(?s:.*?)\n      \}\n)( *kernel\.arrive warp %empty.*\n)",
        r"\2\1",
        "data race",
        "kernel.move 2 async %x[",
    ),
    "missing arrival at an empty slot": Bug(
        "phases", r"kernel\.arrive warp %empty.*", "", "phase never completes", "kernel.wait_phase %empty["
    ),
    "missing arrival of copies": Bug(
        "phases", r"kernel\.arrive_copies %full\[\(.*", "", "phase never completes", "kernel.wait_phase %full["
    ),
    "one arrival too few": Bug(
        "phases", r"arrivals 256", "arrivals 257", "phase never completes", "kernel.wait_phase %full["
    ),
    "wrong parity of boxes": Bug(
        "boxes",
        r"(wait_phase %full\[%a2o mod 3\], )%a2o floordiv 3 mod 2",
        r"\1(%a2o floordiv 3 + 1) mod 2",
        "phase never completes",
        "kernel.wait_phase %full[",
    ),
    "wrong byte count": Bug("boxes", r"expect 1024", "expect 2048", "wrong byte count", "kernel.wait_phase %full["),
    "missing proxy fence": Bug(
        "boxes", r"kernel\.fence_proxy_async\n", "", "missing proxy fence", "kernel.tma_load %x"
    ),
    "slot of a box released early": Bug(
        "boxes",
        r"( *loop\.for %a2i = 0 to 8 \{(?s:.*?)\n      \}\n)( *kernel\.arrive warp %empty.*\n)",
        r"\2\1",
        "data race",
        "kernel.tma_load %x",
    ),
    "slot released by a consumer before its products are done": Bug(
        "roles", r"kernel\.wgmma_wait 1", "kernel.wgmma_wait 2", "data race", "kernel.tma_load %x_map"
    ),
    "slot that a consumer never releases": Bug(
        "roles", r"kernel\.arrive warp %empty.*", "", "phase never completes", "kernel.wait_phase %empty["
    ),
    "wrong count of consumers": Bug(
        "roles", r"arrivals 4", "arrivals 8", "phase never completes", "kernel.wait_phase %empty["
    ),
    "producer that waits for a phase nobody completes": Bug(
        "roles",
        r"(wait_phase %empty\[%a2o mod 3\], )\(%a2o floordiv 3 \+ 1\)",
        r"\1%a2o floordiv 3",
        "phase never completes",
        "kernel.wait_phase %empty[",
    ),
    "consumers that read one step more than there are": Bug(
        "roles",
        r"loop\.for %a2o_1 = 0 to 4",
        "loop.for %a2o_1 = 0 to 5",
        "phase never completes",
        "kernel.wait_phase %full[",
    ),
    "barrier that half of a role comes to": Bug(
        "roles",
        r"( *loop\.for %a2o_1)",
        r"loop.guard where (%reader < 64) {\nkernel.barrier\n}\n\1",
        "divergent barrier",
        "kernel.barrier",
    ),
    "products that half of a warpgroup issues": Bug(
        "roles",
        r"( *kernel\.wgmma_wait 0\n)",
        r"loop.guard where (%reader < 64) {\n\1}\n",
        "divergent warpgroup",
        "kernel.wgmma_wait 0",
    ),
    "misaligned slot": Bug("boxes", r"(to %x_smem\[%p), 0, 0\]", r"\1, 1, 0]", "misaligned slot", "kernel.tma_load %x"),
    "box that several threads copy": Bug(
        "boxes",
        r"loop\.guard where \(%thread < 1\)",
        "loop.guard where (%thread < 2)",
        "repeated issue",
        "kernel.tma_load %x",
    ),
    "slab that is written while it is stored": Bug(
        "stores", r"kernel\.tma_wait 0\n", "", "data race", "kernel.move 2 %linear["
    ),
    "slab that is written before all know that it is stored": Bug(
        "stores",
        r"kernel\.barrier\n((?:.*loop\.for.*\n)* *kernel\.move 2 %linear)",
        r"\1",
        "data race",
        "kernel.move 2 %linear[",
    ),
    "slab without a fence": Bug(
        "stores",
        r"kernel\.fence_proxy_async\n( *kernel\.barrier\n *loop\.guard)",
        r"\1",
        "missing proxy fence",
        "kernel.tma_store",
    ),
    "kernel that ends while a slab is stored": Bug(
        "stores", r"kernel\.tma_wait 0\n( *\}\n *\}\n *\})", r"\1", "unfinished store", "kernel.tma_store"
    ),
    "box that several threads store": Bug(
        "stores",
        r"loop\.guard where \(%reader < 1\)",
        "loop.guard where (%reader < 2)",
        "repeated issue",
        "kernel.tma_store %out_smem",
    ),
    "dropped barrier of a ring": Bug(
        "ring", r"(wait_group 1\n) *kernel\.barrier\n", r"\1", "data race", "loop.load %x_smem["
    ),
    "dropped barrier of a combine": Bug(
        "rows", r"kernel\.barrier\n( *loop\.for %warp)", r"\1", "data race", "loop.load %sum_part["
    ),
    "wrong slot": Bug(
        "ring",
        r"%x_smem\[\(%a2o \+ 2\) mod 3",
        "%x_smem[%a2o mod 3",
        "read in flight",
        "loop.load %x_smem[%a2o mod 3",
    ),
    "copy before the wait": Bug(
        "ring",
        r"( *kernel\.wait_group 1\n *kernel\.barrier\n)((?s:.*?)kernel\.commit_group\n)",
        r"\2\1",
        "data race",
        "kernel.move 2 async %x[",
    ),
    "wait for too few groups": Bug(
        "ring", r"wait_group 1", "wait_group 2", "read in flight", "loop.load %x_smem[%a2o mod 3"
    ),
    "unclamped copy": Bug(
        "ring",
        r"(kernel\.move 2 async %y.*) where \(%a1_b \* 16 \+ %thread floordiv 4 < 24\)",
        r"\1",
        "out of bounds",
        "kernel.move 2 async %y[",
    ),
    "unclamped load": Bug(
        "rows", r"(kernel\.move 4 %x\[.*?) where \([^)]*\)", r"\1", "out of bounds", "kernel.move 4 %x["
    ),
    "replicated store": Bug(
        "rows",
        r"where \(%thread mod 32 < 1\)",
        "where (%thread mod 32 < 32)",
        "data race",
        "loop.store %sum_4, %sum_part",
    ),
    "missing guard": Bug(
        "ring",
        r"loop\.guard where \(%a1_b \* 16 \+ %a1_t < 24, %a0_b \* 16 \+ %a0_t < 20\) \{\n(.*\n) *\}\n",
        r"\1",
        "out of bounds",
        "loop.store %linear_1, %out[",
    ),
    "shuffle under a guard": Bug(
        "rows",
        r"(%8 = kernel\.shuffle_xor .*\n)",
        r"loop.guard where (%thread mod 32 < 16) {\n%unused = kernel.shuffle_xor %sum_3, 16 : f32\n}\n\1",
        "divergent shuffle",
        "%unused = kernel.shuffle_xor",
    ),
}


@pytest.mark.parametrize("program", PROGRAMS)
def test_the_kernels_themselves_are_clean(program: str, tmp_path: Path) -> None:
    path = tmp_path / "k.mlir"
    path.write_text(kernel_text(program))
    code, report = deplodock("run", str(path))
    assert (code, report.splitlines()[-1]) == (0, "passed: nothing to compare with at kernel level, no findings")


@pytest.mark.parametrize("name", BUGS)
def test_a_planted_bug_is_named_with_its_operation_and_place(name: str, tmp_path: Path) -> None:
    bug = BUGS[name]
    text, edits = re.subn(bug.pattern, bug.replacement, kernel_text(bug.program), count=1)
    assert edits == 1
    path = tmp_path / "k.mlir"
    path.write_text(text)
    code, report = deplodock("run", str(path))
    assert code == 1
    findings = re.findall(rf"^{path}:(\d+):\d+: (.*?): kernel @k_\w+: `(.*?)`: ", report, re.MULTILINE)
    assert findings, report
    lines = text.splitlines()
    assert all(operation in lines[int(line) - 1] for line, _, operation in findings)
    assert any(kind == bug.kind and bug.at in operation for _, kind, operation in findings), report


def test_a_wrong_shuffle_mask(tmp_path: Path) -> None:
    """A mask outside a warp is refused at its place; any other only makes the result wrong."""
    text, path = kernel_text("rows"), tmp_path / "k.mlir"
    expression, _ = PROGRAMS["rows"]
    path.write_text(text.replace("kernel.shuffle_xor %sum_3, 16", "kernel.shuffle_xor %sum_3, 8"))
    code, report = deplodock("run", "-c", expression, "--from", str(path))
    assert code == 1
    assert "output 0: WRONG: " in report
    path.write_text(text.replace("kernel.shuffle_xor %sum_3, 16", "kernel.shuffle_xor %sum_3, 32"))
    line = 1 + next(i for i, line in enumerate(text.splitlines()) if "kernel.shuffle_xor %sum_3, 16" in line)
    stderr = io.StringIO()
    with pytest.raises(SystemExit), contextlib.redirect_stderr(stderr):
        run_tool("deplodock", lambda: deplodock("run", str(path))[0])
    assert re.match(rf"{path}:{line}:\d+: error: kernel\.shuffle_xor: the mask of a shuffle", stderr.getvalue())
