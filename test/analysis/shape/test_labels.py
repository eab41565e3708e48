"""What launches of a kernel are called."""

from xdsl.dialects import func
from xdsl.parser import Parser

from deplodock.analysis.shape.nest import labels
from deplodock.passes.driver import new_context

TEXT = """
func.func @k(%x: memref<4x8xf32>, %out: memref<4xf32>, %out_1: memref<4xf32>) {
  tile.launch (%i = 4 : thread) {
    %acc = loop.reduce {arith.addf} %k = 0 to 8 : f32 {
      %a = loop.load %x[%i, %k] : memref<4x8xf32>
      loop.yield %a : f32
    }
    loop.store %acc, %out[%i] : memref<4xf32>
  }
  tile.launch (%i = 4 : thread) {
    %0 = loop.reduce {arith.addf} %k = 0 to 8 : f32 {
      %a = loop.load %x[%i, %k] : memref<4x8xf32>
      loop.yield %a : f32
    }
    %acc = loop.reduce {arith.maximumf} %k = 0 to 8 : f32 {
      %a = loop.load %x[%i, %k] : memref<4x8xf32>
      loop.yield %a : f32
    }
    %s = arith.addf %0, %acc : f32
    loop.store %s, %out_1[%i] : memref<4xf32>
  }
  func.return
}
"""


def test_labels_are_the_names_that_print() -> None:
    module = Parser(new_context(), TEXT).parse_module()
    (function,) = (op for op in module.ops if isinstance(op, func.FuncOp))
    assert list(labels(function).values()) == [{"acc", "out"}, {"acc_1", "out_1"}]
    printed = str(function)
    assert "%acc_1 = loop.reduce {arith.maximumf}" in printed
    assert "loop.store %s, %out_1[" in printed
