"""Matrix products of a warpgroup as CUDA C: `wgmma.mma_async` of the PTX ISA, sm_90a.

A factor is a descriptor of 64 bits: where its tile starts, in units of 16 bytes; the bytes between neighbouring lines'
worth of rows, and between groups of 8 lines, in such units; and the swizzle (PTX ISA, "Matrix descriptor").
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import product
from typing import ClassVar

from xdsl.dialects.builtin import f32
from xdsl.ir import Attribute

from deplodock.analysis.access.matrices import tile_of
from deplodock.codegen.mma import SUMS
from deplodock.codegen.writer import KernelWriter, Texts
from deplodock.dialects.elements import BY_NAME
from deplodock.dialects.kernel.wgmma import (
    FACTORS,
    ROWS,
    Factor,
    WgmmaCommitOp,
    WgmmaFenceOp,
    WgmmaOp,
    WgmmaWaitOp,
    columns_of,
    depth_of,
)
from deplodock.dialects.loop import memref_of
from deplodock.errors import UnsupportedError

_MODES = {128: 1, 64: 2, 32: 3}
"""The number of each swizzle in a descriptor."""

_DESCRIPTOR = """\
__device__ __forceinline__ unsigned long long tile_descriptor(const void* tile, int leading, int stride, int mode) {
  const unsigned start = (unsigned)__cvta_generic_to_shared(tile);
  return (unsigned long long)mode << 62 | (unsigned long long)(stride / 16) << 32
         | (unsigned long long)(leading / 16) << 16 | (start & 0x3ffff) >> 4;
}
"""


_TILE, _TRANSPOSED, _HELD = "", "_left_transposed", "_held"
"""How a left factor is given, as names say it."""


def _name(columns: int, type: Attribute, left: str, right: bool, anew: bool) -> str:
    """The device function of a product: tiles may be transposed, the left factor be held, and sums start anew."""
    return f"wgmma_m{ROWS}n{columns}k{depth_of(type)}_{type}{left}{'_right_transposed' * right}{'_anew' * anew}"


def _may_be_transposed(type: Attribute) -> bool:
    """Whether tiles of factors of a type may be transposed."""
    return BY_NAME[str(type)].bytes == 2


_HELD_REGISTERS = 4
"""The registers of a left factor that threads hold."""


class _Helpers(Mapping[str, str]):
    """The device functions by name; the text of a product is written when it is asked for."""

    _PRODUCTS: ClassVar = {
        _name(columns, type, left, right, anew): (columns, type, left, right, anew)
        for type in FACTORS
        for columns, left, right, anew in product(
            columns_of(type), (_TILE, _TRANSPOSED, _HELD), (False, True), (False, True)
        )
        if _may_be_transposed(type) or (not right and (left == _TILE or (left == _HELD and type == f32)))
    }

    def __getitem__(self, name: str) -> str:
        return _DESCRIPTOR if name == "tile_descriptor" else _product(*self._PRODUCTS[name])

    def __iter__(self) -> Iterator[str]:
        yield "tile_descriptor"
        yield from self._PRODUCTS

    def __len__(self) -> int:
        return 1 + len(self._PRODUCTS)


def _product(columns: int, type: Attribute, left: str, right: bool, anew: bool) -> str:
    """The device function of a product; only factors of two bytes have transposed tiles, and integers no signs."""
    sums, is_held, element, result = columns // 2, left == _HELD, BY_NAME[str(type)], BY_NAME[str(FACTORS[type])]
    result_type, constraint = SUMS[result.name]
    registers = _HELD_REGISTERS if is_held else 1
    factor = ", ".join(f"%{sums + i}" for i in range(registers))
    held = ", ".join(f'"r"(held[{i}])' for i in range(registers))
    places = "\n".join(
        f'      "{", ".join(f"%{i}" for i in range(first, min(first + 16, sums)))}{"," if first + 16 < sums else ""}"'
        for first in range(0, sums, 16)
    )
    in_out = [f'"{"=" if anew else "+"}{constraint}"(sums[{i}])' for i in range(sums)]
    operands = ",\n        ".join(", ".join(in_out[first : first + 4]) for first in range(0, sums, 4))
    name = _name(columns, type, left, right, anew)
    parameter = "const void* left" if is_held else "unsigned long long left"
    registers_of = "  const unsigned* const held = reinterpret_cast<const unsigned*>(left);\n" if is_held else ""
    transposed = f"{int(right)}" if is_held else f"{int(left == _TRANSPOSED)}, {int(right)}"
    rest = [f"{int(not anew)}", *([] if result.name == "i32" else ["1, 1"])]
    rest += [transposed] if _may_be_transposed(type) else []
    return f"""\
__device__ __forceinline__ void {name}({result.c}* sums, {parameter}, unsigned long long right) {{
{registers_of}  asm volatile(
      "wgmma.mma_async.sync.aligned.m{ROWS}n{columns}k{depth_of(type)}.{result_type}.{element.ptx}.{element.ptx} {{"
{places}
      "}}, {f"{{{factor}}}" if is_held else factor}, %{sums + registers}, {", ".join(rest)};"
      : {operands}
      : {held if is_held else '"l"(left)'}, "l"(right));
}}
"""


HELPERS = _Helpers()
"""The device functions of products, in the order they are printed."""


def _multiply(to: KernelWriter, op: WgmmaOp) -> None:
    type = memref_of(op.left_buffer).element_type
    right, is_transposed = _descriptor(to, op.right, op.extent)
    if op.left.is_held:
        access, *_ = op.accesses()
        left, kind = f"&{to.element(op.left_buffer, access.map, access.indices)}", _HELD
    else:
        left, is_left_transposed = _descriptor(to, op.left, ROWS)
        kind = _TRANSPOSED if is_left_transposed else _TILE
    sums = to.element(op.accumulators, op.map.data, op.indices)
    to.line(f"{_name(op.extent, type, kind, is_transposed, bool(op.anew))}(&{sums}, {left}, {right});")


def _descriptor(to: KernelWriter, factor: Factor, rows: int) -> tuple[str, bool]:
    """The descriptor of a factor, and whether its tile is transposed. Raises UnsupportedError where it has none."""
    tile = tile_of(factor, rows)
    if isinstance(tile, str):
        raise UnsupportedError(f"no descriptor is for a factor of this product: {tile}")
    start = f"&{to.names[factor.buffer]}[{to.indices.text(tile.start)}]"
    return f"tile_descriptor({start}, {tile.leading}, {tile.stride}, {_MODES[tile.span]})", tile.is_transposed


def _fence(to: KernelWriter, op: WgmmaFenceOp) -> None:
    to.line('asm volatile("wgmma.fence.sync.aligned;" ::: "memory");')


def _commit(to: KernelWriter, op: WgmmaCommitOp) -> None:
    to.line('asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory");')


def _wait(to: KernelWriter, op: WgmmaWaitOp) -> None:
    to.line(f'asm volatile("wgmma.wait_group.sync.aligned {op.pending.value.data};" ::: "memory");')


TEXTS: Texts = {WgmmaOp: _multiply, WgmmaFenceOp: _fence, WgmmaCommitOp: _commit, WgmmaWaitOp: _wait}
"""How products of a warpgroup and their groups are written."""
