"""Every promise of docs/numerics.md names tests that exist."""

import re
from pathlib import Path


def test_each_promise_names_tests_that_exist(repository: Path) -> None:
    promises = re.findall(
        r"^\* (.+?)(?=^\* |^\n|\Z)", (repository / "docs/numerics.md").read_text(), re.MULTILINE | re.DOTALL
    )
    assert len(promises) > 20
    for promise in promises:
        named = re.findall(r"^  - `(test/[\w/.]+)(?:::(\w+))?`$", promise, re.MULTILINE)
        assert named, promise
        for path, function in named:
            text = (repository / path).read_text()
            assert not function or f"def {function}(" in text, f"{path}::{function}"
