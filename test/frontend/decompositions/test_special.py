"""Functions of numbers that are decomposed, on special values and over their range, in every type that eager takes."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import pytest

torch = pytest.importorskip("torch")
S = torch.special

NUMBERS = [
    *(0.0, 1.0, 2.0, 0.5, 0.25, 0.1, 0.69, 0.71, 0.999, 1e-3, 1e-10, 1e-38, 1e-41, 1.5, 2.5, 3.0, 7.5, 7.99, 8.01),
    *(10.0, 12.7, 13.0, 20.0, 26.5, 40.0, 88.0, 100.0, 170.0, 1e4, 1e10, 1e30, math.inf),
]
POINTS = [*NUMBERS, *(-x for x in NUMBERS), math.nan]

FUNCTIONS: dict[str, Callable[..., Any]] = {
    "erfc": torch.erfc,
    "erfcx": S.erfcx,
    "erfinv": torch.erfinv,
    "ndtr": S.ndtr,
    "log_ndtr": S.log_ndtr,
    "ndtri": S.ndtri,
    "lgamma": torch.lgamma,
    "mvlgamma": lambda x: torch.mvlgamma(x.abs() + 2, 3),
    "digamma": torch.digamma,
    "i0": torch.i0,
    "i0e": S.i0e,
    "i1": S.i1,
    "i1e": S.i1e,
    "sinc": torch.sinc,
    "logit": lambda x: (torch.logit(x), torch.logit(x, 0.01)),
    "entr": S.entr,
    "angle": torch.angle,
    "frexp": torch.frexp,
    "deg2rad": lambda x: (torch.deg2rad(x), torch.rad2deg(x)),
    "is": lambda x: (torch.isposinf(x), torch.isneginf(x), torch.isreal(x), torch.isfinite(x)),
    "nan_to_num": lambda x: (torch.nan_to_num(x), torch.nan_to_num(x, 1, 2, 3)),
    "frac": lambda x: (x.frac(), x.exp2(), torch.sgn(x)),
    "numbers": lambda x: (torch.xlogy(x, 2), torch.xlogy(2, x), S.xlog1py(x, 0), S.xlog1py(0, x), torch.xlogy(0, x)),
}
POLYGAMMAS: dict[str, Callable[..., Any]] = {f"polygamma {n}": partial(torch.polygamma, n) for n in (0, 1, 3, 4)}
PAIRS: dict[str, Callable[..., Any]] = {
    "hypot": torch.hypot,
    "nextafter": torch.nextafter,
    "heaviside": torch.heaviside,
    "logaddexp": lambda x, y: (torch.logaddexp(x, y), torch.logaddexp2(x, y)),
    "xlogy": lambda x, y: (torch.xlogy(x, y), S.xlog1py(x, y)),
    "float_power": torch.float_power,
    "ldexp": lambda x, y: torch.ldexp(x, y.nan_to_num(0).clamp(-60, 60).to(torch.int32)),
}
WIDE = [torch.float32, torch.float64]
HALVES = [torch.float16, torch.bfloat16]
INTEGERS = [torch.int64, torch.uint8, torch.bool]
DTYPES = [*WIDE, *HALVES, *INTEGERS]
IN_DOUBLE = [
    *("erfc", "erfcx", "erfinv", "ndtri", "lgamma", "digamma", "i0", "i0e", "i1", "i1e"),
    *POLYGAMMAS,
]
"""Functions that one wrapper computes in float64 for all types, so that types differ in casts alone."""


def shared_out(functions: dict[str, Callable[..., Any]], dtype: Any) -> dict[str, Callable[..., Any]]:
    """The functions for a type: each of `IN_DOUBLE` is for one of the half types, and for one of the integer types."""
    others = next(types for types in (WIDE, HALVES, INTEGERS) if dtype in types)
    turn, turns = (0, 1) if dtype in WIDE else (others.index(dtype), len(others))
    left_out = {name for number, name in enumerate(IN_DOUBLE) if number % turns != turn}
    return {name: function for name, function in functions.items() if name not in left_out}


def points(dtype: Any) -> Any:
    if dtype.is_floating_point:
        return torch.tensor(POINTS, dtype=torch.float64).to(dtype)
    return torch.tensor([0, 1, 2, 3, 7, 60] if dtype != torch.int64 else [-100, -2, -1, 0, 1, 2, 9], dtype=dtype)


def taken(function: Callable[..., Any], *args: Any) -> bool:
    """Whether eager has this function for the type of its arguments."""
    try:
        function(*args)
    except (RuntimeError, NotImplementedError):
        return False
    return True


def results(function: Callable[..., Any], *args: Any) -> tuple[Any, ...]:
    value = function(*args)
    return value if isinstance(value, tuple) else (value,)


def check(
    run_at_tensor_level: Callable[..., Any], functions: dict[str, Callable[..., Any]], *args: Any, absolute: float
) -> None:
    """All `functions` that eager has for the arguments, as one program: capture costs more than the values."""
    functions = {name: function for name, function in functions.items() if taken(function, *args)}
    result = run_at_tensor_level(lambda *x: tuple(v for f in functions.values() for v in results(f, *x)), *args)
    wide = [value.double() if value.is_floating_point() else value for value in args]
    exact = [(name, value) for name, function in functions.items() for value in results(function, *wide)]
    for got, eager, (name, reference) in zip(result.got, result.eager, exact, strict=True):
        own = eager.double().numpy()
        value = np.asarray(got).astype(np.float64)
        if not eager.is_floating_point():
            np.testing.assert_array_equal(value, own, err_msg=name)
            continue
        unit = torch.finfo(eager.dtype).eps / 2
        wanted = own if name == "nextafter" else reference.to(eager.dtype).double().numpy()
        # Where eager's own formula is far from the function, as beside poles, either is right.
        with np.errstate(all="ignore"):
            near = np.isclose(value, wanted, rtol=16 * unit, atol=0) | (value == wanted)
            near |= np.isclose(value, own, rtol=16 * unit, atol=0) | (np.isnan(value) & np.isnan(own))
            if eager.dtype == torch.float64:
                # The condition of these functions is worse than 1 here, and eager is the reference.
                near |= np.isclose(value, wanted, rtol=1e-12, atol=4e-15)
            near |= np.isclose(value, wanted, rtol=0, atol=unit * absolute)
        assert near.all(), (name, args[0][~torch.from_numpy(near)], value[~near], own[~near])


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_functions_of_a_number(run_at_tensor_level: Callable[..., Any], dtype: Any) -> None:
    check(run_at_tensor_level, shared_out(FUNCTIONS, dtype), points(dtype), absolute=1e-6)


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_functions_of_a_number_that_is_not_negative(run_at_tensor_level: Callable[..., Any], dtype: Any) -> None:
    # Below 0 poles and zeros of the reflection lie close, and eager itself has few digits.
    x = points(dtype)
    check(run_at_tensor_level, shared_out(POLYGAMMAS, dtype), x[~(x < 0)], absolute=1e-6)


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_functions_of_two_numbers(run_at_tensor_level: Callable[..., Any], dtype: Any) -> None:
    x, y = (part.contiguous() for part in torch.meshgrid(points(dtype), points(dtype), indexing="ij"))
    check(run_at_tensor_level, PAIRS, x, y, absolute=4)
