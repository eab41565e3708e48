"""Passes that only check: what the driver knows of them they state here."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from xdsl.passes import ModulePass


@dataclass(frozen=True)
class CheckPass(ModulePass):
    """A pass that changes nothing and raises where a module breaks a rule."""

    holds_given: ClassVar[bool] = False
    """Whether kernels that are given at kernel level are checked as those that are made."""
