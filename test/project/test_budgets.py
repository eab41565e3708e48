"""What keeps the code easy to find one's way in, as budgets."""

from __future__ import annotations

import ast
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parents[2]
DIALECTS = "dialects"
OTHERS = (
    *("analysis", "schedule", "passes", "codegen", "interpreters"),
    *("frontend", "runtime", "pytorch", "fuzz", "tools"),
)


def classes(folder: str) -> Iterator[tuple[str, str]]:
    """The name and the file of each class of a folder."""
    for path in sorted((ROOT / folder).rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.ClassDef):
                yield node.name, str(path.relative_to(ROOT))


def namesakes(*folders: str) -> dict[str, list[str]]:
    """The class names that occur more than once in some folders, with their files."""
    found: dict[str, list[str]] = defaultdict(list)
    for folder in folders:
        for name, file in classes(folder):
            found[name].append(file)
    return {name: files for name, files in found.items() if len(files) > 1}


def test_class_names_are_unique_outside_dialects() -> None:
    """One word has one meaning."""
    assert not namesakes(*OTHERS)


def test_no_class_outside_of_dialects_is_called_as_one_in_them() -> None:
    names = dict(classes(DIALECTS))
    assert not {name: file for folder in OTHERS for name, file in classes(folder) if name in names}


def test_namesakes_are_found() -> None:
    assert namesakes("analysis", "analysis")["Linear"] == ["analysis/affine/linear.py"] * 2


def modules() -> Iterator[Path]:
    """The files of the package."""
    for folder in (DIALECTS, *OTHERS):
        yield from sorted((ROOT / folder).rglob("*.py"))


def test_no_file_is_longer_than_500_lines() -> None:
    lengths = {str(path.relative_to(ROOT)): len(path.read_text(encoding="utf-8").splitlines()) for path in modules()}
    assert not {path: length for path, length in lengths.items() if length > 500}


def test_no_function_is_longer_than_60_lines() -> None:
    functions = [
        (f"{path.relative_to(ROOT)}:{node.lineno}: {node.name}", (node.end_lineno or 0) - node.lineno + 1)
        for path in modules()
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
    ]
    assert len(functions) > 1000
    assert not [function for function in functions if function[1] > 60]


def test_tests_stand_where_their_source_stands() -> None:
    """But for those of the whole in test/project and those that need a GPU."""
    folders = {path.parent.relative_to(ROOT / "test") for path in (ROOT / "test").rglob("test_*.py")}
    folders |= {path.parent.relative_to(ROOT / "test") for path in (ROOT / "test").rglob("*.mlir")}
    own = {Path("project"), Path("gpu")}
    assert not {str(folder) for folder in folders - own if not (ROOT / folder).is_dir()}
