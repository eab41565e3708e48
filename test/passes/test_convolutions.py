"""Convolutions through all passes, in the simulator, against float64: windows, groups and phases of strides."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from xdsl.dialects.builtin import ModuleOp

from deplodock.analysis.shape.nest import kernels, side_by_side
from deplodock.analysis.shape.roles import contraction
from deplodock.dialects import tile
from deplodock.interpreters.simulate import simulate
from deplodock.passes.driver import Level, lower, new_context
from deplodock.passes.tile.choose_schedule import write_schedule
from deplodock.schedule.steps import parse_schedule

torch = pytest.importorskip("torch")
F = torch.nn.functional

TILES = (
    "tileify,flatten-contraction,chunk-matmul-k{bk=12},blockify-launch{m=16 n=64},stage-inputs{transpose=auto},"
    "register-tile{m=4 n=4},permute-register-tile{m=strips n=strips},double-buffer{depth=3},async-copy,pad-smem,"
    "pipeline-k-outer{distance=2},mark-unroll"
)
"""What the heuristics choose for large convolutions, with tiles that small ones have several of, ragged ones too."""


def randn(*shape: int) -> Any:
    return torch.randn(shape, generator=torch.Generator().manual_seed(sum(shape)))


CASES: dict[str, tuple[Callable[[Any, Any], Any], tuple[int, ...], tuple[int, ...]]] = {
    "padded": (lambda x, w: F.relu(F.conv2d(x, w, padding=1)), (2, 5, 7, 9), (18, 5, 3, 3)),
    "strided": (lambda x, w: F.conv2d(x, w, stride=2), (3, 4, 9, 11), (17, 4, 3, 2)),
    "dilated": (lambda x, w: F.conv2d(x, w, padding=(1, 2), dilation=(1, 2)), (1, 3, 8, 9), (20, 3, 3, 3)),
    "pixels": (lambda x, w: F.conv2d(x, w), (3, 14, 5, 4), (18, 14, 1, 1)),
    "line": (lambda x, w: F.conv1d(x, w, stride=3, dilation=2), (2, 6, 90), (17, 6, 3)),
    "large windows": (lambda x, w: F.conv2d(x, w, padding=2), (2, 3, 6, 7), (20, 3, 5, 5)),
    "volume": (lambda x, w: F.conv3d(x, w), (1, 2, 5, 6, 6), (19, 2, 3, 3, 3)),
    "groups": (lambda x, w: F.conv2d(x, w, padding=1, groups=3), (2, 6, 6, 7), (15, 2, 3, 3)),
    "depthwise": (lambda x, w: F.conv2d(x, w, padding=1, groups=7), (2, 7, 9, 11), (7, 1, 3, 3)),
    "strided depthwise": (lambda x, w: F.conv2d(x, w, None, (1, 2), 2, groups=3), (1, 3, 9, 12), (3, 1, 5, 4)),
    "phases": (lambda x, w: F.conv_transpose2d(x, w, stride=2, padding=1), (2, 6, 5, 6), (6, 5, 4, 4)),
    "uneven phases": (
        lambda x, w: F.conv_transpose2d(x, w, None, (3, 2), (2, 1), (1, 0)),
        (1, 5, 4, 7),
        (5, 4, 3, 3),
    ),
    "phases of groups": (
        lambda x, w: F.conv_transpose1d(x, w, stride=2, padding=1, output_padding=1, groups=2),
        (2, 8, 21),
        (8, 5, 3),
    ),
}


WINDOWS = "tileify,blockify-launch{threads=128},register-tile{vector=4 rows=2},stage-windows"
"""What the heuristics choose for large depthwise convolutions."""

WHOLE = TILES.replace("bk=12", "bk=25").replace("m=16 n=64", "m=96 n=32").replace("m=4 n=4", "m=12 n=4")
"""Slabs of whole windows of 5 x 5, whose rows are no whole accesses, and threads with 12 rows."""


@pytest.fixture(scope="module")
def lowered() -> Callable[..., ModuleOp]:
    """Lower `function(x, w)` by a schedule for its contraction, or by those chosen."""
    from deplodock.frontend.capture import export

    def lower_by(function: Callable[..., Any], *inputs: Any, schedule: str | None = None) -> ModuleOp:
        module = export(function, inputs).module
        lower(module, new_context(), Level.LOOP)
        for kernel in kernels(module):
            is_for_all = schedule == WINDOWS
            if schedule and (is_for_all or any(contraction(nest) is not None for nest in side_by_side(kernel))):
                write_schedule(kernel, parse_schedule(schedule))
        lower(module, new_context(), Level.KERNEL)
        return module

    return lower_by


CHOSEN = ("padded", "phases of groups", "depthwise")
"""The cases that are run with the schedules chosen for them, too."""


RUNS = (
    *((case, WINDOWS if "depthwise" in case else TILES) for case in CASES),
    *((case, None) for case in CHOSEN),
    ("large windows", WHOLE),
    ("large windows", TILES.replace("{m=16", "{m=20")),
)


@pytest.mark.parametrize(("case", "schedule"), RUNS)
def test_convolutions(lowered: Callable[..., ModuleOp], case: str, schedule: str | None) -> None:
    function, *shapes = CASES[case]
    x, w = (randn(*shape) for shape in shapes)
    simulation = simulate(lowered(function, x, w, schedule=schedule), [x.numpy(), w.numpy()])
    assert not simulation.findings
    wanted = function(x.double(), w.double()).numpy()
    np.testing.assert_allclose(simulation.outputs[0], wanted, rtol=1e-5, atol=1e-5)


def test_windows_are_one_contraction(lowered: Callable[..., ModuleOp]) -> None:
    """A large convolution has slabs of k and pixels on a ring, as a product of matrices has."""
    from deplodock.frontend.capture import export

    module = export(lambda x, w: F.conv2d(x, w), (torch.empty(8, 64, 30, 30), torch.empty(64, 64, 3, 3))).module
    lower(module, new_context(), Level.TILE)
    slabs = [op.result.type.get_shape() for op in module.walk() if isinstance(op, tile.AllocOp)]
    assert len(slabs) == 2
    assert {shape[1] for shape in slabs} == {36}
