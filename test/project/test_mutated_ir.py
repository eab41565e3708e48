"""Damaged IR text is refused with one message: no traceback, no hang. DEPLODOCK_FUZZ_FACTOR multiplies the count."""

from __future__ import annotations

import os
import random
import re
import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from deplodock.tools.diagnostics import run_tool
from deplodock.tools.opt import OptMain

FACTOR = int(os.environ.get("DEPLODOCK_FUZZ_FACTOR", "1"))
SEED = int(os.environ.get("DEPLODOCK_FUZZ_SEED", "0"))
COUNT = 250 * FACTOR
LIMIT = 5.0
"""The seconds of a core that one file may take."""

TOKEN = re.compile(r"[%@#!^]?[\w.$]+|\"[^\"\n]*\"|->|[^\w\s]")
NUMBERS = [
    "-1",
    "0",
    "4294967296",
    "0xff800000",
    "dense<0x7fc0>",
    "9" * 30,
    "9" * 5000,
    "0x7fffffffffffffff",
    "1.0e999",
    "-0.0",
    "1e",
]


LAYOUTS = [
    *("strided<[-1]>", "strided<[0]>", "strided<[1], offset: ?>", "strided<[8, 1]>, #tile.memory<shared>", "3"),
    *("#tile.swizzle<128>, #tile.memory<shared>", "affine_map<(d0) -> (d0)>", "strided<[9, 1], offset: -3>"),
]


class HangError(Exception):
    """A file took longer than LIMIT."""


@contextmanager
def time_limit() -> Iterator[None]:
    def expire(*_: object) -> None:
        raise HangError

    previous = signal.signal(signal.SIGPROF, expire)
    signal.setitimer(signal.ITIMER_PROF, LIMIT)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
        signal.signal(signal.SIGPROF, previous)


def pieces(repository: Path) -> list[str]:
    """The texts of all lit tests, cut where `--split-input-file` cuts them."""
    paths = sorted((repository / "test").rglob("*.mlir"))
    return [piece for path in paths for piece in path.read_text().split("// -----") if "{" in piece]


def mutate(text: str, draw: random.Random) -> bytes:
    """One to three damages of a text."""
    data = text.encode()
    for _ in range(draw.randint(1, 3)):
        data = draw.choice(MUTATIONS)(data, draw)
    return data


def flip_bytes(data: bytes, draw: random.Random) -> bytes:
    damaged = bytearray(data)
    for _ in range(draw.randint(1, 4)):
        damaged[draw.randrange(len(damaged))] = draw.randrange(256)
    return bytes(damaged)


def truncate(data: bytes, draw: random.Random) -> bytes:
    return data[: draw.randrange(1, len(data) + 1)]


def edit_token(data: bytes, draw: random.Random) -> bytes:
    """Delete, double or swap a token, or put another in its place."""
    text = data.decode("utf-8", "replace")
    tokens = list(TOKEN.finditer(text))
    if not tokens:
        return data
    here, other = draw.choice(tokens), draw.choice(tokens)
    put = draw.choice(["", f"{here[0]} {here[0]}", other[0], draw.choice(NUMBERS)])
    return (text[: here.start()] + put + text[here.end() :]).encode()


def edit_number(data: bytes, draw: random.Random) -> bytes:
    text = data.decode("utf-8", "replace")
    numbers = list(re.finditer(r"\b\d+\b", text))
    if not numbers:
        return data
    here = draw.choice(numbers)
    return (text[: here.start()] + draw.choice(NUMBERS) + text[here.end() :]).encode()


def edit_type(data: bytes, draw: random.Random) -> bytes:
    """Give a buffer another layout or memory space, a tensor another extent, or put an alias in the place of a type."""
    text = data.decode("utf-8", "replace")
    types = list(re.finditer(r"(?:memref|tensor)<[\dx?]*[a-z]+\d*", text))
    if not types:
        return data
    here = draw.choice(types)
    put = draw.choice([*(f"{here[0]}, {part}" for part in LAYOUTS), f"{here[0][:-3]}x4xf32", "!t", "#a"])
    aliases = draw.choice(["", f"\n!t = {here[0]}>\n#a = loc(#b)\n#b = loc(unknown)\n"])
    return (text[: here.start()] + put + text[here.end() :] + aliases).encode()


def edit_lines(data: bytes, draw: random.Random) -> bytes:
    """Delete a line, or put a copy of it elsewhere."""
    lines = data.split(b"\n")
    line = lines.pop(draw.randrange(len(lines)))
    if draw.random() < 0.5:
        lines.insert(draw.randint(0, len(lines)), line)
    return b"\n".join(lines) or b" "


def nest(data: bytes, draw: random.Random) -> bytes:
    depth = draw.choice([10, 300, 3000])
    opened, closed = draw.choice([(b"builtin.module {", b"}"), (b"(", b")"), (b"[", b"]"), (b"affine_map<", b">")])
    position = draw.randint(0, len(data))
    return data[:position] + opened * depth + closed * depth + data[position:]


def encode(data: bytes, draw: random.Random) -> bytes:
    return draw.choice([data.replace(b"\n", b"\r\n"), b"\xef\xbb\xbf" + data, data + b"\x00", data + b"\xc3"])


MUTATIONS = [flip_bytes, truncate, edit_token, edit_token, edit_number, edit_type, edit_lines, nest, encode]
PIPELINES = [
    "",
    "canonicalize",
    "tileify,stage-inputs",
    "choose-schedule,tileify,blockify-launch,register-tile",
    "materialize",
    "decompose,form-kernels,lower-to-loops",
    "verify-barriers,verify-resources",
]


def failure(path: Path, pipeline: str, capsys: pytest.CaptureFixture[str]) -> str | None:
    """What is wrong with how the tool takes a file, if anything."""
    sys.setrecursionlimit(1000)
    try:
        with time_limit():
            run_tool("deplodock-opt", lambda: OptMain([str(path), "-p", pipeline]).run())
    except SystemExit as end:
        captured = capsys.readouterr()
        if end.code not in (0, 1):
            return f"exit code {end.code}"
        heads = re.findall(
            rf"^(?:{re.escape(str(path))}\S*|deplodock-opt|pass-pipeline\S*): error: ", captured.err, re.MULTILINE
        )
        if end.code == 1 and len(heads) != 1:
            return f"not one message: {captured.err[:300]!r}"
        return None
    except HangError:
        return f"takes over {LIMIT} s"
    except Exception as error:
        frame = error.__traceback__
        while frame is not None and frame.tb_next is not None:
            frame = frame.tb_next
        place = "" if frame is None else f"{frame.tb_frame.f_code.co_filename}:{frame.tb_lineno}"
        return f"{type(error).__name__}: {str(error)[:200]} at {place}"
    return "does not exit"


def test_damaged_files_are_refused_with_a_message(
    repository: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    texts, draw, path = pieces(repository), random.Random(SEED), tmp_path / "in.mlir"
    for number in range(COUNT):
        data, pipeline = mutate(draw.choice(texts), draw), draw.choice(PIPELINES)
        path.write_bytes(data)
        found = failure(path, pipeline, capsys)
        assert found is None, f"file {number} of seed {SEED}, -p '{pipeline}': {found}\n{data[:3000]!r}"
