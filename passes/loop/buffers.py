"""Who writes and who reads the buffers that the functions of a module pass to each other."""

from __future__ import annotations

from xdsl.dialects import func, memref
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import SSAValue

from deplodock.dialects import loop


class Buffers:
    """The buffers of a module at loop level: those of kernels are the parameters of functions that hosts call."""

    def __init__(self, module: ModuleOp) -> None:
        functions = {op.sym_name.data: op for op in module.ops if isinstance(op, func.FuncOp)}
        self._passed: dict[SSAValue, dict[SSAValue, None]] = {}
        """For each parameter of a called function, the values passed for it."""
        self._taken: dict[SSAValue, dict[SSAValue, None]] = {}
        """For each value of a host function, the parameters that it is passed for."""
        for call in module.walk():
            callee = functions.get(call.callee.string_value()) if isinstance(call, func.CallOp) else None
            if isinstance(call, func.CallOp) and callee is not None:
                for value, parameter in zip(call.arguments, callee.args, strict=True):
                    self._passed.setdefault(parameter, {})[value] = None
                    self._taken.setdefault(value, {})[parameter] = None

    def writers(self, parameter: SSAValue) -> list[loop.StoreOp]:
        """All stores of kernels to the buffers that are passed for a parameter; none where others may write them."""
        return [] if (found := self._users(parameter, returned=True)) is None else found[0]

    def readers(self, parameter: SSAValue) -> list[loop.LoadOp]:
        """All loads from the buffers that are passed for a parameter; none where others may read them."""
        return [] if (found := self._users(parameter, returned=False)) is None else found[1]

    def _users(self, parameter: SSAValue, *, returned: bool) -> tuple[list[loop.StoreOp], list[loop.LoadOp]] | None:
        """The stores and loads, or None where something else uses a buffer; `returned` is whether functions may."""
        stores: dict[loop.StoreOp, None] = {}
        loads: dict[loop.LoadOp, None] = {}
        for buffer in self._passed.get(parameter, ()):
            if not isinstance(buffer.owner, memref.AllocOp):
                return None
            for use in buffer.uses:
                if not isinstance(use.operation, func.CallOp) and not (
                    returned and isinstance(use.operation, func.ReturnOp)
                ):
                    return None
            for use in (use for taken in self._taken[buffer] for use in taken.uses):
                match use.operation:
                    case loop.StoreOp() as op if use.index == op.operands.index(op.destination):
                        stores[op] = None
                    case loop.LoadOp() as op:
                        loads[op] = None
                    case _:
                        return None
        return list(stores), list(loads)
