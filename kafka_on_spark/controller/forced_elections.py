"""Leads all partitions anew in a new generation: fences every replica that it reaches, above every
fence that it finds there, and elects by what the fenced logs say.

A leader is elected by proof only where all replicas of a partition answered: the metadata that was
lost may have held a higher high watermark, or a smaller ISR, of those that did not. Else it is an
unclean election, and says so.
"""

import logging
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Final, NamedTuple

from kafka_on_spark.base.errors import FencedLeaderEpochError, KafkaOnSparkError, KafkaStorageError
from kafka_on_spark.base.ids import BrokerId, LeaderEpoch, Offset, PartitionKey, TopicPartition
from kafka_on_spark.controller.forcing import awaiting_leaders, raise_above
from kafka_on_spark.controller.inspecting_leaderless import inspect_replica, inspections_of
from kafka_on_spark.controller.recovery import elect_where_none, recover
from kafka_on_spark.log import operations
from kafka_on_spark.log.addresses import ReplicaAddress, address_of
from kafka_on_spark.log.replica_operations import commit_decided
from kafka_on_spark.log.replicas import ReplicaStore
from kafka_on_spark.metadata.broker import BrokerRegistration
from kafka_on_spark.metadata.image import MetadataImage
from kafka_on_spark.metadata.metadata_roles import MetadataDecider
from kafka_on_spark.metadata.result import ControllerResult

log = logging.getLogger(__name__)

ROUNDS_MAX: Final = 8
"""Processes of the old generation may still lead anew while replicas are fenced."""

WriteGeneration = Callable[[BrokerRegistration, int], None]
"""Writes a generation on a broker's root."""


class _Replica(NamedTuple):
    key: PartitionKey
    broker_id: BrokerId
    address: ReplicaAddress


@dataclass(frozen=True, slots=True, kw_only=True)
class ForcedElectionsReport:
    """What a new generation could do.

    Attributes:
        fenced_count: Replicas that were fenced.
        proven: Partitions whose leader proved to have all committed records.
        unclean: Partitions whose leader may lack some.
        leaderless: Partitions of which no replica answered.
        unreached: Brokers whose roots did not take the generation.
    """

    fenced_count: int
    proven: tuple[TopicPartition, ...]
    unclean: tuple[TopicPartition, ...]
    leaderless: tuple[TopicPartition, ...]
    unreached: tuple[BrokerId, ...]


Ask = Callable[[_Replica], LeaderEpoch | None]
RunEach = Callable[[Ask, Sequence[_Replica]], Iterable[LeaderEpoch | None]]
"""Calls a function with each of several replicas, perhaps at once; results are in their order."""


class ForcedElections:
    """Leads partitions anew."""

    def __init__(
        self,
        metadata: MetadataDecider,
        replicas: ReplicaStore,
        *,
        run_each: RunEach,
        write_generation: WriteGeneration,
        timeout_ms: int,
    ) -> None:
        self._metadata = metadata
        self._replicas = replicas
        self._run_each = run_each
        self._write_generation = write_generation
        self._timeout_ms = timeout_ms

    def run(self) -> ForcedElectionsReport:
        """Fence, and elect. Run again, it goes on with what has no leader as yet.

        Raises:
            InconsistentClusterError: A fence is out of reach.
            KafkaStorageError: Processes of the old generation keep leading anew.
            And as `MetadataDecider.submit`.
        """
        image = self._metadata.catch_up()
        unreached = self._tell_roots(image)
        keys = frozenset(key for key, each in image.partitions() if each.leader is None)
        fenced = self._fence(keys)
        waiting = frozenset(awaiting_leaders(self._metadata.catch_up()))
        elected = self._elect(waiting, fenced)
        after = self._metadata.catch_up()
        unclean = {key for key in elected if _generations(after)[key] > _generations(image)[key]}
        return ForcedElectionsReport(
            fenced_count=len(fenced),
            proven=_names(after, elected - unclean),
            unclean=_names(after, unclean),
            leaderless=_names(after, awaiting_leaders(after)),
            unreached=tuple(unreached),
        )

    def _tell_roots(self, image: MetadataImage) -> list[BrokerId]:
        """Write the generation on all brokers' roots; return those that can't be reached."""
        unreached = []
        for broker_id, broker in sorted(image.brokers.items()):
            try:
                self._write_generation(broker, image.generation)
            except KafkaOnSparkError as error:
                log.warning("the root of broker %d can't be reached: %s", broker_id, error)
                unreached.append(broker_id)
        return unreached

    def _fence(self, keys: frozenset[PartitionKey]) -> set[tuple[PartitionKey, BrokerId]]:
        """Fence each replica that can be reached, in a leadership above all that they have seen;
        return which were."""
        for _ in range(ROUNDS_MAX):
            fences = _highest(self._each(self._metadata.catch_up(), keys, self._seen_fence))
            self._metadata.submit(
                partial(raise_above, fences=fences, cause="above the fences of its replicas"),
                timeout_ms=self._timeout_ms,
            )
            image = self._metadata.catch_up()
            fenced = self._each(image, keys, partial(self._fenced, image))
            if all(fence <= _epoch_of(image, key) for (key, _), fence in fenced.items()):
                return set(fenced)
        raise KafkaStorageError(
            "processes of the old generation keep leading partitions anew: stop them, and force"
            " again"
        )

    def _each(
        self,
        image: MetadataImage,
        keys: frozenset[PartitionKey],
        ask: Ask,
    ) -> dict[tuple[PartitionKey, BrokerId], LeaderEpoch]:
        replicas = list(_replicas_of(image, keys))
        answers = self._run_each(ask, replicas)
        return {
            (each.key, each.broker_id): answer
            for each, answer in zip(replicas, answers, strict=True)
            if answer is not None
        }

    def _seen_fence(self, replica: _Replica) -> LeaderEpoch | None:
        """Return the leadership that a replica has seen, -1 before the first; None: it does not
        answer."""
        try:
            state = self._replicas.open(replica.address).load()
        except KafkaOnSparkError as error:
            log.info("a replica can't be read: %s: %s", replica.address, error)
            return None
        return LeaderEpoch(-1) if state.leader_epoch is None else state.leader_epoch

    def _fenced(self, image: MetadataImage, replica: _Replica) -> LeaderEpoch | None:
        """Fence a replica; return its fence, which is higher where somebody was quicker."""
        leader_epoch = _epoch_of(image, replica.key)
        try:
            state = commit_decided(
                self._replicas.open(replica.address),
                lambda state: operations.adopt(
                    state, leader_epoch=leader_epoch, truncate_to=None, floor=Offset(0)
                ),
            )
        except FencedLeaderEpochError:
            return LeaderEpoch(leader_epoch + 1)
        except KafkaOnSparkError as error:
            log.info("a replica can't be fenced: %s: %s", replica.address, error)
            return None
        return state.leader_epoch

    def _elect(
        self,
        waiting: frozenset[PartitionKey],
        fenced: set[tuple[PartitionKey, BrokerId]],
    ) -> frozenset[PartitionKey]:
        image = self._metadata.catch_up()
        inspections = [
            found
            for key in sorted(waiting)
            for order in inspections_of(image, key)
            if (key, order.address.broker_id) in fenced
            and (found := inspect_replica(order, self._replicas)) is not None
        ]

        def decide(now: MetadataImage) -> ControllerResult[list[PartitionKey]]:
            return recover(now, inspections, forced=waiting)

        elected = self._metadata.submit(decide, timeout_ms=self._timeout_ms)
        self._metadata.submit(
            lambda now: elect_where_none(now, now.eligible_brokers(), "led anew after a force"),
            timeout_ms=self._timeout_ms,
        )
        return frozenset(elected)


def _replicas_of(image: MetadataImage, keys: Iterable[PartitionKey]) -> Iterable[_Replica]:
    """Yield all replicas of partitions; also where the metadata knows of no table: the one that was
    lost may have."""
    for key in sorted(keys):
        partition = image.partition(key)
        if partition is None:
            continue
        for broker_id in partition.replicas:
            broker = image.brokers.get(broker_id)
            if broker is None:
                continue
            is_created = partition.is_created(broker_id)
            directory_id = None if is_created else broker.directory_id
            address = address_of(image, key, partition, broker_id, directory_id=directory_id)
            yield _Replica(key, broker_id, address)


def _epoch_of(image: MetadataImage, key: PartitionKey) -> LeaderEpoch:
    partition = image.partition(key)
    assert partition is not None, "it has replicas"
    return partition.leader_epoch


def _highest(
    found: Mapping[tuple[PartitionKey, BrokerId], LeaderEpoch],
) -> dict[PartitionKey, LeaderEpoch]:
    highest: dict[PartitionKey, LeaderEpoch] = {}
    for (key, _), fence in found.items():
        highest[key] = max(fence, highest.get(key, fence))
    return highest


def _generations(image: MetadataImage) -> dict[PartitionKey, int]:
    return {key: each.unclean_generation for key, each in image.partitions()}


def _names(image: MetadataImage, keys: Iterable[PartitionKey]) -> tuple[TopicPartition, ...]:
    return tuple(image.name_of(key) for key in sorted(keys))
