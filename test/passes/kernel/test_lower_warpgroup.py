"""What contracts of a warpgroup refuse: the kernel of lower_warpgroup.mlir with one change each."""

from pathlib import Path

import pytest
from xdsl.passes import PassPipeline
from xdsl.utils.exceptions import DiagnosticException

from deplodock.passes.driver import new_context
from deplodock.passes.pipeline import PASSES
from deplodock.tools.source import LocatingParser

AVAILABLE = {stage.name: stage.load for stage in PASSES}
RIGHT = Path(__file__).with_name("lower_warpgroup.mlir").read_text()
CONTRACT = "%a * %b over (%k_e)"
NEGATED = "%z = arith.negf %a : bf16\n      %c = tile.contract"

REFUSED = [
    (CONTRACT, "%a * %b + %a * %b over (%k_e)", "wgmma adds one pair of factors, got 2"),
    (
        "%m_w = 2 : thread, %m_q = 4 : thread",
        "%m_w = 1 : thread, %m_q = 2 : thread",
        "wgmma takes whole warpgroups, and the launch has 64 threads",
    ),
    ("%k_e = 64 : engine", "%k_e = 40 : engine", "k must run over one engine axis, a multiple of 16"),
    (
        "%n_e = 64 : engine",
        "%n_e = 64 : register",
        "the right factor's columns must be taken `at` one engine axis",
    ),
    ("%n_e = 64 : engine", "%n_e = 60 : engine", "%n_e has 60 columns, not a multiple of 8 up to 256"),
    (
        "%m_g = 8 : thread",
        "%m_f = 2 : thread, %m_g = 4 : thread",
        "no thread axis of 8 rows of a warp is 4 threads apart",
    ),
    (
        "%m_g = 8 : thread, %n_t = 4 : thread",
        "%m_g = 4 : thread, %n_t = 8 : thread",
        "no thread axis of 4 pairs of columns is 1 threads apart",
    ),
    (
        "%w_smem[%n_e, ",
        "%w_smem[(%n_e + %m_w) mod 64, ",
        "the right factor varies along %m_w, where a warpgroup reads one tile",
    ),
    (
        f"%c = tile.contract wgmma {CONTRACT}",
        f"{NEGATED} wgmma %z * %b over (%k_e)",
        "the factor %z is computed, and wgmma reads slabs",
    ),
    (
        "%ko = 0 to 3",
        "%ko = 0 to min(3, %m_g + 1)",
        "the bound of a loop around it varies along %m_g; a warpgroup runs it as one",
    ),
    (
        "%n_j * 8 + %n_t * 2 + %n_r) : bf16",
        "%n_t * 16 + %n_j * 2 + %n_r) : bf16",
        "the columns must be taken at `block * 8 + thread * 2 + pair`, block and pair registers",
    ),
    (
        "%c = tile.contract",
        NEGATED,
        "its values vary along %k_e, whose coordinates no thread holds",
    ),
    (
        "%n_j = 8 : register, %m_h = 2 : register",
        "%m_h = 2 : register, %n_j = 8 : register",
        "the register axes of its blocks of columns, halves and pairs must be the last, in this order",
    ),
    (
        "%a = loop.load %x_smem[%m_c, %k_e] : memref<128x64xbf16, #tile.swizzle<128>, #tile.memory<shared>>",
        "%a = loop.load %x[%m_c, %k_e] : memref<256x192xbf16>",
        "loop.load reads no slab in shared memory",
    ),
]


def run(text: str) -> None:
    context = new_context()
    module = LocatingParser(context, text, "k.mlir").parse_module()
    module.verify()
    PassPipeline.parse_spec(AVAILABLE, "verify-contract,materialize").apply(context, module)


@pytest.mark.parametrize(("old", "new", "message"), REFUSED)
def test_a_change_is_refused(old: str, new: str, message: str) -> None:
    assert RIGHT.count(old) == 1
    with pytest.raises(DiagnosticException) as caught:
        run(RIGHT.replace(old, new))
    assert message in str(caught.value)


def test_without_a_change_nothing_is_refused() -> None:
    run(RIGHT)
