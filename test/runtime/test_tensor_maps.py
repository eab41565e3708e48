"""Tensor maps in a program: what the driver is asked for, where they lie among parameters, whose memory they keep."""

from __future__ import annotations

import ctypes
from typing import Any

import numpy as np
import pytest
from xdsl.dialects import func, memref
from xdsl.dialects.builtin import ModuleOp
from xdsl.parser import Parser

from deplodock.analysis.host.arguments import Role, argument_roles
from deplodock.errors import Error
from deplodock.passes.driver import new_context
from deplodock.runtime import scratch
from deplodock.runtime.plan import TensorMapPlan, program_plan
from deplodock.runtime.tensor_maps import TensorMap, type_name

MAP = "!kernel.tensor_map<memref<64x32xf32>, box [16, 32], swizzle 128>"
TEXT = f"""
kernel.func @fill(%x: memref<64x32xf32>, %out: memref<64x32xf32>) blocks(%b = 1) threads(%t = 32) {{
  %v = loop.load %x[0, %t] : memref<64x32xf32>
  loop.store %v, %out[0, %t] : memref<64x32xf32>
}}
kernel.func @use(%x: memref<64x32xf32>, %m: {MAP}, %out: memref<64x32xf32>) blocks(%b = 1) threads(%t = 32) {{
  %v = loop.load %x[0, %t] : memref<64x32xf32>
  loop.store %v, %out[0, %t] : memref<64x32xf32>
}}
func.func @main(%x: memref<64x32xf32>) -> memref<64x32xf32> {{
  %a = memref.alloc() : memref<64x32xf32>
  %b = memref.alloc() : memref<64x32xf32>
  %out = memref.alloc() : memref<64x32xf32>
  kernel.launch @fill(%x, %a) : memref<64x32xf32>, memref<64x32xf32>
  %map = kernel.tensor_map %a : {MAP}
  kernel.launch @fill(%x, %b) : memref<64x32xf32>, memref<64x32xf32>
  kernel.launch @use(%b, %map, %out) : memref<64x32xf32>, {MAP}, memref<64x32xf32>
  func.return %out : memref<64x32xf32>
}}"""


def parse(text: str) -> ModuleOp:
    context = new_context()
    return Parser(context, text).parse_module()


def test_a_map_is_planned() -> None:
    launch = program_plan(parse(TEXT)).launches[-1]
    map = TensorMapPlan(1, (64, 32), np.dtype(np.float32), (16, 32), 128)
    assert launch.arguments == (2, map, 3)


def test_memory_is_kept_as_long_as_a_map_of_it_is_used() -> None:
    (main,) = (op for op in parse(TEXT).ops if isinstance(op, func.FuncOp))
    a, b, _ = (op.memref for op in main.body.walk() if isinstance(op, memref.AllocOp))
    offsets = scratch.plan(main).offsets
    assert abs(offsets[a] - offsets[b]) >= 64 * 32 * 4
    assert argument_roles(main) == [Role.IN]


def test_the_driver_is_asked_with_the_last_dimension_first() -> None:
    asked: list[Any] = []

    def encoder(*arguments: Any) -> int:
        asked.extend(arguments)
        ctypes.memset(arguments[0], 7, 128)
        return 0

    map = TensorMapPlan(0, (6, 64, 32), np.dtype(np.float64), (1, 16, 8), 64)
    made = TensorMap(map, encoder)
    made.place(0x7000)
    assert made.bytes == bytes([7] * 128)
    memory, dtype, rank, address, shape, strides, box, steps, *modes = asked
    assert (memory.value, memory.value % 64, address.value) == (made.pointer, 0, 0x7000)
    assert (dtype, rank, list(shape), list(strides)) == (8, 3, [32, 64, 6], [256, 16384])
    assert (list(box), list(steps), modes) == ([8, 16, 1], [1, 1, 1], [0, 2, 2, 0])


def test_a_map_may_round_to_tf32() -> None:
    """The driver is told a type of its own, of the same bytes; so is the launcher in C."""
    asked: list[Any] = []
    map = TensorMapPlan(0, (64, 32), np.dtype(np.float32), (16, 8), is_tf32=True)
    TensorMap(map, lambda *arguments: asked.extend(arguments) or 0).place(16)
    assert (asked[1], list(asked[5])) == (11, [128])
    assert type_name(map) == "CU_TENSOR_MAP_DATA_TYPE_TFLOAT32"


def test_a_map_that_the_driver_refuses_is_an_error() -> None:
    map = TensorMapPlan(0, (64,), np.dtype(np.float32), (16,))
    with pytest.raises(Error, match=r"cuTensorMapEncodeTiled refuses .* with error 1"):
        TensorMap(map, lambda *_: 1).place(16)


def test_a_map_is_made_anew_only_for_a_buffer_elsewhere() -> None:
    asked: list[int] = []
    made = TensorMap(
        TensorMapPlan(0, (64,), np.dtype(np.float32), (16,)), lambda *values: asked.append(values[3].value)
    )
    for address in (16, 16, 32):
        made.place(address)
    assert asked == [16, 32]
