"""`deplodock.load`: a program from a file, ready to be called."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import torch
from torch import nn

from deplodock.errors import InvalidInputError
from deplodock.passes.driver import Level
from deplodock.pytorch.agreement import check_modules
from deplodock.pytorch.compiled import CompiledProgram, ProgramState, learns, place_of
from deplodock.pytorch.runners import CpuRunner, CudaRunner, Runner
from deplodock.pytorch.saved import ProgramFile, read_file, state_names


def load(
    path: str | Path,
    weights: nn.Module | Mapping[str, torch.Tensor] | None = None,
    *,
    device: str | torch.device | None = None,
) -> CompiledProgram:
    """The program that `CompiledProgram.save` wrote to a file, which gives the same bits.

        norm = deplodock.compile(torch.nn.RMSNorm(2048), (torch.randn(32, 2048),))
        norm.save("norm.ddk")
        norm = deplodock.load("norm.ddk", torch.nn.RMSNorm(2048))

    Nothing is captured or lowered. A file without machine code is compiled where it is to run on a GPU.

    Args:
        path: the file. On a GPU its kernels are run: load only what you trust.
        weights: a module whose parameters and buffers the program looks up by name at each call, or a mapping of such
            names to tensors, as a state_dict; by default those in the file.
        device: where to run, `cpu`, `cuda` or, as PyTorch names it, a GPU by its number; by default the kind of device
            that the program was compiled for. `cuda` is PyTorch's current GPU.

    Raises:
        InvalidInputError: the file is missing, damaged, of another version of the format, or none of deplodock's; it is
            for another GPU; a class of its arguments or results is not imported; or weights are missing or do not fit.
        CompileError: its kernels are to be compiled, and cannot be.
    """
    file = read_file(Path(path))
    return loaded(str(path), file, weights, place_of(device or file.device))


def loaded(
    path: str, file: ProgramFile, weights: nn.Module | Mapping[str, torch.Tensor] | None, place: torch.device
) -> CompiledProgram:
    """The program that a file holds, ready to run at a place; see `load`. Errors name the file by its path."""
    state = _state(path, file, weights, place)
    owner = weights if isinstance(weights, nn.Module) else None
    return CompiledProgram(file.signature, state, _runner(path, file, place), lambda: file, learns=learns(owner))


def _runner(path: str, file: ProgramFile, place: torch.device) -> Runner:
    try:
        if place.type == "cuda":
            return CudaRunner(file.planned, place, file.signature.outputs, len(file.signature.writes))
        kernels, loops = file.module(Level.KERNEL), file.module(Level.LOOP)
        check_modules(file.planned.plan, kernels, loops)
        return CpuRunner(kernels, loops)
    except InvalidInputError as error:
        raise InvalidInputError(f"{path}: {error}") from None


def _state(
    path: str, file: ProgramFile, weights: nn.Module | Mapping[str, torch.Tensor] | None, place: torch.device
) -> ProgramState:
    """What the program reads that no call gives."""
    owner = weights if isinstance(weights, nn.Module) else None
    names = state_names(file.signature)
    entries = [
        own if owner is not None and own is not None else _given(file, weights, place, number)
        for number, own in enumerate(file.signature.paths)
    ]
    given = [entry for entry in entries if entry is not None]
    is_whole = owner is not None and len(given) == len(entries)
    state = ProgramState(owner, given, file.signature.ties if is_whole else ())
    values, missing = iter(state.find()), list[str]()
    for name, (facts, _), entry in zip(names, file.signature.state, entries, strict=True):
        value = None if entry is None else next(values)
        if value is None:
            missing.append(name)
        elif (value.shape, value.dtype) != (facts.shape, facts.dtype):
            raise InvalidInputError(
                f"{path} needs {name} as {facts.dtype} of shape {facts.shape}, "
                f"got {value.dtype} of shape {tuple(value.shape)}"
            )
    if missing:
        more = f" and {len(missing) - 3} more" if len(missing) > 3 else ""
        lack = "holds no weights: give a module, or a mapping," if weights is None else "needs weights"
        raise InvalidInputError(f"{path} {lack} with {', '.join(missing[:3])}{more}")
    if isinstance(weights, Mapping):
        _check_ties(path, file, weights)
    else:
        try:
            state.tensors()
        except InvalidInputError as error:
            raise InvalidInputError(f"{path}: {error}") from None
    return state


def _check_ties(path: str, file: ProgramFile, weights: Mapping[str, torch.Tensor]) -> None:
    """Raise InvalidInputError where a mapping has two tensors for what the program has one for."""
    names = state_names(file.signature)
    for number, other in file.signature.ties:
        name = names[number]
        if name in weights and other in weights and not _are_equal(weights[name], weights[other]):
            raise InvalidInputError(f"{path}: {name} and {other} are one tensor in the program, and differ here")


def _are_equal(one: torch.Tensor, other: torch.Tensor) -> bool:
    """Whether two tensors hold the same values."""
    facts = [(value.shape, value.dtype, value.device) for value in (one, other)]
    return one is other or (facts[0] == facts[1] and torch.equal(one, other))


def _given(
    file: ProgramFile, weights: nn.Module | Mapping[str, torch.Tensor] | None, place: torch.device, number: int
) -> torch.Tensor | None:
    """A tensor from a mapping, by a path in a module, or from the file, by its name there; None if neither has it."""
    path, name = file.signature.paths[number], state_names(file.signature)[number]
    if path is not None and isinstance(weights, Mapping):
        paths = [path, *(other for tied, other in file.signature.ties if tied == number)]
        return next((weights[known] for known in paths if known in weights), None)
    return file.tensors[name].to(place) if name in file.tensors else None
