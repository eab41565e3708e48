"""Every scalar operation of the printer's table on the host, on the edges of its types, against the simulator."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
from scalar_kernels import TYPES, scalar_kernel
from scalar_samples import BLOCKS, CONTEXT, SIZE, THREADS, integers, rows, scalar_sample
from xdsl.dialects import math
from xdsl.dialects.builtin import ModuleOp

from deplodock.codegen.scalars import SCALARS, Signature
from deplodock.interpreters.values import dtype_of
from deplodock.runtime.host.harness import build


@pytest.mark.parametrize("type", TYPES)
def test_every_operation_on_edges(type: str) -> None:
    (program,) = build([scalar_sample(type).module])
    assert scalar_sample(type).complaint(program) is None


@pytest.mark.parametrize("type", ["i32", "i64"])
def test_bits_are_counted(type: str) -> None:
    """What the simulator does not know, against Python."""
    keys = [Signature(f"math.{name}", "", type, type) for name in ("ctlz", "cttz", "ctpop")]
    (program,) = build([ModuleOp([scalar_kernel(CONTEXT, keys, "k", BLOCKS, THREADS)])])
    values = np.resize(integers(type), SIZE)
    bits = 8 * values.itemsize
    words = [int(value) % 2**bits for value in values]
    wanted = [
        [bits - word.bit_length() for word in words],
        [(word & -word).bit_length() - 1 if word else bits for word in words],
        [word.bit_count() for word in words],
    ]
    assert [output.tolist() for output in program.run([values] * 3)] == wanted


def test_every_row_is_run() -> None:
    left_out = {key.op for key in SCALARS} - {key.op for type in TYPES for key in rows(type)}
    assert left_out == {math.CountLeadingZerosOp.name, math.CountTrailingZerosOp.name, math.CtPopOp.name}


@pytest.mark.parametrize("type", ["f32", "f64"])
def test_fma_rounds_once(type: str) -> None:
    """A tie between two numbers that the addend alone decides."""
    dtype = dtype_of(TYPES[type])
    (program,) = build([ModuleOp([scalar_kernel(CONTEXT, [Signature("math.fma", "", type, type)], "k", 1, 32)])])
    one, step = np.ones(32, dtype), np.finfo(dtype).eps
    # (1 + step) * 1.5 = 1.5 + 1.5 * step is the middle of two numbers.
    inputs = [one + step, one * dtype.type(1.5), np.resize(np.array([step**3, -(step**3)], dtype), 32)]
    exact = [Fraction(float(a)) * Fraction(float(b)) + Fraction(float(c)) for a, b, c in zip(*inputs, strict=True)]
    (output,) = program.run(inputs)
    for got, truth in zip(output, exact, strict=True):
        others = [np.nextafter(got, dtype.type(0)), np.nextafter(got, dtype.type(4))]
        assert all(abs(Fraction(float(got)) - truth) < abs(Fraction(float(other)) - truth) for other in others)
