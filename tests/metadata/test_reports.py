"""Whether a leader's log has what the register has as committed, by the chain digest there."""

from dataclasses import replace

from kafka_on_spark.base.ids import NO_CHAIN
from tests.builders import partition, report, seen

REGISTERED = partition("1 2", hw=4, hw_epoch=5)


def test_nothing_is_continued_by_a_log_of_no_digest():
    assert not replace(report(seen(1, 6)), borders=((4, NO_CHAIN),)).continues(REGISTERED)
