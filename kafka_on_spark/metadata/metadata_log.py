"""The metadata log of a cluster, by its metadata roots: a quorum over voters' Delta tables."""

import logging
import random
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import Future, wait
from typing import Final
from uuid import uuid4

from kafka_on_spark.base.errors import (
    ClusterNotFoundError,
    CorruptLogError,
    InvalidRootError,
    KafkaStorageError,
    ProtocolError,
    ReplicaLostError,
)
from kafka_on_spark.base.ids import Offset
from kafka_on_spark.metadata.metadata_root import NODE_ID, MetadataIdentity, identity_of
from kafka_on_spark.metadata.quorum.creating import begin_log
from kafka_on_spark.metadata.quorum.creation import check_cluster_ids, has_decided
from kafka_on_spark.metadata.quorum.generations import check_forced_once, given_up
from kafka_on_spark.metadata.quorum.ports import UNREADABLE
from kafka_on_spark.metadata.quorum.quorum_log import QuorumLog
from kafka_on_spark.metadata.quorum.settings import QuorumSettings
from kafka_on_spark.metadata.quorum.voter_set import Voter, VoterKey, VoterSet
from kafka_on_spark.metadata.quorum.voter_table import VoterTable
from kafka_on_spark.metadata.records import MetadataBatch
from kafka_on_spark.metadata.side_by_side import ThreadsSideBySide
from kafka_on_spark.metadata.voter_log import DeltaVoterLog
from kafka_on_spark.store.clock import SystemClock
from kafka_on_spark.store.daemon_threads import DaemonThreads
from kafka_on_spark.store.root_urls import BETWEEN, roots_in
from kafka_on_spark.store.roots_apart import is_one_place
from kafka_on_spark.store.storage_options import StorageOptions

log = logging.getLogger(__name__)

OPENING_PATIENCE_MS: Final = 1000
"""So long an opening waits for the other roots on its list, once more than half have answered: one
that hangs takes seconds, on a store minutes, until it fails."""


class DeltaMetadataLog(QuorumLog):
    """A MetadataLog on the Delta tables of a cluster's voters.

    `url`: the metadata roots that are asked first, with commas between. The list may be old, and
    some of them away. `patience_ms`: as of `given_roots`.

    Attributes:
        voter_log: The table of the first root that answers.
        identity: That root's identity.
        uri: That table, for people and for Spark.
        root: That root.

    Raises: as `identity_of`, where no root answers with a cluster.
        InconsistentClusterIdError: They belong to several clusters.
        InvalidRootError: Two of them are one voter's.
    """

    def __init__(
        self, url: str, options: StorageOptions, *, patience_ms: int | None = None
    ) -> None:
        self._options = options
        given = given_roots(roots_in(url), options, patience_ms=patience_ms)
        tables = tables_at_their_places(given, options)
        self._given = {root: given[root] for root in tables}
        self._given_logs = {each.key: each for each, _ in tables.values()}
        (self.root, self.identity), *_ = self._given.items()
        self.voter_log = self._given_logs[key_of(self.identity)]
        self.uri = self.voter_log.uri
        self._roots: dict[VoterKey, str] = {}
        super().__init__(
            _voters_of(self._given),
            self._open_voter,
            ThreadsSideBySide(lambda key: self._roots.get(key, f"voter {key}")),
            SystemClock(),
            random=random.random,
            new_id=_new_id,
            settings=QuorumSettings(),
        )
        for _, table in tables.values():
            self.tables.note(table)

    def _open_voter(self, voter: Voter) -> DeltaVoterLog:
        """Return a voter's table: on the root that was given, else on the one that it is said to
        have."""
        opened = self._given_logs.get(voter.key)
        if opened is None:
            identity = identity_of(voter.root, self._options)
            if key_of(identity) != voter.key or identity.cluster_id != self.identity.cluster_id:
                raise ReplicaLostError(f"{voter.root} is not voter {voter.key} any more")
            opened = DeltaVoterLog(voter.root, identity, self._options)
        self._roots[voter.key] = opened.root
        return opened

    def roots(self) -> tuple[str, ...]:
        """Return the metadata roots of the newest voters that this process knows of, in ascending
        order of their ids, each as it was given, else as it is said to be; before any leader was
        seen, those on the given list that answered."""
        given = {key_of(identity): root for root, identity in self._given.items()}
        return tuple(given.get(each.key, each.root) for each in self.tables.voters.voters)

    @property
    def registered_roots(self) -> tuple[str, ...]:
        """The roots of the newest voters that this process knows of, as the log registers them."""
        return tuple(each.root for each in self.tables.voters.voters)

    @property
    def leader_uri(self) -> str:
        """The leader's table, as it was last confirmed: for people and for Spark."""
        leader = self.leader
        found = None if leader is None else self.tables.log_of(leader)
        return found.uri if isinstance(found, DeltaVoterLog) else self.uri

    def has_decided(self) -> bool:
        """Return whether the log has a decision: there is a cluster."""
        return any(has_decided(self.tables.load(key)) for key in self.tables.voters.keys)

    def has_begun(self) -> bool:
        """Return whether a voter's table has a batch."""
        return any(self.tables.load(key).log.batches for key in self.tables.voters.keys)

    def begin(self) -> None:
        """Begin the log of a new cluster.

        Raises: as `begin_log`.
        """
        begin_log(self.tables, self.elections, SystemClock(), self.identity.cluster_id)

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
        _check_generations(tables)

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
        majority holds them. Streams for debugging; caches nothing.

        Raises: as `read`.
        """
        known = self._leadership.confirm().view
        found = self.tables.log_of(known.key)
        assert isinstance(found, DeltaVoterLog), found
        for batch in found.batches_from(offset):
            if batch.end_offset > known.log.end_offset:
                return
            yield batch


def _check_generations(tables: Sequence[VoterTable]) -> None:
    """See to it that the newest generation of the cluster counts, whoever answers first: the list
    may name roots that were given up, and they may be a majority of theirs.

    Raises:
        InconsistentClusterError: The cluster was forced at two of them.
    """
    check_forced_once(tables)
    old = given_up(tables)
    if old:
        log.warning(
            "the cluster was forced, and the metadata roots of voters %s were given up: take"
            " them off the list of its roots",
            ", ".join(map(str, old)),
        )


def tables_at_their_places(
    given: Mapping[str, MetadataIdentity], options: StorageOptions
) -> Mapping[str, tuple[DeltaVoterLog, VoterTable]]:
    """Return the tables of the given roots that can be read and are where their logs register them,
    in their order.

    Raises:
        InvalidRootError: One is a copy, or was moved.
        ClusterNotFoundError, CorruptLogError, KafkaStorageError, ReplicaLostError: None can be
            read, or none is registered; of the first.
    """
    with DaemonThreads(len(given), "places") as threads:
        opened = list(threads.map(lambda root: _at_its_place(root, given[root], options), given))
    found = {
        root: each
        for root, each in zip(given, opened, strict=True)
        if not isinstance(each, ProtocolError)
    }
    if not found:
        raise next(each for each in opened if isinstance(each, ProtocolError))
    return found


def _at_its_place(
    root: str, identity: MetadataIdentity, options: StorageOptions
) -> tuple[DeltaVoterLog, VoterTable] | ProtocolError:
    voter_log = DeltaVoterLog(root, identity, options)
    try:
        table = voter_log.load()
        check_place(root, table)
    except UNREADABLE as error:
        log.info("the metadata root %s is passed over: %s", root, error)
        return error
    return voter_log, table


def check_place(root: str, table: VoterTable) -> None:
    """Check that a metadata root is where its own log registers it. A copy that is used elsewhere
    would work on the disks of the original's brokers, which the log names.

    Raises:
        InvalidRootError: It is registered at another place.
        ClusterNotFoundError: No set of voters in its log has it: it may become a voter, or have
            become one a moment ago; the voters lead to it then.
        KafkaStorageError: A disk does not answer.
    """
    voters = table.log.voters
    if voters is None:
        return  # its log has not begun, and names nobody's disks
    registered = table.log.root_of(table.key)
    if registered is None:
        roots = " or ".join(each.root for each in voters.voters)
        raise ClusterNotFoundError(
            f"{root} is not a metadata root of its cluster by its own log: give {roots}"
        )
    if not is_one_place(root, registered):
        raise InvalidRootError(
            f"the metadata root at {root} is a copy, or was moved: its cluster's log registers it"
            f" at {registered}; open the cluster there, or bring all of its roots back to their"
            " places, by a mount or a link as well"
        )


def given_roots(
    roots: tuple[str, ...], options: StorageOptions, *, patience_ms: int | None = None
) -> Mapping[str, MetadataIdentity]:
    """Return the identities of the roots that answer, in their order, those of former voters last.

    `patience_ms`: so long they are waited for, if more than half answer until then; None: each is,
    until it answers or fails.

    Raises: as `identity_of`, where none answers.
        InconsistentClusterIdError: They belong to several clusters.
    """
    if len(roots) == 1:
        return {roots[0]: identity_of(roots[0], options)}
    asked = _ask_all(roots, options)
    wait(asked.values(), None if patience_ms is None else patience_ms / 1000)
    answers = {root: future.result() for root, future in asked.items() if future.done()}
    if 2 * len(_identities(answers)) <= len(roots):
        answers = {root: future.result() for root, future in asked.items()}
    found = _identities(answers)
    if not found:
        raise next(each for each in answers.values() if isinstance(each, ProtocolError))
    check_cluster_ids({root: identity.cluster_id for root, identity in found.items()})
    return dict(sorted(found.items(), key=lambda each: each[1].is_removed))


_Answer = MetadataIdentity | ProtocolError


def _ask_all(roots: tuple[str, ...], options: StorageOptions) -> Mapping[str, Future[_Answer]]:
    threads = DaemonThreads(len(roots), "roots")
    try:
        return {root: threads.submit(_ask, root, options) for root in roots}
    finally:
        threads.shutdown(wait=False)


def _ask(root: str, options: StorageOptions) -> _Answer:
    try:
        return identity_of(root, options)
    except (ClusterNotFoundError, CorruptLogError, KafkaStorageError) as error:
        log.info("the metadata root %s is passed over: %s", root, error)
        return error


def _identities(answers: Mapping[str, _Answer]) -> dict[str, MetadataIdentity]:
    return {root: each for root, each in answers.items() if isinstance(each, MetadataIdentity)}


def first_answering_root(url: str, options: StorageOptions) -> str:
    """Return the first of a cluster's metadata roots that answers: what is for people or for speed
    only lies there.

    Raises: as `identity_of`, where none does.
    """
    return next(iter(given_roots(roots_in(url), options, patience_ms=OPENING_PATIENCE_MS)))


def _voters_of(given: Mapping[str, MetadataIdentity]) -> VoterSet:
    voters: dict[int, Voter] = {}
    for root, identity in given.items():
        other = voters.setdefault(identity.node_id, Voter(key_of(identity), root))
        if other.root != root:
            raise InvalidRootError(
                f"{other.root} and {root} are both metadata root {identity.node_id} of their"
                " cluster: one is a copy, or was replaced; name the other only"
            )
    return VoterSet.of(voters.values())


def key_of(identity: MetadataIdentity) -> VoterKey:
    """Return which voter a root is, or was."""
    return VoterKey(identity.node_id, identity.directory_id)


def _new_id() -> str:
    return uuid4().hex
