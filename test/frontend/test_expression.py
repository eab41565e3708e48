"""The expression reader: what becomes an input, a parameter, a constant; and where errors point."""

from __future__ import annotations

import subprocess
import sys
import textwrap
from pathlib import Path
from typing import Any

import pytest

from deplodock.errors import Error, InvalidInputError, UnsupportedError

torch = pytest.importorskip("torch")

from deplodock.frontend.expression import read_expression, read_file  # noqa: E402

NAMESPACE = {"torch": torch, "nn": torch.nn, "F": torch.nn.functional}


def shapes(text: str) -> dict[str, tuple[int, ...]]:
    program = read_expression(textwrap.dedent(text))
    program.module.verify()
    return {name: tuple(value.shape) for name, value in zip(program.names, program.inputs, strict=True)}


def ops(text: str) -> list[str]:
    return [op.name for op in read_expression(textwrap.dedent(text)).module.walk() if op.name.startswith("torch.")]


@pytest.mark.parametrize(
    ("text", "inputs", "operations"),
    [
        ("torch.nn.RMSNorm(2048)(torch.randn(1,32,2048))", {"x": (1, 32, 2048), "p_weight": (2048,)}, ["rms_norm"]),
        (
            "torch.relu(torch.matmul(torch.randn(16,64) + torch.randn(64), torch.randn(64,16)))",
            {"x": (16, 64), "y": (64,), "z": (64, 16)},
            ["add.Tensor", "matmul", "relu"],
        ),
        ("torch.nn.Softmax(dim=-1)(torch.randn(1,4,63,65))", {"x": (1, 4, 63, 65)}, ["softmax.int"]),
    ],
)
def test_articles(text: str, inputs: dict[str, tuple[int, ...]], operations: list[str]) -> None:
    assert shapes(text) == inputs
    assert ops(text) == [f"torch.aten.{name}" for name in operations]


@pytest.mark.parametrize(
    "text",
    [
        "nn.Linear(4, 3)(torch.randn(2, 4))",
        "nn.Sequential(nn.Linear(4, 3), nn.ReLU(), nn.Linear(3, 2)).double()(torch.randn(2, 4).double())",
        "nn.Linear(3, 3)(torch.randn(2, 3)) + nn.Linear(3, 3)(torch.randn(2, 3))",
        "(torch.randn(3) * 2, torch.rand(3).sum())",
        "[torch.randn(3) for _ in range(2)][1] * 2",
        "F.linear(torch.randn(2, 3), torch.randn(4, 3), bias=torch.randn(4))",
        "(y := torch.randn(3)) + y.exp()",
        "torch.randn(3) if 1 > 0 else undefined()",
        "torch.randn(4, 5).t() + 1",
    ],
)
def test_values_are_those_of_plain_python(text: str) -> None:
    program = read_expression(text, seed=3)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(3)
        expected = eval(text, dict(NAMESPACE))
    expected = expected if isinstance(expected, tuple) else (expected,)
    assert all(torch.equal(a, b) for a, b in zip(program.eager(), expected, strict=True))
    assert program.inputs[0].is_contiguous()


def test_seed_and_global_state() -> None:
    state = torch.random.get_rng_state()
    first, same, other = (read_expression("torch.randn(4) + 1", seed=seed).inputs[0] for seed in (0, 0, 1))
    assert torch.equal(first, same)
    assert not torch.equal(first, other)
    assert torch.equal(state, torch.random.get_rng_state())


def test_names_of_the_user() -> None:
    text = """
        lin = nn.Linear(4, 4)
        def f(a):
            return torch.tanh(a)
        x = torch.randn(4)
        f(lin(x)) + lin.weight.sum() + torch.ones(4) + x
    """
    assert shapes(text) == {"x": (4,), "y": (4,), "p_lin_weight": (4, 4), "p_lin_bias": (4,)}


def test_nests_of_tensors_are_several_inputs() -> None:
    assert shapes("xs = [torch.randn(3), torch.randn(2, 3)]; xs[0] + xs[1]") == {"xs_0": (3,), "xs_1": (2, 3)}


def test_modules_are_numbered_by_class_and_used_once() -> None:
    assert list(shapes("nn.Linear(2,2)(torch.ones(2)) + nn.Linear(2,2)(torch.ones(2))"))[2:] == [
        "p_linear_weight",
        "p_linear_bias",
        "p_linear_1_weight",
        "p_linear_1_bias",
    ]
    assert shapes("m = nn.Sequential(nn.Linear(3, 3)); m[0](torch.randn(3)) + m[0].bias") == {
        "x": (3,),
        "p_weight": (3, 3),
        "p_bias": (3,),
    }


def test_modules_inside_functions_bring_their_parameters() -> None:
    text = """
        lin = nn.Linear(4, 4, bias=False)
        def f(a):
            return lin(a)
        f(nn.RMSNorm(4)(torch.randn(4)))
    """
    assert shapes(text) == {"x": (4,), "p_lin_weight": (4, 4), "p_weight": (4,)}


def test_names_bound_by_a_lambda_are_no_inputs() -> None:
    assert shapes("a = torch.ones(2); (lambda a: a + 1)(torch.ones(3))") == {"x": (3,)}


def test_calls_without_tensors_run_once() -> None:
    text = """
        calls = []
        def size():
            calls.append(1)
            return len(calls) + 1
        torch.randn(size(), 3).view(3, size() - 1)
    """
    assert shapes(text) == {"x": (2, 3)}


def test_bound_names() -> None:
    assert shapes("F.relu(nn.Identity()(torch.randn(int(math.sqrt(9)))))") == {"x": (3,)}


@pytest.mark.parametrize(
    ("text", "kind", "message"),
    [
        ("torch.randn(3) +", InvalidInputError, "<expression>:1:17: error: SyntaxError: invalid syntax"),
        ("", InvalidInputError, "<expression>: error: the last statement must be an expression"),
        ("x = 3", InvalidInputError, "<expression>:1:1: error: the last statement must be an expression"),
        (
            "3",
            InvalidInputError,
            "<expression>: error: the program must compute a tensor or a tuple of tensors, not int",
        ),
        ("1 / 0\n3", InvalidInputError, "<expression>:1:1: error: ZeroDivisionError: division by zero"),
        ("torch.ones(2) + undefined", InvalidInputError, "<expression>:1:17: error: the program raises NameError"),
        ("torch.ones(undefined)", InvalidInputError, "<expression>:1:12: error: NameError"),
        (
            "torch.ones(2, 3) @ torch.ones(2, 3)",
            InvalidInputError,
            "<expression>:1:1: error: the program raises RuntimeError",
        ),
        ("exit()", InvalidInputError, "<expression>:1:1: error: SystemExit"),
        (
            "torch.relu(torch.geqrf(torch.eye(3))[0])",
            UnsupportedError,
            "1:12: error: aten.geqrf.default is not supported",
        ),
        ("'é', torch.geqrf(torch.eye(3))[0]", InvalidInputError, "a tuple of tensors, not str"),
        (
            "('é' and\n torch.geqrf(torch.eye(3))[0])",
            UnsupportedError,
            "<expression>:2:2: error: aten.geqrf.default is not",
        ),
        ("return 3\n3", InvalidInputError, "<expression>:1:1: error: SyntaxError: 'return' outside function"),
        ("x = 3\n(await x)", InvalidInputError, "<expression>:2:2: error: SyntaxError: 'await' outside async function"),
        ("torch.ones(2)\nNone", InvalidInputError, "<expression>: error: the program computes no tensor"),
        ("torch.linalg.inv(torch.eye(2))", UnsupportedError, "1:1: error: aten.linalg_inv.default is not supported"),
        ("F.dropout(torch.ones(2))", UnsupportedError, "it draws random numbers; call .eval() on a module in training"),
        ("torch.fft.fft(torch.ones(2))", UnsupportedError, "aten.fft_fft.default is not supported: it needs aten._fft"),
        ("torch.ones(3).relu_()", UnsupportedError, "<expression>:1:1: error: the program writes into its input 'x'"),
        ("nn.BatchNorm1d(3)(torch.ones(2, 3))", UnsupportedError, "the program writes into its state"),
        ("torch.ones(3).cfloat()", UnsupportedError, "the result of aten._to_copy.default is of torch.complex64"),
        ("torch.ones(3).cdouble()", UnsupportedError, "torch.complex128; supported are torch.float32, torch.float64"),
        (
            "torch.ones(3, dtype=torch.cfloat) * 2",
            UnsupportedError,
            "<expression>:1:1: error: the input is of torch.complex64",
        ),
        (
            "torch.ones(3).to_sparse() * 2",
            UnsupportedError,
            "1:1: error: the result of aten.to_sparse.default is of layout",
        ),
        ("torch.ones(3) + torch.ones(3).sum().item()", UnsupportedError, "aten.item.default is not supported"),
        (
            "x = torch.ones(3); x if x.sum() > 0 else -x",
            UnsupportedError,
            "1:25: error: a branch, a number or a size depends on",
        ),
        (
            "torch.gcd(torch.ones(3).int(), 2 * torch.ones(3).int())",
            UnsupportedError,
            "aten.gcd.default is not supported",
        ),
        (
            "torch.geqrf(torch.eye(3))[0]",
            UnsupportedError,
            "aten.geqrf.default is not supported",
        ),
    ],
)
def test_errors(text: str, kind: type[Error], message: str) -> None:
    with pytest.raises(Error) as raised:
        read_expression(text)
    assert type(raised.value) is kind
    assert message in str(raised.value)


def test_error_excerpt() -> None:
    with pytest.raises(UnsupportedError) as raised:
        read_expression("torch.ones(3) + torch.geqrf(torch.eye(3))[0]")
    assert str(raised.value).splitlines() == [
        "<expression>:1:17: error: aten.geqrf.default is not supported",
        "torch.ones(3) + torch.geqrf(torch.eye(3))[0]",
        "                ^~~~~~~~~~~",
    ]


def test_error_excerpt_keeps_tabs_and_counts_characters() -> None:
    with pytest.raises(InvalidInputError) as raised:
        read_expression("if True:\r\n\tx = 'é', 1 / 0\r\ntorch.ones(2)")
    assert str(raised.value).splitlines() == [
        "<expression>:2:11: error: ZeroDivisionError: division by zero",
        "\tx = 'é', 1 / 0",
        "\t         ^~~~~",
    ]


def test_error_in_a_function_of_the_user() -> None:
    text = "def f(y):\n    return y @ y\nf(torch.ones(2, 3))"
    with pytest.raises(InvalidInputError, match="<expression>:2:12: error: the program raises RuntimeError: mat1"):
        read_expression(text)


def test_file(tmp_path: Path) -> None:
    path = tmp_path / "program.py"
    path.write_text("x = torch.randn(3)\nx * 2\n")
    assert read_file(path).names == ("x",)
    path.write_text("x = torch.randn(3)\n\ntorch.geqrf(x.diag())[0]\n")
    with pytest.raises(UnsupportedError, match=r"program\.py:3:1: error: aten\.geqrf\.default"):
        read_file(path)
    (tmp_path / "beside_the_program.py").write_text("def double(x):\n    return x * 2\n")
    path.write_text("from beside_the_program import double\ndouble(torch.randn(3))\n", encoding="utf-8-sig")
    assert read_file(path).names == ("x",)
    path.write_bytes(b"\xff\xfe\x00")
    with pytest.raises(InvalidInputError, match="not UTF-8 text"):
        read_file(path)


def test_nothing_else_on_stderr() -> None:
    script = textwrap.dedent("""
        from deplodock.errors import Error
        from deplodock.frontend.expression import read_expression
        branch = "x = torch.ones(3); x if x.sum() > 0 else -x"
        for text in (branch, "torch.ones(2,3) @ torch.ones(2,3)", "torch.ones(2)"):
            try:
                print(read_expression(text).names)
            except Error as error:
                print(error)
    """)
    result = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False)
    assert result.stderr == ""
    assert len(result.stdout.splitlines()) == 7


def test_locations_of_operations() -> None:
    module = read_expression("torch.exp(torch.randn(3)) +\\\n  torch.tanh(torch.randn(3))").module
    found: dict[str, Any] = {op.name: op.location.location for op in module.walk() if op.name.startswith("torch.")}
    positions = {name: (location.line.data, location.column.data) for name, location in found.items()}
    assert positions == {"torch.aten.exp": (1, 1), "torch.aten.tanh": (2, 3), "torch.aten.add.Tensor": (1, 1)}
