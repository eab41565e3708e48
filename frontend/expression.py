"""Reads a Python text whose last statement is an expression: the program to compile.

The statements before it run first, as they are. In the expression, a call that makes a tensor without reading one
(`torch.randn(8)`) and a name bound to tensors are inputs of the program; a call that makes a module brings its
parameters; every other call that reads no tensor is evaluated once. What remains is traced.
"""

from __future__ import annotations

import ast
import copy
import itertools
import math
import re
import sys
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import CodeType, FunctionType
from typing import Any

import torch
from torch import nn
from torch.utils import _pytree as pytree

from deplodock.errors import InvalidInputError, UnsupportedError
from deplodock.frontend.capture import as_module, describe, export, located
from deplodock.frontend.importer import tensor_type
from deplodock.frontend.program import CapturedProgram, leaf_names
from deplodock.frontend.source import Position, Source
from deplodock.frontend.tracing import quiet


def read_file(path: Path, *, seed: int = 0) -> CapturedProgram:
    """Capture the program in a Python file, which may import what is beside it; see `read_expression`.

    Raises:
        OSError: the file cannot be read.
        InvalidInputError: as `read_expression`, or the file is not UTF-8.
        UnsupportedError: as `read_expression`.
    """
    try:
        text = path.read_text(encoding="utf-8-sig")
    except UnicodeDecodeError:
        raise InvalidInputError(f"{path}: error: the file is not UTF-8 text; is it a Python file?") from None
    folder = str(path.parent.resolve())
    sys.path.insert(0, folder)
    try:
        return read_expression(text, seed=seed, filename=str(path))
    finally:
        sys.path.remove(folder)


def read_expression(text: str, *, seed: int = 0, filename: str = "<expression>") -> CapturedProgram:
    """Run the statements of `text` but the last under `torch.manual_seed(seed)`, and capture the last, an expression.

    `torch`, `nn` (torch.nn), `F` (torch.nn.functional) and `math` are bound. Inputs without a name of their own are
    called x, y, z, x3, ...; parameters `p_weight`, or `p_NAME_weight` if the module has a name or is not the only one.

    Raises:
        InvalidInputError: the text is not Python, raises, or its last statement is no expression of tensors.
        UnsupportedError: the program uses something that deplodock does not support.
    """
    text = text.replace("\r\n", "\n").replace("\r", "\n")
    source = Source(text, filename)
    try:
        tree = ast.parse(text, filename)
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
        raise _syntax_error(error, source) from None
    last = tree.body.pop() if tree.body else None
    if not isinstance(last, ast.Expr):
        position = None if last is None else source.position_of(last)
        raise source.error(
            InvalidInputError, "the last statement must be an expression: the program to compile", position
        )
    namespace: dict[str, Any] = {
        "torch": torch, "nn": nn, "F": nn.functional, "math": math, "__name__": "__main__", "__file__": filename
    }  # fmt: skip
    with quiet(), torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        _execute(_compiled(tree, source), namespace, source)
        source.mark(last.value)
        program = _Splitter(namespace, source)
        function = program.function(last.value)
        return _capture(program, function, source)


def _capture(program: _Splitter, function: FunctionType, source: Source) -> CapturedProgram:
    module = as_module(function)
    registered = _module_names(program)
    for name, child in registered.items():
        if not hasattr(module, name):
            module.add_module(name, child)
    unnamed = [name for name, child in registered.items() if program.namespace.get(name) is not child]
    prefix = f"{unnamed[0]}." if len(unnamed) == 1 else ""
    return export(
        module,
        tuple(program.inputs.values()),
        names=[name for base, value in program.inputs.items() for name in leaf_names(base, value)],
        rename=lambda path: path.removeprefix(prefix),
        source=source,
    )


def _module_names(program: _Splitter) -> dict[str, nn.Module]:
    """The modules of the text by name, so that functions may use them too.

    A module is called as its variable, or as its class in lower case, numbered where there are several.
    """
    values = {name: value for name, value in program.namespace.items() if isinstance(value, nn.Module)}
    names = {name: module for name, module in values.items() if name not in program.hoisted}
    for name in program.modules:
        module = values[name]
        if any(module is known for known in names.values()):
            continue
        base = type(module).__name__.lower()
        count = sum(re.fullmatch(rf"{base}(_\d+)?", known) is not None for known in names)
        names[f"{base}_{count}" if count else base] = module
    return names


def _syntax_error(error: Exception, source: Source) -> Exception:
    if not isinstance(error, SyntaxError) or error.lineno is None:
        return source.error(InvalidInputError, f"not a Python text: {error}", None)
    column = max(error.offset or 1, 1)
    position = Position(error.lineno, column, column + 1)
    if error.lineno > len(source.lines):
        position = source.position(error.lineno) if source.marks else None
    return source.error(InvalidInputError, f"SyntaxError: {error.msg}", position)


def _compiled(tree: ast.Module | ast.Expression, source: Source) -> CodeType:
    """The code of a tree; what Python refuses only here, as `return` outside a function, is an error of the text."""
    mode = "exec" if isinstance(tree, ast.Module) else "eval"
    try:
        return compile(ast.fix_missing_locations(tree), source.filename, mode)
    except (SyntaxError, ValueError, RecursionError) as error:
        raise _syntax_error(error, source) from None


def _execute(code: CodeType, namespace: dict[str, Any], source: Source) -> None:
    try:
        exec(code, namespace)
    except (Exception, SystemExit) as raised:
        raise located(InvalidInputError, describe(raised), source, raised) from raised


def _has_tensor(value: object) -> bool:
    return any(isinstance(leaf, torch.Tensor) for leaf in pytree.tree_leaves(value))


@dataclass
class _Splitter:
    """Splits an expression into its inputs, its modules and the function that is traced.

    `inputs` and `modules` are by the names that the traced function uses; `hoisted` are those that replace a call.
    """

    namespace: dict[str, Any]
    source: Source
    inputs: dict[str, Any] = field(default_factory=dict[str, Any])
    modules: dict[str, nn.Module] = field(default_factory=dict[str, nn.Module])
    hoisted: set[str] = field(default_factory=set[str])
    assigned: set[str] = field(default_factory=set[str])
    used: set[str] = field(default_factory=set[str])

    def function(self, expression: ast.expr) -> FunctionType:
        """The function of `inputs` that computes the expression."""
        self.used = {node.id for node in ast.walk(expression) if isinstance(node, ast.Name)}
        body, _ = self.split(expression)
        left = {node.id for node in ast.walk(body) if isinstance(node, ast.Name)}
        self.modules = {name: module for name, module in self.modules.items() if name in left}
        parameters = [ast.arg(name) for name in self.inputs]
        arguments = ast.arguments(posonlyargs=[], args=parameters, kwonlyargs=[], kw_defaults=[], defaults=[])
        definition = ast.FunctionDef("forward", arguments, [ast.copy_location(ast.Return(body), body)], [])
        tree = ast.Module([ast.copy_location(definition, body)], [])
        scope = dict(self.namespace)
        _execute(_compiled(tree, self.source), scope, self.source)
        return scope["forward"]

    def split(self, node: ast.expr) -> tuple[ast.expr, bool]:
        """The expression with what is evaluated now replaced by names, and whether it reads a tensor or a module."""
        match node:
            case ast.Name():
                self.check_types(self.namespace.get(node.id), node)
                return node, self.bind_name(node.id)
            case ast.IfExp():
                return self.split_choice(node)
            case ast.ListComp() | ast.SetComp() | ast.DictComp() | ast.GeneratorExp() | ast.Lambda():
                reads = [self.bind_name(name) for name in _free_names(node)]
                made = not any(reads) and not isinstance(node, ast.Lambda | ast.GeneratorExp)
                return self.evaluated(node) if made else (node, any(reads))
            case ast.NamedExpr():
                node.value, reads = self.split(node.value)
                self.assigned.add(node.target.id)
                return node, True
            case _:
                return self.split_children(node)

    def split_children(self, node: ast.expr) -> tuple[ast.expr, bool]:
        """Split the operands of a node, in the order in which Python evaluates them."""
        reads = False
        for owner, name, index, child in _children(node):
            replaced, child_reads = self.split(child)
            reads |= child_reads
            if index is None:
                setattr(owner, name, replaced)
            else:
                getattr(owner, name)[index] = replaced
        if not reads:
            return self.evaluated(node) if isinstance(node, ast.Call) else (node, False)
        if self.reads_modules_only(node) and self.makes_module(node):
            return self.evaluated(node)
        return node, True

    def split_choice(self, node: ast.IfExp) -> tuple[ast.expr, bool]:
        """Choose now where the condition reads no tensor: the other branch is not evaluated, as in Python."""
        node.test, reads = self.split(node.test)
        if not reads:
            return self.split(node.body if self.value(node.test) else node.orelse)
        node.body, _ = self.split(node.body)
        node.orelse, _ = self.split(node.orelse)
        return node, True

    def bind_name(self, name: str) -> bool:
        """Note the input or module that a name stands for; whether it stands for one."""
        if name in self.inputs or name in self.modules or name in self.assigned:
            return True
        value = self.namespace.get(name)
        if isinstance(value, nn.Module):
            self.modules[name] = value
            return True
        if _has_tensor(value):
            self.inputs[name] = value
            return True
        return False

    def reads_modules_only(self, node: ast.expr) -> bool:
        """Whether a node reads modules, but no tensor."""
        names = {n.id for n in ast.walk(node) if isinstance(n, ast.Name)}
        return not names & (self.inputs.keys() | self.assigned)

    def makes_module(self, node: ast.expr) -> bool:
        """Whether a node that reads modules is a module, as `model.layer`, `Sequential(model)`, `model.eval()` are."""
        if isinstance(node, ast.Call):
            callee = self.value(node.func)
            owner = getattr(callee, "__self__", None)
            makes = isinstance(callee, type) and issubclass(callee, nn.Module)
            return makes or (isinstance(owner, nn.Module) and isinstance(self.value(node), nn.Module))
        if isinstance(node, ast.Attribute | ast.Subscript):
            return isinstance(self.value(node), nn.Module)
        return False

    def evaluated(self, node: ast.expr) -> tuple[ast.expr, bool]:
        """A name for the value of a node, and whether it is an input or a module of the program."""
        value = self.value(node)
        self.check_types(value, node)
        name = self.fresh("xyz" if _has_tensor(value) else ("value",))
        self.namespace[name] = value
        reads = self.bind_name(name)
        if reads:
            self.hoisted.add(name)
        return ast.copy_location(ast.Name(name, ast.Load()), node), reads

    def value(self, node: ast.expr) -> Any:
        """Evaluate a node now."""
        code = _compiled(ast.Expression(copy.deepcopy(node)), self.source)
        try:
            return eval(code, self.namespace)
        except (Exception, SystemExit) as raised:
            raise located(InvalidInputError, describe(raised), self.source, raised) from raised

    def check_types(self, value: object, node: ast.expr) -> None:
        """Refuse a tensor of another element type where the text makes or names it."""
        for leaf in pytree.tree_leaves(value):
            if not isinstance(leaf, torch.Tensor):
                continue
            try:
                tensor_type(leaf, "the input")
            except UnsupportedError as error:
                raise self.source.error(UnsupportedError, str(error), self.source.position_of(node)) from None

    def fresh(self, bases: Sequence[str]) -> str:
        """A name that nothing in the text has: one of `bases`, or the first of them with a number."""
        taken = self.namespace.keys() | self.used
        numbered = (f"{bases[0]}{i}" for i in itertools.count(len(bases)))
        return next(name for name in itertools.chain(bases, numbered) if name not in taken)


def _free_names(node: ast.expr) -> list[str]:
    """The names that a lambda or comprehension reads from outside, in order."""
    names = [n for n in ast.walk(node) if isinstance(n, ast.Name)]
    bound = {n.id for n in names if isinstance(n.ctx, ast.Store)} | {
        n.arg for n in ast.walk(node) if isinstance(n, ast.arg)
    }
    return [n.id for n in names if n.id not in bound]


def _children(node: ast.AST) -> list[tuple[ast.AST, str, int | None, ast.expr]]:
    """The operand expressions of a node with where they are held (owner, field, index), left to right."""
    found: list[tuple[ast.AST, str, int | None, ast.expr]] = []
    for name, value in ast.iter_fields(node):
        for index, child in enumerate(value) if isinstance(value, list) else [(None, value)]:
            if isinstance(child, ast.expr):
                found.append((node, name, index, child))
            elif isinstance(child, ast.keyword):
                found.append((child, "value", None, child.value))
    return found
