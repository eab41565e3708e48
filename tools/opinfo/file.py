"""The file of outcomes that are expected of PyTorch's operator database: a line for each operation.

    # PyTorch 2.13.0
    add: float32 bfloat16 int64 ......, bool .....a
      a: aten.add.Tensor with alpha=True is not supported

A character stands for each sample, in order: `.` right, `-` left out, `!` a failure, a letter refused for that reason.
"""

from __future__ import annotations

import string
from collections.abc import Iterator, Mapping, Sequence

from deplodock.tools.opinfo.samples import FAILURES, SampleKind, SampleOutcome

Outcomes = Mapping[str, Mapping[str, Sequence[SampleOutcome]]]
"""The outcomes of the samples of an element type of an operation."""

_HEADING = """\
# What becomes of the samples of PyTorch's operator database in `deplodock.compile`, as expected.
# Written by `python -m deplodock.tools.opinfo --update`. For each operation its element types and, for each sample,
# `.` right, `-` left out, `!` a failure, or the letter of the reason for which it is refused.
"""
_VERSION = "# PyTorch "
_MARKS = {
    ".": SampleOutcome(SampleKind.RIGHT),
    "-": SampleOutcome(SampleKind.LEFT_OUT),
    "!": SampleOutcome(SampleKind.WRONG),
}


def written(version: str, outcomes: Outcomes) -> str:
    """The text of a file of outcomes that were found with a version of PyTorch."""
    lines = [_HEADING + _VERSION + version, ""]
    for name, types in sorted(outcomes.items()):
        lines += _entry(name, types) if types else []
    return "\n".join(lines) + "\n"


def read(text: str) -> tuple[str, dict[str, dict[str, list[SampleOutcome]]]]:
    """The version of PyTorch that a file was made with, and its outcomes as `kept` leaves them.

    Raises ValueError if the text is no such file.
    """
    version = ""
    outcomes: dict[str, dict[str, list[SampleOutcome]]] = {}
    reasons: dict[str, str] = {}
    marks: list[tuple[dict[str, list[SampleOutcome]], str, str, dict[str, str]]] = []
    for number, line in enumerate(text.splitlines(), 1):
        head, colon, rest = line.partition(": ")
        if line.startswith("#") or not line:
            version = line.removeprefix(_VERSION) if line.startswith(_VERSION) else version
        elif not colon:
            raise ValueError(f"line {number}: neither the outcomes of an operation nor a reason: {line}")
        elif line.startswith(" "):
            reasons[head.strip()] = rest
        else:
            reasons, types = {}, outcomes.setdefault(head, {})
            for part in rest.split(", "):
                *names, marked = part.split()
                marks += [(types, name, marked, reasons) for name in names]
    for types, name, marked, why in marks:
        types[name] = [_MARKS.get(mark) or SampleOutcome(SampleKind.REFUSED, why[mark]) for mark in marked]
    return version, outcomes


def kept(outcome: SampleOutcome) -> SampleOutcome:
    """What a file keeps of an outcome: of those that are not refused, no reason."""
    return outcome if outcome.kind is SampleKind.REFUSED else _MARKS[_mark(outcome)]


def _mark(outcome: SampleOutcome) -> str:
    return "!" if outcome.kind in FAILURES else "." if outcome.kind is SampleKind.RIGHT else "-"


def _entry(name: str, types: Mapping[str, Sequence[SampleOutcome]]) -> Iterator[str]:
    """The lines of an operation; types of the same outcomes share a place."""
    refused = [outcome for found in types.values() for outcome in found if outcome.kind is SampleKind.REFUSED]
    letters = dict(zip(dict.fromkeys(outcome.reason for outcome in refused), string.ascii_letters, strict=False))
    shared: dict[str, list[str]] = {}
    for kind, found in types.items():
        marks = "".join(letters[o.reason] if o.kind is SampleKind.REFUSED else _mark(o) for o in found)
        shared.setdefault(marks, []).append(kind)
    yield f"{name}: " + ", ".join(" ".join([*kinds, marks]) for marks, kinds in shared.items())
    yield from (f"  {letter}: {reason}" for reason, letter in letters.items())
