"""What contracts of a warpgroup refuse: the kernels of lower_warpgroup.mlir and lower_warpgroup_held.mlir, changed."""

from pathlib import Path

import pytest
from xdsl.passes import PassPipeline
from xdsl.utils.exceptions import DiagnosticException

from deplodock.passes.driver import new_context
from deplodock.passes.pipeline import PASSES
from deplodock.tools.source import LocatingParser

AVAILABLE = {stage.name: stage.load for stage in PASSES}
RIGHT = Path(__file__).with_name("lower_warpgroup.mlir").read_text()
HELD = Path(__file__).with_name("lower_warpgroup_held.mlir").read_text()
CONTRACT = "%a * %b over (%k_e)"
NEGATED = "%z = arith.negf %a : bf16\n      %c = tile.contract"

REFUSED = [
    (CONTRACT, "%a * %b + %a * %b over (%k_e)", "wgmma adds one pair of factors from slabs, got 2"),
    (CONTRACT, "%a * %b over (%k_e, %m_w)", "k and the right factor's columns must be one engine axis each"),
    (
        "%m_w = 2 : thread, %m_q = 4 : thread",
        "%m_w = 1 : thread, %m_q = 2 : thread",
        "wgmma takes whole warpgroups, and the launch has 64 threads",
    ),
    ("%k_e = 64 : engine", "%k_e = 40 : engine", "%k_e has 40 elements along k, not a multiple of 16"),
    (
        "%n_e = 64 : engine",
        "%n_e = 64 : register",
        "the right factor must be taken `at` engine axes",
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
        "%n_e must be taken at `block * 8 + thread * 2 + pair`, block and pair registers",
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

REFUSED_HELD = [
    (
        ", %k_e = %k_j * 8 + %k_t * 2 + %k_r)",
        ")",
        "where threads hold the left factor, the right one must be taken `at` two engine axes: k, over the axes that "
        "are folded, and its columns",
    ),
    (
        "%k_e = %k_j * 8 + %k_t * 2 + %k_r)",
        "%k_e = %k_t * 8 + %k_j * 2 + %k_r)",
        "%k_e must be taken at `block * 8 + thread * 2 + pair`, block and pair registers",
    ),
    (
        "%k_j = 4 : register, %m_h = 2 : register, %n_r = 2 : register, %k_r = 2 : register",
        "%m_h = 2 : register, %n_r = 2 : register, %k_r = 2 : register, %k_j = 4 : register",
        "the register axes of the left factor's blocks along k, halves and pairs must be the last",
    ),
]


def run(text: str) -> None:
    context = new_context()
    module = LocatingParser(context, text, "k.mlir").parse_module()
    module.verify()
    PassPipeline.parse_spec(AVAILABLE, "verify-contract,materialize").apply(context, module)


@pytest.mark.parametrize(
    ("right", "old", "new", "message"),
    [*((RIGHT, *change) for change in REFUSED), *((HELD, *change) for change in REFUSED_HELD)],
)
def test_a_change_is_refused(right: str, old: str, new: str, message: str) -> None:
    assert right.count(old) == 1
    with pytest.raises(DiagnosticException) as caught:
        run(right.replace(old, new))
    assert message in str(caught.value)


@pytest.mark.parametrize("right", [RIGHT, HELD])
def test_without_a_change_nothing_is_refused(right: str) -> None:
    run(right)
