"""Which partitions a sweep need not open: every difference counts, and time does."""

from dataclasses import replace

import pytest

from kafka_on_spark.controller.pace.quiet import SeenPartition, TableMark, is_quiet
from tests.builders import address, partition

PARTITION = partition("1 2 3")
ADDRESSES = (address(1), address(2), address(3))
MARKS = tuple(TableMark(4, ("inode", each)) for each in (1, 2, 3))
SEEN = SeenPartition(partition=PARTITION, addresses=ADDRESSES, marks=MARKS, read_at_ms=1000)
OTHER = TableMark(5, ("inode", 1))
REPLACED = TableMark(4, ("inode", 9))

# fmt: off
CASES = [
    pytest.param({},                                                        True,  id="nothing has changed"),
    pytest.param({"now_ms": 1999},                                          True,  id="just before it is read again"),
    pytest.param({"now_ms": 2000},                                          False, id="it is read again"),
    pytest.param({"now_ms": 999},                                           False, id="read later than now"),
    pytest.param({"seen": None},                                            False, id="never read"),
    pytest.param({"marks": (OTHER, *MARKS[1:])},                            False, id="another commit"),
    pytest.param({"marks": (*MARKS[:2], REPLACED)},                         False, id="another table at that version"),
    pytest.param({"marks": (*MARKS[:2], None)},                             False, id="a table that is gone"),
    pytest.param({"marks": (None,) * 3, "seen": replace(SEEN, marks=(None,) * 3)}, False, id="tables that were never there"),
    pytest.param({"partition": replace(PARTITION, leader_epoch=PARTITION.leader_epoch + 1)}, False, id="another leadership"),
    pytest.param({"addresses": (address(1, root="memory://9"), *ADDRESSES[1:])}, False, id="another disk"),
]
# fmt: on


@pytest.mark.parametrize("changed,expected", CASES)
def test_a_partition_is_quiet_only_if_all_is_as_it_was_read(changed, expected):
    given = {"seen": SEEN, "partition": PARTITION, "addresses": ADDRESSES, "marks": MARKS}
    given |= {"now_ms": 1500, "verify_interval_ms": 1000, **changed}

    assert is_quiet(**given) == expected
