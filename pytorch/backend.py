"""The backend of `torch.compile(model, backend="deplodock")`."""

from __future__ import annotations

import contextlib
import copy
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import fx

from deplodock.errors import UnsupportedError
from deplodock.frontend.capture import captured_graph, export_graph
from deplodock.frontend.program import output_values
from deplodock.pytorch.compiled import CompiledProgram
from deplodock.pytorch.parts import PartsRunner


def backend(graph: fx.GraphModule, example_inputs: Sequence[Any]) -> Callable[..., Any]:
    """Compile a graph that TorchDynamo captured, for each set of shapes it is called with.

    Operations that deplodock does not support are left to PyTorch, with one warning that names them. Gradients are
    PyTorch's, which computes the graph again for them.
    """
    return _Specialized(graph)


@dataclass(frozen=True)
class _Compiled:
    """A compiled graph; `is_pure` if running the graph again gives the same and changes nothing."""

    run: CompiledProgram
    is_pure: bool


class _Specialized:
    """A graph compiled on the first call with each set of shapes, dtypes and numbers."""

    def __init__(self, graph: fx.GraphModule) -> None:
        self._graph = graph
        self._plain = _without_grad_modes(graph)
        self._reported: set[str] = set()
        self._compiled: dict[tuple[Any, ...], _Compiled | None] = {}

    def __call__(self, *args: Any) -> Any:
        key = tuple((a.shape, a.dtype, a.device) if isinstance(a, torch.Tensor) else a for a in args)
        if key not in self._compiled:
            self._compiled[key] = self._compile(args)
        compiled = self._compiled[key]
        differentiated = torch.is_grad_enabled() and any(isinstance(a, torch.Tensor) and a.requires_grad for a in args)
        if compiled is None or (differentiated and not compiled.is_pure) or not compiled.run.can_run(*args):
            return self._graph(*args)
        return _Recomputed.apply(compiled.run, self._graph, *args) if differentiated else compiled.run(*args)

    def _compile(self, args: tuple[Any, ...]) -> _Compiled | None:
        """The compiled graph, None where nothing of it can be compiled."""
        try:
            captured = captured_graph(export_graph(self._plain, args), self._plain, args)
            runner = PartsRunner(captured)
        except UnsupportedError as error:
            self._report({"the graph": str(error)})
            return None
        self._report(runner.reasons)
        is_pure = not runner.draws and not captured.writes
        return _Compiled(CompiledProgram(captured, None, runner), is_pure) if runner.parts else None

    def _report(self, reasons: Mapping[str, str]) -> None:
        """Warn once of what is left to PyTorch."""
        new = {name: reason for name, reason in reasons.items() if name not in self._reported}
        self._reported |= new.keys()
        if new:
            found = "; ".join(f"{name} ({reason.replace(': error: ', ': ')})" for name, reason in new.items())
            warnings.warn(f"deplodock leaves to PyTorch: {found}", stacklevel=3)


class _Recomputed(torch.autograd.Function):
    """A compiled graph whose backward pass runs PyTorch's graph again, to have gradients through it."""

    @staticmethod
    def forward(ctx: Any, compiled: Callable[..., Any], graph: fx.GraphModule, *args: Any) -> Any:
        ctx.graph, ctx.others = graph, [None if isinstance(a, torch.Tensor) else a for a in args]
        ctx.save_for_backward(*(a if isinstance(a, torch.Tensor) else None for a in args))
        ctx.autocast = [
            (device, torch.is_autocast_enabled(device), torch.get_autocast_dtype(device)) for device in ("cpu", "cuda")
        ]
        results = tuple(compiled(*args))
        pairs = zip(results, _noted_results(graph), strict=True)
        fixed = [r for r, noted in pairs if isinstance(r, torch.Tensor) and not getattr(noted, "requires_grad", True)]
        ctx.mark_non_differentiable(*fixed)
        return results

    @staticmethod
    def backward(ctx: Any, *gradients: torch.Tensor | None) -> Any:
        needed, differentiated = ctx.needs_input_grad[2:], torch.is_grad_enabled()
        with contextlib.ExitStack() as modes:
            modes.enter_context(torch.enable_grad())
            for device, is_enabled, dtype in ctx.autocast:
                modes.enter_context(torch.autocast(device, enabled=is_enabled, dtype=dtype))
            # Views of their own, so that no gradient of one argument comes through another.
            given = [
                None if tensor is None else tensor.view_as(tensor) if is_needed else tensor.detach()
                for tensor, is_needed in zip(ctx.saved_tensors, needed, strict=True)
            ]
            args = [other if tensor is None else tensor for tensor, other in zip(given, ctx.others, strict=True)]
            results = ctx.graph(*args)
        pairs = [
            (result, gradient)
            for result, gradient in zip(results, gradients, strict=True)
            if isinstance(result, torch.Tensor) and result.requires_grad and gradient is not None
        ]
        wanted = [tensor for tensor in given if tensor is not None and tensor.requires_grad]
        outputs, gradients_of_outputs = [r for r, _ in pairs], [g for _, g in pairs]
        found = torch.autograd.grad(
            outputs, wanted, gradients_of_outputs, allow_unused=True, create_graph=differentiated
        )
        by_tensor = dict(zip(map(id, wanted), found, strict=True))
        return None, None, *(by_tensor.get(id(tensor)) for tensor in given)


def _noted_results(graph: fx.GraphModule) -> list[Any]:
    """The results of a graph of TorchDynamo as it noted them: fake tensors, which know whether they have a gradient."""
    return [value.meta.get("example_value") if isinstance(value, fx.Node) else value for value in output_values(graph)]


def _without_grad_modes(graph: fx.GraphModule) -> fx.GraphModule:
    """A copy of the graph that leaves the grad mode alone, since compiled programs run without gradients."""
    plain = fx.GraphModule(graph, copy.deepcopy(graph.graph))
    for node in plain.graph.find_nodes(op="call_function", target=torch._C._set_grad_enabled):
        plain.graph.erase_node(node)
    plain.recompile()
    return plain
