"""A captured program: the IR, its inputs, and how PyTorch itself runs it."""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache, partial
from itertools import product
from typing import Any, TypeAlias

import torch
from torch import fx
from torch.utils import _pytree as pytree
from torch.utils.flop_counter import FlopCounterMode
from xdsl.dialects.builtin import ModuleOp

from deplodock.analysis.shape.roundings import FP32_ULP, FP64_ULP, Roundings
from deplodock.dialects.torch.aten import PRODUCTS
from deplodock.frontend.importer import is_whole, memory_of
from deplodock.frontend.precision import strict
from deplodock.frontend.retrace import call_key

RMS_NORM = torch.ops.aten.rms_norm.default
NAN_TO_NUM = torch.ops.aten.nan_to_num.default
BITS = torch.ops.aten.view.dtype
AS_STRIDED = (torch.ops.aten.as_strided.default, torch.ops.aten.as_strided_copy.default)

_ATEN = torch.ops.aten
_EQUALITIES = (_ATEN.eq.Scalar, _ATEN.eq.Tensor, _ATEN.ne.Scalar, _ATEN.ne.Tensor)

_SIZES = (2.0**-24, 2.0**-28)
"""Two sizes of errors, far above those of float64 and small enough for first order."""

_DRAWS = 16
"""How often errors are drawn: an output of one element may be lucky once."""

_JUMP = 8.0
"""How much larger the change by the small errors may be, for its size: that of a jump is 16 times as large."""


_Run: TypeAlias = "Callable[[Callable[[fx.GraphModule], fx.Interpreter], Sequence[torch.Tensor]], list[torch.Tensor]]"
"""Runs a program by an interpreter of its graph, on its inputs."""


@dataclass(frozen=True)
class CapturedGraph:
    """A PyTorch program as a graph of ATen operations.

    `inputs` are its tensors in order, contiguous: first those that the user passes, then the parameters, buffers and
    constants that it uses, tied ones once; `originals` are the same as the program holds them. `names` are their names,
    `placeholders` their nodes, `paths` the dotted paths of parameters and buffers, None for the others, and `ties`
    further paths of tied ones, each with the number of its input. The first results of the graph are the new values of
    the inputs that `writes` numbers; then come the leaves of the program's result, a nest of the form `result_spec`,
    where some may be None; the last are booleans, each of which must be true, else a call fails with its message in
    `checks`.
    `asks_layout` says whether the program asks for the strides or the offset of a tensor.
    """

    inputs: tuple[torch.Tensor, ...]
    originals: tuple[torch.Tensor, ...]
    names: tuple[str, ...]
    graph: fx.GraphModule
    placeholders: tuple[str, ...]
    paths: tuple[str | None, ...]
    ties: tuple[tuple[int, str], ...]
    writes: tuple[int, ...]
    checks: tuple[str, ...]
    asks_layout: bool
    result_spec: pytree.TreeSpec

    def arguments(self, inputs: Sequence[torch.Tensor]) -> list[Any]:
        """The arguments of `graph`, for all `inputs` in their order."""
        given = dict(zip(self.placeholders, inputs, strict=True))
        return [given.get(node.name) for node in self.graph.graph.find_nodes(op="placeholder")]

    def run(self, interpreter: fx.Interpreter, inputs: Sequence[torch.Tensor]) -> list[torch.Tensor]:
        """Run an interpreter of `graph` on copies of all inputs, which lie in memory as it was captured for."""
        args = self.arguments([_laid_out(value, own) for value, own in zip(inputs, self.originals, strict=True)])
        with torch.no_grad():
            return [value for value in interpreter.run(*args) if value is not None]

    def moved(self, device: str) -> CapturedGraph:
        """The same graph on another device, its inputs moved there.

        torch.export writes a reshape as a view if memory on the device of the capture allows it. Kernels of another
        device may lay their results out otherwise, so there each view is a reshape again.
        """
        graph = copy.deepcopy(self.graph)
        for node in graph.graph.nodes:
            if "device" in node.kwargs:
                node.update_kwarg("device", torch.device(device))
            if node.target is torch.ops.aten.view.default:
                node.target = torch.ops.aten.reshape.default
        graph.recompile()
        return replace(self, graph=graph.to(device), inputs=tuple(value.to(device) for value in self.inputs))

    def whole(self) -> list[int]:
        """The numbers of the inputs that must be all of their memory in order, as `as_strided` reads that.

        The program is compiled for such tensors.
        """
        strided = [node for node in self.graph.graph.nodes if node.target in AS_STRIDED]
        read = {source for node in strided if (source := memory_of(node.all_input_nodes[0])) is not None}
        names = {node.name for node in read}
        return [number for number, place in enumerate(self.placeholders) if place in names]


def layout_error(whole: Mapping[int, str], inputs: Sequence[torch.Tensor]) -> str:
    """Which of the inputs that must be all of their memory, given with their names, is not; empty if none."""
    for number, name in whole.items():
        if not is_whole(inputs[number]):
            return f"aten.as_strided reads the memory of {name}, of which it is a part or not in order: pass a clone"
    return ""


def _laid_out(value: torch.Tensor, own: torch.Tensor) -> torch.Tensor:
    """A copy of `value` with the strides of `own`, of the same shape; contiguous where elements of `own` share memory.

    Every view of overlapping elements is also one of contiguous ones, but not of those in another order.
    """
    span = 1 + sum((extent - 1) * stride for extent, stride in zip(own.shape, own.stride(), strict=True))
    if span < own.numel():
        return value.clone(memory_format=torch.contiguous_format)
    return value.new_empty_strided(own.shape, own.stride()).copy_(value)


@dataclass(frozen=True)
class CapturedProgram(CapturedGraph):
    """A PyTorch program also as IR of the torch dialect: `@main` of `module` takes `inputs` under their `names`.

    `as_written` gives the same program in the ATen operations that the user calls, before any is decomposed, and
    without what it asserts: PyTorch runs those, so a wrong decomposition is a wrong result.
    """

    module: ModuleOp
    as_written: Callable[[], CapturedGraph]

    def eager(self, inputs: Sequence[torch.Tensor] | None = None) -> list[torch.Tensor]:
        """The outputs that PyTorch computes, operation by operation, on arguments of `@main` (default: `inputs`).

        Products of FP32 are strict, whatever precision the program asks for, and sums of half precision are FP32.
        """
        with strict():
            return self._run(fx.Interpreter, self.inputs if inputs is None else inputs)

    def reference(self, inputs: Sequence[torch.Tensor] | None = None) -> list[torch.Tensor]:
        """The outputs of the same program in float64 on arguments of `@main` (default: `inputs`).

        Floating-point inputs and dtypes are replaced by float64, also those that type promotion would choose. Defaults
        that depend on a type, such as the eps of rms_norm, keep the value they have for the program's own types.
        """
        given = self.inputs if inputs is None else inputs
        return self._run(_Double, [_doubled(value) for value in given])

    def sensitivity(self, rounded: Roundings, inputs: Sequence[torch.Tensor] | None = None) -> list[torch.Tensor]:
        """How far roundings in each input and result may move the outputs, to first order: `Roundings.noise` of each.

        That is the root mean square of the changes of the float64 outputs by random errors that are small, and as large
        to each other as those of the roundings, for which it is scaled up (Monte Carlo arithmetic: D. S. Parker, UCLA
        report CSD-970002, 1997). Where a change is not proportional to the size of the errors, because a condition
        flips, it counts as 0, as for integers and booleans. Errors of values of float64 are drawn on their own beside
        coarser ones, which are too large for them to show.

        The larger one counts of that of the program as written and of that of what is computed for it, which tells the
        targets of a loss, where any error decides otherwise, from what it computes with.
        """
        doubled = [_doubled(value) for value in (self.inputs if inputs is None else inputs)]
        written = self._sensitivity(self._run, doubled, rounded)
        if self.as_written().graph is self.graph:
            return written
        runs: _Run = lambda interpreter, given: self.run(interpreter(self.graph), given)  # noqa: E731
        computed = self._sensitivity(runs, doubled, rounded)
        return [torch.maximum(one, other) for one, other in zip(written, computed, strict=True)]

    def _sensitivity(self, run: _Run, doubled: Sequence[torch.Tensor], rounded: Roundings) -> list[torch.Tensor]:
        """The sensitivity of a run of the program in float64, on its inputs in that type."""
        exact = run(_Double, doubled)
        squares = [torch.zeros_like(value, dtype=torch.float64) for value in exact]
        for ulps, seed in product(_groups(self.as_written().graph), range(_DRAWS)):
            largest = rounded.noise(ulps[-1], is_rounded=True, is_factor=True)
            drawn = [partial(_Disturbed, size=size / largest, seed=seed, rounded=rounded, ulps=ulps) for size in _SIZES]
            moved = [run(interpreter, doubled) for interpreter in drawn]
            slopes = [_slope(value, *values) for value, *values in zip(exact, *moved, strict=True)]
            errors = [(slope * largest).square() / _DRAWS for slope in slopes]
            squares = [total + error for total, error in zip(squares, errors, strict=True)]
        return [total.sqrt() for total in squares]

    def on(self, device: str) -> CapturedProgram:
        """The same program on another device, its inputs moved there."""
        here = vars(self.moved(device))
        return CapturedProgram(**{**here, "as_written": cache(lambda: self.as_written().moved(device))})

    def flops(self) -> int:
        """The operations of the matrix products as PyTorch counts them, on tensors without values.

        A multiplication and an addition count each, also those that causal masks hide.
        """
        known, total = dict[Any, int](), 0
        for node in self.graph.graph.nodes:
            if isinstance(node.target, torch._ops.OpOverload):
                key = call_key(node)
                known[key] = known[key] if key in known else _flops(node)
                total += known[key]
        return total

    def _run(
        self, interpreter: Callable[[fx.GraphModule], fx.Interpreter], inputs: Sequence[torch.Tensor]
    ) -> list[torch.Tensor]:
        """Run the program as written, and what it asserts as captured, which come out last."""
        if len(inputs) != len(self.placeholders):
            raise ValueError(
                f"@main takes {len(self.placeholders)} tensors ({', '.join(self.names)}), got {len(inputs)}"
            )
        written = self.as_written()
        results = written.run(interpreter(written.graph), self._inputs_of(written, inputs))
        if not self.checks or written.graph is self.graph:
            return results
        return results + self.run(interpreter(self.graph), inputs)[-len(self.checks) :]

    def _inputs_of(self, written: CapturedGraph, inputs: Sequence[torch.Tensor]) -> list[torch.Tensor]:
        """The inputs of the program as written: those of `@main`, and state that no decomposed operation reads."""
        given = dict(zip(self.names, inputs, strict=True))
        like = next((value for value in inputs if value.is_floating_point()), None)
        is_doubled = like is not None and like.dtype == torch.float64
        return [
            given[name] if name in given else _doubled(own) if is_doubled else own
            for name, own in zip(written.names, written.inputs, strict=True)
        ]


def _flops(node: fx.Node) -> int:
    """The operations of the matrix products of a call."""

    def empty(value: torch.Tensor) -> torch.Tensor:
        return torch.empty_strided(value.shape, value.stride(), dtype=value.dtype, device="meta")

    values = {one: pytree.tree_map_only(torch.Tensor, empty, one.meta["val"]) for one in node.all_input_nodes}
    args, kwargs = fx.map_arg((node.args, dict(node.kwargs)), values.__getitem__)
    device = {"device": torch.device("meta")} if "device" in kwargs else {}
    assert callable(node.target)
    with FlopCounterMode(display=False) as counter, torch.no_grad():
        node.target(*args, **{**kwargs, **device})
    return int(counter.get_total_flops())


class _Double(fx.Interpreter):
    """Runs the operations of a captured graph in float64 wherever the graph has floating-point values."""

    def run(self, *args: Any, **kwargs: Any) -> Any:
        """Run the graph; what has no floating-point operand, such as a quotient of integers, is float64, too."""
        default = torch.get_default_dtype()
        torch.set_default_dtype(torch.float64)
        try:
            return super().run(*args, **kwargs)
        finally:
            torch.set_default_dtype(default)

    def run_node(self, n: fx.Node) -> Any:
        """Run one operation."""
        if n.op != "call_function" or not isinstance(n.target, torch._ops.OpOverload):
            return super().run_node(n)
        args, kwargs = self.fetch_args_kwargs_from_env(n)
        if n.target is BITS:
            # Bits are those of the captured type, and what they are read as is no wider.
            source = args[0].to(n.all_input_nodes[0].meta["val"].dtype)
            return _doubled(self.call_function(n.target, (source, *args[1:]), {}))
        names = [argument.name for argument in n.target._schema.arguments]
        given = {**dict(zip(names, args, strict=False)), **kwargs, **_defaults_of_types(n)}
        return pytree.tree_map(_doubled, self.call_function(n.target, (), pytree.tree_map(_widened, given)))


def _widened(value: Any) -> Any:
    return torch.float64 if isinstance(value, torch.dtype) and value.is_floating_point else value


class _Disturbed(_Double):
    """Runs a captured graph in float64 with random errors in each input and result, `size` times its roundings.

    Values have them whose types have one of the `ulps`.
    What is only compared for equality, such as a target of 1 or -1, has none: any error would decide otherwise.
    """

    def __init__(
        self, graph: fx.GraphModule, size: float, seed: int, rounded: Roundings, ulps: Sequence[float]
    ) -> None:
        super().__init__(graph)
        self._size = size
        self._rounded = rounded
        self._ulps = ulps
        self._generator = torch.Generator().manual_seed(seed)

    def run_node(self, n: fx.Node) -> Any:
        result = super().run_node(n)
        is_operation = isinstance(n.target, torch._ops.OpOverload) and not _is_view(n.target)
        decides = n.users and all(user.target in _EQUALITIES for user in n.users)
        if decides or (n.op != "placeholder" and not is_operation):
            return result
        return pytree.tree_map(partial(self._disturb, n), result, n.meta.get("val"))

    def _disturb(self, node: fx.Node, value: Any, captured: Any) -> Any:
        if not isinstance(value, torch.Tensor) or not value.is_floating_point():
            return value
        noise = torch.rand(value.shape, generator=self._generator, dtype=torch.float64) * 2 - 1
        if (ulp := _ulp_of(captured)) not in self._ulps:
            return value
        is_factor = _is_factor(node)
        size = self._rounded.noise(ulp, is_rounded=node.op != "placeholder", is_factor=is_factor and ulp == FP32_ULP)
        return value * (1 + self._size * size * noise.to(value.device))


def _is_factor(node: fx.Node) -> bool:
    """Whether products of matrices are computed of a value, or of a view of it."""
    for user in node.users:
        if isinstance(user.target, torch._ops.OpOverload):
            name = str(user.target).removeprefix("aten.").removesuffix(".default")
            if name in PRODUCTS or (_is_view(user.target) and _is_factor(user)):
                return True
    return False


def _groups(graph: fx.GraphModule) -> list[list[float]]:
    """The ulps of 1 in the types of a graph's values, the coarsest one last, that of float64 apart."""
    values = [leaf for node in graph.graph.nodes for leaf in pytree.tree_leaves(node.meta.get("val"))]
    ulps = sorted({_ulp_of(value) for value in values} - {0.0})
    return [group for group in ([u for u in ulps if u > FP64_ULP], [u for u in ulps if u <= FP64_ULP]) if group]


def _ulp_of(value: Any) -> float:
    """The ulp of 1 in the type of a captured value; 0 if it is no tensor of floats."""
    is_float = isinstance(value, torch.Tensor) and value.is_floating_point()
    return torch.finfo(value.dtype).eps if is_float else 0.0


def _is_view(target: torch._ops.OpOverload) -> bool:
    return any(result.alias_info is not None for result in target._schema.returns)


def _slope(exact: torch.Tensor, large: torch.Tensor, small: torch.Tensor) -> torch.Tensor:
    """The change by the small errors for each unit of their size, where that by the large ones is alike."""
    if not exact.is_floating_point():
        return torch.zeros_like(exact, dtype=torch.float64)
    by_large, by_small = ((moved - exact) / size for moved, size in zip((large, small), _SIZES, strict=True))
    is_smooth = by_small.isfinite() & (by_small.abs() <= _JUMP * by_large.abs())
    return torch.where(is_smooth, by_small, 0)


def _doubled(value: Any) -> Any:
    return value.double() if isinstance(value, torch.Tensor) and value.is_floating_point() else value


def _defaults_of_types(node: fx.Node) -> dict[str, Any]:
    """The arguments of an operation that are left out and whose defaults depend on the captured type of its operand."""
    if node.target not in (RMS_NORM, NAN_TO_NUM):
        return {}
    assert isinstance(node.target, torch._ops.OpOverload)
    names = [argument.name for argument in node.target._schema.arguments]
    given = {**dict(zip(names, node.args, strict=False)), **node.kwargs}
    source = node.args[0]
    assert isinstance(source, fx.Node)
    dtype = source.meta["val"].dtype
    if not dtype.is_floating_point:
        return {}
    if node.target is RMS_NORM:
        defaults = {"eps": torch.finfo(dtype if dtype == torch.float64 else torch.float32).eps}
    else:
        defaults = {"posinf": torch.finfo(dtype).max, "neginf": torch.finfo(dtype).min}
    return {name: value for name, value in defaults.items() if given.get(name) is None}


def results_of(graph: fx.GraphModule) -> list[Any]:
    """What a graph gives but for None: fake tensors, which have no values, and constants."""
    values = output_values(graph)
    return [value.meta["val"] if isinstance(value, fx.Node) else value for value in values if value is not None]


def output_values(graph: fx.GraphModule) -> Sequence[Any]:
    """The nodes and constants that a graph returns, None among them."""
    (values,) = graph.graph.output_node().args
    return values if isinstance(values, tuple | list) else [values]


def leaf_names(base: str, value: object) -> list[str]:
    """Names for the tensors of an input: the name itself, or numbered ones for a nest of tensors."""
    leaves = [leaf for leaf in pytree.tree_leaves(value) if isinstance(leaf, torch.Tensor)]
    return [base] if isinstance(value, torch.Tensor) else [f"{base}_{i}" for i in range(len(leaves))]
