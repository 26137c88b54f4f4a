"""Checkpoints, cleaning and hints on each kind of root: whatever fails, the table opens and goes on."""

import random
from contextlib import suppress
from itertools import count

import pytest

from kafka_on_spark.base.errors import (
    CommitConflictError,
    CommitOutcomeUnknownError,
    CorruptLogError,
    KafkaStorageError,
)
from kafka_on_spark.store.delta import delta_log, log_cleaning
from kafka_on_spark.store.delta.delta_files import checkpoint_path, commit_path, hint_path
from kafka_on_spark.store.roots import RootFiles
from tests.store.places import INTERVAL, KEPT, LONG, first
from tests.store.s3.faulty_s3 import Kind
from tests.store.tables import commit, live


def test_the_log_stays_short(log, place):
    live(log, 2)
    assert place.checkpoints() == [2]
    assert place.commits() == list(range(4))

    live(log, 5)

    assert place.checkpoints() == [4, 6, 8]
    assert place.commits() == list(range(4, 9))
    place.check_whole(8)


def cleaned_up_to(place):
    """Return the bound below which everything is to go, by what is there."""
    return log_cleaning.first_kept(place.checkpoints())


def on_delete(monkeypatch, act):
    """Have something happen before each deletion, with its number and path."""
    delete, numbers = RootFiles.delete_file, count()

    def first_act(files, path):
        act(next(numbers), path)
        delete(files, path)

    monkeypatch.setattr(RootFiles, "delete_file", first_act)


def test_commits_go_in_ascending_order_and_checkpoints_after_them(uncleaned, place, monkeypatch):
    gone = []
    on_delete(monkeypatch, lambda number, path: gone.append(path))

    assert place.clean() == 6

    assert gone == [
        *(commit_path(place.uri, version) for version in range(6)),
        *(checkpoint_path(place.uri, version) for version in (2, 4)),
    ]
    assert place.commits() == list(range(6, 11))
    assert place.checkpoints() == [6, 8, 10]
    place.check_whole(10)


@pytest.mark.parametrize("number", first(3, 0, 7))
def test_a_cleaner_stops_at_the_first_file_that_it_can_not_delete(
    uncleaned, place, monkeypatch, number
):
    follower = place.opened()

    def refuse(at, path):
        if at == number:
            raise KafkaStorageError("no")

    with monkeypatch.context() as refusing:
        on_delete(refusing, refuse)
        with pytest.raises(KafkaStorageError):
            place.clean()

    assert place.commits() == list(range(min(number, 6), 11))
    place.check_whole(10)
    assert follower.follow() == []
    place.clean()
    assert place.commits() == list(range(6, 11))


@LONG
@pytest.mark.parametrize("number", [0, 4])
def test_two_cleaners_take_nothing_that_is_needed(uncleaned, place, monkeypatch, number):
    """One sleeps before some file while the other cleans, and the table lives on."""
    other = place.opened()

    def sleep(at, path):
        if at == number:
            monkeypatch.undo()
            monkeypatch.setattr(delta_log, "CHECKPOINT_INTERVAL", INTERVAL)
            monkeypatch.setattr(log_cleaning, "COMMITS_KEPT", KEPT)
            monkeypatch.setattr(log_cleaning, "COMMITS_KEPT_MS", 0)
            assert place.clean() == 6 - number
            live(other, 4)
            place.stray(7)

    on_delete(monkeypatch, sleep)
    place.clean()

    place.check_whole(14)
    commit(other, 14)
    assert uncleaned.refresh() == 15


@pytest.mark.parametrize("version", first(3, 0))
def test_a_stray_commit_hinders_nobody_and_the_next_cleaner_takes_it(cleaned, place, version):
    place.stray(version)

    place.check_whole(10)
    assert cleaned.refresh() == 10
    live(cleaned, INTERVAL)
    assert version not in place.commits()
    place.check_whole(12)


DAMAGES = {
    "empty": lambda content: b"",
    "halved": lambda content: content[: len(content) // 2],
    "zeroed": lambda content: bytes(len(content)),
    "gone": lambda content: None,
}


@pytest.mark.parametrize(
    "damage, versions",
    [
        ("zeroed", (8, 10)),
        pytest.param("empty", (10,), marks=LONG),
        pytest.param("halved", (8, 10), marks=LONG),
        pytest.param("zeroed", (6, 8), marks=LONG),
        pytest.param("gone", (8, 10), marks=LONG),
    ],
)
def test_two_checkpoints_may_be_damaged(cleaned, place, damage, versions):
    assert place.checkpoints() == [6, 8, 10]
    for version in versions:
        place.change(checkpoint_path(place.uri, version), DAMAGES[damage])

    log = place.opened()
    assert (log.version, log.counters()) == (10, {"count": 10})

    live(log, 3 * INTERVAL + 1)
    assert place.checkpoints()[-3:] == [12, 14, 16]
    place.check_whole(17)


@pytest.mark.damaged("a commit is missing")
@pytest.mark.parametrize("damage", first("halved", "gone"))
def test_without_a_checkpoint_that_can_be_read_nothing_is_believed_and_nothing_deleted(
    cleaned, place, damage
):
    for version in place.checkpoints():
        place.change(checkpoint_path(place.uri, version), DAMAGES[damage])
    before = place.commits()

    for _ in range(2):
        with pytest.raises(CorruptLogError, match="a commit is missing"):
            place.opened()

    assert place.commits() == before
    assert place.clean() == 0


@pytest.mark.parametrize(
    "hint",
    first(
        b'{"version":1000000,"size":3}',
        None,
        b"",
        b"[" * 100_000,
        b'{"version":"8"}',
        b'{"version":2,"size":3}',
        b'{"version":8,"size":3}',
    ),
)
def test_a_hint_that_misleads_does_no_harm(cleaned, place, hint):
    place.change(hint_path(place.uri), lambda content: hint)

    log = place.opened()
    assert (log.version, log.counters()) == (10, {"count": 10})

    live(log, 3 * INTERVAL + 1)
    assert place.checkpoints() == [12, 14, 16]
    place.check_whole(17)


FAULTS = (Kind.ERROR_AFTER, Kind.ERROR_BEFORE, Kind.BUSY, Kind.DENIED, Kind.DROP_AFTER)
METHODS = ("PUT", "GET", "HEAD", "DELETE", "POST")


@pytest.mark.parametrize("place", ["S3"], indirect=True)
@pytest.mark.parametrize("kind", first(*FAULTS), ids=lambda kind: kind.name)
def test_a_store_that_fails_now_and_then_loses_nothing_and_is_cleaned(log, place, kind):
    """Whatever request fails: of a commit, a follower, a checkpoint or a cleaner."""
    dice = random.Random(kind.name)
    told = []
    while log.version < 12:
        method = dice.choice(METHODS)
        place.store.order(kind, method=method, suffix=dice.choice([".json", ".parquet", "", "t"]))
        with suppress(KafkaStorageError, CommitConflictError, CommitOutcomeUnknownError):
            version = log.refresh()
            commit(log, version)
            told.append(log.version)
        with suppress(KafkaStorageError):
            log.checkpoint_if_due()
        place.store.recover()

    live(log, 3 * INTERVAL)
    assert place.opened().counters() == {"count": log.version}
    assert set(told) <= set(range(log.version + 1))
    assert place.commits()[0] == cleaned_up_to(place) > 0
    place.check_whole(log.version)


@pytest.mark.parametrize("place", ["S3"], indirect=True)
@pytest.mark.parametrize("kind", first(*FAULTS), ids=lambda kind: kind.name)
def test_a_cleaner_whose_store_fails_stops_and_another_goes_on(uncleaned, place, kind):
    for method in ("DELETE", "POST"):
        place.store.order(kind, method=method, suffix="", count=-1)

    with suppress(KafkaStorageError):
        place.clean()

    left = place.commits()
    assert left == list(range(left[0], 11))
    place.store.recover()
    place.check_whole(10)
    place.clean()
    assert place.commits() == list(range(6, 11))
    place.check_whole(10)
