"""Compares what a module means before and after a pass, on drawn inputs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, cast

import numpy as np
from xdsl.dialects.builtin import IndexType, MemRefType, ModuleOp, TensorType
from xdsl.ir import Attribute

from deplodock.analysis.host.arguments import Function, entry_functions
from deplodock.dialects import kernel
from deplodock.dialects.elements import FLOATS, WIDE
from deplodock.dialects.torch import AtenOp
from deplodock.errors import Error, InvalidInputError
from deplodock.interpreters.evaluate import input_types, run
from deplodock.interpreters.simulate import simulate
from deplodock.interpreters.values import Array, Precision, bits, dtype_of, epsilon, is_float

Kind = Literal["integers", "normal"]
"""`integers`: floats hold integers from -4 to 4, so that sums are exact; `normal`: floats are normally distributed."""

_LARGEST = 4
_FLOAT64_ERROR = 1e-9
_FLOAT32_ERROR = 1e-4
_NARROW_STEPS = 8
"""How many steps of a float of fewer than 32 bits its roundings may add up to."""


def draw_inputs(types: Sequence[Attribute], seed: int, kind: Kind, *, lowest: int = -_LARGEST) -> list[Array]:
    """One array for each memref, tensor or scalar type; the same for the same seed, position and type.

    Integers lie between `lowest` and 4 (0 and 4 suit programs that use them as subscripts), indices between 1 and 4.
    Raises InvalidInputError for a dynamic shape, UnsupportedError for an element type that no array holds.
    """
    return [_draw(type, position, seed, kind, lowest) for position, type in enumerate(types)]


def _draw(type: Attribute, position: int, seed: int, kind: Kind, lowest: int) -> Array:
    shape, element = _shape_and_element(type)
    if any(extent < 0 for extent in shape):
        raise InvalidInputError(f"cannot draw input {position}: {type} has a dynamic shape; write its extents")
    random, dtype = np.random.default_rng([seed, position]), dtype_of(element)
    if isinstance(element, IndexType):
        return random.integers(1, _LARGEST, shape, dtype, endpoint=True)
    if dtype.kind == "b":
        return random.integers(0, 2, shape).astype(dtype)
    if is_float(dtype) and kind == "normal":
        return random.standard_normal(shape).astype(dtype)
    return random.integers(
        -_LARGEST if is_float(dtype) else 0 if dtype.kind == "u" else lowest, _LARGEST, shape, endpoint=True
    ).astype(dtype)


def _shape_and_element(type: Attribute) -> tuple[tuple[int, ...], Attribute]:
    if not isinstance(type, MemRefType | TensorType):
        return (), type
    return type.get_shape(), cast(MemRefType[Attribute] | TensorType[Attribute], type).element_type


@dataclass(frozen=True)
class _Outcome:
    outputs: list[Array]
    error: float
    """The relative error that reordering sums may make; 0 where the bits must agree."""


def check_semantics(before: ModuleOp, after: ModuleOp, pass_name: str, *, seed: int = 0) -> None:
    """Evaluate the entry functions of both modules on the same inputs and compare their outputs.

    Small integers are compared bitwise (where the order of a reduction matters even so, as after `exp`, to 1e-4 of the
    output's size), normal inputs in float64 to 1e-9. Kernel level runs in the simulator, in its own precision, so to
    1e-4; so do small integers from kernel level to kernel level, where multiplications and additions are fused. Where
    the modules compute f16 or bf16, 1e-4 becomes 8 steps of those. Modules with torch operations are not compared.

    Raises Error, naming the pass, the function, the output, the first position and both values, if they differ; or
    if either module cannot be run.
    """
    if _has_torch(before) or _has_torch(after):
        return
    old, new = entry_functions(before), entry_functions(after)
    if len(old) != len(new):
        raise Error(f"{pass_name}: the module had {len(old)} entry points and has {len(new)} after the pass")
    kernels = _is_kernel_level(before) and _is_kernel_level(after)
    rounding = max(_rounding(before), _rounding(after))
    for function, changed in zip(old, new, strict=True):
        lowest = _lowest_integer(before, function, seed)
        for kind in ("integers", "normal"):
            inputs = draw_inputs(input_types(function), seed, kind, lowest=lowest)
            what = f"{pass_name}: @{changed.sym_name.data}"
            expected = _outcome(f"{what}: before the pass", before, function, inputs, kind, rounding)
            got = _outcome(f"{what}: after the pass", after, changed, inputs, kind, rounding)
            error = rounding if kernels else max(expected.error, got.error)
            _compare(f"{what} ({kind} inputs, seed {seed})", expected.outputs, got.outputs, error)


def _has_torch(module: ModuleOp) -> bool:
    return any(isinstance(op, AtenOp) for op in module.walk())


def _is_kernel_level(module: ModuleOp) -> bool:
    return bool(kernel.functions(module))


def _lowest_integer(module: ModuleOp, function: Function, seed: int) -> int:
    """-4, or 0 if the program fails on negative integers, as it does where they are subscripts."""
    inputs = draw_inputs(input_types(function), seed, "integers")
    if all(is_float(value.dtype) for value in inputs):
        return -_LARGEST
    if _is_kernel_level(module):
        return 0
    try:
        run(module, inputs, entry=function.sym_name.data)
    except Error:
        return 0
    return -_LARGEST


def _rounding(module: ModuleOp) -> float:
    """The relative error that roundings of the types in a module may make."""
    types = {_shape_and_element(result.type)[1] for op in module.walk() for result in op.results}
    narrow = [_NARROW_STEPS * epsilon(dtype_of(type)) for type in FLOATS if type in types and type in WIDE]
    return max((_FLOAT32_ERROR, *narrow))


def _outcome(
    what: str, module: ModuleOp, function: Function, inputs: Sequence[Array], kind: Kind, rounding: float
) -> _Outcome:
    try:
        if _is_kernel_level(module):
            simulation = simulate(module, inputs, entry=function.sym_name.data, check=False)
            return _Outcome(simulation.outputs, rounding if kind == "normal" else 0.0)
        precision: Precision = "float64" if kind == "normal" else "native"
        result = run(module, inputs, entry=function.sym_name.data, precision=precision)
    except Error as error:
        raise Error(f"{what}: {error}") from error
    if kind == "normal":
        return _Outcome(result.outputs, _FLOAT64_ERROR)
    return _Outcome(result.outputs, 0.0 if result.exact else rounding)


def _compare(what: str, before: Sequence[Array], after: Sequence[Array], error: float) -> None:
    if len(before) != len(after):
        raise Error(f"{what}: {len(before)} outputs before the pass, {len(after)} after")
    for position, (want, have) in enumerate(zip(before, after, strict=True)):
        if want.shape != have.shape:
            raise Error(f"{what}: output {position} was of shape {list(want.shape)}, now {list(have.shape)}")
        wrong = _differs(want, have, error)
        if wrong.any():
            first = np.unravel_index(wrong.argmax(), wrong.shape)
            where = ", ".join(str(i) for i in first)
            raise Error(f"{what}: output {position} differs at [{where}]: {want[first]} before, {have[first]} after")


def _differs(want: Array, have: Array, error: float) -> Array:
    """Where the values are not equal: in their bits without an error, NaN and infinity in place with one."""
    if want.dtype == have.dtype and (not error or not is_float(want.dtype)):
        return bits(want) != bits(have)
    want, have = want.astype(np.float64), have.astype(np.float64)
    finite = np.isfinite(want)
    size = np.sqrt(np.mean(np.square(want[finite]))) if finite.any() else 0.0
    with np.errstate(invalid="ignore"):
        close = np.abs(want - have) <= error * np.maximum(np.abs(want), size)
    return ~np.where(finite, close, (want == have) | (np.isnan(want) & np.isnan(have)))
