"""What a kernel computes apart from names, as a key by which equal ones are found without comparing pairs."""

from __future__ import annotations

import hashlib
from collections.abc import Hashable, Mapping
from dataclasses import dataclass
from typing import cast

from xdsl.dialects import func
from xdsl.ir import Attribute, Block, Operation, SSAValue

from deplodock.analysis.machine.targets import target_at
from deplodock.dialects.tensor import KernelOp


@dataclass(frozen=True)
class Structure:
    """The key of a kernel, equal for those that differ only in names and in the order of parameters and operations.

    `parameters` are the positions of the kernel's parameters in the order in which the body first uses them.
    """

    key: Hashable
    parameters: tuple[int, ...]


def structure(kernel: func.FuncOp | KernelOp) -> Structure:
    """The structure of a function of one block, or of a kernel of tensor operations, in time linear in its size."""
    body = kernel.body.block
    numbers: dict[SSAValue, int] = {}
    key = _block_key(body, numbers)
    for unused in body.args:
        numbers.setdefault(unused, len(numbers))
    order = sorted(range(len(body.args)), key=lambda i: numbers[body.args[i]])
    types = tuple(body.args[i].type for i in order)
    return Structure((_named(kernel.attributes), types, key), tuple(order))


def kernel_key(kernel: func.FuncOp) -> str:
    """16 hexadecimal digits, equal for functions of one block that compute the same for the same target.

    So they are in every process. Names, locations, the order of parameters and the schedule do not count.
    """
    alone = kernel.clone()
    for name in [name for name in alone.attributes if name.startswith("deplodock.")]:
        del alone.attributes[name]
    text = _plain(structure(alone).key) + str(target_at(kernel))
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def operation_text(op: Operation) -> str:
    """What an operation does to values of what types: equal for those that differ in names and operands alone."""
    types = tuple(value.type for value in op.operands)
    return _plain((types, _op_key(op, {})))


def _plain(key: object) -> str:
    """The text of a key, which depends on nothing but the key."""
    if isinstance(key, tuple):
        return f"({','.join(map(_plain, cast(tuple[object, ...], key)))})"
    return str(key) if isinstance(key, Attribute) else repr(key)


def _block_key(block: Block, numbers: dict[SSAValue, int]) -> Hashable:
    return tuple(_op_key(op, numbers) for op in _by_use(block))


def _by_use(block: Block) -> list[Operation]:
    """The operations of a block, each right before the first that uses it, so that ties in their order do not matter.

    Kernels read no buffer that they write, so only what uses a value must follow it.
    """
    ordered: dict[Operation, None] = {}
    for root in block.ops:
        if root.results and any(True for result in root.results for _ in result.uses):
            continue
        pending: list[tuple[Operation, bool]] = [(root, False)]
        while pending:
            op, is_ready = pending.pop()
            if op in ordered:
                continue
            if is_ready:
                ordered[op] = None
                continue
            owners = [value.owner for inner in op.walk() for value in inner.operands]
            needed = [owner for owner in owners if isinstance(owner, Operation) and owner.parent is block]
            pending += [(op, True), *((owner, False) for owner in reversed(needed) if owner not in ordered)]
    return list(ordered)


def _op_key(op: Operation, numbers: dict[SSAValue, int]) -> Hashable:
    """An operation with values as numbers, given in the order in which they are met."""
    operands = tuple(numbers.setdefault(value, len(numbers)) for value in op.operands)
    for result in op.results:
        numbers[result] = len(numbers)
    blocks: list[Hashable] = []
    for block in (block for region in op.regions for block in region.blocks):
        for argument in block.args:
            numbers[argument] = len(numbers)
        blocks.append((tuple(argument.type for argument in block.args), _block_key(block, numbers)))
    types = tuple(result.type for result in op.results)
    return op.name, operands, types, _named(op.properties), _named(op.attributes), tuple(blocks)


def _named(attributes: Mapping[str, Attribute]) -> Hashable:
    return tuple(sorted(attributes.items(), key=lambda item: item[0]))
