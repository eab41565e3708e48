"""Every operation of the torch dialect: captured, decomposed and evaluated, it gives what PyTorch gives."""

from __future__ import annotations

import importlib
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from deplodock.dialects.torch import ATEN_OPS
from deplodock.dialects.torch.aten import ALIASES, SCHEMAS
from deplodock.passes.torch.lowering import lowerings
from deplodock.passes.torch.tensors import reshape_map

torch = pytest.importorskip("torch")
F = torch.nn.functional
aten = torch.ops.aten

NAN, INF = float("nan"), float("inf")


def special() -> Any:
    return torch.tensor([NAN, INF, -INF, 0.0, -0.0, 1.0, -2.5, 1e-10])


def randn(*shape: int) -> Any:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(sum(shape)))


def ints(*shape: int) -> Any:
    return torch.randint(-4, 5, shape, generator=torch.Generator().manual_seed(7))


x, y, s = randn(3, 4), randn(4), special()
i, j = ints(3, 4), ints(4).int()
b = torch.tensor([True, False, True, False])

CASES: dict[str, tuple[Callable[..., Any], tuple[Any, ...]]] = {
    "add.Tensor": (lambda x, y: (x + y, x + 1.5, 2 + x, torch.add(x, y, alpha=0.5), torch.add(x, 3, alpha=2)), (x, y)),
    "add.Tensor int": (lambda i, j: (i + j, i + 3, torch.add(i, j, alpha=2), i + 1.5), (i, j)),
    "add.Tensor bool": (lambda x, b: (x + b, x + True), (x, b)),
    "add.Tensor f64": (lambda x, y: (x + y, x + 0.1), (x, y.double())),
    "sub.Tensor": (lambda x, y: (x - y, x - 1, torch.sub(x, y, alpha=3)), (x, y)),
    "rsub.Scalar": (lambda x, i: (1 - x, 2.5 - x, torch.rsub(x, 1, alpha=2), 1 - i), (x, i)),
    "mul.Tensor": (lambda x, y, i: (x * y, x * 3, i * i, i * 2, x * i), (x, y, i)),
    "div.Tensor": (lambda x, y, i: (x / y, x / 3, i / 3, i / i.abs().add(1), x / i), (x, y, i)),
    "div.Tensor special": (lambda s, z: s / z, (s, torch.zeros(8))),
    "maximum": (lambda x, y, i, j: (torch.maximum(x, y), torch.maximum(i, j)), (x, y, i, j)),
    "maximum special": (lambda s, t: (torch.maximum(s, t), torch.maximum(t, s)), (s, s.flip(0))),
    "minimum": (lambda x, y, s, t: (torch.minimum(x, y), torch.minimum(s, t)), (x, y, s, s.flip(0))),
    "pow.Tensor_Scalar": (
        lambda x: tuple(x**e for e in (0, 1, 2, 3, 4, 0.5, -0.5, -1, -2, 2.5, -3, 0.25)),
        (x.abs() + 0.5,),
    ),
    "pow.Tensor_Scalar special": (lambda s: tuple(s**e for e in (0, 2, 3, 0.5, -1, -2)), (s,)),
    "pow.Tensor_Scalar negative": (lambda x: (x**2, x**3, x**5, x**2.5), (x,)),
    "pow.Tensor_Scalar int": (lambda i: (i**0, i**1, i**2, i**5, i**2.0), (i,)),
    "square": (lambda x, i: (torch.square(x), torch.square(i)), (x, i)),
    "neg": (lambda x, i, s: (-x, -i, -s), (x, i, s)),
    "abs": (lambda x, i, s: (x.abs(), i.abs(), s.abs()), (x, i, s)),
    "relu": (lambda x, i, s: (torch.relu(x), torch.relu(i), torch.relu(s)), (x, i, s)),
    "exp": (lambda x, i, s: (x.exp(), i.exp(), s.exp()), (x, i, s)),
    "log": (lambda x, s: (x.abs().log(), s.log()), (x, s)),
    "sqrt": (lambda x, s: (x.abs().sqrt(), s.sqrt()), (x, s)),
    "rsqrt": (lambda x, s: (x.abs().rsqrt(), s.rsqrt()), (x, s)),
    "reciprocal": (lambda x, s: (1 / x, s.reciprocal()), (x, s)),
    "tanh": (lambda x, s: (x.tanh(), s.tanh()), (x, s)),
    "sigmoid": (lambda x, s: (x.sigmoid(), s.sigmoid(), (x * 100).sigmoid()), (x, s)),
    "sum": (lambda x, i, b, s: (x.sum(), i.sum(), b.sum(), s.sum(), x.sum(dtype=torch.float64)), (x, i, b, s)),
    "sum.dim_IntList": (
        lambda x, j: (
            x.sum(0),
            x.sum(-1, keepdim=True),
            x.sum((0, 1)),
            x.sum([]),
            j.sum(0),
            x.sum(1, dtype=torch.float64),
        ),
        (x, j),
    ),
    "sum.dim_IntList middle": (lambda x: (x.sum((0, 2)), x.sum((-1, 0), keepdim=True), x.sum(1)), (randn(2, 3, 4),)),
    "sum.dim_IntList empty": (lambda e: (e.sum(0), e.sum(1), e.sum(), e.sum(1, keepdim=True)), (torch.zeros(3, 0),)),
    "sum.dim_IntList scalar": (lambda z: (z.sum(0), z.sum(-1, keepdim=True), z.sum()), (torch.tensor(2.0),)),
    "mean": (lambda x, e: (x.mean(), x.mean(dtype=torch.float64), e.mean()), (x, torch.zeros(3, 0))),
    "mean.dim": (lambda x: (x.mean(0), x.mean(1), x.mean((0, 1), keepdim=True), x.mean([])), (x,)),
    "mean.dim empty": (lambda e: (e.mean(0), e.mean(1)), (torch.zeros(3, 0),)),
    "max": (lambda x, i, s: (x.max(), i.max(), s.max()), (x, i, s)),
    "amax": (lambda x, i: (x.amax(1), x.amax((0, 1), keepdim=True), x.amax(), i.amax(-1)), (x, i)),
    "softmax.int": (
        lambda x, i: (
            x.softmax(-1),
            x.softmax(0),
            F.softmax(x, dim=1, dtype=torch.float64),
            F.softmax(i, 0, dtype=torch.float32),
        ),
        (x, i),
    ),
    "softmax.int special": (lambda s, m: (s.softmax(0), m.softmax(-1)), (s, torch.tensor([[0.0, -INF], [-INF, -INF]]))),
    "softmax.int scalar": (lambda z, e: (z.softmax(0), e.softmax(1)), (torch.tensor(2.0), torch.zeros(3, 0))),
    "rms_norm": (
        lambda x, w: (
            F.rms_norm(x, (4,), w),
            F.rms_norm(x, (4,)),
            F.rms_norm(x, (3, 4), eps=1e-3),
            F.rms_norm(x * 1e-5, (4,), w),
        ),
        (x, y),
    ),
    "rms_norm f64": (lambda x: F.rms_norm(x * 1e-9, (4,)), (x.double(),)),
    "linear": (
        lambda x, w, c, v: (F.linear(x, w), F.linear(x, w, c), F.linear(v, w, c), F.linear(x, v)),
        (x, randn(5, 4), randn(5), y),
    ),
    "linear 3-D": (lambda x, w, c: F.linear(x, w, c), (randn(2, 3, 4), randn(5, 4), randn(5))),
    "matmul": (lambda x, m, v: (x @ m, x @ v, v @ m, v @ v, m.T @ x.T), (x, randn(4, 5), y)),
    "matmul batched": (
        lambda p, q, r: (p @ q, p @ r, r.T @ p.transpose(1, 2)),
        (randn(6, 2, 3), randn(6, 3, 4), randn(3, 4)),
    ),
    "matmul broadcast": (lambda p, q: p @ q, (randn(5, 1, 2, 3), randn(6, 3, 4))),
    "matmul vector batch": (lambda p, v: (p @ v, v @ p.transpose(1, 2)), (randn(6, 2, 3), randn(3))),
    "matmul int": (lambda i: i @ i.T, (i,)),
    "matmul empty": (lambda p, q: p @ q, (torch.zeros(2, 0), torch.zeros(0, 3))),
    "mm": (lambda x, m: torch.mm(x, m), (x, randn(4, 5))),
    "bmm": (lambda p, q: torch.bmm(p, q), (randn(6, 2, 3), randn(6, 3, 4))),
    "mv": (lambda x, v: torch.mv(x, v), (x, y)),
    "dot": (lambda v, w: torch.dot(v, w), (y, randn(4))),
    "t": (lambda x, y, z: (x.t(), y.t(), z.t()), (x, y, torch.tensor(1.0))),
    "transpose.int": (lambda x, z: (x.transpose(0, -1), x.mT, z.transpose(0, 0)), (x, torch.tensor(1.0))),
    "permute": (lambda p, b: (p.permute(2, 0, 1), p.permute(0, -1, 1), p.T), (randn(2, 3, 4), b)),
    "view": (
        lambda p: (p.view(6, 4), p.view(-1), p.view(3, 8), p.reshape(4, 2, 3), p.view(2, 1, 3, 4)),
        (randn(2, 3, 4),),
    ),
    "view empty": (lambda e: (e.view(0, 3), e.view(5, 3, 0)), (torch.zeros(3, 0),)),
    "view scalar": (lambda z: (z.view(1, 1), z.view(1).view(())), (torch.tensor(2.0),)),
    "_unsafe_view": (lambda p: p.transpose(0, 2).reshape(12, 2), (randn(2, 3, 4),)),
    "unsqueeze": (lambda x, b: (x.unsqueeze(0), x.unsqueeze(-1), x[:, None], b[None]), (x, b)),
    "squeeze": (lambda o, p: (o.squeeze(), p.squeeze()), (randn(1, 3, 1), randn(1, 1))),
    "squeeze.dim": (lambda o: (o.squeeze(0), o.squeeze(-1), o.squeeze(1)), (randn(1, 3, 1),)),
    "squeeze.dims": (lambda o: (o.squeeze((0, 2)), o.squeeze((1, -1))), (randn(1, 3, 1),)),
    "expand": (
        lambda o, y: (o.expand(2, 3, 4), o.expand(-1, 3, 4), y.expand(2, 3, 4), y.expand(2, -1)),
        (randn(1, 3, 1), y),
    ),
    "clone": (lambda x: (x.t().contiguous(), x.clone()), (x,)),
    "detach": (lambda x: x.detach(), (x,)),
    "alias": (lambda x: aten.alias(x), (x,)),
    "_to_copy": (
        lambda x, i, j, b: (
            *(
                v.to(t)
                for v in (x, i, j, b)
                for t in (torch.float32, torch.float64, torch.int32, torch.int64, torch.bool)
            ),
        ),
        (x * 3, i, j, b),
    ),
    "_to_copy special": (lambda s: (s.bool(), s.double()), (s,)),
}


@pytest.mark.parametrize("name", CASES)
def test_matches_torch(name: str, check_with_torch: Callable[..., set[str]]) -> None:
    function, args = CASES[name]
    assert name.split(" ")[0] in check_with_torch(function, *args)


def test_every_operation_has_a_case_and_a_lowering() -> None:
    keys = [
        key
        for path in sorted(Path(__file__).parent.glob("test_decompose*.py"))
        for key in re.findall(r'^    "(.+?)": \(', path.read_text(), re.MULTILINE)
    ]
    assert {word for key in keys for word in key.split()} >= set(ATEN_OPS)
    assert sorted(lowerings()) == sorted(ATEN_OPS)


@pytest.mark.parametrize("name", SCHEMAS)
def test_schema_is_that_of_torch(name: str) -> None:
    if name.startswith("prims."):
        importlib.import_module("torch._inductor.inductor_prims")
        packet = getattr(torch.ops.prims, name.removeprefix("prims."))
        assert str(packet.default._schema).replace("::", ".") == SCHEMAS[name].text
        return
    packet, _, overload = name.partition(".")
    schema = str(getattr(getattr(aten, packet), overload or "default")._schema)
    assert schema == f"aten::{SCHEMAS[name].text}"


@pytest.mark.parametrize("name", ALIASES)
def test_alias_has_the_parameters_of_its_operation(name: str) -> None:
    packet, _, overload = name.partition(".")
    parameters = getattr(getattr(aten, packet), overload or "default")._schema.arguments
    assert [p.name for p in parameters] <= [p.name for p in SCHEMAS[ALIASES[name]].parameters]
    assert ALIASES[name] in ATEN_OPS


def test_returned_argument_is_copied(run_at_tensor_level: Callable[..., Any]) -> None:
    first, second, third = run_at_tensor_level(lambda x: (x, x, x.view(4, 3)), x).got
    np.testing.assert_array_equal(first, x.numpy())
    np.testing.assert_array_equal(second, first)
    np.testing.assert_array_equal(third, x.numpy().reshape(4, 3))


@pytest.mark.parametrize("elements", [1, 12, 24, 36, 64])
def test_reshape_map(elements: int) -> None:
    random = np.random.default_rng(elements)
    for _ in range(40):
        source, target = _random_shape(random, elements), _random_shape(random, elements)
        values = np.arange(elements).reshape(source)
        map = reshape_map(source, target)
        read = [values[tuple(map.eval(list(index), []))] for index in np.ndindex(*target)]
        assert read == list(range(elements)), (source, target, map)


def _random_shape(random: np.random.Generator, elements: int) -> list[int]:
    shape: list[int] = []
    while elements > 1:
        extent = int(random.choice([d for d in range(2, elements + 1) if elements % d == 0]))
        shape += [extent] if random.random() < 0.8 else [extent, 1]
        elements //= extent
    return [int(n) for n in random.permutation(shape)]
