"""What acks=all asks of a partition, before and after the write."""

import pytest

from kafka_on_spark.errors import NotEnoughReplicasAfterAppendError, NotEnoughReplicasError
from kafka_on_spark.service.append_checks import check_min_isr, is_committed
from tests.builders import KEY, image_of, partition

# fmt: off
COMMITTED = [  # seen in epoch  ends at  committed
    pytest.param(5,    10,   True,  id="the-high-watermark-has-reached-it"),
    pytest.param(5,    11,   False, id="the-high-watermark-is-in-it"),
    pytest.param(4,    10,   False, id="seen-in-the-log-of-a-deposed-leader"),
    pytest.param(None, 10,   False, id="not-seen-in-this-round"),
    pytest.param(5,    None, True,  id="retention-has-taken-it-since"),
]
# fmt: on


@pytest.mark.parametrize("seen_epoch, end, expected", COMMITTED)
def test_append_is_committed_only_in_the_log_of_the_current_leader(seen_epoch, end, expected):
    registered = partition("1 2", epoch=5, hw=10)

    assert is_committed(registered, seen_epoch=seen_epoch, end_offset=end) is expected


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
