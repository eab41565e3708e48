"""The shapes of the results of ATen operations, which follow from operands and attributes: a rule for each family.

The verifier of the `torch` dialect holds the stated types to them, so that a product that cannot be is refused where it
is read. Rules check what they need to know the shape; what a lowering does not support it refuses itself.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from deplodock.dialects.shapes import Shape
from deplodock.dialects.torch.schema import AtenCall
from deplodock.loading import loaded

Rule = Callable[[AtenCall], Sequence[Shape]]
"""Gives the shapes of the results, or raises a ValueError that says what does not fit."""

_FAMILIES = {
    "values:broadcast": """
        add.Tensor sub.Tensor rsub.Scalar mul.Tensor div.Tensor div.Tensor_mode floor_divide remainder.Tensor
        remainder.Scalar remainder.Scalar_Tensor fmod.Tensor fmod.Scalar prims.fma maximum minimum fmax fmin clamp
        clamp.Tensor clamp_min clamp_min.Tensor clamp_max clamp_max.Tensor hardtanh pow.Tensor_Scalar
        pow.Tensor_Tensor pow.Scalar square neg abs sign relu floor ceil trunc round exp exp2 expm1 log log1p log2
        log10 sin cos tan asin acos atan sinh cosh asinh acosh atanh atan2 copysign.Tensor erf sqrt rsqrt reciprocal
        tanh sigmoid silu mish gelu softplus leaky_relu eq.Tensor eq.Scalar ne.Tensor ne.Scalar lt.Tensor lt.Scalar
        le.Tensor le.Scalar gt.Tensor gt.Scalar ge.Tensor ge.Scalar isnan isinf signbit logical_not logical_and
        logical_or logical_xor bitwise_not bitwise_and.Tensor bitwise_and.Scalar bitwise_or.Tensor bitwise_or.Scalar
        bitwise_xor.Tensor bitwise_xor.Scalar bitwise_left_shift.Tensor bitwise_left_shift.Tensor_Scalar
        bitwise_left_shift.Scalar_Tensor bitwise_right_shift.Scalar_Tensor bitwise_right_shift.Tensor
        bitwise_right_shift.Tensor_Scalar where.self where.ScalarOther where.ScalarSelf where.Scalar""",
    "values:first": """
        softmax.int log_softmax.int cumsum cumprod cummax cummin logcumsumexp clone detach alias _to_copy
        fill.Scalar""",
    "values:broadcast_to_first": "copy fill.Tensor",
    "values:masked_fill": "masked_fill.Scalar masked_fill.Tensor",
    "values:reduced": """
        sum sum.dim_IntList mean mean.dim prod prod.dim_int max amax min amin max.dim min.dim argmax argmin any any.dim
        any.dims all all.dim all.dims var var.dim var.correction std std.dim std.correction var_mean.correction
        logsumexp""",
    "values:layer_norm": "rms_norm layer_norm",
    "values:group_norm": "group_norm",
    "values:batch_norm": "_native_batch_norm_legit_no_training",
    "windows:convolution": "convolution",
    "windows:pool": """
        max_pool1d max_pool2d max_pool3d max_pool2d_with_indices max_pool3d_with_indices avg_pool1d avg_pool2d
        avg_pool3d""",
    "windows:adaptive_pool": """
        adaptive_avg_pool1d adaptive_avg_pool2d adaptive_avg_pool3d adaptive_max_pool2d adaptive_max_pool3d""",
    "products:linear": "linear",
    "products:product": "matmul mm bmm mv dot addmm baddbmm addmv",
    "products:outer": "outer",
    "products:einsum": "einsum",
    "products:attention": "scaled_dot_product_attention",
    "recurrences:recurrent": "lstm.input gru.input rnn_tanh.input rnn_relu.input",
    "moves:permuted": "t transpose.int permute",
    "moves:viewed": "view _unsafe_view",
    "moves:reread": "view.dtype",
    "moves:unsqueezed": "unsqueeze",
    "moves:squeezed": "squeeze squeeze.dim squeeze.dims",
    "moves:expanded": "expand",
    "moves:sliced": "slice.Tensor",
    "moves:selected": "select.int",
    "moves:diagonal": "diagonal",
    "moves:unfolded": "unfold",
    "moves:strided": "as_strided",
    "moves:flipped": "flip",
    "moves:rolled": "roll",
    "moves:repeated": "repeat",
    "moves:repeated_in_place": "repeat_interleave.self_int",
    "moves:split": "split.Tensor split_with_sizes",
    "moves:unbound": "unbind.int",
    "moves:concatenated": "cat",
    "moves:stacked": "stack",
    "moves:padded": "pad constant_pad_nd",
    "moves:triangle": "tril triu",
    "moves:gathered": "gather",
    "moves:index_selected": "index_select",
    "moves:indexed": "index.Tensor",
    "moves:embedded": "embedding",
    "moves:scattered": "slice_scatter select_scatter",
    "moves:made": """
        full zeros ones empty.memory_format empty_like new_empty scalar_tensor full_like zeros_like ones_like new_full
        new_zeros new_ones type_as""",
    "moves:arange": "arange arange.start arange.start_step",
    "moves:eye": "eye eye.m",
}

RULES = {name: place for place, names in _FAMILIES.items() for name in names.split()}
"""The rule of each overload of the table in `aten.py`: a file of this folder and a function there."""


def result_shapes(op: AtenCall) -> Sequence[Shape]:
    """The shapes of the results of an operation.

    Raises:
        ValueError: operands and attributes do not fit together.
    """
    rule: Rule = loaded(f"deplodock.dialects.torch.shapes.{RULES[op.schema().name]}")
    return rule(op)
