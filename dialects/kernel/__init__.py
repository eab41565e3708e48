"""The `kernel` dialect: hardware primitives of a SIMT GPU, one function per launch.

    kernel.func @k(%x: memref<64xf32>, %out: memref<64xf32>) blocks(%block = 2) threads(%thread = 32) {
      %v = loop.load %x[%block * 32 + %thread] : memref<64xf32>
      %w = kernel.shuffle_xor %v, 1 : f32
      loop.store %w, %out[%block * 32 + %thread] : memref<64xf32>
    }

The host function launches it: `kernel.launch @k(%x, %out) : memref<64xf32>, memref<64xf32>`. Loops, subscripts, guards
and scalar accesses are those of the loop dialect; scalars are `arith` and `math`. The target's facts are an attribute
of the module, `kernel.target`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Self

from xdsl.dialects.builtin import (
    DictionaryAttr,
    FlatSymbolRefAttrConstr,
    FunctionType,
    IndexType,
    IntegerAttr,
    MemRefType,
    ModuleOp,
    StringAttr,
    SymbolNameConstraint,
    SymbolRefAttr,
    i64,
)
from xdsl.ir import Attribute, BlockArgument, Dialect, Operation, ParametrizedAttribute, Region, SSAValue
from xdsl.irdl import (
    IRDLOperation,
    irdl_attr_definition,
    opt_prop_def,
    prop_def,
    region_def,
    result_def,
    traits_def,
    var_operand_def,
)
from xdsl.parser import AttrParser, Parser
from xdsl.printer import Printer
from xdsl.traits import (
    IsolatedFromAbove,
    MemoryReadEffect,
    MemoryWriteEffect,
    NoMemoryEffect,
    NoTerminator,
    SymbolOpInterface,
    SymbolTable,
    SymbolUserOpInterface,
)
from xdsl.utils.exceptions import VerifyException

from deplodock.dialects.affine_syntax import (
    parse_i64,
)
from deplodock.dialects.buffers import Memory, memory_of, verify_buffer
from deplodock.dialects.formats import dialect_of, op_definition, parse_body, print_body
from deplodock.dialects.index_values import IntroducesIndices
from deplodock.dialects.interfaces import AllocatesResult, Collective, Feature, HostCode, NeedsFeature
from deplodock.dialects.kernel.move import MoveOp
from deplodock.dialects.kernel.order import OrdersAccesses
from deplodock.dialects.kernel.roles import RoleOp, RolesOp, Team
from deplodock.dialects.loop import memref_of
from deplodock.dialects.scalar_regions import print_arguments

if TYPE_CHECKING:
    from deplodock.dialects.kernel.cluster import ClusterBarrierOp as ClusterBarrierOp
    from deplodock.dialects.kernel.cluster import ClusterMoveOp as ClusterMoveOp
    from deplodock.dialects.kernel.grid import AwaitLaunchesOp as AwaitLaunchesOp
    from deplodock.dialects.kernel.grid import CountersOp as CountersOp
    from deplodock.dialects.kernel.grid import FenceOp as FenceOp
    from deplodock.dialects.kernel.grid import TicketOp as TicketOp
    from deplodock.dialects.kernel.ldmatrix import LdmatrixOp as LdmatrixOp
    from deplodock.dialects.kernel.mbarrier import ArriveCopiesOp as ArriveCopiesOp
    from deplodock.dialects.kernel.mbarrier import ArriveOp as ArriveOp
    from deplodock.dialects.kernel.mbarrier import MbarrierOp as MbarrierOp
    from deplodock.dialects.kernel.mbarrier import MbarrierType as MbarrierType
    from deplodock.dialects.kernel.mbarrier import WaitPhaseOp as WaitPhaseOp
    from deplodock.dialects.kernel.mma import MmaOp as MmaOp
    from deplodock.dialects.kernel.shuffle import ShuffleLastOp as ShuffleLastOp
    from deplodock.dialects.kernel.shuffle import ShuffleUpOp as ShuffleUpOp
    from deplodock.dialects.kernel.shuffle import ShuffleXorOp as ShuffleXorOp
    from deplodock.dialects.kernel.sync import BarrierOp as BarrierOp
    from deplodock.dialects.kernel.sync import CommitGroupOp as CommitGroupOp
    from deplodock.dialects.kernel.sync import FenceProxyAsyncOp as FenceProxyAsyncOp
    from deplodock.dialects.kernel.sync import WaitGroupOp as WaitGroupOp
    from deplodock.dialects.kernel.tma import TensorMapOp as TensorMapOp
    from deplodock.dialects.kernel.tma import TensorMapType as TensorMapType
    from deplodock.dialects.kernel.tma import TmaCommitOp as TmaCommitOp
    from deplodock.dialects.kernel.tma import TmaLoadOp as TmaLoadOp
    from deplodock.dialects.kernel.tma import TmaStoreOp as TmaStoreOp
    from deplodock.dialects.kernel.tma import TmaWaitOp as TmaWaitOp
    from deplodock.dialects.kernel.wgmma import WgmmaCommitOp as WgmmaCommitOp
    from deplodock.dialects.kernel.wgmma import WgmmaFenceOp as WgmmaFenceOp
    from deplodock.dialects.kernel.wgmma import WgmmaOp as WgmmaOp
    from deplodock.dialects.kernel.wgmma import WgmmaWaitOp as WgmmaWaitOp

    Kernel: Dialect


@irdl_attr_definition
class TargetAttr(ParametrizedAttribute):
    """The GPU that a module is compiled for: `#kernel.target<sm_90, sms = 132, ...>`.

    `arch` is nvcc's name; the facts are positive integers by name (`analysis/machine/targets.py` has their units and
    sources).
    """

    name = "kernel.target"
    arch: StringAttr
    facts: DictionaryAttr

    def __init__(self, arch: str, facts: Mapping[str, int]):
        super().__init__(StringAttr(arch), DictionaryAttr({name: IntegerAttr(n, i64) for name, n in facts.items()}))

    def verify(self) -> None:
        for name, value in self.facts.data.items():
            if not isinstance(value, IntegerAttr) or value.value.data < 1:
                raise VerifyException(f"the target states {name} = {value}; it must be a positive integer")

    def fact(self, name: str) -> int:
        """A fact by name. Raises VerifyException if the target does not state it."""
        value = self.facts.data.get(name)
        if not isinstance(value, IntegerAttr):
            raise VerifyException(
                f"the target {self.arch.data} does not state '{name}'; add `{name} = ...` to kernel.target"
            )
        return value.value.data

    def print_parameters(self, printer: Printer) -> None:
        with printer.in_angle_brackets():
            printer.print_string(self.arch.data)
            for name in self.facts.data:
                printer.print_string(f", {name} = {self.fact(name)}")

    @classmethod
    def parse_parameters(cls, parser: AttrParser) -> Sequence[Attribute]:
        with parser.in_angle_brackets():
            arch = parser.parse_identifier(context_msg=": the target's architecture, such as sm_90")
            facts: dict[str, Attribute] = {}
            while parser.parse_optional_punctuation(","):
                pos = parser.pos
                name = parser.parse_identifier(context_msg=": the name of a fact of the target")
                if name in facts:
                    parser.raise_error(f"'{name}' is given twice", pos, pos + len(name))
                parser.parse_punctuation("=")
                facts[name] = IntegerAttr(parse_i64(parser), i64)
        return [StringAttr(arch), DictionaryAttr(facts)]


@op_definition
class FuncOp(IRDLOperation, IntroducesIndices, Team):
    """A function that every thread of a grid runs. The last two arguments of its body are the block and thread ids.

    The grid is one-dimensional: ids of several axes are computed from these two. `occupancy` is the number of CTAs per
    SM that the registers must allow (the second argument of `__launch_bounds__`). CTAs of consecutive ids may run
    together as a cluster.

        kernel.func @k(%x: memref<64xf32>) blocks(%block = 2) threads(%thread = 32) occupancy 4 {}
    """

    name = "kernel.func"
    sym_name = prop_def(SymbolNameConstraint())
    function_type = prop_def(FunctionType)
    blocks = prop_def(IntegerAttr.constr(i64))
    threads = prop_def(IntegerAttr.constr(i64))
    occupancy = opt_prop_def(IntegerAttr.constr(i64))
    cluster = opt_prop_def(IntegerAttr.constr(i64))
    body = region_def("single_block")
    traits = traits_def(IsolatedFromAbove(), NoTerminator(), SymbolOpInterface(), NoMemoryEffect())

    def __init__(
        self,
        name: str,
        inputs: Sequence[Attribute],
        blocks: int,
        threads: int,
        body: Region,
        occupancy: int | None = None,
        cluster: int | None = None,
    ):
        super().__init__(
            properties={
                "sym_name": StringAttr(name),
                "function_type": FunctionType.from_lists(inputs, []),
                "blocks": IntegerAttr(blocks, i64),
                "threads": IntegerAttr(threads, i64),
                "occupancy": None if occupancy is None else IntegerAttr(occupancy, i64),
                "cluster": None if cluster is None else IntegerAttr(cluster, i64),
            },
            regions=[body],
        )

    @property
    def parameters(self) -> Sequence[BlockArgument]:
        """The function's arguments, without the ids."""
        return self.body.block.args[:-2]

    @property
    def block_id(self) -> BlockArgument:
        """The index of this CTA, below `blocks`."""
        return self.body.block.args[-2]

    @property
    def thread_id(self) -> BlockArgument:
        """The index of this thread in its CTA, below `threads`."""
        return self.body.block.args[-1]

    @property
    def num_blocks(self) -> int:
        """The number of CTAs."""
        return self.blocks.value.data

    @property
    def num_threads(self) -> int:
        """The number of threads of a CTA."""
        return self.threads.value.data

    def extent(self, index: SSAValue) -> int | None:
        """The number of CTAs, or of threads of one, for their ids; None for a parameter."""
        if index is self.block_id:
            return self.num_blocks
        return self.num_threads if index is self.thread_id else None

    @property
    def ctas_per_sm(self) -> int:
        """The wanted CTAs per SM, 1 by default."""
        return 1 if self.occupancy is None else self.occupancy.value.data

    @property
    def starts_early(self) -> bool:
        """Whether a launch of it may start before those in front of it have ended."""
        own = (op for op in self.body.block.ops if isinstance(op, NeedsFeature))
        return any(op.needs() is Feature.EARLY_LAUNCHES for op in own)

    @property
    def roles(self) -> Sequence[RoleOp]:
        """The roles of its threads, none where all run the same."""
        last = self.body.block.last_op
        return last.roles if isinstance(last, RolesOp) else ()

    def given(self, parameter: BlockArgument) -> dict[SSAValue, None]:
        """What the launches of the kernel in its module give it for a parameter."""
        module = self.parent_op()
        launches = [op for op in module.walk() if isinstance(op, LaunchOp)] if module is not None else []
        own = [op for op in launches if op.callee.string_value() == self.sym_name.data]
        return dict.fromkeys(op.arguments[parameter.index] for op in own)

    @property
    def cluster_size(self) -> int:
        """The number of CTAs of a cluster, 1 without clusters."""
        return 1 if self.cluster is None else self.cluster.value.data

    def verify_(self) -> None:
        types = [arg.type for arg in self.body.block.args]
        if self.roles and (split := sum(role.num_threads for role in self.roles)) != self.num_threads:
            raise VerifyException(f"the roles have {split} threads together, and a CTA {self.num_threads}")
        if types != [*self.function_type.inputs, IndexType(), IndexType()]:
            raise VerifyException(
                "the body must take the function's arguments, then the block and thread ids of type index"
            )
        if self.function_type.outputs.data:
            raise VerifyException("a kernel returns nothing; it writes to its memref arguments")
        for parameter in self.parameters:
            if isinstance(parameter.type, MemRefType):
                verify_buffer(memref_of(parameter))
                if memory_of(parameter) is not None:
                    raise VerifyException(f"the arguments of a kernel are in global memory, got {memref_of(parameter)}")
        if self.num_blocks < 0 or self.num_threads < 1:
            raise VerifyException(
                f"a grid needs 0 or more blocks and 1 or more threads, got {self.num_blocks} and {self.num_threads}"
            )
        if self.occupancy is not None and self.occupancy.value.data < 1:
            raise VerifyException("occupancy, the CTAs per SM, must be at least 1")
        if self.cluster_size < 1 or self.num_blocks % self.cluster_size:
            raise VerifyException(
                f"a cluster has 1 or more CTAs and divides the grid of {self.num_blocks}, got {self.cluster_size}"
            )

    def print(self, printer: Printer) -> None:
        printer.print_string(" ")
        printer.print_symbol_name(self.sym_name.data)
        with printer.in_parens():
            print_arguments(printer, self.parameters)
        for word, id, size in (
            ("blocks", self.block_id, self.num_blocks),
            ("threads", self.thread_id, self.num_threads),
        ):
            printer.print_string(f" {word}(")
            printer.print_ssa_value(id)
            printer.print_string(f" = {size})")
        if self.cluster is not None:
            printer.print_string(f" cluster {self.cluster_size}")
        if self.occupancy is not None:
            printer.print_string(f" occupancy {self.occupancy.value.data}")
        print_body(printer, self, self.body)

    @classmethod
    def parse(cls, parser: Parser) -> Self:
        def parse_id(word: str) -> tuple[Parser.Argument, int]:
            parser.parse_keyword(word)
            parser.parse_punctuation("(")
            id = parser.parse_argument(expect_type=False).resolve(IndexType())
            parser.parse_punctuation("=")
            size = parse_i64(parser)
            parser.parse_punctuation(")")
            return id, size

        name = parser.parse_symbol_name()
        args = parser.parse_comma_separated_list(parser.Delimiter.PAREN, parser.parse_argument)
        block_id, blocks = parse_id("blocks")
        thread_id, threads = parse_id("threads")
        cluster = parse_i64(parser) if parser.parse_optional_keyword("cluster") else None
        occupancy = parse_i64(parser) if parser.parse_optional_keyword("occupancy") else None
        body, attributes = parse_body(parser, [*args, block_id, thread_id])
        op = cls(name.data, [arg.type for arg in args], blocks, threads, body, occupancy, cluster)
        op.attributes |= attributes
        return op


class _CalleeIsKernel(SymbolUserOpInterface):
    """The callee of a launch is a kernel.func that takes these arguments."""

    def verify(self, op: Operation) -> None:
        assert isinstance(op, LaunchOp)
        callee = SymbolTable.lookup_symbol(op, op.callee)
        if not isinstance(callee, FuncOp):
            raise VerifyException(f"{op.callee} is not a kernel.func of this module")
        if [value.type for value in op.arguments] != list(callee.function_type.inputs):
            raise VerifyException(f"the arguments do not match the signature of {op.callee}: {callee.function_type}")


@op_definition
class LaunchOp(IRDLOperation):
    """Runs a kernel function on its grid.

    Launches of one host function run in order, and each sees the memory of those before.

        kernel.launch @k(%x, %out) : memref<64xf32>, memref<64xf32>
    """

    name = "kernel.launch"
    callee = prop_def(FlatSymbolRefAttrConstr)
    arguments = var_operand_def()
    traits = traits_def(_CalleeIsKernel(), HostCode(), MemoryReadEffect(), MemoryWriteEffect())
    assembly_format = "$callee `(` $arguments `)` attr-dict (`:` type($arguments)^)?"

    def __init__(self, callee: str, arguments: Sequence[SSAValue]):
        super().__init__(operands=[arguments], properties={"callee": SymbolRefAttr(callee)})


@op_definition
class AllocOp(IRDLOperation):
    """An on-chip buffer: one for each CTA (`shared`) or for each thread (`register`).

    A register buffer is indexed by constants once loops are unrolled.

        %p = kernel.alloc : memref<8xf32, #tile.memory<shared>>
    """

    name = "kernel.alloc"
    result = result_def(MemRefType)
    traits = traits_def(AllocatesResult())
    assembly_format = "attr-dict `:` type($result)"

    def __init__(self, type: MemRefType[Attribute]):
        super().__init__(result_types=[type])

    def verify_(self) -> None:
        if memory_of(self.result) is None:
            raise VerifyException(
                f"kernel.alloc needs #tile.memory<shared> or #tile.memory<register>, got {self.result.type}"
            )
        if any(n < 0 for n in memref_of(self.result).get_shape()):
            raise VerifyException(f"an on-chip buffer needs a static shape, got {self.result.type}")
        verify_buffer(memref_of(self.result))


def functions(module: ModuleOp) -> list[FuncOp]:
    """The kernels of a module, in order."""
    return [op for op in module.ops if isinstance(op, FuncOp)]


def orders(op: Operation) -> bool:
    """Whether threads meet at an operation, it orders what they access, or it makes memory that they share."""
    is_shared = isinstance(op, AllocOp) and memory_of(op.result) is Memory.SHARED
    return is_shared or isinstance(op, OrdersAccesses) or (op.name.startswith("kernel.") and op.has_trait(Collective))


def team_of(op: Operation) -> Team:
    """What has the threads that run an operation of a kernel: its role, or else the kernel."""
    around = op
    while not isinstance(around, Team):
        parent = around.parent_op()
        assert parent is not None, "the operation is in a kernel"
        around = parent
    return around


__getattr__ = dialect_of(
    __name__,
    "Kernel",
    "kernel",
    (TargetAttr, FuncOp, RolesOp, RoleOp, LaunchOp, AllocOp, MoveOp),
    {
        "shuffle": "ShuffleXorOp ShuffleUpOp ShuffleLastOp",
        "mma": "MmaOp",
        "ldmatrix": "LdmatrixOp",
        "sync": "BarrierOp FenceProxyAsyncOp CommitGroupOp WaitGroupOp",
        "grid": "AwaitLaunchesOp CountersOp FenceOp TicketOp",
        "cluster": "ClusterBarrierOp ClusterMoveOp",
        "mbarrier": "MbarrierOp ArriveOp ArriveCopiesOp WaitPhaseOp MbarrierType",
        "tma": "TensorMapOp TmaLoadOp TmaStoreOp TmaCommitOp TmaWaitOp TensorMapType",
        "wgmma": "WgmmaOp WgmmaFenceOp WgmmaCommitOp WgmmaWaitOp",
    },
)
