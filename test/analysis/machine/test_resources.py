"""The shared memory and the parameters of a kernel, and the registers that its loops carry."""

import pytest
from xdsl.context import Context
from xdsl.dialects.arith import Arith
from xdsl.dialects.builtin import Builtin
from xdsl.parser import Parser

from deplodock.analysis.machine.resources import parameter, parameter_bytes, shared_bytes, shared_memory
from deplodock.analysis.machine.targets import target
from deplodock.dialects.kernel import FuncOp, Kernel
from deplodock.dialects.loop import Loop
from deplodock.dialects.tile import Tile
from deplodock.passes.kernel.accumulators import most_carried
from deplodock.passes.kernel.verify_resources import verify_resources
from deplodock.passes.remarks import ExceedsTarget


def parse(text: str) -> FuncOp:
    ctx = Context()
    for dialect in (Arith, Builtin, Loop, Tile, Kernel):
        ctx.load_dialect(dialect)
    (function,) = Parser(ctx, text).parse_module().ops
    assert isinstance(function, FuncOp)
    return function


def kernel(*types: str) -> FuncOp:
    allocs = "\n".join(f"%b{n} = kernel.alloc : memref<{type}>" for n, type in enumerate(types))
    return parse(f"kernel.func @k() blocks(%b = 1) threads(%t = 32) {{ loop.for %i = 0 to 2 {{ {allocs} }} }}")


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


def parameters(*types: str) -> FuncOp:
    listed = ", ".join(f"%p{n}: {type}" for n, type in enumerate(types))
    return parse(f"kernel.func @k({listed}) blocks(%b = 1) threads(%t = 32) {{}}")


def test_parameters_are_aligned_and_limited():
    buffer, box = "memref<4xf32>", "!kernel.tensor_map<memref<64x64xf32>, box [32, 32]>"
    function = parameters(buffer, box, "i1", "f64", "f32")
    assert parameter_bytes(parameter(one.type) for one in function.parameters) == 212
    verify_resources(parameters(*[box] * 255, *[buffer] * 15, "f32"), target("sm_90"))
    with pytest.raises(
        ExceedsTarget, match=r"@k takes 32768 bytes of parameters, 32764 can be passed; take fewer buffers"
    ):
        verify_resources(parameters(*[box] * 256), target("sm_90"))


MADE = """
%acc = kernel.alloc : memref<16xf32, #tile.memory<register>>
%other = kernel.alloc : memref<3x5xi16, #tile.memory<register>>
%zero = arith.constant 0.0 : f32
"""
PARTS = {
    "ADD": """
%old = loop.load %acc[0] : memref<16xf32, #tile.memory<register>>
loop.store %old, %acc[0] : memref<16xf32, #tile.memory<register>>""",
    "COUNT": """
%last = loop.load %other[0, 0] : memref<3x5xi16, #tile.memory<register>>
loop.store %last, %other[0, 0] : memref<3x5xi16, #tile.memory<register>>""",
    "RESTART": "loop.store %zero, %acc[0] : memref<16xf32, #tile.memory<register>>",
}


@pytest.mark.parametrize(
    ("body", "registers"),
    [
        ("loop.for %k = 0 to 9 { ADD }", 16),
        ("loop.for %k = 0 to 9 unroll { ADD }", 0),
        ("loop.for %k = 0 to 1 { ADD }", 0),
        ("loop.for %k = 0 to 9 { RESTART ADD }", 0),
        ("loop.for %k = 0 to 9 { RESTART loop.for %i = 0 to 9 { ADD } }", 16),
        ("loop.for %k = 0 to 9 { ADD loop.for %i = 0 to 9 { COUNT } }", 24),
        ("loop.for %k = 0 to 9 { loop.for %i = 0 to 9 { COUNT } ADD }", 24),
        ("loop.for %k = 0 to 9 { loop.for %i = 0 to 9 { COUNT } RESTART ADD }", 8),
    ],
)
def test_registers_that_loops_carry(body: str, registers: int):
    for name, text in PARTS.items():
        body = body.replace(name, text)
    carried = most_carried(parse(f"kernel.func @k() blocks(%b = 1) threads(%t = 32) {{ {MADE} {body} }}"))
    assert (0 if carried is None else carried.registers) == registers
