"""Reading what predicts a kernel's speed off its SASS."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from deplodock.errors import CompileError
from deplodock.runtime import sass
from deplodock.runtime.nvcc import compile_cubin
from deplodock.runtime.sass import (
    LoopStatistics,
    bank_conflicts,
    disassemble,
    find_nvdisasm,
    loop_statistics,
    parse_sass,
)

DOT = """
extern "C" __global__ void __launch_bounds__(128) k_dot(const float4* x, float* y, int n) {
  __shared__ float4 s[256];
  s[threadIdx.x] = x[threadIdx.x];
  s[threadIdx.x + 128] = x[threadIdx.x + 128];
  __syncthreads();
  float a = 0.0f;
  #pragma unroll 1
  for (int i = 0; i < n; i++) {
    float4 v = s[(threadIdx.x + i) & 127], w = s[128 + ((threadIdx.x + i) & 127)];
    a = fmaf(v.x, w.x, a);
    a = fmaf(v.y, w.y, a);
    a = fmaf(v.z, w.z, a);
    a = fmaf(v.w, w.w, a);
  }
  y[threadIdx.x] = a;
}
extern "C" __global__ void k_copy(const float2* x, float2* y) { y[threadIdx.x] = x[threadIdx.x]; }
extern "C" __global__ void k_spill(float* y, int i) {
  float a[256];
  for (int j = 0; j < 256; j++) a[(i * j) & 255] = y[j];
  y[0] = a[i];
}
"""


def listing(*lines: str, name: str = "k") -> str:
    """What nvdisasm prints for a kernel; lines that start with a dot are labels."""
    address = 0
    out = [f".text.{name}:"]
    for line in lines:
        if line.startswith(".L"):
            out.append(f"{line}:")
        else:
            out.append(f"        /*{address:04x}*/                   {line} ;")
            address += 16
    return "\n".join(out) + "\n"


def stats(*lines: str) -> LoopStatistics:
    (code,) = parse_sass(listing(*lines)).values()
    return loop_statistics(code)


def conflicts(*lines: str) -> int:
    (code,) = parse_sass(listing(*lines)).values()
    return bank_conflicts(code)


@pytest.fixture
def nvdisasm() -> Path:
    found = find_nvdisasm()
    if found is None and os.environ.get("DEPLODOCK_REQUIRE_NVCC"):
        pytest.fail("DEPLODOCK_REQUIRE_NVCC is set, but there is no nvdisasm")
    return found or pytest.skip("no nvdisasm")


@pytest.mark.parametrize(
    ("lines", "expected"),
    [
        (["FFMA R0, R4, R6, R0"], 2),
        (["FFMA R0, R4, R7, R1"], 1),
        (["FFMA R0, R4, RZ, R1"], 0),
        (["FFMA R0, R4, c[0x0][0x160], R1"], 0),
        (["FFMA R0, -R4, |R4|, R1"], 0),
        (["FFMA R0, R4.reuse, R5, RZ", "FFMA R1, R4, R7, R8"], 0),
        (["FFMA R0, R4.reuse, R5, RZ", "FFMA R1, R4, R6, R8"], 1),
        (["FFMA R0, R4.reuse, R5, RZ", "LDS.128 R20, [R9]", "FFMA R1, R4, R7, R8"], 0),
        (["FFMA R0, R4.reuse, R5, RZ", "IADD3 R20, R9, 0x1, RZ", "FFMA R1, R4, R7, R8"], 1),
        (["FFMA R0, R4.reuse, R5, RZ", "FFMA R1, R7, R4, R8"], 1),
    ],
)
def test_bank_conflicts(lines: list[str], expected: int) -> None:
    assert conflicts(*lines) == expected


def test_the_loop_with_the_most_products_without_those_inside_it() -> None:
    found = stats(
        "FFMA R0, R1, R2, R0",
        ".L_x_0",
        "@P0 BRA `(.L_x_2)",
        "LDGSTS.E.BYPASS.128 [R4], desc[UR4][R2.64]",
        ".L_x_1",
        "FFMA R0, R1, R2, R0",
        "FFMA R0, R1, R2, R0",
        "@!P0 BRA `(.L_x_1)",
        "FFMA R0, R1, R2, R0",
        "@P1 BRA `(.L_x_0)",
        ".L_x_2",
        "EXIT",
    )
    assert (found.is_loop, found.instructions, found.ffma) == (True, 3, 2)
    assert found.instructions_per_ffma == 1.5
    assert found.cycles_per_ffma == found.instructions_per_ffma + found.conflicts_per_ffma


def test_without_a_loop_all_instructions_count() -> None:
    found = stats("LDG.E.64 R2, [R4]", "STG.E [R4], R2", "STG.E.U8 [R4], R3", "EXIT")
    assert (found.is_loop, found.instructions) == (False, 4)
    assert found.widths == {"LDG": {64: 1}, "STG": {32: 1, 8: 1}}
    assert found.median_lds_to_use is None
    assert str(found) == "no loop of 4 instructions, 0 FFMA, LDG 1 x 64 bit, STG 1 x 32 bit + 1 x 8 bit, 0 spills"


def test_distance_from_a_shared_load_to_its_use_goes_round_the_loop() -> None:
    found = stats(
        ".L_x_0",
        "FFMA R0, R6, R11, R0",
        "LDS.128 R4, [R9]",
        "FFMA R0, R1, R2, R0",
        "LDS R11, [R9+0x100]",
        "FFMA R0, R4, R5, R0",
        "@P0 BRA `(.L_x_0)",
    )
    assert found.lds_to_use == (3, 3)
    assert found.widths == {"LDS": {128: 1, 32: 1}}


def test_text() -> None:
    found = stats(".L_x_0", "LDS.64 R4, [R9]", "FFMA R0, R4, R5, RZ", "@P0 BRA `(.L_x_0)", "STL [R1], R2")
    assert str(found) == (
        "loop of 3 instructions, 1 FFMA, 3.00 instructions + 0.00 bank conflicts = 3.00 slots per FFMA, "
        "LDS 1 x 64 bit, LDS to use 1 (least 1), 1 spills"
    )


@pytest.mark.parametrize("arch", ["sm_80", "sm_90a", "sm_120"])
def test_statistics_of_a_cubin(nvcc: Path, nvdisasm: Path, arch: str) -> None:
    code = disassemble(compile_cubin(DOT, arch, nvcc=nvcc).cubin, nvdisasm=nvdisasm)
    found = {name: loop_statistics(instructions) for name, instructions in code.items()}
    assert set(found) == {"k_dot", "k_copy", "k_spill"}
    dot = found["k_dot"]
    assert (dot.is_loop, dot.ffma, dot.widths, dot.spills) == (True, 4, {"LDS": {128: 2}}, 0)
    assert 8 <= dot.instructions <= 24
    assert all(distance > 0 for distance in dot.lds_to_use)
    assert (found["k_copy"].is_loop, found["k_copy"].widths) == (False, {"LDG": {64: 1}, "STG": {64: 1}})
    assert found["k_spill"].spills > 0


def test_not_a_cubin(nvdisasm: Path) -> None:
    with pytest.raises(CompileError, match="nvdisasm cannot read the cubin"):
        disassemble(b"no cubin", nvdisasm=nvdisasm)


def test_no_nvdisasm(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sass, "find_nvdisasm", lambda: None)
    with pytest.raises(CompileError, match="no nvdisasm found: install the wheel nvidia-cuda-nvdisasm"):
        disassemble(b"")
