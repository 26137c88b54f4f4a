"""What acks=all asks of a partition, before and after the write."""

import pytest

from kafka_on_spark.errors import NotEnoughReplicasAfterAppendError, NotEnoughReplicasError
from kafka_on_spark.service.append_checks import check_min_isr, is_committed
from tests.builders import KEY, image_of, partition, report, seen

# fmt: off
COMMITTED = [  # seen in epoch  ends at  what was seen of replicas 1 and 2              committed
    pytest.param(5,    10,   (seen(1, 10), seen(2, 12)),                    True,  id="the-high-watermark-has-reached-it"),
    pytest.param(5,    11,   (seen(1, 12), seen(2, 12)),                    False, id="the-high-watermark-is-in-it"),
    pytest.param(4,    10,   (seen(1, 10), seen(2, 12)),                    False, id="seen-in-the-log-of-a-deposed-leader"),
    pytest.param(None, 10,   (seen(1, 10), seen(2, 12)),                    False, id="not-seen-in-this-round"),
    pytest.param(5,    None, (seen(1, 10), seen(2, 12)),                    True,  id="it-has-left-the-log-since"),
    pytest.param(5,    10,   (seen(1, 10),),                                    False, id="a-member-was-not-seen"),
    pytest.param(5,    10,   (seen(1, 10), seen(2, 9)),                     False, id="a-member-is-shorter-now"),
    pytest.param(5,    10,   (seen(1, 10), seen(2, 10, fence=4)),                    False, id="a-member-has-not-adopted"),
    pytest.param(5,    10,   (seen(1, 10), seen(2, 10, is_matched=False)),  False, id="a-member-has-another-batch-there"),
    pytest.param(5,    10,   (),                                                    False, id="nothing-was-seen"),
]
# fmt: on


@pytest.mark.parametrize("seen_epoch, end, replicas, expected", COMMITTED)
def test_append_is_committed_only_where_all_members_were_seen_to_have_it(
    seen_epoch, end, replicas, expected
):
    registered = partition("1 2", epoch=5, hw=10)
    looked_at = report(*replicas) if replicas else None

    found = is_committed(registered, looked_at, seen_epoch=seen_epoch, end_offset=end)

    assert found is expected


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
