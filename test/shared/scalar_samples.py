"""Every scalar operation of the printer's table on the edges of its types, with what the simulator gives."""

from __future__ import annotations

import itertools
from dataclasses import dataclass
from functools import cache, cached_property
from typing import Any

import numpy as np
from scalar_kernels import TYPES, operand_types, scalar_kernel
from xdsl.dialects.builtin import ModuleOp

from deplodock.codegen.cuda import print_module
from deplodock.codegen.scalars import SCALARS, Signature
from deplodock.interpreters.scalars import TABLE
from deplodock.interpreters.simulate import simulate
from deplodock.interpreters.values import dtype_of, is_float
from deplodock.passes.driver import new_context
from deplodock.runtime.host.harness import BuiltProgram

Array = np.ndarray[Any, Any]

BLOCKS, THREADS = 20, 128
SIZE = BLOCKS * THREADS
CONTEXT = new_context()

NUMBERS = (0.0, 1.0, 1.5, 0.5, 2.5, 3.5, 0.1, 0.99, 3.0, 7.0, 1e-3, 100.3, 12345.67, 65504.0, 65519.9, 65520.0, 1e38)
"""Halves, and what rounds up to or down from the largest f16, among others; and their negatives."""

TIES_OF_TF32 = (1 + 2.0**-11, 1 + 3 * 2.0**-11)

WHOLE = (0, 1, 2, 3, 5, 7, 8, 31, 100)
EXACT = {
    *(
        "math.absf",
        "math.ceil",
        "math.floor",
        "math.trunc",
        "math.round",
        "math.roundeven",
        "math.copysign",
        "math.sqrt",
    ),
    *("math.absi", "math.ipowi", "math.rsqrt"),
}
"""The operations of math whose results are the same bits everywhere: IEEE 754 defines them, or the simulator does."""

UNITS = {"f32": 4, "f64": 4, "f16": 1, "bf16": 1}
"""How many units in the last place the elementary functions of numpy and of the C library may differ. The simulator's
fma is off by one in rare ties; `test_fma_rounds_once` has those."""


def floats(type: str) -> Array:
    """The edges of a float type: zeros, infinities, NaN, the smallest and largest numbers of each kind."""
    dtype = dtype_of(TYPES[type])
    if type == "bf16":
        bits = np.array([0x7F80, 0x7FC0, 0x0001, 0x007F, 0x0080, 0x7F7F, 0x3F81], np.uint16).view(dtype)
    else:
        info = np.finfo(dtype)
        bits = np.array([np.inf, np.nan, info.smallest_subnormal, info.tiny * 0.75, info.tiny, info.max, 1 + info.eps])
    with np.errstate(all="ignore"):
        values = np.concatenate([bits.astype(dtype), np.array(NUMBERS).astype(dtype)])
    return np.concatenate([values, -values])


def integers(type: str) -> Array:
    """The edges of an integer type."""
    dtype = dtype_of(TYPES[type])
    if dtype.kind == "b":
        return np.array([False, True])
    info = np.iinfo(dtype)
    ends = [info.min, info.min + 1, info.max, info.max - 1, info.max // 2, info.min // 2]
    values = {*ends, *WHOLE, *(-n for n in WHOLE)}
    if info.bits > 32:
        values |= {2**31 - 1, 2**31, -(2**31), -(2**31) - 1, 2**32 + 5, 2**53 + 1}
    return np.array(sorted(n for n in values if info.min <= n <= info.max), dtype)


def edges(type: str) -> Array:
    """The edges of any type."""
    return floats(type) if is_float(dtype_of(TYPES[type])) else integers(type)


def in_range(key: Signature, values: Array) -> Array:
    """The floats that a conversion to an integer is defined for, those beside its ends among them."""
    bits = 64 if key.result == "i64" else 32
    low, high = (-(2 ** (bits - 1)), 2 ** (bits - 1)) if key.op == "arith.fptosi" else (0, 2 ** min(bits, 63))
    near = np.array([low, high * (1 - 2.0**-9), high / 2, high / 2 - 0.5, 2**24 - 1, 2**24 + 2])
    with np.errstate(all="ignore"):
        values = np.concatenate([values, near.astype(values.dtype)])
        wide = values.astype(np.float64)
        return values[np.isfinite(wide) & (wide > low - 1) & (wide < high)]


def operands(key: Signature) -> list[Array]:
    """The operands of a row: all pairs of edges for which the operation is defined, and a third one drawn."""
    types = [str(type) for type in operand_types(CONTEXT, key)]
    first = edges(types[0])
    if key.op in ("arith.fptosi", "arith.fptoui"):
        first = in_range(key, first)
    if key.op == "math_ext.round_tf32":
        first = np.concatenate([first, np.array(TIES_OF_TF32, first.dtype)])
    rest = [edges(type) for type in types[1:2]]
    if key.op.startswith("arith.sh"):
        bits = 8 * dtype_of(TYPES[key.operand]).itemsize
        rest = [np.array([0, 1, 2, bits // 2, bits - 1], dtype_of(TYPES[key.operand]))]
    pairs = list(itertools.product(first, *rest))
    if ("div" in key.op or "rem" in key.op) and not is_float(first.dtype):
        least = first.min()
        pairs = [(a, b) for a, b in pairs if b != 0 and not (a == least and b == -1)]
    draw = np.random.default_rng(0)
    chosen = [pairs[index] for index in itertools.islice(itertools.cycle(draw.permutation(len(pairs))), SIZE)]
    columns = [
        np.array(column, one.dtype) for column, one in zip(zip(*chosen, strict=True), [first, *rest], strict=True)
    ]
    return [*columns, *(draw.choice(edges(type), SIZE) for type in types[2:])]


def rows(type: str) -> list[Signature]:
    """The rows of the table for operands of a type that the simulator knows, too."""
    known = {cls.name for cls in TABLE}
    return [key for key in SCALARS if key.operand == type and key.op in known]


def distance(got: Array, wanted: Array) -> Array:
    """How many units in the last place of the wanted value two arrays of one float type differ, elementwise."""
    one, two = got.astype(np.float64), wanted.astype(np.float64)
    with np.errstate(all="ignore"):
        step = np.spacing(np.abs(wanted)).astype(np.float64)
        units = np.abs(one - two) / step
    return np.where((one == two) | (np.isnan(one) & np.isnan(two)), 0.0, np.where(np.isnan(units), np.inf, units))


def complaint(key: Signature, got: Array, wanted: Array, inputs: list[Array]) -> str | None:
    """What is wrong with the results of a row: bits count, but for NaN, whose bits are free."""
    if not is_float(wanted.dtype):
        wrong = got != wanted
    elif key.op.startswith("math.") and key.op not in EXACT:
        wrong = distance(got, wanted) > UNITS[key.result]
    else:
        wrong = ~(same_bits(got, wanted) | (np.isnan(got) & np.isnan(wanted)))
    if not np.any(wrong):
        return None
    at = int(np.argmax(wrong))
    return f"{'-'.join(key)} of {[str(column[at]) for column in inputs]} is {got[at]}, not {wanted[at]}"


def same_bits(got: Array, wanted: Array) -> Array:
    view = np.dtype(f"u{wanted.dtype.itemsize}")
    return got.view(view) == wanted.view(view)


@dataclass(frozen=True)
class ScalarSample:
    """A kernel with all operations on operands of a type, and their operands."""

    name: str
    module: ModuleOp
    keys: list[Signature]
    columns: list[list[Array]]

    @cached_property
    def expected(self) -> list[Array]:
        """What the simulator gives."""
        return simulate(self.module, [column for group in self.columns for column in group], check=False).outputs

    @cached_property
    def text(self) -> str:
        """Its CUDA."""
        return print_module(self.module)

    def complaint(self, program: BuiltProgram) -> str | None:
        """What is wrong with the results of a compiled form of it, None if nothing is. Raises HostFault for a fault."""
        outputs = program.run([column for group in self.columns for column in group])
        results = zip(self.keys, outputs, self.expected, self.columns, strict=True)
        return next((wrong for result in results if (wrong := complaint(*result)) is not None), None)


@cache
def scalar_sample(type: str) -> ScalarSample:
    """The kernel of a type."""
    keys = rows(type)
    module = ModuleOp([scalar_kernel(CONTEXT, keys, "k", BLOCKS, THREADS)])
    module.verify()
    return ScalarSample(f"scalars of {type}", module, keys, [operands(key) for key in keys])
