"""Models of the transformers library, by a local folder or a Hugging Face id."""

from __future__ import annotations

import inspect
import math
import pickle
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import Any, Literal

import torch
from torch import nn

from deplodock.errors import Error, InvalidInputError, UnsupportedError
from deplodock.frontend.capture import describe, export
from deplodock.frontend.program import CapturedProgram, leaf_names
from deplodock.frontend.tracing import quiet

_ATTENTION = "deplodock"
_SEQ_LEN = 128
_LANGUAGE_MODELS = ("ForCausalLM", "LMHeadModel")


def read_model(
    name: str,
    *,
    layer: int | None = None,
    seq_len: int | None = None,
    weights: Literal["read", "random", "none"] = "read",
    seed: int = 0,
) -> CapturedProgram:
    """Capture the forward pass of a model, or of one of its layers, in float32 for one sequence without padding.

    Code that comes with a model is not run: models are those that transformers itself has.

    Args:
        name: a folder with a `config.json`, or a Hugging Face id.
        layer: the number of a layer, from 0: the program takes what the model passes to that layer; by default all.
        seq_len: the tokens of the sequence; by default 128, or as many as the model takes.
        weights: whether to read the weights, or to draw them as the model does before it is trained; without them
            parameters have no values (they are on `meta`).
        seed: the seed of the drawn token ids, and weights.

    Raises:
        InvalidInputError: there is no such model or layer, or transformers is not installed.
        UnsupportedError: the model uses something that deplodock does not support.
    """
    transformers = _transformers()
    with _reading(name):
        _find(name)
        model = _load(transformers, name, weights, seed)
    inputs = _inputs(model, seq_len, torch.Generator().manual_seed(seed))
    program, args, names = _Forward(model), (inputs,), list(inputs)
    if layer is not None:
        layers = _layers(model)
        if not 0 <= layer < len(layers):
            raise InvalidInputError(f"{name} has {len(layers)} layers: --layer is 0 to {len(layers) - 1}")
        arguments = _arguments_of(layers[layer], program, inputs)
        program, args = _Layer(layers[layer]), (arguments,)
        names = [leaf for key, value in arguments.items() for leaf in leaf_names(key, value)]
    return export(program, args, names=names, rename=lambda path: path.partition(".")[2])


class _Forward(nn.Module):
    """A model as a function of its inputs by name, that gives its first result: logits or the last hidden state."""

    def __init__(self, model: nn.Module) -> None:
        super().__init__()
        self.model = model

    def forward(self, inputs: dict[str, torch.Tensor]) -> torch.Tensor:
        ids = inputs.get("input_ids")
        mask = {} if ids is None else {"attention_mask": torch.ones_like(ids)}
        return self.model(**inputs, **mask, return_dict=True)[0]


class _Layer(nn.Module):
    """A layer as a function of one dictionary of arguments, that gives its first result: the hidden state."""

    def __init__(self, layer: nn.Module) -> None:
        super().__init__()
        self.layer = layer

    def forward(self, arguments: dict[str, Any]) -> torch.Tensor:
        result = self.layer(**arguments)
        return result[0] if isinstance(result, tuple) else result


def _transformers() -> ModuleType:
    """The library, with an attention of ours that leaves a plain causal mask to the operation itself.

    Its modules are imported by name: a type checker would read all its models, a third of what it reads.
    """
    try:
        transformers = import_module("transformers")
    except ImportError as error:
        raise InvalidInputError(f"models need the package {error.name}: pip install 'deplodock[models]'") from None
    transformers.AttentionInterface.register(_ATTENTION, _attention)
    transformers.AttentionMaskInterface.register(_ATTENTION, _mask)
    return transformers


def _attention(
    module: nn.Module,
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    attention_mask: torch.Tensor | None,
    *,
    scaling: float | None = None,
    softcap: float | None = None,
    **options: Any,
) -> tuple[torch.Tensor, None]:
    """PyTorch's attention; scores that are capped (Gemma 2) take its steps one by one, which it does not cap."""
    stock = import_module("transformers.integrations.sdpa_attention")
    if softcap is None:
        return stock.sdpa_attention_forward(module, query, key, value, attention_mask, scaling=scaling, **options)
    groups = query.shape[1] // key.shape[1]
    key, value = stock.repeat_kv(key, groups), stock.repeat_kv(value, groups)
    scores = softcap * torch.tanh(query @ key.transpose(2, 3) * (scaling or query.shape[-1] ** -0.5) / softcap)
    if attention_mask is None and getattr(module, "is_causal", True):
        attention_mask = torch.ones(scores.shape[-2:], dtype=torch.bool, device=query.device).tril()
    if attention_mask is not None:
        scores = scores.masked_fill(attention_mask.logical_not(), -math.inf)
    return (scores.softmax(-1) @ value).transpose(1, 2).contiguous(), None


def _mask(
    *,
    kv_length: int,
    local_size: int | None = None,
    allow_is_causal_skip: bool = True,
    allow_is_bidirectional_skip: bool = False,
    **options: Any,
) -> torch.Tensor | None:
    """The mask of one sequence without padding: None where it is all positions, or all before the query's."""
    is_plain = allow_is_causal_skip or allow_is_bidirectional_skip
    if is_plain and options["q_length"] == kv_length and (local_size is None or kv_length < local_size):
        return None
    options |= {"attention_mask": None, "allow_is_causal_skip": False}
    stock = import_module("transformers.masking_utils")
    return stock.sdpa_mask(kv_length=kv_length, local_size=local_size, **options)


@contextmanager
def _reading(name: str) -> Iterator[None]:
    """Say in one line why a model cannot be read: transformers raises whatever its parts do on a file that is wrong."""
    try:
        with quiet():
            yield
    except Error:
        raise
    except pickle.UnpicklingError:
        reason = "its weights are damaged, or pickled objects, which can run code; save them as safetensors"
        raise _unreadable(name, reason) from None
    except Exception as error:
        is_said = type(error) in (OSError, ValueError) and str(error).strip()
        text = str(error).strip().split("\n\n")[0] if is_said else describe(error)
        raise _unreadable(name, " ".join(text.split())) from None


def _unreadable(name: str, reason: str) -> InvalidInputError:
    return InvalidInputError(f"{name}: error: the model cannot be read: {reason}")


def _find(name: str) -> None:
    """Look for the configuration of a model: in its folder, in the cache of Hugging Face, then once on its hub.

    Raises InvalidInputError if it is in none of them; transformers itself would ask the hub for half a minute.
    """
    if Path(name).is_dir():
        return
    import huggingface_hub
    from huggingface_hub.errors import HFValidationError

    try:
        if not isinstance(huggingface_hub.try_to_load_from_cache(name, "config.json"), str):
            huggingface_hub.get_hf_file_metadata(huggingface_hub.hf_hub_url(name, "config.json"))
    except HFValidationError:
        raise _unreadable(name, "there is no such folder") from None
    except Exception as error:
        found = " ".join(describe(error).split())
        raise _unreadable(name, f"there is no such folder, and Hugging Face gives no such model: {found}") from None


def _load(transformers: ModuleType, name: str, weights: str, seed: int) -> Any:
    transformers.logging.disable_progress_bar()
    described, _ = transformers.PretrainedConfig.get_config_dict(name)
    if "auto_map" in described and described.get("model_type") not in transformers.CONFIG_MAPPING:
        raise UnsupportedError(f"{name}: error: the model is code that comes with it (auto_map), which is not run")
    config = transformers.AutoConfig.from_pretrained(name, trust_remote_code=False)
    config.use_cache = False
    architecture = (config.architectures or [""])[0]
    if architecture.endswith(_LANGUAGE_MODELS):
        kind = transformers.AutoModelForCausalLM
    elif config.is_encoder_decoder and architecture.endswith("ForConditionalGeneration"):
        kind = transformers.AutoModelForSeq2SeqLM
    else:
        kind = transformers.AutoModel
    options = {"dtype": torch.float32, "attn_implementation": _ATTENTION, "trust_remote_code": False}
    if weights == "read":
        return kind.from_pretrained(name, config=config, **options).eval()
    if weights == "random":
        torch.manual_seed(seed)
    with torch.device("cpu" if weights == "random" else "meta"):
        return kind.from_config(config, **options).eval()


def _inputs(model: Any, seq_len: int | None, generator: torch.Generator) -> dict[str, torch.Tensor]:
    """The inputs of a model by name, where its parameters are: token ids, also those of a second part, or an image.

    Raises UnsupportedError if it takes others.
    """
    config = model.config
    match model.main_input_name:
        case "input_ids" if hasattr(config, "vocab_size"):
            longest = getattr(config, "max_position_embeddings", math.inf)
            count = min(_SEQ_LEN, longest) if seq_len is None else seq_len
            if count > longest:
                raise InvalidInputError(f"the model takes at most {longest} tokens: --seq-len is {count}")
            names = ["input_ids", *(["decoder_input_ids"] if config.is_encoder_decoder else [])]
            drawn = {name: torch.randint(config.vocab_size, (1, int(count)), generator=generator) for name in names}
        case "pixel_values" if hasattr(config, "image_size"):
            shape = (1, config.num_channels, config.image_size, config.image_size)
            drawn = {"pixel_values": torch.randn(shape, generator=generator)}
        case other:
            raise UnsupportedError(
                f"{type(model).__name__} takes {other} in a form of its own; supported are models of tokens "
                "(input_ids, decoder_input_ids) and models of one image (pixel_values)"
            )
    return {name: value.to(model.device) for name, value in drawn.items()}


def _layers(model: Any) -> nn.ModuleList:
    """The repeated layers of a model: the first list of as many modules as its configuration has layers."""
    count = model.config.num_hidden_layers
    lists = [module for module in model.modules() if isinstance(module, nn.ModuleList) and len(module) == count]
    if not lists:
        raise UnsupportedError(f"{type(model).__name__} has no list of its {count} layers: leave out --layer")
    return lists[0]


class _Reached(Exception):
    """The layer is called; the rest of the model need not run."""


def _arguments_of(layer: nn.Module, program: nn.Module, inputs: dict[str, torch.Tensor]) -> dict[str, Any]:
    """The arguments with which a program calls a layer, by name, without those that are None."""
    found: dict[str, Any] = {}

    def reach(module: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        bound = inspect.signature(module.forward).bind(*args, **kwargs).arguments
        given = {**bound, **bound.pop("kwargs", {})}
        found.update((name, value) for name, value in given.items() if name != "kwargs" and value is not None)
        raise _Reached

    handle = layer.register_forward_pre_hook(reach, with_kwargs=True)
    try:
        with torch.no_grad(), quiet():
            program(inputs)
    except _Reached:
        return found
    except Exception as error:
        raise InvalidInputError(f"the model raises {describe(error)}") from error
    finally:
        handle.remove()
    raise UnsupportedError("the model does not call the layer")
