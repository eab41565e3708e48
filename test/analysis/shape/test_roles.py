"""Nests, what values vary along, and contractions by their subscripts."""

import pytest
from xdsl.dialects import func
from xdsl.dialects.builtin import ModuleOp
from xdsl.parser import Parser

from deplodock.analysis.shape.dependence import Dependence
from deplodock.analysis.shape.nest import launches, nests, side_by_side
from deplodock.analysis.shape.roles import contraction, contraction_of
from deplodock.dialects import loop, tile
from deplodock.passes.driver import new_context
from deplodock.passes.tile.chunk_matmul_k import ChunkMatmulKPass
from deplodock.passes.tile.tileify import TileifyPass


def parse(text: str) -> ModuleOp:
    context = new_context()
    module = Parser(context, text).parse_module()
    module.verify()
    return module


def product(left: str, right: str, combine: str = "arith.mulf %a, %b", reduce: str = "arith.addf") -> str:
    """A reduction over k of x[left] and y[right], at points (b, m, n)."""
    x, y = ("memref<" + "8x" * (s.count(",") + 1) + "f32>" for s in (left, right))
    return f"""
    func.func @k(%x: {x}, %y: {y}, %out: memref<8x8x8xf32>) {{
      loop.for %b = 0 to 8 {{
        loop.for %m = 0 to 8 {{
          loop.for %n = 0 to 8 {{
            %s = loop.reduce {{{reduce}}} %k = 0 to 8 : f32 {{
              %a = loop.load %x[{left}] : {x}
              %b0 = loop.load %y[{right}] : {y}
              %p = {combine.replace("%b", "%b0")} : f32
              loop.yield %p : f32
            }}
            loop.store %s, %out[%b, %m, %n] : memref<8x8x8xf32>
          }}
        }}
      }}
      func.return
    }}"""


def roles(text: str) -> tuple[str, str, str] | None:
    """The names of the m, n and batch axes of the kernel's contraction."""
    (function,) = (op for op in parse(text).walk() if isinstance(op, func.FuncOp))
    found = contraction(next(nests(function)))
    if found is None:
        return None
    m, n, batch = ("".join(axis.name_hint or "" for axis in axes) for axes in (found.m, found.n, found.batch))
    return m, n, batch


@pytest.mark.parametrize(
    ("left", "right", "wanted"),
    [
        ("%b, %m, %k", "%b, %k, %n", ("m", "n", "b")),
        ("%m, %k", "%k, %n", ("m", "n", "")),
        ("%k, %m", "%n, %k", ("m", "n", "")),
        ("%k, %n", "%m, %k", ("m", "n", "")),
        ("%b, %m, %k", "%k, %n", ("bm", "n", "")),
        ("%m, %k", "%b, %k, %n", ("m", "bn", "")),
        ("%m + %k", "%k, %n", ("m", "n", "")),
        ("%b, %m, %k", "%b, %k", None),
        ("%m, %k", "%m, %k", None),
        ("%k", "%k", None),
    ],
)
def test_contraction(left, right, wanted) -> None:
    """The axes that one factor alone varies along are m and n, n walking the output's last dimension."""
    assert roles(product(left, right)) == wanted


@pytest.mark.parametrize(
    ("combine", "reduce"),
    [
        ("arith.subf %a, %b", "arith.addf"),
        ("arith.mulf %a, %a", "arith.addf"),
        ("arith.mulf %a, %b", "arith.maximumf"),
        ("arith.divf %a, %b", "arith.addf"),
    ],
)
def test_no_contraction(combine, reduce) -> None:
    """Two buffers that are read do not make a contraction: it sums products of two factors."""
    assert roles(product("%m, %k", "%k, %n", combine, reduce)) is None


def test_a_contraction_in_chunks() -> None:
    """It is that of the launch, its innermost loop yields the products, and its factors are theirs."""
    module = parse(product("%m, %k", "%k, %n"))
    TileifyPass().rewritten(module)
    (launch,) = launches(next(op for op in module.walk() if isinstance(op, func.FuncOp)))
    whole = contraction_of(launch)
    assert whole is not None
    assert whole.innermost is whole.reduction
    ChunkMatmulKPass(bk=4).rewritten(module)
    chunked = contraction_of(launch)
    assert chunked is not None
    assert chunked.innermost.parent_op() is chunked.reduction
    assert [factor.name_hint for pair in chunked.factors for factor in pair] == ["a", "b0"]
    assert (chunked.m, chunked.n) == (whole.m, whole.n)


DEPENDENCE = """
func.func @k(%idx: memref<8x8xi32>, %x: memref<8x8xf32>, %out: memref<8xf32>) {
  tile.launch (%b = 8 : block, %t = 8 : thread, %v = 4 : register) {
    %where = loop.index [%t + %v]
    loop.where %where < 8
    %d = loop.load %idx[%b, %t] : memref<8x8xi32>
    %at = arith.index_cast %d : i32 to index
    %gathered = loop.load %x[%at, 0] : memref<8x8xf32>
    %row = loop.load %x[%b, %t] : memref<8x8xf32>
    %folded = tile.combine {arith.addf} %row over (%t) : f32
    %both = tile.combine {arith.addf} %row over (%t, %v) : f32
    %sum = loop.reduce {arith.addf} %k = 0 to %v + 1 : f32 {
      %a = loop.load %x[%b, %k] : memref<8x8xf32>
      loop.yield %a : f32
    }
    %slab = tile.stage %x[%b, d0] : memref<8x8xf32> to memref<8xf32, #tile.memory<shared>>
    %staged = loop.load %slab[%v] : memref<8xf32, #tile.memory<shared>>
    loop.store %both, %out[%b] : memref<8xf32>
  }
  func.return
}
"""


def test_dependence() -> None:
    """Gathers vary along their index, folds along what decides who takes part, slabs along their origin."""
    module = parse(DEPENDENCE)
    dependence = Dependence()
    found = {}
    for op in module.walk():
        if isinstance(op, loop.LoadOp | loop.ReduceOp | tile.CombineOp):
            name = op.results[0].name_hint
            found[name] = "".join(sorted(axis.name_hint or "" for axis in dependence.of(op.results[0])))
    assert found == {
        "d": "bt",
        "gathered": "bt",
        "row": "bt",
        "folded": "bv",
        "both": "b",
        "a": "bk",
        "sum": "bv",
        "staged": "bv",
    }


def test_contract_has_the_roles_of_its_result() -> None:
    """The right factor's columns are those of its places; axes that are folded have no role."""
    module = parse(
        """
        func.func @k(%x: memref<4x16x64xbf16>, %w: memref<4x8x64xbf16>, %out: memref<4x16x8xf32>) {
          tile.launch (%b = 4 : block, %g = 8 : thread, %t = 4 : thread, %h = 2 : register, %r = 2 : register,
                       %v = 8 : register, %k_t = 4 : lane %t, %n_g = 8 : lane %g) {
            %acc = loop.reduce {arith.addf} %s = 0 to 2 : f32 {
              %k = loop.index [%k_t * 16 + %s * 8 + %v]
              %x0 = loop.load %x[%b, %h * 8 + %g, %k] : memref<4x16x64xbf16>
              %w0 = loop.load %w[%b, %n_g, %k] : memref<4x8x64xbf16>
              %c = tile.contract mma %x0 * %w0 over (%k_t, %v) at (%n_g = %t * 2 + %r) : bf16, bf16 -> f32
              loop.yield %c : f32
            }
            loop.store %acc, %out[%b, %h * 8 + %g, %t * 2 + %r] : memref<4x16x8xf32>
          }
          func.return
        }
        """
    )
    (launch,) = (op for op in module.walk() if isinstance(op, tile.LaunchOp))
    found = contraction_of(launch)
    assert found is not None
    b, g, t, h, r, *_ = launch.axes
    assert (found.m, found.n, found.batch) == ((g, h), (t, r), (b,))
    assert [value.name_hint for pair in found.factors for value in pair] == ["x0", "w0"]


SEVERAL = """
func.func @k(%x: memref<8x16xf32>, %v: memref<4x16xf32>, %w: memref<{w}xf32>, %out: memref<8x4xf32>) {{
  loop.for %m = 0 to 8 {{
    loop.for %n = 0 to 4 {{
      %g, %u = loop.reduce {{arith.addf, {fold}}} %k = 0 to 16 : f32, f32 {{
        %a = loop.load %x[%m, %k] : memref<8x16xf32>
        %b = loop.load %v[%n, %k] : memref<4x16xf32>
        %c = loop.load %w[{at}] : memref<{w}xf32>
        %p = arith.mulf %a, %b : f32
        %q = arith.mulf %c, %a : f32
        loop.yield %p, %q : f32, f32
      }}
      %y = arith.addf %g, %u : f32
      loop.store %y, %out[%m, %n] : memref<8x4xf32>
    }}
  }}
  func.return
}}
"""


def test_a_contraction_of_several_products() -> None:
    """Products of one loop whose factors vary along the same axes have the same roles."""
    text = SEVERAL.format(w="4x16", at="%n, %k", fold="arith.addf")
    assert roles(text) == ("m", "n", "")
    (function,) = (op for op in parse(text).walk() if isinstance(op, func.FuncOp))
    (nest,) = side_by_side(function)
    found = contraction(nest)
    assert found is not None
    assert [[value.name_hint for value in pair] for pair in found.factors] == [["a", "b"], ["c", "a"]]


@pytest.mark.parametrize(("w", "at", "fold"), [("8x16", "%m, %k", "arith.addf"), ("4x16", "%n, %k", "arith.maximumf")])
def test_products_of_other_roles_or_folds_are_no_contraction(w: str, at: str, fold: str) -> None:
    assert roles(SEVERAL.format(w=w, at=at, fold=fold)) is None
