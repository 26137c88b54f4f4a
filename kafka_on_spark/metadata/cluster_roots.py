"""The metadata log of a cluster as its roots have it: created, opened, and with hints beside it.

A creation makes a table on each root, then the file that names the table, then the log's beginning.
One that is cut off between the first two leaves an empty table without a name, which stays. The
next creation makes another table, since a racing process may be about to name the first.

A cluster outlives its metadata roots, and so do its hints, small files (`HintRoots`): each lies on
the first root that takes it. What was left on a root that is away is missed until then, which costs
time only. The roots are those of the newest voters, so that processes that were given different
lists find each other's.
"""

import logging
import random
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future, wait
from contextlib import suppress
from functools import cached_property
from itertools import chain, count
from typing import Final, TypeVar

from kafka_on_spark.base.errors import (
    ClusterNotFoundError,
    CommitOutcomeUnknownError,
    InconsistentClusterIdError,
    InvalidRequestError,
    InvalidRootError,
    KafkaStorageError,
    ReplicaLostError,
)
from kafka_on_spark.base.ids import NodeId, Offset
from kafka_on_spark.metadata.metadata_files import FORMAT_VERSION, HEADER, TABLE_SCHEMA, new_id
from kafka_on_spark.metadata.metadata_root import (
    NODE_ID,
    MetadataIdentity,
    check_unnamed,
    identity_of,
    identity_of_voter,
    new_identity,
    put_identity,
    read_identity,
)
from kafka_on_spark.metadata.quorum.elector import check_cluster_ids, has_decided
from kafka_on_spark.metadata.quorum.quorum_log import QuorumLog
from kafka_on_spark.metadata.quorum.raft import QuorumSettings, check_generations
from kafka_on_spark.metadata.quorum.voter_changes import VoterChanges
from kafka_on_spark.metadata.quorum.voter_log import CLEANER_MS, DELETE_DELAY_MS, VoterLog
from kafka_on_spark.metadata.quorum.voter_table import (
    UNREADABLE,
    RaftLog,
    Voter,
    VoterKey,
    VoterSet,
)
from kafka_on_spark.metadata.quorum.voter_tables import SideBySide
from kafka_on_spark.metadata.records import MetadataBatch
from kafka_on_spark.store.deadlines import DaemonThreads, SystemClock
from kafka_on_spark.store.delta.delta_log import DeltaLog, tombstones_kept
from kafka_on_spark.store.local_files import SMALL_FILE_BYTES_MAX, UnsafeFileError
from kafka_on_spark.store.new_roots import create_root, unusable_root
from kafka_on_spark.store.root_urls import BETWEEN, is_one_place, roots_in
from kafka_on_spark.store.roots import RootFiles, StorageOptions

T = TypeVar("T")

log = logging.getLogger(__name__)

OPENING_PATIENCE_MS: Final = 1000
"""How long an opening waits for the other roots on its list, once more than half have answered: one
that hangs takes seconds, on a store minutes, until it fails."""


class DeltaMetadataLog(QuorumLog):
    """The metadata log on the Delta tables of a cluster's voters.

    `url`: the metadata roots that are asked first, with commas between. The list may be old, and
    some of them away. `patience_ms`: as of `given_roots`. `identities`: theirs, where the roots do
    not name these yet.

    Attributes:
        voter_log: The table of the first root that answers.
        uri: That table, for people and for Spark.

    Raises: as `identity_of`, where no root answers with a cluster.
        InconsistentClusterIdError: They belong to several clusters.
        InvalidRootError: Two of them are one voter's.
    """

    def __init__(
        self,
        url: str,
        options: StorageOptions,
        *,
        patience_ms: int | None = None,
        identities: Mapping[str, MetadataIdentity] | None = None,
    ) -> None:
        self._options = options
        given = identities or given_roots(roots_in(url), options, patience_ms=patience_ms)
        began_ms = SystemClock().monotonic_ms()
        tables = tables_at_their_places(given, options)
        self._given = {root: given[root] for root in tables}
        self._given_roots = {identity.key: root for root, identity in self._given.items()}
        self._given_logs = {each.key: each for each in tables.values()}
        (self.root, self.identity), *_ = self._given.items()
        self.voter_log = self._given_logs[self.identity.key]
        self.uri = self.voter_log.uri
        self._roots: dict[VoterKey, str] = {}
        super().__init__(
            _voters_of(self._given),
            self._open_voter,
            SideBySide(lambda key: self._roots.get(key, f"voter {key}")),
            SystemClock(),
            random=random.random,
            new_id=new_id,
            settings=QuorumSettings(),
        )
        for key in self._given_logs:
            self.tables.log_of(key)
        self._opened_ms = began_ms

    def _open_voter(self, voter: Voter) -> VoterLog:
        """Return a voter's table: on the root that was given, or on the one that the log names."""
        opened = self._given_logs.get(voter.key)
        if opened is None:
            identity = identity_of_voter(voter.root, self._options)
            if identity.key != voter.key or identity.cluster_id != self.identity.cluster_id:
                raise ReplicaLostError(f"{voter.root} is not voter {voter.key} any more")
            opened = VoterLog(voter.root, identity, self._options)
        self._roots[voter.key] = opened.root
        return opened

    @cached_property
    def changes(self) -> VoterChanges:
        return VoterChanges(self)

    def roots(self) -> tuple[str, ...]:
        """Return the metadata roots of the newest voters that this process knows of, in ascending
        order of their ids, each as it was given, or as the log names it; before any leader was
        seen, those on the given list that answered."""
        voters = self.tables.voters.voters
        return tuple(self._given_roots.get(each.key, each.root) for each in voters)

    @property
    def registered_roots(self) -> tuple[str, ...]:
        """The roots of the newest voters that this process knows of, as the log registers them."""
        return tuple(each.root for each in self.tables.voters.voters)

    def has_decided(self) -> bool:
        return any(has_decided(self.tables.load(key)) for key in self.tables.voters.keys)

    def has_begun(self) -> bool:
        return any(self.tables.load(key).log.batches for key in self.tables.voters.keys)

    def begin(self) -> None:
        self.elections.begin_log(self.identity.cluster_id)

    def check(self) -> None:
        """Check that the log has begun, and was forced at one place only, by the tables that were
        just opened: the first read asks a majority of them.

        Raises:
            ClusterNotFoundError: The creation of the cluster was cut off, or the root's addition.
            InconsistentClusterError: The cluster was forced at two places.
        """
        tables = [*self.tables.newest_of_all().values()]
        if len(tables) > 1:
            has_begun = any(each.log.batches for each in tables)
        else:
            has_begun = any(each.leaders or each.votes for each in tables)
        if not has_begun:
            raise self._unfinished()
        check_generations(tables)

    def _unfinished(self) -> ClusterNotFoundError:
        if any(each.node_id == NODE_ID for each in self._given.values()):
            return ClusterNotFoundError(
                f"the creation of a cluster at {BETWEEN.join(self._given)} was cut off: create it"
                " again, with the same metadata roots, which goes on with what is there"
            )
        # There may be that cluster, at other roots: another one of its id would take its brokers.
        return ClusterNotFoundError(
            f"{self.root} was prepared as metadata root {self.identity.node_id} of cluster"
            f" {self.identity.cluster_id}, and has nothing of its log: name another of its metadata"
            " roots; or call again what was cut off, with the same roots, its addition or the"
            " creation of the cluster"
        )

    def batches_from(self, offset: Offset) -> Iterator[MetadataBatch]:
        """Yield the batch that holds `offset` and those after it, a file at a time, as far as a
        majority holds them. For `metadata` of the command line; caches nothing.
        """
        known = self.confirm()
        for batch in self.tables.log_of(known.key).batches_from(offset):
            if batch.end_offset > known.log.end_offset:
                return
            yield batch


class HintRoots:
    """A cluster's metadata roots, those that failed last after the others. Threads may share it.

    `newest` returns them, as they are now, in an order that all processes share.
    """

    def __init__(self, newest: Callable[[], Sequence[str]], options: StorageOptions) -> None:
        self._newest = newest
        self._options = options
        self._failed: tuple[str, ...] = ()

    def in_turn(self) -> list[RootFiles]:
        failed = self._failed
        roots = sorted(
            self._newest(), key=lambda each: failed.index(each) if each in failed else -1
        )
        return [RootFiles(each, self._options) for each in roots]

    def try_last(self, root: str) -> None:
        """Ask a root that fails after the others from now on: one that hangs takes long."""
        others = [each for each in self._failed if each != root and each in self._newest()]
        self._failed = (*others, root)

    def contents(self, name: str) -> Iterator[bytes]:
        """Yield what a file has on the roots, one by one; nothing of roots without it.

        Raises:
            KafkaStorageError: No root answers.
        """
        failures: list[KafkaStorageError] = []
        roots = self.in_turn()
        for files in roots:
            try:
                content = files.read(f"{files.url}/{name}", SMALL_FILE_BYTES_MAX)
            except UnsafeFileError:
                continue
            except KafkaStorageError as error:
                failures.append(error)
                self.try_last(files.url)
                continue
            if content is not None:
                yield content
        if len(failures) == len(roots):
            raise failures[0]

    def write(self, name: str, content: bytes) -> None:
        """Replace a file, on the first root that takes it."""
        failures: list[KafkaStorageError] = []
        for files in self.in_turn():
            try:
                files.write(f"{files.url}/{name}", content, is_flushed=False)
            except KafkaStorageError as error:
                log.debug("%s can't be written on %s: %s", name, files.url, error)
                failures.append(error)
                self.try_last(files.url)
            else:
                return
        raise failures[0]


def tables_at_their_places(
    given: Mapping[str, MetadataIdentity], options: StorageOptions
) -> Mapping[str, VoterLog]:
    """Return the tables of the given roots that can be read and are where their logs register them,
    in their order.
    """
    with DaemonThreads(len(given), "places") as threads:
        return _answers(
            {root: threads.submit(_at_its_place, root, given[root], options) for root in given}
        )


def _answers(asked: Mapping[str, Future[T]]) -> dict[str, T]:
    """Return what the roots that can be read answer; if none can, raise the error of the first."""
    found, failures = {}, []
    for root, each in asked.items():
        try:
            found[root] = each.result()
        except UNREADABLE as error:
            log.info("the metadata root %s is passed over: %s", root, error)
            failures.append(error)
    if not found:
        raise failures[0]
    return found


def _at_its_place(root: str, identity: MetadataIdentity, options: StorageOptions) -> VoterLog:
    voter_log = VoterLog(root, identity, options)
    voter_log.list_early()
    table = voter_log.load()
    check_place(root, table.key, table.log)
    return voter_log


def check_place(root: str, key: VoterKey, raft_log: RaftLog) -> None:
    """Check that a metadata root is where its own log registers it. A copy that is used elsewhere
    would work on the disks of the original's brokers, which the log names.

    Raises:
        InvalidRootError: It is registered at another place.
        ClusterNotFoundError: No set of voters in its log has it: it may become a voter, or have
            become one a moment ago; the voters lead to it then.
        KafkaStorageError: A disk does not answer.
    """
    voters = raft_log.voters
    if voters is None:
        return  # its log has not begun, and names nobody's disks
    registered = raft_log.root_of(key)
    if registered is None:
        roots = " or ".join(each.root for each in voters.voters)
        raise ClusterNotFoundError(
            f"{root} is not a metadata root of its cluster by its own log: give {roots}"
        )
    if not is_one_place(root, registered):
        raise InvalidRootError(
            f"the metadata root at {root} is a copy, or was moved: its cluster's log registers it"
            f" at {registered}; open the cluster there, or bring all of its roots back to their"
            " places, by a mount or a link as well; or make the copy a cluster of its own, by"
            " `cluster --fork`"
        )


def given_roots(
    roots: tuple[str, ...], options: StorageOptions, *, patience_ms: int | None = None
) -> Mapping[str, MetadataIdentity]:
    """Return the identities of the roots that answer, in their order, those of former voters last.

    `patience_ms`: how long to wait for them, if more than half answer in that time; None: until
    each has answered or failed.
    """
    if len(roots) == 1:
        return {roots[0]: identity_of(roots[0], options)}
    threads = DaemonThreads(len(roots), "roots")
    try:
        asked = {root: threads.submit(identity_of, root, options) for root in roots}
    finally:
        threads.shutdown(wait=False)
    wait(asked.values(), None if patience_ms is None else patience_ms / 1000)
    done = {root: each for root, each in asked.items() if each.done()}
    if 2 * sum(each.exception() is None for each in done.values()) <= len(roots):
        done = asked
    found = _answers(done)
    check_cluster_ids({root: identity.cluster_id for root, identity in found.items()})
    return dict(sorted(found.items(), key=lambda each: each[1].is_removed))


def first_answering_root(url: str, options: StorageOptions) -> str:
    """Return the first of a cluster's metadata roots that answers: what is for people or for speed
    only lies there.
    """
    return next(iter(given_roots(roots_in(url), options, patience_ms=OPENING_PATIENCE_MS)))


def _voters_of(given: Mapping[str, MetadataIdentity]) -> VoterSet:
    voters: dict[int, Voter] = {}
    for root, identity in given.items():
        other = voters.setdefault(identity.node_id, Voter(identity.key, root))
        if other.root != root:
            raise InvalidRootError(
                f"{other.root} and {root} are both metadata root {identity.node_id} of their"
                " cluster: one is a copy, or was replaced; name the other only"
            )
    return VoterSet.of(voters.values())


def create_metadata_log(
    metadata_root: str,
    options: StorageOptions,
    cluster_id: str,
    *,
    with_brokers: Collection[str] = (),
) -> DeltaMetadataLog:
    """Create the log, or go on with one without a decision; then that log's cluster id counts.

    `metadata_root`: one, or several with commas between: then each of them is a voter.
    `with_brokers`: ids of clusters that have brokers' roots, read before this."""
    roots = roots_in(metadata_root)
    found = named(roots, options)
    if found:
        # Before anything is written to the others.
        cluster_id = check_cluster_ids({root: each.cluster_id for root, each in found.items()})
        log = _check_undecided(BETWEEN.join(found), options)
        is_elsewhere = cluster_id in with_brokers and not log.has_begun()
        _check_of_a_creation(roots, found, is_elsewhere=is_elsewhere)
    # In one order, however they are named: of processes that create them at once, all go on with
    # what the first has named.
    for root in sorted(roots):
        if root in found:
            RootFiles(root, options).flush([root])  # whoever wrote it may have died before
            continue
        node_id = _free_id(roots.index(root), found.values())
        found[root] = create_voter(root, options, cluster_id, node_id=node_id)
        cluster_id = check_cluster_ids({root: each.cluster_id for root, each in found.items()})
    log = _check_undecided(metadata_root, options)
    log.begin()
    return log


def named(roots: Sequence[str], options: StorageOptions) -> dict[str, MetadataIdentity]:
    """Return the identities of the roots that have one.

    The last one is read first. They are named from the first on, so where another process names
    them meanwhile, none is missed before one that is seen.
    """
    read = {root: read_identity(root, options) for root in sorted(roots, reverse=True)}
    return {root: each for root in roots if (each := read[root]) is not None}


def _check_of_a_creation(
    roots: Sequence[str], found: Mapping[str, MetadataIdentity], *, is_elsewhere: bool
) -> None:
    """Check that the roots that are named can be what a creation at `roots` left that was cut off.

    The addition of a root to a cluster leaves the same if it is cut off: an identity, and a table
    without a batch. A cluster that begins there is a second one of the same id, which would take
    the first one's brokers. A creation names its roots in order, by ids from the first on, and
    begins its log before a broker gets the id of the cluster (`is_elsewhere`: one has it already).
    """
    for place, root in enumerate(sorted(roots)):
        identity = found.get(root)
        if identity is None:
            continue
        is_first = place < len(found)
        if is_elsewhere or not is_first or identity.node_id >= NODE_ID + len(roots):
            raise InconsistentClusterIdError(
                f"the root {root} was prepared as metadata root {identity.node_id} of cluster"
                f" {identity.cluster_id}, by an addition or another creation that was cut off:"
                " give each cluster roots of its own, or empty this one if that cluster is not to"
                " have it"
            )


def _free_id(place: int, found: Iterable[MetadataIdentity]) -> NodeId:
    """Return the id of the root that is named at a place in the list, or else one that is free."""
    taken = {each.node_id for each in found}
    wanted = chain([NODE_ID + place], count(NODE_ID))
    return next(NodeId(each) for each in wanted if each not in taken)


def _check_undecided(metadata_root: str, options: StorageOptions) -> DeltaMetadataLog:
    log = DeltaMetadataLog(metadata_root, options)
    if log.has_decided():
        raise there_is_a_cluster(metadata_root)
    return log


def there_is_a_cluster(metadata_root: str) -> InvalidRequestError:
    return InvalidRequestError(
        f"there is a cluster at {metadata_root} already: open it, or give an empty root"
    )


def create_voter(
    metadata_root: str,
    options: StorageOptions,
    cluster_id: str,
    *,
    node_id: NodeId = NODE_ID,
) -> MetadataIdentity:
    """Create a voter's table, without a batch, and the file that names it; or find one that another
    process has just created."""
    check_unnamed(metadata_root, options)
    mine = new_identity(cluster_id, node_id)
    table = mine.table_at(metadata_root)
    try:
        create_voter_table(metadata_root, mine, options)
        found = put_identity(metadata_root, mine, options)
    except (KafkaStorageError, CommitOutcomeUnknownError) as error:
        raise unusable_root(metadata_root, error) from error
    if found != mine:
        with suppress(KafkaStorageError):  # our table is empty, and no process knows it
            RootFiles(metadata_root, options).delete(table)
    return found


def create_voter_table(
    metadata_root: str, identity: MetadataIdentity, options: StorageOptions
) -> None:
    """Create a voter's table, without a batch, which its root does not name yet."""
    create_root(metadata_root)
    DeltaLog.create(
        identity.table_at(metadata_root),
        options,
        schema=TABLE_SCHEMA,
        partition_by=HEADER,
        configuration={
            **identity.configuration,
            **tombstones_kept(DELETE_DELAY_MS, CLEANER_MS),
            "kos.format.version": FORMAT_VERSION,
            # Files have no statistics but their size; delta-rs takes time in each commit for each
            # column that might have some.
            "delta.dataSkippingNumIndexedCols": "0",
        },
    )
