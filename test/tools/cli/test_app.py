"""`deplodock compile` and `deplodock run`, mostly in this process: `import torch` takes seconds."""

import contextlib
import io
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, cast

import pytest
from typer.main import get_command
from typer.testing import CliRunner

import deplodock
from deplodock.errors import Error
from deplodock.passes.driver import LEVELS
from deplodock.runtime.lowering import ALWAYS
from deplodock.runtime.nvcc import compile_cubin
from deplodock.tools.cli.app import app
from deplodock.tools.diagnostics import run_tool
from deplodock.tools.opt import OptMain

EXPRESSIONS = {
    "E1": "torch.nn.RMSNorm(2048)(torch.randn(1,32,2048))",
    "E2": "torch.relu(torch.matmul(torch.randn(16,64) + torch.randn(64), torch.randn(64,16)))",
    "E3": "torch.nn.Softmax(dim=-1)(torch.randn(1,4,63,65))",
}
SMALL = "torch.exp(torch.randn(4, 8)).sum(-1)"
Tool = Callable[..., subprocess.CompletedProcess[str]]


def cli(*args: str) -> tuple[int, str, str]:
    """The exit code, stdout and stderr of a command, run in this process."""
    result = CliRunner().invoke(app, list(args))
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        raise result.exception
    return result.exit_code, result.stdout, result.stderr


def succeed(*args: str) -> str:
    code, stdout, _ = cli(*args)
    assert code == 0, stdout
    return stdout


def fails(*args: str) -> str:
    """The message of an error, as the tool prints it."""
    stderr = io.StringIO()
    with pytest.raises(SystemExit) as exit, contextlib.redirect_stderr(stderr):
        run_tool("deplodock", lambda: cli(*args)[0])
    assert exit.value.code == 1
    return stderr.getvalue()


@pytest.fixture(scope="module")
def kernel_texts() -> dict[str, str]:
    """The kernel IR of each expression."""
    return {name: succeed("compile", "-c", text, "--ir", "kernel") for name, text in EXPRESSIONS.items()}


@pytest.mark.parametrize("name", EXPRESSIONS)
def test_each_level_parses_back_and_prints_identically(name: str, tmp_path: Path) -> None:
    for level in LEVELS[:-1]:
        for generic in ((), ("--print-op-generic",)):
            text = succeed("compile", "-c", EXPRESSIONS[name], "--ir", level, *generic)
            source, printed = tmp_path / "in.mlir", tmp_path / "out.mlir"
            source.write_text(text)
            OptMain([str(source), *generic, "-o", str(printed)]).run()
            assert printed.read_text() == text, f"{level} {generic}"


@pytest.mark.parametrize("name", EXPRESSIONS)
def test_lowering_the_text_of_a_level_gives_the_same_kernel(
    name: str, kernel_texts: dict[str, str], tmp_path: Path
) -> None:
    for level in LEVELS[:-2]:
        path = tmp_path / f"{level}.mlir"
        succeed("compile", "-c", EXPRESSIONS[name], "--ir", level, "-o", str(path))
        assert succeed("compile", str(path), "--ir", "kernel") == kernel_texts[name], level


REPLAYED = {
    **EXPRESSIONS,
    "ring": "F.linear(torch.randn(64, 130), torch.randn(96, 130))",
    "register tile": "F.linear(torch.randn(512, 130), torch.randn(512, 130))",
    "one block": "torch.randn(3, 5) + 1",
    "no axes": "torch.randn(3, 5).sum()",
}
SCHEDULED = {
    "E1": "tileify,cooperative-reduce{threads=64 vector=2},blockify-launch{threads=128},stage-inputs",
    "E2": "tileify,chunk-matmul-k{bk=16},blockify-launch{m=8 n=16},stage-inputs{memory=shared}",
    "ring": (
        "tileify,chunk-matmul-k{bk=8},blockify-launch{m=32 n=16},stage-inputs{memory=shared},register-tile{m=4 n=2},"
        "double-buffer{depth=4},async-copy{bytes=4},pipeline-k-outer{distance=3}"
    ),
}


def replay(expression: str, schedule: str, folder: Path) -> str:
    """The tile IR that the rules of a schedule give, as a pipeline run on the printed loop IR."""
    source, printed = folder / "loop.mlir", folder / "tile.mlir"
    succeed("compile", "-c", expression, "--ir", "loop", "-o", str(source))
    OptMain([str(source), f"--pass-pipeline={schedule},canonicalize,cse", "-o", str(printed)]).run()
    return printed.read_text()


def printed_schedule(text: str) -> tuple[str, str]:
    """The schedule that tile IR of one kernel shows, and the IR without it."""
    (schedule,) = re.findall(r'deplodock\.schedule = "([^"]*)"', text)
    return schedule, text.replace(f' attributes {{deplodock.schedule = "{schedule}"}}', "")


@pytest.mark.parametrize("name", REPLAYED)
def test_the_schedule_in_tile_ir_replays_as_a_pipeline(name: str, tmp_path: Path) -> None:
    schedule, text = printed_schedule(succeed("compile", "-c", REPLAYED[name], "--ir", "tile"))
    assert ("pipeline-k-outer" in schedule) == (name in ("E2", "ring", "register tile"))
    assert replay(REPLAYED[name], schedule, tmp_path) == text


@pytest.mark.parametrize("name", SCHEDULED)
def test_a_given_schedule_is_written_applied_and_replays(name: str, tmp_path: Path) -> None:
    schedule, text = printed_schedule(
        succeed("compile", "-c", REPLAYED[name], "--schedule", SCHEDULED[name], "--ir", "tile")
    )
    for rule in re.findall(r"([\w-]+)(?:\{([^}]*)\})?", SCHEDULED[name]):
        (written,) = re.findall(rf"{rule[0]}(?:{{([^}}]*)}})?", schedule)
        assert set(rule[1].split()) <= set(written.split())
    assert text != printed_schedule(succeed("compile", "-c", REPLAYED[name], "--ir", "tile"))[1]
    assert replay(REPLAYED[name], schedule, tmp_path) == text
    report = succeed("run", "-c", REPLAYED[name], "--schedule", SCHEDULED[name])
    assert report.endswith("passed: the result agrees with PyTorch in float64, no findings\n")


@pytest.mark.parametrize(
    ("schedule", "message"),
    [
        ("tileify,tile-it", "names tile-it, which is not one of tileify, flatten-contraction, chunk-matmul-k, "),
        ("tileify,split-inner-for-swizzle{span=many}", "gives split-inner-for-swizzle a bad option: "),
        ("tileify,blockify-launch{rows=2}", "gives blockify-launch a bad option: "),
        ("tileify,blockify-launch{threads=many}", "gives blockify-launch a bad option: "),
        ("tileify,tileify", "names tileify twice"),
        ("tileify{", "malformed schedule"),
    ],
)
@pytest.mark.parametrize("command", ["compile", "run"])
def test_bad_schedules(command: str, schedule: str, message: str) -> None:
    text = fails(command, "-c", SMALL, "--schedule", schedule)
    assert text.startswith("deplodock: error: ")
    assert message in text
    assert schedule in text
    assert "Traceback" not in text


def test_a_schedule_that_comes_too_late(tmp_path: Path) -> None:
    path = tmp_path / "k.mlir"
    succeed("compile", "-c", SMALL, "--ir", "tile", "-o", str(path))
    assert "is for programs above tile level" in fails("compile", str(path), "--schedule", "tileify")
    code, _, stderr = cli("compile", "-c", SMALL, "--schedule", "tileify", "--ir", "loop")
    assert (code, "acts below loop level" in stderr) == (2, True)


@pytest.mark.parametrize("name", EXPRESSIONS)
def test_each_expression_is_one_kernel_and_right(name: str) -> None:
    lines = succeed("run", "-c", EXPRESSIONS[name]).splitlines()
    if name == "E2":
        assert lines.pop(3) == "also right on inputs that are integers from -2 to 2, on which all is exact"
    assert [line[0] for line in lines] == ["@", " ", "o", "p"]
    assert re.fullmatch(r"@k_\w+: \d+ blocks of \d+ threads, \d+ bytes of shared memory, for sm_90", lines[0])
    assert lines[2].startswith("output 0: right: error ")
    assert lines[3] == "passed: the result agrees with PyTorch in float64, no findings"


@pytest.mark.parametrize("target", ["sm_80", "sm_90", "sm_120"])
@pytest.mark.parametrize("name", EXPRESSIONS)
def test_cuda_compiles_without_spills(name: str, target: str, nvcc: Path) -> None:
    source = succeed("compile", "-c", EXPRESSIONS[name], "--target", target)
    (report,) = compile_cubin(source, target, nvcc=nvcc).reports.values()
    assert (report.spill_stores, report.spill_loads, report.stack_frame) == (0, 0, 0)


_PRINT_ALL = f"""
from deplodock.passes.driver import LEVELS
from deplodock.tools.cli.options import Options
from deplodock.tools.cli.program import Session
from deplodock.tools.clock import Clock
for expression in {list(EXPRESSIONS.values())!r}:
    session = Session(Options(verbosity=2), Clock())
    module = session.read_expression(expression).module
    for level in LEVELS:
        session.lower(module, level)
        print(session.text(module, level))
"""


def test_text_does_not_depend_on_the_hash_seed() -> None:
    """This process has one, which is random, and the other has its own."""
    with contextlib.redirect_stdout(io.StringIO()) as own:
        exec(_PRINT_ALL, {})
    command, env = [sys.executable, "-c", _PRINT_ALL], {"PYTHONHASHSEED": "1"}
    other = subprocess.run(command, env=env, capture_output=True, text=True, check=True).stdout
    assert other.count("__global__") == len(EXPRESSIONS)
    assert other == own.getvalue()


@pytest.mark.parametrize("name", ["E1", "E2"])
def test_a_missing_barrier_is_a_race(name: str, kernel_texts: dict[str, str], tmp_path: Path) -> None:
    path = tmp_path / "k.mlir"
    path.write_text(kernel_texts[name])
    assert succeed("run", str(path)).endswith("passed: nothing to compare with at kernel level, no findings\n")
    lines = kernel_texts[name].splitlines(keepends=True)
    barriers = [number for number, line in enumerate(lines) if "kernel.barrier" in line]
    assert barriers
    for barrier in barriers:
        path.write_text("".join(lines[:barrier] + lines[barrier + 1 :]))
        code, stdout, _ = cli("run", str(path))
        assert code == 1
        assert re.search(
            rf"^{path}:\d+:\d+: data race: kernel @k_\w+: `.*loop\.load .*`.* writes in .*\({path}:\d+:\d+\)",
            stdout,
            re.MULTILINE,
        )


def test_a_changed_constant_is_a_wrong_result(tmp_path: Path) -> None:
    path, norm = tmp_path / "k.mlir", "torch.nn.RMSNorm(64)(torch.randn(1,3,64))"
    text = succeed("compile", "-c", norm, "--ir", "kernel")
    path.write_text(text)
    assert "agrees with PyTorch" in succeed("run", "-c", norm, "--from", str(path))
    changed = text.replace(" 1.562500e-02 : f32", " 1.562800e-02 : f32")
    assert changed != text
    path.write_text(changed)
    code, stdout, _ = cli("run", "-c", norm, "--from", str(path))
    assert code == 1
    assert re.search(r"^output 0: WRONG: element \[0, \d+, \d+\] is .*, should be ", stdout, re.MULTILINE)
    assert stdout.endswith("FAILED: the result DIFFERS from PyTorch in float64, no findings\n")


def test_eps_counts_on_small_rows() -> None:
    assert "agrees" in succeed("run", "-c", "torch.nn.RMSNorm(64)(1e-5 * torch.randn(4, 64))")


@pytest.mark.parametrize("level", LEVELS[:-2])
def test_text_of_each_level_runs(level: str, tmp_path: Path) -> None:
    path = tmp_path / "program.mlir"
    succeed("compile", "-c", SMALL, "--ir", level, "-o", str(path))
    assert "agrees with the evaluator in float64, no findings" in succeed("run", str(path))


def test_what_has_no_values_is_compiled_and_not_run() -> None:
    text = "torch.ones(3, device='meta') + 1"
    assert "__global__" in succeed("compile", "-c", text, "--ir", "cuda")
    assert fails("run", "-c", text).startswith("deplodock: error: x is on the device meta and has no values to run on")


def test_run_says_which_check_failed(tmp_path: Path) -> None:
    path = tmp_path / "program.mlir"
    text = succeed("compile", "-c", "F.one_hot(torch.tensor([0, 2]), 3)", "--ir", "torch")
    path.write_text(text)
    # The first seed draws classes that exist, the other one that does not.
    assert "check failed" not in succeed("run", str(path), "--seed", "1")
    code, stdout, _ = cli("run", str(path), "--seed", "3")
    assert code == 1
    assert "check failed: aten.one_hot.default: class values must be from 0 to 2\nFAILED" in stdout


def test_run_prints_a_level_before_the_report() -> None:
    tensor = succeed("compile", "-c", SMALL, "--ir", "tensor")
    cuda = succeed("compile", "-c", SMALL)
    for level, text in (("tensor", tensor), ("cuda", cuda)):
        stdout = succeed("run", "-c", SMALL, "--ir", level)
        assert stdout.startswith(text)
        assert stdout.endswith("no findings\n")


def test_inputs_come_from_the_seed() -> None:
    first, second, other = (succeed("run", "-c", SMALL, "--seed", seed) for seed in ("1", "1", "2"))
    assert first == second != other


def test_outputs_of_several_kinds(tmp_path: Path) -> None:
    path = tmp_path / "program.py"
    path.write_text("x = torch.randn(5)\n(x.sum(), torch.arange(6) * 2, x.double() * 3, x)\n")
    lines = succeed("run", str(path)).splitlines()
    assert [line.split(":")[0] for line in lines if line.startswith("output")] == [f"output {i}" for i in range(4)]


def test_findings_fail_a_right_result(tmp_path: Path) -> None:
    """A kernel that reads past its input computes the right values all the same."""
    text = """
    kernel.func @k(%x: memref<4xf32>, %out: memref<4xf32>) blocks(%block = 1) threads(%thread = 8) {
      %v = loop.load %x[%thread] : memref<4xf32>
      loop.guard where (%thread < 4) {
        loop.store %v, %out[%thread] : memref<4xf32>
      }
    }
    """
    path = tmp_path / "k.mlir"
    path.write_text(text)
    code, stdout, _ = cli("run", "-c", "torch.randn(4) * 1", "--from", str(path))
    assert code == 1
    assert f"{path}:3:7: out of bounds: " in stdout
    assert stdout.endswith("FAILED: the result agrees with PyTorch in float64, 1 finding\n")


def test_trace_block_of_staging() -> None:
    """What `awk '/^>>> .*stage_inputs/,/^<<< .*stage_inputs/'` cuts out: a staged buffer, its two loads rewritten."""
    lines = succeed("compile", "-c", EXPRESSIONS["E1"], "--ir", "tile", "-vv").splitlines()
    start = next(number for number, line in enumerate(lines) if re.match(">>> .*stage_inputs", line))
    end = next(number for number, line in enumerate(lines) if number > start and re.match("<<< .*stage_inputs", line))
    block = lines[start : end + 1]
    assert block[0].endswith("_stage_inputs @k_rms_norm")
    added = [line for line in block if line.startswith("+")]
    assert sum("tile.stage %x[" in line for line in added) == 1
    assert sum("loop.load %x_" in line for line in added) == 2
    assert sum("loop.load %x[" in line for line in block if line.startswith("-")) == 2
    assert "builtin.module" in "".join(lines[end + 1 :])


def test_markers_are_never_coloured() -> None:
    plain = succeed("compile", "-c", SMALL, "-vv", "--ir", "tile")
    coloured = succeed("compile", "-c", SMALL, "-vv", "--ir", "tile", "--color", "always")
    assert re.sub(r"\x1b\[[0-9;]*m", "", coloured) == plain
    assert "\x1b[32m+" in coloured
    for line in coloured.splitlines():
        assert "\x1b" not in line or not re.search(r"(>>>|<<<|---) [dolt]:", line)


def test_output_file(tmp_path: Path) -> None:
    path = tmp_path / "k.cu"
    assert succeed("compile", "-c", SMALL, "-o", str(path), "--color", "always") == ""
    assert path.read_text() == succeed("compile", "-c", SMALL)


def test_dump_dir(tmp_path: Path) -> None:
    folder = tmp_path / "a" / "dump"
    code, _, stderr = cli("compile", "-c", SMALL, "--dump-dir", str(folder))
    assert code == 0
    assert str(folder) in stderr
    names = sorted(path.name for path in folder.iterdir())
    assert names[0] == "00_input_torch.mlir"
    assert "01_d001_decompose.mlir" in names
    assert (folder / "k_sum.cu").read_text() == succeed("compile", "-c", SMALL)
    last = max(name for name in names if name.endswith(".mlir"))
    assert (folder / last).read_text() == succeed("compile", "-c", SMALL, "--ir", "kernel")


def test_verbose_prints_the_parts_of_the_time() -> None:
    code, stdout, stderr = cli("compile", "-c", SMALL, "-v")
    assert code == 0
    assert stdout == succeed("compile", "-c", SMALL)
    names = re.findall(r"^ +[\d.]+ s  (.+)$", stderr, re.MULTILINE)
    assert names[:4] == ["import deplodock", "import torch", "import frontend", "torch.export"]
    assert {"tensor passes", "loop passes", "tile passes", "kernel passes", "printing", "total"} <= set(names)
    assert names[-1].startswith("total without import torch, torch.export")


def test_what_is_kept_is_neither_lowered_nor_compiled(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("DEPLODOCK_CACHE", str(tmp_path))
    monkeypatch.delenv(ALWAYS)
    (_, first, told), (_, second, told_again) = (cli("compile", "-c", SMALL, "-v") for _ in range(2))
    assert first == second
    assert re.search("compiled: [01], lowered: 1\n", told)
    assert "compiled: 0, lowered: 0\n" in told_again
    assert "kernel passes" not in told_again


@pytest.mark.parametrize(
    ("expression", "message"),
    [
        ("torch.randn(3) +", r"<expression>:1:17: error: SyntaxError: invalid syntax\n"),
        ("x = 3", r"<expression>:1:1: error: the last statement must be an expression"),
        ("torch.randn(3) + torch.randn(4)", r"<expression>:1:1: error: the program raises RuntimeError: "),
        ("1 / 0", r"<expression>:1:1: error: .*ZeroDivisionError"),
        (
            "y = 2\ntorch.fft.fft(torch.randn(4))",
            r"<expression>:2:1: error: aten\.fft_fft\.default is not supported: it needs ",
        ),
        ("torch.randn(4).cfloat()", r"<expression>:1:1: error: .*torch\.complex64; supported are torch\.float32, "),
        ("torch.randn(4, dtype=torch.cfloat) + 1", r"<expression>.*: error: .*torch\.complex64; supported are "),
        ("torch.softmax(torch.randn(4), 0).chalf()", r"<expression>:1:1: error: .*torch\.complex32"),
    ],
)
def test_bad_expressions(expression: str, message: str) -> None:
    text = fails("compile", "-c", expression)
    assert re.match(message, text), text
    assert "Traceback" not in text


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("func.func @f() {\n  nope\n}", r"bad\.mlir:2:3: error: "),
        ("func.func @f() -> i32 {\n  func.return\n}", r"bad\.mlir:2:3: error: func\.return: "),
        ("func.func @f() {\n  func.return %x : i32\n}", r"bad\.mlir:2:15: error: value %x is used here, but defined"),
        ("\xff", r"bad\.mlir:1:1: error: byte 0xff is not UTF-8 text"),
    ],
)
@pytest.mark.parametrize("command", ["compile", "run"])
def test_bad_text(command: str, text: str, message: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("bad.mlir").write_bytes(text.encode("latin-1"))
    assert re.match(message, fails(command, "bad.mlir"))


def test_bad_options(tmp_path: Path) -> None:
    path = tmp_path / "k.mlir"
    succeed("compile", "-c", SMALL, "--ir", "kernel", "-o", str(path))
    assert "unknown target 'sm_75'; choose one of sm_80, sm_89, " in fails("compile", str(path), "--target", "sm_75")
    assert "at kernel level; it cannot be raised to tile level" in fails("compile", str(path), "--ir", "tile")
    assert "No such file or directory" in fails("compile", "missing.mlir")
    assert "No such file or directory" in fails("compile", str(path), "-o", str(tmp_path / "no" / "folder.cu"))
    for arguments in (["compile"], ["compile", str(path), "-c", SMALL], ["compile", str(path), "--ir", "nope"]):
        code, stdout, stderr = cli(*arguments)
        assert (code, stdout) == (2, "")
        assert "Error: Invalid value" in stderr
    assert cli("run", str(path), "--from", str(path))[0] == 2
    assert cli("tune")[0] == 2
    assert cli("sing")[0] == 2


def test_another_program_does_not_fit(tmp_path: Path) -> None:
    path = tmp_path / "k.mlir"
    succeed("compile", "-c", "torch.randn(3) + 1", "--ir", "kernel", "-o", str(path))
    with pytest.raises(Error, match="must be float32 of shape"):
        cli("run", "-c", "torch.randn(4) + 1", "--from", str(path))


def test_help_and_version() -> None:
    assert succeed("--version") == f"deplodock {deplodock.__version__}\n"
    for command in ("compile", "run"):
        assert command in succeed("--help")
        assert "-c EXPR" in succeed(command, "--help")
    assert cli()[1].startswith("Usage: deplodock")
    summaries = succeed("--help").partition("Commands:")[2]
    assert "..." not in summaries
    for name, command in cast(Any, get_command(app)).commands.items():
        assert name in summaries
        assert all(parameter.help for parameter in command.params)


def test_errors_of_the_process(process: Tool) -> None:
    """Nothing but the message is on stderr, not even what PyTorch logs."""
    done = process("deplodock", "run", "-c", "x = torch.randn(4)\nx if x.sum() > 0 else -x")
    assert done.returncode == 1
    assert done.stdout == ""
    first, *rest = done.stderr.splitlines()
    assert re.match(r"<expression>:2:\d+: error: ", first)
    assert rest[0] == "x if x.sum() > 0 else -x"
    assert len(rest) == 2


def test_textual_compile_imports_neither_numpy_nor_torch(tmp_path: Path) -> None:
    path = tmp_path / "f.mlir"
    path.write_text("func.func @f(%x: tensor<4xf32>) -> tensor<4xf32> { func.return %x : tensor<4xf32> }")
    code = (
        "import sys; from deplodock.tools.cli.app import app\n"
        f"app(['compile', {str(path)!r}], standalone_mode=False)\n"
        "print([m for m in ('numpy', 'torch', 'rich') if m in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert "__global__" in done.stdout
    assert done.stdout.endswith("[]\n")


def test_a_closed_pipe_ends_the_tool_silently(tmp_path: Path) -> None:
    path = tmp_path / "f.mlir"
    path.write_text("func.func @f(%x: tensor<4xf32>) -> tensor<4xf32> { func.return %x : tensor<4xf32> }")
    script = f"{Path(sys.executable).parent / 'deplodock'} compile {path} --ir kernel -vv | true"
    done = subprocess.run(["bash", "-c", script], capture_output=True, text=True, check=False)
    assert "Traceback" not in done.stderr
    assert "Broken" not in done.stderr
