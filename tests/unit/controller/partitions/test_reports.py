"""Whether a leader's log has what the register has as committed, by the chain digest there."""

from dataclasses import replace

import pytest

from kafka_on_spark.ids import NO_CHAIN, ChainDigest
from tests.builders import digest_at, partition, report, seen

REGISTERED = partition("1 2", hw=4, hw_epoch=5)
LOW, HIGH = ChainDigest("0" * 31 + "1"), ChainDigest("f" * 32)

# fmt: off
LOOKS = [
    pytest.param([(4, digest_at(4))],                                  True,  id="at the high watermark"),
    pytest.param([(2, digest_at(2)), (4, digest_at(4)), (6, HIGH)],    True,  id="among others"),
    pytest.param([],                                                   False, id="no border was seen"),
    pytest.param([(4, LOW)],                                           False, id="another log, of a smaller digest"),
    pytest.param([(4, HIGH)],                                          False, id="another log, of a larger digest"),
    pytest.param([(3, digest_at(4)), (5, digest_at(4))],               False, id="the digest, elsewhere"),
    pytest.param([(2, digest_at(2)), (6, digest_at(6))],               False, id="borders below and above it"),
]
# fmt: on


@pytest.mark.parametrize("borders, expected", LOOKS)
def test_an_inspection_continues_what_is_committed_where_a_border_has_its_digest(borders, expected):
    inspected = replace(report(seen(1, 6), seen(2, 6)), borders=tuple(borders))

    assert inspected.continues(REGISTERED) is expected


def test_nothing_is_continued_by_a_log_of_no_digest():
    assert not replace(report(seen(1, 6)), borders=((4, NO_CHAIN),)).continues(REGISTERED)
