"""What follows a pass is for the functions that it has changed."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import pytest
from xdsl.context import Context
from xdsl.dialects import arith
from xdsl.dialects.builtin import IntegerAttr, ModuleOp, UnitAttr, f32, i64
from xdsl.dialects.func import FuncOp
from xdsl.ir import Operation
from xdsl.parser import Parser
from xdsl.passes import ModulePass
from xdsl.rewriter import InsertPoint, Rewriter
from xdsl.utils.exceptions import VerifyException

from deplodock.dialects import loop
from deplodock.passes import driver
from deplodock.passes.clean_up import Changes
from deplodock.passes.driver import Level, lower, new_context
from deplodock.passes.pipeline import Stage

CONTEXT = new_context()

TEXT = """
func.func @f(%x: memref<4xf32>) {
  loop.for %i = 0 to 4 {
    %v = loop.load %x[%i] : memref<4xf32>
    loop.store %v, %x[3 - %i] : memref<4xf32>
  }
  func.return
}
func.func @g(%x: memref<4xf32>) {
  func.return
}
"""


@pytest.fixture
def module() -> ModuleOp:
    return Parser(CONTEXT, TEXT).parse_module()


def first(module: ModuleOp, cls: type[Operation]) -> Operation:
    return next(op for op in module.walk() if isinstance(op, cls))


def set_attribute(module: ModuleOp) -> None:
    first(module, loop.ForOp).attributes["note"] = UnitAttr()


def set_property(module: ModuleOp) -> None:
    first(module, loop.ForOp).properties["unroll"] = UnitAttr()


def set_operand(module: ModuleOp) -> None:
    first(module, loop.StoreOp).operands[2] = first(module, FuncOp).regions[0].block.args[0]


def set_type(module: ModuleOp) -> None:
    Rewriter.replace_value_with_new_type(first(module, loop.LoadOp).results[0], i64)


def add_argument(module: ModuleOp) -> None:
    first(module, loop.ForOp).regions[0].block.insert_arg(f32, 1)


def add_operation(module: ModuleOp) -> None:
    Rewriter.insert_op(arith.ConstantOp.from_int_and_width(0, 32), InsertPoint.before(first(module, loop.ForOp)))


def erase_operation(module: ModuleOp) -> None:
    Rewriter.erase_op(first(module, loop.StoreOp))


def move_operation(module: ModuleOp) -> None:
    store = first(module, loop.StoreOp)
    store.detach()
    Rewriter.insert_op(store, InsertPoint.before(first(module, loop.LoadOp)))


def hoist_operation(module: ModuleOp) -> None:
    load = first(module, loop.LoadOp)
    load.detach()
    Rewriter.insert_op(load, InsertPoint.before(first(module, loop.ForOp)))


def nothing(module: ModuleOp) -> None:
    load = first(module, loop.LoadOp)
    load.attributes["note"] = UnitAttr()
    del load.attributes["note"]


def name_module(module: ModuleOp) -> None:
    module.attributes["note"] = UnitAttr()


def change_header(module: ModuleOp) -> None:
    function = first(module, FuncOp)
    function.properties["sym_visibility"] = IntegerAttr(1, i64)


def add_function(module: ModuleOp) -> None:
    module.body.block.add_op(FuncOp("h", ((), ())))


def erase_function(module: ModuleOp) -> None:
    last = module.body.block.last_op
    assert last is not None
    Rewriter.erase_op(last)


EDITS: Mapping[Callable[[ModuleOp], None], tuple[str, ...]] = {
    set_attribute: ("f",),
    set_property: ("f",),
    set_operand: ("f",),
    set_type: ("f",),
    add_argument: ("f",),
    add_operation: ("f",),
    erase_operation: ("f",),
    move_operation: ("f",),
    hoist_operation: ("f",),
    nothing: (),
    name_module: (),
    change_header: ("f", "g"),
    add_function: ("f", "g", "h"),
    erase_function: ("f",),
}


@pytest.mark.parametrize(("edit", "names"), EDITS.items(), ids=[edit.__name__ for edit in EDITS])
def test_changed_functions(module: ModuleOp, edit: Callable[[ModuleOp], None], names: tuple[str, ...]) -> None:
    changes = Changes(module)
    assert taken(changes) == ("f", "g")
    assert taken(changes) == ()
    edit(module)
    assert taken(changes) == names
    assert taken(changes) == ()


def taken(changes: Changes) -> tuple[str, ...]:
    return tuple(op.sym_name.data for op in changes.take() if isinstance(op, FuncOp))


@dataclass(frozen=True)
class IdlePass(ModulePass):
    """Changes nothing."""

    name = "idle"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        pass


@dataclass(frozen=True)
class BreakLoadPass(ModulePass):
    """Gives a load a subscript too many."""

    name = "break-load"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        load = first(op, loop.LoadOp)
        load.operands = [*load.operands, load.operands[-1]]


def test_a_level_is_verified_once_and_wrong_passes_are_named(module: ModuleOp, monkeypatch: pytest.MonkeyPatch) -> None:
    """All is verified once, where the level ends; a mistake that is found names the passes that can have made it."""
    passes = {cls.name: cls for cls in (IdlePass, BreakLoadPass)}
    monkeypatch.setattr(Stage, "load", lambda self: passes[self.name])
    verified: list[str] = []
    verify = loop.StoreOp.verify_

    def note(op: loop.StoreOp) -> None:
        verified.append(op.name)
        verify(op)

    monkeypatch.setattr(loop.StoreOp, "verify_", note)
    monkeypatch.setattr(driver, "STAGES", tuple(Stage("t", number, "idle", "") for number in range(3)))
    lower(module, CONTEXT, Level.TILE)
    assert len(verified) == 1
    monkeypatch.setattr(driver, "STAGES", (Stage("t", 1, "idle", ""), Stage("t", 2, "break-load", "")))
    with pytest.raises(VerifyException) as error:
        lower(module, CONTEXT, Level.TILE)
    assert error.value.__notes__[-1] == "note: in one of the passes idle, break-load"
