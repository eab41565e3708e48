"""Further inputs on which a program is compared: those that drawn normal numbers do not show mistakes on.

A maximum that starts at 0 is right on normal numbers, and a sum that leaves out its last chunk is nearly so on zeros.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
from xdsl.dialects import arith
from xdsl.dialects.builtin import ModuleOp
from xdsl.dialects.utils import FastMathFlag

from deplodock.interpreters.values import Array, DType, is_float

_SPECIAL = 16
"""One of so many elements is NaN or an infinity."""


def further_inputs(
    inputs: Sequence[Array], seed: int, *, finite: bool, large: bool
) -> Iterator[tuple[str, list[Array]]]:
    """Sets of inputs of the same shapes and types, with their names, drawn by a seed.

    Floating-point inputs take all negative values, signs that alternate from input to input, values of the size of the
    third root of the largest one, zeros of both signs, all -inf, all inf, and normal numbers among which NaN and
    infinities are; integers negative values, the smallest and the largest. The others stay as they are.

    Args:
        inputs: the inputs that are known.
        seed: what the values are drawn by.
        finite: whether infinities and NaN are left out.
        large: whether large values may be drawn, too.
    """
    random = np.random.default_rng(seed)
    floats = [place for place, value in enumerate(inputs) if is_float(value.dtype)]
    integers = [place for place, value in enumerate(inputs) if value.dtype.kind in "iu"]

    def between(place: int, low: float, high: float) -> Array:
        return random.uniform(low, high, inputs[place].shape).astype(inputs[place].dtype)

    def changed(values: dict[int, Array]) -> list[Array]:
        return [values.get(place, value) for place, value in enumerate(inputs)]

    if floats:
        yield "from -3 to -1", changed({place: between(place, -3, -1) for place in floats})
    if len(floats) > 1:
        signs = {
            place: between(place, -3, -1) if n % 2 == 0 else between(place, 1, 3) for n, place in enumerate(floats)
        }
        yield "from -3 to -1 and from 1 to 3 in turn", changed(signs)
    for sign, word in ((-1.0, "negative"), (1.0, "positive")) if floats and large else ():
        sizes = {place: sign * _large(inputs[place].dtype) for place in floats}
        yield (
            f"large and {word}",
            changed({place: between(place, *sorted((size / 2, size))) for place, size in sizes.items()}),
        )
    if floats:
        zeros = {place: np.copysign(np.zeros(()), between(place, -1, 1).astype(np.float64)) for place in floats}
        yield "0 and -0", changed({place: value.astype(inputs[place].dtype) for place, value in zeros.items()})
    for value in (-np.inf, np.inf) if floats and not finite else ():
        yield f"all {value}", changed({p: np.full(inputs[p].shape, value).astype(inputs[p].dtype) for p in floats})
    if floats and not finite:
        yield "normal, NaN and infinities", changed({p: _special(inputs[p], random) for p in floats})
    if integers:
        yield "negative integers", changed({p: _negative(inputs[p], random) for p in integers})
        for largest, word in ((False, "smallest"), (True, "largest")):
            yield f"the {word} integers", changed({p: _extreme(inputs[p], random, largest) for p in integers})


def needs_finite(module: ModuleOp) -> bool:
    """Whether a program is free to ignore NaN somewhere, as attention is: then its results on NaN may be others."""
    flagged = (op.fastmath for op in module.walk() if isinstance(op, arith.MulfOp | arith.AddfOp))
    return any(FastMathFlag.NO_NANS in flags.data for flags in flagged if flags is not None)


def converts_to_integers(module: ModuleOp) -> bool:
    """Whether a program converts floats to integers, which hardware does in its own way where they do not fit."""
    return any(isinstance(op, arith.FPToSIOp | arith.FPToUIOp) for op in module.walk())


def _large(dtype: DType) -> float:
    """The third root of the largest number: products of two, and sums of those, stay finite."""
    if dtype.kind == "V":
        return float(np.finfo(np.float32).max) ** (1 / 3)
    return float(np.finfo(dtype).max) ** (1 / 3)


def _special(value: Array, random: np.random.Generator) -> Array:
    drawn = random.standard_normal(value.shape)
    kinds = random.integers(0, 3 * _SPECIAL, value.shape)
    for number, special in enumerate((np.nan, np.inf, -np.inf)):
        drawn = np.where(kinds == number, special, drawn)
    return np.asarray(drawn).astype(value.dtype)


def _negative(value: Array, random: np.random.Generator) -> Array:
    if value.dtype.kind == "u":
        return value
    return random.integers(-100, -1, value.shape, endpoint=True).astype(value.dtype)


def _extreme(value: Array, random: np.random.Generator, largest: bool) -> Array:
    """The three largest integers, or those behind the smallest, which has no negative and no quotient by -1."""
    info = np.iinfo(value.dtype)
    low = info.max - 2 if largest else info.min + 1 if value.dtype.kind == "i" else 0
    return random.integers(low, low + 2, value.shape, value.dtype, endpoint=True)
