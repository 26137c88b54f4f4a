"""A leader's replica that this process fails to read for long, though its root answers.

An error is no verdict, however long it lasts: the replica is not lost, and rejoins like any
follower once it can be read. A follower leaves the ISR by its lag; a leader would stop its
partition for ever. So another member leads, and the ISR goes on without it, once every inspection
has failed for a whole session, at least three of them, and the root's probe answers this process.
An error that refuses the request of the caller is not counted.
"""

import logging
import threading
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from kafka_on_spark.base.errors import (
    FencedLeaderEpochError,
    InconsistentClusterError,
    KafkaStorageError,
    ProtocolError,
)
from kafka_on_spark.base.ids import BrokerId, LeaderEpoch, PartitionKey, ReplicaUuid
from kafka_on_spark.base.process import Clock
from kafka_on_spark.controller.inspecting_leaderless import InspectionOrder, RunInspections
from kafka_on_spark.controller.probes import RunProbes, probe_orders
from kafka_on_spark.controller.unreadable_replicas import leave_unreadable
from kafka_on_spark.log.addresses import address_of
from kafka_on_spark.metadata.image import MetadataImage
from kafka_on_spark.metadata.metadata_roles import MetadataDecider
from kafka_on_spark.metadata.partition import PartitionRegistration
from kafka_on_spark.metadata.quorum.generations import Generation, check_generation
from kafka_on_spark.metadata.reports import PartitionReport, ReplicaInspection

log = logging.getLogger(__name__)

FAILURES_MIN: Final = 3
"""Inspections that must have failed: fewer may all have met the same passing error."""

_COUNTED: Final = frozenset({KafkaStorageError.code, FencedLeaderEpochError.code})


@dataclass(slots=True)
class _Failing:
    """Inspections of a partition's leader that failed in a row, on this process's monotonic clock.

    Attributes:
        leadership: Broker, replica, and the leader epoch of the image they were planned on.
        is_fence: The replica has seen a later leadership.
    """

    leadership: tuple[BrokerId, ReplicaUuid, LeaderEpoch]
    is_fence: bool
    since_ms: float
    count: int = 0
    error: str | None = None


class UnreadableLeaders:
    """The leaders that one process can't read. Threads may share it."""

    def __init__(
        self,
        metadata: MetadataDecider,
        clock: Clock,
        *,
        run_probes: RunProbes,
        run_inspections: RunInspections,
        timeout_ms: int,
        generation_of: Callable[[str], int] = lambda root: 0,
    ) -> None:
        self._generation_of = generation_of
        self._metadata = metadata
        self._clock = clock
        self._run_probes = run_probes
        self._run_inspections = run_inspections
        self._timeout_ms = timeout_ms
        self._lock = threading.Lock()
        self._failing: dict[PartitionKey, _Failing] = {}

    def record(self, report: PartitionReport) -> None:
        """Record whether a leader could be read."""
        seen = report.leader
        leadership = (seen.broker_id, seen.replica_uuid, report.leader_epoch)
        is_fence = seen.error_code == FencedLeaderEpochError.code
        with self._lock:
            known = self._failing.pop(report.key, None)
            if seen.error_code not in _COUNTED or seen.is_bad:
                return
            if known is None or (known.leadership, known.is_fence) != (leadership, is_fence):
                known = _Failing(leadership, is_fence, self._clock.monotonic_ms())
            known.count += 1
            known.error = seen.error
            self._failing[report.key] = known

    def replace_lasting(self) -> int:
        """Have others lead instead of those that could not be read for too long, whose failures
        are counted anew; return how many ISRs changed.

        Raises:
            InconsistentClusterError: The members of an ISR that can be read have seen a later
                leadership than the newest metadata, or the leader's root a later generation.
            And as `MetadataDecider.submit`.
        """
        lasting = self._take_lasting()
        if not lasting:
            return 0
        image = self._metadata.catch_up()
        return sum(self._replace(image, key, failing) for key, failing in lasting.items())

    def _take_lasting(self) -> dict[PartitionKey, _Failing]:
        session_ms = self._metadata.image.settings().integer("broker.session.timeout.ms")
        until_ms = self._clock.monotonic_ms() - session_ms
        with self._lock:
            lasting = {
                key: each
                for key, each in self._failing.items()
                if each.count >= FAILURES_MIN and each.since_ms <= until_ms
            }
            for key in lasting:
                del self._failing[key]
        return lasting

    def _replace(self, image: MetadataImage, key: PartitionKey, failing: _Failing) -> bool:
        partition = image.partition(key)
        if partition is None or partition.leader is None:
            return False
        leader, uuid = partition.leader, partition.uuid_of(partition.leader)
        if (leader, uuid, partition.leader_epoch) != failing.leadership:
            return False
        broker = image.brokers[leader]
        if failing.is_fence:
            self._check_generation(image, broker.root)
        session_ms = image.settings().integer("broker.session.timeout.ms")
        if not all(each.is_answer for each in self._run_probes(probe_orders([broker], session_ms))):
            return False
        others = self._inspect_others(image, key, partition)
        readable = frozenset(
            each.broker_id for each in others if (each.fence or 0) <= partition.leader_epoch
        )
        if failing.is_fence and not readable and len(others) == len(partition.isr) - 1:
            raise InconsistentClusterError(
                f"the in-sync replicas of {image.name_of(key)} have seen a later leadership than"
                f" the metadata log knows ({partition.leader_epoch}): the metadata log went back;"
                " stop and restore it"
            )
        seconds = (self._clock.monotonic_ms() - failing.since_ms) / 1000
        cause = (
            f"broker {leader}: its root answers, and {failing.count} inspections of the replica"
            f" failed in {seconds:.1f} s ({failing.error}); it is not lost"
        )
        is_done = self._metadata.submit(
            lambda newest: leave_unreadable(
                newest, key, leader, uuid, readable=readable, cause=cause
            ),
            timeout_ms=self._timeout_ms,
        )
        if is_done:
            log.warning("%s: %s", image.name_of(key), cause)
        return is_done

    def _check_generation(self, image: MetadataImage, root: str) -> None:
        try:
            found = self._generation_of(root)
        except ProtocolError as error:
            log.info("the generation on %s is not known: %s", root, error)
            return
        check_generation(Generation(image.generation), Generation(found))

    def _inspect_others(
        self, image: MetadataImage, key: PartitionKey, partition: PartitionRegistration
    ) -> list[ReplicaInspection]:
        """Return what this process can read of the other members."""
        orders = [
            InspectionOrder(
                address=address_of(image, key, partition, each),
                partition_epoch=partition.partition_epoch,
                high_watermark=partition.high_watermark,
            )
            for each in sorted(partition.isr)
            if each != partition.leader and partition.is_created(each)
        ]
        return [each for each in self._run_inspections(orders) if each is not None]
