"""Edits of axes keep the carriers of lane axes."""

from __future__ import annotations

from xdsl.parser import Parser
from xdsl.pattern_rewriter import PatternRewriter

from deplodock.dialects import tile
from deplodock.dialects.tile import Binding
from deplodock.passes.driver import new_context
from deplodock.passes.tile.edits import Axis, append_axis, append_lane, drop_axis, reorder


def launch_with_lanes() -> tile.LaunchOp:
    """A launch with two lane axes, on different carriers."""
    text = "tile.launch (%u = 2 : thread, %g = 8 : thread, %t = 4 : thread, %k = 4 : lane %t, %n = 8 : lane %g) {}"
    module = Parser(new_context(), text).parse_module()
    (launch,) = (op for op in module.ops if isinstance(op, tile.LaunchOp))
    return launch


def carriers(launch: tile.LaunchOp) -> dict[str | None, str | None]:
    """The names of the lane axes, in order, and of their carriers."""
    launch.verify()
    return {lane.name_hint: carrier.name_hint for lane, carrier in launch.carried_axes().items()}


def test_axes_in_another_order() -> None:
    launch = launch_with_lanes()
    u, g, t, k, n = launch.axes
    reorder(PatternRewriter(launch), launch, [n, t, u, k, g])
    assert carriers(launch) == {"n": "g", "k": "t"}


def test_an_axis_less() -> None:
    launch = launch_with_lanes()
    drop_axis(PatternRewriter(launch), launch, launch.axes[0])
    assert carriers(launch) == {"k": "t", "n": "g"}


def test_a_lane_axis_less() -> None:
    launch = launch_with_lanes()
    drop_axis(PatternRewriter(launch), launch, launch.axes[3])
    assert carriers(launch) == {"n": "g"}
    drop_axis(PatternRewriter(launch), launch, launch.axes[3])
    assert carriers(launch) == {}


def test_more_axes() -> None:
    launch = launch_with_lanes()
    append_axis(PatternRewriter(launch), launch, Axis(2, Binding.REGISTER, "v"))
    append_lane(PatternRewriter(launch), launch, launch.axes[0], "s")
    assert carriers(launch) == {"k": "t", "n": "g", "s": "u"}
