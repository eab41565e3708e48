"""Products drawn at random, of factors that are parts of tensors, and what the heuristics make of them.

    python test/shared/drawn_products.py FIRST COUNT

draws so many from a seed on, lowers each, and prints those that are refused, or whose rules for tensor cores are left
out though they were chosen. Nothing is multiplied: the tensors of a drawn text have no values.
"""

from __future__ import annotations

import random
import sys
from collections.abc import Iterator
from dataclasses import dataclass

from xdsl.dialects.builtin import ModuleOp
from xdsl.utils.exceptions import DiagnosticException

from deplodock.analysis.shape.nest import kernels
from deplodock.dialects.torch import set_precision
from deplodock.frontend.expression import read_expression
from deplodock.passes.driver import Level, StageRun, lower, new_context
from deplodock.passes.pipeline import RULES
from deplodock.schedule.choose.kernels import schedule_of

TARGETS = ("h200", "h200", "sm_80", "sm_89", "a100", "sm_100", "rtx5090")
TYPES = ("bfloat16", "bfloat16", "float16", "float32")
PRECISIONS = ("highest", "high", "medium")

ROWS = (1, 5, 8, 17, 32, 48, 64, 80, 100, 128, 200, 257, 512)
COLUMNS = (8, 17, 33, 40, 56, 64, 72, 96, 128, 200, 256, 320, 512)
DEPTHS = (8, 16, 33, 48, 63, 64, 72, 100, 144, 200, 333, 512, 720, 1000, 1008, 1024)
MARGINS = (1, 2, 4, 8, 16)

EPILOGUES = (
    "{y}",
    "F.gelu({y} + {bias})",
    "{y} + {like}",
    "F.embedding(torch.randint(0, 99, ({m},)), {table}) + {y}",
    "{y}[..., torch.randint(0, {n}, (20,))]",
    "F.softmax({y}, -1)",
    "F.layer_norm({y} + {like}, ({n},))",
    "torch.cat(({y}, {like}), -1)",
    "torch.roll({y}, 3, -1)",
    "{y}.mT.contiguous() * 2",
    "{y}.chunk(2, -1)",
    "{y}[..., ::2]",
    "F.pad({y}, (1, 2))",
    "({y}, {y}.sum(-1))",
)


@dataclass(frozen=True)
class DrawnProduct:
    """A product as text, its target, and the precision of products of FP32."""

    text: str
    target: str
    precision: str


def draw_product(seed: int) -> DrawnProduct:
    """The product of a seed, the same on every machine."""
    draw = random.Random(seed)
    type = draw.choice(TYPES)
    m, n, k = (draw.choice(sizes) for sizes in (ROWS, COLUMNS, DEPTHS))
    batch = [draw.choice((2, 3, 12))] if draw.random() < 0.25 else []

    def tensor(*shape: int) -> str:
        return f"torch.empty({', '.join(map(str, shape))}, dtype=torch.{type})"

    def part(extent: int) -> tuple[int, str]:
        """The extent of a tensor, and the slice of it that has so many elements."""
        before, behind = (draw.choice((0, draw.choice(MARGINS))) for _ in range(2))
        if draw.random() < 0.1:
            return 2 * extent, "::2"
        return before + extent + behind, f"{before}:{before + extent}"

    def factor(rows: int, columns: int, lead: list[int]) -> str:
        (height, down), (width, across) = part(rows), part(columns)
        kind = draw.choices(("plain", "turned", "rolled", "joined", "gathered", "computed"), (8, 5, 2, 1, 1, 1))[0]
        if kind == "turned":
            return f"{tensor(*lead, width, height)}[..., {across}, {down}].mT"
        if kind == "rolled":
            return f"torch.roll({tensor(*lead, rows, columns)}, {draw.choice(MARGINS)}, {draw.choice((-1, -2))})"
        if kind == "joined":
            return f"torch.cat(({tensor(*lead, rows, 3)}, {tensor(*lead, rows, columns - 3)}), -1)"
        if kind == "gathered" and not lead:
            return f"F.embedding(torch.randint(0, 50, ({rows},)), {tensor(50, width)})[:, {across}]"
        text = f"{tensor(*lead, height, width)}[..., {down}, {across}]"
        return f"F.relu({text})" if kind == "computed" else text

    def product() -> str:
        return f"{factor(m, k, batch)} @ {factor(k, n, draw.choice(([], batch)))}"

    y = product() if draw.random() < 0.8 else f"{product()} + {product()}"
    named = {"bias": tensor(n), "like": tensor(*batch, m, n), "table": tensor(99, n)}
    text = draw.choice(EPILOGUES).format(y=f"({y})", m=m, n=n, **named)
    return DrawnProduct(text, draw.choice(TARGETS), draw.choice(PRECISIONS) if type == "float32" else PRECISIONS[0])


def faults(drawn: DrawnProduct) -> Iterator[str]:
    """Why a product is refused, or what the heuristics chose for tensor cores and was left out."""
    module = read_expression(drawn.text).module
    set_precision(module, drawn.precision)
    left: list[str] = []

    def observe(run: StageRun, module: ModuleOp) -> None:
        if run.stage in RULES and run.stage.name in ("tensor-tile", "split-factors"):
            chosen = {f.sym_name.data for f in kernels(module) if run.stage.name in {s.rule for s in schedule_of(f)}}
            left.extend(str(remark) for remark in run.remarks if remark.symbol in chosen)

    try:
        lower(module, new_context(), Level.KERNEL, target=drawn.target, observer=observe)
    except (DiagnosticException, AssertionError) as error:
        yield str(error)
    yield from left


def main() -> None:
    """Print what is wrong with so many products from a seed on."""
    first, count = map(int, sys.argv[1:])
    wrong = 0
    for seed in range(first, first + count):
        drawn = draw_product(seed)
        found = list(faults(drawn))
        wrong += bool(found)
        for fault in found:
            print(f"{seed}: {drawn}: {fault}", flush=True)
    print(f"{wrong} of {count} products are refused or left to plain units")


if __name__ == "__main__":
    main()
