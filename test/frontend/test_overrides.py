"""PyTorch's overrides of composite operations: written from memory after the first captures, and taken back."""

from __future__ import annotations

from typing import Any

import pytest

torch = pytest.importorskip("torch")

from torch._subclasses.fake_impls import op_implementations_dict as fake_rules  # noqa: E402

from deplodock.errors import UnsupportedError  # noqa: E402
from deplodock.frontend import overrides  # noqa: E402
from deplodock.frontend.capture import export  # noqa: E402

ATEN = torch.ops.aten


def program(x: Any, y: Any) -> Any:
    return torch.hypot(torch.softmax(x, -1), y)


@pytest.fixture
def args() -> tuple[Any, Any]:
    """Arguments of the program, which has been captured until all that it overrides is known."""
    args = torch.ones(2, 3), torch.ones(2, 3)
    for _ in range(2):
        export(program, args)
    return args


def test_later_captures_ask_pytorch_for_nothing(args: tuple[Any, Any], monkeypatch: pytest.MonkeyPatch) -> None:
    text = str(export(program, args).module)
    monkeypatch.delattr(overrides, "_override")
    monkeypatch.delattr(overrides, "_split")
    assert str(export(program, args).module) == text


def test_the_registry_is_as_before(args: tuple[Any, Any]) -> None:
    kernels = {overload: dict(overload.py_kernels) for overload in overrides._written[0].table}
    rules = dict(fake_rules)
    export(program, args)
    assert {overload: overload.py_kernels for overload in kernels} == kernels
    assert fake_rules == rules
    assert torch.equal(torch.compile(torch.softmax, backend="eager")(args[0], -1), torch.softmax(args[0], -1))


def test_what_a_raising_capture_overrides_is_taken_back(args: tuple[Any, Any]) -> None:
    kernels = {overload: dict(overload.py_kernels) for overload in overrides._written[0].table}
    with pytest.raises(ZeroDivisionError), overrides.override_composites(overrides._written[0].table):
        raise ZeroDivisionError
    assert {overload: overload.py_kernels for overload in kernels} == kernels


def test_a_composite_that_is_registered_later_is_kept(args: tuple[Any, Any]) -> None:
    library = torch.library.Library("deplodock_overrides", "DEF")
    library.define("later(Tensor x) -> Tensor")
    library.impl("later", lambda x: torch.hypot(x, x), "CompositeImplicitAutograd")
    later = torch.ops.deplodock_overrides.later
    with pytest.raises(UnsupportedError, match="deplodock_overrides"):
        export(lambda x, y: torch.hypot(later(x), y), args)
