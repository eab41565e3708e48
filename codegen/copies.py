"""Asynchronous copies from global to shared memory as CUDA C: `cp.async` of the PTX ISA, and the groups it counts.

16 bytes bypass the L1 cache (`.cg`), 4 and 8 go through it (`.ca`), the only forms that exist. A copy that is outside
its source has a source size of 0: it reads nothing and writes zeros.
"""

from __future__ import annotations

from deplodock.dialects.kernel.move import ASYNC_BYTES


def call(bytes: int, destination: str, source: str, inside: str | None) -> str:
    """The statement that copies `bytes` from one C lvalue to another, zeros where the condition `inside` fails."""
    if inside is None:
        return f"copy_async_{bytes}(&{destination}, &{source});"
    return f"copy_async_{bytes}_where(&{destination}, &{source}, {inside});"


def commit() -> str:
    """The statement that closes a thread's group of copies."""
    return 'asm volatile("cp.async.commit_group;" ::: "memory");'


def wait(pending: int) -> str:
    """The statement that waits for all groups of a thread but the last `pending`."""
    return f'asm volatile("cp.async.wait_group {pending};" ::: "memory");'


def _copy(bytes: int) -> str:
    cache = "cg" if bytes == 16 else "ca"
    return f"""\
__device__ __forceinline__ void copy_async_{bytes}(void* to, const void* from) {{
  const unsigned address = (unsigned)__cvta_generic_to_shared(to);
  asm volatile("cp.async.{cache}.shared.global [%0], [%1], {bytes};" ::"r"(address), "l"(from) : "memory");
}}
"""


def _copy_where(bytes: int) -> str:
    cache = "cg" if bytes == 16 else "ca"
    return f"""\
__device__ __forceinline__ void copy_async_{bytes}_where(void* to, const void* from, bool inside) {{
  const unsigned at = (unsigned)__cvta_generic_to_shared(to);
  const int read = inside ? {bytes} : 0;
  asm volatile("cp.async.{cache}.shared.global [%0], [%1], {bytes}, %2;" ::"r"(at), "l"(from), "r"(read) : "memory");
}}
"""


HELPERS = {
    **{f"copy_async_{bytes}": _copy(bytes) for bytes in ASYNC_BYTES},
    **{f"copy_async_{bytes}_where": _copy_where(bytes) for bytes in ASYNC_BYTES},
}
"""The device functions of asynchronous copies, by name, in the order they are printed."""
