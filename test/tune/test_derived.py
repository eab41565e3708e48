"""Kernels that take or give the low part of a buffer beside it: what is drawn, what is compared, and the key."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from xdsl.dialects.builtin import StringAttr, f32
from xdsl.utils.test_value import create_ssa_value

from deplodock.analysis.shape.derived import Derived
from deplodock.analysis.shape.nest import kernels
from deplodock.dialects.float_literals import FloatLiteralsParser
from deplodock.dialects.math_ext import LowPartOp
from deplodock.errors import UnsupportedError
from deplodock.interpreters.scalars import evaluate_scalar
from deplodock.interpreters.simulate import simulate
from deplodock.passes.driver import Level, lower, new_context, set_target
from deplodock.schedule.steps import ATTRIBUTE
from deplodock.tune.checking import wrong_results
from deplodock.tune.compiling import beginning
from deplodock.tune.drawing import derive, drawn
from deplodock.tune.task import Task, module_of, tasks
from deplodock.tune.widened import widen

M = "memref<64x64xf32>"
KERNEL = f"""
func.func @k(%w: {M}, %x_low: {M}, %out1: {M}, %x: {M}, %out0: {M}) {{
  %0 = arith.constant 0.0 : f32
  loop.for %m = 0 to 64 {{
    loop.for %n = 0 to 64 {{
      %y = loop.reduce {{arith.addf}} %k = 0 to 64 : f32 {{
        %a = loop.load %x[%m, %k] : {M}
        %l = loop.load %x_low[%m, %k] : {M}
        %both = math_ext.with_low_part %a, %l : f32
        %b = loop.load %w[%n, %k] : {M}
        %p = arith.mulf %both, %b {{deplodock.precision = "high"}} : f32
        loop.yield %p : f32
      }}
      %r = arith.maximumf %y, %0 : f32
      %r_low = math_ext.low_part %r : f32
      loop.store %r, %out0[%m, %n] : {M}
      loop.store %r_low, %out1[%m, %n] : {M}
    }}
  }}
  func.return
}}
"""


SCHEDULE = (
    "tileify,chunk-matmul-k{bk=32 kv=1},blockify-launch{m=64 n=64},stage-inputs{memory=shared transpose=never},"
    "tensor-tile{engine=wgmma m=64 n=64 rows=n},split-factors,"
    "double-buffer{depth=2},tma-copy,split-inner-for-swizzle,pipeline-k-outer"
)
"""Warpgroups read the low part of their right factor."""


def task_of(text: str) -> Task:
    module = FloatLiteralsParser(new_context(), text).parse_module()
    set_target(module, "h200")
    (task,) = tasks(module)
    return task


def results(task: Task, inputs: list[torch.Tensor], *, in_float64: bool = False) -> list[torch.Tensor]:
    """What the simulator gives of a task by the schedule, or in float64."""
    module, context = module_of(task)
    if in_float64:
        widen(module)
    else:
        (function,) = kernels(module)
        function.attributes[ATTRIBUTE] = StringAttr(SCHEDULE)
    lower(module, context, Level.KERNEL)
    given = [value.double().numpy() if in_float64 else value.numpy() for value in inputs]
    found = simulate(module, given)
    assert not found.findings
    return [torch.from_numpy(np.array(value)) for value in found.outputs]


def test_what_is_derived_is_drawn_so_and_compared_so() -> None:
    request = beginning(task := task_of(KERNEL))
    assert request.derived == {1: Derived(2, "math_ext.low_part"), 3: Derived(4, "math_ext.low_part")}
    w, x_low, x = inputs = drawn(request, "cpu")
    assert torch.equal(x_low, derive("math_ext.low_part", x))
    references = results(task, inputs, in_float64=True)
    torch.testing.assert_close(references[1], (x.double() @ w.double().T).relu())
    low, whole = got = results(task, inputs)
    assert not wrong_results(request, inputs, got, references)
    reason = "output 0: it is not math_ext.low_part of what it is derived from"
    assert wrong_results(request, inputs, [low * 1.001, whole], references) == reason
    assert wrong_results(request, inputs, [derive("math_ext.low_part", w), w], references).startswith("output 1: ")


def test_inputs_that_are_drawn_apart_do_not_match() -> None:
    """The product counts the low part that it is given: so it has to be that of the factor."""
    request = beginning(task := task_of(KERNEL))
    inputs = drawn(request, "cpu")
    inputs[1] = torch.roll(inputs[1], 1, 0)
    assert wrong_results(request, inputs, results(task, inputs), results(task, inputs, in_float64=True))


def test_tensors_have_the_low_part_of_the_evaluator() -> None:
    values = torch.randint(-(2**31), 2**31, (4096,), generator=torch.Generator().manual_seed(0)).to(torch.int32)
    values = torch.cat([values.view(torch.float32), torch.tensor([0.0, -0.0, torch.inf, -torch.inf, torch.nan])])
    with np.errstate(all="ignore"):
        right = evaluate_scalar(LowPartOp(create_ssa_value(f32)), [values.numpy()])
    assert derive("math_ext.low_part", values).numpy().tobytes() == right.tobytes()


def test_the_key_says_what_is_derived_from_what() -> None:
    key = task_of(KERNEL).key
    assert task_of(KERNEL.replace("x_low", "other")).key == key
    assert task_of(KERNEL.replace("%both, %b", "%a, %b")).key != key
    assert task_of(KERNEL.replace("%l = loop.load %x_low", "%l = loop.load %w")).key != key


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("%x_low[%m, %k]", "%x_low[%k, %m]", "the buffer %x_low of math_ext.with_low_part is that of no single other"),
        ("%x[%m, %k]", "%x_low[%m, %k]", "is that of no single other buffer"),
        ("%r_low, %out1[%m, %n]", "%r_low, %out1[%n, %m]", "the buffer %out1 of math_ext.low_part is that of no"),
        (
            "%b = loop.load %w[%n, %k]",
            "%b = math_ext.low_part %a : f32 //",
            "gives a part that is not stored, but goes to",
        ),
        ("%a, %l : f32", "%a, %0 : f32", "math_ext.with_low_part takes a low part that is no element of a buffer"),
    ],
)
def test_a_part_of_no_buffer_is_refused_by_name(old: str, new: str, message: str) -> None:
    task = task_of(KERNEL.replace(old, new))
    with pytest.raises(UnsupportedError, match=message):
        beginning(task)
