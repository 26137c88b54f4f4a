"""A replica that merges is ahead of old images: they say nothing against it, and readers go on."""

from dataclasses import replace

import pytest

from kafka_on_spark.errors import NotLeaderOrFollowerError, ReplicaLostError
from kafka_on_spark.ids import BrokerId, ChainDigest, Offset
from kafka_on_spark.service.replica.replica_operations import check_complete, check_readable
from kafka_on_spark.service.replicate.fetching.fetch import loss_of
from tests.builders import log, partition, with_merged

PLAIN = log("0:aabbc")
MERGED = with_merged(PLAIN, 0, 4)  # the border at 2 is gone


def committed(hw, **fields):
    """Return the registration under which a plain log is committed up to a border."""
    return partition("1", hw=hw, hw_epoch=0, **{"hw_chain": PLAIN.chain_at(Offset(hw))} | fields)


@pytest.mark.parametrize("mark", [0, 4, 5])
def test_at_a_border_a_merged_log_proves_itself(mark):
    registered = committed(mark, hw_chain=PLAIN.chain_at(Offset(mark)))

    check_complete(MERGED, registered)
    check_readable(MERGED, registered)
    assert loss_of(registered, BrokerId(1), MERGED) is None


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


def test_another_log_is_still_found_at_its_borders():
    other = replace(committed(4), high_watermark_chain=ChainDigest("f" * 32))

    with pytest.raises(ReplicaLostError):
        check_complete(MERGED, other)
    with pytest.raises(ReplicaLostError):
        check_readable(MERGED, other)
    assert loss_of(other, BrokerId(1), MERGED) is not None


def test_an_offset_inside_a_batch_is_no_border_of_an_old_image():
    """Nobody merged there, so no image ever named it."""
    inside = replace(committed(2), high_watermark=Offset(3))

    with pytest.raises(ReplicaLostError):
        check_readable(PLAIN, inside)
    assert loss_of(inside, BrokerId(1), PLAIN) is not None
