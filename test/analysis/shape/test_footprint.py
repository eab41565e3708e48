"""Slabs and access widths against brute force over the points that read them."""

import itertools
from collections.abc import Iterator

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from xdsl.dialects.builtin import MemRefType, StridedLayoutAttr, bf16, f16, f32, f64, i8
from xdsl.ir import Attribute, SSAValue
from xdsl.parser import Parser

from deplodock.analysis.access.alignment import address, aligned_width, lanes_along
from deplodock.analysis.affine.linear import extent_of, subscripts_of, to_map
from deplodock.analysis.shape.footprint import Footprint, gathered_footprint, register_footprint, shared_footprint
from deplodock.dialects import loop, tile
from deplodock.errors import UnsupportedError
from deplodock.passes.driver import new_context

CASES = settings(max_examples=80, deadline=None)
COEFFICIENTS = st.tuples(
    st.integers(0, 4), st.integers(-2, 6), st.integers(-2, 3), st.integers(0, 2), st.integers(-3, 8)
)
NAMES = ("b", "t", "v", "k")

CONTEXT = new_context()

ALIVE: list[object] = []
"""Modules whose values are in use."""


def reader(subscripts: list[str], extents: tuple[int, int, int, int]) -> tuple[loop.LoadOp, dict[str, SSAValue]]:
    """A load with these subscripts over a block, a thread, a register axis and a loop variable, and those by name."""
    b, t, v, k = extents
    type = "memref<" + "64x" * len(subscripts) + "f32>"
    text = f"""
    func.func @k(%x: {type}, %out: memref<f32>) {{
      tile.launch (%b = {b} : block, %t = {t} : thread, %v = {v} : register) {{
        %s = loop.reduce {{arith.addf}} %k = 0 to {k} : f32 {{
          %a = loop.load %x[{", ".join(subscripts)}] : {type}
          loop.yield %a : f32
        }}
        loop.store %s, %out[] : memref<f32>
      }}
      func.return
    }}"""
    module = Parser(CONTEXT, text).parse_module()
    ALIVE.append(module)
    (load,) = (op for op in module.walk() if isinstance(op, loop.LoadOp))
    (launch,) = (op for op in module.walk() if isinstance(op, tile.LaunchOp))
    around = load.parent_op()
    assert isinstance(around, loop.ReduceOp)
    return load, {**dict(zip("btv", launch.axes, strict=True)), "k": around.iv}


def written(coefficients: tuple[int, int, int, int, int]) -> str:
    *factors, constant = coefficients
    return " + ".join([*(f"%{name} * {c}" for name, c in zip(NAMES, factors, strict=True)), str(constant)])


def points(roots: list[SSAValue]) -> Iterator[dict[SSAValue, int]]:
    """All values of the roots."""
    for values in itertools.product(*(range(extent_of(root) or 0) for root in roots)):
        yield dict(zip(roots, values, strict=True))


def check_readers(footprint: Footprint, load: loop.LoadOp, roots: list[SSAValue]) -> set[tuple]:
    """Every point finds its element in the slab; gives the coordinates that are read."""
    stage, operands = footprint.map()
    (reads,) = footprint.readers
    inner, inner_operands = to_map(reads.subscripts)
    wanted, wanted_operands = load.map.data, list(load.indices)
    seen = set()
    for point in points(roots):
        slab = tuple(inner.eval([point[operand] for operand in inner_operands], []))
        assert all(0 <= d < extent for d, extent in zip(slab, footprint.shape, strict=True))
        element = tuple(stage.eval(list(slab), [point[operand] for operand in operands]))
        assert element == tuple(wanted.eval([point[operand] for operand in wanted_operands], []))
        seen.add(slab)
    return seen


@CASES
@given(st.lists(COEFFICIENTS, min_size=1, max_size=2), st.tuples(*[st.integers(1, 4)] * 4))
def test_shared_slab_holds_what_is_read(coefficients, extents) -> None:
    """The slab of a CTA is the smallest box: each of its faces is read."""
    load, roots = reader([written(c) for c in coefficients], extents)
    footprint = shared_footprint(load, [roots["k"], roots["t"], roots["v"]])
    assert footprint is not None
    seen = check_readers(footprint, load, list(roots.values()))
    for dim, extent in enumerate(footprint.shape):
        assert {slab[dim] for slab in seen} >= {0, extent - 1}
    assert not any(origin.depends_on(roots[name]) for origin in footprint.origin for name in "tvk")


@CASES
@given(st.lists(COEFFICIENTS, min_size=1, max_size=2), st.tuples(*[st.integers(1, 4)] * 4))
def test_register_slab_holds_what_is_read(coefficients, extents) -> None:
    """The slab of a thread has one element for each of its points, and no other."""
    load, roots = reader([written(c) for c in coefficients], extents)
    footprint = register_footprint(load, [roots["k"], roots["v"]])
    assert footprint is not None
    seen = check_readers(footprint, load, list(roots.values()))
    assert len(seen) == footprint.elements


@CASES
@given(
    st.lists(st.tuples(COEFFICIENTS, st.integers(1, 5), st.booleans()), min_size=1, max_size=2),
    st.tuples(*[st.integers(1, 4)] * 4),
)
def test_gathered_slab_holds_what_is_read(parts, extents) -> None:
    """A gathered slab has one element for each point of its coordinates, also where those and others are divided."""
    written_parts = [f"({written(c)}) {'mod' if rest else 'floordiv'} {divisor}" for c, divisor, rest in parts]
    load, roots = reader(written_parts, extents)
    footprint = gathered_footprint(load, [roots["k"], roots["t"], roots["v"]])
    assert footprint is not None
    assert len(check_readers(footprint, load, list(roots.values()))) == footprint.elements
    order = list(range(len(footprint.shape)))[::-1]
    check_readers(footprint.reordered(order), load, list(roots.values()))


def test_gathered_slab_has_the_contiguous_coordinate_last() -> None:
    load, roots = reader(["%t floordiv 3", "%t mod 3 + %k"], (1, 6, 1, 4))
    footprint = gathered_footprint(load, [roots["k"], roots["t"]])
    assert footprint is not None
    assert footprint.shape == (4, 6)
    load, roots = reader(["%t", "%k floordiv 2"], (1, 6, 1, 4))
    footprint = gathered_footprint(load, [roots["k"], roots["t"]])
    assert footprint is not None
    assert footprint.shape == (6, 4)
    assert footprint.walks(1)
    assert not footprint.walks(0)


def test_no_slab_of_mixed_quotients() -> None:
    """A quotient over an axis of the CTA and one of the grid has no origin."""
    load, roots = reader(["(%b * 3 + %t) floordiv 4"], (4, 4, 1, 1))
    assert shared_footprint(load, [roots["t"]]) is None
    load, roots = reader(["%b * 4 + %t floordiv 2"], (4, 4, 1, 1))
    footprint = shared_footprint(load, [roots["t"]])
    assert footprint is not None
    assert footprint.shape == (2,)
    assert register_footprint(load, [roots["t"]]) is None


@CASES
@given(COEFFICIENTS, COEFFICIENTS, st.tuples(*[st.integers(1, 4)] * 4), st.sampled_from("tvk"))
def test_aligned_width(outer, last, extents, along) -> None:
    """A wide access takes consecutive elements at addresses that are multiples of its width, at every point."""
    load, roots = reader([written(outer), written(last)], extents)
    forms = subscripts_of(load)
    root, extent = roots[along], extent_of(roots[along]) or 0
    width = aligned_width(loop.memref_of(load.source), forms, root, extent)
    map, operands = to_map([address(loop.memref_of(load.source), forms)])
    assert width in (1, 2, 4)
    assert extent % width == 0
    if width == 1:
        return
    for point in points(list(roots.values())):
        if point[root] % width:
            continue
        found = [map.eval([{**point, root: point[root] + i}[o] for o in operands], [])[0] for i in range(width)]
        assert found == list(range(found[0], found[0] + width))
        assert found[0] % width == 0


def test_width_of_contiguous_access() -> None:
    """Widths that the address, the extent or the buffer allows."""
    for subscript, extent, wanted in (
        ("%t * 4 + %v", 4, 4),
        ("%t * 2 + %v", 2, 2),
        ("%t * 4 + %v + 1", 4, 1),
        ("%t * 4 + %v", 3, 1),
        ("%t * 6 + %v", 4, 2),
        ("%t * 4 + %v * 2", 4, 1),
    ):
        load, roots = reader([subscript], (1, 4, extent, 1))
        type, forms = loop.memref_of(load.source), subscripts_of(load)
        assert aligned_width(type, forms, roots["v"], extent) == wanted, subscript


@pytest.mark.parametrize(
    ("element", "offset", "wanted"),
    [(f64, 0, 2), (f32, 0, 4), (bf16, 0, 8), (f16, 4, 4), (f16, 1, 1), (i8, 0, 16), (i8, 8, 8), (i8, 2, 2), (i8, 3, 1)],
)
def test_an_access_takes_16_bytes(element: Attribute, offset: int, wanted: int) -> None:
    """Narrow elements are more; a view that starts between them has fewer."""
    load, roots = reader([f"%t * 16 + %v + {offset}"], (1, 4, 16, 1))
    forms = subscripts_of(load)
    assert aligned_width(MemRefType(element, [80]), forms, roots["v"], 16) == wanted
    assert lanes_along(MemRefType(element, [80]), forms, roots["v"], 16) == tuple(range(wanted))
    assert aligned_width(MemRefType(element, [80]), forms, roots["v"], 6) == min(wanted, 2)


@pytest.mark.parametrize(("offset", "wanted"), [(0, 4), (2, 2), (3, 1)])
def test_width_of_a_buffer_with_an_offset(offset: int, wanted: int) -> None:
    """The first element of a layout decides, too."""
    load, roots = reader(["%t * 4 + %v"], (1, 4, 4, 1))
    forms = subscripts_of(load)
    type = MemRefType(f32, [64], StridedLayoutAttr([1], offset))
    assert aligned_width(type, forms, roots["v"], 4) == wanted


@pytest.mark.parametrize(
    ("layout", "message"),
    [
        (StridedLayoutAttr([None]), "has no static strides, one for each dimension"),
        (StridedLayoutAttr([1], None), "has no static offset"),
        (StridedLayoutAttr([1, 1]), "has no static strides, one for each dimension"),
    ],
)
def test_layouts_without_addresses_are_refused(layout: StridedLayoutAttr, message: str) -> None:
    load, roots = reader(["%t * 4 + %v"], (1, 4, 4, 1))
    forms = subscripts_of(load)
    with pytest.raises(UnsupportedError, match=message):
        aligned_width(MemRefType(f32, [64], layout), forms, roots["v"], 4)
