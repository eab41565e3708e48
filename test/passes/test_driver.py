"""Lowering a module from level to level, and the trace of it."""

import gc
from collections.abc import Callable
from dataclasses import dataclass
from typing import cast

import pytest
from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp, StringAttr, UnitAttr
from xdsl.parser import Parser
from xdsl.passes import ModulePass
from xdsl.utils.exceptions import PassFailedException, VerifyException

from deplodock.analysis.machine.targets import target_of
from deplodock.dialects.loop import WhereOp
from deplodock.dialects.torch import AtenOp
from deplodock.errors import Error, InvalidInputError
from deplodock.passes import driver
from deplodock.passes.driver import LEVELS, Level, StageRun, level_of, lower, new_context, stages
from deplodock.passes.pipeline import PASSES, STAGES, Stage
from deplodock.passes.remarks import skip
from deplodock.passes.trace import Trace

TORCH = """
func.func @main(%x: tensor<4x64xf32>) -> tensor<4xf32> {
  %r = torch.aten.sum.dim_IntList %x {dim = [-1]} : tensor<4x64xf32> -> tensor<4xf32>
  func.return %r : tensor<4xf32>
}
"""
LABELS = {stage.name: stage.label for stage in PASSES}

TENSOR = """
func.func @main(%x: tensor<4xf32>) -> tensor<4xf32> {
  %r = tensor_ext.kernel @k(%y = %x : tensor<4xf32>) -> tensor<4xf32> {
    %e = tensor_ext.elementwise {math.exp} %y : tensor<4xf32>
    tensor_ext.yield %e : tensor<4xf32>
  }
  func.return %r : tensor<4xf32>
}
"""
CAUSAL = """
func.func @main(%q: tensor<260x16xf32>) -> tensor<260x16xf32> {
  %r = torch.aten.scaled_dot_product_attention %q, %q, %q {is_causal = true}
    : tensor<260x16xf32>, tensor<260x16xf32>, tensor<260x16xf32> -> tensor<260x16xf32>
  func.return %r : tensor<260x16xf32>
}
"""
UNFUSED = """
func.func @main(%x: tensor<4xf32>) -> tensor<4xf32> {
  %e = tensor_ext.elementwise {math.exp} %x : tensor<4xf32>
  func.return %e : tensor<4xf32>
}
"""
LOOP = """
func.func @k(%x: memref<4x64xf32>, %out: memref<4xf32>) {
  loop.for %i = 0 to 4 {
    %s = loop.reduce {arith.addf} %j = 0 to 64 : f32 {
      %v = loop.load %x[%i, %j] : memref<4x64xf32>
      loop.yield %v : f32
    }
    loop.store %s, %out[%i] : memref<4xf32>
  }
  func.return
}
"""
TILE = """
func.func @k(%x: memref<4xf32>, %out: memref<4xf32>) {
  tile.launch (%i = 4 : thread) {
    %v = loop.load %x[%i] : memref<4xf32>
    loop.store %v, %out[%i] : memref<4xf32>
  }
  func.return
}
"""
KERNEL = """
kernel.func @k(%x: memref<4xf32>, %out: memref<4xf32>) blocks(%block = 1) threads(%thread = 4) {
  %v = loop.load %x[%thread] : memref<4xf32>
  loop.store %v, %out[%thread] : memref<4xf32>
}
"""
EMPTY_PROGRAM = "func.func @main(%x: tensor<4xf32>) -> tensor<4xf32> { func.return %x : tensor<4xf32> }"


@pytest.fixture
def ctx() -> Context:
    return new_context()


@pytest.fixture
def parse(ctx: Context) -> Callable[[str], ModuleOp]:
    return lambda text: Parser(ctx, text).parse_module()


@pytest.mark.parametrize(
    ("text", "level"),
    [
        (TORCH, Level.TORCH),
        (UNFUSED, Level.TORCH),
        (EMPTY_PROGRAM, Level.TORCH),
        (TENSOR, Level.TENSOR),
        (LOOP, Level.LOOP),
        (TILE, Level.TILE),
        (KERNEL, Level.KERNEL),
    ],
)
def test_level_of(parse: Callable[[str], ModuleOp], text: str, level: Level) -> None:
    assert level_of(parse(text)) is level


def test_the_highest_level_remains_to_be_lowered(parse: Callable[[str], ModuleOp]) -> None:
    tile = TILE.replace("@k", "@k2")
    assert level_of(parse(KERNEL + tile)) is Level.TILE
    assert level_of(parse(tile + LOOP)) is Level.LOOP


def test_stages_between_levels() -> None:
    assert "".join(stage.letter for stage in stages(Level.TORCH, Level.TENSOR)) == "doooo"
    assert {stage.letter for stage in stages(Level.TENSOR, Level.TILE)} == {"l", "t"}
    assert stages(Level.TORCH, Level.CUDA) == list(STAGES)
    assert [stage.name for stage in stages(Level.KERNEL, Level.CUDA)] == ["verify-resources"]
    with pytest.raises(InvalidInputError, match="the program is at tile level; it cannot be raised to loop level"):
        stages(Level.TILE, Level.LOOP)


@pytest.mark.parametrize("text", [TORCH, UNFUSED, EMPTY_PROGRAM, TENSOR, LOOP, TILE, KERNEL])
def test_lower_reaches_each_level(parse: Callable[[str], ModuleOp], ctx: Context, text: str) -> None:
    module = parse(text)
    for level in LEVELS[LEVELS.index(level_of(module)) : -1]:
        lower(module, ctx, level)
        module.verify()
        assert level_of(module) is level
    lower(module, ctx, Level.CUDA)
    assert level_of(module) is Level.KERNEL


def test_the_order_of_the_stages_is_that_of_the_pipeline(parse: Callable[[str], ModuleOp], ctx: Context) -> None:
    runs: list[StageRun] = []
    lower(parse(TORCH), ctx, Level.KERNEL, observer=lambda run, _: runs.append(run))
    assert [run.stage for run in runs] == list(STAGES)
    assert all(run.seconds > 0 for run in runs)
    assert {run.level for run in runs} == set(LEVELS[1:-1])


def test_dead_code_of_a_stage_is_gone_after_it(parse: Callable[[str], ModuleOp], ctx: Context) -> None:
    dead = UNFUSED.replace("func.return", "%d = tensor_ext.elementwise {math.sin} %x : tensor<4xf32>\n  func.return")
    module = parse(dead)
    lower(module, ctx, Level.TENSOR)
    assert "math.sin" not in str(module)


def test_no_target_has_an_empty_name(parse: Callable[[str], ModuleOp]) -> None:
    with pytest.raises(InvalidInputError, match="unknown target ''"):
        driver.set_target(parse(LOOP), "")


def test_target(parse: Callable[[str], ModuleOp], ctx: Context) -> None:
    module = parse(LOOP)
    lower(module, ctx, Level.LOOP)
    assert target_of(module).arch.data == "sm_90"
    lower(module, ctx, Level.LOOP, target="sm_80")
    lower(module, ctx, Level.LOOP)
    assert target_of(module).arch.data == "sm_80"
    with pytest.raises(InvalidInputError, match="unknown target 'sm_1'; choose one of sm_80, "):
        lower(module, ctx, Level.LOOP, target="sm_1")


@dataclass(frozen=True)
class TagPass(ModulePass):
    """Tags the module, and skips a kernel."""

    name = "tileify"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        op.attributes["tagged"] = UnitAttr()
        skip("tileify", "k", "it is a test")


@dataclass(frozen=True)
class BreakPass(ModulePass):
    """Leaves a function that does not verify."""

    name = "break"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        function = op.body.block.first_op
        assert function is not None
        function.properties["sym_name"] = cast(StringAttr, UnitAttr())


@dataclass(frozen=True)
class RefusePass(ModulePass):
    """Raises an error."""

    name = "refuse"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        raise Error("this cannot be")


def use(monkeypatch: pytest.MonkeyPatch, cls: type[ModulePass], attribute: str = "STAGES") -> None:
    monkeypatch.setattr(driver, attribute, (Stage("t", 1, cls.name, "tile"),))
    monkeypatch.setattr(Stage, "load", lambda self: cls)


def test_observers_see_remarks(
    parse: Callable[[str], ModuleOp], ctx: Context, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    use(monkeypatch, TagPass)
    runs: list[StageRun] = []
    lower(parse(LOOP), ctx, Level.TILE, observer=lambda run, _: runs.append(run))
    assert [str(remark) for remark in runs[0].remarks] == [f"{LABELS['tileify']} skipped at @k: it is a test"]
    assert capfd.readouterr().err == ""


def test_errors_name_the_pass(parse: Callable[[str], ModuleOp], ctx: Context, monkeypatch: pytest.MonkeyPatch) -> None:
    use(monkeypatch, RefusePass)
    with pytest.raises(Error, match="this cannot be") as raised:
        lower(parse(LOOP), ctx, Level.TILE)
    assert raised.value.__notes__ == ["note: in pass refuse"]


def test_garbage_is_collected_again_after_a_pass(
    parse: Callable[[str], ModuleOp], ctx: Context, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[bool] = []

    def fail(*_: object) -> None:
        seen.append(gc.isenabled())
        raise PassFailedException("no")

    gc.enable()
    monkeypatch.setattr("deplodock.passes.torch.decompose.DecomposePass.apply", fail)
    with pytest.raises(PassFailedException):
        lower(parse(TORCH), ctx, Level.TENSOR)
    assert seen == [False]
    assert gc.isenabled()


def test_a_kernel_without_a_launch_says_why(parse: Callable[[str], ModuleOp], ctx: Context) -> None:
    text = TILE.replace("@k", "@launched") + LOOP.replace(
        "func.return", "%a = memref.alloc() : memref<f32>\nfunc.return"
    )
    with pytest.raises(PassFailedException, match="@k holds no launch") as error:
        lower(parse(text), ctx, Level.KERNEL)
    assert error.value.__notes__ == [
        "note: in pass expand-launch",
        f"note: {LABELS['tileify']} skipped at @k: memref.alloc is host code, which a launch cannot hold",
    ]


def test_invalid_ir_is_found_after_its_pass(
    parse: Callable[[str], ModuleOp], ctx: Context, monkeypatch: pytest.MonkeyPatch
) -> None:
    use(monkeypatch, BreakPass)
    with pytest.raises(VerifyException) as raised:
        lower(parse(LOOP), ctx, Level.TILE)
    assert raised.value.__notes__[-1] == "note: in pass break"
    lower(parse(LOOP), ctx, Level.TILE, verify=False)


def test_verifier_passes(parse: Callable[[str], ModuleOp], ctx: Context, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(driver, "VERIFIERS", (Stage("v", 1, "refuse", ""),))
    load = Stage.load
    monkeypatch.setattr(Stage, "load", lambda self: RefusePass if self.name == "refuse" else load(self))
    lower(parse(LOOP), ctx, Level.TILE)
    with pytest.raises(Error, match="this cannot be"):
        lower(parse(LOOP), ctx, Level.TILE, verifiers=True)


def trace(parse: Callable[[str], ModuleOp], ctx: Context, text: str, level: Level) -> list[str]:
    lines: list[str] = []
    module = parse(text)
    lower(module, ctx, level, observer=Trace(module, lines.append))
    return lines


def test_trace_of_a_stage(parse: Callable[[str], ModuleOp], ctx: Context) -> None:
    lines = trace(parse, ctx, LOOP, Level.TILE)
    start = lines.index(f">>> {LABELS['tileify']} @k")
    block = lines[start : lines.index(f"<<< {LABELS['tileify']}") + 1]
    assert block[1].startswith("@@ -1,")
    assert [line for line in block if line[0] in "+-"] == [
        "-  loop.for %i = 0 to 4 {",
        "+  tile.launch (%i = 4 : thread) {",
    ]
    assert all(line[0] in " +-@" for line in block[1:-1])
    assert len([line for line in block if line.startswith("   ")]) <= 6


def test_trace_of_skipped_stages(parse: Callable[[str], ModuleOp], ctx: Context) -> None:
    lines = trace(parse, ctx, LOOP, Level.TILE)
    assert any(line.startswith(f"--- {LABELS['stage-inputs']} skipped at @k: ") for line in lines)


def test_trace_follows_new_and_vanished_symbols(parse: Callable[[str], ModuleOp], ctx: Context) -> None:
    lines = trace(parse, ctx, TENSOR, Level.KERNEL)
    both = [LABELS["lower-to-loops"], LABELS["outline"]]
    markers = [line for line in lines if line.startswith(tuple(f">>> {label}" for label in both))]
    assert markers == [f">>> {label} {symbol}" for label in both for symbol in ("@main", "@k")]


def test_diffs_chain(parse: Callable[[str], ModuleOp], ctx: Context) -> None:
    """Applying the diffs of a symbol one after the other leads from its first text to its last."""
    module = parse(LOOP)
    observed: list[str] = []
    observer = Trace(module, observed.append)
    text = str(module.body.block.first_op).splitlines()
    lower(module, ctx, Level.TILE, observer=observer)
    hunks: list[str] = []
    for line in observed:
        if line.startswith(">>> "):
            hunks = []
        elif line.startswith("<<< "):
            text = patched(text, hunks)
        elif not line.startswith("--- "):
            hunks.append(line)
    assert text == str(module.body.block.first_op).splitlines()


def patched(text: list[str], diff: list[str]) -> list[str]:
    """Apply a unified diff; its context must match."""
    result: list[str] = []
    position = 0
    for line in diff:
        if line.startswith("@@"):
            start = int(line.split()[1].split(",")[0].removeprefix("-")) - 1
            result += text[position:start]
            position = start
            continue
        if line[0] in " -":
            assert text[position] == line[1:]
            position += 1
        if line[0] in " +":
            result.append(line[1:])
    return result + text[position:]


def test_torch_ops_are_gone_below_torch_level(parse: Callable[[str], ModuleOp], ctx: Context) -> None:
    module = parse(TORCH)
    lower(module, ctx, Level.TENSOR)
    assert not any(isinstance(op, AtenOp) for op in module.walk())


@pytest.mark.parametrize("schedule", [None, "tileify"])
def test_masked_elements_are_skipped_with_any_schedule(
    schedule: str | None, parse: Callable[[str], ModuleOp], ctx: Context
) -> None:
    module = parse(CAUSAL)
    lower(module, ctx, Level.LOOP, schedule=schedule)
    assert any(isinstance(op, WhereOp) for op in module.walk())


LINEAR = """
func.func @main(%x: tensor<100x200xf32>, %y: tensor<72x200xf32>) -> tensor<100x72xf32> {
  %r = torch.aten.linear %x, %y : tensor<100x200xf32>, tensor<72x200xf32> -> tensor<100x72xf32>
  func.return %r : tensor<100x72xf32>
}
"""
_TILE = "blockify-launch{m=16 n=16},stage-inputs{memory=shared transpose=never}"
SCHEDULES = {
    "slabs": f"tileify,chunk-matmul-k{{bk=8}},{_TILE}",
    "boxes": f"tileify,chunk-matmul-k{{bk=8}},{_TILE},double-buffer{{depth=3}},tma-copy,"
    "pipeline-k-outer{distance=1 barrier=mbarrier}",
    "ticket": f"tileify,chunk-matmul-k{{bk=8}},split-matmul-k{{s=3 over=ticket}},{_TILE},double-buffer{{depth=3}},"
    "async-copy,pipeline-k-outer{distance=2}",
}


@pytest.mark.parametrize("schedule", SCHEDULES.values(), ids=SCHEDULES)
def test_what_each_pass_leaves_reads_back(schedule: str, parse: Callable[[str], ModuleOp], ctx: Context) -> None:
    """From tensors to kernels, the text after each pass parses, verifies and prints as it was."""
    seen: list[str] = []

    def reads_back(run: StageRun, module: ModuleOp) -> None:
        text = str(module)
        read = parse(text)
        read.verify()
        assert str(read) == text
        seen.append(run.stage.name)

    lower(parse(LINEAR), ctx, Level.KERNEL, schedule=schedule, observer=reads_back, verifiers=True)
    assert seen == [stage.name for stage in STAGES]
