"""Archives that are no program's: lists of members that lie, names that lead elsewhere, members that grow."""

from __future__ import annotations

import stat
import struct
import zipfile
from collections.abc import Callable, Mapping
from io import BytesIO

Members = Mapping[str, bytes]
Archive = Callable[[Members], bytes]

_LARGE = 64 << 20


def zipped(
    members: Members,
    change: Callable[[list[zipfile.ZipInfo]], object] = lambda _: None,
    kind: int = zipfile.ZIP_DEFLATED,
) -> bytes:
    """An archive, whose list of members says what a change makes of it."""
    made = BytesIO()
    with zipfile.ZipFile(made, "w") as archive:
        for name, content in members.items():
            archive.writestr(zipfile.ZipInfo(name), content, zipfile.ZIP_STORED if "tensors" in name else kind)
        change(archive.filelist)
    return made.getvalue()


def with_member(name: str, content: bytes = b"x", mode: int = 0) -> Archive:
    """One member more; a link, with the mode of one."""

    def change(listed: list[zipfile.ZipInfo]) -> None:
        listed[-1].external_attr = mode << 16

    return lambda members: zipped({**members, name: content}, change)


def lying(name: str, **facts: int | str) -> Archive:
    """The list of members says something else of one."""

    def change(listed: list[zipfile.ZipInfo]) -> None:
        (member,) = (one for one in listed if one.filename == name)
        for fact, value in facts.items():
            setattr(member, fact, value)

    return lambda members: zipped(members, change)


def grown(name: str, content: bytes = b" " * _LARGE) -> Archive:
    """A member of a few bytes that takes 64 MB."""
    return lambda members: zipped({**members, name: members[name] + content})


def twice(name: str) -> Archive:
    """A member twice."""

    def make(members: Members) -> bytes:
        data = zipped({**members, "x" * len(name): members[name]})
        return data.replace(b"x" * len(name), name.encode())

    return make


def without_end(size: int) -> Archive:
    """Cut off before its end."""
    return lambda members: zipped(members)[:-size]


def far_away(_: Members) -> bytes:
    """The list of members is said to be 3 GB, of which a file may have holes."""
    return b"PK\x05\x06" + struct.pack("<4H2LH", 0, 0, 7, 7, 3 << 30, 0, 0)


def _deflated(members: Members) -> bytes:
    """Tensors that may take a thousandth of their size."""
    made = BytesIO()
    with zipfile.ZipFile(made, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in members.items():
            archive.writestr(name, content)
    return made.getvalue()


ARCHIVES: dict[str, tuple[Archive, str]] = {
    "nothing": (lambda _: b"", "no program that deplodock has saved"),
    "text": (lambda _: b"kernels" * 1000, "no program that deplodock has saved"),
    "a pickle": (lambda _: b"cos\nsystem\n(S'touch evil'\ntR.", "no program that deplodock has saved"),
    "another archive": (lambda _: zipped({"hello": b"world"}), "it is no program that deplodock has saved"),
    "the first half": (lambda members: zipped(members)[: len(zipped(members)) // 2], "damaged"),
    "without its end": (without_end(10), "damaged"),
    "a list of members that is not there": (far_away, "damaged"),
    "a list of 20000 members": (
        lambda members: zipped({**members, **{f"{n:050}": b"" for n in range(20000)}}),
        "its list of members is too long",
    ),
    "a member that nobody needs": (with_member("unneeded.bin", bytes(_LARGE)), 'it holds "unneeded.bin", which no'),
    "a path upwards": (with_member("../evil"), r'it holds "\.\./evil", which no saved program has'),
    "an absolute path": (with_member("/tmp/deplodock-evil"), 'it holds "/tmp/deplodock-evil", which no'),
    "a path of Windows": (with_member("..\\evil"), "which no saved program has"),
    "a folder": (with_member("kernel.mlir/"), "which no saved program has"),
    "a member in a folder": (with_member("x/kernel.mlir"), "which no saved program has"),
    "a link": (
        with_member("evil", b"/etc/passwd", stat.S_IFLNK | 0o777),
        'it holds "evil", which no saved program has',
    ),
    "a name in capitals": (with_member("KERNEL.MLIR"), "which no saved program has"),
    "a name with another dot": (with_member("kernel\u2024mlir"), r'it holds "kernel\\u2024mlir", which no'),
    "a name with a NUL": (lying("kernel.mlir", filename="kernel.mli\0"), "has"),
    "a name of control characters": (with_member("\x1b[2J\n"), r"it holds \"\\u001b\[2J\\n\", which no"),
    "a member twice": (twice("kernel.mlir"), "it holds kernel.mlir twice"),
    "facts twice": (twice("program.json"), "it holds program.json twice"),
    "IR of 64 MB": (grown("kernel.mlir"), "kernel.mlir has 6[0-9]* bytes, and may have 8388608"),
    "facts of 64 MB": (grown("program.json"), "program.json has 6[0-9]* bytes, and may have 4194304"),
    "a plan of 64 MB": (grown("plan.json"), "plan.json has 6[0-9]* bytes, and may have"),
    "kernels of 64 MB": (grown("kernels.cu"), "kernels.cu has 6[0-9]* bytes, and may have"),
    "tensors of 64 MB": (grown("tensors.safetensors"), "tensors.safetensors has 6[0-9]* bytes, and may have"),
    "tensors that are compressed": (_deflated, "tensors.safetensors is compressed, and tensors are stored as they are"),
    "less than it says": (lying("kernel.mlir", file_size=1 << 22), "damaged"),
    "more than it says": (lying("kernel.mlir", file_size=10), "damaged"),
    "a size of zip64": (lying("kernel.mlir", file_size=1 << 62), "kernel.mlir has 4611686018427387904 bytes, and may"),
    "a place of zip64": (lying("kernel.mlir", header_offset=1 << 62), "damaged|cannot be read"),
    "a place behind the end": (lying("plan.json", header_offset=1 << 30), "damaged"),
    "two members in one place": (lying("plan.json", header_offset=0), "damaged"),
    "another checksum": (lying("kernel.mlir", CRC=1), "damaged"),
    "an encrypted member": (lying("kernel.mlir", flag_bits=1), "damaged"),
    "bzip2": (lambda members: zipped(members, kind=zipfile.ZIP_BZIP2), "is compressed in another way than files of"),
    "LZMA": (lambda members: zipped(members, kind=zipfile.ZIP_LZMA), "is compressed in another way than files of"),
}
"""Archives that are made of the members of a file, and what is said of each."""
