"""A cluster for a rehearsal: what is decided takes effect in memory, and nowhere else.

Apart from the metadata service and the replicas, which it stands in for: whoever decides in steps,
each on what the one before led to, does so here by the same functions, and nothing is committed.
"""

import threading
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import TypeVar

from kafka_on_spark.controller.result import ControllerResult
from kafka_on_spark.errors import CommitConflictError
from kafka_on_spark.ids import ControllerEpoch, LeaderEpoch, Offset
from kafka_on_spark.log.batch import Segment
from kafka_on_spark.log.state import LogChange, ReplicaState
from kafka_on_spark.metadata.image import MetadataImage
from kafka_on_spark.metadata.records import ControllerRecord, MetadataBatch, Record, Stamp
from kafka_on_spark.ports import NO_TURN, ReplicaAddress, ReplicaLog, ReplicaStore, Turn
from kafka_on_spark.service.metadata_service import MetadataService
from kafka_on_spark.service.read_only_log import ReadOnlyLog

T = TypeVar("T")


class RehearsedMetadata(MetadataService):
    """The metadata of `now`, and what is decided on it from then on.

    A lease that somebody holds is taken for resigned: the question is what a controller would do.

    Attributes:
        decided: The records that would be committed, without claims and resignations.
    """

    def __init__(self, now: MetadataService) -> None:
        super().__init__(ReadOnlyLog(now._log), now._clock, random=now._random)
        image = now.catch_up()
        if image.controller is not None:
            image = replace(image, controller=replace(image.controller, controller_id=None))
        self._image = image
        self.decided: list[Record] = []

    def catch_up(self) -> MetadataImage:
        """Return the image: nobody else takes part in a rehearsal."""
        return self._image

    def _submit(
        self,
        decide: Callable[[MetadataImage, Turn], ControllerResult[T]],
        timeout_ms: int,
        controller: tuple[str, ControllerEpoch] | None,
        note: Callable[[], bytes] | None,
    ) -> T:
        """Have what is submitted or concluded take effect on this image alone."""
        result = decide(self._image, NO_TURN)
        if result.records:
            batch = MetadataBatch(
                base_offset=Offset(self._image.offset),
                stamp=Stamp(time_ms=self._clock.now_ms()),
                records=tuple(result.records),
            )
            self._image = self._image.replay(batch)
            self.decided.extend(
                each for each in result.records if not isinstance(each, ControllerRecord)
            )
        return result.response

    def maintain(self) -> None:
        """Nothing is due."""


class RehearsedReplicas:
    """A ReplicaStore that reads tables as they are, and commits to them in memory.

    Threads may share it: those of one rehearsal see each other's commits, as they would in earnest.
    """

    def __init__(self, replicas: ReplicaStore) -> None:
        self._replicas = replicas
        self._lock = threading.Lock()
        self._states: dict[ReplicaAddress, ReplicaState] = {}

    def open(self, address: ReplicaAddress) -> ReplicaLog:
        """Return the log at `address`; nothing is read yet."""
        return _RehearsedLog(self, address)

    def open_anew(self, address: ReplicaAddress) -> ReplicaLog:
        """Return the log at `address`, opened anew unless this rehearsal has changed it."""
        with self._lock:
            is_known = address in self._states
        if not is_known:
            self._replicas.open_anew(address)
        return _RehearsedLog(self, address)

    def make(self, address: ReplicaAddress, *, leader_epoch: LeaderEpoch | None = None) -> None:
        """Have an empty log at `address`, as one that was never made would be."""
        with self._lock:
            state = ReplicaState(identity=address.identity, leader_epoch=leader_epoch)
            self._states[address] = state

    def load(self, address: ReplicaAddress) -> ReplicaState:
        """Return a log's newest state, of this rehearsal if it has changed it.

        Raises:
            As ReplicaLog.load.
        """
        with self._lock:
            known = self._states.get(address)
        return self._replicas.open(address).load() if known is None else known

    def commit(
        self, address: ReplicaAddress, state: ReplicaState, change: LogChange
    ) -> ReplicaState:
        """Return what `change` leads to, and have it so from now on.

        Raises:
            CommitConflictError: Another of this rehearsal has changed it since `state`.
        """
        with self._lock:
            known = self._states.get(address)
            if known is not None and known.version != state.version:
                raise CommitConflictError("version is taken", version=state.version + 1)
            after = self._states[address] = state.apply(change)
            return after


class _RehearsedLog:
    def __init__(self, replicas: RehearsedReplicas, address: ReplicaAddress) -> None:
        self._replicas = replicas
        self._address = address

    def load(self) -> ReplicaState:
        return self._replicas.load(self._address)

    def commit(self, state: ReplicaState, change: LogChange) -> ReplicaState:
        return self._replicas.commit(self._address, state, change)

    def maintain(self) -> None:
        """Nothing is due."""


class RehearsedSegments:
    """A SegmentStore that copies nothing, and takes every source for sound."""

    def copy(
        self,
        source: ReplicaAddress,
        target: ReplicaAddress,
        segments: Sequence[Segment],
        names: Sequence[str] | None = None,
    ) -> None:
        """Do nothing: what would be copied is what would be committed."""

    def check(self, address: ReplicaAddress, segment: Segment) -> None:
        """Do nothing: every source is taken for sound."""
