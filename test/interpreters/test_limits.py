"""What numpy cannot hold is refused at its place, by the evaluators and the simulator."""

from collections.abc import Callable
from subprocess import CompletedProcess

import pytest

Tool = Callable[..., CompletedProcess[str]]


def nest(depth: int) -> str:
    loops = "".join(f"loop.for %i{level} = 0 to {4 if level == 0 else 1} {{\n" for level in range(depth))
    body = "%v = loop.load %x[%i0] : memref<4xf32>\nloop.store %v, %out[%i0] : memref<4xf32>\n"
    return f"func.func @f(%x: memref<4xf32>, %out: memref<4xf32>) {{\n{loops}{body}{'}' * depth} func.return\n}}\n"


def tensors(shape: str) -> str:
    return f"""func.func @f(%x: tensor<{shape}>) -> tensor<{shape}> {{
  %y = tensor_ext.elementwise {{arith.addf}} %x, %x : tensor<{shape}>
  func.return %y : tensor<{shape}>
}}
"""


@pytest.mark.parametrize("depth", [33, 50])
def test_nests_within_the_limit_are_evaluated(tool: Tool, depth: int) -> None:
    done = tool("deplodock", "run", "-", "--device", "sim", input=nest(depth))
    assert done.returncode == 0, done.stderr
    assert "passed" in done.stdout


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (nest(70), "<stdin>:64:1: error: loop.for: more than 62 nested loops are not evaluated"),
        (nest(120), "<stdin>:64:1: error: loop.for: more than 62 nested loops are not evaluated"),
        (tensors("x".join(["1"] * 63) + "xf32"), "<stdin>:1:1: error: func.func: tensor<1x"),
        (
            tensors("4611686018427387904x4xf32"),
            "func.func: tensor<4611686018427387904x4xf32> has 2^63 bytes or more",
        ),
        (tensors("1152921504606846976xf64"), "<stdin>:1:1: error: func.func: tensor<1152921504606846976xf64> has 2^63"),
        (
            tensors("9999999999999999999xf32"),
            "func.func: tensor<9999999999999999999xf32> has 2^63 bytes or more",
        ),
        (tensors("1099511627776x4xf32"), ": error: there is not enough memory: Unable to allocate"),
    ],
)
@pytest.mark.parametrize(
    "command", [["deplodock", "run", "-", "--device", "sim"], ["deplodock-opt", "--check-semantics", "-p", "cse"]]
)
def test_what_numpy_cannot_hold_is_one_message(tool: Tool, command: list[str], text: str, message: str) -> None:
    done = tool(*command, input=text)
    assert done.returncode == 1
    assert done.stderr.count("error: ") == 1
    assert message in done.stderr
    assert "Traceback" not in done.stderr
