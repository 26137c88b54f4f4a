"""A reader of a merged segment goes by `offset_delta`: of the records before one some may be gone."""

from dataclasses import replace

import pyarrow as pa
import pytest

from kafka_on_spark.base.ids import BrokerId, LeaderEpoch, Offset, TopicPartition
from kafka_on_spark.log import reading
from kafka_on_spark.log.batch import Border
from kafka_on_spark.log.merging import encode_merged, put_merged
from kafka_on_spark.log.read_order import ReadOrder
from kafka_on_spark.log.segments import SEGMENT_SCHEMA
from kafka_on_spark.log.state import ReplicaState
from kafka_on_spark.store.new_roots import prepare_root
from kafka_on_spark.store.roots import StorageOptions
from tests.builders import address, batch, partition

OPTIONS = StorageOptions()
EPOCH = LeaderEpoch(4)
CHAIN = "ab" * 16
KEPT = (0, 3, 4, 7)
"""Of the records at 10 to 18, counted from 10."""


class Store:
    """One replica's log, for whoever opens any."""

    def __init__(self, state):
        self.state = state

    def open(self, place):
        return self

    def load(self):
        return self.state


@pytest.fixture
def log(tmp_path):
    """The place of a replica, and its log: one segment of which only KEPT is left."""
    root = str(tmp_path / "1")
    directory = prepare_root(root, "a-cluster", BrokerId(1), OPTIONS).directory_id
    place = replace(address(1), root=root, directory_id=directory)
    rows = [(each, each, b"k", b"%d" % (10 + each), None) for each in KEPT]
    columns = [
        pa.array([row[number] for row in rows], field.type)
        for number, field in enumerate(SEGMENT_SCHEMA)
    ]
    records = pa.RecordBatch.from_arrays(columns, schema=SEGMENT_SCHEMA)
    file = encode_merged([records], Offset(10))
    whole = replace(batch("a", 10, "9"), leader_epoch=EPOCH)
    made = file.header([whole], Offset(10), Border(Offset(19), CHAIN), EPOCH)
    put_merged(place, made, file, OPTIONS)
    state = ReplicaState(
        identity=place.identity,
        log_start_offset=Offset(10),
        log_end_offset=Offset(19),
        leader_epoch=EPOCH,
        batches=(made,),
    )
    return place, state


def read(log, start, end):
    """Return offset and value of what a reader of ``[start, end)`` gets."""
    place, state = log
    registered = partition("1", hw=19, hw_epoch=EPOCH, hw_chain=CHAIN)
    order = ReadOrder(
        name=TopicPartition("orders", 0),
        key=place.key,
        partition=replace(registered, log_start_offset=Offset(10)),
        start_offset=Offset(start),
        end_offset=Offset(end),
        candidates=(place,),
    )
    found = reading.read_rows(order, Store(state), OPTIONS)
    return [(row["offset"], row["value"]) for rows in found for row in rows.to_pylist()]


@pytest.mark.parametrize("start, end, wanted", [(10, 19, KEPT), (12, 15, (3, 4)), (15, 17, ())])
def test_each_record_is_read_at_its_offset_and_no_other(log, start, end, wanted):
    assert read(log, start, end) == [(10 + each, b"%d" % (10 + each)) for each in wanted]


def test_a_reader_by_position_is_seen(log, monkeypatch):
    monkeypatch.setattr(
        reading, "between_deltas", lambda records, first, end: records.slice(first, end - first)
    )

    assert read(log, 12, 15) != [(13, b"13"), (14, b"14")]
