"""What calls of a compiled program look like, and what comes of them, as plain facts that a file can keep."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from math import prod
from operator import attrgetter
from typing import Any, TypeAlias

import torch
from torch import fx
from torch.utils import _pytree as pytree

from deplodock.errors import InvalidInputError
from deplodock.frontend.capture import Call
from deplodock.frontend.importer import check_layout
from deplodock.frontend.program import CapturedGraph, layout_error, output_values

_TENSORS = {torch.Tensor, torch.nn.Parameter}
"""Types of arguments that are no nest to PyTorch's pytrees, whatever is registered there."""

_FLAT = _TENSORS | {bool, int, float, str, type(None)}
"""Types of arguments that are no nest, and whose text is short."""

_IS_NESTED = attrgetter("is_nested")
_SHAPE, _KIND = attrgetter("shape"), attrgetter("dtype", "layout")

Value: TypeAlias = tuple[str, str]
"""An argument that is no tensor: its type and its text, which tells 0.0 from -0.0, and NaN from all but itself."""


@dataclass(frozen=True)
class TensorFacts:
    """What a tensor is: its name, shape and dtype, its strides in elements, and its offset in memory."""

    name: str
    shape: tuple[int, ...]
    dtype: torch.dtype
    strides: tuple[int, ...]
    offset: int = 0

    @property
    def bytes(self) -> int:
        """The bytes of its elements."""
        return prod(self.shape) * self.dtype.itemsize

    @staticmethod
    def of(name: str, value: torch.Tensor) -> TensorFacts:
        """The facts of a tensor."""
        return TensorFacts(name, tuple(value.shape), value.dtype, tuple(value.stride()), int(value.storage_offset()))


@dataclass(frozen=True)
class CallSignature:
    """The arguments of a program, a nest of the form `form`, and its results, one of the form `result_form`.

    Leaves of the arguments are tensors, None in `values`, or other values. `inputs` are the arguments of `@main`: first
    those tensors, then the state of the program, whose `paths` are those of a module's parameters and buffers, None for
    tensors from elsewhere; `ties` are other paths of that state, each with its number among `paths`. Inputs of the
    numbers `whole` must be all of their memory; with `asks_layout` all must lie in memory as they did.
    `@main` gives new values for the inputs that `writes` numbers, then the `results` that are not None, then booleans
    that must be true, else a call fails with its message in `checks`.
    """

    form: pytree.TreeSpec
    values: tuple[Value | None, ...]
    inputs: tuple[TensorFacts, ...]
    paths: tuple[str | None, ...]
    ties: tuple[tuple[int, str], ...]
    whole: tuple[int, ...]
    asks_layout: bool
    writes: tuple[int, ...]
    results: tuple[TensorFacts | None, ...]
    checks: tuple[str, ...]
    result_form: pytree.TreeSpec

    @property
    def outputs(self) -> list[TensorFacts]:
        """What `@main` gives."""
        asserted = [TensorFacts(message, (), torch.bool, ()) for message in self.checks]
        return [*(self.inputs[number] for number in self.writes), *filter(None, self.results), *asserted]

    @property
    def state(self) -> list[tuple[TensorFacts, str | None]]:
        """The inputs that no call gives, with their paths."""
        return list(zip(self.inputs[len(self.inputs) - len(self.paths) :], self.paths, strict=True))

    def tensors(self, call: Call) -> Sequence[torch.Tensor]:
        """The tensors in the arguments of a call. Raises InvalidInputError where these have another form or value."""
        args, kwargs = call
        if self._is_flat and not kwargs and len(args) == len(self.values) and all(type(arg) in _FLAT for arg in args):
            others = [None if type(arg) in _TENSORS else _value(arg) for arg in args]
            if others == self._values:
                return [arg for arg, own in zip(args, others, strict=True) if own is None]
        leaves, form = pytree.tree_flatten(sorted_call(call))
        if form != self.form:
            raise InvalidInputError(f"the program was compiled for {_nest(self.form)}, got {_nest(form)}")
        tensors: list[torch.Tensor] = []
        for leaf, own in zip(leaves, self.values, strict=True):
            if own is None and isinstance(leaf, torch.Tensor):
                tensors.append(leaf)
            elif own is None or isinstance(leaf, torch.Tensor) or _value(leaf) != own:
                wanted = f"a tensor of shape {self.inputs[len(tensors)].shape}" if own is None else _shown_value(own)
                raise InvalidInputError(f"the program was compiled for the argument {wanted}, got {shown(leaf)}")
        return tensors

    def check(self, inputs: Sequence[torch.Tensor]) -> None:
        """Raise InvalidInputError where an input is not what the program was compiled for."""
        is_nested = any(map(_IS_NESTED, inputs[: len(inputs) - len(self.paths)]))
        if is_nested or [*map(_KIND, inputs)] != self._kinds or [*map(_SHAPE, inputs)] != self._shapes:
            self._refuse(inputs)
        if self.asks_layout:
            self._check_layout(inputs)
        if error := layout_error({number: self.inputs[number].name for number in self.whole}, inputs):
            raise InvalidInputError(error)

    def given(self, results: Sequence[torch.Tensor]) -> Any:
        """What a call gives, with these tensors for the results that are not None."""
        if self._gives_one:
            return results[0]
        tensors = iter(results)
        return pytree.tree_unflatten([None if own is None else next(tensors) for own in self.results], self.result_form)

    @cached_property
    def sizes(self) -> list[int]:
        """The bytes of each input."""
        return [own.bytes for own in self.inputs]

    @cached_property
    def _is_flat(self) -> bool:
        """Whether the arguments are tensors and other values, without keywords and nests."""
        return self.form == pytree.tree_structure(((0,) * len(self.values), {}))

    @cached_property
    def _values(self) -> list[Value | None]:
        return [*self.values]

    @cached_property
    def _gives_one(self) -> bool:
        """Whether the result is a tensor."""
        return self.result_form.is_leaf() and self.results[0] is not None

    @cached_property
    def _shapes(self) -> list[tuple[int, ...]]:
        return [own.shape for own in self.inputs]

    @cached_property
    def _kinds(self) -> list[tuple[torch.dtype, torch.layout]]:
        return [(own.dtype, torch.strided) for own in self.inputs]

    def _refuse(self, inputs: Sequence[torch.Tensor]) -> None:
        for own, value in zip(self.inputs, inputs, strict=True):
            check_layout(value, own.name)
            if value.shape != own.shape or value.dtype != own.dtype:
                raise InvalidInputError(
                    f"{own.name} must be {own.dtype} of shape {own.shape}, "
                    f"got {value.dtype} of shape {tuple(value.shape)}: compile again for it"
                )

    def _check_layout(self, inputs: Sequence[torch.Tensor]) -> None:
        for own, value in zip(self.inputs, inputs, strict=True):
            if (value.stride(), value.storage_offset()) != (own.strides, own.offset):
                raise InvalidInputError(
                    f"{own.name} must have strides {own.strides} and offset {own.offset}, for which the program asks, "
                    f"got {value.stride()} and {value.storage_offset()}: compile again for it"
                )


def signature_of(captured: CapturedGraph, call: Call) -> CallSignature:
    """The signature of a program that was captured on the arguments of a call, keywords sorted."""
    leaves, form = pytree.tree_flatten(call)
    values = tuple(None if isinstance(leaf, torch.Tensor) else _value(leaf) for leaf in leaves)
    given = output_values(captured.graph)
    results = given[len(captured.writes) : len(given) - len(captured.checks)]
    return CallSignature(
        form=form,
        values=values,
        inputs=tuple(TensorFacts.of(*pair) for pair in zip(captured.names, captured.originals, strict=True)),
        paths=captured.paths[values.count(None) :],
        ties=tuple((number - values.count(None), path) for number, path in captured.ties),
        whole=tuple(captured.whole()),
        asks_layout=captured.asks_layout,
        writes=captured.writes,
        results=tuple(None if node is None else _result(node) for node in results),
        checks=captured.checks,
        result_form=captured.result_spec,
    )


def sorted_call(call: Call) -> Call:
    """A call with its keywords in the order of their names."""
    args, kwargs = call
    return args, dict(sorted(kwargs.items()))


def shown(value: object) -> str:
    """An argument as a message shows it."""
    if isinstance(value, torch.Tensor):
        return "a nested tensor" if value.is_nested else f"a tensor of shape {tuple(value.shape)}"
    return _shown_value(_value(value))


def _shown_value(value: Value) -> str:
    kind, text = value
    return text if len(text) <= 60 else f"a {kind}"


def _value(leaf: object) -> Value:
    return f"{type(leaf).__module__}.{type(leaf).__qualname__}", repr(leaf)


def _result(node: Any) -> TensorFacts:
    """The facts of a result, which lies in memory of its own: the offset of a view in the graph may be data."""
    assert isinstance(node, fx.Node)
    value = node.meta["val"]
    return TensorFacts(node.name, tuple(value.shape), value.dtype, tuple(value.stride()))


def _nest(form: pytree.TreeSpec) -> str:
    """The nest of arguments as one line, such as `(*, {x: *})`."""
    args, kwargs = pytree.tree_unflatten(["*"] * form.num_leaves, form)
    return f"the arguments {args}{f' and {kwargs}' if kwargs else ''}".replace("'*'", "*")
