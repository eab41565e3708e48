"""A random program as a graph of PyTorch expressions, and its text: statements for inputs, then one expression."""

from __future__ import annotations

import ast
import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch.nn import functional

NAMES = {"torch": torch, "F": functional, "math": math}
"""What the text of a program may use, as `-c` binds it."""


@dataclass(frozen=True, eq=False)
class Node:
    """An expression: a template with a `{}` for each argument, and what it was when it was drawn.

    The template of an input is its name, and `setup` the statements that give the name its value; its argument is the
    input of which it is a view, if it is one.
    `family` names what drew the expression, if something did.
    """

    template: str
    args: tuple[Node, ...] = ()
    value: Any = None
    setup: str = ""
    family: str = ""

    @property
    def is_input(self) -> bool:
        """Whether statements make the value, outside of what is compiled."""
        return bool(self.setup)

    @property
    def is_atom(self) -> bool:
        """Whether the expression needs no parentheses as an operand."""
        tree = ast.parse(self.template.format(*("x" for _ in self.args)), mode="eval")
        return isinstance(tree.body, ast.Call | ast.Name | ast.Subscript | ast.Attribute)


def make_input(name: str, setup: str, *memory: Node) -> Node:
    """An input of the given name, a view of the input `memory` if there is one. Raises what its statements raise."""
    scope: dict[str, Any] = NAMES | {node.template: node.value for node in memory}
    exec(setup, scope)
    return Node(name, memory, scope[name], setup)


def make_node(template: str, args: Sequence[Node], family: str = "") -> Node:
    """An expression of other nodes, evaluated. Raises what PyTorch raises."""
    names = [f"_{position}" for position in range(len(args))]
    scope = NAMES | {name: arg.value for name, arg in zip(names, args, strict=True)}
    with torch.no_grad():
        return Node(template, tuple(args), eval(template.format(*names), scope), family=family)


@dataclass(frozen=True)
class Expression:
    """A program: what it gives, as one value or as a tuple."""

    outputs: tuple[Node, ...]

    def nodes(self) -> list[Node]:
        """The nodes in the order in which Python evaluates them, each once."""
        found: dict[Node, None] = {}

        def visit(node: Node) -> None:
            if node not in found:
                for arg in node.args:
                    visit(arg)
                found[node] = None

        for output in self.outputs:
            visit(output)
        return list(found)

    def families(self) -> set[str]:
        """The names of what drew its expressions."""
        return {node.family for node in self.nodes() if node.family}

    def text(self) -> str:
        """One line for `-c`; an expression that is used twice gets a name where it stands first."""
        nodes = self.nodes()
        uses = Counter(arg for node in nodes for arg in node.args) + Counter(self.outputs)
        names: dict[Node, str] = {}

        def print_node(node: Node) -> str:
            if node.is_input:
                return node.template
            if node in names:
                return names[node]
            inner = node.template.format(*(print_node(arg) for arg in node.args))
            if uses[node] < 2:
                return inner if node.is_atom or node in self.outputs else f"({inner})"
            names[node] = f"v{len(names)}"
            return f"({names[node]} := {inner})"

        outputs = [print_node(output) for output in self.outputs]
        last = f"({', '.join(outputs)})" if len(outputs) > 1 else outputs[0]
        return "; ".join([*(node.setup for node in nodes if node.is_input), last])

    def replaced(self, old: Node, new: Node) -> Expression:
        """The program with another node in the place of one; the values of those that use it are not updated."""
        copies: dict[Node, Node] = {old: new}

        def copy(node: Node) -> Node:
            if node not in copies:
                args = tuple(copy(arg) for arg in node.args)
                same = all(one is other for one, other in zip(args, node.args, strict=True))
                copies[node] = node if same else replace(node, args=args)
            return copies[node]

        return Expression(tuple(copy(node) for node in self.outputs))
