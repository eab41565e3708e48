"""verify-resources: check that kernels keep to the limits of the module's target, and have what they need there.

Each refusal gives the figure and the limit; the figures come from the kernel alone:

* threads of a CTA, CTAs of the grid and of a cluster
* bytes of shared memory of a CTA with padding and barriers, those declared statically, and bytes of parameters
* the wanted occupancy, by threads, CTAs and shared memory of an SM
* registers that a loop carries from one iteration to the next, the sum of ceil(bytes / 4) over the accumulators that
  are register buffers, against what threads and occupancy leave to one thread. That is a lower bound
  (`passes/kernel/accumulators.py`): what exceeds the limit is spilled in each iteration
* registers that roles ask for, against those that the CTA starts with; and registers of products, of each thread
* operations that the architecture does not have: asynchronous copies and barriers with phases below sm_80; boxes,
  expected bytes and clusters below sm_90

For example, on sm_90,

    kernel.func @k() blocks(%block = 1) threads(%thread = 2048) {}

is refused with `@k has 2048 threads in a CTA, sm_90 allows 1024`.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import chain
from math import prod

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp, UnknownLoc
from xdsl.ir import Operation

from deplodock.analysis.machine.resources import (
    SharedLayout,
    parameter,
    parameter_bytes,
    register_limit,
    shared_memory,
    shared_of_sm,
    start_registers,
    threads_of_sm,
)
from deplodock.analysis.machine.targets import (
    CLUSTER_BLOCKS,
    FIRST_CLUSTERS,
    FIRST_WITH,
    GRID_BLOCKS,
    LAST_WITH,
    PARAMETER_BYTES,
    PRODUCT_REGISTERS,
    STATIC_LIMIT,
    capability,
    has_feature,
    target_of,
)
from deplodock.dialects import kernel
from deplodock.dialects.interfaces import Landing, NeedsFeature, accesses_of
from deplodock.errors import UnsupportedError
from deplodock.passes.kernel.accumulators import most_carried
from deplodock.passes.options import CheckPass
from deplodock.passes.remarks import ExceedsTarget, failure, located


@dataclass(frozen=True)
class VerifyResourcesPass(CheckPass):
    """Check that kernels keep to the limits of the target, and use only what its architecture has."""

    name = "verify-resources"
    holds_given = True

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        target = target_of(op)
        for function in kernel.functions(op):
            verify_resources(function, target)


def verify_resources(function: kernel.FuncOp, target: kernel.TargetAttr) -> None:
    """Check one kernel.

    Raises:
        ExceedsTarget: at the first thing that the target does not have, or not as much of.
        PassFailedException: a parameter or buffer has no size.
    """
    name = f"@{function.sym_name.data}"
    try:
        for op, reason in _excesses(function, target):
            place = function if isinstance(op.location, UnknownLoc) else op
            raise ExceedsTarget(located(place, f"{name} {reason}"))
    except UnsupportedError as error:
        raise failure(function, f"{name}: {error}") from None


def _excesses(function: kernel.FuncOp, target: kernel.TargetAttr) -> Iterator[tuple[Operation, str]]:
    """What a kernel has too much of or lacks, with the operation to blame. Facts are read only where they matter."""
    memory = shared_memory(function)
    of_cta = chain(_in_grid(function, target), _in_memory(memory, target), _on_sm(function, memory.total, target))
    yield from ((function, reason) for reason in of_cta)
    yield from _missing(function, target)
    yield from _in_registers(function, target)


def _in_grid(function: kernel.FuncOp, target: kernel.TargetAttr) -> Iterator[str]:
    arch = target.arch.data
    if (threads := function.num_threads) > (limit := target.fact("threads_per_block")):
        yield f"has {threads} threads in a CTA, {arch} allows {limit}; give a CTA fewer"
    if (blocks := function.num_blocks) > GRID_BLOCKS:
        yield f"has {blocks} CTAs, a grid holds {GRID_BLOCKS}; give a CTA more to do"
    if (size := function.cluster_size) > CLUSTER_BLOCKS:
        yield f"has clusters of {size} CTAs, one holds {CLUSTER_BLOCKS}"
    if (size := parameter_bytes(parameter(one.type) for one in function.parameters)) > PARAMETER_BYTES:
        yield f"takes {size} bytes of parameters, {PARAMETER_BYTES} can be passed; take fewer buffers"


def _in_memory(memory: SharedLayout, target: kernel.TargetAttr) -> Iterator[str]:
    if memory.static_bytes > STATIC_LIMIT:
        yield f"declares {memory.static_bytes} bytes of barriers, {STATIC_LIMIT} can be static; make fewer"
    if memory.total and memory.total > (limit := target.fact("shared_per_block")):
        yield (
            f"needs {memory.total} bytes of shared memory in a CTA, {target.arch.data} allows {limit}; "
            "stage less or take smaller tiles"
        )


def _on_sm(function: kernel.FuncOp, shared: int, target: kernel.TargetAttr) -> Iterator[str]:
    """Why the wanted number of CTAs, with so much shared memory each, does not fit on an SM."""
    if function.occupancy is None:
        return
    ctas, arch = function.occupancy.value.data, target.arch.data
    if ctas > (limit := target.fact("blocks_per_sm")):
        yield f"wants {ctas} CTAs on an SM, {arch} allows {limit}; lower the occupancy"
    if (threads := ctas * threads_of_sm(function.num_threads)) > (limit := target.fact("threads_per_sm")):
        yield f"wants {ctas} CTAs on an SM, which are {threads} threads, {arch} allows {limit}; lower the occupancy"
    if (size := ctas * shared_of_sm(shared)) > (limit := target.fact("shared_per_sm")):
        yield (
            f"wants {ctas} CTAs on an SM, which take {size} bytes of shared memory, {arch} has {limit}; "
            "lower the occupancy or stage less"
        )


def _in_registers(function: kernel.FuncOp, target: kernel.TargetAttr) -> Iterator[tuple[Operation, str]]:
    threads, ctas, arch = function.num_threads, function.ctas_per_sm, target.arch.data
    shared = f"where {ctas} x {threads} threads share an SM"
    yield from _in_roles(function, target)
    carried = most_carried(function)
    if carried is None:
        return
    team = kernel.team_of(carried.around)
    limit = register_limit(target, threads, ctas)
    if team.num_registers is not None:
        limit, shared = team.num_registers, f"in the role {team.role_name}"
    if carried.registers > limit:
        yield (
            carried.around,
            f"carries {carried.registers} registers of a thread from one iteration to the next, {arch} "
            f"leaves it {limit} {shared}; take smaller register tiles",
        )


def _in_roles(function: kernel.FuncOp, target: kernel.TargetAttr) -> Iterator[tuple[Operation, str]]:
    """What roles ask for that the CTA does not start with."""
    if not any(role.registers for role in function.roles):
        return
    threads, start = function.num_threads, start_registers(target, function.num_threads, function.ctas_per_sm)
    wanted = sum(role.num_threads * (role.num_registers or start) for role in function.roles)
    if wanted > threads * start:
        yield (
            function.roles[0],
            f"has roles that ask for {wanted} registers, and a CTA starts with {threads} x {start} = {threads * start} "
            f"where {function.ctas_per_sm} share an SM; lower those of a role",
        )
    for op in function.walk():
        products = [access for access in accesses_of(op) if access.lands is Landing.PRODUCT]
        if not products:
            continue
        sums = sum(prod(access.extents) for access in products if access.writes)
        if (needed := sums + PRODUCT_REGISTERS) > start:
            yield (
                op,
                f"needs {needed} registers of a thread for a product, and starts with {start} where "
                f"{function.ctas_per_sm} x {threads} threads share an SM; take fewer columns or a lower occupancy",
            )


def _missing(function: kernel.FuncOp, target: kernel.TargetAttr) -> Iterator[tuple[Operation, str]]:
    """What a kernel uses that the architecture does not have."""
    has, arch = capability(target), target.arch.data
    if function.cluster_size > 1 and has < FIRST_CLUSTERS:
        yield function, f"uses clusters, which {arch} does not have; they need sm_{FIRST_CLUSTERS}"
    for op in function.walk():
        feature = op.needs() if isinstance(op, NeedsFeature) else None
        if feature is not None and not has_feature(target, feature):
            first = f"sm_{FIRST_WITH[feature]}"
            who = f"only {first} has them" if feature in LAST_WITH else f"they need {first}"
            yield op, f"uses {feature.value}, which {arch} does not have; {who}"
