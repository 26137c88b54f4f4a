"""Looks at the newest commits of partitions that a sweep comes to, and remembers what it has read.

Apart from the round, which inspects what is not quiet. `controller/pace/quiet.py` decides.
"""

import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from operator import is_
from typing import Final, NamedTuple

from kafka_on_spark.config import Settings
from kafka_on_spark.controller.pace.quiet import Marks, SeenPartition, is_quiet
from kafka_on_spark.ids import PartitionKey
from kafka_on_spark.log.addresses import ReplicaAddress, address_of
from kafka_on_spark.metadata.image import MetadataImage
from kafka_on_spark.metadata.partition import PartitionRegistration
from kafka_on_spark.ports.process import Clock
from kafka_on_spark.service.replicate.fetching.fetch_plan import has_work

VERIFY_INTERVAL: Final = "replica.verify.interval.ms"
FORGETTING_MIN: Final = 1000
"""So many partitions are remembered before those that are deleted are looked for."""


@dataclass(frozen=True, slots=True)
class MarkOrder:
    """The tables of one partition to look at.

    Attributes:
        addresses: Its replicas.
        known: What was their newest commit when last seen; none: not known.
    """

    addresses: tuple[ReplicaAddress, ...]
    known: Marks = ()


RunMarks = Callable[[Sequence[MarkOrder]], list[Marks]]
"""Returns each partition's newest commits, in order."""


class QuietPartitions:
    """What one process has read of partitions in which nothing happens. Threads may share it.

    Without `run_marks` it looks at none, so that all are read.
    """

    def __init__(self, clock: Clock, run_marks: RunMarks | None = None) -> None:
        self._clock = clock
        self._run_marks = run_marks
        self._lock = threading.Lock()
        self._read: dict[PartitionKey, _Read] = {}
        self._forget_at = FORGETTING_MIN

    def look(
        self, image: MetadataImage, keys: Iterable[PartitionKey], settings: Settings
    ) -> "QuietLook":
        """Look at the partitions of `keys` in which nothing is to be done, by `image`.

        Before they are read: what is committed after that, the next look sees.
        """
        begun_ms = self._clock.monotonic_ms()
        interval_ms = settings.integer(VERIFY_INTERVAL)
        idle = {key: found for key in keys if (found := self._idle(image, key))}
        if self._run_marks is None or interval_ms == 0 or not idle:
            return QuietLook()
        with self._lock:
            read = {key: self._read.get(key) for key in idle}
        seen = {key: None if each is None else each.seen for key, each in read.items()}
        orders = [
            MarkOrder(addresses, _known_marks(seen[key], addresses))
            for key, (_, addresses) in idle.items()
        ]
        candidates = {
            key: SeenPartition(
                partition=partition, addresses=addresses, marks=marks, read_at_ms=begun_ms
            )
            for (key, (partition, addresses)), marks in zip(
                idle.items(), self._run_marks(orders), strict=True
            )
        }
        quiet = frozenset(
            key
            for key, each in candidates.items()
            if is_quiet(
                seen[key],
                each.partition,
                each.addresses,
                each.marks,
                now_ms=begun_ms,
                verify_interval_ms=interval_ms,
            )
        )
        self._keep(image, {key: read[key] for key in quiet})
        return QuietLook(quiet=quiet, candidates=candidates)

    def _keep(self, image: MetadataImage, quiet: "Mapping[PartitionKey, _Read | None]") -> None:
        """Remember by what of this image these are idle still: a broker or a setting that changed
        makes no new address for most, and is compared once."""
        kept: dict[PartitionKey, _Read] = {}
        for key, read in quiet.items():
            made_of = _made_of(image, key)
            if read is not None and not _is_same(read.made_of, made_of):
                kept[key] = _Read(read.seen, made_of)
        if not kept:
            return
        with self._lock:
            for key, now in kept.items():
                if self._read.get(key) is quiet[key]:
                    self._read[key] = now

    def _idle(self, image: MetadataImage, key: PartitionKey) -> "_Idle | None":
        """Return the same as `_idle`: what it was when the partition was read, while nothing of it
        has changed. To make the addresses of its replicas takes as long as to look at them."""
        read = self._read.get(key)
        if read is not None and _is_same(read.made_of, _made_of(image, key)):
            return read.seen.partition, read.seen.addresses
        return _idle(image, key)

    def learn(self, image: MetadataImage, look: "QuietLook", read: Iterable[PartitionKey]) -> None:
        """Remember the partitions of `look` in `read`: all their replicas were read since, without
        a failure, and by `image` nothing came of it."""
        learnt = {
            key: _Read(each, _made_of(image, key))
            for key in read
            if (each := look.candidates.get(key)) is not None
            and None not in each.marks
            and (found := _idle(image, key)) is not None
            and found == (each.partition, each.addresses)
        }
        with self._lock:
            self._read.update(learnt)
            if len(self._read) > self._forget_at:
                self._read = {
                    key: each
                    for key, each in self._read.items()
                    if image.partition(key) is not None
                }
                self._forget_at = max(FORGETTING_MIN, 2 * len(self._read))


@dataclass(frozen=True, slots=True, kw_only=True)
class QuietLook:
    """What a look at newest commits has found.

    Attributes:
        quiet: Partitions that are as they were when they were read.
        candidates: Those in which nothing is to be done, as they are remembered if reading them
            finds nothing.
    """

    quiet: frozenset[PartitionKey] = frozenset()
    candidates: Mapping[PartitionKey, SeenPartition] = field(default_factory=dict)


class _Read(NamedTuple):
    """A partition that was read. `made_of`: by what of an image it was idle, as `_made_of`."""

    seen: SeenPartition
    made_of: tuple[object, ...]


_Idle = tuple[PartitionRegistration, tuple[ReplicaAddress, ...]]
"""A partition, and the addresses of its replicas."""


def _known_marks(seen: SeenPartition | None, addresses: Sequence[ReplicaAddress]) -> Marks:
    """Return the marks that were seen of these replicas; none if they are others now."""
    return seen.marks if seen is not None and seen.addresses == addresses else ()


def _is_same(made_of: tuple[object, ...], now: tuple[object, ...]) -> bool:
    return all(map(is_, made_of, now))


def _made_of(image: MetadataImage, key: PartitionKey) -> tuple[object, ...]:
    """Return all of an image that says whether a partition is idle, and where its replicas are:
    replay makes new values of what changes, and keeps all others."""
    topic = image.topics.get(key.topic_id)
    configs = None if topic is None else topic.configs
    return image.partition(key), configs, image.configs, image.brokers


def _idle(image: MetadataImage, key: PartitionKey) -> _Idle | None:
    """Return a partition with its replicas' addresses; None if something is to be done in it, or
    a replica can't be read."""
    partition = image.partition(key)
    if partition is None or partition.leader is None or has_work(partition):
        return None
    if not all(
        partition.is_created(each) and image.brokers[each].is_online for each in partition.replicas
    ):
        return None
    return partition, tuple(address_of(image, key, partition, each) for each in partition.replicas)
