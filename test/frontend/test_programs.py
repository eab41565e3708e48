"""Random PyTorch programs: every level means what PyTorch computes, and the kernels are clean on the simulator."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass

import pytest
import torch
from hypothesis import HealthCheck, Phase, assume, given, seed, settings
from hypothesis import strategies as st

DRAWS = int(os.environ.get("DEPLODOCK_PROGRAMS", "60"))
IS_FIXED = "DEPLODOCK_PROGRAMS" not in os.environ
PARTS = 4
EXTENTS = st.sampled_from([1, 2, 3, 5, 7, 8, 11, 16, 17, 33])
Tensor = torch.Tensor


@dataclass(frozen=True)
class Step:
    """One operation on the value so far and the program's other inputs, with a description for the failing case."""

    text: str
    apply: Callable[..., Tensor]

    def __repr__(self) -> str:
        return self.text


UNARY = [
    Step("relu", torch.relu),
    Step("neg", torch.neg),
    Step("abs", torch.abs),
    Step("exp(-abs)", lambda x: torch.exp(-x.abs())),
    Step("tanh", torch.tanh),
    Step("sigmoid", torch.sigmoid),
    Step("silu", torch.nn.functional.silu),
    Step("gelu", torch.nn.functional.gelu),
    Step("gelu tanh", lambda x: torch.nn.functional.gelu(x, approximate="tanh")),
    Step("softplus", torch.nn.functional.softplus),
    Step("clamp", lambda x: x.clamp(-0.5, 1.5)),
    Step("square", lambda x: x**2),
    Step("cube", lambda x: x**3),
    Step("rsqrt", lambda x: torch.rsqrt(x * x + 1)),
    Step("* 3 - 1", lambda x: x * 3 - 1),
    Step("where", lambda x: torch.where(x > 0, x, x * 0.1)),
    Step("float(x < 0.3)", lambda x: (x < 0.3).to(x.dtype) + x),
    Step("i32", lambda x: (x * 3).to(torch.int32).to(x.dtype)),
    Step("f64", lambda x: (x.double() / 3).to(x.dtype)),
]
ROWS = [
    Step("softmax -1", lambda x: torch.softmax(x, -1)),
    Step("softmax 0", lambda x: torch.softmax(x, 0)),
    Step("log_softmax", lambda x: torch.log_softmax(x, -1)),
    Step("rms_norm", lambda x: torch.nn.functional.rms_norm(x, (x.shape[-1],))),
    Step("layer_norm", lambda x: torch.nn.functional.layer_norm(x, (x.shape[-1],))),
    Step("- mean", lambda x: x - x.mean(-1, keepdim=True)),
    Step("- mean 0", lambda x: x - x.mean(0, keepdim=True)),
    Step("/ var", lambda x: x / (x.var(-1, keepdim=True, unbiased=False) + 1)),
    Step("- amax", lambda x: x - x.amax(-1, keepdim=True)),
]
SHAPES = [
    Step("transpose", lambda x: x.transpose(0, -1)),
    Step("flip", lambda x: x.flip(-1)),
    Step("flatten", lambda x: x.flatten().unsqueeze(0)),
    Step("slice step", lambda x: x[..., ::2]),
    Step("narrow", lambda x: x[1:] if x.shape[0] > 1 else x),
    Step("cat", lambda x: torch.cat([x, x * 2], -1)),
    Step("stack", lambda x: torch.stack([x, -x]).amax(0)),
    Step("chunk", lambda x: torch.cat(x.chunk(2, -1)[::-1], -1)),
    Step("expand", lambda x: x.unsqueeze(0).expand(2, *x.shape).sum(0)),
    Step("tril", lambda x: torch.tril(x)),
    Step("view", lambda x: x.reshape(-1, 1)),
]
ENDS = [
    Step("x", lambda x: x),
    Step("sum", lambda x: x.sum()),
    Step("sum -1", lambda x: x.sum(-1)),
    Step("mean 0", lambda x: x.mean(0)),
    Step("amax", lambda x: x.amax((0, -1))),
    Step("prod", lambda x: (1 + torch.tanh(x) / 8).prod(-1)),
    Step("any", lambda x: (x > 0).any(-1)),
]


def binary(x: Tensor, y: Tensor) -> Tensor:
    return x + y.reshape(-1)[: x.shape[-1]] if y.numel() >= x.shape[-1] else x * y.reshape(-1)[0]


def project(x: Tensor, w: Tensor) -> Tensor:
    """x @ w cut or repeated to fit x's columns."""
    columns = x.shape[-1]
    repeats = -(-columns // w.shape[0])
    return x @ w.repeat(repeats, 1)[:columns]


STEPS = st.lists(st.sampled_from([*UNARY, *UNARY, *ROWS, *SHAPES]), min_size=1, max_size=4)


@st.composite
def programs(draw: st.DrawFn) -> tuple[tuple[int, ...], int, list[Step], bool, bool, Step, bool]:
    shape = tuple(draw(st.lists(EXTENTS, min_size=2, max_size=3)))
    return (
        shape,
        draw(EXTENTS),
        draw(STEPS),
        draw(st.booleans()),
        draw(st.booleans()),
        draw(st.sampled_from([ENDS[0], *ENDS])),
        draw(st.booleans()),
    )


def is_lost(result: Tensor, reference: Tensor) -> bool:
    """Whether nearly all digits cancel: PyTorch's own float32 result is off by more than 1e-3 of its size."""
    finite = torch.isfinite(result) & torch.isfinite(reference)
    error = (result.double() - reference.double())[finite].norm()
    return bool(error > 1e-3 * reference[finite].double().norm())


@pytest.mark.parametrize("part", range(PARTS))
def test_every_level_is_right(check_levels: Callable[..., int], part: int) -> None:
    """The parts draw different programs, the same ones in each run unless DEPLODOCK_PROGRAMS says how many."""

    @seed(part if IS_FIXED else None)
    @settings(
        max_examples=-(-DRAWS // PARTS),
        derandomize=IS_FIXED,
        deadline=None,
        suppress_health_check=list(HealthCheck),
        phases=(Phase.explicit, Phase.reuse, Phase.generate),
    )
    @given(program=programs(), number=st.integers(0, 2**16))
    def check(program: tuple, number: int) -> None:
        check_program(check_levels, program, number)

    check()


def check_program(check_levels: Callable[..., int], program: tuple, number: int) -> None:
    """Compare all levels of a program on inputs drawn from a number."""
    shape, columns, steps, matmul, mixed, end, strided = program
    torch.manual_seed(number)
    x = torch.randn(*shape[:-2], shape[-1], shape[-2]).transpose(-1, -2) if strided else torch.randn(*shape)
    y, w = torch.randn(40), torch.randn(shape[-1], columns)

    def run(x: Tensor, y: Tensor, w: Tensor) -> Tensor:
        value = x
        for position, step in enumerate(steps):
            value = step.apply(value)
            if mixed and position == 0:
                value = binary(value, y)
            if matmul and position == len(steps) - 1:
                value = project(value, w)
        return end.apply(value)

    assume(not is_lost(run(x, y, w), run(x.double(), y.double(), w.double())))
    check_levels(run, (x, y, w))
