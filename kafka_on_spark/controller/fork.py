"""Makes the copy of a cluster a cluster of its own: new ids on all roots, and a new metadata log.

The copied metadata log is read, as far as its files are there, and never written. What is written,
in this order; the same call goes on after a crash anywhere, and until the last step every open of
the copy is refused, since it is not where its log registers it:

1. The plan, with all new ids, on the first metadata root, unless one is there: of two forks of one
   copy one goes on. It is deleted after the last step.
2. ``meta.properties`` of each broker's root: from now on it is the new cluster's.
3. Logs that lack a file are cut before it, a commit each.
4. A new metadata table on each metadata root, and in it, as one commit, the cluster as it is now.
   After that commit nothing is decided again.
5. ``meta.properties`` of each metadata root, those of the copied ones last: the plan is known by
   what they had.

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
from kafka_on_spark.metadata.cluster_roots import DeltaMetadataLog, create_voter_table
from kafka_on_spark.metadata.image import ControllerResult, MetadataImage, snapshot_records
from kafka_on_spark.metadata.metadata_root import (
    NODE_ID,
    MetadataIdentity,
    check_unnamed,
    read_identity,
)
from kafka_on_spark.metadata.partition import PartitionChange, PartitionRegistration
from kafka_on_spark.metadata.quorum.elector import check_cluster_ids
from kafka_on_spark.metadata.quorum.quorum_log import newest_snapshot
from kafka_on_spark.metadata.quorum.voter_log import VoterLog
from kafka_on_spark.metadata.quorum.voter_table import UNREADABLE, TableChange, Voter
from kafka_on_spark.metadata.records import BrokerState, MetadataBatch, PartitionRecord, Record
from kafka_on_spark.node.node import ID_SOURCE, THREADS
from kafka_on_spark.node.opening import open_metadata
from kafka_on_spark.store import root_identity
from kafka_on_spark.store.deadlines import DaemonThreads
from kafka_on_spark.store.local_files import COMMIT_BYTES_MAX
from kafka_on_spark.store.new_roots import check_conditional_puts, create_root
from kafka_on_spark.store.root_identity import META_PROPERTIES, RootIdentity
from kafka_on_spark.store.root_urls import check_roots_apart, is_one_place, roots_in
from kafka_on_spark.store.roots import RootFiles, StorageOptions

COMMIT_MS_MAX: Final = 120_000
"""As the default of delivery.timeout.ms."""


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


@dataclass(frozen=True, slots=True, kw_only=True)
class _Decision:
    """What to write. `quorum_epoch`: of the copied log, above which the new one begins."""

    generation: int
    quorum_epoch: QuorumEpoch
    records: Sequence[Record]
    cuts: Sequence[_Found]
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
    copy, report, log = _Copy(url, brokers, options), ForkReport(), None
    records: Sequence[Record] = ()
    with suppress(*UNREADABLE):  # no root has a new table yet
        log = DeltaMetadataLog(url, options, identities=copy.voters)
    if log is None or not log.has_decided():
        decision = copy.decide(racks)
        report, records = decision.report, decision.records
        if report.lost and not (accepts_losses or is_dry_run):
            raise InvalidRequestError(
                f"the copy lacks committed records: {'; '.join(report.lost)}: copy the roots again"
                " while deletes are held, or accept the losses"
            )
        if not is_dry_run:
            copy.write(decision)
    if is_dry_run:
        return report

    def decide(now: MetadataImage) -> ControllerResult[None]:
        ensure(bool(now.cluster_id or records), "a decision that a table had is gone")
        return ControllerResult([] if now.cluster_id else records, None)

    metadata = open_metadata(url, options, identities=copy.voters)
    metadata.submit(decide, timeout_ms=COMMIT_MS_MAX)
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
        self._roots = roots
        self.copied = self._named()
        # Once some have the new identity, the others still have that by which the plan is named.
        self._files, self._plan, found = RootFiles(roots[0], options), "", None
        for cluster_id in {each.cluster_id for each in self.copied.values()}:
            path = f"{roots[0]}/fork-{cluster_id}.json"
            content = self._files.read(path, COMMIT_BYTES_MAX)
            if found is None:
                self._plan, found = path, content
        new = {each: ID_SOURCE.new_uuid() for each in ("cluster", *roots, *brokers.values())}
        self._ids: dict[str, str] = new if found is None else json.loads(found)
        self.is_new = found is None
        if self._ids.keys() != new.keys():
            others = ", ".join(each for each in self._ids if each != "cluster")
            raise InvalidRequestError(
                f"a fork of this copy is under way, with other roots: give {others}, or copy all"
                " roots again, to empty folders"
            )
        self.cluster_id = self._ids["cluster"]
        self.voters = {
            root: MetadataIdentity(self.cluster_id, NodeId(node_id), self.disk_at(root))
            for node_id, root in enumerate(roots, NODE_ID)
        }

    def _named(self) -> dict[str, MetadataIdentity]:
        read = {root: read_identity(root, self.options) for root in self._roots}
        return {root: each for root, each in read.items() if each is not None}

    def disk_at(self, root: str) -> DirectoryId:
        return DirectoryId(self._ids[root])

    def broker(self, broker_id: BrokerId, generation: int) -> RootIdentity:
        """Return what a broker's root becomes."""
        disk = self.disk_at(self.brokers[broker_id])
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
        found = root_identity.read_identity(root, self.options)
        wanted = [self.broker(broker_id, image.generation)]
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

    # What it becomes.

    def decide(self, racks: Mapping[int, str]) -> _Decision:
        """Decide what the copy becomes. Nothing is written."""
        for root in self.voters.keys() - self.copied if self.is_new else ():
            check_unnamed(root, self.options)
        quorum_epoch, before, not_whole = self._best_log()
        check_cluster_ids({root: each.cluster_id for root, each in self.copied.items()})
        self._check_places(before)
        disks = {broker_id: self._disk_of(broker_id, before) for broker_id in self.brokers}
        there = {
            broker_id: replace(
                known := before.brokers[broker_id],
                broker_epoch=BrokerEpoch(known.broker_epoch + 1),
                root=root,
                rack=racks.get(broker_id, known.rack),
                directory_id=self.disk_at(root),
                state=BrokerState.ACTIVE,
                fenced_since_ms=None,
                refused=None,
            )
            for broker_id, root in self.brokers.items()
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
        lost, cuts, forked = (
            list[str](),
            list[_Found](),
            dict[PartitionKey, PartitionRegistration](),
        )
        causes = dict[PartitionKey, str]()
        partitions, worker = dict(image.partitions()), Worker(self.options)
        with DaemonThreads(THREADS, "fork") as threads:
            inspect = partial(_inspected, image, disks=disks, worker=worker)
            inspected = threads.map(inspect, partitions, partitions.values())
            for (key, partition), found in zip(partitions.items(), inspected, strict=True):
                name = "{}-{}".format(*image.name_of(key))
                forked[key], problems, losing = _forked(image, key, partition, found)
                cuts += [each for each in found if each.cut]
                not_whole += [f"{name} on broker {each}: {why}" for each, why in problems.items()]
                lost += [f"{name}: {losing}"] if losing else []
                causes[key] = f"{cause}; {losing}" if losing else cause
        return _Decision(
            generation=image.generation,
            quorum_epoch=quorum_epoch,
            records=[
                replace(each, registration=forked[each.key], cause=causes[each.key])
                if isinstance(each, PartitionRecord)
                else replace(each, cause=cause)
                for each in snapshot_records(image)
            ],
            cuts=cuts,
            report=ForkReport(
                metadata_offset=image.offset,
                unregistered=tuple(sorted(gone)),
                not_whole=tuple(not_whole),
                lost=tuple(lost),
            ),
        )

    # Writing it.

    def write(self, decision: _Decision) -> None:
        """Write all but the decision and the identities of metadata roots."""
        for root in self._ids.keys() - {"cluster"}:
            create_root(root)
            check_conditional_puts(root, self.options)  # it may be another kind of storage
        plan = json.dumps(self._ids).encode()
        is_first = not self.is_new or self._files.write_if_absent(self._plan, plan)
        if not is_first or (self.is_new and self._named() != self.copied):  # one may have ended
            raise InvalidRequestError(
                "another fork of this copy has just begun: let it end, or call again, which goes on"
                " with it"
            )
        for broker_id, root in self.brokers.items():
            self._put(root, self.broker(broker_id, decision.generation))
        replicas = Worker(self.options).replicas
        for found in decision.cuts:
            address = replace(found.address, directory_id=self.disk_at(found.address.root))
            assert found.cut is not None
            commit_decided(replicas.open_uncached(address), found.cut)
        for root, identity in self.voters.items():
            with suppress(CommitConflictError):  # an earlier try made it
                create_voter_table(root, identity, self.options)
        log = DeltaMetadataLog(self.url, self.options, identities=self.voters)
        for key in log.tables.voters.keys:
            table = log.tables.load(key)
            if table.quorum_epoch < decision.quorum_epoch:
                log.tables.commit(table, TableChange(quorum_epoch=decision.quorum_epoch))
        log.begin()

    def finish(self) -> None:
        """Write the identities of metadata roots, and delete the plan."""
        for root in sorted(self.voters, key=self.copied.__contains__):
            self._put(root, self.voters[root])
        self._files.delete_file(self._plan)


def _inspected(
    image: MetadataImage,
    key: PartitionKey,
    partition: PartitionRegistration,
    *,
    disks: Mapping[BrokerId, DirectoryId],
    worker: Worker,
) -> list[_Found]:
    """Return what `disks`, those that the brokers' roots are now, have of a partition."""
    found = []
    for broker_id, directory in zip(partition.replicas, partition.directories, strict=True):
        if broker_id in disks:
            address = address_of(image, key, partition, broker_id, directory_id=disks[broker_id])
            one = _Found(address=address)
            if directory != LOST:
                one = _inspected_replica(address, worker)
            # A table may be there though the metadata does not know of it yet.
            if one.state is not None or directory not in (None, LOST):
                directory = image.brokers[broker_id].directory_id
            found.append(replace(one, directory=directory))
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
                cut = partial(
                    operations.adopt,
                    leader_epoch=LeaderEpoch((state.leader_epoch or 0) + 1),
                    truncate_to=at,
                    floor=Offset(0),  # what is cut off is on no disk
                )
                change = cut(state)
                assert change is not None, "its fence is above the table's"
                problem += ": the log is cut there"
                return _Found(address=address, state=state.apply(change), cut=cut, problem=problem)
    return _Found(address=address, state=state)


def _forked(
    image: MetadataImage,
    key: PartitionKey,
    partition: PartitionRegistration,
    found: Sequence[_Found],
) -> tuple[PartitionRegistration, dict[BrokerId, str], str]:
    """Decide how a partition goes on: its complete replicas are in sync, the furthest leads; if
    there is none, an unclean election says what is lost, and without a log it begins empty. Return
    it, what is not whole, and what is lost.

    Replicas of a reassignment under way all stay: those that come may have what others lack. A log
    start that has moved since the metadata was copied holds.
    """
    replicas = tuple(each.address.broker_id for each in found)
    states = [(each.address, each.state) for each in found if each.state is not None]
    unmade = {each.address.broker_id for each in found if each.directory is None}
    problems = {
        each.address.broker_id: each.problem for each in found if each.directory and each.problem
    }
    fence = LeaderEpoch(
        1 + max([partition.leader_epoch, *(s.leader_epoch or 0 for _, s in states)])
    )
    committed = partition.high_watermark
    start = max([partition.log_start_offset, *(each.log_start_offset for _, each in states)])
    if not states and (committed > 0 or not unmade):
        there = sorted(image.brokers)
        begun = new_partition(
            image,
            replicas or (there[key.partition % len(there)],),
            ID_SOURCE.new_uuid,
            partition.unclean_generation + 1,
        )
        epoch = PartitionEpoch(partition.partition_epoch + 1)
        lost = f"no replica was copied, offsets {start} to {committed - 1} are lost"
        after = replace(begun, leader_epoch=fence, partition_epoch=epoch)
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
    for each in inspections:
        if each not in complete:
            ends = f"its log, from {each.log_start_offset} to {each.log_end_offset}, does not"
            why = f"{ends} prove to have what is committed, up to {committed}"
            problems.setdefault(each.broker_id, why)
    # If nothing is committed, nothing was appended to those without a table.
    isr = {each.broker_id for each in complete} | (unmade if committed == 0 else set())
    best = furthest_replica(kept, complete or inspections, eligible=frozenset(replicas))
    losing, leader = "", min(isr, key=replicas.index) if best is None else best.broker_id
    change, log_end = PartitionChange(leader=leader, isr=frozenset(isr)), 0
    if best is not None:
        log_end = best.log_end_offset
        if not isr:
            change, losing = unclean_change(kept, best)
    after = kept.merge(kept.completed(change))
    after = replace(
        after,
        log_end_offset=max(after.high_watermark, log_end),
        log_start_offset=max(kept.log_start_offset, min(start, after.high_watermark)),
    )
    return after, problems, losing
