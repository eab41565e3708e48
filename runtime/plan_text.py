"""The plan of a program as JSON, the one form in which files keep it.

An object has `buffers` (each a `shape`, a `dtype` by numpy's name, an `offset` or null), `inputs`, `outputs`,
`launches` (each a `kernel`, its `arguments`, `blocks`, `threads`, bytes of `shared` memory, and whether it `is_early`),
`scratch` and `counters`, as `ProgramPlan` has them. An argument is the number of a buffer, or an object for a tensor
map.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from functools import cache
from typing import Any

from deplodock.dialects.elements import ELEMENTS
from deplodock.errors import InvalidInputError
from deplodock.interpreters.values import DType, dtype_of
from deplodock.runtime.plan import Argument, BufferPlan, LaunchPlan, ProgramPlan, TensorMapPlan
from deplodock.runtime.records import natural, naturals, read_json, shown

_NAME = re.compile(r"[A-Za-z_]\w*", re.ASCII)
_MOST_THREADS, _MOST_BLOCKS = 1024, 2**31 - 1
"""The most threads of a CTA, and CTAs along the first axis of a grid (CUDA C++ Programming Guide, "Technical
Specifications per Compute Capability")."""


def write_plan(plan: ProgramPlan) -> str:
    """A plan as JSON, a line."""
    return json.dumps(asdict(plan), default=lambda dtype: dtype.name)


def read_plan(text: str) -> ProgramPlan:
    """The plan that `write_plan` wrote. Raises InvalidInputError for any other text."""
    try:
        return _plan(read_json(text))
    except (KeyError, TypeError, ValueError, IndexError) as error:
        reason = f"{type(error).__name__}: {error}" if isinstance(error, KeyError) else str(error)
        raise InvalidInputError(f"this is no plan of a program: {reason}") from None


def _plan(facts: Mapping[str, Any]) -> ProgramPlan:
    buffers = tuple(_buffer(buffer) for buffer in facts["buffers"])
    launches = tuple(_launch(launch, buffers) for launch in facts["launches"])
    inputs, outputs = (_numbers(facts[name], buffers) for name in ("inputs", "outputs"))
    scratch, counters = natural(facts["scratch"]), natural(facts["counters"])
    placed = [buffer for buffer in buffers if buffer.offset is not None]
    if counters > scratch or any((buffer.offset or 0) + buffer.bytes > scratch for buffer in placed):
        raise ValueError(f"scratch memory of {scratch} bytes does not hold its buffers")
    if any((buffer.offset or 0) % buffer.dtype.itemsize for buffer in placed):
        raise ValueError("a buffer starts inside of an element")
    if len({*inputs}) < len(inputs) or any(buffers[number].offset is not None for number in (*inputs, *outputs)):
        raise ValueError("an input must be a buffer of its own, and an output, too")
    return ProgramPlan(buffers, inputs, outputs, launches, scratch, counters)


def _buffer(facts: Mapping[str, Any]) -> BufferPlan:
    offset = facts["offset"]
    buffer = BufferPlan(naturals(facts["shape"]), _dtype(facts["dtype"]), None if offset is None else natural(offset))
    natural(buffer.bytes)
    return buffer


def _launch(facts: Mapping[str, Any], buffers: Sequence[BufferPlan]) -> LaunchPlan:
    arguments = tuple(_argument(argument, buffers) for argument in facts["arguments"])
    kernel = facts["kernel"]
    if not isinstance(kernel, str) or not _NAME.fullmatch(kernel):
        raise ValueError(f"the name of a kernel must be an identifier, got {shown(kernel)}")
    blocks, threads, shared = (natural(facts[name]) for name in ("blocks", "threads", "shared"))
    if not 0 < threads <= _MOST_THREADS or not 0 < blocks <= _MOST_BLOCKS:
        raise ValueError(f"no GPU starts {blocks} CTAs of {threads} threads")
    return LaunchPlan(kernel, arguments, blocks, threads, shared, _flag(facts, "is_early"))


def _argument(value: Any, buffers: Sequence[BufferPlan]) -> Argument:
    if not isinstance(value, dict):
        return _numbers([value], buffers)[0]
    (buffer,) = _numbers([value["buffer"]], buffers)
    shape, box = naturals(value["shape"]), naturals(value["box"])
    map = TensorMapPlan(buffer, shape, _dtype(value["dtype"]), box, natural(value["swizzle"]), _flag(value, "is_tf32"))
    if BufferPlan(map.shape, map.dtype).bytes > buffers[buffer].bytes:
        raise ValueError(f"a tensor map is larger than its buffer {buffer}")
    return map


def _flag(facts: Mapping[str, Any], name: str) -> bool:
    if not isinstance(value := facts[name], bool):
        raise ValueError(f"{name} is true or false, got {shown(value)}")
    return value


def _numbers(values: Any, buffers: Sequence[BufferPlan]) -> tuple[int, ...]:
    numbers = naturals(values)
    if (beyond := next((number for number in numbers if number >= len(buffers)), None)) is not None:
        raise ValueError(f"there is no buffer {beyond}")
    return numbers


def _dtype(name: Any) -> DType:
    if not isinstance(name, str) or name not in _dtypes():
        raise ValueError(f"there is no element type {shown(name)}")
    return _dtypes()[name]


@cache
def _dtypes() -> dict[str, DType]:
    """The dtypes of all element types by name."""
    return {dtype_of(type).name: dtype_of(type) for type in ELEMENTS}
