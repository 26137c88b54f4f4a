"""Checkpoints come after the answer, cost no writer a commit, and move no reader's view."""

import logging
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import SimpleNamespace

import pytest
from deltalake import DeltaTable

from kafka_on_spark.store.counts import Counts
from kafka_on_spark.store.delta import delta_log, table_history
from kafka_on_spark.store.delta.checkpoints import read_checkpoint
from kafka_on_spark.store.delta.delta_files import FileEntry
from kafka_on_spark.store.delta.delta_log import DeltaLog
from kafka_on_spark.store.roots import RootFiles
from tests.store.tables import (
    OPTIONS,
    SCHEMA,
    commit,
    commit_times,
    damages_of,
    names_in_log,
    opened,
)


@pytest.fixture(autouse=True)
def often(monkeypatch):
    """Have a checkpoint each ten commits, so that a few commits make one due."""
    monkeypatch.setattr(delta_log, "CHECKPOINT_INTERVAL", 10)


def checkpoints(uri):
    return [int(name[:20]) for name in names_in_log(uri) if name.endswith("checkpoint.parquet")]


def test_of_two_committers_the_one_that_has_put_the_due_version_writes_the_checkpoint(log, uri):
    other = opened(uri)
    commit_times(log, 9)
    other.refresh()
    commit(other, 10)
    assert log.refresh() == 11

    other.checkpoint_if_due()
    assert checkpoints(uri) == []
    log.checkpoint_if_due()

    assert checkpoints(uri) == [11]
    commit(other, other.version)


def test_commits_of_other_threads_go_on_while_a_checkpoint_is_written(log, uri, monkeypatch):
    commit_times(log, 9)
    write = delta_log.write_checkpoint

    def commit_in_lock():
        with log.lock:
            commit(log, log.version)

    def write_after_a_commit(*args):
        with ThreadPoolExecutor(1) as other_thread:
            other_thread.submit(commit_in_lock).result(timeout=60)
        write(*args)

    monkeypatch.setattr(delta_log, "write_checkpoint", write_after_a_commit)
    log.checkpoint_if_due()

    step = read_checkpoint(RootFiles(uri, OPTIONS).read, uri, 10)
    assert dict(step.counters) == {"count": 10}
    assert opened(uri).counters() == log.counters() == {"count": 11}


def test_a_checkpoint_keeps_the_tombstones_of_the_one_before_until_they_expire(uri, monkeypatch):
    keeps = {"delta.deletedFileRetentionDuration": "interval 60 seconds"}
    log = DeltaLog.create(uri, OPTIONS, schema=SCHEMA, partition_by=[], configuration=keeps)
    now_ms = [1_700_000_000_000]
    monkeypatch.setattr(
        delta_log,
        "time",
        SimpleNamespace(time_ns=lambda: now_ms[0] * 1_000_000, sleep=time.sleep),
    )

    def removed_at(version):
        while log.version < version:
            name = f"f{log.version // 2}"
            file = FileEntry(path=name, size_bytes=1, values={}, time_ms=5)
            log.commit(log.version, operation="test", adds=[file], counters={})
            log.commit(log.version, operation="test", removes=[file], counters={})
        log.checkpoint_if_due()
        return opened(uri).tombstones()

    first = removed_at(10)
    now_ms[0] += 59_000
    second = removed_at(20)
    now_ms[0] += 2_000
    third = removed_at(30)

    assert len(first) == 5 == len(second) - len(first)
    assert first.items() <= second.items()
    assert first.keys().isdisjoint(third)
    assert second.keys() - first.keys() <= third.keys()
    assert checkpoints(uri) == [10, 20, 30]


@pytest.mark.parametrize("damaged", [[11], [11, 21]])
def test_a_checkpoint_follows_the_newest_one_that_can_be_read(log, uri, damaged):
    for _ in range(2):
        commit_times(log, 10)
        log.checkpoint_if_due()
    for version in damaged:
        Path(f"{uri}/_delta_log/{version:020d}.checkpoint.parquet").write_bytes(b"")
    commit_times(log, 10)

    log.checkpoint_if_due()

    assert checkpoints(uri)[-1] == 31
    assert DeltaTable(uri).metadata().id == DeltaTable(uri, version=0).metadata().id
    assert opened(uri).counters() == {"count": 31}


def test_a_checkpoint_is_of_counted_commits_only(log, uri):
    """A commit that this process has not flushed must not be outlived by a sum of it."""
    commit_times(log, 9)
    commit(opened(uri), 10)

    log.checkpoint_if_due()

    assert checkpoints(uri) == [10]
    assert DeltaTable(uri).version() == 11


@pytest.mark.parametrize("failure", [OSError("disk full"), RuntimeError("odd"), ValueError()])
def test_checkpoint_that_fails_fails_nothing(log, monkeypatch, caplog, failure):
    commit_times(log, 9)

    def fail(*args, **kwargs):
        raise failure

    monkeypatch.setattr(delta_log, "write_checkpoint", fail)
    monkeypatch.setattr(delta_log, "FLUSHES", Counts(lambda: 0))
    with caplog.at_level(logging.WARNING):
        log.checkpoint_if_due()
    counted = [(*each.labels.values(), each.value) for each in delta_log.FLUSHES.metrics()]
    monkeypatch.undo()

    assert "no checkpoint" in caplog.text
    assert counted == [("checkpoint", 1)]
    assert log.refresh() == 10
    commit(log, 10)


def test_a_table_long_without_a_checkpoint_is_a_finding(log, uri, monkeypatch):
    monkeypatch.setattr(table_history, "BEHIND_MAX", 20)
    commit_times(log, 20 - log.version)
    assert damages_of(uri) == []

    commit(log, log.version)

    assert "is 21 commits old" in damages_of(uri)[0].sentence
