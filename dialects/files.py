"""A dialect in several files: those of what only some programs have are imported when that is first named."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from typing import Any

from xdsl.ir import Attribute, Dialect, Operation

from deplodock.loading import loaded


def dialect_of(
    package: str, variable: str, dialect: str, own: Sequence[type[Any]], files: Mapping[str, str]
) -> Callable[[str], Any]:
    """The `__getattr__` of the package of a dialect.

    It has the names of other files, and the dialect as a variable, which imports them all.

    Args:
        package: the package's name.
        variable: the variable's name.
        dialect: the dialect's name.
        own: the operations, attributes and types that are imported with the package.
        files: those of each other file, as words; the dialect has them in this order, behind its own.
    """
    places = {name: f"{package}.{file}:{name}" for file, names in files.items() for name in names.split()}

    @cache
    def attribute(name: str) -> Any:
        if name in places:
            return loaded(places[name])
        if name != variable:
            raise AttributeError(f"module {package!r} has no attribute {name!r}", name=name, obj=sys.modules[package])
        found: list[type[Any]] = [*own, *map(loaded, places.values())]
        operations = [one for one in found if issubclass(one, Operation)]
        return Dialect(dialect, operations, [one for one in found if issubclass(one, Attribute)])

    return attribute
