"""What `compile` and `run` share: reading a program, lowering it with trace and dumps, and printing it."""

from __future__ import annotations

import contextlib
import gc
import re
import sys
import time
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from io import StringIO
from pathlib import Path
from typing import TYPE_CHECKING, Literal, TypeAlias

from xdsl.dialects.builtin import ModuleOp
from xdsl.targets.mlir import MLIRTarget
from xdsl.utils.exceptions import VerifyException

from deplodock.analysis.machine.targets import nvcc_arch, target_of
from deplodock.codegen.cuda import print_module
from deplodock.dialects import kernel
from deplodock.dialects.precision import check_precision
from deplodock.dialects.torch import set_precision
from deplodock.errors import InvalidInputError
from deplodock.passes.driver import Level, StageRun, level_of, new_context, set_target, stages
from deplodock.passes.trace import Trace
from deplodock.runtime.cubins import cubins
from deplodock.runtime.dump import Dump
from deplodock.runtime.lowering import lower_once
from deplodock.runtime.net import lower_held, lower_in_steps
from deplodock.runtime.nvcc import find_nvcc
from deplodock.runtime.tuned import lower_fused, read_tuned
from deplodock.tools.cli.model_store import ModelStore, amounts_of
from deplodock.tools.cli.options import Options
from deplodock.tools.clock import Clock
from deplodock.tools.color import Writer
from deplodock.tools.diagnostics import decode, explain, require
from deplodock.tools.progress import tracked, working
from deplodock.tools.source import LocatingParser
from deplodock.tools.start import import_torch

if TYPE_CHECKING:
    from deplodock.frontend.program import CapturedProgram

Weights: TypeAlias = Literal["read", "random", "none"]
"""Where the weights of a model come from."""

_SCHEDULED = (Level.TILE, Level.KERNEL, Level.CUDA)
"""The levels whose kernels have a schedule."""

FOREIGN = ("import torch", "torch.export", "nvcc")
"""The parts of a command's time that are not deplodock's."""


def is_model(name: str | None) -> bool:
    """Whether a name stands for a model: a folder, or an id `owner/name` where there is no such file."""
    path = Path(name or "-")
    is_id = re.fullmatch(r"[\w.-]+/[\w.-]+", str(path)) is not None and path.suffix not in (".py", ".mlir")
    return path.is_dir() or (is_id and not path.exists())


@dataclass(frozen=True)
class Program:
    """A module and, if it was captured from Python, how PyTorch runs it; `amounts` is a line about a model."""

    module: ModuleOp
    captured: CapturedProgram | None = None
    amounts: str | None = None


class Session:
    """One command at work: its options, its clock, the dialects it knows, and what it has written.

    `compiled` counts the CUDA texts that were compiled, and `lowered` the kernels that passes made: what was found
    among what is kept is not among them.
    """

    def __init__(self, options: Options, clock: Clock) -> None:
        """Raises InvalidInputError for a precision that there is not."""
        if options.precision is not None:
            check_precision(options.precision)
        self.options = options
        self.clock = clock
        self.writer = Writer(options.color.wanted())
        self.ctx = new_context()
        self._dump = None if options.dump_dir is None else Dump(options.dump_dir)
        self._tuned = None if options.tuned is None else read_tuned(options.tuned)
        self._is_long = False
        self.compiled = self.lowered = 0
        clock.add("import deplodock", clock.unaccounted())

    def read_expression(self, text: str) -> Program:
        """Capture the program of `-c`. Raises what `frontend.expression.read_expression` raises."""
        with self._imported():
            from deplodock.frontend import expression
        with self.clock.part("torch.export"):
            captured = expression.read_expression(text, seed=self.options.seed)
        return self._begin(Program(captured.module, captured))

    def read_model(self, name: str, *, weights: Weights) -> Program:
        """Capture a model of transformers, or, without weights, read what was captured of it before.

        Raises what `frontend.models.read_model` raises.
        """
        path = Path(name)
        if not path.is_dir() and path.parent.is_dir() and path.parent != Path():
            raise InvalidInputError(f"{name}: error: there is no such folder in {path.parent}")
        self._is_long = True
        sizes = {"layer": self.options.layer, "seq_len": self.options.seq_len}
        store = ModelStore(self.ctx)
        with self.clock.part("reading captured programs"):
            key = store.key(name, {**sizes, "seed": self.options.seed}) if weights == "none" else None
            kept = None if key is None else store.read(key)
        if kept is not None:
            module, amounts = kept
            return self._begin(Program(module, amounts=amounts))
        for package in ("torch", "transformers"):
            require(package, "models")
        with self._imported():
            from deplodock.frontend import models
        with self.clock.part("torch.export"):
            captured = models.read_model(name, weights=weights, seed=self.options.seed, **sizes)
        if weights != "none":
            return self._begin(Program(captured.module, captured))
        amounts = amounts_of(captured)
        if key is not None:
            store.write(key, captured.module, amounts)
        return self._begin(Program(captured.module, captured, amounts))

    def read_file(self, name: str) -> Program:
        """Read a program: a Python file if its name ends in `.py`, else IR text; `-` is IR text from stdin.

        Raises:
            OSError: the file cannot be read.
            Error, ParseError, VerifyException: it holds no program.
        """
        if not name.endswith(".py"):
            module = self.read_module(name)
            level = level_of(module)
            if self.options.precision is not None and level is not Level.TORCH:
                raise InvalidInputError(
                    f"--precision is for programs at torch level; {name} is at {level} level, where products say it"
                )
            return self._begin(Program(module))
        with self._imported():
            from deplodock.frontend import expression
        with self.clock.part("torch.export"):
            captured = expression.read_file(Path(name), seed=self.options.seed)
        return self._begin(Program(captured.module, captured))

    def read_module(self, name: str) -> ModuleOp:
        """Read IR text. Raises as `read_file`."""
        with self.clock.part("parsing"):
            data = sys.stdin.buffer.read() if name == "-" else Path(name).read_bytes()
            file = "<stdin>" if name == "-" else name
            text = decode(data, file)
            module = LocatingParser(self.ctx, text, file).parse_module()
            try:
                module.verify()
            except VerifyException as error:
                raise explain(error, module, file, text, None) from None
        set_target(module, self.options.target)
        level = level_of(module)
        for option, given in (("--schedule", self.options.schedule), ("--tuned", self.options.tuned)):
            if given is not None and level in (Level.TILE, Level.KERNEL):
                raise InvalidInputError(f"{option} is for programs above tile level; {name} is at {level} level")
        return module

    def lower(self, module: ModuleOp, level: Level) -> ModuleOp | None:
        """Run the stages to a level, with a trace at `-vv`, or read what they gave before. Raises as `driver.lower`.

        If there is a file `tuned`, functions take decisions of fusion from it, and where loops are bound to the GPU,
        kernels take its schedules. Below loop level there is the net of `net.lower_in_steps`, and what it returns is
        returned, if the module was above tile level.
        """
        tuned = None if level is Level.TORCH else self._tuned
        if level in _SCHEDULED and level_of(module) not in _SCHEDULED:
            return lower_in_steps(module, tuned, partial(self._lower, module), level, self.options.schedule)
        lower_fused(module, tuned, lambda: self._lower(module, level))
        return None

    def _lower(self, module: ModuleOp, level: Level, schedule: str | None = None) -> None:
        trace = Trace(module, self.writer.trace_line) if self.options.verbosity > 1 else None
        todo = stages(level_of(module), level) if self._is_long else []
        bar = iter(tracked(todo, len(todo), "compiling"))
        next(bar, None)

        def observe(run: StageRun, changed: ModuleOp) -> None:
            self.clock.add(f"{run.level} passes", run.seconds)
            next(bar, None)
            if trace is not None:
                trace(run, changed)
            if self._dump is not None:
                self._dump.module(run.stage.label.replace(":", ""), self.text(changed, Level.KERNEL))

        step = lower_once if trace is None and self._dump is None else lower_held
        start, options = time.perf_counter(), self.options
        with contextlib.nullcontext() if self._is_long else working("compiling"):
            ran = step(module, self.ctx, level, schedule=schedule, stream=options.stream, observer=observe)
        if ran is False:
            self.clock.add("reading lowered programs", time.perf_counter() - start)
        else:
            self.lowered += len(kernel.functions(module))

    def text(self, module: ModuleOp, level: Level) -> str:
        """The text of a module: CUDA, or IR as `deplodock-opt` prints it."""
        with self.clock.part("printing"):
            if level is Level.CUDA:
                return print_module(module)
            stream = StringIO()
            MLIRTarget(print_generic_format=self.options.generic).emit(self.ctx, module, stream)
            return stream.getvalue()

    def write(self, text: str, level: Level) -> None:
        """Write the text of a module to stdout."""
        self.writer.code(text, "cuda" if level is Level.CUDA else "mlir")

    def note(self, text: str) -> None:
        """Write a line for the person at the terminal, apart from the results."""
        print(f"deplodock: {text}", file=sys.stderr)

    def report_nvcc(self, text: str, module: ModuleOp) -> None:
        """With `-v`, compile CUDA where there is an nvcc and note what each kernel takes.

        Raises CompileError if nvcc rejects the text.
        """
        if not self.options.verbosity or find_nvcc() is None:
            return
        arch = nvcc_arch(target_of(module).arch.data)
        with self.clock.part("nvcc"):
            (cubin,) = cubins([text], arch)
        self.compiled += cubin.is_new
        for report in cubin.kernel.reports.values():
            spilled = report.spill_stores + report.spill_loads
            self.note(
                f"nvcc {arch}: {report.name}: {report.registers} registers, {report.shared} bytes of static shared "
                f"memory, {spilled} bytes spilled"
            )

    def finish(self, module: ModuleOp) -> None:
        """Write the kernels to the dump folder, and with `-v` the parts of the time."""
        if self._dump is not None:
            self._dump.kernels(module)
            self.note(f"wrote {self._dump.count} modules to {self.options.dump_dir}")
        if self.options.verbosity:
            self.note(f"compiled: {self.compiled}, lowered: {self.lowered}")
            print("\n".join(self.clock.report(FOREIGN)), file=sys.stderr)

    def _begin(self, program: Program) -> Program:
        """Set the target and the precision, dump the input, and collect garbage again, but for what was imported."""
        set_target(program.module, self.options.target)
        if self.options.precision is not None:
            set_precision(program.module, self.options.precision)
        if self._dump is not None:
            self._dump.module(f"input_{level_of(program.module)}", self.text(program.module, Level.KERNEL))
        gc.freeze()
        gc.enable()
        return program

    @contextmanager
    def _imported(self) -> Generator[None]:
        """Count the time of the imports of the frontend that are made meanwhile, and first that of PyTorch's."""
        with self.clock.part("import torch"):
            import_torch()
        with self.clock.part("import frontend"):
            yield
