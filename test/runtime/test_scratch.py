"""The scratch plan of host functions: who may share memory, and how much is needed."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st
from xdsl.dialects import func, memref
from xdsl.dialects.builtin import MemRefType, f32
from xdsl.ir import Block, Region, SSAValue
from xdsl.ir.affine import AffineExpr, AffineMap

from deplodock.dialects.loop import PartOp
from deplodock.runtime.scratch import ALIGNMENT, plan

WORDS = ALIGNMENT // 4


class Host:
    """A host function under construction: buffers in units of the alignment, and calls that use them."""

    def __init__(self) -> None:
        self.block = Block(arg_types=[MemRefType(f32, [WORDS])])
        self.sizes: dict[SSAValue, int] = {}
        self.uses: dict[SSAValue, list[int]] = {}
        self._calls = 0

    def alloc(self, units: int) -> SSAValue:
        op = memref.AllocOp([], [], MemRefType(f32, [units * WORDS]))
        self.block.add_op(op)
        self.sizes[op.memref] = units * ALIGNMENT
        return op.memref

    def call(self, *buffers: SSAValue) -> None:
        self.block.add_op(func.CallOp("k", buffers, []))
        for buffer in buffers:
            self.uses.setdefault(buffer, []).append(self._calls)
        self._calls += 1

    def function(self, *returned: SSAValue) -> func.FuncOp:
        self.block.add_op(func.ReturnOp(*returned))
        types = ([value.type for value in self.block.args], [value.type for value in returned])
        return func.FuncOp("main", types, Region(self.block))


def test_a_chain_needs_the_memory_of_two_neighbours() -> None:
    host = Host()
    a, b, c, out = (host.alloc(units) for units in (2, 3, 2, 1))
    host.call(host.block.args[0], a)
    host.call(a, b)
    host.call(b, c)
    host.call(c, out)
    scratch = plan(host.function(out))
    assert scratch.size == 5 * ALIGNMENT
    assert scratch.offsets == {a: 3 * ALIGNMENT, b: 0, c: 3 * ALIGNMENT}


def test_a_gap_before_what_lives_on_is_used() -> None:
    host = Host()
    large, long, small = (host.alloc(units) for units in (4, 3, 2))
    host.call(large, long)
    host.call(large)
    host.call(small, long)
    scratch = plan(host.function())
    assert scratch.offsets == {large: 0, long: 4 * ALIGNMENT, small: 0}
    assert scratch.size == 7 * ALIGNMENT


def test_what_lies_behind_a_short_buffer_lies_behind_a_long_one_too() -> None:
    host = Host()
    large, small, third = (host.alloc(units) for units in (5, 2, 1))
    host.call(large, third)
    host.call(small, third)
    assert plan(host.function()).offsets == {large: 0, small: 0, third: 5 * ALIGNMENT}


def test_a_buffer_lives_while_a_part_of_it_is_used() -> None:
    host = Host()
    rows = memref.AllocOp([], [], MemRefType(f32, [2, WORDS]))
    part = PartOp(rows.memref, AffineMap(0, 0, (AffineExpr.constant(1),)), [], MemRefType(f32, [WORDS]))
    host.block.add_ops([rows, part])
    host.call(rows.memref)
    other = host.alloc(2)
    host.call(other)
    host.block.add_op(func.CallOp("k", [part.result, other], []))
    assert sorted(plan(host.function()).offsets.values()) == [0, 2 * ALIGNMENT]


def test_what_is_returned_is_not_scratch() -> None:
    host = Host()
    out, other = host.alloc(1), host.alloc(1)
    host.call(host.block.args[0], out, other)
    assert plan(host.function(out, other)).offsets == {}


def test_sizes_are_padded_to_the_alignment() -> None:
    block = Block()
    small = [memref.AllocOp([], [], MemRefType(f32, [3])) for _ in range(2)]
    block.add_ops([*small, func.CallOp("k", [op.memref for op in small], []), func.ReturnOp()])
    scratch = plan(func.FuncOp("main", ([], []), Region(block)))
    assert list(scratch.offsets.values()) == [0, ALIGNMENT]
    assert scratch.size == 2 * ALIGNMENT


@settings(max_examples=100, deadline=None, derandomize=True)
@given(st.lists(st.integers(1, 5), min_size=1, max_size=8), st.data())
def test_buffers_that_live_together_lie_apart(sizes: list[int], data: st.DataObject) -> None:
    host = Host()
    buffers = [host.alloc(units) for units in sizes]
    for used in data.draw(st.lists(st.lists(st.sampled_from(buffers), max_size=4), max_size=8)):
        host.call(*used)
    scratch = plan(host.function())
    assert scratch.offsets.keys() == host.uses.keys()
    for one, start in scratch.offsets.items():
        assert start % ALIGNMENT == 0
        assert start + host.sizes[one] <= scratch.size
        for other, begin in scratch.offsets.items():
            together = min(host.uses[one]) <= max(host.uses[other]) and min(host.uses[other]) <= max(host.uses[one])
            apart = start + host.sizes[one] <= begin or begin + host.sizes[other] <= start
            assert one is other or apart or not together
