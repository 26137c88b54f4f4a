"""Old commits leave the log for a folder beside it: nothing is lost, no version is given twice."""

import os
import shutil

import pytest
from deltalake import DeltaTable
from deltalake.exceptions import DeltaError

from kafka_on_spark.errors import (
    CommitConflictError,
    CommitOutcomeUnknownError,
    CorruptLogError,
    KafkaOnSparkError,
    KafkaStorageError,
)
from kafka_on_spark.metadata.records import ProducerRecord, Stamp
from kafka_on_spark.storage.delta import conditional_commit, old_commits
from kafka_on_spark.storage.delta.conditional_commit import DeltaLog
from kafka_on_spark.storage.delta.table_history import table_steps
from kafka_on_spark.storage.metadata.metadata_creation import create_metadata_log
from kafka_on_spark.storage.metadata.metadata_log import DeltaMetadataLog
from kafka_on_spark.storage.roots.roots import RootFiles, flush
from tests.storage.tables import (
    OPTIONS,
    commit,
    commit_file,
    commit_times,
    names_in_log,
    opened,
    write_ids,
)

COMMITS = 34


@pytest.fixture(autouse=True)
def short(monkeypatch):
    """Keep few versions in the log, so that a few commits make it a long one."""
    monkeypatch.setattr(old_commits, "RECENT_VERSIONS", 8)
    monkeypatch.setattr(old_commits, "MOVE_BATCH_MIN", 4)


def live(log, count=COMMITS):
    for _ in range(count):
        commit(log, log.version)
        log.checkpoint_if_due()


def old_file(uri, version):
    return commit_file(f"{uri}", version).parents[1] / "_old_commits" / f"{version:020d}.json"


def put_where_an_old_commit_was(uri, version, write_id):
    """Do what a frozen writer's delta-rs does when it wakes up: put if there is nothing."""
    place = commit_file(uri, version)
    content = old_file(uri, version).read_text()
    with open(place, "x") as file:
        file.write(content.replace(write_ids(uri)[version], write_id))


def test_commits_that_become_old_while_a_reader_flushes_them_are_no_error(log, uri, monkeypatch):
    monkeypatch.setattr(old_commits, "RECENT_VERSIONS", 10**6)
    reader = opened(uri)
    live(log)
    monkeypatch.setattr(old_commits, "RECENT_VERSIONS", 8)
    calls = []

    def flush_late(paths):
        paths = list(paths)
        if not calls:
            old_commits.move_old_commits(RootFiles(uri, OPTIONS), uri, log.version)
        calls.append(paths)
        flush(paths)

    monkeypatch.setattr(conditional_commit, "flush", flush_late)

    assert reader.refresh() == log.version
    assert len(calls) == 2
    assert not any(os.path.exists(path) for path in calls[0][:4])


def test_a_commit_that_is_gone_while_a_reader_flushes_it_is_an_error(log, uri, monkeypatch):
    reader = opened(uri)
    live(log, 3)

    def flush_late(paths):
        paths = list(paths)
        os.unlink(paths[0])
        flush(paths)

    monkeypatch.setattr(conditional_commit, "flush", flush_late)

    with pytest.raises(KafkaStorageError):
        reader.refresh()


def test_the_log_stays_short_and_no_commit_is_lost(log, uri):
    live(log)

    ids = write_ids(uri)
    assert len(ids) == len(set(ids)) == log.version + 1 == COMMITS + 2
    in_log = [name for name in names_in_log(uri) if name.endswith(".json")]
    assert len(in_log) < 20
    assert opened(uri).counters_of("count") == [log.version]
    assert DeltaTable(uri).version() == log.version


def test_what_is_moved_lies_below_a_checkpoint_and_what_follows_needs_it_not(log, uri):
    live(log)

    shutil.rmtree(old_file(uri, 0).parent)

    assert opened(uri).counters() == {"count": log.version}


def test_a_put_in_the_place_of_an_old_commit_has_lost(log, uri):
    late = opened(uri)
    seen = late.version
    live(log)
    assert not commit_file(uri, seen + 1).exists()

    with pytest.raises(CommitConflictError):
        late._commit(seen + 1, "mine", lambda: put_where_an_old_commit_was(uri, seen + 1, "mine"))

    assert commit_file(uri, seen + 1).exists()
    assert late.refresh() == log.version
    assert "mine" not in write_ids(uri)


def test_a_put_in_the_place_of_an_old_commit_that_gets_an_error_has_lost_too(log, uri):
    late = opened(uri)
    seen = late.version
    live(log)

    def put():
        put_where_an_old_commit_was(uri, seen + 1, "mine")
        raise OSError("the answer was lost")

    with pytest.raises(CommitConflictError):
        late._commit(seen + 1, "mine", put)


def test_a_late_flush_of_a_commit_that_has_become_old_has_won(log, uri):
    live(log)
    [write_id] = write_ids(uri)[7:8]

    log._commit(7, write_id, lambda: None)


def test_commit_whose_old_file_can_not_be_read_is_unknown(log, uri):
    live(log)
    old_file(uri, 7).write_bytes(b"")

    with pytest.raises(CommitOutcomeUnknownError):
        log._commit(7, "mine", lambda: None)


def test_delta_rs_itself_refuses_a_commit_from_a_handle_that_is_far_behind(log, uri):
    late = opened(uri)
    seen = late.version
    live(log)

    with pytest.raises(CommitConflictError):
        commit(late, seen)

    assert late.refresh() == log.version
    commit(late, late.version)


def test_a_process_far_behind_sees_that_and_continues_from_the_newest_version(log, uri):
    late = opened(uri)
    live(log)

    assert not late.is_still_at(late.version)
    assert late.refresh() == log.version
    assert late.counters_of("count") == [log.version]


def test_a_process_far_behind_is_not_misled_by_a_lost_put(log, uri):
    late = opened(uri)
    seen = late.version
    live(log)
    put_where_an_old_commit_was(uri, seen + 1, "lost")

    assert not late.is_still_at(late.version)
    assert late.refresh() == log.version
    assert late.counters_of("count") == [log.version]
    assert opened(uri).version == log.version


def test_the_next_move_clears_a_lost_put_away(log, uri):
    live(log)
    ids = write_ids(uri)
    put_where_an_old_commit_was(uri, 7, "lost")

    live(log)

    assert not commit_file(uri, 7).exists()
    assert write_ids(uri)[: len(ids)] == ids


@pytest.mark.parametrize("others, kind", [(0, CorruptLogError), (COMMITS, KafkaStorageError)])
def test_a_file_that_is_gone_is_damage_or_was_moved_away(log, uri, monkeypatch, others, kind):
    late = opened(uri)
    live(log, others)

    def fail(table, name):
        raise DeltaError("a file of the log is gone")

    with monkeypatch.context() as gone:
        gone.setattr(DeltaTable, "transaction_version", fail)
        with pytest.raises(KafkaOnSparkError) as told:
            late.counters_of("count", "another")

    assert type(told.value) is kind
    late.refresh()
    assert late.counters_of("count") == [log.version]


def test_a_copy_whose_log_ends_before_its_old_commits_is_damage(log, uri, tmp_path):
    """As in a copy of a busy table, with its log copied first."""
    live(log, 5)
    copy = str(tmp_path / "copy")
    shutil.copytree(uri, copy)
    live(log)
    shutil.copytree(old_file(uri, 0).parent, old_file(copy, 0).parent)

    with pytest.raises(CorruptLogError, match="ends before its old commits"):
        opened(copy)


def test_a_hint_at_a_checkpoint_that_is_old_does_no_harm(log, uri):
    live(log, 12)
    hint = commit_file(uri, 0).with_name("_last_checkpoint")
    early = hint.read_text()
    live(log)
    hint.write_text(early)

    assert opened(uri).counters_of("count") == [log.version]
    live(log, 11)
    assert opened(uri).counters_of("count") == [log.version]


@pytest.mark.parametrize(
    "call, number",
    [
        ("mkdir", 1),
        *((call, number) for call in ("link", "unlink", "fsync") for number in (1, 2, 7)),
    ],
)
def test_a_move_that_is_cut_off_leaves_each_commit_and_is_taken_up_again(
    log, uri, monkeypatch, call, number
):
    live(log, 14)
    commit_times(log, 30)
    log.refresh()
    log.handle.create_checkpoint()
    before = write_ids(uri)
    left = [number]
    really = getattr(os, call)

    def cut_off(*args, **others):
        left[0] -= 1
        if left[0] == 0:
            raise OSError(5, "cut off")
        return really(*args, **others)

    files = RootFiles(uri, OPTIONS)
    with monkeypatch.context() as cut:
        cut.setattr(old_commits.os, call, cut_off)
        with pytest.raises(KafkaStorageError):
            old_commits.move_old_commits(files, uri, log.version)
    assert write_ids(uri) == before
    assert opened(uri).version == log.version

    old_commits.move_old_commits(files, uri, log.version)

    assert write_ids(uri) == before
    assert not commit_file(uri, 7).exists()
    assert opened(uri).counters_of("count") == [log.version]


def test_a_log_that_can_not_be_moved_only_slows_down(log, uri, monkeypatch, caplog):
    def refuse(*args, **others):
        raise PermissionError(1, "no links here")

    monkeypatch.setattr(old_commits.os, "link", refuse)
    live(log)

    assert "can't move commits" in caplog.text
    assert opened(uri).counters_of("count") == [log.version]
    assert commit_file(uri, 0).exists()


def test_a_table_that_was_removed_is_not_created_again_by_a_move(log, uri):
    live(log, 12)
    shutil.rmtree(uri)

    old_commits.move_old_commits(RootFiles(uri, OPTIONS), uri, 10**6)

    assert not os.path.exists(uri)


def test_an_audit_reads_the_whole_history_in_both_places(log, uri):
    live(log)
    files = RootFiles(uri, OPTIONS)

    steps = list(table_steps(files, uri, has_all_checkpoints=False))

    versions = [step.version for step in steps if type(step).__name__ == "TableCommit"]
    assert versions == list(range(log.version + 1))
    assert not [step for step in steps if type(step).__name__ == "TableDamage"]

    old_file(uri, 9).write_bytes(b"{")
    steps = table_steps(files, uri, has_all_checkpoints=False)
    damaged = [step for step in steps if type(step).__name__ == "TableDamage"]
    assert [each.version for each in damaged] == [9]


@pytest.fixture
def metadata(tmp_path):
    return create_metadata_log(str(tmp_path / "metadata"), OPTIONS, "a-cluster")


def decide(log, count):
    end = log._end.offset if log._end else 0
    for number in range(count):
        records = [ProducerRecord(producer_id=f"p{end}", producer_epoch=number)]
        end = log.append(records, Stamp(time_ms=7), expected_offset=end).end_offset
        log.maintain()


def test_the_metadata_log_is_followed_over_old_commits(metadata, tmp_path):
    follower = DeltaMetadataLog(str(tmp_path / "metadata"), OPTIONS)
    decide(metadata, 3)
    assert len(follower.read(from_offset=0)) == 3
    decide(metadata, COMMITS)
    put_where_an_old_commit_was(metadata.uri, 5, "lost")

    assert follower.read(from_offset=3) == metadata.read(from_offset=3)
    assert (
        len(DeltaMetadataLog(str(tmp_path / "metadata"), OPTIONS).read(from_offset=0))
        == 3 + COMMITS
    )


def test_a_few_old_commits_are_followed_one_by_one_and_a_lost_put_is_not_followed(
    metadata, tmp_path, monkeypatch
):
    follower = DeltaMetadataLog(str(tmp_path / "metadata"), OPTIONS)
    decide(metadata, 3)
    follower.read(from_offset=0)
    decide(metadata, 27)
    assert not commit_file(metadata.uri, 5).exists()
    put_where_an_old_commit_was(metadata.uri, 5, "lost")

    found = follower.read(from_offset=3)

    assert [each.base_offset for each in found] == list(range(3, 30))
    assert found == metadata.read(from_offset=3)


def test_a_table_is_not_created_again_in_the_place_of_its_old_first_commit(log, uri):
    live(log)

    with pytest.raises(CommitConflictError):
        DeltaLog(uri, OPTIONS)._commit(
            0, "mine", lambda: put_where_an_old_commit_was(uri, 0, "mine")
        )
