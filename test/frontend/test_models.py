"""Models of transformers, made from configurations with random weights, saved, and read back by folder."""

from __future__ import annotations

import io
import json
import pickle
import re
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from xdsl.context import Context

from deplodock.errors import InvalidInputError, UnsupportedError
from deplodock.frontend.models import read_model
from deplodock.frontend.program import CapturedProgram
from deplodock.interpreters.evaluate import evaluate
from deplodock.interpreters.simulate import simulate
from deplodock.passes.driver import Level, lower, new_context

transformers = pytest.importorskip("transformers")

SIZES = {"vocab_size": 64, "bos_token_id": None, "eos_token_id": None, "pad_token_id": None}
DECODER = {
    "hidden_size": 64, "intermediate_size": 96, "num_hidden_layers": 2, "num_attention_heads": 4,
    "num_key_value_heads": 2, "max_position_embeddings": 32, **SIZES
}  # fmt: skip
CONFIGS = {
    "llama": lambda: transformers.LlamaConfig(**DECODER),
    "tied": lambda: transformers.LlamaConfig(**(DECODER | {"num_hidden_layers": 1, "tie_word_embeddings": True})),
    "qwen2": lambda: transformers.Qwen2Config(**DECODER),
    "qwen3": lambda: transformers.Qwen3Config(**(DECODER | {"num_hidden_layers": 1, "head_dim": 16})),
    "gpt2": lambda: transformers.GPT2Config(n_embd=64, n_layer=1, n_head=4, n_positions=32, **SIZES),
    "gemma2": lambda: transformers.Gemma2Config(
        **(DECODER | {"num_hidden_layers": 1, "head_dim": 16, "sliding_window": 4, "attn_logit_softcapping": 2.0})
    ),
}


@pytest.fixture(scope="session")
def saved(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], tuple[Path, Any]]:
    """A folder with a model of a configuration, and the model; made once."""
    made: dict[str, tuple[Path, Any]] = {}

    def save(name: str) -> tuple[Path, Any]:
        if name not in made:
            transformers.logging.disable_progress_bar()
            torch.manual_seed(0)
            model = transformers.AutoModelForCausalLM.from_config(CONFIGS[name]()).eval()
            folder = tmp_path_factory.mktemp(name)
            model.save_pretrained(folder)
            made[name] = folder, model
        return made[name]

    return save


@pytest.fixture(scope="module")
def context() -> Context:
    return new_context()


def close(got: torch.Tensor, wanted: torch.Tensor) -> None:
    torch.testing.assert_close(got.detach(), wanted.detach(), rtol=1e-4, atol=1e-5)


def at_kernel_level(program: CapturedProgram, context: Context) -> torch.Tensor:
    lower(program.module, context, Level.KERNEL)
    simulation = simulate(program.module, [value.detach().numpy() for value in program.inputs])
    assert not simulation.findings
    (output,) = simulation.outputs
    return torch.from_numpy(output)


def test_llama_on_the_simulator(saved: Callable[[str], tuple[Path, Any]], context: Context) -> None:
    folder, model = saved("llama")
    program = read_model(str(folder), seq_len=8)
    assert program.names[:2] == ("input_ids", "p_model_embed_tokens_weight")
    logits = at_kernel_level(program, context)
    close(logits, model(program.inputs[0]).logits)


def test_a_layer_of_qwen2_on_the_simulator(saved: Callable[[str], tuple[Path, Any]], context: Context) -> None:
    folder, model = saved("qwen2")
    program = read_model(str(folder), layer=1, seq_len=8)
    assert program.names[0] == "hidden_states"
    assert "p_self_attn_q_proj_weight" in program.names
    state = at_kernel_level(program, context)
    outputs = model(program_inputs(folder), output_hidden_states=True)
    close(program.inputs[0], outputs.hidden_states[1])
    close(model.model.norm(state), outputs.hidden_states[2])


def program_inputs(folder: Path) -> torch.Tensor:
    """The token ids that a program of the same seed gets."""
    vocabulary = transformers.AutoConfig.from_pretrained(folder).vocab_size
    return torch.randint(vocabulary, (1, 8), generator=torch.Generator().manual_seed(0))


@pytest.mark.parametrize("name", ["qwen3", "gpt2", "gemma2"])
def test_logits_are_those_of_the_model(saved: Callable[[str], tuple[Path, Any]], context: Context, name: str) -> None:
    folder, model = saved(name)
    program = read_model(str(folder), seq_len=8)
    lower(program.module, context, Level.TENSOR)
    (logits,) = evaluate(program.module, [value.detach().numpy() for value in program.inputs])
    close(torch.from_numpy(logits.copy()), model(program_inputs(folder)).logits)


def test_without_weights(saved: Callable[[str], tuple[Path, Any]], tmp_path: Path) -> None:
    CONFIGS["gpt2"]().save_pretrained(tmp_path)
    program = read_model(str(tmp_path), layer=0, seq_len=4, weights="none")
    assert {value.device.type for value in program.inputs} == {"meta"}
    with pytest.raises(InvalidInputError, match="the model cannot be read"):
        read_model(str(tmp_path))
    with pytest.raises(InvalidInputError, match="has 1 layers: --layer is 0 to 0"):
        read_model(str(tmp_path), layer=1, weights="none")
    with pytest.raises(InvalidInputError, match="at most 32 tokens: --seq-len is 64"):
        read_model(str(tmp_path), seq_len=64, weights="none")


def test_a_model_that_is_not_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)
    for name in (str(tmp_path), "no-such-owner/no-such-model"):
        with pytest.raises(InvalidInputError, match=f"^{name}: error: the model cannot be read: "):
            read_model(name, weights="none")


def test_tied_weights_are_one_argument(saved: Callable[[str], tuple[Path, Any]]) -> None:
    folder, _ = saved("tied")
    program = read_model(str(folder), seq_len=4)
    assert [name for name in program.names if "head" in name or "embed" in name] == ["p_lm_head_weight"]


def test_torch_compile_of_llama(saved: Callable[[str], tuple[Path, Any]]) -> None:
    _, model = saved("tied")
    torch._dynamo.reset()
    ids = torch.arange(8)[None]
    with torch.no_grad():
        got = torch.compile(model, backend="deplodock")(ids, use_cache=False).logits
        torch.testing.assert_close(got, model(ids).logits)


GPT2 = {
    "model_type": "gpt2",
    "architectures": ["GPT2LMHeadModel"],
    "n_embd": 32,
    "n_layer": 1,
    "n_head": 2,
    "n_positions": 8,
}


def folder_with(path: Path, config: object, **files: bytes) -> str:
    """A folder with a configuration, as JSON or as text, and files, in whose names `__` stands for a dot."""
    (path / "config.json").write_text(config if isinstance(config, str) else json.dumps(config))
    for name, data in files.items():
        (path / name.replace("__", ".")).write_bytes(data)
    return str(path)


@pytest.mark.parametrize(
    ("config", "reason"),
    [
        ({**GPT2, "n_embd": 1e9}, "Field 'n_embd' expected int, got float"),
        ({**GPT2, "n_layer": "two"}, "Field 'n_layer' expected int, got str"),
        ({**GPT2, "vocab_size": None}, "Field 'vocab_size' expected int, got NoneType"),
        ({**GPT2, "n_head": 0}, "ZeroDivisionError"),
        ({**GPT2, "n_head": 5}, "must be divisible by num_heads"),
        ({**GPT2, "activation_function": "nope"}, "KeyError: 'nope'"),
        ({"model_type": "nonesuch"}, "does not recognize this architecture"),
        ([1], "Should have a `model_type` key"),
        ({}, "Should have a `model_type` key"),
        ("{", "not a valid JSON file"),
        ("", "not a valid JSON file"),
    ],
)
def test_a_configuration_that_is_wrong_is_one_line(tmp_path: Path, config: object, reason: str) -> None:
    name = folder_with(tmp_path, config)
    with pytest.raises(InvalidInputError) as caught:
        read_model(name, seq_len=4, weights="none")
    message = str(caught.value)
    assert message.startswith(f"{name}: error: the model cannot be read: ")
    assert reason in message
    assert "\n" not in message


class RunsCode:
    """An object whose pickle writes a file when it is read."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self) -> tuple[Any, ...]:
        return (open, (str(self.path), "w"))


@pytest.mark.parametrize("broken", ["empty", "garbage", "index", "pickle of garbage", "pickle of code", "other shapes"])
def test_weights_that_are_broken_are_one_line(tmp_path: Path, broken: str) -> None:
    mark = tmp_path / "mark"
    shapes = io.BytesIO()
    torch.save({"transformer.wte.weight": torch.zeros(3, 3)}, shapes)
    files = {
        "empty": {"model__safetensors": b""},
        "garbage": {"model__safetensors": b"garbage"},
        "index": {"model__safetensors__index__json": b"{}"},
        "pickle of garbage": {"pytorch_model__bin": b"garbage"},
        "pickle of code": {"pytorch_model__bin": pickle.dumps(RunsCode(mark))},
        "other shapes": {"pytorch_model__bin": shapes.getvalue()},
    }
    name = folder_with(tmp_path, GPT2, **files[broken])
    with pytest.raises(InvalidInputError) as caught:
        read_model(name, seq_len=4)
    assert re.fullmatch(f"{name}: error: the model cannot be read: .+", str(caught.value))
    assert not mark.exists()


def test_code_that_comes_with_a_model_is_not_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    mark = tmp_path / "mark"
    code = f"open({str(mark)!r}, 'w')\nclass C: pass\n".encode()
    own = {"auto_map": {"AutoConfig": "own.C", "AutoModelForCausalLM": "own.C"}}
    name = folder_with(tmp_path, {"model_type": "own", "architectures": ["OwnForCausalLM"], **own}, own__py=code)
    monkeypatch.setattr("sys.stdin", io.StringIO("y\n" * 10))
    with pytest.raises(UnsupportedError, match="the model is code that comes with it"):
        read_model(name, seq_len=4, weights="none")
    # A model that transformers has is read without that code.
    folder_with(tmp_path, {**GPT2, **own}, own__py=code)
    read_model(name, seq_len=4, weights="none")
    assert not mark.exists()


def test_a_folder_that_is_not_there_is_said_at_once(tmp_path: Path) -> None:
    start = time.monotonic()
    for name in (str(tmp_path / "nonesuch"), "./some/deep/folder"):
        with pytest.raises(
            InvalidInputError, match=f"^{name}: error: the model cannot be read: there is no such folder$"
        ):
            read_model(name, weights="none")
    assert time.monotonic() - start < 10


def test_an_encoder_and_a_decoder(tmp_path: Path, context: Context) -> None:
    torch.manual_seed(0)
    config = transformers.T5Config(
        vocab_size=61, d_model=32, d_kv=8, d_ff=48, num_layers=1, num_heads=4, decoder_start_token_id=0
    )
    model = transformers.T5ForConditionalGeneration(config).eval()
    model.save_pretrained(tmp_path)
    program = read_model(str(tmp_path), seq_len=6)
    assert program.names[:2] == ("input_ids", "decoder_input_ids")
    lower(program.module, context, Level.TENSOR)
    (logits,) = evaluate(program.module, [value.detach().numpy() for value in program.inputs])
    ids, following = program.inputs[:2]
    close(torch.from_numpy(logits.copy()), model(ids, decoder_input_ids=following).logits)


def test_other_inputs_are_refused_by_name(tmp_path: Path) -> None:
    transformers.CLIPConfig(architectures=["CLIPModel"]).save_pretrained(tmp_path)
    with pytest.raises(UnsupportedError, match=r"^CLIPModel takes input_ids in a form of its own"):
        read_model(str(tmp_path), weights="none")
