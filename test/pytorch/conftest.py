"""What all tests of PyTorch programs have in common."""

import pytest


@pytest.fixture(autouse=True)
def _faults_are_raised(monkeypatch: pytest.MonkeyPatch) -> None:  # pyright: ignore[reportUnusedFunction]
    """The backend raises faults of the compiler, which for users it leaves to PyTorch."""
    monkeypatch.setenv("DEPLODOCK_DEBUG", "1")
