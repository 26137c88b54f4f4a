"""The rows of the metadata log are read in order from any voter that has what is committed."""

import shutil

import pyarrow as pa
import pytest

from kafka_on_spark import Cluster
from kafka_on_spark.errors import KafkaStorageError
from kafka_on_spark.metadata.codec import COLUMNS, encode
from kafka_on_spark.raft.log.raft_log import BatchKind
from kafka_on_spark.spark.run.opening import metadata_log_of, open_metadata
from kafka_on_spark.storage.calls.file_limits import METADATA_FILE_BYTES_MAX
from kafka_on_spark.storage.metadata import committed_rows, metadata_merge, voter_log
from kafka_on_spark.storage.metadata.committed_rows import decision_at, order_rows, read_rows
from kafka_on_spark.storage.roots.roots import StorageOptions
from tests.cluster.disks import FAST, records
from tests.cluster.folders import quick_folder, roots_in

OPTIONS = StorageOptions()


@pytest.fixture
def folder():
    with quick_folder() as folder:
        yield folder


@pytest.fixture
def cluster(folder):
    brokers = {number: folder / str(number) for number in (1, 2)}
    with Cluster.create(roots_in(folder), brokers, configs=FAST) as cluster:
        cluster.create_topic("orders", partitions=3, replication_factor=2)
        cluster.append("orders", records(b"a"))
        while cluster.describe_quorum().lag_max:
            assert cluster.image  # the third voter is brought up after the answer
        yield cluster


@pytest.fixture
def metadata(cluster, folder):
    return open_metadata(",".join(map(str, roots_in(folder))), OPTIONS)


def all_rows(metadata, start=0, end=None):
    end = metadata.image.offset if end is None else end
    return list(read_rows(order_rows(metadata_log_of(metadata), start, end), OPTIONS))


def merge(metadata):
    """Have each voter's small files merged; another process may have done it."""
    log = metadata_log_of(metadata)
    for each in log.tables.voters.keys:
        log.tables.log_of(each).merge()
    metadata.catch_up()
    assert BatchKind.RUN in [each.kind for each in log.confirmed.log.batches]


def expected(metadata):
    """Return what the records say, by the codec alone."""
    rows = []
    for batch in metadata.history():
        columns = encode(batch.records, batch.stamp)
        for place in range(len(batch.records)):
            row = {name: value_at(each, place) for name, each in columns.items()}
            rows.append({"metadata_offset": batch.base_offset + place, **row})
    return rows


def value_at(column, place):
    value = None if column is None else column[place]
    return list(value) if isinstance(value, tuple) else value


def seen(batches):
    table = pa.Table.from_batches(batches)
    table = table.set_column(
        table.column_names.index("time"), "time", table["time"].cast(pa.int64())
    )
    return table.select(["metadata_offset", *COLUMNS]).to_pylist()


def test_a_row_is_a_record_and_all_are_there_in_order(metadata):
    rows = all_rows(metadata)

    assert seen(rows) == expected(metadata)
    places = pa.Table.from_batches(rows).to_pylist()
    starts = [batch.base_offset for batch in metadata.history() for _ in batch.records]
    assert [each["batch_base_offset"] for each in places] == starts
    assert [each["base_offset"] + each["offset_delta"] for each in places] == [*range(len(places))]
    log = metadata_log_of(metadata).confirmed.log
    assert [each["epoch"] for each in places] == [
        log.epoch_before(each + 1) for each in range(len(places))
    ]


def test_a_part_is_read_from_merged_files_too_a_few_rows_at_once(cluster, metadata, monkeypatch):
    monkeypatch.setattr(metadata_merge, "MERGED_FILES_MIN", 4)
    monkeypatch.setattr(committed_rows, "ROWS_MAX", 4)
    for number in range(8):
        cluster.append("orders", records(b"%d" % number))
    wanted = expected(metadata)
    merge(metadata)
    end = metadata.image.offset

    for start in (0, 3, end - 5):
        for until in (start + 1, end - 3, end):
            rows = all_rows(metadata, start, until)
            assert max(each.num_rows for each in rows) <= 4
            assert seen(rows) == expected(metadata)[start:until]
    assert expected(metadata)[: len(wanted)] == wanted


def test_a_decision_is_found_in_merged_files_too(cluster, metadata, monkeypatch):
    log = metadata_log_of(metadata)
    borders = {}
    for batch in metadata.history():
        for offset in range(batch.base_offset, batch.end_offset):
            borders[offset] = (batch.base_offset, batch.end_offset)
    end = metadata.image.offset

    assert {each: decision_at(log, each, end, OPTIONS) for each in borders} == borders

    monkeypatch.setattr(metadata_merge, "MERGED_FILES_MIN", 4)
    cluster.append("orders", records(b"b"))
    merge(metadata)
    end = metadata.image.offset
    assert {each: decision_at(log, each, end, OPTIONS) for each in borders} == borders


@pytest.mark.parametrize("lost", ["m1", "m2", "m3"])
def test_any_voter_may_be_away(metadata, folder, lost):
    wanted, order = expected(metadata), order_rows(metadata_log_of(metadata), 0, 9)
    (folder / lost).rename(folder / "away")

    assert seen(read_rows(order, OPTIONS)) == wanted[:9]


def test_the_last_voter_is_enough_for_what_is_known_to_be_committed(metadata, folder):
    wanted = expected(metadata)
    order = order_rows(metadata_log_of(metadata), 0, metadata.image.offset)
    for name in ("m1", "m2"):
        shutil.rmtree(folder / name)

    assert seen(read_rows(order, OPTIONS)) == wanted


def test_a_reader_goes_on_in_the_middle_with_another_voter(metadata, folder):
    wanted = expected(metadata)
    reading = read_rows(order_rows(metadata_log_of(metadata), 0, metadata.image.offset), OPTIONS)
    rows = [next(reading)]
    (folder / "m1").rename(folder / "away")  # the leader's

    rows += reading

    assert seen(rows) == wanted


def test_a_file_that_is_merged_meanwhile_is_found_in_its_new_place(
    cluster, metadata, folder, monkeypatch
):
    """A cleaner may have deleted it; here on the only voter that is left."""
    wanted = expected(metadata)
    order = order_rows(metadata_log_of(metadata), 0, metadata.image.offset)
    for name in ("m2", "m3"):
        (folder / name).rename(folder / f"{name}-away")
    read, missing = voter_log.RootFiles.read, [None]

    def read_once(files, path, bytes_max):
        if bytes_max == METADATA_FILE_BYTES_MAX and missing:
            return missing.pop()
        return read(files, path, bytes_max)

    monkeypatch.setattr(voter_log.RootFiles, "read", read_once)

    assert seen(read_rows(order, OPTIONS)) == wanted
    assert not missing


def test_a_voter_that_is_behind_is_not_asked(cluster, metadata, folder):
    """Nor is the majority, which is away: what is committed stands on a voter that has it, or
    nowhere that can be read."""
    (folder / "m3").rename(folder / "m3-away")
    cluster.append("orders", records(b"b"))
    metadata.catch_up()
    order = order_rows(metadata_log_of(metadata), 0, 5)
    for name in ("m1", "m2"):
        (folder / name).rename(folder / f"{name}-away")
    (folder / "m3-away").rename(folder / "m3")

    with pytest.raises(KafkaStorageError) as caught:
        list(read_rows(order, OPTIONS))

    assert "no voter of the metadata quorum" in caught.value.message
    assert "it is behind, or the quorum was forced" in caught.value.message


def test_another_cluster_in_a_voters_place_is_not_read(metadata, folder):
    wanted, order = expected(metadata), order_rows(metadata_log_of(metadata), 0, 9)
    shutil.rmtree(folder / "m1")
    with Cluster.create(folder / "m1", {1: folder / "other"}):
        pass

    assert seen(read_rows(order, OPTIONS)) == wanted[:9]
