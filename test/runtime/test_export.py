"""Programs as files: the launchers in C and Python ask CUDA's driver for what the plan says, and make builds them."""

from __future__ import annotations

import ctypes
import os
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("torch")

from builds import build
from host_samples import sample_of
from kinds import KINDS, Kind
from xdsl.dialects.builtin import ModuleOp
from xdsl.dialects.func import FuncOp
from xdsl.parser import Parser

from deplodock.analysis.host.arguments import entry_function, name_checks
from deplodock.errors import CompileError, InvalidInputError, UnsupportedError
from deplodock.passes.driver import new_context
from deplodock.runtime import planned
from deplodock.runtime.export import export
from deplodock.runtime.plan import ProgramPlan, TensorMapPlan, program_plan
from deplodock.runtime.plan_text import read_plan
from deplodock.runtime.tensor_maps import TensorMap

SCRATCH, STREAM = 1 << 40, 7
DYNAMIC_SHARED, SHARED_PERCENT = 8, 9
"""CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES and CU_FUNC_ATTRIBUTE_PREFERRED_SHARED_MEMORY_CARVEOUT (cuda.h)."""

RUN = """
import importlib.util, sys
from types import SimpleNamespace as Stub

def tensors(kinds, first):
    return [Stub(dtype=f"torch.{dtype}", shape=shape, is_cuda=True, device="cuda", is_contiguous=lambda: True,
                 data_ptr=lambda at=first + number: at << 20) for number, (dtype, shape) in enumerate(kinds)]

for path in sys.argv[2:]:
    spec = importlib.util.spec_from_file_location("exported", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    program = module.Program()
    program(tensors(module.INPUTS, 1), tensors(module.OUTPUTS, 100), int(sys.argv[1]))
    program.close()
"""


@pytest.fixture
def _without_nvcc(monkeypatch: pytest.MonkeyPatch) -> None:  # pyright: ignore[reportUnusedFunction]
    def check() -> None:
        raise CompileError("no nvcc found")

    monkeypatch.setattr(planned, "check_compiler", check)


@dataclass(frozen=True)
class Calls:
    """What launchers ask a driver for, as `recording_driver.c` writes it."""

    plan: ProgramPlan
    name: str

    def lines(self) -> list[str]:
        """All calls of one run."""
        plan = self.plan
        lines = [f"load {self.name}"]
        for launch in {launch.kernel: launch for launch in plan.launches}.values():
            lines += [f"attribute {launch.kernel} {DYNAMIC_SHARED} {launch.shared}"] if launch.shared else []
            lines += [f"attribute {launch.kernel} {SHARED_PERCENT} 100"] if launch.is_early else []
        if plan.scratch:
            lines.append(f"allocate {plan.scratch}")
        if plan.counters:
            lines += [f"fill {SCRATCH + plan.scratch - plan.counters} 0 {plan.counters}", "wait 0"]
        for launch in plan.launches:
            arguments = " ".join(map(self._argument, launch.arguments))
            sizes = f"{launch.blocks} {launch.threads} {launch.shared} {STREAM}{' early=1' if launch.is_early else ''}"
            lines.append(f"launch {launch.kernel} {sizes} {arguments}")
        for place, number in enumerate(plan.outputs):
            if (source := self._address(number)) != (own := (100 + place) << 20):
                lines.append(f"copy {own} {source} {plan.buffers[number].bytes} {STREAM}")
        return [*lines, *([f"free {SCRATCH}"] if plan.scratch else []), "unload"]

    def image(self) -> bytes:
        """What stands for the machine code: the name, and the parameters of the kernels."""
        kinds = {
            launch.kernel: "".join("m" if isinstance(argument, TensorMapPlan) else "p" for argument in launch.arguments)
            for launch in self.plan.launches
        }
        return "".join([f"{self.name}\n", *(f"{kernel} {kinds[kernel]}\n" for kernel in kinds), "\0"]).encode()

    def _address(self, number: int) -> int:
        if number in self.plan.inputs:
            return (1 + self.plan.inputs.index(number)) << 20
        if number in self.plan.outputs:
            return (100 + self.plan.outputs.index(number)) << 20
        offset = self.plan.buffers[number].offset
        assert offset is not None
        return SCRATCH + offset

    def _argument(self, argument: int | TensorMapPlan) -> str:
        if not isinstance(argument, TensorMapPlan):
            return str(self._address(argument))
        given: list[Any] = []
        # What the runtime itself asks the driver for.
        TensorMap(argument, lambda *values: given.extend(values) or 0).place(self._address(argument.buffer))
        _, type, rank, address, shape, strides, box, steps, *rest = given
        assert isinstance(address, ctypes.c_void_p)
        boxes = (number for pair in zip(box, steps, strict=True) for number in pair)
        return ",".join(map(str, (type, rank, address.value, *shape, *list(strides)[: rank - 1], *boxes, *rest)))


def run(folder: Path, programs: Sequence[Calls], driver: Path) -> list[str]:
    """The calls of the Python launchers, each in its folder with a library beside it."""
    calls = folder / "calls"
    for program in programs:
        (folder / program.name / f"{program.name}.cubin").write_bytes(program.image())
    environment = {"LD_LIBRARY_PATH": str(driver), "CALLS": str(calls)}
    paths = [folder / program.name / f"{program.name}.py" for program in programs]
    subprocess.run([sys.executable, "-c", RUN, str(STREAM), *paths], env=os.environ | environment, check=True)
    return calls.read_text().splitlines()


@pytest.mark.usefixtures("_without_nvcc")
@pytest.mark.parametrize("part", range(2))
def test_every_kind_starts_as_planned(part: int, tmp_path: Path, toolkit: Path, driver: Path) -> None:
    """All launchers in C are compiled with warnings as errors, and their names do not clash in one library."""
    programs = [exported(kind, tmp_path) for kind in KINDS[part::2]]
    build([tmp_path / program.name / f"{program.name}.c" for program in programs], tmp_path / "all.so", toolkit)
    for program in programs:
        (tmp_path / program.name / f"lib{program.name}.so").symlink_to(tmp_path / "all.so")
    assert run(tmp_path, programs, driver) == [line for program in programs for line in program.lines()]


def exported(kind: Kind, folder: Path) -> Calls:
    module = sample_of(kind).module
    export(module, folder / kind.name)
    plan = program_plan(module)
    assert read_plan((folder / kind.name / f"{kind.name}.json").read_text()) == plan
    return Calls(plan, kind.name)


def parsed(text: str) -> ModuleOp:
    return Parser(new_context(), text).parse_module()


COPY = """
kernel.func @k_copy(%x: memref<4xf32>, %out: memref<4xf32>) blocks(%block = 1) threads(%thread = 4) {
  %v = loop.load %x[%thread] : memref<4xf32>
  loop.store %v, %out[%thread] : memref<4xf32>
}
"""
MAIN = """
func.func @main(%x: memref<4xf32>, %class: memref<2xi64>) -> (memref<2xi64>, memref<4xf32>, memref<4xf32>) {
  %out = memref.alloc() : memref<4xf32>
  kernel.launch @k_copy(%x, %out) : memref<4xf32>, memref<4xf32>
  func.return %class, %out, %out : memref<2xi64>, memref<4xf32>, memref<4xf32>
}
"""


@pytest.mark.usefixtures("_without_nvcc")
def test_results_that_are_no_new_buffers(tmp_path: Path, toolkit: Path, driver: Path) -> None:
    """A result that is an argument, or an earlier result, is copied to where the caller has it."""
    module = parsed(COPY + MAIN)
    folder = tmp_path / "two_results"
    export(module, folder)
    build([folder / "two_results.c"], folder / "libtwo_results.so", toolkit)
    wanted = Calls(program_plan(module), "two_results")
    calls = run(tmp_path, [wanted], driver)
    assert calls == wanted.lines()
    assert [line.split()[0] for line in calls] == ["load", "launch", "copy", "copy", "unload"]
    header = (folder / "two_results.h").read_text()
    assert "1: int64[2], class\n" in header
    assert "0: int64[2], output 0\n" in header


def test_make_builds_all(tmp_path: Path, toolkit: Path) -> None:
    """The Makefile makes the very cubin that is exported, and rebuilds nothing that is there."""
    folder = tmp_path / "copy"
    paths = export(parsed(COPY), folder)
    assert sorted(folder.iterdir()) == sorted(paths)
    cubin = (folder / "copy.cubin").read_bytes()
    make = ["make", "-C", str(folder), f"NVCC={toolkit}/bin/nvcc"]
    assert "nvcc" not in subprocess.run(make, check=True, capture_output=True, text=True).stdout.replace(" -I", "")
    (folder / "copy.cubin").unlink()
    assert "-fmad=false" in subprocess.run(make, check=True, capture_output=True, text=True).stdout
    assert (folder / "copy.cubin").read_bytes()[:4] == cubin[:4] == b"\x7fELF"
    assert (folder / "libcopy.so").is_file()


@pytest.mark.usefixtures("_without_nvcc")
def test_kernels_for_another_gpu(
    tmp_path: Path, toolkit: Path, driver: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    """The launcher says what the driver does, and frees what it has."""
    module = parsed(COPY)
    export(module, tmp_path / "wrong-card")
    (tmp_path / "wrong-card").rename(tmp_path / "wrong_card")
    build([tmp_path / "wrong_card/wrong_card.c"], tmp_path / "wrong_card/libwrong_card.so", toolkit)
    with pytest.raises(subprocess.CalledProcessError):
        run(tmp_path, [Calls(program_plan(module), "wrong_card")], driver)
    assert "RuntimeError: wrong_card_load: no kernel image" in capfd.readouterr().err
    assert (tmp_path / "calls").read_text() == "load wrong_card\n"


FOREIGN = {
    "a Makefile": lambda path: path.write_text("all:\n\techo mine\n"),
    "an empty file": lambda path: path.touch(),
    "a folder": lambda path: path.mkdir(),
    "a pipe": lambda path: os.mkfifo(path),
    "a link to nowhere": lambda path: path.symlink_to("nowhere"),
    "a link to a file": lambda path: path.symlink_to("../mine"),
}


@pytest.mark.usefixtures("_without_nvcc")
@pytest.mark.parametrize("name", ["Makefile", "copy.cu", "copy.json", "copy.py"])
@pytest.mark.parametrize("kind", FOREIGN)
def test_what_no_export_has_written_stays(tmp_path: Path, kind: str, name: str) -> None:
    folder = tmp_path / "copy"
    folder.mkdir()
    (tmp_path / "mine").write_text("mine")
    FOREIGN[kind](folder / name)
    with pytest.raises(InvalidInputError, match=rf"copy/{name} is no file of an export: remove it, or export to anot"):
        export(parsed(COPY), folder)
    assert os.listdir(folder) == [name]
    assert sorted(os.listdir(tmp_path)) == ["copy", "mine"]
    assert (tmp_path / "mine").read_text() == "mine"


@pytest.mark.usefixtures("_without_nvcc")
def test_an_export_is_replaced_by_another(tmp_path: Path) -> None:
    """Also where its files are links: these are replaced, and not followed."""
    folder, elsewhere = tmp_path / "copy", tmp_path / "elsewhere"
    before = {path: path.read_bytes() for path in export(parsed(COPY), folder)}
    folder.rename(elsewhere)
    folder.mkdir()
    for path in before:
        path.symlink_to(elsewhere / path.name)
    changed = COPY.replace("threads(%thread = 4)", "threads(%thread = 2)")
    assert export(parsed(changed), folder) == [*before]
    assert not any(path.is_symlink() for path in before)
    assert {folder / path.name: path.read_bytes() for path in elsewhere.iterdir()} == before
    assert not list(folder.glob("*.unfinished"))


MESSAGES = ["bad */ #error X /*", "a\nb\\", "??/", "/*/*/", "\u202e */", "\0"]


@pytest.mark.usefixtures("_without_nvcc")
def test_no_text_of_a_program_ends_a_comment(tmp_path: Path, toolkit: Path) -> None:
    module = parsed(
        COPY
        + "func.func @main(%x: memref<4xf32>, %ok: memref<i1>) -> (memref<4xf32>"
        + ", memref<i1>" * len(MESSAGES)
        + ") {\n%out = memref.alloc() : memref<4xf32>\n"
        + "kernel.launch @k_copy(%x, %out) : memref<4xf32>, memref<4xf32>\n"
        + f"func.return %out{', %ok' * len(MESSAGES)} : memref<4xf32>{', memref<i1>' * len(MESSAGES)}\n}}"
    )
    entry = entry_function(module)
    assert isinstance(entry, FuncOp)
    name_checks(entry, MESSAGES)
    export(module, tmp_path / "checked")
    build([tmp_path / "checked/checked.c"], tmp_path / "libchecked.so", toolkit)
    header = (tmp_path / "checked/checked.h").read_text()
    assert "which must be true: bad *_/ #error X /_*\n" in header
    assert header.isascii()


def test_a_program_without_kernels(tmp_path: Path) -> None:
    text = "func.func @main(%x: memref<4xf32>) -> memref<4xf32> { func.return %x : memref<4xf32> }"
    with pytest.raises(UnsupportedError, match="the program starts no kernel, so there is nothing to export"):
        export(parsed(text), tmp_path / "none")
    assert not (tmp_path / "none").exists()
