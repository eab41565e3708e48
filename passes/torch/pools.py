"""Patterns that pool windows of the last dimensions."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import inf, prod

from xdsl.dialects import arith
from xdsl.dialects.builtin import AnyFloat
from xdsl.ir import Attribute, SSAValue
from xdsl.ir.affine import AffineExpr, AffineMap

from deplodock.dialects.tensor import element_of, shape_of
from deplodock.dialects.torch import AtenOp
from deplodock.passes.torch.indexing import all_of, padded
from deplodock.passes.torch.pattern import AtenPattern
from deplodock.passes.torch.tensor_builder import TensorBuilder, width_of
from deplodock.passes.torch.windows import counts_of, read_windows, spread, windows_of

_Read = Callable[[SSAValue, float], tuple[SSAValue, list[int]]]
"""The elements of all windows of a tensor, with a value for what is outside of it, and the dimensions of one window."""


class LowerMaxPool(AtenPattern):
    """The largest element of each window, and its place if asked; what is outside is smaller than all, NaN larger."""

    overloads = (
        *("max_pool1d", "max_pool2d", "max_pool3d"),
        *("max_pool2d_with_indices", "max_pool3d_with_indices"),
    )

    def lower(self, op: AtenOp, build: TensorBuilder) -> SSAValue | Sequence[SSAValue]:
        x, spaces = op.operand("self"), _spaces(op)
        names = ("kernel_size", "stride", "padding", "dilation")
        size, stride, padding, dilation = (spread(op.value(name), spaces) for name in names)
        windows = windows_of(size, stride or size, padding, dilation)
        counts = counts_of(x, windows, op.value("ceil_mode"))
        extents = shape_of(x)[len(shape_of(x)) - spaces :]
        has_indices = len(op.outputs) > 1
        meet = all(w.meets(n, count) for w, n, count in zip(windows, extents, counts, strict=True))
        if not meet and (has_indices or not isinstance(element_of(x), AnyFloat)):
            raise ValueError(f"a window of size {list(size)} lies in the padding alone")

        def read(value: SSAValue, outside: float) -> tuple[SSAValue, list[int]]:
            return read_windows(build, value, windows, outside, counts)

        return _largest(build, x, spaces, read) if has_indices else _maximum(build, x, read)


class LowerAveragePool(AtenPattern):
    """The sum of each window over the number of its elements, of those inside of the tensor or its padding alone."""

    overloads = ("avg_pool1d", "avg_pool2d", "avg_pool3d")

    def lower(self, op: AtenOp, build: TensorBuilder) -> SSAValue:
        x, spaces = op.operand("self"), _spaces(op)
        size, stride, padding = (spread(op.value(name), spaces) for name in ("kernel_size", "stride", "padding"))
        windows, ceil = windows_of(size, stride or size, padding, [1] * spaces), op.value("ceil_mode")
        counts = counts_of(x, windows, ceil)
        total = build.reduce("add", *read_windows(build, x, windows, 0, counts), name="sum")
        divisor = op.value("divisor_override") if spaces > 1 else None
        if divisor is not None or (not ceil and (op.value("count_include_pad") or not any(padding))):
            count = build.constant_like(divisor or prod(size), total)
        else:
            ones = build.constant_like(1, x)
            if op.value("count_include_pad"):
                rank = len(shape_of(x))
                ones = padded(build, ones, {rank - spaces + d: (n, n) for d, n in enumerate(padding)}, 1)
                windows = windows_of(size, stride or size, [0] * spaces, [1] * spaces)
            count = build.reduce("add", *read_windows(build, ones, windows, 0, counts), name="count")
        return build.apply("div", total, count)


class LowerAdaptiveAveragePool(AtenPattern):
    """The mean of parts of about equal size, of which the result has so many."""

    overloads = ("adaptive_avg_pool1d", "adaptive_avg_pool2d", "adaptive_avg_pool3d")

    def lower(self, op: AtenOp, build: TensorBuilder) -> SSAValue:
        x = op.operand("self")
        parts = _parts(op)
        if all(part.is_equal for part in parts):
            return build.mean(*_read_parts(build, x, parts, 0))
        total = build.reduce("add", *_read_parts(build, x, parts, 0), name="sum")
        ones = build.constant_like(1, x)
        count = build.reduce("add", *_read_parts(build, ones, parts, 0), name="count")
        return build.apply("div", total, count)


class LowerAdaptiveMaxPool(AtenPattern):
    """The largest element of each part, of which the result has so many, and its place; NaN is larger than all."""

    overloads = ("adaptive_max_pool2d", "adaptive_max_pool3d")

    def lower(self, op: AtenOp, build: TensorBuilder) -> Sequence[SSAValue]:
        parts = _parts(op)
        return _largest(
            build, op.operand("self"), _spaces(op), lambda value, outside: _read_parts(build, value, parts, outside)
        )


@dataclass(frozen=True)
class _Part:
    """How an adaptive pool cuts an extent: part `i` is from `floor(i * extent / count)` to what the next rounds up to.

    Parts overlap where the extent is no multiple of their count.
    """

    extent: int
    count: int

    @property
    def is_equal(self) -> bool:
        """Whether all parts have one size, and do not overlap."""
        return self.extent % self.count == 0

    @property
    def size(self) -> int:
        """The number of elements of the largest part."""
        ends = [(-((i + 1) * self.extent // -self.count), i * self.extent // self.count) for i in range(self.count)]
        return max(end - start for end, start in ends)

    def element(self, part: int, element: int) -> AffineExpr:
        """The position of an element, dimension `element`, of a part, dimension `part`; always inside."""
        if self.is_equal:
            return AffineExpr.dimension(part) * self.size + AffineExpr.dimension(element)
        place = AffineExpr.dimension(part) * self.extent // self.count + AffineExpr.dimension(element)
        reach = (self.count - 1) * self.extent // self.count + self.size
        return place % self.extent if reach > self.extent else place

    def inside(self, build: TensorBuilder, part: int, element: int, space: Sequence[int]) -> SSAValue:
        """Where an element belongs to its part."""
        part_number = build.iota(part, space)
        scaled = build.apply("mul", part_number, build.constant_like(self.extent, part_number), name="scaled")
        number = build.constant_like(self.count, scaled)
        start = build.map(arith.DivSIOp, scaled, number, name="start")
        beyond = build.constant_like(self.extent + self.count - 1, scaled)
        end = build.map(arith.DivSIOp, build.apply("add", scaled, beyond), number, name="end")
        return build.compare("lt", build.apply("add", start, build.iota(element, space)), end, name="inside")


def _parts(op: AtenOp) -> list[_Part]:
    extents, wanted = shape_of(op.operand("self")), spread(op.value("output_size"), _spaces(op))
    extents = extents[len(extents) - len(wanted) :]
    if any(count < 1 or extent < 1 for extent, count in zip(extents, wanted, strict=True)):
        raise ValueError(f"{list(extents)} elements do not fall into {list(wanted)} parts")
    return [_Part(extent, count) for extent, count in zip(extents, wanted, strict=True)]


def _read_parts(
    build: TensorBuilder, x: SSAValue, parts: Sequence[_Part], outside: float
) -> tuple[SSAValue, list[int]]:
    """The elements of all parts of the last dimensions, and the dimensions that hold those of one."""
    first, spaces = len(shape_of(x)) - len(parts), len(parts)
    space = (*shape_of(x)[:first], *(part.count for part in parts), *(part.size for part in parts))
    outer = [AffineExpr.dimension(d) for d in range(first)]
    places = [part.element(first + d, first + spaces + d) for d, part in enumerate(parts)]
    read = build.index_map(x, AffineMap(len(space), 0, (*outer, *places)), space)
    conditions = [
        part.inside(build, first + d, first + spaces + d, space) for d, part in enumerate(parts) if not part.is_equal
    ]
    inside = all_of(build, conditions)
    read = read if inside is None else build.select(inside, read, build.constant_like(outside, read))
    return read, list(range(first + spaces, len(space)))


def _maximum(build: TensorBuilder, x: SSAValue, read: _Read) -> SSAValue:
    return build.reduce("maximum", *read(x, _lowest(element_of(x))), name="max")


def _largest(build: TensorBuilder, x: SSAValue, spaces: int, read: _Read) -> tuple[SSAValue, SSAValue]:
    """The largest element of each window and its place in row-major order: the first one's, of NaNs the last one's.

    A candidate's key is `-1 - place` where it equals the largest element, and `place` where it is NaN, of which there
    is none then. So the largest key has the place.
    """
    found, dims = read(x, _lowest(element_of(x)))
    largest = build.reduce("maximum", found, dims, name="max")
    extents = shape_of(x)[len(shape_of(x)) - spaces :]
    places, _ = read(build.reshape(build.iota(0, [prod(extents)]), extents), -1)
    outer = len(shape_of(found)) - len(shape_of(places))
    places = build.spread(places, range(outer), shape_of(found))
    wins = build.compare("eq", found, build.spread(largest, dims, shape_of(found)))
    counts = build.map(arith.AndIOp, wins, build.compare_with("ge", places, 0), name="counts")
    flipped = build.apply("sub", build.constant_like(-1, places), places, name="flipped")
    key = build.select(counts, flipped, build.constant_like(-(1 << 63), places))
    if isinstance(element_of(x), AnyFloat):
        key = build.select(build.compare("ne", found, found), places, key)
    key = build.reduce("maximum", key, dims, name="key")
    flipped = build.apply("sub", build.constant_like(-1, key), key, name="flipped")
    return largest, build.select(build.compare_with("lt", key, 0), flipped, key, name="place")


def _lowest(element: Attribute) -> float:
    """What no element of a window is smaller than."""
    return -inf if isinstance(element, AnyFloat) else -(1 << (width_of(element) - 1))


def _spaces(op: AtenOp) -> int:
    """The number of dimensions that `max_pool2d_with_indices` and the like pool."""
    return int(op.schema().name.partition("d_")[0].removesuffix("d")[-1])
