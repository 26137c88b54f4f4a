"""What an inspection of a log says of a partition that has no leader."""

import pytest

from kafka_on_spark.base.ids import Offset
from kafka_on_spark.controller.inspections import InspectionOrder, inspect_replica
from tests.builders import address, log
from tests.log.test_reading import replicas_of


@pytest.mark.parametrize("high_watermark, epoch", [(1, 0), (2, 1), (3, 1), (4, 2)])
def test_an_inspection_says_the_epoch_of_the_last_committed_record(high_watermark, epoch):
    state = log("0:a 1:bb 2:c")
    order = InspectionOrder(
        address=address(1), partition_epoch=9, high_watermark=Offset(high_watermark)
    )

    inspected = inspect_replica(order, replicas_of(on_1="0:a 1:bb 2:c"))

    assert inspected.epoch_below_high_watermark == epoch
    assert inspected.chain_at_high_watermark == state.chain_at(Offset(high_watermark))
    assert (inspected.log_end_offset, inspected.last_epoch) == (4, 2)
