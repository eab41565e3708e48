"""The options of the backend of `torch.compile`, checked."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

from xdsl.utils.exceptions import DiagnosticException

from deplodock.analysis.machine.targets import target
from deplodock.dialects.precision import check_precision
from deplodock.errors import InvalidInputError
from deplodock.frontend.precision import matmul_precision
from deplodock.passes.tile.rule import read_schedule
from deplodock.pytorch.shapes import MAX_SHAPES
from deplodock.runtime.dump import make_folder
from deplodock.runtime.tuned import read_tuned

DUMP = "DEPLODOCK_DUMP"
"""The environment variable that names the folder of what programs become where no option does."""


@dataclass(frozen=True)
class BackendOptions:
    """How the programs of a call of `torch.compile` are compiled.

    `target`, `schedule`, `precision`, `tuned` and `max_shapes` are those of `deplodock.compile`; `dump` is a folder
    for what each graph becomes, by default that of the environment variable `DEPLODOCK_DUMP`, if it is set.
    """

    target: str | None = None
    schedule: str | None = None
    precision: str | None = None
    tuned: str | None = None
    dump: str | None = None
    max_shapes: int = MAX_SHAPES

    def __post_init__(self) -> None:
        """Raises InvalidInputError for a precision that there is not."""
        if self.precision is not None:
            check_precision(self.precision)

    @property
    def precision_now(self) -> str:
        """The precision that a program has which is compiled now: by default what PyTorch is set to."""
        return matmul_precision() if self.precision is None else self.precision

    @property
    def folder(self) -> Path | None:
        """The folder of what each graph becomes, None without one."""
        name = os.environ.get(DUMP) if self.dump is None else self.dump
        return Path(name) if name else None


def check_tuned(options: BackendOptions) -> None:
    """Raise InvalidInputError where a file of tuned schedules cannot be read, or there is a schedule, too."""
    if options.tuned is not None:
        if options.schedule is not None:
            raise InvalidInputError("schedule is for every kernel, so nothing is left for tuned: give one of them")
        read_tuned(Path(options.tuned))


def check_max_shapes(value: object) -> None:
    """Raise InvalidInputError if a value is no number of sets of shapes to keep."""
    if type(value) is not int or value < 1:
        raise InvalidInputError(f"max_shapes must be a number of sets of shapes, 1 or more, got {value!r}")


def read_options(mode: str | None, options: Mapping[str, Any] | None) -> BackendOptions:
    """The options given to `torch.compile`. Raises InvalidInputError for a mode, an option or a value there is not."""
    if mode not in (None, "default"):
        raise InvalidInputError(f'deplodock has no mode {mode!r}; leave mode out, or give "default"')
    names = [field.name for field in fields(BackendOptions)]
    for name, value in (options or {}).items():
        if name not in names:
            raise InvalidInputError(f"deplodock has no option {name!r}; there are {', '.join(names)}")
        if name == "max_shapes":
            check_max_shapes(value)
        elif not isinstance(value, str | Path | None):
            raise InvalidInputError(f"the option {name} must be text, got {value!r}")
    found = {name: str(value) if isinstance(value, Path) else value for name, value in (options or {}).items()}
    given = BackendOptions(**found)
    if given.target is not None:
        target(given.target)
    if given.schedule is not None:
        try:
            read_schedule(given.schedule)
        except DiagnosticException as error:
            raise InvalidInputError(str(error)) from None
    check_tuned(given)
    if given.folder is not None:
        make_folder(given.folder)
    return given
