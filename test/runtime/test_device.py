"""The runtime without a GPU: the plan of a program, cubins kept by content, and what is said where there is no GPU."""

from __future__ import annotations

import json
import os
import threading
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from recording import SCRATCH, Recorder
from xdsl.dialects.builtin import ModuleOp
from xdsl.parser import Parser

from deplodock.errors import CompileError, UnsupportedError
from deplodock.passes.driver import new_context
from deplodock.runtime import cubins as cubins_module
from deplodock.runtime import device, nvrtc
from deplodock.runtime.cubins import cache_folder, cubins
from deplodock.runtime.device import POISON, Executable, missing
from deplodock.runtime.driver import Context
from deplodock.runtime.nvcc import CompiledKernel, KernelReport
from deplodock.runtime.plan import BufferPlan, LaunchPlan, ProgramPlan, program_plan
from deplodock.runtime.planned import PlannedProgram
from deplodock.tools.cli.app import app
from deplodock.tools.diagnostics import run_tool

KERNELS = """
kernel.func @k_first(%x: memref<8xf32>, %out: memref<8xf32>) blocks(%block = 2) threads(%thread = 4) {
  %v = loop.load %x[%block * 4 + %thread] : memref<8xf32>
  loop.store %v, %out[%block * 4 + %thread] : memref<8xf32>
}
kernel.func @k_none(%x: memref<8xf32>, %out: memref<8xf32>) blocks(%block = 0) threads(%thread = 4) {
}
"""

CHAIN = (
    KERNELS
    + """
func.func @main(%x: memref<8xf32>) -> (memref<8xf32>, memref<8xf32>) {
  %a = memref.alloc() : memref<8xf32>
  %b = memref.alloc() : memref<8xf32>
  %out = memref.alloc() : memref<8xf32>
  kernel.launch @k_first(%x, %a) : memref<8xf32>, memref<8xf32>
  kernel.launch @k_none(%x, %a) : memref<8xf32>, memref<8xf32>
  kernel.launch @k_first(%a, %b) : memref<8xf32>, memref<8xf32>
  kernel.launch @k_first(%b, %out) : memref<8xf32>, memref<8xf32>
  func.return %out, %x : memref<8xf32>, memref<8xf32>
}
"""
)

EMPTY = 'extern "C" __global__ void k(float* x) { x[threadIdx.x] = 0.0f; }\n'


@pytest.fixture
def parse() -> Callable[[str], ModuleOp]:
    context = new_context()
    return lambda text: Parser(context, text).parse_module()


def test_plan_of_a_host_function(parse: Callable[[str], ModuleOp]) -> None:
    plan = program_plan(parse(CHAIN))
    f32 = np.dtype(np.float32)
    own, scratch = BufferPlan((8,), f32), [BufferPlan((8,), f32, offset) for offset in (0, 256)]
    assert plan.buffers == (own, *scratch, own)
    assert (plan.inputs, plan.outputs, plan.scratch) == ((0,), (3, 0), 512)
    assert plan.launches == tuple(LaunchPlan("k_first", pair, 2, 4, 0) for pair in ((0, 1), (1, 2), (2, 3)))
    assert own.bytes == 32


def test_counters_lie_behind_the_rest_of_scratch_memory(parse: Callable[[str], ModuleOp]) -> None:
    text = """
    kernel.func @k(%x: memref<8xf32>, %out: memref<8xf32>, %turns: memref<100xi32>) blocks(%b = 2) threads(%t = 4) {
      %v = loop.load %x[%b * 4 + %t] : memref<8xf32>
      loop.store %v, %out[%b * 4 + %t] : memref<8xf32>
      %last = kernel.ticket %turns[0] of 2 : memref<100xi32>
    }
    func.func @main(%x: memref<8xf32>) -> memref<8xf32> {
      %a = memref.alloc() : memref<8xf32>
      %out = memref.alloc() : memref<8xf32>
      %turns = kernel.counters : memref<100xi32>
      kernel.launch @k(%x, %a, %turns) : memref<8xf32>, memref<8xf32>, memref<100xi32>
      kernel.launch @k(%a, %out, %turns) : memref<8xf32>, memref<8xf32>, memref<100xi32>
      func.return %out : memref<8xf32>
    }"""
    plan = program_plan(parse(text))
    counters = BufferPlan((100,), np.dtype(np.int32), 256)
    assert counters in plan.buffers
    assert (plan.scratch, plan.counters) == (256 + 512, 512)


def test_plan_of_a_kernel_alone(parse: Callable[[str], ModuleOp]) -> None:
    plan = program_plan(parse(KERNELS.partition("kernel.func @k_none")[0]))
    assert (plan.inputs, plan.outputs) == ((0,), (1,))
    assert [launch.arguments for launch in plan.launches] == [(0, 1)]


def test_large_shared_memory_is_asked_for_at_launch(parse: Callable[[str], ModuleOp]) -> None:
    text = """
    kernel.func @k(%out: memref<4xf32>) blocks(%block = 1) threads(%thread = 4) {
      %s = kernel.alloc : memref<16384xf32, #tile.memory<shared>>
      %v = loop.load %s[%thread] : memref<16384xf32, #tile.memory<shared>>
      loop.store %v, %out[%thread] : memref<4xf32>
    }
    """
    assert program_plan(parse(text)).launches[0].shared == 65536


@pytest.mark.parametrize(
    ("type", "message"),
    [
        ("memref<32xf32, strided<[2]>>", "buffers in global memory are contiguous"),
        ("memref<32xf32, #tile.memory<shared>>", "the buffers of a host function are in global memory"),
        ("memref<?xf32>", "the runtime needs static shapes"),
    ],
)
def test_buffers_whose_bytes_their_shape_does_not_give(
    parse: Callable[[str], ModuleOp], type: str, message: str
) -> None:
    with pytest.raises(UnsupportedError, match=f"func.func: {message}"):
        program_plan(parse(f"func.func @f(%x: {type}) {{ func.return }}"))


def test_other_operations_of_a_host_function_are_refused(parse: Callable[[str], ModuleOp]) -> None:
    text = "func.func @main(%x: memref<4xf32>) { memref.dealloc %x : memref<4xf32> func.return }"
    with pytest.raises(UnsupportedError, match=r"does not run memref.dealloc in the host function @main"):
        program_plan(parse(text))


def test_a_text_is_compiled_once(nvcc: Path, tmp_path: Path) -> None:
    first, twin = cubins([EMPTY, EMPTY], "sm_90a", folder=tmp_path)
    assert first is twin
    assert first.is_new
    (again,) = cubins([EMPTY], "sm_90a", folder=tmp_path)
    assert not again.is_new
    assert again.kernel == first.kernel
    (other,) = cubins([EMPTY], "sm_80", folder=tmp_path)
    assert other.is_new


def test_flags_of_the_environment_change_nothing(nvcc: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    text = 'extern "C" __global__ void k(float* x) { x[0] = 1.0f / x[0]; }'
    monkeypatch.setenv("NVCC_APPEND_FLAGS", "-use_fast_math")
    (given,) = cubins([text], "sm_90a", folder=tmp_path / "given")
    monkeypatch.delenv("NVCC_APPEND_FLAGS")
    (plain,) = cubins([text], "sm_90a", folder=tmp_path / "plain")
    assert plain.kernel.cubin == given.kernel.cubin
    assert not cubins([text], "sm_90a", folder=tmp_path / "given")[0].is_new


def test_a_damaged_cubin_is_compiled_again(nvcc: Path, tmp_path: Path) -> None:
    (first,) = cubins([EMPTY], "sm_90a", folder=tmp_path)
    (path,) = tmp_path.iterdir()
    for damaged in (b"", path.read_bytes()[:-100], b"{}"):
        path.write_bytes(damaged)
        (healed,), (again,) = (cubins([EMPTY], "sm_90a", folder=tmp_path) for _ in range(2))
        assert (healed.is_new, again.is_new) == (True, False)
        assert healed.kernel.cubin == again.kernel.cubin == first.kernel.cubin


def test_a_cache_that_cannot_be_written_is_no_error(nvcc: Path, tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    (made,) = cubins([EMPTY], "sm_90a", folder=tmp_path / "file" / "cache")
    assert made.kernel.cubin.startswith(b"\x7fELF")


def test_a_rejected_text_is_not_kept(nvcc: Path, tmp_path: Path) -> None:
    with pytest.raises(CompileError, match="undefined_name"):
        cubins(["__global__ void k() { undefined_name; }"], "sm_90a", folder=tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_where_cubins_are_kept(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    for empty in (True, False):
        monkeypatch.setenv("DEPLODOCK_CACHE", "") if empty else monkeypatch.delenv("DEPLODOCK_CACHE")
        assert cache_folder() == tmp_path / "deplodock"
    monkeypatch.setenv("DEPLODOCK_CACHE", str(tmp_path / "own"))
    assert cache_folder() == tmp_path / "own"


@pytest.mark.parametrize("base", ["", "a/relative/folder"])
def test_the_cache_lies_in_the_home_folder_by_default(
    monkeypatch: pytest.MonkeyPatch, base: str, tmp_path: Path
) -> None:
    monkeypatch.delenv("DEPLODOCK_CACHE", raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", base)
    monkeypatch.setenv("HOME", str(tmp_path))
    assert cache_folder() == tmp_path / ".cache" / "deplodock"


def test_a_user_without_a_home_has_a_cache(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    def no_home() -> Path:
        raise RuntimeError("Could not determine home directory.")

    monkeypatch.delenv("DEPLODOCK_CACHE", raising=False)
    monkeypatch.delenv("XDG_CACHE_HOME", raising=False)
    monkeypatch.setattr(Path, "home", no_home)
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    assert cache_folder() == tmp_path / f"deplodock-{os.geteuid()}"


@pytest.fixture
def no_nvcc(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cubins_module, "find_nvcc", lambda: None)


@pytest.mark.usefixtures("no_nvcc")
def test_without_a_compiler(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(nvrtc, "identity", lambda: None)
    with pytest.raises(CompileError, match="no nvcc found"):
        cubins([EMPTY], "sm_90a", folder=tmp_path)


@pytest.mark.usefixtures("no_nvcc")
def test_nvrtc_compiles_where_there_is_no_nvcc(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    compiled = CompiledKernel(b"\x7fELF", {"k": KernelReport("k", 8, 0, 0, 0, 0)}, "log")
    monkeypatch.setattr(nvrtc, "identity", lambda: "NVRTC 13.0")
    monkeypatch.setattr(nvrtc, "compile_cubin", lambda text, arch: compiled)
    (first,), (again,) = (cubins([EMPTY], "sm_90a", folder=tmp_path) for _ in range(2))
    assert (first.kernel, first.is_new, again.kernel, again.is_new) == (compiled, True, compiled, False)


def test_nvrtc() -> None:
    if nvrtc.identity() is None:
        pytest.skip("no NVRTC: it comes in the wheels cuda-bindings and nvidia-cuda-nvrtc")
    compiled = nvrtc.compile_cubin(EMPTY, "sm_90a")
    assert compiled.cubin[:4] == b"\x7fELF"
    assert list(compiled.reports) == ["k"]
    with pytest.raises(CompileError, match=r"^NVRTC rejected @k for sm_90a:\nkernel.cu\(1\): error: .*y"):
        nvrtc.compile_cubin(EMPTY.replace("0.0f", "y"), "sm_90a")


def run_command(*args: str) -> int:
    """The exit code of `deplodock run` of a small program, run in this process."""
    with pytest.raises(SystemExit) as exit:
        run_tool("deplodock", lambda: app(["run", *args, "-c", "torch.ones(4) + 1"], standalone_mode=False))
    assert isinstance(exit.value.code, int)
    return exit.value.code


@pytest.mark.parametrize("option", [["--bench"], ["--profile"], ["--device", "cuda"]])
def test_without_a_gpu_one_line_says_what_is_missing(capsys: pytest.CaptureFixture[str], option: list[str]) -> None:
    if missing() is None:
        pytest.skip("there is a GPU")
    assert run_command(*option) == 1
    out, message = capsys.readouterr()
    assert out == ""
    assert message.startswith("deplodock: error: ")
    assert "--device sim" in message
    assert message.count("\n") == 1


@pytest.mark.parametrize(("module", "package"), [("pycuda", "pycuda"), ("cuda.bindings", "cuda-bindings")])
def test_a_package_that_is_missing_is_named(monkeypatch: pytest.MonkeyPatch, module: str, package: str) -> None:
    def absent() -> None:
        raise ModuleNotFoundError(name=module)

    monkeypatch.setattr(device, "pycuda", object)
    monkeypatch.setattr(device, module.rpartition(".")[2], absent)
    assert missing() == f"{package} is not installed: pip install 'deplodock[cuda]'"


def test_auto_is_the_simulator_without_a_gpu(capsys: pytest.CaptureFixture[str]) -> None:
    if missing() is None:
        pytest.skip("there is a GPU")
    assert run_command("--json") == 0
    printed = json.loads(capsys.readouterr().out)
    assert (printed["passed"], printed["compiled"], printed["bench"], printed["profile"]) == (True, 0, None, None)


@pytest.mark.parametrize("gpu", [0, 1])
def test_a_program_runs_on_its_gpu_in_any_thread(gpu: int, calls: Recorder) -> None:
    """Whatever GPU is the current one of the thread: it is the current one again afterwards."""
    x = BufferPlan((64,), np.dtype(np.float32))
    plan = ProgramPlan((x, BufferPlan((64,), x.dtype, 0)), (0,), (), (LaunchPlan("k", (0, 1), 3, 32, 0),), 256, 4)
    executable = Executable(PlannedProgram(plan, "", "sm_90", b"image\nk pp\n\0"), gpu)
    on = f"{gpu}: " * gpu
    assert calls() == [f"{on}load image", f"{on}allocate 256", f"{on}fill {SCRATCH + 252} 0 4"]

    def run() -> None:
        with Context(1 - gpu):
            launches = executable.bind([0])
            launches.place([16])
            executable.launch(launches, 7)
            executable.poison()
            calls.note("wait 7")

    def run_in_thread() -> None:
        thread = threading.Thread(target=run)
        thread.start()
        thread.join()

    for start in (run, run_in_thread):
        start()
        assert calls() == [
            f"{on}launch k 3 32 0 7 16 {SCRATCH}",
            f"{on}fill {SCRATCH} {POISON} 252",
            f"{'1: ' * (1 - gpu)}wait 7",
        ]
