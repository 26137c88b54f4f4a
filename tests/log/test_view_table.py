"""Which files a view is made of: cut at its ends, off a replica that has them, in its times."""

from dataclasses import replace
from datetime import datetime
from pathlib import Path

import pytest

from kafka_on_spark.base.errors import InvalidRequestError, KafkaStorageError
from kafka_on_spark.base.ids import Offset, PartitionKey, TopicId, TopicPartition
from kafka_on_spark.log.read_order import ReadOrder
from kafka_on_spark.log.view_table import (
    Branch,
    TimeRange,
    branches_of,
    files_of,
    time_range,
    whole_files,
)
from kafka_on_spark.store.roots import StorageOptions
from tests.builders import NOW_MS, address, log, partition
from tests.log.test_reading import replicas_of

EVER = TimeRange()
# Records 0-2, 3-4, 5-8: one segment each, of the time NOW_MS and a microsecond a record.
TEXT = "0:aaabbcccc"
LOG = log(TEXT)
BOTH = replicas_of(on_1=TEXT, on_2=TEXT)


def order(start, end, *brokers):
    return ReadOrder(
        name=TopicPartition("orders", 0),
        key=PartitionKey(TopicId("t"), 0),
        partition=replace(
            partition("1 2 3"),
            high_watermark=Offset(9),
            high_watermark_epoch=0,
            high_watermark_chain=LOG.chain_digest,
            log_end_offset=9,
        ),
        start_offset=Offset(start),
        end_offset=Offset(end),
        candidates=tuple(address(each) for each in brokers or (1,)),
    )


def all_there(where, segment):
    return any(segment in each.segments for each in LOG.batches)


def test_a_file_that_no_replica_has_is_an_error_that_gives_each_reason():
    with pytest.raises(KafkaStorageError) as caught:
        files_of(order(0, 9, 1, 2), BOTH, lambda where, segment: False, EVER)

    assert "offsets 0 to 9 of orders-0 can't be read from any replica" in str(caught.value)
    assert "broker 1: a segment is missing" in str(caught.value)
    assert "broker 2: a segment is missing" in str(caught.value)


def test_a_whole_file_is_there_and_as_long_as_the_log_says(tmp_path):
    whole, short, missing = (each.segments[0] for each in LOG.batches)
    where = replace(address(1), root=str(tmp_path))
    for segment, size_bytes in ((whole, whole.size_bytes), (short, short.size_bytes - 1)):
        path = Path(where.folder, segment.file_name)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(b"v" * size_bytes)
    is_whole = whole_files(StorageOptions())

    assert [is_whole(where, each) for each in (whole, short, missing)] == [True, False, False]
    assert not is_whole(replace(where, root=str(tmp_path / "none")), whole)


def test_a_replica_that_lacks_committed_records_is_passed_over():
    files = files_of(order(0, 9, 1, 2), replicas_of(on_1="0:aaa", on_2=TEXT), all_there, EVER)

    assert {file.address.broker_id for file in files} == {2}


# fmt: off
TIMES = [
    # start, end, in µs after the first record's; segments of 0-2, 0-1 and 0-3 µs
    pytest.param(None, None, [0, 3, 5], id="no bound"),
    pytest.param(2,    None, [0, 5],    id="the last record of one is at the start"),
    pytest.param(3,    None, [5],       id="one has none so late"),
    pytest.param(4,    None, [],        id="none has"),
    pytest.param(None, 0,    [],        id="the end is exclusive"),
    pytest.param(None, 1,    [0, 3, 5], id="all begin before the end"),
    pytest.param(2,    3,    [0, 5],    id="both"),
]
# fmt: on


@pytest.mark.parametrize("start,end,bases", TIMES)
def test_only_files_that_may_have_records_of_the_time_are_taken_and_sized(start, end, bases):
    sized = []

    def is_whole(where, segment):
        sized.append(segment)
        return all_there(where, segment)

    first = NOW_MS * 1000
    times = TimeRange(*(None if each is None else first + each for each in (start, end)))
    files = files_of(order(0, 9), BOTH, is_whole, times)

    assert [file.base_offset for file in files] == bases
    assert len(sized) == len(bases)


def test_a_moment_without_a_time_zone_is_refused():
    with pytest.raises(InvalidRequestError, match="it has no time zone; give one"):
        time_range(None, datetime(2026, 1, 1))  # noqa: DTZ001


def test_files_that_are_read_alike_are_one_branch():
    whole = files_of(order(0, 9), BOTH, all_there, EVER)
    cut = files_of(order(1, 9), BOTH, all_there, EVER)
    stamped = [replace(each, batch=replace(each.batch, has_append_time=True)) for each in whole]

    assert branches_of(whole) == [Branch()]
    assert branches_of(cut) == [Branch(), Branch(is_cut=True)]
    assert branches_of([*stamped, *cut]) == [
        Branch(), Branch(is_cut=True), Branch(has_append_time=True, has_common_time=True)
    ]  # fmt: skip
    assert branches_of([]) == [Branch()]
