"""What follows each pass of the pipeline: canonicalization, then common subexpression elimination.

Few passes leave anything to clean up, and to look for it costs much less than xDSL's passes do.
"""

from __future__ import annotations

from functools import cache

from xdsl.context import Context
from xdsl.folder import Folder
from xdsl.ir import Operation
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
