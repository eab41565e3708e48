"""A survey of lowering: what becomes of whole models, at full size and without values, on GPUs that need not be here.

    python -m deplodock.tools.survey --models zoo.py --target h200 --target a100
    python -m deplodock.tools.survey --models zoo.py --types bf16 --train resnet50
    python -m deplodock.tools.survey --models zoo.py 'Bert*'

A model is captured by torch.compile once for each type, and its graphs are lowered to kernels for each target. Nothing
is compiled by nvcc, nothing runs, and tensors take no memory. A line for each says how many operations there are, how
many are compiled, in how many kernels, and how long that took; then what fell, and what is left to PyTorch, and why.
The exit code is 1 if anything fell, or is left that the file of allowed operations does not name.

The file of models is a Python file, which is run. It has a list `ZOO`, most important first, of objects with a `name`,
with `train`, whether it is surveyed in training, and with the methods `build`, `inputs` and `loss` of
`tools.survey.models.SurveyModel`.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Sequence
from fnmatch import fnmatchcase
from pathlib import Path

from deplodock.analysis.machine.targets import target
from deplodock.errors import InvalidInputError
from deplodock.tools.quiet import quiet
from deplodock.tools.survey.capturing import TYPES, SurveyCase
from deplodock.tools.survey.lowering import TargetResult
from deplodock.tools.survey.models import read_models
from deplodock.tools.survey.workers import CaseResult, survey

ALLOWED = Path(__file__).parents[2] / "test" / "tools" / "survey" / "allowed.txt"
_TARGETS = ("h200", "rtx5090", "a100")


def main(arguments: Sequence[str]) -> int:
    """Survey the models that the arguments choose; returns the exit code."""
    options = _parser().parse_args(arguments)
    targets = options.target or list(_TARGETS)
    try:
        for name in targets:
            target(name)
        cases = _cases(options)
        allowed = read_allowed(options.allowed)
    except (InvalidInputError, OSError) as error:
        print(f"survey: {error}", file=sys.stderr)
        return 2
    faults = 0
    with quiet():
        for result in survey(cases, targets, options.limit, options.jobs):
            faults += _print(result, allowed)
    print(f"{len(cases)} cases on {len(targets)} targets: {faults} faults")
    return int(faults > 0)


def read_allowed(path: Path) -> list[str]:
    """The overloads that may be left to PyTorch: the first word of each line, behind which the reason stands.

    Raises:
        OSError: the file cannot be read.
        InvalidInputError: a line has no reason.
    """
    found: list[str] = []
    for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
        name, _, reason = line.partition(": ")
        if not line or line.startswith("#"):
            continue
        if not reason:
            raise InvalidInputError(f"{path}:{number}: error: an allowed operation needs a reason: NAME: REASON")
        found.append(name)
    return found


def _cases(options: argparse.Namespace) -> list[SurveyCase]:
    """The models that the names choose, in each type. Raises InvalidInputError where there are none."""
    models = [own for own in read_models(options.models) if own.train or not options.train]
    names = options.names or ["*"]
    if unknown := [name for name in names if not any(fnmatchcase(own.name, name) for own in models)]:
        raise InvalidInputError(f"{options.models}: error: there is no model {', '.join(unknown)}")
    chosen = [own for own in models if any(fnmatchcase(own.name, name) for name in names)]
    return [SurveyCase(own, kind, options.train) for kind in options.types for own in chosen]


def _print(result: CaseResult, allowed: Sequence[str]) -> int:
    """Print what came of a case. Returns the number of faults."""
    name, faults = result.case.name, 0
    for found in result.targets:
        wrong = found.faults(allowed)
        print(f"{name} {found.target}: {_summary(found)}", *wrong, sep="\n    ", flush=True)
        faults += len(wrong)
    captured = f"{result.graphs} graphs captured in {result.capture_seconds:.1f} s"
    print(f"{name}: {captured}{f'; error: {result.error}' if result.error else ''}", flush=True)
    return faults + bool(result.error)


def _summary(found: TargetResult) -> str:
    return (
        f"{found.operations} operations, {found.compiled} compiled, {found.operations - found.compiled} left to"
        f" PyTorch, {found.kernels} kernels, {sum(found.falls.values())} falls, {found.seconds:.1f} s"
    )


def _types(text: str) -> tuple[str, ...]:
    names = tuple(text.split(","))
    if unknown := set(names) - set(TYPES):
        raise argparse.ArgumentTypeError(f"no type {', '.join(sorted(unknown))}; there are {', '.join(TYPES)}")
    return names


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m deplodock.tools.survey", description=(__doc__ or "").split("\n")[0]
    )
    parser.add_argument("names", nargs="*", help="models, or patterns of them such as 'Bert*'; by default all")
    parser.add_argument("--models", type=Path, required=True, help="a Python file with a list ZOO of models")
    parser.add_argument("--target", action="append", help=f"a GPU, also several; by default {', '.join(_TARGETS)}")
    parser.add_argument("--types", type=_types, default=TYPES, help=f"types of floats, by default {','.join(TYPES)}")
    parser.add_argument("--train", action="store_true", help="survey training, of the models that are for that")
    parser.add_argument("--limit", type=float, default=1800, help="seconds to capture a model, and for each target")
    parser.add_argument("--jobs", type=int, default=os.cpu_count(), help="how many processes; by default one a core")
    parser.add_argument("--allowed", type=Path, default=ALLOWED, help="the file of what may be left to PyTorch")
    return parser
