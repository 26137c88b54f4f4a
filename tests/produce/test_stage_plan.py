"""What an append makes of its tasks' answers."""

from dataclasses import replace

import pytest

from kafka_on_spark.base.errors import (
    KafkaStorageError,
    MessageTooLargeError,
    RootAccessDeniedError,
)
from kafka_on_spark.produce import stage_plan
from kafka_on_spark.produce.stage_plan import (
    ProducerRun,
    StagedSegment,
    _stamp,
    collect_parts,
    is_unreached,
    plan_stage,
)
from tests.builders import NOW_MS, TOPIC, image_of, partition, segment

STAGED = StagedSegment(partition=0, segment=None)
AWAY = StagedSegment(partition=-1, segment=None, error_code=KafkaStorageError.code)
DENIED = StagedSegment(partition=-1, segment=None, error_code=RootAccessDeniedError.code)
TOO_LARGE = StagedSegment(partition=-1, segment=None, error_code=MessageTooLargeError.code)

# fmt: off
CASES = [
    pytest.param([],                        False, id="no records"),
    pytest.param([STAGED],                  False, id="all is staged"),
    pytest.param([AWAY],                    True,  id="a root is away"),
    pytest.param([STAGED, AWAY],            True,  id="a root is away for one task"),
    pytest.param([AWAY, AWAY],              True,  id="a root is away for all tasks"),
    pytest.param([AWAY, DENIED],            True,  id="a root is away, and one denies access"),
    pytest.param([TOO_LARGE],               False, id="a record is too large"),
    pytest.param([AWAY, STAGED, TOO_LARGE], False, id="a record is too large, and a root is away"),
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
    return collect_parts(
        image, topic, order, rows, producer=None, expected_offsets={}, now_ms=NOW_MS
    )


@pytest.mark.parametrize("place", [0, 1])
def test_one_task_that_refuses_refuses_the_append(place):
    rows = [StagedSegment(partition=0, segment=segment("a"))]
    rows.insert(place, replace(TOO_LARGE, error="a record of 2 MB"))

    with pytest.raises(MessageTooLargeError, match="a record of 2 MB"):
        collected(*rows)


@pytest.mark.parametrize("count, is_refused", [(3, False), (4, True)])
def test_an_append_of_more_segments_than_a_commit_can_name_is_refused(
    monkeypatch, count, is_refused
):
    """A commit of 92,000 segments could be put, and nobody could read the replica after it."""
    monkeypatch.setattr(stage_plan, "SEGMENTS_A_BATCH_MAX", 3)
    rows = [StagedSegment(partition=1, segment=segment(f"s{each}")) for each in range(count)]
    rows += [StagedSegment(partition=0, segment=segment(f"t{each}")) for each in range(3)]

    if is_refused:
        with pytest.raises(MessageTooLargeError, match="of 4 segments to partition 1 of topic"):
            collected(*rows)
    else:
        assert [len(each.batch.segments) for each in collected(*rows)] == [3, count]
