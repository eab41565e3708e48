"""How large the compiler is, and how much of it the smallest programs run through.

    python test/shared/sizes.py rooms            prints the lines of code of each folder
    python test/shared/sizes.py walk TEXT        prints what lowering a program to CUDA for sm_80 runs and imports

A line of code is none that is blank, a comment, or of a docstring or an import.
"""

from __future__ import annotations

import ast
import importlib
import json
import sys
from collections import Counter, defaultdict
from dataclasses import asdict, dataclass
from functools import cache
from pathlib import Path
from types import CodeType, FrameType

from sources import tree_of

ROOT = Path(__file__).parents[2]

CORE = ("dialects", "analysis", "schedule", "passes", "codegen")
"""The folders that are the compiler; what else there is brings programs to it, runs them, or checks it."""

ENGINES = ("threads", "mma", "wgmma")
"""What computes contracts."""

FUNCTION = (ast.FunctionDef, ast.AsyncFunctionDef)


@dataclass(frozen=True)
class Walk:
    """The functions of the core that a lowering calls, their lines of code, their files, and the modules imported."""

    functions: int
    lines: int
    files: int
    modules: int


def files() -> list[Path]:
    """The files of the core."""
    return [path for folder in CORE for path in sorted((ROOT / folder).rglob("*.py"))]


@cache
def code_of(path: Path) -> frozenset[int]:
    """The numbers of a file's lines of code, from 1 on."""
    left_out = set[int]()
    for node in ast.walk(tree_of(path)):
        if isinstance(node, ast.Import | ast.ImportFrom):
            left_out.update(range(node.lineno, (node.end_lineno or 0) + 1))
        elif (
            isinstance(node, (ast.Module, ast.ClassDef, *FUNCTION)) and ast.get_docstring(node, clean=False) is not None
        ):
            left_out.update(range(node.body[0].lineno, (node.body[0].end_lineno or 0) + 1))
    lines = path.read_text(encoding="utf-8").splitlines()
    bare = {number for number, line in enumerate(lines, 1) if not line.strip() or line.lstrip().startswith("#")}
    return frozenset(range(1, len(lines) + 1)) - left_out - bare


def rooms() -> dict[str, int]:
    """The lines of code of each folder of the core, without those of the folders in it."""
    found: Counter[str] = Counter()
    for path in files():
        found[str(path.parent.relative_to(ROOT))] += len(code_of(path))
    return dict(found)


def engine_comparisons() -> list[str]:
    """Where the core compares something with the name of an engine, outside of the table of engines."""
    return [
        f"{path.relative_to(ROOT)}:{node.lineno}: {ast.unparse(node)}"
        for path in files()
        if path != ROOT / "dialects/engines.py"
        for node in ast.walk(tree_of(path))
        if isinstance(node, ast.Compare) and any(_is_engine(path, side) for side in (node.left, *node.comparators))
    ]


def _is_engine(path: Path, node: ast.expr) -> bool:
    """Whether an expression of a file is the name of an engine, or several that have one among them."""
    match node:
        case ast.Tuple(elts=inner) | ast.List(elts=inner) | ast.Set(elts=inner):
            return any(_is_engine(path, one) for one in inner)
        case ast.Constant(value=value):
            return value in ENGINES
        case ast.Name(id=name):
            parts = path.relative_to(ROOT).with_suffix("").parts
            module = importlib.import_module(".".join(("deplodock", *parts)).removesuffix(".__init__"))
            return getattr(module, name, None) in ENGINES
        case _:
            return False


def double_definitions() -> dict[str, list[str]]:
    """The names that several files of the core give the same value, each with a definition of its own."""
    found: dict[str, list[str]] = defaultdict(list)
    for path in files():
        for node in tree_of(path).body:
            target = node.targets[0] if isinstance(node, ast.Assign) else getattr(node, "target", None)
            value = getattr(node, "value", None)
            if isinstance(target, ast.Name) and isinstance(value, ast.expr):
                found[f"{target.id} = {ast.unparse(value)}"].append(str(path.relative_to(ROOT)))
    return {definition: paths for definition, paths in found.items() if len(paths) > 1}


def walk(text: str) -> Walk:
    """What lowering a program to CUDA for sm_80 runs and imports, in a process that has lowered nothing before."""
    from deplodock.codegen.cuda import print_module
    from deplodock.frontend.expression import read_expression
    from deplodock.passes.driver import Level, lower, new_context

    called = set[CodeType]()

    def note(frame: FrameType, event: str, _: object) -> None:
        if event == "call" and frame.f_code.co_name != "<module>":
            called.add(frame.f_code)

    module = read_expression(text).module
    sys.setprofile(note)
    lower(module, new_context(), Level.KERNEL, target="sm_80")
    print_module(module)
    sys.setprofile(None)
    own = {path.resolve(): path for path in files()}
    codes = [(Path(code.co_filename).resolve(), code.co_firstlineno) for code in called]
    functions = [(own[path], line) for path, line in codes if path in own]
    sizes = [_sizes(path)[line] for path, line in functions if line in _sizes(path)]
    names = {f"deplodock.{folder}" for folder in CORE}
    imported = [name for name in sys.modules if ".".join(name.split(".")[:2]) in names]
    return Walk(len(sizes), sum(sizes), len({path for path, _ in functions}), len(imported))


@cache
def _sizes(path: Path) -> dict[int, int]:
    """The lines of code of each function by its first line, that of its first decorator."""
    functions = [node for node in ast.walk(tree_of(path)) if isinstance(node, FUNCTION)]
    return {
        min(one.lineno for one in (node, *node.decorator_list)): len(
            code_of(path) & set(range(node.lineno, (node.end_lineno or 0) + 1))
        )
        for node in functions
    }


if __name__ == "__main__":
    match sys.argv[1:]:
        case ["rooms"]:
            sizes = rooms()
            for room, size in sizes.items():
                print(f"{size:7,} {room}")
            print(f"{sum(sizes.values()):7,} in {len(files())} files")
        case ["walk", text]:
            print(json.dumps(asdict(walk(text))))
        case _:
            sys.exit(__doc__)
