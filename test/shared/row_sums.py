"""A small kernel that sums rows, as a module."""

from xdsl.dialects.builtin import ModuleOp

from deplodock.dialects.float_literals import FloatLiteralsParser
from deplodock.passes.driver import new_context, set_target

ROWS = """
func.func @k_sum(%x: memref<64x512xf32>, %out: memref<64xf32>) {
  loop.for %i = 0 to 64 {
    %sum = loop.reduce {arith.addf} %j = 0 to 512 : f32 {
      %e = loop.load %x[%i, %j] : memref<64x512xf32>
      loop.yield %e : f32
    }
    loop.store %sum, %out[%i] : memref<64xf32>
  }
  func.return
}
"""


def module(text: str, target: str = "h200") -> ModuleOp:
    found = FloatLiteralsParser(new_context(), text).parse_module()
    set_target(found, target)
    return found
