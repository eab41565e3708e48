"""Products of matrices, and reads of their factors, as CUDA C: `mma.sync` and `ldmatrix` of the PTX ISA.

A register of a factor holds neighbours along k, two halves or four bytes, of a row of the left factor or a column of
the right one; the registers of the left factor are in order of k, then of rows, the rows faster.
"""

from __future__ import annotations

import math

from deplodock.codegen.writer import KernelWriter, Texts
from deplodock.dialects.elements import BY_NAME
from deplodock.dialects.engines import ENGINES, Engine
from deplodock.dialects.kernel.ldmatrix import COUNTS, LdmatrixOp
from deplodock.dialects.kernel.mma import Fragment, MmaOp
from deplodock.dialects.loop import memref_of

SUMS = {"f32": ("f32", "f"), "i32": ("s32", "r")}
"""The types of sums in PTX, and their constraints in inline assembly."""


def _name(engine: Engine, factor: str) -> str:
    return f"{engine.name}_{engine.instruction}_{factor}"


def _helper(engine: Engine, factor: str) -> str:
    """The device function of an instruction for factors of a type."""
    sums = [f"c{i}" for i in range(math.prod(engine.held))]
    count = engine.depth // engine.packed
    factors = [*(f"a{i}" for i in range(engine.held[0] * count)), *(f"b{i}" for i in range(count))]
    result, constraint = SUMS[engine.result]
    sum_type, (c_type, type) = BY_NAME[engine.result].c, (BY_NAME[factor].c, BY_NAME[factor].ptx)
    parameters = [*(f"{sum_type}& {name}" for name in sums), *(f"const {c_type}* {name}" for name in factors)]
    places = [f"%{i}" for i in range(len(sums) + len(factors))]
    c, rest = places[: len(sums)], places[len(sums) :]
    groups = ", ".join("{" + ", ".join(group) + "}" for group in (c, rest[:-count], rest[-count:], c))
    outputs = ", ".join(f'"+{constraint}"({name})' for name in sums)
    inputs = ",\n        ".join(f'"r"(*reinterpret_cast<const unsigned*>({name}))' for name in factors)
    return f"""\
__device__ __forceinline__ void {_name(engine, factor)}({", ".join(parameters)}) {{
  asm volatile(
      "mma.sync.aligned.{engine.instruction}.row.col.{result}.{type}.{type}.{result} {groups};"
      : {outputs}
      : {inputs});
}}
"""


def _reading_name(count: int, is_transposed: bool) -> str:
    return f"ldmatrix_{count}_trans" if is_transposed else f"ldmatrix_{count}"


def _reading_helper(count: int, is_transposed: bool) -> str:
    """The device function that reads so many matrices from the rows whose places the lanes give."""
    registers = [f"r{i}" for i in range(count)]
    parameters = ", ".join(f"void* {name}" for name in registers)
    outputs = ", ".join(f'"=r"(*reinterpret_cast<unsigned*>({name}))' for name in registers)
    places = ", ".join(f"%{i}" for i in range(count))
    trans = ".trans" if is_transposed else ""
    return f"""\
__device__ __forceinline__ void {_reading_name(count, is_transposed)}(const void* row, {parameters}) {{
  const unsigned address = (unsigned)__cvta_generic_to_shared(row);
  asm volatile("ldmatrix.sync.aligned.m8n8.x{count}{trans}.shared.b16 {{{places}}}, [%{count}];"
               : {outputs}
               : "r"(address)
               : "memory");
}}
"""


HELPERS = {
    **{_name(engine, factor): _helper(engine, factor) for engine in ENGINES for factor in engine.factors},
    **{_reading_name(n, trans): _reading_helper(n, trans) for n in COUNTS for trans in (False, True)},
}
"""The device functions of products and of reads of matrices, by name."""


def _mma(to: KernelWriter, op: MmaOp) -> None:
    left, right, sums = op.fragments
    factor = str(memref_of(op.left).element_type)
    a, b, c = (_registers(to, fragment) for fragment in (left, right, sums))
    rows, columns = map(range, op.engine.held)
    steps = range(0, op.engine.depth, op.engine.packed)
    arguments = [c[row, column] for row in rows for column in columns]
    arguments += [f"&{a[row, k]}" for k in steps for row in rows]
    arguments += [f"&{b[k,]}" for k in steps]
    to.line(f"{_name(op.engine, factor)}({', '.join(arguments)});")


def _registers(to: KernelWriter, fragment: Fragment) -> dict[tuple[int, ...], str]:
    return {place: to.element(fragment.buffer, map, fragment.indices) for place, map in fragment.registers()}


def _ldmatrix(to: KernelWriter, op: LdmatrixOp) -> None:
    source = to.element(op.source, op.source_map.data, op.source_indices)
    registers = _registers(to, op.fragment).values()
    name = _reading_name(op.matrices, bool(op.is_transposed))
    to.line(f"{name}({', '.join(f'&{element}' for element in (source, *registers))});")


TEXTS: Texts = {MmaOp: _mma, LdmatrixOp: _ldmatrix}
"""How products of matrices and reads of their factors are written."""
