"""What keeps the code easy to find one's way in, as budgets."""

from __future__ import annotations

import ast
from collections import defaultdict
from collections.abc import Iterator
from functools import cache
from pathlib import Path

from sources import tree_of

from deplodock.dialects.kernel import Kernel

ROOT = Path(__file__).parents[2]
DIALECTS = "dialects"
OTHERS = (
    *("analysis", "schedule", "passes", "codegen", "interpreters"),
    *("frontend", "runtime", "pytorch", "fuzz", "tune", "tools"),
)


@cache
def classes(folder: str) -> list[tuple[str, str]]:
    """The name and the file of each class of a folder."""
    return [
        (node.name, str(path.relative_to(ROOT)))
        for path in sorted((ROOT / folder).rglob("*.py"))
        for node in ast.walk(tree_of(path))
        if isinstance(node, ast.ClassDef)
    ]


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
        for node in ast.walk(tree_of(path))
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


MOST_FILES = 5
"""The files that may name the class of an operation of the kernel dialect."""
KERNEL = f"{DIALECTS}/kernel"


@cache
def kernel_operations() -> set[str]:
    """The operations of the kernel dialect but kernel.func, which is the kernel: what takes a kernel names it."""
    return {op.__name__ for op in Kernel.operations} - {"FuncOp"}


def last_name(node: ast.expr) -> str:
    """What a name ends in: `c` of `a.b.c`; nothing of other expressions."""
    return node.attr if isinstance(node, ast.Attribute) else node.id if isinstance(node, ast.Name) else ""


def named(path: Path) -> set[str]:
    """What a file names of the kernel dialect: by import, or as an attribute of one of its modules."""
    tree = tree_of(path)
    modules, found = set[str](), set[str]()
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("deplodock.dialects"):
            modules |= {alias.asname or alias.name for alias in node.names}
            if (node.module or "").startswith("deplodock.dialects.kernel"):
                found |= {alias.name for alias in node.names}
    attributes = [node for node in ast.walk(tree) if isinstance(node, ast.Attribute)]
    found |= {one.attr for one in attributes if last_name(one.value) in modules & KERNEL_MODULES}
    return found


KERNEL_MODULES = {"kernel", *(path.stem for path in (ROOT / KERNEL).glob("*.py"))}


@cache
def files_that_name() -> dict[str, set[str]]:
    """The files that name each operation; `dialects/kernel/` counts once, for a file and the dialect's list."""
    found: dict[str, set[str]] = {name: {KERNEL} for name in kernel_operations()}
    for path in modules():
        file = str(path.relative_to(ROOT))
        if not file.startswith(KERNEL):
            for name in named(path) & found.keys():
                found[name].add(file)
    return found


def test_an_operation_of_a_kernel_is_named_in_few_files() -> None:
    """Its dialect, what makes it, its text, and what it does to lanes; all others ask it for its facts."""
    found = files_that_name()
    assert not {name: sorted(files) for name, files in found.items() if len(files) > MOST_FILES}


def test_files_that_name_an_operation_are_found() -> None:
    """By import, and as `kernel.MoveOp`."""
    assert {"codegen/copies.py", "interpreters/simulate/moves.py"} < files_that_name()["MoveOp"]
    assert "passes/kernel/place_barriers.py" in files_that_name()["BarrierOp"]


def test_no_table_of_operations_of_a_kernel_stands_outside_of_dialects() -> None:
    """A fact about several operations is a fact of each."""
    tables = [
        f"{path.relative_to(ROOT)}:{node.lineno}"
        for path in modules()
        if not path.is_relative_to(ROOT / DIALECTS)
        for node in ast.walk(tree_of(path))
        if isinstance(node, ast.Tuple | ast.Set | ast.List)
        and len(set(map(last_name, node.elts)) & kernel_operations()) > 1
    ]
    assert not tables
