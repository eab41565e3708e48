"""What every operation says about memory, and what xDSL's cse and dce make of it."""

import pytest
from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Operation
from xdsl.parser import Parser
from xdsl.traits import IsTerminator, get_effects
from xdsl.transforms.common_subexpression_elimination import CommonSubexpressionElimination
from xdsl.transforms.dead_code_elimination import DeadCodeElimination

from deplodock.dialects.interfaces import Feature, NeedsFeature, accesses_of
from deplodock.dialects.kernel import Kernel
from deplodock.dialects.loop import Loop
from deplodock.dialects.tensor import TensorExt
from deplodock.dialects.tile import Tile
from deplodock.passes.driver import new_context

PARAMETERS = (
    "%x: memref<8xf32>, %y: memref<8xf32>, %v: f32, %w: f32, %i: index, %t: tensor<8xf32>,"
    " %s: memref<8xf32, #tile.memory<shared>>, %turns: memref<8xi32>"
)
ON_CHIP = "memref<4xf32, #tile.memory<shared>>"
RING = "memref<2x4xf32, #tile.memory<shared>>"
MAP = "!kernel.tensor_map<memref<8xf32>, box [8]>"
ROLES = """kernel.func @g() blocks(%b = 1) threads(%a = 64) {
  kernel.roles {
    kernel.role one(%p = 32) {}
    kernel.role other(%q = 32) {}
  }
}"""

OPERATIONS = {
    "tensor_ext.elementwise": ("%r = tensor_ext.elementwise {math.exp} %t : tensor<8xf32>", ()),
    "tensor_ext.reduce": ("%r = tensor_ext.reduce {arith.addf} %t dims [0] : tensor<8xf32> -> tensor<f32>", ()),
    "tensor_ext.scan": ("%r = tensor_ext.scan {arith.addf} %t dim 0 : tensor<8xf32>", ()),
    "tensor_ext.index_map": (
        "%r = tensor_ext.index_map %t affine_map<(d0) -> (d0)> : tensor<8xf32> -> tensor<8xf32>",
        (),
    ),
    "tensor_ext.iota": ("%r = tensor_ext.iota dim 0 : tensor<8xi64>", ()),
    "tensor_ext.gather": (
        """%n = arith.constant dense<0> : tensor<8xi64>
        %r = tensor_ext.gather %t at %n affine_map<(d0)[s0] -> (s0)>
          : tensor<8xf32> at tensor<8xi64> -> tensor<8xf32>""",
        (),
    ),
    "tensor_ext.pad": (
        "%r = tensor_ext.pad %t affine_map<(d0) -> (d0 + -1)> : tensor<8xf32> -> tensor<9xf32>",
        (),
    ),
    "tensor_ext.concat": (
        "%r = tensor_ext.concat %t, %t dim 0 : tensor<8xf32>, tensor<8xf32> -> tensor<16xf32>",
        (),
    ),
    "tensor_ext.kernel": (
        """%r = tensor_ext.kernel @k(%a = %t : tensor<8xf32>) -> tensor<8xf32> {
          tensor_ext.yield %a : tensor<8xf32>
        }""",
        (),
    ),
    "loop.for": ("loop.for %k = 0 to 8 {\n loop.store %v, %x[%k] : memref<8xf32>\n }", ("write x",)),
    "loop.reduce": (
        """%r = loop.reduce {arith.addf} %k = 0 to 8 : f32 {
          %e = loop.load %x[%k] : memref<8xf32>
          loop.yield %e : f32
        }""",
        ("read x",),
    ),
    "loop.scan": ("loop.for %k = 0 to 8 {\n %r = loop.scan {arith.addf} %v along (%k) : f32\n }", ("read k",)),
    "tensor_ext.recurrence": ("%r = tensor_ext.recurrence @cell from (%t : tensor<8xf32>) -> tensor<3x8xf32>", ()),
    "loop.repeat": ("loop.repeat %k = 0 to 4 {\n kernel.launch @h()\n }", ("read -", "write -")),
    "loop.part": (
        "%p = memref.alloc() : memref<2x8xf32>\n%r = loop.part %p[%i] : memref<2x8xf32> -> memref<8xf32>",
        (),
    ),
    "loop.index": ("%r = loop.index [%i + 1]", ()),
    "loop.where": ("loop.where %i < 4", ("alloc x",)),
    "loop.guard": ("loop.guard where (%i < 4) {\n loop.store %v, %x[0] : memref<8xf32>\n }", ("write x",)),
    "loop.inside": ("%r = loop.inside where (%i < 4)", ()),
    "loop.load": ("%r = loop.load %x[%i] : memref<8xf32>", ("read x",)),
    "loop.store": ("loop.store %v, %x[%i] : memref<8xf32>", ("write x",)),
    "tile.launch": (
        "tile.launch (%a = 8 : thread) {\n loop.store %v, %x[%a] : memref<8xf32>\n }",
        ("write x",),
    ),
    "tile.combine": (
        "tile.launch (%a = 8 : thread) {\n %r = tile.combine {arith.addf} %v over (%a) : f32\n }",
        ("read a",),
    ),
    "tile.contract": (
        """tile.launch (%a = 8 : thread) {
          %h = arith.truncf %v : f32 to bf16
          %r = tile.contract mma %h * %h over (%a) : bf16, bf16 -> f32
        }""",
        (),
    ),
    "tile.stage": (f"%r = tile.stage %x[d0] : memref<8xf32> to {ON_CHIP}", ("read x",)),
    "tile.keep": (f"%r = tile.keep %v[%i] : {ON_CHIP}", ()),
    "tile.store": (
        f"%r = tile.keep %v[%i] : {ON_CHIP}\ntile.store %r to %y[d0] : {ON_CHIP} to memref<8xf32>",
        ("write y",),
    ),
    "tile.ring": ("%r = tile.ring 2", ("alloc r",)),
    "tile.alloc": (f"%r = tile.alloc : {RING}", ("alloc r",)),
    "tile.copy": (
        f"%q = tile.ring 2\n%r = tile.alloc : {RING}\ntile.copy %x[d0] to %r at %q[%i] async : memref<8xf32> to {RING}",
        ("read x", "write q", "write r"),
    ),
    "tile.wait": ("%q = tile.ring 2\ntile.wait %q[%i]", ("write q",)),
    "tile.release": ("%q = tile.ring 2\ntile.release %q[%i]", ("write q",)),
    "kernel.func": ("kernel.func @g() blocks(%b = 1) threads(%a = 1) {}", ()),
    "kernel.roles": (ROLES, ("write -",)),
    "kernel.role": (ROLES, ("write -",)),
    "kernel.launch": ("kernel.launch @h()", ("read -", "write -")),
    "kernel.alloc": (f"%r = kernel.alloc : {ON_CHIP}", ("alloc r",)),
    "kernel.move": (
        "kernel.move 1 %x[0] to %s[0] : memref<8xf32> to memref<8xf32, #tile.memory<shared>>",
        ("read x", "write s"),
    ),
    "kernel.shuffle_xor": ("%r = kernel.shuffle_xor %v, 1 : f32", ()),
    "kernel.shuffle_up": ("%r = kernel.shuffle_up %v, 1 : f32", ()),
    "kernel.shuffle_last": ("%r = kernel.shuffle_last %v, 8 : f32", ()),
    "kernel.await_launches": ("kernel.await_launches", ("write -",)),
    "kernel.barrier": ("kernel.barrier", ("write - <SharedMemory>",)),
    "kernel.fence_proxy_async": ("kernel.fence_proxy_async", ("write - <SharedMemory>",)),
    "kernel.commit_group": ("kernel.commit_group", ("write - <SharedMemory>",)),
    "kernel.wait_group": ("kernel.wait_group 1", ("write - <SharedMemory>",)),
    "kernel.mbarrier": ("%r = kernel.mbarrier 3 arrivals 2", ("alloc r", "write - <SharedMemory>")),
    "kernel.arrive": ("%q = kernel.mbarrier 3 arrivals 2\nkernel.arrive %q[%i]", ("write - <SharedMemory>",)),
    "kernel.arrive_copies": (
        "%q = kernel.mbarrier 3 arrivals 2\nkernel.arrive_copies %q[%i]",
        ("write - <SharedMemory>",),
    ),
    "kernel.mma": (
        """%a = kernel.alloc : memref<2x4xbf16, #tile.memory<register>>
        %b = kernel.alloc : memref<4xbf16, #tile.memory<register>>
        %c = kernel.alloc : memref<2x2xf32, #tile.memory<register>>
        kernel.mma m16n8k16 %a[d0, d1] * %b[d0] into %c[d0, d1]
          : memref<2x4xbf16, #tile.memory<register>>, memref<4xbf16, #tile.memory<register>>
          -> memref<2x2xf32, #tile.memory<register>>""",
        ("read a", "read b", "read c", "write c"),
    ),
    "kernel.ldmatrix": (
        """%h = kernel.alloc : memref<8x8xbf16, #tile.memory<shared>>
        %a = kernel.alloc : memref<1x2xbf16, #tile.memory<register>>
        kernel.ldmatrix 1 %h[%i, 0] to %a[d0, d1]
          : memref<8x8xbf16, #tile.memory<shared>> to memref<1x2xbf16, #tile.memory<register>>""",
        ("read h", "write a"),
    ),
    "kernel.wgmma": (
        """%h = kernel.alloc : memref<64x64xbf16, #tile.swizzle<128>, #tile.memory<shared>>
        %c = kernel.alloc : memref<32xf32, #tile.memory<register>>
        kernel.wgmma m64n64k16 %h[d0, d1] * %h[d0, d1 + 16] into %c[0]
          : memref<64x64xbf16, #tile.swizzle<128>, #tile.memory<shared>>
          * memref<64x64xbf16, #tile.swizzle<128>, #tile.memory<shared>> into memref<32xf32, #tile.memory<register>>""",
        ("read c", "read h", "write - <SharedMemory>", "write c"),
    ),
    "kernel.wgmma_fence": ("kernel.wgmma_fence", ("write - <SharedMemory>",)),
    "kernel.wgmma_commit": ("kernel.wgmma_commit", ("write - <SharedMemory>",)),
    "kernel.wgmma_wait": ("kernel.wgmma_wait 1", ("write - <SharedMemory>",)),
    "kernel.wait_phase": (
        "%q = kernel.mbarrier 3 arrivals 2\nkernel.wait_phase %q[%i], 0",
        ("write - <SharedMemory>",),
    ),
    "kernel.counters": ("%r = kernel.counters : memref<8xi32>", ("alloc r",)),
    "kernel.fence": ("kernel.fence", ("write -",)),
    "kernel.ticket": ("%r = kernel.ticket %turns[%i] of 2 : memref<8xi32>", ("read turns", "write -", "write turns")),
    "kernel.cluster_barrier": ("kernel.cluster_barrier", ("write - <SharedMemory>",)),
    "kernel.cluster_move": (
        """%r = kernel.alloc : memref<1xf32, #tile.memory<register>>
        kernel.cluster_move 1 %s[%i] of %i to %r[0]
          : memref<8xf32, #tile.memory<shared>> to memref<1xf32, #tile.memory<register>>""",
        ("read s", "write r"),
    ),
    "kernel.tensor_map": (f"%r = kernel.tensor_map %x : {MAP}", ()),
    "kernel.tma_load": (
        f"""%m = kernel.tensor_map %x : {MAP}
        %q = kernel.mbarrier 3 arrivals 2
        kernel.tma_load %m[%i] to %s[0] signal %q[%i] : {MAP} to memref<8xf32, #tile.memory<shared>>""",
        ("read m", "write - <SharedMemory>", "write s"),
    ),
    "kernel.tma_store": (
        f"""%m = kernel.tensor_map %x : {MAP}
        kernel.tma_store %s[0] to %m[%i] : memref<8xf32, #tile.memory<shared>> to {MAP}""",
        ("read s", "write - <SharedMemory>", "write m"),
    ),
    "kernel.tma_commit": ("kernel.tma_commit", ("write - <SharedMemory>",)),
    "kernel.tma_wait": ("kernel.tma_wait 1", ("write - <SharedMemory>",)),
}
"""Each operation in a function of `PARAMETERS`, and its effects: kind, value, resource if it is not the default one."""


@pytest.fixture(scope="module")
def context() -> Context:
    return new_context()


def parse(context: Context, body: str) -> ModuleOp:
    text = f"""
    kernel.func @h() blocks(%b = 1) threads(%a = 1) {{}}
    func.func @cell(%t: tensor<8xf32>) -> tensor<8xf32> {{
      func.return %t : tensor<8xf32>
    }}
    func.func @f({PARAMETERS}) {{
      {body}
      func.return
    }}"""
    module = Parser(context, text).parse_module()
    module.verify()
    return module


def count(module: ModuleOp, name: str) -> int:
    return sum(op.name == name for op in module.walk())


def effects(op: Operation) -> tuple[str, ...] | None:
    found = get_effects(op)
    if found is None:
        return None
    lines: list[str] = []
    for effect in found:
        value = getattr(effect.value, "name_hint", None) or "-"
        resource = effect.resource.name()
        lines.append(f"{effect.kind.name.lower()} {value}" + ("" if resource == "<Default>" else f" {resource}"))
    return tuple(sorted(lines))


def after_cse(context: Context, body: str) -> ModuleOp:
    module = parse(context, body)
    CommonSubexpressionElimination().apply(context, module)
    module.verify()
    return module


def after_dce(context: Context, body: str) -> ModuleOp:
    module = parse(context, body)
    DeadCodeElimination().apply(context, module)
    module.verify()
    return module


def test_the_table_is_complete() -> None:
    operations = [op for dialect in (TensorExt, Loop, Tile, Kernel) for op in dialect.operations]
    assert sorted(op.name for op in operations if not op.has_trait(IsTerminator)) == sorted(OPERATIONS)


@pytest.mark.parametrize("name", OPERATIONS)
def test_effects(context: Context, name: str) -> None:
    body, expected = OPERATIONS[name]
    op = [op for op in parse(context, body).walk() if op.name == name][-1]
    assert effects(op) == expected


TOUCHING = [
    *("loop.load", "loop.store"),
    *(
        "kernel.move",
        "kernel.mma",
        "kernel.ldmatrix",
        "kernel.wgmma",
        "kernel.ticket",
        "kernel.cluster_move",
        "kernel.tma_load",
        "kernel.tma_store",
    ),
]


@pytest.mark.parametrize("name", OPERATIONS)
def test_accesses_are_the_effects_on_buffers(context: Context, name: str) -> None:
    """An operation says twice what it reads and writes; both say the same."""
    op = [op for op in parse(context, OPERATIONS[name][0]).walk() if op.name == name][-1]
    accesses = accesses_of(op)
    assert bool(accesses) == (name in TOUCHING)
    if accesses:
        words = {f"{'write' if access.writes else 'read'} {access.buffer.name_hint}" for access in accesses}
        assert words == {text for text in effects(op) or () if not text.startswith("write -")}


@pytest.mark.parametrize(
    ("body", "needed"),
    [
        ("kernel.move 1 %x[0] to %s[0] : memref<8xf32> to memref<8xf32, #tile.memory<shared>>", None),
        (
            "kernel.move 1 async %x[0] to %s[0] : memref<8xf32> to memref<8xf32, #tile.memory<shared>>",
            Feature.ASYNC_COPIES,
        ),
        ("%q = kernel.mbarrier 3 arrivals 2\nkernel.arrive %q[%i]", None),
        ("%q = kernel.mbarrier 3 arrivals 2\nkernel.arrive %q[%i] expect 4", Feature.EXPECTED_BYTES),
    ],
)
def test_what_an_operation_needs_depends_on_its_form(context: Context, body: str, needed: Feature | None) -> None:
    op = [op for op in parse(context, body).walk() if op.name in ("kernel.move", "kernel.arrive")][-1]
    assert isinstance(op, NeedsFeature)
    assert op.needs() is needed


UNUSED_DIE = [
    "tensor_ext.elementwise",
    "tensor_ext.reduce",
    "tensor_ext.scan",
    "tensor_ext.index_map",
    "tensor_ext.iota",
    "tensor_ext.gather",
    "tensor_ext.pad",
    "tensor_ext.concat",
    "tensor_ext.kernel",
    "tensor_ext.recurrence",
    "loop.part",
    "loop.reduce",
    "loop.scan",
    "loop.index",
    "loop.inside",
    "loop.load",
    "kernel.tensor_map",
    "tile.combine",
    "tile.contract",
    "tile.stage",
    "tile.keep",
    "tile.ring",
    "tile.alloc",
    "kernel.alloc",
    "kernel.shuffle_xor",
    "kernel.shuffle_up",
    "kernel.shuffle_last",
    "kernel.counters",
]


@pytest.mark.parametrize("name", UNUSED_DIE)
def test_unused_values_die(context: Context, name: str) -> None:
    assert count(after_dce(context, OPERATIONS[name][0]), name) == 0


@pytest.mark.parametrize("name", sorted(set(OPERATIONS) - set(UNUSED_DIE)))
def test_what_does_something_is_kept(context: Context, name: str) -> None:
    body = OPERATIONS[name][0]
    assert count(after_dce(context, body), name) == count(parse(context, body), name)
    assert count(after_cse(context, body), name) == count(parse(context, body), name)


LOADS = "%a = loop.load %x[%i] : memref<8xf32>\n{between}\n%b = loop.load %x[%i] : memref<8xf32>"
STORE_BOTH = "\nloop.store %a, %y[0] : memref<8xf32>\nloop.store %b, %y[1] : memref<8xf32>"


@pytest.mark.parametrize(
    ("between", "left"),
    [
        ("", 1),
        ("loop.where %i < 4", 1),
        ("%c = kernel.shuffle_xor %v, 1 : f32", 1),
        ("loop.for %k = 0 to 4 {\n loop.where %k < 2\n}", 1),
        ("loop.store %v, %x[%i] : memref<8xf32>", 2),
        ("loop.for %k = 0 to 4 {\n loop.store %v, %x[%k] : memref<8xf32>\n}", 2),
        ("loop.guard where (%i < 4) {\n loop.store %v, %x[0] : memref<8xf32>\n}", 2),
        ("kernel.barrier", 2),
        ("kernel.launch @h()", 2),
        ("kernel.move 1 %x[0] to %s[0] : memref<8xf32> to memref<8xf32, #tile.memory<shared>>", 2),
    ],
)
def test_equal_loads_merge_unless_something_writes_between(context: Context, between: str, left: int) -> None:
    module = after_cse(context, LOADS.format(between=between) + STORE_BOTH)
    assert count(module, "loop.load") == left


@pytest.mark.parametrize(("between", "left"), [("", 1), ("loop.store %v, %x[0] : memref<8xf32>", 2)])
def test_equal_reductions_and_slabs_merge_unless_something_writes_between(
    context: Context, between: str, left: int
) -> None:
    reduction = OPERATIONS["loop.reduce"][0]
    body = f"{reduction.replace('%r', '%a')}\n{between}\n{reduction.replace('%r', '%b')}{STORE_BOTH}"
    assert count(after_cse(context, body), "loop.reduce") == left

    stage, use = (
        OPERATIONS["tile.stage"][0],
        "\n%e{0} = loop.load %{0}[0] : {1}\nloop.store %e{0}, %y[0] : memref<8xf32>",
    )
    body = f"{stage.replace('%r', '%a')}\n{between}\n{stage.replace('%r', '%b')}"
    body += use.format("a", ON_CHIP) + use.format("b", ON_CHIP)
    assert count(after_cse(context, body), "tile.stage") == left


def test_shuffles_are_values_and_merge_across_a_barrier(context: Context) -> None:
    body = "%a = kernel.shuffle_xor %v, 1 : f32\nkernel.barrier\n%b = kernel.shuffle_xor %v, 1 : f32" + STORE_BOTH
    assert count(after_cse(context, body), "kernel.shuffle_xor") == 1


def test_equal_stores_and_allocations_do_not_merge(context: Context) -> None:
    store = OPERATIONS["loop.store"][0]
    assert count(after_cse(context, f"{store}\n{store}"), "loop.store") == 2
    use = "\n%e{0} = loop.load %{0}[0] : {1}\nloop.store %e{0}, %y[0] : memref<8xf32>"
    body = "\n".join(f"%{name} = kernel.alloc : {ON_CHIP}" for name in "ab")
    body += use.format("a", ON_CHIP) + use.format("b", ON_CHIP)
    assert count(after_cse(context, body), "kernel.alloc") == 2


def test_equal_combines_merge_in_one_block_only(context: Context) -> None:
    body = """tile.launch (%k = 8 : thread) {
      %a = tile.combine {arith.addf} %v over (%k) : f32
      %b = tile.combine {arith.addf} %v over (%k) : f32
      loop.for %j = 0 to 4 {
        loop.where %k < %j
        %c = tile.combine {arith.addf} %v over (%k) : f32
        loop.store %c, %y[%j] : memref<8xf32>
      }
      loop.store %a, %x[0] : memref<8xf32>
      loop.store %b, %x[1] : memref<8xf32>
    }"""
    assert count(after_cse(context, body), "tile.combine") == 2


def test_an_activity_dies_with_its_loop(context: Context) -> None:
    body = """%r = loop.reduce {arith.addf} %k = 0 to 8 : f32 {
      loop.where %k < %i
      %e = loop.load %x[%k] : memref<8xf32>
      loop.yield %e : f32
    }"""
    assert count(after_dce(context, body), "loop.where") == 0
    used = body + "\nloop.store %r, %y[0] : memref<8xf32>"
    assert count(after_dce(context, used), "loop.where") == 1


def test_a_loop_without_writes_dies(context: Context) -> None:
    body = "loop.for %k = 0 to 8 {\n %e = loop.load %x[%k] : memref<8xf32>\n }"
    assert count(after_dce(context, body), "loop.for") == 0
