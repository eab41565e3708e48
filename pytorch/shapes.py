"""What a program is compiled into for each set of shapes: the last ones are kept, and their number has a limit."""

from __future__ import annotations

import threading
from collections.abc import Hashable, Iterator, Mapping
from typing import Generic, TypeVar

from deplodock.errors import InvalidInputError

MAX_SHAPES = 16
"""The sets of shapes that are kept where nothing else is said."""

MANY_SHAPES = 8
"""The sets of shapes of one program from which on a warning says that each takes a compilation."""

_TURNS = 4
"""How often as many sets as are kept may be compiled in all: then they push each other out."""

T = TypeVar("T")


class Shapes(Mapping[Hashable, T], Generic[T]):
    """Programs by their sets of shapes: a mapping of the `most` that were used last; `count` were compiled so far.

    `lock` is for whoever compiles: two threads must not compile the same.
    """

    def __init__(self, most: int) -> None:
        self._most = most
        self._kept: dict[Hashable, T] = {}
        self._order = threading.Lock()
        self.lock = threading.Lock()
        self.count = 0

    def __getitem__(self, key: Hashable) -> T:
        """The program for a set of shapes, which is then the last one used."""
        with self._order:
            program = self._kept.pop(key)
            self._kept[key] = program
            return program

    def __iter__(self) -> Iterator[Hashable]:
        return iter(list(self._kept))

    def __len__(self) -> int:
        return len(self._kept)

    def check(self, name: str) -> None:
        """Raise InvalidInputError if no further set may be compiled of the program of that name."""
        if self.count >= _TURNS * self._most:
            raise InvalidInputError(
                f"{name} was compiled for {self.count} sets of shapes, of which {self._most} are kept at a time: each "
                "call with another one would wait for a compilation. Pad its arguments to fewer shapes, or give a "
                f"larger max_shapes than {self._most}"
            )

    def add(self, key: Hashable, program: T) -> str:
        """Keep a program that was compiled, in the place of the one that was not used for longest.

        Returns which number it has, and how many are kept now, in words.
        """
        with self._order:
            self.count += 1
            self._kept[key] = program
            if len(self._kept) > self._most:
                del self._kept[next(iter(self._kept))]
            return f"its set {self.count} of shapes ({len(self._kept)} of {self._most} kept)"
