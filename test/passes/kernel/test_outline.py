"""Outlining takes time in proportion to the launches: the module is walked once, not for each of them."""

from __future__ import annotations

import sys
from typing import Any

from xdsl.parser import Parser

from deplodock.passes.driver import new_context
from deplodock.passes.kernel.outline import OutlinePass

KERNEL = """
func.func @k{0}(%x: memref<8xf32>) {{
  tile.launch (%thread = 8 : thread) attributes {{expanded}} {{
    %one = arith.constant 1.0 : f32
    loop.store %one, %x[%thread] : memref<8xf32>
  }}
  tile.launch (%thread = 8 : thread) attributes {{expanded}} {{
    %one = arith.constant 1.0 : f32
    loop.store %one, %x[%thread] : memref<8xf32>
  }}
  func.return
}}
"""


def calls(count: int) -> int:
    """How many functions are called to outline so many kernels, which one function calls."""
    body = "".join(f"  func.call @k{number}(%x) : (memref<8xf32>) -> ()\n" for number in range(count))
    main = f"func.func @main(%x: memref<8xf32>) {{\n{body}  func.return\n}}\n"
    context = new_context()
    module = Parser(context, main + "".join(map(KERNEL.format, range(count)))).parse_module()
    found = 0

    def note(frame: Any, event: str, argument: Any) -> None:
        nonlocal found
        found += event == "call"

    sys.setprofile(note)
    try:
        OutlinePass().apply(context, module)
    finally:
        sys.setprofile(None)
    return found


def test_twice_the_kernels_take_twice_the_time() -> None:
    few, many = calls(10), calls(20)
    assert many < 2.1 * few
