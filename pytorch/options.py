"""The options of the backend of `torch.compile`, checked."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

from xdsl.utils.exceptions import DiagnosticException

from deplodock.analysis.machine.targets import target
from deplodock.errors import InvalidInputError
from deplodock.passes.tile.rule import read_schedule
from deplodock.runtime.dump import make_folder

MANY_SHAPES = 8
"""The sets of shapes of one program from which on a warning says that each takes a compilation."""

DUMP = "DEPLODOCK_DUMP"
"""The environment variable that names the folder of what programs become where no option does."""


@dataclass(frozen=True)
class BackendOptions:
    """How the programs of a call of `torch.compile` are compiled.

    `target` and `schedule` are those of `deplodock.compile`; `dump` is a folder for what each graph becomes, by default
    that of the environment variable `DEPLODOCK_DUMP`, if it is set.
    """

    target: str | None = None
    schedule: str | None = None
    dump: str | None = None

    @property
    def folder(self) -> Path | None:
        """The folder of what each graph becomes, None without one."""
        name = os.environ.get(DUMP) if self.dump is None else self.dump
        return Path(name) if name else None


def read_options(mode: str | None, options: Mapping[str, Any] | None) -> BackendOptions:
    """The options given to `torch.compile`. Raises InvalidInputError for a mode, an option or a value there is not."""
    if mode not in (None, "default"):
        raise InvalidInputError(f'deplodock has no mode {mode!r}; leave mode out, or give "default"')
    names = [field.name for field in fields(BackendOptions)]
    for name, value in (options or {}).items():
        if name not in names:
            raise InvalidInputError(f"deplodock has no option {name!r}; there are {', '.join(names)}")
        if not isinstance(value, str | Path | None):
            raise InvalidInputError(f"the option {name} must be text, got {value!r}")
    given = BackendOptions(**{name: None if value is None else str(value) for name, value in (options or {}).items()})
    if given.target is not None:
        target(given.target)
    if given.schedule is not None:
        try:
            read_schedule(given.schedule)
        except DiagnosticException as error:
            raise InvalidInputError(str(error)) from None
    if given.folder is not None:
        make_folder(given.folder)
    return given
