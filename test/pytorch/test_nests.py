"""Forms of nests as JSON: they are read as they were, and what JSON or another process cannot hold is refused."""

from __future__ import annotations

import json
import sys
from collections import OrderedDict, defaultdict, deque
from types import ModuleType
from typing import Any, NamedTuple

import pytest
import torch
from torch.utils import _pytree as pytree

from deplodock.errors import InvalidInputError, UnsupportedError
from deplodock.frontend.caches import register_caches
from deplodock.pytorch.nests import read_form, write_form

transformers = pytest.importorskip("transformers")
MAX = torch.return_types.max


def local() -> Any:
    class Local(NamedTuple):
        x: int

    return Local(1)


def cache() -> Any:
    from transformers.cache_utils import DynamicCache

    register_caches()
    made = DynamicCache()
    made.update(torch.ones(1, 1, 2, 3), torch.ones(1, 1, 2, 3), 0)
    return made


def output() -> Any:
    from transformers.modeling_outputs import CausalLMOutputWithPast

    return CausalLMOutputWithPast(logits=torch.ones(2), past_key_values=cache())


@pytest.mark.parametrize(
    "nest",
    [
        *(1, (), (1, [2, 3]), {"a": 1, "b": (2, {})}, {3: 1, None: 2, 0.5: 3}, OrderedDict(x=1, y=2), slice(1, 2)),
        *(deque([1], maxlen=4), MAX((torch.ones(2), torch.ones(2)))),
        *(pytest.param(cache, id="a cache"), pytest.param(output, id="an output")),
    ],
)
def test_a_form_is_read_as_it_was(nest: Any) -> None:
    form = pytree.tree_structure(nest() if callable(nest) else nest)
    assert read_form(json.loads(json.dumps(write_form(form)))) == form


def test_a_cache_is_made_again() -> None:
    nest = cache()
    tensors, form = pytree.tree_flatten(nest)
    made = pytree.tree_unflatten(tensors, read_form(json.loads(json.dumps(write_form(form)))))
    assert torch.equal(made.layers[0].keys, nest.layers[0].keys)
    assert made.get_seq_length() == 2


@pytest.mark.parametrize(
    ("nest", "message"),
    [
        (local(), r"class .*test_nests.local.<locals>.Local cannot be saved: it stands in no module"),
        (defaultdict(list, {"a": 1}), r"class collections.defaultdict cannot be saved: it holds <class 'list'>"),
        ({(1, 2): 3}, r"the key \(1, 2\) cannot be saved: keys must be text or numbers"),
    ],
)
def test_what_cannot_be_saved(nest: Any, message: str) -> None:
    with pytest.raises(UnsupportedError, match=message):
        write_form(pytree.tree_structure(nest))


@pytest.mark.parametrize(
    "value",
    [["namedtuple", "acme.models.Output", [None]], ["acme.models.Output", None, [None]], ["os.system", "ls", []]],
)
def test_nothing_is_imported(value: Any) -> None:
    with pytest.raises(InvalidInputError, match=r"takes or gives a (acme|os).*, which is not there: import "):
        read_form(value)


def test_a_class_of_another_package_is_not_taken() -> None:
    with pytest.raises(InvalidInputError, match=r"a torch.nn.Module, which is not there"):
        read_form(["collections.deque", {"class": "torch.nn.Module"}, []])


@pytest.mark.parametrize(
    ("value", "message"),
    [
        (["dict", ["a"], []], "1 keys for 0 children"),
        ([3, []], "3 is no kind of a nest"),
        (["collections.deque", {"code": "1"}, []], '"code" is no kind of a value'),
        (["collections.deque", {"dtype": "nn"}, []], 'there is no dtype "nn"'),
    ],
)
def test_other_values_are_refused(value: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        read_form(value)


def test_reading_asks_no_module_to_import(monkeypatch: pytest.MonkeyPatch) -> None:
    """A module that makes what it is asked for, as lazy ones do, is not asked."""
    lazy = ModuleType("lazy")
    lazy.__getattr__ = fail  # pyright: ignore[reportAttributeAccessIssue]
    monkeypatch.setitem(sys.modules, "lazy", lazy)
    with pytest.raises(InvalidInputError, match=r"takes or gives a lazy\.Nest, which is not there: import lazy first"):
        read_form(["lazy.Nest", None, []])


def fail(name: str) -> None:
    raise AssertionError(name)


@pytest.mark.parametrize("keys", [[["x"]], [{}], ["x", "x"], [1, True]])
def test_keys_that_no_dict_has_are_refused(keys: list[Any]) -> None:
    with pytest.raises(ValueError, match="the keys of a nest must be text or numbers, each once"):
        read_form(["dict", keys, [None] * len(keys)])
