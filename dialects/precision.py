"""Precision of products: how exactly a product of two FP32 factors is to be computed that a sum adds up.

    %product = arith.mulf %a, %b {deplodock.precision = "high"} : f32

The words are those of torch.set_float32_matmul_precision. `highest` is the default and not written: such a product is
rounded once. One of `high` may be summed up of products of parts of its factors, with the error of FP32; factors of
`medium` may be rounded to TF32. An operation of the torch dialect has the attribute for the products that it stands
for. docs/numerics.md says what each word promises.
"""

from __future__ import annotations

from xdsl.dialects import arith
from xdsl.dialects.builtin import ModuleOp, StringAttr, f32
from xdsl.ir import Operation, SSAValue
from xdsl.utils.exceptions import VerifyException

from deplodock.errors import InvalidInputError

ATTRIBUTE = "deplodock.precision"

HIGHEST, HIGH, MEDIUM = PRECISIONS = ("highest", "high", "medium")
"""All words, the most precise one first."""


def check_precision(word: object) -> None:
    """Raise InvalidInputError if there is no such precision."""
    if word not in PRECISIONS:
        raise InvalidInputError(f"there is no precision {word!r}; there are {', '.join(PRECISIONS)}")


def precision_of(op: Operation) -> str:
    """The precision of a product. Raises VerifyException if the operation has another word for it."""
    written = op.attributes.get(ATTRIBUTE)
    if written is None:
        return PRECISIONS[0]
    if not isinstance(written, StringAttr) or written.data not in PRECISIONS[1:]:
        raise VerifyException(
            f'{ATTRIBUTE} must be "{PRECISIONS[1]}" or "{PRECISIONS[2]}", got {written}; leave it out for "highest"'
        )
    return written.data


def verify_precision(op: Operation) -> None:
    """Raise VerifyException where a scalar operation has another word for its precision, or is none of FP32."""
    if ATTRIBUTE in op.attributes and precision_of(op) and any(result.type != f32 for result in op.results):
        raise VerifyException(f"{ATTRIBUTE} is for products of f32, not of {op.results[0].type}; leave it out")


def set_precision_of(op: Operation, word: str) -> None:
    """Write the precision of a product, one of `PRECISIONS`."""
    if word == PRECISIONS[0]:
        op.attributes.pop(ATTRIBUTE, None)
    else:
        op.attributes[ATTRIBUTE] = StringAttr(word)


def coarsest_precision(module: ModuleOp) -> str:
    """The least precise one of all products of a module."""
    return max((precision_of(op) for op in module.walk()), key=PRECISIONS.index)


def product_like(product: arith.MulfOp, lhs: SSAValue, rhs: SSAValue) -> arith.MulfOp:
    """The product of other factors, with the flags and the precision of one."""
    made = arith.MulfOp(lhs, rhs, product.fastmath)
    set_precision_of(made, precision_of(product))
    return made
