"""Index arithmetic beyond 2^31 elements: what the printed text accesses, against the kernel IR by exact integers."""

from __future__ import annotations

import pytest

pytest.importorskip("torch")

from huge_samples import HUGE, huge

from deplodock.runtime.host.harness import build

PARTS = 2


@pytest.mark.parametrize("part", range(PARTS))
def test_addresses_are_exact(part: int) -> None:
    programs = [huge(name) for name in list(HUGE)[part::PARTS]]
    built = build([program.module for program in programs])
    complaints = {program.name: program.complaint(host) for program, host in zip(programs, built, strict=True)}
    for host in built:
        assert max(buffer.bytes for buffer in host.plan.buffers) > 2**31
    assert not {name: complaint for name, complaint in complaints.items() if complaint is not None}
