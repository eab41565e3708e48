"""Products of matrices, and reads of their factors, as CUDA C: `mma.sync` and `ldmatrix` of the PTX ISA.

A register of a factor holds neighbours along k, two halves or four bytes, of a row of the left factor or a column of
the right one; the registers of the left factor are in order of k, then of rows, the rows faster.
"""

from __future__ import annotations

import math

from deplodock.codegen.writer import KernelWriter, Texts, c_type
from deplodock.dialects.engines import ENGINES, Engine
from deplodock.dialects.kernel.ldmatrix import COUNTS, LdmatrixOp
from deplodock.dialects.kernel.mma import Fragment, MmaOp
from deplodock.dialects.loop import memref_of

_C_TYPES = {"bf16": "__nv_bfloat16", "f16": "__half", "f32": "float", "i8": "signed char"}
_PTX_TYPES = {"i8": "s8", "i32": "s32"}
"""The names of types that PTX has another one for."""
_FACTOR_TYPES = {**_PTX_TYPES, "f32": "tf32"}
"""The names of types of factors that PTX has another one for."""
_SUMS = {"f32": ("float", "f"), "i32": ("int", "r")}
"""The types of sums in C, and their constraints in inline assembly."""


def _name(engine: Engine, factor: str) -> str:
    return f"{engine.name}_{engine.instruction}_{factor}"


def _helper(engine: Engine, factor: str) -> str:
    """The device function of an instruction for factors of a type."""
    sums = [f"c{i}" for i in range(math.prod(engine.held))]
    count = engine.depth // engine.packed
    factors = [*(f"a{i}" for i in range(engine.held[0] * count)), *(f"b{i}" for i in range(count))]
    sum_type, constraint = _SUMS[engine.result]
    result, type = _PTX_TYPES.get(engine.result, engine.result), _FACTOR_TYPES.get(factor, factor)
    parameters = [*(f"{sum_type}& {name}" for name in sums), *(f"const {_C_TYPES[factor]}* {name}" for name in factors)]
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
    factor = next(type for type, name in _C_TYPES.items() if name == c_type(memref_of(op.left).element_type))
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
