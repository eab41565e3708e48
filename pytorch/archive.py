"""The archive that a file of a program is: known members alone, of sizes that are known before they are read.

It is a zip archive, the same bytes for the same members. One of these holds, as JSON, facts, and among them a digest of
all of it. That says that members belong together, and not who has written them.
"""

from __future__ import annotations

import hashlib
import json
import zipfile
from collections.abc import Mapping
from io import BytesIO
from typing import IO, Any, cast

from deplodock.errors import InvalidInputError, UnsupportedError
from deplodock.runtime.files import chunks
from deplodock.runtime.records import read_json, shown

FACTS, PLAN, TENSORS, TEXT, CUBIN = "program.json", "plan.json", "tensors.safetensors", "kernels.cu", "kernels.cubin"

_JSON, _IR, _CODE = 1 << 22, 1 << 23, 1 << 26
LIMITS = {FACTS: _JSON, PLAN: _JSON, TEXT: _IR, CUBIN: _CODE}
LIMITS |= {f"{level}.mlir": _IR for level in ("tensor", "loop", "kernel")}
"""The most bytes of each member. That of tensors has as many as they say, and is stored as it is."""

_READ = 1 << 20
"""The most bytes that are read at once; the list of members is, and it has some hundreds."""


def pack(facts: Mapping[str, Any], members: Mapping[str, bytes]) -> bytes:
    """The archive of some members, and of facts. Raises UnsupportedError where one is larger than a file may have."""
    whole = {**facts, "digest": _digest(facts, members)}
    made = BytesIO()
    with zipfile.ZipFile(made, "w") as archive:
        for name, content in {FACTS: json.dumps(whole, indent=1).encode(), **members}.items():
            if len(content) > LIMITS.get(name, len(content)):
                raise UnsupportedError(f"the program is too large for a file: {_too_large(name, len(content))}")
            # A ZipInfo without a time, so that equal programs are equal bytes.
            kind = zipfile.ZIP_STORED if name == TENSORS else zipfile.ZIP_DEFLATED
            archive.writestr(zipfile.ZipInfo(name), content, kind)
    return made.getvalue()


class ProgramArchive:
    """An archive that is read: `facts` are there, `read` gives other members, and `check` compares all of it."""

    def __init__(self, file: IO[bytes]) -> None:
        """Raises InvalidInputError where it is none of ours, and any error where it is damaged."""
        self._zip = zipfile.ZipFile(cast(IO[bytes], _Bounded(file)))
        self._members = {member.filename: member for member in self._zip.infolist()}
        if FACTS not in self._members:
            raise InvalidInputError("it is no program that deplodock has saved")
        facts = read_json(self.read(FACTS).decode())
        if not isinstance(facts, dict):
            raise InvalidInputError("it is no program that deplodock has saved")
        self.facts = cast(dict[str, Any], facts)

    def __contains__(self, name: str) -> bool:
        return name in self._members

    def read(self, name: str, most: int | None = None) -> bytes:
        """The bytes of a member. Raises ValueError where these are more than `most`, by default than any may have."""
        member = self._members.get(name)
        if member is None:
            raise ValueError(f"it has no {name}")
        limit = LIMITS[name] if most is None else most
        if member.file_size > limit:
            raise ValueError(_too_large(name, member.file_size, limit))
        if member.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
            raise ValueError(f"{name} is compressed in another way than files of programs are")
        if name == TENSORS and member.compress_size != member.file_size:
            raise ValueError(f"{name} is compressed, and tensors are stored as they are")
        with self._zip.open(member) as file:
            content = b"".join(chunks(file, member.file_size))
        if len(content) != member.file_size:
            raise ValueError(f"{name} is shorter than it says")
        return content

    def check_members(self) -> None:
        """Raise InvalidInputError where it has other members than files of programs have, or one twice."""
        names = [member.filename for member in self._zip.infolist()]
        for name in names:
            if name not in {*LIMITS, TENSORS}:
                raise InvalidInputError(f"it holds {shown(name)}, which no saved program has")
            if names.count(name) > 1:
                raise InvalidInputError(f"it holds {name} twice")

    def check(self, members: Mapping[str, bytes]) -> None:
        """Raise InvalidInputError where the digest is not that of the facts and these members."""
        given = {name: fact for name, fact in self.facts.items() if name != "digest"}
        if self.facts.get("digest") != _digest(given, members):
            raise InvalidInputError("its members are not those that were saved together: save the program again")


class _Bounded:
    """A file of which no read takes more than `_READ` bytes: an archive may lie about where its list of members is."""

    def __init__(self, file: IO[bytes]) -> None:
        self._file = file
        self.seek, self.tell, self.seekable = file.seek, file.tell, file.seekable

    def read(self, size: int = -1) -> bytes:
        """As a file's own. Raises ValueError for what is larger than any part that is asked for."""
        data = self._file.read(_READ + 1 if size < 0 else min(size, _READ + 1))
        if len(data) > _READ:
            raise ValueError("its list of members is too long")
        return data


def _digest(facts: Mapping[str, Any], members: Mapping[str, bytes]) -> str:
    """The digest of facts and members, whatever their order."""
    found = hashlib.sha256(json.dumps(facts, sort_keys=True).encode())
    for name, content in sorted(members.items()):
        found.update(f"\n{name} {len(content)}\n".encode())
        found.update(content)
    return found.hexdigest()


def _too_large(name: str, size: int, most: int | None = None) -> str:
    return f"{name} has {size} bytes, and may have {LIMITS[name] if most is None else most}"
