"""Labels of operations: equal for those of equal layers, whatever their names."""

from __future__ import annotations

from collections import Counter

from xdsl.dialects.func import FuncOp

from deplodock.dialects.float_literals import FloatLiteralsParser
from deplodock.passes.driver import new_context
from deplodock.passes.tensor.decisions import labels
from deplodock.passes.tensor.form_kernels import alternatives

LAYER = """
  %e{n} = tensor_ext.elementwise {{math.exp}} %p{before} : tensor<64x96xf32>
  %s{n} = tensor_ext.reduce {{arith.addf}} %e{n} dims [1] : tensor<64x96xf32> -> tensor<64xf32>
  %r{n} = tensor_ext.elementwise {{math.rsqrt}} %s{n} : tensor<64xf32>
  %b{n} = tensor_ext.index_map %r{n} affine_map<(d0, d1) -> (d0)> : tensor<64xf32> -> tensor<64x96xf32>
  %p{n} = tensor_ext.elementwise {{arith.mulf}} %e{n}, %b{n} : tensor<64x96xf32>
"""


def layers(count: int) -> FuncOp:
    body = "".join(LAYER.format(n=n, before=n - 1) for n in range(1, count + 1))
    head = "func.func @main(%p0: tensor<64x96xf32>) -> tensor<64x96xf32>"
    text = f"{head} {{{body}  func.return %p{count} : tensor<64x96xf32>\n}}"
    (function,) = FloatLiteralsParser(new_context(), text).parse_module().ops
    assert isinstance(function, FuncOp)
    return function


def test_operations_of_equal_layers_have_equal_labels() -> None:
    few, many = (Counter(labels(layers(count).body.block).values()) for count in (6, 20))
    assert few.keys() == many.keys()
    assert sum(few.values()) == 30
    assert sum(count > 10 for count in many.values()) == 5


def test_more_layers_are_not_more_to_decide() -> None:
    few, many = (alternatives(layers(count))[1] for count in (6, 20))
    assert abs(len(many) - len(few)) <= 2
    assert len(many) < 15
    assert sum(many.values()) > 2 * sum(few.values())
