"""The source's readers on a real cluster, called as Spark calls them: no Spark here."""

import json
from pathlib import Path

import pytest
from deltalake import DeltaTable
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadMaxRows

from kafka_on_spark.base.errors import (
    InvalidRequestError,
    KafkaStorageError,
    LogTruncatedError,
    OffsetOutOfRangeError,
)
from kafka_on_spark.groups.offsets import describe_group
from kafka_on_spark.spark import source
from tests.cluster.disks import records
from tests.cluster.format.sources import batch, read, stream, values


def ends(reader, start, limit, count=10):
    """Return the positions of t-0 at which batches end, until nothing moves."""
    found = []
    for _ in range(count):
        end = reader.latestOffset(start, limit)
        if end == start:
            return found
        found.append(end["t"]["0"])
        start = end
    raise AssertionError("it never ends")


def test_what_is_available_now_is_read_to_its_end_and_waits_for_no_minimum(disks):
    reader = stream(disks, maxOffsetsPerTrigger=2, minOffsetsPerTrigger=2, maxTriggerDelay="1h")
    disks.cluster.append("t", records(b"0", b"1", b"2"))
    reader.prepareForTriggerAvailableNow()
    disks.cluster.append("t", records(b"later"))

    assert ends(reader, reader.initialOffset(), ReadMaxRows(2)) == [2, 3]
    assert reader.reportLatestOffset()["t"] == {"0": 3}


STARTS = [  # where a new query starts, the records of its first batch
    pytest.param({"startingOffsets": "latest"}, [], id="latest"),
    pytest.param({"startingOffsets": '{"t":{"0":-1}}'}, [], id="latest-by-partition"),
    pytest.param({"startingOffsets": "group", "kafka__group__id": "g"}, [], id="new-group"),
    pytest.param({"startingTimestamp": 10**15, "startingOffsetsByTimestampStrategy": "latest"}, [], id="time"),
    pytest.param({"startingOffsets": "earliest"}, [b"old"], id="earliest"),
]  # fmt: skip


@pytest.mark.parametrize("given, first", STARTS)
def test_records_that_come_before_the_first_batch_are_read_also_if_it_runs_again(
    disks, given, first
):
    """Spark stores the end of that batch only, and asks a new process where it begins."""
    disks.cluster.append("t", records(b"old"))
    reader = stream(disks, **given)
    start = json.loads(json.dumps(reader.initialOffset()))
    disks.cluster.append("t", records(b"0", b"1"))
    end = reader.latestOffset(start, ReadAllAvailable())
    disks.cluster.append("t", records(b"2"))

    assert values(reader, reader.partitions(start, end)) == first
    if not first:
        assert end == start
        assert ends(reader, end, ReadAllAvailable()) == [4]
    again = stream(disks, **given)
    assert values(again, again.partitions(again.initialOffset(), end)) == first
    after = again.latestOffset(end, ReadAllAvailable())
    assert values(again, again.partitions(end, after)) == [b"0", b"1", b"2"]


def test_a_groups_offsets_follow_what_was_processed_and_are_not_committed_twice(disks):
    reader = stream(disks, kafka__group__id="g")
    disks.cluster.append("t", records(b"0", b"1"))
    start = reader.initialOffset()
    end = reader.latestOffset(start, ReadAllAvailable())
    assert [each.offset for each in describe_group(disks.cluster.image, "g")] == [0]

    reader.latestOffset(end, ReadAllAvailable())
    after = disks.cluster.image.offset
    for _ in range(3):
        reader.latestOffset(end, ReadAllAvailable())

    assert [(each.offset, each.lag) for each in describe_group(disks.cluster.image, "g")] == [
        (2, 0)
    ]
    assert disks.cluster.image.offset == after


def test_a_query_goes_on_where_its_groups_offsets_can_not_be_committed(disks, monkeypatch, caplog):
    def away(*args, **kwargs):
        raise KafkaStorageError("the root is away")

    reader = stream(disks, kafka__group__id="g")
    disks.cluster.append("t", records(b"0"))
    start = reader.initialOffset()
    monkeypatch.setattr("kafka_on_spark.metadata.metadata_service.MetadataService.submit", away)

    assert reader.latestOffset(start, ReadAllAvailable())["t"] == {"0": 1}
    assert "the offsets of group 'g' were not committed: the root is away" in caplog.text


def test_what_is_not_committed_yet_is_an_empty_answer_to_reads_batches_and_streams(disks):
    cluster = disks.cluster
    cluster.append("t", records(b"0"))
    cluster.append("t", records(b"1", b"2"), acks=1)
    waiting = {"startingOffsets": '{"t":{"0":2}}'}
    reader = stream(disks, **waiting, kafka__group__id="waits")
    start = reader.initialOffset()

    assert cluster.read("t", {0: 2}).num_rows == cluster.read("t", {0: 3}).num_rows == 0
    assert read(batch(disks, **waiting)) == []
    for fails in ("true", "false"):
        patient = stream(disks, failOnDataLoss=fails, **waiting)
        assert patient.latestOffset(start, ReadAllAvailable()) == start
        assert patient.partitions(start, start) == []
    assert reader.latestOffset(start, ReadAllAvailable()) == start
    assert [each.lag for each in describe_group(cluster.image, "waits")] == [0]
    with pytest.raises(OffsetOutOfRangeError, match="its log end 3"):
        cluster.read("t", {0: 4})
    with pytest.raises(InvalidRequestError, match="its high watermark is 1"):
        batch(disks, startingOffsets='{"t":{"0":4}}')
    beyond = stream(disks, startingOffsets='{"t":{"0":4}}')
    with pytest.raises(LogTruncatedError, match="its log ends at 3"):
        beyond.latestOffset(beyond.initialOffset(), ReadAllAvailable())
    cluster.replicate()
    end = reader.latestOffset(start, ReadAllAvailable())
    assert values(reader, reader.partitions(start, end)) == [b"2"]


def test_a_query_is_told_of_records_that_retention_took_before_it_read_them_or_goes_on(
    disks, caplog
):
    cluster = disks.cluster
    for value in (b"0", b"1", b"2"):
        cluster.append("t", records(value))
    started = stream(disks).initialOffset()
    cluster.alter_topic_configs("t", {"retention.bytes": 1})
    assert cluster.run_controller().records_deleted == 2

    patient, strict = stream(disks, failOnDataLoss="false"), stream(disks)
    end = patient.latestOffset(started, ReadAllAvailable())
    from_start = {"startingOffsets": '{"t":{"0":0}}'}

    assert values(patient, patient.partitions(started, end)) == [b"2"]
    assert "data loss is passed over" in caplog.text
    assert read(batch(disks, **from_start, failOnDataLoss="false")) == [b"2"]
    with pytest.raises(OffsetOutOfRangeError, match="its log starts at 2"):
        strict.partitions(started, strict.latestOffset(started, ReadAllAvailable()))
    with pytest.raises(OffsetOutOfRangeError, match="its log starts at 2"):
        batch(disks, **from_start).partitions()


def planned_before_records_were_deleted(disks, **given):
    """Return a reader and its tasks, planned over five records of which three are deleted since,
    with their files."""
    for number in range(5):
        disks.cluster.append("t", records(b"%d" % number))
    reader = batch(disks, **given)
    partitions = reader.partitions()
    disks.cluster.delete_records({("t", 0): 3})
    disks.cluster.maintain()
    for folder in (disks.folder(1, "t"), disks.folder(2, "t")):
        named = {Path(each).name for each in DeltaTable(str(folder)).file_uris()}
        gone = [each for each in folder.glob("*-*.parquet") if each.name not in named]
        assert len(gone) == 3
        for path in gone:
            path.unlink()
    return reader, partitions


def test_records_that_are_deleted_before_a_task_reads_them_are_data_loss(disks):
    reader, partitions = planned_before_records_were_deleted(disks)

    with pytest.raises(
        OffsetOutOfRangeError,
        match=r"COULD_NOT_READ_OFFSET_RANGE: .* \[0, 3\) .* t-0: its log starts at 3 by now; set fail",
    ):
        values(reader, partitions)


def test_a_task_goes_on_from_the_earliest_record_where_data_loss_may_pass(disks, caplog):
    source.warn_once.cache_clear()
    reader, partitions = planned_before_records_were_deleted(disks, failOnDataLoss="false")

    assert values(reader, partitions) == [b"3", b"4"]
    assert "data loss is passed over" in caplog.text
