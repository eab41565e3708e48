"""The forms in which `deplodock.compile` takes programs, arguments and results, and what it keeps of them."""

from __future__ import annotations

import gc
import logging
import re
import warnings
import weakref
from typing import Any, NamedTuple

import numpy as np
import pytest
import torch
from torch import nn

import deplodock
from deplodock.pytorch.compiled import CompiledProgram
from deplodock.pytorch.function import CompiledFunction

Tensor = torch.Tensor


def scaled(x: Tensor, *, scale: Tensor, mask: Tensor | None = None) -> Tensor:
    return x * scale if mask is None else torch.where(mask, x, scale)


def same(got: Any, wanted: Any) -> None:
    torch.testing.assert_close(got, wanted, rtol=1e-5, atol=1e-6)


def test_keywords_come_in_any_order() -> None:
    x, scale = torch.arange(3.0), torch.ones(3)
    compiled = deplodock.compile(scaled, (x,), {"scale": scale, "mask": x > 1})
    same(compiled(x, mask=x > 0, scale=scale * 2), scaled(x, mask=x > 0, scale=scale * 2))
    with pytest.raises(
        deplodock.InvalidInputError,
        match=r"arguments \(\*,\) and {'mask': \*, 'scale': \*}, got the arguments \(\*,\) and {'scale': \*}",
    ):
        compiled(x, scale=scale)
    with pytest.raises(deplodock.InvalidInputError, match=r"scale must be torch.float32 of shape \(3,\), got"):
        compiled(x, scale=scale[:2], mask=x > 0)
    same(deplodock.compile(scaled, (x,), example_kwargs={"scale": scale})(x, scale=x), x * x)


def test_keywords_alone() -> None:
    compiled = deplodock.compile(lambda *, x: x * 2, example_kwargs={"x": torch.ones(2)})
    same(compiled(x=torch.arange(2.0)), torch.tensor([0.0, 2.0]))


def test_a_decorated_function_is_compiled_for_each_set_of_shapes(caplog: pytest.LogCaptureFixture) -> None:
    @deplodock.compile
    def double(x: Tensor, times: int = 2) -> dict[str, Tensor]:
        """Twice."""
        return {"product": x * times}

    with caplog.at_level(logging.INFO, "deplodock"):
        for x in (torch.ones(3), torch.ones(2, 2), torch.zeros(3), torch.arange(6.0).view(2, 3).t()):
            got = double(x)["product"]
            same(got, x * 2)
            assert got.stride() == (x * 2).stride()
        same(double(x, times=3)["product"], x * 3)
        same(double(x.double())["product"], x.double() * 2)
    assert isinstance(double, CompiledFunction)
    assert (double.__name__, double.__doc__, len(double.programs)) == ("double", "Twice.", 5)
    told = [record.getMessage() for record in caplog.records if record.name == "deplodock"]
    assert len(told) == 5
    assert "compiled test_a_decorated" in told[1]
    assert re.search(r" in \d+\.\d s, \d+\.\d of them to capture it, ", told[1])
    assert "for a tensor of shape (2, 2) in " in told[1]
    assert "its set 2 of shapes" in told[1]


def test_the_eighth_set_of_shapes_is_warned_of(caplog: pytest.LogCaptureFixture) -> None:
    run = deplodock.compile(torch.sin)
    for extent in range(1, 10):
        run(torch.ones(extent))
    (record,) = (record for record in caplog.records if record.name == "deplodock")
    assert record.levelno == logging.WARNING
    message = record.getMessage()
    assert "its set 8 of shapes (8 of 16 kept): argument 0 was a tensor of shape (7,)" in message
    assert message.endswith("each takes a compilation, so pad to fewer")


def test_a_decorated_function_that_asks_for_offsets() -> None:
    run = deplodock.compile(lambda x: x + x.storage_offset())
    x = torch.arange(6.0).view(3, 2)
    for row in range(3):
        same(run(x[row:]), x[row:] + 2 * row)
        same(run(x[row:]), x[row:] + 2 * row)
    for row in range(3):
        # The shape is the same, and the offset another.
        same(run(x[row : row + 1]), x[row : row + 1] + 2 * row)


def test_options_of_the_decorator() -> None:
    @deplodock.compile(target="a100")
    def next_number(x: Tensor) -> Tensor:
        return x + 1

    same(next_number(torch.zeros(2)), torch.ones(2))
    (program,) = next_number.programs.values()
    assert "#kernel.target<sm_80" in str(program.runner.module)


def test_a_module_without_examples() -> None:
    model = nn.Linear(3, 2).eval()
    run = deplodock.compile(model)
    with torch.no_grad():
        for rows in (1, 4):
            same(run(torch.ones(rows, 3)), model(torch.ones(rows, 3)))
        model.weight.zero_()
        same(run(torch.ones(4, 3)), model(torch.ones(4, 3)))


def test_exported_programs() -> None:
    class Step(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.inner = nn.Linear(3, 3)
            self.register_buffer("count", torch.zeros(1))

        def forward(self, x: Tensor, *, scale: Tensor) -> tuple[Tensor, Tensor]:
            self.count += 1
            return self.inner(x) * scale, self.count * 2

    x, scale = torch.randn(2, 3), torch.randn(3)
    exported = torch.export.export(Step(), (x,), {"scale": scale})
    compiled = deplodock.compile(exported)
    wanted = exported.module()
    with torch.no_grad():
        # The buffer that both write into is the exported program's.
        for count in (1, 3):
            (got, doubled), (own, after) = compiled(x + 1, scale=scale), wanted(x + 1, scale=scale)
            same(got, own)
            assert (doubled.item(), after.item()) == (2 * count, 2 * count + 2)
    assert isinstance(compiled, CompiledProgram)


def test_exported_programs_of_other_shapes() -> None:
    rows = torch.export.Dim("rows", min=2)
    exported = torch.export.export(nn.ReLU(), (torch.ones(4, 3),), dynamic_shapes=({0: rows},))
    x = torch.randn(7, 3)
    same(deplodock.compile(exported, (x,))(x), x.relu())


class Pair(NamedTuple):
    first: Tensor
    second: list[Tensor | None]


def test_named_tuples() -> None:
    run = lambda pair: Pair(pair.first * 2, [None, pair.second[0] + 1])  # noqa: E731
    given = Pair(torch.ones(2), [torch.zeros(3)])
    got = deplodock.compile(run, (given,))(given)
    assert isinstance(got, Pair)
    same(got.first, torch.full((2,), 2.0))
    same(got.second[1], torch.ones(3))


def llama() -> Any:
    transformers = pytest.importorskip("transformers")
    sizes = {"hidden_size": 16, "intermediate_size": 24, "num_hidden_layers": 2, "vocab_size": 32}
    heads = {"num_attention_heads": 4, "num_key_value_heads": 2}
    return transformers.LlamaForCausalLM(transformers.LlamaConfig(**sizes, **heads, max_position_embeddings=16)).eval()


@torch.no_grad()
def test_outputs_and_caches_of_transformers() -> None:
    torch.manual_seed(0)
    model, ids = llama(), torch.tensor([[3, 1, 4, 1]])
    wanted = model(input_ids=ids, use_cache=True)
    got = deplodock.compile(model, (), {"input_ids": ids, "use_cache": True})(input_ids=ids, use_cache=True)
    assert type(got) is type(wanted)
    same(got.logits, wanted.logits)
    cache, own = got.past_key_values, wanted.past_key_values
    assert type(cache) is type(own)
    assert cache.get_seq_length() == 4
    for one, other in zip(cache.layers, own.layers, strict=True):
        same((one.keys, one.values), (other.keys, other.values))
    # The next token, from what the prompt left.
    token = torch.tensor([[5]])
    step = deplodock.compile(model, (token,), {"past_key_values": cache})
    following, right = step(token, past_key_values=cache), model(token, past_key_values=own)
    same(following.logits, right.logits)
    assert (cache.get_seq_length(), following.past_key_values.get_seq_length()) == (4, 5)


def test_all_that_stands_against_a_program_is_said_at_once() -> None:
    def program(x: Tensor) -> Tensor:
        y = torch.linalg.eigvalsh(x) + torch.linalg.qr(x)[0][0]
        return torch.linalg.eigvalsh(y.expand(3, 3)).sum() + torch.linalg.det(x)

    line = program.__code__.co_firstlineno
    with pytest.raises(deplodock.UnsupportedError) as caught:
        deplodock.compile(program, (torch.ones(3, 3),))
    said = str(caught.value).splitlines()
    assert [text.rpartition("/")[2].split(": ")[0] for text in said] == [
        f"test_interface.py:{line + 1}",
        f"test_interface.py:{line + 1}",
        f"test_interface.py:{line + 2}",
        f"test_interface.py:{line + 2}",
    ]
    for text, name in zip(said, ("eigvalsh", "qr", "eigvalsh", "det"), strict=True):
        assert name in text


def test_all_arguments_that_are_not_supported_are_said_at_once() -> None:
    attend = nn.functional.scaled_dot_product_attention
    program = lambda x: attend(x, x, x, dropout_p=0.5) + attend(x, x, x * 2, dropout_p=0.25)  # noqa: E731
    with pytest.raises(deplodock.UnsupportedError, match=r"(?s)dropout_p = 0.5 .*\n.*dropout_p = 0.25 is not"):
        deplodock.compile(program, (torch.ones(4, 4),))


def gradient_warnings(caught: list[warnings.WarningMessage]) -> list[warnings.WarningMessage]:
    return [found for found in caught if "without gradients" in str(found.message)]


def test_lost_gradients_are_warned_of_once() -> None:
    x = torch.ones(3, requires_grad=True)
    for compiled in (deplodock.compile(torch.sin, (torch.ones(3),)), deplodock.compile(torch.sin)):
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            compiled(torch.ones(3))
            with torch.no_grad():
                compiled(x)
            assert not gradient_warnings(caught)
            compiled(x)
            compiled(x)
        (found,) = gradient_warnings(caught)
        assert found.filename == __file__
        assert "results without gradients, but x require" in str(found.message)


@pytest.mark.parametrize("learns", [False, True])
def test_gradients_of_parameters_are_lost_where_a_module_learns(learns: bool) -> None:
    compiled = deplodock.compile(nn.Linear(3, 3).train(learns), (torch.ones(2, 3),))
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        compiled(torch.ones(2, 3))
    assert ["p_weight, p_bias" in str(found.message) for found in gradient_warnings(caught)] == [True] * learns


def test_messages_show_no_values() -> None:
    compiled = deplodock.compile(torch.sin, (torch.ones(3),))
    with pytest.raises(deplodock.InvalidInputError, match=r"a tensor of shape \(3,\), got a numpy.ndarray$") as caught:
        compiled(np.arange(1000.0))
    assert len(str(caught.value)) < 200
    with pytest.raises(deplodock.InvalidInputError, match=r"for the arguments \(\*,\), got the arguments \(\)$"):
        compiled()


def test_a_program_says_what_it_is() -> None:
    compiled = deplodock.compile(torch.sin, (torch.ones(3, 2),))
    assert repr(compiled) == "<CompiledProgram of (x: torch.float32[3, 2]) on cpu>"


def test_no_argument_is_kept() -> None:
    model = nn.Linear(64, 64).eval()
    x = torch.ones(1000, 64)
    compiled = deplodock.compile(model, (x,))
    with torch.no_grad():
        result = compiled(x)
    kept = [weakref.ref(x), weakref.ref(x.untyped_storage()), weakref.ref(result)]
    del x, result
    gc.collect()
    assert [found() for found in kept] == [None] * 3
    large = [
        value
        for value in gc.get_objects()
        if isinstance(value, torch.Tensor)
        and value.shape == (1000, 64)
        and value.device.type == "cpu"
        and type(value) is torch.Tensor
    ]
    assert not large
