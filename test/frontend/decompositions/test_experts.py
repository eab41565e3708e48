"""Mixtures of experts and samplers: programs that route by topk, sort, gather and scatter, right at every level."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

torch = pytest.importorskip("torch")
F = torch.nn.functional

TOKENS, WIDTH, INNER, EXPERTS, CHOSEN = 6, 8, 4, 8, 3


def drawn(*shape: int) -> Any:
    return torch.randn(shape, generator=torch.Generator().manual_seed(sum(shape))) * 0.4


UP, DOWN, GATE = drawn(EXPERTS, INNER, WIDTH), drawn(EXPERTS, WIDTH, INNER), drawn(EXPERTS, WIDTH)
IMAGES = drawn(TOKENS * WIDTH)


def sorted_by_expert(x: Any) -> Any:
    """Qwen3-MoE: tokens sorted by their experts, each times the weights of its own, and added back."""
    weight, chosen = torch.topk(F.softmax(F.linear(x, GATE).float(), -1), CHOSEN, -1)
    weight = weight / weight.sum(-1, keepdim=True)
    expert, order = torch.sort(chosen.flatten())
    inner = torch.einsum("sh,soh->so", x[order // CHOSEN], UP[expert])
    outer = torch.einsum("si,shi->sh", F.silu(inner), DOWN[expert]) * weight.flatten()[order][:, None]
    load = F.one_hot(chosen, EXPERTS).float().mean((0, 1))
    return torch.zeros_like(x).index_add(0, order // CHOSEN, outer), load


def grouped(x: Any) -> Any:
    """transformers: how many tokens each expert has, by histc; products of groups of rows; back by positions."""
    chosen = torch.topk(F.linear(x, GATE), 2, -1)[1].reshape(-1)
    expert, order = torch.sort(chosen)
    ends = torch.histc(expert.float(), bins=EXPERTS, min=0, max=EXPERTS - 1).cumsum(0, dtype=torch.int32)
    rows = x[order // 2].bfloat16()
    product = torch._grouped_mm(rows, UP.bfloat16().transpose(-2, -1), offs=ends)
    back = torch.empty_like(order)
    back[order] = torch.arange(order.shape[0])
    return product[back].float().view(TOKENS, 2, INNER).sum(1)


def groups_of_experts(x: Any) -> Any:
    """DeepSeek: the best groups of experts, then the best experts in these, weighted without their bias."""
    scores = F.linear(x, GATE).sigmoid()
    biased = scores + torch.linspace(-0.1, 0.1, EXPERTS)
    of_groups = biased.view(-1, 4, 2).topk(2, -1)[0].sum(-1)
    best = torch.topk(of_groups, 2, -1, sorted=False)[1]
    mask = torch.zeros_like(of_groups).scatter_(1, best, 1).bool()[..., None].expand(-1, 4, 2).reshape(-1, EXPERTS)
    chosen = torch.topk(biased.masked_fill(~mask, float("-inf")), CHOSEN, -1, sorted=False)[1]
    weight = scores.gather(1, chosen)
    return torch.zeros(TOKENS, EXPERTS).scatter_add_(1, chosen, weight / (weight.sum(-1, keepdim=True) + 1e-20))


def top_p(logits: Any) -> Any:
    """Sampling from the most probable tokens: topk as a threshold, a sort and its inverse by scatter."""
    few = logits.masked_fill(logits < logits.topk(5)[0][..., -1:], float("-inf"))
    p, order = F.softmax(few, -1).sort(descending=True)
    kept = torch.where(p.cumsum(-1) - p < 0.9, p, 0)
    return torch.zeros_like(p).scatter(-1, order, kept), kept.argmax(-1)


def images_among_tokens(x: Any) -> Any:
    """What vision models do: the features of images in the place of their tokens."""
    mask = (x[:, :1] > 0).expand(-1, WIDTH)
    return x.masked_scatter(mask, IMAGES)


@pytest.mark.parametrize("program", [sorted_by_expert, grouped, groups_of_experts, top_p, images_among_tokens])
def test_every_level_is_right(program: Callable[[Any], Any], check_levels: Callable[..., int]) -> None:
    check_levels(program, (drawn(TOKENS, WIDTH),))


@pytest.mark.parametrize("kind", ["Mixtral", "Qwen3Moe"])
def test_models_of_transformers(kind: str) -> None:
    transformers = pytest.importorskip("transformers")
    import deplodock

    config = getattr(transformers, f"{kind}Config")(
        vocab_size=61,
        hidden_size=16,
        intermediate_size=24,
        moe_intermediate_size=24,
        num_hidden_layers=1,
        num_attention_heads=2,
        num_key_value_heads=1,
        head_dim=8,
        num_experts=4,
        num_local_experts=4,
        num_experts_per_tok=2,
        max_position_embeddings=32,
    )
    torch.manual_seed(0)
    model = transformers.AutoModelForCausalLM.from_config(config).eval()
    ids = torch.tensor([[3, 7, 1, 60, 3]])
    with torch.no_grad():
        torch.testing.assert_close(
            deplodock.compile(lambda ids: model(ids).logits, (ids,))(ids), model(ids).logits, rtol=1e-3, atol=1e-4
        )
