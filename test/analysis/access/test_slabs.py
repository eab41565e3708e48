"""In which order the threads of a CTA fill a slab."""

from __future__ import annotations

from itertools import product

import pytest
from xdsl.parser import Parser

from deplodock.analysis.access.slabs import Slab, slab_of
from deplodock.analysis.affine.linear import Linear
from deplodock.dialects import tile
from deplodock.passes.driver import new_context


def slab(source: str, subscripts: str, destination: str) -> Slab:
    context = new_context()
    text = f"""
    func.func @k(%x: memref<{source}>) {{
      tile.launch (%t = 32 : thread) {{
        %s = tile.stage %x[{subscripts}] : memref<{source}> to memref<{destination}, #tile.memory<shared>>
      }}
      func.return
    }}
    """
    (op,) = (op for op in Parser(context, text).parse_module().walk() if isinstance(op, tile.StageOp))
    return slab_of(op)


def starts(found: Slab, threads: int = 32) -> list[tuple[int, ...]]:
    """Where each copy starts, by number."""
    numbers = range(found.copies())
    return [tuple(form.constant for form in found.coordinates(Linear(constant=n), threads)) for n in numbers]


@pytest.mark.parametrize(
    ("source", "subscripts", "destination"),
    [
        ("64x64xf32", "d0, d1", "16x32xf32"),
        ("64x64xf32", "d1, d0", "32x16xf32"),
        ("64x63xf32", "d1, d0", "32x16xf32"),
        ("64x64xf32", "d1, d0", "31x16xf32"),
        ("64x64xf32", "d1, d0", "32x15xf32"),
        ("64x64xf64", "d1, d0", "32x16xf64"),
        ("64x64xi1", "d1, d0", "32x16xi1"),
        ("4x64x64xf32", "d1, d2, d0", "16x3x8xf32"),
        ("4x64x64xf32", "d2, d1, d0", "16x3x4xf32"),
        ("64xf32", "d0", "20xf32"),
        ("64xf32", "3", "f32"),
    ],
)
def test_every_element_is_copied_once(source: str, subscripts: str, destination: str) -> None:
    found = slab(source, subscripts, destination)
    width = found.copy_width()
    for threads in (1, 32, 96, 128, 1024):
        copied = starts(found, threads)
        elements = [(*place[:-1], place[-1] + i) if place else () for place in copied for i in range(width)]
        assert sorted(elements) == sorted(product(*(range(extent) for extent in found.shape)))


def test_neighbours_follow_the_source() -> None:
    assert starts(slab("64x64xf32", "d0, d1", "16x32xf32"))[:9] == [*((0, 4 * i) for i in range(8)), (1, 0)]
    assert starts(slab("64x64xf32", "d1, d0", "31x16xf32"))[:32] == [*((i, 0) for i in range(31)), (0, 1)]


def test_a_warp_transposes_sectors() -> None:
    found = slab("64x64xf32", "d1, d0", "32x16xf32")
    for copied in (starts(found), starts(found, threads=64)):
        assert copied[:32] == [(k, m) for m in range(4) for k in range(8)]
    assert starts(found)[32::32] == [(8, 0), (16, 0), (24, 0), *((k, m) for m in (4, 8, 12) for k in (0, 8, 16, 24))]
    assert starts(found, threads=64)[32::32][:4] == [(0, 4), (8, 0), (8, 4), (16, 0)]
