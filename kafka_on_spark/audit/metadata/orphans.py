"""Orphans: files and tables that no commit names, and whether they may be deleted.

Of segments `log/upkeep/cleaning.py` decides. A table may be deleted if it was listed first and the
metadata that was read afterwards assigns it to no broker. These rules need no clock. This module
only lists.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from kafka_on_spark.audit.findings import Orphan
from kafka_on_spark.audit.metadata.partition_timeline import PartitionTimeline
from kafka_on_spark.audit.trace import ReplicaTrace
from kafka_on_spark.ids import LeaderEpoch, PartitionKey, ReplicaUuid, TopicId
from kafka_on_spark.log.addresses import FoundTable
from kafka_on_spark.log.batch import epoch_in_name
from kafka_on_spark.log.producers import producers_file_number
from kafka_on_spark.log.upkeep.cleaning import CleaningTimes, Fate, FoundFile, TableFiles, judge

_AT_ANY_LATER_TIME: Final = CleaningTimes(now_ms=2**62, delete_delay_ms=0, append_ms=0)


def segment_orphans(
    traces: Sequence[ReplicaTrace], folders: Mapping[ReplicaUuid, str]
) -> list[Orphan]:
    """Return the files in replicas' folders that their logs don't name, segments or not.

    `folders` are the replicas' URLs. Of a replica that could not be read nothing is said.
    """
    return [
        _orphan(trace, table, name, f"{folders[trace.replica_uuid]}/{name}")
        for trace in traces
        if trace.is_read
        for table in [_table_of(trace)]
        for name in trace.file_names
    ]


def _table_of(trace: ReplicaTrace) -> TableFiles:
    return TableFiles(
        named=(),
        fence=None if trace.fence is None else LeaderEpoch(trace.fence),
        removed_at_ms=dict.fromkeys(trace.removed_paths, 0),
    )


def _orphan(trace: ReplicaTrace, table: TableFiles, name: str, path: str) -> Orphan:
    number = producers_file_number(name)
    if number is not None:
        return Orphan(
            kind="producer state",
            broker_id=trace.broker_id,
            path=path,
            is_deletable=number < trace.producer_state,
            reason=f"its log names producer state {trace.producer_state}, which only rises",
        )
    epoch = epoch_in_name(name)
    is_deletable = judge(FoundFile(name, 0, 0), table, _AT_ANY_LATER_TIME).fate is Fate.GOES
    if epoch is None:
        reason = "it is no segment by its name, perhaps half of one being written"
    elif not is_deletable:
        reason = f"its log is not fenced above leadership {epoch}: an append may name it still"
    elif name in table.removed_at_ms:
        reason = "its log has removed it"
    else:
        reason = f"its log is fenced above leadership {epoch}, and does not name it"
    return Orphan(
        kind="file" if epoch is None else "segment",
        broker_id=trace.broker_id,
        path=path,
        is_deletable=is_deletable,
        reason=reason,
    )


def table_orphans(
    tables: Iterable[FoundTable],
    timelines: Mapping[PartitionKey, PartitionTimeline],
    topic_ids: Iterable[TopicId],
) -> list[Orphan]:
    """Return the tables that are assigned to no broker.

    `timelines` and `topic_ids` (all that there ever were) were read after `tables` were listed: a
    replica's uuid is in the metadata before its table is made.
    """
    known = frozenset(topic_ids)
    orphans = []
    for table in tables:
        key = PartitionKey(table.topic_id, table.partition)
        timeline = timelines.get(key)
        register = None if timeline is None or timeline.is_removed else timeline.register
        if register is not None and register.uuid_of(table.broker_id) == table.replica_uuid:
            continue
        if register is not None and table.replica_uuid in register.former_uuids:
            continue  # a lost replica, which may be taken back
        is_allowed, reason = _judge_table(table, key, timeline, known)
        orphans.append(
            Orphan(
                kind="table",
                broker_id=table.broker_id,
                path=table.path,
                is_deletable=is_allowed,
                reason=reason,
            )
        )
    return orphans


def _judge_table(
    table: FoundTable,
    key: PartitionKey,
    timeline: PartitionTimeline | None,
    known: frozenset[TopicId],
) -> tuple[bool, str]:
    if table.topic_id not in known:
        return False, "the metadata log has never heard of its topic: it may have gone back"
    if timeline is None:
        return False, f"the metadata log has never heard of partition {key.partition} of its topic"
    if timeline.is_removed:
        return True, f"its topic {timeline.name.topic} was deleted"
    return True, f"{timeline.name} has no replica {table.replica_uuid} on broker {table.broker_id}"
