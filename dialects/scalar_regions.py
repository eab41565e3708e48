"""Regions of scalar computation with a short form, shared by tensor_ext, loop and tile.

`{arith.addf}` stands for a region whose block applies that one operation to its arguments in order; `{arith.addf,
arith.maximumf}` for a combiner that folds each of its values with its own operation. The region is always there in
memory; the short form is printing only.
"""

from __future__ import annotations

import math
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import cast

from xdsl.dialects.builtin import AnyFloat, ArrayAttr, FloatAttr, IntegerAttr, IntegerType
from xdsl.ir import Attribute, Block, Operation, Region, SSAValue
from xdsl.irdl import IRDLOperation
from xdsl.parser import Parser
from xdsl.printer import Printer
from xdsl.utils.exceptions import VerifyException

from deplodock.dialects.elements import WIDE, ui8

_FLOAT_IDENTITIES = {
    "arith.addf": 0.0,
    "arith.mulf": 1.0,
    "arith.maximumf": -math.inf,
    "arith.minimumf": math.inf,
}


def identity(op_name: str, type: Attribute) -> Attribute | None:
    """The identity of a scalar combiner such as `arith.addf` on `type`, or None where it has none."""
    if isinstance(type, AnyFloat):
        value = _FLOAT_IDENTITIES.get(op_name)
        return None if value is None else FloatAttr(value, type)
    if not isinstance(type, IntegerType):
        return None
    width = cast(IntegerType, type).width.data
    lowest, highest = (-1, 0) if width == 1 else (-(1 << (width - 1)), (1 << (width - 1)) - 1)
    values = {
        "arith.addi": 0,
        "arith.muli": 1,
        "arith.maxsi": lowest,
        "arith.minsi": highest,
        "arith.andi": -1,
        "arith.ori": 0,
        "arith.xori": 0,
    }
    value = values.get(op_name)
    return None if value is None else IntegerAttr(value, cast(IntegerType, type))


def _default_properties(op_class: type[Operation]) -> dict[str, Attribute]:
    if not issubclass(op_class, IRDLOperation):
        return {}
    definitions = op_class.get_irdl_definition().properties.items()
    return {name: prop.default_value for name, prop in definitions if prop.default_value is not None}


def _is_plain(op: Operation) -> bool:
    """Whether an operation is what its name alone says: no regions or attributes, properties at their defaults."""
    defaults = _default_properties(type(op))
    return not op.regions and not op.attributes and {**defaults, **op.properties} == defaults


def apply(op_class: type[Operation], operands: Sequence[SSAValue], result_type: Attribute) -> Operation:
    """Build the property-less scalar operation of a short form (properties at their defaults)."""
    return op_class.create(operands=operands, result_types=[result_type], properties=_default_properties(op_class))


def map_region(
    op_class: type[Operation], arg_types: Sequence[Attribute], result_type: Attribute, yield_class: type[Operation]
) -> Region:
    """The region `(args) { %r = op args; yield %r }`."""
    block = Block(arg_types=arg_types)
    op = apply(op_class, block.args, result_type)
    block.add_ops([op, yield_class.create(operands=op.results)])
    return Region(block)


def combiner_region(
    op_classes: Sequence[type[Operation]], types: Sequence[Attribute], yield_class: type[Operation]
) -> Region:
    """The region of a component-wise combiner: 2n arguments, first the accumulators, then the values."""
    block = Block(arg_types=[*types, *types])
    n = len(types)
    ops = [
        apply(op_class, (block.args[i], block.args[n + i]), type)
        for i, (op_class, type) in enumerate(zip(op_classes, types, strict=True))
    ]
    block.add_ops([*ops, yield_class.create(operands=[op.results[0] for op in ops])])
    return Region(block)


def derived_identity(op_classes: Sequence[type[Operation]], types: Sequence[Attribute]) -> ArrayAttr[Attribute] | None:
    """The identities of a component-wise combiner, or None where one operation has none."""
    values = [identity(op_class.name, type) for op_class, type in zip(op_classes, types, strict=True)]
    if any(value is None for value in values):
        return None
    return ArrayAttr(cast(list[Attribute], values))


def short_form(
    op_class: type[Operation], element: Attribute, yield_class: type[Operation]
) -> tuple[ArrayAttr[Attribute], Region]:
    """The identities and the combiner of one operation. Raises ValueError if it has no identity on the element type."""
    identities = derived_identity([op_class], [element])
    if identities is None:
        raise ValueError(f"{op_class.name} has no known identity on {element}")
    return identities, combiner_region([op_class], [element], yield_class)


def combiner_ops(combiner: Region) -> list[Operation] | None:
    """The operations of a component-wise combiner, one a value, or None if the combiner is not of that form."""
    block = combiner.block
    n = len(block.args) // 2
    *ops, terminator = block.ops
    if len(ops) != n or len(terminator.operands) != n or terminator.attributes:
        return None
    for i, op in enumerate(ops):
        operands = (block.args[i], block.args[n + i])
        if tuple(op.operands) != operands or len(op.results) != 1 or terminator.operands[i] is not op.results[0]:
            return None
        if not _is_plain(op):
            return None
    return ops


def mapped_op(region: Region) -> Operation | None:
    """The one operation that a region applies to its arguments in order, or None if the region is not of that form."""
    block = region.block
    if not block.args or len(block.ops) != 2:
        return None
    op, terminator = block.ops
    if (
        tuple(op.operands) != tuple(block.args)
        or len(op.results) != 1
        or terminator.attributes
        or tuple(terminator.operands) != tuple(op.results)
    ):
        return None
    return op if _is_plain(op) else None


@dataclass(frozen=True)
class OpName:
    """An operation named in a short form, and where its name stands in the text."""

    op_class: type[Operation]
    start: int
    end: int


def parse_op_names(parser: Parser) -> list[OpName] | None:
    """Parse `{arith.addf, ...}` if present, each the name of a registered operation."""
    if parser.parse_optional_punctuation("{") is None:
        return None
    ops: list[OpName] = []
    while not ops or parser.parse_optional_punctuation(","):
        start = parser.pos
        name = parser.parse_identifier(context_msg=": the name of a scalar operation such as arith.addf")
        op_class = parser.ctx.get_optional_op(name)
        if op_class is None:
            parser.raise_error(f"'{name}' is not a registered operation", start, start + len(name))
        ops.append(OpName(op_class, start, start + len(name)))
    parser.parse_punctuation("}")
    return ops


def parse_combiner(
    parser: Parser, ops: Sequence[OpName] | None, types: Sequence[Attribute], yield_class: type[Operation]
) -> tuple[Region, ArrayAttr[Attribute]]:
    """The combiner and identities of a reduction.

    They are those of the short form `ops`, or else spelled out: `combine (args) identity [..] {..}`.
    """
    if ops is None:
        parser.parse_keyword("combine", ": a reduction without {op} needs its combiner spelled out")
        args = parser.parse_comma_separated_list(parser.Delimiter.PAREN, parser.parse_argument)
        parser.parse_keyword("identity")
        values = parser.parse_comma_separated_list(parser.Delimiter.SQUARE, parser.parse_attribute)
        return parser.parse_region(args), ArrayAttr(values)
    if len(ops) != len(types):
        parser.raise_error(
            f"{len(ops)} combining operations for {len(types)} values; name one for each value",
            ops[0].start,
            ops[-1].end,
        )
    classes = [op.op_class for op in ops]
    combiner = combiner_region(classes, types, yield_class)
    _check_short_form(parser, ops, combiner, "`combine (..) identity [..] {..}`")
    identities = derived_identity(classes, types)
    if identities is None:
        names = ", ".join(op.op_class.name for op in ops)
        on = ", ".join(str(type) for type in types)
        parser.raise_error(
            f"no identity is known for {{{names}}} on ({on}); write `combine (..) identity [..] {{..}}`",
            ops[0].start,
            ops[-1].end,
        )
    return combiner, identities


def parse_mapped(
    parser: Parser, op: OpName, arg_types: Sequence[Attribute], result_type: Attribute, yield_class: type[Operation]
) -> Region:
    """The region that the short form `op` stands for, on these types."""
    region = map_region(op.op_class, arg_types, result_type, yield_class)
    _check_short_form(parser, [op], region, "the body as a region `(%x: f32, ..) {..}`")
    return region


def _check_short_form(parser: Parser, ops: Sequence[OpName], region: Region, instead: str) -> None:
    for op, applied in zip(ops, region.block.ops, strict=False):
        try:
            applied.verify()
        except VerifyException as error:
            types = ", ".join(str(operand.type) for operand in applied.operands)
            reason = " ".join(str(error).split())
            parser.raise_error(
                f"{op.op_class.name} on ({types}) has no short form ({reason}); write {instead}", op.start, op.end
            )


def short_combiner(combiner: Region, identities: ArrayAttr[Attribute]) -> list[str] | None:
    """The names to print as `{arith.addf, ...}`, or None if the combiner must be printed in full."""
    ops = combiner_ops(combiner)
    if ops is None:
        return None
    if derived_identity([type(op) for op in ops], [op.results[0].type for op in ops]) != identities:
        return None
    return [op.name for op in ops]


@contextmanager
def print_combiner(printer: Printer, combiner: Region, identities: ArrayAttr[Attribute]) -> Generator[None]:
    """Print ` {arith.addf, ...} ` before the body of a with, or ` combine (args) identity [..] {..}` behind it."""
    names = short_combiner(combiner, identities)
    printer.print_string(" " if names is None else f" {{{', '.join(names)}}} ")
    yield
    if names is not None:
        return
    printer.print_string(" combine ")
    with printer.in_parens():
        print_arguments(printer, combiner.block.args)
    printer.print_string(" identity ")
    with printer.in_square_brackets():
        printer.print_list(identities, printer.print_attribute)
    printer.print_string(" ")
    printer.print_region(combiner, print_entry_block_args=False)


def print_arguments(printer: Printer, arguments: Sequence[SSAValue]) -> None:
    """Print `%x: f32, %y: f32`, also with debug info without locations, which no parser of arguments reads."""

    def print_argument(argument: SSAValue) -> None:
        printer.print_ssa_value(argument)
        printer.print_string(": ")
        printer.print_attribute(argument.type)

    printer.print_list(arguments, print_argument)


def verify_combiner(
    combiner: Region, identities: ArrayAttr[Attribute], types: Sequence[Attribute], yield_class: type[Operation]
) -> None:
    """Check that a combiner takes 2n values, yields n, and has n identities of those types. Raises VerifyException."""
    arg_types = [arg.type for arg in combiner.block.args]
    if arg_types != [*types, *types]:
        wanted = ", ".join(str(type) for type in [*types, *types])
        raise VerifyException(f"the combiner must take the accumulators, then the values: ({wanted})")
    terminator = combiner.block.last_op
    wanted = ", ".join(str(type) for type in types)
    if not isinstance(terminator, yield_class) or [operand.type for operand in terminator.operands] != list(types):
        raise VerifyException(f"the combiner must end with {yield_class.name} of values of the types ({wanted})")
    if (unsigned := next((type for type in types if type == ui8), None)) is not None:
        raise VerifyException(f"{unsigned} has no constants, so no identity; reduce in {WIDE[unsigned]}")
    identity_types = [
        cast(Attribute, value.type) if isinstance(value, FloatAttr | IntegerAttr) else None for value in identities
    ]
    if identity_types != list(types):
        raise VerifyException(f"the reduction needs one identity for each result, of the types ({wanted})")
