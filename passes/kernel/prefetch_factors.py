"""prefetch-factors: let the threads of a warpgroup load what they hold of the next step while this one multiplies.

    loop.for %k = 0 to 8 {                          %first = loop.index [0]
      kernel.wait_phase %full[%k mod 4], ..         kernel.wait_phase %full[%first mod 4], ..
      %in = kernel.alloc : ..                       %in = kernel.alloc : ..
      .. %xs[%k mod 4, ..] to %in[..]               .. %xs[%first mod 4, ..] to %in[..]
      kernel.wgmma_fence                            loop.for %k = 0 to 7 {
      kernel.wgmma m64n64k8 %in[..] * ..              kernel.wgmma_fence
      kernel.wgmma_commit                    ->       kernel.wgmma m64n64k8 %in[..] * ..
      kernel.wgmma_wait 0                             kernel.wgmma_commit
      kernel.arrive warp %empty[%k mod 4]             %later = loop.index [%k + 1]
      ..                                              kernel.wait_phase %full[%later mod 4], ..
    }                                                 %in_1 = kernel.alloc : ..
                                                      .. %xs[%later mod 4, ..] to %in_1[..]
                                                      kernel.wgmma_wait 0
                                                      .. %in_1[..] to %in[..]
                                                      kernel.arrive warp %empty[%k mod 4]
                                                      ..
                                                    }
                                                    %last = loop.index [7]
                                                    kernel.wgmma_fence ..

What a thread computes of its factor, as low parts, goes with the loads. It is done for consumers whose registers have
room for two steps of what they hold, besides their sums: the rest of a step stands behind the products as before.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise, takewhile

from xdsl.context import Context
from xdsl.dialects.builtin import AffineMapAttr, IndexType, ModuleOp
from xdsl.ir import Block, Operation, Region, SSAValue
from xdsl.ir.affine import AffineExpr, AffineMap
from xdsl.passes import ModulePass
from xdsl.rewriter import InsertPoint, Rewriter

from deplodock.analysis.machine.occupancy import register_limit
from deplodock.analysis.machine.targets import target_of
from deplodock.dialects import kernel, loop
from deplodock.dialects.buffers import Memory, memory_of, memref_of
from deplodock.dialects.interfaces import accesses_of
from deplodock.dialects.math_ext import HighPartOp
from deplodock.passes.kernel.accumulators import registers_of

OTHER_REGISTERS = 40
"""Registers that a consumer has besides its buffers, for addresses, phases and what it computes."""


@dataclass(frozen=True)
class PrefetchFactorsPass(ModulePass):
    """Let threads load what they hold of the factors of the next step while this one multiplies."""

    name = "prefetch-factors"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        for function in kernel.functions(op):
            limit = register_limit(target_of(op), function.num_threads, function.ctas_per_sm)
            for role in function.roles:
                steps = [each for each in role.walk() if isinstance(each, loop.ForOp)]
                for found in filter(None, map(_found, steps)):
                    if found.registers(role) <= (role.num_registers or limit):
                        found.rewrite()


@dataclass(frozen=True)
class _Steps:
    """A loop whose steps load what threads compute a factor of, and multiply it once."""

    around: loop.ForOp
    loading: Sequence[Operation]
    """The wait for a slot at its start, and the loads behind it."""
    loaded: Sequence[kernel.AllocOp]
    """What they fill."""
    wait: kernel.WgmmaWaitOp
    """The wait for the products, before which the next step may load."""
    products: Sequence[kernel.WgmmaOp]

    def registers(self, role: kernel.RoleOp) -> int:
        """The registers of a thread of a role, if it loads a step ahead: those of its buffers, and others."""
        buffers = [op.result for op in role.walk() if isinstance(op, kernel.AllocOp)]
        near = [buffer for buffer in buffers if memory_of(buffer) is Memory.REGISTER]
        copied = [op.result for op in self.loaded if self._multiplies(op.result)]
        return sum(map(registers_of, [*near, *copied])) + OTHER_REGISTERS

    def rewrite(self) -> None:
        """Load for the first step before the loop, and for the others a step ahead; the last is behind it."""
        steps, trips = self.around, self.around.trips
        assert trips is not None
        copied = [self._part(op.result) for op in self.loaded if self._multiplies(op.result)]
        rest = [op for op in steps.body.block.ops if op not in self.loading]
        first = _index("first", AffineMap(0, 0, (AffineExpr.constant(0),)), [])
        later = _index("later", AffineMap(1, 0, (AffineExpr.dimension(0) + 1,)), [steps.iv])
        last = _index("last", AffineMap(0, 0, (AffineExpr.constant(trips - 1),)), [])
        fills = [op for op in self.loading if op not in self.loaded]
        head = [op.clone({steps.iv: first.result}) for op in fills]
        tail = dict[SSAValue, SSAValue]({steps.iv: last.result})
        Rewriter.insert_op([last, *(op.clone(tail) for op in rest)], InsertPoint.after(steps))
        for op in self.loaded:
            op.detach()
        head += [nest.clone() for _, nest in copied]
        Rewriter.insert_op([*self.loaded, *(parts for parts, _ in copied), first, *head], InsertPoint.before(steps))
        Rewriter.insert_op([nest for _, nest in copied], InsertPoint.after(self.wait))
        Rewriter.insert_op(later, InsertPoint.before(self.wait))
        for op in fills:
            op.detach()
            Rewriter.insert_op(op, InsertPoint.before(self.wait))
            steps.iv.replace_uses_with_if(later.result, lambda use, op=op: op.is_ancestor(use.operation))
        steps.properties["bound"] = AffineMapAttr(AffineMap(0, 0, (AffineExpr.constant(trips - 1),)))

    def _multiplies(self, loaded: SSAValue) -> bool:
        """Whether the products read what is loaded as it is."""
        return any(op.left.buffer is loaded for op in self.products)

    def _part(self, loaded: SSAValue) -> tuple[kernel.AllocOp, Operation]:
        """Registers of the leading parts of what is loaded, which the products read now, and what fills them."""
        parts, nest = kernel.AllocOp(memref_of(loaded)), Nest.over(memref_of(loaded).get_shape())
        parts.result.name_hint = f"{loaded.name_hint}_high" if loaded.name_hint else None
        place = AffineMap.identity(len(nest.indices))
        load = loop.LoadOp(loaded, place, nest.indices)
        part = HighPartOp(load.result)
        nest.block.add_ops([load, part, loop.StoreOp(part.result, parts.result, place, nest.indices)])
        for op in nest.outer.walk():
            op.location = self.products[0].location
        loaded.replace_uses_with_if(parts.result, lambda use: use.operation in self.products)
        return parts, nest.outer


@dataclass(frozen=True)
class Nest:
    """Unrolled loops over the elements of a register buffer."""

    outer: loop.ForOp
    block: Block
    indices: Sequence[SSAValue]

    @staticmethod
    def over(shape: Sequence[int]) -> Nest:
        """Loops over all elements of a shape of one dimension at least."""
        loops = [loop.ForOp(extent, Region(Block(arg_types=[IndexType()])), unroll=True) for extent in shape]
        for outer, inner in pairwise(loops):
            outer.body.block.add_op(inner)
        return Nest(loops[0], loops[-1].body.block, [op.iv for op in loops])


def _found(steps: loop.ForOp) -> _Steps | None:
    """What a loop loads, if its steps wait for a slot, load of it what factors are computed of, and multiply once."""
    ops = list(steps.body.block.ops)
    waits = [op for op in ops if isinstance(op, kernel.WgmmaWaitOp)]
    loading = list(takewhile(lambda op: op is ops[0] or isinstance(op, kernel.AllocOp) or _loads(op), ops))
    filled = {access.buffer for op in loading for inner in op.walk() for access in accesses_of(inner) if access.writes}
    loaded = [op for op in loading if isinstance(op, kernel.AllocOp) and op.result in filled]
    products = [op for op in steps.body.walk() if isinstance(op, kernel.WgmmaOp)]
    is_alone = len(waits) == 1 and waits[0].pending.value.data == 0 and isinstance(ops[0], kernel.WaitPhaseOp)
    if not is_alone or not loaded or (steps.trips or 0) < 2:
        return None
    loading = [op for op in loading if op in loaded or not isinstance(op, kernel.AllocOp)]
    return _Steps(steps, loading, loaded, waits[0], products)


def _loads(op: Operation) -> bool:
    """Whether an operation is a nest of unrolled loops that fills registers of slabs."""
    touched = [access for inner in op.walk() for access in accesses_of(inner)]
    is_load = all((access.memory is Memory.REGISTER) == access.writes for access in touched)
    is_near = all(access.memory in (Memory.REGISTER, Memory.SHARED) for access in touched)
    return isinstance(op, loop.ForOp) and op.unroll and bool(touched) and is_load and is_near


def _index(name: str, map: AffineMap, operands: Sequence[SSAValue]) -> loop.IndexOp:
    made = loop.IndexOp(map, operands)
    made.result.name_hint = name
    return made
