"""I27: faults planted in a compacted log of one replica, or in how far it says it is compacted."""

from types import SimpleNamespace

import pytest

from kafka_on_spark.base.ids import PartitionKey, TopicPartition
from kafka_on_spark.fsck import replica_audit
from kafka_on_spark.fsck.partition_checks import register_flaws
from kafka_on_spark.fsck.registers import PartitionTimeline, Register
from kafka_on_spark.log.compaction import CompactionProgress
from tests.fsck.plants import Plant, found
from tests.fsck.upkept import PRICES, counters_of, rewritten


@pytest.fixture
def plant(upkept):
    return Plant(upkept, 2, PRICES)


def faults(report, plant):
    """Return which invariants are violated, all of it on the planted replica."""
    assert {each.place.broker_id for each in report.findings} <= {plant.broker_id}
    assert {each.place.partition for each in report.findings} <= {(PRICES, 0)}
    return report.invariants


def with_record(merged, delta, key, value):
    """Return a segment's rows with one more, in the order of their offsets."""
    rows = merged.rows()
    more = {**rows[0], "offset_delta": delta, "key": key, "value": value}
    return sorted([*rows, more], key=lambda row: row["offset_delta"])


def test_what_is_left_of_the_log_is_the_last_of_each_key(plant):
    rows = rewritten(plant).rows()

    assert [(row["offset_delta"], row["key"], row["value"]) for row in rows] == [
        (2, b"c", b"1"),
        (5, b"a", b"3"),
        (6, b"d", b"1"),
    ]
    assert counters_of(plant)["compaction-finished-below"] == 7
    assert counters_of(plant)["tombstones-below"] == 7


@pytest.mark.parametrize("at_once", [2**20, 1])
def test_a_key_that_stands_twice_below_what_is_compacted(upkept, plant, monkeypatch, at_once):
    monkeypatch.setattr(replica_audit, "KEYS_AT_ONCE", at_once)
    merged = rewritten(plant)
    merged.rewrite(with_record(merged, 3, b"a", b"2"))

    report = upkept.fsck()

    finding = found(report, "I27", plant, offset=5)
    assert finding.sentence == "the key of the record at 5 stands at 3 too, below 7"
    assert faults(report, plant) == {"I27"}
    assert upkept.fsck(deep=False).is_clean


# fmt: off
KEPT = [  # a record more, at 4                what is said of it
    pytest.param(b"b", None,                   "a tombstone is kept at 4, below 7", id="a-tombstone-that-had-to-go"),
    pytest.param(None, b"x",                   "has no key",                        id="a-record-without-a-key"),
]
# fmt: on


@pytest.mark.parametrize("key, value, words", KEPT)
def test_a_record_that_had_to_go(upkept, plant, key, value, words):
    merged = rewritten(plant)
    merged.rewrite(with_record(merged, 4, key, value))

    report = upkept.fsck()

    assert found(report, "I27", plant, offset=4).sentence.endswith(words)
    assert faults(report, plant) == {"I27"}


def test_replicas_that_finished_the_same_decision_and_hold_other_records(upkept, plant):
    merged = rewritten(plant)
    merged.rewrite([row for row in merged.rows() if row["key"] != b"a"])

    report = upkept.fsck()

    [finding] = report.findings
    assert finding == found(report, "I27", plant, offset=0)
    assert finding.sentence == (
        "the replica's files hold 2 records in [0, 7), and not those that other replicas hold; most"
        " replicas have it as brokers 1, 3"
    )


def test_a_replica_that_has_not_finished_is_not_compared_and_that_is_said(upkept, plant):
    plant.commit("compact", compaction_finished_below=7, compaction_round_below=7)

    report = upkept.fsck()

    assert report.is_clean
    assert report.not_checked == (
        "of prices-0, what broker 2 keeps below 7, since not all replicas have finished the same"
        " decision of compaction",
    )


# fmt: off
COUNTERS = [
    pytest.param({"compaction_finished_below": 0},  "the counter compaction-finished-below went back from 7 to 0", id="back"),
    pytest.param({"tombstones_below": 8},           "the counters of compaction contradict each other: tombstones-below 8", id="contradiction"),
    pytest.param({"compacted_below": 8},            "compacted-below is 8, above what is decided, 7", id="ahead"),
    pytest.param({"compaction_finished_below": 0},  "the replica is in sync and has finished compaction below 0, not below 7 as each that is read must have", id="not-finished"),
]
# fmt: on


@pytest.mark.parametrize("counters, sentence", COUNTERS)
def test_counters_that_say_what_can_not_be(upkept, plant, counters, sentence):
    plant.commit("compact", **counters)

    report = upkept.fsck()

    assert sentence in {each.sentence for each in report.findings}
    assert faults(report, plant) == {"I27"}


# fmt: off
GENERATIONS = [  # of a partition's registrations, one after the other; None: it is removed
    pytest.param([0, 0],            True,   id="no unclean election"),
    pytest.param([0, 1],            False,  id="one, by which such a log came back"),
    pytest.param([0, None, 7],      True,   id="added again"),
    pytest.param([0, 1, None, 7],   True,   id="added again since"),
    pytest.param([0, None, 7, 8],   False,  id="and one since it was"),
]
# fmt: on


@pytest.mark.parametrize("generations, is_flaw", GENERATIONS)
def test_a_log_that_came_back_by_an_unclean_election_may_be_ahead_of_what_is_decided(
    generations, is_flaw
):
    timeline = PartitionTimeline(key=PartitionKey("id", 0), name=TopicPartition(PRICES, 0))
    for generation in generations:
        if generation is None:
            timeline.is_removed = True
        else:
            timeline.take(register_in(generation))
    trace = SimpleNamespace(
        compaction=CompactionProgress(compacted_below=8, finished_below=8),
        leader_epoch=3,
        broker_id=1,
        member=(1, "uuid"),
    )

    flaws = register_flaws(
        trace,
        timeline.register,
        timeline.register,
        had_unclean_election=timeline.had_unclean_election,
    )

    assert bool(list(flaws)) == is_flaw


def register_in(generation):
    return Register(
        replicas=(1,),
        replica_uuids=("uuid",),
        former_uuids=(None,),
        directories=(None,),
        isr=frozenset({1}),
        elr=frozenset(),
        leader=1,
        leader_epoch=3,
        partition_epoch=3,
        adding_replicas=(),
        removing_replicas=(),
        high_watermark=8,
        high_watermark_epoch=3,
        high_watermark_chain="0" * 32,
        log_start_offset=0,
        unclean_generation=generation,
    )


def test_i25_a_segment_that_covers_less_than_went_into_it(upkept, plant):
    merged = rewritten(plant)
    merged.edit_header(end_offset="6")

    report = upkept.fsck(deep=False)

    finding = found(report, "I25", plant, version=merged.version, offset=0)
    assert "the merged segment [0, 6) took the place of [0, 7)" in finding.sentence
    assert faults(report, plant) == {"I10", "I25"}
