"""In which order the threads of a CTA fill a slab."""

from __future__ import annotations

from functools import partial
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
    numbers = map(partial(Linear, ()), range(found.copies(threads)))
    copies = [found.coordinates(number, threads) for number in numbers]
    return [tuple(form.constant for form in copy) for copy in copies if not found.ends(copy)]


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
        ("64x64xf32", "d1, d0", "12x16xf32"),
        ("2x3x4x9xf32", "d1 floordiv 16, d0 floordiv 2, d1 floordiv 4 mod 4, d1 mod 4 + d0 mod 2", "4x32xf32"),
        ("2x3x4x8xf32", "d1 floordiv 32, d0, d1 floordiv 8 mod 4, d1 mod 8", "3x64xf32"),
        ("2x3x4x6xf32", "d1 floordiv 24, d0, d1 floordiv 6 mod 4, d1 mod 6", "3x48xf32"),
        ("16x3x4xf32", "d1, d0 floordiv 4, d0 mod 4", "12x16xf32"),
        ("16x2x5x5xf32", "d1, d0 floordiv 25, d0 floordiv 5 mod 5, d0 mod 5", "25x16xf32"),
        ("2x3x20x9xf32", "d1 floordiv 128, d0 floordiv 5, d1 floordiv 8 mod 16 + d0 mod 5, d1 mod 8", "15x128xf32"),
    ],
)
def test_every_element_is_copied_once(source: str, subscripts: str, destination: str) -> None:
    found = slab(source, subscripts, destination)
    width = found.copy_width
    for threads in (1, 32, 96, 128, 1024):
        copied = starts(found, threads)
        elements = [(*place[:-1], place[-1] + i) if place else () for place in copied for i in range(width)]
        assert sorted(elements) == sorted(product(*(range(extent) for extent in found.shape)))


@pytest.mark.parametrize(
    ("subscripts", "destination", "threads", "copiers"),
    [
        ("d1 floordiv 16, 0, d1 floordiv 4 mod 4 + d0 floordiv 3, d1 mod 4 + d0 mod 3", "9x64xf32", 112, 64),
        ("d1 floordiv 16, 0, d1 floordiv 4 mod 4 + d0 floordiv 3, d1 mod 4 + d0 mod 3", "9x64xf32", 160, 128),
        ("d1 floordiv 16, 0, d1 floordiv 4 mod 4 + d0 floordiv 3, d1 mod 4 + d0 mod 3", "9x64xf32", 40, 32),
        ("d1, 0, d0 floordiv 5, d0 mod 5", "25x16xf32", 112, 96),
        ("0, 0, d0, d1", "9x64xf32", 112, 112),
    ],
)
def test_whole_rows_of_windows_are_copied_at_once(
    subscripts: str, destination: str, threads: int, copiers: int
) -> None:
    assert slab("16x2x65x65xf32", subscripts, destination).copiers(threads) == copiers


def test_neighbours_follow_the_source() -> None:
    assert starts(slab("64x64xf32", "d0, d1", "16x32xf32"))[:9] == [*((0, 4 * i) for i in range(8)), (1, 0)]
    assert starts(slab("64x64xf32", "d1, d0", "31x16xf32"))[:32] == [*((i, 0) for i in range(31)), (0, 1)]


def test_a_warp_transposes_sectors() -> None:
    found = slab("64x64xf32", "d1, d0", "32x16xf32")
    for copied in (starts(found), starts(found, threads=64)):
        assert copied[:32] == [(k, m) for m in range(4) for k in range(8)]
    assert starts(found)[32::32] == [(8, 0), (16, 0), (24, 0), *((k, m) for m in (4, 8, 12) for k in (0, 8, 16, 24))]
    assert starts(found, threads=64)[32::32][:4] == [(0, 4), (8, 0), (8, 4), (16, 0)]


def test_a_warp_transposes_half_sectors() -> None:
    """Rows of no whole number of sectors are walked in pieces of 16 bytes."""
    found = slab("64x64xf32", "d1, d0", "12x16xf32")
    assert starts(found)[:32] == [(k, m) for m in range(8) for k in range(4)]


def test_pixels_of_whole_groups_move_together() -> None:
    """Neighbours in rows of images, whose extents are multiples of the width, are copied at once; windows are not."""
    pixels = "d1 floordiv {0}, d0, d1 floordiv {1} mod 4, d1 mod {1}"
    assert slab("2x3x4x8xf32", pixels.format(32, 8), "3x64xf32").copy_width == 4
    assert slab("2x3x4x6xf32", pixels.format(24, 6), "3x48xf32").copy_width == 2
    assert slab("2x3x4x7xf32", pixels.format(28, 7), "3x56xf32").copy_width == 1
    assert slab("2x3x4x9xf32", "0, d0 floordiv 2, 0, d1 + d0 mod 2", "4x8xf32").copy_width == 1


def test_a_thread_copies_the_same_places_of_windows() -> None:
    """Rows that threads copy at once are parts of k apart, so that a division by a window is one of their number."""
    found = slab("3x2x9xf32", "d0 floordiv 2, d0 mod 2, d1", "6x8xf32")
    assert starts(slab("6x9xf32", "d0, d1", "6x8xf32"), threads=16)[:9:8] == [(0, 0), (1, 0)]
    assert starts(found, threads=16)[:9:8] == [(0, 0), (3, 0)]
