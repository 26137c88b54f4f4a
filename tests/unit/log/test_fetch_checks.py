"""The ladder of a fetch's checks, and what a follower does about an error."""

import pytest

from kafka_on_spark.errors import (
    FencedLeaderEpochError,
    NotLeaderOrFollowerError,
    OffsetOutOfRangeError,
    UnknownLeaderEpochError,
)
from kafka_on_spark.ids import LeaderEpoch, Offset
from kafka_on_spark.log.epochs import EpochEnd, epochs_of
from kafka_on_spark.log.fetch_checks import (
    FetchAction,
    action_after,
    check_fetch,
    check_request,
)
from tests.builders import log

# Epochs 2→10, 5→14, 7→16; log end 20.
LOG = log("2:aabb 5:cc 7:dddd", base=10)


# fmt: off
REQUESTS = [  # named  leads   needs   refused with
    pytest.param(None, True,  True,  None,                     id="names none"),
    pytest.param(5,    True,  True,  None,                     id="current"),
    pytest.param(4,    True,  True,  FencedLeaderEpochError,   id="older"),
    pytest.param(6,    True,  True,  UnknownLeaderEpochError,  id="newer"),
    pytest.param(None, False, True,  NotLeaderOrFollowerError, id="not led here"),
    pytest.param(4,    False, True,  FencedLeaderEpochError,   id="the epoch comes before the role"),
    pytest.param(5,    False, False, None,                     id="a follower may answer"),
]
FETCHES = [  # offset  epoch  answer
    pytest.param(20, 7,    None,                  id="at the end"),
    pytest.param(12, 2,    None,                  id="inside what is shared"),
    pytest.param(20, 5,    (5, 16),               id="has more of an epoch than the leader"),
    pytest.param(20, 6,    (5, 16),               id="an epoch that the leader has not"),
    pytest.param(21, 7,    (7, 20),               id="ahead in the same epoch"),
    pytest.param(12, 1,    (1, 10),               id="an epoch before all"),
    pytest.param(12, 8,    "above",               id="an epoch above all"),
    pytest.param(9,  2,    "below",               id="below the log start"),
    pytest.param(9,  1,    "below",               id="below the log start, and diverging"),
    pytest.param(21, None, "above",               id="above the end, without an epoch"),
    pytest.param(9,  None, "below",               id="below the start, without an epoch"),
]
# fmt: on


@pytest.mark.parametrize("named, leads, needs, refused", REQUESTS)
def test_a_request_is_checked_for_its_epoch_and_then_for_who_is_asked(named, leads, needs, refused):
    def check():
        epoch = None if named is None else LeaderEpoch(named)
        check_request(LeaderEpoch(5), epoch, is_leader=leads, needs_leader=needs)

    if refused is None:
        check()
        return
    with pytest.raises(refused):
        check()


@pytest.mark.parametrize("offset, epoch, answer", FETCHES)
def test_a_fetch_is_told_where_its_log_parts_from_this_one(offset, epoch, answer):
    def check():
        return check_fetch(
            epochs_of(LOG),
            log_start_offset=LOG.log_start_offset,
            log_end_offset=LOG.log_end_offset,
            fetch_offset=Offset(offset),
            last_fetched_epoch=None if epoch is None else LeaderEpoch(epoch),
        )

    if isinstance(answer, str):
        with pytest.raises(OffsetOutOfRangeError) as told:
            check()
        assert told.value.context["is_above"] is (answer == "above")
        return
    assert check() == (None if answer is None else EpochEnd(*answer))


# fmt: off
ACTIONS = [
    pytest.param("FENCED_LEADER_EPOCH",      5, 5, FetchAction.FAIL,               id="deposed"),
    pytest.param("FENCED_LEADER_EPOCH",      4, 5, FetchAction.RETRY_WITH_BACKOFF, id="has heard of the new one since"),
    pytest.param("UNKNOWN_LEADER_EPOCH",     5, 5, FetchAction.RETRY_WITH_BACKOFF, id="ahead of the leader"),
    pytest.param("OFFSET_OUT_OF_RANGE",      5, 5, FetchAction.OFFSET_RESET,       id="out of range"),
    pytest.param("CORRUPT_MESSAGE",          5, 5, FetchAction.RETRY_WITH_BACKOFF, id="corrupt"),
    pytest.param("KAFKA_STORAGE_ERROR",      5, 5, FetchAction.RETRY_WITH_BACKOFF, id="no answer"),
]
# fmt: on


@pytest.mark.parametrize("error, requested, current, action", ACTIONS)
def test_an_error_fails_a_partition_only_if_its_leadership_is_over(
    error, requested, current, action
):
    found = action_after(error, requested=LeaderEpoch(requested), current=LeaderEpoch(current))

    assert found is action
