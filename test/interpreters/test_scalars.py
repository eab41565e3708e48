"""The scalar operations of arith and math, each through a tensor_ext.elementwise."""

import math
import warnings
from collections.abc import Callable, Sequence

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from xdsl.dialects.builtin import ModuleOp
from xdsl.parser import Parser

from deplodock.errors import UnsupportedError
from deplodock.interpreters.evaluate import evaluate
from deplodock.passes.driver import new_context

F32 = np.float32


def parse(text: str) -> ModuleOp:
    """The verified module of a text."""
    context = new_context()
    module = Parser(context, text).parse_module()
    module.verify()
    return module


def evaluate_text(text: str, *inputs: np.ndarray, **options: object) -> np.ndarray:
    (output,) = evaluate(parse(text), inputs, **options)
    return output


def scalar(op: str, types: Sequence[str], result: str, *values: np.ndarray) -> np.ndarray:
    """The result of one scalar operation on arrays; `op` names its operands %0, %1, ..."""
    n = len(values[0])
    tensors = ", ".join(f"%t{i}: tensor<{n}x{type}>" for i, type in enumerate(types))
    names = ", ".join(f"%t{i}" for i in range(len(types)))
    arguments = ", ".join(f"%a{i}: {type}" for i, type in enumerate(types))
    operands = ", ".join(f"tensor<{n}x{type}>" for type in types)
    return evaluate_text(
        f"""
        func.func @main({tensors}) -> tensor<{n}x{result}> {{
          %r = tensor_ext.elementwise {names} : {operands} -> tensor<{n}x{result}> ({arguments}) {{
            %v = {op}
            tensor_ext.yield %v : {result}
          }}
          func.return %r : tensor<{n}x{result}>
        }}
        """,
        *values,
    )


SPECIAL = np.array([0.0, -0.0, 1.5, -1.5, math.inf, -math.inf, math.nan], F32)
LEFT, RIGHT = (side.reshape(-1) for side in np.meshgrid(SPECIAL, SPECIAL))


def by_element(function: Callable[[float, float], float]) -> np.ndarray:
    return np.array([function(float(a), float(b)) for a, b in zip(LEFT, RIGHT, strict=True)], F32)


def maximum(a: float, b: float) -> float:
    if math.isnan(a) or math.isnan(b):
        return math.nan
    return max(a, b, key=lambda v: (v, math.copysign(1, v)))


def same_bits(a: np.ndarray, b: np.ndarray) -> bool:
    nan = np.isnan(a) & np.isnan(b)
    return bool(np.all(nan | (a.view(np.uint32) == b.view(np.uint32))))


def test_maximum_and_minimum_propagate_nan_and_order_zeros() -> None:
    types = ["f32", "f32"]
    assert same_bits(scalar("arith.maximumf %a0, %a1 : f32", types, "f32", LEFT, RIGHT), by_element(maximum))
    minimum = by_element(lambda a, b: -maximum(-a, -b))
    assert same_bits(scalar("arith.minimumf %a0, %a1 : f32", types, "f32", LEFT, RIGHT), minimum)
    number = by_element(lambda a, b: b if math.isnan(a) else a if math.isnan(b) else maximum(a, b))
    assert same_bits(scalar("arith.maxnumf %a0, %a1 : f32", types, "f32", LEFT, RIGHT), number)


def test_float_comparisons() -> None:
    def unordered(a: float, b: float) -> bool:
        return math.isnan(a) or math.isnan(b)

    relations: dict[str, Callable[[float, float], bool]] = {
        "eq": lambda a, b: a == b,
        "gt": lambda a, b: a > b,
        "ge": lambda a, b: a >= b,
        "lt": lambda a, b: a < b,
        "le": lambda a, b: a <= b,
        "ne": lambda a, b: a != b and not unordered(a, b),
    }
    wanted: dict[str, Callable[[float, float], bool]] = {"ord": lambda a, b: not unordered(a, b), "uno": unordered}
    for name, relation in relations.items():
        wanted["o" + name] = relation
        wanted["u" + name] = lambda a, b, relation=relation: unordered(a, b) or relation(a, b)
    for name, relation in wanted.items():
        got = scalar(f"arith.cmpf {name}, %a0, %a1 : f32", ["f32", "f32"], "i1", LEFT, RIGHT)
        assert got.tolist() == [relation(float(a), float(b)) for a, b in zip(LEFT, RIGHT, strict=True)], name


def test_division_by_zero_warns_of_nothing() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        got = scalar("arith.divf %a0, %a1 : f32", ["f32", "f32"], "f32", LEFT, RIGHT)
    with np.errstate(all="ignore"):
        assert same_bits(got, LEFT / RIGHT)


def truncated(a: int, b: int) -> int:
    return abs(a) // abs(b) * (1 if (a < 0) == (b < 0) else -1)


INTEGER_OPS: dict[str, Callable[[int, int], int]] = {
    "addi": lambda a, b: a + b,
    "subi": lambda a, b: a - b,
    "muli": lambda a, b: a * b,
    "divsi": truncated,
    "remsi": lambda a, b: a - truncated(a, b) * b,
    "floordivsi": lambda a, b: a // b,
    "ceildivsi": lambda a, b: -(-a // b),
    "divui": lambda a, b: (a % 2**32) // (b % 2**32),
    "remui": lambda a, b: (a % 2**32) % (b % 2**32),
    "minsi": min,
    "maxui": lambda a, b: max(a % 2**32, b % 2**32),
    "andi": lambda a, b: a & b,
    "xori": lambda a, b: a ^ b,
    "shli": lambda a, b: a << (b % 32),
    "shrsi": lambda a, b: a >> (b % 32),
    "shrui": lambda a, b: (a % 2**32) >> (b % 32),
}


@pytest.mark.parametrize("name", INTEGER_OPS)
@given(st.integers(-(2**31) + 1, 2**31 - 1), st.integers(-(2**31), 2**31 - 1))
@settings(deadline=None, max_examples=8)
def test_integer_operations(name: str, a: int, b: int) -> None:
    if name.startswith("sh"):
        b %= 32
    b = b or 1
    operands = [np.array([value], np.int32) for value in (a, b)]
    got = scalar(f"arith.{name} %a0, %a1 : i32", ["i32", "i32"], "i32", *operands)
    assert int(got[0]) % 2**32 == INTEGER_OPS[name](a, b) % 2**32


def test_booleans_are_signed_bits() -> None:
    bits = np.array([False, True])
    assert scalar("arith.sitofp %a0 : i1 to f32", ["i1"], "f32", bits).tolist() == [0, -1]
    assert scalar("arith.uitofp %a0 : i1 to f32", ["i1"], "f32", bits).tolist() == [0, 1]
    assert scalar("arith.extsi %a0 : i1 to i32", ["i1"], "i32", bits).tolist() == [0, -1]
    assert scalar("arith.extui %a0 : i1 to i64", ["i1"], "i64", bits).tolist() == [0, 1]
    assert scalar("arith.addi %a0, %a1 : i1", ["i1", "i1"], "i1", bits, bits).tolist() == [False, False]
    assert scalar("arith.trunci %a0 : i32 to i1", ["i32"], "i1", np.array([2, 3], np.int32)).tolist() == [False, True]


def test_casts_and_rounding() -> None:
    halves = np.array([-2.5, -1.5, 0.5, 1.5, 2.5], F32)
    assert scalar("arith.fptosi %a0 : f32 to i32", ["f32"], "i32", halves).tolist() == [-2, -1, 0, 1, 2]
    assert scalar("math.round %a0 : f32", ["f32"], "f32", halves).tolist() == [-3, -2, 1, 2, 3]
    assert scalar("math.roundeven %a0 : f32", ["f32"], "f32", halves).tolist() == [-2, -2, 0, 2, 2]
    assert scalar("arith.truncf %a0 : f64 to f32", ["f64"], "f32", np.array([0.1])).tolist() == [float(F32(0.1))]
    ones = np.array([1.0, -0.0], F32)
    assert scalar("arith.bitcast %a0 : f32 to i32", ["f32"], "i32", ones).tolist() == [0x3F800000, -(2**31)]
    assert np.allclose(scalar("math.erf %a0 : f32", ["f32"], "f32", halves), [math.erf(v) for v in halves])


def test_fused_multiply_add_rounds_once() -> None:
    a = np.array([1 + 2**-12], F32)
    c = np.array([-1.0], F32)
    fused = scalar("math.fma %a0, %a1, %a2 : f32", ["f32"] * 3, "f32", a, a, c)
    assert fused[0] == (1 + 2**-12) ** 2 - 1
    assert fused[0] != a[0] * a[0] + c[0]


def test_an_unknown_scalar_operation_is_refused_by_name() -> None:
    with pytest.raises(UnsupportedError, match=r"math\.ctpop.*: it cannot be evaluated here"):
        scalar("math.ctpop %a0 : i32", ["i32"], "i32", np.zeros(2, np.int32))


def test_integer_powers() -> None:
    pairs = [(b, e) for b in (-3, -1, 0, 1, 2) for e in (-2, -1, 0, 3, 70)]
    base, exponent = (np.array(side) for side in zip(*pairs, strict=True))
    expected = [b**e if e >= 0 else 0 if abs(b) != 1 else b**-e for b, e in pairs]
    wrapped = [(value + 2**63) % 2**64 - 2**63 for value in expected]
    np.testing.assert_array_equal(scalar("math.ipowi %a0, %a1 : i64", ["i64", "i64"], "i64", base, exponent), wrapped)


def test_fma_of_doubles_rounds_once() -> None:
    a, b = np.array([1 + 2.0**-30, 3.0]), np.array([1 - 2.0**-30, math.inf])
    got = scalar("math.fma %a0, %a1, %a2 : f64", ["f64"] * 3, "f64", a, b, np.array([-1.0, -math.inf]))
    np.testing.assert_array_equal(got, [-(2.0**-60), math.nan])


def test_fmod_is_exact_and_keeps_the_sign_of_the_dividend() -> None:
    left = np.append(LEFT, np.array([1e20, -1e30, 3e38], F32))
    right = np.append(RIGHT, np.array([3.0, 7.0, 1e-38], F32))
    wanted = [math.nan if math.isinf(a) or b == 0 else math.fmod(a, b) for a, b in zip(left, right, strict=True)]
    assert same_bits(scalar("math_ext.fmod %a0, %a1 : f32", ["f32"] * 2, "f32", left, right), np.array(wanted, F32))


def test_fma_of_a_product_that_overflows() -> None:
    largest = np.finfo(np.float64).max
    a, b = np.array([3.5, 2.0, 2.0, 2.0]), np.full(4, largest)
    c = np.array([-math.inf, -largest, -largest / 2, math.nan])
    got = scalar("math.fma %a0, %a1, %a2 : f64", ["f64"] * 3, "f64", a, b, c)
    np.testing.assert_array_equal(got, [-math.inf, largest, math.inf, math.nan])


def test_a_narrow_rsqrt_rounds_once() -> None:
    values = np.array([65504.0, 3.0], np.float16)
    once = (1 / np.sqrt(values.astype(F32))).astype(np.float16)
    np.testing.assert_array_equal(scalar("math.rsqrt %a0 : f16", ["f16"], "f16", values), once)


OUTSIDE = np.array([3e9, -3e9, 2.0**31, -(2.0**31) - 1, 1e19, -1e19, math.inf, -math.inf, math.nan, 300.7, -1.5])
LAST, FIRST = 2**31 - 1, -(2**31)
I64 = [3000000000, -3000000000, 2**31, -(2**31) - 1, *[2**63 - 1, -(2**63)] * 2, -(2**63), 300, -1]


@pytest.mark.parametrize(("source", "of_nan"), [("f32", 0), ("f64", FIRST)])
def test_casts_out_of_range_saturate(source: str, of_nan: int) -> None:
    values = OUTSIDE.astype(F32 if source == "f32" else np.float64)
    narrow = scalar(f"arith.fptosi %a0 : {source} to i32", [source], "i32", values)
    assert narrow.tolist() == [LAST, FIRST] * 4 + [of_nan, 300, -1]
    wide = scalar(f"arith.fptosi %a0 : {source} to i64", [source], "i64", values)
    # The nearest f32 to -(2**31) - 1 is -(2**31).
    assert wide.tolist() == [FIRST if source == "f32" and value == -(2**31) - 1 else value for value in I64]
    unsigned = scalar(f"arith.fptoui %a0 : {source} to i32", [source], "i32", values).astype(np.uint32)
    assert unsigned.tolist() == [3000000000, 0, 2**31, 0, 2**32 - 1, 0, 2**32 - 1, 0, of_nan and 2**31, 300, 0]
    unsigned = scalar(f"arith.fptoui %a0 : {source} to i64", [source], "i64", values).astype(np.uint64)
    assert unsigned.tolist() == [3000000000, 0, 2**31, 0, int(values[4]), 0, 2**64 - 1, 0, 2**63, 300, 0]


def test_every_level_casts_alike() -> None:
    torch = pytest.importorskip("torch")
    from deplodock.frontend.capture import export
    from deplodock.interpreters.simulate import simulate
    from deplodock.passes.driver import Level, lower, new_context

    targets = (torch.int32, torch.int64, torch.int16, torch.uint8, torch.bool)
    values = OUTSIDE.astype(F32)
    module = export(lambda x: tuple(x.to(target) for target in targets), (torch.from_numpy(values),)).module
    context = new_context()
    outputs: list[list[np.ndarray]] = []
    for level in (Level.TENSOR, Level.LOOP, Level.TILE):
        lower(module, context, level)
        outputs.append(evaluate(module, [values]))
    lower(module, context, Level.KERNEL)
    simulation = simulate(module, [values])
    assert not simulation.findings
    for got in outputs:
        for one, other in zip(got, simulation.outputs, strict=True):
            assert one.tolist() == other.tolist()
    assert simulation.outputs[0].tolist() == [LAST, FIRST] * 4 + [0, 300, -1]
    assert simulation.outputs[3].tolist() == [255, 0] * 4 + [0, 44, 255]
