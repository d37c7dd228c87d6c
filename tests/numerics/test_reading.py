"""Files of others: only regular ones, of a limited size, and JSON that our writers could have written."""

import os
import time
import tracemalloc

import pytest

from reticent import errors
from reticent.numerics.reading import json_of, read_inside, read_regular


@pytest.mark.posix
def test_only_regular_files_of_limited_size_are_read(tmp_path):
    (tmp_path / "good").write_bytes(b"x" * 10)
    assert read_regular(tmp_path / "good", most=10) == b"x" * 10
    (tmp_path / "link").symlink_to(tmp_path / "good")
    os.mkfifo(tmp_path / "fifo")
    (tmp_path / "folder").mkdir()
    with open(tmp_path / "sparse", "wb") as file:
        file.truncate(1 << 40)  # takes no room on the disk, and would take a terabyte in memory
    started = time.monotonic()
    for name in ("link", "fifo", "folder", "sparse", "/dev/zero", "/dev/tty"):
        with pytest.raises((errors.InvalidValue, OSError)):
            read_regular(tmp_path / name, most=9)
    assert time.monotonic() - started < 5
    assert read_regular(tmp_path / "link", most=10, link=True) == b"x" * 10


def test_a_short_file_takes_little_memory(tmp_path):
    (tmp_path / "short").write_bytes(b"x" * 10)
    tracemalloc.start()
    try:
        assert read_regular(tmp_path / "short", most=1 << 32) == b"x" * 10
        assert tracemalloc.get_traced_memory()[1] < 1 << 20
    finally:
        tracemalloc.stop()
    assert read_regular(tmp_path / "short", most=10, first=3) == b"xxx"
    assert read_regular(tmp_path / "short", most=10, first=30) == b"x" * 10


@pytest.mark.posix
def test_a_file_that_grows_is_refused(tmp_path, monkeypatch):
    (tmp_path / "growing").write_bytes(b"x" * 10)
    seen = os.stat(tmp_path / "growing")
    (tmp_path / "growing").write_bytes(b"x" * 1000)
    monkeypatch.setattr(os, "fstat", lambda _: seen)
    with pytest.raises(errors.InvalidValue, match="has grown while it was read"):
        read_regular(tmp_path / "growing", most=2000)


@pytest.mark.posix
def test_no_folder_on_the_way_is_a_link(tmp_path):
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "elsewhere" / "file").write_bytes(b"secret")
    (tmp_path / "model").mkdir()
    (tmp_path / "model" / "releases").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(errors.InvalidValue, match="folder and not a link"):
        read_inside(tmp_path / "model", "releases/file", most=100)


@pytest.mark.parametrize(
    "text",
    [
        '{"a": 1, "a": 2}',
        '{"a": [{"b": 1, "b": 1}]}',
        "NaN",
        "[" * 100_000,
        '{"a":' * 100_000,
        "1" * 5_000,
        '"\\ud800"',
        '{"\\ud800": 1}',
        b"\xff\xfe",
        "",
        "{",
    ],
)
def test_json_that_nobody_wrote_is_refused(text):
    with pytest.raises(ValueError):  # noqa: PT011 (whatever its words: those who call say which file it is)
        json_of(text)


def test_json_of_ours_is_read():
    assert json_of('{"a": [1, -2.5, null, true, "\\ud83d\\ude00", Infinity]}') == {
        "a": [1, -2.5, None, True, "\U0001f600", float("inf")]
    }
