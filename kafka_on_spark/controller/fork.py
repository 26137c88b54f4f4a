"""Makes the copy of a cluster a cluster of its own: new ids on all roots, and a new metadata log.

The copied metadata log is read, as far as its files are there, and never written. What is written,
in this order; the same call goes on after a crash anywhere, and until the last step every open of
the copy is refused:

1. The plan, with all new ids, into ``meta.properties`` of each copied metadata root, which keeps
   the old ids: an open says that a fork is under way. (A root without it is a copy, and refused.)
2. ``meta.properties`` of each broker's root: from now on it is the new cluster's.
3. Logs that lack a file are cut before it, a commit each.
4. A new metadata table on each metadata root, and in it, as one commit, the cluster as it is now.
   After that commit nothing is decided again.
5. ``meta.properties`` of each metadata root: the new identity, without the plan.

Tables of replicas keep the directory ids with which they were made (see `evidence.UNCHECKED`). The
new log begins above the quorum epoch of the old one, so that no snapshot beside it passes for its
own. The metadata was copied first, so it is a beginning of what the brokers' logs know: what it
calls committed they hold, or the plan says which offsets are lost. Their fences may be later.
"""

import json
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial
from itertools import count, product
from typing import Final

from kafka_on_spark.base.config import HOLD
from kafka_on_spark.base.errors import (
    CommitConflictError,
    InvalidRequestError,
    InvalidRootError,
    KafkaOnSparkError,
)
from kafka_on_spark.base.ids import (
    LOST,
    BrokerEpoch,
    BrokerId,
    DirectoryId,
    LeaderEpoch,
    NodeId,
    Offset,
    PartitionEpoch,
    PartitionKey,
    QuorumEpoch,
)
from kafka_on_spark.controller.election import complete_replicas, furthest_replica, unclean_change
from kafka_on_spark.controller.inspections import inspection_of
from kafka_on_spark.controller.preparing_roots import check_brokers
from kafka_on_spark.controller.topics import new_partition
from kafka_on_spark.log import operations
from kafka_on_spark.log.replicas import commit_decided
from kafka_on_spark.log.state import LogChange, ReplicaAddress, ReplicaState, address_of
from kafka_on_spark.log.truncation import are_too_many_to_cut
from kafka_on_spark.log.worker import Worker
from kafka_on_spark.metadata.cluster_roots import DeltaMetadataLog, create_voter_table
from kafka_on_spark.metadata.image import ControllerResult, MetadataImage, snapshot_records
from kafka_on_spark.metadata.metadata_root import (
    NODE_ID,
    MetadataIdentity,
    check_unnamed,
    read_copied,
)
from kafka_on_spark.metadata.partition import (
    PartitionChange,
    PartitionMap,
    PartitionMapDraft,
    PartitionRegistration,
)
from kafka_on_spark.metadata.quorum.elector import check_cluster_ids
from kafka_on_spark.metadata.quorum.quorum_log import newest_snapshot
from kafka_on_spark.metadata.quorum.voter_log import VoterLog
from kafka_on_spark.metadata.quorum.voter_table import (
    UNREADABLE,
    TableChange,
    Voter,
    VoterTable,
)
from kafka_on_spark.metadata.records import BrokerState, MetadataBatch, PartitionRecord, Record
from kafka_on_spark.node.node import ID_SOURCE, THREADS
from kafka_on_spark.node.opening import open_metadata
from kafka_on_spark.store.deadlines import DaemonThreads
from kafka_on_spark.store.new_roots import check_conditional_puts, create_root
from kafka_on_spark.store.root_identity import META_PROPERTIES, RootIdentity, read_identity
from kafka_on_spark.store.root_urls import check_roots_apart, is_one_place, roots_in
from kafka_on_spark.store.roots import RootFiles, StorageOptions

COMMIT_MS_MAX: Final = 120_000
"""As the default of delivery.timeout.ms."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ForkPlan:
    """The ids that a copy gets: directories by metadata root; root and directory by broker."""

    cluster_id: str
    voters: Mapping[str, str]
    brokers: Mapping[str, Sequence[str]]

    def __str__(self) -> str:
        return json.dumps({name: getattr(self, name) for name in self.__slots__})

    def disk_of(self, broker_id: BrokerId) -> DirectoryId:
        return DirectoryId(self.brokers[str(broker_id)][1])

    @property
    def places(self) -> str:
        """Its roots, in words."""
        brokers = [f"{broker_id}={root}" for broker_id, (root, _) in sorted(self.brokers.items())]
        return f"metadata roots {', '.join(sorted(self.voters))} and brokers {', '.join(brokers)}"

    @property
    def identities(self) -> dict[str, MetadataIdentity]:
        ids = zip(count(NODE_ID), self.voters.items(), strict=False)
        return {
            root: MetadataIdentity(self.cluster_id, NodeId(node_id), DirectoryId(directory_id))
            for node_id, (root, directory_id) in ids
        }

    def identity_of(self, broker_id: BrokerId, generation: int) -> RootIdentity:
        disk = self.disk_of(broker_id)
        return RootIdentity(self.cluster_id, broker_id, disk, generation, (*self.voters,))


@dataclass(frozen=True, slots=True, kw_only=True)
class ForkReport:
    """What a copy becomes, or has become.

    Attributes:
        cluster_id: The new one; None: in a dry run.
        metadata_offset: Up to where the copied metadata log was read; None: an earlier call has
            decided, and this one only had to finish.
        unregistered: Brokers whose roots were not given.
        not_whole: What lacks something in the copy, a sentence each.
        lost: Partitions that lack committed records in all copied replicas, a sentence each.
    """

    cluster_id: str | None = None
    metadata_offset: int | None = None
    unregistered: tuple[BrokerId, ...] = ()
    not_whole: tuple[str, ...] = ()
    lost: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class _Found:
    """A copied replica. `state`: None if it can't be used. `cut_to`: where the first missing file
    begins; None: nothing is to be cut."""

    address: ReplicaAddress
    state: ReplicaState | None = None
    cut_to: Offset | None = None
    problem: str = ""

    def cut(self, state: ReplicaState, fence: LeaderEpoch) -> LogChange | None:
        to, floor = self.cut_to, Offset(0)  # what is cut off is on no disk
        return operations.adopt(state, leader_epoch=fence, truncate_to=to, floor=floor)

    def state_after(self, fence: LeaderEpoch) -> ReplicaState:
        assert self.state is not None
        change = self.cut(self.state, fence)
        return self.state if change is None else self.state.apply(change)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Decision:
    """What to write. `quorum_epoch`: of the copied log, above which the new one begins."""

    generation: int
    quorum_epoch: QuorumEpoch
    records: Sequence[Record]
    cuts: Sequence[tuple[_Found, LeaderEpoch]]
    report: ForkReport


def fork(
    url: str,
    brokers: Mapping[BrokerId, str],
    options: StorageOptions,
    *,
    racks: Mapping[int, str],
    accepts_losses: bool = False,
    is_dry_run: bool = False,
) -> ForkReport:
    """Make a copy a cluster of its own, as documented at `Cluster.fork`."""
    check_brokers(brokers, racks)
    check_roots_apart(url, brokers)
    copied = {root: read_copied(root, options) for root in roots_in(url)}
    plan = _plan(copied, brokers)
    report, log = ForkReport(), None
    with suppress(*UNREADABLE):  # no root has a new table yet
        log = DeltaMetadataLog(url, options, identities=plan.identities)
    if log is None or not log.has_decided():
        decision = _decide(copied, brokers, racks, plan, options)
        report = decision.report
        if is_dry_run:
            return report
        if report.lost and not accepts_losses:
            raise InvalidRequestError(
                f"the copy lacks committed records: {'; '.join(report.lost)}: copy the roots again"
                " while deletes are held, or accept the losses"
            )
        _write(copied, plan, decision, options)
        _begin(url, plan, decision, options)
    elif not is_dry_run:
        open_metadata(url, options, identities=plan.identities)  # a majority has the decision now
    for root, identity in plan.identities.items():
        if not is_dry_run:
            _put(root, identity, options)
    return replace(report, cluster_id=plan.cluster_id)


def _plan(
    copied: Mapping[str, MetadataIdentity | None], brokers: Mapping[BrokerId, str]
) -> ForkPlan:
    """Return the plan of a fork that is under way, or else a new one."""
    new = ID_SOURCE.new_uuid
    plan = ForkPlan(
        cluster_id=new(),
        voters={root: new() for root in copied},
        brokers={str(each): (root, new()) for each, root in sorted(brokers.items())},
    )
    found = next((each.fork for each in copied.values() if each and each.fork), None)
    under_way = plan if found is None else ForkPlan(**json.loads(found))
    if under_way.places != plan.places:
        raise InvalidRequestError(
            f"a fork of this copy is under way, with other roots: give {under_way.places}, or copy"
            " all roots again"
        )
    return under_way


def _put(root: str, identity: MetadataIdentity | RootIdentity, options: StorageOptions) -> None:
    RootFiles(root, options).write(f"{root}/{META_PROPERTIES}", identity.encode())


# What the copy holds.


def _best_log(
    copied: Mapping[str, MetadataIdentity], options: StorageOptions
) -> tuple[VoterTable, MetadataImage, list[str]]:
    """Return the voter whose log reaches furthest in the copy, what it says, and what is missing of
    any. A log is read up to the first file that was not copied: its beginning is a log, too."""
    found: list[tuple[VoterTable, MetadataImage]] = []
    problems: list[str] = []
    for root, identity in copied.items():
        voter_log, batches = VoterLog(root, identity, options), list[MetadataBatch]()
        image = None
        try:
            table = voter_log.load()
            ends = [(voter_log, voter_log.snapshots())]
            snapshot = newest_snapshot(table.log, ends, table.log.end_offset)
            image = MetadataImage.of_snapshot(snapshot)
            for batch in voter_log.batches_from(image.offset):
                batches.append(batch)
        except UNREADABLE as error:
            problems.append(f"the metadata root {root}: {error.message}")
        after = None if image is None else image.replay(*batches)
        if after is not None and after.cluster_id is not None:
            found.append((table, after))
    if not found:
        raise InvalidRootError(
            f"there is no metadata log to fork at {' or '.join(copied)}: copy the metadata root of"
            f" a cluster there, then its brokers' roots {problems or ''}"
        )
    epochs = [table.log.epoch_before(image.offset) for table, image in found]
    ranks = [(epoch, one[1].offset) for epoch, one in zip(epochs, found, strict=True)]
    return *found[ranks.index(max(ranks))], problems


def _check_places(roots: Iterable[str], image: MetadataImage) -> None:
    """Check that no root is at a place that the log registers: that would be the original."""
    voters = [Voter.parse(each).root for each in image.registered_voters]
    for root, place in product(roots, (*image.broker_roots.values(), *voters)):
        if is_one_place(root, place):
            raise InvalidRootError(
                f"{root} is where the metadata log registers a root, {place}: that is the original,"
                " or a copy that is a cluster of its own already; give the folders of a new copy"
            )


def _checked_disk(
    broker_id: BrokerId, root: str, image: MetadataImage, plan: ForkPlan, options: StorageOptions
) -> DirectoryId:
    """Return which disk a root is: a copy of the broker's, or what this fork has made of that."""
    found, known = read_identity(root, options), image.brokers.get(broker_id)
    wanted = [plan.identity_of(broker_id, image.generation)]
    if known is not None and image.cluster_id is not None:
        wanted.append(RootIdentity(image.cluster_id, broker_id, known.directory_id))
    if found is None or found not in wanted:
        is_what = "no broker's root"
        if found is not None:
            is_what = f"broker {found.broker_id}'s root of cluster {found.cluster_id}"
        raise InvalidRootError(
            f"{root} is {is_what}, and not a copy of broker {broker_id}'s of cluster"
            f" {image.cluster_id}: give each broker's copy once, under its id, as it was copied"
        )
    return found.directory_id


def _inspected(
    image: MetadataImage, key: PartitionKey, partition: PartitionRegistration, worker: Worker
) -> list[_Found]:
    found = []
    for broker_id, directory in zip(partition.replicas, partition.directories, strict=True):
        if broker_id in image.brokers and directory != LOST:
            disk = image.brokers[broker_id].directory_id
            address = address_of(image, key, partition, broker_id, directory_id=disk)
            one = _inspected_replica(address, worker)
            # A table may be there though the metadata does not know of it yet.
            if directory is not None or one.state is not None:
                found.append(one)
    return found


def _inspected_replica(address: ReplicaAddress, worker: Worker) -> _Found:
    try:
        state = worker.replicas.open_uncached(address).load()
        sizes = RootFiles(address.root, worker.options).sizes(address.folder)
    except KafkaOnSparkError as error:
        return _Found(address=address, problem=error.message)
    for part in state.batches:
        for segment in part.segments:
            if sizes.get(segment.file_name) != segment.size_bytes:
                at = part.base_offset
                problem = f"{segment.file_name}, at offset {at}, is missing or cut short"
                if are_too_many_to_cut(state.batches_between(at, state.log_end_offset)):
                    return _Found(address=address, problem=problem)
                problem += ": the log is cut there"
                return _Found(address=address, state=state, cut_to=at, problem=problem)
    return _Found(address=address, state=state)


# What it becomes.


def _decide(
    copied: Mapping[str, MetadataIdentity | None],
    brokers: Mapping[BrokerId, str],
    racks: Mapping[int, str],
    plan: ForkPlan,
    options: StorageOptions,
) -> _Decision:
    """Decide what the copy becomes. Nothing is written."""
    named = {root: each for root, each in copied.items() if each is not None}
    for root in copied.keys() - named:
        check_unnamed(root, options)
    table, before, not_whole = _best_log(named, options)
    check_cluster_ids({root: each.cluster_id for root, each in named.items()})
    _check_places([*copied, *brokers.values()], before)
    there = {
        broker_id: replace(
            before.brokers[broker_id],
            broker_epoch=BrokerEpoch(before.brokers[broker_id].broker_epoch + 1),
            root=root,
            rack=racks.get(broker_id, before.brokers[broker_id].rack),
            directory_id=disk,
            state=BrokerState.ACTIVE,
            fenced_since_ms=None,
            refused=None,
        )
        for broker_id, root in brokers.items()
        if (disk := _checked_disk(broker_id, root, before, plan, options))
    }
    gone = {i: each.broker_epoch for i, each in before.brokers.items() if i not in there}
    image = replace(
        before,
        brokers=there,
        past_brokers={**before.past_brokers, **gone},
        registered_voters=(),
        controller=before.controller and replace(before.controller, controller_id=None),
        configs={name: value for name, value in before.configs.items() if name != HOLD},
        consumer_groups={},  # their members are the original's; offsets stay
        requests=(),
    )
    cause = f"forked from cluster {image.cluster_id} at metadata offset {image.offset}"
    lost, causes, cuts = [], {}, []
    new_ids = {each.directory_id: plan.disk_of(each.broker_id) for each in there.values()}
    topics = {topic_id: PartitionMapDraft(PartitionMap()) for topic_id in image.topics}
    asked, worker = list(image.partitions()), Worker(options)
    with DaemonThreads(THREADS, "fork") as threads:
        inspected = threads.map(lambda each: _inspected(image, each[0], each[1], worker), asked)
        for (key, partition), found in zip(asked, inspected, strict=True):
            after, problems, losing = _forked(image, key, partition, found)
            disks = tuple(new_ids.get(each or LOST, each) for each in after.directories)
            topics[key.topic_id].put(key.partition, replace(after, directories=disks))
            cuts += [(each, _fence(partition, found)) for each in found if each.cut_to is not None]
            name = "{}-{}".format(*image.name_of(key))
            not_whole += [f"{name} on broker {each}: {why}" for each, why in problems.items()]
            lost += [f"{name}: {losing}"] if losing else []
            causes[key] = f"{cause}; {losing}" if losing else cause
    named_anew = replace(
        image,
        cluster_id=plan.cluster_id,
        brokers={
            each.broker_id: replace(each, directory_id=new_ids[each.directory_id])
            for each in there.values()
        },
        topics={
            topic_id: replace(topic, partitions=topics[topic_id].finish())
            for topic_id, topic in image.topics.items()
        },
    )
    return _Decision(
        generation=image.generation,
        quorum_epoch=table.quorum_epoch,
        records=[
            replace(each, cause=causes[each.key] if isinstance(each, PartitionRecord) else cause)
            for each in snapshot_records(named_anew)
        ],
        cuts=cuts,
        report=ForkReport(
            metadata_offset=image.offset,
            unregistered=tuple(sorted(gone)),
            not_whole=tuple(not_whole),
            lost=tuple(lost),
        ),
    )


def _fence(partition: PartitionRegistration, found: Iterable[_Found]) -> LeaderEpoch:
    """Return a leadership above all that the copied logs have seen; the next one leads."""
    seen = [each.state.leader_epoch or 0 for each in found if each.state is not None]
    return LeaderEpoch(1 + max([partition.leader_epoch, *seen]))


def _forked(
    image: MetadataImage,
    key: PartitionKey,
    partition: PartitionRegistration,
    found: Sequence[_Found],
) -> tuple[PartitionRegistration, dict[BrokerId, str], str]:
    """Decide how a partition goes on: its complete replicas are in sync, the furthest leads; if
    there is none, an unclean election says what is lost. Return it, what is not whole, and that.

    A log start that retention has moved since the metadata was copied holds.
    """
    problems = {each.address.broker_id: each.problem for each in found if each.problem}
    replicas = [each for each in partition.original_replicas if each in image.brokers]
    replicas = replicas or [each for each in partition.replicas if each in image.brokers]
    if not replicas:
        return _begun_anew(image, key, partition, found, problems)
    disks = {each.address.broker_id: each.address.directory_id for each in found}
    states = [each.state for each in found if each.state is not None]
    start = max([partition.log_start_offset, *(each.log_start_offset for each in states)])
    committed = partition.high_watermark
    kept = replace(
        partition,
        replicas=tuple(replicas),
        replica_uuids=tuple(map(partition.uuid_of, replicas)),
        directories=tuple(disks.get(each, partition.directory_of(each)) for each in replicas),
        isr=frozenset(),
        elr=frozenset(),
        former_uuids=(),
        adding_replicas=(),
        removing_replicas=(),
        throttle_bytes_per_s=None,
        leader=None,
        leader_epoch=_fence(partition, found),
        log_start_offset=min(start, committed),
    )
    inspections = [
        inspection_of(each.address, kept, each.state_after(kept.leader_epoch))
        for each in found
        if each.state is not None and each.address.broker_id in replicas
    ]
    complete = complete_replicas(kept, inspections)
    for each in inspections:
        if each not in complete:
            ends = f"its log, from {each.log_start_offset} to {each.log_end_offset}, does not"
            why = f"{ends} prove to have what is committed, up to {committed}"
            problems.setdefault(each.broker_id, why)
    isr = {each.broker_id for each in complete}
    if committed == 0:  # nothing was appended to those without a table
        isr |= {each for each in replicas if kept.directory_of(each) is None}
    best = furthest_replica(kept, complete or inspections, eligible=frozenset(replicas))
    losing = ""
    if isr:
        leader = min(isr, key=replicas.index) if best is None else best.broker_id
        change = PartitionChange(leader=leader, isr=frozenset(isr))
    elif best is not None:
        change, losing = unclean_change(kept, best)
    else:
        return _begun_anew(image, key, partition, found, problems)
    after = kept.merge(kept.completed(change))
    log_end = Offset(0) if best is None else best.log_end_offset
    after = replace(
        after,
        log_end_offset=max(after.high_watermark, log_end),
        log_start_offset=max(kept.log_start_offset, min(start, after.high_watermark)),
    )
    return after, problems, losing


def _begun_anew(
    image: MetadataImage,
    key: PartitionKey,
    partition: PartitionRegistration,
    found: Sequence[_Found],
    problems: dict[BrokerId, str],
) -> tuple[PartitionRegistration, dict[BrokerId, str], str]:
    """Return a partition that is empty, since no log of it was copied; as `_forked`."""
    start, end = partition.log_start_offset, partition.high_watermark
    there = sorted(image.brokers)
    turned = [*there[key.partition % len(there) :], *there[: key.partition % len(there)]]
    begun = new_partition(
        image,
        tuple(turned[: len(partition.target_replicas)]),
        ID_SOURCE.new_uuid,
        partition.unclean_generation + 1,
    )
    after = replace(
        begun,
        leader_epoch=LeaderEpoch(_fence(partition, found) + 1),
        partition_epoch=PartitionEpoch(partition.partition_epoch + 1),
    )
    lost = f"no replica was copied, offsets {start} to {end - 1} are lost" if start < end else ""
    return after, problems, lost


# Writing it.


def _write(
    copied: Mapping[str, MetadataIdentity | None],
    plan: ForkPlan,
    decision: _Decision,
    options: StorageOptions,
) -> None:
    """Write the plan, the brokers' identities, and the cuts of their logs."""
    for root in [*copied, *(root for root, _ in plan.brokers.values())]:
        create_root(root)
        check_conditional_puts(root, options)  # it may be another kind of storage
    for root, identity in copied.items():
        if identity is not None and identity.fork != str(plan):
            _put(root, replace(identity, fork=str(plan)), options)
    for number, (root, _) in plan.brokers.items():
        _put(root, plan.identity_of(BrokerId(int(number)), decision.generation), options)
    replicas = Worker(options).replicas
    for found, fence in decision.cuts:
        address = replace(found.address, directory_id=plan.disk_of(found.address.broker_id))
        commit_decided(replicas.open_uncached(address), partial(found.cut, fence=fence))


def _begin(url: str, plan: ForkPlan, decision: _Decision, options: StorageOptions) -> None:
    """Make the new metadata log, unless an earlier try did, and commit the decision to it."""
    for root, identity in plan.identities.items():
        with suppress(CommitConflictError):  # an earlier try made it
            create_voter_table(root, identity, options)
    log = DeltaMetadataLog(url, options, identities=plan.identities)
    for key in log.tables.voters.keys:
        table = log.tables.load(key)
        if table.quorum_epoch < decision.quorum_epoch:
            log.tables.commit(table, TableChange(quorum_epoch=decision.quorum_epoch))
    log.begin()
    metadata = open_metadata(url, options, identities=plan.identities)

    def decide(now: MetadataImage) -> ControllerResult[None]:
        return ControllerResult([] if now.cluster_id else decision.records, None)

    metadata.submit(decide, timeout_ms=COMMIT_MS_MAX)
