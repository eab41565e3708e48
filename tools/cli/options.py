"""The options that several commands of `deplodock` have."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum
from functools import wraps
from inspect import signature
from itertools import chain
from pathlib import Path
from typing import Annotated, Any, Literal

import typer

from deplodock.tools.color import Color


class Device(StrEnum):
    """Where a program runs."""

    AUTO = "auto"
    CUDA = "cuda"
    SIM = "sim"


File = Annotated[
    str | None,
    typer.Argument(
        metavar="FILE",
        help="a Python file (.py), IR text of any level (- is stdin), or a model: a folder or a Hugging Face id",
    ),
]
Layer = Annotated[int | None, typer.Option(min=0, metavar="N", help="of a model, only this layer, counted from 0")]
SeqLen = Annotated[int | None, typer.Option(min=1, metavar="N", help="tokens that a model gets  [default: 128]")]
Expression = Annotated[
    str | None,
    typer.Option("-c", metavar="EXPR", help="Python statements, the last one an expression: the program"),
]
_TARGET = "architecture or card to compile for, such as sm_90 or h100"
Target = Annotated[
    str | None, typer.Option(metavar="NAME", help=f"{_TARGET}  [default: that of the IR text, else sm_90]")
]
TargetOfRun = Annotated[
    str | None, typer.Option(metavar="NAME", help=f"{_TARGET}  [default: that of the IR text, else the GPU's or sm_90]")
]
TargetOfRows = Annotated[str | None, typer.Option(metavar="NAME", help=f"{_TARGET}  [default: the GPU's, else sm_90]")]
Schedule = Annotated[
    str | None,
    typer.Option(metavar="PIPELINE", help="scheduling rules for every kernel, as a{x=1 y=2},b  [default: chosen]"),
]
Tuned = Annotated[
    Path | None,
    typer.Option(metavar="FILE", help="what `deplodock tune` found, for the kernels and programs that it knows"),
]
Stream = Annotated[
    Literal["never", "cheaper", "always"] | None,
    typer.Option(help="where attention is one kernel, which stores no scores  [default: cheaper]"),
]
Precision = Annotated[
    str | None,
    typer.Option(
        metavar="WORD",
        help="how precisely products of FP32 matrices are computed: highest, high or medium  [default: as PyTorch is "
        "set, or the text says]",
    ),
]
PrecisionOfRows = Annotated[
    str | None,
    typer.Option(
        metavar="WORD",
        help="rows whose products of FP32 have this precision: highest, high or medium; of a suite, at which all run  "
        "[default: all rows, of a suite at highest]",
    ),
]
Verbose = Annotated[
    int,
    typer.Option("-v", count=True, show_default=False, help="print times, and what nvcc says; -vv: trace each pass"),
]
Generic = Annotated[bool, typer.Option("--print-op-generic", help="print IR in generic form")]
DumpDir = Annotated[
    Path | None, typer.Option(metavar="DIR", help="folder for the module after each pass and the CUDA of each kernel")
]
Json = Annotated[
    bool,
    typer.Option(
        "--json", help="print the outcome as JSON: CTAs run of each kernel, and what --bench and --profile measure"
    ),
]
RandomWeights = Annotated[
    bool, typer.Option("--random-weights", help="of a model, draw the weights instead of reading them")
]
Seed = Annotated[int, typer.Option(min=0, metavar="N", help="seed of the inputs, for torch.manual_seed before -c runs")]
Colors = Annotated[Color, typer.Option(help="when to colour IR and traces")]
Suite = Annotated[
    Path | None,
    typer.Option(metavar="DIR", help="take the problems in this folder, in KernelBench's form, as the rows"),
]
RowNames = Annotated[
    list[str] | None,
    typer.Option(metavar="TEXT", help="rows whose name contains this, or is like this glob; may be repeated"),
]
RowList = Annotated[Path | None, typer.Option(metavar="FILE", help="rows whose names are in this file, one a line")]
TorchCompile = Annotated[
    bool,
    typer.Option(
        "--torch-compile/--no-torch-compile",
        help="time torch.compile, too; without, the results keep its times",
    ),
]
TableOfPrograms = Annotated[
    Path | None,
    typer.Option(metavar="FILE", help="a TOML file whose table [rows] names programs; all are tuned"),
]
Budget = Annotated[
    str | None,
    typer.Option(
        metavar="N|SECONDSs",
        help="measurements of a program, as 64, or its seconds, as 30s  [default: 64 of a kernel]",
    ),
]
Strategy = Annotated[str | None, typer.Option(metavar="NAME", help="how to search  [default: mcts]")]
TunedOutput = Annotated[
    Path, typer.Option("-o", metavar="FILE", help="what was found; lines of other kernels and programs stay")
]
Journal = Annotated[
    Path | None,
    typer.Option(metavar="DIR", help="folder of all measurements, which processes share  [default: FILE.journal]"),
]
Resume = Annotated[bool, typer.Option("--resume", help="take what the journal has for measured")]
Replay = Annotated[Path | None, typer.Option(metavar="JOURNAL", help="take all times from a journal; needs no GPU")]
Check = Annotated[
    bool, typer.Option("--check", help="measure nothing; say which lines of -o FILE are fresh, stale or refused")
]
Record = Annotated[
    Path | None,
    typer.Option(metavar="FILE", help="measure --budget schedules of one kernel, a product of decisions: a table"),
]
Fit = Annotated[
    list[Path] | None,
    typer.Option(metavar="TABLE", help="fit the model's constants to this table, not a program; may be repeated"),
]
Fuse = Annotated[
    bool, typer.Option("--fuse", help="search which operations share a kernel, too, for a quarter of the budget")
]
Gpus = Annotated[int, typer.Option(min=1, metavar="N", help="GPUs that measure")]


@dataclass(frozen=True)
class Options:
    """The options that the commands for a program share, as the command line has them: see `expanded`."""

    target: Target = None
    schedule: Schedule = None
    tuned: Tuned = None
    stream: Stream = None
    precision: Precision = None
    verbosity: Verbose = 0
    color: Colors = Color.AUTO
    generic: Generic = False
    dump_dir: DumpDir = None
    seed: Seed = 0
    layer: Layer = None
    seq_len: SeqLen = None


DEFAULTS = Options()
"""What a command has without options."""


def expanded(*left_out: str, target: Any = Target) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Let a command take its parameter `given`, an `Options`, as an option for each field of it.

    Those that are `left_out` have their defaults; `target` is how the command declares that one.
    """
    known = {"target": target}
    fields = [
        field.replace(annotation=known.get(field.name, field.annotation))
        for field in signature(Options, eval_str=True).parameters.values()
        if field.name not in left_out
    ]

    def declared(command: Callable[..., None]) -> Callable[..., None]:
        def run(**values: Any) -> None:
            command(given=Options(**{field.name: values.pop(field.name) for field in fields}), **values)

        own = signature(command, eval_str=True)
        parameters = [fields if one.name == "given" else [one] for one in own.parameters.values()]
        wrapper: Any = wraps(command)(run)
        wrapper.__signature__ = own.replace(parameters=list(chain(*parameters)))
        return wrapper

    return declared
