"""Names of kernels and variables: what CUDA keeps for itself is refused or changed, and all else compiles."""

import random
from pathlib import Path

import pytest

from deplodock.codegen.cuda import print_module
from deplodock.codegen.names import declared_names
from deplodock.errors import UnsupportedError
from deplodock.passes.driver import new_context
from deplodock.runtime.nvcc import compile_cubin
from deplodock.tools.cuda_names import header_names, taken_names
from deplodock.tools.source import LocatingParser

CONTEXT = new_context()


def kernel(name: str, variable: str = "v") -> str:
    """A kernel of this name, whose thread, value and buffer are called like the variable."""
    return f"""kernel.func @{name}(%{variable}_b: memref<64xf32>) blocks(%block = 1) threads(%{variable} = 64) {{
  %{variable}_v = loop.load %{variable}_b[%{variable}] : memref<64xf32>
  %{variable}_w = arith.addf %{variable}_v, %{variable}_v : f32
  loop.store %{variable}_w, %{variable}_b[%{variable}] : memref<64xf32>
}}
"""


def printed(text: str) -> str:
    return print_module(LocatingParser(CONTEXT, text, "a.mlir").parse_module())


@pytest.mark.parametrize("name", ["memcpy", "printf", "abs", "clock", "size_t", "std", "y0", "malloc", "half"])
def test_names_that_cuda_declares_are_refused(name: str) -> None:
    message = f"a.mlir:1:1: error: @{name}: CUDA or the C library declares '{name}'; rename the kernel"
    with pytest.raises(UnsupportedError, match=message):
        printed(kernel(name))


@pytest.mark.parametrize(
    "name", ["INFINITY", "NAN", "CHAR_BIT", "__LINE__", "int", "assert", "blockIdx", "uint2", "_x"]
)
def test_macros_keywords_and_what_the_text_calls_are_refused(name: str) -> None:
    with pytest.raises(UnsupportedError, match=f"'{name}' cannot be the name of a C function"):
        printed(kernel(name))


def test_kernels_and_variables_of_any_other_name_compile(nvcc: Path) -> None:
    """For identifiers of nvcc's headers, drawn by seed, and words of C++, of its preprocessor and of CUDA."""
    words = ["INFINITY", "NAN", "CHAR_BIT", "__LINE__", "assert", "linux", "blockIdx", "min", "float4", "__shared__"]
    drawn = [*words, *random.Random(15).sample([*header_names(), *declared_names()], 150)]
    texts = [kernel(f"k_{number}", name) for number, name in enumerate(drawn)]
    texts += [kernel(name) for name in drawn if name not in words and name not in declared_names()]
    assert compile_cubin(printed("".join(texts)), "sm_90a").reports


def test_refused_names_do_not_compile(nvcc: Path) -> None:
    drawn = sorted(random.Random(15).sample(sorted(declared_names()), 60))
    assert taken_names(drawn) == drawn
