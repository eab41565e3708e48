"""Constants of every float type: what is printed reads back as the same bits."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st
from xdsl.dialects.builtin import AnyFloat, DenseIntOrFPElementsAttr, FloatAttr, TensorType, bf16, f16, f32, f64

from deplodock.passes.driver import new_context
from deplodock.tools.source import LocatingParser

CONTEXT = new_context()
TYPES = [f16, bf16, f32, f64]


def read(text: str) -> object:
    return LocatingParser(CONTEXT, text, "test.mlir").parse_attribute()


@pytest.mark.parametrize("type", TYPES, ids=str)
@given(data=st.data())
def test_bits_read_back(type: AnyFloat, data: st.DataObject) -> None:
    """Constants drawn as bits, many of them infinities and NaN, as list, splat and scalar."""
    top = (1 << type.bitwidth) - 1
    infinity = int.from_bytes(type.pack((math.inf,)), "little")
    drawn = st.integers(0, top) | st.sampled_from([infinity, infinity | (1 << type.bitwidth - 1), top, top >> 1])
    bits = data.draw(st.lists(drawn, min_size=1, max_size=4))
    width = type.bitwidth // 4
    literals = [f"0x{number:0{width}x}" for number in bits]
    values = [next(type.iter_unpack(number.to_bytes(width // 2, "little"))) for number in bits]

    constant = read(f"dense<[{', '.join(literals)}]> : tensor<{len(bits)}x{type}>")
    assert isinstance(constant, DenseIntOrFPElementsAttr)
    assert constant == DenseIntOrFPElementsAttr.from_list(TensorType(type, [len(bits)]), values)
    assert read(str(constant)) == constant

    splat = read(f"dense<{literals[0]}> : tensor<3x2x{type}>")
    assert isinstance(splat, DenseIntOrFPElementsAttr)
    assert splat.data.data == type.pack((values[0],)) * 6
    assert read(str(splat)) == splat

    scalar = read(f"{literals[0]} : {type}")
    assert isinstance(scalar, FloatAttr)
    assert type.pack((scalar.value.data,)) == type.pack((values[0],))
