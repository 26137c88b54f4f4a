"""Where a batch of a stream may begin and end."""

import pytest

from kafka_on_spark.base.errors import InvalidRequestError, OffsetOutOfRangeError
from kafka_on_spark.consume.read_plan import check_end, check_order, plan_ranges
from kafka_on_spark.consume.stream_offsets import StreamOffset
from tests.builders import TOPIC, image_of, partition

IMAGE = image_of(partition("1", hw=3, hw_epoch=0, leo=5))


def at(offset):
    return StreamOffset(positions={TOPIC: {0: offset}})


@pytest.mark.parametrize("end", [0, 2, 3, 4, 5])
def test_a_batch_ends_at_or_below_the_log_end(end):
    check_end(IMAGE, at(end))


@pytest.mark.parametrize("end", [6, 9])
def test_a_batch_that_ends_above_the_log_end_is_refused(end):
    with pytest.raises(OffsetOutOfRangeError, match="its log ends at 5 and is committed up to 3"):
        check_end(IMAGE, at(end))


# fmt: off
ORDERS = [  # start end
    pytest.param(0, 3, id="forward"),
    pytest.param(2, 2, id="empty"),
    pytest.param(4, 3, id="between the high watermark and the log end it waits"),
    pytest.param(5, 3, id="at the log end, too"),
]
BACKWARD = [
    pytest.param(2, 1, id="below the high watermark"),
    pytest.param(6, 3, id="from above the log end"),
    pytest.param(5, 4, id="to no end of what is committed"),
]
# fmt: on


@pytest.mark.parametrize("start, end", ORDERS)
def test_a_batch_may_be_empty(start, end):
    check_order(IMAGE, at(start), at(end))


@pytest.mark.parametrize("start, end", BACKWARD)
def test_a_batch_that_ends_before_it_begins_is_refused(start, end):
    with pytest.raises(InvalidRequestError, match="RESOLVED_START_OFFSET_GREATER"):
        check_order(IMAGE, at(start), at(end))


@pytest.mark.parametrize(
    "log_start, is_strict, is_refused", [(0, True, False), (1, True, True), (1, False, False)]
)
def test_a_partition_that_came_later_is_read_from_its_first_record(
    log_start, is_strict, is_refused
):
    image = image_of(partition("1", hw=3, hw_epoch=0, leo=5, start=log_start))
    start = StreamOffset(positions={TOPIC: {}})

    def planned():
        return plan_ranges(
            image,
            start,
            at(3),
            is_data_loss_failed=is_strict,
            client_rack=None,
            find_cuts=lambda generations: {},
        )

    if is_refused:
        with pytest.raises(OffsetOutOfRangeError, match="starts from 1 instead of 0"):
            planned()
    else:
        assert [(each.start_offset, each.end_offset) for each in planned()] == [(log_start, 3)]
