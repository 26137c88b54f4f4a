"""Which snapshots are of a log: by where they end, and by the epoch of the record before."""

from dataclasses import replace

import pytest

from kafka_on_spark.metadata.quorum.voter_table import OffsetAndEpoch, is_snapshot_of, runs_of
from tests.metadata.quorum.voters import log

# fmt: off
OF_A_LOG = [  # of which each record is a batch: the bootstrap's, two of epoch 1, three of epoch 3
    pytest.param(3, 1, True,  id="where an epoch ends"),
    pytest.param(5, 3, True,  id="within an epoch"),
    pytest.param(6, 3, True,  id="at the end"),
    pytest.param(1, 0, True,  id="of the bootstrap batch"),
    pytest.param(5, 1, False, id="of an epoch that ended before"),
    pytest.param(5, 2, False, id="of an epoch that the log lacks"),
    pytest.param(3, 3, False, id="of an epoch that begins later"),
    pytest.param(7, 3, False, id="beyond the end"),
    pytest.param(0, 0, False, id="of nothing"),
]
# fmt: on


@pytest.mark.parametrize("offset, epoch, expected", OF_A_LOG)
def test_a_snapshot_is_of_a_log_that_has_its_end_in_its_epoch(offset, epoch, expected):
    found = log(1, 1, 3, 3, 3)
    merged = replace(found, batches=runs_of(found.batches))

    assert is_snapshot_of(found, OffsetAndEpoch(offset, epoch)) == expected
    assert is_snapshot_of(merged, OffsetAndEpoch(offset, epoch)) == expected


def test_a_snapshot_that_ends_within_a_batch_is_of_no_log():
    found = log(1)
    [first, no_op] = found.batches
    longer = replace(found, batches=(first, replace(no_op, end_offset=4)))

    assert is_snapshot_of(longer, OffsetAndEpoch(4, 1))
    assert not is_snapshot_of(longer, OffsetAndEpoch(3, 1))
