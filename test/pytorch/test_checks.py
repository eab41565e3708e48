"""What PyTorch checks at each call is checked at each call, on values that a program was not compiled for."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch.nn import functional as F

import deplodock
from deplodock.analysis.host.arguments import checks, entry_function
from deplodock.errors import CheckError
from deplodock.frontend.capture import export
from deplodock.passes.driver import Level, lower, new_context
from deplodock.pytorch import compiled, runners

X = torch.arange(12.0).reshape(3, 4)
GOOD = torch.tensor([0, 1, 2])

PROGRAMS: dict[str, tuple[Callable[[Any], Any], list[int], list[int]]] = {
    # A program, values of its index for which PyTorch raises, and others for which it does not.
    "one_hot": (lambda i: F.one_hot(i, 3), [2, 3, 0], [2, 2, 0]),
    "one_hot below": (lambda i: F.one_hot(i, 3), [2, -1, 0], [0, 0, 0]),
    "index_copy": (lambda i: X.index_copy(0, i, X + 1), [0, -1, 1], [2, 1, 0]),
    "index_fill": (lambda i: X.index_fill(0, i, 7), [0, 3, 1], [-3, 1, 0]),
    "index_put": (lambda i: X.index_put((i,), X + 1), [0, -4, 1], [-1, 1, 0]),
    "index_put of two": (lambda i: X.index_put((i, i), X[0, :3]), [0, 3, 1], [-1, 1, 0]),
    "index_put of a mask": (
        lambda i: X[0].clone().index_put_((i[0] < GOOD.new_ones(4).cumsum(0),), X[1, :2]),
        [1],
        [2],
    ),
    "index_add": (lambda i: X.index_add(0, i, X), [0, -1, 1], [2, 1, 0]),
    "index_reduce": (lambda i: X.index_reduce(1, i, X[:, 1:], "amax"), [0, 4, 1], [3, 1, 0]),
    "scatter": (lambda i: X.scatter(0, i[None], 7), [0, 3, 1], [2, 1, 0]),
    "scatter below": (lambda i: X.scatter(1, i[None], X), [0, -1, 1], [3, 1, 0]),
    "scatter_add": (lambda i: X.scatter_add(0, i[None], X), [0, 3, 1], [2, 1, 0]),
    "scatter_reduce": (lambda i: X.scatter_reduce(1, i[None], X, "mean"), [0, 4, 1], [3, 1, 0]),
    "put": (lambda i: X.put(i, X[0, :3]), [12, 0, 1], [11, 0, -12]),
    "masked_scatter": (lambda i: X.masked_scatter(i[0] > X, X[0]), [5], [4]),
    "repeat_interleave": (lambda i: X.repeat_interleave(i, 0, output_size=3), [0, 1, 1], [0, 1, 2]),
    "repeat_interleave below": (lambda i: X.repeat_interleave(i, 0, output_size=3), [2, -1, 2], [3, 0, 0]),
    "quantile": (lambda i: X.quantile(i / 2.0), [0, 3, 1], [0, 2, 1]),
    "sorter": (lambda i: torch.searchsorted(X[0, :3], X, sorter=i), [0, 3, 1], [0, 2, 1]),
    "write": (lambda i: X.clone().index_put_((i,), torch.tensor(5.0)) * 2, [0, 3, 1], [-1, 1, 0]),
    "index_select": (lambda i: X.index_select(1, i), [0, 4, 1], [3, 3, 0]),
    "index_select below": (lambda i: X.index_select(0, i), [0, -1, 1], [2, 1, 0]),
    "gather": (lambda i: X.gather(0, i[None]), [0, 3, 1], [2, 1, 0]),
    "index": (lambda i: X[i], [-4, 0, 1], [-3, 2, 1]),
    "two indices": (lambda i: X[i, i], [3, 0, 1], [-3, 2, 1]),
    "index of a slice": (lambda i: X[:, :2][:, i], [2, 0, 1], [1, 0, 1]),
    "index of what repeats": (lambda i: X[:1].expand(3, 4)[i], [3, 0, 1], [2, 0, -1]),
    "take": (lambda i: X.take(i), [12, 0, 1], [11, 0, -12]),
    "embedding": (lambda i: F.embedding(i, X), [0, 3, 1], [2, 0, 1]),
    "cross_entropy": (lambda i: F.cross_entropy(X, i), [0, 4, 1], [3, -100, 1]),
    "computed index": (lambda i: X[i * 2 - 1], [0, 2, 1], [0, 1, -1]),
    "floor_divide": (lambda i: i // i, [1, 0, 2], [1, -1, 2]),
    "divisor with a number": (lambda i: 5 % i, [1, 0, 2], [1, -1, 2]),
    "fmod": (lambda i: torch.fmod(i.int(), i.int()), [1, 0, 2], [1, -1, 2]),
    "div": (lambda i: torch.div(i, (i % 3).to(torch.int8), rounding_mode="trunc"), [1, 3, 2], [1, -1, 2]),
    "assertion": (lambda i: torch.ops.aten._assert_async((i > 0).all()) or i + 1, [1, 0, 2], [1, 1, 2]),
    "assertion of a float": (lambda i: torch.ops.aten._assert_async(i[1:2] * 0.5, "no") or i, [1, 0, 2], [0, 1, 0]),
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_a_later_call_raises_where_eager_does(name: str) -> None:
    if name == "quantile" and torch.__version__ < (2, 13):
        pytest.skip("PyTorch reads the values of q while it is captured")
    program, wrong, right = PROGRAMS[name]
    compiled = deplodock.compile(program, (torch.tensor(right),))
    with pytest.raises((IndexError, RuntimeError)):
        program(torch.tensor(wrong))
    with pytest.raises(CheckError) as caught:
        compiled(torch.tensor(wrong))
    assert isinstance(caught.value, IndexError)
    assert isinstance(caught.value, RuntimeError)
    torch.testing.assert_close(compiled(torch.tensor(right)), program(torch.tensor(right)))


@pytest.mark.parametrize("name", ["one_hot", "index_put", "embedding", "two indices", "floor_divide", "cross_entropy"])
def test_the_backend_raises_too(name: str) -> None:
    program, wrong, right = PROGRAMS[name]
    torch._dynamo.reset()
    compiled = torch.compile(program, backend="deplodock")
    torch.testing.assert_close(compiled(torch.tensor(right)), program(torch.tensor(right)))
    with pytest.raises(CheckError):
        compiled(torch.tensor(wrong))


def test_nothing_is_written_where_a_check_fails() -> None:
    def program(x: Any, i: Any) -> Any:
        x.add_(1)
        return F.one_hot(i, 3)

    x = torch.zeros(2)
    run = deplodock.compile(program, (torch.zeros(2), GOOD))
    with pytest.raises(CheckError, match=r"aten\.one_hot\.default: class values must be from 0 to 2"):
        run(x, torch.tensor([0, 1, 3]))
    assert x.tolist() == [0, 0]
    run(x, GOOD)
    assert x.tolist() == [1, 1]


def test_checks_hold_in_numpy_too(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(runners, "LANE_STEP_LIMIT", 0)
    run = deplodock.compile(lambda i: X[:, :2][:, i], (GOOD[:2],))
    with pytest.raises(CheckError, match=r"aten\.index\.Tensor: an index is out of bounds for dimension 1 with size 2"):
        run(GOOD[1:])


def test_the_number_0_is_left_to_pytorch() -> None:
    torch._dynamo.reset()
    reason = r"aten\.remainder\.Scalar divides by the number 0"
    with pytest.raises(RuntimeError, match="ZeroDivisionError"), pytest.warns(UserWarning, match=reason):
        torch.compile(lambda x: x % 0, backend="deplodock")(GOOD)


def test_every_level_names_what_is_checked() -> None:
    message = "aten.one_hot.default: class values must be from 0 to 2"
    module, context = export(lambda i: F.one_hot(i, 3), (GOOD,)).module, new_context()
    for level in (Level.TORCH, Level.TENSOR, Level.LOOP, Level.TILE, Level.KERNEL):
        lower(module, context, level)
        assert checks(entry_function(module)) == {1: message}


def test_a_gpu_asserts_without_a_wait(monkeypatch: pytest.MonkeyPatch) -> None:
    class Flag:
        """A boolean on a GPU, which must not be read."""

        is_cuda = True

        def __bool__(self) -> bool:
            raise AssertionError("the host waits for the GPU")

    seen: list[object] = []
    monkeypatch.setattr(torch.ops.aten._assert_async, "msg", lambda *args: seen.append(args))
    flag: Any = Flag()
    compiled.assert_holds(flag, "message")
    assert seen == [(flag, "message")]
