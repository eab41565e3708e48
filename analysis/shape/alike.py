"""Whether two values of a program are the same function of loop variables that stand for each other."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from xdsl.dialects.builtin import IndexType
from xdsl.ir import Operation, SSAValue

from deplodock.analysis.affine.linear import Linear, bounds_of, condition_of, equal, form_of_value, subscripts_of
from deplodock.analysis.shape.dependence import wheres
from deplodock.dialects import loop


def alike(a: SSAValue, b: SSAValue, variables: Mapping[SSAValue, SSAValue]) -> bool:
    """Whether `a` is what `b` is where the variables of `a`, the keys, are those of `b`, the values.

    Reads, scalars and reductions are followed; what an operation without them gives is itself alone.
    """
    if isinstance(a.type, IndexType) and isinstance(b.type, IndexType):
        return alike_forms([form_of_value(a)], [form_of_value(b)], variables)
    if a is b or not (isinstance(a.owner, Operation) and isinstance(b.owner, Operation)):
        return a is b
    one, other = a.owner, b.owner
    if type(one) is not type(other) or one.results.index(a) != other.results.index(b):
        return False
    if isinstance(one, loop.ReduceOp) and isinstance(other, loop.ReduceOp):
        inner = {**variables, one.iv: other.iv}
        place = one.results.index(a)
        return alike_loops(one, other, variables) and alike(one.yielded[place], other.yielded[place], inner)
    if one.regions:
        return False
    if isinstance(one, loop.LoadOp) and isinstance(other, loop.LoadOp):
        same = one.source is other.source and one.padded == other.padded
        return same and alike_forms(subscripts_of(one), subscripts_of(other), variables)
    same = (one.properties, one.attributes) == (other.properties, other.attributes)
    same = same and len(one.operands) == len(other.operands)
    return same and all(alike(x, y, variables) for x, y in zip(one.operands, other.operands, strict=True))


def alike_loops(a: loop.ReduceOp, b: loop.ReduceOp, variables: Mapping[SSAValue, SSAValue]) -> bool:
    """Whether two reductions run at the same points, under the same conditions, and fold one value alike."""
    inner = {**variables, a.iv: b.iv}
    conditions, others = ([condition_of(where) for where in wheres(op.body.block)] for op in (a, b))
    return (
        len(a.results) == len(b.results) == 1
        and a.identities == b.identities
        and a.combiner.is_structurally_equivalent(b.combiner)
        and alike_forms(bounds_of(a), bounds_of(b), variables)
        and alike_forms(conditions, others, inner)
    )


def alike_forms(a: Sequence[Linear], b: Sequence[Linear], variables: Mapping[SSAValue, SSAValue]) -> bool:
    """Whether forms of the variables of the one, the keys, are those of the other, the values."""
    renamed = list(a)
    for old, new in variables.items():
        renamed = [form.substitute(old, Linear.of(new)) for form in renamed]
    return len(a) == len(b) and all(equal(x, y) for x, y in zip(renamed, b, strict=True))
