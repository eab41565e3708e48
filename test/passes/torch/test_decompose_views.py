"""Views of memory, the twins of views that copy, and writes through views: the elements of PyTorch, bit for bit."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from deplodock.dialects.torch import ATEN_OPS
from deplodock.errors import InvalidInputError, UnsupportedError

torch = pytest.importorskip("torch")
aten = torch.ops.aten


def numbers(*shape: int) -> Any:
    return torch.randn(shape, generator=torch.Generator().manual_seed(sum(shape)))


def _through_views(x: Any) -> Any:
    y = x.clone()
    y[0].mul_(2)
    y.as_strided((2, 2), (1, 2)).add_(1)
    return y, y[1:].as_strided((2, 2), (1, 2), 0)


CASES: dict[str, tuple[Callable[..., Any], tuple[Any, ...]]] = {
    "as_strided": (
        lambda x, i, e: (
            *(x.as_strided((2, 3), (1, 7)), x.as_strided((2, 3, 2), (0, 1, 7), 3), x.as_strided((), ())),
            *(x.mT.as_strided((2, 2), (3, 5), 1), x[1:].as_strided((2, 2), (1, 2)), x[2, 1:].as_strided((3,), (4,))),
            *(x[1:].as_strided((2, 2), (1, 2), 3), (x * 2).as_strided((4, 2), (3, 3)), i.as_strided((2, 2), (0, 1))),
            *(
                x.split(2)[1].as_strided((2,), (1,)),
                x.mT.contiguous().as_strided((2, 2), (1, 2)),
                e.as_strided((0,), (1,)),
            ),
        ),
        (numbers(3, 4, 5), torch.arange(6), torch.zeros(0)),
    ),
    "as_strided beside what is decomposed": (
        lambda m: (m.mT.as_strided((2, 2), (1, 2), 1), torch.diagonal_scatter(m, m[0, :3])),
        (numbers(3, 4),),
    ),
    "as_strided through views": (_through_views, (numbers(3, 4),)),
    "copies": (
        lambda x, m: (
            *(torch.view_copy(x, (-1, 2)), torch.permute_copy(x, (2, 0, 1)), torch.transpose_copy(x, 0, 2)),
            *(torch.t_copy(m), torch.expand_copy(m[:1], (3, 4)), torch.narrow_copy(x, 1, 1, 2)),
            *(torch.squeeze_copy(x[:1]), torch.squeeze_copy(x[:1], 0), torch.unsqueeze_copy(m, 1)),
            *(torch.select_copy(x, 1, 2), torch.slice_copy(x, 2, 0, 4, 2), torch.diagonal_copy(x, 1, 0, 2)),
            *(torch.unfold_copy(m, 1, 2, 1), *torch.split_copy(x, 2), *torch.split_with_sizes_copy(x, [1, 3], 1)),
            *(*torch.unbind_copy(m), torch.detach_copy(m), torch.alias_copy(m), aten.view_copy.dtype(m, torch.int32)),
            torch.as_strided_copy(x, (2, 2), (1, 5), 2),
        ),
        (numbers(3, 4, 2), numbers(3, 4)),
    ),
    "scattered": (
        lambda x, m: (
            *(
                torch.diagonal_scatter(m, m[0, :3]),
                torch.diagonal_scatter(m, m[0, :2], 2),
                m.diagonal_scatter(m[0, :2], -1),
            ),
            *(torch.diagonal_scatter(m, m[0, :0], 9), torch.diagonal_scatter(x, -m[:2, :2].mT, 1, 2, 0)),
            *(torch.as_strided_scatter(m, m[:2, :2] * 2, (2, 2), (1, 5), 1), m.as_strided_scatter(m[0, 0], (), (), 3)),
        ),
        (numbers(3, 2, 2), numbers(3, 4)),
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_equals_torch(name: str, check_with_torch: Callable[..., set[str]]) -> None:
    function, args = CASES[name]
    assert {word for word in name.split() if word in ATEN_OPS} <= check_with_torch(function, *args, exact=True)


def test_memory_that_no_contiguous_tensor_has_is_refused(run_at_tensor_level: Callable[..., Any]) -> None:
    reason = r"aten\.as_strided\.default is not supported here: its operand is no view of a contiguous tensor"
    with pytest.raises(UnsupportedError, match=reason):
        run_at_tensor_level(lambda x: (x.mT * 2).as_strided((2,), (1,)), numbers(3, 4))


PARTS = {"transposed": lambda x: x.mT, "first": lambda x: x[:2], "last": lambda x: x[1:]}
READS = {
    "itself": torch.as_strided,
    "a copy": torch.as_strided_copy,
    "a view": lambda x, size, stride: x.t().as_strided(size, stride),
}


@pytest.mark.parametrize("read", READS)
@pytest.mark.parametrize("part", PARTS)
def test_an_argument_must_be_all_of_its_memory(part: str, read: str) -> None:
    import deplodock

    def program(x: Any) -> Any:
        return READS[read](x, (2, 2), (1, 2))

    given = PARTS[part](numbers(3, 4))
    contiguous = given.clone(memory_format=torch.contiguous_format)
    compiled = deplodock.compile(program, (contiguous,))
    assert torch.equal(compiled(contiguous), program(contiguous))
    with pytest.raises(
        InvalidInputError, match=r"for which the program asks|reads the memory of x, of which it is a part"
    ):
        compiled(given)
    if (part, read) == ("transposed", "a view"):
        # The view is all of the memory in order.
        assert torch.equal(deplodock.compile(program, (given,))(given), program(given))
        return
    with pytest.raises(UnsupportedError, match="as_strided"):
        deplodock.compile(program, (given,))


def test_written_memory_must_be_all_of_an_argument() -> None:
    import deplodock

    def program(x: Any) -> Any:
        return torch.as_strided_scatter(x, torch.zeros(2), (2,), (1,))

    with pytest.raises(InvalidInputError, match="as_strided reads the memory of x"):
        deplodock.compile(program, (numbers(4, 3),))(numbers(3, 4).mT)
