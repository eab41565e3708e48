"""The CUDA printer: what it refuses, that nvcc accepts all of it, and that the text is the same in every process."""

import re
from collections.abc import Callable
from pathlib import Path
from subprocess import CompletedProcess

import pytest
from scalar_kernels import operand_types, scalar_kernel
from xdsl.context import Context
from xdsl.dialects.arith import Arith
from xdsl.dialects.builtin import Builtin, ModuleOp
from xdsl.dialects.func import Func
from xdsl.dialects.math import Math
from xdsl.parser import Parser

from deplodock.analysis.machine.targets import FIRST_CLUSTERS, FIRST_WITH, LAST_WITH, capability, target
from deplodock.codegen.cuda import print_module
from deplodock.codegen.scalars import SCALARS, Signature
from deplodock.dialects.interfaces import NeedsFeature
from deplodock.dialects.kernel import FuncOp, Kernel
from deplodock.dialects.loop import Loop
from deplodock.dialects.math_ext import MathExt
from deplodock.dialects.tile import Tile
from deplodock.errors import UnsupportedError
from deplodock.runtime.nvcc import compile_cubin

DIALECTS = (Builtin, Func, Arith, Math, MathExt, Loop, Tile, Kernel)
TESTS = Path(__file__).parent.parent / "codegen"


@pytest.fixture(scope="module")
def ctx() -> Context:
    context = Context()
    for dialect in DIALECTS:
        context.load_dialect(dialect)
    return context


def parse(ctx: Context, text: str) -> ModuleOp:
    module = Parser(ctx, text).parse_module()
    module.verify()
    return module


def kernel(body: str, parameters: str = "%x: memref<64xf32>") -> str:
    return f"kernel.func @k({parameters}) blocks(%block = 4) threads(%thread = 32) {{\n{body}\n}}"


REFUSED = {
    "arith.mulsi_extended has no CUDA form; lower it before printing": (
        "%a = arith.constant 1 : i32\n%b, %c = arith.mulsi_extended %a, %a : i32"
    ),
    "arith.bitcast from i32 to i32 has no CUDA form": "%a = arith.constant 1 : i32\n%b = arith.bitcast %a : i32 to i32",
    "the type f128 has no CUDA form; use f32": "%a = kernel.alloc : memref<4xf128, #tile.memory<register>>",
    "the type i4 has no CUDA form": "%a = kernel.alloc : memref<4xi4, #tile.memory<register>>",
    "has no CUDA form; only scalar constants have": "%a = arith.constant dense<1.0> : tensor<4xf32>",
    "no access moves 8 elements of f32; the width can be 1, 2, 4": (
        "kernel.move 8 %x[%thread * 8] to %x[0] : memref<64xf32> to memref<64xf32>"
    ),
    "the source of this move is not known to start at a multiple of 4 elements; use a smaller width": (
        "kernel.move 4 %x[%thread * 2] to %x[0] : memref<64xf32> to memref<64xf32>"
    ),
    "the destination of this move is not known to start at a multiple of 2 elements": (
        "%r = kernel.alloc : memref<2x3xf32, #tile.memory<register>>\n"
        "kernel.move 2 %x[0] to %r[%thread mod 2, 0] : memref<64xf32> to memref<2x3xf32, #tile.memory<register>>"
    ),
    "no descriptor is for a factor of this product: %s must have a layout #tile.swizzle<..>": (
        "%s = kernel.alloc : memref<64x64xbf16, #tile.memory<shared>>\n"
        "%c = kernel.alloc : memref<32xf32, #tile.memory<register>>\n"
        "kernel.wgmma m64n64k16 %s[d0, d1] * %s[d0, d1] into %c[0] : memref<64x64xbf16, #tile.memory<shared>> * "
        "memref<64x64xbf16, #tile.memory<shared>> into memref<32xf32, #tile.memory<register>>"
    ),
    "has no 2 elements side by side in its last dimension": (
        "%r = kernel.alloc : memref<8xf32, strided<[2]>, #tile.memory<register>>\n"
        "kernel.move 2 %x[0] to %r[0] : memref<64xf32> to memref<8xf32, strided<[2]>, #tile.memory<register>>"
    ),
}


@pytest.mark.parametrize("message", REFUSED)
def test_refused(ctx: Context, message: str):
    module = parse(ctx, kernel(REFUSED[message]))
    with pytest.raises(UnsupportedError, match=f"^@k: .*{re.escape(message)}"):
        print_module(module)


def test_a_dynamic_layout_is_refused(ctx: Context):
    module = parse(ctx, kernel("%v = loop.load %x[%thread, 0] : memref<?x?xf32>", "%x: memref<?x?xf32>"))
    with pytest.raises(UnsupportedError, match="no static strides"):
        print_module(module)


@pytest.mark.parametrize("name", ["float", "main", "expf", "maximumf", '"a b"'])
def test_a_kernel_needs_a_free_c_name(ctx: Context, name: str):
    module = parse(ctx, kernel("").replace("@k", f"@{name}"))
    with pytest.raises(UnsupportedError, match="' cannot be the name of a C function; rename the kernel"):
        print_module(module)


def test_a_module_without_kernels_is_refused(ctx: Context):
    message = "the module holds no kernel.func to print as CUDA; it computes nothing, or is above the kernel level"
    with pytest.raises(UnsupportedError, match=message):
        print_module(parse(ctx, "func.func @f() { func.return }"))


def test_the_message_has_the_position(tool: Callable[..., CompletedProcess[str]], tmp_path: Path):
    file = tmp_path / "bad.mlir"
    file.write_text(kernel("  %a = arith.constant 1 : i32\n  %b = arith.bitcast %a : i32 to i32"))
    done = tool("deplodock-opt", str(file), "-t", "cuda")
    assert done.returncode == 1
    assert f"{file}:3:" in done.stderr.splitlines()[0]
    assert "error: @k: arith.bitcast from i32 to i32 has no CUDA form" in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize("arch", ["sm_80", "sm_90a", "sm_120"])
def test_nvcc_compiles_all_kernels_without_spills(ctx: Context, nvcc: Path, arch: str):
    files = sorted(TESTS.glob("*.mlir"))
    chunks = [chunk for file in files for chunk in file.read_text().split("// -----\n")]
    found = [op for chunk in chunks for op in parse(ctx, chunk).walk() if isinstance(op, FuncOp)]
    kernels = [op.clone() for op in found if runs_on(op, arch.removesuffix("a"))]
    compiled = compile_cubin(print_module(ModuleOp(kernels)), arch, nvcc=nvcc)
    assert sorted(compiled.reports) == sorted(op.sym_name.data for op in kernels)
    for report in compiled.reports.values():
        assert (report.spill_stores, report.spill_loads, report.stack_frame) == (0, 0, 0), report.name


def runs_on(function: FuncOp, arch: str) -> bool:
    """Whether an architecture has all that a kernel uses."""
    has = capability(target(arch))
    wanted = [op.needs() for op in function.walk() if isinstance(op, NeedsFeature)]
    fits = all(FIRST_WITH[each] <= has <= LAST_WITH.get(each, has) for each in wanted if each is not None)
    return fits and (function.cluster is None or has >= FIRST_CLUSTERS)


def test_nvcc_compiles_every_scalar_operation(ctx: Context, nvcc: Path):
    module = ModuleOp([scalar_kernel(ctx, [key], f"k{n}") for n, key in enumerate(SCALARS)])
    module.verify()
    compiled = compile_cubin(print_module(module), "sm_90a", nvcc=nvcc)
    assert len(compiled.reports) == len(SCALARS)


@pytest.mark.parametrize("key", SCALARS, ids=lambda key: "-".join(filter(None, key)))
def test_scalar_table_names_real_operations(ctx: Context, key: Signature):
    module = ModuleOp([scalar_kernel(ctx, [key], "k")])
    module.verify()
    (template,) = [text for signature, text in SCALARS.items() if signature == key]
    assert set(re.findall(r"{(\d)}", template)) <= {str(n) for n in range(len(operand_types(ctx, key)))}


def test_the_text_is_the_same_in_every_process(process: Callable[..., CompletedProcess[str]]):
    texts = {
        process("deplodock-opt", str(file), "--split-input-file", "-t", "cuda", PYTHONHASHSEED=seed).stdout
        for file in [TESTS / "names.mlir"]
        for seed in ("0", "1", "12345")
    }
    assert len(texts) == 1
    assert "__global__" in texts.pop()
