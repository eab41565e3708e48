"""One case of the fuzzer: a program, decisions of fusion and a schedule, checked at every level of lowering."""

from __future__ import annotations

import random
import traceback
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from functools import cache, cached_property

import numpy as np
import torch
from xdsl.dialects.builtin import ModuleOp, TensorType
from xdsl.utils.exceptions import DiagnosticException, ParseError
from xdsl.utils.hints import isa

from deplodock.analysis.machine.targets import nvcc_arch, target, target_of
from deplodock.analysis.shape.nest import kernels
from deplodock.analysis.shape.roundings import Roundings, roundings
from deplodock.codegen.cuda import print_module
from deplodock.dialects import kernel
from deplodock.dialects.engines import Engine
from deplodock.dialects.kernel import TargetAttr
from deplodock.dialects.precision import HIGH, coarsest_precision
from deplodock.dialects.tensor import ScanOp
from deplodock.dialects.torch import AtenOp, set_precision
from deplodock.dialects.torch.aten import PRODUCTS
from deplodock.errors import CompileError, InvalidInputError, UnsupportedError
from deplodock.frontend.arrays import to_array, to_tensor
from deplodock.frontend.expression import read_expression
from deplodock.frontend.program import CapturedProgram, output_values
from deplodock.fuzz import ways
from deplodock.fuzz.fusion import draw_overrides, override
from deplodock.fuzz.gradients import gradient_program
from deplodock.fuzz.schedules import kind_of_kernel, write_schedules
from deplodock.fuzz.stability import unstable
from deplodock.fuzz.ways import Calling, Differs
from deplodock.interpreters.evaluate import evaluate
from deplodock.interpreters.simulate import simulate
from deplodock.interpreters.values import Array
from deplodock.passes.driver import Level, StageRun, lower, new_context
from deplodock.passes.options import Kind
from deplodock.passes.pipeline import STAGES
from deplodock.passes.remarks import ExceedsTarget
from deplodock.passes.torch.decompose import DecomposePass
from deplodock.runtime.compare import compare, equal, nan_of_infinities
from deplodock.runtime.device import Executable, device_target, missing
from deplodock.runtime.exact import exact_inputs, exact_results
from deplodock.runtime.host.harness import HostFault, build
from deplodock.runtime.nvcc import compile_cubin
from deplodock.runtime.simulated import MOST_LANE_STEPS, lane_steps
from deplodock.schedule.steps import Schedule

EXACT_STEP_LIMIT = 20_000_000
"""The lane steps of the kernels that are simulated once more, on inputs on which they are exact."""

STEP_LIMIT = 200_000_000
"""The lane steps of the kernels that are simulated, of a minute at most; larger ones say nothing."""

_REFUSED_BY_PYTORCH = (
    "the program raises ",
    "torch.export cannot capture the program: ",
    "with two bool tensors is not supported",
)
"""What says that PyTorch itself refuses a program, for the values of its inputs or for its own decompositions: it
writes into expanded memory by adding differences, which booleans have not."""

LONG_K = 512
"""The k from which on a product counts as long."""

_UNDEFINED_IN_C = ("division by zero", "shift exponent")
"""What a thread that a condition leaves out may compute, as on a GPU, and a process on a CPU may not."""

CONTEXT = new_context()


class FaultKind(Enum):
    """What can go wrong with a case."""

    CRASH = "a crash"
    REFUSED = "a refusal"
    WRONG = "a wrong result"
    FINDING = "a finding of the simulator"
    HANG = "a kernel that does not end"
    NVCC = "CUDA text that nvcc rejects"
    HOST = "CUDA text that the host rejects"


@dataclass(frozen=True)
class Case:
    """A program as text, the seed of its inputs, that of its decisions of fusion, the schedules of kinds of kernels.

    Without a seed of fusion, and without schedules, the heuristics choose. `precision` is that of the products of FP32,
    `compiles`: whether nvcc takes the text, and
    a GPU runs it where there is one. `runs_on_host`: whether the host runs the text. `way`: how it is called, too; the
    program is then what comes of such a call.
    """

    text: str
    seed: int
    fusion: int | None = None
    schedules: Mapping[Kind, Schedule] | None = None
    compiles: bool = False
    runs_on_host: bool = False
    precision: str = "highest"
    way: Calling | None = None


class Failure(Exception):
    """A case that shows a mistake: what kind, where, and a key that is the same for the same mistake."""

    def __init__(self, kind: FaultKind, where: str, message: str, key: str) -> None:
        super().__init__(f"{kind.value} {where}: {message}")
        self.kind = kind
        self.where = where
        self.key = (kind, key)


class NotDrawn(Exception):
    """A case that says nothing, for the reason in its text."""


@dataclass
class Facts:
    """What a case exercised."""

    reached: set[str] = field(default_factory=set[str])
    dtypes: set[str] = field(default_factory=set[str])
    overloads: set[str] = field(default_factory=set[str])


@dataclass(frozen=True)
class Results:
    """The inputs of a case, PyTorch's results in float64, and those in its own types."""

    inputs: list[Array]
    reference: list[Array]
    eager: list[Array]


class Checker:
    """Lowers a case and compares what it means after each level, or after each pass with `every_pass`."""

    def __init__(self, case: Case, *, every_pass: bool = False) -> None:
        self.case = case
        self.facts = Facts()
        self.before = ""
        self._doing = self._done = "capture"
        self.module = ModuleOp([])
        self._tensors = ModuleOp([])
        self.kinds: set[Kind] = set()
        self._every_pass = every_pass
        self.rounded = Roundings()
        self.results = Results([], [], [])
        self._captured: CapturedProgram | None = None

    def run(self) -> Facts:
        """Check the case. Raises Failure where it shows a mistake, NotDrawn where it says nothing."""
        try:
            self._run()
        except (Failure, NotDrawn):
            raise
        except ExceedsTarget as error:
            raise NotDrawn("the schedule is too large for the target") from error
        except (DiagnosticException, ParseError) as error:
            if self._doing == "capture" and any(text in str(error) for text in _REFUSED_BY_PYTORCH):
                raise NotDrawn("PyTorch refuses the program") from error
            kind = FaultKind.NVCC if isinstance(error, CompileError) else FaultKind.REFUSED
            raise Failure(kind, f"in {self._doing}", str(error), _key(error)) from error
        except Exception as error:
            raise Failure(FaultKind.CRASH, f"in {self._doing}", traceback.format_exc(), _key(error)) from error
        return self.facts

    def _run(self) -> None:
        captured = self._captured = _captured(self.case)
        self.module = captured.module
        set_precision(self.module, self.case.precision)
        self.results = _results(captured)
        if coarsest_precision(self.module) != "highest":
            self.facts.reached.add("precision")
        self._note_program()
        self._doing = "decompose"
        DecomposePass().apply(CONTEXT, self.module)
        self._did("decompose")
        if any(isinstance(op, ScanOp) for op in self.module.walk()):
            self.facts.reached.add("scans")
        self.rounded = roundings(self.module)
        self._tensors = self.module.clone()
        self._compare(self._evaluate())
        if self.case.fusion is not None:
            override(self.module, draw_overrides(random.Random(self.case.fusion), self.module, CONTEXT))
        for level in (Level.TENSOR, Level.LOOP, Level.TILE, Level.KERNEL):
            lower(self.module, CONTEXT, level, observer=self._observe, verifiers=True)
            if level is not Level.KERNEL:
                self._compare(self._evaluate())
            if level is Level.LOOP and self.case.schedules is not None:
                write_schedules(self.module, self.case.schedules)
                self.kinds = {kind_of_kernel(function) for function in kernels(self.module)}
        self._simulate()
        self._print()
        if self.case.way is not None:
            self._call(self.case.way)

    def _observe(self, run: StageRun, module: ModuleOp) -> None:
        self._did(run.stage.name)
        if run.level is Level.TILE and len(run.remarks) < len(kernels(module)):
            self.facts.reached.add(run.stage.name)
        if self._every_pass and run.level is not Level.KERNEL:
            self._compare(self._evaluate())
            self.before = str(module)

    def _did(self, name: str) -> None:
        """Note that a stage is done and the next one begins."""
        names = [stage.name for stage in STAGES]
        following = names.index(name) + 1
        self._done, self._doing = name, names[following] if following < len(names) else "simulation"

    def _evaluate(self) -> list[Array]:
        following, self._doing = self._doing, f"the evaluation after {self._done}"
        outputs = evaluate(self.module, self.results.inputs)
        self._doing = following
        return outputs

    def _simulate(self) -> None:
        if any(function.roles for function in kernel.functions(self.module)):
            self.facts.reached.add("roles")
        engines = (getattr(op, "engine", None) for op in self.module.walk())
        if any(isinstance(engine, Engine) and engine.adds_integers for engine in engines):
            self.facts.reached.add("bytes")
        steps = lane_steps(self.module)
        if steps > MOST_LANE_STEPS:
            raise Failure(FaultKind.HANG, "in simulation", f"{steps} lane steps", "steps")
        if steps > STEP_LIMIT:
            raise NotDrawn("the kernels take too long to simulate")
        simulation = simulate(self.module, self.results.inputs, counts=False, order=self.case.seed)
        if simulation.findings:
            finding = simulation.findings[0]
            raise Failure(FaultKind.FINDING, "in simulation", str(finding), finding.kind)
        self._compare(simulation.outputs)
        self._check_exact(steps)

    def _check_exact(self, steps: int) -> None:
        """Simulate on inputs on which the program is exact, if it is on any; its results must be equal there."""
        inputs = exact_inputs(self.results.inputs, self.case.seed)
        if steps > EXACT_STEP_LIMIT or isinstance(wanted := exact_results(self._tensors, inputs), str):
            return
        self.facts.reached.add("exact")
        outputs = simulate(self.module, inputs, counts=False, order=self.case.seed).outputs
        for position, (got, right) in enumerate(zip(outputs, wanted, strict=True)):
            if not (verdict := equal(got, right)).passed:
                message = f"output {position} on integers: {verdict}"
                raise Failure(FaultKind.WRONG, f"after {self._done}", message, f"integers after {self._done}")

    def _print(self) -> None:
        self._doing = "cuda"
        text = print_module(self.module)
        self.facts.reached.add("cuda")
        if self.case.runs_on_host:
            self._run_on_host()
        if self.case.compiles:
            self._doing = "nvcc"
            compile_cubin(text, nvcc_arch(target_of(self.module).arch.data))
            self.facts.reached.add("nvcc")
            if _runs(target_of(self.module)):
                self._doing = "the run on the GPU"
                self._done = "a run on the GPU"
                self._compare(Executable(self.module).run(self.results.inputs))
                self.facts.reached.add("gpu")

    def _run_on_host(self) -> None:
        self._doing, self._done = "the run on the host", "a run on the host"
        try:
            (program,) = build([self.module])
            outputs = program.run(self.results.inputs)
        except (CompileError, HostFault) as error:
            if any(text in str(error) for text in _UNDEFINED_IN_C):
                return
            raise Failure(FaultKind.HOST, f"in {self._doing}", str(error), _key(error)) from error
        self._compare(outputs)
        self.facts.reached.add("host")

    def _call(self, way: Calling) -> None:
        self._doing, self._done = f"the {way.value} program", f"the call of the {way.value} program"
        make, program = ways.defined(self.case.text, self.case.seed)
        try:
            found = ways.called(make, program, way, self.case.precision)
            # What the program asserts of its copies comes last, and is no result of a call.
            self._compare([*map(to_array, found), *self.results.eager[len(found) :]])
        except Differs as error:
            raise Failure(FaultKind.WRONG, f"in {self._doing}", str(error), str(error)) from error
        except InvalidInputError as error:
            if ways.refuses_shared(error, make, program):
                raise NotDrawn("it writes into an argument that another one sees, which is refused") from error
            raise
        except (RuntimeError, AssertionError, Failure) as error:
            if way is Calling.SAVED or not ways.fails_in_pytorch(make, program, way):
                raise
            raise NotDrawn("torch.compile fails with a backend of PyTorch's, too") from error
        self.facts.reached |= {way.value, *ways.traits(make, program)}

    def _compare(self, outputs: Sequence[Array]) -> None:
        results = self.results
        for position, (got, wanted, own) in enumerate(zip(outputs, results.reference, results.eager, strict=True)):
            if np.asarray(got).dtype != own.dtype:
                message = f"output {position} is {np.asarray(got).dtype}, not {own.dtype}"
                raise Failure(FaultKind.WRONG, f"after {self._done}", message, f"dtype after {self._done}")
            where = None if self._may_be_nan is None else ~(np.isnan(got) & self._may_be_nan[position])
            verdict = compare(
                np.asarray(got), wanted, own, self.rounded, lambda at=position: self._sensitivity[at], where
            )
            if not verdict.passed:
                message = f"output {position}: {verdict}"
                raise Failure(FaultKind.WRONG, f"after {self._done}", message, f"value after {self._done}")

    @cached_property
    def _may_be_nan(self) -> list[Array] | None:
        """Where results may be NaN as inputs are infinite, in products of `high` (numerics.md); None if nowhere."""
        return nan_of_infinities(self.results.inputs, self._reference_on) if self.case.precision == HIGH else None

    def _reference_on(self, inputs: list[Array]) -> list[Array]:
        assert self._captured is not None
        return [to_array(value) for value in self._captured.reference([to_tensor(array) for array in inputs])]

    @cached_property
    def _sensitivity(self) -> list[Array]:
        assert self._captured is not None
        return [to_array(value) for value in self._captured.sensitivity(self.rounded)]

    def _note_program(self) -> None:
        for op in self.module.walk():
            if isinstance(op, AtenOp):
                self.facts.overloads.add(op.schema().name)
                if op.schema().name in PRODUCTS:
                    self.facts.reached |= _traits(op)
        values = [*self.results.inputs, *self.results.eager]
        self.facts.dtypes.update(str(value.dtype) for value in values)


def _captured(case: Case) -> CapturedProgram:
    """The program of a case. Raises NotDrawn where PyTorch computes its gradients."""
    if case.way is not Calling.TRAINED:
        return read_expression(case.text if case.way is None else ways.on_copies(case.text), seed=case.seed)
    captured = read_expression(case.text, seed=case.seed)
    try:
        gradients = gradient_program(captured, ways.parts_of(case.text).arguments)
    except UnsupportedError as error:
        raise NotDrawn("an operation of its gradients is left to PyTorch") from error
    except RuntimeError as error:
        if not ways.fails_in_pytorch(*ways.defined(case.text, case.seed), Calling.TRAINED):
            raise
        raise NotDrawn("PyTorch has no gradient of an operation") from error
    if not output_values(gradients.graph):
        raise NotDrawn("it has no gradients")
    return gradients


def _traits(product: AtenOp) -> set[str]:
    """What is particular of a product: its long k, and factors that are slices."""
    sources = [_origin(operand.owner) for operand in product.operands]
    extents = [type.get_shape()[-1] for value in product.operands if isa(type := value.type, TensorType)]
    is_long, is_sliced = max(extents) > LONG_K, any(_is(source, "slice.Tensor") for source in sources)
    return {name for name, holds in (("long k", is_long), ("sliced factors", is_sliced)) if holds}


def _origin(op: object) -> object:
    """What gives the operand of an operation that reorders dimensions."""
    return op.operands[0].owner if isinstance(op, AtenOp) and _is(op, "t", "transpose.int", "permute") else op


def _is(op: object, *names: str) -> bool:
    return isinstance(op, AtenOp) and op.schema().name in names


def _results(captured: CapturedProgram) -> Results:
    """The inputs and PyTorch's results. Raises NotDrawn where those cannot be compared."""
    eager, reference = captured.eager(), captured.reference()
    if (reason := unstable(captured, eager, reference)) is not None:
        raise NotDrawn(reason)
    arrays = ([to_array(value) for value in values] for values in (captured.inputs, reference, eager))
    return Results(*arrays)


@cache
def _runs(wanted: TargetAttr) -> bool:
    """Whether there is a GPU for programs of a target."""
    return missing() is None and target(device_target()).arch == wanted.arch


def _key(error: BaseException) -> str:
    """What stays the same as a case is shrunk: the type of an error and where it was raised."""
    frame = traceback.extract_tb(error.__traceback__)[-1]
    return f"{type(error).__name__} in {frame.name}"


def check(case: Case) -> Facts:
    """Check a case at every level. Raises Failure where it shows a mistake, NotDrawn where it says nothing."""
    with torch.random.fork_rng(devices=[]):
        return Checker(case).run()
