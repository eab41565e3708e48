"""How the GPU rounds to TF32: boxes as they are copied, and numbers in registers. Each that differs is named."""

from __future__ import annotations

import numpy as np
import pytest
from rounded_boxes import ROUNDED, numbers
from xdsl.parser import Parser

from deplodock.interpreters.scalars import high_part, round_tf32
from deplodock.passes.driver import new_context, set_target
from deplodock.runtime.device import Executable, device_target


@pytest.mark.parametrize("way", ["boxes", "threads"])
def test_the_gpu_rounds_as_the_evaluator(way: str) -> None:
    """Ties go to even, numbers beyond the largest become infinite; NaN is NaN to a tensor core, whatever its bits."""
    module = Parser(new_context(), ROUNDED).parse_module()
    set_target(module, device_target())
    given = numbers()
    boxes, threads = Executable(module).run([given])
    got, wanted = boxes if way == "boxes" else threads, round_tf32(given)
    wrong = (got.view(np.uint32) != wanted.view(np.uint32)) & ~(np.isnan(high_part(got)) & np.isnan(given))
    rows = zip(*(values.view(np.uint32)[wrong] for values in (given, got, wanted)), strict=True)
    assert not wrong.any(), "\n".join(["given, got, wanted:", *(f"{a:08x} {b:08x} {c:08x}" for a, b, c in rows)])
