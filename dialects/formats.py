"""Declared syntax: the directives that the formats of operations use, and when a format is compiled.

A format says an operation's text once, for reading and for printing:

    assembly_format = "$source custom<Subscripts>($indices, $map) attr-dict `:` custom<Memref>(type($source))"

All operations know the directives of this file. Those with a header and a region read and print themselves.

A dialect may have several files: those of what only some programs have are imported when that is first named.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from typing import Any, TypeVar, cast

from xdsl.dialects.builtin import AffineMapAttr, MemRefType, StringAttr
from xdsl.ir import Attribute, Block, Dialect, Operation, Region
from xdsl.ir.affine import AffineExpr, AffineMap
from xdsl.irdl import IRDLOperation, irdl_op_definition
from xdsl.irdl.declarative_assembly_format import (
    AttributeVariable,
    CustomDirective,
    FormatProgram,
    ParsingState,
    PrintingState,
    TypeDirective,
    VariadicOperandVariable,
    irdl_custom_directive,
)
from xdsl.parser import Parser, UnresolvedOperand
from xdsl.printer import Printer

from deplodock.dialects.affine_syntax import AffineReader, AffineWriter
from deplodock.loading import loaded


@irdl_custom_directive
class AffineDirective(CustomDirective):
    """Affine expressions over index operands, whose map is a property."""

    indices: VariadicOperandVariable
    map: AttributeVariable

    is_spaced = True
    """Whether a space comes before."""
    as_symbols = False
    """Whether the operands are symbols, and bare `d<i>` the dimensions."""

    @staticmethod
    def read(reader: AffineReader, /) -> Sequence[AffineExpr]:
        """Read the results of the map."""
        raise NotImplementedError

    @staticmethod
    def write(writer: AffineWriter, results: Sequence[AffineExpr], /) -> None:
        """Print the results of the map."""
        raise NotImplementedError

    def parse(self, parser: Parser, state: ParsingState) -> None:
        known = state.operands[self.indices.index] or ()
        reader = AffineReader(parser, self.as_symbols, {(one.operand_name, one.index): one for one in known})
        self.map.set(state, AffineMapAttr(reader.map(self.read(reader))))
        self.indices.set(state, reader.unresolved)

    def print(self, printer: Printer, state: PrintingState, op: IRDLOperation) -> None:
        if self.is_spaced:
            state.print_whitespace(printer)
        map = self.map.get(op)
        assert isinstance(map, AffineMapAttr)
        self.write(AffineWriter(printer, self.indices.get(op), self.as_symbols), map.data.results)

    def is_anchorable(self) -> bool:
        return True

    def is_present(self, op: IRDLOperation) -> bool:
        return self.map.is_present(op)

    def set_empty(self, state: ParsingState) -> None:
        self.indices.set_empty(state)


class Subscripts(AffineDirective):
    """`[expr, ...]`, directly behind an operand."""

    is_spaced = False
    read = staticmethod(AffineReader.subscripts)
    write = staticmethod(AffineWriter.subscripts)


class MatrixSubscripts(Subscripts):
    """`[expr, ...]` over the coordinates `d0` and `d1` of a matrix and the operands, directly behind an operand."""

    as_symbols = True
    rank = 2

    def parse(self, parser: Parser, state: ParsingState) -> None:
        pos = parser.pos
        super().parse(parser, state)
        set_coordinates(parser, state, (self.map,), self.rank, pos)


class VectorSubscripts(MatrixSubscripts):
    """`[expr, ...]` over the coordinate `d0` of a vector and the operands, directly behind an operand."""

    rank = 1


class Subscript(Subscripts):
    """`[expr]`, directly behind an operand."""

    read = staticmethod(AffineReader.subscript)


class Condition(AffineDirective):
    """`lhs < rhs`."""

    read = staticmethod(AffineReader.condition)
    write = staticmethod(AffineWriter.condition)


class Conditions(AffineDirective):
    """`(lhs < rhs, ...)`."""

    read = staticmethod(AffineReader.conditions)
    write = staticmethod(AffineWriter.conditions)


class Index(AffineDirective):
    """`expr`."""

    read = staticmethod(AffineReader.single)
    write = staticmethod(AffineWriter.bound)


@irdl_custom_directive
class Word(CustomDirective):
    """A word, which is a property."""

    word: AttributeVariable

    def parse(self, parser: Parser, state: ParsingState) -> None:
        self.word.set(state, StringAttr(parser.parse_identifier()))

    def print(self, printer: Printer, state: PrintingState, op: IRDLOperation) -> None:
        word = self.word.get(op)
        assert isinstance(word, StringAttr)
        state.print_whitespace(printer)
        printer.print_string(word.data)


@irdl_custom_directive
class Memref(CustomDirective):
    """A type that must be a memref."""

    type: TypeDirective

    def parse(self, parser: Parser, state: ParsingState) -> None:
        self.type.set(state, [parse_memref(parser)])

    def print(self, printer: Printer, state: PrintingState, op: IRDLOperation) -> None:
        self.type.print(printer, state, op)


@irdl_custom_directive
class TypePair(CustomDirective):
    """A type, and another one that follows from it and is not written."""

    type: TypeDirective
    other: TypeDirective

    @staticmethod
    def read(parser: Parser) -> tuple[Attribute, Attribute]:
        """Read the first type; give both."""
        raise NotImplementedError

    def parse(self, parser: Parser, state: ParsingState) -> None:
        type, other = self.read(parser)
        self.type.set(state, [type])
        self.other.set(state, [other])

    def print(self, printer: Printer, state: PrintingState, op: IRDLOperation) -> None:
        self.type.print(printer, state, op)


class MemrefOf(TypePair):
    """The type of a memref, and that of its elements."""

    @staticmethod
    def read(parser: Parser) -> tuple[Attribute, Attribute]:
        type = parse_memref(parser)
        return type, type.element_type


class SameType(TypePair):
    """One type of two values."""

    @staticmethod
    def read(parser: Parser) -> tuple[Attribute, Attribute]:
        type = parser.parse_type()
        return type, type


def set_coordinates(
    parser: Parser, state: ParsingState, variables: Sequence[AttributeVariable], rank: int, pos: int
) -> None:
    """Give maps over coordinates and operands, read without their rank, as many dimensions, and all the operands."""
    given = {variable.name: state.properties.get(variable.name) for variable in variables}
    maps = {name: attribute.data for name, attribute in given.items() if isinstance(attribute, AffineMapAttr)}
    operands = max(map.num_symbols for map in maps.values())
    used = max((dim for map in maps.values() for expr in map.results for dim in expr.used_dims()), default=-1)
    if used >= rank:
        parser.raise_error(f"d{used} is not one of the coordinates, of which there are {rank}", pos)
    for name, map in maps.items():
        state.properties[name] = AffineMapAttr(AffineMap(rank, operands, map.results))


def parse_memref(parser: Parser) -> MemRefType[Attribute]:
    """Parse a type that must be a memref."""
    pos = parser.pos
    type = parser.parse_type()
    if not isinstance(type, MemRefType):
        parser.raise_error(f"expected a memref type, got {type}", pos)
    return cast(MemRefType[Attribute], type)


def parse_attributes(parser: Parser) -> dict[str, Attribute]:
    """Parse `attributes {..}`, which may be left out."""
    attributes = parser.parse_optional_attr_dict_with_keyword()
    return {} if attributes is None else dict(attributes.data)


def parse_operands(parser: Parser) -> list[UnresolvedOperand]:
    """Parse `%x, %y, ...`, or nothing."""
    optional, one = parser.parse_optional_unresolved_operand, parser.parse_unresolved_operand
    return parser.parse_optional_undelimited_comma_separated_list(optional, one) or []


def parse_types(parser: Parser) -> list[Attribute]:
    """Parse `type, type, ...`, or nothing."""
    optional, one = parser.parse_optional_type, parser.parse_type
    return [*(parser.parse_optional_undelimited_comma_separated_list(optional, one) or ())]


def parse_body(parser: Parser, arguments: Sequence[Parser.Argument] = ()) -> tuple[Region, dict[str, Attribute]]:
    """Parse what follows a header: attributes, and a region of one block with these arguments, which may be `{}`."""
    attributes, body = parse_attributes(parser), parser.parse_region(arguments)
    if not body.blocks:
        body.add_block(Block())
    return body, attributes


def print_body(printer: Printer, op: IRDLOperation, body: Region) -> None:
    """Print what follows a header: ` attributes {..} {..}`."""
    printer.print_op_attributes(op.attributes, print_keyword=True)
    printer.print_string(" ")
    printer.print_region(body, print_entry_block_args=False, print_empty_block=False)


DIRECTIVES = (
    *(Subscripts, Subscript, MatrixSubscripts, VectorSubscripts, Index, Condition, Conditions),
    *(Word, Memref, MemrefOf, SameType),
)
"""The directives that every format may use."""

_Op = TypeVar("_Op", bound=IRDLOperation)


def op_definition(cls: type[_Op]) -> type[_Op]:
    """Define an operation as `irdl_op_definition` does, but compile its format when it is first read or printed.

    A program uses a few of the operations: the formats of all would take a good part of the start of deplodock-opt.
    """
    text, cls.assembly_format = cls.assembly_format, None
    irdl_op_definition(cls)
    if text is None:
        return cls
    definition = cls.get_irdl_definition()
    definition.assembly_format = cls.assembly_format = text
    definition.custom_directives |= {directive.__name__: directive for directive in DIRECTIVES}

    @cache
    def program() -> FormatProgram:
        return FormatProgram.from_str(text, definition)

    def parse(cls: type[_Op], parser: Parser) -> _Op:
        return program().parse(parser, cls)

    def print(self: IRDLOperation, printer: Printer) -> None:
        program().print(printer, self)

    for name, method in {"parse": classmethod(parse), "print": print}.items():
        setattr(cls, name, method)
    return cls


def dialect_of(
    package: str, variable: str, dialect: str, own: Sequence[type[Any]], files: Mapping[str, str]
) -> Callable[[str], Any]:
    """The `__getattr__` of the package of a dialect.

    It has the names of other files, and the dialect as a variable, which imports them all.

    Args:
        package: the package's name.
        variable: the variable's name.
        dialect: the dialect's name.
        own: the operations, attributes and types that are imported with the package.
        files: those of each other file, as words; the dialect has them in this order, behind its own.
    """
    places = {name: f"{package}.{file}:{name}" for file, names in files.items() for name in names.split()}

    @cache
    def attribute(name: str) -> Any:
        if name in places:
            return loaded(places[name])
        if name != variable:
            raise AttributeError(f"module {package!r} has no attribute {name!r}", name=name, obj=sys.modules[package])
        found: list[type[Any]] = [*own, *map(loaded, places.values())]
        operations = [one for one in found if issubclass(one, Operation)]
        return Dialect(dialect, operations, [one for one in found if issubclass(one, Attribute)])

    return attribute
