"""How threads wait for each other, as CUDA C: roles and their registers, barriers, groups of copies, shuffles.

`setmaxnreg`, `bar.sync`: PTX ISA, sm_90a and sm_80.
"""

from __future__ import annotations

from deplodock.analysis.machine.resources import start_registers
from deplodock.analysis.machine.targets import target_at
from deplodock.codegen.writer import KernelWriter, Texts
from deplodock.dialects import kernel
from deplodock.dialects.kernel import RoleOp
from deplodock.dialects.kernel.shuffle import SHUFFLES, Shuffle
from deplodock.dialects.kernel.sync import BarrierOp, CommitGroupOp, WaitGroupOp

HELPERS: dict[str, str] = {}
"""They use no device functions."""


def head(to: KernelWriter, role: RoleOp) -> str:
    """The branch that the threads of a role take."""
    thread, last = to.names[to.function.thread_id], role.first_thread + role.num_threads
    condition = f"if ({thread} < {last})" if last < to.function.num_threads else ""
    return " ".join(filter(None, ("else" if role.place else "", condition))) or "if (true)"


def enter(to: KernelWriter, role: RoleOp) -> None:
    """Write how the threads of a role learn their numbers, and get their registers."""
    to.line(f"// {role.role_name}")
    thread, first = to.names[to.function.thread_id], role.first_thread
    to.line(f"const int {to.names.define(role.thread_id, 'thread')} = {thread}{f' - {first}' if first else ''};")
    if (count := role.num_registers) is not None:
        is_less = count < start_registers(target_at(role), to.function.num_threads, to.function.ctas_per_sm)
        to.line(f'asm volatile("setmaxnreg.{"dec" if is_less else "inc"}.sync.aligned.u32 {count};" ::: "memory");')


def role_barrier(role: RoleOp) -> int:
    """The number of the barrier of a role's threads; 0 is that of the CTA."""
    return role.place + 1


def _barrier(to: KernelWriter, op: BarrierOp) -> None:
    if isinstance(to.team, RoleOp):
        to.line(f'asm volatile("bar.sync {role_barrier(to.team)}, {to.team.num_threads};" ::: "memory");')
    else:
        to.line("__syncthreads();")


def _commit(to: KernelWriter, op: CommitGroupOp) -> None:
    to.line('asm volatile("cp.async.commit_group;" ::: "memory");')


def _wait(to: KernelWriter, op: WaitGroupOp) -> None:
    to.line(f'asm volatile("cp.async.wait_group {op.pending.value.data};" ::: "memory");')


def _shuffle(to: KernelWriter, op: Shuffle) -> None:
    match op:
        case kernel.ShuffleUpOp():
            function, lane = "__shfl_up_sync", f"{op.delta.value.data}"
        case kernel.ShuffleLastOp():
            function, lane = "__shfl_sync", f"{op.width.value.data - 1}, {op.width.value.data}"
        case _:
            assert isinstance(op, kernel.ShuffleXorOp)
            function, lane = "__shfl_xor_sync", f"{op.mask.value.data}"
    to.define(op.result, f"{function}(0xffffffff, {to.names[op.value]}, {lane})")


TEXTS: Texts = {BarrierOp: _barrier, CommitGroupOp: _commit, WaitGroupOp: _wait, **dict.fromkeys(SHUFFLES, _shuffle)}
"""How barriers of a CTA and of its roles, groups of copies, and shuffles of a warp are written."""
