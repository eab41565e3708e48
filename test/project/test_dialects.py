"""The dialects as wholes: malformed text never breaks them, and the documentation of them is current."""

import re
import traceback
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st
from xdsl.context import Context
from xdsl.dialects.arith import SubfOp
from xdsl.dialects.builtin import TensorType, f32
from xdsl.parser import Parser
from xdsl.utils.exceptions import ParseError, VerifyException
from xdsl.utils.test_value import create_ssa_value

from deplodock.dialects import tensor
from deplodock.passes.driver import new_context
from deplodock.tools import operations
from deplodock.tools.docs import dialect_page, passes_page

TESTS = Path(__file__).parent.parent / "dialects"
SOURCES = Path(tensor.__file__).parents[1]
NAMES = ("tensor", "loop", "tile", "kernel")
TOKEN = re.compile(r'"[^"]*"|[%@#^]?[\w.$]+|->|\S|\n')


def chunks() -> list[list[str]]:
    """The tokens of each part of the valid test files, without comments."""
    texts = [(TESTS / name / "ops.mlir").read_text() for name in NAMES]
    parts = [part for text in texts for part in text.split("// -----")]
    return [TOKEN.findall(re.sub(r"//.*", "", part)) for part in parts]


CHUNKS = chunks()
POOL = sorted({token for chunk in CHUNKS for token in chunk} | {"0", "-1", "d7", "{", "}", "arith.cmpf", "f64"})


def context() -> Context:
    return new_context()


CONTEXT = context()


def read(text: str) -> None:
    """Parse and verify, then print what is valid; an expected error is fine.

    An exception that xDSL's parser raises on its own account, outside of our code, is xDSL's business.
    """
    try:
        module = Parser(CONTEXT, text).parse_module()
        module.verify()
    except (ParseError, VerifyException):
        return
    except Exception as error:
        if any(Path(frame.filename).is_relative_to(SOURCES) for frame in traceback.extract_tb(error.__traceback__)):
            raise
        return
    printed = str(module)
    assert str(Parser(CONTEXT, printed).parse_module()) == printed


@st.composite
def mutated(draw: st.DrawFn) -> str:
    """A valid text with one to three of its tokens removed, doubled, exchanged or replaced."""
    tokens = list(draw(st.sampled_from(CHUNKS)))
    for _ in range(draw(st.integers(1, 3))):
        at = draw(st.integers(0, len(tokens) - 1))
        match draw(st.sampled_from(["remove", "double", "exchange", "replace"])):
            case "remove":
                del tokens[at]
            case "double":
                tokens.insert(at, tokens[at])
            case "exchange":
                other = draw(st.integers(0, len(tokens) - 1))
                tokens[at], tokens[other] = tokens[other], tokens[at]
            case _:
                tokens[at] = draw(st.sampled_from(POOL))
    return " ".join(tokens)


def test_a_fold_needs_an_identity() -> None:
    with pytest.raises(ValueError, match=r"arith\.subf has no known identity on f32"):
        tensor.ReduceOp.of(SubfOp, create_ssa_value(TensorType(f32, [4])), [0])


@settings(max_examples=300, deadline=None, derandomize=True, suppress_health_check=list(HealthCheck))
@given(mutated())
@example('"tensor_ext.reduce"() <{dims = array<i64>, identities = []}> ({^bb0: tensor_ext.yield}) : () -> tensor<f32>')
def test_malformed_text_gives_parse_or_verify_errors(text: str) -> None:
    read(text)


@pytest.mark.parametrize("tokens", CHUNKS, ids=lambda tokens: tokens[2] if len(tokens) > 2 else "")
def test_the_texts_that_are_mutated_are_valid(tokens: list[str]) -> None:
    module = Parser(CONTEXT, " ".join(tokens)).parse_module()
    module.verify()


@pytest.mark.parametrize(
    ("page", "text"), [("dialects.md", dialect_page), ("passes.md", passes_page), ("ops.md", operations.page)]
)
def test_the_reference_pages_are_current(repository: Path, page: str, text: Callable[[], str]) -> None:
    assert (repository / "docs" / page).read_text(encoding="utf-8") == text(), "run `make docs` and commit the pages"
