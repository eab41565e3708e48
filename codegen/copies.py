"""Moves of data as CUDA C: wide accesses, and asynchronous copies, `cp.async` of the PTX ISA, with their groups.

Of asynchronous copies those of 16 bytes bypass the L1 cache (`.cg`), 4 and 8 go through it (`.ca`), the only forms that
exist. A copy that is outside its source has a source size of 0: it reads nothing and writes zeros.
"""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.ir import SSAValue
from xdsl.ir.affine import AffineMap

from deplodock.analysis.access.alignment import element_bytes, strides_of
from deplodock.analysis.affine.linear import forms_of
from deplodock.codegen import scalars
from deplodock.codegen.indices import offset
from deplodock.codegen.writer import KernelWriter, Texts
from deplodock.dialects import loop
from deplodock.dialects.buffers import last_dimension
from deplodock.dialects.elements import ROWS
from deplodock.dialects.kernel.move import ASYNC_BYTES, MoveOp
from deplodock.errors import UnsupportedError

_ZEROS = {
    **{"f32": "0.0f", "f64": "0.0", "i64": "0LL", "i1": "false"},
    **{row.name: f"{row.c}(0.0f)" for row in ROWS if row.word},
}
"""The zero of each type, where it is not 0."""


def _move(to: KernelWriter, op: MoveOp) -> None:
    if op.is_async:
        _move_async(to, op)
        return
    type = scalars.type_name(loop.memref_of(op.source).element_type)
    vector = vector_of(op.source, op.elements)
    source = to.element(op.source, op.source_map.data, op.source_indices)
    destination = to.element(op.destination, op.destination_map.data, op.destination_indices)
    zero = _ZEROS.get(type, "0")
    if vector is not None:
        check_wide("source", op.elements, op.source, op.source_map.data, op.source_indices)
        check_wide("destination", op.elements, op.destination, op.destination_map.data, op.destination_indices)
        source = f"*reinterpret_cast<const {vector}*>(&{source})"
        destination = f"*reinterpret_cast<{vector}*>(&{destination})"
        lane = zero if vector.startswith(("float", "double")) else "0"
        zero = f"make_{vector}({', '.join([lane] * int(vector[-1]))})"
    if op.where is not None:
        source = f"({to.indices.conditions(op.where.data, op.where_indices)}) ? {source} : {zero}"
    to.line(f"{destination} = {source};")


def _move_async(to: KernelWriter, op: MoveOp) -> None:
    if op.elements > 1:
        check_wide("source", op.elements, op.source, op.source_map.data, op.source_indices)
        check_wide("destination", op.elements, op.destination, op.destination_map.data, op.destination_indices)
    source = to.element(op.source, op.source_map.data, op.source_indices)
    destination = to.element(op.destination, op.destination_map.data, op.destination_indices)
    bytes = op.elements * element_bytes(loop.memref_of(op.source).element_type)
    inside = None if op.where is None else to.indices.conditions(op.where.data, op.where_indices)
    if inside is None:
        to.line(f"copy_async_{bytes}(&{destination}, &{source});")
    else:
        to.line(f"copy_async_{bytes}_where(&{destination}, &{source}, {inside});")


def vector_of(buffer: SSAValue, width: int) -> str | None:
    """The vector type that moves `width` elements of a buffer, None for one.

    Raises UnsupportedError if no access is that wide.
    """
    if width == 1:
        return None
    type = scalars.type_name(loop.memref_of(buffer).element_type)
    vector = scalars.VECTORS.get((type, width))
    if vector is None:
        widths = ", ".join(str(known) for element, known in ((type, 1), *scalars.VECTORS) if element == type)
        raise UnsupportedError(f"no access moves {width} elements of {type}; the width can be {widths}")
    return vector


def check_wide(side: str, width: int, buffer: SSAValue, map: AffineMap, indices: Sequence[SSAValue]) -> None:
    """Check that `width` elements lie side by side at an aligned address. Raises UnsupportedError otherwise."""
    type = loop.memref_of(buffer)
    position = offset(buffer, forms_of(map, indices))
    shape = type.get_shape()
    last = last_dimension(type)
    if not shape or strides_of(type)[last] != 1 or 0 <= shape[last] < width:
        raise UnsupportedError(f"the {side} {type} has no {width} elements side by side in its last dimension")
    if position.divisor() % width:
        raise UnsupportedError(
            f"the {side} of this move is not known to start at a multiple of {width} elements; use a smaller width"
        )


def _copy(bytes: int) -> str:
    cache = "cg" if bytes == 16 else "ca"
    return f"""\
__device__ __forceinline__ void copy_async_{bytes}(void* to, const void* from) {{
  const unsigned address = (unsigned)__cvta_generic_to_shared(to);
  asm volatile("cp.async.{cache}.shared.global [%0], [%1], {bytes};" ::"r"(address), "l"(from) : "memory");
}}
"""


def _copy_where(bytes: int) -> str:
    cache = "cg" if bytes == 16 else "ca"
    return f"""\
__device__ __forceinline__ void copy_async_{bytes}_where(void* to, const void* from, bool inside) {{
  const unsigned at = (unsigned)__cvta_generic_to_shared(to);
  const int read = inside ? {bytes} : 0;
  asm volatile("cp.async.{cache}.shared.global [%0], [%1], {bytes}, %2;" ::"r"(at), "l"(from), "r"(read) : "memory");
}}
"""


HELPERS = {
    **{f"copy_async_{bytes}": _copy(bytes) for bytes in ASYNC_BYTES},
    **{f"copy_async_{bytes}_where": _copy_where(bytes) for bytes in ASYNC_BYTES},
}
"""The device functions of asynchronous copies, by name, in the order they are printed."""


TEXTS: Texts = {MoveOp: _move}
"""How moves are written."""
