"""`deplodock-opt` as a process or a fork of one: what it imports, how it starts and how it fails."""

import os
import re
import subprocess
import sys
from argparse import ArgumentParser
from collections.abc import Callable
from importlib.metadata import version
from pathlib import Path

import pytest
from xdsl.utils.exceptions import ParseError

import deplodock
from deplodock.dialects.loop import LoadOp
from deplodock.passes.driver import new_context
from deplodock.passes.pipeline import PASSES, STAGES
from deplodock.tools.opt import _HELP, OptMain
from deplodock.tools.source import LocatingParser

Tool = Callable[..., subprocess.CompletedProcess[str]]

VALID = "func.func @f(%x: i32) -> i32 { func.return %x : i32 }"
UNUSED = "func.func @f(%x: i32) -> i32 { %y = arith.addi %x, %x : i32  func.return %x : i32 }"
INVALID = "func.func @f(%x: i32) { func.return %x : i32 }"


def python(code: str) -> str:
    return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout


def test_package_imports_nothing() -> None:
    code = (
        "import deplodock, sys; print([m for m in ('xdsl', 'numpy', 'torch', 'deplodock.errors') if m in sys.modules])"
    )
    assert python(code) == "[]\n"


def test_public_names() -> None:
    for name in deplodock.__all__:
        assert getattr(deplodock, name).__name__ == name
    with pytest.raises(AttributeError, match="no attribute 'nope'"):
        _ = deplodock.nope


def test_every_option_has_a_help_text_in_one_style() -> None:
    parser = ArgumentParser()
    OptMain(["-"]).register_all_arguments(parser)
    assert {action.dest for action in parser._actions} >= set(_HELP)
    for action in parser._actions:
        assert action.help, action.dest
        assert not action.help.endswith("."), action.dest


def test_textual_pipeline_imports_neither_numpy_nor_torch(tmp_path: Path) -> None:
    source = tmp_path / "in.mlir"
    source.write_text(VALID)
    passes = ",".join(stage.name for stage in STAGES)
    code = (
        "import sys; from deplodock.tools.opt import OptMain\n"
        f"OptMain([{str(source)!r}, '-p', {passes!r}, '-o', {str(tmp_path / 'out.mlir')!r}]).run()\n"
        "print([m for m in ('numpy', 'torch') if m in sys.modules])"
    )
    assert python(code) == "[]\n"


def test_starts_as_fast_as_xdsl_opt(process: Tool) -> None:
    """In under half a second; where the machine is too busy for that, in at most half as much again as xdsl-opt."""

    def processor_seconds(name: str) -> float:
        start = os.times()
        assert process(name, "-p", "cse", input=VALID).returncode == 0
        end = os.times()
        return end.children_user + end.children_system - start.children_user - start.children_system

    ours, theirs = (min(processor_seconds(name) for _ in range(5)) for name in ("deplodock-opt", "xdsl-opt"))
    assert ours < max(0.5, 1.5 * theirs)


def test_version(process: Tool) -> None:
    expected = f"deplodock-opt {version('deplodock')} (xdsl {version('xdsl')})\n"
    assert process("deplodock-opt", "--version").stdout == expected


def test_show_passes_lists_the_pipeline(tool: Tool) -> None:
    done = tool("deplodock-opt", "--show-passes")
    assert (done.returncode, done.stderr) == (0, "")
    heads = [line.partition(": ") for line in done.stdout.splitlines() if not line.startswith(" ")]
    assert [name for name, _, _ in heads] == [f"{stage.label[:5]} {stage.name}" for stage in PASSES]
    assert "        vector = 1, a positive integer: consecutive elements of a row that one thread owns\n" in done.stdout
    assert "        pad, a positive integer: elements to add to each row" in done.stdout
    assert "        keep = loops, loops or axes: whether the rest of the row stays a loop" in done.stdout
    assert "        after cooperative-reduce, split-matmul-k, blockify-launch\n" in done.stdout
    undocumented = [name for name, _, summary in heads if not summary or "Pass(" in summary]
    assert not undocumented


@pytest.mark.parametrize(
    ("args", "text", "expected"),
    [
        ([], INVALID, "<stdin>:1:25: error: func.return: Expected arguments"),
        ([], "func.func @f(", "<stdin>:1:14: error: "),
        (["/nonexistent/a.mlir"], "", "deplodock-opt: error: /nonexistent/a.mlir: No such file or directory"),
        (["/"], "", "deplodock-opt: error: /: Is a directory"),
        (["-o", "/nonexistent/a.mlir"], VALID, "deplodock-opt: error: /nonexistent/a.mlir: No such file"),
        (["-p", "nope"], VALID, "deplodock-opt: error: unknown pass 'nope'"),
        (["-p", "cse{a=1}"], VALID, "deplodock-opt: error: pass 'cse{a=1}': "),
        (["-p", "cse dce"], VALID, "pass-pipeline:1:4: error: "),
        (["-p", "builtin.module(cse dce)"], VALID, "pass-pipeline:1:19: error: "),
        (["-p", "builtin.module(func.func(cse),canonicalize)"], VALID, "pass-pipeline:1:16: error: nested pipelines"),
        (["-p", "cse,func.func(dce)"], VALID, "pass-pipeline:1:5: error: nested pipelines"),
        (["-p", "builtin.module(cse"], VALID, "pass-pipeline:1:15: error: this parenthesis is not closed"),
        (["-p", "cse)"], VALID, "pass-pipeline:1:4: error: no parenthesis is open here"),
        (["-p", "module(cse) dce"], VALID, "pass-pipeline:1:13: error: the pipeline ends before this"),
        (["-p", "cse{a"], VALID, "pass-pipeline:1:6: error: "),
        (["-p", "builtin.module(\ncse,\n,dce)"], VALID, "pass-pipeline:3:1: error: "),
    ],
)
def test_bad_input_is_one_message(tool: Tool, args: list[str], text: str, expected: str) -> None:
    done = tool("deplodock-opt", *args, input=text)
    assert done.returncode == 1
    assert done.stderr.startswith(expected)
    assert "Traceback" not in done.stderr
    assert done.stderr.count("error: ") == 1


@pytest.mark.parametrize("args", [["-t", "nope"], ["--nope"]])
def test_bad_usage_exits_with_2(tool: Tool, args: list[str]) -> None:
    done = tool("deplodock-opt", *args, input=VALID)
    assert done.returncode == 2
    assert "Traceback" not in done.stderr


def test_output_file_of_a_failing_run_stays(tool: Tool, tmp_path: Path) -> None:
    source = tmp_path / "in.mlir"
    source.write_text(VALID)
    assert tool("deplodock-opt", str(source), "-t", "cuda", "-o", str(source)).returncode == 1
    assert source.read_text() == VALID


@pytest.mark.parametrize("name", ["deplodock-opt", "xdsl-opt"])
def test_our_errors_are_diagnostics(tool: Tool, name: str) -> None:
    kernel = "func.func @k(%x: memref<4xf32>) { loop.for %i = 0 to 4 {} func.return }"
    text = f"{kernel}\n// -----\nfunc.func @second() {{ func.return }}"
    done = tool(name, "--split-input-file", "--verify-diagnostics", "-p", "materialize", input=text)
    assert (done.returncode, done.stderr) == (0, "")
    assert "@k holds no launch" in done.stdout
    assert "func.func @second()" in done.stdout


def test_text_that_is_not_utf8(tool: Tool, tmp_path: Path) -> None:
    source = tmp_path / "in.mlir"
    source.write_bytes(b"builtin.module {\n  \xff\n}")
    done = tool("deplodock-opt", str(source))
    assert done.stderr == f"{source}:2:3: error: byte 0xff is not UTF-8 text; is this an IR file?\n"


@pytest.mark.parametrize("text", ["", "\n", "// nothing\n"])
def test_text_without_operations_is_an_empty_module(tool: Tool, text: str) -> None:
    done = tool("deplodock-opt", input=text)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.split() == ["builtin.module", "{", "}"]


def nested(kind: str, depth: int) -> str:
    """A function, or a module, that holds `depth` things one in the other."""
    opened, inner, closed = {
        "modules": ("module {\n", "", "}\n"),
        "loops": ("loop.for %i = 0 to 1 {\n", "loop.store %c, %x[] : memref<f32>", "}\n"),
        "lists": ("[", "", "]"),
        "dictionaries": ("{a = ", "1", "}"),
        "affine": ("(", "d0", ")"),
        "tuples": ("tuple<", "f32", ">"),
        "locations": ("fused[", "unknown", "]"),
        "subscripts": ("(", "%i", ")"),
    }[kind]
    text = "".join(opened.replace("%i ", f"%i{level} ") for level in range(depth)) + inner + closed * depth
    frames = {
        "modules": "{}",
        "loops": "func.func @f(%x: memref<f32>, %c: f32) {{ {} func.return }}",
        "affine": "func.func @f() attributes {{a = affine_map<(d0) -> ({})>}} {{ func.return }}",
        "tuples": "func.func private @f({}) -> ()",
        "locations": "func.func @f() {{ func.return }} loc({})",
        "subscripts": "func.func @f(%x: memref<4xf32>, %i: index) {{ loop.load %x[{}] : memref<4xf32> func.return }}",
    }
    return frames.get(kind, "func.func @f() attributes {{a = {}}} {{ func.return }}").format(text)


KINDS = ["modules", "loops", "lists", "dictionaries", "affine", "tuples", "locations", "subscripts"]


@pytest.mark.parametrize("kind", KINDS)
def test_what_is_nested_a_hundred_times_is_read(tool: Tool, kind: str) -> None:
    done = tool("deplodock-opt", input=nested(kind, 100))
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.parametrize("depth", [1000, 10000])
@pytest.mark.parametrize("kind", KINDS)
def test_deep_nesting_is_read_or_an_error(tool: Tool, kind: str, depth: int) -> None:
    done = tool("deplodock-opt", input=nested(kind, depth))
    if done.returncode == 0:
        return
    assert (done.returncode, done.stdout) == (1, "")
    assert re.match(r"<stdin>:\d+:\d+: error: this is nested too deeply to be read\n", done.stderr)
    assert "recursion" not in done.stderr


def test_a_pass_over_deep_nesting_is_named(tool: Tool) -> None:
    sums = " + ".join(["d0 floordiv 2"] * 10000)
    text = f"func.func @f() attributes {{a = affine_map<(d0) -> ({sums})>}} {{ func.return }}"
    done = tool("deplodock-opt", input=text)
    assert (done.returncode, done.stderr) == (1, "deplodock-opt: error: the program is nested too deeply\n")


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("func.func @f() {\n  func.return\n\n// end\n", "<stdin>:2:14: error: an operation or '}' is expected here"),
        ("func.func @f()\n  attributes {a =\n} {}", "<stdin>:2:18: error: attribute expected"),
        ('#a = dense<"0xZZ">\n  : tensor<f32>\n', "<stdin>:1:11: error: Hex string in denseAttr is invalid"),
        ("#a = dense<[1, 2]> : tensor<3xi32>\n", "<stdin>:1:11: error: Shape mismatch"),
        ('func.func @f() attributes {a = "x} {\n}\n', "<stdin>:1:32: error: End of file reached"),
        ('func.func @"\\ff"() { func.return }', "<stdin>:1:1: error: a string in this holds bytes that are not UTF-8"),
        ("#a = dense<1.0> : tensor<99999999999xf32>", "<stdin>:1:19: error: a constant has at most 2^26 elements"),
        (
            "#a = affine_map<(d0) -> (d0 + 99999999999999999999)>",
            "<stdin>:1:31: error: 99999999999999999999 does not fit",
        ),
        ("#a = 99999999999999999999 : index", "<stdin>:1:6: error: 99999999999999999999 does not fit i64"),
        ("#a = array<i64: 99999999999999999999>", "<stdin>:1:17: error: 99999999999999999999 does not fit i64"),
        (
            "func.func @f(%x: tensor<99999999999999999999xf32>) {}",
            "<stdin>:1:25: error: 99999999999999999999 does not fit",
        ),
        ("#a = 1e400 : f64", "<stdin>:1:6: error: a float has a point: 1.0e400"),
        ("#a = dense<1e400> : tensor<2xf64>", "<stdin>:1:12: error: a float has a point: 1.0e400"),
        ("{-# external_resources: {} #-}", "<stdin>:1:25: error: cannot read this operation: Currently only dialect"),
        (
            "func.func @f() { func.return }\nfunc.func @f() { func.return }",
            "<stdin>:2:1: error: func.func: Redef",
        ),
        ('// a comment\n"builtin.module"() ({}) : () -> ()', "<stdin>:2:1: error: builtin.module: Region"),
        ("func.func @f() { func.return }\n)", "<stdin>:1:31: error: an operation is expected here"),
    ],
)
def test_wrong_text_is_an_error_at_its_place(tool: Tool, text: str, expected: str) -> None:
    done = tool("deplodock-opt", input=text)
    assert (done.returncode, done.stderr.count("error: ")) == (1, 1)
    assert done.stderr.startswith(expected)


@pytest.mark.parametrize("error", [KeyError("x"), IndexError("y"), OverflowError("z"), AssertionError("w")])
def test_any_error_of_a_parser_is_located(error: Exception, monkeypatch: pytest.MonkeyPatch) -> None:
    def parse(parser: object) -> None:
        raise error

    monkeypatch.setattr(LoadOp, "parse", parse)
    for text in ("  loop.load %x", "func.func @f() {\n  loop.load %x\n}"):
        with pytest.raises(ParseError, match=f"cannot read this operation: {error.args[0]}") as raised:
            LocatingParser(new_context(), text, "a.mlir").parse_module()
        assert raised.value.span.start == text.index("loop.load")


def test_unterminated_string_is_an_error_at_once(tool: Tool) -> None:
    done = tool("deplodock-opt", input='func.func @f() attributes {a = "' + "long " * 1000)
    assert done.returncode == 1
    assert done.stderr.startswith("<stdin>:1:32: error: ")


def test_a_name_may_be_a_suffix(tool: Tool) -> None:
    text = "func.func @f(%_1: i32, %_2_3: i32) { %_4 = arith.addi %_1, %_2_3 : i32 func.return }"
    assert tool("deplodock-opt", "--check-semantics", "-p", "canonicalize", input=text).returncode == 0


def test_printed_names_are_different(tool: Tool) -> None:
    text = "func.func @f(%x: i32, %x_1: i32, %x_1_1: i32) { func.return }"
    assert "(%x: i32, %x_1: i32, %x_2: i32)" in tool("deplodock-opt", input=text).stdout


def test_any_file_extension_is_ir_text(tool: Tool, tmp_path: Path) -> None:
    source = tmp_path / "kernel.txt"
    source.write_text(VALID)
    assert tool("deplodock-opt", str(source)).returncode == 0


def test_closed_pipe_is_silent(tmp_path: Path) -> None:
    source = tmp_path / "in.mlir"
    source.write_text("\n".join(f"func.func private @f{number}() -> ()" for number in range(3000)))
    tool = Path(sys.executable).parent / "deplodock-opt"
    command = f"'{tool}' '{source}' | head -n 1"
    done = subprocess.run(command, shell=True, capture_output=True, text=True, check=False)
    assert (done.stdout, done.stderr) == ("builtin.module {\n", "")


# A tool with a pass that fails in several ways, a semantics check that reports what it is given, and a verifier.
PROGRAM = """
import sys
from dataclasses import dataclass
from xdsl.passes import ModulePass
from xdsl.utils.exceptions import PassFailedException
from deplodock.errors import UnsupportedError
from deplodock.passes.pipeline import Stage
from deplodock.tools import opt
from deplodock.tools.diagnostics import run_tool

@dataclass(frozen=True)
class Fail(ModulePass):
    name = "fail"
    how: str = "error"
    def apply(self, ctx, op):
        first = op.body.block.first_op
        if self.how == "error":
            raise UnsupportedError("f64 is not supported here")
        if self.how == "failed":
            first.emit_error("cannot tile", PassFailedException("cannot tile"))
        if self.how == "invalid":
            first.body.block.last_op.detach()

class Tool(opt.OptMain):
    def register_all_passes(self):
        super().register_all_passes()
        self.register_pass("fail", lambda: Fail)

class Meaning:
    def __init__(self, module):
        self.count = len(list(module.walk()))

    def check(self, after, pass_name):
        print("check", pass_name, self.count, len(list(after.walk())))
        return Meaning(after)

if "--verify-each" in sys.argv:
    Stage.load = lambda self: Fail
    opt.VERIFIERS = (Stage("v", 1, "fail", ""),)
opt._meaning = Meaning
run_tool("tool", lambda: Tool().run())
"""


Inject = Callable[..., subprocess.CompletedProcess[str]]


@pytest.fixture
def inject(tools: Path) -> Inject:
    """Run a tool that has such a pass."""

    def run(*args: str, text: str = VALID) -> subprocess.CompletedProcess[str]:
        command = [tools / "python", "-c", PROGRAM, *args]
        return subprocess.run(command, input=text, capture_output=True, text=True, check=False)

    return run


def test_error_of_a_pass_names_the_pass(inject: Inject) -> None:
    done = inject("-p", "fail")
    assert done.returncode == 1
    assert done.stderr == "tool: error: f64 is not supported here\nnote: in pass fail on <stdin>\n"


def test_failed_pass_shows_the_op(inject: Inject) -> None:
    done = inject("-p", "cse,fail{how=failed}")
    assert done.returncode == 1
    assert done.stderr.startswith("tool: error: cannot tile\n")
    assert '"func.func"() <{' in done.stderr
    assert done.stderr.endswith('note: in pass fail{how="failed"} on <stdin>\n')


def test_invalid_output_of_a_pass_names_the_pass_and_the_op(inject: Inject) -> None:
    done = inject("-p", "fail{how=invalid}")
    assert done.returncode == 1
    assert done.stderr.splitlines() == [
        '<stdin>:1:1: error: func.func is invalid after pass fail{how="invalid"}: '
        "Operation func.func contains empty block in single-block region that expects at least a terminator",
        VALID,
        "^",
        'note: the operation is "func.func"() <{sym_name = "f", function_type = (i32) -> i32}> ({',
    ]


def test_verify_each_runs_the_verifiers(inject: Inject) -> None:
    assert inject("-p", "cse").returncode == 0
    done = inject("-p", "cse", "--verify-each")
    assert done.returncode == 1
    assert done.stderr == "tool: error: f64 is not supported here\nnote: found by fail in the input\n"


def test_check_semantics_compares_each_pass(inject: Inject) -> None:
    done = inject("-p", "cse,dce", "--check-semantics", "-o", "/dev/null", text=UNUSED)
    assert done.stdout == "check cse 4 3\ncheck dce 3 3\n"
    assert inject("-p", "cse,dce", text=UNUSED).stdout.startswith("builtin.module")


ERROR = "func.func @f(%x: i32) { func.return %x : i32 }"


@pytest.mark.parametrize(
    ("text", "code", "messages"),
    [
        (f"{ERROR} // expected-error {{{{Expected arguments}}}}", 0, []),
        (f"// expected-error@+1 {{{{Expected arguments}}}}\n{ERROR}", 0, []),
        (f"// expected-error@+2{{{{Expected arguments}}}}\n\n{ERROR}", 0, []),
        (f"{ERROR}\n\n// expected-error@-2 {{{{func.return}}}}", 0, []),
        (f"// expected-error-re@below {{{{Expected {{{{a|b}}}}rguments}}}}\n{ERROR}", 0, []),
        (f"{VALID} // expected-error {{{{Expected}}}}", 1, ['1: error: expected error "Expected" was not produced']),
        (f"{VALID} // expected-warning {{{{odd}}}}", 1, ['1: error: expected warning "odd" was not produced']),
        (f"{VALID} // expected-note {{{{odd}}}}", 1, ['1: error: expected note "odd" was not produced']),
        (
            f"{ERROR} // expected-error {{{{other}}}}",
            1,
            ["1: error: unexpected error: func.return: Expected", '1: error: expected error "other" was not produced'],
        ),
        (
            f"// expected-error {{{{Expected arguments}}}}\n{ERROR}",
            1,
            ["2: error: unexpected error", '1: error: expected error "Expected arguments" was not produced'],
        ),
        (f"{VALID}\n// expected-error@above", 1, ["2:1: error: an expectation is such as"]),
        (f"{VALID} // expected-error-re {{{{a{{{{(}}}}}}}}", 1, ["1:55: error: an expectation is such as"]),
    ],
)
def test_diagnostics_are_those_that_comments_expect(tool: Tool, text: str, code: int, messages: list[str]) -> None:
    done = tool("deplodock-opt", "--verify-diagnostics", input=text)
    assert done.returncode == code
    lines = done.stderr.splitlines()
    assert len(lines) == len(messages)
    for line, message in zip(lines, messages, strict=True):
        assert line.startswith(f"<stdin>:{message}")


def test_each_part_expects_its_own(tool: Tool) -> None:
    parts = [VALID, f"{ERROR} // expected-error {{{{Expected}}}}", f"{VALID} // expected-error {{{{Expected}}}}"]
    done = tool("deplodock-opt", "--verify-diagnostics", "--split-input-file", input="\n// -----\n".join(parts))
    assert (done.returncode, done.stdout.count("func.func @f(%x: i32) -> i32")) == (1, 2)
    assert done.stderr == '<stdin>:5: error: expected error "Expected" was not produced\n'


def test_flags_of_mlir_opt_name_passes(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        OptMain(["--canonicalize", "--cse", "--nothing"])
    assert "--nothing; a pass is given as -p canonicalize,cse" in capsys.readouterr().err


def test_integers_with_a_wider_type_are_read() -> None:
    text = "func.func @f() attributes {a = 36893488147419103232 : i128} { func.return }"
    assert "36893488147419103232 : i128" in str(LocatingParser(new_context(), text, "a.mlir").parse_module())
