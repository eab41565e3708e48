"""Programs in files: loaded ones give the same bits, in any process; what does not fit is refused by name."""

from __future__ import annotations

import json
import math
import subprocess
import sys
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn
from torch.nn import functional as F
from torch.utils import _pytree as pytree

import deplodock
from deplodock.errors import CompileError
from deplodock.passes.driver import Level
from deplodock.pytorch import agreement, archive, runners
from deplodock.pytorch.archive import pack
from deplodock.pytorch.compiled import CompiledProgram
from deplodock.pytorch.saved import read_file
from deplodock.runtime import device as device_module
from deplodock.runtime import planned

Tensor = torch.Tensor
STEPS = torch.arange(3.0)


def no_compiler() -> None:
    raise CompileError("no nvcc found")


@pytest.fixture(autouse=True)
def _without_nvcc(monkeypatch: pytest.MonkeyPatch) -> None:  # pyright: ignore[reportUnusedFunction]
    monkeypatch.setattr(planned, "check_compiler", no_compiler)


def draw(*shape: int) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(math.prod(shape)))


def leaves(result: Any) -> list[Any]:
    """What can be told of a nest: strides, dtypes and bits of tensors, other values as they are."""
    return [
        (one.stride(), one.dtype, one.contiguous().reshape(-1).view(torch.uint8).tolist())
        if isinstance(one, Tensor)
        else one
        for one in pytree.tree_leaves(result)
    ]


def step(x: Tensor, share: float, *, tables: dict[str, Tensor]) -> dict[str, Any]:
    tables["total"].add_(x.sum(0))
    return {"none": None, "both": (x.t() * share, [x.bfloat16() + tables["other"]])}


class Counter(nn.Module):
    """A module with state that it writes into."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("total", torch.ones(3))
        self.weight = nn.Parameter(draw(3))

    def forward(self, x: Tensor) -> Tensor:
        self.total += x.sum(0)
        return self.total * self.weight


def attention(x: Tensor) -> Tensor:
    """With infinities among its constants."""
    return F.scaled_dot_product_attention(x, x, x, is_causal=True).masked_fill(x > 2, -math.inf)


PROGRAMS: dict[str, tuple[Callable[..., Any], Callable[[], tuple[tuple[Any, ...], dict[str, Any]]]]] = {
    "nests": (step, lambda: ((draw(5, 3), 0.5), {"tables": {"total": torch.ones(3), "other": draw(3)}})),
    "constants": (lambda x: x * STEPS + torch.tensor([1.0, 2.0, 3.0]), lambda: ((draw(2, 3),), {})),
    "infinities": (attention, lambda: ((draw(1, 5, 8),), {})),
    "strides": (lambda x: x * x.stride(0), lambda: ((draw(4, 3).t(),), {})),
    "asserted": (lambda x, i: x[i], lambda: ((draw(4, 3), torch.tensor([1, 3])), {})),
    "a namedtuple": (lambda x: torch.max(x, 0), lambda: ((draw(4, 3),), {})),
    "no kernel": (lambda x: (x, x.t()), lambda: ((draw(4, 3),), {})),
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_a_loaded_program_gives_the_same_bits(name: str, tmp_path: Path) -> None:
    function, arguments = PROGRAMS[name]
    args, kwargs = arguments()
    compiled = deplodock.compile(function, args, kwargs)
    compiled.save(tmp_path / "p.ddk")
    loaded = deplodock.load(tmp_path / "p.ddk")
    given, wanted = arguments(), arguments()
    assert leaves(loaded(*given[0], **given[1])) == leaves(compiled(*wanted[0], **wanted[1]))
    assert leaves(given) == leaves(wanted)
    assert repr(loaded) == repr(compiled)
    loaded.save(tmp_path / "again.ddk")
    assert (tmp_path / "again.ddk").read_bytes() == (tmp_path / "p.ddk").read_bytes()


def test_calls_are_checked_as_before(tmp_path: Path) -> None:
    compiled = deplodock.compile(step, (draw(5, 3), 0.5), {"tables": {"total": torch.ones(3), "other": draw(3)}})
    compiled.save(tmp_path / "p.ddk")
    for program in (compiled, deplodock.load(tmp_path / "p.ddk")):
        assert isinstance(program, CompiledProgram)
        tables = {"total": torch.ones(3), "other": draw(3)}
        with pytest.raises(deplodock.InvalidInputError, match=r"compiled for the argument 0\.5, got 1\.5"):
            program(draw(5, 3), 1.5, tables=tables)
        with pytest.raises(deplodock.InvalidInputError, match=r"x must be torch.float32 of shape \(5, 3\), got"):
            program(draw(4, 3), 0.5, tables=tables)
        with pytest.raises(deplodock.InvalidInputError, match=r"compiled for the arguments .*'total': \*"):
            program(draw(5, 3), 0.5, tables={})


@pytest.mark.parametrize("weights", [False, True])
def test_weights(tmp_path: Path, weights: bool) -> None:
    """By name they are those of the module at the call; by value the file's, and those that are given come first."""
    module, x = Counter(), draw(5, 3)
    deplodock.compile(module, (x,)).save(tmp_path / "p.ddk", weights=weights)
    with torch.no_grad():
        loaded, own = deplodock.load(tmp_path / "p.ddk", module), Counter()
        module.weight.mul_(2)
        own.weight.mul_(2)
        torch.testing.assert_close(loaded(x), own(x))
        torch.testing.assert_close(module.total, own.total)
        values = {"total": torch.zeros(3), "weight": torch.ones(3)}
        torch.testing.assert_close(deplodock.load(tmp_path / "p.ddk", values)(x), x.sum(0))
        if weights:
            stored, own = deplodock.load(tmp_path / "p.ddk"), Counter()
            for _ in range(2):
                torch.testing.assert_close(stored(x), own(x))
    if not weights:
        with pytest.raises(
            deplodock.InvalidInputError, match=r"p.ddk holds no weights: give a module, or a mapping, with .*weight"
        ):
            deplodock.load(tmp_path / "p.ddk")
        with pytest.raises(deplodock.InvalidInputError, match=r"p.ddk needs weights with total$"):
            deplodock.load(tmp_path / "p.ddk", {"weight": torch.ones(3)})
        with pytest.raises(deplodock.InvalidInputError, match=r"needs weight as torch.float32 of shape \(3,\), got"):
            deplodock.load(tmp_path / "p.ddk", {"weight": torch.ones(4), "total": torch.ones(3)})
        with pytest.raises(deplodock.InvalidInputError, match=r"needs weight as torch.float32 .*got torch.bfloat16"):
            deplodock.load(tmp_path / "p.ddk", {"weight": torch.ones(3).bfloat16(), "total": torch.ones(3)})
        with pytest.raises(deplodock.InvalidInputError, match=r"needs weight as torch.float32 .*got torch.float64"):
            deplodock.load(tmp_path / "p.ddk", Counter().double())


def test_what_is_too_large_to_simulate_is_evaluated(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(runners, "LANE_STEP_LIMIT", 100)
    compiled, x = deplodock.compile(attention, (draw(1, 5, 8),)), draw(1, 5, 8)
    compiled.save(tmp_path / "p.ddk")
    loaded = deplodock.load(tmp_path / "p.ddk")
    assert not loaded.runner.simulates
    assert leaves(loaded(x)) == leaves(compiled(x))


LOADING = """
import sys, torch, deplodock
from deplodock.passes import driver
def fail(*args, **kwargs): raise AssertionError
torch.export.export = driver.lower = fail
(x,) = torch.load(sys.argv[2]).values()
torch.save({"y": deplodock.load(sys.argv[1])(x)}, sys.argv[3])
"""


def test_a_fresh_process_captures_and_lowers_nothing(tools_with_torch: Path, tmp_path: Path) -> None:
    module, x = nn.Sequential(nn.Linear(3, 4), nn.LayerNorm(4)).eval(), draw(5, 3)
    compiled = deplodock.compile(module, (x,))
    compiled.save(tmp_path / "p.ddk", weights=True)
    torch.save({"x": x}, tmp_path / "x")
    command = [tools_with_torch / "python", "-c", LOADING, *(tmp_path / name for name in ("p.ddk", "x", "y"))]
    subprocess.run(command, check=True)
    with torch.no_grad():
        assert leaves(torch.load(tmp_path / "y")["y"]) == leaves(compiled(x))


def test_machine_code_is_kept(nvcc: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(planned, "check_compiler", lambda: None)
    deplodock.compile(torch.sin, (draw(3),), target="a100").save(tmp_path / "p.ddk")
    file = read_file(tmp_path / "p.ddk")
    assert (file.planned.arch, file.device) == ("sm_80", "cpu")
    assert (file.planned.cubin or b"").startswith(b"\x7fELF")
    assert "sinf(" in file.planned.text
    assert [level for level in file.levels if "func.func @main" in file.levels[level]] == list(file.levels)
    assert list(file.levels) == [Level.TENSOR, Level.LOOP, Level.KERNEL]


class Driver:
    """A GPU of another architecture than that of the programs."""

    class Device:
        def __init__(self, number: int) -> None:
            pass

        @staticmethod
        def count() -> int:
            return 1

        def compute_capability(self) -> tuple[int, int]:
            return 8, 6


def test_a_file_for_another_gpu(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    deplodock.compile(torch.sin, (draw(3),)).save(tmp_path / "p.ddk")
    monkeypatch.setattr("deplodock.pytorch.compiled.missing", lambda: "there is no GPU")
    with pytest.raises(deplodock.Error, match="there is no GPU; with device='cpu' the simulator runs the program"):
        deplodock.load(tmp_path / "p.ddk", device="cuda")
    monkeypatch.setattr("deplodock.pytorch.compiled.missing", lambda: None)
    monkeypatch.setattr(device_module, "_driver", lambda: Driver)
    with pytest.raises(deplodock.InvalidInputError, match=r"p.ddk: the program is for sm_90, but the GPU is sm_86"):
        deplodock.load(tmp_path / "p.ddk", device="cuda")
    with pytest.raises(deplodock.InvalidInputError, match="there is no cuda:1: the CUDA driver finds 1 GPU"):
        deplodock.load(tmp_path / "p.ddk", device="cuda:1")
    with pytest.raises(deplodock.InvalidInputError, match="deplodock runs on cpu and cuda, not on meta"):
        deplodock.load(tmp_path / "p.ddk", device="meta")


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A file."""
    path = tmp_path_factory.mktemp("saved") / "p.ddk"
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(planned, "check_compiler", no_compiler)
        deplodock.compile(lambda x: x * STEPS, (draw(2, 3),)).save(path)
    return path


def refusal(path: Path) -> str | None:
    try:
        read_file(path)
    except deplodock.InvalidInputError as error:
        return str(error)
    return None


def test_damage_is_found(made: Path, tmp_path: Path) -> None:
    """A byte that is wrong, or missing, is refused with the file's name, or changes nothing that is read."""
    data, path = made.read_bytes(), tmp_path / "damaged.ddk"
    wanted, x = leaves(deplodock.load(made)(draw(2, 3))), draw(2, 3)
    refused = 0
    for place in range(0, len(data), 61):
        for other in (data[:place], data[:place] + bytes([data[place] ^ 0x55]) + data[place + 1 :]):
            path.write_bytes(other)
            if (reason := refusal(path)) is None:
                assert leaves(deplodock.load(path)(x)) == wanted
            else:
                assert reason.startswith(f"{path}")
                refused += 1
    assert refused > 0.8 * 2 * len(data) / 61


def changed(made: Path, path: Path, change: Callable[[dict[str, Any]], object]) -> Path:
    """A copy of a file with a change of the facts in it, and with the digest of that."""
    with zipfile.ZipFile(made) as source:
        members = {name: source.read(name) for name in source.namelist()}
    facts = json.loads(members.pop("program.json"))
    change(facts)
    path.write_bytes(pack({name: fact for name, fact in facts.items() if name != "digest"}, members))
    return path


def test_what_is_no_file_of_ours_is_refused(made: Path, tmp_path: Path) -> None:
    for path, message in (
        (tmp_path / "nothing.ddk", "nothing.ddk cannot be read: No such file"),
        (tmp_path, "cannot be read: (Is a directory|it is no regular file)"),
        (Path(__file__), "test_saved.py is damaged, or no program that deplodock has saved: File is not a zip"),
        (Path("/dev/zero"), "/dev/zero cannot be read: it is no regular file"),
    ):
        with pytest.raises(deplodock.InvalidInputError, match=message):
            deplodock.load(path)
    with zipfile.ZipFile(tmp_path / "other.zip", "w") as archive:
        archive.writestr("hello", "world")
    with pytest.raises(deplodock.InvalidInputError, match=r"other.zip: it is no program that deplodock has saved"):
        deplodock.load(tmp_path / "other.zip")


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (
            lambda facts: facts.update(format=7, deplodock="9.9"),
            r"deplodock 9.9 has saved it in version 7 .* this is deplodock .* version 2: save it again",
        ),
        (lambda facts: facts.update(arch="sm_40"), "unknown architecture 'sm_40'; choose one of"),
        (lambda facts: facts["signature"]["writes"].append(9), "numbers inputs that there are not"),
        (lambda facts: facts["signature"]["inputs"].pop(), "its plan is that of another program"),
        (lambda facts: facts["signature"]["inputs"][0].update(dtype="nn"), 'there is no dtype "nn"'),
        (lambda facts: facts["signature"].update(form=["nothing", 1, []]), "a nothing, which is not there"),
    ],
)
def test_other_facts_are_refused(made: Path, tmp_path: Path, change: Callable[[Any], object], message: str) -> None:
    path = changed(made, tmp_path / "changed.ddk", change)
    with pytest.raises(deplodock.InvalidInputError, match=rf"changed.ddk.*{message}"):
        deplodock.load(path)


def test_ir_that_is_not_read(made: Path, tmp_path: Path) -> None:
    with zipfile.ZipFile(made) as source:
        members = {name: source.read(name).replace(b"kernel.launch", b"kernel.start") for name in source.namelist()}
    facts = json.loads(members.pop("program.json"))
    del facts["digest"]
    (tmp_path / "new.ddk").write_bytes(pack(facts, members))
    with pytest.raises(
        deplodock.InvalidInputError, match=r"new.ddk: its kernel.mlir is no IR that this deplodock reads: "
    ):
        deplodock.load(tmp_path / "new.ddk")


def test_what_cannot_be_saved(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    compiled = deplodock.compile(torch.sin, (draw(3),))
    with pytest.raises(deplodock.InvalidInputError, match=r"p.ddk cannot be written: No such file"):
        compiled.save(tmp_path / "nowhere" / "p.ddk")
    weight = draw(3, 3).t()
    strided = deplodock.compile(lambda x: x * weight * x.stride(0), (draw(3, 3),))
    with pytest.raises(deplodock.UnsupportedError, match=r"asks for the strides of c_.*, which a file cannot hold"):
        strided.save(tmp_path / "p.ddk")
    monkeypatch.setitem(sys.modules, "safetensors.torch", None)
    with pytest.raises(deplodock.InvalidInputError, match=r"needs the package safetensors: pip install 'deplodock\["):
        deplodock.compile(lambda x: x * STEPS, (draw(3),)).save(tmp_path / "p.ddk")
    assert not list(tmp_path.iterdir())


def test_a_program_that_is_too_large_for_a_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is refused when it is saved, not when it is loaded."""
    compiled = deplodock.compile(torch.sin, (draw(3),))
    with monkeypatch.context() as patch:
        patch.setattr(agreement, "_MOST_TOKENS", 10)
        with pytest.raises(
            deplodock.UnsupportedError, match=r"too large for a file: it has more than 10 words and sig"
        ):
            compiled.save(tmp_path / "p.ddk")
    monkeypatch.setitem(archive.LIMITS, "plan.json", 10)
    with pytest.raises(
        deplodock.UnsupportedError, match=r"too large for a file: plan.json has \d+ bytes, and may have 10"
    ):
        compiled.save(tmp_path / "p.ddk")


def test_a_file_is_saved_through_no_link(tmp_path: Path) -> None:
    (victim := tmp_path / "victim").write_text("mine")
    (path := tmp_path / "p.ddk").symlink_to(victim)
    deplodock.compile(torch.sin, (draw(3),)).save(path)
    assert victim.read_text() == "mine"
    assert not path.is_symlink()
    assert {each.name for each in tmp_path.iterdir()} == {"victim", "p.ddk"}
