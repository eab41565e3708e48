"""A decoder layer with random weights, as the rows of `deplodock bench` and `decoder_layer.py` measure it."""

from __future__ import annotations

import torch
from torch import nn

Tensor = torch.Tensor


class DecoderLayer(nn.Module):
    """Attention with rotary positions and grouped queries, and a gated MLP, each behind a norm and in a residual."""

    def __init__(self, hidden: int, inner: int, kv: int, head: int, *, bias: bool) -> None:
        super().__init__()
        self.head = head
        self.norm = nn.RMSNorm(hidden, eps=1e-6)
        self.query, self.key, self.value = (nn.Linear(hidden, width, bias=bias) for width in (hidden, kv, kv))
        self.output = nn.Linear(hidden, hidden, bias=False)
        self.inner_norm = nn.RMSNorm(hidden, eps=1e-6)
        self.gate, self.up = (nn.Linear(hidden, inner, bias=False) for _ in range(2))
        self.down = nn.Linear(inner, hidden, bias=False)

    def forward(self, x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
        """The hidden state after the layer, all of shape (1, s, hidden); cos and sin are (s, head)."""
        normed = self.norm(x)
        query, key, value = (
            project(normed).unflatten(-1, (-1, self.head)).transpose(1, 2)
            for project in (self.query, self.key, self.value)
        )
        query, key = rotated(query, cos, sin), rotated(key, cos, sin)
        attended = nn.functional.scaled_dot_product_attention(query, key, value, is_causal=True, enable_gqa=True)
        x = x + self.output(attended.transpose(1, 2).flatten(-2))
        normed = self.inner_norm(x)
        return x + self.down(nn.functional.silu(self.gate(normed)) * self.up(normed))


def rotated(x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
    """Rotary positions in the half-split form of transformers."""
    first, second = x.chunk(2, -1)
    return x * cos + torch.cat([-second, first], -1) * sin


def layer_and_inputs(
    s: int, hidden: int, inner: int, kv: int, head: int, bias: int, type: torch.dtype
) -> tuple[DecoderLayer, Tensor, Tensor, Tensor]:
    """A layer of these widths, and what it takes: a hidden state of s tokens, and the cosines and sines of rotations.

    Args:
        s: tokens of the sequence.
        hidden: width of the hidden state.
        inner: width of the gated MLP.
        kv: width of all keys, and of all values.
        head: width of a head.
        bias: 1 where queries, keys and values have one, else 0.
        type: of weights, state and rotations.
    """
    layer = DecoderLayer(hidden, inner, kv, head, bias=bool(bias)).requires_grad_(False).to(type)
    angles = torch.outer(torch.arange(s), 10000 ** -(torch.arange(0, head, 2) / head))
    angles = torch.cat([angles, angles], -1)
    return layer, torch.randn(1, s, hidden, dtype=type), angles.cos().to(type), angles.sin().to(type)
