"""Narrow elements under default schedules: 16-byte accesses, and results as in float64."""

from typing import Any

import pytest
from xdsl.dialects.builtin import ModuleOp

from deplodock.analysis.host.arguments import entry_function
from deplodock.analysis.shape.roundings import Roundings, roundings
from deplodock.dialects import kernel
from deplodock.dialects.tile import memory_of
from deplodock.interpreters.check import draw_inputs, input_types
from deplodock.interpreters.evaluate import run
from deplodock.interpreters.simulate import simulate
from deplodock.passes.driver import Level, lower, new_context
from deplodock.runtime.compare import compare

frontend = pytest.importorskip("deplodock.frontend.expression", reason="needs PyTorch")

CONTEXT = new_context()
MANY = "torch.randn(512, 1024, dtype=torch.{type})"


GATED = (
    "t = torch.{type}; x = torch.randn({m}, {k}, dtype=t); g = torch.randn({n}, {k}, dtype=t);"
    "u = torch.randn({n}, {k}, dtype=t); F.silu(F.linear(x, g)) * F.linear(x, u)"
)

RING = (
    "tileify,chunk-matmul-k{bk=32 kv=4},blockify-launch{m=32 n=64},stage-inputs{transpose=never},"
    "register-tile{m=4 n=4},permute-register-tile{m=strided n=strided lanes=nmnnm},double-buffer{depth=3},"
)


TYPES = ["float16", "bfloat16"]
"""Cases take turns at them: rules ask how wide an element is, not of which type."""

WIDEST = [
    (f"F.silu({MANY}) * {MANY}", 8),
    (f"F.softmax({MANY}, dim=-1)", 8),
    (f"F.rms_norm({MANY}, (1024,), torch.randn(1024, dtype=torch.{{type}}), 1e-6)", 8),
    (f"{MANY}.sum(0)", 1),
    (f"{MANY}.float() * 2", 4),
    (f"{MANY}[:, 1:] * {MANY}[:, :1023]", 1),
    (f"{MANY}[:, 2:] * 2", 2),
    (f"{MANY}[:, 4:] * 2", 4),
    ("torch.randn(300, 1000, dtype=torch.{type}) * 2", 8),
    ("F.softmax(torch.randn(9, 1001, dtype=torch.{type}), dim=-1)", 1),
    ("F.softmax(torch.randn(9, 1028, dtype=torch.{type}), dim=-1)", 4),
    ("torch.randn(33, 72, dtype=torch.{type}) @ torch.randn(72, 40, dtype=torch.{type})", 8),
    ("F.linear(torch.randn(130, 648, dtype=torch.{type}), torch.randn(96, 648, dtype=torch.{type}))", 8),
    ("F.linear(torch.randn(130, 644, dtype=torch.{type}), torch.randn(96, 644, dtype=torch.{type}))", 8),
    ("F.linear(torch.randn(130, 72, dtype=torch.{type}), torch.randn(96, 72, dtype=torch.{type}))", 8),
    ("F.linear(torch.randn(9, 648, dtype=torch.{type}), torch.randn(96, 648, dtype=torch.{type})[:, :])", 8),
    ("torch.randn(7, 33, dtype=torch.{type}) @ torch.randn(33, 30, dtype=torch.{type})", 2),
]
"""Programs of halves, and the most elements that an access of global memory takes at once."""


SLABS = [
    ("async-copy,pad-smem,pipeline-k-outer{distance=2},mark-unroll", "kernel.move 8 async"),
    ("async-copy,pad-smem,pipeline-k-outer{distance=1 barrier=mbarrier},mark-unroll", "kernel.move 8 async"),
    (
        "tma-copy,split-inner-for-swizzle,pipeline-k-outer{distance=1 barrier=mbarrier},mark-unroll",
        "#tile.swizzle<64>",
    ),
    ("pad-smem,mark-unroll", "kernel.move 8 "),
]
"""Rules after those of the ring, and what is in its kernel then."""


def lowered(expression: str, schedule: str | None = None) -> tuple[ModuleOp, ModuleOp]:
    """A program at tensor level and its kernels."""
    module = frontend.read_expression(expression).module
    lower(module, CONTEXT, Level.TENSOR)
    kernels = module.clone()
    lower(kernels, CONTEXT, Level.KERNEL, target="sm_90", schedule=schedule)
    return module, kernels


def widest(module: ModuleOp) -> int:
    """The most elements that an access of global memory takes at once."""
    moves = (op for op in module.walk() if isinstance(op, kernel.MoveOp))
    return max((op.elements for op in moves if None in (memory_of(op.source), memory_of(op.destination))), default=1)


@pytest.mark.parametrize(("expression", "wanted", "type"), [(*WIDEST[n], TYPES[n % 2]) for n in range(len(WIDEST))])
def test_half_precision(expression: str, wanted: int, type: str) -> None:
    """Accesses of 8 halves wherever extents and offsets are multiples of 8 and no float is moved along.

    What tensor cores compute is stored in pairs, as parts of k are, or in 16 bytes where lanes can exchange those of
    four blocks; where rows allow it, its factors come in boxes.
    """
    module, kernels = lowered(expression.format(type=type))
    assert widest(kernels) == wanted
    check(module, kernels)


def check(module: ModuleOp, kernels: ModuleOp) -> None:
    """The simulator computes what the program says, within the bar, and finds no fault."""
    inputs = draw_inputs(input_types(entry_function(module)), 0, "normal")
    reference = run(module, inputs, precision="float64").outputs
    result = simulate(kernels, inputs)
    assert not result.findings, result.findings[0]
    for got, exact in zip(result.outputs, reference, strict=True):
        verdict = compare(got, exact, None, roundings(module))
        assert verdict.passed, verdict


@pytest.mark.parametrize(
    ("element", "m", "n", "k", "functions", "engine"),
    [
        ("bfloat16", 130, 72, 200, 1, kernel.WgmmaOp),
        ("float16", 40, 88, 72, 1, kernel.MmaOp),
        ("bfloat16", 8, 40, 72, 1, kernel.MmaOp),
        ("float32", 40, 88, 72, 2, None),
    ],
)
def test_gate_and_up(element: str, m: int, n: int, k: int, functions: int, engine: Any) -> None:
    """One kernel where tensor cores take the factors, on ragged shapes and with few rows too; two of f32."""
    module, kernels = lowered(GATED.format(type=element, m=m, n=n, k=k))
    engines = {type(op) for op in kernels.walk() if isinstance(op, kernel.WgmmaOp | kernel.MmaOp)}
    assert engines == ({engine} if engine else set())
    assert sum(isinstance(op, kernel.FuncOp) for op in kernels.ops) == functions
    check(module, kernels)


@pytest.mark.parametrize(("rules", "copies", "type"), [(*SLABS[n], TYPES[n % 2]) for n in range(len(SLABS))])
def test_slabs_of_halves(rules: str, copies: str, type: str) -> None:
    """Slabs keep the narrow type, copied asynchronously, in swizzled boxes or by threads; readers cast."""
    shapes = [(64, 328), (128, 328)]
    left, right = (f"torch.randn({m}, {k}, dtype=torch.{type})" for m, k in shapes)
    module, kernels = lowered(f"F.linear({left}, {right})", RING + rules)
    assert copies in str(kernels)
    inputs = draw_inputs(input_types(entry_function(module)), 0, "normal")
    result = simulate(kernels, inputs)
    assert not result.findings, result.findings[0]
    verdict = compare(result.outputs[0], run(module, inputs, precision="float64").outputs[0], None, Roundings(328))
    assert verdict.passed, verdict


@pytest.mark.parametrize(
    ("expression", "wanted"),
    [
        ("torch.randint(0, 9, (1024, 1024), dtype=torch.{type}) + 3", 16),
        ("torch.randint(0, 9, (1024, 1024), dtype=torch.{type})[:, 8:] + 3", 8),
        ("torch.randint(0, 9, (40, 2048), dtype=torch.{type}).sum(-1)", 16),
        ("torch.randint(0, 9, (7, 999), dtype=torch.{type}).sum(-1)", 1),
        (
            "torch.randint(0, 9, (512, 512), dtype=torch.{type}) > torch.randint(0, 9, (512, 512), dtype=torch.{type})",
            4,
        ),
    ],
)
@pytest.mark.parametrize("type", ["int8", "uint8"])
def test_bytes(expression: str, wanted: int, type: str) -> None:
    """Accesses of 16 bytes where there are elements for all threads; fewer where the grid would be too small."""
    module, kernels = lowered(expression.format(type=type))
    assert widest(kernels) == wanted
    inputs = draw_inputs(input_types(entry_function(module)), 0, "integers", lowest=0)
    reference = run(module, inputs).outputs
    result = simulate(kernels, inputs)
    assert not result.findings, result.findings[0]
    for got, exact in zip(result.outputs, reference, strict=True):
        assert compare(got, exact, None, Roundings()).passed
