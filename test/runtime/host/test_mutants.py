"""Mistakes planted in the printer: what the host finds without a GPU. docs/testing.md says how they are drawn."""

from __future__ import annotations

import pytest

pytest.importorskip("torch")

from mutants import FILES, drawn, printer_of, programs, verdict

from deplodock.codegen.cuda import print_module

SEED = 15
DRAWN = 8

PLANTED = {
    "an index sum that overflows int": (
        "indices.py",
        "is_wide = sum(magnitudes) + abs(form.constant) > INT_MAX",
        "is_wide = False",
        "signed integer overflow",
    ),
    "a quotient of -1 that truncates": (
        "indices.py",
        "if form_bounds(atom.form)[0] < 0:",
        "if form_bounds(atom.form)[0] < -1:",
        "",
    ),
    "a sum that counts as smaller than it can be": (
        "ranges.py",
        "low + min(ends), high + max(ends)",
        "low + min(ends), high",
        "signed integer overflow",
    ),
    "a quotient that truncates": (
        "scalars.py",
        "return a / b - (a % b != 0 && (a < 0) != (b < 0));",
        "return a / b;",
        "",
    ),
    "an isnan that is always false": (
        "scalars.py",
        '"uno": "{0} != {0} || {1} != {1}"',
        '"uno": "false"',
        "arith.cmpf-uno",
    ),
    "an arrival without __syncwarp": (
        "mbarrier.py",
        "  __syncwarp();\n",
        "",
        "depends on the order in which threads run",
    ),
}
"""The file, what is there, what comes, and what is found."""


@pytest.mark.parametrize("mistake", PLANTED)
def test_planted_in_the_printer(mistake: str) -> None:
    file, before, after, found = PLANTED[mistake]
    source = FILES[file].read_text(encoding="utf-8")
    assert source.count(before) == 1
    printer = printer_of(file, source.replace(before, after))
    changed = sorted((p for p in programs() if printer(p.module) != p.text), key=lambda program: len(program.text))
    assert changed
    shown = verdict(printer, changed)
    assert shown is not None
    assert found in shown


def test_drawn_mutants_are_found() -> None:
    mutants = list(drawn(SEED, DRAWN))
    assert len(mutants) == DRAWN
    survivors = [str(mutant) for mutant, printer, changed in mutants if verdict(printer, changed) is None]
    assert not survivors, "add what finds them, or the reason to EQUIVALENT if they are right"


def test_the_printer_itself_is_right() -> None:
    """Else what is found of a mutant would say nothing; those not of the printer's tests have tests of their own."""
    own = [program for program in programs() if program.name.startswith("k_") or program.name in ("k", "next_of_four")]
    assert verdict(print_module, own) is None
