"""Swizzled buffers: where elements lie, alike in the bank model, the simulator and the CUDA text."""

from __future__ import annotations

import itertools
import re

import numpy as np
import pytest
from xdsl.dialects.builtin import ModuleOp
from xdsl.parser import Parser
from xdsl.utils.exceptions import VerifyException

from deplodock.analysis.machine.banks import Wavefronts, kernel_wavefronts
from deplodock.codegen.cuda import print_module
from deplodock.dialects import kernel
from deplodock.dialects.tile import SwizzleAttr
from deplodock.interpreters.simulate import simulate
from deplodock.interpreters.simulate.memory import Layout
from deplodock.passes.driver import new_context


def module_of(text: str) -> ModuleOp:
    context = new_context()
    module = Parser(context, text).parse_module()
    module.verify()
    return module


def columns(span: int, layout: str) -> str:
    """A kernel whose lanes write a row, and then read quads of neighbouring rows, of `span` bytes."""
    row = span // 4
    slab = f"memref<32x{row}xf32, {layout}#tile.memory<shared>>"
    quads = "memref<4xf32, #tile.memory<register>>"
    out = f"memref<{row // 4}x32x4xf32>"
    return f"""
    kernel.func @k(%x: memref<32x{row}xf32>, %out: {out}) blocks(%block = 1) threads(%thread = 32) {{
      %s = kernel.alloc : {slab}
      %r = kernel.alloc : {quads}
      loop.for %i = 0 to {row} {{
        %v = loop.load %x[%i * {32 // row} + %thread floordiv {row}, %thread mod {row}] : memref<32x{row}xf32>
        loop.store %v, %s[%i * {32 // row} + %thread floordiv {row}, %thread mod {row}] : {slab}
      }}
      kernel.barrier
      loop.for %k = 0 to {row // 4} unroll {{
        kernel.move 4 %s[%thread, %k * 4] to %r[0] : {slab} to {quads}
        kernel.move 4 %r[0] to %out[%k, %thread, 0] : {quads} to {out}
      }}
    }}"""


@pytest.mark.parametrize("span", [128, 64, 32])
def test_neighbouring_rows_are_read_without_conflicts(span: int) -> None:
    row = span // 4
    x = np.arange(32 * row, dtype=np.float32).reshape(32, row)
    for layout, conflicts in (("", True), (f"#tile.swizzle<{span}>, ", False)):
        module = module_of(columns(span, layout))
        (function,) = (op for op in module.walk() if isinstance(op, kernel.FuncOp))
        modelled = sum(kernel_wavefronts(function).values(), Wavefronts())
        simulation = simulate(module, [x])
        assert not simulation.findings
        assert np.array_equal(simulation.outputs[0], x.reshape(32, -1, 4).transpose(1, 0, 2))
        counters = simulation.counters["k"]
        assert modelled == Wavefronts(counters.shared_wavefronts, counters.shared_ideal_wavefronts)
        assert modelled.has_conflicts is conflicts


@pytest.mark.parametrize("span", [128, 64, 32])
@pytest.mark.parametrize(("element", "bytes"), [("f32", 4), ("f64", 8)])
def test_the_text_computes_the_layout(span: int, element: str, bytes: int) -> None:
    row = span // bytes
    slab = f"memref<3x16x{row}x{element}, #tile.swizzle<{span}>, #tile.memory<shared>>"
    module = module_of(f"""
    kernel.func @k(%out: memref<16x{element}>) blocks(%block = 3) threads(%thread = 16) {{
      %s = kernel.alloc : {slab}
      loop.for %k = 0 to {row} {{
        %v = loop.load %s[%block, %thread, %k] : {slab}
        loop.store %v, %out[%thread] : memref<16x{element}>
      }}
    }}""")
    found = re.search(r"= s\[(.*)\];", print_module(module))
    assert found is not None
    assert "^" in found[1]
    (alloc,) = (op for op in module.walk() if isinstance(op, kernel.AllocOp))
    layout = Layout.of(alloc.result)
    for block, thread, k in itertools.product(range(3), range(16), range(row)):
        position = eval(found[1].replace("/", "//"), {"block": block, "thread": thread, "k": k})
        assert position * bytes == layout.address([np.asarray(n) for n in (block, thread, k)])


def test_units_of_a_row_change_places_by_its_number() -> None:
    swizzle = SwizzleAttr(128)
    for row, unit in itertools.product(range(16), range(8)):
        byte = row * 128 + unit * 16 + 5
        assert byte ^ swizzle.flips(byte // 128) == row * 128 + (unit ^ row % 8) * 16 + 5


def test_a_swizzled_layout_is_no_affine_map() -> None:
    with pytest.raises(VerifyException, match="a swizzled layout is no affine map"):
        SwizzleAttr(128).get_affine_map()
