"""What the heuristics choose for products of parts of tensors applies, whatever their type, and computes the same."""

from __future__ import annotations

import pytest

pytest.importorskip("deplodock.frontend.expression", reason="needs PyTorch")

from drawn_products import DrawnProduct, draw_product, faults

from deplodock.fuzz.case import Case, check

SEEDS = range(24)
"""The products that are drawn here; `python test/shared/drawn_products.py FIRST COUNT` draws others."""

FOUND = {
    "a slice that no chunk of k divides": "{0}64, 1024{1}[:, :{k}] @ {0}1024, 64{1}[:{k}]",
    "a gather behind CTAs that share rows": (
        "F.embedding(torch.randint(0, 99, ({m},)), {0}99, 2048{1}) + F.linear({0}{m}, 2048{1}, {0}2048, 2048{1})"
    ),
    "more warps than a CTA has": (
        "{0}{m}, 80, 56, 56{1} + F.linear({0}{m}, 56, 56, 320{1}, {0}80, 320{1}).permute(0, 3, 1, 2)"
    ),
    "rolled rows that boxes cannot take": "torch.roll({0}3, 1024, 512{1}, 8, -2) @ {0}3, 256, 512{1}.mT",
    "rows in steps": "{0}1024, 512{1} @ {0}4096, 512{1}[::2].mT",
    "few rolled rows": "torch.roll({0}32, 63{1}, 8, -2) @ {0}100, 63{1}.mT",
    "long rows beside a product": (
        "({0}512, 18{1}[:, :16] @ {0}16, 161{1}[:, 1:]).index_add(0, torch.randint(0, 512, (512,)), {0}512, 160{1})"
    ),
}
"""Products for which heuristics once chose what rules do not take, with the numbers m and k of a case."""

SMALL = {
    "k in chunks of 16": "torch.randn(40, 80, dtype={type})[:, 5:53] @ torch.randn(90, 72, dtype={type})[10:58]",
    "rolled rows": "torch.roll(torch.randn(24, 72, dtype={type}), 5, -2) @ torch.randn(72, 72, dtype={type}).mT",
    "rows in steps": "torch.randn(160, 72, dtype={type})[::2] @ torch.randn(72, 72, dtype={type})[1:65].mT",
}


@pytest.mark.parametrize("seed", SEEDS)
def test_what_is_chosen_applies(seed: int) -> None:
    assert not list(faults(draw_product(seed)))


@pytest.mark.parametrize(
    ("type", "precision", "target"),
    [("bfloat16", "highest", "h200"), ("float32", "high", "h200"), ("float32", "medium", "rtx5090")],
)
@pytest.mark.parametrize("name", FOUND)
def test_what_compiles_in_one_type_compiles_in_all(name: str, type: str, precision: str, target: str) -> None:
    text = FOUND[name].format("torch.empty(", f", dtype=torch.{type})", m=128 if "gather" in name else 4, k=1008)
    assert not list(faults(DrawnProduct(text, target, precision)))


@pytest.mark.parametrize(("type", "precision"), [("torch.float16", "highest"), ("torch.float32", "medium")])
@pytest.mark.parametrize("name", SMALL)
def test_parts_of_tensors_are_multiplied(name: str, type: str, precision: str) -> None:
    check(Case(SMALL[name].format(type=type), seed=0, precision=precision))
