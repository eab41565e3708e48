"""The operations of the `kernel` dialect by which the lanes of a warp read each other's values.

All lanes of the warp take part. They are functions of values: no memory is involved.
"""

from __future__ import annotations

from xdsl.dialects.builtin import IntegerAttr, i64
from xdsl.ir import SSAValue
from xdsl.irdl import IRDLOperation, operand_def, prop_def, result_def, traits_def
from xdsl.traits import NoMemoryEffect
from xdsl.utils.exceptions import VerifyException

from deplodock.dialects.formats import op_definition
from deplodock.dialects.interfaces import Collective
from deplodock.dialects.kernel.roles import LANES


class Shuffle(IRDLOperation):
    """The value of another lane of the warp."""

    value = operand_def()
    result = result_def()

    def source(self, lane: int) -> int:
        """The lane whose value a lane reads."""
        raise NotImplementedError

    def verify_(self) -> None:
        if self.value.type != self.result.type:
            raise VerifyException(f"a shuffle keeps the type, got {self.value.type} and {self.result.type}")


@op_definition
class ShuffleXorOp(Shuffle):
    """The value of the lane whose index differs from this lane's by the bits of `mask`.

    All lanes of the warp take part. It is a function of values: no memory is involved.

        %w = kernel.shuffle_xor %v, 16 : f32
    """

    name = "kernel.shuffle_xor"
    mask = prop_def(IntegerAttr.constr(i64))
    traits = traits_def(NoMemoryEffect(), Collective())
    assembly_format = "$value `,` $mask attr-dict `:` custom<SameType>(type($value), type($result))"

    def __init__(self, value: SSAValue, mask: int):
        super().__init__(operands=[value], properties={"mask": IntegerAttr(mask, i64)}, result_types=[value.type])

    def source(self, lane: int) -> int:
        return lane ^ self.mask.value.data

    def verify_(self) -> None:
        super().verify_()
        if not 1 <= self.mask.value.data < LANES:
            raise VerifyException(f"the mask of a shuffle is between 1 and 31, got {self.mask.value.data}")


@op_definition
class ShuffleUpOp(Shuffle):
    """The value of the lane that is `delta` lanes before this one; the first `delta` lanes keep their own.

    All lanes of the warp take part. It is a function of values: no memory is involved.

        %w = kernel.shuffle_up %v, 4 : f32
    """

    name = "kernel.shuffle_up"
    delta = prop_def(IntegerAttr.constr(i64))
    traits = traits_def(NoMemoryEffect(), Collective())
    assembly_format = "$value `,` $delta attr-dict `:` custom<SameType>(type($value), type($result))"

    def __init__(self, value: SSAValue, delta: int):
        super().__init__(operands=[value], properties={"delta": IntegerAttr(delta, i64)}, result_types=[value.type])

    def source(self, lane: int) -> int:
        delta = self.delta.value.data
        return lane - delta if lane >= delta else lane

    def verify_(self) -> None:
        super().verify_()
        if not 1 <= self.delta.value.data < LANES:
            raise VerifyException(f"the delta of a shuffle is between 1 and 31, got {self.delta.value.data}")


@op_definition
class ShuffleLastOp(Shuffle):
    """The value of the last lane of each group of `width` neighbours, a power of two.

    All lanes of the warp take part. It is a function of values: no memory is involved.

        %w = kernel.shuffle_last %v, 8 : f32
    """

    name = "kernel.shuffle_last"
    width = prop_def(IntegerAttr.constr(i64))
    traits = traits_def(NoMemoryEffect(), Collective())
    assembly_format = "$value `,` $width attr-dict `:` custom<SameType>(type($value), type($result))"

    def __init__(self, value: SSAValue, width: int):
        super().__init__(operands=[value], properties={"width": IntegerAttr(width, i64)}, result_types=[value.type])

    def source(self, lane: int) -> int:
        return lane | (self.width.value.data - 1)

    def verify_(self) -> None:
        super().verify_()
        if self.width.value.data not in (2, 4, 8, 16, 32):
            raise VerifyException(f"the width of a shuffle is 2, 4, 8, 16 or 32, got {self.width.value.data}")


SHUFFLES = (ShuffleXorOp, ShuffleUpOp, ShuffleLastOp)
"""All shuffles."""
