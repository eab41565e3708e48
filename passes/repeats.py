"""What xDSL's `cse` does, for functions in which nothing is dead: as the pipeline runs it after each pass.

xDSL's asks for the effects of all that an operation holds at every level around it, and hashes what it compares.
"""

from __future__ import annotations

from functools import cache
from typing import TypeAlias

from xdsl.ir import Block, Operation, Region
from xdsl.traits import (
    IsolatedFromAbove,
    IsTerminator,
    MemoryEffect,
    MemoryEffectKind,
    RecursiveMemoryEffect,
    get_effects,
)

from deplodock.analysis.operations import is_pure, operands_of

_Known: TypeAlias = dict[tuple[object, ...], tuple[Operation, ...]]
"""The operations before one, in its block and around it, by what they have in common with those that equal them."""

_Effects: TypeAlias = frozenset[MemoryEffectKind] | None
"""The kinds of effects of an operation; None where they are unknown."""

_NONE = frozenset[MemoryEffectKind]()
_READS = frozenset([MemoryEffectKind.READ])


def merge_repeats(op: Operation) -> bool:
    """Let operations in a module or function that compute or read what one before them does give way to that one.

    Returns whether there were any.
    """
    merger = _Merger()
    for region in op.regions:
        merger.region(region, {})
    for repeat in merger.repeats:
        assert repeat.parent is not None
        repeat.parent.erase_op(repeat)
    return bool(merger.repeats)


class _Merger:
    """Walks over operations in order, those inside of one before it."""

    def __init__(self) -> None:
        self.repeats: list[Operation] = []
        self._effects: dict[Operation, _Effects] = {}

    def region(self, region: Region, above: _Known) -> None:
        """Merge what repeats in a region of one block, where `above` is known."""
        if len(region.blocks) == 1:
            self._block(region.block, {**above})

    def _block(self, block: Block, known: _Known) -> None:
        for op in block.ops:
            for region in op.regions:
                self.region(region, {} if op.has_trait(IsolatedFromAbove) else known)
            if not _is_terminator(type(op)) and all(len(region.blocks) <= 1 for region in op.regions):
                self._operation(op, known)

    def _operation(self, op: Operation, known: _Known) -> None:
        effects = self._effects_of(op)
        if effects is None or not effects <= _READS:
            return
        operands = operands_of(op)
        # Operands count by identity; constants, which have none, are told apart by their values.
        key = (type(op), *map(id, operands)) if operands else (type(op), frozenset(op.properties.items()))
        alike = known.get(key, ())
        first = next((other for other in alike if _equal(op, other)), None)
        if first is not None and (not effects or self._reads_the_same(first, op)):
            for result, other in zip(op.results, first.results, strict=True):
                result.replace_all_uses_with(other)
            self.repeats.append(op)
        else:
            known[key] = (*(other for other in alike if other is not first), op)

    def _reads_the_same(self, first: Operation, op: Operation) -> bool:
        """Whether both are in one block, and nothing between them may write."""
        if first.parent is not op.parent:
            return False
        between: Operation | None = first
        while between is not None and between is not op:
            effects = self._effects_of(between)
            if effects is None or MemoryEffectKind.WRITE in effects:
                return False
            between = between.next_op
        return True

    def _effects_of(self, op: Operation) -> _Effects:
        if is_pure(type(op)):
            return _NONE
        if op not in self._effects:
            self._effects[op] = self._inner_effects(op) if _is_recursive(type(op)) else _own_effects(op)
        return self._effects[op]

    def _inner_effects(self, op: Operation) -> _Effects:
        found = _NONE
        for inner in (inner for region in op.regions for block in region.blocks for inner in block.ops):
            effects = self._effects_of(inner)
            if effects is None:
                return None
            found |= effects
        return found


def _equal(op: Operation, other: Operation) -> bool:
    """Whether two operations of a class and the same operands compute the same."""
    return (
        op.properties == other.properties
        and op.attributes == other.attributes
        and [result.type for result in op.results] == [result.type for result in other.results]
        and all(own.is_structurally_equivalent(its) for own, its in zip(op.regions, other.regions, strict=True))
    )


def _own_effects(op: Operation) -> _Effects:
    effects = get_effects(op)
    return None if effects is None else frozenset(effect.kind for effect in effects)


@cache
def _is_terminator(cls: type[Operation]) -> bool:
    return cls.has_trait(IsTerminator)


@cache
def _is_recursive(cls: type[Operation]) -> bool:
    return [type(trait) for trait in cls.get_traits_of_type(MemoryEffect)] == [RecursiveMemoryEffect]
