"""Errors as messages: every tool prints `file:line:column: error: text` with the source line, never a traceback."""

import importlib.util
import os
import re
import signal
import sys
from collections.abc import Callable
from io import StringIO
from typing import NoReturn

from xdsl.dialects.builtin import FileLineColLoc, ModuleOp
from xdsl.ir import Attribute, Operation
from xdsl.printer import Printer
from xdsl.traits import SymbolTable
from xdsl.utils.exceptions import (
    ArgSpecParseError,
    DiagnosticException,
    MultipleSpansParseError,
    ParseError,
    VerifyException,
)
from xdsl.utils.lexer import Span

from deplodock.errors import DeviceError, InvalidInputError, missing_package

_MAX_EXCERPT_LINES = 12
_MAX_COLUMNS = 160
_RECURSION_LIMIT = 5000
"""Frames of Python. xDSL's parser takes ten for a region, so this reads about 450 of them, one in the other; the stack
of the main thread, 8 MB as a rule, holds as many even where each enters the interpreter anew."""


def run_tool(name: str, body: Callable[[], int | None]) -> NoReturn:
    """Run `body` and exit with its result; an expected error becomes a message on stderr and exit code 1.

    A closed output pipe (`| head`) ends the tool silently, as it ends other programs. Anything that is not an expected
    error is a bug of ours and keeps its traceback.
    """
    sys.setrecursionlimit(max(sys.getrecursionlimit(), _RECURSION_LIMIT))
    try:
        code = body() or 0
        sys.stdout.flush()
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(128 + signal.SIGPIPE)
    except KeyboardInterrupt:
        sys.exit(128 + signal.SIGINT)
    except DeviceError as error:
        # The GPU's context is dead: each thing that is freed on the way out would print a warning.
        print(describe(error, name), file=sys.stderr, flush=True)
        sys.stdout.flush()
        os._exit(1)
    except RecursionError as error:
        notes = [excerpt(note) for note in getattr(error, "__notes__", ())]
        print("\n".join([f"{name}: error: the program is nested too deeply", *notes]), file=sys.stderr)
        sys.exit(1)
    except MemoryError as error:
        print(f"{name}: error: there is not enough memory: {error or 'the program asks for too much'}", file=sys.stderr)
        sys.exit(1)
    except (DiagnosticException, ParseError, ArgSpecParseError, OSError) as error:
        print(describe(error, name), file=sys.stderr)
        sys.exit(1)
    except ModuleNotFoundError as error:
        if (reason := missing_package(error.name or "")) is None:
            raise
        print(f"{name}: error: {reason}", file=sys.stderr)
        sys.exit(1)
    sys.exit(code)


def require(package: str, extra: str | None = None) -> None:
    """Raise InvalidInputError if a package is not installed, with the extra that brings it, by default its own."""
    if importlib.util.find_spec(package) is None:
        raise InvalidInputError(missing_package(package, extra) or package)


def describe(error: BaseException, tool: str) -> str:
    """The message for an expected error: `LOCATION: error: text`; `tool` stands for a location that is not known."""
    match error:
        case ParseError():
            return _parse_message(error)
        case ArgSpecParseError():
            return _arg_spec_message(error)
        case OSError():
            return f"{tool}: error: {_os_message(error)}"
        case _:
            message = str(error) or type(error).__name__
            located = message if ": error: " in message.partition("\n")[0] else f"{tool}: error: {message}"
            return "\n".join([located, *(excerpt(note) for note in getattr(error, "__notes__", ()))])


def excerpt(note: str) -> str:
    """A note cut down to the lines that xDSL's diagnostics mark with carets, or to its first lines."""
    lines = note.rstrip().splitlines()
    if len(lines) <= _MAX_EXCERPT_LINES:
        return "\n".join(lines)
    marked = next((number for number, line in enumerate(lines) if re.match(r"\s*\^\^", line)), None)
    if marked is None:
        return "\n".join([*lines[:_MAX_EXCERPT_LINES], "..."])
    return "\n".join(lines[max(marked - 1, 0) : marked + 3])


def located(location: str, message: str, context: str = "") -> str:
    """The one form of a message with a location and the source line it points to."""
    return f"{location}: error: {message}\n{context}".rstrip()


def explain(error: VerifyException, module: ModuleOp, file: str, source: str, after: str | None) -> VerifyException:
    """A complete message for why `module`, read from the text `source` of `file`, does not verify.

    Args:
        error: what `module.verify()` raised; xDSL says neither which op it means nor where that is.
        module: the module, as it was then.
        file: the name of the file in messages.
        source: the text of that file.
        after: the pass that has just run, if any.
    """
    op = _failing_op(module)
    op = _second_symbol(op) or op
    location, context = _position(op, file, source)
    blame = "" if after is None else f" is invalid after pass {after}"
    explained = VerifyException(located(location, f"{op.name}{blame}: {error}", context))
    if after is not None or not context:
        explained.add_note(f"note: the operation is {_head_of(op)}")
    return explained


def decode(data: bytes, file: str) -> str:
    """Decode the UTF-8 text of `file`.

    Raises:
        InvalidInputError: some byte is not UTF-8; the message has its position.
    """
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        column = error.start - data.rfind(b"\n", 0, error.start)
        message = f"byte 0x{data[error.start]:02x} is not UTF-8 text; is this an IR file?"
        raise InvalidInputError(located(f"{file}:{line}:{column}", message)) from None


def _parse_message(error: ParseError) -> str:
    message = _at_span(error.span, f"error: {error.msg}")
    if not isinstance(error, MultipleSpansParseError):
        return message
    reference = error.ref_text or "see here"
    return "\n".join([message, *(_at_span(span, f"note: {text or reference}") for span, text in error.refs)])


def _at_span(span: Span[str] | Span[bytes], message: str) -> str:
    location, _, context = span.print_with_context().partition("\n")
    return f"{location}: {message}\n{_window(context)}".rstrip()


def _window(context: str) -> str:
    """Source lines with carets under them, cut to what is around the first caret where they are long."""
    lines = context.splitlines()
    if max(map(len, lines), default=0) <= _MAX_COLUMNS:
        return context
    first = min((line.index("^") for line in lines if line.strip().strip("^") == "" and "^" in line), default=0)
    start = max(first - _MAX_COLUMNS // 2, 0)
    return "\n".join(line[start : start + _MAX_COLUMNS] for line in lines)


def _arg_spec_message(error: ArgSpecParseError) -> str:
    """xDSL gives a title, the location, the pipeline with carets under it, and the message, a line each."""
    _, location, *context, message = str(error).rstrip().splitlines()
    return located(location, message.strip(), "\n".join(context))


def _os_message(error: OSError) -> str:
    reason = error.strerror or str(error)
    return f"{error.filename}: {reason}" if error.filename is not None else reason


def _failing_op(op: Operation) -> Operation:
    """The innermost op in `op`, which does not verify, that is to blame; children are tried in xDSL's order."""
    for child in (child for region in op.regions for block in region.blocks for child in block.ops):
        try:
            child.verify()
        except VerifyException:
            return _failing_op(child)
    return op


def _second_symbol(op: Operation) -> Operation | None:
    """The first op of a symbol table that has the name of another one before it."""
    names: set[Attribute] = set()
    for child in (child for region in op.regions for block in region.blocks for child in block.ops):
        name = child.get_attr_or_prop("sym_name") if op.has_trait(SymbolTable) else None
        if name is not None and name in names:
            return child
        if name is not None:
            names.add(name)
    return None


def _position(op: Operation, file: str, source: str) -> tuple[str, str]:
    """Where `op` stands in the source, and its line with a caret (empty if the op was not read from `file`)."""
    location = op.location
    if not isinstance(location, FileLineColLoc):
        return file, ""
    name, line, column = location.filename.data, location.line.data, location.column.data
    position = f"{name}:{line}:{column}"
    lines = source.split("\n")
    if name != file or line > len(lines):
        return position, ""
    return position, f"{lines[line - 1]}\n{' ' * (column - 1)}^"


def _head_of(op: Operation) -> str:
    """The first line of the op in generic form: all of it but its regions."""
    text = StringIO()
    Printer(stream=text, print_generic_format=True).print_op(op)
    return text.getvalue().partition("\n")[0]
