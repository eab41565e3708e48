"""A suite: a folder of problems in KernelBench's form (https://github.com/ScalingIntelligence/KernelBench).

A problem is a Python file `NUMBER_NAME.py` with a module `Model`, a function `get_init_inputs` that gives the arguments
to build it with, and `get_inputs`, which gives those of a call. Folders in the suite are its levels.
"""

from __future__ import annotations

import re
from pathlib import Path

from deplodock.dialects.precision import PRECISIONS
from deplodock.errors import InvalidInputError
from deplodock.tools.bench.rows import Row

_NUMBERED = re.compile(r"(\d+)_.*\.py")


def read_suite(folder: Path, precision: str = PRECISIONS[0]) -> list[Row]:
    """The problems of a suite as rows, by level and number: the kind is the level, the text the path of the file.

    `precision` is that of their products of FP32. A suite without folders is one level, whose name is its own. Raises
    InvalidInputError where there is no problem.
    """
    levels = [*sorted(path for path in folder.glob("*") if path.is_dir()), folder]
    numbered = [
        (level.resolve().name, int(match[1]), path)
        for level in levels
        for path in level.glob("*.py")
        if (match := _NUMBERED.fullmatch(path.name)) is not None
    ]
    if not numbered:
        raise InvalidInputError(
            f"{folder}: error: there is no problem: a suite is a folder of files NUMBER_NAME.py, or of folders of them"
        )
    in_order = sorted(numbered, key=lambda found: (levels.index(found[2].parent), found[1], found[2].name))
    return [Row(f"{level}/{path.stem}", level, "", None, str(path), precision) for level, _, path in in_order]
