"""A replica's log begins where it was decided, if it reaches that far."""

import pytest

from kafka_on_spark.base.ids import Offset
from kafka_on_spark.log import operations
from kafka_on_spark.log.replica_operations import advance_to
from tests.builders import address
from tests.log.test_reading import replicas_of


@pytest.mark.parametrize("offset, begins_at", [(0, 0), (2, 2), (3, 3), (4, 0)])
def test_a_log_may_begin_up_to_its_end_and_not_above(offset, begins_at):
    replica = replicas_of(on_1="0:abc").open(address(1))

    after = advance_to(replica, replica.load(), Offset(offset))

    assert after.log_start_offset == begins_at
    assert after.log_end_offset == 3


def test_a_log_start_is_reached_in_as_many_commits_as_its_files_take(monkeypatch):
    monkeypatch.setattr(operations, "FILES_A_CHANGE_MAX", 2)
    replica = replicas_of(on_1="0:abcde").open(address(1))
    before = replica.load()

    after = advance_to(replica, before, Offset(5))

    assert (after.log_start_offset, after.batches) == (5, ())
    assert after.version == before.version + 3
