"""How many kernels the building blocks of transformers take, and what is never computed again."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor
from xdsl.dialects import func, math
from xdsl.dialects.builtin import ModuleOp
from xdsl.parser import Parser

from deplodock.dialects.tensor import KernelOp, ReduceOp
from deplodock.frontend.capture import export
from deplodock.passes import remarks
from deplodock.passes.driver import Level, lower, new_context
from deplodock.passes.tensor import group


def lowered(function: Callable[..., object], *shapes: tuple[int, ...], level: Level = Level.TENSOR) -> ModuleOp:
    ctx = new_context()
    module = export(function, tuple(torch.zeros(shape) for shape in shapes)).module
    with remarks.collect():
        lower(module, ctx, level)
    return module


def kernels(function: Callable[..., object], *shapes: tuple[int, ...]) -> list[KernelOp]:
    return [op for op in lowered(function, *shapes).walk() if isinstance(op, KernelOp)]


def rotate(x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
    half = x.shape[-1] // 2
    return x * cos + torch.cat([-x[..., half:], x[..., :half]], -1) * sin


def rotate_pairs(x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
    even, odd = x[..., ::2], x[..., 1::2]
    return torch.stack([even * cos - odd * sin, even * sin + odd * cos], -1).flatten(-2)


def swiglu(x: Tensor, gate: Tensor, up: Tensor, down: Tensor) -> Tensor:
    return F.linear(F.silu(F.linear(x, gate)) * F.linear(x, up), down)


def heads(x: Tensor, w: Tensor) -> Tensor:
    return F.linear(x, w).view(2, 5, 4, 8).transpose(1, 2)


def attention(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    return F.scaled_dot_product_attention(q, k, v, is_causal=True)


def shared(a: Tensor, b: Tensor) -> tuple[Tensor, Tensor]:
    for _ in range(48):
        a, b = 0.8 * a - 0.6 * b, 0.6 * a + 0.8 * b + 0.01 * torch.tanh(a * b)
    return a + b, a * b


def add_norm(x: Tensor, residual: Tensor, w: Tensor) -> tuple[Tensor, Tensor]:
    total = x + residual
    return total, F.rms_norm(total, (total.shape[-1],), w)


@pytest.mark.parametrize(
    ("function", "shapes", "count"),
    [
        (add_norm, [(512, 1000), (512, 1000), (1000,)], 1),
        (lambda x, w: F.rms_norm(x, (1000,), w), [(512, 1000), (1000,)], 1),
        (lambda x, w, b: F.layer_norm(x, (100,), w, b), [(7, 100), (100,), (100,)], 1),
        (lambda x: F.softmax(x, -1), [(64, 1000)], 1),
        (lambda x, w, b: F.gelu(F.linear(x, w, b)), [(50, 96), (130, 96), (130,)], 1),
        (lambda x, w: heads(x, w) * 2, [(2, 5, 16), (32, 16)], 1),
        (lambda x: x / x.sum(), [(1000, 1000)], 3),
        (lambda x: F.softmax(x, -1), [(2, 400009)], 5),
        (lambda x: x / x.sum(), [(10, 10)], 1),
        (lambda x: torch.tril(x).softmax(-1), [(9, 9)], 1),
        (rotate, [(2, 4, 5, 16), (5, 16), (5, 16)], 1),
        (rotate_pairs, [(2, 4, 5, 16), (5, 8), (5, 8)], 2),
        (swiglu, [(16, 32), (48, 32), (48, 32), (32, 48)], 3),
        (swiglu, [(512, 2048), (5632, 2048), (5632, 2048), (2048, 5632)], 3),
        (attention, [(1, 4, 33, 16)] * 3, 1),
        (attention, [(400, 4, 2, 16)] * 3, 3),
        (attention, [(1, 32, 512, 64)] * 3, 3),
        (shared, [(5, 33)] * 2, 1),
    ],
)
def test_number_of_kernels(function: Callable[..., object], shapes: list[tuple[int, ...]], count: int) -> None:
    assert len(kernels(function, *shapes)) == count


def test_a_softmax_is_not_computed_again_for_each_column_of_a_matmul() -> None:
    for kernel in kernels(attention, *[(1, 32, 512, 64)] * 3):
        exponentials = [op for op in kernel.walk() if isinstance(op, math.ExpOp)]
        contracts = any(len(op.inputs[0].type.get_shape()) > 4 for op in kernel.walk() if isinstance(op, ReduceOp))
        assert not (exponentials and contracts)


def layers(n: int) -> Callable[[Tensor, Tensor, Tensor], Tensor]:
    def stack(x: Tensor, gate: Tensor, down: Tensor) -> Tensor:
        for _ in range(n):
            x = x + F.linear(F.silu(F.linear(F.rms_norm(x, (1024,)), gate)), down)
        return x

    return stack


def test_layers_share_their_kernels() -> None:
    def functions(n: int) -> list[str]:
        module = lowered(layers(n), (256, 1024), (2816, 1024), (1024, 2816), level=Level.LOOP)
        return [op.sym_name.data for op in module.ops if isinstance(op, func.FuncOp)]

    assert functions(4) == functions(2) == ["main", "k_normal", "k_silu", "k_add"]


def returned_and_read_twice(x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    y = torch.exp(x)
    return y, y.sum(0), y.sum(1)


def returned_and_read_in_part(x: Tensor) -> tuple[Tensor, Tensor]:
    y = torch.exp(x)
    return y, y[::2]


STORED = [
    (
        lambda x: sum(torch.exp(x)[i : i + 8] for i in range(9)),
        "%exp is stored, not fused: the kernel would compute it at 9 indices; the limit is 8",
    ),
    (
        lambda x: x.sum(1).exp().sum(0),
        "%sum is stored, not fused: a reduction does not run inside the loop of another one",
    ),
    (
        lambda x: x - x.sum(1, keepdim=True) - x.sum(0, keepdim=True),
        "%sum is stored, not fused: its free dimensions are not the rows of the kernel",
    ),
    (returned_and_read_twice, "%exp is stored, not fused: it is returned, and several kernels need it"),
    (
        returned_and_read_in_part,
        "%exp is stored, not fused: it is returned, and the kernel has no place where it computes each of its elements "
        "once",
    ),
]


def said(module: ModuleOp) -> set[str]:
    """What the passes to tensor level say of the values of a module."""
    reasons = set[str]()
    lower(
        module,
        new_context(),
        Level.TENSOR,
        observer=lambda run, _: reasons.update(remark.reason for remark in run.remarks),
    )
    return reasons


@pytest.mark.parametrize(("function", "reason"), STORED)
def test_why_a_value_is_stored(function: Callable[..., object], reason: str) -> None:
    assert said(export(function, (torch.zeros(16, 16),)).module) == {reason}


def test_a_kernel_takes_a_limited_number_of_parameters(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(group, "MAX_PARAMETERS", 4)
    reasons = said(export(lambda *xs: sum(xs), tuple(torch.zeros(8) for _ in range(6))).module)
    assert {reason.partition(": ")[2] for reason in reasons} == {"the kernel would take more than 4 parameters"}


def test_a_value_that_a_kernel_reads_already_is_stored() -> None:
    text = """
    func.func @f(%x: tensor<4xf32>) -> (tensor<4xf32>, tensor<4xf32>, tensor<4xf32>) {
      %e = tensor_ext.elementwise {math.exp} %x : tensor<4xf32>
      %k = tensor_ext.kernel @k(%e0 = %e : tensor<4xf32>) -> tensor<4xf32> {
        %n = tensor_ext.elementwise {arith.negf} %e0 : tensor<4xf32>
        tensor_ext.yield %n : tensor<4xf32>
      }
      %s = tensor_ext.elementwise {arith.negf} %e : tensor<4xf32>
      func.return %e, %k, %s : tensor<4xf32>, tensor<4xf32>, tensor<4xf32>
    }"""
    assert said(Parser(new_context(), text).parse_module()) == {"%e is stored, not fused: another kernel reads it"}
