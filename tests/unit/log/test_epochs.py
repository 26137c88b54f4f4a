"""Where an epoch ends in a log (KIP-101, KIP-279): named cases, then every small log there is."""

from dataclasses import replace
from itertools import combinations_with_replacement, product

import pytest

from kafka_on_spark.ids import LeaderEpoch
from kafka_on_spark.log.epochs import (
    EpochEnd,
    EpochEntry,
    EpochHistory,
    end_offset_for,
    epoch_entries,
    epoch_history,
    latest_epoch_with_records,
)
from kafka_on_spark.log.operations import advance_log_start
from tests.builders import log
from tests.conformance.logs import assigned, cut_from_end, cut_from_start

WORKED = {"text": f"2:{'a' * 20} 3:{'b' * 20} 4:{'c' * 10}", "base": 30}  # epochs 2→30, 3→50, 4→70


# fmt: off
CASES = [  # log                                                    asked  expected
    # Epochs 2→30, 3→50, 4→70, log end 80.
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
    entries = epoch_entries(log("1:abc 3:dd", fence=4))

    assert [(each.leader_epoch, each.start_offset) for each in entries] == [(1, 0), (3, 3), (4, 5)]
    assert epoch_entries(log("1:abc 3:dd", fence=3)) == entries[:2]


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


def test_negative_epochs_and_offsets_are_no_entries():
    for epoch, start in ((-1, 3), (1, -1)):
        with pytest.raises(AssertionError):
            EpochEntry(epoch, start)


# fmt: off
ASSIGNED = [  # before                 entry    after
    pytest.param([],                   (2, 10), [(2, 10)],          id="first"),
    pytest.param([(2, 10)],            (2, 11), [(2, 10)],          id="further-record-of-the-latest"),
    pytest.param([(2, 10)],            (3, 11), [(2, 10), (3, 11)], id="next"),
    pytest.param([(5, 11), (6, 12)],   (6, 11), [(6, 11)],          id="latest-begins-earlier"),
    pytest.param([(5, 11), (6, 12)],   (5, 12), [(5, 12)],          id="older-epoch-comes-after-a-cut"),
    pytest.param([(5, 11), (6, 12)],   (7, 12), [(5, 11), (7, 12)], id="epoch-without-records-goes"),
]
# fmt: on


@pytest.mark.parametrize("before, entry, expected", ASSIGNED)
def test_assigned_drops_what_contradicts_it(before, entry, expected):
    history = EpochHistory(tuple(EpochEntry(*each) for each in before))

    after = assigned(history, EpochEntry(*entry))

    assert after == EpochHistory(tuple(EpochEntry(*each) for each in expected))


def test_history_cut_is_the_history_of_the_cut_log():
    """For every small log and every cut at either end; the fence goes with what it stood for."""
    checked = 0
    for epochs in combinations_with_replacement(range(4), 4):
        state = log(
            " ".join(f"{epoch}:{letter}" for epoch, letter in zip(epochs, "abcd", strict=True))
        )
        history = epoch_history(state)
        for offset in range(6):
            cut = replace(
                state,
                batches=state.batches[:offset],
                log_end_offset=min(offset, 4),
                leader_epoch=None,
            )
            assert cut_from_end(history, offset) == epoch_history(cut)
            if offset <= 4:
                kept = state.apply(advance_log_start(state, offset)) if offset else state
                assert cut_from_start(history, offset) == epoch_history(kept)
            checked += 1
    assert checked == 35 * 6


def test_history_is_what_records_assign_one_by_one():
    for epochs in combinations_with_replacement(range(4), 4):
        state = log(
            " ".join(f"{epoch}:{letter}" for epoch, letter in zip(epochs, "abcd", strict=True))
        )
        history = EpochHistory()
        for batch in state.batches:
            history = assigned(history, EpochEntry(batch.leader_epoch, batch.base_offset))
        assert history == epoch_history(state)


def test_neighbours_of_an_epoch():
    history = EpochHistory(tuple(EpochEntry(*each) for each in ((2, 10), (4, 15), (10, 20))))

    assert [history.entry_below(each) for each in (2, 3, 11)] == [
        None,
        EpochEntry(2, 10),
        EpochEntry(10, 20),
    ]
    assert [history.entry_above(each) for each in (-1, 4, 10)] == [
        EpochEntry(2, 10),
        EpochEntry(10, 20),
        None,
    ]
    assert [history.entry_of(each) for each in (4, 5)] == [EpochEntry(4, 15), None]
    assert history.end_offset_for(None, 30) is None
