"""Tells which cluster is at a metadata root: its ``meta.properties`` names the metadata table.

The table's folder is named after the root's directory id, which is created with the root and never
copied. A cluster that is deleted and created again at the same path has another table, so a process
with the old table open finds it gone, and never writes to the new one.

The file is written after the table: if the file is there, the table was there. A root that does not
answer is a KafkaStorageError, a file that is not a metadata root's an InvalidRootError.
"""

import re
from dataclasses import dataclass, field, replace
from typing import Final
from uuid import uuid4

from kafka_on_spark.base.errors import (
    ClusterNotFoundError,
    CorruptLogError,
    InvalidRootError,
    KafkaStorageError,
    ReplicaLostError,
)
from kafka_on_spark.base.ids import DirectoryId, NodeId
from kafka_on_spark.metadata.quorum.voter_table import VoterKey
from kafka_on_spark.store.root_identity import (
    META_PROPERTIES,
    encode_properties,
    properties_of,
    read_properties,
)
from kafka_on_spark.store.roots import RootFiles, StorageOptions

TABLE_PREFIX: Final = "__cluster_metadata-0-"
"""Kafka's name of the metadata partition; the directory id follows."""

NODE_ID: Final = NodeId(1)
"""Of a cluster's first voter; the others count on."""

REMOVED: Final = b"removed=true"
"""A line of a former voter's ``meta.properties``."""

_DIRECTORY_ID: Final = re.compile(r"[0-9a-f]{32}")

_NEVER_RESTORED: Final = (
    "of several metadata roots, never restore one: empty it, remove its voter, then add it"
)
"""For people. A voter that was restored from a copy has forgotten votes, and may vote twice."""


@dataclass(frozen=True, slots=True)
class MetadataIdentity:
    """The content of ``meta.properties`` on a metadata root, and of the table's configuration.

    Attributes:
        is_removed: It is not a voter any more. That is for people, and for processes with an old
            list of roots; what its table says counts.
    """

    cluster_id: str
    node_id: NodeId
    directory_id: DirectoryId
    is_removed: bool = field(default=False, compare=False)

    @property
    def key(self) -> VoterKey:
        return VoterKey(self.node_id, self.directory_id)

    @property
    def configuration(self) -> dict[str, str]:
        return {
            "kos.cluster.id": self.cluster_id,
            "kos.node.id": str(self.node_id),
            "kos.directory.id": self.directory_id,
        }

    def table_at(self, metadata_root: str) -> str:
        return f"{metadata_root}/{TABLE_PREFIX}{self.directory_id}"

    def encode(self) -> bytes:
        content = encode_properties(self.cluster_id, f"node.id={self.node_id}", self.directory_id)
        return content + (REMOVED + b"\n" if self.is_removed else b"")


def new_identity(cluster_id: str, node_id: NodeId = NODE_ID) -> MetadataIdentity:
    return MetadataIdentity(cluster_id, node_id, DirectoryId(uuid4().hex))


def read_identity(metadata_root: str, options: StorageOptions) -> MetadataIdentity | None:
    """Return which metadata root this is, or None if it has no ``meta.properties``.

    Raises:
        InvalidRootError: The file is not a metadata root's.
    """
    content = read_properties(metadata_root, options)
    if content is None:
        return None
    try:
        fields = properties_of(content)
        found = MetadataIdentity(
            fields["cluster.id"],
            NodeId(int(fields["node.id"])),
            DirectoryId(fields["directory.id"]),
            is_removed=REMOVED in content.splitlines(),
        )
    except (KeyError, ValueError):
        found = None
    if found is None or _DIRECTORY_ID.fullmatch(found.directory_id) is None:
        path = f"{metadata_root}/{META_PROPERTIES}"
        raise InvalidRootError(
            f"{path} is not a metadata root's: give the metadata root of a cluster, or an empty"
            " folder to create one in"
        )
    return found


def identity_of(metadata_root: str, options: StorageOptions) -> MetadataIdentity:
    """Return which metadata root this is.

    Raises:
        ClusterNotFoundError: There is no cluster.
        CorruptLogError: There is a cluster's table, and the file that names it is gone or damaged.
        KafkaStorageError: The root does not answer.
    """
    found = _readable_identity(metadata_root, options)
    if found is None:
        check_unnamed(metadata_root, options)
        found = _readable_identity(metadata_root, options)  # or it was named since
    if found is None:
        raise ClusterNotFoundError(
            f"there is no cluster at {metadata_root}: create one with Cluster.create, or check the"
            " path"
        )
    return found


def _readable_identity(metadata_root: str, options: StorageOptions) -> MetadataIdentity | None:
    try:
        return read_identity(metadata_root, options)
    except InvalidRootError:
        return None


def check_unnamed(metadata_root: str, options: StorageOptions) -> None:
    """Check that a root that names no table has no table with a commit after its creation.

    A table without one is what an interrupted creation left. A root that names a table after all
    was created by another process since it was read, which is not an error here."""
    files = RootFiles(metadata_root, options)
    for name in files.names(metadata_root):
        if not name.startswith(TABLE_PREFIX):
            continue
        names = files.names(f"{metadata_root}/{name}/_delta_log")
        if any(each.endswith(".json") and each[:20].strip("0") for each in names):
            if _readable_identity(metadata_root, options) is not None:
                return
            raise CorruptLogError(
                f"the metadata root {metadata_root} has the table {name} and no {META_PROPERTIES}"
                " that names it: restore that file from a copy"
            )


def put_identity(
    metadata_root: str, mine: MetadataIdentity, options: StorageOptions
) -> MetadataIdentity:
    """Write ``meta.properties`` unless it is there; return the identity in it."""
    files = RootFiles(metadata_root, options)
    files.write_if_absent(f"{metadata_root}/{META_PROPERTIES}", mine.encode())
    files.flush([metadata_root])
    found = read_identity(metadata_root, options)
    if found is None:
        raise InvalidRootError(f"the root {metadata_root} does not keep what is written to it")
    return found


def mark_removed(
    metadata_root: str, directory_id: DirectoryId, options: StorageOptions, *, is_removed: bool
) -> bool:
    """Record on a root that it is not a voter any more, or that it may be one again; return whether
    that stands there: a root that was emptied since is left as it is."""
    found = read_identity(metadata_root, options)
    if found is None or found.directory_id != directory_id:
        return False
    if found.is_removed != is_removed:
        content = replace(found, is_removed=is_removed).encode()
        RootFiles(metadata_root, options).write(f"{metadata_root}/{META_PROPERTIES}", content)
    return True


def identity_of_voter(metadata_root: str, options: StorageOptions) -> MetadataIdentity:
    """Do as `identity_of`, where the cluster's log says that a voter is."""
    try:
        return identity_of(metadata_root, options)
    except ClusterNotFoundError as error:
        raise ClusterNotFoundError(nothing_at(metadata_root)) from error


def nothing_at(metadata_root: str) -> str:
    return (
        f"nothing of the cluster is at {metadata_root}: mount its disk if that is away; if it is"
        " not, this voter is lost, and `metadata-quorum describe` says what to do"
    )


def check_replaced(metadata_root: str, opened: MetadataIdentity, options: StorageOptions) -> None:
    """Check that no other cluster was created at the root of one that this process has open."""
    found = read_identity(metadata_root, options)
    if found is None:
        raise KafkaStorageError(nothing_at(metadata_root))
    if found.directory_id != opened.directory_id:
        is_same = found.cluster_id == opened.cluster_id
        other = "another metadata table" if is_same else f"the cluster {found.cluster_id}"
        raise ClusterNotFoundError(
            f"the cluster {opened.cluster_id} that this process has open is gone from"
            f" {metadata_root}, where {other} was created: open it again"
        )


def table_gone(uri: str) -> CorruptLogError:
    return CorruptLogError(
        f"the metadata table {uri} is gone from its root: {_NEVER_RESTORED}; if it is the only one,"
        " restore it from a copy, or empty the root to create another cluster"
    )


def went_back(metadata_root: str) -> ReplicaLostError:
    return ReplicaLostError(
        f"the metadata log at {metadata_root} went back behind what this process has seen: stop and"
        f" restore it if it is the only one; {_NEVER_RESTORED}"
    )
