"""Entries that are damaged, foreign or cannot be written: none of them is found, and the next write heals them."""

from __future__ import annotations

import logging
import os
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from deplodock.runtime import store as store_module
from deplodock.runtime.store import Store

CONTENT = b"{}\n\x7fELF of a kernel"


@pytest.fixture
def store(tmp_path: Path) -> Store:
    store_module._note_once.cache_clear()
    return Store(tmp_path / "cache")


def entry(store: Store) -> Path:
    (path,) = store.folder.glob("*.entry")
    return path


def test_what_is_written_is_read(store: Store) -> None:
    assert store.read("key") is None
    store.write("key", CONTENT)
    assert store.read("key") == CONTENT
    assert store.read("other") is None
    store.write("empty", b"")
    assert store.read("empty") == b""


def test_the_folder_is_its_owners_alone(store: Store) -> None:
    before = os.umask(0)
    try:
        store.write("key", CONTENT)
    finally:
        os.umask(before)
    assert store.folder.stat().st_mode & 0o777 == 0o700
    assert entry(store).stat().st_mode & 0o777 == 0o600


def cut(path: Path, count: int) -> None:
    path.write_bytes(path.read_bytes()[:count])


def flip_last_byte(path: Path) -> None:
    data = bytearray(path.read_bytes())
    data[-1] ^= 1
    path.write_bytes(data)


def replace_by_folder(path: Path) -> None:
    path.unlink()
    path.mkdir()


def replace_by_pipe(path: Path) -> None:
    path.unlink()
    os.mkfifo(path)


def replace_by_dangling_link(path: Path) -> None:
    path.unlink()
    path.symlink_to("nowhere")


DAMAGES: dict[str, Callable[[Path], object]] = {
    "empty": lambda path: path.write_bytes(b""),
    "cut in its head": lambda path: cut(path, 20),
    "cut at the end": lambda path: cut(path, -1),
    "without content": lambda path: cut(path, path.read_bytes().index(b"\n") + 1),
    "longer": lambda path: path.write_bytes(path.read_bytes() + b"\0"),
    "another bit": flip_last_byte,
    "JSON of another program": lambda path: path.write_text('{"log": 1}'),
    "another version": lambda path: path.write_bytes(path.read_bytes().replace(b" 1 ", b" 0 ", 1)),
    "not text": lambda path: path.write_bytes(b"\xff\xfe\0"),
    "writable by its group": lambda path: path.chmod(0o620),
    "writable by others": lambda path: path.chmod(0o602),
    "a link to nowhere": replace_by_dangling_link,
    "a pipe": replace_by_pipe,
}


@pytest.mark.parametrize("damage", DAMAGES)
def test_a_damaged_entry_is_not_found_and_healed(store: Store, damage: str) -> None:
    store.write("key", CONTENT)
    DAMAGES[damage](entry(store))
    assert store.read("key") is None
    store.write("key", CONTENT)
    assert store.read("key") == CONTENT


def test_what_cannot_be_replaced_is_a_note(store: Store, caplog: pytest.LogCaptureFixture) -> None:
    store.write("key", CONTENT)
    replace_by_folder(entry(store))
    with caplog.at_level(logging.WARNING, logger="deplodock"):
        for _ in range(2):
            assert store.read("key") is None
            store.write("key", CONTENT)
    assert [record.message for record in caplog.records] == [
        f"the cache {store.folder} cannot be written: Is a directory"
    ]
    assert not list(store.folder.glob("*.unfinished"))


def test_a_folder_that_cannot_be_made_is_a_note(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    (tmp_path / "file").touch()
    store = Store(tmp_path / "file" / "cache")
    store.write("key", CONTENT)
    assert store.read("key") is None
    (record,) = caplog.records
    assert record.message == f"the cache {store.folder} cannot be written: Not a directory"


def test_entries_and_folders_of_others_do_not_count(
    store: Store, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    store.write("key", CONTENT)
    before = entry(store).read_bytes()
    monkeypatch.setattr(os, "geteuid", lambda: store.folder.stat().st_uid + 1)
    assert store.read("key") is None
    store.write("key", b"other")
    assert entry(store).read_bytes() == before
    assert "it belongs to another user" in caplog.text


def test_files_of_killed_writers_are_removed_at_the_first_write(store: Store) -> None:
    store_module.make_private(store.folder)
    old, young = abandoned(store.folder)
    store.write("key", CONTENT)
    assert not old.exists()
    assert young.exists()


def abandoned(folder: Path) -> tuple[Path, Path]:
    """Two files of killed writers, the first one old."""
    old, young = (folder / f"{name}.unfinished" for name in ("old", "young"))
    for path in (old, young):
        path.touch()
    os.utime(old, (0, time.time() - 2 * store_module._ABANDONED))
    return old, young


@pytest.mark.parametrize("mark", [None, "Signature: 8a477f597d28d172789f06886806bc55\n"])
def test_nothing_is_removed_in_a_folder_that_is_not_marked_as_ours(store: Store, mark: str | None) -> None:
    store.folder.mkdir(mode=0o700, parents=True)
    if mark is not None:
        (store.folder / "CACHEDIR.TAG").write_text(mark)
    old, _ = abandoned(store.folder)
    store.write("key", CONTENT)
    assert store.read("key") == CONTENT
    assert old.exists()


def test_entries_that_are_exchanged_are_not_found(store: Store) -> None:
    store.write("one", b"1")
    store.write("two", b"2")
    one, two, other = (store.folder / name for name in ("one.entry", "two.entry", "other"))
    one.rename(other)
    two.rename(one)
    other.rename(two)
    assert (store.read("one"), store.read("two")) == (None, None)
    store.write("one", b"1")
    assert store.read("one") == b"1"


@pytest.mark.parametrize("mode", [0o770, 0o707, 0o1777])
def test_a_folder_that_others_may_write_is_not_used(store: Store, mode: int, caplog: pytest.LogCaptureFixture) -> None:
    store.write("key", CONTENT)
    store.folder.chmod(mode)
    assert store.read("key") is None
    store.write("new", CONTENT)
    assert not (store.folder / "new.entry").exists()
    (record,) = caplog.records
    folder = store.folder
    assert record.message == f"the cache {folder} is not used: others may write it: chmod go-w {folder}"


def test_a_link_to_a_folder_of_ones_own_is_used(store: Store) -> None:
    (own := store.folder.with_name("own")).mkdir(mode=0o700)
    store.folder.symlink_to(own)
    store.write("key", CONTENT)
    assert store.read("key") == CONTENT


def test_what_is_written_goes_through_no_link(store: Store) -> None:
    store.write("key", CONTENT)
    (victim := store.folder.with_name("victim")).write_text("mine")
    entry(store).unlink()
    (store.folder / "key.entry").symlink_to(victim)
    store.write("key", CONTENT)
    assert victim.read_text() == "mine"
    assert store.read("key") == CONTENT
