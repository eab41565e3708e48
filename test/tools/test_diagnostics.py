"""How expected errors read."""

import pytest
from xdsl.dialects.builtin import ModuleOp
from xdsl.utils.arg_spec import parse_spec
from xdsl.utils.exceptions import ArgSpecParseError, MultipleSpansParseError, ParseError, PassFailedException
from xdsl.utils.lexer import Input, Span

from deplodock.errors import CompileError, Error, InvalidInputError, UnsupportedError
from deplodock.tools.diagnostics import describe, excerpt, located, run_tool

TEXT = Input("first\nsecond line\n", "a.mlir")


@pytest.mark.parametrize(
    ("error", "expected"),
    [
        (UnsupportedError("no f16"), "tool: error: no f16"),
        (
            InvalidInputError(located("<expression>:1:5", "unknown name 'x'")),
            "<expression>:1:5: error: unknown name 'x'",
        ),
        (ParseError(Span(6, 12, TEXT), "bad"), "a.mlir:2:1: error: bad\nsecond line\n^^^^^^"),
        (
            MultipleSpansParseError(Span(13, 17, TEXT), "again", "defined here", [(Span(0, 5, TEXT), None)]),
            "a.mlir:2:8: error: again\nsecond line\n       ^^^^\na.mlir:1:1: note: defined here\nfirst\n^^^^^",
        ),
        (FileNotFoundError(2, "No such file or directory", "a.mlir"), "tool: error: a.mlir: No such file or directory"),
        (PassFailedException(), "tool: error: PassFailedException"),
    ],
)
def test_message(error: Exception, expected: str) -> None:
    assert describe(error, "tool") == expected


def test_pipeline_syntax() -> None:
    with pytest.raises(ArgSpecParseError) as caught:
        parse_spec("cse{a=}")
    assert describe(caught.value, "tool").splitlines()[0].startswith("pass-pipeline:1:7: error: Unknown argument value")
    assert describe(caught.value, "tool").splitlines()[1:] == ["cse{a=}", "      ^"]


def test_long_note_is_cut_to_the_marked_op() -> None:
    lines = [f'"op{number}"()' for number in range(50)]
    lines[20:20] = ["^^^^^", "| wrong", "-------"]
    assert excerpt("\n".join(lines)) == '"op19"()\n^^^^^\n| wrong\n-------'


def test_long_note_without_a_mark_is_cut_at_its_end() -> None:
    assert excerpt("\n".join(str(number) for number in range(50))).splitlines() == [*map(str, range(12)), "..."]


@pytest.mark.parametrize("cls", [CompileError, InvalidInputError, UnsupportedError])
def test_errors_have_one_base(cls: type[Exception]) -> None:
    assert issubclass(cls, Error)


@pytest.mark.parametrize(("result", "code"), [(None, 0), (0, 0), (3, 3)])
def test_exit_code(result: int | None, code: int) -> None:
    with pytest.raises(SystemExit) as caught:
        run_tool("tool", lambda: result)
    assert caught.value.code == code


def test_expected_error_exits_with_1(capsys: pytest.CaptureFixture[str]) -> None:
    def body() -> None:
        raise CompileError("no nvcc")

    with pytest.raises(SystemExit) as caught:
        run_tool("tool", body)
    assert caught.value.code == 1
    assert capsys.readouterr().err == "tool: error: no nvcc\n"


def test_bug_keeps_its_traceback() -> None:
    with pytest.raises(ZeroDivisionError):
        run_tool("tool", lambda: 1 // 0)


def test_failed_pass_shows_the_marked_op() -> None:
    with pytest.raises(PassFailedException) as caught:
        ModuleOp([]).emit_error("cannot", PassFailedException("cannot"))
    assert '"builtin.module"()' in describe(caught.value, "tool")


def test_long_source_line_is_cut_to_what_is_around_the_caret() -> None:
    text = "9" * 5000 + " here " + "9" * 5000
    error = ParseError(Span(5001, 5005, Input(text, "in.mlir")), "no number")
    location, source, caret = describe(error, "tool").splitlines()
    assert location == "in.mlir:1:5002: error: no number"
    assert len(source) == 160
    assert source[caret.index("^") :][:4] == "here"
