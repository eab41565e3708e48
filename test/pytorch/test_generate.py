"""`generate` of transformers on a compiled model: what is compiled, and what is said of it."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from typing import Any

import pytest
import torch

transformers = pytest.importorskip("transformers")


@pytest.fixture(autouse=True)
def _fresh() -> Iterator[None]:  # pyright: ignore[reportUnusedFunction]
    torch._dynamo.reset()
    yield
    torch._dynamo.reset()


def told(caplog: pytest.LogCaptureFixture, count: int, **cache: str) -> list[str]:
    """What the logger says while a small Llama generates so many tokens, which are right."""
    torch.manual_seed(0)
    sizes = {"hidden_size": 8, "intermediate_size": 8, "num_hidden_layers": 1, "num_attention_heads": 1}
    config = transformers.LlamaConfig(vocab_size=16, max_position_embeddings=16, **sizes)
    model = transformers.LlamaForCausalLM(config).eval()
    prompt = torch.tensor([[3, 1, 4, 1, 5]])
    options: dict[str, Any] = {"min_new_tokens": count, "max_new_tokens": count, "do_sample": False, "pad_token_id": 0}
    wanted = model.generate(prompt, **options, **cache)
    model.forward = torch.compile(model.forward, backend="deplodock")
    with caplog.at_level(logging.INFO, "deplodock"):
        assert model.generate(prompt, **options, **cache).equal(wanted)
    return [record.getMessage() for record in caplog.records if record.name == "deplodock"]


def test_a_static_cache_takes_two_sets_of_shapes(caplog: pytest.LogCaptureFixture) -> None:
    messages = told(caplog, 4, cache_implementation="static")
    assert len(messages) == 2
    assert all("as 1 programs" in message and "its set 1 of shapes" in message for message in messages)


def test_a_cache_that_grows_is_told_of(caplog: pytest.LogCaptureFixture) -> None:
    *_, reason, last = told(caplog, 4)
    assert "again, for set 2 of shapes: argument" in reason
    assert "(1, 1, 7, 8)" in reason
    assert "its set 2 of shapes (2 of 16 kept)" in last


@pytest.mark.filterwarnings("error:deplodock leaves")
def test_prompts_of_other_lengths_are_compiled_whole() -> None:
    torch.manual_seed(0)
    sizes = {"hidden_size": 8, "intermediate_size": 8, "num_hidden_layers": 1, "num_attention_heads": 1}
    config = transformers.Qwen2Config(vocab_size=16, max_position_embeddings=16, **sizes, num_key_value_heads=1)
    model = transformers.Qwen2ForCausalLM(config).eval().bfloat16()
    prompts = [torch.tensor([[3, 1, 4, 1, 5, 9][:length]]) for length in (4, 5)]
    options: dict[str, Any] = {"max_new_tokens": 2, "do_sample": False, "pad_token_id": 0}
    wanted = [model.generate(prompt, **options) for prompt in prompts]
    model.forward = torch.compile(model.forward, backend="deplodock")
    assert all(model.generate(prompt, **options).equal(own) for prompt, own in zip(prompts, wanted, strict=True))
