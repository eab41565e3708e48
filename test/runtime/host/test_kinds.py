"""Every kind of kernel, run on the host as its CUDA text, against the simulator."""

from __future__ import annotations

import re

import pytest

pytest.importorskip("torch")

from host_samples import CUTS, sample_of
from kinds import KINDS

from deplodock.codegen.cuda import print_module
from deplodock.codegen.scalars import CALL
from deplodock.frontend.expression import read_expression
from deplodock.passes.driver import Level, lower, new_context
from deplodock.runtime.host.harness import HostFault, Order, build

ORDERS = [Order(is_reversed, lands_early) for is_reversed in (False, True) for lands_early in (False, True)]
PARTS = 4


@pytest.mark.parametrize("part", range(PARTS))
def test_text_of_every_kind_is_right(part: int) -> None:
    """In all orders of threads, with copies that land early and late; a part of the kinds is compiled at once."""
    samples = [sample_of(kind) for kind in KINDS[part::PARTS]]
    complaints: dict[str, str] = {}
    for sample, program in zip(samples, build([sample.module for sample in samples]), strict=True):
        try:
            complaint = sample.complaint(program, ORDERS)
        except HostFault as fault:
            complaint = str(fault)
        if complaint is not None:
            complaints[sample.name] = complaint
    assert not complaints


@pytest.mark.parametrize("name", CUTS)
def test_cut_programs_keep_their_kind(name: str) -> None:
    """They call the same functions and hold the same instructions."""
    (kind,) = [kind for kind in KINDS if kind.name == name]
    full = read_expression(kind.text, seed=1).module
    lower(full, new_context(), Level.KERNEL)
    assert statements(sample_of(kind).text) == statements(print_module(full))


def statements(text: str) -> set[str]:
    """What a text calls, but for the names of its kernels, and its inline assembly."""
    return {name for name in CALL.findall(text) if not name.startswith("k_")} | set(re.findall(r'asm.*?"[^"]*"', text))
