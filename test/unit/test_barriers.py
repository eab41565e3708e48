"""What verify-barriers and place-barriers refuse, and that the rules refuse bad options."""

import pytest
from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.parser import Parser
from xdsl.universe import Universe
from xdsl.utils.exceptions import DiagnosticException, PassFailedException

from deplodock.passes.kernel.place_barriers import PlaceBarriersPass
from deplodock.passes.kernel.verify_barriers import VerifyBarriersPass
from deplodock.passes.tile.blockify_launch import BlockifyLaunchPass
from deplodock.passes.tile.cooperative_reduce import CooperativeReducePass
from deplodock.passes.tile.stage_inputs import StageInputsPass
from deplodock.passes.tile.tileify import TileifyPass

CONTEXT = Context()
for _name, _factory in Universe.get_multiverse().all_dialects.items():
    CONTEXT.register_dialect(_name, _factory)


def kernel(body: str) -> ModuleOp:
    """A kernel of 64 threads with a shared buffer s of 64 elements; `S` in the body is its type."""
    shared = "memref<64xf32, #tile.memory<shared>>"
    text = f"""
    kernel.func @k(%x: memref<64xf32>, %out: memref<64xf32>) blocks(%block = 4) threads(%thread = 64) {{
      %s = kernel.alloc : {shared}
      %v = loop.load %x[%thread] : memref<64xf32>
      {body.replace(": S", ": " + shared)}
    }}"""
    module = Parser(CONTEXT, text).parse_module()
    module.verify()
    return module


REFUSED = {
    "%s is written by loop.store and then read by loop.load with no kernel.barrier between them; add one": """
      loop.store %v, %s[%thread] : S
      %w = loop.load %s[-%thread + 63] : S""",
    "%s is read by loop.load and then overwritten by loop.store with no kernel.barrier between them; add one": """
      loop.store %v, %s[%thread] : S
      kernel.barrier
      %w = loop.load %s[-%thread + 63] : S
      loop.store %w, %s[%thread] : S""",
    "kernel.barrier stands in a loop.guard that not all threads run alike; move it out": """
      loop.guard where (%thread < 32) {
        kernel.barrier
      }""",
    "kernel.barrier stands in a loop.for that not all threads run alike; move it out": """
      loop.for %i = 0 to %thread {
        loop.for %j = 0 to 4 {
          kernel.barrier
        }
      }""",
    "kernel.shuffle_xor stands in a loop.guard that not all threads run alike; move it out": """
      loop.guard where (%thread < 48) {
        %w = kernel.shuffle_xor %v, 16 : f32
      }""",
}


@pytest.mark.parametrize("message", REFUSED)
def test_verify_refuses(message) -> None:
    """Hazards and barriers that not all threads reach are named."""
    with pytest.raises(DiagnosticException) as error:
        VerifyBarriersPass().apply(CONTEXT, kernel(REFUSED[message]))
    assert str(error.value) == f"verify-barriers: @k: {message}"


@pytest.mark.parametrize(
    "body",
    [
        "loop.guard where (%block < 2) {\n kernel.barrier\n }",
        "loop.for %i = 0 to %block {\n kernel.barrier\n }",
        "loop.store %v, %s[%thread] : S\n %w = loop.load %s[%thread] : S",
        "loop.store %v, %s[%thread] : S\n kernel.barrier\n %w = loop.load %s[0] : S",
    ],
)
def test_verify_accepts(body) -> None:
    """Uniform branches may hold barriers, and a thread sees its own writes."""
    VerifyBarriersPass().apply(CONTEXT, kernel(body))


@pytest.mark.parametrize("around", ["loop.guard where (%thread < 32)", "loop.for %i = 0 to %thread"])
def test_no_place_for_a_barrier(around) -> None:
    """A hazard inside code that threads leave at different times cannot be mended by a barrier."""
    body = f"{around} {{\n loop.store %v, %s[%thread] : S\n %w = loop.load %s[-%thread + 63] : S\n }}"
    with pytest.raises(DiagnosticException, match="that not all threads run alike; split it"):
        PlaceBarriersPass().apply(CONTEXT, kernel(body))


ROWS = """
func.func @k(%x: memref<6x64xf32>, %out: memref<6xf32>) ATTRIBUTES {
  loop.for %i = 0 to 6 {
    %s = loop.reduce {arith.addf} %k = 0 to 64 : f32 {
      %v = loop.load %x[%i, %k] : memref<6x64xf32>
      loop.yield %v : f32
    }
    loop.store %s, %out[%i] : memref<6xf32>
  }
  func.return
}
"""


def rows(schedule: str = "") -> ModuleOp:
    attributes = f'attributes {{deplodock.schedule = "{schedule}"}}' if schedule else ""
    return Parser(CONTEXT, ROWS.replace("ATTRIBUTES", attributes)).parse_module()


@pytest.mark.parametrize(
    ("rule", "message"),
    [
        (CooperativeReducePass(threads=0), "the option threads must be a positive integer, got 0"),
        (CooperativeReducePass(vector=-4), "the option vector must be a positive integer, got -4"),
        (BlockifyLaunchPass(threads=0), "the option threads must be a positive integer, got 0"),
        (BlockifyLaunchPass(m=8), "blockify-launch{m=8} applies to no kernel: @k: m and n tile a contraction"),
        (StageInputsPass(memory="register"), "stage-inputs{memory=register} applies to no kernel: @k: %x: a thread"),
    ],
)
def test_options_that_no_kernel_takes(rule, message) -> None:
    """An option that was given and cannot apply is an error, and changes nothing."""
    module = rows()
    TileifyPass().apply(CONTEXT, module)
    before = str(module)
    with pytest.raises(PassFailedException) as error:
        rule.apply(CONTEXT, module)
    assert message in str(error.value)
    assert str(module) == before


@pytest.mark.parametrize(
    ("schedule", "message"),
    [
        ("tileify,cooperative-reduce{lanes=2}", 'gives cooperative-reduce a bad option: Provided arguments ["lanes"]'),
        ("tileify,cooperative-reduce{threads=many}", "gives cooperative-reduce a bad option: Incompatible types"),
        ("tileify,cooperative-reduce{keep=some}", "gives cooperative-reduce a bad option: Incompatible types"),
        ("tileify,cooperative-reduce{threads=0}", "the option threads must be a positive integer, got 0"),
        ("tilefy,cooperative-reduce", "the schedule of @k names tilefy, which is not one of choose-schedule, tileify"),
    ],
)
def test_bad_schedule(schedule, message) -> None:
    """The options of a schedule are checked as if they were given to the passes."""
    module = rows(schedule)
    with pytest.raises(PassFailedException) as error:  # noqa: PT012
        TileifyPass().apply(CONTEXT, module)
        CooperativeReducePass().apply(CONTEXT, module)
    assert message in str(error.value)
