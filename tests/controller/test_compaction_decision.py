"""When a partition is compacted, and how far: C, K and T of each decision."""

from dataclasses import replace

import pytest

from kafka_on_spark.controller.compaction import (
    CompactionReport,
    ReplicaProgress,
    compact,
)
from kafka_on_spark.log.compaction import CompactionProgress, Dirt
from kafka_on_spark.metadata.partition import NOT_COMPACTED, Compaction
from tests.builders import KEY, NOW_MS, image_of, partition, uuid_on

DAY_MS = 24 * 60 * 60 * 1000


def image(before=NOT_COMPACTED, **configs):
    registered = replace(partition("1 2 3", isr="1 2", hw=100, hw_epoch=1), compaction=before)
    names = {name.replace("_", "."): value for name, value in configs.items()}
    return image_of(registered, configs={"cleanup.policy": "compact", **names})


def dirt(below=80, clean=100, dirty=100, oldest=NOW_MS - 1000, first=0):
    return Dirt(first, below, clean, dirty, oldest)


def done(before, broker_id, end=100, **fields):
    progress = CompactionProgress(
        compacted_below=before.compacted_below,
        tombstones_below=before.tombstones_below,
        finished_below=before.compacted_below,
    )
    return ReplicaProgress(uuid_on(broker_id), end, replace(progress, **fields))


def report(
    before=NOT_COMPACTED, seen=None, *, now_ms=NOW_MS, latest_ms=None, epoch=5, k=None, **fields
):
    members = {each: done(before, each) for each in (1, 2)} if seen is None else seen
    return CompactionReport(
        key=KEY,
        leader_epoch=epoch,
        dirt=dirt(**fields),
        replicas=members,
        cleaned_below=before.cleaned_below if k is None else k,
        now_ms=now_ms,
        latest_ms=now_ms if latest_ms is None else latest_ms,
    )


CLEAN = {"dirty": 0, "oldest": None, "below": 50}
FIRST = Compaction(compacted_below=50)
CLEANED = Compaction(compacted_below=50, cleaned_below=50)
WAITING = Compaction(
    compacted_below=50, cleaned_below=50, expiring_below=50, expiring_since_ms=NOW_MS - DAY_MS
)
OVER = Compaction(compacted_below=50, cleaned_below=50, expiring_below=50, tombstones_below=50)


# fmt: off
DECISIONS = [  # before, what is seen, settings                                    C   K   E   T    since
    pytest.param(NOT_COMPACTED, {}, {},                                            (80, 0,  0,  0),  0,      id="half-of-it-is-dirty"),
    pytest.param(NOT_COMPACTED, {"dirty": 99}, {},                                 None,             0,      id="less-than-half-of-it-is-dirty"),
    pytest.param(NOT_COMPACTED, {"dirty": 1}, {"max_compaction_lag_ms": "999"},    (80, 0,  0,  0),  0,      id="a-dirty-batch-is-too-old"),
    pytest.param(NOT_COMPACTED, {"dirty": 1}, {"max_compaction_lag_ms": "1000"},   None,             0,      id="a-dirty-batch-is-old-enough-to-wait"),
    pytest.param(NOT_COMPACTED, CLEAN | {"below": 0}, {},                          None,             0,      id="there-is-nothing"),
    pytest.param(NOT_COMPACTED, {"below": 101}, {},                                None,             0,      id="never-above-what-is-committed"),
    pytest.param(FIRST, {}, {},                                                    (80, 50, 0,  0),  0,      id="the-decision-before-is-what-is-cleaned"),
    pytest.param(FIRST, CLEAN, {},                                                 (50, 50, 0,  0),  0,      id="it-is-cleaned-without-dirt"),
    pytest.param(CLEANED, CLEAN, {},                                               (50, 50, 50, 0),  NOW_MS, id="the-wait-for-tombstones-begins-once-k-is-committed"),
    pytest.param(CLEANED, CLEAN | {"k": 0}, {},                                    None,             0,      id="not-by-a-look-before-k-was"),
    pytest.param(CLEANED, {"k": 20}, {},                                           (80, 50, 20, 0),  NOW_MS, id="for-the-k-that-was-then"),
    pytest.param(CLEANED, CLEAN | {"now_ms": NOW_MS - 2 * DAY_MS, "latest_ms": NOW_MS}, {}, (50, 50, 50, 0), NOW_MS, id="a-clock-behind-does-not-begin-it-before"),
    pytest.param(WAITING, CLEAN | {"now_ms": 0, "latest_ms": NOW_MS - 2 * DAY_MS}, {}, (50, 50, 50, 0), NOW_MS - 2 * DAY_MS, id="one-that-a-clock-ahead-began-begins-anew"),
    pytest.param(WAITING, CLEAN | {"now_ms": NOW_MS - DAY_MS, "latest_ms": NOW_MS}, {}, None,         0,      id="a-clock-ahead-takes-none"),
    pytest.param(WAITING, CLEAN, {},                                               (50, 50, 50, 50), 0,      id="tombstones-go"),
    pytest.param(WAITING, CLEAN, {"delete_retention_ms": str(DAY_MS + 1)},         None,             0,      id="tombstones-wait"),
    pytest.param(WAITING, CLEAN | {"now_ms": NOW_MS - 2 * DAY_MS, "latest_ms": NOW_MS}, {}, None,     0,      id="a-clock-behind-takes-none"),
    pytest.param(WAITING, {"now_ms": NOW_MS - 1}, {},                              (80, 50, 50, 0),  NOW_MS - DAY_MS, id="the-wait-goes-on-over-another-decision"),
    pytest.param(WAITING, {}, {},                                                  (80, 50, 50, 50), 0,      id="both-at-once"),
    pytest.param(OVER, CLEAN, {},                                                  None,             0,      id="idle"),
]
# fmt: on


@pytest.mark.parametrize("before, fields, configs, expected, since", DECISIONS)
def test_decisions(before, fields, configs, expected, since):
    record = compact(image(before, **configs), report(before, **fields))

    if expected is None:
        assert record is None
        return
    now = record.change.compaction
    assert (
        now.compacted_below, now.cleaned_below, now.expiring_below, now.tombstones_below,
    ) == expected  # fmt: skip
    assert now.expiring_since_ms == since
    assert now.continues(before)


# fmt: off
WAITS = [  # what is seen of the replicas, after the decision FIRST
    pytest.param({1: done(FIRST, 1)},                                               id="a-member-does-not-answer"),
    pytest.param({1: done(FIRST, 1), 2: done(FIRST, 2, round_below=50, compacted_to=40)},           id="a-member-has-not-finished"),
    pytest.param({1: done(FIRST, 1), 2: done(NOT_COMPACTED, 2)},                    id="a-member-has-not-begun"),
    pytest.param({1: done(FIRST, 1), 2: done(FIRST, 3)},                            id="a-member-is-another-making"),
]
# fmt: on


@pytest.mark.parametrize("seen", WAITS)
def test_a_decision_waits_for_every_member_of_the_isr(seen):
    assert compact(image(FIRST), report(FIRST, seen)) is None


def test_a_look_at_an_older_leadership_decides_nothing():
    assert compact(image(), report(epoch=4)) is None
    assert compact(image_of(), report()) is None


# fmt: off
IMPOSSIBLE = [
    pytest.param({"compacted_below": 5, "cleaned_below": 6},                      id="k-above-c"),
    pytest.param({"compacted_below": 5, "expiring_below": 5},                     id="e-above-k"),
    pytest.param({"compacted_below": 5, "tombstones_below": 5},                   id="t-above-k"),
    pytest.param({"tombstones_below": -1},                                        id="below-zero"),
]
# fmt: on


@pytest.mark.parametrize("fields", IMPOSSIBLE)
def test_impossible_offsets_are_a_bug_of_ours(fields):
    with pytest.raises(AssertionError):
        Compaction(**fields)


def test_a_partition_is_not_compacted_above_its_high_watermark():
    with pytest.raises(AssertionError):
        replace(partition("1 2 3", hw=5), compaction=Compaction(compacted_below=6))
