"""Why rules leave a kernel as it is, where the files of their own do not show it; text and schedule lead there."""

import re

import pytest
from xdsl.passes import PassPipeline
from xdsl.utils.exceptions import DiagnosticException

from deplodock.passes.driver import new_context
from deplodock.passes.pipeline import PASSES
from deplodock.passes.remarks import collect
from deplodock.tools.source import LocatingParser

AVAILABLE = {stage.name: stage.load for stage in PASSES}

MATMUL = """func.func @k(%x: memref<64x64xf32>, %w: memref<64x64xf32>, %out: memref<64x64xf32>) {
  loop.for %i = 0 to 64 {
    loop.for %j = 0 to 64 {
      %acc = loop.reduce {arith.addf} %k = 0 to 64 : f32 {
        %a = loop.load %x[%i, %k] : memref<64x64xf32>
        %b = loop.load %w[%k, %j] : memref<64x64xf32>
        %p = arith.mulf %a, %b : f32
        loop.yield %p : f32
      }
      loop.store %acc, %out[%i, %j] : memref<64x64xf32>
    }
  }
  func.return
}
"""
BIAS = MATMUL.replace("%out: memref", "%bias: memref<64xf32>, %out: memref").replace(
    "      loop.store %acc",
    """      %c = loop.load %bias[%j] : memref<64xf32>
      %s = arith.addf %acc, %c : f32
      loop.store %s""",
)
COPY = """func.func @k(%x: memref<64xf32>, %out: memref<64xf32>) {
  loop.for %i = 0 to 64 {
    %v = loop.load %x[%i] : memref<64xf32>
    loop.store %v, %out[%i] : memref<64xf32>
  }
  func.return
}
"""
ROWS = """func.func @k(%x: memref<64x64xf32>, %out: memref<64x64xf32>) {
  loop.for %i = 0 to 64 {
    %sum = loop.reduce {arith.addf} %k = 0 to 64 : f32 {
      %v = loop.load %x[%i, %k] : memref<64x64xf32>
      loop.yield %v : f32
    }
    loop.for %j = 0 to 64 {
      %v = loop.load %x[%i, %j] : memref<64x64xf32>
      %y = arith.mulf %v, %sum : f32
      loop.store %y, %out[%i, %j] : memref<64x64xf32>
    }
  }
  func.return
}
"""
TILED = "tileify,chunk-matmul-k{bk=16},blockify-launch{m=32 n=32},stage-inputs"
BOXES = f"{TILED},double-buffer,tma-copy"
RING = f"{TILED},double-buffer,async-copy,pipeline-k-outer"
DYNAMIC = """func.func @k(%x: memref<64xf32>, %out: memref<64xf32>, %n: index) {
  tile.launch (%i = %n : thread, %j = 4 : thread) {
    %acc = loop.reduce {arith.addf} %k = 0 to 8 : f32 {
      %a = loop.load %x[%i * 8 + %k] : memref<64xf32>
      %b = loop.load %x[%k * 8 + %j] : memref<64xf32>
      %p = arith.mulf %a, %b : f32
      loop.yield %p : f32
    }
    loop.store %acc, %out[%i * 4 + %j] : memref<64xf32>
  }
  func.return
}
"""
FILLED = """func.func @k(%x: memref<8x64xf32>, %out: memref<64xf32>, %n: index) {
  tile.launch (%t = 64 : thread) {
    %acc = loop.reduce {arith.addf} %k = 0 to 8 : f32 {
      %s = tile.stage %x[%k, d0] buffers 2 : memref<8x64xf32> to memref<64xf32, #tile.memory<shared>>
      %v = loop.load %s[%t] : memref<64xf32, #tile.memory<shared>>
      loop.store %v, %s[%t] : memref<64xf32, #tile.memory<shared>>
      loop.yield %v : f32
    }
    loop.store %acc, %out[%t] : memref<64xf32>
  }
  func.return
}
"""
COMPUTED = """func.func @k(%x: memref<8x64xf32>, %p: memref<8xi32>, %out: memref<64xf32>) {
  tile.launch (%t = 64 : thread) {
    %acc = loop.reduce {arith.addf} %k = 0 to 8 : f32 {
      %i = loop.load %p[%k] : memref<8xi32>
      %at = arith.index_cast %i : i32 to index
      %s = tile.stage %x[%at, d0] buffers 2 : memref<8x64xf32> to memref<64xf32, #tile.memory<shared>>
      %v = loop.load %s[%t] : memref<64xf32, #tile.memory<shared>>
      loop.yield %v : f32
    }
    loop.store %acc, %out[%t] : memref<64xf32>
  }
  func.return
}
"""
READ = """func.func @k(%x: memref<4x16xf32>, %out: memref<4x64xf32>) {{
  tile.launch (%i = 4 : block, %t = 64 : thread) {{
    %a = loop.reduce {{arith.addf}} %k = 0 to 8 : f32 {{
      %v = loop.load %x[%i, {}] : memref<4x16xf32>
      loop.yield %v : f32
    }}
    %b = loop.reduce {{arith.addf}} %k = 0 to 8 : f32 {{
      %v = loop.load %x[%i, {}] : memref<4x16xf32>
      loop.yield %v : f32
    }}
    %c = arith.addf %a, %b : f32
    loop.store %c, %out[%i, %t] : memref<4x64xf32>
  }}
  func.return
}}
"""
MASKED = MATMUL.replace("    loop.for %j = 0 to 64 {\n", "    loop.for %j = 0 to 64 {\n      loop.where %i < 60\n")
MASKED_ROWS = ROWS.replace("    loop.for %j = 0 to 64 {\n", "    loop.for %j = 0 to 64 {\n      loop.where %j < 60\n")

TENSOR = """func.func @k(%x: memref<256x64xbf16>, %w: memref<256x64xbf16>, %out: memref<256x256xf32>) {
  tile.launch (%m = 256 : thread, %n = 256 : thread) {
    %xs = tile.stage %x[d0, d1] : memref<256x64xbf16> to memref<256x64xbf16, #tile.memory<shared>>
    %ws = tile.stage %w[d0, d1] : memref<256x64xbf16> to memref<256x64xbf16, #tile.memory<shared>>
    %acc = loop.reduce {arith.addf} %k = 0 to 64 : f32 {
      %a = loop.load %xs[%m, %k] : memref<256x64xbf16, #tile.memory<shared>>
      %af = arith.extf %a : bf16 to f32
      %b = loop.load %ws[%n, %k] : memref<256x64xbf16, #tile.memory<shared>>
      %bf = arith.extf %b : bf16 to f32
      %p = arith.mulf %af, %bf : f32
      loop.yield %p : f32
    }
    loop.store %acc, %out[%m, %n] : memref<256x256xf32>
  }
  func.return
}
"""


def _chunked(m: int) -> str:
    """A product of m rows and 256 columns, in chunks of k."""
    return f"""func.func @k(%x: memref<{m}x64xbf16>, %w: memref<256x64xbf16>, %out: memref<{m}x256xf32>) {{
  tile.launch (%m = {m} : thread, %n = 256 : thread) {{
    %acc = loop.reduce {{arith.addf}} %ko = 0 to 4 : f32 {{
      %xs = tile.stage %x[d0, %ko * 16 + d1] : memref<{m}x64xbf16> to memref<{m}x16xbf16, #tile.memory<shared>>
      %ws = tile.stage %w[d0, %ko * 16 + d1] : memref<256x64xbf16> to memref<256x16xbf16, #tile.memory<shared>>
      %part = loop.reduce {{arith.addf}} %k = 0 to 16 : f32 {{
        %a = loop.load %xs[%m, %k] : memref<{m}x16xbf16, #tile.memory<shared>>
        %af = arith.extf %a : bf16 to f32
        %b = loop.load %ws[%n, %k] : memref<256x16xbf16, #tile.memory<shared>>
        %bf = arith.extf %b : bf16 to f32
        %p = arith.mulf %af, %bf : f32
        loop.yield %p : f32
      }}
      loop.yield %part : f32
    }}
    loop.store %acc, %out[%m, %n] : memref<{m}x256xf32>
  }}
  func.return
}}
"""


CHUNKED = _chunked(256)
USED = CHUNKED.replace("      loop.yield %part", "      %minus = arith.negf %part : f32\n      loop.yield %part")
OUTSIDE = """func.func @k(%x: memref<64x64xbf16>, %w: memref<64x64xbf16>, %out: memref<64x64xf32>) {
  tile.launch (%m = 64 : thread, %n = 64 : thread) {
    %xs = tile.stage %x[d0, d1] : memref<64x64xbf16> to memref<64x64xbf16, #tile.memory<shared>>
    %ws = tile.stage %w[d0, d1] : memref<64x64xbf16> to memref<64x64xbf16, #tile.memory<shared>>
    %acc = loop.reduce {arith.addf} %ko = 0 to 4 : f32 {
      %b = loop.load %ws[%n, %ko] : memref<64x64xbf16, #tile.memory<shared>>
      %acc1 = loop.reduce {arith.addf} %k = 0 to 16 : f32 {
        %a = loop.load %xs[%m, %ko * 16 + %k] : memref<64x64xbf16, #tile.memory<shared>>
        %af = arith.extf %a : bf16 to f32
        %bf = arith.extf %b : bf16 to f32
        %p = arith.mulf %af, %bf : f32
        loop.yield %p : f32
      }
      loop.yield %acc1 : f32
    }
    loop.store %acc, %out[%m, %n] : memref<64x64xf32>
  }
  func.return
}
"""
TWO_ROWS = TENSOR.replace("%m = 256", "%u = 4 : thread, %m = 64").replace("[%m, ", "[%u * 64 + %m, ")
BESIDE = TENSOR.replace("      %p = ", "      %one = arith.constant 1.0 : f32\n      %p = ")
UNSTAGED = TENSOR.replace(
    "loop.load %ws[%n, %k] : memref<256x64xbf16, #tile.memory<shared>>", "loop.load %w[%n, %k] : memref<256x64xbf16>"
)


def _scores(features: int = 4, rows: str = "8 : thread", taken: str = "f32", values: str = "f32") -> str:
    """Attention in one loop, of queries and keys of the type `taken`."""

    def load(name: str, place: str, type: str, memref: str) -> str:
        if type == "f32":
            return f"%{name} = loop.load {place} : memref<{memref}xf32>"
        wide = f"%{name} = arith.extf %{name}n : {type} to f32"
        return f"%{name}n = loop.load {place} : memref<{memref}x{type}>\n{wide}"

    few, many = f"8x{features}", f"16x{features}"
    return f"""func.func @k(%q: memref<{few}x{taken}>, %k: memref<{many}x{taken}>, %v: memref<{many}x{values}>,
               %out: memref<{few}xf32>, %rows: index) {{
  %low = arith.constant -3.40282347e+38 : f32
  %high = arith.constant 3.40282347e+38 : f32
  tile.launch (%m = {rows}, %d = {features} : thread) {{
    %max, %o = loop.reduce %i = 0 to 16 : f32, f32 {{
      %s = loop.reduce {{arith.addf}} %e = 0 to {features} : f32 {{
        {load("a", "%q[%m, %e]", taken, few)}
        {load("b", "%k[%i, %e]", taken, many)}
        %ab = arith.mulf %a, %b : f32
        loop.yield %ab : f32
      }}
      {load("c", "%v[%i, %d]", values, many)}
      loop.yield %s, %c : f32, f32
    }} combine (%m0: f32, %o0: f32, %m1: f32, %o1: f32) identity [0xff800000 : f32, 0.0 : f32] {{
      %top = arith.maximumf %m0, %m1 : f32
      %above = arith.maximumf %top, %low : f32
      %within = arith.minimumf %above, %high : f32
      %d0 = arith.subf %m0, %within : f32
      %w0 = math.exp %d0 : f32
      %d1 = arith.subf %m1, %within : f32
      %w1 = math.exp %d1 : f32
      %b0 = arith.mulf %o0, %w0 : f32
      %b1 = arith.mulf %o1, %w1 : f32
      %r = arith.addf %b0, %b1 : f32
      loop.yield %top, %r : f32, f32
    }}
    loop.store %o, %out[%m, %d] : memref<{few}xf32>
  }}
  func.return
}}
"""


SCORES = _scores()
MIXED = SCORES.replace("arith.mulf %a, %b :", 'arith.mulf %a, %b {deplodock.precision = "high"} :')
COMBINED = """func.func @k(%x: memref<8xf32>, %out: memref<8xf32>) {
  tile.launch (%t = 8 : thread, %u = 8 : lane %t) {
    %a = loop.load %x[%u] : memref<8xf32>
    %max = tile.combine {arith.maximumf} %a over (%u) : f32
    loop.store %max, %out[%t] : memref<8xf32>
  }
  func.return
}
"""


def _fast(text: str) -> str:
    return re.sub(r"(math.exp %d.)", r"\1 fastmath<afn>", text)


REFUSED = [
    (COMBINED, "stream-tile", "the launch has lane axes already"),
    (ROWS, "tileify,stream-tile", "the launch has no streaming reduction of products"),
    (
        _scores(rows="8 : block"),
        "stream-tile",
        "its points are divided already; stream-tile runs behind tileify",
    ),
    (_scores(rows="%rows : thread"), "stream-tile", "the extent of %m is not constant"),
    (
        _scores(features=1024),
        "stream-tile",
        "its tile takes 538624 bytes of shared memory, above the 232448 of a CTA; give m or n",
    ),
    (
        SCORES,
        "stream-tile{m=16 engine=mma}",
        "mma reads f32 as TF32, which the precision of the product does not allow",
    ),
    (MIXED, "stream-tile{m=16 engine=mma}", "mma takes products of one precision, not high and highest"),
    (
        _scores(taken="bf16", values="bf16"),
        "stream-tile{m=16 engine=mma}",
        "the exponentials are not fastmath<afn>, so weights may not be rounded to bf16",
    ),
    (
        _fast(_scores(taken="bf16", values="bf16")),
        "stream-tile{m=16 warp=32 engine=mma}",
        "the 16 rows of a CTA are no multiple of the 32 of a warp",
    ),
    (_fast(_scores(taken="bf16")), "stream-tile{m=16 engine=mma}", "mma does not multiply weights by f32"),
    (TWO_ROWS, "tensor-tile", "the rows of a CTA run along 2 axes of constant extent, not along one"),
    (BESIDE, "tensor-tile", "the loop over %k holds arith.constant besides its product"),
    (OUTSIDE, "tensor-tile", "%b is read outside the loop over %k"),
    (
        TENSOR,
        "tensor-tile{engine=wgmma n=256}",
        "its chunk has several loops; run chunk-matmul-k with kv=1",
    ),
    (USED, "tensor-tile{engine=wgmma n=256}", "the sum of a chunk is used by something else than the sum of all"),
    (
        _chunked(1024),
        "tensor-tile{engine=wgmma n=256}",
        "warpgroups of so few rows make 2048 threads of a CTA, above 1024",
    ),
    (
        CHUNKED,
        "tensor-tile{engine=wgmma n=256 slices=2}",
        "the warps of a warpgroup share no chunk of k; slices are of mma",
    ),
    (TENSOR.replace("%m = 256", "%m = 250"), "tensor-tile{rows=n}", "the extent 250 of %m is no multiple of 8"),
    (CHUNKED, "tensor-tile{engine=wgmma m=16 n=256}", "a warpgroup computes a multiple of 64 rows, not 16"),
    (UNSTAGED, "tensor-tile{engine=wgmma n=256}", "%w is read from global memory; run stage-inputs first"),
    (TENSOR, "tensor-tile{m=16 n=8}", "warps of so few outputs make 16384 threads of a CTA, above 1024"),
    (
        TENSOR,
        "tensor-tile{m=64 n=64},permute-register-tile{m=strips}",
        "tensor-tile has placed the registers as its instruction wants them",
    ),
    (
        MATMUL,
        "tileify,register-tile{m=2 n=2},blockify-launch{m=16 n=16}",
        "the launch has a register tile; blockify-launch runs before register-tile",
    ),
    (DYNAMIC, "blockify-launch{m=16}", "an axis has an extent that is not constant"),
    (DYNAMIC, "split-matmul-k{s=2}", "an axis has an extent that is not constant"),
    (MASKED, "tileify,split-matmul-k{s=2}", "some points of the launch are inactive, and have no partial sums"),
    (MATMUL, "tileify,split-matmul-k{s=1}", "s=1 leaves k whole"),
    (
        MATMUL,
        'tileify,choose-schedule{schedule="tileify"}',
        "the module has no kernel at loop level to write a schedule on",
    ),
    (ROWS, "tileify,tensor-tile", "the launch has no contraction"),
    (
        BIAS,
        "tileify,stage-inputs,stage-inputs",
        "each thread reads it once beside the contraction, so the L1 cache serves it",
    ),
    (MATMUL, "tileify,stage-windows", "it is a contraction, whose slabs all threads of a CTA share"),
    (COPY, "tileify,stage-windows", "no reduction reads it"),
    (
        ROWS,
        "tileify,permute-register-tile{m=strips}",
        "the launch has no contraction; n places the outputs of a thread of other kernels",
    ),
    (ROWS, "tileify,stage-inputs,chunk-reduce{size=16}", "inputs are staged; chunk-reduce runs before stage-inputs"),
    (
        ROWS,
        "tileify,stage-inputs,cooperative-reduce{threads=32}",
        "inputs are staged; cooperative-reduce runs before stage-inputs",
    ),
    (
        ROWS,
        "tileify,cooperative-reduce{threads=32 outer=2 keep=axes}",
        "outer is for rows of several loops, with keep=loops",
    ),
    (
        ROWS,
        "tileify,cooperative-reduce{threads=32},cooperative-reduce{threads=32}",
        "the rows are shared by threads already",
    ),
    (
        MASKED_ROWS,
        "tileify,cooperative-reduce{threads=32 keep=axes}",
        "keep=axes: a row loop has a loop.where of its own",
    ),
    (MATMUL, f"{TILED},double-buffer{{depth=1}}", "depth 1 is what a slab has without this rule"),
    (
        MATMUL,
        f"{TILED},register-tile{{m=2 n=2}},permute-register-tile{{m=strips vec=2}}",
        "the register tile is placed so already",
    ),
    (
        MATMUL,
        f"{TILED},register-tile{{m=4 n=4}},permute-register-tile{{lanes=mnm}},permute-register-tile{{lanes=mnm}}",
        "3 thread axes run along m already; lanes are made of one",
    ),
    (
        MATMUL,
        f"{BOXES},pipeline-k-outer{{barrier=cta}}",
        "%x_smem comes in boxes, which arrive at phases; take barrier=mbarrier",
    ),
    (MATMUL, f"{BOXES},pad-smem{{pad=4}}", "%x: it comes in boxes, whose rows lie side by side"),
    (
        MATMUL.replace("64", "63"),
        f"{TILED},async-copy{{bytes=16}}",
        "%x: a thread copies 4 bytes at once, less than 16",
    ),
    (
        MATMUL,
        f"{RING},split-inner-for-swizzle{{span=32}}",
        "the slabs are slots of a ring already; run split-inner-for-swizzle before pipeline-k-outer",
    ),
    (
        MATMUL,
        f"{BOXES},split-inner-for-swizzle{{span=64}},split-inner-for-swizzle{{span=64}}",
        "the slabs are swizzled already",
    ),
    (
        MATMUL,
        f"{BOXES.replace('n=32', 'n=16')},split-inner-for-swizzle{{span=128}}",
        "%x: rows of 64 bytes are no multiple of 128",
    ),
    (
        MATMUL,
        f"{TILED},register-tile{{m=4 n=4}},permute-register-tile{{m=strided}},permute-register-tile{{m=strided}}",
        "the register tile of %i_c is placed already",
    ),
    (FILLED, "pipeline-k-outer", "%s is used by something else than loop.load"),
    (
        FILLED.replace("buffers 2", "buffers 2 tma"),
        "split-inner-for-swizzle",
        "%x: its slab is used by something else than loop.load",
    ),
    (FILLED.replace("0 to 8", "0 to %n"), "pipeline-k-outer", "the loop over %k has a bound of unknown range"),
    (COMPUTED, "pipeline-k-outer", "the slab's origin depends on %at, which the loop computes"),
    (READ.format("%k", "%k"), "stage-inputs{memory=register}", "%x: several threads read the same elements"),
    (
        READ.format("0", "0"),
        "stage-inputs{memory=shared}",
        "%x: several threads read the same elements; one element is read",
    ),
    (READ.format("%k", "%k * 2"), "stage-inputs{memory=shared}", "%x: its loops read different slabs"),
    ("", "blockify-launch{threads=32}", "the module has no kernel"),
    (MATMUL.replace(") {", ') attributes {deplodock.schedule = "tile"} {', 1), "tileify", "the schedule of @k"),
    (
        MATMUL.replace(") {", ") attributes {deplodock.schedule = 3} {", 1),
        "tileify",
        "deplodock.schedule must be a string that holds a pass pipeline, got 3 : i64",
    ),
]


def run(text: str, pipeline: str) -> str:
    """What the passes of a pipeline say of a module."""
    context = new_context()
    module = LocatingParser(context, text, "k.mlir").parse_module()
    with collect() as remarks:
        try:
            PassPipeline.parse_spec(AVAILABLE, pipeline).apply(context, module)
        except DiagnosticException as error:
            return str(error)
    return "\n".join(map(str, remarks))


@pytest.mark.parametrize(("text", "pipeline", "reason"), REFUSED)
def test_a_rule_says_why_it_does_nothing(text: str, pipeline: str, reason: str) -> None:
    assert re.search(rf"{re.escape(reason)}($|;| )", run(text, pipeline))
