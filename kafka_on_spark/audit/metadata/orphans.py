"""Orphans: files and tables that no commit names, and whether they may be deleted.

A segment may be deleted if every replica of its partition is fenced above the epoch in its name and
none names it, or if all its offsets lie below the partition's log start. A table may be deleted if
it was listed first and the metadata that was read afterwards assigns it to no broker. These rules
need no clock. This module only lists.
"""

from collections.abc import Iterable, Mapping, Sequence

from kafka_on_spark.audit.batches import epoch_in_name
from kafka_on_spark.audit.findings import Orphan
from kafka_on_spark.audit.metadata.partition_timeline import PartitionTimeline
from kafka_on_spark.audit.metadata.registers import Register
from kafka_on_spark.audit.trace import ReplicaTrace
from kafka_on_spark.ids import BrokerId, LeaderEpoch, PartitionKey, ReplicaUuid, TopicId
from kafka_on_spark.log.addresses import FoundTable


def segment_orphans(
    register: Register, traces: Sequence[ReplicaTrace], folders: Mapping[ReplicaUuid, str]
) -> list[Orphan]:
    """Return the files in replicas' folders that their logs don't name.

    `folders` are the replicas' URLs. A replica that could not be read may name any file and has
    no known fence, so the first rule allows no deletion in its partition.
    """
    by_replica = {trace.replica_uuid: trace for trace in traces if trace.is_read}
    fences = [_fence(by_replica.get(uuid)) for uuid in register.replica_uuids]
    names = {
        path: trace.broker_id
        for trace in by_replica.values()
        for batch in trace.batches
        for path in batch.paths
    }
    ends = {
        path: lifetime.batch.end_offset
        for trace in by_replica.values()
        for lifetime in trace.lifetimes
        for path in lifetime.batch.paths
    }
    orphans = []
    for trace in by_replica.values():
        for name in trace.file_names:
            kind, is_allowed, reason = _judge(name, register, fences, names, ends)
            path = f"{folders[trace.replica_uuid]}/{name}"
            orphans.append(
                Orphan(
                    kind=kind,
                    broker_id=trace.broker_id,
                    path=path,
                    is_deletable=is_allowed,
                    reason=reason,
                )
            )
    return orphans


def _fence(trace: ReplicaTrace | None) -> LeaderEpoch | None:
    return None if trace is None or trace.fence is None else LeaderEpoch(trace.fence)


def _judge(
    name: str,
    register: Register,
    fences: Sequence[LeaderEpoch | None],
    names: Mapping[str, BrokerId],
    ends: Mapping[str, int],
) -> tuple[str, bool, str]:
    epoch = epoch_in_name(name)
    if epoch is None:
        return "file", False, "it is no segment by its name, perhaps half of one being written"
    end = ends.get(name)
    if end is not None and end <= register.log_start_offset:
        reason = f"its records end at {end}, not above the log start {register.log_start_offset}"
        return "segment", True, reason
    if name in names:
        return "segment", False, f"the log on broker {names[name]} names it: it may be on its way"
    if is_deletable(LeaderEpoch(epoch), is_named=False, fences=fences):
        reason = f"every replica is fenced above leadership {epoch}, and none names it"
        return "segment", True, reason
    reason = f"a replica is not fenced above leadership {epoch}, or could not be read"
    return "segment", False, reason


def is_deletable(
    file_epoch: LeaderEpoch, *, is_named: bool, fences: Iterable[LeaderEpoch | None]
) -> bool:
    """Return whether a segment file staged under `file_epoch` may be deleted.

    `is_named`: some replica's log names it. `fences`: of all replicas of the partition. A commit
    can name the file only under its epoch, and fences only rise: what may be deleted once may be
    deleted at any later time, and no clock is asked.
    """
    return not is_named and all(fence is not None and fence > file_epoch for fence in fences)


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
