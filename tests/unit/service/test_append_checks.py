"""What acks=all asks of a partition, before and after the write."""

import pytest

from kafka_on_spark.errors import (
    KafkaStorageError,
    NotEnoughReplicasAfterAppendError,
    NotEnoughReplicasError,
)
from kafka_on_spark.service.append_checks import check_min_isr, is_acknowledged, is_committed
from tests.builders import KEY, image_of, log, partition

LOG = log("5:abc", fence=5)  # the append is `b`
SHORT, OTHER = log("5:a", fence=5), log("5:axcd", fence=5)

# fmt: off
COMMITTED = [  # its leader's log as it was seen, the high watermark, and whose it is   committed
    pytest.param(LOG,                        2, LOG,   True,  id="the-high-watermark-has-reached-it"),
    pytest.param(LOG,                        3, LOG,   True,  id="and-gone-on"),
    pytest.param(LOG,                        1, LOG,   False, id="the-high-watermark-is-below-it"),
    pytest.param(log("4:ab", fence=4),       2, LOG,   False, id="seen-in-the-log-of-a-deposed-leader"),
    pytest.param(LOG,                        2, OTHER, False, id="another-was-committed-in-its-place-in-the-same-epoch"),
    pytest.param(LOG,                        3, OTHER, False, id="and-more-after-it"),
    pytest.param(OTHER,                      2, OTHER, False, id="its-leader-was-set-back-and-has-another-there"),
    pytest.param(SHORT,                      2, LOG,   False, id="its-leader-was-set-back"),
    pytest.param(LOG,                        4, OTHER, False, id="the-high-watermark-is-above-what-was-seen"),
]
# fmt: on


@pytest.mark.parametrize("found, hw, committed, expected", COMMITTED)
def test_an_append_is_committed_only_where_the_chain_is_the_registers(
    found, hw, committed, expected
):
    registered = partition("1 2", hw=hw, hw_epoch=5, hw_chain=committed.chain_at(hw))

    assert is_committed(registered, found, LOG.batches[1]) is expected


def test_an_append_that_was_committed_and_has_left_the_log_stands():
    assert is_committed(partition("1 2", hw=2), log("5:d", base=2, fence=5), None)


class Leader:
    """A leader's log that is read again."""

    def __init__(self, now):
        self.load = lambda: self.now()
        self.now = now


def away():
    raise KafkaStorageError("the root is away")


@pytest.mark.parametrize(
    "now, expected",
    [
        pytest.param(lambda: log("5:abcd", fence=5), True, id="it-stands-there"),
        pytest.param(lambda: log("5:axcd", fence=5), False, id="another-stands-there"),
        pytest.param(lambda: log("5:abc", fence=5), False, id="an-old-look"),
        pytest.param(away, False, id="it-does-not-answer"),
    ],
)
def test_where_others_have_committed_more_an_append_is_read_back(now, expected):
    committed = log("5:abcd")
    registered = partition("1 2", hw=4, hw_epoch=5, hw_chain=committed.chain_digest)

    assert is_acknowledged(registered, LOG, LOG.batches[1], Leader(now)) is expected


@pytest.mark.parametrize("minimum, is_refused", [("1", False), ("2", False), ("3", True)])
def test_too_few_replicas_are_told_before_the_write_and_after_it(minimum, is_refused):
    registered = partition("1 2 3", "1 2")
    image = image_of(registered, configs={"min.insync.replicas": minimum})

    for is_appended, refusal in (
        (False, NotEnoughReplicasError),
        (True, NotEnoughReplicasAfterAppendError),
    ):
        if is_refused:
            with pytest.raises(refusal, match="2 replicas in sync"):
                check_min_isr(image, KEY, registered, is_appended=is_appended)
        else:
            check_min_isr(image, KEY, registered, is_appended=is_appended)
