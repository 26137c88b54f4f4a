"""Stored bytes that are missing, damaged or of a newer version: read elsewhere, or told by name.

The readers of the data source are called as the plain objects that they are: no Spark here.
"""

from pathlib import Path

import pytest

from kafka_on_spark.errors import (
    ClusterNotFoundError,
    CorruptLogError,
    KafkaOnSparkError,
    KafkaStorageError,
)
from kafka_on_spark.log.addresses import address_of
from kafka_on_spark.query.options.source_options import parse_source
from kafka_on_spark.query.partition_names import partition_key
from kafka_on_spark.spark.format.source import BatchReader, StreamReader
from kafka_on_spark.spark.run.opening import replica_store
from kafka_on_spark.storage.replicas.segments import read_segment
from kafka_on_spark.storage.roots.roots import StorageOptions
from tests.bad_input.refusals import check_sentence
from tests.cluster.disks import new_disks

BROKERS = (1, 2, 3)
OPTIONS = StorageOptions({})


@pytest.fixture
def disks():
    with new_disks() as disks:
        disks.cluster.create_topic("t", replica_assignment={0: [1, 2, 3]})
        disks.cluster.append("t", [("k", "first" * 100)])
        disks.cluster.append("t", [("k", "second" * 100)])
        yield disks


def options(disks, **given):
    given = {"cluster": str(disks.metadata_root), "subscribe": "t", **given}
    return {name.lower(): text for name, text in given.items()}


def values(disks):
    """Return what a batch reads, as a task would on an executor that has opened nothing yet."""
    replica_store.cache_clear()
    reader = BatchReader(parse_source(options(disks), is_stream=False))
    return [
        value[:5]
        for partition in reader.partitions()
        for batch in reader.read(partition)
        for value in batch.column("value").to_pylist()
    ]


def named_in_log(disks, broker_id):
    """Return a replica's address, and the segments that its log names, in their order."""
    image = disks.cluster.image
    key = partition_key(image, "t", 0)
    address = address_of(image, key, image.partition(key), broker_id)
    batches = replica_store(OPTIONS).open(address).load().batches
    return address, [segment for batch in batches for segment in batch.segments]


def segments(disks, broker_id):
    """Return the files of a replica's segments, oldest first."""
    _, named = named_in_log(disks, broker_id)
    return [disks.folder(broker_id, "t") / segment.file_name for segment in named]


def remove(file):
    file.unlink()


def cut_short(file):
    file.write_bytes(file.read_bytes()[:-10])


def flip_a_bit(file):
    content = bytearray(file.read_bytes())
    content[len(content) // 3] ^= 1
    file.write_bytes(content)


DAMAGES = [remove, cut_short, flip_a_bit]


def test_every_changed_byte_of_a_segment_is_noticed(disks):
    table = segments(disks, 1)[0]
    content = table.read_bytes()
    unnoticed = []
    for place in range(0, len(content), 7):
        table.write_bytes(content[:place] + bytes([content[place] ^ 1]) + content[place + 1 :])
        try:
            read_alone(disks)
        except CorruptLogError:
            continue
        unnoticed.append(place)

    assert unnoticed == []


def read_alone(disks):
    """Read the first segment of broker 1's replica, and of no other."""
    address, named = named_in_log(disks, 1)
    return read_segment(address, named[0], OPTIONS)


@pytest.mark.parametrize("damage", DAMAGES)
def test_a_segment_that_is_bad_on_one_replica_is_read_on_another(disks, damage):
    damage(segments(disks, 1)[-1])

    assert values(disks) == [b"first", b"secon"]


@pytest.mark.parametrize("damage", DAMAGES)
def test_a_segment_that_is_bad_on_all_replicas_fails_the_read_and_is_named_for_each(disks, damage):
    bad = [segments(disks, broker_id)[-1] for broker_id in BROKERS]
    for file in bad:
        damage(file)

    with pytest.raises(KafkaStorageError) as caught:
        values(disks)

    check_sentence(str(caught.value), "of t-0 can't be read from any replica")
    for broker_id, file in zip(BROKERS, bad, strict=True):
        check_sentence(str(caught.value), f"broker {broker_id}: ", file.name)


def make_newer(table):
    """Say in a table's first commit that it is of the next format."""
    commit = table / "_delta_log" / f"{0:020d}.json"
    text = commit.read_text()
    assert '"kos.format.version":"' in text
    commit.write_text(text.replace('"kos.format.version":"', '"kos.format.version":"9'))


def test_a_metadata_log_of_a_newer_format_is_refused_in_a_sentence(disks):
    make_newer(Path(disks.cluster.metadata_table))

    def begin_batch():
        BatchReader(parse_source(options(disks), is_stream=False))

    def begin_stream():
        StreamReader(parse_source(options(disks), is_stream=True)).initialOffset()

    for begin in (begin_batch, begin_stream):
        with pytest.raises(KafkaOnSparkError) as caught:
            begin()
        check_sentence(
            str(caught.value), "has format 9", "this version reads", "use a newer kafka_on_spark"
        )


def test_a_replica_of_a_newer_format_is_refused_in_a_sentence(disks):
    for broker_id in BROKERS:
        make_newer(disks.folder(broker_id, "t"))

    with pytest.raises(KafkaStorageError) as caught:
        values(disks)

    check_sentence(
        str(caught.value), "has format 9", "this version reads", "use a newer kafka_on_spark"
    )


def test_a_cluster_that_is_not_there_is_refused_in_a_sentence(disks):
    with pytest.raises(ClusterNotFoundError) as caught:
        BatchReader(parse_source(options(disks, cluster="/no/such/folder"), is_stream=False))

    check_sentence(str(caught.value), "no cluster at /no/such/folder", "check the path")
