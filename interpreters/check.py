"""Compares what a module means before and after a pass, on drawn inputs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, cast

import numpy as np
from xdsl.dialects.builtin import IndexType, MemRefType, ModuleOp, TensorType
from xdsl.ir import Attribute

from deplodock.analysis.host.arguments import entry_functions
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
    """The outputs of a function, and whether reordering its sums would change their bits."""

    outputs: list[Array]
    is_exact: bool


def check_semantics(before: ModuleOp, after: ModuleOp, pass_name: str, *, seed: int = 0) -> None:
    """Evaluate the entry functions of both modules on the same inputs and compare their outputs; see `Meaning`.

    Raises Error, naming the pass, the function, the output, the first position and both values, if they differ; or
    if either module cannot be run.
    """
    Meaning(before, seed).check(after, pass_name)


class Meaning:
    """What a module computes, to be compared with what it computes after a pass. The module must stay as it is.

    Small integers are compared bitwise (where the order of a reduction matters even so, as after `exp`, to 1e-4 of the
    output's size), normal inputs in float64 to 1e-9. Kernel level runs in the simulator, in its own precision, so to
    1e-4; so do small integers from kernel level to kernel level, where multiplications and additions are fused. Where
    the modules compute f16 or bf16, 1e-4 becomes 8 steps of those. Modules with torch operations are not compared.
    """

    def __init__(self, module: ModuleOp, seed: int = 0) -> None:
        self._module, self._seed = module, seed
        self._functions = entry_functions(module)
        self._is_kernel_level = bool(kernel.functions(module))
        self._inputs: dict[tuple[int, Kind], list[Array]] = {}
        self._outcomes: dict[tuple[int, Kind], _Outcome] = {}

    def check(self, module: ModuleOp, pass_name: str) -> Meaning:
        """Compare with the module after a pass: returns its meaning, of a copy, which keeps what was computed here.

        Raises as `check_semantics`.
        """
        is_same = module.is_structurally_equivalent(self._module)
        after = self if is_same else Meaning(module.clone(), self._seed)
        if _has_torch(self._module) or _has_torch(module):
            return after
        old, new = len(self._functions), len(after._functions)
        if old != new:
            raise Error(f"{pass_name}: the module had {old} entry points and has {new} after the pass")
        rounding = max(_rounding(self._module), _rounding(module))
        for number, function in enumerate(after._functions):
            what = f"{pass_name}: @{function.sym_name.data}"
            for kind in ("integers", "normal"):
                # The module after the pass may take what another one has been run on.
                inputs = after._inputs[number, kind] = self._drawn(number, kind)
                expected = self._outcome(f"{what}: before the pass", number, kind, inputs)
                got = after._outcome(f"{what}: after the pass", number, kind, inputs)
                error = max(self._error(kind, expected, rounding), after._error(kind, got, rounding))
                if self._is_kernel_level and after._is_kernel_level:
                    error = rounding
                _compare(f"{what} ({kind} inputs, seed {self._seed})", expected.outputs, got.outputs, error)
        return after

    def _drawn(self, number: int, kind: Kind) -> list[Array]:
        """The inputs of an entry function. Integers are negative, too, unless the program fails on those.

        It does where they are subscripts.
        """
        if (number, kind) not in self._inputs:
            types = input_types(self._functions[number])
            lowest = -_LARGEST if self._takes_negative(number, types) else 0
            self._inputs[number, kind] = draw_inputs(types, self._seed, kind, lowest=lowest)
        return self._inputs[number, kind]

    def _takes_negative(self, number: int, types: Sequence[Attribute]) -> bool:
        inputs = draw_inputs(types, self._seed, "integers")
        if all(is_float(value.dtype) for value in inputs):
            return True
        if self._is_kernel_level:
            return False
        try:
            run(self._module, inputs, entry=self._functions[number].sym_name.data)
        except Error:
            return False
        return True

    def _outcome(self, what: str, number: int, kind: Kind, inputs: Sequence[Array]) -> _Outcome:
        if (number, kind) not in self._outcomes:
            try:
                self._outcomes[number, kind] = self._run(self._functions[number].sym_name.data, kind, inputs)
            except Error as error:
                raise Error(f"{what}: {error}") from error
        return self._outcomes[number, kind]

    def _run(self, entry: str, kind: Kind, inputs: Sequence[Array]) -> _Outcome:
        if self._is_kernel_level:
            simulation = simulate(self._module, inputs, entry=entry, check=False, counts=False)
            return _Outcome(simulation.outputs, kind == "integers")
        precision: Precision = "float64" if kind == "normal" else "native"
        result = run(self._module, inputs, entry=entry, precision=precision)
        return _Outcome(result.outputs, result.exact)

    def _error(self, kind: Kind, outcome: _Outcome, rounding: float) -> float:
        """The relative error that reordering sums may make; 0 where the bits must agree."""
        if kind == "normal" and not self._is_kernel_level:
            return _FLOAT64_ERROR
        return 0.0 if outcome.is_exact else rounding


def _has_torch(module: ModuleOp) -> bool:
    return any(isinstance(op, AtenOp) for op in module.walk())


def _rounding(module: ModuleOp) -> float:
    """The relative error that roundings of the types in a module may make."""
    types = {_shape_and_element(result.type)[1] for op in module.walk() for result in op.results}
    narrow = [_NARROW_STEPS * epsilon(dtype_of(type)) for type in FLOATS if type in types and type in WIDE]
    return max((_FLOAT32_ERROR, *narrow))


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
