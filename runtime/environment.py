"""The environment in which compilers run: what would have them compile otherwise than we ask for is left out of it."""

from __future__ import annotations

import logging
import os
from functools import cache

_FLAGS = ("NVCC_PREPEND_FLAGS", "NVCC_APPEND_FLAGS", "CCC_OVERRIDE_OPTIONS", "GCC_COMPARE_DEBUG")
"""Flags for nvcc (its manual, "NVCC Environment Variables"), for clang, and for GCC."""

_FOLDERS = ("CPATH", "C_INCLUDE_PATH", "CPLUS_INCLUDE_PATH")
"""Folders of headers that come before the compilers' own (GCC's manual, "Environment Variables Affecting GCC")."""

_FILES = ("DEPENDENCIES_OUTPUT", "SUNPRO_DEPENDENCIES")
"""Files that GCC writes beside what it is asked for (ibid.)."""

LEFT_OUT = (*_FLAGS, *_FOLDERS, *_FILES)
"""The variables that compilers do not see."""


def compiler_environment() -> dict[str, str]:
    """The environment of a compiler's process; the logger `deplodock` says once what of ours is left out."""
    if found := tuple(name for name in LEFT_OUT if os.environ.get(name)):
        _note_once(found)
    return {name: value for name, value in os.environ.items() if name not in LEFT_OUT}


@cache
def _note_once(names: tuple[str, ...]) -> None:
    logging.getLogger("deplodock").warning(
        "%s of the environment %s left out where kernels are compiled: results are those of deplodock's own flags",
        ", ".join(names),
        "is" if len(names) == 1 else "are",
    )
