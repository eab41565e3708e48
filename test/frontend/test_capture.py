"""Capture of functions and modules: arguments of @main, promotion, references, refusals."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import pytest
from xdsl.dialects.builtin import f64

from deplodock.analysis.shape.roundings import Roundings
from deplodock.dialects.torch import AtenOp
from deplodock.errors import UnsupportedError

torch = pytest.importorskip("torch")
nn = torch.nn
F = torch.nn.functional

from torch import fx  # noqa: E402
from torch.export import ExportedProgram  # noqa: E402

from deplodock.frontend import capture, retrace  # noqa: E402
from deplodock.frontend.capture import export  # noqa: E402
from deplodock.runtime.lowering import located_text  # noqa: E402

FP32, BF16 = 9 * 2.0**-24, 1.5 * 2.0**-8 / (9 * 2.0**-24)
"""The error of a value of FP32 without sums, and that of bf16 in units of it."""


def operations(program: Any) -> list[AtenOp]:
    return [op for op in program.module.walk() if isinstance(op, AtenOp)]


def test_text_of_a_module() -> None:
    program = export(nn.RMSNorm(8), (torch.ones(2, 8),))
    assert str(program.module).splitlines()[1:4] == [
        "  func.func @main(%x: tensor<2x8xf32>, %p_weight: tensor<8xf32>) -> tensor<2x8xf32> {",
        "    %rms_norm = torch.aten.rms_norm %x, %p_weight {normalized_shape = [8]}"
        " : tensor<2x8xf32>, tensor<8xf32> -> tensor<2x8xf32>",
        "    func.return %rms_norm : tensor<2x8xf32>",
    ]
    assert program.names == ("x", "p_weight")


def test_promotion_is_a_cast() -> None:
    program = export(lambda x, y: x + y, (torch.ones(3), torch.arange(3)))
    cast, add = operations(program)
    assert (cast.schema().name, add.schema().name) == ("_to_copy", "add.Tensor")
    assert program.reference()[0].dtype == torch.float64


def test_dtype_argument_is_a_cast() -> None:
    cast, total = operations(export(lambda x: x.sum(dtype=torch.float64), (torch.ones(3),)))
    assert cast.value("dtype") == f64
    assert not total.properties


def test_errors_that_the_program_catches() -> None:
    def program(x: Any) -> Any:
        try:
            return x.view(7)
        except RuntimeError:
            return x + 1

    (add,) = operations(export(program, (torch.ones(3),)))
    assert add.schema().name == "add.Tensor"


def test_one_tensor_passed_twice_stays_two_inputs() -> None:
    x = torch.ones(3)
    program = export(lambda a, b: a - b, (x, x))
    assert program.names == ("a", "b")
    (result,) = program.eager([torch.ones(3), torch.zeros(3)])
    assert torch.equal(result, torch.ones(3))


def test_tied_and_unused_parameters() -> None:
    model = nn.Sequential(nn.Linear(4, 4), nn.Linear(4, 4), nn.Identity())
    model[1].weight = model[0].weight
    model.register_parameter("unused", nn.Parameter(torch.ones(1)))
    names = export(model, (torch.ones(4),)).names
    assert len(names) == len(set(names)) == 4
    assert sum("weight" in name for name in names) == 1


def test_buffers_and_constants_are_arguments() -> None:
    model = nn.Module()
    model.register_buffer("scale", torch.full((3,), 2.0))
    constant = torch.full((3,), 5.0)
    model.forward = lambda x: x * model.scale + constant
    program = export(model, (torch.ones(3),))
    assert program.names[1:] == ("b_scale", "c_lifted_tensor_0")
    assert torch.equal(program.eager()[0], torch.full((3,), 7.0))


def test_inputs_are_copied_and_contiguous() -> None:
    x = torch.arange(6.0).view(2, 3).t()
    program = export(lambda x: x + 1, (x,))
    assert program.inputs[0].is_contiguous()
    assert program.inputs[0].data_ptr() != x.data_ptr()
    assert torch.equal(program.eager()[0], x + 1)


def test_values_that_are_no_tensors_are_compiled_in() -> None:
    program = export(lambda xs, k, flag: xs[0] * k if flag else xs[1], ([torch.ones(2), torch.ones(2)], 3, True))
    assert program.names == ("xs_0", "xs_1")
    assert operations(program)[0].value("other") == 3


def test_builtin_function_has_named_inputs() -> None:
    assert export(torch.maximum, (torch.ones(2), torch.ones(2))).names == ("x", "y")


def test_reference_pins_the_eps_of_the_type() -> None:
    x = torch.full((1, 4), 1e-5)
    (result,) = export(nn.RMSNorm(4), (x,)).reference()
    expected = x.double() / (x.double().square().mean() + torch.finfo(torch.float32).eps).sqrt()
    assert result.dtype == torch.float64
    torch.testing.assert_close(result, expected, rtol=1e-12, atol=0.0)


def test_reference_computes_in_float64_throughout() -> None:
    def function(x: Any, i: Any) -> Any:
        return (x.double().float() + i / 3).softmax(0, dtype=torch.float32)

    x, i = torch.randn(5), torch.arange(5)
    (result,) = export(function, (x, i)).reference()
    torch.testing.assert_close(result, (x.double() + i.double() / 3).softmax(0), rtol=1e-14, atol=0.0)


@pytest.mark.parametrize(
    ("function", "expected"),
    [
        (lambda x: x * 3, math.hypot(6, 6)),
        (lambda x: x.view(25, 40), 2.0),
        (lambda x: (x + 100) - 100, math.hypot(2, 102, 2)),
        (lambda x: x * 3 - x.std(), math.hypot(6, 6, 6)),
        (lambda x: x.floor(), math.sqrt(2)),
        (lambda x: x.int(), 0.0),
        (lambda x: x.double(), 2.0),
        (lambda x: (torch.full((1000,), 2.0, dtype=torch.float64) + 100 - 100, x)[0], math.hypot(2, 102, 2) * 2.0**-28),
        (lambda x: x.bfloat16(), math.hypot(2, 2 * BF16)),
        (lambda x: x.bfloat16().float() * 3, math.hypot(6, 6, 6 * BF16)),
        (lambda x: (x.double() * 3).float(), math.hypot(6, 6)),
    ],
)
def test_sensitivity(function: Any, expected: float) -> None:
    """In units of what sums of FP32 may round; half of the values 2 are rounded up and jump not."""
    (result,) = export(function, (torch.full((1000,), 2.0),)).sensitivity(Roundings())
    assert result.dtype == torch.float64
    assert float(result.square().mean().sqrt() / FP32) == pytest.approx(expected, rel=0.05)


@pytest.mark.parametrize(("factors", "error"), [(0.0, FP32), (2.0**-11, 3 * 2.0**-11)])
def test_sensitivity_of_factors(factors: float, error: float) -> None:
    """Where factors of products may be rounded to TF32, and views of them, they have the errors of that."""
    program = export(lambda x, y: x @ y.T, (torch.randn(64, 128), torch.randn(64, 128)))
    (result,) = program.sensitivity(Roundings(factors=factors))
    (reference,) = program.reference()
    assert float(result.norm() / reference.norm()) == pytest.approx(error if factors else math.sqrt(3) * FP32, rel=0.05)


def test_sensitivity_of_the_deviation_of_equal_values() -> None:
    (result,) = export(lambda x: x.std(), (torch.full((1000,), 2.0),)).sensitivity(Roundings())
    assert float(result / FP32) == pytest.approx(2.0, rel=0.1)


def test_sensitivity_of_what_equality_decides() -> None:
    """The values cancel where the targets, which any error would change, choose all of them."""
    target = torch.tensor([1.0, -1.0]).repeat(500)
    x = torch.full((1000,), 2.0)
    (result,) = export(
        lambda x, t: torch.where(t == 1, x, 0).sum() - torch.where(t != 1, x, 0).sum(), (x, target)
    ).sensitivity(Roundings())
    assert float(result) > 10 * FP32
    loss = torch.nn.functional.hinge_embedding_loss
    (result,) = export(lambda x, t: loss(x, t, margin=2.0, reduction="sum"), (x, target)).sensitivity(Roundings())
    assert float(result) > 10 * FP32


def test_results_do_not_alias_inputs() -> None:
    program = export(lambda x: (x, x.view(-1)), (torch.ones(2, 2),))
    program.eager()[0].zero_()
    assert torch.equal(program.inputs[0], torch.ones(2, 2))


@pytest.mark.parametrize(
    ("function", "message"),
    [
        (
            lambda x: torch.geqrf(x.reshape(1, -1))[0],
            r"test_capture\.py:\d+: error: aten\.geqrf\.default is not supported",
        ),
        (lambda x: x + torch.rand(3), r"aten\.rand\.default is not supported"),
        (lambda x: x.add_(1), "the program writes into its input 'x'"),
        (lambda x: torch.cond(x.sum() > 0, torch.sin, torch.cos, (x,)), r"test_capture\.py:\d+: error: cond is not"),
        (lambda x: x[x > 0], r"the result of aten\.index\.Tensor has a shape that depends on the values of a tensor"),
        (lambda x: torch.complex(x, x), r"aten\.complex\.default is not supported"),
        (lambda x: nn.functional.rms_norm(x, (3,), torch.ones(3).double()), "not supported"),
    ],
)
def test_refused(function: Any, message: str) -> None:
    with pytest.raises(UnsupportedError, match=message):
        export(function, (torch.ones(3),))


def test_mixed_rms_norm_is_refused() -> None:
    function = lambda x, w: nn.functional.rms_norm(x, (3,), w)  # noqa: E731
    with pytest.raises(UnsupportedError, match=r"aten\.rms_norm\.default on tensors of different dtypes"):
        export(function, (torch.ones(3), torch.ones(3).double()))


def wrong(name: str, function: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let an operation be decomposed into something else."""
    found = {overload: own for overload, own in capture.decompositions().items() if str(overload) != name}
    overload = next(overload for overload in capture.decompositions() if str(overload) == name)
    monkeypatch.setattr(capture, "decompositions", lambda: {**found, overload: function})


@pytest.mark.parametrize(
    ("name", "decomposition", "program"),
    [
        ("aten.nan_to_num.default", lambda x, *_, **__: x * 2, lambda x: torch.nan_to_num(x)),
        ("aten.huber_loss.default", lambda x, y, *_: (x - y).abs().sum(), lambda x: F.huber_loss(x, x + 1)),
        ("aten.lerp.Scalar", lambda x, y, w: x, lambda x: torch.lerp(x, x * 3, 0.25).double()),
        ("aten.logaddexp.default", torch.maximum, lambda x: (torch.logaddexp(x, x), x.int())),
    ],
)
def test_a_wrong_decomposition_is_no_reference(
    name: str, decomposition: Any, program: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """PyTorch runs what the user wrote, not what the compiler makes of it."""
    wrong(name, decomposition, monkeypatch)
    x = torch.randn(50)
    captured = export(program, (x,))
    results = program(x)
    wanted = results if isinstance(results, tuple) else (results,)
    for got, double, own in zip(captured.eager(), captured.reference(), wanted, strict=True):
        assert torch.equal(got, own)
        assert double.dtype == (torch.float64 if own.is_floating_point() else own.dtype)
        torch.testing.assert_close(double.to(own.dtype), own)
    assert len(captured.sensitivity(Roundings())) == len(wanted)


def test_the_reference_has_the_constants_and_types_of_the_code_in_float64() -> None:
    def function(x: Any) -> Any:
        y = (x + torch.tensor([0.1, 0.2])).to(torch.float32)
        y = y.add_(torch.full((2,), 1 / 3, dtype=torch.float32))
        with torch.no_grad():
            z = F.huber_loss(y, torch.zeros(2), reduction="none")
        with torch.autocast("cpu", enabled=False):
            return (z.half().float() + torch.arange(2) / 3, torch.nan_to_num(x / 0))

    x = torch.tensor([1.0, -2.0])
    first, second = export(function, (x,)).reference()
    y = x.double() + torch.tensor([0.1, 0.2]).double() + 1 / 3
    wanted = F.huber_loss(y, torch.zeros(2, dtype=torch.float64), reduction="none") + torch.arange(2).double() / 3
    torch.testing.assert_close(first, wanted, rtol=1e-14, atol=0.0)
    assert second.tolist() == [torch.finfo(torch.float32).max, torch.finfo(torch.float32).min]


def test_the_reference_takes_other_inputs_with_state_that_only_shapes_need() -> None:
    module = nn.BatchNorm1d(3).eval()
    program = export(
        lambda x: F.huber_loss(module(x), x, reduction="none") + module.running_mean.shape[0], (torch.randn(4, 3),)
    )
    other = torch.randn(4, 3)
    inputs = [other, *program.inputs[1:]]
    wanted = F.huber_loss(module(other), other, reduction="none") + 3
    torch.testing.assert_close(program.eager(inputs)[0], wanted)
    torch.testing.assert_close(program.reference(inputs)[0].float(), wanted)


def test_a_captured_graph_runs_where_results_lie_otherwise_in_memory() -> None:
    query, key = torch.randn(1, 8, 4, 16).transpose(1, 2), torch.randn(1, 2, 8, 16)

    def attend(query: Any, key: Any) -> Any:
        return F.scaled_dot_product_attention(query, key, key, enable_gqa=True).transpose(1, 2).flatten(-2)

    program = export(attend, (query, key))
    assert any(node.target is torch.ops.aten.view.default for node in program.graph.graph.nodes)
    elsewhere = program.on("meta")
    with torch.no_grad():
        (result,) = elsewhere.graph(*elsewhere.arguments(elsewhere.inputs))
    assert result.shape == (1, 8, 64)
    assert program.flops() == 2 * (2 * 4 * 8 * 8 * 16)


DECOMPOSED: dict[str, Callable[..., Any]] = {
    "losses": lambda x: F.cross_entropy(x, x.argmax(1)) + torch.logit(x.sigmoid()).sum(),
    "order": lambda x: torch.topk(x, 3),
    "norms": lambda x: (torch.linalg.vector_norm(x, dim=1), torch.var_mean(x, dim=1), torch.cdist(x, x)),
    "types": lambda x: x.t().contiguous().to(torch.float64).reshape(-1) * 2,
    "images": lambda x: F.interpolate(x[None, None], scale_factor=2, mode="bilinear"),
}


@pytest.mark.parametrize("name", DECOMPOSED)
def test_calls_are_decomposed_as_in_a_new_trace(monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    x, traces = torch.rand(5, 6), list[object]()
    trace = ExportedProgram.run_decompositions

    def traced(self: ExportedProgram, *args: Any) -> ExportedProgram:
        traces.append(self)
        return trace(self, *args)

    monkeypatch.setattr(ExportedProgram, "run_decompositions", traced)
    by_calls = located_text(export(DECOMPOSED[name], (x,)).module)
    assert not traces
    monkeypatch.setattr(capture, "_inlined", lambda _: None)
    assert located_text(export(DECOMPOSED[name], (x,)).module) == by_calls
    assert traces


def test_equal_calls_are_decomposed_once(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[fx.Node] = []

    def counted(node: fx.Node, **options: Any) -> fx.GraphModule | None:
        asked.append(node)
        return decomposed(node, **options)

    decomposed = retrace.decomposed
    monkeypatch.setattr(retrace, "decomposed", counted)
    captured = export(lambda x: torch.logit(torch.logit(x).sigmoid()) + torch.logit(x * 0.5), (torch.rand(3),))
    assert [str(node.target) for node in asked] == ["aten.logit.default"]
    torch.testing.assert_close(captured.eager()[0], captured.reference()[0].float())


def test_what_writes_in_place_is_traced_anew() -> None:
    def program(x: Any) -> Any:
        y = x.clone()
        y[1] = torch.logit(x[0])
        return y

    x = torch.rand(3, 4)
    captured = export(program, (x,))
    torch.testing.assert_close(captured.eager()[0], program(x))
