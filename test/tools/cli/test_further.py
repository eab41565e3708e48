"""Programs that are right on normal numbers alone are found: `run --from` and `run FILE` compare on further inputs."""

import json
import re
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

from deplodock.tools.cli.app import app
from deplodock.tools.cli.options import Options
from deplodock.tools.cli.program import Session
from deplodock.tools.cli.task import RunTask, make_task
from deplodock.tools.clock import Clock

EXACT = "integers from -2 to 2, on which all is exact"
FLOAT = "3.40282347E+38"


def cli(*args: str) -> tuple[int, str]:
    """The exit code and stdout of a command, run in this process."""
    result = CliRunner().invoke(app, list(args))
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        raise result.exception
    return result.exit_code, result.stdout


def loops(expression: str, identity: str, tmp_path: Path) -> Path:
    """The loop IR of an expression, its first reduction of one value, or its argmax, with another identity."""
    path = tmp_path / "loops.mlir"
    code, _ = cli("compile", "-c", expression, "--ir", "loop", "-o", str(path))
    assert code == 0
    text = path.read_text(encoding="utf-8")
    changed = re.sub(
        r"loop\.reduce \{(\S+)\} (%\w+ = 0 to \d+ : (\w+)) \{(.*?)\n +\}\n",
        rf"loop.reduce \2 {{\4\n}} combine (%p: \3, %q: \3) identity [{identity} : \3] {{\n"
        r"%r = \1 %p, %q : \3\nloop.yield %r : \3\n}\n",
        text,
        count=1,
        flags=re.DOTALL,
    ).replace("identity [0xff800000 : f32,", f"identity [{identity} : f32,")
    assert changed != text
    path.write_text(changed, encoding="utf-8")
    return path


@pytest.mark.parametrize(
    ("expression", "identity", "inputs"),
    [
        ("torch.randn(8, 300).amax(1)", "0.0", "from -3 to -1"),
        ("torch.randn(8, 300).amax(1)", "-1.0", "large and negative"),
        ("torch.randn(8, 300).amax(1)", "-1.0e30", "all -inf"),
        ("torch.randn(8, 300).amax(1)", f"-{FLOAT}", "all -inf"),
        ("torch.randn(8, 300).amin(1)", "0.0", "large and positive"),
        ("torch.randn(8, 300).amin(1)", FLOAT, "all inf"),
        ("torch.randn(8, 40).square().amin(1)", "1.0e3", "large and positive"),
        ("torch.randn(8, 300).sum(1)", "1.0e-30", "0 and -0"),
        ("torch.randn(8, 300, dtype=torch.bfloat16).amax(1)", "0.0", "from -3 to -1"),
        ("torch.randint(-9, 9, (8, 300)).amax(1)", "0", "negative integers"),
        ("torch.randint(-9, 9, (8, 300)).amax(1)", "-2000000000", "the smallest integers"),
        ("torch.randint(-9, 9, (8, 300)).amin(1)", "2000000000", "the largest integers"),
        ("torch.randn(8, 300).argmax(1)", "0.0", "from -3 to -1"),
        ("torch.randn(8, 300).softmax(1)", "0.0", "large and negative"),
    ],
)
def test_wrong_identities(tmp_path: Path, expression: str, identity: str, inputs: str) -> None:
    path = loops(expression, identity, tmp_path)
    code, stdout = cli("run", "-c", expression, "--from", str(path), "--device", "sim")
    assert code == 1, stdout
    assert f"on inputs that are {inputs}: WRONG: element [" in stdout


@pytest.mark.parametrize(
    "expression",
    [
        "torch.randn(8, 300).softmax(1)",
        "F.layer_norm(torch.randn(8, 300), (300,))",
        "F.scaled_dot_product_attention(*torch.randn(3, 1, 2, 40, 16), is_causal=True)",
        "x = torch.randn(8, 30); torch.sin(x * x * 1e3) % 0.3",
        "F.embedding(torch.randint(0, 9, (5,)), torch.randn(9, 4))",
        "torch.randint(1, 9, (20,)) // torch.randint(1, 9, (20,)) + torch.randint(1, 9, (20,)) % 5",
        "(torch.randn(30) * 9).int(), torch.randn(30).half().exp()",
        "x = torch.randn(6, 50); x.std(1), x.norm(dim=1), x.prod(1), x.cumsum(1), x.argmin(1), torch.var_mean(x, 1)[1]",
        "F.gelu(torch.randn(50)), torch.log_softmax(torch.randn(3, 50), 1), torch.randn(9).sort()[0]",
        "x = torch.randn(50); 1 / x, x.sqrt(), x.log(), x.rsqrt(), x.sign(), x.relu(), x.clamp(-1, 1)",
        "x = torch.randn(12, 20); x.amax(0) / x.amin(0) - x.max(), torch.logsumexp(x, 1), x.std(), x.mean(0)",
        "torch.randint(0, 255, (40,), dtype=torch.uint8).sum(), torch.randint(-9, 9, (40,), dtype=torch.int8) * 3",
    ],
)
def test_right_programs_stay_right(tmp_path: Path, expression: str) -> None:
    """Sets on which roundings, overflows or PyTorch itself decide are named and left out."""
    path = tmp_path / "loops.mlir"
    cli("compile", "-c", expression, "--ir", "loop", "-o", str(path))
    code, stdout = cli("run", "-c", expression, "--from", str(path), "--device", "sim")
    assert code == 0, stdout
    assert "inputs that are" in stdout


def test_what_was_drawn_is_said(tmp_path: Path) -> None:
    expression = "torch.randn(8, 300).amax(1)"
    path = tmp_path / "loops.mlir"
    cli("compile", "-c", expression, "--ir", "loop", "-o", str(path))
    drawn = [
        EXACT,
        "from -3 to -1",
        "large and negative",
        "large and positive",
        "0 and -0",
        "all -inf",
        "all inf",
        "normal, NaN and infinities",
    ]
    code, stdout = cli("run", str(path), "--device", "sim")
    assert code == 0
    assert f"\nalso right on inputs that are {'; '.join(drawn)}\n" in stdout
    code, stdout = cli("run", str(path), "--device", "sim", "--json")
    assert code == 0
    further = json.loads(stdout)["further"]
    assert further == [{"inputs": name, "outcome": "right", "reason": None} for name in drawn]
    code, stdout = cli("run", "-c", expression, "--device", "sim")
    assert f"\nalso right on inputs that are {EXACT}\n" in stdout
    code, stdout = cli("run", "-c", "torch.randn(8, 30).exp()", "--device", "sim")
    assert "inputs that are" not in stdout


@pytest.mark.parametrize(
    ("setup", "precision"),
    [("t = torch.bfloat16", "highest"), ("t = torch.float16", "highest"), ("t = torch.float32", "medium")],
)
def test_a_part_of_k_that_is_left_out_is_beyond_the_bar(tmp_path: Path, setup: str, precision: str) -> None:
    """The bar of sums of FP32 is not that of the type to which they are rounded."""
    expression = f"{setup}; torch.randn(16, 1024, dtype=t) @ torch.randn(1024, 16, dtype=t)"
    path, chosen = tmp_path / "loops.mlir", ("--precision", precision)
    cli("compile", "-c", expression, *chosen, "--ir", "loop", "-o", str(path))
    text = path.read_text(encoding="utf-8")
    for extent in (960, 1023):
        changed = text.replace("= 0 to 1024", f"= 0 to {extent}")
        assert changed != text
        path.write_text(changed, encoding="utf-8")
        code, stdout = cli("run", "-c", expression, *chosen, "--from", str(path), "--device", "sim")
        assert code == 1
        assert "output 0: WRONG: element [" in stdout


def test_equality_is_demanded_where_all_is_exact(tmp_path: Path) -> None:
    """An error far below the bar, of one unit in the last place or so, is one on integers."""
    expression = "torch.randn(16, 64) @ torch.randn(64, 16)"
    path = tmp_path / "loops.mlir"
    cli("compile", "-c", expression, "--ir", "loop", "-o", str(path))
    text = path.read_text(encoding="utf-8")
    changed = re.sub(
        r"loop\.store (%\w+),",
        r"%c = arith.constant 1.0000002 : f32\n%d = arith.mulf \1, %c : f32\nloop.store %d,",
        text,
    )
    assert changed != text
    path.write_text(changed, encoding="utf-8")
    code, stdout = cli("run", "-c", expression, "--from", str(path), "--device", "sim")
    assert code == 1
    assert "output 0: right: " in stdout
    assert f"output 0 on inputs that are {EXACT}: WRONG: element [" in stdout


def test_a_kernel_is_compared_on_further_inputs(tmp_path: Path) -> None:
    expression = "torch.randn(8, 300).amax(1)"
    path = tmp_path / "kernel.mlir"
    cli("compile", "-c", expression, "--ir", "kernel", "-o", str(path))
    text = path.read_text(encoding="utf-8")
    assert "0xff800000" in text
    path.write_text(text.replace("0xff800000", "0.0"), encoding="utf-8")
    code, stdout = cli("run", "-c", expression, "--from", str(path), "--device", "sim")
    assert code == 1
    assert "output 0: right" in stdout
    assert "on inputs that are from -3 to -1: WRONG" in stdout


def product_in_parts(tmp_path: Path, behind: str) -> Path:
    """IR text of a product of high precision; %z is computed from it."""
    path = tmp_path / "product.mlir"
    path.write_text(
        f"""func.func @main(%x: tensor<32x32xf32>, %w: tensor<32x32xf32>) -> tensor<32x32xf32> {{
          %y = torch.aten.mm %x, %w attributes {{deplodock.precision = "high"}}
            : tensor<32x32xf32>, tensor<32x32xf32> -> tensor<32x32xf32>
          %z = torch.aten.sigmoid %y : tensor<32x32xf32> -> tensor<32x32xf32>
          func.return {behind} : tensor<32x32xf32>
        }}""",
        encoding="utf-8",
    )
    return path


@pytest.mark.parametrize("behind", ["%y", "%z"])
def test_products_in_parts_may_make_nan_of_infinities(tmp_path: Path, behind: str) -> None:
    """NaN counts for what an infinite factor makes infinite, and for what is computed from that."""
    code, stdout = cli("run", str(product_in_parts(tmp_path, behind)), "--device", "sim")
    assert code == 0, stdout
    assert "all -inf; all inf; normal, NaN and infinities" in stdout


@pytest.mark.parametrize(("precision", "may"), [("high", True), ("highest", False)])
def test_nan_counts_only_where_an_infinite_factor_leads(tmp_path: Path, precision: str, may: bool) -> None:
    path = product_in_parts(tmp_path, "%y")
    if precision == "highest":
        path.write_text(path.read_text().replace(' attributes {deplodock.precision = "high"}', ""), encoding="utf-8")
    session = Session(Options(), Clock())
    task = make_task(session, session.read_file(str(path)), "sim")
    x, w = np.ones((32, 32), np.float32), np.ones((32, 32), np.float32)
    x[0, 0] = np.inf
    other = task.on([x, w])
    assert isinstance(other, RunTask)
    got = np.full((32, 32), 32, np.float32)
    got[0] = np.inf
    assert other.verdict(0, got).passed
    got[0, 3] = np.nan
    assert other.verdict(0, got).passed is may
    got[0] = np.inf
    got[1, 1] = np.nan
    assert "element [1, 1] is nan" in other.verdict(0, got).reason
    got[1, 1], got[0, 3] = 32, 1
    assert "element [0, 3] is 1.0" in other.verdict(0, got).reason
