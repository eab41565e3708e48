"""The architecture as a test: which folder may import which, no import cycles, no hidden or heavy imports."""

import ast
import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import pytest
from sources import tree_of

from deplodock.loading import loaded

ROOT = Path(__file__).parent.parent.parent

# A module may import modules of a lower rank, and of its own rank unless that makes a cycle of folders.
RANKS = {
    "errors": 0,
    "loading": 0,
    "version": 0,
    "dialects": 1,
    "analysis": 2,
    "schedule": 3,
    "passes": 4,
    "codegen": 4,
    "interpreters": 4,
    "frontend": 5,
    "runtime": 5,
    "tune": 6,
    "fuzz": 6,
    "pytorch": 6,
    "tools": 6,
    "universe": 6,
    "__init__": 6,
}
WITHOUT_NUMPY_AND_TORCH = {
    *("dialects", "analysis", "schedule", "passes", "codegen"),
    *("universe", "errors", "loading", "version", "__init__"),
}
HEAVY = {"ml_dtypes", "numpy", "pycuda", "rich", "safetensors", "torch", "huggingface_hub", "transformers"}
# Loaded when their name is first used: that is what comes with an extra, too.
LAZY = {*HEAVY, "xdsl.interactive.app"}
# Registries: their entries are imported on first use, by statements or by names that they make.
LAZY_MODULES = {"deplodock.universe"}
REGISTRIES = {("deplodock", "__getattr__"), ("deplodock.loading", "loaded")}
# These say how the tools start: nothing is imported before interrupts are heeded.
ENTRIES = {"deplodock.tools.cli"}


@dataclass(frozen=True)
class Import:
    """An import statement: the module that has it, the one it names, and the function it stands in."""

    importer: str
    imported: str
    function: str | None
    line: int
    is_typing: bool = False

    def __str__(self) -> str:
        return f"{self.importer}:{self.line} imports {self.imported}"


@cache
def sources() -> dict[str, Path]:
    """All modules of the package by name."""
    folders = [name for name in RANKS if (ROOT / name).is_dir()]
    paths = [path for folder in folders for path in sorted((ROOT / folder).rglob("*.py"))]
    paths += [path for path in sorted(ROOT.glob("*.py")) if path.name != "lit.cfg.py"]
    return {module_name(path): path for path in paths}


def module_name(path: Path) -> str:
    parts = ["deplodock", *path.relative_to(ROOT).with_suffix("").parts]
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def part(module: str) -> str:
    """The folder or root module that a module of ours belongs to."""
    return module.split(".")[1] if "." in module else "__init__"


def imports_of(
    module: str, tree: ast.AST, known: set[str], function: str | None = None, is_typing: bool = False
) -> Iterator[Import]:
    for node in ast.iter_child_nodes(tree):
        match node:
            case ast.If(test=ast.Name(id="TYPE_CHECKING")):
                yield from imports_of(module, node, known, function, True)
            case ast.Import(names=names):
                for alias in names:
                    yield Import(module, alias.name, function, node.lineno, is_typing)
            case ast.ImportFrom(module=source, names=names, level=0) if source is not None:
                for alias in names:
                    name = f"{source}.{alias.name}"
                    yield Import(module, name if name in known else source, function, node.lineno, is_typing)
            case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name):
                yield from imports_of(module, node, known, name, is_typing)
            case ast.Lambda():
                yield from imports_of(module, node, known, function or "<lambda>", is_typing)
            case _:
                yield from imports_of(module, node, known, function, is_typing)


@cache
def imports() -> list[Import]:
    """All imports of all modules."""
    known = set(sources())
    return [found for module, path in sources().items() for found in imports_of(module, tree_of(path), known)]


@cache
def ours() -> list[Import]:
    """Those of modules of the package."""
    return [found for found in imports() if found.imported.split(".")[0] == "deplodock"]


def complaints(found: list[Import]) -> str:
    return "\n".join(str(item) for item in found)


def assert_acyclic(edges: set[tuple[str, str]]) -> None:
    graph: dict[str, set[str]] = {}
    for importer, imported in edges:
        graph.setdefault(importer, set()).add(imported)
    try:
        TopologicalSorter(graph).prepare()
    except CycleError as error:
        pytest.fail(f"import cycle: {' <- '.join(error.args[1])}")


def test_every_module_has_a_rank() -> None:
    unknown = sorted({part(module) for module in sources()} - set(RANKS))
    assert not unknown, f"give these a rank in {Path(__file__).name}: {unknown}"


def test_imports_point_down() -> None:
    upward = [item for item in ours() if RANKS[part(item.importer)] < RANKS[part(item.imported)]]
    assert not upward, complaints(upward)


def test_no_import_cycle() -> None:
    assert_acyclic({(item.importer, item.imported) for item in ours() if item.importer != item.imported})


def test_no_cycle_of_folders() -> None:
    between = {(part(item.importer), part(item.imported)) for item in ours()}
    assert_acyclic({(importer, imported) for importer, imported in between if importer != imported})


def test_no_numpy_or_torch_in_the_compiler() -> None:
    heavy = [
        item
        for item in imports()
        if part(item.importer) in WITHOUT_NUMPY_AND_TORCH and item.imported.split(".")[0] in {"numpy", "torch"}
    ]
    assert not heavy, complaints(heavy)


@cache
def lazy_parts(module: str) -> frozenset[str]:
    """What of `LAZY` is imported with a module, by itself or by the modules that it imports."""
    names = [item.imported for item in imports() if item.importer == module and not (item.function or item.is_typing)]
    return frozenset(part for name in names for part in lazy(name) | lazy_parts(name))


def lazy(name: str) -> set[str]:
    """The part of `LAZY` that a module belongs to, if any."""
    return {name, name.split(".")[0]} & LAZY


def test_local_imports_are_of_what_is_heavy() -> None:
    """A function imports heavy packages, and modules of ours that bring one which its own module does without."""
    hidden = [
        item
        for item in imports()
        if item.function is not None
        and (item.importer, item.function) not in REGISTRIES
        and item.importer not in LAZY_MODULES | ENTRIES
        and not (lazy(item.imported) | lazy_parts(item.imported)) - lazy_parts(item.importer)
    ]
    assert not hidden, complaints(hidden)


def by_name(module: str, tree: ast.AST, function: str | None = None) -> Iterator[tuple[str, str | None, str | None]]:
    """The calls that import a module by its name: the module and the function of the call, the name if it is a text."""
    for node in ast.iter_child_nodes(tree):
        match node:
            case ast.Call(func=ast.Attribute(attr=called) | ast.Name(id=called), args=[name, *_]):
                if called in ("import_module", "__import__"):
                    yield module, function, name.value if isinstance(name, ast.Constant) else None
            case _:
                pass
        yield from by_name(module, node, node.name if isinstance(node, ast.FunctionDef) else function)


def test_own_modules_are_imported_by_name_in_registries_alone() -> None:
    """So that the tests of this file, type checkers and readers see who imports whom."""
    calls = [call for module, path in sources().items() for call in by_name(module, tree_of(path))]
    made = {(module, function) for module, function, name in calls if name is None or name.startswith("deplodock")}
    assert made == REGISTRIES | {("deplodock.tools.start", "import_torch")}


def places() -> set[str]:
    """The texts that name something of a module of ours to `loading.loaded`, or in a table whose entries are loaded."""
    texts = {
        node.value
        for path in sources().values()
        for node in ast.walk(tree_of(path))
        if isinstance(node, ast.Constant) and isinstance(node.value, str)
    }
    return {text for text in texts if re.fullmatch(r"deplodock(\.\w+)+:\w+", text)}


def test_what_is_loaded_by_a_place_is_there() -> None:
    assert len(places()) > 5
    for place in places():
        assert callable(loaded(place)), place


def test_imports_are_absolute() -> None:
    relative = [
        f"{module}:{node.lineno}"
        for module, path in sources().items()
        for node in ast.walk(tree_of(path))
        if isinstance(node, ast.ImportFrom) and node.level > 0
    ]
    assert not relative


def test_the_walker_sees_local_imports() -> None:
    tree = ast.parse("import a\ndef f():\n    from deplodock import errors\n    if True:\n        import b.c\n")
    found = list(imports_of("deplodock.m", tree, {"deplodock.errors"}))
    assert [(item.imported, item.function) for item in found] == [
        ("a", None),
        ("deplodock.errors", "f"),
        ("b.c", "f"),
    ]


def test_the_walker_sees_imports_by_name() -> None:
    tree = ast.parse("import_module('deplodock.a')\ndef f():\n    importlib.import_module(name)\n")
    assert list(by_name("m", tree)) == [("m", None, "deplodock.a"), ("m", "f", None)]


def test_what_a_module_brings() -> None:
    assert "torch" in lazy_parts("deplodock.frontend.capture")
    assert "numpy" in lazy_parts("deplodock.tools.cli.run")
    assert not lazy_parts("deplodock.tools.opt") & {"numpy", "torch"}


def test_a_cycle_is_reported() -> None:
    with pytest.raises(pytest.fail.Exception, match="import cycle"):
        assert_acyclic({("a", "b"), ("b", "c"), ("c", "a")})
