"""The operations of the `tensor_ext` dialect that read by computed indices or lay tensors side by side."""

from __future__ import annotations

from abc import ABC
from collections.abc import Sequence
from typing import cast

from xdsl.dialects.builtin import I64, AffineMapAttr, IntegerAttr, TensorType, i32, i64
from xdsl.ir import Attribute, SSAValue
from xdsl.ir.affine import AffineMap
from xdsl.irdl import (
    IRDLOperation,
    operand_def,
    prop_def,
    result_def,
    traits_def,
    var_operand_def,
)
from xdsl.traits import Pure
from xdsl.utils.exceptions import VerifyException

from deplodock.dialects.affine_syntax import verify_divisors
from deplodock.dialects.formats import op_definition


def tensor_of(value: SSAValue | Attribute) -> TensorType[Attribute]:
    """The tensor type of a value known to be a tensor."""
    return cast(TensorType[Attribute], value.type if isinstance(value, SSAValue) else value)


def shape_of(value: SSAValue | Attribute) -> tuple[int, ...]:
    """The shape of a tensor value."""
    return tensor_of(value).get_shape()


def element_of(value: SSAValue | Attribute) -> Attribute:
    """The element type of a tensor value."""
    return tensor_of(value).element_type


@op_definition
class IotaOp(IRDLOperation):
    """The coordinate along one dimension: result[d0, d1, ...] = d<dim>, as i32 or i64.

    %col = tensor_ext.iota dim 1 : tensor<4x8xi64>
    """

    name = "tensor_ext.iota"
    dim = prop_def(IntegerAttr[I64])
    result = result_def(TensorType)
    traits = traits_def(Pure())
    assembly_format = "`dim` $dim attr-dict `:` type($result)"

    def __init__(self, dim: int, type: Attribute):
        super().__init__(properties={"dim": IntegerAttr(dim, i64)}, result_types=[type])

    def verify_(self) -> None:
        type = tensor_of(self.result)
        _verify_dim(self.dim.value.data, type)
        if type.element_type not in (i32, i64):
            raise VerifyException(f"iota counts in i32 or i64, not {type.element_type}")


@op_definition
class GatherOp(IRDLOperation):
    """Reads a tensor where index tensors say: result[d] = source[map(d)[indices0[d], indices1[d], ...]].

    The symbols of the affine map are the elements of the index tensors (i32 or i64), which have the result's shape. An
    index must be inside the source; a negative one is not. A row lookup is `(s0, d1)`, ATen's gather along dimension 1
    `(d0, s0)`, `x[i, j]` of two index tensors `(s0, s1)`.

        %row = tensor_ext.gather %t at %i affine_map<(d0, d1)[s0] -> (s0, d1)>
          : tensor<9x4xf32> at tensor<3x4xi64> -> tensor<3x4xf32>
    """

    name = "tensor_ext.gather"
    source = operand_def(TensorType)
    indices = var_operand_def(TensorType)
    map = prop_def(AffineMapAttr)
    result = result_def(TensorType)
    traits = traits_def(Pure())
    assembly_format = "$source `at` $indices $map attr-dict `:` type($source) `at` type($indices) `->` type($result)"

    def __init__(self, source: SSAValue, indices: Sequence[SSAValue], map: AffineMap):
        super().__init__(
            operands=[source, indices],
            properties={"map": AffineMapAttr(map)},
            result_types=[TensorType(element_of(source), shape_of(indices[0]))],
        )

    def verify_(self) -> None:
        map, source, result = self.map.data, tensor_of(self.source), tensor_of(self.result)
        if source.element_type != result.element_type:
            raise VerifyException(f"gather keeps the element type, got {source} and {result}")
        for type in (tensor_of(value) for value in self.indices):
            if type.get_shape() != result.get_shape() or type.element_type not in (i32, i64):
                raise VerifyException(f"an index is i32 or i64 and has the shape of the result {result}, got {type}")
        verify_divisors("the map", map)
        wanted = (len(result.get_shape()), len(self.indices), len(source.get_shape()))
        if not self.indices or (map.num_dims, map.num_symbols, len(map.results)) != wanted:
            raise VerifyException(
                f"the map must take the result's {wanted[0]} indices and a symbol for each of the {wanted[1]} index"
                f" tensors (at least one) to the source's {wanted[2]}; got {map}"
            )


class MappedRead(IRDLOperation, ABC):
    """What reads one tensor through an affine map."""

    source = operand_def(TensorType)
    map = prop_def(AffineMapAttr)
    result = result_def(TensorType)
    traits = traits_def(Pure())
    assembly_format = "$source $map attr-dict `:` type($source) `->` type($result)"

    def __init__(self, source: SSAValue, map: AffineMap, shape: Sequence[int]):
        super().__init__(
            operands=[source],
            properties={"map": AffineMapAttr(map)},
            result_types=[TensorType(element_of(source), shape)],
        )

    def verify_(self) -> None:
        map, source, result = self.map.data, tensor_of(self.source), tensor_of(self.result)
        name = self.name.rpartition(".")[2]
        if source.element_type != result.element_type:
            raise VerifyException(f"{name} keeps the element type, got {source} and {result}")
        verify_divisors("the map", map)
        ranks = (len(result.get_shape()), len(source.get_shape()))
        if map.num_symbols or (map.num_dims, len(map.results)) != ranks:
            raise VerifyException(
                f"the map must take the result's {ranks[0]} indices to the source's {ranks[1]}, without symbols; "
                f"got {map}"
            )


@op_definition
class IndexMapOp(MappedRead):
    """Reads a tensor through an affine map: result[d0, d1, ...] = source[map(d0, d1, ...)].

    Broadcast, transpose, slice, flip and reshape are all this operation.

        %wb = tensor_ext.index_map %w affine_map<(d0, d1) -> (d1)> : tensor<8xf32> -> tensor<4x8xf32>
    """

    name = "tensor_ext.index_map"


@op_definition
class PadOp(MappedRead):
    """Reads a tensor through an affine map, and gives 0 where that leads outside: result[d] = source[map(d)], or 0.

    The source is read where it lies in memory.

        %p = tensor_ext.pad %x affine_map<(d0, d1) -> (d0, d1 - 1)> : tensor<4x8xf32> -> tensor<4x10xf32>
    """

    name = "tensor_ext.pad"


@op_definition
class ConcatOp(IRDLOperation):
    """Tensors one after the other along a dimension; all other extents are equal.

    %ab = tensor_ext.concat %a, %b dim 0 : tensor<2x4xf32>, tensor<3x4xf32> -> tensor<5x4xf32>
    """

    name = "tensor_ext.concat"
    inputs = var_operand_def(TensorType)
    dim = prop_def(IntegerAttr[I64])
    result = result_def(TensorType)
    traits = traits_def(Pure())
    assembly_format = "$inputs `dim` $dim attr-dict `:` type($inputs) `->` type($result)"

    def __init__(self, inputs: Sequence[SSAValue], dim: int):
        types = [tensor_of(value) for value in inputs]
        shape = list(types[0].get_shape())
        shape[dim] = sum(type.get_shape()[dim] for type in types)
        super().__init__(
            operands=[inputs],
            properties={"dim": IntegerAttr(dim, i64)},
            result_types=[TensorType(types[0].element_type, shape)],
        )

    def verify_(self) -> None:
        result, dim = tensor_of(self.result), self.dim.value.data
        _verify_dim(dim, result)
        types = [tensor_of(value) for value in self.inputs]
        rest = {(type.element_type, type.get_shape()[:dim], type.get_shape()[dim + 1 :]) for type in (*types, result)}
        extents = [type.get_shape()[dim] for type in types if len(type.get_shape()) > dim]
        if not types or len(rest) > 1 or sum(extents) != result.get_shape()[dim]:
            raise VerifyException(
                f"({', '.join(map(str, types))}) one after the other along dimension {dim} are not {result}"
            )


def _verify_dim(dim: int, type: TensorType[Attribute]) -> None:
    if not 0 <= dim < len(type.get_shape()):
        raise VerifyException(f"dim {dim} is not below the rank of {type}")
