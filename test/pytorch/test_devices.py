"""Graphs with tensors of a GPU that need not be there: what of them is compiled, down to kernels, and where it runs."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import nullcontext
from typing import Any

import pytest
import torch
from torch._dispatch.python import enable_python_dispatcher
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.fx.experimental.proxy_tensor import make_fx
from torch.utils._python_dispatch import TorchDispatchMode
from xdsl.dialects.builtin import ModuleOp

from deplodock.errors import UnsupportedError
from deplodock.pytorch import compiled, partition
from deplodock.pytorch.compiled import device_of
from deplodock.pytorch.options import BackendOptions
from deplodock.pytorch.partition import PartsRunner
from deplodock.pytorch.runners import placed

Tensor = torch.Tensor
MODE = FakeTensorMode(allow_non_fake_inputs=True)
CPU, GPU, OTHER = (torch.device(name) for name in ("cpu", "cuda:0", "cuda:1"))


class Recorded:
    """A program that was lowered for a GPU."""

    def __init__(self, module: ModuleOp, device: torch.device, results: Sequence[Tensor], reused: int) -> None:
        self.module, self.device, self.results = module, device, results
        self.turn = nullcontext()


@pytest.fixture
def programs(monkeypatch: pytest.MonkeyPatch) -> list[Recorded]:
    """The programs that are lowered for GPUs, of which two seem to be there."""
    made: list[Recorded] = []

    def record(*args: Any) -> Recorded:
        made.append(Recorded(*args))
        return made[-1]

    monkeypatch.setattr(compiled, "missing", lambda: None)
    monkeypatch.setattr(compiled, "device_count", lambda: 2)
    monkeypatch.setattr(compiled, "CudaRunner", record)
    monkeypatch.setattr(partition, "lower_ahead", lambda *_: None)
    return made


def fake(value: Tensor, device: torch.device = GPU, dtype: torch.dtype | None = None) -> Tensor:
    """A tensor like this one, without values."""
    dtype = dtype if dtype is not None and value.is_floating_point() else value.dtype
    with MODE:
        return torch.empty_strided(value.shape, value.stride(), dtype=dtype, device=device)


def in_parts(program: Callable[..., Any], *args: Any) -> PartsRunner:
    """The parts of the graph that PyTorch traces for such arguments."""
    with MODE, torch.no_grad(), enable_python_dispatcher():
        graph = make_fx(torch.func.functionalize(program))(*args)
    return PartsRunner(graph, BackendOptions(target="sm_90"), "graph0/forward")


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_a_net_of_timm_is_compiled_whole(dtype: torch.dtype, programs: list[Recorded]) -> None:
    """On a GPU batch norm gives statistics, which are FP32 as what it is given of them may be."""
    timm = pytest.importorskip("timm")
    with torch.device("meta"):
        net = timm.create_model("resnet18", num_classes=8).eval()
    state = {
        name: fake(value, dtype=None if "bn" in name or "downsample.1" in name else dtype)
        for name, value in net.state_dict().items()
    }
    image = fake(torch.empty(1, 3, 32, 32), dtype=dtype)
    runner = in_parts(lambda state, x: torch.func.functional_call(net, state, (x,)), state, image)
    assert (len(programs), runner.left, runner.reasons) == (1, 0, {})


def test_scalars_of_the_cpu_go_with_a_program_of_the_gpu(programs: list[Recorded]) -> None:
    """DeBERTa divides by the root of a tensor without dimensions."""

    def program(x: Tensor, scale: Tensor, shift: Tensor) -> tuple[Tensor, ...]:
        root = torch.sqrt(scale.float())
        y = torch.where(x > 0, x / root, shift) @ x
        return y, torch.maximum(y, shift), root + 1, scale * 2, y * (shift * 3)

    args = fake(torch.empty(4, 4)), fake(torch.tensor(3), CPU), fake(torch.tensor(0.5), CPU)
    runner = in_parts(program, *args)
    (made,) = programs
    assert made.device == GPU
    assert all(result.device == GPU for result in made.results)
    # What is given on the CPU is computed there.
    assert runner.left == 4
    assert not runner.reasons


def test_each_device_has_its_programs(programs: list[Recorded]) -> None:
    def program(x: Tensor, y: Tensor, z: Tensor) -> tuple[Tensor, ...]:
        return x.sin() @ x, y.cos() @ y, z.exp(), (x * 2).tanh()

    runner = in_parts(program, *(fake(torch.empty(4, 4), device) for device in (GPU, OTHER, CPU)))
    assert {made.device for made in programs} == {GPU, OTHER}
    assert len(programs) == 2
    assert runner.reasons == {"aten.exp.default": "it runs on the CPU, and other operations on a GPU"}
    assert (runner.compiled, runner.left) == (6, 1)


def test_dropout_cuts_no_program(programs: list[Recorded]) -> None:
    def program(x: Tensor) -> tuple[Tensor, Tensor]:
        value, mask = torch.native_dropout((x @ x).sin(), 0.25, True)
        return torch.native_dropout(value @ x, 0.5, True)[0].cos(), mask

    runner = in_parts(program, fake(torch.empty(8, 8), dtype=torch.bfloat16))
    assert (len(programs), runner.left, runner.reasons) == (1, 0, {})


def test_where_a_program_runs() -> None:
    number, tensor, other = torch.tensor(1.0), torch.ones(2), fake(torch.ones(2))
    assert device_of([number], [tensor]) == device_of([number], []) == CPU
    assert device_of([number, other, number], [other]) == device_of([number], [other]) == GPU
    for inputs, results in (([tensor, other], []), ([other, number], [number]), ([tensor], [other])):
        with pytest.raises(UnsupportedError, match="are on several devices: "):
            device_of(inputs, results)


def test_scalars_reach_kernels_by_value() -> None:
    """No copy from the CPU, for which PyTorch waits; the meta device stands for the GPU."""
    calls: list[str] = []

    class Calls(TorchDispatchMode):
        def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            calls.append(str(func))
            return func(*args, **(kwargs or {}))

    with Calls():
        (_, scalar), _ = placed([torch.ones(16, device="meta"), torch.tensor(True)], torch.device("meta"))
    assert (scalar.dtype, scalar.device.type) == (torch.bool, "meta")
    assert "aten._to_copy.default" not in calls


def test_positions_made_on_the_cpu_cut_no_program_of_the_gpu(programs: list[Recorded]) -> None:
    runner = in_parts(lambda x: (torch.arange(4) * 2, x.sin() @ x, torch.arange(3)), fake(torch.empty(4, 4)))
    assert (len(programs), runner.compiled, runner.left) == (1, 2, 3)
    assert list(runner.reasons) == ["aten.arange.default", "aten.mul.Tensor"]
