"""Holds the format of a voter's table: version, columns, counters, and what an open one must say.

The counters are its epoch, its votes and the leaders that it has marked: Delta's `txn` actions, as
a replica's, only raised, and part of the commit that changes the log. Apart from `voter_log`, which
reads and writes such a table: creating one asks for no more.
"""

from collections.abc import Mapping
from typing import Final

import pyarrow as pa

from kafka_on_spark.base.errors import CorruptLogError, ImpossibleValueError
from kafka_on_spark.base.ids import DirectoryId, NodeId, QuorumEpoch
from kafka_on_spark.metadata.metadata_files import FILE_SCHEMA
from kafka_on_spark.metadata.metadata_root import MetadataIdentity
from kafka_on_spark.metadata.quorum.raft_log import RaftLog
from kafka_on_spark.metadata.quorum.voter_set import VoterKey
from kafka_on_spark.metadata.quorum.voter_table import Mark, TableChange, VoterTable

FORMAT_VERSION: Final = "3"

LOG_END_OFFSET: Final = "log-end-offset"
QUORUM_EPOCH: Final = "quorum-epoch"
VOTE: Final = "vote/"
LEADER: Final = "leader/"

HISTORY_START: Final = "history-start"
HISTORY_START_MS: Final = "history-start-ms"
"""Where the history begins, if metadata.max.retention.ms has ended some of it: the records before
are expired. And when the newest of these was committed."""

HEADER: Final = ("base_offset", "epoch", "write_id", "headers")
TABLE_SCHEMA: Final = pa.schema(
    [
        ("base_offset", pa.int64()),
        ("epoch", pa.int32()),
        ("write_id", pa.string()),
        ("headers", pa.string()),
        *FILE_SCHEMA,
    ]
)


def check_format(found: Mapping[str, str], root: str, identity: MetadataIdentity) -> None:
    """Check the configuration of the table that a metadata root names.

    Raises:
        CorruptLogError: It is of another format, or another root's.
    """
    version = found.get("kos.format.version", "none")
    if version != FORMAT_VERSION:
        advice = (
            "use a newer kafka_on_spark"
            if version.isdecimal() and int(version) > int(FORMAT_VERSION)
            else "create it again, and append its records anew"
        )
        raise CorruptLogError(
            f"the cluster at {root} has format {version}, this version reads"
            f" {FORMAT_VERSION}: {advice}"
        )
    for name, value in identity.configuration.items():
        if found.get(name) != value:
            table = identity.table_at(root)
            words = f"the table at {table} is another metadata root's: restore its own"
            raise CorruptLogError(words, setting=name, expected=value, found=found.get(name))


def table_of(key: VoterKey, counters: Mapping[str, int], log: RaftLog, version: int) -> VoterTable:
    """Return a voter's table.

    Raises:
        CorruptLogError: Its counters contradict each other, or its log.
    """
    try:
        return VoterTable(
            key,
            QuorumEpoch(counters.get(QUORUM_EPOCH, 0)),
            marks_in(counters, VOTE),
            marks_in(counters, LEADER),
            log,
            version,
        )
    except (ImpossibleValueError, ValueError) as error:
        raise CorruptLogError(f"the counters of voter {key} can't be: {error}") from error


def marks_in(counters: Mapping[str, int], prefix: str) -> tuple[Mark, ...]:
    """Return the votes or the marks in counters, by their prefix: the oldest first.

    Raises:
        ValueError: One names no voter.
    """
    marks = (
        (_key_of(name.removeprefix(prefix)), QuorumEpoch(epoch))
        for name, epoch in counters.items()
        if name.startswith(prefix)
    )
    return tuple(sorted(marks, key=lambda mark: (mark[1], mark[0].node_id)))


def _key_of(text: str) -> VoterKey:
    node_id, _, directory_id = text.partition(":")
    return VoterKey(NodeId(int(node_id)), DirectoryId(directory_id))


def counters_of(change: TableChange, after: VoterTable) -> dict[str, int]:
    """Return the counters that a commit sets which leads to the table `after`."""
    counters: dict[str, int] = {LOG_END_OFFSET: after.log.end_offset}
    if change.quorum_epoch is not None:
        counters[QUORUM_EPOCH] = change.quorum_epoch
    if change.vote is not None:
        counters[f"{VOTE}{change.vote}"] = after.quorum_epoch
    if change.leader is not None:
        counters[f"{LEADER}{change.leader}"] = after.quorum_epoch
    return counters
