"""Programs whose buffers have more than 2^31 elements, without their memory: only the addresses of accesses count."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache, cached_property

from exact_accesses import Access, exact_accesses
from xdsl.dialects.builtin import ModuleOp

from deplodock.codegen.cuda import print_module
from deplodock.dialects import kernel
from deplodock.passes.driver import Level, lower, new_context
from deplodock.runtime.host.harness import BuiltProgram
from deplodock.runtime.plan import LaunchPlan, TensorMapPlan


def _meta(*shape: int, dtype: str = "float32") -> str:
    return f"torch.empty({', '.join(map(str, shape))}, device='meta', dtype=torch.{dtype})"


HUGE = {
    "flat": f"{_meta(5_000_000_001)} * 2",
    "two_rows": f"{_meta(2, 1_500_000_000)} * 2",
    "transposed": f"x = {_meta(70000, 70000)}; x + x.t()",
    "permuted": f"{_meta(1300, 1300, 1301)}.permute(2, 0, 1).contiguous() * 2",
    "outer_product": f"{_meta(70000, 1)} * {_meta(1, 70001)}",
    "row_sum": f"{_meta(70000, 70000)}.sum(1)",
    "column_sum": f"{_meta(3000, 1_000_000)}.sum(0)",
    "softmax": f"{_meta(70000, 70000)}.softmax(-1)",
    "matmul_of_a_large_result": f"torch.relu({_meta(70000, 64)} @ {_meta(64, 70016)})",
    "matmul_of_large_operands": f"{_meta(64, 2000)} @ {_meta(2000, 1_200_000)}",
    "batched": f"torch.bmm({_meta(3000, 1024, 1024)}, {_meta(3000, 1024, 1000)})",
    "convolution": f"F.conv2d({_meta(64, 3, 4000, 4000)}, {_meta(4, 3, 3, 3)}, padding=1)",
    "gather": f"torch.gather({_meta(70000, 70000)}, 1, {_meta(70000, 31000, dtype='int64')})",
    "concatenated": f"torch.cat([{_meta(70000, 35000)}, {_meta(70000, 35001)}], 1)",
    "flipped": f"{_meta(70000, 70000)}.flip(0, 1) * 2",
    "sliced": f"{_meta(70000, 70000)}[5::3, 1::2] * 2",
    "padded": f"F.pad({_meta(60000, 60000)}, (1, 2, 3, 4), value=7.0)",
    "bytes": f"{_meta(100000, 60000, dtype='uint8')} + 1",
    "halves": f"{_meta(70000, 70000, dtype='bfloat16')} * 2",
    "triangle": f"{_meta(60000, 60000)}.tril(7)",
    "rolled": f"{_meta(70000, 70000)}.roll((3, 5), (0, 1)) + 1",
}
"""Programs by name, each with at least one buffer of more than 2^31 elements or bytes."""


@dataclass(frozen=True)
class Huge:
    """A program at kernel level, and threads of its launches: of the first and last CTAs, and of some between."""

    name: str
    module: ModuleOp

    @cached_property
    def text(self) -> str:
        """Its CUDA."""
        return print_module(self.module)

    def complaint(self, program: BuiltProgram) -> str | None:
        """The first access of a thread that the compiled text makes and the IR does not, or the reverse."""
        functions = {function.sym_name.data: function for function in kernel.functions(self.module)}
        threads = [thread for number in range(len(program.plan.launches)) for thread in sampled(program, number)]
        for (number, block, thread), found in zip(threads, program.accesses(threads), strict=True):
            launch = program.plan.launches[number]
            wanted = exact_accesses(functions[launch.kernel], block, thread)
            got = [(access.buffer, access.first, access.bytes, access.is_store) for access in found]
            if got != (named := [_of_buffer(launch, access) for access in wanted]):
                first = next((at for at, pair in enumerate(zip(got, named, strict=False)) if pair[0] != pair[1]), None)
                what = (
                    f"{len(got)} accesses, not {len(named)}" if first is None else f"{got[first]}, not {named[first]}"
                )
                return f"@{launch.kernel}, block {block}, thread {thread}: {what}"
        return None


def sampled(program: BuiltProgram, number: int) -> list[tuple[int, int, int]]:
    """Threads of a launch, as (launch, block, thread)."""
    launch = program.plan.launches[number]
    blocks = {0, 1, launch.blocks // 3, launch.blocks // 2 + 1, launch.blocks - 2, launch.blocks - 1}
    threads = {0, 1, 33, launch.threads // 2, launch.threads - 1}
    return [
        (number, block, thread)
        for block in sorted(blocks)
        for thread in sorted(threads)
        if 0 <= block < launch.blocks and thread < launch.threads
    ]


def _of_buffer(launch: LaunchPlan, access: Access) -> Access:
    """An access by the number of its buffer in the program, not of the kernel's parameter."""
    argument = launch.arguments[access[0]]
    return (argument.buffer if isinstance(argument, TensorMapPlan) else argument, *access[1:])


@cache
def huge(name: str) -> Huge:
    """A program of the table at kernel level."""
    from deplodock.frontend.expression import read_expression

    module = read_expression(HUGE[name], seed=0).module
    lower(module, new_context(), Level.KERNEL)
    return Huge(name, module)
