"""What a leader's log answers a fetch, and what a follower does about a refusal."""

import pytest

from kafka_on_spark.base.errors import (
    ERROR_BY_CODE,
    UNKNOWN_SERVER_ERROR,
    FencedLeaderEpochError,
    OffsetOutOfRangeError,
)
from kafka_on_spark.log import truncation
from kafka_on_spark.log.fetch import FetchAction, after_refusal
from kafka_on_spark.log.truncation import first_batches
from tests.builders import batch

# fmt: off
TAKEN = [  # bytes  files  taken
    pytest.param(900, 9, 3, id="all"),
    pytest.param(600, 9, 2, id="as-many-as-have-the-bytes"),
    pytest.param(599, 9, 1, id="whole-ones"),
    pytest.param(1,   9, 1, id="one-however-large"),
    pytest.param(900, 3, 2, id="as-many-as-have-the-files"),
    pytest.param(900, 1, 1, id="one-however-many-files-it-has"),
]
# fmt: on


@pytest.mark.parametrize("bytes_max, files_max, count", TAKEN)
def test_a_fetch_takes_whole_batches_that_one_commit_can_name(
    monkeypatch, bytes_max, files_max, count
):
    monkeypatch.setattr(truncation, "FILES_A_CHANGE_MAX", files_max)
    batches = [batch("a", 0, "2 1"), batch("b", 3, "3"), batch("c", 6, "1 1 1")]

    assert first_batches(batches, bytes_max) == batches[:count]


def test_after_a_refusal():
    """Only two refusals are not simply tried again."""
    actions = {
        code: after_refusal(code, asked_epoch=5, current_epoch=5)
        for code in (*ERROR_BY_CODE, UNKNOWN_SERVER_ERROR)
    }

    special = {code: each for code, each in actions.items() if each is not FetchAction.RETRY}
    assert special == {
        OffsetOutOfRangeError.code: FetchAction.RESET,
        FencedLeaderEpochError.code: FetchAction.WAIT_FOR_METADATA,
    }
