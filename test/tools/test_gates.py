"""The static performance gates: what programs compile to is no worse than `test/codegen/expected/` says."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

pytest.importorskip("deplodock.frontend.expression", reason="needs PyTorch")

from deplodock.runtime.nvcc import find_nvcc
from deplodock.runtime.sass import find_nvdisasm
from deplodock.tools import gates

needs_nvcc = pytest.mark.skipif(find_nvcc() is None or find_nvdisasm() is None, reason="needs nvcc and nvdisasm")

KEPT = {"launch": "8 x 128", "registers": 100, "spills": 0, "slots_per_ffma": 1.15, "lds_to_use": 60.0}
PROGRAM = gates.GatedProgram("p", "torch.relu(torch.randn(8))", "sm_90", None, {"k_relu": KEPT})


@needs_nvcc
@pytest.mark.parametrize("path", sorted(gates.FOLDER.glob("*.toml")), ids=lambda path: path.stem)
def test_code_is_no_worse_than_expected(path: Path) -> None:
    programs = gates.read(path)
    pairs = zip(programs, gates.measured(programs), strict=True)
    told = [difference for program, kernels in pairs for difference in gates.differences(program, kernels)]
    assert not [text for text, is_worse in told if is_worse]


@pytest.mark.parametrize(
    ("changed", "is_worse"),
    [
        ({"registers": 108}, False),
        ({"registers": 109}, True),
        ({"registers": 60}, False),
        ({"spills": 4}, True),
        ({"launch": "9 x 128"}, True),
        ({"slots_per_ffma": 1.19}, False),
        ({"slots_per_ffma": 1.2}, True),
        ({"lds_to_use": 44.0}, True),
        ({"lds_to_use": 90.0}, False),
    ],
)
def test_what_counts_as_worse(changed: dict[str, gates.Value], is_worse: bool) -> None:
    ((text, verdict),) = gates.differences(PROGRAM, {"k_relu": {**KEPT, **changed}})
    assert verdict is is_worse
    assert next(iter(changed)) in text


def test_missing_figures_and_kernels_are_worse() -> None:
    without = {name: value for name, value in KEPT.items() if name != "lds_to_use"}
    assert [verdict for _, verdict in gates.differences(PROGRAM, {"k_relu": without})] == [True]
    assert [verdict for _, verdict in gates.differences(PROGRAM, {"k_relu": KEPT, "k_more": KEPT})] == [True]
    assert not list(gates.differences(PROGRAM, {"k_relu": KEPT}))


def test_what_is_written_is_read_back(tmp_path: Path) -> None:
    programs = [PROGRAM, replace(PROGRAM, name="q", schedule="tileify,blockify-launch{threads=32}", stream="always")]
    path = tmp_path / "some.toml"
    path.write_text(gates.written(programs, [program.kernels for program in programs]), encoding="utf-8")
    assert gates.read(path) == programs


@needs_nvcc
def test_update_writes_what_differs(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "some.toml"
    path.write_text(gates.written([PROGRAM], [PROGRAM.kernels]), encoding="utf-8")
    assert gates.main([], tmp_path) == 1
    assert "some.toml: p.k_relu: registers" in capsys.readouterr().out
    assert gates.main(["--update"], tmp_path) == 0
    assert gates.main([], tmp_path) == 0
    assert gates.main(["--all"], tmp_path) == 2
