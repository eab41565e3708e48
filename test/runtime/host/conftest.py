"""What the tests of the printed text on the host need."""

from __future__ import annotations

import os

import pytest

from deplodock.runtime.host.toolchain import find_compiler


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Without a C++ compiler these tests are skipped, or fail if `DEPLODOCK_REQUIRE_CXX` is set."""
    if find_compiler() is not None or os.environ.get("DEPLODOCK_REQUIRE_CXX"):
        return
    for item in items:
        if item.path.parent.name == "host":
            item.add_marker(pytest.mark.skip(reason="no C++ compiler: put g++ or clang++ on PATH"))
