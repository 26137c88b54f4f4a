"""Whether a table that was opened anew is a later version of the one that was seen."""

from dataclasses import replace

import pytest

from kafka_on_spark.metadata.quorum.voter_table import RaftBatch, RaftLog, goes_on_from
from tests.metadata.quorum.voters import log, table


def at(version, found):
    return replace(found, version=version)


LED = at(5, table(0, 1, 1, 1, leader=0))
TAIL = RaftLog((*log(1, 1).batches, RaftBatch(3, 4, 1, "a tail")))
FOLLOWER = at(5, replace(table(1, 1, 1, leader=0), log=TAIL))

# fmt: off
CASES = [
    pytest.param(LED, LED,                                                True,  id="the same"),
    pytest.param(LED, at(6, table(0, 1, 1, 1, 1, leader=0)),              True,  id="it was appended to"),
    pytest.param(LED, at(4, LED),                                         False, id="an older version"),
    pytest.param(LED, at(5, table(0, 1, 1, 2, leader=0)),                 False, id="another commit at its version"),
    pytest.param(LED, at(9, table(0, 1, 1, leader=0)),                    False, id="shorter, under the same leader"),
    pytest.param(LED, at(9, table(0, 1, 1, 1, epoch=2, vote=1)),          True,  id="a vote since"),
    pytest.param(LED, at(9, table(0, 1, 1, 2, leader=1)),                 True,  id="a tail cut by a later leader"),
    pytest.param(LED, at(9, table(0, 1, 2, leader=1)),                    False, id="less than it proves committed"),
    pytest.param(LED, at(9, table(0, 1, 1, 1, 1, 1, epoch=1, leader=1)),  False, id="another leader of its epoch"),
    pytest.param(FOLLOWER, at(9, table(1, 1, 1, 1, 1, leader=0)),         False, id="another write at a place"),
    pytest.param(at(9, table(0, 1, 1, epoch=3, vote=1)), at(10, table(0, 1, 1, epoch=2, vote=1)), False, id="an epoch that fell"),
    pytest.param(at(1, table(0)), at(9, table(0, 1, 1, leader=0)),        True,  id="a new table"),
]
# fmt: on


@pytest.mark.parametrize("seen, found, goes_on", CASES)
def test_a_table_goes_on_from_what_was_seen_or_went_back(seen, found, goes_on):
    assert goes_on_from(seen, found) is goes_on
