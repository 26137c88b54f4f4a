"""Compacted topics on real disks: what replicas keep, that they are equal, and what is read."""

import time

import pyarrow as pa
import pytest

from kafka_on_spark import Cluster
from kafka_on_spark.errors import KafkaStorageError, OffsetOutOfRangeError
from kafka_on_spark.log.addresses import address_of
from kafka_on_spark.log.compaction.flaws import KeyedRecord
from kafka_on_spark.query.reads.read_order import plan_reads
from kafka_on_spark.storage.access.storage_options import StorageOptions
from kafka_on_spark.storage.replicas.merging import merged_files
from kafka_on_spark.storage.replicas.reader import read_rows
from kafka_on_spark.storage.replicas.segments import read_segment
from kafka_on_spark.storage.roots import parquet_files
from tests.cluster.disks import isr_of, new_disks
from tests.cluster.replicas.test_cluster_failover import REPLICAS
from tests.kept import kept_records

CONFIGS = {
    "cleanup.policy": "compact",
    "min.cleanable.dirty.ratio": "0",
    "delete.retention.ms": "0",
}


@pytest.fixture
def disks():
    with new_disks() as disks:
        disks.cluster.create_topic("prices", replica_assignment=REPLICAS, configs=CONFIGS)
        yield disks


def append(cluster, *texts):
    """Append each text as one batch: "a1 b2 -a" writes a=1 and b=2, and deletes a."""
    for text in texts:
        rows = [
            {"key": word[1:], "value": None}
            if word[0] == "-"
            else {"key": word[0], "value": word[1:]}
            for word in text.split()
        ]
        cluster.append("prices", rows)


def read(cluster):
    """Return offset, key and value of what is read, in order."""
    table = cluster.read("prices").to_pylist()
    return [
        (
            row["offset"],
            row["key"].decode(),
            None if row["value"] is None else row["value"].decode(),
        )
        for row in table
    ]


def states(cluster):
    """Return each replica's log."""
    image = cluster.image
    key, partition = next(iter(image.partitions()))
    replicas = cluster._services.replicas
    return {
        broker_id: replicas.open(address_of(image, key, partition, broker_id)).load()
        for broker_id in partition.replicas
        if partition.is_created(broker_id)
    }


def contents(cluster):
    """Return what each replica's files hold: offset, key, and whether it is a tombstone."""
    return {broker_id: contents_of(cluster, broker_id) for broker_id in states(cluster)}


def registered(cluster):
    return next(iter(cluster.image.partitions()))[1].compaction


def check_equal(cluster, whole):
    """Check that every replica holds f(log, C, T) of the whole log."""
    now = registered(cluster)
    expected = kept_records(
        whole, compacted_below=now.compacted_below, tombstones_below=now.tombstones_below
    )
    for broker_id, held in contents(cluster).items():
        assert held == expected, broker_id
    assert all(each.compaction.has_finished(now) for each in states(cluster).values())


def test_a_compacted_log_keeps_the_last_value_of_each_key_at_its_offset(disks):
    cluster = disks.cluster
    append(cluster, "a1 b1 a2", "c1 b2", "a3")
    whole = contents(cluster)[1]

    cluster.maintain()

    assert read(cluster) == [(3, "c", "1"), (4, "b", "2"), (5, "a", "3")]
    assert registered(cluster).compacted_below == 6
    check_equal(cluster, whole)
    assert cluster.fsck().findings == ()


def test_tombstones_go_once_every_replica_has_lost_what_they_delete(disks):
    cluster = disks.cluster
    append(cluster, "a1 b1", "-a", "c1")
    whole = contents(cluster)[1]

    cluster.maintain()
    assert [key for _, key, _ in read(cluster)] == ["b", "a", "c"]
    assert registered(cluster).tombstones_below == 0
    cluster.maintain()

    assert registered(cluster).tombstones_below == 4
    assert read(cluster) == [(1, "b", "1"), (3, "c", "1")]
    check_equal(cluster, whole)
    before = cluster.image.offset
    cluster.maintain()
    assert cluster.image.offset == before, "nothing is due any more"


def test_a_log_goes_on_and_is_compacted_again_and_again(disks):
    cluster = disks.cluster
    whole = []
    for turn in range(6):
        append(cluster, f"a{turn} b{turn}", f"{'-a' if turn % 2 else 'a9'} c{turn}")
        new = contents(cluster)[1]
        whole += [each for each in new if each.offset >= 4 * turn]
        cluster.maintain()
        check_equal(cluster, whole)

    assert [(key, value) for _, key, value in read(cluster)] == [
        ("b", "5"),
        ("a", None),
        ("c", "5"),
    ]


KEYS = 20_000
"""More than the 16,384 that the smallest buffer holds."""

RECORDS = 25_000


def test_keys_that_do_not_fit_into_memory_take_several_rounds(disks):
    cluster = disks.cluster
    cluster.alter_cluster_configs({"log.cleaner.dedupe.buffer.size": 1024 * 1024})
    rows = [{"key": f"{(7 * place) % KEYS}", "value": f"{place}"} for place in range(RECORDS)]
    for start in range(0, RECORDS, RECORDS // 5):
        cluster.append("prices", rows[start : start + RECORDS // 5])
    whole = contents(cluster)[1]

    cluster.maintain()

    check_equal(cluster, whole)
    assert len(contents(cluster)[1]) == KEYS


def test_a_retry_of_a_batch_that_compaction_has_taken_is_a_duplicate(disks):
    cluster = disks.cluster
    first = cluster.append("prices", [("a", "1")], producer_id="p", sequence=0)
    append(cluster, "a2")
    cluster.maintain()

    again = cluster.append("prices", [("a", "1")], producer_id="p", sequence=0)

    assert read(cluster) == [(1, "a", "2")]
    assert again.partitions[0].base_offset == first.partitions[0].base_offset


def test_a_replica_that_was_away_has_lost_what_a_tombstone_deleted_when_it_is_back(disks):
    cluster = disks.cluster
    append(cluster, "a1 b1")
    disks.take_away(3)
    cluster.run_controller()
    append(cluster, "-a", "c1")
    whole = contents_of(cluster, 1)
    for _ in range(3):
        cluster.maintain()
    assert registered(cluster).tombstones_below == 4

    disks.give_back(3)
    for _ in range(4):
        cluster.run_controller()
        cluster.replicate(is_sweep=True)
        cluster.maintain()

    assert isr_of(cluster, "prices") == [1, 2, 3]
    check_equal(cluster, whole)


def contents_of(cluster, broker_id):
    image = cluster.image
    key, partition = next(iter(image.partitions()))
    address = address_of(image, key, partition, broker_id)
    state = cluster._services.replicas.open(address).load()
    return [
        KeyedRecord(base + row["offset_delta"], row["key"], row["value"] is None)
        for part in state.batches
        for segment, base, _ in part.ranges()
        for row in read_segment(address, segment, StorageOptions(None)).to_pylist()
    ]


def test_a_topic_that_is_not_compacted_any_more_keeps_what_it_has_and_stays_as_it_is(disks):
    cluster = disks.cluster
    append(cluster, "a1 a2")
    cluster.maintain()
    cluster.alter_topic_configs("prices", {"cleanup.policy": "delete"})
    append(cluster, "a3")

    cluster.maintain()

    assert read(cluster) == [(1, "a", "2"), (2, "a", "3")]


def test_an_append_that_waits_reads_and_a_stream_of_offsets_are_not_disturbed(disks):
    cluster = disks.cluster
    append(cluster, "a1", "a2", "b1")
    cluster.maintain()

    assert read_from(cluster, 0) == [(1, "a", "2"), (2, "b", "1")]
    assert read_from(cluster, 1) == [(1, "a", "2"), (2, "b", "1")]
    assert read_from(cluster, 2) == [(2, "b", "1")]
    assert cluster.offsets("prices")[0].high_watermark == 3


def read_from(cluster, start):
    return [
        (row["offset"], row["key"].decode(), row["value"].decode())
        for row in cluster.read("prices", start={0: start}).to_pylist()
    ]


def test_a_moment_before_the_last_compaction_is_not_read_any_more(disks):
    cluster = disks.cluster
    append(cluster, "a1")
    then = cluster.image.offset
    append(cluster, "a2")
    cluster.maintain()

    disks.opened.append(Cluster.open(disks.metadata_root, as_of=then))

    with pytest.raises(OffsetOutOfRangeError, match="it is compacted below 2"):
        disks.opened[-1].read("prices")


@pytest.fixture
def unclean(disks):
    return elected_uncleanly(disks)


def elected_uncleanly(disks):
    """Return a cluster whose leader was elected uncleanly, and has not compacted what all had."""
    cluster = disks.cluster
    append(cluster, "a1 b1", "a2")
    disks.take_away(3)
    cluster.run_controller()
    for text in ("b2", "c1"):
        append(cluster, text)
        cluster.maintain()
    assert registered(cluster).cleaned_below > 3
    disks.give_back(3)
    disks.take_away(1, 2)
    cluster.run_controller()
    cluster.elect_leaders("unclean", [("prices", 0)])
    assert registered(cluster).cleaned_below == 3
    return cluster


LEFT = [(1, "b", "1"), (2, "a", "2")]


def test_who_reads_a_leader_that_is_not_compacted_has_it_compacted(unclean):
    assert read(unclean) == LEFT
    assert unclean.fsck().invariants == frozenset()


def test_a_round_compacts_a_leader_that_can_not_be_read_before(unclean):
    unclean.alter_cluster_configs({"log.cleaner.share": "0"})
    [order] = plan_reads(unclean.image, "prices")
    store, options = unclean._services.replicas, StorageOptions(None)
    with pytest.raises(KafkaStorageError, match=r"not compacted as far as .* the next round"):
        list(read_rows(order, store, options))

    unclean.replicate()

    rows = pa.Table.from_batches(read_rows(order, store, options)).to_pylist()
    assert [row["offset"] for row in rows] == [offset for offset, _, _ in LEFT]


@pytest.mark.parametrize("broker_id", [1, 3])
def test_a_damaged_file_that_only_compaction_reads_has_its_replica_made_anew(disks, broker_id):
    cluster = disks.cluster
    append(cluster, "a1 b1 a2", "c1 b2", "a3")
    whole = contents(cluster)[2]
    before = uuids_of(cluster)
    damaged = min(disks.folder(broker_id, "prices").glob("*.parquet"))
    damaged.write_bytes(damaged.read_bytes()[:-1])

    report = cluster.maintain()
    end = time.monotonic() + 60
    while not is_whole(cluster):
        assert time.monotonic() < end, "the replica is not made anew"
        # The second inspection comes some seconds after the first; then followers adopt another.
        cluster.replicate(is_sweep=True)
        cluster.maintain()

    assert [row.broker_id for row in report.rows if row.error] == [broker_id]
    after = uuids_of(cluster)
    assert {each for each in after if after[each] != before[each]} == {broker_id}
    assert sorted(isr_of(cluster, "prices")) == [1, 2, 3]
    check_equal(cluster, whole)
    assert cluster.fsck().findings == ()


def is_whole(cluster):
    """Return whether all replicas are in sync, and have finished what is decided."""
    now = registered(cluster)
    held = states(cluster).values()
    return len(isr_of(cluster, "prices")) == 3 and all(
        each.compaction.has_finished(now) for each in held
    )


def uuids_of(cluster):
    _, partition = next(iter(cluster.image.partitions()))
    return {each: partition.uuid_of(each) for each in partition.replicas}


def test_what_no_reader_takes_as_one_file_uncompressed_is_compacted_in_several(disks, monkeypatch):
    """Values that compress well: a group of files of few bytes is more than a reader's memory."""
    cluster, keys = disks.cluster, "abcdefghijklmnopqrstuvwx"
    for some in ("a", *(keys[at : at + 4] for at in range(0, len(keys), 4))):
        append(cluster, " ".join(f"{key}{key * 1000}" for key in some))
    most = 20_000
    monkeypatch.setattr(merged_files, "UNCOMPRESSED_MAX", most // 2)
    monkeypatch.setattr(parquet_files, "UNCOMPRESSED_BYTES_MAX", most)

    report = cluster.maintain()

    assert [row.error for row in report.rows if row.error] == []
    assert not report.is_left
    assert [(key, value) for _, key, value in read(cluster)] == [(key, key * 1000) for key in keys]
    assert cluster.fsck(deep=True).findings == ()
