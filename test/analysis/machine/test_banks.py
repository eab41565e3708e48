"""The static model of bank conflicts agrees with what the simulator counts."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from xdsl.dialects.builtin import ModuleOp
from xdsl.parser import Parser

from deplodock.analysis.machine.banks import SlabBanks, Wavefronts, kernel_wavefronts, warp_wavefronts
from deplodock.dialects import kernel, loop, tile
from deplodock.interpreters.simulate import simulate
from deplodock.passes.driver import new_context
from deplodock.passes.kernel.materialize import MaterializePass

CONTEXT = new_context()


def parse(text: str) -> ModuleOp:
    return Parser(CONTEXT, text).parse_module()


def modelled(module: ModuleOp) -> Wavefronts:
    """The wavefronts of the module's only kernel by the model."""
    (function,) = (op for op in module.ops if isinstance(op, kernel.FuncOp))
    return sum(kernel_wavefronts(function).values(), Wavefronts())


def counted(module: ModuleOp) -> Wavefronts:
    """The wavefronts that the simulator counts."""
    (counters,) = simulate(module, [], check=False).counters.values()
    return Wavefronts(counters.shared_wavefronts, counters.shared_ideal_wavefronts)


@pytest.mark.parametrize(
    ("step", "bytes", "expected"),
    [
        (4, 4, (1, 1)),
        (8, 4, (2, 1)),
        (128, 4, (32, 1)),
        (132, 4, (1, 1)),
        (0, 4, (1, 1)),
        (1, 1, (1, 1)),
        (8, 8, (2, 2)),
        (256, 8, (32, 2)),
        (16, 16, (4, 4)),
        (32, 16, (8, 4)),
        (128, 16, (32, 4)),
        (144, 16, (4, 4)),
        (0, 16, (4, 4)),
    ],
)
def test_lanes_at_equal_distances(step: int, bytes: int, expected: tuple[int, int]) -> None:
    assert warp_wavefronts([lane * step for lane in range(32)], bytes) == Wavefronts(*expected)


def test_lanes_that_take_no_part() -> None:
    assert warp_wavefronts([None] * 32, 4) == Wavefronts(0, 0)
    assert warp_wavefronts([0, *[None] * 31], 16) == Wavefronts(1, 1)
    assert warp_wavefronts([lane * 128 if lane % 2 else None for lane in range(32)], 4) == Wavefronts(16, 1)


@st.composite
def kernels(draw: st.DrawFn) -> str:
    """A kernel that loads, stores and moves in shared memory at random places."""
    element, widths = draw(st.sampled_from([("f32", (1, 2, 4)), ("f64", (1, 2)), ("i1", (1,))]))
    width = draw(st.sampled_from(widths))
    rows, columns = draw(st.integers(1, 40)), draw(st.integers(1, 12)) * width
    pitch = columns + draw(st.integers(0, 9)) * width
    threads, trips, blocks = draw(st.sampled_from([20, 32, 48, 64])), draw(st.integers(1, 5)), draw(st.integers(1, 2))

    def subscript() -> str:
        a, b, c = draw(st.integers(0, 9)), draw(st.integers(0, 9)), draw(st.sampled_from([1, 2, 3, 8]))
        return f"%t * {a} + %i * {b} + %t floordiv {c}" if draw(st.booleans()) else f"%t floordiv {c} + %i"

    row = f"({subscript()}) mod {rows}"
    column = f"(({subscript()}) mod {columns // width}) * {width}"
    shared = f"memref<{rows}x{columns}x{element}, strided<[{pitch}, 1]>, #tile.memory<shared>>"
    register = f"memref<{width}x{element}, #tile.memory<register>>"
    guard = f"%t * 3 + %i < {draw(st.integers(1, 200))}" if draw(st.booleans()) else "%i < 9"
    move = f"kernel.move {width}"
    access = draw(
        st.sampled_from(
            [
                f"{move} %s[{row}, {column}] to %r[0] : {shared} to {register}",
                f"{move} %r[0] to %s[{row}, {column}] : {register} to {shared}",
                f"{move} %s[{row}, {column}] to %r[0] where (%t < 17 + %i) : {shared} to {register}",
                f"%v = loop.load %s[{row}, {column}] : {shared}",
            ]
        )
    )
    return f"""
    kernel.func @k() blocks(%b = {blocks}) threads(%t = {threads}) {{
      %s = kernel.alloc : {shared}
      %r = kernel.alloc : {register}
      loop.for %i = 0 to {trips} {{ loop.guard where ({guard}) {{ {access} }} }}
    }}
    """


@settings(max_examples=100, deadline=None, derandomize=True)
@given(kernels())
def test_the_model_agrees_with_the_simulator(text: str) -> None:
    module = parse(text)
    assert modelled(module) == counted(module)


SLABS = [
    ("memref<40x96xf32>", "%x[%b * 8 + d0, %k * 32 + d1]", "memref<8x32xf32, #tile.memory<shared>>"),
    ("memref<40x96xf32>", "%x[%b * 8 + d1, %k * 32 + d0]", "memref<32x8xf32, #tile.memory<shared>>"),
    ("memref<40x96xf32>", "%x[%b * 8 + d1, %k * 32 + d0]", "memref<32x8xf32, strided<[12, 1]>, #tile.memory<shared>>"),
    ("memref<40x90xf32>", "%x[%b * 8 + d1, %k * 30 + d0]", "memref<30x8xf32, #tile.memory<shared>>"),
    ("memref<40x90xf32>", "%x[%b * 8 + d0, %k * 30 + d1]", "memref<8x30xf32, strided<[31, 1]>, #tile.memory<shared>>"),
    ("memref<40x90xf64>", "%x[%b * 8 + d0, %k * 30 + d1]", "memref<8x30xf64, #tile.memory<shared>>"),
]


@pytest.mark.parametrize("axes", ["%t = 40 : thread, %u = 2 : thread", "%u = 2 : thread, %t = 40 : thread"])
@pytest.mark.parametrize("unroll", ["", "unroll "])
@pytest.mark.parametrize(("source", "subscripts", "slab"), SLABS)
def test_a_slab_of_a_launch_takes_the_wavefronts_of_its_kernel(
    axes: str, unroll: str, source: str, subscripts: str, slab: str
) -> None:
    rows, columns = slab.removeprefix("memref<").split("x")[:2]
    element = "f64" if "f64" in slab else "f32"
    module = parse(
        f"""
        func.func @k(%x: {source}, %out: memref<5x40x2x4x{element}>) {{
          tile.launch (%b = 5 : block, {axes}, %r = 4 : register) {{
            %acc = loop.reduce {{arith.addf}} %k = 0 to 3 : {element} {{
              %s = tile.stage {subscripts} : {source} to {slab}
              %part = loop.reduce {{arith.addf}} %i = 0 to 2 {unroll}: {element} {{
                %p = loop.index [(%t + %i * 8) mod {rows}]
                %q = loop.index [(%u * 4 + %r) mod {columns}]
                %v = loop.load %s[%p, %q] : {slab}
                loop.yield %v : {element}
              }}
              loop.yield %part : {element}
            }}
            loop.store %acc, %out[%b, %t, %u, %r] : memref<5x40x2x4x{element}>
          }}
          func.return
        }}
        """
    )
    (stage,) = (op for op in module.walk() if isinstance(op, tile.StageOp))
    (launch,) = (op for op in module.walk() if isinstance(op, tile.LaunchOp))
    expected = SlabBanks(launch, stage).total(loop.memref_of(stage.slab)) * 15
    MaterializePass().apply(CONTEXT, module)
    assert modelled(module) == expected
    assert expected.needed >= expected.ideal > 0


def test_lane_axes_are_those_of_their_carriers() -> None:
    """Fragments of 4 lanes of k and 8 of n, with another axis between their carriers."""
    module = parse(
        """
        func.func @k(%x: memref<16x40xf32>, %out: memref<8x2x4x4xf32>) {
          tile.launch (%g = 8 : thread, %t = 4 : thread, %v = 4 : register, %j = 2 : register,
                       %k = 4 : lane %t, %n = 8 : lane %g) {
            %xs = tile.stage %x[d0, d1] : memref<16x40xf32> to memref<16x40xf32, #tile.memory<shared>>
            %a = loop.load %xs[%n * 2 + %j, %k * 8 + %v] : memref<16x40xf32, #tile.memory<shared>>
            loop.store %a, %out[%n, %j, %k, %v] : memref<8x2x4x4xf32>
          }
          func.return
        }
        """
    )
    (stage,) = (op for op in module.walk() if isinstance(op, tile.StageOp))
    (launch,) = (op for op in module.walk() if isinstance(op, tile.LaunchOp))
    expected = SlabBanks(launch, stage).total(loop.memref_of(stage.slab))
    MaterializePass().apply(CONTEXT, module)
    assert modelled(module) == expected
    assert expected.needed > expected.ideal > 0
