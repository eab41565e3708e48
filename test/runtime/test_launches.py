"""What the driver is asked for when launches start: their arguments are made once, and follow the addresses."""

from __future__ import annotations

import numpy as np
import pytest
from recording import SCRATCH, PycudaError, Recorder

from deplodock.errors import DeviceError, InvalidInputError
from deplodock.runtime import driver as driver_module
from deplodock.runtime.driver import Context, DeviceMemory, KernelModule, is_capturing
from deplodock.runtime.launches import Launches
from deplodock.runtime.plan import BufferPlan, LaunchPlan, ProgramPlan, TensorMapPlan

F32 = np.dtype(np.float32)
MAP = TensorMapPlan(1, (64,), F32, (16,))
PLAN = ProgramPlan(
    (BufferPlan((64,), F32), BufferPlan((64,), F32, 256), BufferPlan((64,), F32)),
    (0,),
    (2,),
    (LaunchPlan("k_first", (0, 1), 3, 32, 0), LaunchPlan("k_second", (MAP, 0, 2), 5, 64, 4096, True)),
    512,
)
IMAGE = b"image\nk_first pp\nk_second mpp\n\0"
MAPPED = f"7,1,{SCRATCH + 256},64,16,1,0,0,2,0"


def launches(module: KernelModule) -> Launches:
    functions = {plan.kernel: module.function(plan) for plan in PLAN.launches}
    return Launches(PLAN, functions, SCRATCH, [2, 0])


def test_launches_follow_the_addresses_and_the_stream(calls: Recorder) -> None:
    module = KernelModule(Context(0), IMAGE)
    own = launches(module)
    assert calls() == ["load image", "attribute k_second 8 4096", "attribute k_second 9 100"]
    for stream, out, x in [(0, 32, 16), (7, 32, 48)]:
        own.place([out, x])
        own.start(stream)
        assert calls() == [
            f"launch k_first 3 32 0 {stream} {x} {SCRATCH + 256}",
            f"launch k_second 5 64 4096 {stream} early=1 {MAPPED} {x} {out}",
        ]
    own.start(7, [1])
    assert calls() == [f"launch k_second 5 64 4096 7 early=1 {MAPPED} 48 32"]
    del own, module
    assert calls() == ["unload"]


def test_two_sets_of_launches_are_apart(calls: Recorder) -> None:
    module = KernelModule(Context(0), IMAGE)
    first, second = launches(module), launches(module)
    first.place([16, 32])
    second.place([48, 64])
    calls()
    first.start(0, [0])
    second.start(0, [0])
    assert calls() == [f"launch k_first 3 32 0 0 {x} {SCRATCH + 256}" for x in (32, 64)]


def test_what_the_driver_refuses_is_an_error(calls: Recorder, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(PycudaError, match="cuModuleLoadDataEx failed: no kernel image"):
        KernelModule(Context(0), b"wrong\n\0")
    module = KernelModule(Context(0), IMAGE)
    with pytest.raises(PycudaError, match="cuModuleGetFunction failed: another error"):
        module.function(LaunchPlan("k_third", (), 1, 32, 0))
    own = launches(module)
    with pytest.raises(InvalidInputError, match="buffer 0 starts at 0x28, which is no multiple of 16 bytes"):
        own.place([16, 40])
    own.place([16, 32])
    monkeypatch.setattr(driver_module, "starter", lambda: lambda *_: (1,))
    with pytest.raises(DeviceError, match=r"cannot start @k_first with 3 blocks of 32 threads .* another error"):
        own.start(0)


def test_what_is_made_on_a_gpu_is_released_there(calls: Recorder) -> None:
    """Whatever GPU is the current one then, or if none is."""
    memory, module = DeviceMemory(Context(1), 64), KernelModule(Context(1), IMAGE)
    module.function(LaunchPlan("k_second", (MAP, 0, 2), 1, 32, 4096))
    assert calls() == ["1: allocate 64", "1: load image", "1: attribute k_second 8 4096"]
    with Context(0):
        del module
    del memory
    assert calls() == ["1: unload", f"1: free {SCRATCH}"]


def test_a_gpu_that_has_reported_a_fault_takes_nothing_back(calls: Recorder) -> None:
    """Nor does pycuda try, when the last reference is gone."""
    memory = DeviceMemory(Context(0), 64)
    calls.has_fault = True
    del memory
    assert calls() == ["allocate 64"]
    assert calls.current == []


def test_whether_a_graph_is_captured(calls: Recorder) -> None:
    assert [is_capturing(stream) for stream in (7, 9)] == [False, True]


def test_a_gpu_that_is_not_there(calls: Recorder) -> None:
    with pytest.raises(PycudaError, match="cuDeviceGet failed: another error"):
        Context(2)
