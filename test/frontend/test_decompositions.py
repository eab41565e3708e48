"""What the torch dialect lacks and a decomposition gives, PyTorch's or ours; and what stays refused by its own name."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from deplodock.errors import UnsupportedError

torch = pytest.importorskip("torch")
F = torch.nn.functional


def written(x: Any) -> Any:
    y = x.clone()
    y[y > 0] = 3
    y[x.sum(1) > 0] = -1
    y[:, torch.tensor([2, -4, 2])] = x[:, :3] + 5
    y.index_copy_(0, torch.tensor([3]), x[:1])
    return y.mul_(2)


def program(x: Any, labels: Any) -> Any:
    image = x.view(1, 2, 2, 4)
    return (
        *(F.one_hot(labels, 5), written(x), F.elu(x), F.selu(x), F.normalize(x), x.norm(), x.norm(1, dim=0)),
        *(F.interpolate(image, scale_factor=2), F.interpolate(image, size=(3, 5), mode="bilinear")),
        *(F.hardswish(x), F.mish(x), torch.triu_indices(3, 3), F.cosine_similarity(x, x + 1)),
        *(x.index_fill(1, torch.tensor([0, 3]), 7), (x * 30).round(decimals=-1), x.round(decimals=2)),
        *(F.batch_norm(x, None, None, training=True), F.instance_norm(image), F.pairwise_distance(x, x + 1)),
        *(F.cross_entropy(x[:3].repeat(1, 2), labels, label_smoothing=0.1), torch.ops.aten.sub.Scalar(x, 2, 3)),
    )


def test_equals_pytorch(check_levels: Callable[..., int]) -> None:
    x = torch.randn(4, 4, generator=torch.Generator().manual_seed(1))
    check_levels(program, (x, torch.tensor([4, 0, 2])))


REFUSED: dict[str, Callable[[Any, Any], Any]] = {
    "topk.default": lambda x, i: x.topk(2)[0],
    "sort.default": lambda x, i: x.sort()[0],
    "scatter.src": lambda x, i: x.scatter(0, i[:, None], x),
    "scatter_add.default": lambda x, i: x.scatter_add(0, i[:, None], x),
    "index_put.default": lambda x, i: x.index_put((i, i), x[0, 0]),
    "nonzero.default": lambda x, i: x.nonzero(),
    "as_strided.default": lambda x, i: x.as_strided((2, 2), (1, 1)),
    "diagonal_scatter.default": lambda x, i: x.diagonal_scatter(x[0]),
    "rand.default": lambda x, i: x + torch.rand(4),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_is_refused_is_named_with_its_line(name: str) -> None:
    from deplodock.frontend.capture import export

    with pytest.raises(UnsupportedError, match=rf"test_decompositions\.py:\d+: error: aten\.{name} is not supported"):
        export(REFUSED[name], (torch.ones(4, 4), torch.tensor([0, 2])))
