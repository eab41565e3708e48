"""Compiling CUDA C and reading what ptxas says of it."""

from pathlib import Path

import pytest

from deplodock.errors import CompileError
from deplodock.runtime import nvcc as nvcc_module
from deplodock.runtime.nvcc import KernelReport, compile_cubin, find_nvcc, parse_ptxas_report

REVERSE = """
extern "C" __global__ void k_reverse(const float* x, float* y) {
  __shared__ float s[128];
  s[threadIdx.x] = x[threadIdx.x];
  __syncthreads();
  y[threadIdx.x] = s[127 - threadIdx.x] * 2.0f;
}
extern "C" __global__ void k_copy(const float* x, float* y) { y[threadIdx.x] = x[threadIdx.x]; }
"""

LOG = """
ptxas info    : 0 bytes gmem
ptxas info    : Compiling entry function 'k' for 'sm_80'
ptxas info    : Function properties for k
    40 bytes stack frame, 8 bytes spill stores, 12 bytes spill loads
ptxas info    : Function properties for helper
    16 bytes stack frame, 0 bytes spill stores, 0 bytes spill loads
ptxas info    : Used 32 registers, used 1 barriers, 56 bytes cumulative stack size, 512 bytes smem, 368 bytes cmem[0]
"""


def test_report() -> None:
    assert parse_ptxas_report(LOG) == {"k": KernelReport("k", 32, 40, 8, 12, 512)}


def test_report_in_another_form_is_an_error() -> None:
    with pytest.raises(CompileError, match="unexpected output of ptxas"):
        parse_ptxas_report(LOG.replace("Used", "uses"))


@pytest.mark.parametrize("arch", ["sm_80", "sm_90a", "sm_120"])
def test_compiles_without_spills(nvcc: Path, arch: str) -> None:
    compiled = compile_cubin(REVERSE, arch, nvcc=nvcc)
    assert compiled.cubin[:4] == b"\x7fELF"
    assert {name: report.shared for name, report in compiled.reports.items()} == {"k_reverse": 512, "k_copy": 0}
    assert all(report.spill_stores == report.spill_loads == 0 for report in compiled.reports.values())


def test_does_not_contract_to_fma(nvcc: Path) -> None:
    source = 'extern "C" __global__ void k(float* x, float a, float b) { x[0] = x[0] * a + b; }'
    assert b"-fmad false" in compile_cubin(source, "sm_80", nvcc=nvcc).cubin


def test_error_shows_the_offending_line(nvcc: Path) -> None:
    with pytest.raises(CompileError) as caught:
        compile_cubin(REVERSE.replace("= s[", "= missing["), "sm_80", nvcc=nvcc)
    message = str(caught.value)
    assert message.startswith("nvcc rejected @k_reverse for sm_80:\nkernel.cu(6): error:")
    assert "y[threadIdx.x] = missing[127 - threadIdx.x] * 2.0f;" in message


def test_error_in_inline_assembly_shows_the_line_of_ptx(nvcc: Path) -> None:
    bad = 'extern "C" __global__ void __launch_bounds__(32) k_bad() {\n  asm volatile("bogus.f32 %f1;");\n}\n'
    source = bad.replace("k_bad", "k_good").replace("bogus.f32 %f1;", "") + bad
    with pytest.raises(
        CompileError, match=r"@k_bad for sm_80:\nptxas kernel.ptx, line \d+; error .*\n +bogus.f32 %f1;"
    ):
        compile_cubin(source, "sm_80", nvcc=nvcc)


def test_unknown_architecture(nvcc: Path) -> None:
    with pytest.raises(CompileError, match="sm_999"):
        compile_cubin(REVERSE, "sm_999", nvcc=nvcc)


def test_search_order(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for folder in ("home/bin", "path"):
        tool = tmp_path / folder / "nvcc"
        tool.parent.mkdir(parents=True)
        tool.touch(mode=0o755)
    monkeypatch.setattr(nvcc_module, "_WHEEL", "no-such-wheel")
    monkeypatch.delenv("CUDA_PATH", raising=False)
    monkeypatch.setenv("PATH", str(tmp_path / "path"))
    monkeypatch.setenv("CUDA_HOME", str(tmp_path / "home"))
    assert find_nvcc() == tmp_path / "home" / "bin" / "nvcc"
    monkeypatch.delenv("CUDA_HOME")
    assert find_nvcc() == tmp_path / "path" / "nvcc"
    monkeypatch.setenv("PATH", "")
    assert find_nvcc() is None
    with pytest.raises(CompileError, match="no nvcc found"):
        compile_cubin(REVERSE, "sm_80")
