"""Options of passes: defaults, domains, what is given, and the order that passes state."""

from dataclasses import dataclass
from typing import Literal

import pytest
from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.utils.arg_spec import parse_pipeline

from deplodock.passes.options import Integers, Letters, OneOf, OptionsPass, option
from deplodock.passes.pipeline import PASSES

Word = Literal["red", "blue"]


@dataclass(frozen=True)
class PaintPass(OptionsPass):
    name = "paint"
    coats: int = option(2, Integers((1, 2, 3)), "how often to paint")
    bytes: int = option(16, Integers((16, 32), step=16), "bytes of paint")
    colour: Word = option("red", Word, "the colour")
    size: Literal[4, 8] | None = option(None, OneOf((4, 8)), "the size; by default any")
    order: str | None = option(None, Letters("mn", ("mn", "nm")), "the order of strokes")

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        raise NotImplementedError


def read(text: str) -> PaintPass:
    (spec,) = parse_pipeline(text)
    return PaintPass.from_spec(spec)


def test_what_is_given_is_known_beside_the_defaults() -> None:
    given = read("paint{coats=2 colour=blue}")
    assert given.given() == {"coats": 2, "colour": "blue"}
    full = given.with_defaults(given.given())
    assert (full.coats, full.bytes, full.colour, full.size, full.order) == (2, 16, "blue", None, None)
    assert str(given) == 'paint{coats=2 colour="blue"}'


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ("coats=0", "the option coats must be a positive integer, got 0"),
        ("coats=many", "the option coats must be a positive integer, got many"),
        ("coats=1.5", "the option coats must be a positive integer, got 1.5"),
        ("coats=true", "the option coats must be a positive integer, got True"),
        ("coats=1,2", "the option coats takes one value, got 1, 2"),
        ("coats", "the option coats takes one value, got none"),
        ("bytes=20", "the option bytes must be a positive multiple of 16, got 20"),
        ("colour=green", "the option colour must be red or blue, got green"),
        ("size=5", "the option size must be 4 or 8, got 5"),
        ("order=mk", "the option order must be a word of the letters m and n, got mk"),
        ("brush=1", "there is no option brush; paint has coats, bytes, colour, size, order"),
    ],
)
def test_what_an_option_cannot_be(options: str, message: str) -> None:
    with pytest.raises(ValueError, match=f"^{message}$"):
        read(f"paint{{{options}}}")


def test_values_are_checked_where_a_pass_is_made() -> None:
    with pytest.raises(ValueError, match="the option coats must be a positive integer, got -1"):
        PaintPass(coats=-1)


def test_an_option_prints_its_default_domain_and_documentation() -> None:
    lines = list(map(str, PaintPass.options().values()))
    assert lines[0] == "coats = 2, a positive integer: how often to paint"
    assert lines[2:4] == ["colour = red, red or blue: the colour", "size, 4 or 8: the size; by default any"]


def test_defaults_and_tried_values_are_of_their_domains() -> None:
    passes = [cls for stage in PASSES if issubclass(cls := stage.load(), OptionsPass)]
    options = [option for cls in passes for option in cls.options().values()]
    assert len(options) > 30
    for one in options:
        for value in one.domain.tried if one.default is None else (one.default, *one.domain.tried):
            one.check(value)
        assert one.documentation
        assert "\n" not in one.documentation


def test_passes_stand_behind_those_that_they_come_after() -> None:
    seen: set[str] = set()
    ordered = 0
    for stage in PASSES:
        cls = stage.load()
        if issubclass(cls, OptionsPass):
            assert seen.issuperset(cls.after), stage.name
            ordered += bool(cls.after)
        seen.add(stage.name)
    assert ordered > 5
