"""overlap-products: let the products of a step run while the next step is awaited.

    loop.for %k = 0 to 32 {                          kernel.wait_phase %full[0], 0
      kernel.wait_phase %full[%k mod 8], ..          ..
      ..                                             kernel.wgmma_commit
      kernel.wgmma_commit                            loop.for %k = 0 to 31 {
      kernel.wgmma_wait 0                              kernel.wait_phase %full[(%k + 1) mod 8], ..
      kernel.arrive warp %empty[%k mod 8]      ->      ..
    }                                                  kernel.wgmma_commit
                                                       kernel.wgmma_wait 1
                                                       kernel.arrive warp %empty[%k mod 8]
                                                     }
                                                     kernel.wgmma_wait 0
                                                     kernel.arrive warp %empty[7]

A step gives back the slot of the step before, whose products are done. It does so where a loop multiplies and nothing
else, which is that of consumers: whoever fills the slots has one less to run ahead, and does not wait for itself. On an
H200 a step of one warpgroup, 64x128 sums of 64 products, takes 244 ns instead of 324 (512x2048x2048, bf16). The first
step, which has none before it, stands in front of the loop: where its condition stood in the loop, ptxas 13.0 had each
product of tiles with conditional stores wait for the one before (its remark C7514).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Operation, SSAValue
from xdsl.passes import ModulePass
from xdsl.rewriter import InsertPoint, Rewriter

from deplodock.analysis.affine.division import Division
from deplodock.analysis.affine.linear import Linear, forms_of, to_map
from deplodock.dialects import kernel, loop
from deplodock.dialects.interfaces import Landing, Place, accesses_of
from deplodock.passes.kernel.builder import run_less, step_at


@dataclass(frozen=True)
class OverlapProductsPass(ModulePass):
    """Let the products of a step run while the next step is awaited."""

    name = "overlap-products"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        for function in kernel.functions(op):
            for wait in [each for each in function.body.walk() if isinstance(each, kernel.WgmmaWaitOp)]:
                around = wait.parent_op()
                if isinstance(around, loop.ForOp) and (found := _releases(around, wait)):
                    _overlap(around, wait, found)


def _releases(steps: loop.ForOp, wait: kernel.WgmmaWaitOp) -> list[kernel.ArriveOp]:
    """The releases of slots behind the wait of a loop that multiplies alone; none where it does more."""
    found: list[kernel.ArriveOp] = []
    behind = wait.next_op
    while isinstance(behind, kernel.ArriveOp) and behind.is_warp and _releases_own(behind, steps):
        found.append(behind)
        behind = behind.next_op
    others = [op for op in steps.body.walk() if isinstance(op, kernel.ArriveOp) and op not in found]
    touched = [access for op in steps.body.walk() for access in accesses_of(op)]
    multiplies = all(access.lands is Landing.PRODUCT for access in touched)
    is_overlapped = wait.pending.value.data or (steps.trips or 0) < 2
    return found if behind is None and multiplies and not others and not is_overlapped else []


def _releases_own(release: kernel.ArriveOp, steps: loop.ForOp) -> bool:
    """Whether the slot of a ring is released that a step of the loop has, and there are others."""
    match forms_of(release.slot.data, release.slot_indices):
        case [Linear(((Division(form, depth, True), 1),), 0)]:
            return depth > 1 and form.coefficient(steps.iv) == 1
        case _:
            return False


def _overlap(steps: loop.ForOp, wait: kernel.WgmmaWaitOp, releases: Sequence[kernel.ArriveOp]) -> None:
    """Release the slots of the step before, and those of the last step behind the loop."""
    assert steps.trips is not None
    last: list[Operation] = [kernel.WgmmaWaitOp(0)]
    for release in releases:
        last.append(kernel.ArriveOp(release.barrier, _slot_at(release, steps.iv, steps.trips - 1), is_warp=True))
    first = step_at(Linear(), "first")
    done = {wait, *releases}
    copied: dict[SSAValue, SSAValue] = {steps.iv: first.result}
    head = [op.clone(copied) for op in steps.body.block.ops if op not in done]
    later = step_at(Linear.of(steps.iv) + 1)
    steps.iv.replace_uses_with_if(later.result, lambda use: use.operation not in {later, *releases})
    Rewriter.insert_op(later, InsertPoint.at_start(steps.body.block))
    Rewriter.replace_op(wait, kernel.WgmmaWaitOp(1))
    Rewriter.insert_op([first, *head], InsertPoint.before(steps))
    Rewriter.insert_op(last, InsertPoint.after(steps))
    run_less(steps)


def _slot_at(release: kernel.ArriveOp, variable: SSAValue, step: int) -> Place:
    """The slot that is released where a variable has a value."""
    (form,) = forms_of(release.slot.data, release.slot_indices)
    return to_map([form.substitute(variable, Linear(constant=step))])
