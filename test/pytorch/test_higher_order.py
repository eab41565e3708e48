"""Operations of a higher order, which the backend leaves to PyTorch with their bodies, between compiled parts."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch._higher_order_ops import associative_scan, cond, scan, while_loop
from torch._higher_order_ops import map as map_rows
from torch._higher_order_ops.invoke_subgraph import mark_compile_region
from torch.nn.attention.flex_attention import create_block_mask, flex_attention
from torch.nn.functional import dropout
from torch.utils.checkpoint import checkpoint

from deplodock.pytorch.partition import PartsRunner

Tensor = torch.Tensor
pytestmark = pytest.mark.filterwarnings("ignore")


def step(x: Tensor) -> Tensor:
    return (x.sin() @ x).cos()


region: Any = mark_compile_region(step)


def repeated(x: Tensor) -> Tensor:
    return while_loop(lambda i, _: i < 3, lambda i, y: (i + 1, step(y)), (torch.tensor(0), x * 2))[1].cos() + 1


def chosen(x: Tensor) -> Tensor:
    def one(y: Tensor) -> tuple[Tensor, Tensor]:
        return step(y), y + 1

    def other(y: Tensor) -> tuple[Tensor, Tensor]:
        return y.cos() + 1, y * 2

    first, second = cond(x.sum() > 0, one, other, (x * 2,))
    return first @ second + 1


def nested(x: Tensor) -> Tensor:
    def body(i: Tensor, y: Tensor) -> tuple[Tensor, Tensor]:
        return i + 1, cond(y.sum() > 0, step, lambda z: z.exp() * 2, (y,))

    return while_loop(lambda i, _: i < 3, body, (torch.tensor(0), x * 2))[1].cos()


def drawn(x: Tensor) -> Tensor:
    first = torch.rand_like(x)
    return cond(x.sum() > 0, lambda y: dropout(y.sin(), 0.5), lambda y: y * 1, (x * 2,)) + first + torch.rand_like(x)


def scanned(x: Tensor) -> Tensor:
    return scan(lambda c, a: (c * 0.5 + a, (c + a).sin()), torch.zeros(4), x * 2)[1].cos()


def merged(x: Tensor) -> Tensor:
    return associative_scan(lambda a, b: a * b + a, x.sin(), dim=0, combine_mode="generic").cos()


def mapped(x: Tensor) -> Tensor:
    given: Any = map_rows(lambda a, y: (a.sin() @ y).cos(), x * 2, x + 1)  # pyright: ignore[reportArgumentType]
    return given + 1


PROGRAMS: dict[str, Callable[[Tensor], Tensor]] = {
    "while_loop": repeated,
    "cond": chosen,
    "a cond in a while_loop": nested,
    "draws in a body": drawn,
    "scan": scanned,
    "associative_scan": merged,
    "map": mapped,
    "checkpoint": lambda x: checkpoint(step, x * 2, use_reentrant=False).exp(),
    "a region compiled once": lambda x: region(region(x * 2)) + 1,
}


def positions_count(score: Tensor, _b: Tensor, head: Tensor, row: Tensor, column: Tensor) -> Tensor:
    return torch.where(row >= column, score * 0.5 + (column - row) * 0.1 * (head + 1), -float("inf"))


@pytest.mark.parametrize("dynamic", [False, True])
@pytest.mark.parametrize("name", PROGRAMS)
def test_they_run_as_in_pytorch(runners: list[PartsRunner], name: str, dynamic: bool) -> None:
    program, square = PROGRAMS[name], torch.randn(4, 4, generator=torch.Generator().manual_seed(0)) + 1
    run = torch.compile(program, backend="deplodock", dynamic=dynamic)
    for x in (square, square[:3, :3].contiguous()) if dynamic and name != "scan" else (square,):
        torch.manual_seed(1)
        wanted = torch.compile(program, backend="aot_eager")(x)
        torch.manual_seed(1)
        torch.testing.assert_close(run(x), wanted)
    assert any(runner.parts for runner in runners)


@pytest.mark.parametrize("name", [name for name in PROGRAMS if "while_loop" not in name])
def test_they_have_gradients(runners: list[PartsRunner], name: str) -> None:
    x = torch.randn(4, 4, generator=torch.Generator().manual_seed(0)).add(1).requires_grad_()
    gradients: list[Tensor] = []
    for backend in ("aot_eager", "deplodock"):
        torch._dynamo.reset()
        torch.manual_seed(1)
        gradients += torch.autograd.grad(torch.compile(PROGRAMS[name], backend=backend)(x).square().sum(), x)
    torch.testing.assert_close(*gradients)
    assert any(runner.parts for runner in runners)


@pytest.mark.parametrize("masked", [False, True])
def test_flex_attention(runners: list[PartsRunner], masked: bool) -> None:
    torch.manual_seed(0)
    tensors = [torch.randn(1, heads, 16, 8) for heads in (4, 2, 2)]
    options: dict[str, Any] = {"score_mod": positions_count, "enable_gqa": True}
    if masked:
        mask = create_block_mask(lambda b, h, row, column: row >= column, None, None, 16, 16, "cpu", BLOCK_SIZE=8)
        options["block_mask"] = mask

    def program(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        return flex_attention(q * 2, k.sin(), v, **options).cos()  # pyright: ignore[reportAttributeAccessIssue]

    torch.testing.assert_close(torch.compile(program, backend="deplodock")(*tensors), program(*tensors))
    assert [len(runner.parts) for runner in runners] == [2]
