"""Reading IR text so that every op knows its position, as mlir-opt does; xDSL's own parser leaves it unknown."""

from __future__ import annotations

import math
import re
from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import IO, NoReturn

from xdsl.context import Context
from xdsl.dialects.builtin import (
    UNKNOWN_LOC,
    AnyDenseElement,
    AnyFloat,
    ComplexType,
    DenseIntOrFPElementsAttr,
    FileLineColLoc,
    IndexType,
    IntAttr,
    IntegerType,
    ModuleOp,
    RankedStructure,
    StringAttr,
)
from xdsl.frontend.mlir import MLIRFrontend
from xdsl.ir import AttributeInvT, Operation, SSAValue
from xdsl.parser import UnresolvedOperand
from xdsl.parser.generic_parser import ParserState
from xdsl.utils.exceptions import ParseError, VerifyException
from xdsl.utils.lexer import Input, Span
from xdsl.utils.mlir_lexer import MLIRLexer, MLIRToken, MLIRTokenKind

from deplodock.dialects.float_literals import FloatLiteralsParser
from deplodock.tools.aliases import AliasesParser
from deplodock.tools.checks import must_precede, overflow_of
from deplodock.tools.diagnostics import decode

MAX_CONSTANT = 1 << 26
"""The most elements of a constant in text: they take half a gigabyte while they are read."""

_LOOK = 32
"""The characters that are looked at behind a number."""
_EXPONENT = re.compile(r"[eE][-+]?[0-9]+\b")
_TYPED = re.compile(r"\s*:\s*[su]?i[0-9]+")
"""The type behind an integer, which says how many bits it has."""


class LinearLexer(MLIRLexer):
    """xDSL's lexer, which tries every way to cut an unterminated string in pieces; this one tries one."""

    _unescaped_characters_regex = re.compile(r'"(?:[^"\\\n\v\f]++|\\(?:["nt\\]|[0-9A-Fa-f]{2}))*+"')

    def lex(self) -> MLIRToken:
        """The next token. Raises a ParseError for a number of more bits than any that is computed with."""
        token = super().lex()
        if token.kind == MLIRTokenKind.INTEGER_LIT:
            behind = self.input.slice(token.span.end, min(token.span.end + _LOOK, self.input.len)) or ""
            if exponent := _EXPONENT.match(behind):
                message = f"a float has a point: {token.text}.0{exponent[0]}"
                raise ParseError(Span(token.span.start, token.span.end + exponent.end(), self.input), message)
            if int(token.text, 0) >> 64 and not _TYPED.match(behind):
                raise ParseError(token.span, f"{_cut(token.text)} does not fit i64")
        return token


def _cut(text: str) -> str:
    return text if len(text) <= _LOOK else f"{text[:_LOOK]}.."


class LocatingParser(AliasesParser, FloatLiteralsParser):
    """A parser that gives each op without a `loc(...)` its line and column, and errors the position of their cause."""

    def __init__(self, ctx: Context, text: str, file: str) -> None:
        super().__init__(ctx, "", file)
        self._parser_state = ParserState(LinearLexer(Input(text, file)))
        self._file = StringAttr(file)
        self._line_starts = [0, *accumulate(len(line) + 1 for line in text.split("\n"))]
        self._first_uses: dict[str, Span] = {}
        # Where a value is used that is not defined yet, by its name; then those that were defined after that.
        self._ahead: dict[str, Span] = {}
        self._late: list[tuple[Span, str, SSAValue]] = []
        self._op_start = 0
        self._constant_start: int | None = None

    def parse_module(self, allow_implicit_module: bool = True) -> ModuleOp:
        """Parse a module, empty if the text has no operations.

        Raises:
            ParseError: the text is wrong in any way; a value defined nowhere, or further down, is an error at its
                first use.
        """
        start = self.pos
        try:
            module = self._parse_implicit_module() if allow_implicit_module else super().parse_module(False)
        except ParseError:
            raise
        except Exception as error:
            self._refuse(error, self.pos)
        if module.location == UNKNOWN_LOC:
            module.location = self._location(start)
        self._check(module)
        return module

    def _check(self, module: ModuleOp) -> None:
        """Raise a ParseError for what no verifier of an operation sees."""
        for span, name, value in self._late:
            if must_precede(value):
                self.raise_error(f"value %{name} is used here, but defined further down: move its definition up", span)
        for op in module.walk():
            if message := overflow_of(op):
                self.raise_error(f"{op.name}: {message}", self._position(op))

    def _parse_implicit_module(self) -> ModuleOp:
        """Parse the whole text: operations, aliases and metadata."""
        operations: list[Operation] = []
        while (kind := self._current_token.kind) != MLIRTokenKind.EOF:
            if kind in (MLIRTokenKind.HASH_IDENT, MLIRTokenKind.EXCLAMATION_IDENT):
                self._parse_alias_def()
            elif kind == MLIRTokenKind.FILE_METADATA_BEGIN:
                self._parse_file_metadata_dictionary()
            else:
                operations.append(self.expect(self.parse_optional_operation, "an operation is expected here"))
        if (undefined := next(iter(self.forward_ssa_references), None)) is not None:
            self.raise_error(f"value %{undefined} is used here, but defined nowhere", self._first_uses[undefined])
        match operations:
            case [ModuleOp() as module]:
                return module
            case _:
                return ModuleOp(operations)

    def resolve_operand(self, operand: UnresolvedOperand, type: AttributeInvT) -> SSAValue[AttributeInvT]:
        """Resolve an operand, remembering where each value is used first."""
        self._first_uses.setdefault(operand.operand_name, operand.span)
        if operand.operand_name not in self.ssa_values:
            self._ahead.setdefault(operand.operand_name, operand.span)
        return super().resolve_operand(operand, type)

    def parse_operation(self) -> Operation:
        """Parse an operation and set its location.

        Raises:
            ParseError: the text is wrong, or an attribute or type in it does not verify.
        """
        start = self._op_start = self.pos
        try:
            op = super().parse_operation()
        except ParseError:
            raise
        except Exception as error:
            self._refuse(error, start)
        if op.location == UNKNOWN_LOC:
            op.location = self._location(start)
        return op

    def _refuse(self, error: Exception, start: int) -> NoReturn:
        """Raise a ParseError at a position for what parsers of attributes and operations raise besides ParseErrors."""
        match error:
            case VerifyException():
                message = str(error)
            case RecursionError():
                message = "this is nested too deeply to be read"
            case MemoryError():
                message = "there is not enough memory to read this"
            case UnicodeDecodeError():
                message = "a string in this holds bytes that are not UTF-8 text"
            case _:
                reason = " ".join(" ".join(map(str, error.args)).split())
                message = f"cannot read this operation: {reason or type(error).__name__}"
        raise ParseError(Span(start, start, self.lexer.input), message) from None

    def raise_error(
        self, msg: str, at_position: Span[str] | int | None = None, end_position: int | None = None
    ) -> NoReturn:
        """Raise a ParseError. What is missing where a token starts a line is missing behind the last token before."""
        token = self._current_token
        if msg == " in block definition":
            msg = "an operation or '}' is expected here"
        if at_position is None and self._constant_start is not None:
            at_position = self._constant_start
        elif at_position is None or at_position is token.span:
            end = self._end_before(token.span.start) if "expected" in msg.lower() else None
            at_position = token.span if end is None else end
        if end_position is not None:
            assert isinstance(at_position, int)
            super().raise_error(msg, at_position, end_position)
        super().raise_error(msg, at_position)

    def _end_before(self, position: int) -> int | None:
        """Where the last token in the lines before ends, if nothing but spaces stands before a position in its line."""
        content = self.lexer.input.content
        number = bisect_right(self._line_starts, position) - 1
        if content[self._line_starts[number] : position].strip():
            return None
        for start in reversed(self._line_starts[:number]):
            line, end = content[start : content.find("\n", start)], 0
            lexer = LinearLexer(Input(line, ""))
            try:
                while (token := lexer.lex()).kind != MLIRTokenKind.EOF:
                    end = token.span.end
            except ParseError:
                end = len(line.rstrip())
            if end:
                return start + end
        return None

    def _register_ssa_definition(self, name: str, values: Sequence[SSAValue], span: Span) -> None:
        """Define a name. Its hint has none of the numbers at its end: xDSL adds those, and would give `%x_1` to two."""
        super()._register_ssa_definition(name, values, span)
        if values and (use := self._ahead.pop(name, None)) is not None:
            self._late.append((use, name, values[0]))
        if name[-1].isdigit():
            for value in values:
                value.name_hint = re.sub(r"(_\d+)+$", "", value.name_hint or "") or None

    def _get_op_by_name(self, name: str) -> type[Operation]:
        """The class of an op; an unknown one is an error where the op starts, not after it."""
        found = self.ctx.get_optional_op(name, dialect_stack=self._parser_state.dialect_stack)
        if found is None:
            self.raise_error(f"operation {name} is not registered", at_position=self._op_start)
        return found

    def parse_dense_int_or_fp_elements_attr(
        self, type: RankedStructure[AnyDenseElement] | None
    ) -> DenseIntOrFPElementsAttr:
        """Parse a constant; what xDSL finds wrong behind its last token is an error at its first one."""
        self._constant_start = self.pos
        constant = super().parse_dense_int_or_fp_elements_attr(type)
        self._constant_start = None
        return constant

    def _parse_dense_literal_type(self) -> RankedStructure[IntegerType | IndexType | AnyFloat | ComplexType]:
        """Parse the type of a constant. xDSL holds all of its elements, also of a splat."""
        start = self.pos
        type = super()._parse_dense_literal_type()
        if (count := math.prod(type.get_shape())) > MAX_CONSTANT:
            self.raise_error(f"a constant has at most 2^26 elements, {type} has {count}", start)
        return type

    def _position(self, op: Operation) -> int:
        """Where an operation starts, or the function or module around it, if its location is in another text."""
        match op.location:
            case FileLineColLoc(filename=self._file, line=line, column=column):
                return self._line_starts[line.data - 1] + column.data - 1
            case _:
                return 0 if (parent := op.parent_op()) is None else self._position(parent)

    def _location(self, position: int) -> FileLineColLoc:
        line = bisect_right(self._line_starts, position)
        column = position - self._line_starts[line - 1] + 1
        return FileLineColLoc(self._file, IntAttr(line), IntAttr(column))


@dataclass(frozen=True)
class LocatingFrontend(MLIRFrontend):
    """xDSL's frontend for IR text, with positions."""

    name = "mlir"

    def parse(self, ctx: Context, input: IO[bytes], input_name: str = "input") -> ModuleOp:
        """Parse the whole text of a module.

        Raises:
            ParseError: the text is not IR.
            InvalidInputError: the text is not UTF-8.
        """
        text = decode(input.read(), input_name)
        return LocatingParser(ctx, text, input_name).parse_module(not self.no_implicit_module)
