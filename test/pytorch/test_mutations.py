"""Forty programs that write in place, or give views, of the kinds that AOTAutograd tells apart.

Each has what PyTorch gives in elements, strides, shared memory and gradients, before and after its results are written
into; modules start from equal buffers.
"""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import pytest
import torch
from like_eager import Make, check_like_eager, ramp, same
from torch import nn
from torch.utils import _pytree as pytree

import deplodock

Tensor = torch.Tensor

pytestmark = pytest.mark.filterwarnings("ignore:deplodock leaves", "ignore:An output with one or more elements")


def matrix() -> tuple[Tensor, ...]:
    return (ramp(3, 4),)


def vector() -> tuple[Tensor, ...]:
    return (ramp(6),)


def two() -> tuple[Tensor, ...]:
    return ramp(3, 4), ramp(3, 4) * 2


def learning() -> tuple[Tensor, ...]:
    return (ramp(3, 4, gradient=True),)


def learning_two() -> tuple[Tensor, ...]:
    return ramp(3, 4, gradient=True), ramp(3, 4)


def same_twice() -> tuple[Tensor, ...]:
    x = ramp(4)
    return x, x


def halves() -> tuple[Tensor, ...]:
    memory = ramp(8)
    return memory[:4], memory[4:]


def base_and_view() -> tuple[Tensor, ...]:
    memory = ramp(3, 4)
    return memory, memory[1]


def transposed_pair() -> tuple[Tensor, ...]:
    memory = ramp(3, 3)
    return memory, memory.t()


def set_rows(x: Tensor) -> Tensor:
    x[1:] = x[:2] * 2
    return x.sum()


def set_masked(x: Tensor) -> Tensor:
    x[x > 0] = -1.0
    return x * 2


def set_at_positions(x: Tensor) -> Tensor:
    x[torch.tensor([0, 2])] = torch.arange(4.0)
    return x + 1


def add_broadcast(x: Tensor, y: Tensor) -> Tensor:
    x += y[0]
    return x @ y.t()


def copy_transposed(x: Tensor) -> Tensor:
    y = torch.empty(4, 3)
    y.copy_(x.t())
    y.t().mul_(2)
    return y


def fill_diagonal(x: Tensor) -> tuple[Tensor, ...]:
    x.fill_diagonal_(7)
    return x.diagonal(), x.clone()


def zero_a_corner(x: Tensor) -> tuple[Tensor, ...]:
    corner = x[:2, 1:3]
    corner.zero_()
    return corner, x.sum(1)


def through_views_of_views(x: Tensor) -> Tensor:
    x.view(2, 6).t()[1:3].unsqueeze(0).add_(10)
    return x * 1


def read_before_and_after(x: Tensor) -> tuple[Tensor, ...]:
    before = x * 2
    x.sub_(1)
    between = x.sin()
    x.mul_(3)
    return before, between, x.cos()


def split_and_write(x: Tensor) -> tuple[Tensor, ...]:
    first, second = x.chunk(2, 1)
    first.mul_(2)
    second.copy_(first + 1)
    return first, second


def write_unbound(x: Tensor) -> Tensor:
    for number, row in enumerate(x.unbind(0)):
        row.add_(number)
    return x.max(0).values


def metadata(x: Tensor) -> tuple[Any, ...]:
    y = x * 2
    y.t_()
    y.unsqueeze_(0)
    return y, y.squeeze(0).shape


def swapped(x: Tensor, y: Tensor) -> tuple[Tensor, ...]:
    kept = x.clone()
    x.copy_(y)
    y.copy_(kept)
    return y, x


def out_argument(x: Tensor) -> tuple[Tensor, ...]:
    made = torch.empty(3, 4)
    torch.sin(x, out=made)
    torch.add(made, x, out=x)
    return made, x


def activations(x: Tensor) -> Tensor:
    y = nn.functional.relu_(x.cos())
    return nn.functional.hardtanh_(y.mul_(3)).add_(x)


def scattered(x: Tensor) -> Tensor:
    x.scatter_(1, torch.tensor([[0], [3], [1]]), 9.0)
    return x.index_add_(0, torch.tensor([2, 0]), torch.ones(2, 4))


def clamped_views(x: Tensor) -> tuple[Tensor, ...]:
    x.clamp_(-0.5, 0.5)
    return x[::2], x.expand(2, 3, 4), x.flatten()


def one_written_of_two(x: Tensor, y: Tensor) -> tuple[Tensor, ...]:
    y.mul_(2)
    return x + y, x.view(-1), y[0]


def write_into_the_other(x: Tensor, y: Tensor) -> tuple[Tensor, ...]:
    y.add_(5)
    return x * 1, y * 1


def nested(data: dict[str, Any]) -> dict[str, Any]:
    data["a"].add_(1)
    return {"same": data["a"], "row": data["b"][0][1], "new": [data["a"] * data["b"][0]]}


def appended(values: list[Tensor]) -> Tensor:
    values.append(values[0] * 2)
    values[0].add_(1)
    return values[1] + values[0]


def detached(x: Tensor) -> tuple[Tensor, ...]:
    y = x * 3
    view = y.detach()[0]
    return y, view, y.sum()


def under_no_grad(x: Tensor) -> Tensor:
    y = x.sin()
    with torch.no_grad():
        y.add_(1)
    return y * x


def written_intermediate(x: Tensor, y: Tensor) -> tuple[Tensor, ...]:
    z = x * 2
    z[0].mul_(y[0].clone())
    y.add_(1)
    return z, z.t(), y


def leaf_without_gradient(x: Tensor) -> Tensor:
    with torch.no_grad():
        x.mul_(2)
    return (x * x).sum()


def views_with_gradients(x: Tensor) -> tuple[Tensor, ...]:
    y = x.exp()
    return y[1:], y.view(-1), x.t(), x[0]


def in_place_chain(x: Tensor) -> Tensor:
    return (x * 1).mul_(2).add_(x).tanh_()


def accumulated(x: Tensor) -> Tensor:
    total = torch.zeros(4)
    for row in x:
        total += row * row
    return total


def rolled_window(x: Tensor) -> tuple[Tensor, ...]:
    x[:-1].copy_(x[1:].clone())
    x[-1] = 0
    return x, x.unfold(0, 2, 2)


def bits(x: Tensor) -> tuple[Tensor, ...]:
    x.view(torch.int32)[0].bitwise_and_(0)
    return x, x.view(torch.int32)


def no_copies(x: Tensor) -> tuple[Tensor, ...]:
    return x.contiguous(), x.to(torch.float32), x.reshape(3, 4), x.float(), x.expand_as(x), x.clone()


PROGRAMS: dict[str, tuple[Callable[..., Any], Make]] = {
    "rows are set": (set_rows, matrix),
    "what a mask chooses is set": (set_masked, matrix),
    "positions are set": (set_at_positions, matrix),
    "a broadcast sum in place": (add_broadcast, two),
    "a copy into a transposed view": (copy_transposed, matrix),
    "a diagonal is filled": (fill_diagonal, matrix),
    "a corner is zeroed": (zero_a_corner, matrix),
    "through views of views": (through_views_of_views, matrix),
    "read before and after": (read_before_and_after, matrix),
    "chunks are written": (split_and_write, matrix),
    "rows are written one by one": (write_unbound, matrix),
    "shapes change in place": (metadata, matrix),
    "arguments are swapped": (swapped, two),
    "out=": (out_argument, matrix),
    "activations in place": (activations, matrix),
    "scattered in place": (scattered, matrix),
    "views of what was clamped": (clamped_views, matrix),
    "one of two is written": (one_written_of_two, two),
    "one tensor twice": (write_into_the_other, same_twice),
    "halves of one memory": (write_into_the_other, halves),
    "a base and its row": (write_into_the_other, base_and_view),
    "a matrix and its transpose": (write_into_the_other, transposed_pair),
    "a base and its view are read": (lambda x, y: (x + 1, y * 2, y), base_and_view),
    "nests": (nested, lambda: ({"a": ramp(2), "b": [ramp(2, 2)]},)),
    "a list grows": (appended, lambda: ([ramp(3)],)),
    "detached views": (detached, learning),
    "a write under no_grad": (under_no_grad, learning),
    "a written intermediate": (written_intermediate, learning_two),
    "a leaf is written": (leaf_without_gradient, learning),
    "views with gradients": (views_with_gradients, learning),
    "a chain in place": (in_place_chain, learning),
    "a sum in a loop": (accumulated, learning),
    "a window moves": (rolled_window, vector),
    "bits are written": (bits, vector),
    "what copies nothing": (no_copies, matrix),
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_functions(name: str) -> None:
    check_like_eager(*PROGRAMS[name])


class Counter(nn.Module):
    """Counts its calls, and adds up what it is given."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("calls", torch.zeros((), dtype=torch.int64))
        self.register_buffer("total", torch.zeros(3, 4))

    def forward(self, x: Tensor) -> Tensor:
        self.calls += 1
        self.total.add_(x)
        return self.total / self.calls


class Queue(nn.Module):
    """A buffer that moves on by a row, and gives a view of itself."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("rows", torch.zeros(3, 4))

    def forward(self, x: Tensor) -> Tensor:
        self.rows[:-1] = self.rows[1:].clone()
        self.rows[-1] = x[0]
        return self.rows[1:]


class Replaced(nn.Module):
    """A buffer that is another tensor after each call."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("last", torch.zeros(3, 4))

    def forward(self, x: Tensor) -> Tensor:
        previous = self.last
        self.last = x * 2
        return previous + x


class Shared(nn.Module):
    """One buffer under two names."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("one", torch.ones(3, 4))
        self.register_buffer("other", self.one)

    def forward(self, x: Tensor) -> Tensor:
        self.one.add_(x)
        return self.other * 2


class Normed(nn.Module):
    """Statistics of batches, in training."""

    def __init__(self) -> None:
        super().__init__()
        self.norm = nn.BatchNorm1d(4)

    def forward(self, x: Tensor) -> Tensor:
        return self.norm(x)


@pytest.mark.parametrize("kind", [Counter, Queue, Replaced, Shared, Normed])
def test_modules(kind: type[nn.Module]) -> None:
    torch._dynamo.reset()
    model = kind()
    twin = copy.deepcopy(model)
    run = torch.compile(twin, backend="deplodock")
    for number in range(3):
        (x,) = matrix()
        wanted, got = model(x + number), run(x + number)
        for one, other in zip(pytree.tree_leaves(got), pytree.tree_leaves(wanted), strict=True):
            same(one, other)
        with torch.no_grad():
            got.add_(1)
            wanted.add_(1)
        for (name, one), (own, other) in zip(twin.named_buffers(), model.named_buffers(), strict=True):
            assert name == own
            same(one, other)


def test_an_expanded_argument_is_not_written() -> None:
    """PyTorch fills one where it lies, as often as it is seen, and refuses to copy into it."""
    run = deplodock.compile(lambda x: x.zero_(), (torch.ones(1, 4).expand(3, 4),))
    with pytest.raises(deplodock.InvalidInputError, match="writes into x, an element of which shares memory with"):
        run(torch.ones(1, 4).expand(3, 4))
    same(run(torch.ones(3, 4)), torch.zeros(3, 4))


def test_there_are_forty() -> None:
    assert len(PROGRAMS) + 5 == 40
