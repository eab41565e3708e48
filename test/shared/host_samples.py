"""Programs that run on the host as printed: every kind of kernel, at extents that keep the kind, with expected results.

Extents are cut where the simulator would take more than a second. A cut program keeps the schedules of the full one, so
it has the same kernels: the same statements, in loops that end earlier.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache, cached_property
from typing import Any

import numpy as np
from kinds import Kind
from ml_dtypes import bfloat16
from xdsl.dialects.builtin import ModuleOp

from deplodock.analysis.shape.nest import kernels
from deplodock.codegen.cuda import print_module
from deplodock.interpreters.simulate import simulate
from deplodock.interpreters.values import is_float
from deplodock.passes.driver import Level, lower, new_context
from deplodock.passes.tile.choose_schedule import write_schedule
from deplodock.runtime.host.harness import ORDERS, BuiltProgram, Order
from deplodock.schedule.choose.kernels import schedule_of

Array = np.ndarray[Any, Any]

CUTS = {
    "contraction": "F.linear(torch.randn(72, 300), torch.randn(68, 300), torch.randn(68))",
    "contraction_large": "torch.randn(256, 384) @ torch.randn(384, 128)",
    "attention": "F.scaled_dot_product_attention("
    "torch.randn(1, 2, 70, 64), torch.randn(1, 2, 70, 64), torch.randn(1, 2, 70, 64))",
    "attention_causal": "F.scaled_dot_product_attention(torch.randn(1, 4, 70, 64), torch.randn(1, 1, 70, 64), "
    "torch.randn(1, 1, 70, 64), is_causal=True, enable_gqa=True)",
    "attention_causal_tiles": "F.scaled_dot_product_attention(torch.randn(1, 2, 236, 64), torch.randn(1, 1, 236, 64), "
    "torch.randn(1, 1, 236, 64), is_causal=True, enable_gqa=True)",
}
"""Programs of fewer elements, by kind."""

FORM_CUTS = {
    "contraction_": "F.linear(torch.randn(36, 100), torch.randn(40, 100))",
    "masked_": "F.scaled_dot_product_attention("
    "torch.randn(1, 1, 192, 64), torch.randn(1, 1, 192, 64), torch.randn(1, 1, 192, 64), is_causal=True)",
}
"""Those of the kinds that have a schedule of their own, by how their names start."""

ELEMENTARY_ERROR = {
    **{np.dtype(np.float32): 2e-6, np.dtype(np.float64): 1e-14},
    **{np.dtype(np.float16): 2.0**-10, np.dtype(bfloat16): 2.0**-7},
}
"""How far results may be from the simulator's, in units of their largest, where a program calls elementary functions:
those of the C library and of numpy differ by an ulp or two, and half precision may round to either side of such a
difference. All other results agree bit for bit."""


@dataclass(frozen=True)
class Sample:
    """A program at kernel level, and its inputs."""

    name: str
    module: ModuleOp
    inputs: list[Array]

    @cached_property
    def expected(self) -> list[Array]:
        """What the simulator gives."""
        return simulate(self.module, self.inputs, check=False, counts=False).outputs

    @cached_property
    def text(self) -> str:
        """Its CUDA."""
        return print_module(self.module)

    def complaint(self, program: BuiltProgram, orders: Sequence[Order] = ORDERS) -> str | None:
        """What is wrong with the results of a compiled form of it, None if nothing is. Raises HostFault for a fault."""
        calls_elementary = any(op.name in ELEMENTARY for op in self.module.walk())
        for number, (got, wanted) in enumerate(zip(program.run(self.inputs, orders), self.expected, strict=True)):
            error = ELEMENTARY_ERROR.get(wanted.dtype, 0.0) if calls_elementary else 0.0
            if (reason := difference(got, wanted, error)) is not None:
                return f"output {number} {reason}"
        return None


ELEMENTARY = {f"math.{name}" for name in ("exp", "exp2", "log", "tanh", "erf", "sin", "cos", "powf", "log1p", "expm1")}
"""The operations on whose last bits libraries differ."""


def difference(got: Array, wanted: Array, error: float) -> str | None:
    """Where two arrays differ by more than an error in units of their largest number; a NaN equals any NaN."""
    same = got == wanted
    if is_float(wanted.dtype):
        one, two = got.astype(np.float64), wanted.astype(np.float64)
        same = (same & (np.signbit(one) == np.signbit(two))) | (np.isnan(one) & np.isnan(two))
        if error:
            largest = np.max(np.abs(two[np.isfinite(two)]), initial=0.0)
            same = same | (np.abs(one - two) <= error * largest)
    if same.all():
        return None
    first = tuple(int(index) for index in np.argwhere(~same)[0])
    return f"has {np.count_nonzero(~same)} wrong elements: {list(first)} is {got[first]}, not {wanted[first]}"


def lowered(kind: Kind, text: str | None = None) -> Sample:
    """A kind at kernel level, on inputs of its own seed; with the text of a cut one, under the schedules of its own."""
    # Here, so that tests are collected without PyTorch.
    from deplodock.frontend.arrays import to_array
    from deplodock.frontend.expression import read_expression

    context = new_context()
    program = read_expression(text or kind.text, seed=1)
    if text is not None and kind.schedule is None:
        full = read_expression(kind.text, seed=1).module
        lower(full, context, Level.TILE)
        lower(program.module, context, Level.LOOP)
        for function, own in zip(kernels(program.module), kernels(full), strict=True):
            write_schedule(function, schedule_of(own))
    lower(program.module, context, Level.KERNEL, schedule=kind.schedule, stream=kind.stream)
    return Sample(kind.name, program.module, [to_array(value) for value in program.inputs])


@cache
def sample_of(kind: Kind) -> Sample:
    """A kind at the extents of these tests; nobody changes it."""
    form = next((text for start, text in FORM_CUTS.items() if kind.name.startswith(start)), None)
    return lowered(kind, CUTS.get(kind.name, form if kind.schedule is not None else None))
