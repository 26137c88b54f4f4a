"""Replicas that others readmitted to an ISR after a small pass took them out, by the history.

A small pass acts on facts of just now, and the history of a long log takes longer to read than they
may be old. So the history is read before the other facts are complete. What it says stands until
the partition changes: nothing has readmitted a replica while the partition epoch is the same.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from kafka_on_spark.controller.commands.small_pass import SESSIONS_UNDISPUTED, readmitted_by_others
from kafka_on_spark.ids import BrokerId, PartitionEpoch, PartitionKey
from kafka_on_spark.metadata.partition import PartitionRegistration
from kafka_on_spark.ports.process import Clock
from kafka_on_spark.service.metadata.metadata_roles import MetadataLogReader

Waits = Mapping[PartitionKey, PartitionRegistration]
Replica = tuple[PartitionKey, BrokerId]


@dataclass(frozen=True, slots=True)
class _LookedUp:
    """Whether a replica was readmitted, of which partition epoch, and when that was looked up."""

    epoch: PartitionEpoch
    at_ms: int
    is_readmitted: bool


class ReadmittedReplicas:
    """What one append knows of the members of the ISRs that it waits for."""

    def __init__(self, metadata: MetadataLogReader, clock: Clock) -> None:
        self._metadata = metadata
        self._clock = clock
        self._known: dict[Replica, _LookedUp] = {}

    def look_up_early(self, waits: Waits, failing: Iterable[BrokerId]) -> None:
        """Look up members of ISRs that fail, unless that is known."""
        replicas = _members(waits, failing)
        self._look_up(waits, [each for each in replicas if not self._is_known(waits, each)])

    def among(self, waits: Waits, silent: Iterable[BrokerId]) -> frozenset[Replica]:
        """Return the silent members that others have readmitted lately."""
        replicas = _members(waits, silent)
        self._look_up(waits, [each for each in replicas if self._is_old(waits, each)])
        return frozenset(each for each in replicas if self._known[each].is_readmitted)

    def _look_up(self, waits: Waits, replicas: Sequence[Replica]) -> None:
        if not replicas:
            return
        now_ms, session_ms = self._clock.monotonic_ms(), self._session_ms()
        start = self._metadata.offset_at(self._clock.now_ms() - SESSIONS_UNDISPUTED * session_ms)
        end = self._metadata.image.offset
        before = self._metadata.image_at(min(start, end))
        batches = self._metadata.batches(min(start, end), end)
        for key, broker_id in replicas:
            is_readmitted = readmitted_by_others(
                before, batches, key, broker_id, is_own=self._metadata.is_own_change
            )
            self._known[key, broker_id] = _LookedUp(
                waits[key].partition_epoch, now_ms, is_readmitted
            )

    def _is_known(self, waits: Waits, replica: Replica) -> bool:
        known = self._known.get(replica)
        return known is not None and known.epoch == waits[replica[0]].partition_epoch

    def _is_old(self, waits: Waits, replica: Replica) -> bool:
        """Return whether to look up again: that a replica was readmitted counts for a session."""
        if not self._is_known(waits, replica):
            return True
        known = self._known[replica]
        return known.is_readmitted and known.at_ms < self._clock.monotonic_ms() - self._session_ms()

    def _session_ms(self) -> int:
        return self._metadata.image.settings().integer("broker.session.timeout.ms")


def _members(waits: Waits, brokers: Iterable[BrokerId]) -> list[Replica]:
    """Return the members of ISRs that are on these brokers."""
    chosen = frozenset(brokers)
    return [
        (key, broker_id)
        for key, partition in waits.items()
        for broker_id in sorted(partition.isr & chosen)
    ]
