"""What default schedules promise about the code they give: read off the IR, the simulator's counts and nvcc's code."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache

import numpy as np
import pytest
from xdsl.dialects.builtin import ModuleOp, StringAttr
from xdsl.ir import Operation

from deplodock.analysis.machine.banks import kernel_wavefronts
from deplodock.analysis.machine.targets import nvcc_arch
from deplodock.codegen.cuda import print_module
from deplodock.dialects import kernel, loop, tile
from deplodock.dialects.tile import Memory, memory_of
from deplodock.interpreters.simulate import simulate
from deplodock.passes.driver import Level, lower, new_context
from deplodock.runtime.nvcc import KernelReport, compile_cubin, find_nvcc
from deplodock.runtime.sass import LoopStatistics, disassemble, find_nvdisasm, loop_statistics
from deplodock.schedule.steps import ATTRIBUTE

frontend = pytest.importorskip("deplodock.frontend.expression", reason="needs PyTorch")
needs_nvcc = pytest.mark.skipif(find_nvcc() is None or find_nvdisasm() is None, reason="needs nvcc and nvdisasm")

CONTEXT = new_context()

CONTRACTIONS = {
    "linear": "F.linear(torch.randn({m}, {k}), torch.randn({n}, {k}))",
    "matmul": "torch.matmul(torch.randn({m}, {k}), torch.randn({k}, {n}))",
}
HALVES = {
    "bf16_linear": "F.linear(torch.randn({m}, {k}, dtype=torch.bfloat16), torch.randn({n}, {k}, dtype=torch.bfloat16))",
    "bf16_matmul": "torch.randn({m}, {k}, dtype=torch.bfloat16) @ torch.randn({k}, {n}, dtype=torch.bfloat16)",
}
EXPRESSIONS = {
    **CONTRACTIONS,
    **HALVES,
    "residual": CONTRACTIONS["linear"] + " + torch.randn({m}, {n})",
    "few_rows": HALVES["bf16_linear"].replace("{m}", "8"),
}
GATED = (
    "t = torch.bfloat16; x = torch.randn({m}, {k}, dtype=t); g = torch.randn({n}, {k}, dtype=t);"
    "u = torch.randn({n}, {k}, dtype=t); F.silu(F.linear(x, g)) * F.linear(x, u)"
)
RMS_NORM = "torch.nn.RMSNorm(2048)(torch.randn(1,32,2048))"
REGISTERS = 65536
"""The registers of an SM (CUDA programming guide, compute capabilities)."""


@cache
def captured(expression: str) -> ModuleOp:
    return frontend.read_expression(expression).module


@cache
def lowered(name: str, target: str = "sm_90") -> ModuleOp:
    """The kernel of a contraction of 512 x 3584 by 3584 x 3584."""
    module = captured(EXPRESSIONS[name].format(m=512, n=3584, k=3584)).clone()
    lower(module, CONTEXT, Level.KERNEL, target=target)
    return module


def function_of(module: ModuleOp) -> kernel.FuncOp:
    """The first kernel: of a contraction whose k is split, the launch that computes the parts."""
    return next(op for op in module.ops if isinstance(op, kernel.FuncOp))


@dataclass(frozen=True)
class Code:
    """What nvcc says of a kernel, and the statistics of its hot loop."""

    report: KernelReport
    loop: LoopStatistics

    @property
    def spilled(self) -> tuple[int, int, int, int]:
        return self.report.stack_frame, self.report.spill_stores, self.report.spill_loads, self.loop.spills


@cache
def compiled(name: str, target: str = "sm_90") -> Code:
    cubin = compile_cubin(print_module(lowered(name, target)), nvcc_arch(target))
    symbol = function_of(lowered(name, target)).sym_name.data
    assert all(report.spill_stores == report.spill_loads == 0 for report in cubin.reports.values())
    return Code(cubin.reports[symbol], loop_statistics(disassemble(cubin.cubin)[symbol]))


@needs_nvcc
@pytest.mark.parametrize("name", CONTRACTIONS)
def test_code_of_a_contraction(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    code, function = compiled(name), function_of(lowered(name))
    with capsys.disabled():
        print(f"\n{name} 512x3584x3584, sm_90: {code.report.registers} registers, {code.loop}")
    assert code.spilled == (0, 0, 0, 0)
    assert code.report.registers <= REGISTERS // (function.num_threads * function.occupancy.value.data)
    assert code.loop.is_loop
    assert code.loop.instructions <= 1200
    assert code.loop.cycles_per_ffma <= 1.16
    assert code.loop.median_lds_to_use is not None
    assert code.loop.median_lds_to_use >= 40
    assert set(code.loop.widths["LDS"]) == {128}
    assert not set(code.loop.widths) & {"STS", "LDG", "STG"}


@needs_nvcc
@pytest.mark.parametrize(
    ("name", "target"),
    [("linear", "sm_80"), ("matmul", "sm_80"), ("linear", "sm_120"), ("matmul", "sm_120"), ("residual", "sm_90")],
)
def test_code_of_a_contraction_does_not_spill(name: str, target: str) -> None:
    assert compiled(name, target).spilled == (0, 0, 0, 0)


@needs_nvcc
@pytest.mark.parametrize("target", ["sm_80", "sm_120"])
@pytest.mark.parametrize("name", ["bf16_linear", "bf16_matmul"])
def test_code_of_a_contraction_by_tensor_cores(name: str, target: str, capsys: pytest.CaptureFixture[str]) -> None:
    """All products are HMMA, with nothing but reads of fragments, copies and their synchronisation beside them."""
    code, function = compiled(name, target), function_of(lowered(name, target))
    with capsys.disabled():
        print(f"\n{name} 512x3584x3584, {target}: {code.report.registers} registers, {code.loop}")
    assert any(isinstance(op, kernel.MmaOp) for op in function.walk())
    assert code.report.spill_stores == code.report.spill_loads == 0
    assert code.report.registers <= REGISTERS // (function.num_threads * function.occupancy.value.data)
    assert code.loop.is_loop
    assert code.loop.hmma >= 32
    assert code.loop.ffma == 0
    assert code.loop.instructions <= 9 * code.loop.hmma, "a branch goes around those of masks"
    assert not set(code.loop.widths) & {"STS", "LDG", "STG"}


@needs_nvcc
@pytest.mark.parametrize(
    ("heads", "size", "target"), [(32, 64, "sm_80"), (2, 64, "sm_80"), (28, 128, "sm_80"), (2, 128, "sm_120")]
)
def test_code_of_attention_by_tensor_cores(heads: int, size: int, target: str) -> None:
    """All products are HMMA, of factors that are read as matrices; weights stay in registers, an FFMA for each."""
    code = _code_of_attention(heads, size, target)
    assert code.spilled == (0, 0, 0, 0)
    assert code.loop.is_loop
    assert code.loop.hmma >= 64
    assert code.loop.ffma <= code.loop.hmma // 2, "one for each score"
    assert code.loop.instructions <= 9 * code.loop.hmma, "a branch goes around those of masks"
    assert not set(code.loop.widths) & {"STS", "LDG", "STG"}


def _code_of_attention(heads: int, size: int, target: str) -> Code:
    shape = f"torch.empty(1, {heads}, 2048, {size}, dtype=torch.bfloat16)"
    module = captured(f"F.scaled_dot_product_attention({shape}, {shape}, {shape}, is_causal=True)").clone()
    lower(module, CONTEXT, Level.KERNEL, target=target)
    (function,) = [op for op in module.ops if isinstance(op, kernel.FuncOp)]
    cubin = compile_cubin(print_module(module), nvcc_arch(target))
    loops = loop_statistics(disassemble(cubin.cubin)[function.sym_name.data])
    return Code(cubin.reports[function.sym_name.data], loops)


@needs_nvcc
@pytest.mark.parametrize(("heads", "size"), [(2, 64), (28, 128), (8, 256)])
def test_code_of_attention_by_warpgroups(heads: int, size: int) -> None:
    """All products are HGMMA of weights in registers and tiles in shared memory, which threads do not touch."""
    code = _code_of_attention(heads, size, "sm_90")
    assert code.spilled == (0, 0, 0, 0)
    assert code.loop.is_loop
    assert code.loop.hgmma == size // 16 + (64 if size > 128 else 128) // 16
    assert code.loop.hmma == 0
    assert not code.loop.widths


@needs_nvcc
@pytest.mark.parametrize("target", ["sm_80", "sm_90"])
def test_code_of_few_rows(target: str) -> None:
    """Both factors of all products of a step come from global memory, 16 bytes at once."""
    code = compiled("few_rows", target)
    assert code.spilled == (0, 0, 0, 0)
    assert code.loop.is_loop
    assert code.loop.hmma == 8
    assert set(code.loop.widths["LDG"]) == {128}
    assert code.loop.widths["LDG"][128] == 8 + 4
    assert not set(code.loop.widths) & {"LDS", "STS", "STG"}


@needs_nvcc
def test_code_of_a_contraction_by_warpgroups(capsys: pytest.CaptureFixture[str]) -> None:
    """A producer copies; a step is one group of HGMMA that nothing cuts in pieces, and no copy stands beside it."""
    code, function = compiled("bf16_linear"), function_of(lowered("bf16_linear"))
    with capsys.disabled():
        print(f"\nbf16_linear 512x3584x3584, sm_90: {code.report.registers} registers, {code.loop}")
    producer, consumers = function.roles
    assert (producer.num_registers, consumers.num_registers) == (24, 240)
    assert code.spilled == (0, 0, 0, 0)
    assert code.loop.is_loop
    assert code.loop.hgmma == 4
    assert code.loop.instructions <= 30 * code.loop.hgmma
    assert not code.loop.widths


@pytest.mark.parametrize("name", CONTRACTIONS)
def test_shared_accesses_of_a_contraction(name: str) -> None:
    """All accesses of shared memory are free of conflicts, and those of the inner loop are 16 bytes wide."""
    function = function_of(lowered(name))
    shared = [op for op in function.walk() if any(memory_of(value) is Memory.SHARED for value in sides(op))]
    reads = [op for op in shared if memory_of(sides(op)[0]) is Memory.SHARED]
    wavefronts = kernel_wavefronts(function)
    assert len(reads) == 2
    for op in shared:
        assert not wavefronts[op].has_conflicts, str(op)
    for op in reads:
        assert isinstance(op, kernel.MoveOp)
        assert op.elements * 4 == 16


@needs_nvcc
def test_code_of_gate_and_up(capsys: pytest.CaptureFixture[str]) -> None:
    """Both products are one instruction of twice the columns, in one loop behind its first step, and nothing spills."""
    module = captured(GATED.format(m=512, n=18944, k=3584)).clone()
    lower(module, CONTEXT, Level.KERNEL, target="sm_90")
    cubin = compile_cubin(print_module(module), nvcc_arch("sm_90"))
    (report,), (function,) = cubin.reports.values(), (op for op in module.ops if isinstance(op, kernel.FuncOp))
    with capsys.disabled():
        print(f"\ngate and up 512x18944x3584, sm_90: {report.registers} registers")
    names = [op.name for op in function.walk() if op.name.startswith("kernel.wgmma")]
    step = ("_fence", "", "_commit")
    assert names == [f"kernel.wgmma{part}" for part in (*step, *step, "_wait", "_wait")]
    assert max(stored(function)) == 8
    assert (report.stack_frame, report.spill_stores, report.spill_loads) == (0, 0, 0)


def stored(function: kernel.FuncOp) -> set[int]:
    """The elements that accesses write to global memory at once."""
    moves = [op for op in function.walk() if isinstance(op, kernel.MoveOp) and memory_of(op.destination) is None]
    others = [op for op in function.walk() if isinstance(op, loop.StoreOp) and memory_of(op.destination) is None]
    return {op.elements for op in moves} | ({1} if others else set())


def sides(op: Operation) -> tuple:
    """What an access reads from and writes to, as far as that is memory."""
    match op:
        case kernel.MoveOp():
            return op.source, op.destination
        case loop.LoadOp():
            return (op.source,)
        case loop.StoreOp():
            return (op.destination,)
        case _:
            return ()


def chosen_schedule(module: ModuleOp) -> str:
    (schedule,) = (op.attributes[ATTRIBUTE] for op in module.ops if ATTRIBUTE in op.attributes)
    assert isinstance(schedule, StringAttr)
    return schedule.data


@pytest.mark.parametrize("name", CONTRACTIONS)
def test_the_schedule_of_a_large_contraction_is_right_on_a_ragged_one(name: str) -> None:
    large = captured(EXPRESSIONS[name].format(m=512, n=3584, k=3584)).clone()
    lower(large, CONTEXT, Level.TILE, target="sm_90")
    schedule = chosen_schedule(large)
    for rule in (
        "transpose=auto",
        "register-tile{",
        "async-copy",
        "pad-smem",
        "pipeline-k-outer{distance=1 barrier=mbarrier}",
    ):
        assert rule in schedule
    module = captured(EXPRESSIONS[name].format(m=130, n=96, k=650)).clone()
    lower(module, CONTEXT, Level.TILE, target="sm_90", schedule=schedule)
    assert chosen_schedule(module) == schedule
    assert any(isinstance(op, tile.RingOp) for op in module.walk())
    lower(module, CONTEXT, Level.KERNEL)
    generator = np.random.default_rng(0)
    x, w = (generator.integers(-2, 3, shape).astype(np.float32) for shape in ((130, 650), (650, 96)))
    result = simulate(module, [x, np.ascontiguousarray(w.T) if name == "linear" else w])
    assert not result.findings, result.findings[0]
    np.testing.assert_array_equal(result.outputs[0], x @ w)


@pytest.mark.parametrize(
    ("expression", "verify", "most"),
    [(EXPRESSIONS["linear"].format(m=512, n=3584, k=3584), False, 1_100_000), (RMS_NORM, True, 345_000)],
    ids=["linear", "rms_norm"],
)
def test_work_of_the_pipeline(
    expression: str,
    verify: bool,
    most: int,
    capsys: pytest.CaptureFixture[str],
    count_calls: Callable[[Callable[[], object]], int],
) -> None:
    """From the captured graph to CUDA, as the calls that fit in the time meant: 0.3 s of an idle core are a million."""
    program = captured(expression)

    def work() -> None:
        module = program.clone()
        lower(module, CONTEXT, Level.KERNEL, target="sm_90", verify=verify)
        print_module(module)

    start = time.process_time()
    work()
    seconds = time.process_time() - start
    calls = count_calls(work)
    with capsys.disabled():
        print(f"\n{expression} to CUDA: {seconds:.3f} s, {calls} calls")
    assert calls < most


def test_rms_norm_reads_each_element_once(capsys: pytest.CaptureFixture[str]) -> None:
    module = captured(RMS_NORM).clone()
    lower(module, CONTEXT, Level.KERNEL, target="sm_90")
    function, generator = function_of(module), np.random.default_rng(0)
    x, w = (generator.standard_normal(shape).astype(np.float32) for shape in ((1, 32, 2048), (2048,)))
    result = simulate(module, [x, w])
    (counters,) = result.counters.values()
    with capsys.disabled():
        print(f"\nRMSNorm(2048): {counters.global_bytes_read} bytes = {x.nbytes} + {function.num_blocks} x {w.nbytes}")
    assert result.findings == []
    assert counters.global_bytes_read == x.nbytes + function.num_blocks * w.nbytes
    assert counters.global_bytes_written == x.nbytes
    expected = x / np.sqrt((x.astype(np.float64) ** 2).mean(-1, keepdims=True) + np.finfo(np.float32).eps) * w
    np.testing.assert_allclose(result.outputs[0], expected, rtol=1e-5, atol=1e-6)
    accesses = [op for op in function.walk() if any(memory_of(value) is None for value in sides(op))]
    assert accesses
    assert {op.elements * 4 if isinstance(op, kernel.MoveOp) else 0 for op in accesses} == {16}
    assert sum(isinstance(op, kernel.ShuffleXorOp) for op in function.walk()) == 5


@needs_nvcc
def test_code_of_rms_norm() -> None:
    """128-bit accesses of global memory only, and shuffles."""
    module = captured(RMS_NORM).clone()
    lower(module, CONTEXT, Level.KERNEL, target="sm_90")
    (code,) = disassemble(compile_cubin(print_module(module), "sm_90a").cubin).values()
    assert {i.bits for i in code if i.opcode in ("LDG", "STG")} == {128}
    assert sum(i.opcode == "SHFL" for i in code) == 5
