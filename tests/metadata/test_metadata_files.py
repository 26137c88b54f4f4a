"""Files of the metadata log: merged ones keep decisions apart, damaged ones are said."""

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from kafka_on_spark.base.errors import CorruptLogError
from kafka_on_spark.base.ids import ControllerEpoch, Offset
from kafka_on_spark.metadata import metadata_files
from kafka_on_spark.metadata.metadata_files import (
    ENCODED_ROWS_MIN,
    _values_of,
    batch_places,
    decode_file,
    decode_rows,
    encode_file,
    merge_files,
)
from kafka_on_spark.metadata.records import (
    BrokerChangeRecord,
    BrokerState,
    ClusterRecord,
    ConfigRecord,
    MetadataBatch,
    Stamp,
)


def batch(base_offset, *records, **stamp):
    return MetadataBatch(base_offset=Offset(base_offset), stamp=Stamp(**stamp), records=records)


def settings(count):
    return [
        ConfigRecord(topic_id=None, config_name=f"n{each}", config_value=None)
        for each in range(count)
    ]


FENCED = BrokerChangeRecord(broker_id=1, broker_epoch=0, broker_state=BrokerState.FENCED)
BATCHES = [
    batch(7, ClusterRecord(cluster_id="c"), time_ms=1),
    batch(8, *settings(12), time_ms=2, controller_id="x", controller_epoch=ControllerEpoch(0)),
    batch(20, FENCED, *settings(2), time_ms=2, application_id="app"),
]


def content(each):
    return encode_file(each.records, each.stamp, each.base_offset).to_pybytes()


@pytest.mark.parametrize("each", BATCHES)
def test_one_batch_comes_back_as_it_was(each):
    assert decode_file(content(each), "path") == [each]


def test_merged_file_keeps_decisions_stamps_and_order():
    merged, count = merge_files([(content(each), "path") for each in BATCHES])

    assert count == 16
    assert decode_file(merged.to_pybytes(), "path") == BATCHES


def test_large_merged_file_is_written_and_read_in_groups_of_whole_batches(monkeypatch):
    many = [batch(3 * each, *settings(3), time_ms=each + 1) for each in range(20)]
    pieces = [content(each) for each in many]
    monkeypatch.setattr(metadata_files, "SLICE_ROWS", 7)
    merged = merge_files((each, "path") for each in pieces)[0].to_pybytes()
    read, groups = [], metadata_files.read_row_groups
    monkeypatch.setattr(
        metadata_files,
        "read_row_groups",
        lambda *given: (read.append(each.num_rows) or each for each in groups(*given)),
    )

    assert decode_file(merged, "path") == many
    assert decode_file(merged, "path", from_offset=12, end_offset=18) == many[4:6]
    wanted = {"from_offset": 12, "end_offset": 18, "wanted": range(12, 18)}
    assert decode_file(merged, "path", **wanted) == many[4:6]
    assert read == [9, 9, 9, 9, 9, 9, 6] * 2 + [9]
    assert batch_places(merged, "path") == [(3 * i, 3 * i + 3, i + 1) for i in range(20)]
    assert [len(each) for each in decode_rows(merged, "path")] == [3] * 20


def test_batch_that_lies_in_two_groups_of_a_file_is_one():
    table = pq.read_table(pa.BufferReader(content(batch(7, *settings(12), time_ms=1))))
    sink = pa.BufferOutputStream()
    pq.write_table(table, sink, row_group_size=5, store_schema=False)

    (found,) = decode_file(sink.getvalue().to_pybytes(), "path")

    assert found.records == tuple(settings(12))


WHOLE = content(BATCHES[1])

# fmt: off
DAMAGED = [
    pytest.param(None,                       id="missing"),
    pytest.param(b"",                        id="empty"),
    pytest.param(WHOLE[: len(WHOLE) // 2],   id="cut"),
    pytest.param(b"x" * len(WHOLE),          id="other-bytes"),
]
# fmt: on


@pytest.mark.parametrize("damaged", DAMAGED)
def test_damaged_file_is_corruption_and_is_never_merged(damaged):
    with pytest.raises(CorruptLogError):
        decode_file(damaged, "path")
    with pytest.raises(CorruptLogError):
        merge_files([(content(BATCHES[0]), "path"), (damaged, "path")])


def test_flipped_bit_is_never_read_as_another_record():
    """Any byte of a file, flipped: what was written comes back, or an error of ours.

    Pages have checksums, the footer has none: a damaged name or type there must not pass for a
    column that was left out.
    """
    whole, checked = content(BATCHES[0]), 0
    for place in range(len(whole)):
        for bit in (1, 16):
            flipped = bytearray(whole)
            flipped[place] ^= bit
            checked += 1
            try:
                found = decode_file(bytes(flipped), "path")
            except CorruptLogError:
                continue
            assert found == [BATCHES[0]], (place, bit)
    assert checked == 2 * len(whole) > 1300


@pytest.mark.parametrize("count", [1, 7, ENCODED_ROWS_MIN + 7])
@pytest.mark.parametrize("kinds", [[None], [(), (1,), (2, 3, 4), None], [(1, 2), (3, 4)], [()]])
def test_values_of_any_slice_of_a_column_are_what_arrow_says_they_are(count, kinds):
    rows = [kinds[number % len(kinds)] for number in range(count)]
    texts = [None if row is None else "-".join(map(str, row)) for row in rows]
    lists, words = pa.array(rows, pa.list_(pa.int32())), pa.array(texts, pa.string())

    for start, end in [(0, count), (count // 3, count - count // 4)]:
        found = _values_of(lists.slice(start, end - start), lists.type)
        assert found == rows[start:end]
        assert _values_of(words.slice(start, end - start), words.type) == texts[start:end]
        deltas = pa.array(range(count), pa.int32()).slice(start, end - start)
        assert _values_of(deltas, deltas.type) == list(range(start, end))
