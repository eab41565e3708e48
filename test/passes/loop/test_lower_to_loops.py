"""The tensor level, its kernels and their loops compute the same bits, on random programs; equal kernels are one."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import prod

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from xdsl.builder import Builder, InsertPoint
from xdsl.context import Context
from xdsl.dialects import arith, func
from xdsl.dialects.builtin import DenseIntOrFPElementsAttr, ModuleOp, TensorType, i32
from xdsl.ir import Block, Region, SSAValue
from xdsl.ir.affine import AffineExpr, AffineMap

from deplodock.dialects.tensor import (
    ConcatOp,
    ElementwiseOp,
    GatherOp,
    IndexMapOp,
    IotaOp,
    KernelOp,
    ReduceOp,
    tensor_of,
)
from deplodock.interpreters.evaluate import evaluate
from deplodock.interpreters.simulate import simulate
from deplodock.passes import remarks
from deplodock.passes.driver import Level, lower, new_context
from deplodock.passes.loop import lower_to_loops
from deplodock.passes.loop.lower_to_loops import LowerToLoopsPass
from deplodock.passes.tensor.form_kernels import FormKernelsPass
from deplodock.tools.source import LocatingParser

SCALAR_OPS = (arith.AddiOp, arith.SubiOp, arith.MuliOp, arith.MaxSIOp)
Draw = Callable[[st.SearchStrategy], object]


def context() -> Context:
    """A context with the dialects of all levels."""
    return new_context()


def shape_of(value: SSAValue) -> tuple[int, ...]:
    return tensor_of(value).get_shape()


class Program:
    """Draws a function on i32 tensors (arithmetic wraps, so every order of a sum gives the same bits)."""

    def __init__(self, data: st.DataObject, extents: Sequence[int], size: int) -> None:
        self._draw = data.draw
        shapes = st.lists(st.sampled_from(extents), max_size=3)
        types = [TensorType(i32, self._draw(shapes)) for _ in range(self._draw(st.integers(1, 3)))]
        self.block = Block(arg_types=types)
        self._build = Builder(InsertPoint.at_end(self.block))
        self.values: list[SSAValue] = list(self.block.args)
        for _ in range(size):
            self.values.append(self._step())
        outputs = self._draw(st.lists(st.sampled_from(self.values[len(types) :]), min_size=1, max_size=3))
        outputs = list(dict.fromkeys([self.values[-1], *outputs]))
        self._build.insert(func.ReturnOp(*outputs))
        function = func.FuncOp("main", (types, [value.type for value in outputs]), Region(self.block))
        self.module = ModuleOp([function])
        self.inputs = [np.random.default_rng(0).integers(-4, 5, type.get_shape(), np.int32) for type in types]

    def _pick(self, values: Sequence[SSAValue]) -> SSAValue:
        return self._draw(st.sampled_from(values))

    def _step(self) -> SSAValue:
        value = self._pick(self.values[-4:] if self._draw(st.booleans()) else self.values)
        kinds = [self._binary, self._binary, self._with_constant, self._reduce, self._permute, self._reshape]
        kinds += [self._slice, self._broadcast, self._matmul, self._count, self._gather, self._concat]
        return self._draw(st.sampled_from(kinds))(value)

    def _binary(self, value: SSAValue) -> SSAValue:
        other = self._pick([v for v in self.values if shape_of(v) == shape_of(value)])
        op_class = self._draw(st.sampled_from(SCALAR_OPS))
        return self._build.insert(ElementwiseOp.of(op_class, value, other)).outputs[0]

    def _with_constant(self, value: SSAValue) -> SSAValue:
        splat = DenseIntOrFPElementsAttr.from_list(tensor_of(value), [self._draw(st.integers(-3, 3))])
        constant = self._build.insert(arith.ConstantOp(splat)).result
        return self._build.insert(ElementwiseOp.of(self._draw(st.sampled_from(SCALAR_OPS)), value, constant)).outputs[0]

    def _bounded(self, value: SSAValue, extent: int) -> SSAValue:
        """The value, moved into the range below an extent."""
        for op_class, bound in ((arith.MaxSIOp, 0), (arith.MinSIOp, extent - 1)):
            splat = DenseIntOrFPElementsAttr.from_list(tensor_of(value), [bound])
            constant = self._build.insert(arith.ConstantOp(splat)).result
            value = self._build.insert(ElementwiseOp.of(op_class, value, constant)).outputs[0]
        return value

    def _count(self, value: SSAValue) -> SSAValue:
        if not shape_of(value):
            return self._with_constant(value)
        dim = self._draw(st.integers(0, len(shape_of(value)) - 1))
        return self._build.insert(IotaOp(dim, value.type)).result

    def _gather(self, value: SSAValue) -> SSAValue:
        """Read another value along a random choice of dimensions at this one, bounded."""
        source = self._pick([v for v in self.values if shape_of(v)] or [value])
        if not shape_of(source) or 0 in shape_of(source):
            return self._with_constant(value)
        exprs, indices = list[AffineExpr](), list[SSAValue]()
        shape = shape_of(value)
        for extent in shape_of(source):
            fitting = [d for d, own in enumerate(shape) if own <= extent]
            if fitting and indices and self._draw(st.booleans()):
                exprs.append(AffineExpr.dimension(self._draw(st.sampled_from(fitting))))
            else:
                exprs.append(AffineExpr.symbol(len(indices)))
                indices.append(self._bounded(value, extent))
        map = AffineMap(len(shape), len(indices), tuple(exprs))
        return self._build.insert(GatherOp(source, indices, map)).result

    def _concat(self, value: SSAValue) -> SSAValue:
        shape = shape_of(value)
        if not shape or prod(shape) > 200:
            return self._with_constant(value)
        dim = self._draw(st.integers(0, len(shape) - 1))
        rest = (*shape[:dim], *shape[dim + 1 :])
        fitting = [v for v in self.values if len(shape_of(v)) == len(shape)]
        fitting = [v for v in fitting if (*shape_of(v)[:dim], *shape_of(v)[dim + 1 :]) == rest]
        return self._build.insert(ConcatOp([value, *(self._pick(fitting) for _ in range(2))], dim)).result

    def _reduce(self, value: SSAValue) -> SSAValue:
        dims = [d for d in range(len(shape_of(value))) if self._draw(st.booleans())]
        if not dims:
            return self._with_constant(value)
        op_class = self._draw(st.sampled_from([arith.AddiOp, arith.MaxSIOp]))
        return self._build.insert(ReduceOp.of(op_class, value, dims)).outputs[0]

    def _map(self, value: SSAValue, exprs: Sequence[AffineExpr], shape: Sequence[int]) -> SSAValue:
        return self._build.insert(IndexMapOp(value, AffineMap(len(shape), 0, tuple(exprs)), shape)).result

    def _permute(self, value: SSAValue) -> SSAValue:
        order = self._draw(st.permutations(range(len(shape_of(value)))))
        exprs = [AffineExpr.dimension(order.index(d)) for d in range(len(order))]
        return self._map(value, exprs, [shape_of(value)[d] for d in order])

    def _reshape(self, value: SSAValue) -> SSAValue:
        total = prod(shape_of(value))
        first = self._draw(st.sampled_from([n for n in range(1, total + 1) if total % n == 0] or [0]))
        shape = [first, total // first] if first else [0, 3]
        flat = AffineExpr.dimension(0) * shape[1] + AffineExpr.dimension(1)
        exprs: list[AffineExpr] = []
        for extent in reversed(shape_of(value)):
            exprs.append(flat % extent if extent > 1 else AffineExpr.constant(0))
            flat = flat // extent if extent > 1 else flat
        return self._map(value, exprs[::-1], shape)

    def _slice(self, value: SSAValue) -> SSAValue:
        shape, exprs = list[int](), list[AffineExpr]()
        for d, extent in enumerate(shape_of(value)):
            step = self._draw(st.sampled_from([1, 2, -1]))
            shape.append(-(-extent // abs(step)))
            start = max(extent - 1, 0) if step < 0 else 0
            exprs.append(AffineExpr.dimension(d) * step + start)
        return self._map(value, exprs, shape)

    def _broadcast(self, value: SSAValue) -> SSAValue:
        shape = list(shape_of(value))
        if len(shape) > 3 or prod(shape) > 200:
            return self._with_constant(value)
        at = self._draw(st.integers(0, len(shape)))
        exprs = [AffineExpr.dimension(d + (d >= at)) for d in range(len(shape))]
        return self._map(value, exprs, [*shape[:at], self._draw(st.sampled_from([1, 3])), *shape[at:]])

    def _matmul(self, value: SSAValue) -> SSAValue:
        shape = shape_of(value)
        if len(shape) != 2 or prod(shape) > 100:
            return self._broadcast(value)
        other = self._pick([v for v in self.values if len(shape_of(v)) == 2 and shape_of(v)[1] == shape[1]])
        space = [shape[0], shape_of(other)[0], shape[1]]
        if prod(space) > 1000:
            return self._with_constant(value)
        m, n, k = map(AffineExpr.dimension, range(3))
        product = ElementwiseOp.of(arith.MuliOp, self._map(value, [m, k], space), self._map(other, [n, k], space))
        return self._build.insert(ReduceOp.of(arith.AddiOp, self._build.insert(product).outputs[0], [2])).outputs[0]


def check(module: ModuleOp, inputs: Sequence[np.ndarray]) -> None:
    """Every level gives the bits of the tensor level."""
    expected = evaluate(module, inputs)
    with remarks.collect():
        FormKernelsPass().apply(Context(), module)
    module.verify()
    for got, want in zip(evaluate(module, inputs), expected, strict=True):
        np.testing.assert_array_equal(got, want)
    LowerToLoopsPass().apply(Context(), module)
    module.verify()
    for got, want in zip(evaluate(module, inputs), expected, strict=True):
        np.testing.assert_array_equal(got, want)


@settings(max_examples=100, deadline=None, derandomize=True)
@given(st.data())
def test_random_programs_keep_their_bits(data: st.DataObject) -> None:
    program = Program(data, (1, 2, 3, 4, 5), data.draw(st.integers(1, 14)))
    check(program.module, program.inputs)


@settings(max_examples=40, deadline=None, derandomize=True)
@given(st.data())
def test_programs_with_empty_dimensions_keep_their_bits(data: st.DataObject) -> None:
    program = Program(data, (0, 1, 3), data.draw(st.integers(1, 8)))
    check(program.module, program.inputs)


@settings(max_examples=25, deadline=None, derandomize=True)
@given(st.data())
def test_random_programs_are_right_on_the_simulator(data: st.DataObject) -> None:
    program = Program(data, (1, 2, 3, 5, 33), data.draw(st.integers(1, 8)))
    expected = evaluate(program.module, program.inputs)
    for level in (Level.TENSOR, Level.LOOP, Level.TILE):
        with remarks.collect():
            lower(program.module, context(), level)
        for got, want in zip(evaluate(program.module, program.inputs), expected, strict=True):
            np.testing.assert_array_equal(got, want, level)
    lower(program.module, context(), Level.KERNEL)
    simulation = simulate(program.module, program.inputs)
    assert not simulation.findings
    for got, want in zip(simulation.outputs, expected, strict=True):
        np.testing.assert_array_equal(got, want)


def test_equal_kernels_are_lowered_once(monkeypatch: pytest.MonkeyPatch) -> None:
    lowered: list[str] = []
    stock = lower_to_loops._lower_kernel

    def counted(kernel: KernelOp) -> func.FuncOp:
        lowered.append(kernel.sym_name.data)
        return stock(kernel)

    monkeypatch.setattr(lower_to_loops, "_lower_kernel", counted)
    text = """
    func.func @main(%x: tensor<4xf32>, %y: tensor<4xf32>) -> tensor<4xf32> {
      %a = tensor_ext.kernel @k_a(%u = %x : tensor<4xf32>, %v = %y : tensor<4xf32>) -> tensor<4xf32> {
        %r = tensor_ext.elementwise {arith.divf} %u, %v : tensor<4xf32>
        tensor_ext.yield %r : tensor<4xf32>
      }
      %b = tensor_ext.kernel @k_b(%u = %x : tensor<4xf32>, %v = %a : tensor<4xf32>) -> tensor<4xf32> {
        %r = tensor_ext.elementwise {arith.divf} %v, %u : tensor<4xf32>
        tensor_ext.yield %r : tensor<4xf32>
      }
      func.return %b : tensor<4xf32>
    }"""
    module = LocatingParser(new_context(), text, "test").parse_module()
    x, y = np.float32([1, 2, 3, 4]), np.float32([2, 4, 8, 16])
    LowerToLoopsPass().apply(new_context(), module)
    assert lowered == ["k_a"]
    (result,) = evaluate(module, [x, y])
    np.testing.assert_array_equal(result, x / y / x)
