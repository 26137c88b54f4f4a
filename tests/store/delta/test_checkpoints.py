"""Checkpoints come after the answer, cost no writer a commit, and move no reader's view."""

import logging
import os
import time

import pytest
from deltalake import DeltaTable

from kafka_on_spark.metadata.records import ConfigRecord, Stamp
from kafka_on_spark.store.delta import delta_log
from tests.store.panics import PanicException
from tests.store.tables import commit, commit_file, commit_times, names_in_log, opened

STAMP = Stamp(time_ms=1)


@pytest.fixture(autouse=True)
def often(monkeypatch):
    """Have a checkpoint each ten commits, so that a few commits make one due."""
    monkeypatch.setattr(delta_log, "CHECKPOINT_INTERVAL", 10)


def checkpoints(uri):
    return [int(name[:20]) for name in names_in_log(uri) if name.endswith("checkpoint.parquet")]


def record(value):
    return ConfigRecord(topic_id=None, config_name="x", config_value=value)


def test_commits_make_no_checkpoint_list_no_log_and_delete_nothing(log, uri, monkeypatch):
    two_months_ago = time.time() - 60 * 86_400
    for version in (0, 1):
        os.utime(commit_file(uri, version), (two_months_ago, two_months_ago))
    log.reopen_next_time()
    log.refresh()

    with monkeypatch.context() as unlisted:
        unlisted.setattr(os, "listdir", None)
        commit_times(log, 25)

    assert names_in_log(uri) == [f"{version:020d}.json" for version in range(27)]


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


def test_a_checkpoint_that_is_not_what_the_table_holds_is_set_aside(log, uri, monkeypatch, caplog):
    commit_times(log, 9)
    make = DeltaTable.create_checkpoint

    def of_another_version(table):
        make(DeltaTable(uri, version=9))
        os.rename(*(f"{uri}/_delta_log/{each:020d}.checkpoint.parquet" for each in (9, 10)))

    with monkeypatch.context() as wrong:
        wrong.setattr(DeltaTable, "create_checkpoint", of_another_version)
        log.checkpoint_if_due()

    assert "not what the table holds" in caplog.text
    assert checkpoints(uri) == []
    assert opened(uri).counters() == {"count": 10}
    commit_times(log, 9)
    log.checkpoint_if_due()
    assert checkpoints(uri) == []
    commit(log, log.version)
    log.checkpoint_if_due()
    assert checkpoints(uri) == [20]


def test_a_checkpoint_is_of_counted_commits_only(log, uri):
    """A commit that this process has not flushed must not be outlived by a sum of it."""
    commit_times(log, 9)
    commit(opened(uri), 10)

    log.checkpoint_if_due()

    assert checkpoints(uri) == [10]
    assert DeltaTable(uri).version() == 11


@pytest.mark.parametrize(
    "failure", [OSError("disk full"), RuntimeError("odd"), ValueError(), PanicException("odd")]
)
@pytest.mark.parametrize("place", ["create_checkpoint", "__init__"])
def test_checkpoint_that_fails_fails_nothing(log, monkeypatch, caplog, failure, place):
    commit_times(log, 9)

    def fail(*args, **kwargs):
        raise failure

    monkeypatch.setattr(DeltaTable, place, fail)
    with caplog.at_level(logging.WARNING):
        log.checkpoint_if_due()
    monkeypatch.undo()

    assert "no checkpoint" in caplog.text
    assert log.refresh() == 10
    commit(log, 10)
