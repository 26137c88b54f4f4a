"""What refuses an append as a whole, before its first commit: earlier tries that stand somewhere."""

import pytest

from kafka_on_spark.base.errors import (
    DuplicateSequenceError,
    OutOfOrderSequenceError,
    ProducerFencedError,
    UnknownProducerIdError,
)
from kafka_on_spark.base.ids import PartitionKey
from kafka_on_spark.produce.preconditions import EarlierTries, check_tries
from kafka_on_spark.produce.stage_plan import (
    AppendPlan,
    ProducerRun,
    StageOrder,
    as_one_append,
)
from kafka_on_spark.produce.stages import StagedPart
from tests.builders import KEY, TOPIC_ID, entry, image_of, log, partition, staged, stamp

TWO = image_of(partition("1 2"), partition("1 2"))
OTHER = KEY._replace(partition=1)
BOTH = [KEY, OTHER]


def plan(*, sequence=1, epoch=0, is_next=True, is_only=False, is_by_partition=False):
    order = StageOrder(
        targets=(), has_producer=True, now_us=0, record_bytes_max=1, segment_bytes_max=1
    )
    run = ProducerRun(
        producer_id="p", producer_epoch=epoch, sequence=sequence, is_next=is_next, is_only=is_only
    )
    return AppendPlan(
        topic_id=TOPIC_ID,
        order=order,
        acks="all",
        producer=run,
        timeout_ms=1,
        is_by_partition=is_by_partition,
    )


# fmt: off
LOOKS = [  # an append, another of which the topic was looked at before (7 stood there), and whether it is looked at now
    pytest.param(plan(is_only=True),                None,          False, id="of an id that is new, or that this run alone has had"),
    pytest.param(plan(is_only=True, is_next=False), None,          True,  id="a retry in such a run"),
    pytest.param(plan(),                            None,          True,  id="the first of a run after others"),
    pytest.param(plan(sequence=8),                  plan(),        False, id="the next of such a run"),
    pytest.param(plan(sequence=7),                  plan(),        True,  id="one that an earlier run had begun"),
    pytest.param(plan(is_next=False),               plan(),        True,  id="a retry in such a run after others"),
    pytest.param(plan(epoch=2),                     plan(epoch=1), True,  id="the first of another run"),
    pytest.param(plan(is_by_partition=True),        None,          False, id="a Producer's"),
]
# fmt: on


@pytest.mark.parametrize("append, before, is_looked_at", LOOKS)
def test_a_topic_is_looked_at_where_an_earlier_try_may_stand(append, before, is_looked_at):
    tries = EarlierTries()
    if before is not None:
        tried = tries.partitions(TWO, [before])
        assert list(tried) == BOTH
        part = StagedPart(key=KEY, batch=staged("z", producer=stamp(1)), holders=())
        check_tries(TWO, {KEY: EMPTY, OTHER: log("0:a", stamps={"a": stamp(7)})}, [part], tried)
        tries.looked_at([before], tried)

    assert list(tries.partitions(TWO, [append])) == (BOTH if is_looked_at else [])


WITH_5 = log("0:a", stamps={"a": stamp(5, digest=7)})
WITH_8 = log("0:a", stamps={"a": stamp(8, digest=7)})
EMPTY = log("")
WAS_5 = log("", producers={"p": entry(5, base=0)}, base=3)
WAS_8 = log("", producers={"p": entry(8, base=0)}, base=3)
IS_NEWER = log("", producers={"p": entry(epoch=1)})


# fmt: off
TRIES = [  # the log of the partition that gets records, of the other one, the digest, and what is said
    pytest.param(EMPTY,    EMPTY,    7, None,                    id="it is new"),
    pytest.param(EMPTY,    None,     7, None,                    id="it is new, and the other partition was never made"),
    pytest.param(WITH_5,   EMPTY,    7, None,                    id="the same stands where it goes"),
    pytest.param(EMPTY,    WITH_5,   7, None,                    id="the same stands in the other"),
    pytest.param(WITH_5,   EMPTY,    9, DuplicateSequenceError,  id="other records stand where it goes"),
    pytest.param(EMPTY,    WITH_5,   9, DuplicateSequenceError,  id="other records stand in the other"),
    pytest.param(EMPTY,    WAS_5,    9, DuplicateSequenceError,  id="and were deleted since"),
    pytest.param(WAS_8,    EMPTY,    7, UnknownProducerIdError,  id="only a number is left where it goes"),
    pytest.param(EMPTY,    WAS_8,    7, UnknownProducerIdError,  id="only a number is left in the other"),
    pytest.param(WITH_8,   EMPTY,    7, OutOfOrderSequenceError, id="a later one stands where it goes"),
    pytest.param(EMPTY,    WITH_8,   7, None,                    id="a later one stands in the other, and it does not"),
    pytest.param(EMPTY,    IS_NEWER, 7, ProducerFencedError,     id="a newer run has begun in the other"),
]
# fmt: on


@pytest.mark.parametrize("own, other, digest, error", TRIES)
def test_an_append_is_refused_as_a_whole_for_what_stands_in_any_partition(
    own, other, digest, error
):
    part = StagedPart(key=KEY, batch=staged("z", producer=stamp(5, digest=digest)), holders=())
    logs = {KEY: own, OTHER: other}

    if error is None:
        check_tries(TWO, logs, [part], dict.fromkeys(BOTH, -1))
        return
    with pytest.raises(error):
        check_tries(TWO, logs, [part], dict.fromkeys(BOTH, -1))


def whole(*parts, names=None):
    """Return the digest of an append of `parts`: topic, partition and its records' digest."""
    given = [
        StagedPart(
            key=PartitionKey(topic, number),
            batch=staged(f"v{place}", producer=stamp(0, digest=digest)),
            holders=(),
        )
        for place, (topic, number, digest) in enumerate(parts)
    ]
    made = as_one_append(names or {"A": "a", "B": "b", "C": "a"}, given)
    [digest] = {part.batch.producer.payload_digest for part in made}
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
