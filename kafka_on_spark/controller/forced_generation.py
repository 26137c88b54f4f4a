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
from typing import Final

from kafka_on_spark.base.errors import (
    FencedLeaderEpochError,
    InconsistentClusterError,
    InvalidRequestError,
    KafkaOnSparkError,
    KafkaStorageError,
)
from kafka_on_spark.base.ids import BrokerId, LeaderEpoch, Offset, PartitionKey, TopicPartition
from kafka_on_spark.controller.election import change_record, elect_by_inspections, elect_where_none
from kafka_on_spark.controller.inspections import inspect_replica, inspections_of
from kafka_on_spark.controller.preparing_roots import write_what_roots_obey
from kafka_on_spark.controller.reassignment import registered_partition
from kafka_on_spark.log import operations
from kafka_on_spark.log.replicas import ReplicaStore, commit_decided
from kafka_on_spark.log.state import ReplicaAddress, address_of
from kafka_on_spark.metadata.cluster_roots import DeltaMetadataLog
from kafka_on_spark.metadata.image import ControllerResult, MetadataImage
from kafka_on_spark.metadata.metadata_files import new_id
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
from kafka_on_spark.node.node import THREADS, Node, open_node
from kafka_on_spark.store.deadlines import DaemonThreads, SystemClock
from kafka_on_spark.store.root_identity import read_identity
from kafka_on_spark.store.roots import StorageOptions

log = logging.getLogger(__name__)

RAISES_MAX: Final = 10_000
"""A replica that has seen so many more leaderships than the metadata is no replica of it."""

ROUNDS_MAX: Final = 8
"""Processes of the old generation may still lead anew while replicas are fenced."""


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
    InconsistentClusterError: a fence is out of reach."""
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


@dataclass(frozen=True, slots=True, kw_only=True)
class ForcedElectionsReport:
    """What a new generation could do.

    Attributes:
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


Ask = Callable[[ReplicaAddress], LeaderEpoch | None]


def lead_anew(node: Node) -> ForcedElectionsReport:
    """Fence, and elect. Run again, it goes on with what has no leader as yet.

    Raises:
        InconsistentClusterError: A fence is out of reach.
        KafkaStorageError: Processes of the old generation keep leading anew.
        And as `MetadataService.submit`.
    """
    metadata = node.metadata
    image = metadata.catch_up()
    unreached = write_what_roots_obey(node, image)
    keys = sorted(key for key, each in image.partitions() if each.leader is None)
    fenced = _fence(node, keys)
    waiting = awaiting_leaders(metadata.catch_up())
    inspections = [
        found
        for key in sorted(waiting)
        for order in inspections_of(metadata.image, key)
        if (key, order.address.broker_id) in fenced
        and (found := inspect_replica(order, node.tasks.worker)) is not None
    ]
    elected = node.submit(
        lambda now: elect_by_inspections(now, inspections, forced=frozenset(waiting))
    )
    node.submit(lambda now: elect_where_none(now, now.eligible_brokers(), "led anew after a force"))
    after = metadata.catch_up()
    generations = {key: each.unclean_generation for key, each in image.partitions()}
    unclean = {
        key
        for key in elected
        if registered_partition(after, key).unclean_generation > generations[key]
    }
    return ForcedElectionsReport(
        fenced_count=len(fenced),
        proven=tuple(after.name_of(key) for key in sorted(set(elected) - unclean)),
        unclean=tuple(after.name_of(key) for key in sorted(unclean)),
        leaderless=tuple(after.name_of(key) for key in sorted(awaiting_leaders(after))),
        unreached=tuple(unreached),
    )


def _fence(node: Node, keys: Sequence[PartitionKey]) -> set[tuple[PartitionKey, BrokerId]]:
    """Fence each replica that can be reached, in a leadership above all that they have seen;
    return which were."""
    for _ in range(ROUNDS_MAX):
        image = node.metadata.catch_up()
        fences: dict[PartitionKey, LeaderEpoch] = {}
        for address, fence in _ask_each(image, keys, partial(_seen_fence, node.replicas)):
            fences[address.key] = max(fence, fences.get(address.key, fence))
        node.submit(partial(raise_above, fences=fences, cause="above the fences of its replicas"))
        image = node.metadata.catch_up()
        fenced = _ask_each(image, keys, partial(_fenced, node.replicas, image))
        if all(
            fence <= registered_partition(image, each.key).leader_epoch for each, fence in fenced
        ):
            return {(each.key, each.broker_id) for each, _ in fenced}
    raise KafkaStorageError(
        "processes of the old generation keep leading partitions anew: stop them, and force again"
    )


def _ask_each(
    image: MetadataImage, keys: Iterable[PartitionKey], ask: Ask
) -> list[tuple[ReplicaAddress, LeaderEpoch]]:
    """Ask all replicas of partitions; also where the metadata knows of no table: the one that was
    lost may have. Those that don't answer are left out."""
    addresses = []
    for key in keys:
        partition = image.partition(key)
        for broker_id in () if partition is None else partition.replicas:
            broker = image.brokers.get(broker_id)
            if partition is not None and broker is not None:
                is_created = partition.is_created(broker_id)
                directory_id = None if is_created else broker.directory_id
                addresses.append(
                    address_of(image, key, partition, broker_id, directory_id=directory_id)
                )
    with DaemonThreads(THREADS, "fence") as threads:
        answers = list(threads.map(ask, addresses))
    return [
        (address, answer)
        for address, answer in zip(addresses, answers, strict=True)
        if answer is not None
    ]


def _seen_fence(replicas: ReplicaStore, address: ReplicaAddress) -> LeaderEpoch | None:
    """Return the leadership that a replica has seen, -1 before the first; None: it does not
    answer."""
    try:
        state = replicas.open(address).load()
    except KafkaOnSparkError as error:
        log.info("a replica can't be read: %s: %s", address, error)
        return None
    return LeaderEpoch(-1) if state.leader_epoch is None else state.leader_epoch


def _fenced(
    replicas: ReplicaStore, image: MetadataImage, address: ReplicaAddress
) -> LeaderEpoch | None:
    """Fence a replica; return its fence, which is higher where somebody was quicker."""
    leader_epoch = registered_partition(image, address.key).leader_epoch
    try:
        state = commit_decided(
            replicas.open(address),
            lambda state: operations.adopt(
                state, leader_epoch=leader_epoch, truncate_to=None, floor=Offset(0)
            ),
        )
    except FencedLeaderEpochError:
        return LeaderEpoch(leader_epoch + 1)
    except KafkaOnSparkError as error:
        log.info("a replica can't be fenced: %s: %s", address, error)
        return None
    return state.leader_epoch


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
    """Return what is left of a quorum, if voter `node_id` may go on alone; raise as
    `Cluster.force_controller`. Nothing is changed."""
    metadata_log = DeltaMetadataLog(url, options)
    found = standing(metadata_log.tables, _voter_of(metadata_log, node_id))
    if not _goes_on(found, options):
        check_may_force(found.table, found.answering, found.newest)
    return found


def force(url: str, node_id: int, options: StorageOptions) -> ForcedGeneration:
    """Have voter `node_id` go on alone, in a new generation of the cluster, and lead all partitions
    anew. One that was cut off, or that left partitions or brokers behind, goes on.
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
            new_id=new_id,
        )
    node = open_node(voter.root, options)
    try:
        return ForcedGeneration(generation, voter, lead_anew(node))
    finally:
        node.close()


def _goes_on(found: Standing, options: StorageOptions) -> bool:
    """Return whether a generation has begun, and partitions await their leaders, or a broker's root
    that can be read has not heard of it."""
    if not found.is_begun:
        return False
    if awaiting_leaders(found.image):
        return True
    for broker in found.image.brokers.values():
        try:
            identity = read_identity(broker.root, options)
        except KafkaOnSparkError as error:
            log.info("the root of broker %d can't be read: %s", broker.broker_id, error)
            continue
        is_its_disk = identity is not None and identity.directory_id == broker.directory_id
        if identity is not None and is_its_disk and identity.generation < found.image.generation:
            return True
    return False


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
