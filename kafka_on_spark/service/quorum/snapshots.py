"""Finds the newest snapshot of a log among those on voters' roots."""

import logging
from collections.abc import Collection, Iterable

from kafka_on_spark.ids import Offset
from kafka_on_spark.metadata.records import MetadataBatch
from kafka_on_spark.raft.log.lookups import is_snapshot_of
from kafka_on_spark.raft.log.raft_log import OffsetAndEpoch, RaftLog
from kafka_on_spark.service.quorum.ports import UNREADABLE, VoterLog

logger = logging.getLogger(__name__)


def newest_snapshot(
    log: RaftLog,
    found: Iterable[tuple[VoterLog, Collection[OffsetAndEpoch]]],
    to_offset: Offset,
) -> MetadataBatch | None:
    """Return the newest readable snapshot of `log` that ends at `to_offset` or before, if any.

    `found`: where the snapshots on each root end; of those that end at one place, the first is
    read.
    """
    of_log = [
        (end, voter)
        for voter, ends in found
        for end in ends
        if end.offset <= to_offset and is_snapshot_of(log, end)
    ]
    for end, voter in sorted(of_log, key=lambda each: each[0], reverse=True):
        try:
            return voter.read_snapshot(end)
        except UNREADABLE as error:
            logger.warning("the snapshot up to %s is passed over: %s", end.offset, error)
    return None
