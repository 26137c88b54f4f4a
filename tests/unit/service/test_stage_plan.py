"""What an append makes of its tasks' answers."""

import pytest

from kafka_on_spark.errors import KafkaStorageError, MessageTooLargeError
from kafka_on_spark.service.stage_plan import StagedSegment, is_unreached

STAGED = StagedSegment(partition=0, segment=None)
AWAY = StagedSegment(partition=-1, segment=None, error_code=KafkaStorageError.code)
TOO_LARGE = StagedSegment(partition=-1, segment=None, error_code=MessageTooLargeError.code)

# fmt: off
CASES = [
    pytest.param([],                        False, id="no records"),
    pytest.param([STAGED],                  False, id="all is staged"),
    pytest.param([AWAY],                    True,  id="a root is away"),
    pytest.param([STAGED, AWAY],            True,  id="a root is away for one task"),
    pytest.param([AWAY, AWAY],              True,  id="a root is away for all tasks"),
    pytest.param([TOO_LARGE],               False, id="a record is too large"),
    pytest.param([AWAY, STAGED, TOO_LARGE], False, id="a record is too large, and a root is away"),
]
# fmt: on


@pytest.mark.parametrize("rows, expected", CASES)
def test_nobody_was_reached_if_roots_alone_are_to_blame(rows, expected):
    assert is_unreached(rows) is expected
