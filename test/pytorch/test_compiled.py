"""`deplodock.compile` on a CPU: calls, their checks, state by name, writes, and the start of the package."""

from __future__ import annotations

import logging
import math
import subprocess
import sys
import warnings
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
import torch
from torch import nn
from torch.nn import functional as F
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.utils import _pytree as pytree
from xdsl.dialects.func import FuncOp

import deplodock
from deplodock.pytorch import runners
from deplodock.pytorch.compiled import CompiledProgram
from deplodock.pytorch.runners import aligned

Tensor = torch.Tensor


def ramp(*shape: int) -> Tensor:
    return torch.arange(float(math.prod(shape))).reshape(shape)


def same(got: Tensor, wanted: Tensor) -> None:
    torch.testing.assert_close(got, wanted, rtol=1e-5, atol=1e-6)


def test_the_package_imports_neither_torch_nor_numpy() -> None:
    text = (
        "import deplodock, sys; print(sorted({'torch', 'numpy', 'xdsl', 'rich'} & set(sys.modules)), *dir(deplodock))"
    )
    done = subprocess.run([sys.executable, "-c", text], capture_output=True, text=True, check=True)
    assert done.stdout.startswith("[] ")
    assert " compile " in done.stdout


def test_parameters_are_those_of_the_module_at_the_call() -> None:
    norm = nn.RMSNorm(8)
    compiled = deplodock.compile(norm, (torch.ones(2, 8),))
    x = torch.randn(2, 8)
    same(compiled(x), norm(x))
    norm.weight.data.fill_(3.0)
    same(compiled(x), norm(x))
    norm.weight = nn.Parameter(torch.arange(8.0))
    same(compiled(x), norm(x))
    assert not compiled(x).requires_grad
    norm.weight = nn.Parameter(torch.ones(9))
    with pytest.raises(deplodock.InvalidInputError, match=r"p_weight must be torch.float32 of shape \(8,\)"):
        compiled(x)


def test_modules_are_those_of_the_call() -> None:
    model, x = nn.Sequential(nn.Linear(3, 3), nn.ReLU()), torch.randn(2, 3)
    compiled = deplodock.compile(model, (x,))
    model[0] = nn.Linear(3, 3)
    same(compiled(x), model(x))
    model[0] = nn.Tanh()
    with pytest.raises(deplodock.InvalidInputError, match=r"the module has no 0\.weight any more: compile it again"):
        compiled(x)


def test_tied_parameters_are_one_argument() -> None:
    model = nn.Sequential(nn.Embedding(6, 4), nn.Linear(4, 6, bias=False))
    model[1].weight = model[0].weight
    compiled = deplodock.compile(model, (torch.tensor([1, 5]),))
    (main,) = [op for op in compiled.runner.module.ops if isinstance(op, FuncOp)]
    assert len(main.args) == 2
    same(compiled(torch.tensor([2, 0])), model(torch.tensor([2, 0])))


def nest(data: dict[str, Tensor], factor: int) -> dict[str, Any]:
    return {"product": data["a"] * factor, "both": [data["b"], data["a"] + 1]}


def test_nests_of_arguments_and_results() -> None:
    compiled = deplodock.compile(nest, ({"a": torch.ones(3), "b": torch.zeros(2)}, 3))
    given = {"a": torch.tensor([1.0, 2.0, 3.0]), "b": torch.tensor([4.0, 5.0])}
    got, wanted = compiled(given, 3), nest(given, 3)
    same(got["product"], wanted["product"])
    same(got["both"][0], wanted["both"][0])
    same(got["both"][1], wanted["both"][1])


@pytest.mark.parametrize(
    ("args", "message"),
    [
        (({"a": torch.ones(3), "b": torch.ones(2)}, 4), "compiled for the argument 3, got 4"),
        (({"a": torch.ones(4), "b": torch.ones(2)}, 3), r"d?a must be torch.float32 of shape \(3,\)"),
        (({"a": torch.ones(3).double(), "b": torch.ones(2)}, 3), "must be torch.float32"),
        (({"a": torch.ones(3)}, 3), r"compiled for the arguments \({'a': \*, 'b': \*}, \*\), got the arguments"),
        (({"a": torch.ones(3), "b": 2.0}, 3), r"the argument a tensor of shape \(2,\), got 2.0"),
    ],
)
def test_calls_that_do_not_fit(args: tuple[Any, ...], message: str) -> None:
    compiled = deplodock.compile(nest, ({"a": torch.ones(3), "b": torch.zeros(2)}, 3))
    with pytest.raises(deplodock.InvalidInputError, match=message):
        compiled(*args)


def test_tensors_from_elsewhere_are_read_at_the_call() -> None:
    base = torch.zeros(2, 3)
    weight, x = base.t(), torch.ones(3, 2)
    compiled = deplodock.compile(lambda x: x + weight, (x,))
    base.add_(1)
    same(compiled(x), x + weight)


def test_writes_come_back() -> None:
    def step(x: Tensor, y: Tensor) -> Tensor:
        x.mul_(2)
        y[1:].add_(x)
        return x + 1

    compiled = deplodock.compile(step, (torch.ones(2), torch.ones(3)))
    got, wanted = ([torch.tensor([1.0, 3.0]), torch.tensor([1.0, 2.0, 4.0])] for _ in range(2))
    same(compiled(*got), step(*wanted))
    same(got[0], wanted[0])
    same(got[1], wanted[1])


def test_what_is_written_shares_no_memory() -> None:
    def step(x: Tensor, y: Tensor) -> Tensor:
        x.add_(1)
        return y * 2

    compiled, pair = deplodock.compile(step, (torch.ones(3), torch.ones(3))), torch.zeros(3, 2)
    same(compiled(pair[:, 0], pair[:, 1]), torch.zeros(3))
    same(pair[:, 0], torch.ones(3))
    with pytest.raises(deplodock.InvalidInputError, match="writes into x, which shares memory with y: pass a clone"):
        compiled(pair.view(-1)[:3], pair.view(-1)[1:4])


def test_buffers_are_written() -> None:
    class Counter(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.register_buffer("total", torch.zeros(2))

        def forward(self, x: Tensor) -> Tensor:
            self.total += x
            return self.total * 2

    counter = Counter()
    compiled = deplodock.compile(counter, (torch.ones(2),))
    for expected in (1.0, 2.0):
        same(compiled(torch.ones(2)), torch.full((2,), 2 * expected))
        same(counter.total, torch.full((2,), expected))


def test_strided_and_misaligned_tensors_are_copied() -> None:
    base = torch.arange(9.0)
    assert aligned(base).data_ptr() == base.data_ptr()
    assert aligned(base[1:]).data_ptr() % 16 == 0
    assert torch.equal(aligned(base[1:]), base[1:])
    compiled = deplodock.compile(lambda x: x * 2, (torch.ones(3, 2),))
    x = torch.arange(6.0).view(2, 3).t()
    same(compiled(x), x * 2)


LAYOUTS: dict[str, tuple[Callable[..., Any], Tensor]] = {
    "strides": (lambda x: x * x.stride(0), ramp(3, 4).t()),
    "a branch": (lambda x: x * 2 if x.is_contiguous() else x * 3, ramp(3, 4).t()),
    "an offset": (lambda x: x + x.storage_offset(), ramp(3, 4)[1:]),
    "an expanded argument": (lambda x: (x + 1, x * x.stride(0), x.sum(0)), ramp(1, 4).expand(5, 4)),
    "gaps": (lambda x: (x + 1, x[:, ::2], x.t(), x.reshape(-1)), ramp(3, 4)[:, ::2]),
    "channels last": (lambda x: (x + 1, F.max_pool2d(x, 2)), ramp(2, 3, 4, 5).to(memory_format=torch.channels_last)),
    "windows": (lambda x: x.unfold(0, 3, 1), ramp(6)),
    "views": (lambda x: (x.expand(2, 3, 4), x.t(), x.view(-1), x, x.clone()), ramp(3, 4)),
    "no elements": (lambda x: (x.t(), x + 1), ramp(0, 4)),
}


@pytest.mark.parametrize("name", LAYOUTS)
def test_strides_are_those_of_pytorch(name: str) -> None:
    program, x = LAYOUTS[name]
    got, wanted = (pytree.tree_leaves(run(x)) for run in (deplodock.compile(program, (x,)), program))
    for one, other in zip(got, wanted, strict=True):
        same(one, other)
        assert one.stride() == other.stride()
    for number, one in enumerate(got):
        for other in [x, *got[number + 1 :]]:
            assert other.untyped_storage().data_ptr() != one.untyped_storage().data_ptr() or not other.numel()


def test_views_that_eager_refuses_are_refused() -> None:
    with pytest.raises(deplodock.InvalidInputError, match=r"test_compiled.*the program raises .*view size is not"):
        deplodock.compile(lambda x: x.view(-1), (ramp(3, 4).t(),))


def test_a_program_that_asks_for_strides_takes_no_others() -> None:
    compiled = deplodock.compile(lambda x: x * x.stride(0), (ramp(4, 4).t(),))
    with pytest.raises(
        deplodock.InvalidInputError, match=r"x must have strides \(1, 4\) and offset 0, .*compile again"
    ):
        compiled(ramp(4, 4))


def test_results_that_are_constants_are_copies() -> None:
    constant = torch.ones(3)
    compiled = deplodock.compile(lambda x: (x + constant, constant, torch.ones(2)), (torch.ones(3),))
    for result in compiled(torch.ones(3)):
        result.zero_()
    for result, wanted in zip(
        compiled(torch.ones(3)), (torch.full((3,), 2.0), torch.ones(3), torch.ones(2)), strict=True
    ):
        same(result, wanted)
    same(constant, torch.ones(3))


def test_views_that_negate_are_resolved() -> None:
    x = torch._neg_view(torch.arange(1.0, 5.0))
    same(deplodock.compile(lambda x: x * 2, (x,))(x), x * 2)
    assert not aligned(x).is_neg()


def test_numbers_are_those_of_the_program() -> None:
    compiled, x = deplodock.compile(lambda x, n, m: x * n + m, (torch.ones(2), 0.0, math.nan)), torch.ones(2)
    assert compiled(x, 0.0, math.nan).isnan().all()
    with pytest.raises(deplodock.InvalidInputError, match=r"compiled for the argument 0.0, got -0.0"):
        compiled(x, -0.0, math.nan)


def test_threads_compile_at_once() -> None:
    stdout, stderr = sys.stdout, sys.stderr
    with ThreadPoolExecutor(4) as pool:
        compiled = list(pool.map(lambda n: deplodock.compile(lambda x: x + n, (torch.zeros(2),)), range(4)))
    assert [run(torch.zeros(2))[0] for run in compiled] == [0, 1, 2, 3]
    assert (sys.stdout, sys.stderr) == (stdout, stderr)


def test_results_may_be_none() -> None:
    def step(x: Tensor) -> dict[str, Any]:
        x.add_(1)
        return {"nothing": None, "both": [x * 2, None]}

    x = torch.ones(2)
    got = deplodock.compile(step, (x,))(x)
    same(got["both"][0], torch.full((2,), 4.0))
    same(x, torch.full((2,), 2.0))
    assert got["nothing"] is got["both"][1] is None


def test_what_is_too_large_to_simulate_is_evaluated(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(runners, "LANE_STEP_LIMIT", 100)
    with caplog.at_level(logging.WARNING, "deplodock"):
        compiled = deplodock.compile(torch.sin, (torch.ones(64),))
        same(compiled(torch.arange(64.0)), torch.sin(torch.arange(64.0)))
        compiled(torch.arange(64.0))
    (record,) = caplog.records
    assert "evaluates the program at loop level instead" in record.message


def nested() -> Tensor:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return torch.nested.nested_tensor([torch.ones(2), torch.ones(3)])


def test_refusals() -> None:
    with pytest.raises(deplodock.InvalidInputError, match="example_args must be a tuple"):
        deplodock.compile(torch.sin, torch.ones(3))  # pyright: ignore[reportArgumentType]
    with pytest.raises(deplodock.UnsupportedError, match=r"aten.linalg_eigvalsh.default is not supported"):
        deplodock.compile(torch.linalg.eigvalsh, (torch.ones(3, 3),))
    with pytest.raises(deplodock.InvalidInputError, match="deplodock runs on cpu and cuda, not on meta"):
        deplodock.compile(torch.sin, (torch.ones(3),), device="meta")
    with pytest.raises(deplodock.InvalidInputError, match="device 'gpu': Expected one of cpu, cuda"):
        deplodock.compile(torch.sin, (torch.ones(3),), device="gpu")
    with pytest.raises(deplodock.UnsupportedError, match="the schedule 'foo' names foo"):
        deplodock.compile(torch.sin, (torch.ones(3),), schedule="foo")
    attend = nn.functional.scaled_dot_product_attention
    with pytest.raises(deplodock.UnsupportedError, match=r"dropout_p = 0.5 is not supported"):
        deplodock.compile(lambda x: attend(x, x, x, dropout_p=0.5), (torch.ones(4, 4),))
    for value, layout in ((torch.ones(3).to_sparse(), "of layout torch.sparse_coo"), (nested(), "nested")):
        with pytest.raises(deplodock.UnsupportedError, match=f"x is {layout}; supported are dense tensors"):
            deplodock.compile(torch.sin, (value,))


def test_schedule_and_target() -> None:
    compiled = deplodock.compile(torch.sin, (torch.ones(64),), target="sm_80", schedule="tileify,blockify-launch")
    assert isinstance(compiled, CompiledProgram)
    assert "sm_80" in str(compiled.runner.module)


def test_batch_norm_writes_its_statistics() -> None:
    """PyTorch's operations of one call for both, with and without that."""
    aten = torch.ops.aten
    x, scale = torch.randn(4, 3, 5, generator=torch.Generator().manual_seed(2)), torch.tensor([1.0, 0.5, 2.0])

    def updating(x: Any, scale: Any, mean: Any, var: Any) -> Any:
        return aten._batch_norm_with_update(x, scale, scale, mean, var, 0.1, 1e-5)[:3]

    given, own = ((torch.zeros(3), torch.ones(3)) for _ in range(2))
    results = deplodock.compile(updating, (x, scale, *given))(x, scale, *given)
    torch.testing.assert_close((*results, *given), (*updating(x, scale, *own), *own))
    assert given[0].abs().min() > 0


@pytest.mark.parametrize("scale", [-0.5, 0.0])
def test_causal_attention_with_any_scale(scale: float) -> None:
    """As PyTorch's formula, not as its kernel for CPUs, which gives NaN."""
    attention = nn.functional.scaled_dot_product_attention
    q, k, v = (torch.randn(1, 2, 4, 8) for _ in range(3))
    with sdpa_kernel(SDPBackend.MATH):
        wanted = attention(q, k, v, is_causal=True, scale=scale)
    assert attention(q, k, v, is_causal=True, scale=scale).isnan().any()
    got = deplodock.compile(lambda q, k, v: attention(q, k, v, is_causal=True, scale=scale))(q, k, v)
    torch.testing.assert_close(got, wanted)


def test_bits_of_another_width_and_generators_are_refused_by_name() -> None:
    """At their line, with what to do."""
    x, generator = torch.ones(4, 4), torch.Generator()
    for dtype, name in ((torch.uint8, "ui8"), (torch.float64, "f64"), (torch.bool, "i1")):
        with pytest.raises(deplodock.UnsupportedError, match=f"elements of f32 are not read as {name}, only as a type"):
            deplodock.compile(lambda x, dtype=dtype: x.view(dtype), (x,))
    with pytest.raises(deplodock.UnsupportedError, match=r"test_compiled.py:\d+: error: aten.randn.*Generator: draw"):
        deplodock.compile(lambda x: x + torch.randn(4, generator=generator), (x,))
