"""The commands of `deplodock` and their options."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Annotated, NoReturn

import typer

import deplodock
from deplodock.analysis.machine.targets import target_named
from deplodock.dialects.precision import PRECISIONS, check_precision
from deplodock.errors import Error
from deplodock.passes.driver import Level
from deplodock.runtime.falls import raise_in_this_process
from deplodock.runtime.tuned import read_tuned
from deplodock.tools.bench import rows as bench_rows
from deplodock.tools.bench.report import MODES
from deplodock.tools.cli.code import OutputForm, code, form_of
from deplodock.tools.cli.options import (
    DEFAULTS,
    Budget,
    Check,
    Device,
    Expression,
    File,
    Fit,
    Fuse,
    Gpus,
    Journal,
    Json,
    Options,
    PrecisionOfRows,
    RandomWeights,
    Record,
    Replay,
    Resume,
    RowList,
    RowNames,
    Strategy,
    Suite,
    TableOfPrograms,
    TargetOfRows,
    TargetOfRun,
    TorchCompile,
    Tuned,
    TunedOutput,
    expanded,
)
from deplodock.tools.cli.parts import program_alone, programs_of
from deplodock.tools.cli.program import Program, Session, Weights, is_model
from deplodock.tools.clock import Clock
from deplodock.tools.diagnostics import require, run_tool
from deplodock.tools.operations import listing
from deplodock.tools.progress import working
from deplodock.tools.suite.problems import read_suite

app = typer.Typer(
    name="deplodock",
    help="A compiler from PyTorch programs to CUDA that people can read.",
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
    context_settings={"help_option_names": ["-h", "--help"]},
)


@app.callback(invoke_without_command=True)
def options(
    context: typer.Context,
    version: Annotated[bool, typer.Option("--version", help="print the version and exit")] = False,
) -> None:
    """A compiler from PyTorch programs to CUDA that people can read."""
    if version:
        typer.echo(f"deplodock {deplodock.__version__}")
        raise typer.Exit
    if context.invoked_subcommand is None:
        typer.echo(context.get_help())


@app.command("compile")
@expanded()
def compile_command(
    context: typer.Context,
    file: File = None,
    expression: Expression = None,
    ir: Annotated[
        OutputForm | None,
        typer.Option(help="level or code to print  [default: as -o FILE ends, else cuda]"),
    ] = None,
    output: Annotated[Path | None, typer.Option("-o", metavar="FILE", help="file to write instead of stdout")] = None,
    given: Options = DEFAULTS,
) -> None:
    """Compile a program and print it at a level, down to PTX and SASS.

    A model is compiled without its weights; what it amounts to, such as kernels and bytes, is printed to stderr.
    """
    form = form_of(ir, output)
    level = form.level
    if given.schedule is not None and level in (Level.TORCH, Level.TENSOR, Level.LOOP):
        raise typer.BadParameter(f"--schedule acts below loop level, so it cannot show in --ir {level}")
    if given.tuned is not None and level is Level.TORCH:
        raise typer.BadParameter(f"--tuned acts below torch level, so it cannot show in --ir {level}")
    session = _session(context, given)
    program = _read(session, file, expression, weights="none")
    module = program.module
    if is_model(file) and level in (Level.KERNEL, Level.CUDA):
        from deplodock.tools.summary import lower_with_summary

        lower_with_summary(session, program, level)
    else:
        session.lower(module, level)
    text = session.text(module, level)
    if output is not None:
        output.write_bytes(code(session, module, text, form))
    elif form.value == level.value:
        session.write(text, level)
    else:
        sys.stdout.write(code(session, module, text, form).decode())
    if level is Level.CUDA:
        session.report_nvcc(text, module)
    session.finish(module)
    sys.stdout.flush()


@app.command("export")
@expanded("color", "generic", "dump_dir")
def export_command(
    context: typer.Context,
    output: Annotated[Path, typer.Option("-o", metavar="DIR", help="folder to write, whose name is that of the files")],
    file: File = None,
    expression: Expression = None,
    given: Options = DEFAULTS,
) -> None:
    """Write a program as files that build and run without deplodock.

    They are its CUDA, a launcher in C with its header, one in Python, the plan as JSON, a Makefile, and the machine
    code if there is a compiler of CUDA.
    """
    session = _session(context, given)
    module = _read(session, file, expression, weights="none").module
    session.lower(module, Level.KERNEL)
    from deplodock.runtime.export import export

    with session.clock.part("nvcc"):
        paths = export(module, output)
    session.note(f"wrote {', '.join(path.name for path in paths)} to {output}")
    session.finish(module)


@app.command("run")
@expanded(target=TargetOfRun)
def run_command(
    context: typer.Context,
    file: File = None,
    expression: Expression = None,
    replacement: Annotated[
        str | None,
        typer.Option(
            "--from", metavar="FILE", help="IR text to run in place of the program, on its inputs, against its result"
        ),
    ] = None,
    device: Annotated[
        Device, typer.Option(help="where to run: on the GPU, or in the simulator; auto is the GPU if there is one")
    ] = Device.AUTO,
    bench: Annotated[bool, typer.Option("--bench", help="time the program on the GPU beside PyTorch")] = False,
    profile: Annotated[
        bool, typer.Option("--profile", help="time each kernel on the GPU, with ncu's counters if it is there")
    ] = False,
    as_json: Json = False,
    limit: Annotated[
        float, typer.Option(min=1, metavar="SECONDS", help="time that nvcc, a run on the GPU, or --bench, may take")
    ] = 300.0,
    random_weights: RandomWeights = False,
    ir: Annotated[Level | None, typer.Option(help="level to print, too")] = None,
    given: Options = DEFAULTS,
) -> None:
    """Compile a program, run it, and check the result.

    It runs on the GPU, or in a simulator of one. A Python program is compared with PyTorch, IR text with the evaluator
    of the same text, both in float64. Text, also that of --from, is compared on further inputs, too: negative, large,
    infinite and so on. Of a program that is too large for the simulator a sample of the CTAs runs, and what they write
    is compared. The exit code is 1 if an output is wrong or the simulator finds a mistake such as a data race, and 3
    ("not run") if no CTA of some kernel could run.
    """
    session = _session(context, given)
    missing = _missing_gpu(session, device, "--bench" if bench else "--profile" if profile else None)
    if missing is None and given.target is None:
        _take_target_of_gpu(session, file)
    program = _read(session, file, expression, weights="random" if random_weights else "read")
    _refuse_what_needs_python(program, bench, replacement)
    # The simulator needs numpy, which `compile` of IR text does without.
    with session.clock.part("import deplodock"):
        from deplodock.tools.cli.run import RunOptions, run
    how = RunOptions("cuda" if missing is None else "sim", bench=bench, profile=profile, json=as_json, limit=limit)
    code = run(session, program, ir, replacement, how).code
    sys.stdout.flush()
    raise typer.Exit(code)


def _missing_gpu(session: Session, device: Device, measured: str | None) -> str | None:
    """Why `run` uses the simulator, or None. Raises Error where the option `measured` or the device demands a GPU."""
    if measured and device is Device.SIM:
        raise typer.BadParameter(f"{measured} measures a GPU: leave out --device sim")
    with session.clock.part("import deplodock"):
        from deplodock.runtime import device as runtime
    missing = runtime.missing() if device is not Device.SIM else "--device sim"
    if missing is not None and (measured or device is Device.CUDA):
        without = f"without {measured}, " if measured else ""
        raise Error(f"{missing}; {without}--device sim runs the program in the simulator")
    return missing


def _take_target_of_gpu(session: Session, file: str | None) -> None:
    """Compile for the architecture of the GPU, but IR text, which may state another."""
    if file is not None and not file.endswith(".py") and not is_model(file):
        return
    from deplodock.runtime.device import device_target

    session.options = replace(session.options, target=device_target())


def _refuse_what_needs_python(program: Program, bench: bool, replacement: str | None) -> None:
    if program.captured is not None:
        return
    if bench:
        raise typer.BadParameter("--bench compares with PyTorch: give -c EXPR or a .py file")
    if replacement is not None:
        raise typer.BadParameter("--from takes its inputs from a Python program: give -c EXPR or a .py file")


@app.command("bench")
def bench_command(
    suite: Suite = None,
    name: RowNames = None,
    names: RowList = None,
    model: Annotated[list[str] | None, typer.Option(metavar="TEXT", help="rows of this model; may be repeated")] = None,
    s: Annotated[
        list[int] | None, typer.Option("-s", metavar="N", help="rows of this sequence length; may be repeated")
    ] = None,
    output: Annotated[
        Path | None, typer.Option("-o", metavar="DIR", help="folder of the results  [default: bench/results/CARD]")
    ] = None,
    limit: Annotated[float, typer.Option(min=1, metavar="SECONDS", help="time that a row may take")] = 120.0,
    budget: Annotated[
        float, typer.Option(min=1, metavar="SECONDS", help="time after which no row is started")
    ] = 3600.0,
    listing: Annotated[bool, typer.Option("--list", help="print the rows, measure nothing")] = False,
    resume: Annotated[bool, typer.Option("--resume", help="leave out the rows that the results have")] = False,
    replacement: Annotated[
        str | None,
        typer.Option("--from", metavar="FILE", help="IR text to run in place of the program of the one row"),
    ] = None,
    autotune: Annotated[
        bool, typer.Option("--max-autotune", help="time torch.compile in that mode, too; the results keep its times")
    ] = False,
    compiled: TorchCompile = True,
    compile_only: Annotated[
        bool, typer.Option("--compile-only", help="compile the rows into the cache on all cores, measure nothing")
    ] = False,
    target: TargetOfRows = None,
    tuned: Tuned = None,
    precision: PrecisionOfRows = None,
) -> None:
    """Measure the benchmark on the GPU beside PyTorch.

    It has a row for each program. The results, JSON lines and Markdown, are written after each row. The exit code is 1
    if a row is wrong, below the floor of its time, or not measured.
    """
    rows = _rows(suite, name or [], names, model or [], s or [], precision)
    if listing:
        print("\n".join(f"{row.name}: {row.text}" for row in rows))
        return
    _refuse_options_of_bench(rows, suite, replacement, tuned, autotune=autotune)
    _begin_suite()
    if suite is not None:
        from deplodock.tools.cli.suite import SuiteOptions, compile_suite, measure_suite

        how = SuiteOptions(target, limit, budget, measures=not compile_only, compiled=compiled)
        passed = compile_suite(rows, how) if compile_only else measure_suite(rows, suite, output, how, resume=resume)
    else:
        from deplodock.tools.cli.table import TableOptions, compile_table, measure_table

        modes = tuple(mode for mode, wanted in zip(MODES, (compiled, autotune), strict=True) if wanted)
        options = TableOptions(limit, budget, replacement, modes, resume, tuned)
        passed = compile_table(rows, target, tuned) if compile_only else measure_table(rows, target, output, options)
    if not passed:
        raise typer.Exit(1)


def _rows(
    suite: Path | None, name: list[str], names: Path | None, model: list[str], s: list[int], precision: str | None
) -> list[bench_rows.Row]:
    """The rows of the table or of a suite that options choose. Raises as those that read them."""
    if precision is not None:
        check_precision(precision)
    rows = bench_rows.read_rows() if suite is None else read_suite(suite, precision or PRECISIONS[0])
    listed = None if names is None else bench_rows.read_names(names, rows)
    return bench_rows.chosen(rows, name, model, s, listed, precision)


def _refuse_options_of_bench(
    rows: Sequence[bench_rows.Row], suite: Path | None, replacement: str | None, tuned: Path | None, *, autotune: bool
) -> None:
    if replacement is not None and len(rows) != 1:
        raise typer.BadParameter(f"--from runs in place of one row, but {len(rows)} are chosen; choose with --name")
    if suite is not None and (replacement is not None or autotune or tuned is not None):
        raise typer.BadParameter("--from, --max-autotune and --tuned are for rows of the benchmark: leave out --suite")
    if tuned is not None:
        read_tuned(tuned)


@app.command("tune")
@expanded("schedule", "tuned", "color", "generic", "dump_dir", target=TargetOfRun)
def tune_command(
    context: typer.Context,
    file: File = None,
    expression: Expression = None,
    table: TableOfPrograms = None,
    name: RowNames = None,
    budget: Budget = None,
    strategy: Strategy = None,
    output: TunedOutput = Path("tuned.jsonl"),
    journal: Journal = None,
    resume: Resume = False,
    replay: Replay = None,
    check: Check = False,
    record: Record = None,
    fit: Fit = None,
    fuse: Fuse = False,
    gpus: Gpus = 1,
    given: Options = DEFAULTS,
) -> None:
    """Search for faster schedules by measuring on the GPU.

    The heuristics' schedule of a kernel is measured first, and left only for one that is faster. Results are compared
    with the same kernel in float64 before and after they are timed. With --fuse it is searched before which operations
    share a kernel. `compile`, `run`, `export` and `bench` take what was found by --tuned FILE. The exit code is 1 if a
    kernel could not be measured.
    """
    with working("import deplodock"):
        from deplodock.tools.cli import tune as tuning
        from deplodock.tools.cli import tuner

    is_given = file is not None or expression is not None
    if fit:
        if is_given or table is not None:
            raise typer.BadParameter("--fit takes tables of times: leave out the program")
        tuning.print_fit(fit)
        return
    _check_programs(file, expression, table, name, given.precision)
    limits = tuning.read_budget(budget), tuning.read_strategy(strategy)
    kept = journal or output.with_suffix(".journal")
    how = tuner.TuneOptions(output, kept, *limits, given.seed, resume, replay, gpus, record, check, fuse)
    if fuse and given.stream is not None:
        raise typer.BadParameter("--fuse decides where attention is one kernel, too: leave out --stream")
    session = _session(context, given)
    if replay is not None and given.target is None:
        session.options = replace(given, target=target_named(tuner.card_of(replay)))
    elif replay is None and not check:
        tuning.require_gpus(gpus)
        if given.target is None:
            _take_target_of_gpu(session, file)
    if table is None:
        programs = program_alone(session, _read(session, file, expression, weights="none").module)
    else:
        rows = bench_rows.chosen(bench_rows.read_rows(table), name or [], [], [])
        programs = programs_of(rows, session.options)
    if not tuning.act(session, programs, how):
        raise typer.Exit(1)


def _check_programs(
    file: str | None, expression: str | None, table: Path | None, name: list[str] | None, precision: str | None
) -> None:
    """Raise BadParameter unless there is one program, or a table of them, with what is for it alone."""
    if table is not None and (file is not None or expression is not None):
        raise typer.BadParameter("--table has programs of its own: leave out -c EXPR and FILE")
    if table is None and (file is None) == (expression is None):
        raise typer.BadParameter("give a program: either -c EXPR or a FILE, or several by --table FILE")
    if table is not None and precision is not None:
        raise typer.BadParameter("--table has programs with precisions of their own: choose them by --name")
    if name and table is None:
        raise typer.BadParameter("--name chooses among the programs of --table FILE")


@app.command("ops")
def ops_command() -> None:
    """List the operations of PyTorch that programs may use.

    A line has the name, the element types, and what the operation becomes. docs/ops.md has the same table.
    """
    print(listing(), end="")


@app.command("fuzz")
def fuzz_command(
    count: Annotated[int | None, typer.Option(min=1, metavar="N", help="cases to check  [default: 100]")] = None,
    seconds: Annotated[
        float | None, typer.Option(min=1, metavar="SECONDS", help="time after which no case is started")
    ] = None,
    seed: Annotated[
        int, typer.Option(min=0, metavar="N", help="number of the first case; each case is seeded with its own")
    ] = 0,
    compile_every: Annotated[
        int, typer.Option(min=0, metavar="N", help="let nvcc compile every n-th case, and a GPU run it; 0 for none")
    ] = 10,
    host_every: Annotated[
        int, typer.Option(min=0, metavar="N", help="run every n-th case's CUDA text on the host; 0 for none")
    ] = 10,
    most_failures: Annotated[int, typer.Option(min=1, metavar="N", help="kinds of failures after which to stop")] = 10,
) -> None:
    """Check random PyTorch programs at every level.

    Decisions of fusion and schedules are random, too. A failure is shrunk and printed as a command and as the IR before
    the first wrong pass; the exit code is 1 then.
    """
    with working("import torch"):
        from deplodock.tools.cli.fuzz import run

    count = 100 if count is None and seconds is None else count
    _begin_suite()
    if not run(seed, count, seconds, compile_every, host_every, most_failures):
        raise typer.Exit(1)


def _begin_suite() -> None:
    """What our own suites need is there, and a fall is an error."""
    require("torch")
    raise_in_this_process()


def _session(context: typer.Context, options: Options) -> Session:
    if options.schedule is not None and options.tuned is not None:
        raise typer.BadParameter("--schedule is for every kernel, so nothing is left for --tuned: give one of them")
    return Session(options, context.obj or Clock())


def _read(session: Session, file: str | None, expression: str | None, *, weights: Weights) -> Program:
    if (file is None) == (expression is None):
        raise typer.BadParameter("give a program: either -c EXPR or a FILE")
    if is_model(file):
        return session.read_model(file or "", weights=weights)
    if weights == "random":
        raise typer.BadParameter("--random-weights is for models: a folder or a Hugging Face id")
    if session.options.layer is not None or session.options.seq_len is not None:
        raise typer.BadParameter("--layer and --seq-len are for models: a folder or a Hugging Face id")
    return session.read_expression(expression) if expression is not None else session.read_file(file or "")


def main(clock: Clock) -> NoReturn:
    """Run the command line whose clock was started before anything was imported."""
    run_tool("deplodock", lambda: app(obj=clock))
