"""Linear forms against direct evaluation of the expressions they stand for, on random expressions and values."""

from hypothesis import given, settings
from hypothesis import strategies as st
from xdsl.dialects.builtin import IndexType
from xdsl.ir import Block, Region, SSAValue
from xdsl.ir.affine import AffineExpr, AffineMap

from deplodock.analysis.affine.linear import (
    Linear,
    coarsened_condition,
    form_of,
    form_of_value,
    forms_of,
    least,
    to_map,
    value_range,
)
from deplodock.dialects import loop, tile
from deplodock.dialects.tile import Binding

EXTENTS = (1, 2, 5, 16, 24)
CASES = settings(max_examples=120, deadline=None)

POINTS = st.tuples(*(st.integers(0, extent - 1) for extent in EXTENTS))
DIMENSIONS = st.integers(0, len(EXTENTS) - 1).map(AffineExpr.dimension)
FACTORS = st.integers(-6, 32)
DIVISORS = st.sampled_from([1, 2, 3, 4, 5, 8, 16, 24, 100])
EXPRESSIONS = st.recursive(
    st.one_of(DIMENSIONS, st.integers(-20, 40).map(AffineExpr.constant)),
    lambda inner: st.one_of(
        st.builds(lambda a, b: a + b, inner, inner),
        st.builds(lambda a, c: a * c, inner, FACTORS),
        st.builds(lambda a, d: a // d, inner, DIVISORS),
        st.builds(lambda a, d: a.ceil_div(d), inner, DIVISORS),
        st.builds(lambda a, d: a % d, inner, DIVISORS),
    ),
    max_leaves=6,
)


def axes(*extents: int) -> list[SSAValue]:
    """The axes of a launch of these extents."""
    launch = tile.LaunchOp(
        extents, [Binding.THREAD] * len(extents), Region(Block(arg_types=[IndexType()] * len(extents)))
    )
    LAUNCHES.append(launch)
    return list(launch.axes)


LAUNCHES: list[tile.LaunchOp] = []
"""The launches made, so that they live as long as their axes."""

AXES = axes(*EXTENTS)


def value_of(form: Linear, point: dict[SSAValue, int]) -> int:
    """A form's value at a point."""
    map, operands = to_map([form])
    return map.eval([point[operand] for operand in operands], [])[0]


def at(point: tuple[int, ...]) -> dict[SSAValue, int]:
    return dict(zip(AXES, point, strict=True))


def evaluate(expr: AffineExpr, point: tuple[int, ...]) -> int:
    return expr.eval(list(point), [])


@CASES
@given(EXPRESSIONS, POINTS)
def test_fold(expr, point) -> None:
    """A form has the value of its expression, which its range holds and its divisor divides."""
    form, wanted = form_of(expr, AXES), evaluate(expr, point)
    assert value_of(form, at(point)) == wanted
    bounds = form.range()
    assert bounds is not None
    assert bounds[0] <= wanted <= bounds[1]
    divisor = form.divisor()
    assert wanted == 0 if divisor == 0 else wanted % divisor == 0


@CASES
@given(EXPRESSIONS, EXPRESSIONS, st.integers(0, len(EXTENTS) - 1), POINTS)
def test_substitute(expr, other, dim, point) -> None:
    """Substituting a root by a form of values that it can have gives the value at the point moved there."""
    other = other % EXTENTS[dim]
    replaced = form_of(expr, AXES).substitute(AXES[dim], form_of(other, AXES))
    moved = (*point[:dim], evaluate(other, point), *point[dim + 1 :])
    assert value_of(replaced, at(point)) == evaluate(expr, moved)


@CASES
@given(EXPRESSIONS, st.sets(st.integers(0, len(EXTENTS) - 1)), POINTS)
def test_split(expr, kept, point) -> None:
    """The parts of a split add up, and the first depends on what is kept alone."""
    form, keep = form_of(expr, AXES), [AXES[i] for i in sorted(kept)]
    first, rest = form.split(lambda root: root in keep)
    assert value_of(first, at(point)) + value_of(rest, at(point)) == evaluate(expr, point)
    assert all(root in keep for root in first.roots())
    assert rest.constant == 0


@CASES
@given(EXPRESSIONS, EXPRESSIONS, FACTORS, DIVISORS, POINTS)
def test_arithmetic(left, right, factor, divisor, point) -> None:
    """Sums, products, quotients and remainders of forms are those of their values."""
    a, b, here = form_of(left, AXES), form_of(right, AXES), at(point)
    x, y = evaluate(left, point), evaluate(right, point)
    assert value_of(a + b, here) == x + y
    assert value_of(a - b, here) == x - y
    assert value_of(a * factor, here) == x * factor
    assert value_of(a // divisor, here) == x // divisor
    assert value_of(a % divisor, here) == x % divisor


@CASES
@given(st.lists(EXPRESSIONS, min_size=1, max_size=3), POINTS)
def test_to_map(exprs, point) -> None:
    """Forms written as a map and folded again are the same forms."""
    forms = [form_of(expr, AXES) for expr in exprs]
    map, operands = to_map(forms)
    again = forms_of(map, operands)
    assert [value_of(form, at(point)) for form in again] == [evaluate(expr, point) for expr in exprs]


@CASES
@given(st.lists(EXPRESSIONS, min_size=1, max_size=3), POINTS)
def test_rewritten_forms(exprs, point) -> None:
    """Forms with fewer roots or narrower ranges have the same values, conditions hold at the same points."""
    forms, here = [form_of(expr, AXES) for expr in exprs], at(point)
    wanted = [evaluate(expr, point) for expr in exprs]
    assert [value_of(form.joined(), here) for form in forms] == wanted
    assert [value_of(form.with_remainders(), here) for form in forms] == wanted
    assert [value_of(coarsened_condition(form), here) < 0 for form in forms] == [value < 0 for value in wanted]
    assert min(value_of(form, here) for form in least(forms)) == min(wanted)


def test_bounds_of_a_tile_name_blocks_alone() -> None:
    """A row rounded up to tiles, and a column before it, are the same for all threads of a tile."""
    rows, row, columns, column = axes(8, 64, 8, 64)
    end = Linear(((rows, 64), (row, 1))) // 128 * 128 + 128
    assert list(end.roots()) == [rows]
    assert end // 32 == Linear.of(rows) // 2 * 4 + 4
    hidden = Linear(((columns, 64), (column, 1))) - end
    assert set(coarsened_condition(hidden).roots()) == {rows, columns}
    last = Linear(((rows, 64), (row, 1)))
    assert (last - last // 128 * 128).with_remainders().range() == (0, 127)


def test_quotients_simplify() -> None:
    """Ranges give back the parts of a split coordinate."""
    outer, inner = axes(7, 16)
    whole = Linear(((outer, 16), (inner, 1)))
    assert whole // 16 == Linear.of(outer)
    assert whole % 16 == Linear.of(inner)
    assert whole // 8 // 2 == Linear.of(outer)
    assert (whole * 4) // 64 == Linear.of(outer)
    assert (whole * 4) % 64 == Linear(((inner, 4),))
    ahead = Linear(((inner, 1),), 2) % 4
    assert Linear(((inner, 4),), 8) % 16 == ahead * 4


def test_quotients_of_quotients_simplify() -> None:
    """Quotients and remainders of each other are those of the whole; in sums they give it back."""
    i, j, v = (Linear.of(axis) for axis in axes(1000, 9, 4))
    assert (j + i // 4) // 8 == (j * 4 + i) // 32
    assert i % 32 // 4 == i // 4 % 8
    assert i % 32 % 4 == i % 4
    assert (i * 4 + v) // 16 == i // 4
    assert (i * 4 + v) % 16 == i % 4 * 4 + v
    assert (i // 4 * 4 + i % 4).joined() == i
    parts = i // 64, i // 8 % 8, i % 8
    assert (j + parts[0] * 128 + parts[1] * 16 + parts[2] * 2).joined() == j + i * 2
    assert (parts[0] * 64 + parts[2]).joined() == parts[0] * 64 + parts[2]
    assert (j + parts[1] * 16 + parts[2] * 2).joined() == j + i % 64 * 2
    assert (parts[1] * 16 + parts[2]).joined() == parts[1] * 16 + parts[2]


def test_terms_cancel() -> None:
    """A form less itself is 0, in whatever order its terms appear."""
    a, b = axes(3, 4)
    assert Linear(((a, 2), (b, 1))) - Linear(((b, 1), (a, 2))) == Linear()
    assert Linear().divisor() == 0


def test_loop_index_is_folded() -> None:
    """A chain of loop.index is one form of what it comes from."""
    outer, inner = axes(7, 16)
    d = AffineExpr.dimension
    index = loop.IndexOp(AffineMap(2, 0, (d(0) * 16 + d(1),)), [outer, inner])
    again = loop.IndexOp(AffineMap(1, 0, (d(0) // 16 + 3,)), [index.result])
    assert form_of_value(again.result) == Linear(((outer, 1),), 3)


def test_range_of_a_bounded_loop() -> None:
    """A loop variable below min(%i + 1, 5) is at most 4, and at most %i's greatest value."""
    wide, narrow = axes(100, 3)
    bound = AffineMap(1, 0, (AffineExpr.dimension(0) + 1, AffineExpr.constant(5)))
    loops = [loop.ForOp(bound, Region(Block(arg_types=[IndexType()])), [axis]) for axis in (wide, narrow)]
    assert [value_range(op.iv) for op in loops] == [(0, 4), (0, 2)]


def test_unknown_range() -> None:
    """An index from elsewhere has no range, and neither has a form with one."""
    unknown = Block(arg_types=[IndexType()]).args[0]
    assert value_range(unknown) is None
    assert Linear.of(unknown).range() is None
    assert (Linear.of(unknown) % 4).range() == (0, 3)
