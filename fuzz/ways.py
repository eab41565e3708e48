"""Ways to call a program as users do: compiled, saved and loaded, by torch.compile, and for its gradients.

The text of a program, statements and an expression, is a function of the tensors that the expression reads, which may
be views of those that the statements before make, and which it may write into:

    b0 = torch.randn(6, 4); x0 = b0[1:]; x0.mul_(2) @ x0.t()

What comes of a call are all those tensors as it leaves them, and the results.
"""

from __future__ import annotations

import ast
import inspect
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import Enum
from pathlib import Path
from typing import Any, TypeAlias

import torch
from torch.utils import _pytree as pytree

from deplodock.errors import InvalidInputError
from deplodock.frontend.arrays import to_array
from deplodock.fuzz.gradients import cotangents, gradients
from deplodock.fuzz.program import NAMES
from deplodock.pytorch.compiled import CompiledProgram
from deplodock.pytorch.function import compile as compile_program
from deplodock.pytorch.loading import load
from deplodock.pytorch.runners import repeats

Program: TypeAlias = Callable[..., Any]
Tensors: TypeAlias = dict[str, torch.Tensor]
"""What the statements of a text make, by name."""

SHARED_WRITE = "shares memory with"
"""What the message has of a program that refuses arguments since it writes into one that another one sees."""


class Calling(Enum):
    """How a program is called."""

    SAVED = "saved and loaded"
    COMPILED = "torch.compiled"
    TRAINED = "differentiated"


class Differs(Exception):
    """A call does not do what it says, in a way that values do not show."""


@dataclass(frozen=True)
class TextParts:
    """A text taken apart: the statements that make memory, those that name views of it, and the expression.

    `memory` and `views` are the names that they give, `arguments` those of them that the expression reads.
    """

    made: list[ast.stmt]
    memory: list[str]
    seen: list[ast.Assign]
    views: list[str]
    expression: ast.expr

    @property
    def arguments(self) -> list[str]:
        """The names that the expression reads, in the order of their statements."""
        read = _names(self.expression)
        return [name for name in (*self.memory, *self.views) if name in read]


def parts_of(text: str) -> TextParts:
    """A text taken apart."""
    *statements, last = ast.parse(text).body
    assert isinstance(last, ast.Expr)
    found = TextParts([], [], [], [], last.value)
    for statement in statements:
        if not isinstance(statement, ast.Assign) or not isinstance(target := statement.targets[0], ast.Name):
            found.made.append(statement)
        elif _names(statement.value) & {*found.memory}:
            found.seen.append(statement)
            found.views.append(target.id)
        else:
            found.made.append(statement)
            found.memory.append(target.id)
    return found


def _names(node: ast.AST) -> set[str]:
    return {each.id for each in ast.walk(node) if isinstance(each, ast.Name)}


def on_copies(text: str) -> str:
    """The text of a program that writes into copies of its arguments, and gives them, views of them, and its results.

    m_b0 := b0.clone(), x0 := m_b0[1:], x0.mul_(2) @ x0.t()
    """
    parts = parts_of(text)
    copies = {name: f"m_{name}" for name in parts.memory}
    values = [f"({copy} := {name}.clone())" for name, copy in copies.items()]
    values += [f"({name} := {_renamed(one.value, copies)})" for name, one in zip(parts.views, parts.seen, strict=True)]
    results = parts.expression.elts if isinstance(parts.expression, ast.Tuple) else [parts.expression]
    values += [_renamed(result, copies) for result in results]
    return "; ".join([*map(ast.unparse, parts.made), f"({', '.join(values)})"])


def _renamed(expression: ast.expr, names: dict[str, str]) -> str:
    tree = ast.parse(ast.unparse(expression), mode="eval")
    for node in ast.walk(tree):
        if isinstance(node, ast.Name):
            node.id = names.get(node.id, node.id)
    return ast.unparse(tree)


def source(text: str, seed: int) -> str:
    """Python that defines `make`, which gives the tensors of a text by name, and `program`, its expression."""
    parts = parts_of(text)
    statements = [ast.unparse(statement) for statement in (*parts.made, *parts.seen)]
    tensors = ", ".join(f"{name}={name}" for name in (*parts.memory, *parts.views))
    return "\n".join(
        [
            "import math, torch",
            "from torch.nn import functional as F",
            "def make():",
            *(f"    {line}" for line in (f"torch.manual_seed({seed})", *statements, f"return dict({tensors})")),
            f"def program({', '.join(parts.arguments)}):",
            f"    return {ast.unparse(parts.expression)}",
        ]
    )


def script(text: str, seed: int, way: Calling, precision: str) -> str:
    """A Python program that shows what comes of a call, and what PyTorch gives."""
    shown = (
        f"print(ways.eager(make, program, ways.Calling.{way.name}), ways.called(make, program, ways.Calling.{way.name}"
    )
    return f'{source(text, seed)}\nfrom deplodock.fuzz import ways\n{shown}, "{precision}"), sep="\\n")'


def defined(text: str, seed: int) -> tuple[Callable[[], Tensors], Program]:
    """What `source` defines."""
    scope: dict[str, Any] = dict(NAMES)
    exec(source(text, seed), scope)
    return scope["make"], scope["program"]


def eager(make: Callable[[], Tensors], program: Program, way: Calling) -> list[torch.Tensor]:
    """What comes of a call that PyTorch runs: of `TRAINED` the gradients."""
    return _trained(make, program, program) if way is Calling.TRAINED else _given(make(), program)


def called(make: Callable[[], Tensors], program: Program, way: Calling, precision: str) -> list[torch.Tensor]:
    """What comes of a call in a way. Raises Differs, and what compiling and calling raise."""
    if way is Calling.SAVED:
        return _saved(make, program, precision)
    torch._dynamo.reset()
    options: Any = {"precision": precision}
    compiled = torch.compile(program, backend="deplodock", dynamic=False, options=options)
    return _trained(make, program, compiled) if way is Calling.TRAINED else _compiled(make, program, compiled)


def fails_in_pytorch(make: Callable[[], Tensors], program: Program, way: Calling) -> bool:
    """Whether torch.compile fails on a program with a backend of PyTorch's own that compiles nothing, too.

    It also does where results differ from eager's, as where a program writes what it reads elsewhere.
    """
    torch._dynamo.reset()
    compiled = torch.compile(program, backend="aot_eager", dynamic=False)
    try:
        found = _trained(make, program, compiled) if way is Calling.TRAINED else _given(make(), compiled, program)
        torch.testing.assert_close(found, eager(make, program, way), equal_nan=True)
    except (RuntimeError, AssertionError):
        return True
    return False


def _arguments(tensors: Tensors, program: Program) -> list[torch.Tensor]:
    return [tensors[name] for name in inspect.signature(program).parameters]


def _given(tensors: Tensors, program: Program, of: Program | None = None) -> list[torch.Tensor]:
    """What comes of a call of a program, which may be what `of` was compiled into."""
    results = pytree.tree_leaves(program(*_arguments(tensors, of or program)))
    return [*tensors.values(), *results]


def _saved(make: Callable[[], Tensors], program: Program, precision: str) -> list[torch.Tensor]:
    """Compile a program, save it, load it, and call both: the bits are the same, and results have memory of their own.

    Raises Differs where they are not.
    """
    compiled = compile_program(program, _arguments(make(), program), precision=precision)
    assert isinstance(compiled, CompiledProgram)
    with tempfile.TemporaryDirectory() as folder:
        compiled.save(Path(folder) / "program.ddk")
        loaded = load(Path(folder) / "program.ddk")
    tensors = make()
    found, again = _given(tensors, compiled, program), _given(make(), loaded, program)
    if any(_bits(one) != _bits(other) for one, other in zip(found, again, strict=True)):
        raise Differs("what is loaded gives other bits than what was saved")
    if any(any(row) for row in sharing(found[len(tensors) :], [*tensors.values()])):
        raise Differs("a result shares memory with an argument")
    return found


def _compiled(make: Callable[[], Tensors], program: Program, compiled: Program) -> list[torch.Tensor]:
    """Call what torch.compile makes of a program, first on arguments that lie apart if they do not.

    Raises Differs where results share other memory with arguments than those of PyTorch.
    """
    if shares(_arguments(make(), program)):
        compiled(*(argument.clone() for argument in _arguments(make(), program)))
    tensors, own = make(), make()
    found, wanted = _given(tensors, compiled, program), _given(own, program)
    count = len(tensors)
    if sharing(found[count:], found[:count]) != sharing(wanted[count:], wanted[:count]):
        raise Differs("results share memory with other arguments than those of PyTorch")
    return found


def _trained(make: Callable[[], Tensors], program: Program, compiled: Program) -> list[torch.Tensor]:
    """The gradients of the arguments of a program that is called as `compiled`."""
    given = [argument.detach() for argument in _arguments(make(), program)]
    leaves = [value.requires_grad_() if value.is_floating_point() else value for value in given]
    results = pytree.tree_leaves(compiled(*leaves))
    return gradients(results, leaves, cotangents(results))


def _bits(value: torch.Tensor) -> tuple[tuple[int, ...], bytes]:
    """The strides and the elements of a tensor."""
    return value.stride(), to_array(value).tobytes()


def sharing(results: Sequence[torch.Tensor], tensors: Sequence[torch.Tensor]) -> list[list[bool]]:
    """For each result, with which tensors it shares memory."""
    places = [tensor.untyped_storage().data_ptr() for tensor in tensors]
    return [[result.untyped_storage().data_ptr() == place for place in places] for result in results]


def shares(tensors: Sequence[torch.Tensor]) -> bool:
    """Whether tensors share memory with each other."""
    return len({tensor.untyped_storage().data_ptr() for tensor in tensors}) < len(tensors)


def refuses_shared(error: InvalidInputError, make: Callable[[], Tensors], program: Program) -> bool:
    """Whether an error is that of a program that writes into an argument, and its arguments do share memory."""
    arguments = _arguments(make(), program)
    return SHARED_WRITE in str(error) and (shares(arguments) or any(map(repeats, arguments)))


def traits(make: Callable[[], Tensors], program: Program) -> set[str]:
    """What is particular of the arguments of a program."""
    tensors, before = make(), make()
    arguments = _arguments(tensors, program)
    program(*arguments)
    found = {
        "views": any(not value.is_contiguous() or value.storage_offset() for value in arguments),
        "shared memory": shares(arguments),
        "writes": any(_bits(tensors[name]) != _bits(before[name]) for name in tensors),
    }
    return {name for name, holds in found.items() if holds}
