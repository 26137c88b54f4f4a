"""Which partitions a sweep need not open: nothing has changed since it last read them whole. Pure.

Opening a table takes a hundred times as long as looking whether its newest commit file is still the
one that was there, and has no successor. Such a look finds all that any process has done to a
table, another table or an older one in its place, and a disk that is gone. It does not find a file
that was damaged below: for that each table is opened anew once in `replica.verify.interval.ms`.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from kafka_on_spark.log.addresses import ReplicaAddress
from kafka_on_spark.metadata.partition import PartitionRegistration


@dataclass(frozen=True, slots=True)
class TableMark:
    """Which commit of a table is the newest.

    Attributes:
        version: Its version.
        stamp: What tells its file from any other of that name.
    """

    version: int
    stamp: tuple[object, ...]


Marks = tuple[TableMark | None, ...]
"""Of a partition's replicas, in their order; None: it can't be said."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SeenPartition:
    """A partition whose replicas were all read, and in which nothing was wrong or left to do.

    Attributes:
        partition: Its registration, before and after.
        addresses: Its replicas' addresses by the image.
        marks: Of their tables, before they were read.
        read_at_ms: When they were read, by the clock of the process.
    """

    partition: PartitionRegistration
    addresses: tuple[ReplicaAddress, ...]
    marks: Marks
    read_at_ms: int


def is_quiet(
    seen: SeenPartition | None,
    partition: PartitionRegistration,
    addresses: Sequence[ReplicaAddress],
    marks: Marks,
    *,
    now_ms: int,
    verify_interval_ms: int,
) -> bool:
    """Return whether the replicas of a partition are as they were when they were read, lately
    enough."""
    return (
        seen is not None
        and None not in marks
        and 0 <= now_ms - seen.read_at_ms < verify_interval_ms
        and seen.partition == partition
        and seen.addresses == tuple(addresses)
        and seen.marks == marks
    )
