"""What materialize refuses, by name."""

import pytest
from xdsl.parser import Parser
from xdsl.utils.exceptions import DiagnosticException

from deplodock.errors import UnsupportedError
from deplodock.passes.driver import new_context
from deplodock.passes.kernel.materialize import MaterializePass

REFUSED = {
    "loops": (
        "func.func: @loops holds no launch; run tileify first",
        """
func.func @loops(%x: memref<8xf32>) {
  %one = arith.constant 1.0 : f32
  loop.for %i = 0 to 8 {
    loop.store %one, %x[%i] : memref<8xf32>
  }
  func.return
}""",
    ),
    "dynamic": (
        "tile.launch: the extent of axis %i is not constant; only constant extents are lowered",
        """
func.func @dynamic(%x: memref<8xf32>, %n: index) {
  %one = arith.constant 1.0 : f32
  tile.launch (%i = %n : thread) {
    loop.store %one, %x[%i] : memref<8xf32>
  }
  func.return
}""",
    ),
    "guard": (
        "loop.guard: it cannot stand in a launch; loop.where says which points count",
        """
func.func @guard(%x: memref<8xf32>) {
  %one = arith.constant 1.0 : f32
  tile.launch (%i = 8 : thread) {
    loop.guard where (%i < 4) {
      loop.store %one, %x[%i] : memref<8xf32>
    }
  }
  func.return
}""",
    ),
    "beside": (
        "loop.for: it stands beside a launch, where only calls and allocations can",
        """
func.func @beside(%x: memref<8xf32>) {
  %one = arith.constant 1.0 : f32
  tile.launch (%i = 4 : thread) {
    loop.store %one, %x[%i] : memref<8xf32>
  }
  loop.for %i = 0 to 4 {
    loop.store %one, %x[%i + 4] : memref<8xf32>
  }
  func.return
}""",
    ),
    "written_source": (
        "tile.stage: the launch writes %x; slabs are of buffers that it only reads",
        """
func.func @written_source(%x: memref<8xf32>) {
  tile.launch (%i = 8 : thread) {
    %s = tile.stage %x[d0] : memref<8xf32> to memref<8xf32, #tile.memory<shared>>
    %v = loop.load %s[7 - %i] : memref<8xf32, #tile.memory<shared>>
    loop.store %v, %x[%i] : memref<8xf32>
  }
  func.return
}""",
    ),
    "dynamic_shape": (
        "tile.launch: %x has a dynamic shape, memref<?xf32>; write its extents",
        """
func.func @dynamic_shape(%x: memref<?xf32>, %out: memref<8xf32>) {
  tile.launch (%i = 8 : thread) {
    %v = loop.load %x[%i] : memref<?xf32>
    loop.store %v, %out[%i] : memref<8xf32>
  }
  func.return
}""",
    ),
    "prefix": (
        "loop.reduce: the bound of the loop over %k varies along the register axis %v; only loops "
        "that the registers of a thread run together are lowered",
        """
func.func @prefix(%x: memref<8xf32>, %out: memref<8xf32>) {
  tile.launch (%v = 8 : register) {
    %s = loop.reduce {arith.addf} %k = 0 to %v + 1 : f32 {
      %a = loop.load %x[%k] : memref<8xf32>
      loop.yield %a : f32
    }
    loop.store %s, %out[%v] : memref<8xf32>
  }
  func.return
}""",
    ),
    "shared_origin": (
        "tile.stage: the origin of the slab %s varies along %t, but all of the CTA shares it; "
        "make that part a coordinate of the slab",
        """
func.func @k(%x: memref<64xf32>, %out: memref<32xf32>) {
  tile.launch (%t = 32 : thread) {
    %s = tile.stage %x[%t + d0] : memref<64xf32> to memref<4xf32, #tile.memory<shared>>
    %a = loop.load %s[0] : memref<4xf32, #tile.memory<shared>>
    loop.store %a, %out[%t] : memref<32xf32>
  }
  func.return
}""",
    ),
}


def test_a_kernel_is_one_block() -> None:
    text = "func.func @k(%x: memref<f32>, %v: f32) {cf.br ^b ^b: loop.store %v, %x[] : memref<f32> func.return}"
    with pytest.raises(UnsupportedError, match="@k has several blocks; a kernel is one block of loops"):
        MaterializePass().apply(new_context(), Parser(new_context(), text).parse_module())


@pytest.mark.parametrize("name", REFUSED)
def test_refused(name) -> None:
    """One message says what cannot be lowered."""
    message, text = REFUSED[name]
    context = new_context()
    module = Parser(context, text).parse_module()
    module.verify()
    with pytest.raises(DiagnosticException) as error:
        MaterializePass().apply(context, module)
    assert str(error.value) == message
