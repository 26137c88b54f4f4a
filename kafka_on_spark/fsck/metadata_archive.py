"""Reads the metadata roots for audits: their tables step by step, rows and snapshots.

Every call reads its files again and caches nothing: what a process remembers of a table does not
count here. Never writes.
"""

from collections.abc import Iterator, Mapping
from contextlib import suppress

from kafka_on_spark.base.errors import ClusterNotFoundError, CorruptLogError, ReplicaLostError
from kafka_on_spark.base.ids import QuorumEpoch
from kafka_on_spark.fsck.metadata_checks import MetadataRows
from kafka_on_spark.fsck.voter_trace import VoterCommit
from kafka_on_spark.metadata.metadata_files import decode_rows
from kafka_on_spark.metadata.metadata_log import check_place, given_roots
from kafka_on_spark.metadata.metadata_root import (
    MetadataIdentity,
    check_replaced,
    identity_of,
    table_gone,
)
from kafka_on_spark.metadata.quorum.raft import newest_marks
from kafka_on_spark.metadata.quorum.voter_table import (
    UNREADABLE,
    Voter,
    VoterKey,
    VoterTable,
    newest_voters,
)
from kafka_on_spark.metadata.voter_format import (
    LEADER,
    QUORUM_EPOCH,
    VOTE,
    is_file_name,
    log_file,
    log_files,
    marks_in,
    raft_log_of,
    table_of,
)
from kafka_on_spark.metadata.voter_upkeep import MERGE
from kafka_on_spark.store.delta.conditional_commit import DeltaLog
from kafka_on_spark.store.delta.delta_files import TableCheckpoint, TableCommit, TableStep
from kafka_on_spark.store.delta.table_history import table_steps
from kafka_on_spark.store.error_translation import as_storage_errors, parsing
from kafka_on_spark.store.local_files import METADATA_FILE_BYTES_MAX
from kafka_on_spark.store.root_urls import roots_in
from kafka_on_spark.store.roots import RootFiles, StorageOptions


class MetadataArchive:
    """Reads one voter's metadata root as it is.

    Attributes:
        voter: Which voter, and its root.
    """

    def __init__(self, root: str, identity: MetadataIdentity, options: StorageOptions) -> None:
        self.voter = Voter(VoterKey(identity.node_id, identity.directory_id), root)
        self.cluster_id = identity.cluster_id
        self._root, self._identity, self._options = root, identity, options
        self._files = RootFiles(root, options)
        self._uri = identity.table_at(root)

    def steps(self, *, is_deep: bool, from_version: int = 0) -> Iterator[TableStep]:
        """Yield the steps of the metadata table from `from_version` on, oldest first.

        Raises:
            CorruptLogError: There is no table.
            ClusterNotFoundError: The root was emptied.
            KafkaStorageError: The root does not answer.
        """
        try:
            with as_storage_errors(f"read the table at {self._uri}", self._options):
                yield from table_steps(
                    self._files, self._uri, has_all_checkpoints=is_deep, from_version=from_version
                )
        except ReplicaLostError as error:
            check_replaced(self._root, self._identity, self._options)
            raise table_gone(self._uri) from error

    def voter_commit(self, step: TableCommit | TableCheckpoint) -> VoterCommit:
        """Return what a step says of the voter.

        Raises:
            CorruptLogError: Nothing that can be: it is damaged.
        """
        is_checkpoint = isinstance(step, TableCheckpoint)
        files = step.files if isinstance(step, TableCheckpoint) else step.adds
        with parsing(f"version {step.version} of the metadata table"):
            epoch = step.counters.get(QUORUM_EPOCH)
            return VoterCommit(
                version=step.version,
                is_checkpoint=is_checkpoint,
                is_merge=isinstance(step, TableCommit) and step.operation == MERGE,
                quorum_epoch=None if epoch is None else QuorumEpoch(epoch),
                votes=marks_in(step.counters, VOTE),
                leaders=marks_in(step.counters, LEADER),
                added={each.path: log_file(each).batches for each in files},
                removed=step.removes if isinstance(step, TableCommit) else (),
            )

    def rows(self, name: str) -> Iterator[MetadataRows]:
        """Yield the commits in one of the metadata table's files.

        Raises:
            CorruptLogError: It is missing or damaged, perhaps after some commits.
        """
        if not is_file_name(name):
            raise CorruptLogError(f"{name} is no file of the metadata log by its name")
        path = f"{self._uri}/{name}"
        with as_storage_errors(f"read {path}", self._options):
            content = self._files.read(path, METADATA_FILE_BYTES_MAX)
        for rows in decode_rows(content, path):
            yield MetadataRows(base_offset=rows[0]["batch_base_offset"], rows=tuple(rows))

    def snapshot_names(self) -> list[str]:
        names = self._files.names(f"{self._root}/snapshots")
        return [name for name in names if name.endswith(".parquet")]

    def snapshot(self, name: str) -> MetadataRows:
        """Return a snapshot's rows, as a commit that ends at the offset in its name."""
        path = f"{self._root}/snapshots/{name}"
        with as_storage_errors(f"read {path}", self._options):
            batches = [*decode_rows(self._files.read(path, METADATA_FILE_BYTES_MAX), path)]
        rows = tuple(row for batch in batches for row in batch)
        end = name.split("-")[0]
        base = rows[0]["batch_base_offset"]
        if len(batches) != 1 or not end.isdecimal() or base + len(rows) != int(end):
            raise CorruptLogError("a snapshot is not what its name says", path=path)
        return MetadataRows(base_offset=base, rows=rows)

    def newest_table(self) -> VoterTable:
        """Return the newest version of the table, flushed or not.

        Raises:
            CorruptLogError, KafkaStorageError, ReplicaLostError: It can't be read.
        """
        with as_storage_errors(f"read the table at {self._uri}", self._options):
            delta = DeltaLog(self._uri, self._options, is_flushed=False)
            delta.follow()
            log = raft_log_of(log_files(delta.active_files()))
            return table_of(self.voter.key, delta.counters(), log, delta.version)


class _Search:
    """Looks for the roots of the newest voters, from some of them."""

    def __init__(self, options: StorageOptions) -> None:
        self._options = options
        self.archives: dict[VoterKey, MetadataArchive] = {}
        self.tables: dict[VoterKey, VoterTable] = {}
        self.unread: dict[Voter, str] = {}

    def take(self, root: str, identity: MetadataIdentity) -> None:
        archive = MetadataArchive(root, identity, self._options)
        self.archives[archive.voter.key] = archive
        with suppress(*UNREADABLE):  # why, shows where its steps are read
            self.tables[archive.voter.key] = archive.newest_table()

    def take_given(self, root: str, identity: MetadataIdentity, *, is_only_one: bool) -> None:
        self.take(root, identity)
        table = self.tables.get(VoterKey(identity.node_id, identity.directory_id))
        try:
            if table is not None:
                check_place(root, table)
        except ClusterNotFoundError:  # of several, the others lead to the voters
            if is_only_one:
                raise

    def look_for(self, voter: Voter, cluster_id: str) -> None:
        try:
            identity = identity_of(voter.root, self._options)
        except UNREADABLE as error:
            self.unread[voter] = error.message
            return
        key = VoterKey(identity.node_id, identity.directory_id)
        if key != voter.key or identity.cluster_id != cluster_id:
            self.unread[voter] = f"{voter.root} is not voter {voter.key} any more"
            return
        self.take(voter.root, identity)

    def rank(self, key: VoterKey) -> tuple[bool, bool, int, int]:
        """Return by what voters are in order: the leader first, then by their logs."""
        table = self.tables.get(key)
        if table is None:
            return (True, True, 0, 0)
        leads = any(key == leader for leader, _ in newest_marks(self.tables))
        return (not leads, False, -table.log.end.epoch, -table.log.end_offset)


def metadata_archives(
    url: str, options: StorageOptions
) -> tuple[list[MetadataArchive], Mapping[Voter, str]]:
    """Return the roots of the newest set of voters that any of them names, the leader's first; and
    why others of them can't be read. `url`: some of their roots.

    Raises: as `given_roots`.
        InvalidRootError: One is a copy, or was moved.
    """
    search = _Search(options)
    given = given_roots(roots_in(url), options)
    for root, identity in given.items():
        search.take_given(root, identity, is_only_one=len(given) == 1)
    cluster_id = next(iter(search.archives.values())).cluster_id
    while True:
        voters = newest_voters(search.tables.values())
        known = {*search.archives, *(each.key for each in search.unread)}
        unasked = [] if voters is None else [v for v in voters.voters if v.key not in known]
        if not unasked:
            break
        for voter in unasked:
            search.look_for(voter, cluster_id)
    keys = sorted(search.archives, key=search.rank)
    if voters is not None and any(key in voters.keys for key in keys):
        keys = [key for key in keys if key in voters.keys]
    unread = {
        voter: why
        for voter, why in search.unread.items()
        if voters is not None and voter.key in voters.keys
    }
    return [search.archives[key] for key in keys], unread
