"""Programs on a GPU that is not PyTorch's current one."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch

import deplodock

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(torch.cuda.device_count() < 2, reason="needs two GPUs"),
]


def norm(x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
    return torch.softmax(x @ w, -1)


def by_backend() -> Callable[..., torch.Tensor]:
    return torch.compile(norm, backend="deplodock", fullgraph=True)


@pytest.mark.parametrize("make", [lambda: deplodock.compile(norm), by_backend])
@pytest.mark.parametrize("current", [0, 1])
def test_a_program_runs_where_its_tensors_are(make: Callable[[], Callable[..., torch.Tensor]], current: int) -> None:
    """On each GPU in turn, whichever is current."""
    compiled = make()
    with torch.cuda.device(current):
        for place in (1, 0, 1):
            device = torch.device("cuda", place)
            x, w = torch.randn(48, 96, device=device), torch.randn(96, 64, device=device)
            result = compiled(x, w)
            assert result.device == device
            assert torch.cuda.current_device() == current
            torch.testing.assert_close(result, norm(x.double(), w.double()).float(), rtol=1e-4, atol=1e-5)


def test_a_graph_on_the_second_gpu() -> None:
    device = torch.device("cuda", 1)
    x, w = torch.randn(48, 96, device=device), torch.randn(96, 64, device=device)
    compiled = deplodock.compile(norm, (x, w))
    with torch.cuda.device(device):
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            result = compiled(x, w)
        x.normal_()
        graph.replay()
    torch.testing.assert_close(result, norm(x.double(), w.double()).float(), rtol=1e-4, atol=1e-5)


def test_a_file_is_loaded_onto_a_gpu_by_its_number(tmp_path_factory: pytest.TempPathFactory) -> None:
    path = tmp_path_factory.mktemp("second") / "program.ddk"
    x, w = torch.randn(48, 96, device="cuda:0"), torch.randn(96, 64, device="cuda:0")
    program = deplodock.compile(norm, (x, w))
    program.save(path)
    loaded = deplodock.load(path, device="cuda:1")(x.to("cuda:1"), w.to("cuda:1"))
    assert loaded.device == torch.device("cuda", 1)
    assert torch.equal(loaded.cpu(), program(x, w).cpu())
