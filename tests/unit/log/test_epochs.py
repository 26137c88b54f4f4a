"""Where an epoch ends in a log (KIP-101, KIP-279): named cases, then every small log there is."""

from itertools import product

import pytest

from kafka_on_spark.ids import LeaderEpoch
from kafka_on_spark.log.epochs import (
    EpochEnd,
    end_offset_for,
    epochs_of,
    latest_epoch_with_records,
)
from tests.builders import log

WORKED = {"text": f"2:{'a' * 20} 3:{'b' * 20} 4:{'c' * 10}", "base": 30}  # epochs 2→30, 3→50, 4→70


# fmt: off
CASES = [  # log                                                    asked  expected
    # The worked example of DESIGN §3: epochs 2→30, 3→50, 4→70, log end 80.
    pytest.param(WORKED,                                            2,     (2, 50),  id="older-ends-where-next-begins"),
    pytest.param(WORKED,                                            3,     (3, 70),  id="middle"),
    pytest.param(WORKED,                                            4,     (4, 80),  id="latest-ends-at-log-end"),
    pytest.param(WORKED,                                            5,     None,     id="above-all-undefined"),
    pytest.param(WORKED,                                            1,     (1, 30),  id="below-all-is-itself-at-first-start"),
    # An epoch that the log has skipped: the largest one below it answers.
    pytest.param({"text": "2:aa 5:bb"},                             3,     (2, 2),   id="skipped"),
    pytest.param({"text": "2:aa 5:bb"},                             4,     (2, 2),   id="skipped-twice"),
    # The fence counts as the last epoch, from the log end on.
    pytest.param({"text": "2:aa", "fence": 7},                      7,     (7, 2),   id="fence-without-records"),
    pytest.param({"text": "2:aa", "fence": 7},                      2,     (2, 2),   id="fence-ends-the-one-before"),
    pytest.param({"text": "2:aa", "fence": 7},                      6,     (2, 2),   id="between-records-and-fence"),
    pytest.param({"text": "2:aa", "fence": 7},                      8,     None,     id="above-the-fence"),
    # Logs without batches.
    pytest.param({"text": "", "fence": None},                       0,     None,     id="empty-unfenced"),
    pytest.param({"text": "", "fence": 3},                          3,     (3, 0),   id="empty-fenced"),
    pytest.param({"text": "", "fence": 3, "base": 9},               1,     (1, 9),   id="emptied-by-retention"),
    # The first epoch starts at the log start, also inside a batch.
    pytest.param({"text": "1:aaaa 2:b", "start": 2},                0,     (0, 2),   id="start-inside-first-batch"),
    pytest.param({"text": "1:aaaa 2:b", "start": 2},                1,     (1, 4),   id="end-is-not-moved-by-the-start"),
]
# fmt: on


@pytest.mark.parametrize("given, asked, expected", CASES)
def test_end_offset_for(given, asked, expected):
    actual = end_offset_for(log(**given), LeaderEpoch(asked))

    assert actual == (None if expected is None else EpochEnd(*expected))


def test_batches_of_one_epoch_are_one_entry():
    entries = epochs_of(log("1:abc 3:dd", fence=4)).entries

    assert [(each.leader_epoch, each.start_offset) for each in entries] == [(1, 0), (3, 3), (4, 5)]
    assert epochs_of(log("1:abc 3:dd", fence=3)).entries == entries[:2]


@pytest.mark.parametrize("text, expected", [("", None), ("1:a", 1), ("1:a 4:b", 4)])
def test_latest_epoch_with_records_is_not_the_fence(text, expected):
    assert latest_epoch_with_records(log(text, fence=9)) == expected


def test_every_small_log_answers_with_what_its_records_say():
    """Up to two records in each of three epochs, and each fence: checked record by record."""
    checked = 0
    for counts, fence_above, asked in product(product(range(3), repeat=3), (0, 1, 2), range(6)):
        text = " ".join(f"{e}:{'abc'[e] * n}" for e, n in enumerate(counts) if n)
        highest = max((epoch for epoch, n in enumerate(counts) if n), default=0)
        state = log(text, fence=highest + fence_above)
        records = [epoch for epoch, n in enumerate(counts) for _ in range(n)]
        checked += 1

        end = end_offset_for(state, LeaderEpoch(asked))

        if asked > highest + fence_above:
            assert end is None
            continue
        assert end is not None
        assert end.leader_epoch <= asked
        assert end.end_offset == sum(epoch <= asked for epoch in records)
        if end.leader_epoch != asked:
            assert asked not in records
    assert checked == 486
