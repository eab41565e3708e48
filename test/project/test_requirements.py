"""The versions that pyproject.toml asks for are those that are tested."""

import tomllib
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

import pytest
from packaging.requirements import Requirement


def requirements() -> list[Requirement]:
    """What deplodock and its extras need of others."""
    text = (Path(__file__).parents[2] / "pyproject.toml").read_text(encoding="utf-8")
    project = tomllib.loads(text)["project"]
    extras = [name for names in project["optional-dependencies"].values() for name in names]
    found = [Requirement(name) for name in (*project["dependencies"], *extras)]
    return [requirement for requirement in found if requirement.name != "deplodock"]


@pytest.mark.parametrize("requirement", requirements(), ids=str)
def test_the_installed_version_is_in_the_range(requirement: Requirement) -> None:
    try:
        installed = version(requirement.name)
    except PackageNotFoundError:
        pytest.skip("not installed")
    assert requirement.specifier.contains(installed)


def test_xdsl_is_a_range_of_minor_versions() -> None:
    """Any patch of a version that was tested is good, so that deplodock can be installed beside other tools of xDSL."""
    (xdsl,) = (requirement for requirement in requirements() if requirement.name == "xdsl" and not requirement.extras)
    assert {specifier.operator for specifier in xdsl.specifier} == {">=", "<"}
    assert all(specifier.version.count(".") == 1 for specifier in xdsl.specifier)
