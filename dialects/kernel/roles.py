"""Roles: the warps of a CTA are split, each part runs code of its own and may have its own share of the registers.

    kernel.roles {
      kernel.role producer(%copier = 128) registers 40 {
        loop.guard where (%copier < 1) { .. kernel.wait_phase %empty[..] .. kernel.tma_load .. signal %full[..] .. }
      }
      kernel.role consumers(%thread = 256) registers 232 {
        .. kernel.wait_phase %full[..] .. kernel.arrive warp %empty[..] ..
      }
    }

Roles take the threads of the CTA in the order of the text: here the producer has its first 128, the consumers the other
256. They run at the same time, each at its own pace, and only phases order what one does before what another does. In
a role `kernel.barrier` is one of the role's threads, and `kernel.cluster_barrier` waits until others have ended.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Self

from xdsl.dialects.builtin import IndexType, IntegerAttr, StringAttr, i64
from xdsl.ir import BlockArgument, Region, SSAValue
from xdsl.ir.affine import AffineExpr, AffineMap
from xdsl.irdl import IRDLOperation, opt_prop_def, prop_def, region_def, traits_def
from xdsl.parser import Parser
from xdsl.printer import Printer
from xdsl.rewriter import InsertPoint, Rewriter
from xdsl.traits import NoTerminator
from xdsl.utils.exceptions import VerifyException

from deplodock.dialects.affine_syntax import parse_i64
from deplodock.dialects.formats import op_definition, parse_body, print_body
from deplodock.dialects.index_values import IntroducesIndices
from deplodock.dialects.interfaces import Feature, NeedsFeature
from deplodock.dialects.kernel.order import OrdersMemory
from deplodock.dialects.loop import GuardOp, IndexOp, LoopLike

LANES = 32
"""The lanes of a warp."""

WARPGROUP = 128
"""The threads that issue a product of `wgmma` together, and that registers are given to: four warps (PTX ISA)."""


class Team:
    """Threads of a CTA that run the same operations: all of them, or those of a role."""

    @property
    def thread_id(self) -> BlockArgument:
        """The index of this thread in its team."""
        raise NotImplementedError

    @property
    def num_threads(self) -> int:
        """The number of threads of the team."""
        raise NotImplementedError

    @property
    def first_thread(self) -> int:
        """The index in the CTA of the team's first thread."""
        return 0

    @property
    def role_name(self) -> str | None:
        """The name of the role; None for all threads of a CTA."""
        return None

    @property
    def num_registers(self) -> int | None:
        """The registers of each thread; None: what all threads of the CTA start with."""
        return None


REGISTERS = range(24, 257, 8)
"""The registers that a thread of a role may ask for (PTX ISA, `setmaxnreg`)."""

MOST_ROLES = 15
"""The named barriers of a CTA, less the one of all threads (PTX ISA, `bar`)."""


@op_definition
class RoleOp(IRDLOperation, IntroducesIndices, NeedsFeature, Team):
    """What some threads of the CTA run, with their number in the role, and the registers that each of them gets.

    Those come of what the CTA was started with: a role that takes more waits until others have given theirs back.

        kernel.role producer(%copier = 128) registers 40 {
        }
    """

    name = "kernel.role"
    role = prop_def(StringAttr)
    threads = prop_def(IntegerAttr.constr(i64))
    registers = opt_prop_def(IntegerAttr.constr(i64))
    body = region_def("single_block")
    traits = traits_def(NoTerminator(), OrdersMemory())

    def __init__(self, role: str, threads: int, body: Region, registers: int | None = None):
        super().__init__(
            properties={
                "role": StringAttr(role),
                "threads": IntegerAttr(threads, i64),
                "registers": None if registers is None else IntegerAttr(registers, i64),
            },
            regions=[body],
        )

    @property
    def thread_id(self) -> BlockArgument:
        """The index of this thread in its role, below `threads`."""
        return self.body.block.args[0]

    @property
    def num_threads(self) -> int:
        """The number of threads of the role."""
        return self.threads.value.data

    @property
    def num_registers(self) -> int | None:
        """The registers of each thread; None: what all threads of the CTA start with."""
        return None if self.registers is None else self.registers.value.data

    @property
    def place(self) -> int:
        """The place among the roles of the CTA, from 0 on."""
        return self._roles.index(self)

    @property
    def role_name(self) -> str:
        """The name of the role."""
        return self.role.data

    @property
    def first_thread(self) -> int:
        """The index in the CTA of the role's first thread."""
        return sum(role.num_threads for role in self._roles[: self.place])

    @property
    def _roles(self) -> Sequence[RoleOp]:
        parent = self.parent_op()
        assert isinstance(parent, RolesOp)
        return parent.roles

    def extent(self, index: SSAValue) -> int | None:
        """The number of threads for their id."""
        return self.num_threads if index is self.thread_id else None

    def needs(self) -> Feature | None:
        """Registers of roles, if it asks for some."""
        return None if self.registers is None else Feature.ROLE_REGISTERS

    def verify_(self) -> None:
        if not isinstance(self.parent_op(), RolesOp):
            raise VerifyException("a role stands in kernel.roles")
        if [arg.type for arg in self.body.block.args] != [IndexType()]:
            raise VerifyException("the body of a role takes the id of its threads, of type index")
        if self.num_threads < 1 or self.num_threads % LANES:
            raise VerifyException(f"a role has whole warps of {LANES} threads, got {self.num_threads} threads")
        if self.num_registers is None:
            return
        if self.num_registers not in REGISTERS:
            raise VerifyException(
                f"the registers of a role are a multiple of 8 from {REGISTERS[0]} to {REGISTERS[-1]}, "
                f"got {self.num_registers}"
            )
        if self.num_threads % WARPGROUP or self.first_thread % WARPGROUP:
            raise VerifyException(
                f"registers are given to warpgroups of {WARPGROUP} threads, and the role has {self.num_threads} "
                f"from thread {self.first_thread} on"
            )

    def print(self, printer: Printer) -> None:
        printer.print_string(f" {self.role_name}(")
        printer.print_ssa_value(self.thread_id)
        printer.print_string(f" = {self.num_threads})")
        if self.num_registers is not None:
            printer.print_string(f" registers {self.num_registers}")
        print_body(printer, self, self.body)

    @classmethod
    def parse(cls, parser: Parser) -> Self:
        role = parser.parse_identifier(context_msg=": the name of a role, such as producer")
        with parser.in_parens():
            id = parser.parse_argument(expect_type=False).resolve(IndexType())
            parser.parse_punctuation("=")
            threads = parse_i64(parser)
        registers = parse_i64(parser) if parser.parse_optional_keyword("registers") else None
        body, attributes = parse_body(parser, [id])
        op = cls(role, threads, body, registers)
        op.attributes |= attributes
        return op


@op_definition
class RolesOp(IRDLOperation):
    """Splits the threads of the CTA into roles, which run at the same time; the kernel ends with them.

    kernel.roles {
    }
    """

    name = "kernel.roles"
    body = region_def("single_block")
    traits = traits_def(NoTerminator(), OrdersMemory())

    def __init__(self, body: Region):
        super().__init__(regions=[body])

    @property
    def roles(self) -> list[RoleOp]:
        """The roles, in the order of their threads."""
        return [op for op in self.body.block.ops if isinstance(op, RoleOp)]

    def verify_(self) -> None:
        if self.body.block.args or len(self.roles) != len(list(self.body.block.ops)):
            raise VerifyException("the body of kernel.roles holds kernel.role alone, and takes no arguments")
        names = [role.role_name for role in self.roles]
        if len(set(names)) != len(names) or not 1 <= len(names) <= MOST_ROLES:
            raise VerifyException(
                f"a CTA has 1 to {MOST_ROLES} roles of different names, got {', '.join(names) or 'none'}"
            )
        if isinstance(self.parent_op(), LoopLike | GuardOp | RoleOp):
            raise VerifyException("all threads of a CTA come to its roles, so they stand in no loop, guard or role")
        if self.next_op is not None:
            raise VerifyException("a kernel ends with its roles; move what follows into one of them")

    def print(self, printer: Printer) -> None:
        print_body(printer, self, self.body)

    @classmethod
    def parse(cls, parser: Parser) -> Self:
        body, attributes = parse_body(parser)
        op = cls(body)
        op.attributes |= attributes
        return op


def split_role(role: RoleOp, teams: int) -> list[RoleOp]:
    """Replace a role by as many of as many threads each, in their order, which are named after it and numbered.

    All of them run what it runs, with the ids that its threads have in it.
    """
    threads = role.num_threads // teams
    made: list[RoleOp] = []
    for number in range(teams):
        copy = role.clone()
        team = RoleOp(f"{role.role_name}_{number}", threads, copy.detach_region(copy.body), role.num_registers)
        team.location, team.attributes = role.location, dict(role.attributes)
        id = team.thread_id
        id.name_hint = role.thread_id.name_hint
        if number:
            index = IndexOp(AffineMap(1, 0, (AffineExpr.dimension(0) + number * threads,)), [id])
            index.result.name_hint = id.name_hint
            id.replace_uses_with_if(index.result, lambda use, index=index: use.operation is not index)
            Rewriter.insert_op(index, InsertPoint.at_start(team.body.block))
        made.append(team)
    Rewriter.insert_op(made, InsertPoint.before(role))
    Rewriter.erase_op(role)
    return made
