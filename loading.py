"""What is imported when it is first asked for: a program does not read the files that it has no use for."""

from __future__ import annotations

import importlib
from functools import cache
from typing import Any


@cache
def loaded(place: str) -> Any:
    """What a place names: `deplodock.passes.tile.tileify:TileifyPass` a class of a module, without a colon the module.

    Raises ImportError if there is no such module, AttributeError if it has no such name.
    """
    module, _, name = place.partition(":")
    found = importlib.import_module(module)
    return getattr(found, name) if name else found
