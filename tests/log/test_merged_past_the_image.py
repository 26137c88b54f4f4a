"""A replica that merges is ahead of old images: they say nothing against it, and readers go on."""

from dataclasses import replace

import pytest

from kafka_on_spark.base.errors import NotLeaderOrFollowerError
from kafka_on_spark.base.ids import BrokerId, Offset
from kafka_on_spark.log.fetch import loss_of
from kafka_on_spark.log.state import check_complete, check_readable
from tests.builders import log, partition, with_merged

PLAIN = log("0:aabbc")
MERGED = with_merged(PLAIN, 0, 4)  # the border at 2 is gone


def committed(hw, **fields):
    """Return the registration under which a plain log is committed up to a border."""
    return partition("1", hw=hw, hw_epoch=0, **{"hw_chain": PLAIN.chain_at(Offset(hw))} | fields)


def test_merged_past_an_images_high_watermark_it_asks_for_a_newer_one_and_is_not_lost():
    old = committed(2)

    with pytest.raises(NotLeaderOrFollowerError, match="refresh"):
        check_complete(MERGED, old)
    assert loss_of(old, BrokerId(1), MERGED) is None


def test_a_reader_with_an_old_image_reads_on_by_the_epoch():
    check_readable(MERGED, committed(2))

    with pytest.raises(NotLeaderOrFollowerError):
        check_readable(MERGED, replace(committed(2), high_watermark_epoch=1))


def test_a_reader_with_an_old_image_reads_what_is_left_above_a_log_start_that_has_moved_on():
    started = replace(MERGED, log_start_offset=Offset(2))
    check_readable(started, committed(2))
    with pytest.raises(NotLeaderOrFollowerError, match="log start"):
        check_complete(started, committed(2))

    with pytest.raises(NotLeaderOrFollowerError, match="log start"):
        check_readable(replace(MERGED, log_start_offset=Offset(3)), committed(2))
