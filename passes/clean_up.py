"""What follows each pass of the pipeline: canonicalization, then common subexpression elimination.

Few passes leave anything to clean up, and to look for it costs much less than xDSL's passes do.
"""

from __future__ import annotations

from collections.abc import Set as AbstractSet
from functools import cache

from xdsl.context import Context
from xdsl.ir import Block, Operation
from xdsl.pattern_rewriter import GreedyRewritePatternApplier, PatternRewriter, PatternRewriteWalker, RewritePattern
from xdsl.traits import (
    HasCanonicalizationPatternsTrait,
    HasFolder,
    IsTerminator,
    MemoryEffect,
    MemoryEffectKind,
    MemoryWriteEffect,
    NoTerminator,
    SymbolOpInterface,
    only_has_effect,
)
from xdsl.transforms.canonicalize import CanonicalizationRewritePattern
from xdsl.transforms.common_subexpression_elimination import OperationInfo, cse
from xdsl.transforms.dead_code_elimination import is_trivially_dead, region_dce


def clean_up(ctx: Context, op: Operation) -> bool:
    """Run xDSL's `canonicalize` on a module or function, then its `cse`; each only where it finds something to do.

    Most passes leave nothing but dead operations, which one sweep erases. Returns whether something was done.
    """
    erased = _erase_dead(op)
    pattern = GreedyRewritePatternApplier([CanonicalizationRewritePattern()], ctx, folding_enabled=True)
    if found := _rewrites(pattern, op):
        for region in op.regions:
            PatternRewriteWalker(pattern, post_walk_func=region_dce).rewrite_region(region)
    if repeats := any(_repeats(block, frozenset()) for region in op.regions for block in region.blocks):
        cse(op)
    return erased or found or repeats


def _erase_dead(op: Operation) -> bool:
    """Erase the dead operations in one, users before what they use. Returns whether there were any."""
    found = False
    for block in (block for region in op.regions for block in region.blocks):
        for inner in reversed(list(block.ops)):
            found |= bool(inner.regions) and _erase_dead(inner)
            if _may_be_dead(type(inner)) and not _holds_others(inner) and is_trivially_dead(inner):
                block.erase_op(inner)
                found = True
    return found


def _rewrites(pattern: RewritePattern, function: Operation) -> bool:
    """Whether a pattern or a folder applies to some operation; the first that does has then been applied."""
    for op in function.walk():
        if _has_patterns(type(op)):
            rewriter = PatternRewriter(op)
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
    return is_plain and any(block.ops for region in op.regions for block in region.blocks)


@cache
def _has_patterns(cls: type[Operation]) -> bool:
    return cls.has_trait(HasFolder) or cls.has_trait(HasCanonicalizationPatternsTrait)


def _repeats(block: Block, above: AbstractSet[OperationInfo]) -> bool:
    """Whether some operation does nothing but compute or read what one before it does, in its block or above."""
    seen = set(above)
    for op in block.ops:
        if op.results:
            known = len(seen)
            seen.add(OperationInfo(op))
            if len(seen) == known and only_has_effect(op, MemoryEffectKind.READ):
                return True
        if any(_repeats(inner, seen) for region in op.regions for inner in region.blocks):
            return True
    return False
