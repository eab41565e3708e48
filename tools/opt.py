"""`deplodock-opt`: everything that xdsl-opt does, plus mlir-opt's pipeline spelling, IR dumps and semantic checks."""

from __future__ import annotations

import argparse
import difflib
import inspect
import re
import sys
from collections.abc import Callable, Collection, Sequence
from io import BytesIO, StringIO
from pathlib import Path
from typing import IO, TYPE_CHECKING, ClassVar, NoReturn, cast

from xdsl.dialects.builtin import FileLineColLoc, ModuleOp, StringAttr
from xdsl.passes import ModulePass, PassPipeline, PassPipelineCallbackType, get_pass_option_infos
from xdsl.printer import Printer
from xdsl.utils.arg_spec import ArgSpec, parse_pipeline, parse_spec
from xdsl.utils.exceptions import DiagnosticException, ParseError, VerifyException
from xdsl.utils.target import Target
from xdsl.xdsl_opt_main import xDSLOptMain

import deplodock
from deplodock.errors import InvalidInputError
from deplodock.passes.clean_up import locate
from deplodock.passes.options import OptionsPass
from deplodock.passes.packages import packages, with_added
from deplodock.passes.pipeline import PASSES, VERIFIERS, Stage
from deplodock.passes.remarks import collect
from deplodock.tools.diagnostics import decode, describe, explain, run_tool
from deplodock.tools.expectations import Diagnostic, diagnostics_of, differences, expectations, has_expectations
from deplodock.tools.pass_pipeline import plain_pipeline
from deplodock.tools.source import LocatingFrontend

if TYPE_CHECKING:
    from deplodock.interpreters.check import Meaning

_ALL = "all"

_QUOTES = "'\""

_HELP = {
    "input_file": "IR text; stdin if it is - or missing",
    "frontend": "format of the input; mlir, IR text, is the only one",
    "disable_verify": "do not verify operations, neither of the input nor after a pass",
    "allow_unregistered_dialect": "read operations of unknown dialects, too",
    "no_implicit_module": "do not wrap the input in a module",
    "target": "what to print: mlir, which is IR text and the default, cuda, or another target of xDSL",
    "output_file": "file to write instead of stdout",
    "passes": "passes in order: a,b{x=1 y=2}; --show-passes lists deplodock's, xdsl-opt --help all",
    "print_between_passes": "print the IR between passes to stdout",
    "time_passes": "print the time of each pass",
    "verify_diagnostics": "compare errors and remarks with `// expected-error@+1 {{text}}` comments, as mlir-opt does; "
    "print an error of a verifier or pass, and exit with 0, if the file has no such comment, as xdsl-opt does",
    "parsing_diagnostics": "print the message of an error of the parser, and exit with 0",
    "split_input_file": "process the parts of the input between lines `// -----` one by one",
    "print_op_generic": "print IR in generic form",
    "print_no_properties": "print properties as attributes",
    "print_debuginfo": "print locations",
    "syntax_highlight": "colour the IR",
    "version": "print the version and exit",
    "shrink": "exit with 0 if a pass raises ShrinkException, for xDSL's shrinker",
}
"""What `--help` says of xdsl-opt's options, whose own words list 170 passes and leave some options out."""


class OptMain(xDSLOptMain):
    """xDSL's optimizer driver with deplodock's flags and one-message errors."""

    version_format: ClassVar[str] = f"deplodock-opt {deplodock.__version__} (xdsl {{xdsl_version}})"

    def __init__(self, args: Sequence[str] | None = None) -> None:
        self._source = b""
        self._running: ModulePass | None = None
        self._chunks: tuple[list[tuple[IO[bytes], int]], str] | None = None
        self._output = _Output()
        super().__init__("Run passes over IR text and print it, as text or for a target.", args)

    def register_all_dialects(self) -> None:
        """Register the dialects of all packages."""
        for name, factory in packages().universe.all_dialects.items():
            self.ctx.register_dialect(name, factory)

    def register_all_frontends(self) -> None:
        """Register the frontends of all packages, but for IR text the one that records positions."""
        self.available_frontends |= {**packages().universe.all_frontends, "mlir": _locating_frontend}

    def register_all_passes(self) -> None:
        """Register the passes of all packages."""
        self.available_passes |= packages().universe.all_passes

    def register_all_targets(self) -> None:
        """Register the targets of all packages."""
        self.available_targets |= packages().universe.all_targets

    def register_all_arguments(self, arg_parser: argparse.ArgumentParser) -> None:
        """Register xdsl-opt's arguments and ours."""
        super().register_all_arguments(arg_parser)
        stock = arg_parser.error
        arg_parser.error = lambda message: stock(message + _pass_hint(message, self.available_passes))
        for action in arg_parser._actions:
            action.help = _HELP.get(action.dest, action.help)
            if action.dest == "passes":
                action.type = plain_pipeline
        arg_parser.add_argument(
            "--pass-pipeline",
            dest="passes",
            type=plain_pipeline,
            metavar="PIPELINE",
            help="as -p, or builtin.module(a,b{x=1 y=2}) as mlir-opt takes it",
        )
        arg_parser.add_argument(
            "--show-passes", nargs=0, action=_ShowPasses, help="list deplodock's passes, and other packages', and exit"
        )
        for moment in ("before", "after"):
            arg_parser.add_argument(
                f"--print-ir-{moment}",
                action="append",
                default=[],
                metavar="PASS",
                help=f"print the IR {moment} this pass to stderr (may be repeated)",
            )
            arg_parser.add_argument(
                f"--print-ir-{moment}-all",
                action="append_const",
                const=_ALL,
                dest=f"print_ir_{moment}",
                help=f"print the IR {moment} each pass to stderr",
            )
        arg_parser.add_argument(
            "--verify-each",
            action="store_true",
            help="run the verifier passes between passes, besides the op verifiers",
        )
        arg_parser.add_argument(
            "--check-semantics",
            action="store_true",
            help="evaluate the module before and after each pass on the same inputs; a difference is an error",
        )

    def get_input_stream(self) -> tuple[IO[bytes], str]:
        """The whole input, from stdin if the file is `-` or missing; text with an unknown extension is IR text."""
        if self.args.input_file == "-":
            self.args.input_file = None
        stream, extension = super().get_input_stream()
        self._source = stream.read()
        stream.close()
        return BytesIO(self._source), extension if extension in self.available_frontends else "mlir"

    def get_input_name(self) -> str:
        """The name of the input in messages."""
        return self.args.input_file or "<stdin>"

    def prepare_input(self) -> tuple[list[tuple[IO[bytes], int]], str]:
        """Chunks padded with the lines before them, so that positions in them are positions in the file."""
        if self._chunks is not None:
            return self._chunks
        chunks, extension = super().prepare_input()
        return [(BytesIO(b"\n" * offset + chunk.read()), 0) for chunk, offset in chunks], extension

    def prepare_output(self) -> IO[str]:
        """Standard output, or text for the file, which is written only once all of it is there."""
        return sys.stdout if self.args.output_file is None else self._output

    def run(self) -> None:
        """Run all steps. Where one fails, the output file stays as it was: it may be the input.

        Exits with 1 where diagnostics are not as comments in the file expect them.
        """
        if self.args.verify_diagnostics and has_expectations(self._read()):
            self._verify_diagnostics()
        else:
            super().run()
        if self.args.output_file is not None:
            Path(self.args.output_file).write_text(self._output.text, encoding="utf-8")

    def _read(self) -> str:
        """The text of the input, which is then read once more."""
        self._chunks = self.prepare_input()
        return decode(self._source, self.get_input_name())

    def _verify_diagnostics(self) -> None:
        """Compare the diagnostics of each part with what its comments expect."""
        chunks, extension = self.prepare_input()
        file, output, messages = self.get_input_name(), self.prepare_output(), list[str]()
        for number, (chunk, offset) in enumerate(chunks):
            expected = expectations(chunk.read().decode("utf-8"), file)
            chunk.seek(0)
            output.write("// -----\n" if number else "")
            messages += differences(expected, self._diagnostics(chunk, extension, offset, output), file)
        output.flush()
        if output is not sys.stdout:
            output.close()
        if messages:
            print("\n".join(messages), file=sys.stderr)
            sys.exit(1)

    def _diagnostics(self, chunk: IO[bytes], extension: str, offset: int, output: IO[str]) -> list[Diagnostic]:
        """What a part of the input gives: remarks of passes at their kernels, and the error that ends it."""
        lines, found = dict[str, int](), list[Diagnostic]()
        with collect() as remarks:
            try:
                module = self.parse_chunk(chunk, extension, offset)
                if module is not None:
                    lines = _symbol_lines(module)
                    self.apply_passes(module)
                    output.write(self.output_resulting_program(module))
            except (DiagnosticException, ParseError) as error:
                found = list(diagnostics_of(describe(error, "deplodock-opt")))
        symbols = [(remark.symbol.removeprefix("@"), str(remark)) for remark in remarks]
        return [*(Diagnostic("remark", lines.get(symbol), text) for symbol, text in symbols), *found]

    def setup_pipeline(self) -> None:
        """Make the pipeline of `--passes` or `--pass-pipeline`.

        Raises:
            InvalidInputError: a pass, an option or a value is unknown, or the target's options are wrong.
        """
        self._check_target()
        for name in (*self.args.print_ir_before, *self.args.print_ir_after):
            if name != _ALL:
                self._pass_class(name)
        for spec in parse_pipeline(self.args.passes):
            self._check_pass(spec)
        super().setup_pipeline()
        self.pipeline = PassPipeline(self.pipeline.passes, self._between(self.pipeline.callback))

    def apply_passes(self, prog: ModuleOp) -> None:
        """Run the pipeline; an error of a pass names the pass, spelled so that it can be run again."""
        self._running = None
        try:
            super().apply_passes(prog)
        except Exception as error:
            if self._running is not None:
                error.add_note(f"note: in pass {self._running} on {self.get_input_name()}")
            raise

    def _between(self, stock: PassPipelineCallbackType | None) -> PassPipelineCallbackType:
        """What happens before, between and after passes: xdsl-opt's own steps (op verifiers, timing), then ours."""
        before: Meaning | None = None

        def callback(last: ModulePass | None, module: ModuleOp, following: ModulePass | None) -> None:
            nonlocal before
            self._running = None
            if last is not None:
                locate(module)
                self._dump("After", last, module, self.args.print_ir_after)
            self._verify(stock, last, module, following)
            if last is not None and before is not None:
                before = before.check(module, str(last))
            elif following is not None and self.args.check_semantics:
                before = _meaning(module.clone())
            if following is not None:
                self._dump("Before", following, module, self.args.print_ir_before)
            self._running = following

        return callback

    def _verify(
        self,
        stock: PassPipelineCallbackType | None,
        last: ModulePass | None,
        module: ModuleOp,
        following: ModulePass | None,
    ) -> None:
        after = None if last is None else str(last)
        try:
            if stock is not None:
                stock(last, module, following)
        except VerifyException as error:
            source = self._source.decode("utf-8", "replace")
            raise explain(error, module, self.get_input_name(), source, after) from None
        if self.args.verify_each:
            for verifier in VERIFIERS:
                self._run_verifier(verifier, module, after)

    def _run_verifier(self, verifier: Stage, module: ModuleOp, after: str | None) -> None:
        try:
            verifier.load()().apply(self.ctx, module)
        except DiagnosticException as error:
            error.add_note(
                f"note: found by {verifier.name} " + ("in the input" if after is None else f"after pass {after}")
            )
            raise

    def _dump(self, moment: str, which: ModulePass, module: ModuleOp, wanted: Sequence[str]) -> None:
        if which.name not in wanted and _ALL not in wanted:
            return
        print(f"// -----// IR Dump {moment} {which} //----- //", file=sys.stderr)
        Printer(stream=sys.stderr, print_generic_format=self.args.print_op_generic).print_op(module)
        print(file=sys.stderr)

    def _pass_class(self, name: str) -> type[ModulePass]:
        if name not in self.available_passes:
            guesses = difflib.get_close_matches(name, self.available_passes, n=3)
            hint = f"did you mean {' or '.join(guesses)}?" if guesses else "--show-passes lists deplodock's"
            raise InvalidInputError(f"unknown pass '{name}'; {hint}")
        return self.available_passes[name]()

    def _check_pass(self, spec: ArgSpec) -> None:
        cls = self._pass_class(spec.name)
        try:
            cls.from_spec(spec)
        except ValueError as error:
            # A pass of ours says what its options are, one of xDSL does not.
            known = "" if issubclass(cls, OptionsPass) else f"; its options are: {', '.join(_options(cls)) or 'none'}"
            raise InvalidInputError(f"pass '{spec}': {error}{known}") from None

    def _check_target(self) -> None:
        spec = parse_spec(self.args.target)
        factory = self.available_targets[spec.name]
        if inspect.signature(factory).parameters:
            return
        try:
            cast("Callable[[], type[Target]]", factory)().from_spec(spec)
        except ValueError as error:
            raise InvalidInputError(f"target '{spec}': {error}") from None


class _Output(StringIO):
    """Text that can still be had when it is closed."""

    text = ""

    def close(self) -> None:
        self.text = self.getvalue()
        super().close()


class _ShowPasses(argparse.Action):
    """Prints the passes of the pipeline in order, then others of packages besides xDSL, and exits.

    Each has its options, their defaults and its first sentence.
    """

    def __call__(self, parser: argparse.ArgumentParser, *_: object) -> NoReturn:
        stages = [(stage.position, stage.name, stage.load) for stage in with_added(PASSES)]
        for position, name, load in (*stages, *(("", *each) for each in packages().unplaced.items())):
            cls = load()
            summary = (inspect.getdoc(cls) or "").partition("\n\n")[0].replace("\n", " ")
            print(f"{position:5} {name}: {summary}")
            for option in _options(cls):
                print(f"        {option}")
            if issubclass(cls, OptionsPass) and cls.after:
                print(f"        after {', '.join(cls.after)}")
        parser.exit()


def _symbol_lines(module: ModuleOp) -> dict[str, int]:
    """The lines in which the symbols of a module were read."""
    found: dict[str, int] = {}
    for op in module.walk():
        name = op.get_attr_or_prop("sym_name")
        if isinstance(name, StringAttr) and isinstance(op.location, FileLineColLoc):
            found[name.data] = op.location.line.data
    return found


def _options(cls: type[ModulePass]) -> list[str]:
    """The options of a pass: what each says, or else `name: type = default`, in which xDSL quotes types of text."""
    if issubclass(cls, OptionsPass):
        return list(map(str, cls.options().values()))
    infos = get_pass_option_infos(cls)
    return [
        f"{name}: {type_.strip(_QUOTES)}" + ("" if default is None else f" = {default}")
        for name, type_, default in infos
    ]


def _meaning(module: ModuleOp) -> Meaning:
    """What a module computes; imported on demand, as the evaluators need numpy."""
    from deplodock.interpreters.check import Meaning

    return Meaning(module)


def _locating_frontend() -> type[LocatingFrontend]:
    return LocatingFrontend


def _pass_hint(message: str, passes: Collection[str]) -> str:
    """What to write for an unknown flag that is the name of a pass, as of mlir-opt; empty where it is none."""
    flags = re.findall(r"(?<=--)[\w-]+", message) if message.startswith("unrecognized arguments") else []
    names = ",".join(name for name in flags if name in passes)
    return f"; a pass is given as -p {names}" if names else ""


def main() -> NoReturn:
    """Run `deplodock-opt` on the command line's arguments."""
    run_tool("deplodock-opt", lambda: OptMain().run())


if __name__ == "__main__":
    main()
