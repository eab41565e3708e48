"""The target `cuda`: kernels as CUDA C, one statement for each operation, with the names of the IR.

Compile the text with `nvcc -fmad=false`: contraction to fused multiply-adds is decided in the IR, by fuse-multiply-add.
Buffers start at multiples of 16 bytes, and no output overlaps another argument.
"""

from __future__ import annotations

import re
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import IO

from xdsl.context import Context
from xdsl.dialects import arith
from xdsl.dialects.builtin import IndexType, MemRefType, ModuleOp, NoneAttr
from xdsl.ir import Attribute, Block, Operation, SSAValue
from xdsl.ir.affine import AffineMap
from xdsl.utils.target import Target

from deplodock.analysis.access.alignment import element_bytes, strides_of
from deplodock.analysis.affine.linear import Linear, forms_of
from deplodock.analysis.host.arguments import Role, argument_roles
from deplodock.analysis.machine.resources import alignment_of, buffer_elements, shared_memory
from deplodock.analysis.machine.targets import ACCESS_BYTES
from deplodock.analysis.operations import ancestors, position_of
from deplodock.codegen import cluster, copies, grid, mbarrier, scalars, tma
from deplodock.codegen.indices import IndexWriter, forms, is_int, offset, split_unrolled
from deplodock.codegen.names import Identifiers, declared_names, identifier
from deplodock.dialects import kernel, loop
from deplodock.dialects.tile import Memory, memory_of
from deplodock.errors import UnsupportedError

_POOL = "shared_memory"

_OF_TWO_BYTES = {2: "short2", 4: "short4", 8: "uint4"}
_OF_ONE_BYTE = {2: "uchar2", 4: "uchar4", 8: "uint2", 16: "uint4"}

_VECTORS = {
    ("f32", 2): "float2",
    ("f32", 4): "float4",
    ("f64", 2): "double2",
    ("i32", 2): "int2",
    ("i32", 4): "int4",
    ("i64", 2): "longlong2",
    ("index", 2): "longlong2",
    **{(type, width): vector for type in ("f16", "bf16", "i16") for width, vector in _OF_TWO_BYTES.items()},
    **{(type, width): vector for type in ("i8", "ui8", "i1") for width, vector in _OF_ONE_BYTE.items()},
}
"""The CUDA vector type that moves `width` elements of a type in one access of 2 to 16 bytes."""

_ZEROS = {
    **{"f32": "0.0f", "f64": "0.0", "i1": "false"},
    **{type: f"{c_type}(0.0f)" for type, c_type in (("f16", "__half"), ("bf16", "__nv_bfloat16"))},
}
"""The zero of each type, where it is not 0."""

_RESERVED = frozenset(
    {
        *scalars.FUNCTIONS,
        *scalars.HELPERS,
        *cluster.HELPERS,
        *copies.HELPERS,
        *grid.HELPERS,
        *mbarrier.HELPERS,
        *tma.HELPERS,
        "tensor_map",
        *_VECTORS.values(),
        *(f"make_{vector}" for vector in _VECTORS.values()),
        *("__shfl_xor_sync", "__syncthreads", "__threadfence", "__int_as_float", "__longlong_as_double", _POOL),
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
    parts = (scalars, cluster, copies, grid, mbarrier, tma)
    helpers = [code for part in parts for name, code in part.HELPERS.items() if name in calls]
    has_maps = any(isinstance(value.type, kernel.TensorMapType) for op in functions for value in op.parameters)
    text = "\n".join([*([tma.TYPE] if has_maps else []), *helpers, *printed])
    headers = [
        f"#include <{header}>\n" for c_type, header in scalars.HEADERS.items() if re.search(rf"\b{c_type}\b", text)
    ]
    return "".join([*headers, "\n" if headers else "", text])


class _KernelPrinter:
    """Prints one kernel, line by line."""

    def __init__(self, function: kernel.FuncOp) -> None:
        self.function = function
        self.names = Identifiers(_RESERVED)
        self.indices = IndexWriter(self.names)
        self.lines: list[str] = []
        self.depth = 0
        self.current: Operation = function

    def text(self) -> str:
        """The definition of the kernel."""
        try:
            self._print()
        except UnsupportedError as error:
            raise UnsupportedError(f"{self._position()}@{self.function.sym_name.data}: {error}") from None
        return "\n".join(self.lines) + "\n"

    def _position(self) -> str:
        """Where the operation being printed stands in its file, if that is known."""
        position = position_of(self.current)
        return "" if position is None else f"{position}: error: "

    def _print(self) -> None:
        self.shared = shared_memory(self.function)
        with self._braces(self._signature()):
            block, thread = self.names[self.function.block_id], self.names[self.function.thread_id]
            self._line(f"const int {block} = blockIdx.x, {thread} = threadIdx.x;")
            if not self.shared.is_static:
                self._line(f"extern __shared__ __align__({self.shared.alignment}) unsigned char {_POOL}[];")
            for op in self.function.body.walk():
                if isinstance(op, kernel.MbarrierOp):
                    self._declare_barriers(op)
            self._block(self.function.body.block)

    def _signature(self) -> str:
        function, name = self.function, self.function.sym_name.data
        if name != identifier(name) or not self.names.is_free(name):
            raise UnsupportedError(f"'{name}' cannot be the name of a C function; rename the kernel")
        if name in declared_names():
            raise UnsupportedError(f"CUDA or the C library declares '{name}'; rename the kernel")
        bounds = str(function.num_threads)
        if function.occupancy is not None:
            bounds += f", {function.occupancy.value.data}"
        roles = argument_roles(function)
        pairs = zip(function.parameters, roles, strict=True)
        parameters = ", ".join(self._parameter(parameter, role) for parameter, role in pairs)
        self.names.define(function.block_id, "block")
        self.names.define(function.thread_id, "thread")
        shape = f"__cluster_dims__({function.cluster_size}, 1, 1) " if function.cluster is not None else ""
        return f'extern "C" __global__ void {shape}__launch_bounds__({bounds}) {name}({parameters})'

    def _parameter(self, parameter: SSAValue, role: Role) -> str:
        name = self.names.define(parameter, "arg")
        if isinstance(parameter.type, kernel.TensorMapType):
            return f"{tma.PARAMETER} {name}"
        if not isinstance(parameter.type, MemRefType):
            return f"{_c_type(parameter.type)} {name}"
        const = "const " if role is Role.IN else ""
        restrict = "" if role is Role.INOUT else " __restrict__"
        return f"{const}{_c_type(loop.memref_of(parameter).element_type)}*{restrict} {name}"

    def _block(self, block: Block) -> None:
        for op in block.ops:
            self.current = op
            self._op(op)

    def _op(self, op: Operation) -> None:
        match op:
            case loop.ForOp():
                self._for(op)
            case loop.GuardOp():
                with self._braces(f"if ({self.indices.conditions(op.conditions.data, op.indices)})"):
                    self._block(op.body.block)
            case loop.IndexOp():
                (form,) = forms(op.map.data, op.indices)
                self._define(op.result, self.indices.text(form))
            case loop.InsideOp():
                self._define(op.result, self.indices.conditions(op.conditions.data, op.indices))
            case loop.LoadOp():
                self._define(op.result, self._element(op.source, op.map.data, op.indices))
            case loop.StoreOp():
                self._line(f"{self._element(op.destination, op.map.data, op.indices)} = {self.names[op.value]};")
            case kernel.AllocOp():
                self._alloc(op)
            case kernel.MoveOp() if op.is_async:
                self._move_async(op)
            case kernel.MoveOp():
                self._move(op)
            case kernel.ShuffleXorOp():
                value, mask = self.names[op.value], op.mask.value.data
                self._define(op.result, f"__shfl_xor_sync(0xffffffff, {value}, {mask})")
            case kernel.BarrierOp():
                self._line("__syncthreads();")
            case kernel.FenceProxyAsyncOp():
                self._line("fence_proxy_async();")
            case kernel.FenceOp():
                self._line("__threadfence();")
            case kernel.TicketOp():
                counter = self._element(op.counter, op.map.data, op.indices)
                self._define(op.result, f"take_ticket(&{counter}, {op.ctas.value.data})")
            case kernel.ClusterBarrierOp():
                self._line("cluster_barrier();")
            case kernel.ClusterLoadOp():
                (rank,) = forms(op.rank.data, op.rank_indices)
                own = self._element(op.source, op.map.data, op.indices)
                self._define(op.result, f"*cluster_address(&{own}, {self.indices.text(rank)})")
            case kernel.CommitGroupOp():
                self._line(copies.commit())
            case kernel.WaitGroupOp():
                self._line(copies.wait(op.pending.value.data))
            case kernel.MbarrierOp():
                self._initialise(op)
            case kernel.ArriveOp() if op.expect is not None:
                self._line(f"mbarrier_arrive_expect({self._barrier(op)}, {op.expect.value.data});")
            case kernel.ArriveOp():
                name = "mbarrier_arrive" if not op.is_warp else "mbarrier_arrive_warp"
                self._line(f"{name}({self._barrier(op)});")
            case kernel.ArriveCopiesOp():
                self._line(f"mbarrier_arrive_copies({self._barrier(op)});")
            case kernel.WaitPhaseOp():
                (parity,) = forms(op.parity.data, op.parity_indices)
                self._line(f"mbarrier_wait({self._barrier(op)}, {self.indices.text(parity % 2)});")
            case kernel.TmaLoadOp():
                subscripts = [self.indices.text(form) for form in forms(op.source_map.data, op.source_indices)]
                start = offset(op.destination, forms(op.destination_map.data, op.destination_indices))
                destination = f"{self.names[op.destination]}[{self.indices.text(start)}]"
                self._line(tma.call(destination, self.names[op.map], subscripts, self._barrier(op)))
            case arith.ConstantOp():
                self.names.alias(op.result, scalars.literal(op.value))
            case _:
                self._define_scalar(op)

    def _for(self, op: loop.ForOp) -> None:
        type, iv = _c_type_of(op.iv), self.names.define(op.iv, "i")
        bounds = [Linear((), op.trips)] if op.trips is not None else forms(op.bound.data, op.bound_operands)
        condition = " && ".join(f"{iv} < {self.indices.text(bound)}" for bound in bounds)
        self._line("#pragma unroll" if op.unroll else "#pragma unroll 1")
        with self._braces(f"for ({type} {iv} = 0; {condition}; ++{iv})"):
            self._block(op.body.block)

    def _alloc(self, op: kernel.AllocOp) -> None:
        type, name = loop.memref_of(op.result), self.names.define(op.result, "buffer")
        element, size = _c_type(type.element_type), max(1, buffer_elements(type))
        align = f"__align__({ACCESS_BYTES}) "
        if memory_of(op.result) is Memory.REGISTER:
            users = (use.operation for use in op.result.uses)
            is_wide = any(isinstance(user, kernel.MoveOp) and user.elements > 1 for user in users)
            extents = [max(1, n) for n in type.get_shape()] if _is_multidimensional(op.result) else [size]
            self._line(f"{align if is_wide else ''}{element} {name}{''.join(f'[{n}]' for n in extents)};")
        elif self.shared.is_static:
            self._line(f"__shared__ __align__({alignment_of(op)}) {element} {name}[{size}];")
        else:
            first = next(first for alloc, first in self.shared.offsets if alloc is op)
            self._line(f"{element}* const {name} = reinterpret_cast<{element}*>({_POOL} + {first});")

    def _declare_barriers(self, op: kernel.MbarrierOp) -> None:
        """Declare barriers; those of a loop are initialised at once, as the loop invalidates them each time."""
        name = self.names.define(op.result, "barrier")
        self._line(f"__shared__ __align__(8) unsigned long long {name}[{op.slots.value.data}];")
        if _is_repeated(op):
            self._line(self._init(op))

    def _initialise(self, op: kernel.MbarrierOp) -> None:
        if not _is_repeated(op):
            self._line(self._init(op))
            return
        with self._braces(f"if ({self.names[self.function.thread_id]} == 0)"):
            self._line(f"mbarrier_inval({self.names[op.result]}, {op.slots.value.data});")
            self._line(f"mbarrier_init({self.names[op.result]}, {op.slots.value.data}, {op.arrivals.value.data});")

    def _init(self, op: kernel.MbarrierOp) -> str:
        call = f"mbarrier_init({self.names[op.result]}, {op.slots.value.data}, {op.arrivals.value.data})"
        return f"if ({self.names[self.function.thread_id]} == 0) {call};"

    def _barrier(self, op: kernel.ArriveOp | kernel.ArriveCopiesOp | kernel.WaitPhaseOp | kernel.TmaLoadOp) -> str:
        """The address of a barrier."""
        (slot,) = forms(op.slot.data, op.slot_indices)
        return f"&{self.names[op.barrier]}[{self.indices.text(slot)}]"

    def _move(self, op: kernel.MoveOp) -> None:
        type = scalars.type_name(loop.memref_of(op.source).element_type)
        vector = _vector(type, op.elements)
        source = self._element(op.source, op.source_map.data, op.source_indices)
        destination = self._element(op.destination, op.destination_map.data, op.destination_indices)
        zero = _ZEROS.get(type, "0")
        if vector is not None:
            _check_wide("source", op.elements, op.source, op.source_map.data, op.source_indices)
            _check_wide("destination", op.elements, op.destination, op.destination_map.data, op.destination_indices)
            source = f"*reinterpret_cast<const {vector}*>(&{source})"
            destination = f"*reinterpret_cast<{vector}*>(&{destination})"
            lane = zero if vector.startswith(("float", "double")) else "0"
            zero = f"make_{vector}({', '.join([lane] * int(vector[-1]))})"
        if op.where is not None:
            source = f"({self.indices.conditions(op.where.data, op.where_indices)}) ? {source} : {zero}"
        self._line(f"{destination} = {source};")

    def _move_async(self, op: kernel.MoveOp) -> None:
        if op.elements > 1:
            _check_wide("source", op.elements, op.source, op.source_map.data, op.source_indices)
            _check_wide("destination", op.elements, op.destination, op.destination_map.data, op.destination_indices)
        source = self._element(op.source, op.source_map.data, op.source_indices)
        destination = self._element(op.destination, op.destination_map.data, op.destination_indices)
        bytes = op.elements * element_bytes(loop.memref_of(op.source).element_type)
        inside = None if op.where is None else self.indices.conditions(op.where.data, op.where_indices)
        self._line(copies.call(bytes, destination, source, inside))

    def _element(self, buffer: SSAValue, map: AffineMap, indices: Sequence[SSAValue]) -> str:
        """An element of a buffer, as a C lvalue.

        In global memory what unrolled loops add is added to a pointer, where it becomes a constant of the instruction:
        in a subscript, a sum of 32 bits that is widened, each access would take an addition of 64 bits.
        """
        subscripts = forms(map, indices)
        if memory_of(buffer) is None:
            start, turn = split_unrolled(offset(buffer, subscripts))
            if turn.terms:
                return f"({self.names[buffer]} + ({self.indices.text(start)}))[{self.indices.text(turn)}]"
        if not _is_multidimensional(buffer):
            return f"{self.names[buffer]}[{self.indices.position(buffer, subscripts)}]"
        return self.names[buffer] + "".join(f"[{self.indices.text(form)}]" for form in subscripts)

    def _define_scalar(self, op: Operation) -> None:
        computes_index = all(isinstance(value.type, IndexType) for value in (*op.operands, *op.results))
        wide = "(long long)" if computes_index else ""
        text = scalars.expression(op, [f"{wide}{self.names[operand]}" for operand in op.operands])
        self._define(op.results[0], text)

    def _define(self, value: SSAValue, text: str) -> None:
        """Print the definition of an SSA value."""
        type = _c_type_of(value)
        self._line(f"const {type} {self.names.define(value)} = {text};")

    def _line(self, text: str) -> None:
        self.lines.append("  " * self.depth + text)

    @contextmanager
    def _braces(self, head: str) -> Generator[None]:
        """Print `head { ... }` around what is printed inside the context."""
        self._line(f"{head} {{")
        self.depth += 1
        yield
        self.depth -= 1
        self._line("}")


def _is_repeated(op: Operation) -> bool:
    """Whether an operation stands in a loop."""
    return any(isinstance(parent, loop.ForOp) for parent in ancestors(op))


def _c_type(type: Attribute) -> str:
    return scalars.C_TYPES[scalars.type_name(type)]


def _c_type_of(value: SSAValue) -> str:
    """The C type of a value; an index is `int` where its range allows."""
    return "int" if isinstance(value.type, IndexType) and is_int(value) else _c_type(value.type)


def _is_multidimensional(buffer: SSAValue) -> bool:
    """Whether a buffer is declared with the extents of its shape: registers in row-major order."""
    return memory_of(buffer) is Memory.REGISTER and isinstance(loop.memref_of(buffer).layout, NoneAttr)


def _vector(type: str, width: int) -> str | None:
    """The vector type that moves `width` elements, None for one. Raises UnsupportedError if no access is that wide."""
    if width == 1:
        return None
    vector = _VECTORS.get((type, width))
    if vector is None:
        widths = ", ".join(str(known) for element, known in ((type, 1), *_VECTORS) if element == type)
        raise UnsupportedError(f"no access moves {width} elements of {type}; the width can be {widths}")
    return vector


def _check_wide(side: str, width: int, buffer: SSAValue, map: AffineMap, indices: Sequence[SSAValue]) -> None:
    """Check that `width` elements lie side by side at an aligned address. Raises UnsupportedError otherwise."""
    type = loop.memref_of(buffer)
    position = offset(buffer, forms_of(map, indices))
    shape = type.get_shape()
    if not shape or strides_of(type)[-1] != 1 or 0 <= shape[-1] < width:
        raise UnsupportedError(f"the {side} {type} has no {width} elements side by side in its last dimension")
    if position.divisor() % width:
        raise UnsupportedError(
            f"the {side} of this move is not known to start at a multiple of {width} elements; use a smaller width"
        )
