"""A commit that was put is found by its digest, also when its batch was merged away since."""

from dataclasses import replace

import pytest

from kafka_on_spark.base.errors import CommitOutcomeUnknownError
from kafka_on_spark.base.ids import ChainDigest, Offset
from kafka_on_spark.log.batch import Border
from kafka_on_spark.log.compaction import CompactionProgress
from kafka_on_spark.log.operations import advance_log_start
from kafka_on_spark.log.producer_state import find_put, unread_over
from tests.builders import log, with_merged

PLAIN = log("0:aabbc")
[FIRST, SECOND, LAST] = PLAIN.batches
MERGED = with_merged(PLAIN, 0, 4)
READ = MERGED.with_borders(
    MERGED.batches[0],
    tuple(Border(each.end_offset, each.chain_digest) for each in (FIRST, SECOND)),
)
OTHER = replace(FIRST, chain_digests=(ChainDigest("f" * 32),))

# fmt: off
CASES = [  # log    puts              stands  must be read first
    pytest.param(PLAIN,  [FIRST],          FIRST,  False, id="plain"),
    pytest.param(PLAIN,  [OTHER],          None,   False, id="another at the same offset"),
    pytest.param(PLAIN,  [OTHER, FIRST],   FIRST,  False, id="one of two"),
    pytest.param(PLAIN,  [],               None,   False, id="nothing was put"),
    pytest.param(READ,   [FIRST],          FIRST,  False, id="merged away"),
    pytest.param(READ,   [OTHER],          None,   False, id="another was merged there"),
    pytest.param(MERGED, [SECOND],         SECOND, False, id="the last that was merged"),
    pytest.param(MERGED, [LAST],           LAST,   False, id="behind what was merged"),
    pytest.param(MERGED, [FIRST],          None,   True,  id="merged and not read"),
    pytest.param(log("0:aa"), [LAST],      None,   False, id="above the end"),
]
# fmt: on


@pytest.mark.parametrize("state, puts, stands, must_read", CASES)
def test_a_put_stands_where_the_log_has_its_digest(state, puts, stands, must_read):
    assert (unread_over(state, puts) is not None) == must_read
    if not must_read:
        assert find_put(state, puts) == stands


def test_where_compaction_dropped_the_borders_nobody_can_tell():
    compacted = MERGED.with_borders(MERGED.batches[0], ())

    assert unread_over(compacted, [FIRST]) is None
    with pytest.raises(CommitOutcomeUnknownError):
        find_put(compacted, [FIRST])
    assert find_put(compacted, [LAST]) == LAST
    assert compacted.log_end_offset == Offset(5)


def test_where_it_dropped_some_of_the_borders_nobody_can_tell_below():
    """A file that was compacted is merged with the next, which has borders."""
    merged = with_merged(PLAIN, 0, 5)
    borders = tuple(Border(each.end_offset, each.chain_digest) for each in (SECOND, LAST))
    progress = CompactionProgress(compacted_below=Offset(4), finished_below=Offset(4))
    left = replace(merged.with_borders(merged.batches[0], borders), compaction=progress)

    with pytest.raises(CommitOutcomeUnknownError, match="compacted"):
        find_put(left, [FIRST])
    assert find_put(left, [SECOND]) == SECOND
    assert find_put(left, [LAST]) == LAST
    assert find_put(left, [replace(LAST, chain_digests=OTHER.chain_digests)]) is None


def test_below_what_retention_left_nobody_can_tell():
    """Put again, it would stand twice, and under a path that the table has removed."""
    left = PLAIN.apply(advance_log_start(PLAIN, Offset(4)))

    assert find_put(left, [SECOND]) == SECOND  # the digest before the first batch tells
    assert find_put(left, [LAST]) == LAST
    with pytest.raises(CommitOutcomeUnknownError, match="deleted"):
        find_put(left, [FIRST])
