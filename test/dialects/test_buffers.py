"""Layouts of buffers: one that verifies puts each element where no other is, at one address for all who compute it."""

from itertools import product

import pytest
from hypothesis import given
from hypothesis import strategies as st
from xdsl.dialects.builtin import (
    AffineMapAttr,
    IntegerAttr,
    MemRefType,
    NoneAttr,
    StridedLayoutAttr,
    f16,
    f32,
    f64,
    i64,
)
from xdsl.ir import Attribute
from xdsl.ir.affine import AffineExpr, AffineMap
from xdsl.utils.exceptions import VerifyException

from deplodock.analysis.affine.linear import Linear
from deplodock.analysis.machine.resources import buffer_elements
from deplodock.codegen.indices import IndexWriter
from deplodock.codegen.names import Identifiers
from deplodock.dialects.buffers import SPANS, Memory, MemoryAttr, SwizzleAttr, verify_buffer
from deplodock.dialects.kernel import AllocOp
from deplodock.interpreters.simulate.memory import Layout

SHARED, REGISTER = MemoryAttr(Memory.SHARED), MemoryAttr(Memory.REGISTER)


@st.composite
def buffers(draw: st.DrawFn) -> MemRefType[Attribute]:
    """Buffers on chip of few elements, with layouts of all kinds, most of them wrong."""
    shape = draw(st.lists(st.integers(1, 5), min_size=1, max_size=3))
    element = draw(st.sampled_from([f16, f32, f64]))
    space = draw(st.sampled_from([SHARED, REGISTER]))
    kind = draw(st.sampled_from(["strided", "strided", "padded", "swizzle", "map", "none"]))
    if kind == "swizzle":
        span = draw(st.sampled_from(SPANS))
        row = span // element.size * draw(st.sampled_from([1, 1, 1, 2]))
        return MemRefType(element, [*shape[:-1], row], SwizzleAttr(span), space)
    strides = draw(st.lists(st.integers(-2, 12), min_size=len(shape), max_size=len(shape)))
    if kind == "padded":
        strides, step = [0] * len(shape), 1
        for dim in draw(st.permutations(range(len(shape)))):
            strides[dim], step = step, step * shape[dim] + draw(st.integers(-1, 2))
    layouts: dict[str, Attribute] = {
        "strided": StridedLayoutAttr(strides, draw(st.integers(-2, 3))),
        "padded": StridedLayoutAttr(strides),
        "map": AffineMapAttr(AffineMap(len(shape), 0, (AffineExpr.dimension(0) * strides[0],))),
        "none": NoneAttr(),
    }
    return MemRefType(element, shape, layouts[kind], space)


def printed(type: MemRefType[Attribute], place: tuple[int, ...]) -> int:
    """The position of an element in the printed CUDA."""
    text = IndexWriter(Identifiers(())).position(AllocOp(type).result, [Linear(constant=index) for index in place])
    return eval(text)


@given(buffers())
def test_a_layout_is_refused_or_keeps_elements_apart(type: MemRefType[Attribute]) -> None:
    op = AllocOp(type)
    places = list(product(*map(range, type.get_shape())))
    try:
        op.verify()
    except VerifyException:
        if isinstance(type.layout, StridedLayoutAttr):
            strides, offset = type.get_strides() or (), type.get_offset() or 0
            positions = [sum(i * s or 0 for i, s in zip(place, strides, strict=True)) + offset for place in places]
            assert len(set(positions)) < len(places) or min(strides) < 1 or offset < 0, "it is right"
        return
    layout = Layout.of(op.result)
    addresses = [printed(type, place) * layout.dtype.itemsize for place in places]
    assert addresses == [int(layout.address(place)) for place in places]
    assert len(set(addresses)) == len(places)
    assert min(addresses) >= 0
    assert max(addresses) < buffer_elements(type) * layout.dtype.itemsize


@pytest.mark.parametrize(
    ("type", "message"),
    [
        (MemRefType(f32, [4, 8], StridedLayoutAttr([16, 1])), "in global memory are contiguous"),
        (MemRefType(f32, [4, 8], SwizzleAttr(32)), "only buffers in #tile.memory<shared> are swizzled"),
        (MemRefType(f32, [4, 8], NoneAttr(), IntegerAttr(3, i64)), "the memory space of memref<4x8xf32, 3 : i64> must"),
        (MemRefType(f32, [2, 2], StridedLayoutAttr([2, 2]), SHARED), r"elements \[0, 1\] and \[1, 0\]"),
        (MemRefType(f32, [5, 4], StridedLayoutAttr([3, 4]), SHARED), r"elements \[0, 3\] and \[4, 0\]"),
        (MemRefType(f32, [4], StridedLayoutAttr([None]), SHARED), "are numbers"),
        (MemRefType(f32, [4], StridedLayoutAttr([1], None), SHARED), "are numbers"),
        (MemRefType(f32, [4, 4], StridedLayoutAttr([4]), SHARED), "a stride for each of the 2 dimensions"),
        (MemRefType(f32, [10**6, 10**6], StridedLayoutAttr([10**6, 10**6 + 1]), SHARED), "more elements than a memory"),
    ],
    ids=str,
)
def test_refused(type: MemRefType[Attribute], message: str) -> None:
    with pytest.raises(VerifyException, match=message):
        verify_buffer(type)


def test_strides_in_another_order_are_right() -> None:
    for shape, strides in (([5, 3], [3, 4]), ([2, 2], [2, 3]), ([8, 8], [1, 9]), ([1, 4], [7, 1])):
        AllocOp(MemRefType(f32, shape, StridedLayoutAttr(strides), SHARED)).verify()
