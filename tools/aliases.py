"""Aliases of attributes, types and locations that are used before the line that defines them.

mlir-opt prints the aliases of locations behind the module; here any alias may stand anywhere among the operations.
"""

from __future__ import annotations

from typing import Literal, overload

from xdsl.context import Context
from xdsl.dialects.builtin import FusedLoc, LocationAttr
from xdsl.ir import Attribute, TypeAttribute
from xdsl.parser import Parser
from xdsl.utils.exceptions import ParseError
from xdsl.utils.mlir_lexer import MLIRTokenKind

_ALIASES = (MLIRTokenKind.HASH_IDENT, MLIRTokenKind.EXCLAMATION_IDENT)


class AliasesParser(Parser):
    """A parser that looks for an alias it does not know in the rest of the text."""

    def __init__(self, ctx: Context, input: str | bytes, name: str = "<unknown>") -> None:
        super().__init__(ctx, input, name)
        self._definitions: dict[str, int] | None = None
        self._open: list[str] = []

    @overload
    def _parse_extended_type_or_attribute(self, attr_or_dialect_name: str, is_type: Literal[False]) -> Attribute: ...

    @overload
    def _parse_extended_type_or_attribute(self, attr_or_dialect_name: str, is_type: Literal[True]) -> TypeAttribute: ...

    def _parse_extended_type_or_attribute(self, attr_or_dialect_name: str, is_type: bool) -> Attribute:
        alias = f"{'!' if is_type else '#'}{attr_or_dialect_name}"
        is_alias = "." not in alias and self._current_token.kind != MLIRTokenKind.LESS
        if is_alias and alias not in self.attribute_aliases:
            self._define_ahead(alias)
        return super()._parse_extended_type_or_attribute(attr_or_dialect_name, is_type)

    def _parse_alias_def(self) -> None:
        """Parse the definition of an alias; one that was looked up before its line is defined already."""
        name, start = self._current_token.text, self._current_token.span.start
        if self._definitions is not None and self._definitions.get(name) == start:
            self.attribute_aliases.pop(name, None)
        self._open.append(name)
        super()._parse_alias_def()
        self._open.pop()

    def _define_ahead(self, alias: str) -> None:
        """Define an alias by a line further down."""
        if self._definitions is None:
            self._definitions = self._find_definitions()
        here, start = self.pos, self._definitions.get(alias)
        name = self.lexer.input.content.rfind(alias, 0, here)
        if alias in self._open:
            self.raise_error(f"the alias {alias} is defined by itself", name, name + len(alias))
        if start is None:
            self.raise_error(f"no line defines the alias {alias}", name, name + len(alias))
        self._resume_from(start)
        self._parse_alias_def()
        self._resume_from(here)

    def _find_definitions(self) -> dict[str, int]:
        """Where the rest of the text defines aliases: at a name with an equals sign behind it."""
        here, found, last = self.pos, dict[str, int](), None
        try:
            while self._current_token.kind != MLIRTokenKind.EOF:
                token = self._consume_token()
                if last is not None and token.kind == MLIRTokenKind.EQUAL:
                    found.setdefault(last.text, last.span.start)
                last = token if token.kind in _ALIASES else None
        except ParseError:
            # A text that ends in no token is refused where the parser comes to it.
            pass
        self._resume_from(here)
        return found

    def _parse_location(self) -> LocationAttr:
        """Parse a location; of a fused one, with the metadata `fused<"inlined">[..]` that xDSL's parser lacks."""
        start = self.pos
        if self.parse_optional_keyword("fused") and self.parse_optional_punctuation("<"):
            metadata = self.parse_attribute()
            self.parse_punctuation(">")
            parts = self.parse_comma_separated_list(self.Delimiter.SQUARE, self._parse_location)
            return FusedLoc(tuple(parts), metadata)
        self._resume_from(start)
        return super()._parse_location()
