"""The precision of products is what PyTorch is set to when a program is captured."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import fx, nn
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Operation

from deplodock.analysis.shape.roles import summed_products
from deplodock.dialects import loop, tile
from deplodock.dialects.math_ext import LowPartOp
from deplodock.dialects.precision import precision_of
from deplodock.dialects.torch import AtenOp
from deplodock.frontend.capture import export
from deplodock.frontend.expression import read_expression
from deplodock.frontend.precision import matmul_precision, pytorch_at
from deplodock.passes.driver import Level, StageRun, lower, new_context
from deplodock.runtime.lowering import read_text

CONTEXT = new_context()
X = torch.randn(4, 4)


@pytest.fixture(autouse=True)
def _setting_is_restored() -> Iterator[None]:  # pyright: ignore[reportUnusedFunction]
    with pytorch_at("highest"):
        yield


def precisions(program: Callable[..., Any], *args: Any) -> dict[str, str]:
    """The precision of each operation of a program."""
    ops = [op for op in export(program, args).module.walk() if isinstance(op, AtenOp)]
    return {op.name.removeprefix("torch.aten."): precision_of(op) for op in ops}


@pytest.mark.parametrize(
    "program",
    [
        lambda x: x @ x,
        lambda x: torch.mm(x, x),
        lambda x: torch.bmm(x[None], x[None]),
        lambda x: torch.mv(x, x[0]),
        lambda x: torch.dot(x[0], x[1]),
        lambda x: torch.addmm(x, x, x),
        lambda x: torch.baddbmm(x[None], x[None], x[None]),
        lambda x: torch.addmv(x[0], x, x[1]),
        lambda x: torch.tensordot(x, x, dims=1),
        lambda x: torch.einsum("ij,jk", x, x),
        lambda x: torch.chain_matmul(x, x, x),
        lambda x: torch.linalg.multi_dot([x, x, x]),
        lambda x: torch.cdist(x, x, compute_mode="use_mm_for_euclid_dist"),
        lambda x: F.linear(x, x),
        lambda x: F.scaled_dot_product_attention(x[None], x[None], x[None]),
    ],
)
def test_products_have_the_precision_that_pytorch_is_set_to(program: Callable[..., Any]) -> None:
    torch.set_float32_matmul_precision("high")
    assert "high" in precisions(program, X).values()


@pytest.mark.parametrize("word", ["highest", "high", "medium"])
def test_the_words_are_those_of_pytorch(word: str) -> None:
    torch.set_float32_matmul_precision(word)
    assert precisions(lambda x: x @ x, X) == {"matmul": word}


@pytest.mark.parametrize("layer", [nn.LSTM(4, 4), nn.GRU(4, 4), nn.RNN(4, 4)])
def test_recurrent_layers_have_it(layer: nn.Module) -> None:
    torch.set_float32_matmul_precision("high")
    assert "high" in precisions(layer, X).values()


def test_what_has_no_such_products_has_none() -> None:
    torch.set_float32_matmul_precision("high")
    assert set(precisions(lambda x: F.conv2d(x[None, None], x[None, None]), X).values()) == {"highest"}
    assert set(precisions(lambda x: torch.outer(x[0], x[1]) * x, X).values()) == {"highest"}
    for dtype in (torch.float16, torch.bfloat16, torch.float64, torch.int32):
        assert set(precisions(lambda x: x @ x, X.to(dtype)).values()) == {"highest"}


def test_other_settings_of_pytorch_count() -> None:
    torch.backends.cuda.matmul.allow_tf32 = True
    assert matmul_precision() == "high"
    torch.set_float32_matmul_precision("highest")
    torch.backends.cuda.matmul.fp32_precision = "tf32"
    assert precisions(lambda x: x @ x, X) == {"matmul": "high"}


def test_settings_of_single_operations_are_restored() -> None:
    backends: Any = torch.backends
    backends.cudnn.conv.fp32_precision, backends.cuda.matmul.fp32_precision = "ieee", "tf32"
    with pytorch_at("highest"):
        assert matmul_precision() == "highest"
        assert not backends.cudnn.allow_tf32
    assert (backends.cudnn.conv.fp32_precision, backends.cuda.matmul.fp32_precision) == ("ieee", "tf32")
    assert matmul_precision() == "high"


def test_the_statements_of_a_text_may_set_it() -> None:
    captured = read_expression("torch.set_float32_matmul_precision('medium')\ntorch.randn(2, 3) @ torch.randn(3, 2)")
    assert 'torch.aten.matmul %x, %y attributes {deplodock.precision = "medium"}' in str(captured.module)


def attend(x: torch.Tensor) -> torch.Tensor:
    heads = x.view(1, 2, 20, 8)
    return F.scaled_dot_product_attention(heads, heads, heads, is_causal=True)


def multiplies_parts(product: Operation) -> bool:
    """Whether a product is one of parts, which has the precision of TF32 itself."""
    return isinstance(product, tile.ContractOp) and isinstance(product.lhs[0].owner, LowPartOp)


@pytest.mark.parametrize(
    ("program", "shape", "stream"),
    [
        (lambda x: F.silu(x @ x.T) * (x @ x), (16, 16), None),
        (lambda x: F.linear(x[:2], x) @ x, (256, 256), None),
        (nn.RNN(4, 4), (3, 2, 4), None),
        (attend, (320,), "always"),
    ],
)
def test_no_pass_loses_it(program: Callable[..., Any], shape: tuple[int, ...], stream: str | None) -> None:
    with pytorch_at("high"):
        module = export(program, (torch.randn(shape),)).module
    levels: dict[Level, str] = {}

    def check(run: StageRun, changed: ModuleOp) -> None:
        reductions = [op for op in changed.walk() if isinstance(op, loop.ReduceOp)]
        found = [product for op in reductions for product in summed_products(op) if not multiplies_parts(product)]
        assert {precision_of(product) for product in found} <= {"high"}, f"{run.stage.name}\n{changed}"
        if run.level is not Level.KERNEL:
            assert 'deplodock.precision = "high"' in str(changed), run.stage.name
            levels[run.level] = str(changed)

    lower(module, CONTEXT, Level.KERNEL, stream=stream, observer=check)
    assert set(levels) >= {Level.TENSOR, Level.LOOP, Level.TILE}
    for text in levels.values():
        assert str(read_text(CONTEXT, text)) == text


def test_eager_is_strict(monkeypatch: pytest.MonkeyPatch) -> None:
    settings: list[tuple[str, bool, bool]] = []
    products = torch.backends.cuda.matmul
    stock = fx.Interpreter.run

    def noted(self: fx.Interpreter, *args: Any) -> Any:
        reduces = products.allow_bf16_reduced_precision_reduction
        settings.append((matmul_precision(), torch.backends.cudnn.allow_tf32, reduces))
        return stock(self, *args)

    monkeypatch.setattr(fx.Interpreter, "run", noted)
    with pytorch_at("medium"):
        export(lambda x: x @ x, (X,)).eager()
        assert matmul_precision() == "medium"
    assert settings[-1] == ("highest", False, False)
    assert products.allow_bf16_reduced_precision_reduction


def test_kernels_of_two_precisions_differ() -> None:
    def kernels(text: str) -> int:
        module = read_text(CONTEXT, text)
        lower(module, CONTEXT, Level.LOOP)
        return str(module).count("loop.reduce")

    alike = str(export(lambda x, y: (x @ x, y @ y), (X, X + 1)).module)
    call = "torch.aten.matmul %x, %x"
    assert kernels(alike) == 1
    assert kernels(alike.replace(call, f'{call} attributes {{deplodock.precision = "high"}}')) == 2
