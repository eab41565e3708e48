"""`deplodock compile` as far as machine code, and `deplodock export`."""

from __future__ import annotations

from pathlib import Path

import pytest
from typer.testing import CliRunner

from deplodock.errors import InvalidInputError
from deplodock.tools.cli.app import app
from deplodock.tools.cli.code import OutputForm, form_of

KERNEL = """
kernel.func @k_copy(%x: memref<4xf32>, %out: memref<4xf32>) blocks(%block = 1) threads(%thread = 4) {
  %v = loop.load %x[%thread] : memref<4xf32>
  loop.store %v, %out[%thread] : memref<4xf32>
}
"""


@pytest.fixture
def file(tmp_path: Path) -> str:
    path = tmp_path / "k.mlir"
    path.write_text(KERNEL)
    return str(path)


def cli(*args: str) -> str:
    """What a command prints to stdout."""
    result = CliRunner().invoke(app, args, catch_exceptions=False)
    assert result.exit_code == 0, result.output
    return result.stdout


def test_code_of_kernels(nvcc: Path, file: str, tmp_path: Path) -> None:
    """The name of a file says what is in it, as does `--ir`; SASS is that of the cubin."""
    ptx, sass = cli("compile", file, "--ir", "ptx", "--target", "sm_80"), cli("compile", file, "--ir", "sass")
    assert ".target sm_80" in ptx
    assert ".entry k_copy(" in ptx
    assert ".text.k_copy:" in sass
    assert cli("compile", file, "-o", str(tmp_path / "k.ptx"), "--target", "sm_80") == ""
    assert (tmp_path / "k.ptx").read_text() == ptx
    for name, option in (("k.cubin", ()), ("code", ("--ir", "cubin"))):
        assert cli("compile", file, "-o", str(tmp_path / name), *option) == ""
        assert (tmp_path / name).read_bytes()[:4] == b"\x7fELF"


@pytest.mark.parametrize(
    ("given", "output", "wanted"),
    [
        (None, None, OutputForm.CUDA),
        (None, "k.cu", OutputForm.CUDA),
        (None, "k.cubin", OutputForm.CUBIN),
        (OutputForm.LOOP, "k.txt", OutputForm.LOOP),
        (OutputForm.SASS, "k.sass", OutputForm.SASS),
    ],
)
def test_forms(given: OutputForm | None, output: str | None, wanted: OutputForm) -> None:
    assert form_of(given, None if output is None else Path(output)) is wanted


def test_forms_that_do_not_fit() -> None:
    with pytest.raises(InvalidInputError, match=r"--ir loop does not go into k.cubin: a file of that name holds cubin"):
        form_of(OutputForm.LOOP, Path("k.cubin"))
    with pytest.raises(InvalidInputError, match="--ir cubin is machine code, not text: give the file to write with -o"):
        form_of(OutputForm.CUBIN, None)


def test_export(file: str, tmp_path: Path) -> None:
    folder = tmp_path / "a" / "my-copy"
    result = CliRunner().invoke(app, ["export", file, "-o", str(folder), "--target", "a100"], catch_exceptions=False)
    assert result.exit_code == 0
    assert result.stderr.startswith("deplodock: wrote my_copy.cu, my_copy.h, my_copy.c, my_copy.py, my_copy.json, Mak")
    assert "-fmad=false -arch=sm_80 " in (folder / "Makefile").read_text()
    assert "k_copy(" in (folder / "my_copy.cu").read_text()
