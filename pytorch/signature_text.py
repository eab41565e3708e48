"""Signatures of calls as values of JSON, as files keep them, and which of those another program can have written."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, fields
from itertools import chain
from typing import Any

from torch.utils import _pytree as pytree

from deplodock.pytorch.nests import dtype_named, read_form, write_form
from deplodock.pytorch.signature import CallSignature, TensorFacts, Value
from deplodock.runtime.records import natural, naturals, shown

_MOST_BYTES = 1 << 40
"""What no tensor takes of memory, gaps between its elements included."""

_MOST_DIMENSIONS = 64


def write_signature(signature: CallSignature) -> dict[str, Any]:
    """A signature as values of JSON. Raises UnsupportedError for nests that have no such values."""
    facts = {field.name: getattr(signature, field.name) for field in fields(signature)}
    facts |= {name: [None if one is None else _facts(one) for one in facts[name]] for name in ("inputs", "results")}
    return facts | {name: write_form(facts[name]) for name in ("form", "result_form")}


def read_signature(facts: Mapping[str, Any]) -> CallSignature:
    """The signature that `write_signature` was given.

    Raises:
        InvalidInputError: a class of its nests is not there.
        ValueError, TypeError, KeyError: the values are no signature.
    """
    signature = CallSignature(
        form=read_form(facts["form"]),
        values=tuple(None if value is None else _value(value) for value in facts["values"]),
        inputs=tuple(map(_tensor_facts, facts["inputs"])),
        paths=tuple(None if path is None else _text(path) for path in facts["paths"]),
        ties=tuple((natural(number), _text(path)) for number, path in facts["ties"]),
        whole=naturals(facts["whole"]),
        asks_layout=_flag(facts["asks_layout"]),
        writes=naturals(facts["writes"]),
        results=tuple(None if result is None else _result(result) for result in facts["results"]),
        checks=tuple(map(_text, facts["checks"])),
        result_form=read_form(facts["result_form"]),
    )
    _check(signature)
    return signature


def _check(signature: CallSignature) -> None:
    """Raise ValueError for a signature whose parts do not fit each other."""
    count = len(signature.inputs)
    if any(number >= count for number in chain(signature.whole, signature.writes)):
        raise ValueError("its signature numbers inputs that there are not")
    if any(number >= len(signature.paths) for number, _ in signature.ties):
        raise ValueError("its signature ties state that there is not")
    if len({*signature.writes}) < len(signature.writes):
        raise ValueError("its signature writes an input twice")
    for form, leaves in ((signature.form, signature.values), (signature.result_form, signature.results)):
        if form.num_leaves != len(leaves):
            raise ValueError(f"its signature has a nest of {form.num_leaves} leaves for {len(leaves)} values")
    _nest(signature.result_form)
    match _nest(signature.form):
        case (tuple(), dict()):
            return
        case _:
            raise ValueError("the arguments of its signature are no tuple and dict")


def _nest(form: pytree.TreeSpec) -> Any:
    """A nest of zeros. Raises ValueError for one that cannot be made."""
    try:
        return pytree.tree_unflatten([0] * form.num_leaves, form)
    except Exception as error:
        # The classes of nests, which are those of any package, raise what they like.
        raise ValueError(f"its signature has a nest that cannot be made: {error}") from None


def _facts(tensor: TensorFacts) -> dict[str, Any]:
    return asdict(tensor) | {"dtype": str(tensor.dtype).removeprefix("torch.")}


def _tensor_facts(facts: Mapping[str, Any]) -> TensorFacts:
    shape, strides = naturals(facts["shape"]), naturals(facts["strides"])
    name = _text(facts["name"])
    if not name.isprintable():
        raise ValueError(f"a name must be printable, got {shown(name)}")
    found = TensorFacts(name, shape, dtype_named(facts["dtype"]), strides, natural(facts["offset"]))
    if len(shape) != len(strides) or len(shape) > _MOST_DIMENSIONS:
        raise ValueError(f"{found.name} has {len(shape)} dimensions and {len(strides)} strides")
    last = sum(max(0, extent - 1) * stride for extent, stride in zip(shape, strides, strict=True))
    if (found.offset + last) * found.dtype.itemsize > _MOST_BYTES or found.bytes > _MOST_BYTES:
        raise ValueError(f"{found.name} takes more memory than there is")
    return found


def _result(facts: Mapping[str, Any]) -> TensorFacts:
    found = _tensor_facts(facts)
    if found.offset:
        raise ValueError(f"the result {found.name} starts at {found.offset}, and results start at 0")
    return found


def _value(value: Any) -> Value:
    kind, text = value
    return _text(kind), _text(text)


def _text(value: Any) -> str:
    if not isinstance(value, str):
        raise ValueError(f"a name must be text, got {shown(value)}")
    return value


def _flag(value: Any) -> bool:
    if not isinstance(value, bool):
        raise ValueError(f"asks_layout is true or false, got {shown(value)}")
    return value
