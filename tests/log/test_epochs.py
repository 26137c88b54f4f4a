"""Where an epoch ends in a log (KIP-101, KIP-279), by every small log there is."""

from itertools import product

from kafka_on_spark.base.ids import LeaderEpoch
from kafka_on_spark.log.truncation import end_offset_for, epoch_history
from tests.builders import log


def test_batches_of_one_epoch_are_one_entry():
    entries = epoch_history(log("1:abc 3:dd", fence=4))

    assert [(each.leader_epoch, each.start_offset) for each in entries] == [(1, 0), (3, 3), (4, 5)]
    assert epoch_history(log("1:abc 3:dd", fence=3)) == entries[:2]


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
