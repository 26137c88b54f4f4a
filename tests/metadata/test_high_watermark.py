"""How far a partition is committed: named cases, then every small round."""

import pytest

from kafka_on_spark.base.errors import KafkaStorageError
from kafka_on_spark.base.ids import PartitionKey
from kafka_on_spark.metadata.partition import has_all_committed
from kafka_on_spark.metadata.reports import advance_high_watermark, is_under_min_isr
from tests.builders import KEY, TOPIC_ID, digest_at, image_of, partition, report, seen

OFFLINE = {"error_code": KafkaStorageError.code}
BEFORE = partition("1 2 3", hw=10, hw_epoch=4, leo=12)


# fmt: off
CASES = [  # partition                       leader, followers                                       min  high watermark, epoch, log end
    pytest.param(BEFORE,                     [seen(1, 20), seen(2, 18), seen(3, 15, last_epoch=4)],  "1", (15, 4, 20),      id="smallest-log-end-in-the-isr"),
    pytest.param(partition("1 2 3", isr="1 2", hw=10, leo=12), [seen(1, 20), seen(2, 18), seen(3, 11)], "1", (18, 5, 20),   id="outsiders-do-not-hold-it"),
    pytest.param(partition("1 2 3", isr="1", hw=10, leo=12), [seen(1, 20)],                          "1", (20, 5, 20),      id="leader-alone"),
    # It never falls, and nothing is said where nothing is new.
    pytest.param(BEFORE,                     [seen(1, 20), seen(2, 18), seen(3, 10)],                "1", (None, None, 20), id="held-by-one-only-the-end-is-said"),
    pytest.param(BEFORE,                     [seen(1, 20), seen(2, 18), seen(3, 7)],                 "1", (None, None, 20), id="never-falls"),
    pytest.param(BEFORE,                     [seen(1, 12), seen(2, 12), seen(3, 10)],                "1", None,             id="nothing-new"),
    # A member that can't be counted holds it where it is.
    pytest.param(BEFORE,                     [seen(1, 20), seen(2, 18), seen(3, 20, fence=4)],       "1", (None, None, 20), id="member-not-fenced-holds-it"),
    pytest.param(BEFORE,                     [seen(1, 20), seen(2, 18), seen(3, 20, is_matched=False)], "1", (None, None, 20), id="member-with-another-log-holds-it"),
    pytest.param(BEFORE,                     [seen(1, 20), seen(2, 18), seen(3, 0, **OFFLINE)],      "1", (None, None, 20), id="member-that-does-not-answer-holds-it"),
    pytest.param(BEFORE,                     [seen(1, 20), seen(2, 18)],                             "1", (None, None, 20), id="member-not-seen-holds-it"),
    # Below the minimum it stands still (I9); the minimum is at most the number of replicas.
    pytest.param(partition("1 2 3", isr="1", hw=10, leo=12), [seen(1, 20)],                          "2", (None, None, 20), id="below-the-minimum-it-stands-still"),
    pytest.param(partition("1 2", hw=10, leo=12), [seen(1, 20), seen(2, 15)],                        "3", (15, 5, 20),      id="minimum-above-the-replicas"),
    # The leader itself must be in its own leadership.
    pytest.param(BEFORE,                     [seen(1, 20, fence=4), seen(2, 20), seen(3, 20)],       "1", None,             id="leader-not-fenced"),
    pytest.param(BEFORE,                     [seen(1, 0, **OFFLINE), seen(2, 20), seen(3, 20)],      "1", None,             id="leader-does-not-answer"),
]
# fmt: on


@pytest.mark.parametrize("before, rows, minimum, expected", CASES)
def test_advance_high_watermark(before, rows, minimum, expected):
    image = image_of(before, configs={"min.insync.replicas": minimum})

    record = advance_high_watermark(image, report(*rows))

    if expected is None:
        assert record is None
        return
    assert (record.high_watermark, record.high_watermark_epoch, record.log_end_offset) == expected
    assert (record.leader_epoch, record.partition_epoch, record.key) == (5, 9, KEY)


@pytest.mark.parametrize(
    "fields",
    [
        {"epoch": 4},
        {"version": 8},
        {"key": PartitionKey(TOPIC_ID, 3)},
        {"key": PartitionKey("0" * 32, 0)},
    ],
)
def test_report_on_an_older_image_says_nothing(fields):
    rows = [seen(each, 20, fence=fields.get("epoch", 5)) for each in (1, 2, 3)]

    assert advance_high_watermark(image_of(BEFORE), report(*rows, **fields)) is None


# fmt: off
PROOFS = [  # log start, end, epoch below, chain     proves  against start 3, high watermark 10 of epoch 4
    pytest.param(3, 10, 4,    digest_at(10), True,  id="exactly-what-is-committed"),
    pytest.param(0, 99, 4,    digest_at(10), True,  id="more"),
    pytest.param(4, 10, 4,    digest_at(10), False, id="starts-too-late"),
    pytest.param(3, 9,  4,    digest_at(10), False, id="ends-too-early"),
    pytest.param(3, 10, 3,    digest_at(10), False, id="another-epoch-below-the-high-watermark"),
    pytest.param(3, 10, None, digest_at(10), False, id="no-record-below-the-high-watermark"),
    pytest.param(3, 10, 4,    digest_at(9),  False, id="another-log-of-the-same-epochs"),
    pytest.param(3, 10, 4,    None,          False, id="no-batch-ends-there"),
]
# fmt: on


@pytest.mark.parametrize("start, end, epoch, chain, proves", PROOFS)
def test_proof_of_having_all_committed_records(start, end, epoch, chain, proves):
    before = partition("1", hw=10, hw_epoch=4, start=3)

    assert proves is has_all_committed(
        before,
        log_start_offset=start,
        log_end_offset=end,
        epoch_below_high_watermark=epoch,
        chain_at_high_watermark=chain,
    )


@pytest.mark.parametrize(
    "isr, minimum, expected",
    [("1", "2", True), ("1 2", "2", False), ("1 2 3", "9", False), ("1 2", "9", True)],
)
def test_under_the_minimum(isr, minimum, expected):
    before = partition("1 2 3", isr=isr)
    image = image_of(before, configs={"min.insync.replicas": minimum})

    assert is_under_min_isr(image, TOPIC_ID, before) is expected
