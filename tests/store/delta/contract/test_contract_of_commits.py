"""What writers and followers promise on each kind of root: three outcomes, and no listing."""

import pytest

from kafka_on_spark.base.errors import (
    CommitConflictError,
    CommitOutcomeUnknownError,
    KafkaStorageError,
    ReplicaLostError,
)
from kafka_on_spark.store.delta.delta_log import CommitFiles, DeltaLog
from kafka_on_spark.store.roots import RootFiles
from tests.store.places import SEEN, first
from tests.store.tables import commit, commit_times, create


def test_a_follower_reads_each_commit_of_others_once_and_lists_nothing(
    log, place, rival, monkeypatch
):
    commit_times(rival, 2)
    asked, read = [], CommitFiles.read

    def noting(files, version):
        asked.append(version)
        return read(files, version)

    monkeypatch.setattr(CommitFiles, "read", noting)
    monkeypatch.setattr(RootFiles, "names", None)

    assert [each.version for each in log.follow()] == [2, 3]
    assert log.follow() == []
    assert asked == [2, 3, 4, 4]
    assert log.is_still_at(3)
    monkeypatch.undo()


def test_a_writer_that_is_behind_conflicts_and_leaves_no_trace(log, place, rival):
    commit(rival, SEEN)
    before = place.names()

    with pytest.raises(CommitConflictError):
        commit(log, SEEN)

    assert place.names() == before
    assert log.refresh() == 2


@pytest.mark.parametrize("is_landed", first(True, False))
def test_a_put_whose_answer_is_lost_is_this_writers_once(log, place, monkeypatch, is_landed):
    put, calls = CommitFiles.put, []

    def lose(files, version, content, **others):
        calls.append(version)
        if is_landed or len(calls) > 1:
            put(files, version, content, **others)
        if len(calls) == 1:
            raise KafkaStorageError("timed out")
        return True

    monkeypatch.setattr(CommitFiles, "put", lose)

    commit(log, SEEN)

    assert calls == ([2] if is_landed else [2, 2])
    assert place.commits() == [0, 1, 2]


def test_a_put_that_lands_nowhere_is_unknown(log, monkeypatch):
    def lose(files, version, content, **others):
        raise KafkaStorageError("timed out")

    with monkeypatch.context() as losing:
        losing.setattr(CommitFiles, "put", lose)
        with pytest.raises(CommitOutcomeUnknownError):
            commit(log, SEEN)

    assert log.refresh() == SEEN


def test_a_table_that_is_there_is_not_created(log, place):
    with pytest.raises(CommitConflictError):
        create(place.uri, place.options)


def test_a_table_that_is_gone_is_lost(log, place):
    place.files.delete(place.uri)

    for each in (log, DeltaLog(place.uri, place.options)):
        with pytest.raises(ReplicaLostError):
            each.refresh()
