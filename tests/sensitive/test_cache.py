"""The cache of features: the same bits, and files that no other user can read."""

import contextlib
import dataclasses
import os
import sqlite3
import stat
from pathlib import Path

import numpy as np
import pytest

from reticent import encoders, errors
from reticent.budget import Budget
from reticent.classifier import ContinualClassifier
from reticent.encoders import images, text
from reticent.encoders.encoder import CACHE_FILE, Encoder
from reticent.policies import PublicLabels
from reticent.sensitive.cache import Cache, encoded_with_cache
from reticent.sensitive.engines import machines
from tests.encoders.samples import installed, pictures, texts

posix = pytest.mark.skipif(os.name != "posix", reason="modes of files are those of POSIX")


def mean_of_letters(folder: Path | None, calls: list[int] | None = None) -> Encoder:
    """An encoder of texts; `calls` gets the number of rows of each batch."""

    def function(batch: list[str]) -> np.ndarray:
        if calls is not None:
            calls.append(len(batch))
        return np.array([[len(word), np.mean([ord(letter) for letter in word or " "])] for word in batch])

    plain = encoders.wrap(function, width=2, name="letters")
    return dataclasses.replace(plain, cache=folder, content=text.content, chunk=7)


def test_the_cache_changes_no_bits(tmp_path):
    """Nothing kept, some of it, all of it, in another order, in several chunks."""
    examples = [*texts(30), None, "canary", "canary"]
    expected = mean_of_letters(None)(examples)
    calls: list[int] = []
    encoder = mean_of_letters(tmp_path / "kept", calls)
    np.testing.assert_array_equal(encoded_with_cache(encoder, examples[:11]), expected[:11])
    np.testing.assert_array_equal(encoded_with_cache(encoder, examples), expected)
    calls.clear()
    np.testing.assert_array_equal(encoded_with_cache(encoder, examples[::-1]), expected[::-1])
    assert calls == [1]  # None alone is tried again
    np.testing.assert_array_equal(encoded_with_cache(encoder, []), expected[:0])
    np.testing.assert_array_equal(encoded_with_cache(mean_of_letters(None), examples), expected)


@pytest.mark.parametrize("what", ["threads", "processor"])
def test_features_of_other_settings_are_not_used(tmp_path, threads, monkeypatch, what):
    """A row's bits would depend on whether an earlier task, or another machine, had the same text."""
    calls: list[int] = []
    encoder = mean_of_letters(tmp_path, calls)
    threads(1)
    for other in (False, False, True, True):
        if other and what == "threads":
            threads(2)
        elif other:
            here = machines.machine_here()._replace(processor="another")
            monkeypatch.setattr(machines, "_machine", lambda here=here: here)
        calls.append(0)
        encoded_with_cache(encoder, ["a text"])
    assert calls == [0, 1, 0, 0, 1, 0]


def test_what_cannot_be_encoded_is_not_kept(tmp_path):
    """A row of NaN may be due to lack of memory, and be a row of features the next time."""
    broken = True

    def function(batch: list[str]) -> np.ndarray:
        if broken:
            raise ValueError
        return np.ones((len(batch), 2))

    plain = encoders.wrap(function, width=2, name="mine")
    encoder = dataclasses.replace(plain, cache=tmp_path, content=text.content)
    assert np.isnan(encoded_with_cache(encoder, ["a text"])).all()
    broken = False
    assert encoded_with_cache(encoder, ["a text"]).tolist() == [[1.0, 1.0]]


def test_encoders_do_not_share_what_they_keep(tmp_path):
    first = mean_of_letters(tmp_path)
    other = dataclasses.replace(
        encoders.wrap(lambda batch: np.zeros((len(batch), 2)), width=2, name="zeros"),
        cache=tmp_path,
        content=text.content,
    )
    assert encoded_with_cache(first, ["a text"]).any()
    assert not encoded_with_cache(other, ["a text"]).any()


@posix
def test_cache_is_private_and_wiped(tmp_path):
    folder = tmp_path / "kept"
    encoder = mean_of_letters(folder)
    encoded_with_cache(encoder, ["canary", "another"])
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    (file,) = folder.iterdir()
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert b"canary" not in file.read_bytes()
    (folder / "other.txt").write_text("not ours")
    encoder.wipe_cache()
    assert [file.name for file in folder.iterdir()] == ["other.txt"]
    (folder / "other.txt").unlink()
    encoder.wipe_cache()
    assert not folder.exists()
    mean_of_letters(None).wipe_cache()


@pytest.mark.posix
@posix
def test_a_folder_of_the_user_keeps_its_mode(tmp_path):
    folder = tmp_path / "shared"
    folder.mkdir()
    folder.chmod(0o755)
    (folder / CACHE_FILE).touch(mode=0o644)
    encoded_with_cache(mean_of_letters(folder), ["a text"])
    assert stat.S_IMODE(folder.stat().st_mode) == 0o755
    assert stat.S_IMODE((folder / CACHE_FILE).stat().st_mode) == 0o600


@pytest.mark.posix
@posix
def test_a_symbolic_link_is_refused_as_cache(tmp_path):
    """Whoever may write to the folder could redirect features to another file."""
    target = tmp_path / "theirs"
    target.touch(mode=0o644)
    (tmp_path / CACHE_FILE).symlink_to(target)
    with pytest.raises(errors.ReticentError, match=r"^The cache .* cannot be opened\."):
        encoded_with_cache(mean_of_letters(tmp_path), ["a text"])
    assert target.read_bytes() == b""
    assert stat.S_IMODE(target.stat().st_mode) == 0o644


def test_a_damaged_cache_is_refused_in_one_sentence(tmp_path):
    (tmp_path / CACHE_FILE).write_bytes(b"not a database" * 100)
    with pytest.raises(errors.ReticentError, match=r"^The cache .* cannot be opened\. Wipe it, or name another\.$"):
        encoded_with_cache(mean_of_letters(tmp_path), ["a text"])


@installed("PIL")
def test_cache_of_images_follows_pixels_not_names(tmp_path):
    from PIL import Image

    plain = encoders.wrap(
        lambda batch: np.array([[np.mean(np.asarray(images.read(image)))] for image in batch]), width=1, name="mean"
    )
    encoder = dataclasses.replace(plain, cache=tmp_path / "kept", content=images.content)
    first, second = pictures(2)
    file = tmp_path / "a.png"
    Image.fromarray(first).save(file)
    before = encoded_with_cache(encoder, [file])
    np.testing.assert_array_equal(encoded_with_cache(encoder, [first]), before)
    Image.fromarray(second).save(file)
    assert (encoded_with_cache(encoder, [file]) != before).any()


def test_learning_uses_the_cache_and_predicting_does_not(tmp_path):
    calls: list[int] = []
    encoder = mean_of_letters(tmp_path / "kept", calls)
    for _ in range(2):
        model = ContinualClassifier(
            encoder=encoder, labels=PublicLabels(["a", "b"]), budget=Budget(epsilon=1.0, delta=1e-5, tasks_per_person=1)
        )
        model.learn_task(["a text", "another"], ["a", "b"])
    assert calls == [1, 1]  # learned twice, encoded once
    kept = (tmp_path / "kept" / CACHE_FILE).read_bytes()
    model.predict(["a text", "a third"])
    assert calls == [1, 1, 1, 1]
    assert (tmp_path / "kept" / CACHE_FILE).read_bytes() == kept


@pytest.mark.posix
@pytest.mark.parametrize("mode", [0o1777, 0o770, 0o775])
def test_shared_folders_are_refused(tmp_path, mode):
    """In a folder such as /tmp others could have put features; its mode is not ours to change."""
    shared = tmp_path / "shared"
    shared.mkdir()
    shared.chmod(mode)
    with pytest.raises(errors.InvalidValue, match="that others cannot write to"):
        Cache(shared)
    assert stat.S_IMODE(shared.stat().st_mode) == mode
    assert list(shared.iterdir()) == []
    with contextlib.closing(Cache(shared / "own")):
        assert stat.S_IMODE((shared / "own").stat().st_mode) == 0o700


def test_foreign_rows_are_not_used(tmp_path):
    row, other = np.arange(4, dtype=np.float32), np.ones(4, np.float32)
    with contextlib.closing(Cache(tmp_path)) as cache:
        cache.put([(b"mine", row), (b"another", other)])
        np.testing.assert_array_equal(cache.get([b"mine"], 4), [row])
        assert cache.get([b"mine", b"none", None], 5) == [None, None, None]  # another width
    for change in (
        "UPDATE features SET value = (SELECT value FROM features WHERE key = CAST('another' AS BLOB)) "
        "WHERE key = x'6d696e65'",
        "UPDATE features SET value = zeroblob(32) WHERE key = x'6d696e65'",
        "UPDATE features SET value = 'text' WHERE key = x'6d696e65'",
        "UPDATE features SET value = 7 WHERE key = x'6d696e65'",
        "UPDATE features SET value = zeroblob(100000000) WHERE key = x'6d696e65'",
    ):
        with contextlib.closing(sqlite3.connect(tmp_path / CACHE_FILE)) as database, database:
            database.execute(change)
        database.close()
        with contextlib.closing(Cache(tmp_path)) as cache:
            assert cache.get([b"mine"], 4) == [None]
            np.testing.assert_array_equal(cache.get([b"another"], 4), [other])


@pytest.mark.parametrize(
    "addition",
    [
        "CREATE TRIGGER t AFTER INSERT ON features BEGIN DELETE FROM features; END",
        "CREATE VIEW v AS SELECT * FROM features",
        "DROP TABLE features; CREATE TABLE features (key, value)",
    ],
)
def test_a_cache_with_another_schema_is_refused(tmp_path, addition):
    Cache(tmp_path).close()
    with contextlib.closing(sqlite3.connect(tmp_path / CACHE_FILE)) as database, database:
        database.executescript(addition)
    database.close()
    with pytest.raises(errors.ReticentError, match="cannot be opened"):
        Cache(tmp_path)
