"""Processes that were frozen while others committed and cleaned, on each kind of root."""

from functools import partial

import pytest

from kafka_on_spark.base.errors import (
    CommitConflictError,
    CommitOutcomeUnknownError,
    KafkaStorageError,
)
from kafka_on_spark.store.delta import delta_log
from kafka_on_spark.store.delta.delta_log import CommitFiles, DeltaLog
from kafka_on_spark.store.roots import RootFiles
from tests.store.places import INTERVAL, LONG, SEEN, first
from tests.store.tables import asleep, commit, create, live

SLEPT = 7
"""So many commits get the table cleaned past SEEN and two versions more."""


def check_frozen(place, late, rival):
    """Check that a table is what its living process made of it, and that the late one sees it."""
    assert not late.is_still_at(SEEN)
    assert late.refresh() == rival.version
    place.check_whole(rival.version)
    commit(late, late.version)
    rival.refresh()
    live(rival, INTERVAL)
    assert min(place.commits()) > SEEN + 1


POINTS = {
    "after the put": ("put", True, 0),
    "before the put": ("put", False, 0),
    "before the put is vouched for": ("stamps", False, -1),
}


@pytest.mark.parametrize("point", first(*POINTS))
def test_a_writer_that_sleeps_in_a_commit_is_told_that_it_is_unknown(
    log, place, rival, monkeypatch, point
):
    name, is_after, call = POINTS[point]

    def meanwhile():
        rival.refresh()
        live(rival, SLEPT)

    with monkeypatch.context() as sleeping:
        # On a disk there is a look before the put, too.
        call = call if call == 0 else int(place.store is None)
        asleep(sleeping, CommitFiles, name, meanwhile, is_after=is_after, call=call)
        with pytest.raises(CommitOutcomeUnknownError):
            commit(log, SEEN)

    check_frozen(place, log, rival)


@LONG
@pytest.mark.parametrize("is_landed", [True, False])
def test_a_writer_that_sleeps_after_an_error_of_its_put_is_told_that_it_is_unknown(
    log, place, rival, monkeypatch, is_landed
):
    put = CommitFiles.put

    def fail_late(files, version, content, **others):
        monkeypatch.setattr(CommitFiles, "put", put)
        if is_landed:
            put(files, version, content, **others)
        rival.refresh()
        live(rival, SLEPT)
        raise KafkaStorageError("timed out")

    monkeypatch.setattr(CommitFiles, "put", fail_late)

    with pytest.raises(CommitOutcomeUnknownError):
        commit(log, SEEN)

    check_frozen(place, log, rival)


@LONG
def test_a_writer_whose_version_a_stray_holds_is_not_told_a_conflict(
    log, place, rival, monkeypatch
):
    def meanwhile():
        live(rival, SLEPT)
        place.stray(SEEN + 1)

    with monkeypatch.context() as sleeping:
        asleep(sleeping, CommitFiles, "put", meanwhile, is_after=False)
        with pytest.raises(CommitOutcomeUnknownError):
            commit(log, SEEN)

    check_frozen(place, log, rival)


def test_a_writer_whose_last_commit_another_one_replaces_is_told_that_it_is_unknown(
    log, place, rival, monkeypatch
):
    """Strays stand in both places: only the ETag and the time tell, or the inode."""

    def meanwhile():
        live(rival, SLEPT)
        place.stray(SEEN)
        place.stray(SEEN + 1)

    with monkeypatch.context() as sleeping:
        asleep(sleeping, CommitFiles, "put", meanwhile, is_after=False)
        with pytest.raises(CommitOutcomeUnknownError):
            commit(log, SEEN)

    check_frozen(place, log, rival)


@LONG
def test_a_writer_that_slept_for_a_few_commits_is_told_a_conflict(log, rival, monkeypatch):
    with monkeypatch.context() as sleeping:
        asleep(sleeping, CommitFiles, "put", partial(live, rival, 4), is_after=False)
        with pytest.raises(CommitConflictError):
            commit(log, SEEN)

    assert log.refresh() == SEEN + 4


@LONG
def test_a_creator_that_sleeps_makes_no_second_table(place, monkeypatch):
    def meanwhile():
        create(place.uri, place.options)
        live(place.opened(), SLEPT)

    with monkeypatch.context() as sleeping:
        asleep(sleeping, CommitFiles, "put", meanwhile, is_after=False)
        with pytest.raises(CommitOutcomeUnknownError):
            create(place.uri, place.options)

    place.check_whole(SLEPT)


@pytest.mark.parametrize("strays", first((SEEN, SEEN + 1), (SEEN,), ()))
def test_a_follower_that_slept_opens_the_table_anew(log, place, rival, strays):
    live(rival, SLEPT)
    for version in strays:
        place.stray(version)

    assert log.follow() is None
    assert log.version == rival.version
    check_frozen(place, log, rival)


@pytest.mark.parametrize(
    "name, is_after, call", [("read", False, 0), ("read", True, 0), ("stamps", False, 0)]
)
@LONG
def test_a_follower_that_sleeps_between_two_looks_believes_neither(
    log, place, rival, monkeypatch, name, is_after, call
):
    commit(rival, SEEN)

    def meanwhile():
        live(rival, SLEPT)
        place.stray(SEEN + 1)
        place.stray(SEEN + 2)

    with monkeypatch.context() as sleeping:
        asleep(sleeping, CommitFiles, name, meanwhile, is_after=is_after, call=call)
        log.refresh()

    check_frozen(place, log, rival)


@pytest.mark.parametrize(
    "holder, name, is_after, call",
    [
        pytest.param(delta_log, "read_checkpoint", True, 0, id="after the checkpoint"),
        pytest.param(
            delta_log, "read_checkpoint", False, 0, id="before the checkpoint", marks=LONG
        ),
        pytest.param(RootFiles, "names", True, 0, id="after the listing", marks=LONG),
        pytest.param(CommitFiles, "read", True, 0, id="after the first commit", marks=LONG),
        pytest.param(CommitFiles, "stamps", False, 1, id="before the last look", marks=LONG),
    ],
)
def test_a_process_that_sleeps_while_it_opens_a_table_opens_it_as_it_is(
    log, place, rival, monkeypatch, holder, name, is_after, call
):
    live(rival, 6)
    late = DeltaLog(place.uri, place.options)

    def meanwhile():
        live(rival, SLEPT)
        place.stray(7)

    with monkeypatch.context() as sleeping:
        asleep(sleeping, holder, name, meanwhile, is_after=is_after, call=call)
        late.refresh()

    assert late.refresh() == rival.version
    check_frozen(place, late, rival)
