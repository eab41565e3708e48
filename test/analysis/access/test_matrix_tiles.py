"""Which tiles of shared memory the hardware's matrix products can read, and how."""

from __future__ import annotations

import pytest
from xdsl.parser import Parser

from deplodock.analysis.access.matrices import MatrixTile, tile_of
from deplodock.dialects.kernel import WgmmaOp
from deplodock.passes.driver import new_context


def _tile(shape: str, swizzle: str, subscripts: str, columns: int = 64, type: str = "bf16") -> MatrixTile | str:
    """The right factor's tile of a product."""
    total, depth = ("i32", 32) if type == "i8" else ("f32", 16)
    left = f"memref<64x64x{type}, #tile.swizzle<{64 if type == 'i8' else 128}>, #tile.memory<shared>>"
    right = f"memref<{shape}x{type}, {swizzle}#tile.memory<shared>>"
    sums = f"memref<{columns // 2}x{total}, #tile.memory<register>>"
    module = Parser(
        new_context(),
        f"""
        kernel.func @k() blocks(%b = 8) threads(%t = 128) {{
          %x = kernel.alloc : {left}
          %w = kernel.alloc : {right}
          %acc = kernel.alloc : {sums}
          kernel.wgmma m64n{columns}k{depth} %x[d0, d1] * %w[{subscripts}] into %acc[0] : {left} * {right} into {sums}
        }}""",
    ).parse_module()
    module.verify()
    (op,) = (op for op in module.walk() if isinstance(op, WgmmaOp))
    return tile_of(op.right, columns)


@pytest.mark.parametrize(
    ("shape", "span", "subscripts", "columns", "wanted"),
    [
        ("4x64x64", 128, "%b mod 4, d0, d1 + 16", 64, (False, 16, 1024)),
        ("96x64", 128, "d0, d1", 96, (False, 16, 1024)),
        ("64x32", 64, "d0, d1 + 16", 64, (False, 16, 512)),
        ("64x16", 32, "d0, d1", 64, (False, 16, 256)),
        ("64x64", 128, "d1 + 16, d0", 64, (True, 16, 1024)),
        ("64x32", 64, "d1, d0", 24, (True, 16, 512)),
        ("3x64x64", 128, "d0 floordiv 64, d1, d0 mod 64", 192, (True, 64 * 128, 1024)),
        ("2x64x64", 128, "%b mod 2, d1, d0", 64, (True, 16, 1024)),
    ],
)
def test_a_tile_has_a_descriptor(
    shape: str, span: int, subscripts: str, columns: int, wanted: tuple[bool, int, int]
) -> None:
    tile = _tile(shape, f"#tile.swizzle<{span}>, ", subscripts, columns)
    assert isinstance(tile, MatrixTile)
    assert tile.span == span
    assert (tile.is_transposed, tile.leading, tile.stride) == wanted


@pytest.mark.parametrize(
    ("shape", "swizzle", "subscripts", "columns", "reason"),
    [
        ("64x64", "", "d0, d1", 64, "%w must have a layout #tile.swizzle<..>"),
        (
            "64x64",
            "#tile.swizzle<128>, ",
            "d0, d1 * 2",
            64,
            "one coordinate of the tile must walk the lines of %w by one element",
        ),
        (
            "128x64",
            "#tile.swizzle<128>, ",
            "d0 * 2, d1",
            64,
            "by one element, and the other step from line to line, 128 bytes",
        ),
        ("64x64", "#tile.swizzle<128>, ", "d0, d1 + %t mod 2", 64, "a multiple of 32 bytes in a line of %w"),
        ("72x64", "#tile.swizzle<128>, ", "d0 + %t mod 2 * 4, d1", 64, "a multiple of 8 lines of %w, 1024 bytes"),
        ("64x64", "#tile.swizzle<128>, ", "d1, d0 + 32", 32, "a multiple of 128 bytes in a line of %w"),
        (
            "2x64x64",
            "#tile.swizzle<128>, ",
            "d0 floordiv 64, d1, d0 mod 64",
            96,
            "rows that walk the lines of %w must fill them, 64 elements each; got 96",
        ),
        ("64x64", "#tile.swizzle<128>, ", "d0 floordiv 2 * 2, d1", 64, "step from line to line"),
    ],
)
def test_other_tiles_are_refused_with_the_reason(
    shape: str, swizzle: str, subscripts: str, columns: int, reason: str
) -> None:
    tile = _tile(shape, swizzle, subscripts, columns)
    assert isinstance(tile, str)
    assert reason in tile


def test_tiles_of_bytes_lie_along_k() -> None:
    tile = _tile("64x128", "#tile.swizzle<128>, ", "d0, d1 + 32", type="i8")
    assert isinstance(tile, MatrixTile)
    assert not tile.is_transposed
    tile = _tile("64x64", "#tile.swizzle<64>, ", "d1, d0", type="i8")
    assert tile == "rows of bytes lie along k, not along the lines of %w"
