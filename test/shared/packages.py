"""Packages that tests build and install."""

import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path


def install(files: Mapping[str, str], folder: Path) -> Path:
    """Write the files of a package, build it, and install it, without its dependencies; returns where to."""
    source, site = folder / "source", folder / "site"
    for name, text in files.items():
        (source / name).parent.mkdir(parents=True, exist_ok=True)
        (source / name).write_text(text, encoding="utf-8")
    options = ("--quiet", "--disable-pip-version-check", "--no-index", "--no-deps", "--no-build-isolation")
    subprocess.run([sys.executable, "-m", "pip", "install", *options, "--target", site, source], check=True)
    return site
