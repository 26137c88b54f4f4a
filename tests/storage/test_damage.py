"""Logs that a crash, a restore or a hand has damaged: it is said aloud, or shows as a lower end.

A replica whose log end is below the high watermark is bad (service/replicas), so a table that went
back is told from one that is behind; what is tested here is that the end does not lie.
"""

import pytest

from kafka_on_spark.errors import (
    CommitOutcomeUnknownError,
    CorruptLogError,
    KafkaOnSparkError,
    ReplicaLostError,
)
from kafka_on_spark.storage.delta import DeltaLog
from tests.storage.tables import (
    OPTIONS,
    commit,
    commit_file,
    commit_times,
    names_in_log,
    opened,
)

LAST = 5


@pytest.fixture
def log(log):
    """Return a table with commits up to LAST."""
    commit_times(log, LAST - 1)
    log.refresh()
    return log


def empty(path):
    path.write_bytes(b"")


def halve(path):
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])


def zero(path):
    """What a lost page looks like where the size was kept."""
    path.write_bytes(bytes(path.stat().st_size))


def remove(path):
    path.unlink()


# fmt: off
@pytest.mark.parametrize("damage, version", [
    pytest.param(empty,  LAST, id="last commit emptied (E9)"),
    pytest.param(zero,   LAST, id="last commit zeroed"),
    pytest.param(halve,  LAST, id="last commit half-written"),
    pytest.param(empty,     3, id="commit emptied"),
    pytest.param(zero,      3, id="commit zeroed"),
    pytest.param(halve,     3, id="commit half-written"),
    pytest.param(remove,    3, id="commit removed"),
    pytest.param(halve,     0, id="first commit half-written"),
    pytest.param(remove,    0, id="first commit removed"),
])
def test_damaged_log_can_not_be_opened(log, uri, damage, version):
    damage(commit_file(uri, version))

    with pytest.raises((CorruptLogError, ReplicaLostError)):
        opened(uri)


@pytest.mark.parametrize("damage", [empty, remove])
def test_kept_handle_notices_that_the_last_commit_is_gone(log, uri, damage):
    damage(commit_file(uri, LAST))

    with pytest.raises(ReplicaLostError):
        log.refresh()
    with pytest.raises(KafkaOnSparkError):
        log.refresh()


@pytest.mark.parametrize("damage", [empty, remove])
def test_commit_on_top_of_a_commit_that_is_gone_is_not_acknowledged(log, uri, impatient, damage):
    damage(commit_file(uri, LAST))

    with pytest.raises(CommitOutcomeUnknownError):
        commit(log, LAST)


def test_table_restored_from_an_older_copy_ends_earlier(log, uri):
    """E10: nothing in the table tells. LEO < high watermark does, and directory and uuid."""
    commit_file(uri, LAST).unlink()

    assert opened(uri).counter("count") == LAST - 1


def test_process_that_saw_more_is_not_content_with_an_older_copy(log, uri):
    away = commit_file(uri, LAST).with_suffix(".away")
    commit_file(uri, LAST).rename(away)

    for _ in range(2):
        with pytest.raises(ReplicaLostError):
            log.refresh()
    away.rename(commit_file(uri, LAST))

    assert log.refresh() == LAST


def test_process_that_has_committed_more_finds_an_older_copy_lost_and_not_damaged(log, uri):
    """Its handle stays where it was before its commit, and can't be brought up."""
    commit(log, LAST)
    for version in (LAST - 1, LAST, LAST + 1):
        commit_file(uri, version).unlink()

    for _ in range(2):
        with pytest.raises(ReplicaLostError):
            log.refresh()


def test_emptied_file_after_the_last_commit_is_neither_counted_nor_committed_over(
    log, uri, impatient
):
    empty(commit_file(uri, LAST + 1))

    with pytest.raises(CommitOutcomeUnknownError):
        commit(log, LAST)
    with pytest.raises((ReplicaLostError, CorruptLogError)):
        log.refresh()
    with pytest.raises((ReplicaLostError, CorruptLogError)):
        opened(uri)


# fmt: off
@pytest.mark.parametrize("damage, name", [
    pytest.param(empty,  "checkpoint.parquet", id="checkpoint emptied"),
    pytest.param(zero,   "checkpoint.parquet", id="checkpoint zeroed"),
    pytest.param(halve,  "checkpoint.parquet", id="checkpoint half-written"),
    pytest.param(remove, "checkpoint.parquet", id="checkpoint removed"),
])
def test_damaged_checkpoint_is_said_aloud(log, uri, damage, name):
    """FAULTS 39: the commits are there, but half a history is never taken for the whole."""
    commit_times(log, 7)
    log.checkpoint_if_due()
    damage(next(path for path in commit_file(uri, 0).parent.iterdir() if path.name.endswith(name)))

    with pytest.raises(CorruptLogError):
        opened(uri)


@pytest.mark.parametrize("damage", [empty, remove, halve, zero])
def test_damaged_hint_at_the_checkpoint_does_no_harm(log, uri, damage):
    commit_times(log, 7)
    log.checkpoint_if_due()
    damage(commit_file(uri, 0).with_name("_last_checkpoint"))

    assert opened(uri).counter("count") == log.version


def test_kept_handle_whose_checkpoint_is_gone_is_opened_anew(log, uri):
    """A root restored from a copy may have all commits, and lack the checkpoint made after it."""
    commit_times(log, 7)
    log.checkpoint_if_due()
    log.refresh()
    for name in ("_last_checkpoint", f"{log.version:020d}.checkpoint.parquet"):
        commit_file(uri, 0).with_name(name).unlink()

    with pytest.raises(CorruptLogError):
        log.counter("count")
    log.refresh()

    assert log.counter("count") == log.version


def test_log_that_is_a_file_is_said_aloud(log, uri):
    folder = commit_file(uri, 0).parent
    folder.rename(f"{folder}-away")
    folder.write_bytes(b"")

    with pytest.raises(KafkaOnSparkError):
        DeltaLog(uri, OPTIONS).refresh()
    with pytest.raises(KafkaOnSparkError):
        log.refresh()


def test_counters_need_every_commit_since_the_checkpoint(log, uri):
    commit_times(log, 6)
    log.checkpoint_if_due()
    commit_times(log, 2)
    log.refresh()
    assert log.counters() == {"count": LAST + 8}
    remove(commit_file(uri, LAST + 7))

    with pytest.raises(CorruptLogError):
        log.counters()


def test_damage_deletes_nothing(log, uri):
    halve(commit_file(uri, 3))
    before = names_in_log(uri)

    with pytest.raises(CorruptLogError):
        opened(uri)

    assert names_in_log(uri) == before
