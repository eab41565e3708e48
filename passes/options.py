"""The options of passes: each one's default, domain and line of documentation, in one place.

    @dataclass(frozen=True)
    class ChunkMatmulKPass(OptionsPass):
        bk: int = option(32, Integers((8, 16, 32, 64)), "elements of k in a chunk")
        keep: Keep = option("loops", Keep, "whether the rest of the row stays loops")

The checks of what is given, the reference pages, `--show-passes` and the fuzzer's draws read them off the class. A pass
holds None for an option that it is not given; `with_defaults` fills those in.

A pass that only checks says so by its class.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from enum import StrEnum
from functools import cache
from typing import Any, ClassVar, Protocol, Self, TypeAlias, TypeVar, get_args

from xdsl.passes import ModulePass
from xdsl.utils.arg_spec import ArgSpec

Value: TypeAlias = int | str
"""What an option may be given."""

T = TypeVar("T", bound=Value | None)

_KEY = "option"


class Kind(StrEnum):
    """What a launch is, for options that suit one kind alone."""

    CONTRACTION = "contraction"
    OTHER = "other"

    @property
    def other(self) -> Kind:
        """The other kind."""
        return Kind.OTHER if self is Kind.CONTRACTION else Kind.CONTRACTION


class Domain(Protocol):
    """What an option may be. Its text completes "must be .."; `tried` are the values worth a search or a draw."""

    @property
    def tried(self) -> tuple[Value, ...]:
        """Some values of the domain."""
        ...

    def __contains__(self, value: object, /) -> bool: ...


@dataclass(frozen=True)
class Integers:
    """The multiples of `step` from `least` on."""

    tried: tuple[int, ...]
    least: int = 1
    step: int = 1

    def __contains__(self, value: object, /) -> bool:
        return type(value) is int and value >= self.least and value % self.step == 0

    def __str__(self) -> str:
        if self.step > 1:
            return f"a positive multiple of {self.step}"
        return "a positive integer" if self.least == 1 else f"an integer above {self.least - 1}"


@dataclass(frozen=True)
class OneOf:
    """Some values and no others."""

    tried: tuple[Value, ...]

    def __contains__(self, value: object, /) -> bool:
        return any(type(value) is type(one) and value == one for one in self.tried)

    def __str__(self) -> str:
        *most, last = map(str, self.tried)
        return f"{', '.join(most)} or {last}" if most else last


@dataclass(frozen=True)
class Either:
    """What one domain has, or the other."""

    first: Domain
    second: Domain

    @property
    def tried(self) -> tuple[Value, ...]:
        """The values of both that are worth a try."""
        return (*self.first.tried, *self.second.tried)

    def __contains__(self, value: object, /) -> bool:
        return value in self.first or value in self.second

    def __str__(self) -> str:
        return f"{self.first} or {self.second}"


@dataclass(frozen=True)
class Letters:
    """Words of some letters."""

    letters: str
    tried: tuple[str, ...]

    def __contains__(self, value: object, /) -> bool:
        return isinstance(value, str) and bool(value) and set(value) <= set(self.letters)

    def __str__(self) -> str:
        return f"a word of the letters {' and '.join(self.letters)}"


@dataclass(frozen=True)
class Text:
    """Any text of some form, which its reader checks."""

    form: str
    tried: tuple[str, ...] = ()

    def __contains__(self, value: object, /) -> bool:
        return isinstance(value, str)

    def __str__(self) -> str:
        return self.form


@dataclass(frozen=True)
class Option:
    """One option of a pass; `kind` is the kind of launch that it is for, if it is for one alone."""

    name: str
    default: Value | None
    domain: Domain
    documentation: str
    kind: Kind | None

    def __str__(self) -> str:
        """The line that `--show-passes` prints."""
        default = "" if self.default is None else f" = {self.default}"
        return f"{self.name}{default}, {self.domain}: {self.documentation}"

    def check(self, value: object) -> None:
        """Raise ValueError if the option cannot have a value."""
        if value not in self.domain:
            raise ValueError(f"the option {self.name} must be {self.domain}, got {value}")


def option(default: T, domain: object, documentation: str, *, kind: Kind | None = None) -> T:
    """A field of an OptionsPass: an option whose default is None where the pass says what it does without.

    Args:
        default: the value of an option that is not given.
        domain: a Domain, or the Literal of its words.
        documentation: one line.
        kind: the kind of launch that the option is for; by default any.
    """
    own = OneOf(words) if (words := get_args(domain)) else domain
    made: Any = field(default=None, metadata={_KEY: (default, own, documentation, kind)})
    return made


@dataclass(frozen=True)
class OptionsPass(ModulePass):
    """A pass whose fields are its options."""

    after: ClassVar[tuple[str, ...]] = ()
    """The passes that refuse a kernel once this one has changed it, so that it comes after them."""

    def __post_init__(self) -> None:
        for name, value in self.given().items():
            self.options()[name].check(value)

    @classmethod
    @cache
    def options(cls) -> Mapping[str, Option]:
        """The options by name, in order."""
        return {f.name: Option(f.name, *f.metadata[_KEY]) for f in fields(cls) if _KEY in f.metadata}

    @classmethod
    def from_spec(cls, spec: ArgSpec) -> Self:
        """The pass with the options of a pipeline. Raises ValueError for one that it has not, or cannot have so."""
        values = spec.normalize_parameter_names().parameters
        known = cls.options()
        for name, value in values.items():
            if name not in known:
                raise ValueError(f"there is no option {name}; {cls.name} has {', '.join(known) or 'none'}")
            if len(value) != 1:
                raise ValueError(f"the option {name} takes one value, got {', '.join(map(str, value)) or 'none'}")
        return cls(**{name: value for name, (value,) in values.items()})

    def given(self) -> dict[str, Value]:
        """The options that were given."""
        return {name: value for name in self.options() if (value := getattr(self, name)) is not None}

    def with_defaults(self, given: Mapping[str, Value]) -> Self:
        """The pass with the given options, and the defaults of all others."""
        return type(self)(**{name: given.get(name, option.default) for name, option in self.options().items()})


@dataclass(frozen=True)
class CheckPass(ModulePass):
    """A pass that changes nothing and raises where a module breaks a rule."""

    holds_given: ClassVar[bool] = False
    """Whether kernels that are given at kernel level are checked as those that are made."""
