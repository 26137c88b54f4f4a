"""Processes that were frozen while others committed and cleaned: none is told what is not so.

Each sleeps for as many commits as get its table cleaned past where it was.
"""

import os
from functools import partial

import pytest

from kafka_on_spark.errors import (
    CommitConflictError,
    CommitOutcomeUnknownError,
    KafkaStorageError,
)
from kafka_on_spark.storage.delta import opening
from kafka_on_spark.storage.delta.conditional_commit import DeltaLog
from kafka_on_spark.storage.delta.files import commit_files
from kafka_on_spark.storage.delta.files.commit_files import CommitFiles
from kafka_on_spark.storage.roots.roots import RootFiles
from tests.storage.committers import POINTS
from tests.storage.tables import (
    OPTIONS,
    asleep,
    commit,
    commit_file,
    create,
    damages_of,
    live,
    opened,
    put_stray,
    write_ids_by_version,
)

pytestmark = pytest.mark.usefixtures("short")

SEEN = 1
COMMITS = 34
"""After so many more there are three checkpoints, and SEEN is cleaned."""


def by_strays(points):
    """Return points at which a process sleeps, `has_stray` behind each: whether other sleepers' commits
    stand where those were that it has seen. That it finds nothing there, is shown at the first point,
    and in a long run at each."""
    return [
        pytest.param(
            *point.values,
            has_stray,
            id=f"{point.id}, {'with' if has_stray else 'no'} strays",
            marks=[pytest.mark.long] * (not has_stray and number > 0),
        )
        for number, point in enumerate(points)
        for has_stray in (True, False)
    ]


@pytest.fixture
def rival(log, uri):
    return opened(uri)


def check_whole(uri, late, rival):
    """Check that a table is what its living process has made of it, and that the late one sees it."""
    assert opened(uri).counters() == {"count": rival.version}
    assert not late.is_still_at(SEEN)
    assert late.refresh() == rival.version
    assert late.counters() == {"count": rival.version}
    assert damages_of(uri) == []
    commit(late, late.version)
    rival.refresh()
    live(rival, 10)
    assert min(write_ids_by_version(uri)) > SEEN + 1
    assert "stray" not in write_ids_by_version(uri).values()


@pytest.mark.parametrize("point", POINTS)
def test_a_writer_that_sleeps_in_a_commit_is_told_that_it_is_unknown(
    log, uri, rival, monkeypatch, point
):
    holder, name, is_after, call = POINTS[point]

    def meanwhile():
        rival.refresh()
        live(rival, COMMITS)

    with monkeypatch.context() as sleeping:
        asleep(sleeping, holder, name, meanwhile, is_after=is_after, call=call)
        with pytest.raises(CommitOutcomeUnknownError):
            commit(log, SEEN)

    check_whole(uri, log, rival)


def test_a_writer_that_sleeps_before_it_puts_anything_has_certainly_written_nothing(
    log, uri, rival, monkeypatch
):
    with monkeypatch.context() as sleeping:
        asleep(sleeping, CommitFiles, "stamps", partial(live, rival, COMMITS), is_after=False)
        with pytest.raises(CommitConflictError):
            commit(log, SEEN)

    assert not commit_file(uri, SEEN + 1).exists()
    check_whole(uri, log, rival)


def test_a_writer_that_sleeps_while_it_looks_who_vouches_for_it_takes_no_stray_for_its_own(
    log, uri, rival, monkeypatch
):
    """Its commit stood and was cleaned; another sleeper's took the place."""
    stamp, calls = commit_files._local_stamp, []

    def sleep(path):
        calls.append(path)
        if len(calls) == 3:  # the first is of the look before the put
            rival.refresh()
            live(rival, COMMITS)
            put_stray(uri, SEEN + 1)
        return stamp(path)

    with monkeypatch.context() as sleeping:
        sleeping.setattr(commit_files, "_local_stamp", sleep)
        with pytest.raises(CommitOutcomeUnknownError):
            commit(log, SEEN)

    check_whole(uri, log, rival)


@pytest.mark.parametrize("is_landed", [True, False])
def test_a_writer_that_sleeps_after_an_error_of_its_put_is_told_that_it_is_unknown(
    log, uri, rival, monkeypatch, is_landed
):
    put, calls = CommitFiles.put, []

    def fail_late(files, version, content, **others):
        calls.append(version)
        if len(calls) > 1:
            return put(files, version, content, **others)
        if is_landed:
            put(files, version, content, **others)
        monkeypatch.setattr(CommitFiles, "put", put)
        rival.refresh()
        live(rival, COMMITS)
        raise KafkaStorageError("timed out")

    monkeypatch.setattr(CommitFiles, "put", fail_late)

    with pytest.raises(CommitOutcomeUnknownError):
        commit(log, SEEN)

    check_whole(uri, log, rival)


def test_a_writer_whose_version_a_stray_holds_is_not_told_a_conflict(log, uri, rival, monkeypatch):
    """Its own may have counted and been cleaned, before another sleeper's took the place."""

    def meanwhile():
        live(rival, COMMITS)
        put_stray(uri, SEEN + 1)

    with monkeypatch.context() as sleeping:
        asleep(sleeping, os, "link", meanwhile, is_after=False)
        with pytest.raises(CommitOutcomeUnknownError):
            commit(log, SEEN)

    check_whole(uri, log, rival)


def test_a_commit_that_counted_before_its_writer_slept_is_in_the_table(
    log, uri, rival, monkeypatch
):
    """It may not be put again: the writer is told unknown, and finds it by what it appended."""

    def meanwhile():
        rival.refresh()
        live(rival, COMMITS)

    with monkeypatch.context() as sleeping:
        asleep(sleeping, os, "link", meanwhile, is_after=True)
        with pytest.raises(CommitOutcomeUnknownError):
            commit(log, SEEN, mine=7)

    log.refresh()
    assert log.counters_of("mine") == [7]


def test_a_commit_that_was_put_after_its_writer_slept_is_in_no_table(log, uri, rival, monkeypatch):
    with monkeypatch.context() as sleeping:
        asleep(sleeping, os, "link", partial(live, rival, COMMITS), is_after=False)
        with pytest.raises(CommitOutcomeUnknownError):
            commit(log, SEEN, mine=7)

    log.refresh()
    assert commit_file(uri, SEEN + 1).exists()
    assert log.counters_of("mine") == opened(uri).counters_of("mine") == [None]


def test_a_writer_that_slept_for_a_few_commits_is_told_a_conflict(log, uri, rival, monkeypatch):
    with monkeypatch.context() as sleeping:
        asleep(sleeping, os, "link", partial(live, rival, 20), is_after=False)
        with pytest.raises(CommitConflictError):
            commit(log, SEEN)

    assert log.refresh() == SEEN + 20


def test_a_writer_that_slept_for_a_few_commits_after_its_put_is_told_that_it_stands(
    log, uri, rival, monkeypatch
):
    def meanwhile():
        rival.refresh()
        live(rival, 20)

    with monkeypatch.context() as sleeping:
        asleep(sleeping, os, "link", meanwhile, is_after=True)
        commit(log, SEEN, mine=7)

    assert (log.version, log.refresh()) == (SEEN + 1, SEEN + 21)
    assert log.counters_of("mine") == [7]


def test_a_creator_that_sleeps_before_it_links_makes_no_second_table(uri, monkeypatch, root):
    def meanwhile():
        create(uri)
        live(opened(uri), COMMITS)

    with monkeypatch.context() as sleeping:
        asleep(sleeping, os, "link", meanwhile, is_after=False)
        with pytest.raises(CommitOutcomeUnknownError):
            create(uri)

    assert commit_file(uri, 0).exists()
    assert opened(uri).counters() == {"count": COMMITS}
    assert damages_of(uri) == []


# Followers


@pytest.mark.parametrize(
    "strays", [(), (SEEN,), (SEEN + 1,), (SEEN, SEEN + 1), (SEEN + 1, SEEN + 2)]
)
def test_a_follower_that_slept_opens_the_table_anew(log, uri, rival, strays):
    live(rival, COMMITS)
    for version in strays:
        put_stray(uri, version)

    assert not log.is_still_at(SEEN)
    assert log.follow() is None
    assert log.version == rival.version
    check_whole(uri, log, rival)


@pytest.mark.parametrize(
    "name, is_after, call, has_stray",
    by_strays(
        [
            pytest.param("read", False, 0, id="before the first read"),
            pytest.param("read", True, 0, id="after the first read"),
            pytest.param("stamps", False, 0, id="before the first look"),
            pytest.param("stamps", True, 0, id="after the first look"),
            pytest.param("read", False, 1, id="before the second read"),
            pytest.param("read", True, 1, id="after the second read"),
            pytest.param("stamps", False, 1, id="before the second look"),
        ]
    ),
)
def test_a_follower_that_sleeps_between_two_looks_believes_neither(
    log, uri, rival, monkeypatch, name, is_after, call, has_stray
):
    commit(rival, SEEN)

    def meanwhile():
        live(rival, COMMITS)
        if has_stray:
            put_stray(uri, SEEN + 1)
            put_stray(uri, SEEN + 2)

    with monkeypatch.context() as sleeping:
        asleep(sleeping, CommitFiles, name, meanwhile, is_after=is_after, call=call)
        log.refresh()

    assert log.refresh() == rival.version
    check_whole(uri, log, rival)


@pytest.mark.parametrize("call", [0, 1])
def test_a_process_that_asks_whether_a_version_is_the_newest_is_not_misled(
    log, uri, rival, monkeypatch, call
):
    """It sleeps before it looks, or between its two looks; then a version of before is no lie."""

    def meanwhile():
        live(rival, COMMITS)

    with monkeypatch.context() as sleeping:
        asleep(sleeping, commit_files, "_local_stamp", meanwhile, is_after=False, call=call)
        assert not log.is_still_at(SEEN)

    check_whole(uri, log, rival)


# Processes that open a table


@pytest.mark.parametrize(
    "holder, name, is_after, call, has_stray",
    by_strays(
        [
            pytest.param(RootFiles, "names", True, 0, id="after the listing"),
            pytest.param(opening, "read_checkpoint", False, 0, id="before the checkpoint"),
            pytest.param(opening, "read_checkpoint", True, 0, id="after the checkpoint"),
            pytest.param(CommitFiles, "stamp", True, 0, id="before the commits"),
            pytest.param(CommitFiles, "read", True, 0, id="after the first commit"),
            pytest.param(CommitFiles, "read", False, 4, id="before the last commit"),
            pytest.param(CommitFiles, "stamp", False, 1, id="before the last look"),
        ]
    ),
)
def test_a_process_that_sleeps_while_it_opens_a_table_opens_it_as_it_is(
    log, uri, rival, monkeypatch, holder, name, is_after, call, has_stray
):
    live(rival, 34)  # checkpoints at 10, 20 and 30, commits up to 35
    late = DeltaLog(uri, OPTIONS)

    def meanwhile():
        live(rival, COMMITS)
        if has_stray:
            put_stray(uri, 31)

    with monkeypatch.context() as sleeping:
        asleep(sleeping, holder, name, meanwhile, is_after=is_after, call=call)
        late.refresh()

    assert late.refresh() == rival.version
    check_whole(uri, late, rival)


@pytest.mark.parametrize("name, call", [("stamp", 0), ("read", 0)])
def test_a_process_that_opens_a_table_takes_no_stray_for_its_newest_commit(
    log, uri, rival, monkeypatch, name, call
):
    """There is nothing after it that would be missing."""
    live(rival, 30)  # a checkpoint at 30, and one commit after it
    late = DeltaLog(uri, OPTIONS)

    def meanwhile():
        live(rival, COMMITS)
        put_stray(uri, 31)

    with monkeypatch.context() as sleeping:
        asleep(sleeping, CommitFiles, name, meanwhile, is_after=name == "stamp", call=call)
        late.refresh()

    assert late.refresh() == rival.version
    check_whole(uri, late, rival)


@pytest.mark.parametrize("is_flushed", [True, False])
def test_a_process_that_opens_a_table_of_which_the_newest_commits_go_takes_no_stray_for_one(
    log, uri, rival, monkeypatch, is_flushed
):
    """It never saw the commit of its checkpoint, so there is nothing that would be missing later."""
    live(rival, 30)
    late = DeltaLog(uri, OPTIONS, is_flushed=is_flushed)

    def meanwhile():
        live(rival, COMMITS)
        put_stray(uri, 31)

    with monkeypatch.context() as sleeping:
        asleep(sleeping, opening, "read_checkpoint", meanwhile, is_after=True)
        late.refresh()

    assert late.refresh() == rival.version
    check_whole(uri, late, rival)
