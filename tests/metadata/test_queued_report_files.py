"""Queued reports of waiters for the lock: read while their owner lives and waits, never after."""

import os
import threading
import time
from contextlib import ExitStack
from pathlib import Path

import pytest

from kafka_on_spark import Cluster
from kafka_on_spark.metadata import commit_lock
from kafka_on_spark.metadata.commit_lock import (
    NO_LOCK,
    QUEUED,
    REPORTS_BYTES_MAX,
    acquire_commit_lock,
    queued,
    read_queued,
)
from kafka_on_spark.store.delta.delta_files import log_folder


@pytest.fixture(autouse=True)
def no_process_is_frozen(monkeypatch):
    """Wait for the lock as long as it takes: these tests are not about giving up."""
    monkeypatch.setattr(commit_lock, "WAIT_S", 60.0)
    # Else the call that waits would be taken for one that hangs: who holds the lock waits until all
    # have queued their reports, and a disk that is busy takes seconds for the files before that.
    monkeypatch.setattr(commit_lock, "ACQUIRE_SECONDS", 120.0)


@pytest.fixture
def uri(tmp_path):
    return str(tmp_path)


def wait_until(is_so):
    end = time.monotonic() + 60
    while not is_so():
        assert time.monotonic() < end, "it does not happen"
        time.sleep(0.001)


def start(work):
    thread = threading.Thread(target=work)
    thread.start()
    return thread


def test_reports_are_read_while_their_owners_wait_and_leave_no_file_behind(uri):
    with queued(uri, b"a"):
        with queued(uri, b"b"):
            assert sorted(content for _, content in read_queued(uri)) == [b"a", b"b"]
        assert [content for _, content in read_queued(uri)] == [b"a"]
    assert os.listdir(f"{uri}/{QUEUED}") == []


@pytest.mark.parametrize("content", [None, b"x" * (REPORTS_BYTES_MAX + 1)])
def test_a_process_with_nothing_to_queue_or_too_much_only_waits(uri, content):
    with queued(uri, content) as is_committed:
        assert read_queued(uri) == []
        assert not is_committed()


def test_a_folder_that_takes_no_reports_costs_only_time(tmp_path):
    (tmp_path / QUEUED).write_text("a file")

    with queued(str(tmp_path), b"a") as is_committed:
        assert read_queued(str(tmp_path)) == []
        assert not is_committed()


def test_reports_of_a_dead_process_are_removed_and_never_read(uri):
    """They would outlive a power cut that loses the unflushed records they speak of."""
    (Path(uri) / QUEUED).mkdir()
    # The system closes the files of a process that ends, and so its lock is free.
    (Path(uri) / QUEUED / ("0" * 32)).write_bytes(b"of a process that died")

    assert read_queued(uri) == []
    assert os.listdir(f"{uri}/{QUEUED}") == []


def test_reports_that_are_being_written_are_not_read(uri, monkeypatch):
    seen = []

    def noted(descriptor, content):
        seen.append(read_queued(uri))
        return write(descriptor, content)

    write = os.write
    monkeypatch.setattr(os, "write", noted)
    with queued(uri, b"a"):
        assert (seen, [content for _, content in read_queued(uri)]) == ([[]], [b"a"])


def test_the_lock_holder_takes_queued_reports_and_their_owner_stops_waiting(uri):
    found = []

    def wait():
        with acquire_commit_lock(uri, lambda: b"mine") as lock:
            found.append((lock is not NO_LOCK, lock.needs_refresh, list(lock.queued_reports())))

    with acquire_commit_lock(uri, lambda: pytest.fail("there is nobody to wait for")) as lock:
        thread = start(wait)
        wait_until(lambda: read_queued(uri))
        assert list(lock.queued_reports()) == [b"mine"]
        assert found == []
        lock.mark_committed()
        thread.join(60)
        assert found == [(True, True, [])]
    assert os.listdir(f"{uri}/{QUEUED}") == []


def commit_count(uri):
    return sum(name.endswith(".json") for name in os.listdir(log_folder(uri)))


def test_appends_that_wait_for_one_lock_are_committed_together(tmp_path):
    """Each goes to its own topic through its own Cluster object, as in separate processes."""
    roots = {number: tmp_path / f"broker-{number}" for number in (1, 2)}
    metadata = tmp_path / "metadata"
    for each in (metadata, *roots.values()):
        each.mkdir()
    names = [f"own-{number}" for number in range(3)]
    with Cluster.create(metadata, brokers=roots) as cluster, ExitStack() as opened:
        for name in names:
            cluster.create_topic(name, partitions=1, replication_factor=2)
            cluster.append(name, [(b"k", b"first")])
        clusters = [opened.enter_context(Cluster.open(metadata)) for _ in names]
        table = clusters[0].metadata_table
        commits = commit_count(table)
        with acquire_commit_lock(table):
            threads = [
                start(lambda each=each, name=name: each.append(name, [(b"k", b"v")]))
                for each, name in zip(clusters, names, strict=True)
            ]
            wait_until(lambda: len(read_queued(table)) == len(names))
        for thread in threads:
            thread.join(60)

        assert commit_count(table) == commits + 1
        assert [cluster.offsets(name)[0].high_watermark for name in names] == [2, 2, 2]
