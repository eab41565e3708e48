"""Files that somebody else may have written: one line each, little memory, and nothing is run or written.

All are read in one process, whose memory is measured; it has some seconds for each.
"""

from __future__ import annotations

import json
import os
import re
import socket
import subprocess
import sys
import zipfile
from collections.abc import Callable
from copy import deepcopy
from io import BytesIO
from pathlib import Path
from typing import Any

import pytest
import torch
from hostile_archives import ARCHIVES, zipped
from hostile_members import MEMBERS, Parts
from torch import nn

import deplodock
from deplodock.errors import CompileError
from deplodock.pytorch.archive import pack
from deplodock.runtime import planned

MOST_MEGABYTES = 600
SECONDS = 60

READING = """
import json, re, signal, sys
import deplodock
def late(*_): raise TimeoutError
signal.signal(signal.SIGALRM, late)
def megabytes():
    # The most that this process had; what it says of itself by resource is at least what its parent had.
    return int(re.search(r"VmHWM:\\s*([0-9]+)", open("/proc/self/status").read())[1]) // 1024
for path in json.load(open(sys.argv[1])):
    signal.alarm(int(sys.argv[2]))
    try: deplodock.load(path); said = ["", "loaded"]
    except BaseException as error: said = [type(error).__name__, str(error)]
    signal.alarm(0)
    print(json.dumps([path, *said, megabytes()]), flush=True)
"""


class Soft(nn.Module):
    """A program with two kernels, memory between them, and a constant."""

    def __init__(self, size: int) -> None:
        super().__init__()
        self.size = size
        self.table = [torch.arange(float(size))]

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.softmax(x @ x.T * self.table[0], 0) @ x


def saved(path: Path, size: int) -> dict[str, bytes]:
    """The members of the file of a program."""
    deplodock.compile(Soft(size).eval(), (torch.randn(size, size),)).save(path)
    with zipfile.ZipFile(path) as archive:
        return {name: archive.read(name) for name in archive.namelist()}


def places(folder: Path) -> dict[str, Callable[[], object]]:
    """What stands in a file's place, and how it is made."""
    return {
        "a pipe": lambda: os.mkfifo(folder / "a pipe"),
        "a folder": lambda: (folder / "a folder").mkdir(),
        "a link to a pipe": lambda: (folder / "a link to a pipe").symlink_to("a pipe"),
        "a link to nowhere": lambda: (folder / "a link to nowhere").symlink_to("nowhere"),
        "a link to itself": lambda: (folder / "a link to itself").symlink_to("a link to itself"),
        "a link to zeros": lambda: (folder / "a link to zeros").symlink_to("/dev/zero"),
        "a socket": lambda: socket.socket(socket.AF_UNIX).bind(str(folder / "a socket")),
    }


PLACES = {
    **dict.fromkeys(
        ("a pipe", "a link to a pipe", "a folder", "a link to zeros"), "it is no regular file|Is a directory"
    ),
    "a link to nowhere": "No such file",
    "a link to itself": "Too many levels of symbolic links",
    "a socket": "No such device",
}


def written(parts: Parts) -> bytes:
    """The file of some members, with the digest that they have."""
    members = {"plan.json": json.dumps(parts.plan).encode(), **parts.members}
    if not isinstance(parts.facts, dict):
        return pack({}, members | {"program.json": json.dumps(parts.facts).encode()})
    return pack(parts.facts, members)


def listing(folder: Path) -> set[str]:
    """All that is in a folder."""
    return {str(path) for path in folder.rglob("*")}


@pytest.fixture(scope="module")
def outcomes(tmp_path_factory: pytest.TempPathFactory) -> dict[str, tuple[str, str, int]]:
    """What comes of each file: the kind of the error, its message, and the most megabytes up to then."""
    folder = tmp_path_factory.mktemp("hostile")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(planned, "check_compiler", no_compiler)
        members, other = saved(folder / "right", 3), saved(folder / "other", 4)
    for name, (make, _) in ARCHIVES.items():
        (folder / f"archive {name}").write_bytes(make(members))
    facts, plan = (json.loads(members.pop(name)) for name in ("program.json", "plan.json"))
    del facts["digest"]
    for name, (change, _) in MEMBERS.items():
        change(parts := Parts(deepcopy(facts), deepcopy(plan), dict(members), other))
        (folder / f"members {name}").write_bytes(written(parts))
    for make in places(folder).values():
        make()
    for name in DIGESTS:
        (folder / name).write_bytes(with_digest(name, facts, {"plan.json": json.dumps(plan).encode(), **members}))
    paths = sorted(str(path) for path in folder.iterdir())
    (work := folder / "work").mkdir()
    (work / "paths").write_text(json.dumps(paths))
    before = listing(folder)
    command = [sys.executable, "-c", READING, str(work / "paths"), str(SECONDS)]
    done = subprocess.run(command, cwd=work, capture_output=True, text=True, check=True)
    assert listing(folder) == before
    found = map(json.loads, done.stdout.splitlines())
    return {Path(path).name: (kind, message, size) for path, kind, message, size in found}


def no_compiler() -> None:
    raise CompileError("no nvcc found")


DIGESTS: dict[str, Callable[[Any, dict[str, bytes]], object]] = {
    "digest of another file": lambda facts, _: facts.update(digest="0" * 64),
    "digest that is missing": lambda facts, _: facts.pop("digest"),
    "digest that is a number": lambda facts, _: facts.update(digest=3),
    "digest of other IR": lambda _, members: members.update({"tensor.mlir": b"builtin.module {}"}),
    "digest of other kernels": lambda _, members: members.update({"kernels.cu": members["kernels.cu"] + b"\n"}),
}
"""Files whose digest is not theirs, though nothing else tells it."""


def with_digest(name: str, facts: Any, members: dict[str, bytes]) -> bytes:
    """One of them."""
    with zipfile.ZipFile(BytesIO(pack(facts, members))) as archive:
        own = {each: archive.read(each) for each in archive.namelist()}
    given = json.loads(own.pop("program.json"))
    DIGESTS[name](given, own)
    return zipped({"program.json": json.dumps(given).encode(), **own})


def message(outcomes: dict[str, tuple[str, str, int]], name: str) -> str:
    """What is said of a file, in a line that starts with its name."""
    kind, text, megabytes = outcomes[name]
    assert kind == "InvalidInputError", text
    path, found, rest = text.partition(name)
    assert path.startswith("/")
    assert found
    assert rest.isprintable(), text
    assert len(rest) < 500
    assert megabytes < MOST_MEGABYTES
    return rest


@pytest.mark.parametrize("name", ARCHIVES)
def test_archives(outcomes: dict[str, tuple[str, str, int]], name: str) -> None:
    assert re.search(ARCHIVES[name][1], message(outcomes, f"archive {name}"))


@pytest.mark.parametrize("name", MEMBERS)
def test_members(outcomes: dict[str, tuple[str, str, int]], name: str) -> None:
    assert re.search(MEMBERS[name][1], message(outcomes, f"members {name}"))


@pytest.mark.parametrize("name", PLACES)
def test_places(outcomes: dict[str, tuple[str, str, int]], name: str) -> None:
    assert re.search(PLACES[name], message(outcomes, name))


@pytest.mark.parametrize("name", DIGESTS)
def test_digests(outcomes: dict[str, tuple[str, str, int]], name: str) -> None:
    assert "its members are not those that were saved together" in message(outcomes, name)


@pytest.mark.parametrize("name", ["right", "other"])
def test_programs_are_loaded(outcomes: dict[str, tuple[str, str, int]], name: str) -> None:
    assert outcomes[name][:2] == ("", "loaded")
