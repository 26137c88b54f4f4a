"""Durable means flushed: what reaches fsync, in which order, and what follows if it fails."""

import errno
import os

import pytest

from kafka_on_spark.base.errors import CommitOutcomeUnknownError, CorruptLogError, KafkaStorageError
from kafka_on_spark.store.delta import delta_log
from kafka_on_spark.store.delta.delta_log import CommitFiles
from kafka_on_spark.store.roots import RootFiles
from tests.store.tables import (
    OPTIONS,
    commit,
    commit_file,
    commit_times,
    create,
    names_in_log,
    opened,
)


@pytest.fixture(autouse=True)
def often(monkeypatch):
    """Have a checkpoint each ten commits, so that a few commits make one due."""
    monkeypatch.setattr(delta_log, "CHECKPOINT_INTERVAL", 10)


@pytest.fixture
def flushed(monkeypatch):
    """Record the paths that are flushed, with their sizes at that moment."""
    paths = []
    really = os.fsync

    def record(descriptor):
        paths.append(os.readlink(f"/proc/self/fd/{descriptor}"))
        really(descriptor)

    monkeypatch.setattr(os, "fsync", record)
    return paths


@pytest.fixture
def failing(monkeypatch):
    """Return a function that lets the next flush of a path fail, once, as Linux does."""
    really = os.fsync

    def let_fail(ending, number):
        left = [ending]

        def fail_once(descriptor):
            if left and os.readlink(f"/proc/self/fd/{descriptor}").endswith(left[0]):
                left.clear()
                raise OSError(number, os.strerror(number))
            really(descriptor)

        monkeypatch.setattr(os, "fsync", fail_once)

    return let_fail


def test_commit_whose_put_lost_its_answer_is_flushed_before_it_counts(
    log, uri, flushed, monkeypatch
):
    put = CommitFiles.put

    def lose_the_answer(*args, **others):
        put(*args, **others)
        flushed.clear()
        raise KafkaStorageError("timed out")

    monkeypatch.setattr(CommitFiles, "put", lose_the_answer)

    commit(log, 1)

    assert flushed == [str(commit_file(uri, 2)), f"{uri}/_delta_log"]


def test_new_handle_leaves_alone_what_another_is_just_writing(log, uri, flushed):
    path = commit_file(uri, 2).with_name(f"_{'a' * 32}.tmp")
    path.write_text("half")

    assert opened(uri).version == 1
    assert str(path) not in flushed


def test_table_that_leaves_flushing_to_the_system_is_not_flushed(uri, flushed):
    create(uri, is_flushed=False)
    log = opened(uri, is_flushed=False)
    commit_times(log, 9)
    log.checkpoint_if_due()

    assert flushed == []


@pytest.mark.parametrize("number", [errno.EIO, errno.ENOSPC])
def test_commit_file_that_could_not_be_flushed_gets_no_name(log, uri, failing, number):
    failing(".tmp", number)

    with pytest.raises(KafkaStorageError):
        commit(log, 1)

    assert names_in_log(uri) == [f"{version:020d}.json" for version in range(2)]
    commit(log, log.refresh())
    assert log.version == 2


@pytest.mark.parametrize("is_answer_lost", [False, True])
@pytest.mark.parametrize("number", [errno.EIO, errno.ENOSPC])
def test_commit_that_could_not_be_flushed_is_unknown_and_never_trusted(
    log, failing, monkeypatch, number, is_answer_lost
):
    put = CommitFiles.put

    def lose_the_answer(*args, **others):
        put(*args, **others)
        failing(".json", number)
        raise KafkaStorageError("timed out")

    if is_answer_lost:
        monkeypatch.setattr(CommitFiles, "put", lose_the_answer)
    else:
        failing("_delta_log", number)

    with pytest.raises(CommitOutcomeUnknownError):
        commit(log, 1)

    # By now fsync says yes again, of a page that is gone.
    for _ in range(2):
        with pytest.raises(CorruptLogError):
            log.refresh()


def test_commit_of_another_that_can_not_be_flushed_is_not_counted(log, uri, failing):
    commit(opened(uri), 1)
    failing(".json", errno.EIO)

    with pytest.raises(KafkaStorageError):
        log.refresh()
    with pytest.raises(CorruptLogError):
        log.refresh()
    assert log.version == 1


def test_flush_that_could_not_be_tried_may_be_tried_again(log, uri, monkeypatch):
    commit(opened(uri), 1)
    monkeypatch.setattr(RootFiles, "flush", _too_many_files)

    with pytest.raises(KafkaStorageError):
        log.refresh()
    monkeypatch.undo()

    assert log.refresh() == 2


def _too_many_files(files, paths):
    try:
        raise OSError(errno.EMFILE, "too many open files")
    except OSError as error:
        raise KafkaStorageError("can't flush") from error


@pytest.mark.parametrize("operation", ["write", "write_if_absent"])
def test_file_that_did_not_fit_leaves_nothing_behind(root, failing, operation):
    failing(".tmp", errno.ENOSPC)

    with pytest.raises(KafkaStorageError, match="No space left"):
        getattr(RootFiles(str(root), OPTIONS), operation)(f"{root}/segment", b"bytes")

    assert os.listdir(root) == []


def test_of_several_files_none_is_there_if_one_can_not_be_flushed(root, failing):
    failing(".tmp", errno.EIO)

    with pytest.raises(KafkaStorageError, match="can't flush"):
        RootFiles(str(root), OPTIONS).write_all([(f"{root}/a", [b"a"]), (f"{root}/b", [b"b"])])

    assert os.listdir(root) == []
