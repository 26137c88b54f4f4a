"""The conditional commit: three outcomes, and each caller learns the true one."""

import errno
import os
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

from kafka_on_spark.base.errors import (
    CommitConflictError,
    CommitOutcomeUnknownError,
    KafkaStorageError,
    RootAccessDeniedError,
    RootFullError,
    RootReadOnlyError,
)
from kafka_on_spark.store import local_files
from kafka_on_spark.store.delta import delta_log
from kafka_on_spark.store.delta.delta_files import write_id_of
from kafka_on_spark.store.delta.delta_log import CommitFiles
from tests.store.tables import (
    commit,
    commit_file,
    commit_times,
    create,
    names_in_log,
    opened,
    write_ids,
)

PUT = CommitFiles.put
FAILURES = [
    KafkaStorageError("Generic S3 error"),
    OSError(5, "input/output error"),
    ValueError("odd"),
    RuntimeError("lock poisoned"),
]


@pytest.fixture(params=FAILURES, ids=lambda failure: type(failure).__name__)
def failure(request):
    return request.param


def on_put(monkeypatch, put):
    """Have `put` called in the place of a commit's put-if-absent, with what that is called with."""
    monkeypatch.setattr(CommitFiles, "put", put)


def test_counters_that_the_newest_commit_lacks_are_found_before_it(log, uri):
    commit(log, 1, offset=7)
    commit(log, 2)

    assert opened(uri).counters_of("offset", "count", "never") == [7, 3, None]


@pytest.mark.parametrize("at_version", [0, 2, 5])
def test_commit_decided_on_another_version_than_was_read_conflicts(log, at_version):
    with pytest.raises(CommitConflictError):
        commit(log, at_version)

    assert log.refresh() == 1


def test_commit_that_failed_once_is_settled_by_committing_the_same_again(
    log, uri, monkeypatch, failure
):
    tries = []

    def fail_once(files, version, content, **others):
        tries.append(write_id_of(content))
        if len(tries) == 1:
            raise failure
        return PUT(files, version, content, **others)

    on_put(monkeypatch, fail_once)

    commit(log, 1)

    assert len(tries) == 2
    assert write_ids(uri)[2:] == [tries[0]] == [tries[1]]


@pytest.mark.damaged("the commit .* can't be read")
@pytest.mark.parametrize("found", ["\0" * 300, '{"commitInfo":{"wri', "5"])
def test_file_at_the_version_that_is_no_commit_leaves_it_unknown(
    log, uri, impatient, monkeypatch, found
):
    def put_after_it(*args, **kwargs):
        commit_file(uri, 2).write_text(found)
        return PUT(*args, **kwargs)

    on_put(monkeypatch, put_after_it)

    with pytest.raises(CommitOutcomeUnknownError):
        commit(log, 1)


# fmt: off
WRITE, LINK = (local_files, "write_temporary"), (os, "link")
NOT_WRITTEN = [
    (WRITE, errno.EIO,    KafkaStorageError),
    (WRITE, errno.EMFILE, KafkaStorageError),
    (WRITE, errno.ENOSPC, RootFullError),
    (WRITE, errno.EDQUOT, RootFullError),
    (WRITE, errno.EPERM,  RootAccessDeniedError),
    (WRITE, errno.EACCES, RootAccessDeniedError),
    (LINK,  errno.EPERM,  RootAccessDeniedError),
    (LINK,  errno.EACCES, RootAccessDeniedError),
    (WRITE, errno.EROFS,  RootReadOnlyError),
]
# fmt: on


@pytest.mark.parametrize("call, number, kind", NOT_WRITTEN)
def test_commit_that_the_disk_refuses_is_certainly_not_written(
    log, uri, monkeypatch, call, number, kind
):
    """The error's kind says whether the root refuses the caller, or is full: a denial counts
    against no replica, and of a full disk a former replica is given up."""

    def fail(*args, **others):
        raise OSError(number, os.strerror(number))

    with monkeypatch.context() as failing:
        failing.setattr(*call, fail)
        with pytest.raises(KafkaStorageError) as failed:
            commit(log, 1)

    assert type(failed.value) is kind
    assert names_in_log(uri) == [f"{version:020d}.json" for version in range(2)]
    assert log.version == log.refresh() == 1
    commit(log, 1)


def test_commit_that_is_larger_than_anybody_reads_one_is_not_put(log, uri, monkeypatch):
    with monkeypatch.context() as small:
        small.setattr(delta_log, "COMMIT_BYTES_MAX", 100)
        with pytest.raises(KafkaStorageError, match="100 at most"):
            commit(log, 1)

    assert names_in_log(uri) == [f"{version:020d}.json" for version in range(2)]
    commit(log, 1)


@pytest.mark.parametrize("is_linked", [True, False])
@pytest.mark.parametrize("number", [errno.EIO, errno.EROFS])
def test_commit_whose_link_got_an_error_is_looked_for(log, uri, monkeypatch, number, is_linked):
    """NFS may do what it was asked for and lose the answer, and turn read-only meanwhile."""
    link, calls = os.link, []

    def fail_once(source, target):
        calls.append(target)
        if len(calls) > 1 or is_linked:
            link(source, target)
        if len(calls) == 1:
            raise OSError(number, os.strerror(number))

    monkeypatch.setattr(os, "link", fail_once)

    commit(log, 1)

    assert len(calls) == (1 if is_linked else 2)
    assert names_in_log(uri) == [f"{version:020d}.json" for version in range(3)]
    assert len(set(write_ids(uri))) == 3


def test_of_racing_creations_one_wins(root):
    start = threading.Barrier(4)

    def run(uri):
        start.wait()
        try:
            create(uri)
        except CommitConflictError:
            return False
        return True

    with ThreadPoolExecutor(4) as racers:
        for place in range(5):
            uri = str(root / str(place))
            assert sum(racers.map(run, [uri] * 4)) == 1
            assert len(write_ids(uri)) == 1


@pytest.mark.parametrize("is_refused_before", [True, False])
def test_commit_on_a_root_that_was_taken_away_makes_no_folder(
    log, root, impatient, is_refused_before
):
    if is_refused_before:
        commit(log, 1)  # after it the handle has to be brought up first
    root.rename(f"{root}-away")

    with pytest.raises(CommitConflictError):
        commit(log, log.version)

    assert not root.exists()


@pytest.mark.parametrize("name", ["a b", "a#b?c", "é", "a+b=c&d"])
def test_path_of_a_commit_is_where_delta_puts_it(root, name):
    uri = str(root / name)
    create(uri)
    log = opened(uri)

    commit_times(log, 3)

    assert os.listdir(root) == [name]
    assert commit_file(uri, 3).exists()
    assert log.refresh() == 3
