"""One commit for a round: the high watermark and the ISR rest on the same inspection, and agree."""

from itertools import product

import pytest

from kafka_on_spark.base.ids import Offset
from kafka_on_spark.controller.isr import conclude
from tests.builders import KEY, image_of, partition, report, seen
from tests.committing import replay


def after(image, *reports):
    """Return the partition after what `reports` lead to was committed."""
    return replay(image, conclude(image, reports)).partition(KEY)


@pytest.mark.parametrize("end", [10, 15])
def test_after_a_late_report_replication_still_knows_of_what_was_appended_since(end):
    """Of two appends with acks=1, the first one reports last."""
    image = image_of(partition("1 2 3", hw=10, leo=20))

    found = after(image, report(*(seen(each, end) for each in (1, 2, 3)), known_end=5))

    assert (found.high_watermark, found.log_end_offset) == (end, 20)
    assert found.needs_work


def test_after_every_small_round_each_member_of_the_isr_has_what_is_committed():
    """I1, for every end of two followers, every ISR, every minimum."""
    checked = 0
    for second, third, isr, minimum in product(range(4), range(4), ["1", "1 2", "1 2 3"], "123"):
        ends = {1: 3, 2: second, 3: third}
        members = [int(each) for each in isr.split()]
        before = partition("1 2 3", isr=isr, hw=min(ends[each] for each in members), leo=3)
        image = image_of(before, configs={"min.insync.replicas": minimum})
        checked += 1

        found = after(image, report(seen(1, 3), seen(2, second), seen(3, third)))

        assert found.high_watermark >= before.high_watermark
        assert all(ends[each] >= found.high_watermark for each in found.isr)
        assert found.high_watermark == before.high_watermark or len(before.isr) >= int(minimum)
        assert found.high_watermark <= Offset(3)
    assert checked == 144
