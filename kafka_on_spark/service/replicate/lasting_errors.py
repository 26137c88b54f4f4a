"""Unreadable replicas: this process fails to read them for long, though their roots answer.

The errors of inspections are counted by replica, and forgotten with the first inspection that
succeeds. A replica is set aside once every inspection has failed for a whole session, at least
three of them, and the root's probe answers this process: then another member leads, and the ISR
goes on without the replica (controller/verdicts/unreadable_replicas.py). An error that refuses the
request of the caller is not counted.
"""

import logging
import threading
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Final, NamedTuple

from kafka_on_spark.controller.partitions.reports import (
    PartitionReport,
    ReplicaInspection,
    ReplicaReport,
)
from kafka_on_spark.controller.verdicts.unreadable_replicas import leave_unreadable
from kafka_on_spark.errors import (
    FencedLeaderEpochError,
    InconsistentClusterError,
    KafkaStorageError,
    ProtocolError,
)
from kafka_on_spark.ids import BrokerId, LeaderEpoch, PartitionKey, ReplicaUuid
from kafka_on_spark.log.addresses import address_of
from kafka_on_spark.metadata.image import MetadataImage
from kafka_on_spark.metadata.partition import PartitionRegistration
from kafka_on_spark.ports.process import Clock
from kafka_on_spark.raft.epochs import Generation, check_generation
from kafka_on_spark.service.metadata.metadata_roles import MetadataDecider
from kafka_on_spark.service.probing.inspecting_leaderless import InspectionOrder, RunInspections
from kafka_on_spark.service.probing.probes import RunProbes, probe_orders

log = logging.getLogger(__name__)

FAILURES_MIN: Final = 3
"""Inspections that must have failed: fewer may all have met the same passing error."""

_COUNTED: Final = frozenset({KafkaStorageError.code, FencedLeaderEpochError.code})


class _ReplicaKey(NamedTuple):
    key: PartitionKey
    broker_id: BrokerId
    replica_uuid: ReplicaUuid


@dataclass(slots=True)
class _Failing:
    """Inspections of one replica that failed in a row; times are this process's monotonic ms.

    `leader_epoch`: of the image that they were planned on.
    """

    since_ms: float
    leader_epoch: LeaderEpoch
    is_fence: bool = False
    count: int = 0
    error: str | None = None
    decided_ms: float | None = None


class LastingErrors:
    """The replicas that one process can't read. Threads may share it."""

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
        self._failing: dict[_ReplicaKey, _Failing] = {}

    def record(self, report: PartitionReport) -> None:
        """Record which replicas could be read, and which could not."""
        now_ms = self._clock.monotonic_ms()
        with self._lock:
            for seen in (report.leader, *report.followers):
                place = _ReplicaKey(report.key, seen.broker_id, seen.replica_uuid)
                if seen.error_code not in _COUNTED or seen.is_bad:
                    self._failing.pop(place, None)
                else:
                    self._count(place, seen, report.leader_epoch, now_ms)

    def _count(
        self, place: _ReplicaKey, seen: ReplicaReport, leader_epoch: LeaderEpoch, now_ms: float
    ) -> None:
        is_fence = seen.error_code == FencedLeaderEpochError.code
        known = self._failing.get(place)
        if known is None or known.is_fence != is_fence or known.leader_epoch != leader_epoch:
            known = self._failing[place] = _Failing(now_ms, leader_epoch, is_fence)
        known.count += 1
        known.error = seen.error

    def set_aside_unreadable(self) -> int:
        """Set aside the replicas that could not be read for too long; return how many ISRs changed.

        Raises:
            InconsistentClusterError: All members of an ISR have a fence above the newest
                metadata: the metadata log went back. Or one has, of a later generation.
            And as `MetadataDecider.submit`.
        """
        lasting = self._lasting()
        if not lasting:
            return 0
        image = self._metadata.catch_up()
        lasting = {
            place: failing
            for place, failing in lasting.items()
            if _is_member(image.partition(place.key), place, failing)
        }
        self._check_fences(image, lasting)
        answering = self._answering(image, {place.broker_id for place in lasting})
        return sum(
            self._set_aside(image, place, failing)
            for place, failing in lasting.items()
            if place.broker_id in answering
        )

    def _lasting(self) -> dict[_ReplicaKey, _Failing]:
        """Return the errors that have lasted long enough, and were not decided on just now."""
        now_ms = self._clock.monotonic_ms()
        session_ms = self._metadata.image.settings().integer("broker.session.timeout.ms")
        with self._lock:
            lasting = {
                place: each
                for place, each in self._failing.items()
                if each.count >= FAILURES_MIN
                and now_ms - each.since_ms >= session_ms
                and (
                    each.decided_ms is None or now_ms - each.decided_ms >= session_ms / FAILURES_MIN
                )
            }
            for each in lasting.values():
                each.decided_ms = now_ms
        return lasting

    def _check_fences(self, image: MetadataImage, lasting: dict[_ReplicaKey, _Failing]) -> None:
        """Check that not every member of an ISR has a fence above the metadata."""
        fenced: dict[PartitionKey, set[BrokerId]] = {}
        for place, failing in lasting.items():
            if failing.is_fence:
                fenced.setdefault(place.key, set()).add(place.broker_id)
        for key, broker_ids in fenced.items():
            partition = image.partition(key)
            assert partition is not None, "it has members"
            for broker_id in broker_ids:
                self._check_generation(image, image.brokers[broker_id].root)
            if broker_ids >= partition.isr and len(broker_ids) > 0:
                raise InconsistentClusterError(
                    f"every in-sync replica of {image.name_of(key)} has seen a later leadership"
                    f" than the metadata log knows ({partition.leader_epoch}): the metadata log"
                    " went back; stop and restore it"
                )

    def _check_generation(self, image: MetadataImage, root: str) -> None:
        try:
            found = self._generation_of(root)
        except ProtocolError as error:
            log.info("the generation on %s is not known: %s", root, error)
            return
        check_generation(Generation(image.generation), Generation(found))

    def _answering(self, image: MetadataImage, broker_ids: Iterable[BrokerId]) -> set[BrokerId]:
        session_ms = image.settings().integer("broker.session.timeout.ms")
        orders = probe_orders([image.brokers[each] for each in sorted(broker_ids)], session_ms)
        results = self._run_probes(orders) if orders else []
        return {each.broker_id for each in results if each.is_answer}

    def _set_aside(self, image: MetadataImage, place: _ReplicaKey, failing: _Failing) -> bool:
        partition = image.partition(place.key)
        assert partition is not None, "it is a member"
        readable = self._readable(image, place, partition)
        seconds = (self._clock.monotonic_ms() - failing.since_ms) / 1000
        cause = (
            f"broker {place.broker_id}: its root answers, and {failing.count} inspections of the"
            f" replica failed in {seconds:.1f} s ({failing.error}); it is not lost"
        )
        is_done = self._metadata.submit(
            lambda newest: leave_unreadable(
                newest,
                place.key,
                place.broker_id,
                place.replica_uuid,
                readable=readable,
                cause=cause,
            ),
            timeout_ms=self._timeout_ms,
        )
        if is_done:
            log.warning("%s: %s", image.name_of(place.key), cause)
        return is_done

    def _readable(
        self, image: MetadataImage, place: _ReplicaKey, partition: PartitionRegistration
    ) -> frozenset[BrokerId]:
        """Return the other members that this process can read."""
        others = [
            each
            for each in sorted(partition.isr - {place.broker_id})
            if partition.is_created(each) and not self._is_failing(place.key, partition, each)
        ]
        inspections = self._run_inspections(
            [
                InspectionOrder(
                    address=address_of(image, place.key, partition, each),
                    partition_epoch=partition.partition_epoch,
                    high_watermark=partition.high_watermark,
                )
                for each in others
            ]
        )
        return frozenset(
            each.broker_id for each in inspections if isinstance(each, ReplicaInspection)
        )

    def _is_failing(
        self, key: PartitionKey, partition: PartitionRegistration, broker_id: BrokerId
    ) -> bool:
        with self._lock:
            return _ReplicaKey(key, broker_id, partition.uuid_of(broker_id)) in self._failing


def _is_member(
    partition: PartitionRegistration | None, place: _ReplicaKey, failing: _Failing
) -> bool:
    """Return whether the replica that fails is in the ISR, under the leadership that it failed
    under."""
    if partition is None or place.broker_id not in partition.isr:
        return False
    is_same = partition.uuid_of(place.broker_id) == place.replica_uuid
    is_now = partition.leader_epoch == failing.leader_epoch
    return is_same and is_now and partition.is_created(place.broker_id)
