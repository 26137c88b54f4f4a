"""A large object comes piece by piece, whole and of one version, however slow the link is."""

import pytest

from kafka_on_spark.base.errors import KafkaStorageError
from kafka_on_spark.store import deadlines, object_files, roots
from kafka_on_spark.store.local_files import UnsafeFileError
from kafka_on_spark.store.roots import RootFiles, StorageOptions

ROOT = "s3://bucket/root"
PATH = f"{ROOT}/object"
ABSENT = f"{ROOT}/absent"
PIECE = 4


class SlowStore:
    """A store with one object, of which a byte takes an eighth of a second by a clock that stands
    else; where `replaced_at` is fetched, another one comes in its place.
    """

    def __init__(self, size_bytes, replaced_at=None):
        self.content = bytes(range(size_bytes))
        self.tag = 0
        self.now = 1000.0
        self.asked = []
        self.is_late = False
        self._replaced_at = replaced_at

    def monotonic(self):
        return self.now

    def info(self, path):
        return {"size": len(self.content), "ETag": str(self.tag)}

    def cat_file(self, path, start, end):
        self.asked.append((start, end))
        if not start < len(self.content):
            raise ValueError("InvalidRange")
        self._take(len(self.content[start:end]))
        self.tag += start == self._replaced_at
        return self.content[start:end]

    def cat_ranges(self, paths, start, end, *, on_error):
        return [self._content_or_error(path, start, end) for path in paths]

    def _content_or_error(self, path, start, end):
        if path == ABSENT:
            return FileNotFoundError(path)
        try:
            return self.cat_file(path, start, end)
        except ValueError as error:
            return error

    def pipe_file(self, path, content):
        self._take(len(content))
        self.content = content

    def _take(self, count):
        self.now += count / 8
        self.is_late |= self.now >= deadlines._current.job.until


def files_on(monkeypatch, store):
    """Return a root on a store where a step may take a second, and a request fetches four bytes."""
    monkeypatch.setattr(deadlines, "time", store)
    monkeypatch.setattr(deadlines.SHORT, "store", 1.0)
    monkeypatch.setattr(deadlines.LONG, "store", 1.0)
    monkeypatch.setattr(object_files, "PUT_BYTES_A_SECOND", 8)
    monkeypatch.setattr(object_files, "FETCH_BYTES", PIECE)
    monkeypatch.setattr(roots, "filesystem", lambda url, options: store)
    return RootFiles(ROOT, StorageOptions())


@pytest.mark.parametrize("size_bytes", [0, 1, 3, 4, 9])
def test_many_objects_are_read_whole_however_slowly_they_come(monkeypatch, size_bytes):
    store = SlowStore(size_bytes)
    files = files_on(monkeypatch, store)

    assert list(files.read_all([*[PATH] * 4, ABSENT], 9)) == [*[store.content] * 4, None]
    assert not store.is_late


@pytest.mark.parametrize("bytes_max", [2, 3, 4, 8])
def test_an_object_that_is_larger_than_it_can_be_is_not_fetched_further(monkeypatch, bytes_max):
    store = SlowStore(9)
    files = files_on(monkeypatch, store)

    with pytest.raises(UnsafeFileError):
        files.read(PATH, bytes_max)
    assert len(store.asked) == 1


def test_an_object_that_is_replaced_between_two_pieces_is_read_again(monkeypatch):
    files = files_on(monkeypatch, SlowStore(12, replaced_at=8))

    with pytest.raises(KafkaStorageError, match="was replaced while it was read"):
        files.read(PATH, 12)
