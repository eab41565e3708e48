"""The target `cuda`: kernels as CUDA C, one statement for each operation, with the names of the IR.

Compile the text with `nvcc -fmad=false`: contraction to fused multiply-adds is decided in the IR, by fuse-multiply-add.
Buffers start at multiples of 16 bytes, and no output overlaps another argument.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import IO, Any

from xdsl.context import Context
from xdsl.dialects import arith
from xdsl.dialects.builtin import IndexType, MemRefType, ModuleOp
from xdsl.ir import Block, Operation, SSAValue
from xdsl.utils.target import Target

from deplodock.analysis.affine.linear import Linear
from deplodock.analysis.host.arguments import Role, argument_roles
from deplodock.analysis.machine.resources import alignment_of, buffer_elements
from deplodock.analysis.machine.targets import ACCESS_BYTES
from deplodock.analysis.operations import position_of
from deplodock.codegen import scalars
from deplodock.codegen.indices import forms
from deplodock.codegen.names import declared_names, identifier
from deplodock.codegen.writer import KernelWriter, Texts, c_type, c_type_of, is_multidimensional
from deplodock.dialects import kernel, loop
from deplodock.dialects.interfaces import DescribesBuffer, accesses_of
from deplodock.dialects.tile import Memory, memory_of
from deplodock.errors import UnsupportedError
from deplodock.loading import loaded


@dataclass(frozen=True)
class _Writer:
    """What a file writes: operations of the kernel dialect, and device functions, by how their names begin."""

    operations: str
    functions: tuple[str, ...] = ()


FILES = {
    "cluster": _Writer("cluster_barrier cluster_move", ("cluster_",)),
    "copies": _Writer("move", ("copy_async_",)),
    "grid": _Writer("await_launches fence ticket", ("await_launches", "take_")),
    "mbarrier": _Writer("mbarrier arrive arrive_copies wait_phase", ("mbarrier_",)),
    "mma": _Writer("mma ldmatrix", ("mma_", "ldmatrix_")),
    "roles": _Writer("barrier commit_group wait_group shuffle_xor shuffle_up shuffle_last"),
    "tma": _Writer("fence_proxy_async tma_load tma_store tma_commit tma_wait", ("fence_proxy_async", "tma_")),
    "wgmma": _Writer("wgmma wgmma_fence wgmma_commit wgmma_wait", ("tile_descriptor", "wgmma_")),
}
"""The files of kinds of operations, in the order of their device functions in a text. Each is imported for kernels that
have such operations: its `TEXTS` write them, and its `HELPERS` are the device functions that they call."""

_FILE_OF = {f"kernel.{name}": part for part, has in FILES.items() for name in has.operations.split()}
"""The file of each operation that has one."""

_POOLS = {alignment: f"shared_memory_{alignment}" for alignment in (16, 128, 256, 512, 1024)}
"""The dynamic shared memory of a kernel, by the alignment of what lies there. All declarations of a name in a text have
that of the first, so each alignment has a name."""

_RESERVED = frozenset(
    {
        *scalars.FUNCTIONS,
        *scalars.HELPERS,
        "tensor_map",
        *scalars.VECTORS.values(),
        *(f"make_{vector}" for vector in scalars.VECTORS.values()),
        *("__shfl_xor_sync", "__syncthreads", "__threadfence", "__int_as_float", "__longlong_as_double"),
        *_POOLS.values(),
    }
)


@dataclass(frozen=True)
class CudaTarget(Target):
    """Prints every kernel function of a module, in order, as CUDA C for nvcc."""

    name = "cuda"

    def emit(self, ctx: Context, module: ModuleOp, output: IO[str]) -> None:
        """Write the text of all kernels.

        Raises:
            UnsupportedError: there is no kernel, or one holds something without a CUDA form; the message says where.
        """
        output.write(print_module(module))


def print_module(module: ModuleOp) -> str:
    """The CUDA C of all kernels of a module, after the device functions they use.

    Raises:
        UnsupportedError: there is no kernel, or one holds something without a CUDA form; the message says where.
    """
    functions = kernel.functions(module)
    if not functions:
        raise UnsupportedError(
            "the module holds no kernel.func to print as CUDA; it computes nothing, or is above the kernel level"
        )
    printed = [_KernelPrinter(function).text() for function in functions]
    calls = set(scalars.CALL.findall("\n".join(printed)))
    parts = [_part(part) for part, has in FILES.items() if any(call.startswith(has.functions) for call in calls)]
    helpers = [part.HELPERS[name] for part in (scalars, *parts) for name in part.HELPERS if name in calls]
    has_maps = any(isinstance(value.type, DescribesBuffer) for op in functions for value in op.parameters)
    text = "\n".join([*([_part("tma").TYPE] if has_maps else []), *helpers, *printed])
    headers = [
        f"#include <{header}>\n" for c_type, header in scalars.HEADERS.items() if re.search(rf"\b{c_type}\b", text)
    ]
    return "".join([*headers, "\n" if headers else "", text])


def _part(name: str) -> Any:
    """The file of a part."""
    return loaded(f"deplodock.codegen.{name}")


def _is_reserved(name: str) -> bool:
    """Whether a name belongs to what a text may use."""
    return name in _RESERVED or any(
        name in _part(part).HELPERS for part, has in FILES.items() if name.startswith(has.functions)
    )


class _KernelPrinter:
    """Prints one kernel."""

    def __init__(self, function: kernel.FuncOp) -> None:
        self.function = function
        self.to = KernelWriter(function, _is_reserved)
        self.current: Operation = function

    def text(self) -> str:
        """The definition of the kernel."""
        try:
            self._print()
        except UnsupportedError as error:
            raise UnsupportedError(f"{self._position()}@{self.function.sym_name.data}: {error}") from None
        return "\n".join(self.to.lines) + "\n"

    def _position(self) -> str:
        """Where the operation being printed stands in its file, if that is known."""
        position = position_of(self.current)
        return "" if position is None else f"{position}: error: "

    def _print(self) -> None:
        to = self.to
        with to.braces(self._signature()):
            to.line(f"const int {to.names[self.function.block_id]} = blockIdx.x, {to.thread} = threadIdx.x;")
            if not to.shared.is_static:
                alignment = to.shared.alignment
                to.line(f"extern __shared__ __align__({alignment}) unsigned char {_POOLS[alignment]}[];")
            if any(op.name == "kernel.mbarrier" for op in self.function.body.walk()):
                _part("mbarrier").declare(to, self.function)
            self._block(self.function.body.block)

    def _signature(self) -> str:
        function, name = self.function, self.function.sym_name.data
        if name != identifier(name) or not self.to.names.is_free(name):
            raise UnsupportedError(f"'{name}' cannot be the name of a C function; rename the kernel")
        if name in declared_names():
            raise UnsupportedError(f"CUDA or the C library declares '{name}'; rename the kernel")
        bounds = str(function.num_threads)
        if function.occupancy is not None or any(role.registers for role in function.roles):
            bounds += f", {function.ctas_per_sm}"
        roles = argument_roles(function)
        pairs = zip(function.parameters, roles, strict=True)
        parameters = ", ".join(self._parameter(parameter, role) for parameter, role in pairs)
        self.to.names.define(function.block_id, "block")
        self.to.names.define(function.thread_id, "thread")
        shape = f"__cluster_dims__({function.cluster_size}, 1, 1) " if function.cluster is not None else ""
        return f'extern "C" __global__ void {shape}__launch_bounds__({bounds}) {name}({parameters})'

    def _parameter(self, parameter: SSAValue, role: Role) -> str:
        name = self.to.names.define(parameter, "arg")
        if isinstance(parameter.type, DescribesBuffer):
            return f"{_part('tma').PARAMETER} {name}"
        if not isinstance(parameter.type, MemRefType):
            return f"{c_type(parameter.type)} {name}"
        const = "const " if role is Role.IN else ""
        # What launches before still write while it waits for them is not constant: nvcc may load such before the wait.
        is_fixed = role is Role.OUT or (role is Role.IN and not self.function.starts_early)
        restrict = " __restrict__" if is_fixed else ""
        return f"{const}{c_type(loop.memref_of(parameter).element_type)}*{restrict} {name}"

    def _block(self, block: Block) -> None:
        for op in block.ops:
            self.current = op
            match op:
                case loop.ForOp():
                    self._for(op)
                case loop.GuardOp():
                    self._guard(op)
                case kernel.RolesOp():
                    self._roles(op)
                case _:
                    self._text(op)(self.to, op)

    def _text(self, op: Operation) -> Callable[[KernelWriter, Any], None]:
        """What writes an operation without a body."""
        if op.name in _FILE_OF:
            return _part(_FILE_OF[op.name]).TEXTS[type(op)]
        return _TEXTS.get(type(op), _scalar)

    def _roles(self, op: kernel.RolesOp) -> None:
        roles = _part("roles")
        for role in op.roles:
            self.current = self.to.team = role
            with self.to.braces(roles.head(self.to, role)):
                roles.enter(self.to, role)
                self._block(role.body.block)
        self.to.team = self.function

    def _guard(self, op: loop.GuardOp) -> None:
        with self.to.braces(f"if ({self.to.indices.conditions(op.conditions.data, op.indices)})"):
            if _sets_registers(op):
                # Keeps the branch: nvcc would select each register instead, in every iteration of the loop around.
                self.to.line('asm volatile("");')
            self._block(op.body.block)

    def _for(self, op: loop.ForOp) -> None:
        type, iv = c_type_of(op.iv), self.to.names.define(op.iv, "i")
        bounds = [Linear((), op.trips)] if op.trips is not None else forms(op.bound.data, op.bound_operands)
        condition = " && ".join(f"{iv} < {self.to.indices.text(bound)}" for bound in bounds)
        self.to.line("#pragma unroll" if op.unroll else "#pragma unroll 1")
        with self.to.braces(f"for ({type} {iv} = 0; {condition}; ++{iv})"):
            self._block(op.body.block)


def _sets_registers(op: loop.GuardOp) -> bool:
    """Whether a guard directly in a loop that stays one sets registers to constants, and does nothing else."""
    around = op.parent_op()
    stores = [inner for inner in op.body.walk() if isinstance(inner, loop.StoreOp)]
    plain = (loop.ForOp, loop.StoreOp, loop.IndexOp, arith.ConstantOp)
    return (
        isinstance(around, loop.ForOp)
        and not around.unroll
        and bool(stores)
        and all(isinstance(inner, plain) for inner in op.body.walk())
        and all(memory_of(store.destination) is Memory.REGISTER for store in stores)
    )


def _index(to: KernelWriter, op: loop.IndexOp) -> None:
    (form,) = forms(op.map.data, op.indices)
    to.define(op.result, to.indices.text(form))


def _inside(to: KernelWriter, op: loop.InsideOp) -> None:
    to.define(op.result, to.indices.conditions(op.conditions.data, op.indices))


def _load(to: KernelWriter, op: loop.LoadOp) -> None:
    to.define(op.result, to.element(op.source, op.map.data, op.indices))


def _store(to: KernelWriter, op: loop.StoreOp) -> None:
    to.line(f"{to.element(op.destination, op.map.data, op.indices)} = {to.names[op.value]};")


def _alloc(to: KernelWriter, op: kernel.AllocOp) -> None:
    type, name = loop.memref_of(op.result), to.names.define(op.result, "buffer")
    element, size = c_type(type.element_type), max(1, buffer_elements(type))
    align = f"__align__({ACCESS_BYTES}) "
    if memory_of(op.result) is Memory.REGISTER:
        is_wide = any(access.width > 1 for use in op.result.uses for access in accesses_of(use.operation))
        extents = [max(1, n) for n in type.get_shape()] if is_multidimensional(op.result) else [size]
        to.line(f"{align if is_wide else ''}{element} {name}{''.join(f'[{n}]' for n in extents)};")
    elif to.shared.is_static:
        to.line(f"__shared__ __align__({alignment_of(op.result)}) {element} {name}[{size}];")
    else:
        first = next(first for buffer, first in to.shared.offsets if buffer is op.result)
        to.line(f"{element}* const {name} = reinterpret_cast<{element}*>({_POOLS[to.shared.alignment]} + {first});")


def _constant(to: KernelWriter, op: arith.ConstantOp) -> None:
    to.names.alias(op.result, scalars.literal(op.value))


def _scalar(to: KernelWriter, op: Operation) -> None:
    computes_index = all(isinstance(value.type, IndexType) for value in (*op.operands, *op.results))
    wide = "(long long)" if computes_index else ""
    to.define(op.results[0], scalars.expression(op, [f"{wide}{to.names[operand]}" for operand in op.operands]))


_TEXTS: Texts = {
    **{loop.IndexOp: _index, loop.InsideOp: _inside, loop.LoadOp: _load, loop.StoreOp: _store},
    **{kernel.AllocOp: _alloc, arith.ConstantOp: _constant},
}
"""How operations without a body are written that have no file; any other is a scalar operation."""
