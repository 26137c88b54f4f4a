"""The time of a root: of a file that was written to it just now."""

import os
import time
from datetime import UTC, datetime, timedelta, timezone

import pytest

from kafka_on_spark.base.errors import KafkaStorageError, RootFullError
from kafka_on_spark.base.ids import BrokerId
from kafka_on_spark.store import roots
from kafka_on_spark.store.new_roots import prepare_root
from kafka_on_spark.store.root_identity import META_PROPERTIES, root_now_ms
from kafka_on_spark.store.roots import RootFiles
from kafka_on_spark.store.storage_options import StorageOptions

OPTIONS = StorageOptions()
MOMENT = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)


@pytest.fixture
def root(tmp_path):
    return str(tmp_path / "root")


@pytest.fixture
def disk(root):
    return prepare_root(root, "a-cluster", BrokerId(1), OPTIONS).directory_id


def test_it_is_the_disk_s_and_nothing_is_left(root, disk):
    before_ms = time.time() * 1000 - 1000

    assert before_ms < root_now_ms(root, disk, OPTIONS) < before_ms + 60_000
    assert os.listdir(root) == [META_PROPERTIES]


def test_a_disk_with_another_clock_says_its_own_time(root, disk, monkeypatch):
    rename = os.rename

    def late(source, target):
        os.utime(source, (1000, 1000))
        rename(source, target)

    monkeypatch.setattr(os, "rename", late)

    assert root_now_ms(root, disk, OPTIONS) == 1_000_000


def test_a_full_disk_says_its_time(root, disk, monkeypatch):
    """Retention that could not ask it would free nothing there."""
    write = RootFiles.write

    def full(self, path, content, **options):
        if content:
            raise RootFullError("no space left")
        write(self, path, content, **options)

    monkeypatch.setattr(RootFiles, "write", full)

    assert abs(root_now_ms(root, disk, OPTIONS) / 1000 - time.time()) < 60


def test_another_disk_says_nothing(root, disk):
    with pytest.raises(KafkaStorageError, match="not the disk it was"):
        root_now_ms(root, "another", OPTIONS)


# fmt: off
TIMES = [  # what a store's client says                                    it is
    pytest.param({"LastModified": MOMENT},                                 MOMENT, id="s3"),
    pytest.param({"last_modified": MOMENT.replace(tzinfo=None)},           MOMENT, id="without-a-zone-it-is-utc"),
    pytest.param({"updated": "2026-01-02T03:04:05Z"},                      MOMENT, id="as-text"),
    pytest.param({"mtime": MOMENT.astimezone(timezone(timedelta(hours=5)))}, MOMENT, id="in-another-zone"),
    pytest.param({"updated": "today", "mtime": MOMENT},                    MOMENT, id="the-first-that-is-a-time"),
    pytest.param({"size": 5},                                              None,   id="none"),
]
# fmt: on


@pytest.mark.parametrize("found, expected", TIMES)
def test_time_of_an_object(monkeypatch, found, expected):
    class Store:
        def info(self, path):
            return found

    monkeypatch.setattr(roots, "filesystem", lambda path, options: Store())
    files = roots.RootFiles("s3://bucket", OPTIONS)

    if expected is None:
        with pytest.raises(KafkaStorageError, match="does not say when"):
            files.time_ms("s3://bucket/probe")
    else:
        found_ms = files.time_ms("s3://bucket/probe")
        assert found_ms == expected.timestamp() * 1000
