"""A replica's log begins where it was decided, if it reaches that far."""

import pytest

from kafka_on_spark.ids import Offset
from kafka_on_spark.service.replica.log_starts import advance_to
from tests.builders import address
from tests.unit.service.read.test_reading import replicas_of


@pytest.mark.parametrize("offset, begins_at", [(0, 0), (2, 2), (3, 3), (4, 0)])
def test_a_log_may_begin_up_to_its_end_and_not_above(offset, begins_at):
    replica = replicas_of(on_1="0:abc").open(address(1))

    after = advance_to(replica, replica.load(), Offset(offset))

    assert after.log_start_offset == begins_at
    assert after.log_end_offset == 3
