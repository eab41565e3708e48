"""Compiling CUDA C and reading what ptxas says of it."""

import time
from pathlib import Path

import pytest

from deplodock.errors import CompileError
from deplodock.runtime import environment
from deplodock.runtime import nvcc as nvcc_module
from deplodock.runtime.nvcc import (
    KernelReport,
    compile_cubin,
    compiles_at_once,
    find_nvcc,
    nvcc_identity,
    parse_ptxas_report,
    rejection,
)
from deplodock.runtime.sass import disassembly

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


@pytest.mark.parametrize("indent", ["    ", "ptxas         .     "], ids=["nvcc", "NVRTC"])
def test_report(indent: str) -> None:
    log = LOG.replace("    ", indent).replace(f"ptxas info{indent}", "ptxas info    ")
    assert parse_ptxas_report(log) == {"k": KernelReport("k", 32, 40, 8, 12, 512)}


def test_a_rejection_comes_without_reports() -> None:
    log = LOG.replace("\n    ", "\nptxas         .     ") + "ptxas fatal   : too much shared data"
    error = rejection("NVRTC", "sm_80", log, {"kernel.cu": REVERSE}.get)
    assert str(error) == "NVRTC rejected @k_reverse, @k_copy for sm_80:\nptxas fatal   : too much shared data"


def test_report_in_another_form_is_an_error() -> None:
    with pytest.raises(CompileError, match="unexpected output of ptxas"):
        parse_ptxas_report(LOG.replace("Used", "uses"))


@pytest.mark.parametrize("arch", ["sm_80", "sm_90a", "sm_120"])
def test_compiles_without_spills(nvcc: Path, arch: str) -> None:
    compiled = compile_cubin(REVERSE, arch, nvcc=nvcc)
    assert compiled.cubin[:4] == b"\x7fELF"
    assert {name: report.shared for name, report in compiled.reports.items()} == {"k_reverse": 512, "k_copy": 0}
    assert all(report.spill_stores == report.spill_loads == 0 for report in compiled.reports.values())


def test_kernels_that_are_compiled_at_once_have_the_same_code(nvcc: Path) -> None:
    if not compiles_at_once(nvcc):
        pytest.skip("nvcc compiles one kernel after the other")
    alone, at_once = (compile_cubin(REVERSE, "sm_90a", nvcc=nvcc, at_once=at_once) for at_once in (False, True))
    assert alone.reports == at_once.reports
    assert disassembly(alone.cubin) == disassembly(at_once.cubin)


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


def fake_nvcc(folder: Path, script: str) -> Path:
    """A compiler that is a shell script."""
    path = folder / "nvcc"
    path.write_text(f"#!/bin/sh\n{script}\n")
    path.chmod(0o755)
    return path


def test_a_compiler_that_does_not_end_is_killed_with_what_it_started(tmp_path: Path) -> None:
    nvcc = fake_nvcc(tmp_path, f"(sleep 2; touch {tmp_path}/survived) & sleep 60")
    start = time.monotonic()
    with pytest.raises(
        CompileError, match=r"^nvcc did not compile @k_reverse, @k_copy for sm_80 in 0.5 s and was stopp"
    ):
        compile_cubin(REVERSE, "sm_80", nvcc=nvcc, limit=0.5)
    assert time.monotonic() - start < 10
    time.sleep(2.5)
    assert not (tmp_path / "survived").exists()


@pytest.mark.parametrize(
    ("script", "message"),
    [
        ("kill -9 $$", r"^nvcc was killed by SIGKILL for @k_reverse, @k_copy and sm_80, without a cubin:$"),
        ("echo done", r"^nvcc ended with exit status 0 for @k_reverse, @k_copy and sm_80, without a cubin:\ndone$"),
        ("touch out.cubin", "without a cubin"),
        ("echo text > out.cubin", "without a cubin"),
        (r"printf '\377\376 bad'; exit 3", "^nvcc rejected @k_reverse, @k_copy for sm_80:\n\ufffd\ufffd bad$"),
    ],
)
def test_a_compiler_that_fails_in_another_way(tmp_path: Path, script: str, message: str) -> None:
    with pytest.raises(CompileError, match=message):
        compile_cubin(REVERSE, "sm_80", nvcc=fake_nvcc(tmp_path, script))


def test_a_compiler_that_cannot_be_started(tmp_path: Path) -> None:
    nvcc = fake_nvcc(tmp_path, "")
    nvcc.write_text("#!/no/such/interpreter\n")
    for call in (lambda: compile_cubin(REVERSE, "sm_80", nvcc=nvcc), lambda: nvcc_identity(nvcc)):
        with pytest.raises(CompileError, match=r"nvcc cannot be started: No such file or directory$"):
            call()


def test_a_compiler_that_does_not_say_its_version(tmp_path: Path) -> None:
    with pytest.raises(CompileError, match=r"nvcc --version ended with exit status 2: no license$"):
        nvcc_identity(fake_nvcc(tmp_path, "echo no license; exit 2"))


def test_a_cubin_depends_on_the_preprocessor_of_nvcc(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    nvcc = fake_nvcc(tmp_path, "echo 13.0")
    monkeypatch.delenv("NVCC_CCBIN", raising=False)
    plain = nvcc_identity(nvcc)
    monkeypatch.setenv("NVCC_CCBIN", "/usr/bin/clang++")
    assert nvcc_identity(nvcc) != plain
    monkeypatch.setenv("NVCC_CCBIN", "")
    assert nvcc_identity(nvcc) == plain


@pytest.mark.parametrize("name", environment.LEFT_OUT)
def test_what_changes_code_is_left_out_of_the_environment_with_a_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, name: str
) -> None:
    nvcc = fake_nvcc(tmp_path, f"echo 13.0 ${name} > {tmp_path / 'seen'}; exit 1")
    environment._note_once.cache_clear()
    monkeypatch.setenv(name, "-use_fast_math")
    for _ in range(2):
        with pytest.raises(CompileError):
            compile_cubin("", "sm_90a", nvcc=nvcc)
    assert (tmp_path / "seen").read_text() == "13.0\n"
    assert [record.message for record in caplog.records] == [
        f"{name} of the environment is left out where kernels are compiled: results are those of deplodock's own flags"
    ]
