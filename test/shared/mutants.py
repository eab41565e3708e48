"""Small mistakes in the printer, drawn by a seed, and whether the printed text on the host shows them.

    python test/shared/mutants.py SEED COUNT

A mutant is the package `deplodock.codegen`, with the ranges of indices that it asks for, and one changed expression,
number, statement, or line of a text. Passed over are those that change the printed text of no program here, and those
that `EQUIVALENT` names.
"""

from __future__ import annotations

import ast
import hashlib
import importlib
import importlib.util
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Protocol

from host_samples import Sample, sample_of
from huge_samples import huge
from kinds import KINDS
from scalar_kernels import TYPES
from scalar_samples import scalar_sample
from xdsl.dialects.builtin import MemRefType, ModuleOp
from xdsl.parser import Parser

from deplodock import codegen
from deplodock.analysis import affine
from deplodock.analysis.host.arguments import entry_function
from deplodock.dialects import kernel
from deplodock.errors import CompileError
from deplodock.interpreters.check import draw_inputs
from deplodock.interpreters.evaluate import input_types
from deplodock.passes.driver import new_context
from deplodock.runtime.host.harness import BuiltProgram, HostFault, build

FOLDER = Path(codegen.__file__).parent
PACKAGE = "deplodock.codegen"
RANGES = Path(affine.__file__).parent / "ranges.py"
"""The interval arithmetic by which the printer declares an index `int` or `long long`."""
FILES = {path.name: path for path in (*sorted(FOLDER.glob("*.py")), RANGES)}
"""The files that a mutant may change, by name."""
LIT = Path(__file__).parent.parent / "codegen"

Printer = Callable[[ModuleOp], str]

OPERATORS: dict[type, type] = {
    **{ast.Add: ast.Sub, ast.Sub: ast.Add, ast.Mult: ast.Add, ast.FloorDiv: ast.Mult, ast.Mod: ast.FloorDiv},
    **{ast.Lt: ast.LtE, ast.LtE: ast.Lt, ast.Gt: ast.GtE, ast.GtE: ast.Gt, ast.Eq: ast.NotEq, ast.NotEq: ast.Eq},
    **{ast.In: ast.NotIn, ast.NotIn: ast.In, ast.Is: ast.IsNot, ast.IsNot: ast.Is, ast.And: ast.Or, ast.Or: ast.And},
}
"""An operator, and what it becomes."""

TEXT = {
    **{" < ": " <= ", " > ": " >= ", " >= ": " > ", " <= ": " < ", " == ": " != ", " != ": " == "},
    **{" && ": " || ", " || ": " && ", " + ": " - ", " - ": " + ", " * ": " + ", " / ": " % ", " % ": " / "},
    " ^ ": " | ",
}
"""The same in pieces of CUDA."""


class Program(Protocol):
    """A program that the host can run."""

    @property
    def name(self) -> str: ...

    @property
    def module(self) -> ModuleOp: ...

    @property
    def text(self) -> str: ...

    def complaint(self, program: BuiltProgram) -> str | None: ...


@dataclass(frozen=True)
class Mutant:
    """One of `FILES` with one mistake: where, what was there and what is now, and which of the file's changes."""

    file: str
    line: int
    before: str
    after: str
    number: int

    def __str__(self) -> str:
        return f"{FILES[self.file].parent.name}/{self.file}:{self.line}: {self.before!r} becomes {self.after!r}"

    def printer(self) -> Printer:
        """`print_module` of a copy of the package with the mistake."""
        tree = ast.parse(FILES[self.file].read_text(encoding="utf-8"))
        *_, apply = list(_changes(tree))[self.number]
        apply()
        return printer_of(self.file, ast.unparse(tree))


def printer_of(file: str, source: str) -> Printer:
    """`print_module` of a copy of the package in which one file has another text."""
    package = affine if FILES[file] == RANGES else codegen
    name = f"{package.__name__}.{file.removesuffix('.py')}"
    kept = {other: module for other, module in sys.modules.items() if _is_copied(other, name)}
    for other in kept:
        del sys.modules[other]
        delattr(sys.modules[other.rpartition(".")[0]], other.rpartition(".")[2])
    try:
        spec = importlib.util.spec_from_loader(name, None)
        assert spec is not None
        module = sys.modules[name] = importlib.util.module_from_spec(spec)
        setattr(package, file.removesuffix(".py"), module)
        exec(compile(source, file, "exec"), module.__dict__)
        cuda = importlib.import_module(f"{PACKAGE}.cuda")
        parts = {part: importlib.import_module(f"{PACKAGE}.{part}") for part in cuda.FILES}
        vars(cuda)["_part"] = parts.__getitem__
        return cuda.print_module
    finally:
        for other in [other for other in sys.modules if _is_copied(other, name)]:
            del sys.modules[other]
        sys.modules.update(kept)
        for other, module in kept.items():
            setattr(sys.modules[other.rpartition(".")[0]], other.rpartition(".")[2], module)


def _is_copied(module: str, changed: str) -> bool:
    """Whether a mutant has its own copy of a module: the printer and what changes, not what else uses that."""
    return module.startswith(f"{PACKAGE}.") or module == changed


def mutants() -> list[Mutant]:
    """All mutants of all files, in the order of the text."""
    return [
        Mutant(path.name, line, before, after, number)
        for path in FILES.values()
        for number, (line, before, after, _) in enumerate(_changes(ast.parse(path.read_text(encoding="utf-8"))))
    ]


Change = tuple[int, str, str, Callable[[], None]]


def _changes(tree: ast.Module) -> Iterator[Change]:
    """The changes of a tree: the line, what was there, what comes, and a function that makes the change."""
    parents = {child: node for node in ast.walk(tree) for child in ast.iter_child_nodes(node)}
    for node in _walk(tree):
        match node:
            case ast.BinOp(op=op) | ast.BoolOp(op=op) if type(op) in OPERATORS:
                yield _replaced(node, "op", OPERATORS[type(op)](), node)
            case ast.Compare(ops=[op]) if type(op) in OPERATORS:
                yield _replaced(node, "ops", [OPERATORS[type(op)]()], node)
            case ast.If(test=test) | ast.IfExp(test=test):
                yield _replaced(node, "test", ast.UnaryOp(ast.Not(), test), node.test)
            case ast.Constant(value=bool() | int() as value):
                other = not value if isinstance(value, bool) else value + 1
                yield _replaced(node, "value", other, parents[node])
            case ast.Constant(value=str() as value):
                for before, after, changed in _texts(value):
                    yield node.lineno, before, after, _setter(node, "value", changed)
            case ast.Expr(value=ast.Call()):
                yield node.lineno, ast.unparse(node), "", _setter(node, "value", ast.Constant(None))
            case _:
                pass


def _walk(node: ast.AST) -> Iterator[ast.AST]:
    """The nodes that print something: no documentation, annotations, imports, or messages of errors."""
    yield node
    for name, value in ast.iter_fields(node):
        if name in ("annotation", "returns", "decorator_list"):
            continue
        for child in value if isinstance(value, list) else [value]:
            is_text = isinstance(child, ast.Expr) and isinstance(child.value, ast.Constant)
            if isinstance(child, ast.AST) and not is_text and not isinstance(child, ast.Raise | ast.ImportFrom):
                yield from _walk(child)


def _replaced(node: ast.expr | ast.stmt, field: str, value: object, shown: ast.AST) -> Change:
    """The change of a field of a node, as it shows in the text of a node around."""
    before, kept = ast.unparse(shown), getattr(node, field)
    setattr(node, field, value)
    after = ast.unparse(value if field == "test" and isinstance(value, ast.AST) else shown)
    setattr(node, field, kept)
    return node.lineno, before, after, _setter(node, field, value)


def _setter(node: ast.AST, field: str, value: object) -> Callable[[], None]:
    return lambda: setattr(node, field, value)


def _texts(value: str) -> Iterator[tuple[str, str, str]]:
    """The changes of a piece of CUDA: an operator or a line of it, and the whole piece after that."""
    for before, after in TEXT.items():
        at = value.find(before)
        while at >= 0:
            changed = value[:at] + after + value[at + len(before) :]
            yield _line_at(value, at), _line_at(changed, at), changed
            at = value.find(before, at + 1)
    lines = value.split("\n")
    for number, line in enumerate(lines):
        if len(lines) > 2 and line.rstrip().endswith(";"):
            yield line, "", "\n".join([*lines[:number], *lines[number + 1 :]])


def _line_at(text: str, position: int) -> str:
    return text[text.rfind("\n", 0, position) + 1 :].split("\n")[0]


@cache
def programs() -> list[Program]:
    """The programs whose text a mutant may change: few kinds, all scalars, small and huge subscripts."""
    kinds = [sample_of(kind) for kind in KINDS if kind.name in RUN]
    return [*kinds, *(scalar_sample(type) for type in TYPES), *(huge(name) for name in ADDRESSED), *_printer_tests()]


RUN = {
    *("pointwise", "row_norm_odd", "softmax", "gather", "pad", "f16", "bf16", "f64", "i64", "bool", "silu_mul"),
    *("contraction", "contraction_large", "contraction_ring", "contraction_mbarrier_ring", "contraction_split_block"),
    *("contraction_split_ticket", "contraction_split_cluster", "contraction_boxes", "contraction_boxes_swizzled"),
    *("masked_mbarrier_ring", "tensor_cores_warpgroups"),
}
ADDRESSED = ("flat", "two_rows", "transposed", "flipped", "sliced", "matmul_of_a_large_result", "rolled", "padded")


def _printer_tests() -> list[Program]:
    """Kernels of the printer's own tests that run alone, and keep to their buffers; among them `SUBSCRIPTS`."""
    found: list[Program] = []
    files = [path.read_text(encoding="utf-8") for path in sorted(LIT.glob("*.mlir"))]
    for chunk in [SUBSCRIPTS, *(chunk for text in files for chunk in text.split("// -----\n"))]:
        for function in kernel.functions(Parser(new_context(), chunk).parse_module()):
            name, module = function.sym_name.data, ModuleOp([function.clone()])
            if name in UNFIT or not all(isinstance(value.type, MemRefType) for value in function.parameters):
                continue
            inputs = draw_inputs(input_types(entry_function(module)), 0, "normal", lowest=0)
            found.append(Sample(name, module, inputs))
    return found


UNFIT = {"k_large", "k_linear", "k_maximum", "k_widths", "k_integers", "last_of_four"}
"""Kernels of the printer's tests that leave their buffers, do not fill them, divide by zero, or store one by one."""

SUBSCRIPTS = """
kernel.func @k_before(%x: memref<64xf32>, %y: memref<64xf32>) blocks(%block = 2) threads(%thread = 32) {
  %quotient = loop.load %x[((0 - %thread floordiv 16) floordiv 2) * 8 + %thread mod 8 + 8] : memref<64xf32>
  %rest = loop.load %x[(16 - %thread) mod 7] : memref<64xf32>
  %flat = loop.load %x[(%block * 32 + %thread) floordiv 5 * 3 + (%block * 32 + %thread) mod 5] : memref<64xf32>
  %partial = arith.addf %quotient, %rest : f32
  %sum = arith.addf %partial, %flat : f32
  loop.store %sum, %y[%block * 32 + %thread] : memref<64xf32>
}
"""
"""A quotient of -1, remainders of numbers on both sides of 0, quotients and remainders of a sum."""

EQUIVALENT = {
    **{
        ("scalars.py", f"  return {text};"): "a sign counts where the remainder is not 0, and so no operand is"
        for text in (
            "r != 0 && (r <= 0) != (b < 0) ? r + b : r",
            "r != 0 && (r < 0) != (b <= 0) ? r + b : r",
            "a / b - (a % b != 0 && (a <= 0) != (b < 0))",
            "a / b - (a % b != 0 && (a < 0) != (b <= 0))",
            "a / b + (a % b != 0 && (a <= 0) == (b < 0))",
            "a / b + (a % b != 0 && (a < 0) == (b <= 0))",
        )
    },
    ("scalars.py", "({U}){0} >= ({U}){1} ? {0} : {1}"): "either of two equal numbers is the larger",
    ("scalars.py", "value != -(1 << bits - 1)"): "another literal of the same number",
    ("ranges.py", "bounds[0] * atom.divisor"): "a quotient counts as farther from 0 than it can be",
    ("ranges.py", "bounds[1] * atom.divisor"): "a quotient counts as farther from 0 than it can be",
    ("cuda.py", "not op.unroll"): "says whether a loop is unrolled",
    ("cuda.py", "not turn.terms"): "a position in one part or in two",
    ("cuda.py", "max(2, buffer_elements(type))"): "a buffer of one element has two",
    ("indices.py", "low > -INT_MAX - 1"): "an index that can be -2^31 is a long long",
    ("ranges.py", "atom.divisor + 1"): "a remainder counts as larger than it can be",
    ("indices.py", "2 ** 31 - 2"): "an index that can be 2^31 - 1 is a long long",
    ("indices.py", "not factor.isidentifier()"): "-(a / 4) or -a / 4, which are the same in C",
    (
        "indices.py",
        "not (not turn.terms or not rest.terms or min(form_bounds(turn)[0], form_bounds(rest)[0]) < 0)",
    ): "a position in one part or in two",
    (
        "indices.py",
        "min(form_bounds(turn)[0], form_bounds(rest)[0]) < 1",
    ): "a position in one part",
}
"""Mutants that are right, by file and what they change to, with what they do to the text."""


def drawn(seed: int, count: int) -> Iterator[tuple[Mutant, Printer, list[Program]]]:
    """Mutants that change the text of some program, with their printers and those programs, the shortest first.

    Each mutant has its own random number, so that those drawn stay where other code changes.
    """

    def number(mutant: Mutant) -> str:
        return hashlib.sha256(f"{seed} {mutant.file} {mutant.before} {mutant.after}".encode()).hexdigest()

    for mutant in sorted(mutants(), key=number):
        if (mutant.file, mutant.after) in EQUIVALENT:
            continue
        try:
            printer = mutant.printer()
            changed = [program for program in programs() if printer(program.module) != program.text]
        except Exception:
            continue  # what raises is no mistake in a text
        if changed and count > 0:
            count -= 1
            yield mutant, printer, sorted(changed, key=lambda program: len(program.text))
        if count == 0:
            return


def verdict(printer: Printer, changed: Sequence[Program]) -> str | None:
    """What shows that a printer is wrong: what the compiler or the host says of a program; None if all are right."""
    for batch in (changed[:1], changed[1:5], changed[5:]):
        try:
            for program, built in zip(batch, build([program.module for program in batch], printer), strict=True):
                if (complaint := program.complaint(built)) is not None:
                    return f"{program.name}: {complaint}"
        except (CompileError, HostFault) as error:
            return str(error).splitlines()[0]
    return None


def main() -> None:
    """Draw mutants and print what finds each."""
    seed, count = map(int, sys.argv[1:])
    caught = 0
    for number, (mutant, printer, changed) in enumerate(drawn(seed, count), 1):
        found = verdict(printer, changed)
        caught += found is not None
        print(f"{number}. {mutant}\n   {found or 'SURVIVES'}", flush=True)
    print(f"{caught} of {count} caught")


if __name__ == "__main__":
    main()
