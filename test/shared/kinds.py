"""The kinds of kernels in test/gpu/kinds.toml."""

from __future__ import annotations

import tomllib
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class Kind:
    """A program that has one kind of kernel, the schedule of its kernels if not their own, and where they stream."""

    name: str
    text: str
    schedule: str | None = None
    stream: str | None = None

    def __str__(self) -> str:
        return self.name


def _kinds() -> list[Kind]:
    table = tomllib.loads((Path(__file__).parents[1] / "gpu" / "kinds.toml").read_text(encoding="utf-8"))
    programs = [Kind(name, text) for name, text in table.pop("programs").items()]
    forms = [
        Kind(f"{of}_{name}", form["text"], schedule, form.get("stream"))
        for of, form in table.items()
        for name, schedule in form["schedules"].items()
    ]
    return programs + forms


KINDS = _kinds()
