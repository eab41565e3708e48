"""What a change of the compiler's inside leaves the same: the CUDA text of many programs, before and after.

    python -m deplodock.tools.sameness draw FOLDER            writes the programs as IR: FOLDER/*.mlir
    python -m deplodock.tools.sameness print FOLDER BEFORE    writes their CUDA text for each GPU: BEFORE/*.cu
    python -m deplodock.tools.sameness calls FOLDER           prints how many functions the lowering of each calls
    diff -r BEFORE AFTER                                      is empty if a change changes no text

The programs are the rows of bench/table.toml, the kinds of test/gpu/kinds.toml, and programs of the fuzzer: each as it
was captured, and at loop level with its own fusion and random schedules. A program that is refused gives its message.
"""

from __future__ import annotations

import argparse
import cProfile
import gc
import multiprocessing
import random
import sys
import tomllib
from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path

import torch
from xdsl.dialects.builtin import ModuleOp
from xdsl.parser import Parser
from xdsl.utils.exceptions import DiagnosticException, ParseError

from deplodock.codegen.cuda import print_module
from deplodock.dialects.precision import PRECISIONS
from deplodock.dialects.torch import set_precision
from deplodock.errors import Error
from deplodock.frontend.expression import read_expression
from deplodock.fuzz.fusion import draw_overrides, override
from deplodock.fuzz.run import draw_case
from deplodock.fuzz.schedules import write_schedules
from deplodock.passes.driver import Level, lower, new_context
from deplodock.passes.torch.decompose import DecomposePass
from deplodock.tools.bench.rows import read_rows

TARGETS = ("sm_80", "sm_90", "sm_120")
"""The targets for which the text is printed."""

_KINDS = Path(__file__).parents[1] / "test" / "gpu" / "kinds.toml"
_SCHEDULE = "// schedule: "
_FORK = multiprocessing.get_context("fork")


def draw(folder: Path, fuzzed: int, seed: int) -> None:
    """Write all programs into a folder."""
    folder.mkdir(parents=True, exist_ok=True)
    texts = [(f"table.{row.name.replace('/', '.')}", row.text, "", row.precision) for row in read_rows()]
    with _FORK.Pool() as pool:
        pool.starmap(partial(_write_text, folder), [*texts, *_kinds()], chunksize=1)
        pool.map(partial(_write_case, folder), range(seed, seed + fuzzed), chunksize=4)


def _kinds() -> Iterator[tuple[str, str, str, str]]:
    table = tomllib.loads(_KINDS.read_text(encoding="utf-8"))
    for name, text in table.pop("programs").items():
        yield f"kind.{name}", text, "", PRECISIONS[0]
    for of, form in table.items():
        for name, schedule in form["schedules"].items():
            yield f"kind.{of}.{name}", form["text"], schedule, PRECISIONS[0]


def _write_text(folder: Path, name: str, text: str, schedule: str, precision: str) -> None:
    module = read_expression(text, seed=0).module
    set_precision(module, precision)
    head = f"{_SCHEDULE}{schedule}\n" if schedule else ""
    (folder / f"{name}.mlir").write_text(f"{head}{module!s}\n", encoding="utf-8")


def _write_case(folder: Path, number: int) -> None:
    """Write one case of the fuzzer, if it can be captured and, at loop level, if it can be lowered."""
    _, case = draw_case(number, compile_every=0)
    context = new_context()
    try:
        with torch.random.fork_rng(devices=[]):
            module = read_expression(case.text, seed=case.seed).module
        set_precision(module, case.precision)
        (folder / f"fuzz.{number}.torch.mlir").write_text(f"{module!s}\n", encoding="utf-8")
        DecomposePass().apply(context, module)
        if case.fusion is not None:
            override(module, draw_overrides(random.Random(case.fusion), module, context))
        lower(module, context, Level.LOOP)
        if case.schedules is not None:
            write_schedules(module, case.schedules)
    except (DiagnosticException, ParseError, Error):
        return
    (folder / f"fuzz.{number}.loop.mlir").write_text(f"{module!s}\n", encoding="utf-8")


def print_texts(folder: Path, into: Path) -> None:
    """Write the CUDA text of each program for each target."""
    into.mkdir(parents=True, exist_ok=True)
    tasks = [(path, arch) for path in sorted(folder.glob("*.mlir")) for arch in TARGETS]
    with _FORK.Pool() as pool:
        pool.starmap(partial(_write_cuda, into), tasks, chunksize=4)
    print(
        f"{len(tasks)} texts, {len({text.read_bytes() for text in into.glob('*.cu')})} of them differ from each other"
    )


def _write_cuda(into: Path, path: Path, arch: str) -> None:
    try:
        text = print_module(_lowered(path, arch))
    except (DiagnosticException, ParseError, Error) as error:
        text = f"// refused: {type(error).__name__}: {error}\n"
    (into / f"{path.stem}.{arch}.cu").write_text(text, encoding="utf-8")


def _lowered(path: Path, arch: str) -> ModuleOp:
    text = path.read_text(encoding="utf-8")
    head, _, rest = text.partition("\n") if text.startswith(_SCHEDULE) else ("", "", text)
    context = new_context()
    module = Parser(context, rest).parse_module()
    lower(module, context, Level.KERNEL, target=arch, schedule=head.removeprefix(_SCHEDULE) or None)
    return module


def print_calls(folder: Path) -> None:
    """Print how many Python and C functions the lowering of each row of the table calls, and their sum."""
    total = 0
    for path in sorted(folder.glob("table.*.mlir")):
        profile = cProfile.Profile()
        gc.disable()
        profile.runcall(_lowered, path, TARGETS[1])
        gc.enable()
        count = sum(entry.callcount for entry in profile.getstats())
        print(f"{count:12,} {path.stem}", flush=True)
        total += count
    print(f"{total:12,} in all")


def main(arguments: Sequence[str]) -> None:
    """Run one of the three commands."""
    parser = argparse.ArgumentParser(prog="python -m deplodock.tools.sameness", description=__doc__)
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    commands = parser.add_subparsers(dest="command", required=True)
    drawing, printing, counting = (commands.add_parser(name) for name in ("draw", "print", "calls"))
    for command in (drawing, printing, counting):
        command.add_argument("folder", type=Path)
    drawing.add_argument("--fuzzed", type=int, default=500, help="programs of the fuzzer (default: 500)")
    drawing.add_argument("--seed", type=int, default=0, help="number of the first of them (default: 0)")
    printing.add_argument("into", type=Path)
    options = parser.parse_args(arguments)
    match options.command:
        case "draw":
            draw(options.folder, options.fuzzed, options.seed)
        case "print":
            print_texts(options.folder, options.into)
        case _:
            print_calls(options.folder)


if __name__ == "__main__":
    main(sys.argv[1:])
