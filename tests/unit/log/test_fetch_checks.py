"""What a leader's log answers a fetch, and what a follower does about a refusal."""

import pytest

from kafka_on_spark.errors import (
    ERROR_BY_CODE,
    UNKNOWN_SERVER_ERROR,
    FencedLeaderEpochError,
    OffsetOutOfRangeError,
)
from kafka_on_spark.log.epochs import EpochEnd
from kafka_on_spark.log.follower import fetch_checks
from kafka_on_spark.log.follower.fetch_checks import (
    FetchAction,
    OffsetPlace,
    after_refusal,
    check_fetch,
    first_batches,
    place_of,
)
from tests.builders import batch, log

OUT = OffsetOutOfRangeError
LOG = log("1:ab 3:cde", base=10)  # epoch 1 at 10 and 11, epoch 3 at 12 to 14

# fmt: off
FETCHES = [  # offset  last epoch  logs diverge at, or refusal
    pytest.param(15, None, None,           id="at-the-end"),
    pytest.param(10, None, None,           id="at-the-start"),
    pytest.param(9,  None, OUT,            id="below-the-start"),
    pytest.param(16, None, OUT,            id="above-the-end"),
    pytest.param(12, 1,    None,           id="shares-epoch-1"),
    pytest.param(13, 1,    EpochEnd(1, 12), id="more-of-epoch-1-than-is-here"),
    pytest.param(15, 3,    None,           id="shares-epoch-3"),
    pytest.param(16, 3,    EpochEnd(3, 15), id="above-the-end-with-something-to-cut"),
    pytest.param(11, 2,    EpochEnd(1, 12), id="epoch-that-is-not-here"),
    pytest.param(12, 0,    EpochEnd(0, 10), id="epoch-older-than-all"),
    pytest.param(10, 0,    EpochEnd(0, 10), id="epoch-older-than-all-at-the-start"),
    pytest.param(9,  2,    OUT,            id="below-the-start-whatever-the-epoch"),
    pytest.param(12, 4,    OUT,            id="epoch-above-all"),
]
# fmt: on


@pytest.mark.parametrize("offset, last_epoch, expected", FETCHES)
def test_check_fetch(offset, last_epoch, expected):
    if expected is OUT:
        with pytest.raises(OffsetOutOfRangeError):
            check_fetch(LOG, offset, last_fetched_epoch=last_epoch)
    elif expected == EpochEnd(0, 10) and offset == 10:
        # It ends where the fetcher is: there is nothing to cut.
        assert check_fetch(LOG, offset, last_fetched_epoch=last_epoch) is None
    else:
        assert check_fetch(LOG, offset, last_fetched_epoch=last_epoch) == expected


def test_the_two_ways_out_of_range_are_told_apart():
    places = [place_of(LOG, offset) for offset in (9, 10, 15, 16)]

    assert places == [
        OffsetPlace.BELOW_START,
        OffsetPlace.IN_RANGE,
        OffsetPlace.IN_RANGE,
        OffsetPlace.ABOVE_END,
    ]


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


def test_fenced_under_an_older_epoch_is_tried_again_under_the_newer():
    action = after_refusal(FencedLeaderEpochError.code, asked_epoch=4, current_epoch=5)

    assert action is FetchAction.RETRY


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
    monkeypatch.setattr(fetch_checks, "FILES_A_CHANGE_MAX", files_max)
    batches = [batch("a", 0, "2 1"), batch("b", 3, "3"), batch("c", 6, "1 1 1")]

    assert first_batches(batches, bytes_max) == batches[:count]
