"""Plans as JSON: what is written is read again, and what is no plan is refused with its reason."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest

from deplodock.dialects.elements import ELEMENTS
from deplodock.errors import InvalidInputError
from deplodock.interpreters.values import dtype_of
from deplodock.runtime.plan import BufferPlan, LaunchPlan, ProgramPlan, TensorMapPlan
from deplodock.runtime.plan_text import read_plan, write_plan

F32 = np.dtype(np.float32)
MAP = TensorMapPlan(0, (6, 64), F32, (1, 16), 64, is_tf32=True)
BUFFERS = (BufferPlan((6, 64), F32), BufferPlan((3,), F32, 256), *(BufferPlan((), dtype_of(type)) for type in ELEMENTS))
PLAN = ProgramPlan(BUFFERS, (0,), (2, 0), (LaunchPlan("k_a", (0, MAP, 1), 2, 32, 1 << 16, True),), 1024, 512)


def test_a_plan_is_read_as_it_was() -> None:
    assert read_plan(write_plan(PLAN)) == PLAN


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"scratch": 100}, "scratch memory of 100 bytes does not hold its buffers"),
        ({"counters": 2048}, "scratch memory of 1024 bytes does not hold"),
        ({"outputs": [99]}, "there is no buffer 99"),
        ({"inputs": [-1]}, "a number must be 0 or more, got -1"),
        ({"inputs": [True]}, "a number must be 0 or more, got true"),
        ({"buffers": [{"shape": [2], "dtype": "complex64", "offset": None}]}, 'there is no element type "complex64"'),
        ({"buffers": [{"shape": [2], "dtype": "float32"}]}, "KeyError: 'offset'"),
        ({"launches": [{"kernel": "k; x", "arguments": []}]}, 'must be an identifier, got "k; x"'),
        ({"launches": 3}, "not iterable"),
        ({"launches": [json.loads(write_plan(PLAN))["launches"][0] | {"is_early": 2}]}, "true or false, got 2"),
    ],
)
def test_what_is_no_plan_is_refused(change: dict[str, Any], message: str) -> None:
    facts = json.loads(write_plan(PLAN)) | change
    with pytest.raises(InvalidInputError, match=f"this is no plan of a program: .*{message}"):
        read_plan(json.dumps(facts))


@pytest.mark.parametrize("text", ["", "[]", "{}", "3", '{"buffers": '])
def test_other_text_is_refused(text: str) -> None:
    with pytest.raises(InvalidInputError, match="this is no plan of a program"):
        read_plan(text)
