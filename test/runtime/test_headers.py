"""The header that nvcc takes for its own: all that a kernel's text may use, with the code that CUDA's headers give."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from deplodock.codegen import cluster, copies, grid, mbarrier, mma, scalars, tma
from deplodock.errors import CompileError
from deplodock.runtime import nvcc as nvcc_module
from deplodock.runtime.nvcc import HEADERS, compile_cubin, nvcc_identity

KERNEL = 'extern "C" __global__ void k(float* x) { x[threadIdx.x] = expf(x[threadIdx.x]); }\n'

SHUFFLED = ("int", "unsigned", "float", "double", "long long", "bool")

STATEMENTS = """
__syncthreads(); __syncwarp(); __threadfence();
out[0] = __syncthreads_or(in[0]) + atomicInc((unsigned*)in, 7) + blockIdx.x;
shared[threadIdx.x] = in[threadIdx.x];
out[1] = (int)(unsigned)__cvta_generic_to_shared(&shared[in[1]]);
"""


def functions() -> Iterator[str]:
    """A function for each call that an expression may have."""
    seen = {*scalars.HELPERS, "int", "short", "exp2_approx"}
    for sig, text in scalars.SCALARS.items():
        calls = {*scalars.CALL.findall(text)} - seen
        if calls:
            seen |= calls
            names = sorted({*re.findall(r"\{(\d)\}", text)})
            parameters = ", ".join(f"{scalars.C_TYPES[sig.operand]} a{name}" for name in names)
            call = text.format("a0", "a1", "a2")
            yield f"__device__ {scalars.C_TYPES[sig.result]} f{len(seen)}({parameters}) {{ return {call}; }}"
    yield "__device__ float divided(float a, float b) { return __fdividef(a, b); }"
    for c_type in SHUFFLED:
        name = c_type.replace(" ", "_")
        yield (
            f"__device__ {c_type} shuffled_{name}({c_type} a) {{ a = __shfl_xor_sync(0xffffffff, a, 4);"
            " a = __shfl_up_sync(0xffffffff, a, 2); return __shfl_sync(0xffffffff, a, 7, 8); }"
        )
    for vector in dict.fromkeys(scalars.VECTORS.values()):
        lanes = ", ".join("abcd"[: int(vector[-1])])
        parameters = ", ".join(f"int {lane}" for lane in lanes.split(", "))
        yield f"__device__ {vector} made_{vector}({parameters}) {{ return make_{vector}({lanes}); }}"
    for c_type in ("__half", "__nv_bfloat16"):
        yield f"__device__ {c_type} zero{c_type}() {{ return {c_type}(0.0f); }}"


def everything() -> str:
    """A text with all that the printer may write in some kernel."""
    parts = (cluster, copies, grid, mbarrier, mma, tma)
    helpers = [text for part in (scalars, *parts) for text in part.HELPERS.values()]
    helpers = [text.replace("__forceinline__ ", "") for text in helpers]
    kernel = f"__global__ void k(const int* in, int* out) {{\n__shared__ int shared[64];{STATEMENTS}}}\n"
    headers = [f"#include <{header}>\n" for header in scalars.HEADERS.values()]
    return "".join([*headers, tma.TYPE, *helpers, *(f"{text}\n" for text in functions()), kernel])


def ptx(nvcc: Path, folder: Path, arch: str, *flags: str) -> list[str]:
    """The PTX of everything, each function with its instructions, without comments."""
    command = [str(nvcc), "-ptx", "-rdc=true", "-fmad=false", f"-arch={arch}", *flags, "-o", "out.ptx", "all.cu"]
    subprocess.run(command, cwd=folder, check=True)
    return [line for line in (folder / "out.ptx").read_text().splitlines() if not line.startswith("//")]


@pytest.mark.parametrize("arch", ["sm_80", "sm_90a"])
def test_all_that_a_kernel_may_use_is_declared_with_the_same_code(nvcc: Path, tmp_path: Path, arch: str) -> None:
    (tmp_path / "all.cu").write_text(everything())
    assert ptx(nvcc, tmp_path, arch, "-I", str(HEADERS)) == ptx(nvcc, tmp_path, arch)


def test_other_texts_have_the_headers_of_cuda(nvcc: Path) -> None:
    text = KERNEL.replace("expf(", "normcdff(")
    assert list(compile_cubin(text, "sm_80", nvcc=nvcc).reports) == ["k"]
    with pytest.raises(CompileError, match=r"^nvcc rejected @k for sm_80:\nkernel.cu\(1\): error: .*other"):
        compile_cubin(KERNEL.replace("expf(", "other("), "sm_80", nvcc=nvcc)


def test_a_cubin_depends_on_the_header(nvcc: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    before = nvcc_identity(nvcc)
    (tmp_path / "cuda_runtime.h").write_text("// other\n")
    monkeypatch.setattr(nvcc_module, "HEADERS", tmp_path)
    assert nvcc_identity(nvcc) != before
