"""What no commit names, and whether the rules that need no clock allow its deletion (DESIGN §2).

A segment may go if every replica of its partition is fenced above the epoch in its name and none
names it, or if all its offsets lie below the partition's log start. A table may go if it was
listed first and the metadata that was read afterwards assigns it to nobody. Lists only.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from kafka_on_spark.audit.batches import epoch_in_name
from kafka_on_spark.audit.findings import Orphan
from kafka_on_spark.audit.life import PartitionLife
from kafka_on_spark.audit.registers import Register
from kafka_on_spark.audit.trace import ReplicaTrace
from kafka_on_spark.ids import BrokerId, LeaderEpoch, PartitionKey, ReplicaUuid, TopicId
from kafka_on_spark.log.retention import is_deletable


def segment_orphans(
    register: Register, traces: Sequence[ReplicaTrace], folders: Mapping[ReplicaUuid, str]
) -> list[Orphan]:
    """Return the files in replicas' folders that their logs don't name.

    `folders` are the replicas' URLs. A replica that could not be read may name any file, and has
    no fence: nothing of its partition may be deleted by the first rule.
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
        path: life.batch.end_offset
        for trace in by_replica.values()
        for life in trace.lives
        for path in life.batch.paths
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


@dataclass(frozen=True, slots=True, kw_only=True)
class FoundTable:
    """A folder on a root that is named like a replica's.

    Attributes:
        broker_id: On whose root.
        path: Its URL.
        topic_id: As its path says.
        partition: As its path says.
        replica_uuid: As its path says.
    """

    broker_id: BrokerId
    path: str
    topic_id: TopicId
    partition: int
    replica_uuid: ReplicaUuid


def table_orphans(
    tables: Iterable[FoundTable],
    lives: Mapping[PartitionKey, PartitionLife],
    topic_ids: Iterable[TopicId],
) -> list[Orphan]:
    """Return the tables that are assigned to nobody.

    `lives` and `topic_ids` (all that there ever were) were read after `tables` were listed: a
    replica's uuid is in the metadata before its table is made.
    """
    known = frozenset(topic_ids)
    orphans = []
    for table in tables:
        key = PartitionKey(table.topic_id, table.partition)
        life = lives.get(key)
        register = None if life is None or life.is_removed else life.register
        if register is not None and register.uuid_of(table.broker_id) == table.replica_uuid:
            continue
        if register is not None and table.replica_uuid in register.former_uuids:
            continue  # it may yet be taken back
        is_allowed, reason = _judge_table(table, key, life, known)
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
    life: PartitionLife | None,
    known: frozenset[TopicId],
) -> tuple[bool, str]:
    if table.topic_id not in known:
        return False, "the metadata log has never heard of its topic: it may have gone back"
    if life is None:
        return False, f"the metadata log has never heard of partition {key.partition} of its topic"
    if life.is_removed:
        return True, f"its topic {life.name.topic} was deleted"
    return True, f"{life.name} has no replica {table.replica_uuid} on broker {table.broker_id}"
