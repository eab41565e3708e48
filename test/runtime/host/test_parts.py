"""The parts of an f32 and their products in the printed text, on the host, against the evaluator and the simulator."""

from __future__ import annotations

from typing import Literal

import numpy as np
import pytest
from host_samples import Sample
from scalar_kernels import scalar_kernel
from scalar_samples import CONTEXT
from xdsl.dialects.builtin import ModuleOp

from deplodock.codegen.scalars import Signature
from deplodock.interpreters.simulate import simulate
from deplodock.interpreters.values import Array
from deplodock.passes.driver import Level, lower
from deplodock.runtime.host.harness import BuiltProgram, build

BLOCKS, THREADS = 32, 128
SIZE = BLOCKS * THREADS
PARTS = ("math_ext.high_part", "math_ext.low_part", "math_ext.round_tf32")


@pytest.fixture(scope="module")
def program() -> tuple[ModuleOp, BuiltProgram]:
    """A kernel of both parts and of rounded numbers, and what it was compiled to."""
    keys = [Signature(name, "", "f32", "f32") for name in PARTS]
    module = ModuleOp([scalar_kernel(CONTEXT, keys, "k", BLOCKS, THREADS)])
    return module, build([module])[0]


@pytest.mark.parametrize(
    "first",
    [
        pytest.param((0x7F800000, 0xFF800000), id="infinities"),
        pytest.param((0x7FC00000, 0xFFC00000, 0x7FFFFFFF), id="NaN"),
        pytest.param((0x7F7FFFFF, 0xFF7FFFFF, 0x7F7FE000, 0x7F7FF000, 0x7F7FEFFF), id="largest"),
        pytest.param((0x3F801000, 0x3F803000, 0xBF801000, 0xBF803000, 0x3F800FFF, 0x3F801001, 0x1000), id="ties"),
        pytest.param((0, 0x80000000, 1, 0x80000001, 0x1FFF, 0x2000, 0x7FFFFF, 0x800000), id="smallest"),
        pytest.param((), id="all exponents"),
    ],
)
def test_parts_have_the_bits_of_the_evaluator(program: tuple[ModuleOp, BuiltProgram], first: tuple[int, ...]) -> None:
    module, built = program
    exponents = np.arange(SIZE, dtype=np.uint32) % 255
    drawn = np.random.default_rng(0).integers(0, 1 << 23, SIZE, np.uint32)
    values = (exponents << 23 | drawn | np.arange(SIZE, dtype=np.uint32) << 31).view(np.float32)
    values[: len(first)] = np.array(first, np.uint32).view(np.float32)
    inputs = [values] * len(PARTS)
    got, wanted = built.run(inputs), simulate(module, inputs).outputs
    for part, one, other in zip(PARTS, got, wanted, strict=True):
        np.testing.assert_array_equal(bits(one), bits(other), err_msg=part)
    assert all(bits(output)[: len(first)].any() or not first for output in got)


def bits(values: Array) -> Array:
    return np.asarray(values).view(np.uint32)


@pytest.mark.parametrize(
    ("precision", "shapes", "target", "text"),
    [
        pytest.param("high", [(40, 72), (33, 72)], "sm_80", "mma_m16n8k8", id="warps"),
        pytest.param("high", [(64, 36), (520, 36)], "sm_90", "k8_f32_held_anew", id="warpgroups in turns"),
        pytest.param("medium", [(64, 68), (64, 68)], "sm_90", "wgmma_m64n64k8_f32", id="rounded boxes"),
        pytest.param("medium", [(64, 100), (100, 64)], "sm_90", "k8_f32_held(", id="along the output"),
        pytest.param("medium", [(8, 64), (32, 64)], "sm_90", "round_tf32(", id="rounded in registers"),
    ],
)
def test_products_are_those_of_the_simulator(
    precision: Literal["high", "medium"], shapes: list[tuple[int, int]], target: str, text: str
) -> None:
    """In all orders of threads, with copies that land early and late."""
    import torch

    from deplodock.frontend.arrays import to_array
    from deplodock.frontend.capture import export
    from deplodock.frontend.precision import pytorch_at

    with pytorch_at(precision):
        program = torch.nn.functional.linear if shapes[0][1] == shapes[1][1] else torch.matmul
        captured = export(program, tuple(torch.randn(shape) for shape in shapes))
    lower(captured.module, CONTEXT, Level.KERNEL, target=target)
    sample = Sample("parts", captured.module, [to_array(value) for value in captured.inputs])
    assert text in sample.text
    (program,) = build([sample.module])
    assert sample.complaint(program) is None
