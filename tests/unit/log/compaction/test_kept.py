"""What compaction keeps of a log: all small logs, and what must be the same whatever was done before."""

from itertools import product

import pytest

from kafka_on_spark.ids import Offset
from kafka_on_spark.log.compaction.kept import KeyedRecord, compaction_flaws, kept_records


def log_of(text: str) -> list[KeyedRecord]:
    """Read "a b -a ." as values of a and b, a tombstone of a and a record without a key."""
    return [
        KeyedRecord(
            Offset(offset), None if word == "." else word[-1:].encode(), word.startswith("-")
        )
        for offset, word in enumerate(text.split())
    ]


def kept(text: str, compacted_below: int, tombstones_below: int = 0) -> list[int]:
    records = kept_records(
        log_of(text),
        compacted_below=Offset(compacted_below),
        tombstones_below=Offset(tombstones_below),
    )
    return [each.offset for each in records]


# fmt: off
CASES = [  # log             C  T   offsets kept
    pytest.param("a b a",       3, 0, [1, 2],       id="the-last-of-each-key"),
    pytest.param("a b a",       2, 0, [0, 1, 2],    id="a-later-one-above-c-replaces-nothing"),
    pytest.param("a a a a",     2, 0, [1, 2, 3],    id="from-c-on-all"),
    pytest.param("a -a b",      3, 0, [1, 2],       id="a-tombstone-stays-and-what-it-deletes-goes"),
    pytest.param("a -a b",      3, 2, [2],          id="a-tombstone-below-t-goes"),
    pytest.param("a -a b",      3, 1, [1, 2],       id="a-tombstone-at-t-stays"),
    pytest.param("-a a",        2, 2, [1],          id="a-key-is-written-again"),
    pytest.param("a . b .",     3, 0, [0, 2, 3],    id="a-record-without-a-key-goes"),
    pytest.param("",            0, 0, [],           id="empty"),
]
# fmt: on


@pytest.mark.parametrize("text, compacted_below, tombstones_below, expected", CASES)
def test_kept(text, compacted_below, tombstones_below, expected):
    assert kept(text, compacted_below, tombstones_below) == expected


def all_small_logs():
    for size in range(5):
        for words in product(("a", "b", "-a", "."), repeat=size):
            yield " ".join(words), size


def test_decisions_that_a_replica_has_applied_before_make_no_difference():
    for text, size in all_small_logs():
        for later in range(size + 1):
            for earlier, later_t in product(range(later + 1), repeat=2):
                for earlier_t in range(min(earlier, later_t) + 1):
                    once = kept_records(
                        log_of(text), compacted_below=later, tombstones_below=later_t
                    )
                    first = kept_records(
                        log_of(text), compacted_below=earlier, tombstones_below=earlier_t
                    )
                    twice = kept_records(first, compacted_below=later, tombstones_below=later_t)
                    assert twice == once, (text, earlier, earlier_t, later, later_t)


def test_each_key_has_its_last_value_after_every_decision_and_no_other():
    for text, size in all_small_logs():
        true = {each.key: each for each in log_of(text) if each.key}
        values = {key: each.offset for key, each in true.items() if not each.is_tombstone}
        for compacted_below in range(size + 1):
            for tombstones_below in range(compacted_below + 1):
                left = kept_records(
                    log_of(text),
                    compacted_below=compacted_below,
                    tombstones_below=tombstones_below,
                )
                last = {each.key: each for each in left if each.key}
                assert {
                    key: each.offset for key, each in last.items() if not each.is_tombstone
                } == values
                assert not list(
                    compaction_flaws(
                        left, compacted_below=compacted_below, tombstones_below=tombstones_below
                    )
                )


# fmt: off
FLAWS = [  # log         C  T
    pytest.param("a b a",   3, 0, "the key of the record at 2 stands at 0 too, below 3", id="a-key-twice"),
    pytest.param("a -b",    2, 2, "a tombstone is kept at 1, below 2",                   id="a-tombstone-below-t"),
    pytest.param("a .",     2, 0, "the record at 1, below 2, has no key",                id="no-key"),
]
# fmt: on


@pytest.mark.parametrize("text, compacted_below, tombstones_below, flaw", FLAWS)
def test_what_is_left_of_a_log_shows_that_it_was_not_compacted(
    text, compacted_below, tombstones_below, flaw
):
    found = compaction_flaws(
        log_of(text), compacted_below=compacted_below, tombstones_below=tombstones_below
    )

    assert [each.sentence for each in found] == [flaw]
