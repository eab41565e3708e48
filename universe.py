"""What deplodock adds to every xDSL tool of the environment: dialects, passes and the `cuda` target.

Stock `xdsl-opt` finds `DEPLODOCK_UNIVERSE` through the entry point group `xdsl.universe`. Nothing is
imported before its name is used.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from xdsl.universe import Universe

from deplodock.passes.pipeline import PASSES

if TYPE_CHECKING:
    from xdsl.ir import Dialect
    from xdsl.utils.target import Target


def _torch() -> Dialect:
    from deplodock.dialects.torch import Torch

    return Torch


def _tensor_ext() -> Dialect:
    from deplodock.dialects.tensor import TensorExt

    return TensorExt


def _math_ext() -> Dialect:
    from deplodock.dialects.math_ext import MathExt

    return MathExt


def _loop() -> Dialect:
    from deplodock.dialects.loop import Loop

    return Loop


def _tile() -> Dialect:
    from deplodock.dialects.tile import Tile

    return Tile


def _kernel() -> Dialect:
    from deplodock.dialects.kernel import Kernel

    return Kernel


def _cuda() -> type[Target]:
    from deplodock.codegen.cuda import CudaTarget

    return CudaTarget


DEPLODOCK_UNIVERSE = Universe(
    all_dialects={
        "torch": _torch,
        "tensor_ext": _tensor_ext,
        "math_ext": _math_ext,
        "loop": _loop,
        "tile": _tile,
        "kernel": _kernel,
    },
    all_passes={stage.name: stage.load for stage in PASSES},
    all_targets={"cuda": _cuda},
)
