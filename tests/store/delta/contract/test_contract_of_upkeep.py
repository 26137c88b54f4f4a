"""Checkpoints, cleaning and hints on each kind of root: whatever fails, the table opens and goes on."""

import random
from contextlib import suppress

import pytest

from kafka_on_spark.base.errors import (
    CommitConflictError,
    CommitOutcomeUnknownError,
    KafkaStorageError,
)
from kafka_on_spark.store.delta import log_cleaning
from kafka_on_spark.store.delta.delta_files import checkpoint_path, hint_path
from tests.store.places import INTERVAL, LONG, first
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
