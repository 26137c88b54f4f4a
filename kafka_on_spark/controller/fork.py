"""Makes the copy of a cluster a cluster of its own: new ids on all roots, and a new metadata log.

The copied metadata log is read, as far as its files are there, and never written. What is written,
in this order; the same call goes on after a crash anywhere, and until the last step every open of
the copy is refused, since it is not where its log registers it:

1. The plan, with all new ids, as ``fork.json`` on the first metadata root, unless one is there: of
   two forks of one copy one goes on. It is deleted after the last step.
2. ``meta.properties`` of each broker's root: from now on it is the new cluster's.
3. Logs that lack a file are cut before it, a commit each.
4. A new metadata table on each metadata root, and in it, as one commit, the cluster as it is now.
   After that commit nothing is decided again.
5. ``meta.properties`` of each metadata root, the copied ones last: until then an open reads these.

Tables of replicas keep the directory ids with which they were made (see `evidence.UNCHECKED`). The
new log begins above the quorum epoch of the old one, so that no snapshot beside it passes for its
own. The metadata was copied first, so it is a beginning of what the brokers' logs know: what it
calls committed they hold, or the report says which offsets are lost. Their fences may be later.
"""

import json
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial
from itertools import product

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
    QuorumEpoch,
    ensure,
)
from kafka_on_spark.controller.election import complete_replicas, furthest_replica, unclean_change
from kafka_on_spark.controller.inspections import inspection_of
from kafka_on_spark.controller.preparing_roots import check_brokers
from kafka_on_spark.controller.topics import new_partition
from kafka_on_spark.log import operations
from kafka_on_spark.log.replicas import Decide, commit_decided
from kafka_on_spark.log.state import ReplicaAddress, ReplicaState, address_of
from kafka_on_spark.log.truncation import are_too_many_to_cut
from kafka_on_spark.log.worker import Worker
from kafka_on_spark.metadata.cluster_roots import DeltaMetadataLog, create_voter_table, named
from kafka_on_spark.metadata.image import ControllerResult, MetadataImage, snapshot_records
from kafka_on_spark.metadata.metadata_root import NODE_ID, MetadataIdentity, check_unnamed
from kafka_on_spark.metadata.partition import PartitionChange, PartitionRegistration
from kafka_on_spark.metadata.quorum.elector import check_cluster_ids
from kafka_on_spark.metadata.quorum.quorum_log import newest_snapshot
from kafka_on_spark.metadata.quorum.voter_log import VoterLog
from kafka_on_spark.metadata.quorum.voter_table import UNREADABLE, TableChange, Voter
from kafka_on_spark.metadata.records import BrokerState, MetadataBatch, PartitionRecord, Record
from kafka_on_spark.node.node import ID_SOURCE, THREADS
from kafka_on_spark.node.opening import open_metadata
from kafka_on_spark.store.deadlines import CONFLICTS_MS, DaemonThreads
from kafka_on_spark.store.local_files import COMMIT_BYTES_MAX
from kafka_on_spark.store.new_roots import check_conditional_puts, create_root
from kafka_on_spark.store.root_identity import META_PROPERTIES, RootIdentity, read_identity
from kafka_on_spark.store.root_urls import check_roots_apart, is_one_place, roots_in
from kafka_on_spark.store.roots import RootFiles, StorageOptions


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
    """A copied replica. `directory`: what the registration is to name. `state`: as it is after
    `cut`; None if it can't be used. `cut`: cuts it where the first missing file begins; None: all
    of its files are there."""

    address: ReplicaAddress
    directory: DirectoryId | None = None
    state: ReplicaState | None = None
    cut: Decide | None = None
    problem: str = ""


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
    copy, report, log = _Copy(url, brokers, options), ForkReport(), None
    records: Sequence[Record] = ()
    with suppress(*UNREADABLE):  # no root has a new table yet
        log = DeltaMetadataLog(url, options, identities=copy.voters)
    if log is None or not log.has_decided():
        report, records = copy.decide(racks)
        if report.lost and not (accepts_losses or is_dry_run):
            raise InvalidRequestError(
                f"the copy lacks committed records: {'; '.join(report.lost)}: copy the roots again"
                " while deletes are held, or accept the losses"
            )
        if not is_dry_run:
            copy.write()
    if is_dry_run:
        return report

    def decide(now: MetadataImage) -> ControllerResult[None]:
        return ControllerResult([] if now.cluster_id else records, None)

    metadata = open_metadata(url, options, identities=copy.voters)
    metadata.submit(decide, timeout_ms=CONFLICTS_MS)
    ensure(metadata.image.cluster_id == copy.cluster_id, "a decision that a table had is gone")
    copy.finish()
    return replace(report, cluster_id=copy.cluster_id)


class _Copy:
    """The roots of a copy, and the ids that they get.

    Attributes:
        copied: What metadata roots are; an empty one is not among them.
        voters: What they become.
    """

    def __init__(self, url: str, brokers: Mapping[BrokerId, str], options: StorageOptions) -> None:
        self.url, self.brokers, self.options = url, brokers, options
        roots = sorted(roots_in(url))
        self.copied = named(roots, options)
        self._files, self._plan = RootFiles(roots[0], options), f"{roots[0]}/fork.json"
        found = self._files.read(self._plan, COMMIT_BYTES_MAX)
        new = {each: ID_SOURCE.new_uuid() for each in ("cluster", *roots, *brokers.values())}
        self._is_new = found is None
        self._ids: dict[str, str] = new if found is None else json.loads(found)
        if self._ids.keys() != new.keys():
            raise InvalidRequestError(
                f"{self._plan} is the plan of a fork of other roots: give"
                f" {', '.join([*self._ids][1:])}, if it was cut off; delete that file, if it has"
                " ended; or copy all roots again, to empty folders"
            )
        self.cluster_id = self._ids["cluster"]
        self.voters = {
            root: MetadataIdentity(self.cluster_id, NodeId(node_id), DirectoryId(self._ids[root]))
            for node_id, root in enumerate(roots, NODE_ID)
        }

    def _broker(self, broker_id: BrokerId, generation: int) -> RootIdentity:
        """Return what a broker's root becomes."""
        disk = DirectoryId(self._ids[self.brokers[broker_id]])
        return RootIdentity(self.cluster_id, broker_id, disk, generation, (*self.voters,))

    def _put(self, root: str, identity: MetadataIdentity | RootIdentity) -> None:
        RootFiles(root, self.options).write(f"{root}/{META_PROPERTIES}", identity.encode())

    # What the copy holds.

    def _best_log(self) -> tuple[QuorumEpoch, MetadataImage, list[str]]:
        """Return the epoch of the voter whose log reaches furthest in the copy, what it says, and
        what is missing of any. A log is read up to the first file that was not copied: its
        beginning is a log, too."""
        found: list[tuple[QuorumEpoch, Offset, QuorumEpoch, MetadataImage]] = []
        problems: list[str] = []
        for root, identity in self.copied.items():
            voter_log, batches = VoterLog(root, identity, self.options), list[MetadataBatch]()
            image = MetadataImage()
            try:
                table = voter_log.load()
                ends = [(voter_log, voter_log.snapshots())]
                image = MetadataImage.of_snapshot(
                    newest_snapshot(table.log, ends, table.log.end_offset)
                )
                for batch in voter_log.batches_from(image.offset):
                    batches.append(batch)
            except UNREADABLE as error:
                problems.append(f"the metadata root {root}: {error.message}")
            image = image.replay(*batches)
            if image.cluster_id is not None:
                epoch = table.log.epoch_before(image.offset)
                found.append((epoch, image.offset, table.quorum_epoch, image))
        if not found:
            raise InvalidRootError(
                f"there is no metadata log to fork at {self.url}: copy the metadata root of a"
                f" cluster there, then its brokers' roots {problems or ''}"
            )
        _, _, epoch, image = max(found, key=lambda each: each[:2])
        return epoch, image, problems

    def _check_places(self, image: MetadataImage) -> None:
        """Check that no root is at a place that the log registers: that is the original."""
        places = [*image.broker_roots.values()]
        places += [Voter.parse(each).root for each in image.registered_voters]
        for root, place in product((*self.voters, *self.brokers.values()), places):
            if is_one_place(root, place):
                raise InvalidRootError(
                    f"{root} is where the metadata log registers a root, {place}: that is the"
                    " original, or a copy that is a cluster of its own already; give the folders of"
                    " a new copy"
                )

    def _disk_of(self, broker_id: BrokerId, image: MetadataImage) -> DirectoryId:
        """Return which disk a root is: a copy of the broker's, or what this fork has made of it."""
        root, known = self.brokers[broker_id], image.brokers.get(broker_id)
        found = read_identity(root, self.options)
        wanted = [self._broker(broker_id, image.generation)]
        if known is not None and image.cluster_id is not None:
            wanted.append(RootIdentity(image.cluster_id, broker_id, known.directory_id))
        if found is None or found not in wanted:
            raise InvalidRootError(
                f"{root} is not a copy of broker {broker_id}'s root of cluster {image.cluster_id}:"
                " give each broker's copy once, under its id, as it was copied"
            )
        return found.directory_id

    # What it becomes.

    def decide(self, racks: Mapping[int, str]) -> tuple[ForkReport, list[Record]]:
        """Decide what the copy becomes. Nothing is written."""
        for root in self.voters.keys() - self.copied if self._is_new else ():
            check_unnamed(root, self.options)
        self._quorum_epoch, before, not_whole = self._best_log()
        check_cluster_ids({root: each.cluster_id for root, each in self.copied.items()})
        self._check_places(before)
        disks = {broker_id: self._disk_of(broker_id, before) for broker_id in self.brokers}
        self._identities = {each: self._broker(each, before.generation) for each in disks}
        there = {
            broker_id: replace(
                known := before.brokers[broker_id],
                broker_epoch=BrokerEpoch(known.broker_epoch + 1),
                root=self.brokers[broker_id],
                rack=racks.get(broker_id, known.rack),
                directory_id=identity.directory_id,
                state=BrokerState.ACTIVE,
                fenced_since_ms=None,
                refused=None,
            )
            for broker_id, identity in self._identities.items()
        }
        gone = {i: each.broker_epoch for i, each in before.brokers.items() if i not in there}
        image = replace(
            before,
            cluster_id=self.cluster_id,
            brokers=there,
            past_brokers={**before.past_brokers, **gone},
            registered_voters=(),
            controller=before.controller and replace(before.controller, controller_id=None),
            configs={name: value for name, value in before.configs.items() if name != HOLD},
            consumer_groups={},  # their members are the original's; offsets stay
            requests=(),
        )
        cause = f"forked from cluster {before.cluster_id} at metadata offset {before.offset}"
        records: list[Record] = [replace(each, cause=cause) for each in snapshot_records(image)]
        partitions = {
            i: each for i, each in enumerate(records) if isinstance(each, PartitionRecord)
        }
        inspect = partial(_inspected, image, disks=disks, worker=Worker(self.options))
        self._cuts, lost = list[tuple[ReplicaAddress, Decide]](), list[str]()
        with DaemonThreads(THREADS, "fork") as threads:
            inspected = threads.map(inspect, partitions.values())
            for (place, each), found in zip(partitions.items(), inspected, strict=True):
                after, problems, losing = _forked(image, each, found)
                name, why = f"{each.topic}-{each.partition}", f"{cause}; {losing}"
                records[place] = replace(each, registration=after, cause=why if losing else cause)
                self._cuts += [
                    (replace(one.address, directory_id=one.directory), one.cut)
                    for one in found
                    if one.cut and one.directory
                ]
                not_whole += [f"{name} on broker {one}: {said}" for one, said in problems.items()]
                lost += [f"{name}: {losing}"] if losing else []
        report = ForkReport(
            metadata_offset=image.offset,
            unregistered=tuple(sorted(gone)),
            not_whole=tuple(not_whole),
            lost=tuple(lost),
        )
        return report, records

    # Writing it.

    def write(self) -> None:
        """Write all but the decision and the identities of metadata roots."""
        for root in [*self._ids][1:]:
            create_root(root)
            check_conditional_puts(root, self.options)  # it may be another kind of storage
        plan = json.dumps(self._ids).encode()
        is_mine = not self._is_new or self._files.write_if_absent(self._plan, plan)
        if not is_mine or (self._is_new and named([*self.voters], self.options) != self.copied):
            raise InvalidRequestError(
                "another fork of this copy has just begun, or ended: call again, to go on with it"
            )
        for broker_id, root in self.brokers.items():
            self._put(root, self._identities[broker_id])
        replicas = Worker(self.options).replicas
        for address, cut in self._cuts:
            commit_decided(replicas.open_uncached(address), cut)
        for root, identity in self.voters.items():
            with suppress(CommitConflictError):  # an earlier try made it
                create_voter_table(root, identity, self.options)
        log = DeltaMetadataLog(self.url, self.options, identities=self.voters)
        for key in log.tables.voters.keys:
            table = log.tables.load(key)
            if table.quorum_epoch < self._quorum_epoch:
                log.tables.commit(table, TableChange(quorum_epoch=self._quorum_epoch))
        log.begin()

    def finish(self) -> None:
        """Write the identities of metadata roots, and delete the plan."""
        for root in sorted(self.voters, key=self.copied.__contains__):
            self._put(root, self.voters[root])
        self._files.delete_file(self._plan)


def _inspected(
    image: MetadataImage,
    record: PartitionRecord,
    *,
    disks: Mapping[BrokerId, DirectoryId],
    worker: Worker,
) -> list[_Found]:
    """Return what `disks`, those that the brokers' roots are now, have of a partition."""
    found, partition = [], record.registration
    for broker_id, directory in zip(partition.replicas, partition.directories, strict=True):
        if broker_id in disks:
            disk, new = disks[broker_id], image.brokers[broker_id].directory_id
            address = address_of(image, record.key, partition, broker_id, directory_id=disk)
            one = _Found(address=address, directory=directory)
            if directory != LOST:
                one = _inspected_replica(address, worker)
                # A table may be there though the metadata does not know of it yet.
                is_made = one.state is not None or directory is not None
                one = replace(one, directory=new if is_made else None)
            found.append(one)
    return found


def _inspected_replica(address: ReplicaAddress, worker: Worker) -> _Found:
    try:
        state = worker.replicas.open_uncached(address).load()
        sizes = RootFiles(address.root, worker.options).sizes(address.folder)
    except KafkaOnSparkError as error:
        return _Found(address=address, problem=error.message)
    for part in state.batches:
        if all(sizes.get(each.file_name) == each.size_bytes for each in part.segments):
            continue
        problem = f"a file at offset {part.base_offset} is missing or cut short"
        cut = partial(
            operations.adopt,
            leader_epoch=LeaderEpoch((state.leader_epoch or 0) + 1),
            truncate_to=part.base_offset,
            floor=Offset(0),  # what is cut off is on no disk
        )
        change = cut(state)
        if change is None or are_too_many_to_cut(state.removed_by(change)):
            return _Found(address=address, problem=problem)
        problem += ": the log is cut there"
        return _Found(address=address, state=state.apply(change), cut=cut, problem=problem)
    return _Found(address=address, state=state)


def _forked(
    image: MetadataImage, record: PartitionRecord, found: Sequence[_Found]
) -> tuple[PartitionRegistration, dict[BrokerId, str], str]:
    """Decide how a partition goes on: its complete replicas are in sync, the furthest leads; if
    there is none, an unclean election says what is lost, and without a log it begins empty. Return
    it, what is not whole, and what is lost.

    Replicas of a reassignment under way all stay: those that come may have what others lack. A log
    start that has moved since the metadata was copied holds.
    """
    partition, replicas = record.registration, tuple(each.address.broker_id for each in found)
    states = [(each.address, each.state) for each in found if each.state is not None]
    unmade = {each.address.broker_id for each in found if each.directory is None}
    bad = [each for each in found if each.directory and each.problem]
    problems = {each.address.broker_id: each.problem for each in bad}
    fences = [each.leader_epoch or 0 for _, each in states]
    fence = LeaderEpoch(1 + max([partition.leader_epoch, *fences]))
    committed = partition.high_watermark
    start = max([partition.log_start_offset, *(each.log_start_offset for _, each in states)])
    if not states and (committed > 0 or not unmade):
        there = sorted(image.brokers)
        begun = new_partition(
            image,
            replicas or (there[record.partition % len(there)],),
            ID_SOURCE.new_uuid,
            partition.unclean_generation + 1,
        )
        epoch = PartitionEpoch(partition.partition_epoch + 1)
        after = replace(begun, leader_epoch=fence, partition_epoch=epoch)
        lost = f"no replica was copied, offsets {start} to {committed - 1} are lost"
        return after, problems, lost if start < committed else ""
    kept = replace(
        partition,
        replicas=replicas,
        replica_uuids=tuple(each.address.replica_uuid for each in found),
        directories=tuple(each.directory for each in found),
        isr=frozenset(),
        elr=frozenset(),
        former_uuids=(),
        adding_replicas=(),
        removing_replicas=(),
        throttle_bytes_per_s=None,
        leader=None,
        leader_epoch=fence,
        log_start_offset=min(start, committed),
    )
    inspections = [inspection_of(address, kept, state) for address, state in states]
    complete = complete_replicas(kept, inspections)
    incomplete = {
        each.broker_id: f"its log, from {each.log_start_offset} to {each.log_end_offset}, does not"
        f" prove to have what is committed, up to {committed}"
        for each in inspections
        if each not in complete
    }
    # If nothing is committed, nothing was appended to those without a table.
    isr = {each.broker_id for each in complete} | (unmade if committed == 0 else set())
    best = furthest_replica(kept, complete or inspections, eligible=frozenset(replicas))
    losing, log_end = "", Offset(0) if best is None else best.log_end_offset
    if isr or best is None:
        leader = min(isr, key=replicas.index) if best is None else best.broker_id
        change = PartitionChange(leader=leader, isr=frozenset(isr))
    else:
        change, losing = unclean_change(kept, best)
    after = kept.merge(kept.completed(change))
    after = replace(
        after,
        log_end_offset=max(after.high_watermark, log_end),
        log_start_offset=max(kept.log_start_offset, min(start, after.high_watermark)),
    )
    return after, incomplete | problems, losing
