"""Contractions whose CTAs share the steps of all tiles: right, the same bits in any order of CTAs, one epilogue."""

from __future__ import annotations

from dataclasses import dataclass

import ml_dtypes
import numpy as np
import pytest
from residual_products import ResidualProduct, check_two_products
from xdsl.dialects import func
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir.affine import AffineMap
from xdsl.parser import Parser
from xdsl.rewriter import Rewriter

from deplodock.analysis.affine.linear import Linear
from deplodock.analysis.shape.shares import Shares
from deplodock.codegen.cuda import print_module
from deplodock.dialects import kernel
from deplodock.interpreters.simulate import launch, simulate
from deplodock.passes.driver import Level, lower, new_context
from deplodock.runtime.nvcc import compile_cubin, find_nvcc
from deplodock.schedule.choose.kernels import choose
from deplodock.schedule.steps import format_schedule

CONTEXT = new_context()


@dataclass(frozen=True)
class Case(ResidualProduct):
    """A product in tiles of `tile` x `tile`, whose steps `ctas` CTAs share."""

    ctas: int
    ring: str = "distance=1 barrier=mbarrier"
    tile: int = 16
    registers: int = 4

    @property
    def schedule(self) -> str:
        return (
            f"tileify,chunk-matmul-k{{bk=8}},blockify-launch{{m={self.tile} n={self.tile} occupancy=2 raster=2}},"
            f"stage-inputs{{transpose=auto}},register-tile{{m={self.registers} n={self.registers}}},"
            "permute-register-tile{m=strips n=strips},"
            f"double-buffer{{depth=3}},async-copy,pad-smem,pipeline-k-outer{{{self.ring}}},mark-unroll,"
            f"stream-matmul-k{{ctas={self.ctas}}}"
        )

    def lowered(self) -> ModuleOp:
        return self.scheduled(self.schedule)


CASES = {
    "several tiles each": Case(1, 32, 64, 64, 3),
    "several CTAs a tile": Case(1, 20, 24, 100, 7),
    "an odd end": Case(1, 32, 32, 128, 5, "distance=2 barrier=cta"),
    "batch": Case(3, 10, 18, 77, 5),
    "whole tiles": Case(1, 32, 32, 64, 2),
    "one tile": Case(1, 16, 16, 96, 3),
    "many sums a thread": Case(1, 40, 64, 64, 3, tile=32, registers=8),
}


@pytest.mark.parametrize("name", CASES)
def test_streamed_contraction(name: str) -> None:
    CASES[name].check(CASES[name].lowered(), order=1)


def test_same_bits_in_any_order_of_ctas() -> None:
    case = CASES["batch"]
    case.check_bits(case.lowered(), orders=4)


def test_ctas_that_do_not_run_together(monkeypatch: pytest.MonkeyPatch) -> None:
    """No CTA waits for another one: they may run one after the other, in any order."""
    monkeypatch.setattr(launch, "_LANES_AT_ONCE", 1)
    case = CASES["several CTAs a tile"]
    for order in range(2):
        case.check(case.lowered(), order)


def test_sums_of_two_products() -> None:
    check_two_products(CASES["several CTAs a tile"].schedule)


HALVES = """
func.func @k(%x: memref<128x320xbf16>, %w: memref<128x320xbf16>, %out: memref<128x128xf32>) {
  loop.for %m = 0 to 128 {
    loop.for %n = 0 to 128 {
      %acc = loop.reduce {arith.addf} %k = 0 to 320 : f32 {
        %u = loop.load %x[%m, %k] : memref<128x320xbf16>
        %v = loop.load %w[%n, %k] : memref<128x320xbf16>
        %a = arith.extf %u : bf16 to f32
        %b = arith.extf %v : bf16 to f32
        %p = arith.mulf %a, %b : f32
        loop.yield %p : f32
      }
      loop.store %acc, %out[%m, %n] : memref<128x128xf32>
    }
  }
  func.return
}
"""


def test_a_producer_runs_on_into_the_next_tile() -> None:
    """Its copies are those of the steps of the CTA, of whatever tile; the readers alone take tickets."""
    module = Parser(CONTEXT, HALVES).parse_module()
    schedule = (
        "tileify,chunk-matmul-k{bk=64 kv=1},blockify-launch{m=128 n=64},stage-inputs{memory=shared transpose=never},"
        "tensor-tile{engine=wgmma m=64 n=64},double-buffer{depth=3},tma-copy,split-inner-for-swizzle,"
        "pipeline-k-outer{distance=producer},mark-unroll,stream-matmul-k{ctas=3}"
    )
    lower(module, CONTEXT, Level.KERNEL, target="sm_90", schedule=schedule)
    (ticket,) = (op for op in module.walk() if isinstance(op, kernel.TicketOp))
    assert kernel.team_of(ticket).role_name == "consumers"
    generator = np.random.default_rng(0)
    x, w = (generator.integers(-3, 4, (128, 320)).astype(ml_dtypes.bfloat16) for _ in range(2))
    result = simulate(module, [x, w], order=1)
    assert not result.findings, result.findings[0]
    np.testing.assert_array_equal(result.outputs[0], x.astype(np.float32) @ w.astype(np.float32).T)


def findings(module: ModuleOp, case: Case) -> list[str]:
    return [str(finding) for finding in simulate(module, case.draw(integers=True)).findings]


@pytest.mark.parametrize("position", [0, 1], ids=["behind the stores", "before the reads"])
def test_a_missing_fence_is_reported(position: int) -> None:
    case = CASES["several CTAs a tile"]
    module = case.lowered()
    fence = [op for op in module.walk() if isinstance(op, kernel.FenceOp)][position]
    Rewriter.erase_op(fence)
    found = findings(module, case)
    assert any("kernel @k: data race: `kernel.move 4 %acc_part[" in text for text in found)
    assert any("with no kernel.fence and kernel.ticket after the first" in text for text in found)


@pytest.mark.parametrize("ctas", [1, 2])
def test_a_ticket_of_too_few_ctas_is_reported(ctas: int) -> None:
    case = CASES["several CTAs a tile"]
    module = case.lowered()
    (ticket,) = (op for op in module.walk() if isinstance(op, kernel.TicketOp))
    place, count = (ticket.map.data, ticket.indices), (AffineMap.constant_map(ctas), ())
    Rewriter.replace_op(ticket, kernel.TicketOp(ticket.counter, place, count))
    found = findings(module, case)
    assert any("data race: `kernel.move 4 %acc_part[" in text for text in found)


def test_a_ticket_of_too_many_ctas_is_reported() -> None:
    case = CASES["several CTAs a tile"]
    module = case.lowered()
    (ticket,) = (op for op in module.walk() if isinstance(op, kernel.TicketOp))
    place, count = (ticket.map.data, ticket.indices), (AffineMap.constant_map(9), ())
    Rewriter.replace_op(ticket, kernel.TicketOp(ticket.counter, place, count))
    assert any("open ticket: `%last = kernel.ticket %turns[" in text for text in findings(module, case))


CHOSEN = {(512, 3584, 3584): True, (4096, 4096, 4096): True, (2048, 2048, 2048): False, (64, 100, 64): False}
"""Whether an H100 shares the steps of a contraction of m x n outputs and k products: not where tiles fill its SMs."""


@pytest.mark.parametrize("extents", CHOSEN, ids=lambda extents: "x".join(map(str, extents)))
def test_chosen(extents: tuple[int, int, int]) -> None:
    (function,) = Parser(CONTEXT, Case(1, *extents, 1).text()).parse_module().ops
    assert isinstance(function, func.FuncOp)
    assert format_schedule(choose(function)).endswith("mark-unroll,stream-matmul-k{ctas=264}") == CHOSEN[extents]


@pytest.mark.parametrize(
    "shares", [Shares(5, 7, 3), Shares(3, 16, 7), Shares(112, 112, 264), Shares(4, 3, 12)], ids=str
)
def test_parts_cover_the_steps_once(shares: Shares) -> None:
    """The first CTA of a tile and their number are those that a count of all steps gives."""
    owners = [step // shares.length for step in range(shares.tiles * shares.steps)]
    assert len(set(owners)) == shares.busy
    for number in range(shares.tiles):
        ctas = sorted(set(owners[number * shares.steps : (number + 1) * shares.steps]))
        at = Linear(constant=number)
        assert (shares.first(at).constant, shares.parts(at).constant) == (ctas[0], len(ctas))
        assert len(ctas) <= shares.most_parts


@pytest.mark.parametrize(("tiles", "ctas", "busy", "turns"), [(384, 132, 128, 3), (396, 132, 132, 3), (5, 7, 5, 1)])
def test_as_few_ctas_take_tiles_as_need_no_more_turns(tiles: int, ctas: int, busy: int, turns: int) -> None:
    shares = Shares(tiles, 4, ctas, takes_tiles=True)
    assert (shares.busy, shares.turns, shares.is_whole) == (busy, turns, True)
    assert Shares(tiles, 4, busy, takes_tiles=True).turns == turns


@pytest.mark.skipif(find_nvcc() is None, reason="needs nvcc")
def test_code_does_not_spill_and_sets_sums_in_a_branch() -> None:
    """Sums that start anew with a tile are no selection of each register in each step."""
    text = print_module(Case(1, 128, 128, 512, 7, tile=64).lowered())
    assert text.count('asm volatile("");') == 1
    cubin = compile_cubin(text, "sm_90a")
    for report in cubin.reports.values():
        assert (report.stack_frame, report.spill_stores, report.spill_loads) == (0, 0, 0)
