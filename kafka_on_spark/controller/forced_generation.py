"""Forces a cluster whose majority of metadata roots is lost for ever to go on from one of them.

What was lost may have held a smaller ISR, a later leader or a higher high watermark. So nobody is
trusted to be in sync: every replica that is reached is fenced, above every fence that is found
there, and each partition is led anew by what the fenced logs say. A leader is elected by proof only
where all replicas of a partition answered. Else it is an unclean election, and says so.
"""

import logging
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Final, NamedTuple
from uuid import uuid4

from kafka_on_spark.base.errors import (
    FencedLeaderEpochError,
    InconsistentClusterError,
    InvalidRequestError,
    KafkaOnSparkError,
    KafkaStorageError,
)
from kafka_on_spark.base.ids import BrokerId, LeaderEpoch, Offset, PartitionKey, TopicPartition
from kafka_on_spark.controller.election import elect_where_none, recover
from kafka_on_spark.controller.inspections import inspect_replica, inspections_of
from kafka_on_spark.controller.partition_change import change_record
from kafka_on_spark.log import operations
from kafka_on_spark.log.addresses import ReplicaAddress, address_of
from kafka_on_spark.log.replica_operations import commit_decided
from kafka_on_spark.log.replicas import ReplicaStore
from kafka_on_spark.metadata.broker import BrokerRegistration
from kafka_on_spark.metadata.image import MetadataImage
from kafka_on_spark.metadata.metadata_log import DeltaMetadataLog
from kafka_on_spark.metadata.partition import PartitionChange, PartitionRegistration
from kafka_on_spark.metadata.quorum.elector import first_stamp
from kafka_on_spark.metadata.quorum.forcing import (
    Standing,
    all_that_answer,
    check_may_force,
    force_voter,
    standing,
)
from kafka_on_spark.metadata.quorum.raft import Generation
from kafka_on_spark.metadata.quorum.voter_table import Voter
from kafka_on_spark.metadata.records import ClusterRecord, Record
from kafka_on_spark.metadata.result import ControllerResult, MetadataDecider
from kafka_on_spark.node.node import THREADS, Node, open_node
from kafka_on_spark.node.opening import metadata_log_of
from kafka_on_spark.store.clock import SystemClock
from kafka_on_spark.store.daemon_threads import DaemonThreads
from kafka_on_spark.store.root_identity import read_identity, write_obeyed
from kafka_on_spark.store.roots import StorageOptions

log = logging.getLogger(__name__)

RAISES_MAX: Final = 10_000
"""A replica that has seen so many more leaderships than the metadata is no replica of it."""


def begin_generation(image: MetadataImage, generation: int, cause: str) -> list[Record]:
    """Return the records by which a new generation begins: no partition has a leader, and none a
    replica in sync but those that nothing was ever appended to, as far as is known."""
    assert image.cluster_id is not None, "a cluster that was made has an id"
    records: list[Record] = [
        ClusterRecord(cluster_id=image.cluster_id, generation=generation, cause=cause)
    ]
    for key, partition in image.partitions():
        change = PartitionChange(leader=None)
        if _has_replicas(partition):
            change = PartitionChange(leader=None, isr=frozenset(), elr=frozenset())
        records.append(change_record(image, key, partition, change, cause))
    return records


def awaiting_leaders(image: MetadataImage) -> list[PartitionKey]:
    """Return the partitions that a new generation has given no leader as yet."""
    return [
        key
        for key, partition in image.partitions_needing_work()
        if partition.leader is None and not partition.isr
    ]


def raise_above(
    image: MetadataImage, fences: Mapping[PartitionKey, LeaderEpoch], cause: str
) -> ControllerResult[int]:
    """Decide leaderships without a leader, so many that the next one is above the highest fence
    that was found on a partition's replicas. Answer: of how many partitions.

    Raises:
        InconsistentClusterError: A fence is out of reach.
    """
    records: list[Record] = []
    raised = 0
    for key, fence in sorted(fences.items()):
        partition = image.partition(key)
        if partition is None or partition.leader is not None or partition.leader_epoch > fence:
            continue
        if fence - partition.leader_epoch > RAISES_MAX:
            raise InconsistentClusterError(
                f"a replica of {image.name_of(key)} has seen leadership {fence}, and the metadata"
                f" knows {partition.leader_epoch}: this is another cluster's metadata"
            )
        raised += 1
        while partition.leader_epoch <= fence:
            change = PartitionChange(leader=None)
            records.append(change_record(image, key, partition, change, cause))
            partition = partition.merge(partition.completed(change))
    return ControllerResult(records, raised)


def _has_replicas(partition: PartitionRegistration) -> bool:
    return any(map(partition.is_created, partition.replicas)) or partition.high_watermark > 0


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


@dataclass(frozen=True, slots=True)
class ForcedGeneration:
    """A generation that a cluster was forced into.

    Attributes:
        generation: Which; 1 is the first.
        voter: From whom it goes on: alone, unless others were added meanwhile.
        elections: How the partitions are led.
    """

    generation: Generation
    voter: Voter
    elections: ForcedElectionsReport


def check_forcing(url: str, node_id: int, options: StorageOptions) -> Standing:
    """Return what is left of a quorum, if voter `node_id` may go on alone; nothing is changed.

    Raises: as `force`.
    """
    metadata_log = DeltaMetadataLog(url, options)
    found = standing(metadata_log.tables, _voter_of(metadata_log, node_id))
    if not _goes_on(found, options):
        check_may_force(found.table, found.answering, found.newest)
    return found


def force(url: str, node_id: int, options: StorageOptions) -> ForcedGeneration:
    """Have voter `node_id` go on alone, in a new generation of the cluster, and lead all partitions
    anew. One that was cut off, or that left partitions or brokers behind, goes on.

    Raises:
        InvalidRequestError: A majority answers, one that answers has more, or it is no voter.
        KafkaStorageError, ReplicaLostError, CorruptLogError: The voter's root fails.
        CommitOutcomeUnknownError: Force again.
    """
    metadata_log = DeltaMetadataLog(url, options)
    voter = _voter_of(metadata_log, node_id)
    found = standing(metadata_log.tables, voter)
    generation = Generation(found.image.generation)
    if not _goes_on(found, options):
        generation = force_voter(
            metadata_log.tables,
            voter,
            begin_generation,
            stamp=first_stamp(metadata_log.tables, voter.key, SystemClock()),
            new_id=lambda: uuid4().hex,
        )
    node = open_node(voter.root, options)
    try:
        return ForcedGeneration(generation, voter, _led_anew(node))
    finally:
        node.close()


def _goes_on(found: Standing, options: StorageOptions) -> bool:
    """Return whether a generation has begun, and partitions await their leaders, or a broker's root
    that can be read has not heard of it."""
    if not found.is_begun:
        return False
    image = found.image
    return bool(awaiting_leaders(image)) or any(
        _lacks_generation(each, image.generation, options) for each in image.brokers.values()
    )


def _lacks_generation(broker: BrokerRegistration, generation: int, options: StorageOptions) -> bool:
    try:
        found = read_identity(broker.root, options)
    except KafkaOnSparkError as error:
        log.info("the root of broker %d can't be read: %s", broker.broker_id, error)
        return False
    if found is None or found.directory_id != broker.directory_id:
        return False  # it is not the disk it was
    return found.generation < generation


def _voter_of(metadata_log: DeltaMetadataLog, node_id: int) -> Voter:
    answering = all_that_answer(metadata_log.tables)
    for table in answering:
        voters = table.log.voters
        voter = None if voters is None else voters.voter_of(table.key.node_id)
        if table.key.node_id == node_id and voter is not None and voter.key == table.key:
            return voter
    names = ", ".join(str(each.key.node_id) for each in answering) or "none"
    raise InvalidRequestError(
        f"{node_id} is no voter that answers from here: those that answer are {names}"
    )


def _led_anew(node: Node) -> ForcedElectionsReport:
    options, roots = node.options, metadata_log_of(node.metadata).registered_roots

    def told(broker: BrokerRegistration, generation: int) -> None:
        voters = node.metadata.image.registered_voters
        write_obeyed(broker.root, broker.directory_id, roots, generation, options, voters)

    with DaemonThreads(THREADS, "fence") as threads:
        elections = ForcedElections(
            node.metadata,
            node.replicas,
            run_each=threads.map,
            write_generation=told,
            timeout_ms=node.timeout_ms,
        )
        return elections.run()
