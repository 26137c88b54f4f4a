"""What an append orders, makes of its tasks' answers, and answers itself."""

from dataclasses import replace

import pytest

from kafka_on_spark.base.errors import (
    InvalidTimestampError,
    KafkaStorageError,
    MessageTooLargeError,
    NotEnoughReplicasAfterAppendError,
    NotEnoughReplicasError,
    ProducerFencedError,
    QuorumUnavailableError,
    RequestTimedOutError,
    RootAccessDeniedError,
)
from kafka_on_spark.base.ids import Offset, PartitionKey
from kafka_on_spark.produce import append
from kafka_on_spark.produce.append import (
    _stamp,
    append_results,
    append_when_in_sync,
    collect_batches,
    stamp_as_one,
)
from kafka_on_spark.produce.leader_log import PartitionBatch
from kafka_on_spark.produce.staging import (
    AppendPlan,
    ProducerRun,
    StagedSegment,
    is_unreached,
    plan_stage,
)
from tests.builders import NOW_MS, TOPIC, TOPIC_ID, image_of, partition, segment, staged, stamp
from tests.fakes import FakeClock

AWAY, LATE = KafkaStorageError("the root is away"), RequestTimedOutError("too late")
TOPICS = {TOPIC_ID: TOPIC}


def outcome(number, error=None, *, is_duplicate=False):
    return PartitionBatch(
        key=PartitionKey(TOPIC_ID, number),
        staged=staged("a", str(number or 1)),
        holders=(),
        base_offset=None if error is not None else Offset(10 * number),
        is_duplicate=is_duplicate,
        error=error,
    )


def test_a_result_is_told_in_one_line():
    parts = [outcome(at, is_duplicate=at == 2) for at in range(1, 19)]
    [result] = append_results(TOPICS, parts, {}, is_waited_for=True)

    assert str(result).startswith(
        f"169 records appended to {TOPIC}, 2 found as appended before; offsets by partition:"
        " 1: 10-10, 2: 20-21, "
    )
    assert str(result).endswith(", 16: 160-175, and 2 partitions more")


@pytest.mark.parametrize(
    "duplicates, expected", [([], False), ([True, False], False), ([True, True], True)]
)
def test_an_append_is_a_duplicate_where_all_of_it_stood_in_the_log(duplicates, expected):
    outcomes = [outcome(at, is_duplicate=each) for at, each in enumerate(duplicates, 1)]
    [result] = append_results(TOPICS, outcomes, {}, is_waited_for=True)

    assert result.is_duplicate is expected


@pytest.mark.parametrize(
    "second, errors",
    [(AWAY, None), (LATE, {1: "KafkaStorageError", 2: "RequestTimedOutError"})],
    ids=["of one kind", "of two kinds"],
)
def test_the_first_error_says_what_became_of_each_partition(second, errors):
    with pytest.raises(KafkaStorageError, match="the root is away") as caught:
        append_results(
            TOPICS, [outcome(0), outcome(1, AWAY), outcome(2, second)], {}, is_waited_for=True
        )

    context = caught.value.context
    assert (context["topic"], context["failed"], context["acknowledged"]) == (TOPIC, [1, 2], [0])
    assert context.get("errors") == errors


def test_with_acks_0_no_error_is_raised():
    [result] = append_results(TOPICS, [outcome(1, AWAY)], {}, is_waited_for=False)

    assert result.partitions[1].base_offset is None


def whole(*parts, names=None):
    """Return the digest of an append of `parts`: topic, partition and its records' digest."""
    given = [
        PartitionBatch(
            key=PartitionKey(topic, number),
            staged=staged(f"v{place}", producer=stamp(0, digest=digest)),
            holders=(),
        )
        for place, (topic, number, digest) in enumerate(parts)
    ]
    stamp_as_one(names or {"A": "a", "B": "b", "C": "a"}, given)
    [digest] = {part.staged.producer.payload_digest for part in given}
    return digest


def test_all_headers_of_an_append_have_one_digest_of_all_its_partitions():
    digest = whole(("A", 0, 1), ("A", 1, -2), ("B", 0, 3))

    assert whole(("B", 0, 3), ("A", 1, -2), ("A", 0, 1)) == digest
    assert whole(("C", 0, 1), ("C", 1, -2), ("B", 0, 3)) == digest  # created anew since
    others = [
        whole(("A", 0, 1), ("A", 1, -2)),
        whole(("A", 0, 1), ("A", 1, -2), ("B", 0, 4)),
        whole(("A", 0, -2), ("A", 1, 1), ("B", 0, 3)),
        whole(("A", 0, 1), ("A", 1, -2), ("B", 1, 3)),
    ]
    assert digest not in others


STAGED = StagedSegment(partition=0, segment=None)
NO_ROOT = StagedSegment(partition=-1, segment=None, refusal=KafkaStorageError("away"))
DENIED = StagedSegment(partition=-1, segment=None, refusal=RootAccessDeniedError("away"))
TOO_LARGE = StagedSegment(partition=-1, segment=None, refusal=MessageTooLargeError("away"))

# fmt: off
CASES = [
    pytest.param([],                        False, id="no records"),
    pytest.param([STAGED],                  False, id="all is staged"),
    pytest.param([NO_ROOT],                    True,  id="a root is away"),
    pytest.param([STAGED, NO_ROOT],            True,  id="a root is away for one task"),
    pytest.param([NO_ROOT, NO_ROOT],              True,  id="a root is away for all tasks"),
    pytest.param([NO_ROOT, DENIED],            True,  id="a root is away, and one denies access"),
    pytest.param([TOO_LARGE],               False, id="a record is too large"),
    pytest.param([NO_ROOT, STAGED, TOO_LARGE], False, id="a record is too large, and a root is away"),
]
# fmt: on


@pytest.mark.parametrize("rows, expected", CASES)
def test_nobody_was_reached_if_roots_alone_are_to_blame(rows, expected):
    assert is_unreached(rows) is expected


# fmt: off
DIGESTS = [  # of the rows                  of the append
    pytest.param([1, 2],                     3,            id="a sum"),
    pytest.param([-5, 2],                    -3,           id="below 0"),
    pytest.param([2**63 - 1, 1],             -(2**63),     id="over the top"),
    pytest.param([-(2**63), -1],             2**63 - 1,    id="under the bottom"),
    pytest.param([2**63 - 1, 2**63 - 1, 2],  0,            id="around"),
]
TARGETS = [  # acks   leader   files at once  and later
    pytest.param("all", 2,     [2, 1, 3],     [],        id="all: everybody in sync, the leader first"),
    pytest.param("1",   2,     [2],           [1, 3],    id="1: the leader, the others while it commits"),
    pytest.param("0",   2,     [2],           [],        id="0: the leader alone"),
    pytest.param("1",   None,  [1, 2, 3],     [],        id="without a leader: who may be the next"),
]
# fmt: on


@pytest.mark.parametrize("rows, expected", DIGESTS)
def test_the_digest_of_an_append_is_the_sum_of_its_files_as_a_signed_number(rows, expected):
    run = ProducerRun(producer_id="p", producer_epoch=3, sequence=7)

    stamp = _stamp(run, [replace(STAGED, payload_digest=each) for each in rows])

    assert (stamp.payload_digest, stamp.sequence, stamp.producer_epoch) == (expected, 7, 3)


@pytest.mark.parametrize("acks, leader, first, later", TARGETS)
def test_files_are_written_where_the_append_needs_them(acks, leader, first, later):
    image = image_of(partition("3 1 2 4", isr="1 2 3", leader=leader), ids="1 2 3 4")

    order = plan_stage(image, image.topic(TOPIC), acks=acks, has_producer=False, now_ms=5)

    target = order.targets[0]
    assert [each.broker_id for each in target.replicas] == first
    assert [each.broker_id for each in target.others] == later
    assert target.has_leader is (leader is not None)
    assert order.now_us == 5000


def collected(*rows):
    image = image_of(partition("1"), partition("1"))
    topic = image.topic(TOPIC)
    order = plan_stage(image, topic, acks="all", has_producer=False, now_ms=NOW_MS)
    plan = AppendPlan(
        topic_id=topic.topic_id, topic=TOPIC, order=order, acks="all", producer=None, timeout_ms=1
    )
    return collect_batches(image, plan, rows, NOW_MS)


@pytest.mark.parametrize("place", [0, 1])
def test_one_task_that_refuses_refuses_the_append(place):
    rows = [StagedSegment(partition=0, segment=segment("a"))]
    rows.insert(place, replace(TOO_LARGE, refusal=MessageTooLargeError("a record of 2 MB")))

    with pytest.raises(MessageTooLargeError, match="a record of 2 MB"):
        collected(*rows)


@pytest.mark.parametrize("count, is_refused", [(3, False), (4, True)])
def test_an_append_of_more_segments_than_a_commit_can_name_is_refused(
    monkeypatch, count, is_refused
):
    """A commit of 92,000 segments could be put, and nobody could read the replica after it."""
    monkeypatch.setattr(append, "SEGMENTS_A_BATCH_MAX", 3)
    rows = [StagedSegment(partition=1, segment=segment(f"s{each}")) for each in range(count)]
    rows += [StagedSegment(partition=0, segment=segment(f"t{each}")) for each in range(3)]

    if is_refused:
        with pytest.raises(MessageTooLargeError, match="of 4 segments to partition 1 of topic"):
            collected(*rows)
    else:
        assert [len(each.staged.segments) for each in collected(*rows)] == [3, count]


@pytest.mark.parametrize(
    "first_us, last_us, said",
    [
        (-(2**52), NOW_MS * 1000, None),
        (0, (NOW_MS + 3_600_001) * 1000, "more than 3600000 ms after its append"),
        (0, 2**62, f"{2**62} µs since 1970"),
    ],
)
def test_an_append_with_a_time_that_its_topic_does_not_allow_is_refused(first_us, last_us, said):
    row = replace(segment("a", 2), timestamp_min_us=first_us, timestamp_max_us=last_us)
    rows = [StagedSegment(partition=0, segment=each) for each in (segment("b"), row)]

    if said is None:
        assert len(collected(*rows)) == 1
    else:
        with pytest.raises(InvalidTimestampError, match=said):
            collected(*rows)


BEFORE = NotEnoughReplicasError("refused")
AFTER = NotEnoughReplicasAfterAppendError("may stand")


class Appends:
    """An append that raises errors, one each time and the last one again, or returns at the end."""

    def __init__(self, *errors, returns=True):
        self._errors = list(errors)
        self._returns = returns
        self.tries = 0

    def __call__(self):
        self.tries += 1
        if self._returns and self.tries > len(self._errors):
            return "appended"
        raise self._errors[min(self.tries, len(self._errors)) - 1]


def run(appends, catch_up=lambda: None, clock=None, timeout_ms=5000):
    clock = FakeClock() if clock is None else clock
    return append_when_in_sync(appends, catch_up, clock, timeout_ms=timeout_ms)


@pytest.mark.parametrize("errors", [[], [BEFORE], [AFTER], [BEFORE, AFTER, BEFORE]])
def test_an_append_is_tried_until_enough_replicas_are_in_sync(errors):
    caught_up, clock = [], FakeClock()

    assert run(Appends(*errors), lambda: caught_up.append(1), clock) == "appended"

    assert len(caught_up) == len(clock.slept_ms) == len(errors)


def test_an_append_ends_when_its_time_is_up():
    clock = FakeClock()

    with pytest.raises(NotEnoughReplicasError, match="refused"):
        run(Appends(BEFORE, returns=False), clock=clock)

    assert sum(clock.slept_ms) <= 5000


@pytest.mark.parametrize("errors", [[BEFORE, AFTER, BEFORE], [AFTER, BEFORE]])
def test_what_may_stand_is_not_called_refused_by_a_later_try(errors):
    with pytest.raises(NotEnoughReplicasAfterAppendError, match="may stand"):
        run(Appends(*errors, returns=False))


def test_another_error_is_not_waited_out():
    appends = Appends(BEFORE, ProducerFencedError("a newer run"))

    with pytest.raises(ProducerFencedError):
        run(appends)

    assert appends.tries == 2


def test_metadata_that_can_not_be_caught_up_with_ends_the_wait():
    def catch_up():
        raise QuorumUnavailableError("away")

    with pytest.raises(QuorumUnavailableError):
        run(Appends(BEFORE), catch_up)
