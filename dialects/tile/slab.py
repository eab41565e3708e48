"""Slabs: parts of global buffers that the tile dialect copies on chip."""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.ir import SSAValue
from xdsl.ir.affine import AffineExpr, AffineMap
from xdsl.parser import Parser
from xdsl.utils.exceptions import VerifyException

from deplodock.dialects.affine_syntax import verify_divisors
from deplodock.dialects.buffers import memory_of, memref_of, verify_buffer


def verify_slab(
    what: str, source: SSAValue, slab: SSAValue, shape: Sequence[int], map: AffineMap, indices: Sequence[SSAValue]
) -> None:
    """Check a copy from global memory to a slab of this shape in the buffer `slab`.

    `map` gives the source's subscripts over the slab's coordinates and `indices`. Raises VerifyException, naming
    `what`.
    """
    read, written = memref_of(source), memref_of(slab)
    if memory_of(source) is not None:
        raise VerifyException(f"{what} copies from global memory, got {read}")
    if memory_of(slab) is None:
        raise VerifyException(f"a slab lives in #tile.memory<shared> or #tile.memory<register>, got {written}")
    if any(extent < 0 for extent in written.get_shape()):
        raise VerifyException(f"a slab needs a static shape, got {written}")
    verify_buffer(read)
    verify_buffer(written)
    if read.element_type != written.element_type:
        raise VerifyException(f"{what} keeps the element type, got {read} and {written}")
    verify_divisors("the subscripts", map)
    if (map.num_dims, map.num_symbols) != (len(shape), len(indices)):
        raise VerifyException(
            f"the map must be over {len(shape)} slab coordinates and {len(indices)} operands, got {map}"
        )
    if len(map.results) != len(read.get_shape()):
        raise VerifyException(f"{read} needs {len(read.get_shape())} subscripts, got {len(map.results)}")


def check_coordinates(parser: Parser, subscripts: Sequence[AffineExpr], rank: int, pos: int) -> None:
    """Raise a ParseError at `pos` if a subscript names a coordinate that a slab of this rank does not have."""
    used = {position for expr in subscripts for position in expr.used_dims()}
    if used and max(used) >= rank:
        parser.raise_error(f"the slab has {rank} dimensions, so d{max(used)} is not one of its coordinates", pos)
