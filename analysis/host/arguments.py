"""What a function does with each of its arguments: reads it, writes it, or both; and which results it asserts."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from enum import Enum
from typing import TypeAlias

from xdsl.dialects.builtin import ArrayAttr, DictionaryAttr, ModuleOp, StringAttr, SymbolRefAttr
from xdsl.dialects.func import CallOp
from xdsl.dialects.func import FuncOp as HostFuncOp
from xdsl.ir import Operation, SSAValue
from xdsl.traits import MemoryEffectKind, SymbolTable, get_effects

from deplodock.analysis.operations import is_pure
from deplodock.dialects.interfaces import DescribesBuffer
from deplodock.dialects.kernel import FuncOp as KernelFuncOp
from deplodock.dialects.kernel import LaunchOp as KernelLaunchOp
from deplodock.dialects.loop import whole
from deplodock.dialects.tensor import RecurrenceOp
from deplodock.errors import Error

Function: TypeAlias = HostFuncOp | KernelFuncOp

Call: TypeAlias = CallOp | KernelLaunchOp
"""What runs a function: a call of a host function, or the launch of a kernel."""

CHECK = "torch.check"
"""The attribute of a result that is one boolean, which must be true: the message of the call that fails otherwise."""


class Role(Enum):
    """`in` arguments are only read (or unused), `out` only written, `inout` read and written."""

    IN = "in"
    OUT = "out"
    INOUT = "inout"


_ROLES = {(False, False): Role.IN, (True, False): Role.IN, (False, True): Role.OUT, (True, True): Role.INOUT}


def parameters(function: Function) -> tuple[SSAValue, ...]:
    """The arguments of a function at any level, without the ids of a kernel.func."""
    if isinstance(function, KernelFuncOp):
        return tuple(function.parameters)
    return tuple(function.args)


def callee(call: Call) -> Function:
    """The function that a call or launch names. Raises Error if the module does not define it."""
    found = SymbolTable.lookup_symbol(call, call.callee)
    if isinstance(found, KernelFuncOp) or (isinstance(found, HostFuncOp) and not found.is_declaration):
        return found
    raise Error(f"{call.name}: the module does not define the function {call.callee}")


def cell_of(op: RecurrenceOp) -> HostFuncOp:
    """The function that each step of a recurrence calls. Raises Error if the module does not define it."""
    found = SymbolTable.lookup_symbol(op, op.cell)
    if isinstance(found, HostFuncOp) and not found.is_declaration:
        return found
    raise Error(f"{op.name}: the module does not define the function {op.cell}")


def _called(op: Call | RecurrenceOp) -> SymbolRefAttr:
    return op.cell if isinstance(op, RecurrenceOp) else op.callee


def entry_functions(module: ModuleOp) -> list[Function]:
    """The functions that no other one calls, once or in steps, or launches, in their order; declarations are none."""
    called = {_called(op).string_value() for op in module.walk() if isinstance(op, Call | RecurrenceOp)}
    functions = [op for op in module.ops if isinstance(op, HostFuncOp | KernelFuncOp)]
    return [
        function
        for function in functions
        if function.sym_name.data not in called and not (isinstance(function, HostFuncOp) and function.is_declaration)
    ]


def entry_function(module: ModuleOp, name: str | None = None) -> Function:
    """The entry function, or the function `name`. Raises Error if there is none, or several and no name."""
    if name is not None:
        found = SymbolTable.lookup_symbol(module, name)
        if isinstance(found, KernelFuncOp) or (isinstance(found, HostFuncOp) and not found.is_declaration):
            return found
        raise Error(f"the module does not define a function @{name}")
    entries = entry_functions(module)
    if not entries:
        raise Error("the module has no entry point: define a func.func that no other function calls")
    if len(entries) > 1:
        names = ", ".join(f"@{function.sym_name.data}" for function in entries)
        raise Error(
            f"the module has several entry points, {names}; let one function call the others, or name the one to run"
        )
    return entries[0]


def argument_roles(function: Function) -> list[Role]:
    """The role of each argument, from the memory effects of the body and of the functions it calls.

    Works on loop, tile and kernel level, and on the host functions above them. An argument that is only returned is
    `in`. Raises Error if a callee is not defined or the functions call each other in a circle.
    """
    return _roles(function, (), {})


def name_checks(function: HostFuncOp, messages: Sequence[str]) -> None:
    """Mark the last results of a function as asserted, with a message for each."""
    if messages:
        plain = [DictionaryAttr({})] * (len(function.function_type.outputs) - len(messages))
        marked = [DictionaryAttr({CHECK: StringAttr(message)}) for message in messages]
        function.res_attrs = ArrayAttr([*plain, *marked])


def checks(function: Function) -> dict[int, str]:
    """The messages of the results that a function asserts, by the number of the result."""
    given = function.res_attrs if isinstance(function, HostFuncOp) else None
    marks = () if given is None else given.data
    found = ((number, mark.data.get(CHECK)) for number, mark in enumerate(marks))
    return {number: message.data for number, message in found if isinstance(message, StringAttr)}


def _roles(function: Function, callers: tuple[Function, ...], known: dict[Function, list[Role]]) -> list[Role]:
    """`known` are the roles of functions that were asked for before: many launches are of one kernel."""
    if function in known:
        return known[function]
    if any(function is caller for caller in callers):
        raise Error(f"@{function.sym_name.data} calls itself; functions must not be recursive")
    effects = set(_effects(function, (*callers, function), known))
    known[function] = [
        _ROLES[(value, MemoryEffectKind.READ) in effects, (value, MemoryEffectKind.WRITE) in effects]
        for value in parameters(function)
    ]
    return known[function]


def _effects(
    function: Function, callers: tuple[Function, ...], known: dict[Function, list[Role]]
) -> Iterator[tuple[SSAValue, MemoryEffectKind]]:
    for op in function.body.walk():
        if isinstance(op, Call):
            for value, role in zip(op.arguments, _roles(callee(op), callers, known), strict=True):
                yield from ((_buffer_of(value), kind) for kind in _KINDS[role])
        elif not op.regions and not is_pure(type(op)):
            yield from _own_effects(op)


def _buffer_of(value: SSAValue) -> SSAValue:
    """The buffer of which an argument is a part, or which it describes as a tensor map."""
    if isinstance(value.type, DescribesBuffer) and isinstance(value.owner, Operation):
        value = value.owner.operands[0]
    return whole(value)


_KINDS = {
    Role.IN: (MemoryEffectKind.READ,),
    Role.OUT: (MemoryEffectKind.WRITE,),
    Role.INOUT: (MemoryEffectKind.READ, MemoryEffectKind.WRITE),
}


def _own_effects(op: Operation) -> Iterator[tuple[SSAValue, MemoryEffectKind]]:
    for effect in get_effects(op) or ():
        if isinstance(effect.value, SSAValue):
            yield effect.value, effect.kind
