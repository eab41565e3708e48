"""verify-dominance on modules that text cannot spell, and on all that it accepts."""

import pytest
from xdsl.context import Context
from xdsl.dialects.arith import AddfOp
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Block, Operation
from xdsl.parser import Parser
from xdsl.utils.exceptions import PassFailedException

from deplodock.dialects import loop
from deplodock.passes.driver import new_context
from deplodock.passes.verify_dominance import VerifyDominancePass

VALID = """
func.func @f(%x: memref<4xf32>, %out: memref<4xf32>) {
  %zero = arith.constant 0.0 : f32
  loop.for %i = 0 to 4 {
    %sum = loop.reduce {arith.addf} %k = 0 to 4 : f32 {
      %v = loop.load %x[%k] : memref<4xf32>
      %w = arith.addf %v, %zero : f32
      loop.yield %w : f32
    }
    loop.store %sum, %out[%i] : memref<4xf32>
  }
  func.return
}
kernel.func @k(%x: memref<4xf32>) blocks(%b = 1) threads(%t = 4) {
  %v = loop.load %x[%t] : memref<4xf32>
  loop.store %v, %x[%t] : memref<4xf32>
}
"""


@pytest.fixture
def module() -> ModuleOp:
    context = new_context()
    return Parser(context, VALID).parse_module()


def first(module: ModuleOp, kind: type[Operation]) -> Operation:
    return next(op for op in module.walk() if isinstance(op, kind))


def check(module: ModuleOp) -> None:
    VerifyDominancePass().apply(Context(), module)


def test_nested_uses_of_earlier_values_are_fine(module: ModuleOp) -> None:
    check(module)


def test_a_value_of_an_inner_block_does_not_reach_outside(module: ModuleOp) -> None:
    store, add = first(module, loop.StoreOp), first(module, AddfOp)
    store.operands[0] = add.results[0]
    with pytest.raises(
        PassFailedException,
        match=r"loop\.store: %w is not defined before this use; move arith\.addf, which defines it, before it",
    ):
        check(module)


def test_an_argument_of_another_block_is_not_visible(module: ModuleOp) -> None:
    store, reduction = first(module, loop.StoreOp), first(module, loop.ReduceOp)
    store.operands[2] = reduction.regions[0].block.args[0]
    with pytest.raises(
        PassFailedException,
        match=r"%k is an argument of a block that this operation is not in; use it inside that block only",
    ):
        check(module)


def test_a_value_without_a_name_is_named_by_its_position(module: ModuleOp) -> None:
    add = first(module, AddfOp)
    add.operands[1] = Block(arg_types=[add.operands[1].type]).args[0]
    with pytest.raises(PassFailedException, match=r"arith\.addf: operand 1 is an argument"):
        check(module)


def test_kernels_see_only_themselves(module: ModuleOp) -> None:
    kernel_store = [op for op in module.walk() if isinstance(op, loop.StoreOp)][-1]
    kernel_store.operands[0] = first(module, loop.LoadOp).results[0]
    with pytest.raises(PassFailedException, match="is not defined before this use"):
        check(module)
