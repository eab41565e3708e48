"""A sample of PyTorch's operator database through `deplodock.compile` in the simulator, compared with eager."""

from __future__ import annotations

import contextlib
import io
import re
import traceback
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from enum import Enum
from functools import cached_property
from itertools import islice
from typing import Any

import torch
from torch.utils import _pytree as pytree
from torch.utils._python_dispatch import TorchDispatchMode

from deplodock.analysis.shape.roundings import Roundings, roundings
from deplodock.errors import Error, InvalidInputError, UnsupportedError
from deplodock.frontend.arrays import to_array
from deplodock.frontend.capture import as_module, export
from deplodock.frontend.program import CapturedProgram
from deplodock.frontend.tracing import quiet
from deplodock.passes.driver import Level, lower, new_context
from deplodock.pytorch.function import compile
from deplodock.runtime.compare import Verdict, compare

_DIMS = {"topk": 1, "kthvalue": 1, "median": 0, "nanmedian": 0, "mode": 0, "sort": 0, "argsort": 0}
"""Operations that may find any of equal elements, and where in their arguments behind the tensor the dimension is."""


class SampleKind(Enum):
    """What became of a sample."""

    RIGHT = "right"
    REFUSED = "refused"
    LEFT_OUT = "left out"
    WRONG = "wrong"
    TRACEBACK = "traceback"
    TIMEOUT = "timeout"


FAILURES = (SampleKind.WRONG, SampleKind.TRACEBACK, SampleKind.TIMEOUT)


@dataclass(frozen=True)
class SampleOutcome:
    """What became of a sample, and why; a sample that is right has no reason."""

    kind: SampleKind
    reason: str = ""


@dataclass(frozen=True)
class Sample:
    """A call of an operation: the program of its tensors, which are in `tensors`; all other arguments are compiled in.

    `arguments` is the nest of all arguments, with a `Place` for each tensor.
    """

    operation: Callable[..., Any]
    arguments: Any
    tensors: tuple[torch.Tensor, ...]

    def program(self, *tensors: torch.Tensor) -> Any:
        """The call on tensors in place of `tensors`."""
        return self._call(lambda leaf: leaf.of(tensors) if isinstance(leaf, Place) else leaf)

    def doubled(self) -> Any:
        """The results in float64, and the tensors after the call: all floats, dtypes and defaults are of that type."""
        tensors = [value.double() if value.is_floating_point() else value.clone() for value in self.tensors]

        def double(leaf: Any) -> Any:
            if isinstance(leaf, Place):
                return leaf.of(tensors)
            return torch.float64 if isinstance(leaf, torch.dtype) and leaf.is_floating_point else leaf

        default = torch.get_default_dtype()
        torch.set_default_dtype(torch.float64)
        try:
            return self._call(double), tensors
        finally:
            torch.set_default_dtype(default)

    def finds_equals(self, number: int, places: torch.Tensor, others: torch.Tensor) -> bool:
        """Whether a result, by its number, may be `places` where PyTorch finds equal elements at `others`."""
        name, (first, args, kwargs) = self.operation.__name__, self.arguments
        is_open = name in _DIMS and number == int(name != "argsort") and not kwargs.get("stable")
        if not is_open or not isinstance(first, Place):
            return False
        x = first.of(self.tensors)
        given = args[_DIMS[name]] if len(args) > _DIMS[name] else kwargs.get("dim", -1)
        dim = given % max(1, x.dim())
        if places.dim() < x.dim():
            places, others = places.unsqueeze(dim), others.unsqueeze(dim)
        ordered = places.sort(dim)[0]
        is_repeated = bool((ordered.diff(dim=dim) == 0).any()) if places.dim() else False
        is_inside = bool(((places >= 0) & (places < (x.shape[dim] if x.dim() else 1))).all())
        return is_inside and not is_repeated and _same(x.gather(dim, places), x.gather(dim, others))

    def _call(self, change: Callable[[Any], Any]) -> Any:
        first, args, kwargs = pytree.tree_map(change, self.arguments)
        return self.operation(first, *args, **kwargs)


@dataclass(frozen=True)
class Place:
    """Where a tensor of a sample stands among its tensors."""

    number: int

    def of(self, tensors: Sequence[torch.Tensor]) -> torch.Tensor:
        """The tensor that stands there."""
        return tensors[self.number]


def samples(entry: Any, dtype: torch.dtype, count: int) -> Iterator[Sample]:
    """The first samples of an entry of the database; PyTorch seeds each, so they are the same in every process."""
    for given in islice(entry.sample_inputs("cpu", dtype), count):
        leaves, form = pytree.tree_flatten((given.input, given.args, given.kwargs))
        tensors = [leaf for leaf in leaves if isinstance(leaf, torch.Tensor)]
        places = iter(range(len(tensors)))
        kept = [Place(next(places)) if isinstance(leaf, torch.Tensor) else leaf for leaf in leaves]
        yield Sample(entry.op, pytree.tree_unflatten(kept, form), tuple(value.detach() for value in tensors))


def judge(sample: Sample) -> SampleOutcome:
    """Run a sample in PyTorch and in the simulator, and compare what both give and what they write."""
    calls = _OverloadRecorder()
    eager_tensors, others = _clones(sample.tensors), _clones(sample.tensors)
    try:
        with torch.no_grad():
            eager = sample.program(*eager_tensors)
            # A run of its own, since PyTorch may call other kernels under such a mode.
            with calls:
                sample.program(*others)
    except Exception as raised:
        return SampleOutcome(SampleKind.LEFT_OUT, f"PyTorch raises {type(raised).__name__}")
    if reason := calls.reason_to_leave_out():
        return SampleOutcome(SampleKind.LEFT_OUT, reason)
    try:
        compiled = compile(lambda *tensors: sample.program(*tensors), _clones(sample.tensors))
        tensors = _clones(sample.tensors)
        got = compiled(*tensors)
    except (UnsupportedError, InvalidInputError) as error:
        if not _can_export(sample):
            return SampleOutcome(SampleKind.LEFT_OUT, "torch.export cannot capture it")
        return SampleOutcome(SampleKind.REFUSED, _short(str(error)))
    except Error as error:
        return SampleOutcome(SampleKind.WRONG, _short(str(error)))
    except Exception as error:
        frame = traceback.extract_tb(error.__traceback__)[-1]
        place = f"{frame.filename}:{frame.lineno}: {frame.name}"
        return SampleOutcome(SampleKind.TRACEBACK, f"{type(error).__name__}: {_short(str(error))} ({place})")
    reason = _difference(sample, (got, tensors), (eager, eager_tensors))
    return SampleOutcome(SampleKind.WRONG, reason) if reason else SampleOutcome(SampleKind.RIGHT)


class _OverloadRecorder(TorchDispatchMode):
    """Records the overloads that a program calls."""

    def __init__(self) -> None:
        super().__init__()
        self._overloads: list[torch._ops.OpOverload] = []

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        self._overloads.append(func)
        return func(*args, **(kwargs or {}))

    def reason_to_leave_out(self) -> str:
        """Why no result can be expected: the program draws random numbers, or does nothing but allocate memory."""
        if any(torch.Tag.nondeterministic_seeded in overload.tags for overload in self._overloads):
            return "it draws random numbers"
        names = [str(overload.overloadpacket) for overload in self._overloads]
        is_empty = names and all(re.match(r"aten\.(new_)?empty", name) for name in names)
        return "it returns memory that nobody wrote" if is_empty else ""


def _clones(tensors: Sequence[torch.Tensor]) -> tuple[torch.Tensor, ...]:
    return tuple(value.clone() for value in tensors)


def _can_export(sample: Sample) -> bool:
    """Whether torch.export captures a sample."""
    try:
        # torch.export prints the graph of a program that it cannot capture.
        silence = contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO())
        with quiet(), torch.no_grad(), silence[0], silence[1]:
            torch.export.export(as_module(lambda *tensors: sample.program(*tensors)), _clones(sample.tensors))
    except Exception:
        return False
    return True


def _short(message: str) -> str:
    """The first line of a message, without the place that it points at."""
    return re.sub(r"^\S*?:\d+(:\d+)?: error: ", "", message.strip().split("\n")[0])


def _difference(sample: Sample, got: Any, eager: Any) -> str:
    """How results, or what the inputs hold after the call, differ from eager's; empty if all is right."""
    (values, form), (expected, own_form) = pytree.tree_flatten(got), pytree.tree_flatten(eager)
    if form != own_form:
        return f"the results are {form}, not {own_form}"
    bar = _Bar(sample, expected)
    for number, (value, own) in enumerate(zip(values, expected, strict=True)):
        if not isinstance(own, torch.Tensor):
            if value != own:
                return f"result {number} is {value}, not {own}"
        elif value.dtype != own.dtype or value.shape != own.shape:
            return f"result {number} is {value.dtype} {list(value.shape)}, not {own.dtype} {list(own.shape)}"
        elif not _same(value, own) and not sample.finds_equals(number, value, own):
            verdict = bar.verdict(number, value)
            if not verdict.passed:
                return f"result {number}: {verdict}"
    return ""


def _same(value: torch.Tensor, other: torch.Tensor) -> bool:
    """Whether two tensors of one type and shape have equal elements, NaN among them."""
    return bool(((value == other) | ((value != value) & (other != other))).all())


class _Bar:
    """The project's error bar for the results of a sample; what takes long to find out is asked where it decides."""

    def __init__(self, sample: Sample, eager: Sequence[Any]) -> None:
        """`eager` are the leaves of what PyTorch gives: results, then inputs as they are after the call."""
        self._sample = sample
        self._eager = eager

    def verdict(self, number: int, value: torch.Tensor) -> Verdict:
        """Whether a leaf is right; it is compared with eager's where there is none in float64."""
        own = to_array(self._eager[number])
        reference = self._reference[number] if number < len(self._reference) else None
        arrays = to_array(value), own, None
        if isinstance(reference, torch.Tensor) and reference.dtype == torch.float64:
            arrays = to_array(value), to_array(reference), own
        verdict = compare(*arrays, Roundings())
        if verdict.passed or not value.is_floating_point():
            return verdict
        unmoved = torch.zeros_like(value, dtype=torch.float64)
        return compare(*arrays, self._rounded, lambda: to_array(self._sensitivity.get(number, unmoved)))

    @cached_property
    def _reference(self) -> list[Any]:
        """The leaves in float64, where the program does not say another type; none if it does not run in that type."""
        try:
            with torch.no_grad():
                return pytree.tree_leaves(self._sample.doubled())
        except Exception:
            return []

    @cached_property
    def _captured(self) -> CapturedProgram:
        captured = export(
            lambda *tensors: self._sample.program(*tensors), _clones(self._sample.tensors), is_called=True
        )
        lower(captured.module, new_context(), Level.TENSOR)
        return captured

    @cached_property
    def _rounded(self) -> Roundings:
        return roundings(self._captured.module)

    @cached_property
    def _sensitivity(self) -> dict[int, torch.Tensor]:
        """How far errors move each leaf that is computed; what is written comes out before the results."""
        written = [len(self._eager) - len(self._sample.tensors) + number for number in self._captured.writes]
        results = [number for number, leaf in enumerate(self._eager) if isinstance(leaf, torch.Tensor)]
        return dict(zip([*written, *results], self._captured.sensitivity(self._rounded), strict=False))
