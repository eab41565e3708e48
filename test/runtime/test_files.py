"""Files are written whole and through no link, locks follow none, and what is no regular file is not read."""

from __future__ import annotations

import fcntl
import os
from pathlib import Path

import pytest

from deplodock.runtime.files import FileLock, opened, read_whole, write_whole


def test_a_link_is_replaced_and_not_followed(tmp_path: Path) -> None:
    (victim := tmp_path / "victim").write_text("mine")
    (path := tmp_path / "out").symlink_to(victim)
    write_whole(path, "ours")
    assert (victim.read_text(), path.read_text(), path.is_symlink()) == ("mine", "ours", False)
    assert sorted(os.listdir(tmp_path)) == ["out", "victim"]


def test_what_fails_leaves_nothing(tmp_path: Path) -> None:
    (path := tmp_path / "folder").mkdir()
    for target in (path, tmp_path / "nowhere" / "out", Path("/dev/null")):
        with pytest.raises(OSError, match=r"Is a directory|No such file|it is a device"):
            write_whole(target, b"ours")
    assert os.listdir(tmp_path) == ["folder"]


def test_files_have_the_mode_of_new_ones(tmp_path: Path) -> None:
    before = os.umask(0o027)
    try:
        write_whole(tmp_path / "out", b"")
        write_whole(tmp_path / "own", b"", mode=0o600)
    finally:
        os.umask(before)
    assert [(tmp_path / name).stat().st_mode & 0o777 for name in ("out", "own")] == [0o640, 0o600]


def test_what_is_too_large_is_not_read(tmp_path: Path) -> None:
    (path := tmp_path / "sparse").touch()
    os.truncate(path, 1 << 40)
    with pytest.raises(OSError, match="it has 1099511627776 bytes, and may have 100"):
        read_whole(path, 100)


@pytest.mark.parametrize("path", ["/dev/zero", "/dev", "pipe"])
def test_what_is_no_regular_file_is_not_read(tmp_path: Path, path: str) -> None:
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(OSError, match=r"it is no regular file|Is a directory"), opened(tmp_path / path):
        pass


def test_a_lock_truncates_nothing_and_follows_no_link(tmp_path: Path) -> None:
    (victim := tmp_path / "victim").write_text("mine")
    (link := tmp_path / "link").symlink_to(victim)
    with pytest.raises(OSError, match="symbolic link"):
        FileLock(link)
    with FileLock(victim).held():
        pass
    assert victim.read_text() == "mine"
    FileLock(tmp_path / "new")
    assert (tmp_path / "new").stat().st_mode & 0o777 == 0o600
    victim.chmod(0o666)
    with pytest.raises(OSError, match=r"it is not this user's alone: remove it: '.*victim'"):
        FileLock(victim)


def test_a_lock_is_held_by_one(tmp_path: Path) -> None:
    one, other = FileLock(tmp_path / "lock"), FileLock(tmp_path / "lock")
    with one.held(), pytest.raises(BlockingIOError):
        fcntl.flock(other._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    with other.held():
        pass
