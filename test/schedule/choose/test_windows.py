"""The schedules of contractions of windows: when they are flattened, and the elements of k in a slab."""

from __future__ import annotations

import pytest
from xdsl.dialects.builtin import ModuleOp
from xdsl.parser import Parser

from deplodock.analysis.shape.nest import kernels, side_by_side
from deplodock.analysis.shape.roles import Contraction, contraction
from deplodock.dialects import kernel
from deplodock.frontend.expression import read_expression
from deplodock.passes.driver import Level, lower, new_context
from deplodock.schedule.choose.tiling import chunk_of, elements_of_k, needs_flattening

ALIVE: list[ModuleOp] = []
"""Modules whose values are in use."""


def convolution(channels: int, inside: int, window: tuple[int, int], image: tuple[int, int]) -> Contraction:
    """A convolution of `inside` channels to `channels`, whose output has the size of `image`."""
    (h, w), (rows, columns) = window, image
    x, y = f"memref<2x{inside}x{rows + h - 1}x{columns + w - 1}xf32>", f"memref<{channels}x{inside}x{h}x{w}xf32>"
    text = f"""
    func.func @k(%x: {x}, %y: {y}, %out: memref<2x{channels}x{rows}x{columns}xf32>) {{
      loop.for %b = 0 to 2 {{ loop.for %c = 0 to {channels} {{
        loop.for %r = 0 to {rows} {{ loop.for %s = 0 to {columns} {{
          %sum = loop.reduce {{arith.addf}} %i = 0 to {inside} : f32 {{
            %0 = loop.reduce {{arith.addf}} %h = 0 to {h} : f32 {{
              %1 = loop.reduce {{arith.addf}} %w = 0 to {w} : f32 {{
                %a = loop.load %x[%b, %i, %r + %h, %s + %w] : {x}
                %v = loop.load %y[%c, %i, %h, %w] : {y}
                %p = arith.mulf %a, %v : f32
                loop.yield %p : f32
              }}
              loop.yield %1 : f32
            }}
            loop.yield %0 : f32
          }}
          loop.store %sum, %out[%b, %c, %r, %s] : memref<2x{channels}x{rows}x{columns}xf32>
        }} }}
      }} }}
      func.return
    }}"""
    module = Parser(new_context(), text).parse_module()
    ALIVE.append(module)
    (function,) = kernels(module)
    (nest,) = side_by_side(function)
    found = contraction(nest)
    assert found is not None
    return found


@pytest.mark.parametrize(
    ("window", "inside", "chunk"),
    [
        ((3, 3), 64, 36),
        ((5, 5), 96, 25),
        ((3, 7), 64, 42),
        ((7, 7), 3, 49),
        ((1, 3), 64, 24),
        ((11, 11), 3, 33),
        ((1, 50), 2, 32),
    ],
)
def test_chunks_are_whole_windows_or_rows_of_them(window: tuple[int, int], inside: int, chunk: int) -> None:
    found = convolution(64, inside, window, (16, 16))
    assert needs_flattening(found)
    assert elements_of_k(found) == inside * window[0] * window[1]
    assert chunk_of(found) == chunk


def test_few_rows_are_read_in_windows() -> None:
    """Slabs that hold an element once for each window do not pay where few channels read it."""
    found = convolution(16, 64, (3, 3), (16, 16))
    assert not needs_flattening(found)
    assert elements_of_k(found) is None


def test_windows_that_are_read_twice_have_few_threads() -> None:
    """A slab of the windows of one output, in registers, would leave 2048 outputs to as many threads."""
    text = """
    func.func @k(%x: memref<1024x8192xf32>, %out: memref<1024x512xf32>) {
      loop.for %i = 0 to 1024 { loop.for %j = 0 to 512 {
        %sum = loop.reduce {arith.addf} %k = 0 to 16 : f32 {
          %a = loop.load %x[%i, %j * 16 + %k] : memref<1024x8192xf32>
          loop.yield %a : f32
        }
        %squares = loop.reduce {arith.addf} %l = 0 to 16 : f32 {
          %b = loop.load %x[%i, %j * 16 + %l] : memref<1024x8192xf32>
          %c = arith.subf %b, %sum : f32
          %d = arith.mulf %c, %c : f32
          loop.yield %d : f32
        }
        loop.store %squares, %out[%i, %j] : memref<1024x512xf32>
      } }
      func.return
    }"""
    context = new_context()
    module = Parser(context, text).parse_module()
    lower(module, context, Level.KERNEL, target="h100")
    (function,) = (op for op in module.walk() if isinstance(op, kernel.FuncOp))
    assert function.num_threads == 256


@pytest.mark.parametrize("window", [5, 7])
@pytest.mark.parametrize("target", ["a100", "h200"])
def test_windows_of_odd_size_in_half_precision_have_chunks(window: int, target: str) -> None:
    """Elements of two bytes are read in groups along k where those divide a chunk, and one by one where not."""
    factors = f"torch.randn(16, 48, 31, 31, dtype=t), torch.randn(96, 48, {window}, {window}, dtype=t)"
    module = read_expression(f"t = torch.half; F.conv2d({factors})").module
    lower(module, new_context(), Level.TILE, target=target)
    assert f"chunk-matmul-k{{bk={window * window} kv=1}}" in str(module)
    lower(module, new_context(), Level.KERNEL)
