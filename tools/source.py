"""Reading IR text so that every op knows its position, as mlir-opt does; xDSL's own parser leaves it unknown."""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import IO

from xdsl.context import Context
from xdsl.dialects.builtin import UNKNOWN_LOC, FileLineColLoc, IntAttr, ModuleOp, StringAttr
from xdsl.frontend.mlir import MLIRFrontend
from xdsl.ir import AttributeInvT, Operation, SSAValue
from xdsl.parser import UnresolvedOperand
from xdsl.parser.generic_parser import ParserState
from xdsl.utils.exceptions import ParseError, VerifyException
from xdsl.utils.lexer import Input, Span
from xdsl.utils.mlir_lexer import MLIRLexer, MLIRTokenKind

from deplodock.tools.diagnostics import decode
from deplodock.tools.float_literals import FloatLiteralsParser


class LinearLexer(MLIRLexer):
    """xDSL's lexer, which tries every way to cut an unterminated string in pieces; this one tries one."""

    _unescaped_characters_regex = re.compile(r'"(?:[^"\\\n\v\f]++|\\(?:["nt\\]|[0-9A-Fa-f]{2}))*+"')


class LocatingParser(FloatLiteralsParser):
    """A parser that gives each op without a `loc(...)` its line and column, and errors the position of their cause."""

    def __init__(self, ctx: Context, text: str, file: str) -> None:
        super().__init__(ctx, "", file)
        self._parser_state = ParserState(LinearLexer(Input(text, file)))
        self._file = StringAttr(file)
        self._line_starts = [0, *accumulate(len(line) + 1 for line in text.split("\n"))]
        self._first_uses: dict[str, Span] = {}
        self._op_start = 0

    def parse_module(self, allow_implicit_module: bool = True) -> ModuleOp:
        """Parse a module, empty if the text has no operations; a value defined nowhere is an error at its first use."""
        if allow_implicit_module and self._current_token.kind == MLIRTokenKind.EOF:
            return ModuleOp([])
        try:
            return super().parse_module(allow_implicit_module)
        except ParseError:
            undefined = next(iter(self.forward_ssa_references), None)
            if undefined is None or self._current_token.kind != MLIRTokenKind.EOF:
                raise
            span = self._first_uses[undefined]
            raise ParseError(span, f"value %{undefined} is used here, but defined nowhere") from None

    def resolve_operand(self, operand: UnresolvedOperand, type: AttributeInvT) -> SSAValue[AttributeInvT]:
        """Resolve an operand, remembering where each value is used first."""
        self._first_uses.setdefault(operand.operand_name, operand.span)
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
        except VerifyException as error:
            self.raise_error(str(error), at_position=start)
        except (ValueError, TypeError, ArithmeticError, NotImplementedError, RecursionError) as error:
            reason = " ".join(map(str, error.args))
            self.raise_error(f"cannot read this operation: {reason}", at_position=start)
        if op.location == UNKNOWN_LOC:
            op.location = self._location(start)
        return op

    def _register_ssa_definition(self, name: str, values: Sequence[SSAValue], span: Span) -> None:
        """Define a name. Its hint has none of the numbers at its end: xDSL adds those, and would give `%x_1` to two."""
        super()._register_ssa_definition(name, values, span)
        if name[-1].isdigit():
            for value in values:
                value.name_hint = re.sub(r"(_\d+)+$", "", value.name_hint or "") or None

    def _get_op_by_name(self, name: str) -> type[Operation]:
        """The class of an op; an unknown one is an error where the op starts, not after it."""
        found = self.ctx.get_optional_op(name, dialect_stack=self._parser_state.dialect_stack)
        if found is None:
            self.raise_error(f"operation {name} is not registered", at_position=self._op_start)
        return found

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
