"""The shared memory of a kernel."""

import pytest
from xdsl.context import Context
from xdsl.dialects.builtin import Builtin
from xdsl.parser import Parser

from deplodock.analysis.resources import shared_bytes, shared_memory
from deplodock.dialects.kernel import FuncOp, Kernel
from deplodock.dialects.loop import Loop
from deplodock.dialects.tile import Tile


def kernel(*types: str) -> FuncOp:
    ctx = Context()
    for dialect in (Builtin, Loop, Tile, Kernel):
        ctx.load_dialect(dialect)
    allocs = "\n".join(f"%b{n} = kernel.alloc : memref<{type}>" for n, type in enumerate(types))
    text = f"kernel.func @k() blocks(%b = 1) threads(%t = 32) {{ loop.for %i = 0 to 2 {{ {allocs} }} }}"
    (function,) = Parser(ctx, text).parse_module().ops
    assert isinstance(function, FuncOp)
    return function


@pytest.mark.parametrize(
    ("type", "size"),
    [
        ("8xf32", 32),
        ("3xi1", 16),
        ("5xf64", 48),
        ("f32", 16),
        ("0x4xf32", 0),
        ("2x3xf32, strided<[8, 1], offset: 2>", 64),
    ],
)
def test_buffers_are_padded_to_the_widest_access(type: str, size: int):
    assert shared_bytes(kernel(f"{type}, #tile.memory<shared>")) == size


def test_registers_take_no_shared_memory():
    assert shared_bytes(kernel("64xf32, #tile.memory<register>")) == 0


def test_at_most_48_kb_are_static():
    shared = shared_memory(kernel("12288xf32, #tile.memory<shared>"))
    assert (shared.static_bytes, shared.dynamic_bytes) == (49152, 0)


def test_more_is_one_dynamic_pool():
    shared = shared_memory(kernel("12288xf32, #tile.memory<shared>", "1xi1, #tile.memory<shared>"))
    assert (shared.static_bytes, shared.dynamic_bytes) == (0, 49168)
    assert [first for _, first in shared.offsets] == [0, 49152]
