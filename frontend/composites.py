"""The composite operations that tracers keep, as torch.export does."""

from __future__ import annotations

import contextlib
from functools import cache
from typing import Any

from torch._export.utils import _collect_all_valid_cia_ops_for_aten_namespace, _special_op_to_preserve_cia

from deplodock.frontend.decompositions import is_known
from deplodock.frontend.overrides import override_composites


def kept_composites() -> contextlib.AbstractContextManager[object]:
    """While it lasts, tracers keep the composite operations that deplodock knows, as torch.export does.

    Those have no gradients meanwhile. Only for a thread that holds the `tracing_lock`: it changes PyTorch's registry.
    """
    return override_composites(dict.fromkeys(_composites(), _special_op_to_preserve_cia))


@cache
def _composites() -> list[Any]:
    return [overload for overload in _collect_all_valid_cia_ops_for_aten_namespace() if is_known(overload)]
