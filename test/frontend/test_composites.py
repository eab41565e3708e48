"""Composite operations are ready for each capture as PyTorch makes them ready, with its work done once."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
import torch
from torch._export.utils import _special_op_to_preserve_cia
from torch._subclasses.fake_impls import op_implementations_dict
from torch.export import exported_program

from deplodock.frontend.capture import export
from deplodock.frontend.composites import composites_ready
from deplodock.frontend.decompositions import decompositions

STOCK = exported_program._override_composite_implicit_decomp
COLLECT = exported_program._collect_all_valid_cia_ops
KEPT = dict.fromkeys(sorted(COLLECT(), key=str), _special_op_to_preserve_cia)
TABLE = {**KEPT, **{op: made for op, made in decompositions().items() if op in KEPT}}


def state() -> list[Any]:
    """What PyTorch runs for each composite operation: its kernels by key, and its rule for fake tensors."""
    kernels = [{str(key): named(kernel) for key, kernel in op.py_kernels.items()} for op in TABLE]
    return [*kernels, [named(op_implementations_dict.get(op)) for op in TABLE]]


def named(function: Any) -> str:
    """A function, however often it was made."""
    return f"{type(function).__name__} {getattr(function, '__module__', '')}.{getattr(function, '__qualname__', '')}"


def test_kernels_are_those_of_pytorch() -> None:
    with STOCK(TABLE):
        pass  # PyTorch forgets the rules for fake tensors that it began with.
    before = state()
    with STOCK(TABLE):
        wanted = state()
    assert wanted != before
    for _ in range(2):
        with composites_ready(), exported_program._override_composite_implicit_decomp(TABLE):
            assert state() == wanted
        assert state() == before
    assert exported_program._override_composite_implicit_decomp is STOCK


def test_kernels_are_put_back_after_an_error() -> None:
    before = state()
    with pytest.raises(KeyError), composites_ready(), exported_program._override_composite_implicit_decomp(TABLE):
        raise KeyError
    assert state() == before


def test_work_is_done_once(monkeypatch: pytest.MonkeyPatch) -> None:
    x = torch.ones(3)
    export(torch.nn.functional.elu, (x,))
    made: list[Any] = []

    def override(table: Any) -> Any:
        made.append(table)
        return STOCK(table)

    monkeypatch.setattr("deplodock.frontend.composites._override_composite_implicit_decomp", override)
    export(torch.nn.functional.elu, (x,))
    assert not made


@pytest.fixture
def twice() -> Iterator[str]:
    """The name of a composite operation that is defined meanwhile."""
    library = torch.library.Library("deplodock_test", "DEF")
    library.define("twice(Tensor x) -> Tensor")
    library.impl("twice", lambda x: x * 2, "CompositeImplicitAutograd")
    yield "deplodock_test::twice"
    library._destroy()


def test_an_operation_of_the_user_is_found(twice: str) -> None:
    with composites_ready():
        found = {op.name() for op in exported_program._collect_all_valid_cia_ops()}
    assert twice in found
    assert found == {op.name() for op in COLLECT()}
