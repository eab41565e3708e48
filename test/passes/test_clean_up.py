"""What the pipeline does between passes is what xDSL's canonicalize and cse do, where they do anything."""

from __future__ import annotations

import pytest
from xdsl.dialects.builtin import ModuleOp
from xdsl.parser import Parser
from xdsl.transforms.canonicalize import CanonicalizePass
from xdsl.transforms.common_subexpression_elimination import CommonSubexpressionElimination

from deplodock.passes import clean_up as module_of_clean_up
from deplodock.passes.clean_up import clean_up
from deplodock.passes.driver import new_context

CONTEXT = new_context()

M = "memref<4xf32>"
LOAD = f"loop.load %x[%i] : {M}"
STORE = f"loop.store %v, %x[%i] : {M}"


def parse(body: str) -> ModuleOp:
    text = f"""
    func.func @f(%x: {M}, %n: index, %a: i32) {{
      loop.for %i = 0 to 4 {{
        %v = {LOAD}
        {body}
        {STORE}
      }}
      func.return
    }}"""
    return Parser(CONTEXT, text).parse_module()


CLEAN = {
    "nothing": "",
    "equal constants in two loops": "\n".join(
        f"""loop.for %j{k} = 0 to 4 {{
          %c{k} = arith.constant 1.0 : f32
          loop.store %c{k}, %x[%j{k}] : {M}
        }}"""
        for k in "01"
    ),
    "different subscripts": f"%w = loop.index [%i * 2]\n%u = loop.index [%i * 3]\nloop.store %v, %x[%w + %u] : {M}",
}
UNCLEAN = {
    "a dead value": f"%w = {LOAD}",
    "a dead chain": "%w = arith.addf %v, %v : f32\n%u = arith.mulf %w, %w : f32",
    "a dead loop": f"loop.for %j = 0 to 4 {{ %w = {LOAD} }}",
    "dead code in a loop": f"loop.for %j = 0 to 4 {{ %w = {LOAD}\nloop.store %v, %x[%j] : {M} }}",
    "equal values": f"%w = loop.index [%i * 2]\n%u = loop.index [%i * 2]\nloop.store %v, %x[%w + %u] : {M}",
    "a value equal to one outside": f"""%w = loop.index [%n * 2]
      loop.store %v, %x[%w] : {M}
      loop.for %j = 0 to 4 {{ %u = loop.index [%n * 2]\nloop.store %v, %x[%u] : {M} }}""",
    "equal reads": f"%w = {LOAD}\nloop.store %w, %x[0] : {M}",
    "equal reductions": "\n".join(
        f"""%r{k} = loop.reduce {{arith.addf}} %k{k} = 0 to 4 : f32 {{
          %w{k} = loop.load %x[%k{k}] : {M}
          loop.yield %w{k} : f32
        }}"""
        for k in "01"
    )
    + f"\nloop.store %r0, %x[0] : {M}\nloop.store %r1, %x[1] : {M}",
    "a sum of constants": f"""%c = arith.constant 1.0 : f32
      %d = arith.constant 2.0 : f32
      %e = arith.addf %c, %d : f32
      loop.store %e, %x[0] : {M}""",
    "a choice of one value": f"""%c = arith.cmpi slt, %a, %a : i32
      %w = arith.select %c, %v, %v : f32
      loop.store %w, %x[0] : {M}""",
}


READ_AFTER_WRITE = f"{STORE}\n%w = {LOAD}\nloop.store %w, %x[0] : {M}"


def cleaned(module: ModuleOp) -> str:
    """The text of a module after xDSL's passes."""
    CanonicalizePass().apply(CONTEXT, module)
    CommonSubexpressionElimination().apply(CONTEXT, module)
    return str(module)


@pytest.mark.parametrize("body", CLEAN.values(), ids=CLEAN)
def test_a_clean_module_is_left_alone(body: str, monkeypatch: pytest.MonkeyPatch) -> None:
    assert cleaned(parse(body)) == str(parse(body))
    monkeypatch.setattr(module_of_clean_up, "PatternRewriteWalker", None)
    assert not clean_up(CONTEXT, parse(body))


@pytest.mark.parametrize("body", UNCLEAN.values(), ids=UNCLEAN)
def test_what_is_cleaned_up(body: str) -> None:
    module = parse(body)
    assert clean_up(CONTEXT, module)
    assert str(module) == cleaned(parse(body)) != str(parse(body))


@pytest.mark.parametrize("kind", [kind for kind in UNCLEAN if "dead" in kind])
def test_dead_operations_alone_go_in_one_sweep(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    module = parse(UNCLEAN[kind])
    monkeypatch.setattr(module_of_clean_up, "PatternRewriteWalker", None)
    assert clean_up(CONTEXT, module)
    assert not clean_up(CONTEXT, module)


def test_a_read_after_a_write_stays() -> None:
    module = parse(READ_AFTER_WRITE)
    clean_up(CONTEXT, module)
    assert str(module) == str(parse(READ_AFTER_WRITE))
