"""Decompositions of ATen operations into operations of the torch dialect, which torch.export applies to its graph."""

from __future__ import annotations

from functools import cache

from torch._decomp import decomposition_table
from torch.export.exported_program import default_decompositions

from deplodock.frontend.decompositions.arithmetic import ARITHMETIC
from deplodock.frontend.decompositions.experts import experts
from deplodock.frontend.decompositions.indexing import INDEXING
from deplodock.frontend.decompositions.interpolation import INTERPOLATION
from deplodock.frontend.decompositions.ordering import ORDERING
from deplodock.frontend.decompositions.scattering import SCATTERING
from deplodock.frontend.decompositions.table import ATEN, Decompositions
from deplodock.frontend.importer import has_operation

_FURTHER = (
    *(ATEN.elu.default, ATEN.linalg_vector_norm.default, ATEN.dist.default),
    *(ATEN.tril_indices.default, ATEN.triu_indices.default),
    *(ATEN._native_batch_norm_legit_functional.default, ATEN._native_batch_norm_legit.no_stats),
)
_OWN: Decompositions = {**ARITHMETIC, **INDEXING, **INTERPOLATION, **ORDERING, **SCATTERING}
_CHECKED = frozenset(str(overload) for overload in (*SCATTERING, *ORDERING, ATEN.masked_scatter.default))
"""The overloads that are computed by reading inside of what they read, whatever their operands are."""


def reads_inside(overload: str) -> bool:
    """Whether the decomposition of an overload, by its name, reads at positions that need no check."""
    return overload in _CHECKED


def decompositions() -> Decompositions:
    """How to compute what the torch dialect lacks: PyTorch's own decompositions, and those of this folder."""
    return {**_decompositions(), **experts()}


@cache
def _decompositions() -> Decompositions:
    """The decompositions that do not depend on what the program has imported.

    PyTorch does not decompose `_FURTHER` for torch.export by default; others that it leaves write in place.
    """
    further = {overload: decomposition_table[overload] for overload in _FURTHER}
    found = {**default_decompositions(), **further, **_OWN}
    return {overload: function for overload, function in found.items() if not has_operation(overload)}
