"""What follows each pass of the pipeline: canonicalization, then common subexpression elimination.

Few passes leave anything to clean up, and to look for it costs much less than xDSL's passes do. What follows a pass,
verification too, is for the functions that it has changed.

A pass gives an operation a location where it knows which operation that stands for: it clones, or it sets `location`.
The others, such as the subscripts, conditions and barriers around those, are placed here.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import cache
from typing import TypeAlias

from xdsl.context import Context
from xdsl.dialects.builtin import UNKNOWN_LOC, LocationAttr, ModuleOp, UnknownLoc
from xdsl.folder import Folder
from xdsl.ir import Attribute, Block, Operation, SSAValue
from xdsl.pattern_rewriter import GreedyRewritePatternApplier, PatternRewriter, PatternRewriteWalker, RewritePattern
from xdsl.traits import (
    ConstantLike,
    HasCanonicalizationPatternsTrait,
    HasFolder,
    IsTerminator,
    MemoryEffect,
    MemoryWriteEffect,
    NoTerminator,
    SymbolOpInterface,
)
from xdsl.transforms.canonicalize import CanonicalizationRewritePattern
from xdsl.transforms.dead_code_elimination import is_trivially_dead, region_dce

from deplodock.analysis.operations import operands_of
from deplodock.passes.repeats import merge_repeats


def clean_up(ctx: Context, op: Operation) -> bool:
    """Run xDSL's `canonicalize` on a module or function, where it finds something to do, and what its `cse` does.

    Most passes leave nothing but dead operations, which one sweep erases. Returns whether something was done.
    """
    erased = _erase_dead(op)
    if found := _rewrites(ctx, op):
        pattern = GreedyRewritePatternApplier([CanonicalizationRewritePattern()], ctx, folding_enabled=True)
        for region in op.regions:
            PatternRewriteWalker(pattern, post_walk_func=region_dce).rewrite_region(region)
    merged = merge_repeats(op)
    return erased or found or merged


def _erase_dead(op: Operation) -> bool:
    """Erase the dead operations in one, users before what they use. Returns whether there were any."""
    found = False
    for block in (block for region in op.regions for block in region.blocks):
        following = block.last_op
        while (inner := following) is not None:
            following = inner.prev_op
            if inner.regions:
                found |= _erase_dead(inner)
            if inner.results and inner.results[0].first_use is not None:
                continue
            if _may_be_dead(type(inner)) and not _holds_others(inner) and is_trivially_dead(inner):
                block.erase_op(inner)
                found = True
    return found


def _rewrites(ctx: Context, function: Operation) -> bool:
    """Whether a folder or a pattern applies to some operation; the first that does has then been applied."""
    folder = Folder(ctx)
    for op in function.walk():
        if _has_folder(type(op)) and (folded := folder.try_fold(op)) is not None:
            values, made = folded
            PatternRewriter(op).replace(op, new_ops=made, new_results=values)
            return True
        if patterns := _patterns(type(op)):
            rewriter = PatternRewriter(op)
            for pattern in patterns:
                pattern.match_and_rewrite(op, rewriter)
                if rewriter.has_done_action:
                    return True
    return False


@cache
def _may_be_dead(cls: type[Operation]) -> bool:
    """Whether operations of a class can be dead: no terminators or symbols, nor what has unknown effects or writes."""
    lives = (IsTerminator, SymbolOpInterface, MemoryWriteEffect)
    return cls.has_trait(MemoryEffect) and not any(cls.has_trait(trait) for trait in lives)


def _holds_others(op: Operation) -> bool:
    """Whether an operation has no results, and holds others: it is only dead if they are."""
    is_plain = not op.results and op.has_trait(NoTerminator)
    return is_plain and any(block.first_op is not None for region in op.regions for block in region.blocks)


@cache
def _has_folder(cls: type[Operation]) -> bool:
    """Whether operations of a class may fold: constants fold to themselves."""
    return cls.has_trait(HasFolder) and not cls.has_trait(ConstantLike)


@cache
def _patterns(cls: type[Operation]) -> tuple[RewritePattern, ...]:
    traits = cls.get_traits_of_type(HasCanonicalizationPatternsTrait)
    return tuple(pattern for trait in traits for pattern in trait.get_patterns(cls))


_State: TypeAlias = tuple[object, tuple[SSAValue, ...], Sequence[SSAValue], dict[str, Attribute], dict[str, Attribute]]
"""An operation or block with the values that it uses or takes, its results, its attributes and its properties."""


class Changes:
    """The functions of a module as they were when they were last asked for.

    Attributes and values are never changed in place, so a function is as it was if it holds the same operations with
    the same operands, attributes and results, in the same order.
    """

    def __init__(self, module: ModuleOp) -> None:
        self.module = module
        self._states: dict[Operation, list[_State]] = {}

    def take(self) -> list[Operation]:
        """The functions that have changed since the last call: at the first call, all.

        They are all as well if a name or type has changed, come or gone, as functions name each other.
        """
        before, after = self._states, {op: _state(op) for op in self.module.ops}
        self._states = after
        if before.keys() != after.keys() or any(op.properties != before[op][0][-1] for op in after):
            return list(after)
        return [op for op, state in after.items() if state != before[op]]

    def pass_over(self, functions: Iterable[Operation]) -> None:
        """Take some functions, in which nothing but operations has changed since, as they are now."""
        self._states |= {op: _state(op) for op in functions}


def _state(function: Operation) -> list[_State]:
    state: list[_State] = []
    _add(function, state)
    return state


def _add(op: Operation, state: list[_State]) -> None:
    state.append((op, operands_of(op), op.results, {**op.attributes}, {**op.properties}))
    for region in op.regions:
        for block in region.blocks:
            state.append((block, block.args, (), {}, {}))
            for inner in block.ops:
                _add(inner, state)


def locate(module: ModuleOp, functions: Iterable[Operation] | None = None) -> None:
    """Locate the operations of a module that lack a location, by default in all its functions.

    Such an operation takes the location of what computes its first operand, as a store does; else of the next operation
    of its block, as a subscript does that is computed before it is used; else of the last one, or of the operation
    around the block.
    """
    _locate(module.body.block, module.location)
    for function in module.ops if functions is None else functions:
        _locate_inside(function)


def _locate_inside(op: Operation) -> None:
    for region in op.regions:
        for block in region.blocks:
            _locate(block, op.location)
            for inner in block.ops:
                if inner.regions:
                    _locate_inside(inner)


def _locate(block: Block, around: LocationAttr) -> None:
    waiting: list[Operation] = []
    last = around
    for op in block.ops:
        if type(op.location) is UnknownLoc:
            op.location = _of_operands(op)
        if type(op.location) is UnknownLoc:
            waiting.append(op)
            continue
        last = op.location
        for before in waiting:
            before.location = last
        waiting.clear()
    for op in waiting:
        op.location = last


def _of_operands(op: Operation) -> LocationAttr:
    """The location of the operation that computes the first operand which has one."""
    for value in op.operands:
        if type(found := location_of(value)) is not UnknownLoc:
            return found
    return UNKNOWN_LOC


def location_of(value: SSAValue) -> LocationAttr:
    """The location of the operation that computes a value; an argument has none of its own."""
    return value.owner.location if isinstance(value.owner, Operation) else UNKNOWN_LOC
