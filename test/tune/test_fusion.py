"""Fusion as a second level of tuning: what is found by planted times of kernels, and what decisions may not change."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Sequence

import numpy as np
import pytest
from xdsl.dialects.builtin import ModuleOp, StringAttr
from xdsl.dialects.func import FuncOp

from deplodock.analysis.shape.roundings import Roundings
from deplodock.dialects.float_literals import FloatLiteralsParser
from deplodock.errors import InvalidInputError
from deplodock.interpreters.evaluate import evaluate
from deplodock.passes.driver import Level, lower, new_context, set_target
from deplodock.passes.tensor.decisions import DECISIONS
from deplodock.runtime.compare import compare
from deplodock.tune.fusion import FusionOutcome, Fusions, digest, fusions_of, grouped, tune_fusion
from deplodock.tune.parts import TunedPart
from deplodock.tune.tuning import Budget

NORMED = """
func.func @main(%x: tensor<16x24xf32>, %w: tensor<24x24xf32>) -> tensor<16x24xf32> {
  %xx = tensor_ext.elementwise {arith.mulf} %x, %x : tensor<16x24xf32>
  %s = tensor_ext.reduce {arith.addf} %xx dims [1] : tensor<16x24xf32> -> tensor<16xf32>
  %r = tensor_ext.elementwise {math.rsqrt} %s : tensor<16xf32>
  %rb = tensor_ext.index_map %r affine_map<(d0, d1) -> (d0)> : tensor<16xf32> -> tensor<16x24xf32>
  %n = tensor_ext.elementwise {arith.mulf} %x, %rb : tensor<16x24xf32>
  %a = tensor_ext.index_map %n affine_map<(d0, d1, d2) -> (d0, d2)> : tensor<16x24xf32> -> tensor<16x24x24xf32>
  %b = tensor_ext.index_map %w affine_map<(d0, d1, d2) -> (d1, d2)> : tensor<24x24xf32> -> tensor<16x24x24xf32>
  %ab = tensor_ext.elementwise {arith.mulf} %a, %b : tensor<16x24x24xf32>
  %y = tensor_ext.reduce {arith.addf} %ab dims [2] : tensor<16x24x24xf32> -> tensor<16x24xf32>
  %z = tensor_ext.elementwise {math.tanh} %y : tensor<16x24xf32>
  func.return %z : tensor<16x24xf32>
}
"""
"""A norm of rows and a product: @k_r and @k_z by the cost model."""

Time = Callable[[TunedPart], "float | str"]


def program(text: str = NORMED) -> Fusions:
    module = FloatLiteralsParser(new_context(), text).parse_module()
    set_target(module, "h200")
    return fusions_of(str(module))


@pytest.fixture(scope="module")
def fusions() -> Fusions:
    return program()


_KERNELS: dict[tuple[str, str], list[TunedPart]] = {}


def kernels(fusions: Fusions, text: str = "") -> list[TunedPart]:
    """The kernels of decisions, which several tests ask for."""
    if (fusions.key, text) not in _KERNELS:
        _KERNELS[fusions.key, text] = grouped(fusions, text, {})
    return _KERNELS[fusions.key, text]


class Planted:
    """Groups as ever, and measures by a function of kernels."""

    def __init__(self, fusions: Fusions, time: Time) -> None:
        self.fusions, self.time = fusions, time
        self.asked: list[str] = []
        self.measured: list[str] = []

    def group(self, texts: Sequence[str]) -> Iterator[Sequence[TunedPart] | str]:
        self.asked += texts
        for text in texts:
            yield kernels(self.fusions, text)

    def measure(self, parts: Sequence[TunedPart]) -> dict[str, float | str]:
        self.measured += [part.task.key for part in parts]
        return {part.task.key: self.time(part) for part in parts}

    def tune(self, budget: int = 100) -> FusionOutcome:
        return tune_fusion(self.fusions, kernels(self.fusions), self.group, self.measure, Budget(budget))


def has(part: TunedPart, *words: str) -> bool:
    return all(word in part.task.text for word in words)


def slow_borders(part: TunedPart) -> float:
    """A kernel that reduces is slow if it goes on with a root, or with a tanh."""
    return 10.0 + 40.0 * has(part, "loop.reduce", "math.rsqrt") + 40.0 * has(part, "loop.reduce", "math.tanh")


def test_what_there_is_to_decide(fusions: Fusions) -> None:
    """Of several operations in a row one can be stored for all; products of a contraction are not."""
    found = sorted(f"{text.partition('-')[0]}={text.partition('=')[2]}" for text in fusions.added)
    assert found == ["mulf=never", "mulf=never", "reduce=never", "reduce=never", "rsqrt=always"]
    assert fusions.space.changes(fusions.space.start) == []


def test_decisions_that_pay_are_taken_together(fusions: Fusions) -> None:
    planted = Planted(fusions, slow_borders)
    outcome = planted.tune()
    assert (outcome.us, outcome.heuristic_us, outcome.gain) == (40.0, 100.0, 2.5)
    assert [text.partition("-")[0] for text in outcome.decisions.split()] == ["reduce", "reduce"]
    assert sorted(part.task.name for part in outcome.parts) == ["k_r", "k_s", "k_y", "k_z"]
    assert planted.asked[: len(fusions.added)] == sorted(fusions.added, key=fusions.added.__getitem__)
    entry = outcome.entry("NVIDIA H200", "norm")
    assert (entry.program, entry.decisions, entry.us) == (fusions.key, outcome.decisions, 40.0)
    assert entry.kernels == digest(kernels(fusions, outcome.decisions))


def test_each_kernel_is_measured_once_the_cost_models_first(fusions: Fusions) -> None:
    planted = Planted(fusions, slow_borders)
    outcome = planted.tune()
    assert planted.measured[:2] == [part.task.key for part in kernels(fusions)]
    assert len(planted.measured) == len(set(planted.measured)) == outcome.spent + 2
    assert len(planted.asked) == len(set(planted.asked))
    assert 5 < outcome.measured <= len(planted.asked) + 1


def test_the_cost_model_is_not_lost_to_noise(fusions: Fusions) -> None:
    outcome = Planted(fusions, lambda part: 50.0 if has(part, "loop.reduce", "math.tanh") else 24.8).tune()
    assert outcome.us == outcome.heuristic_us == 74.8
    outcome = Planted(fusions, lambda part: 0.999 * slow_borders(part)).tune(budget=1)
    assert outcome.decisions == ""
    assert outcome.spent == 1


def test_a_budget_ends_the_search_and_the_same_one_ends_it_the_same(fusions: Fusions) -> None:
    for budget in (1, 3, 5):
        planted, again = Planted(fusions, slow_borders), Planted(fusions, slow_borders)
        outcome = planted.tune(budget)
        assert outcome == again.tune(budget)
        assert outcome.spent == budget == len(planted.measured) - 2
        assert outcome.us <= outcome.heuristic_us


def test_what_is_of_known_kernels_is_tried_beyond_the_budget(fusions: Fusions) -> None:
    outcome = Planted(fusions, slow_borders).tune(9)
    assert (outcome.us, outcome.spent) == (40.0, 9)


def test_what_fails_costs_its_line(fusions: Fusions) -> None:
    """Kernels without a time, and decisions that give none."""

    class Failing(Planted):
        def group(self, texts: Sequence[str]) -> Iterator[Sequence[TunedPart] | str]:
            for text, found in zip(texts, super().group(texts), strict=True):
                yield "as planted" if "=always" in text else found

    failing = Failing(fusions, lambda part: "wrong: by half" if part.task.name == "k_s" else slow_borders(part))
    outcome = failing.tune()
    assert outcome.us == 70.0
    assert [remark.partition(":")[0] for remark in outcome.remarks] == ["refused", "no time"]
    assert outcome.remarks[0].endswith("=always: as planted")
    assert outcome.remarks[1].endswith("=never: @k_s: wrong: by half")
    with pytest.raises(InvalidInputError, match=r"the cost model's kernels have no time: .*@k_z: a fault"):
        Planted(fusions, lambda part: "a fault" if has(part, "math.tanh") else 1.0).tune()


def test_equal_kernels_are_no_choice(fusions: Fusions) -> None:
    class Alike(Planted):
        def group(self, texts: Sequence[str]) -> Iterator[Sequence[TunedPart] | str]:
            return super().group([""] * len(texts))

    planted = Alike(fusions, slow_borders)
    outcome = planted.tune()
    assert (outcome.measured, outcome.spent, outcome.decisions) == (1, 0, "")


def test_a_key_depends_on_no_name_and_on_the_target(fusions: Fusions) -> None:
    renamed = NORMED
    for name in ("x", "w", "xx", "s", "rb", "n", "ab", "z"):
        renamed = renamed.replace(f"%{name} ", f"%{name}_of_mine ").replace(f"%{name}:", f"%{name}_of_mine:")
        renamed = renamed.replace(f"%{name},", f"%{name}_of_mine,")
    found = program(renamed.replace("@main", "@other"))
    assert (found.key, found.added, found.name) == (fusions.key, fusions.added, "other")
    assert program(NORMED.replace("math.tanh", "math.exp")).key != fusions.key


def test_what_has_kernels_or_several_functions_is_not_tuned() -> None:
    with pytest.raises(InvalidInputError, match="it has 2 functions on tensors without kernels, and one is tuned"):
        program(NORMED + NORMED.replace("@main", "@second"))


def test_any_decisions_give_right_values(fusions: Fusions) -> None:
    """Also those that no search would take together."""
    draw, drawn = random.Random(3), np.random.default_rng(3)
    inputs = [drawn.standard_normal(shape).astype(np.float32) for shape in ((16, 24), (24, 24))]
    reference = evaluate(_module(fusions.text), inputs, precision="float64")
    several = set[str]()
    for _ in range(6):
        module = _module(fusions.text)
        taken = " ".join(sorted(draw.sample(sorted(fusions.added), draw.randint(1, len(fusions.added)))))
        (function,) = [op for op in module.ops if isinstance(op, FuncOp)]
        function.attributes[DECISIONS] = StringAttr(taken)
        lower(module, new_context(), Level.LOOP)
        several.add(str(module))
        for got, wanted in zip(evaluate(module, inputs), reference, strict=True):
            assert compare(np.asarray(got), np.asarray(wanted), None, Roundings(24)).passed
    assert len(several) > 3


def _module(text: str) -> ModuleOp:
    return FloatLiteralsParser(new_context(), text).parse_module()
