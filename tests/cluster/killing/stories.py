"""What is killed: upkeep of a small cluster that has much to do, and what may be read meanwhile."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from kafka_on_spark import Cluster
from kafka_on_spark.service.metadata import metadata_service
from kafka_on_spark.storage.delta import conditional_commit, log_cleaning
from tests.cluster.disks import partition_of, records
from tests.power.states.life import INTERVALS

TOPIC: Final = "orders"
REPLICAS: Final = {0: [1, 2, 3]}
PRODUCER: Final = "p"
SEQUENCE: Final = 5
"""The last append of the producer, whose retry must be a duplicate whatever happens to its header."""

CONFIGS: Final[Mapping[str, str]] = {
    "file.delete.delay.ms": "0",
    "merge.min.lag.batches": "1",
    "retention.ms": "-1",
    "delivery.timeout.ms": "60000",
}

SNAPSHOTS: Final = (metadata_service, "SNAPSHOT_RECORDS_MIN", 1)

COMPACTED: Final[Mapping[str, str]] = {
    "cleanup.policy": "compact",
    "min.cleanable.dirty.ratio": "0",
    "delete.retention.ms": "0",
}

Intervals = tuple[tuple[Any, str, int], ...]

Row = tuple[int, bytes | None, bytes | None]
"""Offset, key and value."""


def append(cluster: Cluster, *values: bytes | None, key: bytes = b"key") -> None:
    """Append one batch."""
    cluster.append(TOPIC, [(key, value) for value in values])


def produced(sequence: int) -> list[tuple[bytes, bytes]]:
    """Return what the producer appends under a sequence."""
    return records(b"produced %d" % sequence, key=b"p")


def produce(cluster: Cluster) -> None:
    """Append the producer's batches."""
    for sequence in range(SEQUENCE + 1):
        cluster.append(TOPIC, produced(sequence), producer_id=PRODUCER, sequence=sequence)


def _build_merge(cluster: Cluster) -> None:
    cluster.create_topic(TOPIC, replica_assignment=REPLICAS)
    produce(cluster)
    for number in range(28):
        append(cluster, b"%d" % number, b"%d again" % number)


def _build_compaction(cluster: Cluster) -> None:
    """Two leaderships: so at least two groups of segments, each a commit."""
    cluster.create_topic(TOPIC, replica_assignment=REPLICAS)
    produce(cluster)
    append(cluster, b"1", key=b"a")
    append(cluster, b"1", key=b"b")
    cluster.reassign({(TOPIC, 0): [2, 1, 3]})
    cluster.elect_leaders("preferred")
    append(cluster, b"2", key=b"a")
    append(cluster, None, key=b"b")
    append(cluster, b"1", key=b"c")
    cluster.replicate(is_sweep=True)
    assert partition_of(cluster, TOPIC).leader == 2
    cluster.alter_topic_configs(TOPIC, COMPACTED)


def _build_retention(cluster: Cluster) -> None:
    cluster.create_topic(TOPIC, replica_assignment=REPLICAS)
    produce(cluster)
    for number in range(6):
        append(cluster, b"%d" % number)
    cluster.alter_topic_configs(TOPIC, {"retention.bytes": 4000})


def _build_cleaning(cluster: Cluster) -> None:
    """Removed files, files of older leaderships, and old commits, checkpoints and snapshots."""
    cluster.create_topic(TOPIC, replica_assignment=REPLICAS)
    produce(cluster)
    for number in range(14):
        cluster._metadata._snapshot_record_count = 1  # a snapshot is due with each append
        append(cluster, b"%d" % number)
        cluster._services.finish_maintenance()
    cluster.alter_cluster_configs({"file.delete.delay.ms": 3_600_000})
    cluster.delete_records({(TOPIC, 0): 8})
    cluster.reassign({(TOPIC, 0): [2, 1, 3]})
    cluster.elect_leaders("preferred")
    conditional_commit.CHECKPOINT_INTERVAL = 100  # so that one is overdue when upkeep comes
    append(cluster, b"of another leadership")
    cluster.replicate(is_sweep=True)
    cluster.alter_cluster_configs({"file.delete.delay.ms": 0})


def _maintain(times: int) -> Callable[[Cluster], None]:
    def act(cluster: Cluster) -> None:
        for _ in range(times):
            report = cluster.maintain()
            assert not [row for row in report.rows if row.error], report.rows

    return act


def _equal(whole: list[Row], final: list[Row], rows: list[Row]) -> str | None:
    return None if rows == whole else "the records are others"


def _a_suffix(whole: list[Row], final: list[Row], rows: list[Row]) -> str | None:
    if len(rows) < len(final):
        return "records are gone that no retention takes"
    return None if rows == whole[len(whole) - len(rows) :] else "what is left is no suffix"


def _last_of_each_key(whole: list[Row], final: list[Row], rows: list[Row]) -> str | None:
    if not set(rows) <= set(whole) or rows != sorted(rows):
        return "there are records that nobody appended, or their order is another"
    newest = {key: value for _, key, value in whole}
    read = {key: value for _, key, value in rows}
    for key, value in newest.items():
        if read.get(key) != value:
            return f"{key!r} is {read.get(key)!r}, and was {value!r} last"
    return None


@dataclass(frozen=True, slots=True)
class Story:
    """What happens, and what may be read.

    Attributes:
        build: Makes a topic and leaves upkeep to do.
        act: Does the upkeep, in the process that is killed.
        judge: Returns what is wrong with the rows that are read after the kill, given those of
            before and those that upkeep without a kill leaves; None: nothing.
        kinds: What changes of these files there must be, so that the story is about what it says.
        built_with: Settings of modules while it is built.
        done_with: Those of the upkeep, and of all that comes after it.
    """

    build: Callable[[Cluster], None]
    act: Callable[[Cluster], None]
    judge: Callable[[list[Row], list[Row], list[Row]], str | None]
    kinds: tuple[str, ...]
    built_with: Intervals = field(default=())
    done_with: Intervals = field(default=())

    def set_up(self) -> None:
        """Give this process the settings of the upkeep."""
        for module, name, value in self.done_with:
            setattr(module, name, value)


STORIES: Final[Mapping[str, Story]] = {
    "merge": Story(
        _build_merge,
        _maintain(1),
        _equal,
        (
            r"rename broker-\d/[^/]*/[^/]*/0-[^/]*\.parquet",
            r"put .*/producers-.*",
            r"put broker-\d/.*\.json",
        ),
    ),
    "compaction": Story(
        _build_compaction,
        _maintain(3),
        _last_of_each_key,
        (r"put meta/.*\.json", r"put broker-\d/.*\.json", r"unlink broker-\d/.*\.parquet"),
    ),
    "retention": Story(
        _build_retention,
        _maintain(1),
        _a_suffix,
        (r"put meta/.*\.json", r"put broker-\d/.*\.json", r"unlink broker-\d/.*\.parquet"),
    ),
    "cleaning": Story(
        _build_cleaning,
        _maintain(2),
        _equal,
        (
            r"unlink broker-\d/.*-.*\.parquet",
            r"unlink broker-\d/.*\.json",
            r"unlink broker-\d/.*checkpoint.*",
            r"checkpoint .*",
            r"unlink meta/.*\.json",
            r"unlink meta/snapshots/.*",
        ),
        (*(each for each in INTERVALS if each[0] is not log_cleaning), SNAPSHOTS),
        INTERVALS,
    ),
}
