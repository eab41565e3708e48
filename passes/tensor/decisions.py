"""Decisions of fusion as text, by what operations are: equal ones, as those of equal layers, are decided alike.

    mulf-3f2a9c01=never reduce-91be0744=always stream=always

A word is what `deplodock.fuse` is to say on the operations with a label, or the option `stream` of form-kernels. A
label says what an operation is and, by a digest, what stands around it: `REACH` steps to what it is computed from and
to what uses it. So it depends on no name, nor on what is further away.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Literal, get_args

from xdsl.dialects import arith
from xdsl.dialects.builtin import DictionaryAttr, ModuleOp, StringAttr
from xdsl.dialects.func import FuncOp, ReturnOp
from xdsl.ir import Block, Operation

from deplodock.analysis.shape.fusion import TensorOp
from deplodock.analysis.shape.kernel_identity import kernel_key, operation_text
from deplodock.dialects.tensor import ElementwiseOp
from deplodock.passes.remarks import failure
from deplodock.passes.tensor.group import FUSE

DECISIONS = "deplodock.fusion"
"""The attribute of a function with decisions for its operations."""

PROGRAMS = "deplodock.fusions"
"""The attribute of a module with attributes for functions, by their keys: see `given_to`."""

STREAM = "stream"
"""What stands for the option of form-kernels in place of a label."""

REACH = 3
"""The steps around an operation that its label knows. Of a decoder layer nearly all operations differ by then; of three
layers in a row, those at their ends have labels of their own, so that there are 61 decisions to try, not 57."""

_WORDS = "LABEL=never, LABEL=always, stream=always"

Streams = Literal["never", "cheaper", "always"]
"""Where a weighted sum joins its softmax: nowhere; where it is cheaper or scores are too large to store; or wherever it
can."""


@dataclass(frozen=True)
class Decisions:
    """What of fusion is decided, whatever the cost model says: modes by label, and the option `stream`."""

    modes: Mapping[str, str]
    stream: Streams | None = None

    @staticmethod
    def of(function: FuncOp) -> Decisions:
        """Those that stand on a function. Raises PassFailedException for text that is none."""
        text, modes, stream = function.attributes.get(DECISIONS, StringAttr("")), dict[str, str](), None
        if not isinstance(text, StringAttr):
            raise failure(function, f"{DECISIONS} must be text, not {text}")
        for word in text.data.split():
            label, _, mode = word.partition("=")
            if label == STREAM and mode in get_args(Streams) and stream is None:
                stream = next(each for each in get_args(Streams) if each == mode)
            elif label not in ("", STREAM, *modes) and mode in ("never", "always"):
                modes[label] = mode
            else:
                raise failure(function, f"{DECISIONS} has words such as {_WORDS}, each label once, not {word}")
        return Decisions(modes, stream)

    def write(self, function: FuncOp) -> None:
        """Write the modes on operations. Raises PassFailedException where a label is of none."""
        found = labels(function.body.block) if self.modes else {}
        for op, label in found.items():
            if (mode := self.modes.get(label)) is not None:
                op.attributes[FUSE] = StringAttr(mode)
        known = set(found.values())
        if missing := [label for label in self.modes if label not in known]:
            raise failure(function, f"{DECISIONS} decides {missing[0]}, and no operation is that")


def program_key(key: str) -> str:
    """What `PROGRAMS` calls a function by its key: a word, as names of attributes are."""
    return f"program_{key}"


def take_given(function: FuncOp, module: ModuleOp) -> None:
    """Put the attributes on a function that its module has for functions of its key, unless it has decisions."""
    given = module.attributes.get(PROGRAMS)
    if isinstance(given, DictionaryAttr) and DECISIONS not in function.attributes:
        found = given.data.get(program_key(kernel_key(function)))
        if isinstance(found, DictionaryAttr):
            function.attributes |= found.data


def labels(block: Block) -> dict[Operation, str]:
    """The label of each tensor operation of a block that is fused or stored: constants are in every kernel."""
    ops = [op for op in block.ops if not isinstance(op, arith.ConstantOp | ReturnOp)]
    own = {op: _digest(operation_text(op)) for op in ops}
    for _ in range(REACH):
        own = {op: _digest(" ".join(_around(op, own))) for op in ops}
    return {op: f"{_kind(op)}-{found[:8]}" for op, found in own.items() if isinstance(op, TensorOp)}


def _around(op: Operation, known: Mapping[Operation, str]) -> Iterator[str]:
    """An operation, what its operands are, and in order what uses its results and where, by what is known of these."""
    yield known[op]
    for value in op.operands:
        yield known.get(value.owner, "constant") if isinstance(value.owner, Operation) else "argument"
    uses = [(place, use) for place, value in enumerate(op.results) for use in value.uses]
    yield from sorted(
        f"{place}>{use.index}:{found}" if (found := known.get(use.operation)) else f"{place}>return"
        for place, use in uses
    )


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def _kind(op: Operation) -> str:
    """A word for an operation: the last thing that it does to elements, or its own name."""
    last = op.body.block.last_op if isinstance(op, ElementwiseOp) else None
    inner = last.prev_op if last is not None else None
    return (inner or op).name.partition(".")[2]
