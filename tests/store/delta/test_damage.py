"""Logs that a crash, a restore or a hand has damaged: it is said aloud, or shows as a lower end.

A replica whose log end is below the high watermark is bad, so a table that went
back is told from one that is behind; what is tested here is that the end does not lie.
"""

import json
import time
from errno import EIO
from types import SimpleNamespace

import pytest

from kafka_on_spark.base.errors import (
    CorruptLogError,
    KafkaStorageError,
    ReplicaLostError,
)
from kafka_on_spark.store import local_files
from kafka_on_spark.store.delta import delta_log
from kafka_on_spark.store.delta.delta_files import TableDamage
from kafka_on_spark.store.delta.table_history import table_steps
from kafka_on_spark.store.roots import RootFiles
from tests.store.damages import LAST, empty, halve, remove, up_to_last, zero
from tests.store.tables import OPTIONS, commit_file, commit_times, opened


@pytest.fixture
def log(log):
    return up_to_last(log)


@pytest.mark.parametrize(
    "damage, version",
    [
        pytest.param(zero, LAST, id="last commit zeroed"),
        pytest.param(halve, LAST, id="last commit half-written"),
        pytest.param(zero, 3, id="commit zeroed"),
        pytest.param(halve, 3, id="commit half-written"),
        pytest.param(remove, 3, id="commit removed"),
        pytest.param(halve, 0, id="first commit half-written"),
        pytest.param(remove, 0, id="first commit removed"),
    ],
)
@pytest.mark.damaged("a commit is missing|the commit .* can't be read")
def test_damaged_log_can_not_be_opened(log, uri, damage, version):
    damage(commit_file(uri, version))

    with pytest.raises((CorruptLogError, ReplicaLostError)):
        opened(uri)


@pytest.fixture
def checks(monkeypatch):
    """Let no time pass between two checks of a commit without bytes; return what happens then."""
    happens = []

    def pause(seconds):
        assert seconds == delta_log.RECHECK_SECONDS
        for act in happens:
            act()
        checks.append(seconds)

    checks = []
    monkeypatch.setattr(delta_log, "time", SimpleNamespace(sleep=pause, time_ns=time.time_ns))
    return happens, checks


@pytest.mark.parametrize("version, count", [(LAST, LAST - 1), (3, LAST)])
def test_a_commit_without_bytes_is_a_version_without_actions(log, uri, checks, version, count):
    """A power cut keeps a file's name and not its bytes. What was lost shows as a lower end."""
    empty(commit_file(uri, version))

    after = opened(uri)

    assert (after.version, *after.counters_of("count")) == (LAST, count)
    assert not commit_file(uri, version).read_bytes()


def test_a_commit_that_has_its_bytes_at_the_second_check_was_being_written(log, uri, checks):
    happens, _ = checks
    content = commit_file(uri, LAST).read_bytes()
    empty(commit_file(uri, LAST))
    happens.append(lambda: commit_file(uri, LAST).write_bytes(content))

    with pytest.raises(KafkaStorageError, match="try again"):
        opened(uri)

    assert opened(uri).counters_of("count") == [LAST]


@pytest.mark.damaged("a table's first commit says nothing")
def test_a_first_commit_without_bytes_makes_no_table(uri, log, checks):
    empty(commit_file(uri, 0))

    with pytest.raises((CorruptLogError, ReplicaLostError)):
        opened(uri)


def test_a_commit_that_was_counted_with_bytes_and_has_none_below_the_newest_is_lost(
    log, uri, checks
):
    """Others have gone on; what this process has told its caller stands nowhere any more."""
    rival = opened(uri)
    commit_times(rival, 2)
    empty(commit_file(uri, LAST))

    for _ in range(2):
        with pytest.raises(ReplicaLostError):
            log.refresh()


@pytest.mark.damaged("is no regular file")
def test_a_file_that_is_no_regular_one_in_a_commits_place_is_damage(log, uri):
    commit_file(uri, LAST + 1).mkdir()

    for _ in range(2):
        with pytest.raises(CorruptLogError, match="no regular file"):
            log.refresh()


def test_a_failure_to_read_is_the_roots_and_nothing_is_half_known_after_it(log, monkeypatch, uri):
    rival = opened(uri)
    commit_times(rival, 3)
    read = local_files.read_file

    def fail(path, bytes_max):
        if path == str(commit_file(uri, LAST + 3)):
            raise OSError(EIO, "no answer")
        return read(path, bytes_max)

    with monkeypatch.context() as failing:
        failing.setattr(local_files, "read_file", fail)
        with pytest.raises(KafkaStorageError):
            log.refresh()

    assert log.version == LAST
    assert not log.is_still_at(LAST)
    assert log.refresh() == LAST + 3
    assert log.counters_of("count") == [LAST + 3]


@pytest.mark.damaged("its protocol is")
def test_a_table_that_was_given_another_protocol_is_not_read(log, uri):
    """What another engine has switched on may mean that rows are gone which are still in files."""
    features = {"readerFeatures": ["deletionVectors"], "writerFeatures": ["deletionVectors"]}
    action = {"protocol": {"minReaderVersion": 3, "minWriterVersion": 7, **features}}
    commit_file(uri, LAST + 1).write_text(json.dumps(action) + "\n")

    for _ in range(2):
        with pytest.raises(CorruptLogError, match="protocol"):
            log.refresh()
    with pytest.raises(CorruptLogError, match="protocol"):
        opened(uri)
    [damage] = [
        step
        for step in table_steps(RootFiles(uri, OPTIONS), uri, has_all_checkpoints=False)
        if isinstance(step, TableDamage)
    ]
    assert "protocol" in damage.sentence


def repeat_counter(uri, version):
    """Have a commit set its counter again, to something else."""
    path = commit_file(uri, version)
    again = {"txn": {"appId": "count", "version": version + 100}}
    path.write_text(path.read_text().rstrip("\n") + "\n" + json.dumps(again))


@pytest.mark.damaged("sets the counter 'count' twice")
def test_a_commit_that_sets_a_counter_twice_is_damage(log, uri):
    """delta-rs takes the first, other readers the last."""
    commit_times(log, 1)
    repeat_counter(uri, log.version)

    with pytest.raises(CorruptLogError, match="sets the counter 'count' twice"):
        opened(uri)
    [damage] = [
        each
        for each in table_steps(RootFiles(uri, OPTIONS), uri, has_all_checkpoints=True)
        if isinstance(each, TableDamage)
    ]
    assert "it sets the counter 'count' twice" in damage.sentence
