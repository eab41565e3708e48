"""A sample of the CTAs of programs that are too large to simulate whole: every kind of kernel, and planted mistakes."""

import json
import re
from pathlib import Path

import kinds
import pytest
from host_samples import FORM_CUTS
from kinds import Kind
from typer.testing import CliRunner

from deplodock.interpreters.simulate import sample
from deplodock.runtime import sampled
from deplodock.tools.cli import execute, further
from deplodock.tools.cli.app import app

KINDS = {kind.name: kind for kind in kinds.KINDS}

ADD = """
kernel.func @k(%x: memref<64x64xf32>, %out: memref<64x64xf32>) blocks(%block = 64) threads(%thread = 64) {
  %r = loop.index [%block]
  %c = loop.index [%thread]
  %in = loop.load %x[%r, %c] : memref<64x64xf32>
  %sum = arith.addf %in, %in : f32
  loop.store %sum, %out[%r, %c] : memref<64x64xf32>
}
"""

MAP = "!kernel.tensor_map<memref<40x36xf32>, box [16, 8]>"
BOXES = f"""
kernel.func @k(%y: {MAP}, %x: memref<5x48x8xf32>) blocks(%block = 5) threads(%thread = 32) {{
  %s = kernel.alloc : memref<16x8xf32, #tile.memory<shared>>
  loop.for %k = 0 to 3 {{
    kernel.tma_wait 0
    kernel.barrier
    loop.for %i = 0 to 4 unroll {{
      %v = loop.load %x[%block, %k * 16 + %i * 4 + %thread floordiv 8, %thread mod 8] : memref<5x48x8xf32>
      loop.store %v, %s[%i * 4 + %thread floordiv 8, %thread mod 8] : memref<16x8xf32, #tile.memory<shared>>
    }}
    kernel.fence_proxy_async
    kernel.barrier
    loop.guard where (%thread < 1) {{
      kernel.tma_store %s[0, 0] to %y[%k * 16, %block * 8] : memref<16x8xf32, #tile.memory<shared>> to {MAP}
    }}
    kernel.tma_commit
  }}
  kernel.tma_wait 0
}}
func.func @main(%x: memref<5x48x8xf32>) -> memref<40x36xf32> {{
  %y = memref.alloc() : memref<40x36xf32>
  %map = kernel.tensor_map %y : {MAP}
  kernel.launch @k(%map, %x) : {MAP}, memref<5x48x8xf32>
  func.return %y : memref<40x36xf32>
}}"""


def cli(*args: str) -> tuple[int, str, str]:
    """The exit code, stdout and stderr of a command, run in this process."""
    result = CliRunner().invoke(app, list(args))
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        raise result.exception
    return result.exit_code, result.stdout, result.stderr


@pytest.fixture(autouse=True)
def all_are_large(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every program counts as too large, and three CTAs are drawn."""
    monkeypatch.setattr(execute, "LANE_STEP_LIMIT", 10)
    monkeypatch.setattr(further, "LANE_STEP_LIMIT", 10)
    monkeypatch.setattr(sample, "MOST_CTAS", 3)


@pytest.mark.parametrize("kind", kinds.KINDS, ids=str)
def test_a_sample_of_each_kind_is_right(kind: Kind) -> None:
    # Most of the time of masked rings is the evaluation of all rows, of which a sample reads few.
    text = FORM_CUTS["masked_"] if kind.name.startswith("masked_") else kind.text
    given = () if kind.schedule is None else ("--schedule", kind.schedule)
    given += () if kind.stream is None else ("--stream", kind.stream)
    code, stdout, stderr = cli("run", "-c", text, "--device", "sim", *given)
    assert code == 0, stdout
    assert "a sample of the CTAs runs, on what the evaluator gives for the loop IR before each kernel" in stderr
    last = stdout.splitlines()[-1]
    assert last.startswith("passed: the result agrees with PyTorch in float64, no findings")
    ran, total = (int(n) for n in re.findall(r"(\d+) of (\d+) CTAs ran", last)[-1]) if "CTAs ran" in last else (1, 1)
    assert 0 < ran <= total


def run_text(tmp_path: Path, text: str, *args: str) -> tuple[int, str]:
    """The exit code and stdout of a run of IR text."""
    path = tmp_path / "k.mlir"
    path.write_text(text, encoding="utf-8")
    return cli("run", *args, str(path), "--device", "sim")[:2]


def test_kernels_alone_are_sampled(tmp_path: Path) -> None:
    code, stdout = run_text(tmp_path, ADD)
    assert code == 0
    assert "\n  3 of 64 CTAs ran\n" in stdout
    assert stdout.endswith("passed: nothing to compare with at kernel level, no findings; 3 of 64 CTAs ran\n")
    code, stdout = run_text(tmp_path, ADD, "-c", "x = torch.randn(64, 64); x + x", "--from")
    assert code == 0
    assert "3 of 64 CTAs ran; the 192 elements that they wrote are right: error 0.00e+00" in stdout
    assert stdout.endswith("passed: the result agrees with PyTorch in float64, no findings; 3 of 64 CTAs ran\n")


@pytest.mark.parametrize(
    ("new", "message"),
    [
        ("%block * 8", None),
        (
            "%block * 8 - %block floordiv 4 * 8",
            "no CTA of @k writes 160 of the 1440 elements of %y, the first is [0, 32]",
        ),
        (
            "%block * 8 + %block floordiv 4 * 2",
            "no CTA of @k writes 80 of the 1440 elements of %y, the first is [0, 32]",
        ),
        ("%block * 8 - %block floordiv 4", "CTAs 3 and 4 both write %y[0, 31], and nothing orders"),
    ],
)
def test_all_elements_of_boxes_are_told(tmp_path: Path, new: str, message: str | None) -> None:
    """Those that lie inside of the buffer: stores leave out the others."""
    code, stdout = run_text(tmp_path, BOXES.replace("%block * 8", new))
    assert code == (0 if message is None else 1)
    assert "3 of 5 CTAs ran" in stdout
    assert (message or "no findings") in stdout


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("%sum = arith.addf %in, %in", "%sum = arith.mulf %in, %in", "elements that they wrote are WRONG"),
        # CTA 30 writes the row of CTA 29, and CTA 61 that of CTA 60, which writes that of CTA 59.
        (
            "%r = loop.index [%block]",
            "%r = loop.index [%block - %block floordiv 30 + %block floordiv 31]",
            "CTAs 29 and 30 both write %out[29, 0], and nothing orders the threads of a launch",
        ),
        (
            "%r = loop.index [%block]",
            "%r = loop.index [%block - %block floordiv 30 + %block floordiv 31]",
            "no CTA of @k writes 128 of the 4096 elements of %out, the first is [30, 0]",
        ),
        (
            "loop.store %sum, %out[%r, %c] : memref<64x64xf32>",
            "loop.guard where (%r * 64 + %c < 4095) {\nloop.store %sum, %out[%r, %c] : memref<64x64xf32>\n}",
            "no CTA of @k writes 1 of the 4096 elements of %out, the first is [63, 63]",
        ),
        (
            "loop.store %sum, %out[%r, %c] : memref<64x64xf32>",
            "loop.store %sum, %out[%r + %r floordiv 40 - %r floordiv 41, %c] : memref<64x64xf32>",
            "no CTA of @k writes",
        ),
        (
            "loop.store %sum, %out[%r, %c] : memref<64x64xf32>",
            "loop.store %sum, %out[%r, %c + %r floordiv 40 - %r floordiv 41] : memref<64x64xf32>",
            "out of bounds",
        ),
    ],
    ids=["value", "overlap", "gap", "last element", "shifted row", "outside"],
)
def test_mistakes_of_kernels_are_found(tmp_path: Path, old: str, new: str, message: str) -> None:
    """Those of CTAs that do not run, too, if they are of the places that CTAs write."""
    code, stdout = run_text(tmp_path, ADD.replace(old, new), "-c", "x = torch.randn(64, 64); x + x", "--from")
    assert code == 1
    assert message in stdout
    assert "\nFAILED: " in stdout


TWO = """
func.func @main(%x: memref<64x64xf32>, %out: memref<64x64xf32>) {
  %y = memref.alloc() : memref<64x64xf32>
  kernel.launch @double(%x, %y) : memref<64x64xf32>, memref<64x64xf32>
  kernel.launch @mirror(%y, %out) : memref<64x64xf32>, memref<64x64xf32>
  func.return
}
kernel.func @double(%x: memref<64x64xf32>, %y: memref<64x64xf32>) blocks(%block = 64) threads(%thread = 64) {
  %in = loop.load %x[%block, %thread] : memref<64x64xf32>
  %sum = arith.addf %in, %in : f32
  loop.store %sum, %y[%block, %thread] : memref<64x64xf32>
}
kernel.func @mirror(%y: memref<64x64xf32>, %out: memref<64x64xf32>) blocks(%block = 64) threads(%thread = 64) {
  %in = loop.load %y[%block * -1 + 63, %thread] : memref<64x64xf32>
  loop.store %in, %out[%block, %thread] : memref<64x64xf32>
}
"""


def test_what_a_kernel_reads_is_written_before(tmp_path: Path) -> None:
    """The CTAs of the first kernel that run are those that write what the CTAs of the second read."""
    code, stdout = run_text(tmp_path, TWO, "-c", "x = torch.randn(64, 64); (x + x).flip(0)", "--from")
    assert code == 0, stdout
    assert stdout.endswith("; 6 of 128 CTAs ran\n")
    code, stdout = run_text(
        tmp_path,
        TWO.replace("%block * -1 + 63, %thread", "%block, %thread"),
        "-c",
        "x = torch.randn(64, 64); (x + x).flip(0)",
        "--from",
    )
    assert code == 1
    assert "the 192 elements that they wrote are WRONG: element [" in stdout


def test_addresses_from_memory(tmp_path: Path) -> None:
    """Where a kernel reads decides what another one writes: all CTAs of the first run, as nobody can tell which."""
    text = TWO.replace(
        "%in = loop.load %y[%block * -1 + 63, %thread] : memref<64x64xf32>",
        """
      %at = loop.load %y[%block, %thread] : memref<64x64xf32>
      %zero = arith.constant 0.0 : f32
      %no = arith.mulf %at, %zero : f32
      %int = arith.fptosi %no : f32 to i64
      %index = arith.index_cast %int : i64 to index
      %in = loop.load %y[%block * -1 + 63 + %index, %thread] : memref<64x64xf32>""",
    )
    code, stdout = run_text(tmp_path, text, "-c", "x = torch.randn(64, 64); (x + x).flip(0)", "--from")
    assert code == 0, stdout
    assert stdout.endswith("; 67 of 128 CTAs ran\n")


def test_a_race_is_found(tmp_path: Path) -> None:
    text, schedule = KINDS["contraction_registers"].text, KINDS["contraction_registers"].schedule
    assert schedule is not None
    kernel = tmp_path / "kernel.mlir"
    cli("compile", "-c", text, "--schedule", schedule, "--ir", "kernel", "-o", str(kernel))
    without = re.sub(r" *kernel\.barrier\n", "", kernel.read_text(encoding="utf-8"))
    code, stdout = run_text(tmp_path, without, "-c", text, "--from")
    assert code == 1
    assert "data race" in stdout


@pytest.mark.parametrize("as_json", [False, True])
def test_what_cannot_run_is_not_passed(tmp_path: Path, as_json: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """One CTA is too much, so no CTA runs: neither passed nor failed."""
    monkeypatch.setattr(sampled, "SAMPLE_STEPS", 100)
    code, stdout = run_text(tmp_path, ADD, *(["--json"] if as_json else []))
    assert code == 3
    if as_json:
        report = json.loads(stdout)
        assert (report["passed"], report["outcome"], report["compared"]) == (False, "not run", None)
        (run,) = report["kernels"]
        assert (run["name"], run["ctas_run"], run["ctas"]) == ("k", 0, 64)
        assert "1 of the CTAs must run together" in run["reason"]
    else:
        assert (
            "\nnot run: nothing to compare with at kernel level, no findings; 0 of 64 CTAs ran, none of @k\n" in stdout
        )


def test_fewer_ctas_run_where_each_needs_many(monkeypatch: pytest.MonkeyPatch) -> None:
    """What three CTAs that add parts read is written by too many CTAs, but not what one reads."""
    text, schedule = KINDS["contraction_split_block"].text, KINDS["contraction_split_block"].schedule
    assert schedule is not None
    ran = []
    for limit in (sampled.SAMPLE_STEPS, 6_000_000):
        monkeypatch.setattr(sampled, "SAMPLE_STEPS", limit)
        code, stdout, _ = cli("run", "-c", text, "--schedule", schedule, "--device", "sim", "--json")
        assert code == 0, stdout
        kernels = {kernel["name"]: kernel["ctas_run"] for kernel in json.loads(stdout.splitlines()[-1])["kernels"]}
        ran.append(list(kernels.values()))
    assert all(0 < few < many for few, many in zip(ran[1], ran[0], strict=True)), ran


def test_json_counts_ctas() -> None:
    code, stdout, _ = cli("run", "-c", "x = torch.randn(300, 300); x.sum(1) @ x", "--device", "sim", "--json")
    assert code == 0
    report = json.loads(stdout.splitlines()[-1])
    assert report["outcome"] == "passed"
    assert report["compared"] == "PyTorch in float64"
    assert len(report["kernels"]) > 1
    assert all(0 < kernel["ctas_run"] <= kernel["ctas"] for kernel in report["kernels"])
