"""What the host finds in CUDA text: mistakes planted in the text of programs that are right."""

from __future__ import annotations

import re

import pytest

pytest.importorskip("torch")

from host_samples import Sample, sample_of
from kinds import KINDS

from deplodock.errors import CompileError
from deplodock.runtime.host.harness import HostFault, build

WRONG = r"output \d (has \d+ wrong elements|depends on the order in which threads run)"

HANGS = "the kernel does not end"
PLANTED = {
    "a barrier is missing": ("row_norm", r"  __syncthreads\(\);\n", "", WRONG),
    "a barrier of a step is missing": ("contraction_ring", r"(wait_group.*\n) *__syncthreads\(\);\n", r"\1", WRONG),
    "threads wait at different barriers": (
        "row_norm",
        r"__syncthreads\(\);",
        "if (thread < 32) __syncthreads();\n  else __syncthreads();",
        r"__syncthreads\(\) in line \d+, where other threads wait in line \d+",
    ),
    "some threads do not come to a barrier": (
        "row_norm",
        r"__syncthreads\(\);",
        "if (thread < 32) __syncthreads();",
        r"no thread can go on: 32 threads wait for __syncthreads\(\) in line \d+, such as \d+ of block",
    ),
    "a shuffle takes another lane": ("row_norm", r"(__shfl_xor_sync.*), 16\)", r"\1, 15)", WRONG),
    "a shuffle of some lanes": ("row_norm", "0xffffffff", "0x0000ffff", "a shuffle of some lanes of a warp"),
    "the last copies are not waited for": ("contraction_ring", r"wait_group 1;", "wait_group 2;", WRONG),
    "no group is closed": ("contraction_ring", r'asm volatile\("cp.async.commit_group;" ::: "memory"\);', "", WRONG),
    "a copy bypasses L1 with 4 bytes": ("contraction", r"ca\.shared", "cg.shared", r"no cp\.async\.cg of 4 bytes"),
    "copies are of 8 bytes": ("contraction_split_ticket", r"\[%1\], 16", "[%1], 8", r"no cp\.async\.cg of 8 bytes"),
    "a copy reads what lies outside": (
        "contraction_ring",
        r"inside \? (\d+) : 0",
        r"\1",
        "reads outside of all buffers|output 0",
    ),
    "a warp arrives before all lanes are done": ("contraction_mbarrier_ring", r"  __syncwarp\(\);\n", "", WRONG),
    "every lane arrives": (
        "contraction_mbarrier_ring",
        r"if \(threadIdx.x % 32 == 0\)",
        "",
        r"more arrivals than \d+ at \w+\[\d\]|no thread can go on",
    ),
    "copies arrive at once": (
        "contraction_mbarrier_ring",
        r'"cp\.async\.mbarrier\.arrive\.noinc\.shared\.b64 \[%0\];"',
        '"{ .reg .b64 state; mbarrier.arrive.shared.b64 state, [%0]; }"',
        WRONG,
    ),
    "a wait for the wrong phase": (
        "contraction_mbarrier_ring",
        r"try_wait\.parity\.shared\.b64 done, \[%0\], %1",
        "try_wait.parity.shared.b64 done, [%0], 1",
        "no thread can go on|output 0",
    ),
    "a wait that does not wait": ("contraction_mbarrier_ring", r"@!done bra again; ", "", WRONG),
    "a wait that goes on for ever": ("contraction_mbarrier_ring", "@!done", "@done", HANGS),
    "a barrier is not initialised": (
        "contraction_mbarrier_ring",
        r"if \(thread == 0\) mbarrier_init\(empty.*\n",
        "\n",
        r"empty\[\d\], which is not initialised",
    ),
    "a barrier expects fewer bytes": (
        "contraction_boxes",
        r"(mbarrier_arrive_expect\(.*), \d+\)",
        r"\1, 512)",
        "no thread can go on|output 0",
    ),
    "a box at another corner": ("contraction_boxes", r"\{%3, %4", "{%4, %3", WRONG),
    "a box of another rank": ("contraction_boxes", r"tensor\.(\d)d", "tensor.1d", "a box of rank|no matching function"),
    "no fence before boxes": (
        "contraction_boxes",
        r"  fence_proxy_async\(\);\n",
        "",
        r"which no fence\.proxy\.async followed",
    ),
    "a swizzle is ignored": ("contraction_boxes_swizzled", r" \+ \((\w+) \^ [^)\]]*\)", r" + \1", WRONG),
    "a slot is not aligned for boxes": (
        "contraction_boxes",
        r"__shared__ __align__\(128\)",
        "__shared__ __align__(16)",
        "at no multiple of 128",
    ),
    "a cluster does not wait": (
        "contraction_split_cluster",
        r"  cluster_barrier\(\);\n",
        "",
        f"which has not come to the declaration there|{WRONG}",
    ),
    "another CTA of a cluster": (
        "contraction_split_cluster",
        r", cta\)",
        r", cta + 1)",
        "mapa to CTA 3 of a cluster",
    ),
    "a wide access of another CTA's memory that is not aligned": (
        "contraction_split_cluster",
        r"cluster_address\(&part\[thread \* 4\]",
        "cluster_address(&part[thread * 4 + 1]",
        "of part is accessed 16 bytes wide, at no multiple of them",
    ),
    "no cluster": ("contraction_split_cluster", r"__cluster_dims__\(3, 1, 1\) ", "", "mapa to CTA|output 0"),
    "stores before a ticket are not fenced": (
        "contraction_split_ticket",
        r"(= linear_1;\n)  __threadfence\(\);\n",
        r"\1",
        r"thread \d+ stores before the ticket without __threadfence",
    ),
    "loads after a ticket are not fenced": (
        "contraction_split_ticket",
        r"(0 < last\) \{\n)    __threadfence\(\);\n",
        r"\1",
        r"linear_part is read after a ticket without __threadfence",
    ),
    "a ticket too many": (
        "contraction_split_ticket",
        r"(take_ticket\(.*), 3\)",
        r"\1, 4)",
        "leaves a counter|output 0",
    ),
    "an element behind a shared buffer": (
        "row_norm",
        r"sum_part\[thread / 32\]",
        "sum_part[thread / 32 + 1]",
        r"@k_rms_norm, block \d+, thread 224: sum_part\[8\] lies outside of its 8 elements",
    ),
    "an element behind registers": (
        "row_norm",
        r"x_reg\[i\]\[v_1\]",
        "x_reg[i][v_1 + 1]",
        r"x_reg\[4\] lies outside of its 4 elements",
    ),
    "an element behind a buffer": (
        "pointwise",
        r"\n}\n$",
        "\n  if (thread == 3) out[11100] = 0.0f;\n}\n",
        r"thread 3: bytes 44400 to 44403 of out, which has 44400",
    ),
    "a wide access that is not aligned": (
        "row_norm",
        r"&\(x \+ \(a0 \* 2048 \+ t \* 4\)\)",
        "&(x + (a0 * 2048 + t * 4 + 1))",
        "of x is accessed 16 bytes wide, at no multiple of them",
    ),
    "wide accesses of registers that are not aligned": (
        "row_norm",
        r"__align__\(16\) float x_reg",
        "float x_reg",
        "of x_reg is accessed 16 bytes wide",
    ),
    "a sum overflows int": (
        "pointwise",
        r"const int block = blockIdx.x, thread = threadIdx.x;",
        "const int block = blockIdx.x, thread = threadIdx.x;\n  if ((block + 2000) * 2000000 < thread) return;",
        r"kernel\.cu:\d+:\d+: runtime error: signed integer overflow: 2000 \* 2000000",
    ),
    "a division by zero": ("i64", r" / 32", " / (thread - thread)", "division by zero"),
    "an address that is not of shared memory": (
        "contraction_ring",
        r"copy_async_(\d+)(_where)?\(&x_smem",
        r"copy_async_\1\2(&x_reg",
        "x_reg",
    ),
    "a header is missing": ("f16", r"#include <cuda_fp16.h>\n", "", "rejected the text"),
    "a write to a const buffer": ("pointwise", r"(float\*) __restrict__ out", r"const \1 __restrict__ out", "const"),
    "assembly that may move": ("contraction_ring", r"asm volatile", "asm", "touches memory"),
    "an unknown instruction": ("contraction_ring", r"commit_group", "commit_groups", "cp_async_commit_groups"),
    "a bound of too few threads": ("row_norm", r"__launch_bounds__\(256", "__launch_bounds__(128", "a launch of 256"),
}
"""A program, what is replaced in its text by what, and what is found."""


def sample(name: str) -> Sample:
    """The sample of a kind."""
    (kind,) = [kind for kind in KINDS if kind.name == name]
    return sample_of(kind)


@pytest.mark.parametrize("mistake", PLANTED)
def test_planted_in_the_text(mistake: str, monkeypatch: pytest.MonkeyPatch) -> None:
    name, pattern, replacement, found = PLANTED[mistake]
    monkeypatch.setattr("deplodock.runtime.host.harness.SECONDS", 1 if found == HANGS else 5)
    text, count = re.subn(pattern, replacement, sample(name).text)
    assert count
    try:
        (program,) = build([sample(name).module], lambda _: text)
        complaint = sample(name).complaint(program)
    except (HostFault, CompileError) as error:
        complaint = str(error)
    assert complaint is not None
    assert re.search(found, complaint), complaint
