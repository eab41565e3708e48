"""Decompositions of ATen operations into operations of the torch dialect, which torch.export applies to its graph."""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Iterator
from functools import cache
from typing import Any

from torch._C import DispatchKey
from torch._decomp import decomposition_table
from torch.export.exported_program import default_decompositions

from deplodock.frontend.decompositions.arithmetic import ARITHMETIC
from deplodock.frontend.decompositions.bags import BAGS
from deplodock.frontend.decompositions.bessel import BESSEL
from deplodock.frontend.decompositions.derived import DERIVED
from deplodock.frontend.decompositions.experts import experts
from deplodock.frontend.decompositions.gradients import GRADIENTS
from deplodock.frontend.decompositions.indexing import INDEXING
from deplodock.frontend.decompositions.interpolation import INTERPOLATION
from deplodock.frontend.decompositions.lists import LISTS
from deplodock.frontend.decompositions.losses import LOSSES
from deplodock.frontend.decompositions.ordering import ORDERING
from deplodock.frontend.decompositions.polynomials import POLYNOMIALS
from deplodock.frontend.decompositions.products import PRODUCTS
from deplodock.frontend.decompositions.sampling import SAMPLING
from deplodock.frontend.decompositions.scattering import SCATTERING
from deplodock.frontend.decompositions.special import SPECIAL
from deplodock.frontend.decompositions.table import ATEN, Decompositions
from deplodock.frontend.decompositions.views import VIEWS
from deplodock.frontend.importer import has_operation

_FURTHER = (
    *(ATEN.elu.default, ATEN.linalg_vector_norm.default, ATEN.dist.default),
    *(ATEN.tril_indices.default, ATEN.triu_indices.default),
    *(ATEN.native_layer_norm.default, ATEN.native_group_norm.default),
    *(ATEN._native_batch_norm_legit_functional.default, ATEN._native_batch_norm_legit.no_stats),
    *(ATEN._batch_norm_with_update_functional.default, ATEN._batch_norm_no_update.default),
)
_OWN: Decompositions = {
    **{**ARITHMETIC, **BAGS, **BESSEL, **DERIVED, **GRADIENTS, **INDEXING, **INTERPOLATION, **LISTS, **LOSSES},
    **{**ORDERING, **POLYNOMIALS, **PRODUCTS, **SAMPLING, **SCATTERING, **SPECIAL, **VIEWS},
}
_CHECKED = frozenset(
    str(overload)
    for overload in (
        *(*SCATTERING, *ORDERING, *VIEWS, *DERIVED, *BAGS, *GRADIENTS, ATEN.masked_scatter.default),
        *(*SAMPLING, ATEN.grid_sampler.default, ATEN.pdist.default),
    )
)
"""The overloads that are computed by reading inside of what they read, whatever their operands are."""


def reads_inside(overload: str) -> bool:
    """Whether the decomposition of an overload, by its name, reads at positions that need no check."""
    return overload in _CHECKED


@contextlib.contextmanager
def without_python_kernels() -> Iterator[None]:
    """While it lasts, tracing does not see PyTorch's own formulas, in Python, of interpolation and losses.

    PyTorch puts them before any table of decompositions, and some of them are wrong for some inputs.
    """
    overloads = (*INTERPOLATION, *LOSSES)
    keys = (DispatchKey.Autograd, DispatchKey.CompositeImplicitAutograd)
    taken = [(op, key, op.py_kernels.pop(key)) for op in overloads for key in keys if key in op.py_kernels]
    _forget_dispatch(overloads)
    try:
        yield
    finally:
        for op, key, kernel in taken:
            op.py_kernels[key] = kernel
        _forget_dispatch(overloads)


def _forget_dispatch(overloads: Iterable[Any]) -> None:
    """Have PyTorch choose the kernels of overloads anew, as `OpOverload.py_impl` does."""
    for op in overloads:
        op._dispatch_cache.clear()


def is_known(overload: object) -> bool:
    """Whether an overload is one of the torch dialect, or has a decomposition of this folder."""
    return has_operation(overload) or overload in _OWN


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
