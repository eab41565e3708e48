"""The ATen overloads of the `torch` dialect: a table of schemas as PyTorch prints them, and what they say.

A line gives the rule by which the element types of operands and results belong together, the element types that the
operation computes on, and the schema.
"""

from __future__ import annotations

import re

from xdsl.dialects.builtin import i1, i64

from deplodock.dialects.elements import ELEMENTS, FLOATS, INTEGERS, ui8
from deplodock.dialects.torch.schema import TypeRule, parse_schema

FLOAT = FLOATS
NUMBER = (*FLOATS, *INTEGERS)
INTEGER = (*INTEGERS, i1)
ANY = ELEMENTS
BOOL = (i1,)
TRUTH = (i1, ui8)

WIDE_NUMBERS = ("mul.Tensor", "div.Tensor", "div.Tensor_mode", "floor_divide")
"""Overloads whose second operand, a number or a tensor without dimensions, stays f32 beside half precision."""

MIXED = ("layer_norm", "group_norm", "_native_batch_norm_legit_no_training")
"""Overloads whose first result may be half precision where other tensors are f32: they compute f32 and round once."""

PRODUCTS = (
    *("matmul", "mm", "bmm", "mv", "dot", "addmm", "baddbmm", "addmv", "linear", "einsum"),
    *("scaled_dot_product_attention", "lstm.input", "gru.input", "rnn_tanh.input", "rnn_relu.input"),
)
"""Overloads that torch.set_float32_matmul_precision is about. Convolutions are not among them."""

_MAKE = "ScalarType? dtype=None, Layout? layout=None, Device? device=None, bool? pin_memory=None"
_LIKE = f"{_MAKE}, MemoryFormat? memory_format=None"
_SDPA = (
    "Tensor query, Tensor key, Tensor value, Tensor? attn_mask=None, float dropout_p=0., bool is_causal=False, *,"
    " float? scale=None, bool enable_gqa=False"
)

_LAYERS = (
    "Tensor[] params, bool has_biases, int num_layers, float dropout, bool train, bool bidirectional, bool batch_first"
)

_TABLE = (
    (TypeRule.SAME, ANY, "add.Tensor(Tensor self, Tensor other, *, Scalar alpha=1) -> Tensor"),
    (TypeRule.SAME, NUMBER, "sub.Tensor(Tensor self, Tensor other, *, Scalar alpha=1) -> Tensor"),
    (TypeRule.SAME, NUMBER, "rsub.Scalar(Tensor self, Scalar other, Scalar alpha=1) -> Tensor"),
    (TypeRule.SAME, ANY, "mul.Tensor(Tensor self, Tensor other) -> Tensor"),
    (TypeRule.SAME, FLOAT, "div.Tensor(Tensor self, Tensor other) -> Tensor"),
    (TypeRule.SAME, NUMBER, "div.Tensor_mode(Tensor self, Tensor other, *, str? rounding_mode) -> Tensor"),
    (TypeRule.SAME, NUMBER, "floor_divide(Tensor self, Tensor other) -> Tensor"),
    (TypeRule.SAME, NUMBER, "remainder.Tensor(Tensor self, Tensor other) -> Tensor"),
    (TypeRule.SAME, NUMBER, "remainder.Scalar(Tensor self, Scalar other) -> Tensor"),
    (TypeRule.SAME, NUMBER, "remainder.Scalar_Tensor(Scalar self, Tensor other) -> Tensor"),
    (TypeRule.SAME, NUMBER, "fmod.Tensor(Tensor self, Tensor other) -> Tensor"),
    (TypeRule.SAME, NUMBER, "fmod.Scalar(Tensor self, Scalar other) -> Tensor"),
    (TypeRule.SAME, FLOAT, "prims.fma(Tensor a, Tensor b, Tensor c) -> Tensor"),
    (TypeRule.SAME, ANY, "maximum(Tensor self, Tensor other) -> Tensor"),
    (TypeRule.SAME, ANY, "minimum(Tensor self, Tensor other) -> Tensor"),
    (TypeRule.SAME, ANY, "fmax(Tensor self, Tensor other) -> Tensor"),
    (TypeRule.SAME, ANY, "fmin(Tensor self, Tensor other) -> Tensor"),
    (TypeRule.SAME, NUMBER, "clamp(Tensor self, Scalar? min=None, Scalar? max=None) -> Tensor"),
    (TypeRule.SAME, NUMBER, "clamp.Tensor(Tensor self, Tensor? min=None, Tensor? max=None) -> Tensor"),
    (TypeRule.SAME, NUMBER, "clamp_min(Tensor self, Scalar min) -> Tensor"),
    (TypeRule.SAME, ANY, "clamp_min.Tensor(Tensor self, Tensor min) -> Tensor"),
    (TypeRule.SAME, NUMBER, "clamp_max(Tensor self, Scalar max) -> Tensor"),
    (TypeRule.SAME, ANY, "clamp_max.Tensor(Tensor self, Tensor max) -> Tensor"),
    (TypeRule.SAME, NUMBER, "hardtanh(Tensor self, Scalar min_val=-1, Scalar max_val=1) -> Tensor"),
    (TypeRule.SAME, NUMBER, "pow.Tensor_Scalar(Tensor self, Scalar exponent) -> Tensor"),
    (TypeRule.SAME, NUMBER, "pow.Tensor_Tensor(Tensor self, Tensor exponent) -> Tensor"),
    (TypeRule.SAME, NUMBER, "pow.Scalar(Scalar self, Tensor exponent) -> Tensor"),
    (TypeRule.SAME, NUMBER, "square(Tensor self) -> Tensor"),
    (TypeRule.SAME, NUMBER, "neg(Tensor self) -> Tensor"),
    (TypeRule.SAME, NUMBER, "abs(Tensor self) -> Tensor"),
    (TypeRule.SAME, ANY, "sign(Tensor self) -> Tensor"),
    (TypeRule.SAME, NUMBER, "relu(Tensor self) -> Tensor"),
    (TypeRule.SAME, NUMBER, "floor(Tensor self) -> Tensor"),
    (TypeRule.SAME, NUMBER, "ceil(Tensor self) -> Tensor"),
    (TypeRule.SAME, NUMBER, "trunc(Tensor self) -> Tensor"),
    (TypeRule.SAME, NUMBER, "round(Tensor self) -> Tensor"),
    (TypeRule.SAME, FLOAT, "exp(Tensor self) -> Tensor"),
    (TypeRule.SAME, FLOAT, "exp2(Tensor self) -> Tensor"),
    (TypeRule.SAME, FLOAT, "expm1(Tensor self) -> Tensor"),
    (TypeRule.SAME, FLOAT, "log(Tensor self) -> Tensor"),
    (TypeRule.SAME, FLOAT, "log1p(Tensor self) -> Tensor"),
    (TypeRule.SAME, FLOAT, "log2(Tensor self) -> Tensor"),
    (TypeRule.SAME, FLOAT, "log10(Tensor self) -> Tensor"),
    (TypeRule.SAME, FLOAT, "sin(Tensor self) -> Tensor"),
    (TypeRule.SAME, FLOAT, "cos(Tensor self) -> Tensor"),
    (TypeRule.SAME, FLOAT, "tan(Tensor self) -> Tensor"),
    *((TypeRule.SAME, FLOAT, f"{name}(Tensor self) -> Tensor") for name in ("asin", "acos", "atan", "sinh", "cosh")),
    *((TypeRule.SAME, FLOAT, f"{name}(Tensor self) -> Tensor") for name in ("asinh", "acosh", "atanh")),
    (TypeRule.SAME, FLOAT, "atan2(Tensor self, Tensor other) -> Tensor"),
    (TypeRule.SAME, FLOAT, "copysign.Tensor(Tensor self, Tensor other) -> Tensor"),
    (TypeRule.SAME, FLOAT, "erf(Tensor self) -> Tensor"),
    (TypeRule.SAME, FLOAT, "sqrt(Tensor self) -> Tensor"),
    (TypeRule.SAME, FLOAT, "rsqrt(Tensor self) -> Tensor"),
    (TypeRule.SAME, FLOAT, "reciprocal(Tensor self) -> Tensor"),
    (TypeRule.SAME, FLOAT, "tanh(Tensor self) -> Tensor"),
    (TypeRule.SAME, FLOAT, "sigmoid(Tensor self) -> Tensor"),
    (TypeRule.SAME, FLOAT, "silu(Tensor self) -> Tensor"),
    (TypeRule.SAME, FLOAT, "mish(Tensor self) -> Tensor"),
    (TypeRule.SAME, FLOAT, 'gelu(Tensor self, *, str approximate="none") -> Tensor'),
    (TypeRule.SAME, FLOAT, "softplus(Tensor self, Scalar beta=1, Scalar threshold=20) -> Tensor"),
    (TypeRule.SAME, FLOAT, "leaky_relu(Tensor self, Scalar negative_slope=0.01) -> Tensor"),
    (TypeRule.COMPARE, ANY, "eq.Tensor(Tensor self, Tensor other) -> Tensor"),
    (TypeRule.COMPARE, ANY, "eq.Scalar(Tensor self, Scalar other) -> Tensor"),
    (TypeRule.COMPARE, ANY, "ne.Tensor(Tensor self, Tensor other) -> Tensor"),
    (TypeRule.COMPARE, ANY, "ne.Scalar(Tensor self, Scalar other) -> Tensor"),
    (TypeRule.COMPARE, ANY, "lt.Tensor(Tensor self, Tensor other) -> Tensor"),
    (TypeRule.COMPARE, ANY, "lt.Scalar(Tensor self, Scalar other) -> Tensor"),
    (TypeRule.COMPARE, ANY, "le.Tensor(Tensor self, Tensor other) -> Tensor"),
    (TypeRule.COMPARE, ANY, "le.Scalar(Tensor self, Scalar other) -> Tensor"),
    (TypeRule.COMPARE, ANY, "gt.Tensor(Tensor self, Tensor other) -> Tensor"),
    (TypeRule.COMPARE, ANY, "gt.Scalar(Tensor self, Scalar other) -> Tensor"),
    (TypeRule.COMPARE, ANY, "ge.Tensor(Tensor self, Tensor other) -> Tensor"),
    (TypeRule.COMPARE, ANY, "ge.Scalar(Tensor self, Scalar other) -> Tensor"),
    (TypeRule.COMPARE, ANY, "isnan(Tensor self) -> Tensor"),
    (TypeRule.COMPARE, ANY, "isinf(Tensor self) -> Tensor"),
    (TypeRule.FREE, BOOL, "signbit(Tensor self) -> Tensor"),
    (TypeRule.FREE, ANY, "view.dtype(Tensor(a) self, ScalarType dtype) -> Tensor(a)"),
    (TypeRule.FREE, BOOL, "logical_not(Tensor self) -> Tensor"),
    (TypeRule.FREE, BOOL, "logical_and(Tensor self, Tensor other) -> Tensor"),
    (TypeRule.FREE, BOOL, "logical_or(Tensor self, Tensor other) -> Tensor"),
    (TypeRule.FREE, BOOL, "logical_xor(Tensor self, Tensor other) -> Tensor"),
    (TypeRule.SAME, INTEGER, "bitwise_not(Tensor self) -> Tensor"),
    (TypeRule.SAME, INTEGER, "bitwise_and.Tensor(Tensor self, Tensor other) -> Tensor"),
    (TypeRule.SAME, INTEGER, "bitwise_and.Scalar(Tensor self, Scalar other) -> Tensor"),
    (TypeRule.SAME, INTEGER, "bitwise_or.Tensor(Tensor self, Tensor other) -> Tensor"),
    (TypeRule.SAME, INTEGER, "bitwise_or.Scalar(Tensor self, Scalar other) -> Tensor"),
    (TypeRule.SAME, INTEGER, "bitwise_xor.Tensor(Tensor self, Tensor other) -> Tensor"),
    (TypeRule.SAME, INTEGER, "bitwise_xor.Scalar(Tensor self, Scalar other) -> Tensor"),
    (TypeRule.SAME, INTEGERS, "bitwise_left_shift.Tensor(Tensor self, Tensor other) -> Tensor"),
    (TypeRule.SAME, INTEGERS, "bitwise_left_shift.Tensor_Scalar(Tensor self, Scalar other) -> Tensor"),
    (TypeRule.SAME, INTEGERS, "bitwise_left_shift.Scalar_Tensor(Scalar self, Tensor other) -> Tensor"),
    (TypeRule.SAME, INTEGERS, "bitwise_right_shift.Scalar_Tensor(Scalar self, Tensor other) -> Tensor"),
    (TypeRule.SAME, INTEGERS, "bitwise_right_shift.Tensor(Tensor self, Tensor other) -> Tensor"),
    (TypeRule.SAME, INTEGERS, "bitwise_right_shift.Tensor_Scalar(Tensor self, Scalar other) -> Tensor"),
    (TypeRule.SAME, ANY, "where.self(Tensor condition, Tensor self, Tensor other) -> Tensor"),
    (TypeRule.SAME, ANY, "where.ScalarOther(Tensor condition, Tensor self, Scalar other) -> Tensor"),
    (TypeRule.SAME, ANY, "where.ScalarSelf(Tensor condition, Scalar self, Tensor other) -> Tensor"),
    (TypeRule.SAME, ANY, "where.Scalar(Tensor condition, Scalar self, Scalar other) -> Tensor"),
    (TypeRule.SAME, ANY, "masked_fill.Scalar(Tensor self, Tensor mask, Scalar value) -> Tensor"),
    (TypeRule.SAME, ANY, "masked_fill.Tensor(Tensor self, Tensor mask, Tensor value) -> Tensor"),
    (TypeRule.SAME, ANY, "sum(Tensor self, *, ScalarType? dtype=None) -> Tensor"),
    (
        TypeRule.SAME,
        ANY,
        "sum.dim_IntList(Tensor self, int[1]? dim, bool keepdim=False, *, ScalarType? dtype=None) -> Tensor",
    ),
    (TypeRule.SAME, FLOAT, "mean(Tensor self, *, ScalarType? dtype=None) -> Tensor"),
    (
        TypeRule.SAME,
        FLOAT,
        "mean.dim(Tensor self, int[1]? dim, bool keepdim=False, *, ScalarType? dtype=None) -> Tensor",
    ),
    (TypeRule.SAME, ANY, "prod(Tensor self, *, ScalarType? dtype=None) -> Tensor"),
    (
        TypeRule.SAME,
        ANY,
        "prod.dim_int(Tensor self, int dim, bool keepdim=False, *, ScalarType? dtype=None) -> Tensor",
    ),
    (TypeRule.SAME, ANY, "max(Tensor self) -> Tensor"),
    (TypeRule.SAME, ANY, "amax(Tensor self, int[1] dim=[], bool keepdim=False) -> Tensor"),
    (TypeRule.SAME, ANY, "min(Tensor self) -> Tensor"),
    (TypeRule.SAME, ANY, "amin(Tensor self, int[1] dim=[], bool keepdim=False) -> Tensor"),
    (TypeRule.SAME, ANY, "max.dim(Tensor self, int dim, bool keepdim=False) -> (Tensor values, Tensor indices)"),
    (TypeRule.SAME, ANY, "min.dim(Tensor self, int dim, bool keepdim=False) -> (Tensor values, Tensor indices)"),
    (TypeRule.FREE, (i64,), "argmax(Tensor self, int? dim=None, bool keepdim=False) -> Tensor"),
    (TypeRule.FREE, (i64,), "argmin(Tensor self, int? dim=None, bool keepdim=False) -> Tensor"),
    (TypeRule.FREE, TRUTH, "any(Tensor self) -> Tensor"),
    (TypeRule.FREE, TRUTH, "any.dim(Tensor self, int dim, bool keepdim=False) -> Tensor"),
    (TypeRule.FREE, TRUTH, "any.dims(Tensor self, int[]? dim=None, bool keepdim=False) -> Tensor"),
    (TypeRule.FREE, TRUTH, "all(Tensor self) -> Tensor"),
    (TypeRule.FREE, TRUTH, "all.dim(Tensor self, int dim, bool keepdim=False) -> Tensor"),
    (TypeRule.FREE, TRUTH, "all.dims(Tensor self, int[]? dim=None, bool keepdim=False) -> Tensor"),
    (TypeRule.SAME, FLOAT, "var(Tensor self, bool unbiased=True) -> Tensor"),
    (TypeRule.SAME, FLOAT, "var.dim(Tensor self, int[1]? dim, bool unbiased=True, bool keepdim=False) -> Tensor"),
    (
        TypeRule.SAME,
        FLOAT,
        "var.correction(Tensor self, int[1]? dim=None, *, Scalar? correction=None, bool keepdim=False) -> Tensor",
    ),
    (TypeRule.SAME, FLOAT, "std(Tensor self, bool unbiased=True) -> Tensor"),
    (TypeRule.SAME, FLOAT, "std.dim(Tensor self, int[1]? dim, bool unbiased=True, bool keepdim=False) -> Tensor"),
    (
        TypeRule.SAME,
        FLOAT,
        "std.correction(Tensor self, int[1]? dim=None, *, Scalar? correction=None, bool keepdim=False) -> Tensor",
    ),
    (
        TypeRule.SAME,
        FLOAT,
        "var_mean.correction(Tensor self, int[1]? dim=None, *, Scalar? correction=None, bool keepdim=False)"
        " -> (Tensor, Tensor)",
    ),
    (TypeRule.SAME, FLOAT, "softmax.int(Tensor self, int dim, ScalarType? dtype=None) -> Tensor"),
    (TypeRule.SAME, FLOAT, "log_softmax.int(Tensor self, int dim, ScalarType? dtype=None) -> Tensor"),
    (TypeRule.SAME, FLOAT, "logsumexp(Tensor self, int[1] dim, bool keepdim=False) -> Tensor"),
    (
        TypeRule.SAME,
        FLOAT,
        "rms_norm(Tensor input, SymInt[] normalized_shape, Tensor? weight=None, float? eps=None) -> Tensor",
    ),
    (
        TypeRule.SAME,
        FLOAT,
        "layer_norm(Tensor input, SymInt[] normalized_shape, Tensor? weight=None, Tensor? bias=None,"
        " float eps=1.0000000000000001e-05, bool cudnn_enable=True) -> Tensor",
    ),
    (
        TypeRule.SAME,
        FLOAT,
        "group_norm(Tensor input, int num_groups, Tensor? weight=None, Tensor? bias=None,"
        " float eps=1.0000000000000001e-05, bool cudnn_enabled=True) -> Tensor",
    ),
    (
        TypeRule.SAME,
        FLOAT,
        "_native_batch_norm_legit_no_training(Tensor input, Tensor? weight, Tensor? bias, Tensor running_mean,"
        " Tensor running_var, float momentum, float eps) -> (Tensor, Tensor, Tensor)",
    ),
    (TypeRule.SAME, NUMBER, "cumsum(Tensor self, int dim, *, ScalarType? dtype=None) -> Tensor"),
    (TypeRule.SAME, NUMBER, "cumprod(Tensor self, int dim, *, ScalarType? dtype=None) -> Tensor"),
    (TypeRule.SAME, ANY, "cummax(Tensor self, int dim) -> (Tensor values, Tensor indices)"),
    (TypeRule.SAME, ANY, "cummin(Tensor self, int dim) -> (Tensor values, Tensor indices)"),
    (TypeRule.SAME, FLOAT, "logcumsumexp(Tensor self, int dim) -> Tensor"),
    (
        TypeRule.SAME,
        NUMBER,
        "convolution(Tensor input, Tensor weight, Tensor? bias, SymInt[] stride, SymInt[] padding, SymInt[] dilation,"
        " bool transposed, SymInt[] output_padding, SymInt groups) -> Tensor",
    ),
    *(
        (
            TypeRule.SAME,
            NUMBER,
            f"max_pool{n}d(Tensor self, int[{n}] kernel_size, int[{n}] stride=[], int[{n}] padding={zero},"
            f" int[{n}] dilation={one}, bool ceil_mode=False) -> Tensor",
        )
        for n, zero, one in ((1, "[0]", "[1]"), (2, 0, 1), (3, 0, 1))
    ),
    *(
        (
            TypeRule.SAME,
            NUMBER,
            f"max_pool{n}d_with_indices(Tensor self, int[{n}] kernel_size, int[{n}] stride=[], int[{n}] padding=0,"
            f" int[{n}] dilation=1, bool ceil_mode=False) -> (Tensor, Tensor)",
        )
        for n in (2, 3)
    ),
    (
        TypeRule.SAME,
        (*FLOAT, i64),
        "avg_pool1d(Tensor self, int[1] kernel_size, int[1] stride=[], int[1] padding=[0], bool ceil_mode=False,"
        " bool count_include_pad=True) -> Tensor",
    ),
    *(
        (
            TypeRule.SAME,
            (*FLOAT, i64),
            f"avg_pool{n}d(Tensor self, int[{n}] kernel_size, int[{n}] stride=[], int[{n}] padding=0,"
            " bool ceil_mode=False, bool count_include_pad=True, int? divisor_override=None) -> Tensor",
        )
        for n in (2, 3)
    ),
    (TypeRule.SAME, FLOAT, "adaptive_avg_pool1d(Tensor self, int[1] output_size) -> Tensor"),
    (TypeRule.SAME, FLOAT, "adaptive_avg_pool2d(Tensor self, SymInt[2] output_size) -> Tensor"),
    (TypeRule.SAME, FLOAT, "adaptive_avg_pool3d(Tensor self, SymInt[3] output_size) -> Tensor"),
    *(
        (TypeRule.SAME, FLOAT, f"adaptive_max_pool{n}d(Tensor self, int[{n}] output_size) -> (Tensor, Tensor)")
        for n in (2, 3)
    ),
    (TypeRule.SAME, NUMBER, "linear(Tensor input, Tensor weight, Tensor? bias=None) -> Tensor"),
    (TypeRule.SAME, NUMBER, "matmul(Tensor self, Tensor other) -> Tensor"),
    (TypeRule.SAME, NUMBER, "mm(Tensor self, Tensor mat2) -> Tensor"),
    (TypeRule.SAME, NUMBER, "bmm(Tensor self, Tensor mat2) -> Tensor"),
    (TypeRule.SAME, NUMBER, "mv(Tensor self, Tensor vec) -> Tensor"),
    (TypeRule.SAME, NUMBER, "dot(Tensor self, Tensor tensor) -> Tensor"),
    (TypeRule.SAME, ANY, "outer(Tensor self, Tensor vec2) -> Tensor"),
    (TypeRule.SAME, NUMBER, "addmm(Tensor self, Tensor mat1, Tensor mat2, *, Scalar beta=1, Scalar alpha=1) -> Tensor"),
    (
        TypeRule.SAME,
        NUMBER,
        "baddbmm(Tensor self, Tensor batch1, Tensor batch2, *, Scalar beta=1, Scalar alpha=1) -> Tensor",
    ),
    (TypeRule.SAME, NUMBER, "addmv(Tensor self, Tensor mat, Tensor vec, *, Scalar beta=1, Scalar alpha=1) -> Tensor"),
    (TypeRule.SAME, NUMBER, "einsum(str equation, Tensor[] tensors, *, int[]? path=None) -> Tensor"),
    (TypeRule.SAME, FLOAT, f"scaled_dot_product_attention({_SDPA}) -> Tensor"),
    (TypeRule.SAME, FLOAT, f"lstm.input(Tensor input, Tensor[] hx, {_LAYERS}) -> (Tensor, Tensor, Tensor)"),
    (TypeRule.SAME, FLOAT, f"gru.input(Tensor input, Tensor hx, {_LAYERS}) -> (Tensor, Tensor)"),
    (TypeRule.SAME, FLOAT, f"rnn_tanh.input(Tensor input, Tensor hx, {_LAYERS}) -> (Tensor, Tensor)"),
    (TypeRule.SAME, FLOAT, f"rnn_relu.input(Tensor input, Tensor hx, {_LAYERS}) -> (Tensor, Tensor)"),
    (TypeRule.SAME, ANY, "t(Tensor(a) self) -> Tensor(a)"),
    (TypeRule.SAME, ANY, "transpose.int(Tensor(a) self, int dim0, int dim1) -> Tensor(a)"),
    (TypeRule.SAME, ANY, "permute(Tensor(a) self, int[] dims) -> Tensor(a)"),
    (TypeRule.SAME, ANY, "view(Tensor(a) self, SymInt[] size) -> Tensor(a)"),
    (TypeRule.SAME, ANY, "_unsafe_view(Tensor self, SymInt[] size) -> Tensor"),
    (TypeRule.SAME, ANY, "unsqueeze(Tensor(a) self, int dim) -> Tensor(a)"),
    (TypeRule.SAME, ANY, "squeeze(Tensor(a) self) -> Tensor(a)"),
    (TypeRule.SAME, ANY, "squeeze.dim(Tensor(a) self, int dim) -> Tensor(a)"),
    (TypeRule.SAME, ANY, "squeeze.dims(Tensor(a) self, int[] dim) -> Tensor(a)"),
    (TypeRule.SAME, ANY, "expand(Tensor(a) self, SymInt[] size, *, bool implicit=False) -> Tensor(a)"),
    (
        TypeRule.SAME,
        ANY,
        "slice.Tensor(Tensor(a) self, int dim=0, SymInt? start=None, SymInt? end=None, SymInt step=1) -> Tensor(a)",
    ),
    (TypeRule.SAME, ANY, "select.int(Tensor(a) self, int dim, SymInt index) -> Tensor(a)"),
    (TypeRule.SAME, ANY, "diagonal(Tensor(a) self, int offset=0, int dim1=0, int dim2=1) -> Tensor(a)"),
    (TypeRule.SAME, ANY, "unfold(Tensor(a) self, int dimension, int size, int step) -> Tensor(a)"),
    (
        TypeRule.SAME,
        ANY,
        "as_strided(Tensor(a) self, SymInt[] size, SymInt[] stride, SymInt? storage_offset=None) -> Tensor(a)",
    ),
    (TypeRule.SAME, ANY, "flip(Tensor self, int[] dims) -> Tensor"),
    (TypeRule.SAME, ANY, "roll(Tensor self, SymInt[1] shifts, int[1] dims=[]) -> Tensor"),
    (TypeRule.SAME, ANY, "repeat(Tensor self, SymInt[] repeats) -> Tensor"),
    (
        TypeRule.SAME,
        ANY,
        "repeat_interleave.self_int(Tensor self, SymInt repeats, int? dim=None, *, SymInt? output_size=None) -> Tensor",
    ),
    (TypeRule.SAME, ANY, "split.Tensor(Tensor(a -> *) self, SymInt split_size, int dim=0) -> Tensor(a)[]"),
    (TypeRule.SAME, ANY, "split_with_sizes(Tensor(a -> *) self, SymInt[] split_sizes, int dim=0) -> Tensor(a)[]"),
    (TypeRule.SAME, ANY, "unbind.int(Tensor(a -> *) self, int dim=0) -> Tensor(a)[]"),
    (TypeRule.SAME, ANY, "cat(Tensor[] tensors, int dim=0) -> Tensor"),
    (TypeRule.SAME, ANY, "stack(Tensor[] tensors, int dim=0) -> Tensor"),
    (TypeRule.SAME, ANY, 'pad(Tensor self, SymInt[] pad, str mode="constant", float? value=None) -> Tensor'),
    (TypeRule.SAME, ANY, "constant_pad_nd(Tensor self, SymInt[] pad, Scalar value=0) -> Tensor"),
    (TypeRule.SAME, ANY, "tril(Tensor self, SymInt diagonal=0) -> Tensor"),
    (TypeRule.SAME, ANY, "triu(Tensor self, SymInt diagonal=0) -> Tensor"),
    (TypeRule.SAME, ANY, "gather(Tensor self, int dim, Tensor index, *, bool sparse_grad=False) -> Tensor"),
    (TypeRule.SAME, ANY, "index_select(Tensor self, int dim, Tensor index) -> Tensor"),
    (TypeRule.SAME, ANY, "index.Tensor(Tensor self, Tensor?[] indices) -> Tensor"),
    (
        TypeRule.SAME,
        ANY,
        "embedding(Tensor weight, Tensor indices, SymInt padding_idx=-1, bool scale_grad_by_freq=False,"
        " bool sparse=False) -> Tensor",
    ),
    (
        TypeRule.SAME,
        ANY,
        "slice_scatter(Tensor self, Tensor src, int dim=0, SymInt? start=None, SymInt? end=None, SymInt step=1)"
        " -> Tensor",
    ),
    (TypeRule.SAME, ANY, "select_scatter(Tensor self, Tensor src, int dim, SymInt index) -> Tensor"),
    (TypeRule.SAME, ANY, "copy(Tensor self, Tensor src, bool non_blocking=False) -> Tensor"),
    (TypeRule.SAME, ANY, "fill.Scalar(Tensor self, Scalar value) -> Tensor"),
    (TypeRule.SAME, ANY, "fill.Tensor(Tensor self, Tensor value) -> Tensor"),
    (TypeRule.SAME, ANY, "clone(Tensor self, *, MemoryFormat? memory_format=None) -> Tensor"),
    (TypeRule.SAME, ANY, "detach(Tensor(a) self) -> Tensor(a)"),
    (TypeRule.SAME, ANY, "alias(Tensor(a) self) -> Tensor(a)"),
    (
        TypeRule.FREE,
        ANY,
        "_to_copy(Tensor self, *, ScalarType? dtype=None, Layout? layout=None, Device? device=None, "
        "bool? pin_memory=None, bool non_blocking=False, MemoryFormat? memory_format=None) -> Tensor",
    ),
    (TypeRule.FREE, ANY, "type_as(Tensor self, Tensor other) -> Tensor"),
    (TypeRule.FREE, ANY, f"full(SymInt[] size, Scalar fill_value, *, {_MAKE}) -> Tensor"),
    (TypeRule.FREE, ANY, f"zeros(SymInt[] size, *, {_MAKE}) -> Tensor"),
    (TypeRule.FREE, ANY, f"ones(SymInt[] size, *, {_MAKE}) -> Tensor"),
    (TypeRule.FREE, ANY, f"empty.memory_format(SymInt[] size, *, {_LIKE}) -> Tensor"),
    (TypeRule.FREE, ANY, f"empty_like(Tensor self, *, {_LIKE}) -> Tensor"),
    (TypeRule.FREE, ANY, f"new_empty(Tensor self, SymInt[] size, *, {_MAKE}) -> Tensor"),
    (TypeRule.FREE, ANY, f"scalar_tensor(Scalar s, *, {_MAKE}) -> Tensor"),
    (TypeRule.FREE, ANY, f"full_like(Tensor self, Scalar fill_value, *, {_LIKE}) -> Tensor"),
    (TypeRule.FREE, ANY, f"zeros_like(Tensor self, *, {_LIKE}) -> Tensor"),
    (TypeRule.FREE, ANY, f"ones_like(Tensor self, *, {_LIKE}) -> Tensor"),
    (TypeRule.FREE, ANY, f"new_full(Tensor self, SymInt[] size, Scalar fill_value, *, {_MAKE}) -> Tensor"),
    (TypeRule.FREE, ANY, f"new_zeros(Tensor self, SymInt[] size, *, {_MAKE}) -> Tensor"),
    (TypeRule.FREE, ANY, f"new_ones(Tensor self, SymInt[] size, *, {_MAKE}) -> Tensor"),
    (TypeRule.FREE, NUMBER, f"arange(Scalar end, *, {_MAKE}) -> Tensor"),
    (TypeRule.FREE, NUMBER, f"arange.start(Scalar start, Scalar end, *, {_MAKE}) -> Tensor"),
    (TypeRule.FREE, NUMBER, f"arange.start_step(Scalar start, Scalar end, Scalar step=1, *, {_MAKE}) -> Tensor"),
    (TypeRule.FREE, ANY, f"eye(SymInt n, *, {_MAKE}) -> Tensor"),
    (TypeRule.FREE, ANY, f"eye.m(SymInt n, SymInt m, *, {_MAKE}) -> Tensor"),
)

_VIEWS = (
    *("t", "transpose.int", "permute", "view", "view.dtype", "unsqueeze", "squeeze", "squeeze.dim", "squeeze.dims"),
    *("expand", "slice.Tensor", "select.int", "diagonal", "unfold", "split.Tensor", "split_with_sizes", "unbind.int"),
    *("as_strided", "detach", "alias"),
)

ALIASES = {
    # The twins of views that copy, such as `slice_copy.Tensor`: tensors are values here.
    **{re.sub(r"^\w+", r"\g<0>_copy", name): name for name in _VIEWS},
    "__and__.Scalar": "bitwise_and.Scalar",
    "__and__.Tensor": "bitwise_and.Tensor",
    "__or__.Scalar": "bitwise_or.Scalar",
    "__or__.Tensor": "bitwise_or.Tensor",
    "__xor__.Scalar": "bitwise_xor.Scalar",
    "__xor__.Tensor": "bitwise_xor.Tensor",
    "__lshift__.Scalar": "bitwise_left_shift.Tensor_Scalar",
    "__lshift__.Tensor": "bitwise_left_shift.Tensor",
    "__rshift__.Scalar": "bitwise_right_shift.Tensor_Scalar",
    "__rshift__.Tensor": "bitwise_right_shift.Tensor",
    "_adaptive_avg_pool2d": "adaptive_avg_pool2d",
    "_adaptive_avg_pool3d": "adaptive_avg_pool3d",
    "concat": "cat",
    "concatenate": "cat",
    "divide.Tensor": "div.Tensor",
    "multiply.Tensor": "mul.Tensor",
    "subtract.Tensor": "sub.Tensor",
    "true_divide.Tensor": "div.Tensor",
}
"""Other names of overloads of the table."""

SCHEMAS = {schema.name: schema for schema in (parse_schema(*line) for line in _TABLE)}
"""The schema of each overload by name."""
