"""Contractions whose k is shared by CTAs, in all forms: right, the same bits in any order of CTAs, one epilogue."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pytest
from residual_products import ResidualProduct, check_two_products
from xdsl.dialects import func
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Block, Operation, Region
from xdsl.ir.affine import AffineExpr, AffineMap
from xdsl.parser import Parser
from xdsl.rewriter import InsertPoint, Rewriter
from xdsl.utils.exceptions import DiagnosticException, PassFailedException

from deplodock.codegen.cuda import print_module
from deplodock.dialects import kernel, loop
from deplodock.interpreters.simulate import launch, simulate
from deplodock.passes.driver import Level, lower, new_context
from deplodock.passes.kernel.verify_barriers import VerifyBarriersPass
from deplodock.passes.tile.split_matmul_k import SplitMatmulKPass
from deplodock.passes.tile.tileify import TileifyPass
from deplodock.runtime.nvcc import compile_cubin, find_nvcc
from deplodock.schedule.choose.kernels import choose
from deplodock.schedule.steps import format_schedule

CONTEXT = new_context()

FORMS = ("block", "ticket", "cluster")


@dataclass(frozen=True)
class Case(ResidualProduct):
    """A product in parts of k, tiles of `tile` x `tile`."""

    parts: int
    tile: int = 16

    def schedule(self, over: str) -> str:
        t, is_cut = self.tile, over == "block"
        threads, vector = (" threads=128", " vector=4") if is_cut else ("", "")
        return (
            f"tileify,chunk-matmul-k{{bk=8}},split-matmul-k{{s={self.parts} over={over}}},"
            f"blockify-launch{{m={t} n={t} occupancy=2{threads}}},stage-inputs{{transpose=auto}},"
            f"register-tile{{m=4 n=4{vector}}},permute-register-tile{{m=strips n=strips}},double-buffer{{depth=3}},"
            "async-copy,pad-smem,pipeline-k-outer{distance=1 barrier=mbarrier},mark-unroll"
        )


CASES = {
    "even": Case(1, 32, 32, 128, 4),
    "odd k": Case(1, 20, 24, 77, 3),
    "k smaller than the split": Case(1, 16, 16, 3, 4),
    "one row": Case(1, 1, 40, 100, 5),
    "batch": Case(3, 10, 18, 64, 2),
    "parts without an element": Case(1, 16, 32, 40, 4),
}


def lowered(case: Case, over: str) -> ModuleOp:
    return case.scheduled(case.schedule(over))


@pytest.mark.parametrize("over", FORMS)
@pytest.mark.parametrize("name", CASES)
def test_split_contraction(name: str, over: str) -> None:
    CASES[name].check(lowered(CASES[name], over), order=1)


@pytest.mark.parametrize("over", FORMS)
def test_split_sums_of_two_products(over: str) -> None:
    check_two_products(CASES["odd k"].schedule(over))


@pytest.mark.parametrize("over", FORMS)
def test_same_bits_in_any_order_of_ctas(over: str) -> None:
    case = CASES["odd k"]
    case.check_bits(lowered(case, over), orders=5)


@pytest.mark.parametrize("over", FORMS)
def test_ctas_that_do_not_run_together(over: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """One CTA, or one cluster, after the other, in a random order."""
    monkeypatch.setattr(launch, "_LANES_AT_ONCE", 1)
    case = CASES["odd k"]
    for order in range(2):
        case.check(lowered(case, over), order)


def test_all_forms_add_the_parts_in_one_order() -> None:
    case = CASES["batch"]
    inputs = case.draw(integers=False)
    outputs = [simulate(lowered(case, over), inputs).outputs[0] for over in FORMS]
    for other in outputs[1:]:
        assert np.array_equal(outputs[0].view(np.int32), other.view(np.int32))


def first(module: ModuleOp, *kinds: type[Operation]) -> Operation:
    return next(op for op in module.walk() if isinstance(op, kinds))


def findings(module: ModuleOp, case: Case) -> list[str]:
    return [str(finding) for finding in simulate(module, case.draw(integers=True)).findings]


@pytest.mark.parametrize("position", [0, 1], ids=["before the ticket", "after the ticket"])
def test_a_missing_fence_is_reported(position: int) -> None:
    case = CASES["even"]
    module = lowered(case, "ticket")
    fence = [op for op in module.walk() if isinstance(op, kernel.FenceOp)][position]
    Rewriter.erase_op(fence)
    found = findings(module, case)
    assert any("kernel @k: data race: `kernel.move 4 %acc_part[" in text for text in found)
    assert any("with no kernel.fence and kernel.ticket after the first" in text for text in found)


def test_a_ticket_of_too_few_ctas_is_reported() -> None:
    case = CASES["even"]
    module = lowered(case, "ticket")
    ticket = first(module, kernel.TicketOp)
    assert isinstance(ticket, kernel.TicketOp)
    place, ctas = (ticket.map.data, ticket.indices), (AffineMap.constant_map(3), ())
    Rewriter.replace_op(ticket, kernel.TicketOp(ticket.counter, place, ctas))
    found = findings(module, case)
    assert any("data race" in text and "kernel.move 4 %acc_part[" in text for text in found)
    assert any("open ticket: `%last = kernel.ticket %turns[" in text for text in found)


def test_parts_that_are_read_before_the_ticket_are_reported() -> None:
    """A guard that all CTAs enter: they add parts that are not there, and write the outputs several times."""
    case = CASES["even"]
    module = lowered(case, "ticket")
    ticket = first(module, kernel.TicketOp)
    (guard,) = (use.operation for use in ticket.results[0].uses)
    assert isinstance(guard, loop.GuardOp)
    for op in list(guard.body.block.ops):
        op.detach()
        Rewriter.insert_op(op, InsertPoint.before(ticket))
    found = findings(module, case)
    assert any("data race" in text and "kernel.move 4 %acc_part[" in text for text in found)


CHOSEN = {
    (128, 3584, 3584): "s=7 over=block",
    (32, 3584, 3584): "s=7 over=block",
    (2048, 2048, 2048): None,
    (64, 100, 64): None,
    (16, 16, 64): None,
}
"""The parts that an H100 gets for contractions of m x n outputs and k products: none where its SMs are filled."""


@pytest.mark.parametrize("extents", CHOSEN, ids=lambda extents: "x".join(map(str, extents)))
def test_chosen_parts(extents: tuple[int, int, int]) -> None:
    m, n, k = extents
    (function,) = Parser(CONTEXT, Case(1, m, n, k, 1).text()).parse_module().ops
    assert isinstance(function, func.FuncOp)
    schedule = format_schedule(choose(function))
    expected = CHOSEN[extents]
    assert "split-matmul-k" not in schedule if expected is None else f"split-matmul-k{{{expected}}}" in schedule


@pytest.mark.parametrize(
    ("position", "reason", "refusal"),
    [
        (
            0,
            "with no kernel.cluster_barrier between",
            "kernel.cluster_move reads what this CTA writes, with no kernel.cluster_barrier between; add one",
        ),
        (
            1,
            "the CTA whose memory it reads may have ended",
            "the CTA whose memory kernel.cluster_move reads may have ended; a kernel.cluster_barrier must follow",
        ),
    ],
    ids=["before the reads", "after the reads"],
)
def test_a_missing_cluster_barrier_is_reported(position: int, reason: str, refusal: str) -> None:
    case = CASES["even"]
    module = lowered(case, "cluster")
    barriers = [op for op in module.walk() if isinstance(op, kernel.ClusterBarrierOp)]
    assert len(barriers) == 2
    Rewriter.replace_op(barriers[position], kernel.BarrierOp())
    found = findings(module, case)
    assert any("missing cluster barrier: `kernel.cluster_move 4 %part[" in text for text in found)
    assert any(reason in text for text in found)
    with pytest.raises(DiagnosticException, match=refusal):
        VerifyBarriersPass().apply(CONTEXT, module)


def test_a_cluster_barrier_that_some_threads_miss_is_reported() -> None:
    case = CASES["even"]
    module = lowered(case, "cluster")
    last = [op for op in module.walk() if isinstance(op, kernel.ClusterBarrierOp)][-1]
    function = last.parent_op()
    assert isinstance(function, kernel.FuncOp)
    some = AffineMap(1, 0, (AffineExpr.dimension(0), AffineExpr.constant(8)))
    guard = loop.GuardOp(some, [function.thread_id], Region(Block()))
    Rewriter.insert_op(guard, InsertPoint.before(last))
    last.detach()
    guard.body.block.add_op(last)
    assert any("divergent barrier: `kernel.cluster_barrier`" in text for text in findings(module, case))


def test_ctas_of_a_cluster_share_whole_warps() -> None:
    """Five CTAs share the outputs of four warps, whose lanes exchange their neighbours before they store them."""
    from deplodock.frontend.arrays import to_array
    from deplodock.frontend.expression import read_expression

    schedule = (
        "tileify,chunk-matmul-k{bk=32 kv=1},split-matmul-k{s=5 over=cluster},blockify-launch{m=48 n=64},"
        "stage-inputs{memory=shared transpose=never},tensor-tile{engine=mma m=32 n=32}"
    )
    product = "F.linear(torch.randn(48, 160, dtype=torch.float16), torch.randn(64, 160, dtype=torch.float16))"
    program = read_expression(product, seed=0)
    lower(program.module, CONTEXT, Level.KERNEL, target="sm_90", schedule=schedule)
    assert "kernel.shuffle_xor" in str(program.module)
    found = simulate(program.module, [to_array(value) for value in program.inputs])
    assert not found.findings
    assert np.allclose(found.outputs[0].astype(np.float64), to_array(program.reference()[0]), atol=0.05)


def test_clusters_are_refused_where_the_target_has_none() -> None:
    module = Parser(CONTEXT, CASES["even"].text()).parse_module()
    lower(module, CONTEXT, Level.LOOP, target="sm_80")
    TileifyPass().apply(CONTEXT, module)
    with pytest.raises(PassFailedException, match="sm_80 has no clusters"):
        SplitMatmulKPass(s=4, over="cluster").apply(CONTEXT, module)


@pytest.mark.skipif(find_nvcc() is None, reason="needs nvcc")
@pytest.mark.parametrize("over", FORMS)
def test_code_does_not_spill(over: str) -> None:
    cubin = compile_cubin(print_module(lowered(Case(1, 128, 128, 512, 4, tile=64), over)), "sm_90a")
    for report in cubin.reports.values():
        assert (report.stack_frame, report.spill_stores, report.spill_loads) == (0, 0, 0)
