"""The audit of messages: each one of the compiler is in some test."""

import ast
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent.parent
SOURCES = [
    *sorted(ROOT.glob("dialects/**/*.py")),
    *sorted(ROOT.glob("passes/**/*.py")),
    *sorted(ROOT.glob("analysis/**/*.py")),
    *sorted(ROOT.glob("schedule/**/*.py")),
    *sorted(ROOT.glob("codegen/*.py")),
]
FEWEST_WORDS = 3
"""What has fewer words is no message, or not told from others."""


def plain(text: str) -> str:
    """Text on one line, without the escapes of regular expressions and the breaks between the parts of a string."""
    return re.sub(r'" f?r?"', "", re.sub(r"\s+", " ", text.replace("\\", "")))


TESTS = plain(
    "\n".join(path.read_text() for path in sorted(ROOT.glob("test/**/*.*")) if path.suffix in (".py", ".mlir"))
)


def messages(path: Path) -> list[tuple[int, str]]:
    """The lines and texts of all strings in functions, and of the parts of strings around values.

    In what prints text only those of errors.
    """
    kind = ast.Raise if path.is_relative_to(ROOT / "codegen") else ast.FunctionDef
    functions = [node for node in ast.walk(ast.parse(path.read_text())) if isinstance(node, kind)]
    nodes = {node for function in functions for node in ast.walk(function)}
    silent = {inner for node in nodes if is_silent(node) for inner in ast.walk(node)}
    strings = [node for node in nodes - silent if isinstance(node, ast.Constant) and isinstance(node.value, str)]
    return sorted((node.lineno, node.value.strip()) for node in strings if len(node.value.split()) >= FEWEST_WORDS)


def is_silent(node: ast.AST) -> bool:
    """Whether no user sees the text of a statement: a docstring, an assertion, or the error of what cannot be."""
    match node:
        case ast.Expr(value=ast.Constant()) | ast.Assert():
            return True
        case ast.Raise(exc=ast.Call(func=ast.Name(id="AssertionError"))):
            return True
        case _:
            return False


def test_messages_are_found() -> None:
    assert any(
        text.startswith("an async move is from global to shared memory")
        for _, text in messages(ROOT / "dialects" / "kernel" / "move.py")
    )


@pytest.mark.parametrize("path", SOURCES, ids=lambda path: path.stem)
def test_each_message_has_a_negative_test(path: Path) -> None:
    missing = [f"{path}:{line}: {text}" for line, text in messages(path) if plain(text) not in TESTS]
    assert not missing, "\n".join(["no test has these messages:", *missing])
