"""Makes a failing case smaller while it fails in the same way: fewer rules, fewer expressions, smaller extents."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace

from deplodock.fuzz.case import Case, Failure, NotDrawn, check
from deplodock.fuzz.program import Expression, Node, make_input
from deplodock.passes.options import Kind
from deplodock.schedule.steps import RuleStep, Schedule

TRIES = 200
"""How often a smaller case is checked at most."""

_NUMBER = re.compile(r"(?<![\w.])\d+(?![\w.])")


class Shrinker:
    """A failing case as small as it has become."""

    def __init__(self, case: Case, expression: Expression, failure: Failure) -> None:
        self.case = case
        self.failure = failure
        self._expression = expression
        self._tries = TRIES

    def run(self) -> Case:
        """The smallest case found."""
        self._decisions()
        while self._program():
            pass
        self._decisions()
        while self._extents():
            pass
        return self.case

    def _fails(self, case: Case) -> bool:
        """Whether a case fails as the first did; it takes the place of the case then."""
        if self._tries <= 0 or case == self.case:
            return False
        self._tries -= 1
        try:
            check(case)
        except NotDrawn:
            return False
        except Failure as failure:
            if failure.key != self.failure.key:
                return False
            self.case, self.failure = case, failure
            return True
        return False

    def _decisions(self) -> None:
        """Leave decisions to the heuristics, all of them, else one rule and one option at a time."""
        self._fails(replace(self.case, precision="highest"))
        self._fails(replace(self.case, schedules=None, fusion=None))
        self._fails(replace(self.case, fusion=None))
        self._fails(replace(self.case, schedules=None))
        for kind in self.case.schedules or {}:
            for step in self._schedule(kind):
                self._reschedule(kind, tuple(other for other in self._schedule(kind) if other.name != step.name))
            for step in self._schedule(kind):
                for option in step.options:
                    self._reschedule(kind, tuple(_without(other, step, option) for other in self._schedule(kind)))

    def _schedule(self, kind: Kind) -> Schedule:
        return (self.case.schedules or {})[kind]

    def _reschedule(self, kind: Kind, schedule: Schedule) -> None:
        self._fails(replace(self.case, schedules={**(self.case.schedules or {}), kind: schedule}))

    def _program(self) -> bool:
        """Take the first smaller program that fails, if there is one."""
        for smaller in _smaller(self._expression):
            if self._fails(replace(self.case, text=smaller.text())):
                self._expression = smaller
                return True
        return False

    def _extents(self) -> bool:
        """Make the first number smaller that can be, everywhere it stands."""
        text = self.case.text
        for number in sorted({int(found) for found in _NUMBER.findall(text)}, reverse=True):
            for less in dict.fromkeys((1, 2, number // 2, number - 1)):
                if 0 < less < number:
                    pattern = rf"(?<![\w.]){number}(?![\w.])"
                    if self._fails(replace(self.case, text=re.sub(pattern, str(less), text))):
                        return True
        return False


def _without(step: RuleStep, of: RuleStep, option: str) -> RuleStep:
    """A step, less an option if it is the one of a rule and target."""
    if step.name != of.name:
        return step
    return replace(step, options={name: value for name, value in step.options.items() if name != option})


def _smaller(expression: Expression) -> Iterator[Expression]:
    """Programs with one output, one expression or one way of making an input less, the smallest first."""
    if len(expression.outputs) > 1:
        yield from (Expression((output,)) for output in expression.outputs)
    for node in reversed(expression.nodes()):
        if node.is_input:
            plain = _plain(node)
            if plain.setup != node.setup:
                yield expression.replaced(node, plain)
            continue
        for arg in node.args:
            if not (node in expression.outputs and arg.is_input):
                yield expression.replaced(node, arg)
        if node not in expression.outputs and hasattr(node.value, "shape"):
            yield expression.replaced(node, _plain(node))


def _plain(node: Node) -> Node:
    """An input of the shape and type of a value, contiguous and without special values."""
    value = node.value
    name = node.template if node.is_input else f"y{len(node.template)}_{value.numel()}"
    shape = tuple(value.shape)
    if value.is_floating_point():
        return make_input(name, f"{name} = torch.randn({shape}, dtype={value.dtype})")
    low, high = (0, 2) if str(value.dtype) in ("torch.bool", "torch.uint8") else (-4, 6)
    return make_input(name, f"{name} = torch.randint({low}, {high}, {shape}).to({value.dtype})")
