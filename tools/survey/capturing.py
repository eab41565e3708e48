"""The graphs of ATen operations that torch.compile makes of a model, without values."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from functorch.compile import make_boxed_func
from torch import fx
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.fx.experimental.symbolic_shapes import ShapeEnv
from torch.utils import _pytree as pytree

from deplodock.pytorch.backend import GraphCompiler, traced
from deplodock.tools.survey.models import SurveyModel, built, faked

TYPES = ("bf16", "fp32")


@dataclass(frozen=True)
class SurveyCase:
    """A model with floats of a type, `bf16` or `fp32`, in inference or in training."""

    model: SurveyModel
    type: str
    trains: bool

    @property
    def name(self) -> str:
        return f"{self.model.name} {'train' if self.trains else 'infer'} {self.type}"


def captured(case: SurveyCase) -> list[fx.GraphModule]:
    """The graphs of a case, of fake tensors with the shapes and types that PyTorch gives on a GPU.

    The tensors are the CPU's: without CUDA, PyTorch neither slices nor differentiates those of a GPU. Training in bf16
    is autocast.
    """
    is_half = case.type == "bf16"
    module, args, kwargs = built(case.model, torch.bfloat16 if is_half and not case.trains else torch.float32)
    mode = FakeTensorMode(shape_env=ShapeEnv(), allow_non_fake_inputs=True)
    module, (args, kwargs) = faked(module, mode, "cpu"), faked((tuple(args), dict(kwargs)), mode, "cpu")
    graphs: list[fx.GraphModule] = []
    torch._dynamo.reset()
    compiled = torch.compile(module.train(case.trains), backend=_collector(graphs))
    autocast = torch.autocast("cpu", torch.bfloat16) if case.trains and is_half else contextlib.nullcontext()
    with mode, torch.set_grad_enabled(case.trains):
        with autocast:
            result = compiled(*args, **kwargs)
        if case.trains:
            case.model.loss(result).backward()
    for graph in graphs:
        _typed_as_on_gpu(graph)
    return graphs


def _collector(graphs: list[fx.GraphModule]) -> Callable[..., Any]:
    """A backend of torch.compile that keeps the graphs of AOTAutograd and runs them as they are."""

    def keep(graph: fx.GraphModule, _: Sequence[Any]) -> Callable[..., Any]:
        graphs.append(graph)
        return make_boxed_func(graph)

    def compiler(_: str) -> GraphCompiler:
        return keep

    return lambda graph, examples: traced(graph, examples, compiler)


def _typed_as_on_gpu(graph: fx.GraphModule) -> None:
    """Give a graph of the CPU's fake tensors the shapes and types that PyTorch gives on a GPU."""
    made = [node for node in graph.graph.nodes if node.kwargs.get("device") == torch.device("cpu")]
    placeholders = [node.meta["val"] for node in graph.graph.find_nodes(op="placeholder")]
    own, mode = FakeTensorMode(allow_non_fake_inputs=True), FakeTensorMode(allow_non_fake_inputs=True)
    _place(made, "cuda")
    with mode, torch.no_grad():
        _OnGpu(graph).run(*faked(placeholders, mode, "cuda"))
    _place(made, "cpu")
    for node in graph.graph.nodes:
        if "val" in node.meta:
            node.meta["val"] = faked(node.meta["val"], own, "cpu")


def _place(nodes: Sequence[fx.Node], device: str) -> None:
    """Have calls make tensors on a device."""
    for node in nodes:
        node.kwargs = {**node.kwargs, "device": torch.device(device)}


class _OnGpu(fx.Interpreter):
    """Runs a graph on a GPU's fake tensors, which it notes; what views them asks for the strides of the CPU."""

    def run_node(self, n: fx.Node) -> Any:
        value = super().run_node(n)
        if n.op == "call_function":
            leaves, form = pytree.tree_flatten(value)
            wanted = pytree.tree_leaves(n.meta["val"])
            value = pytree.tree_unflatten(map(_with_strides, leaves, wanted), form)
        if n.op != "output":
            n.meta["val"] = value
        return value


def _with_strides(value: Any, other: Any) -> Any:
    """A tensor with the strides of another, if that has its shape; anything else as it is."""
    if not isinstance(value, torch.Tensor) or value.shape != other.shape or value.stride() == other.stride():
        return value
    return torch.empty_strided(other.shape, other.stride(), dtype=value.dtype, device=value.device)
