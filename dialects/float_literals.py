"""Hexadecimal literals of floats: bit patterns wherever a float may stand, as mlir-opt reads them.

xDSL's parser reads them so in scalars alone. An element of a dense constant it takes for an integer, although its
printer writes infinities, NaN, and floats whose digits have no point, as bit patterns.
"""

from __future__ import annotations

import math
import re

from xdsl.dialects.builtin import (
    AnyFloat,
    ComplexType,
    DenseArrayBase,
    FloatAttr,
    IndexType,
    IntegerAttr,
    IntegerType,
)
from xdsl.parser import AttrParser, Parser
from xdsl.utils.lexer import Input, Span

_NUMBER = re.compile(r"(-?)\s*(?:0[xX]([0-9a-fA-F]+)|[0-9]+(?:\.[0-9]*(?:[eE][-+]?[0-9]+)?)?|true|false)")

_SMALL = 65504.0
"""The largest finite f16; no other type that we compute with has a smaller one."""

_Number = IntegerType | IndexType | AnyFloat | ComplexType


def _float(parser: AttrParser, span: Span, type: AnyFloat) -> float:
    """The value of the literal at a place, as a float of some type.

    A hexadecimal literal gives all bits of the type, so it has as many digits as they need. A NaN keeps of its bits
    what a Python float holds: sign and payload of bf16, f32 and f64, the sign of f16; a signalling NaN becomes quiet.

    Raises:
        ParseError: a bit pattern with a sign or of another width, or a number beyond the type's largest.
    """
    text = span.text
    match = _NUMBER.fullmatch(text)
    assert match is not None, text
    sign, digits = match.groups()
    if digits is None:
        value = float({"true": "1", "false": "0"}.get(text, text.replace(" ", "")))
        if abs(value) > _SMALL and math.isinf(type.round(value)):
            parser.raise_error(f"{text} is beyond the largest number of type {type}", span)
        return value
    if sign:
        parser.raise_error(f"{text}: the bits of a float have no sign before them, their first one is the sign", span)
    wanted = -(-type.bitwidth // 4)
    if len(digits) != wanted or int(digits, 16).bit_length() > type.bitwidth:
        count = f"{len(digits)} hexadecimal digit{'s' * (len(digits) != 1)}"
        parser.raise_error(f"{text} has {count}; as the bits of a number of type {type} it has {wanted}", span)
    return next(type.iter_unpack(int(digits, 16).to_bytes(type.compile_time_size, "little")))


class _Element(AttrParser._TensorLiteralElement):  # pyright: ignore[reportPrivateUsage]
    """An element of a dense constant, whose type the parser knows only behind all elements."""

    def to_type(self, parser: AttrParser, type: _Number) -> int | float | tuple[int, int] | tuple[float, float]:
        element = type.element_type if isinstance(type, ComplexType) else type
        if not isinstance(element, AnyFloat):
            return super().to_type(parser, type)
        parts = _parts(self.span) if isinstance(type, ComplexType) else (self.span,)
        first, *others = (_float(parser, part, element) for part in parts)
        return (first, others[0]) if others else first


def _parts(span: Span) -> tuple[Span, ...]:
    """The places of the two numbers in `(real, imaginary)`."""
    numbers = _NUMBER.finditer(span.input.content, span.start, span.end)
    return tuple(Span(number.start(), number.end(), span.input) for number in numbers)


class FloatLiteralsParser(Parser):
    """A parser that takes hexadecimal literals of scalars, dense constants and arrays of floats for bit patterns."""

    _TensorLiteralElement = _Element

    def parse_optional_builtin_int_or_float_attr(self) -> IntegerAttr | FloatAttr | None:
        """Parse a number with its type, if present."""
        start = self._current_token.span.start
        attribute = super().parse_optional_builtin_int_or_float_attr()
        if not isinstance(attribute, FloatAttr):
            return attribute
        return FloatAttr(_float(self, self._number_at(start), attribute.type), attribute.type)

    def _parse_builtin_densearray_attr(self) -> DenseArrayBase | None:
        start = self.pos
        self.parse_characters("<", " in dense array")
        type = self.parse_attribute()
        if not isinstance(type, AnyFloat) or self._current_token.text == ">":
            self._resume_from(start)
            return super()._parse_builtin_densearray_attr()
        self.parse_characters(":", " in dense array")
        numbers = self.parse_comma_separated_list(self.Delimiter.NONE, lambda: self._parse_float_of(type))
        self.parse_characters(">", " in dense array")
        return DenseArrayBase.from_list(type, numbers)

    def _parse_float_of(self, type: AnyFloat) -> float:
        start = self._current_token.span.start
        self.parse_number()
        return _float(self, self._number_at(start), type)

    def _number_at(self, start: int) -> Span:
        input: Input[str] = self.lexer.input
        match = _NUMBER.match(input.content, start)
        return Span(start, start if match is None else match.end(), input)
