"""keep-values: keep in registers what a loop computes of them for the loops behind it that compute the same again.

    loop.for %i = 0 to 8 unroll {                      loop.for %i = 0 to 8 unroll {
      loop.guard where (%i * 256 < %n) {                 loop.guard where (%i * 256 < %n) {
        %in = loop.load %row[%i] : ..                      %in = loop.load %row[%i] : ..
        %e = math.exp %in : f32                            %e = math.exp %in : f32
        ..                                                 loop.store %e, %row[%i] : ..
      }                                                    ..
    }                                                    }
    loop.for %j = 0 to 8 unroll {                  ->  }
      loop.guard where (%j * 256 < %n) {               loop.for %j = 0 to 8 unroll {
        %in_1 = loop.load %row[%j] : ..                  loop.guard where (%j * 256 < %n) {
        %e_1 = math.exp %in_1 : f32                        %e_1 = loop.load %row[%j] : ..
        ..                                                 ..
      }                                                  }
    }                                                  }

The value takes the place of the one it is computed from, so no loop behind may need that, and no register is added. The
loops are unrolled and have a condition, as those over rows of which a mask leaves some out: without one, nvcc itself
finds what unrolled loops compute twice. A softmax of 28 heads of causal scores computed each exponential twice and each
masked score three times.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Block, Operation, SSAValue
from xdsl.passes import ModulePass
from xdsl.rewriter import InsertPoint, Rewriter

from deplodock.analysis.affine.linear import Linear, condition_forms, subscripts_of
from deplodock.analysis.operations import reached, users_of
from deplodock.analysis.shape.dependence import alike, alike_forms
from deplodock.dialects import kernel, loop
from deplodock.dialects.buffers import Memory, memory_of
from deplodock.passes.copying import erase_dead

Variables: TypeAlias = Mapping[SSAValue, SSAValue]
"""The variables of loops, and those of others that they stand for."""


@dataclass(frozen=True)
class KeepValuesPass(ModulePass):
    """Keep values in registers that the loops behind would compute again."""

    name = "keep-values"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        for function in kernel.functions(op):
            loads = (op for op in function.body.walk() if isinstance(op, loop.LoadOp))
            for registers in dict.fromkeys(op.source for op in loads if memory_of(op.source) is Memory.REGISTER):
                reads = _reads(registers)
                for number, read in enumerate(reads[:-1]):
                    _keep(read, reads[number + 1 :])


@dataclass(frozen=True)
class _Read:
    """A load of registers in a nest of unrolled loops and conditions, the outermost first."""

    load: loop.LoadOp
    nest: Sequence[loop.ForOp | loop.GuardOp]

    @property
    def block(self) -> Block:
        """What runs for each element."""
        assert self.load.parent is not None
        return self.load.parent

    def variables(self, other: _Read) -> Variables | None:
        """The variables of its loops and those of another nest, if both run at the same points; else None."""
        variables: dict[SSAValue, SSAValue] = {}
        if len(self.nest) != len(other.nest):
            return None
        for one, two in zip(self.nest, other.nest, strict=True):
            match one, two:
                case loop.ForOp(), loop.ForOp() if one.trips == two.trips:
                    variables[one.iv] = two.iv
                case loop.GuardOp(), loop.GuardOp():
                    conditions, others = (condition_forms(op.conditions.data, op.indices) for op in (one, two))
                    if not alike_forms(conditions, others, variables):
                        return None
                case _:
                    return None
        return variables if alike_forms(subscripts_of(self.load), subscripts_of(other.load), variables) else None


def _reads(registers: SSAValue) -> list[_Read]:
    """The loads of registers in the order of the text, if each has a nest of its own behind all that fills them."""
    users, block = {use.operation: None for use in registers.uses}, registers.owner.parent
    loads = [op for op in users if isinstance(op, loop.LoadOp)]
    if len(loads) < 2 or not isinstance(block, Block):
        return []
    nests = [_nest(load, block) for load in loads]
    found = {nest[0]: _Read(load, nest) for load, nest in zip(loads, nests, strict=True) if nest is not None}
    reads = [found[op] for op in block.ops if isinstance(op, loop.ForOp | loop.GuardOp) and op in found]
    fills = [op for op in users if op not in loads]
    is_filled = len(reads) == len(loads) and all(_is_before(op, reads[0].nest[0], block) for op in fills)
    return reads if is_filled else []


def _nest(load: loop.LoadOp, block: Block) -> list[loop.ForOp | loop.GuardOp] | None:
    """The unrolled loops and conditions around a load of each element once, in a block; None where others are."""
    nest: list[loop.ForOp | loop.GuardOp] = []
    inner: Operation = load
    while inner.parent is not block:
        around = inner.parent_op()
        if not isinstance(around, loop.ForOp | loop.GuardOp):
            return None
        nest.insert(0, around)
        inner = around
    loops = [op for op in nest if isinstance(op, loop.ForOp)]
    is_unrolled = all(op.unroll and op.trips for op in loops) and len(loops) < len(nest)
    is_each_once = sorted(str(form) for form in subscripts_of(load)) == sorted(str(Linear.of(op.iv)) for op in loops)
    return nest if is_unrolled and is_each_once else None


def _is_before(op: Operation, other: Operation, block: Block) -> bool:
    """Whether an operation stands in a block before another of it."""
    outer = block.find_ancestor_op_in_block(op)
    return outer is not None and outer.is_before_in_block(other)


def _keep(read: _Read, others: Sequence[_Read]) -> None:
    """Keep the last value of a loop that all loops behind need in place of the registers."""
    renamed = [read.variables(other) for other in others]
    for op in reversed(list(read.block.ops)):
        if op is read.load or any(variables is None for variables in renamed):
            return
        if _is_of(op, read.load):
            found = [_same(op, other, variables or {}) for other, variables in zip(others, renamed, strict=True)]
            if all(found):
                _replace(read, op, others, [each for each in found if each is not None])
                return


def _is_of(op: Operation, load: loop.LoadOp) -> bool:
    """Whether an operation gives a value like that of a load, of that load and of nothing else read in its block."""
    if len(op.results) != 1 or op.results[0].type != load.result.type:
        return False

    def operands(each: Operation) -> Iterable[Operation]:
        owners = (value.owner for value in each.operands)
        return (owner for owner in owners if isinstance(owner, Operation) and owner.parent is load.parent)

    return [each for each in reached([op], operands) if isinstance(each, loop.LoadOp)] == [load]


def _same(op: Operation, other: _Read, variables: Variables) -> Operation | None:
    """What computes the value of an operation in another nest, if all that needs the load there needs it alone."""
    computes = (each for each in other.block.ops if each.results and alike(op.results[0], each.results[0], variables))
    same = next(computes, None)

    def users(each: Operation) -> Iterable[Operation]:
        return () if each is same else users_of(each)

    is_all = all(each.results and each.parent is other.block for each in reached([other.load], users))
    return same if is_all else None


def _replace(read: _Read, op: Operation, others: Sequence[_Read], same: Sequence[Operation]) -> None:
    """Store a value over the element it is computed from, and load it where it is computed again."""
    load = read.load
    stored = loop.StoreOp(op.results[0], load.source, load.map.data, load.indices)
    Rewriter.insert_op(stored, InsertPoint.after(op))
    for other, computed in zip(others, same, strict=True):
        other.load.result.name_hint = computed.results[0].name_hint
        computed.results[0].replace_all_uses_with(other.load.result)
        erase_dead(other.block)
