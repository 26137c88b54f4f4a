"""Tiny builders, so that a row of a table of cases fits on a line.

Brokers are text ("2 1 3"), and so are logs: "0:aab 1:c" is epoch 0 with a batch `a` of two records
and a batch `b` of one, then epoch 1 with a batch `c`. The same epoch and letter is the same append
in whichever log it stands.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import cache
from itertools import groupby
from typing import Any

from kafka_on_spark.base.ids import (
    LOST,
    NO_CHAIN,
    BrokerEpoch,
    BrokerId,
    ChainDigest,
    DirectoryId,
    LeaderEpoch,
    Offset,
    PartitionEpoch,
    PartitionKey,
    ProducerEpoch,
    ReplicaUuid,
    TopicId,
    TopicPartition,
)
from kafka_on_spark.controller.election import WholeReplica, elect_leader, furthest_replica
from kafka_on_spark.log import operations
from kafka_on_spark.log.batch import (
    Batch,
    MergedSegment,
    ProducerStamp,
    Segment,
    StagedBatch,
    segment_name,
)
from kafka_on_spark.log.state import (
    LastAppend,
    ProducerEntries,
    ProducerEntry,
    ReplicaAddress,
    ReplicaIdentity,
    ReplicaState,
)
from kafka_on_spark.metadata.image import BrokerRegistration, MetadataImage, TopicImage
from kafka_on_spark.metadata.partition import PartitionMap, PartitionMapDraft, PartitionRegistration
from kafka_on_spark.metadata.records import BrokerState
from kafka_on_spark.metadata.reports import PartitionReport, ReplicaInspection, ReplicaReport

TOPIC = "orders"
TOPIC_ID = TopicId("11111111111111111111111111111111")
KEY = PartitionKey(TOPIC_ID, 0)
FIRST = "first replica"
NOW_MS = 1_700_000_000_000
BEGINNING = 2
"""Where the first decision of a cluster's metadata log stands: after its voters and their leader."""


@cache
def brokers(text: str) -> tuple[BrokerId, ...]:
    return tuple(BrokerId(int(word)) for word in text.split())


def disk(broker_id: int) -> DirectoryId:
    """Return the disk that a broker's replicas are made on."""
    return DirectoryId(f"disk{broker_id}")


def uuid_on(broker_id: int) -> ReplicaUuid:
    return ReplicaUuid(f"uuid{broker_id}")


def digest_at(offset: int) -> ChainDigest:
    return ChainDigest(f"{int(offset):032x}")


def partition(
    replicas: str,
    isr: str | None = None,
    leader: int | str | None = FIRST,
    *,
    elr: str = "",
    lost: str = "",
    unmade: str = "",
    adding: str = "",
    removing: str = "",
    epoch: int = 5,
    version: int = 9,
    hw: int = 0,
    hw_epoch: int | None = None,
    hw_chain: ChainDigest | None = None,
    leo: int | None = None,
    start: int = 0,
    unclean_generation: int = 0,
) -> PartitionRegistration:
    """Return a registration; every replica is made and in sync, and the first leads, unless said.

    `version` is the partition epoch; `lost` and `unmade` name brokers.
    """
    everyone = brokers(replicas)
    directories: dict[BrokerId, DirectoryId | None] = {each: disk(each) for each in everyone}
    directories |= dict.fromkeys(brokers(lost), LOST)
    directories |= dict.fromkeys(brokers(unmade), None)
    return PartitionRegistration(
        replicas=everyone,
        replica_uuids=tuple(uuid_on(each) for each in everyone),
        directories=tuple(directories[each] for each in everyone),
        isr=frozenset(everyone if isr is None else brokers(isr)),
        elr=frozenset(brokers(elr)),
        leader=everyone[0] if leader == FIRST else leader,
        leader_epoch=LeaderEpoch(epoch),
        partition_epoch=PartitionEpoch(version),
        adding_replicas=brokers(adding),
        removing_replicas=brokers(removing),
        high_watermark=Offset(hw),
        high_watermark_epoch=hw_epoch,
        high_watermark_chain=digest_at(hw) if hw_chain is None else hw_chain,
        log_end_offset=Offset(hw if leo is None else leo),
        log_start_offset=Offset(start),
        unclean_generation=unclean_generation,
    )


def broker(
    broker_id: int, *, rack: str | None = None, state: BrokerState = BrokerState.ACTIVE
) -> BrokerRegistration:
    return BrokerRegistration(
        broker_id=BrokerId(broker_id),
        broker_epoch=BrokerEpoch(0),
        root=f"memory://{broker_id}",
        rack=rack,
        directory_id=disk(broker_id),
        state=state,
    )


def cluster_of(
    ids: str, *, fenced: str = "", draining: str = "", racks: str = ""
) -> dict[BrokerId, BrokerRegistration]:
    """Return brokers by id; `racks` names a rack each, in order ("a a b")."""
    states = dict.fromkeys(brokers(fenced), BrokerState.FENCED)
    states |= dict.fromkeys(brokers(draining), BrokerState.DRAINING)
    names = racks.split() or [None] * len(brokers(ids))
    return {
        each: broker(each, rack=rack, state=states.get(each, BrokerState.ACTIVE))
        for each, rack in zip(brokers(ids), names, strict=True)
    }


def partition_map(partitions: Mapping[int, PartitionRegistration]) -> PartitionMap:
    draft = PartitionMapDraft(PartitionMap())
    for number, registered in partitions.items():
        draft.put(number, registered)
    return draft.finish()


def image_of(
    *partitions: PartitionRegistration,
    ids: str = "1 2 3",
    fenced: str = "",
    draining: str = "",
    racks: str = "",
    configs: Mapping[str, str] | None = None,
    **fields: Any,
) -> MetadataImage:
    """Return an image of one topic with these partitions; `configs` are the topic's."""
    topic = TopicImage(
        name=TOPIC,
        topic_id=TOPIC_ID,
        partitions=partition_map(dict(enumerate(partitions))),
        configs=configs or {},
    )
    return MetadataImage(
        offset=Offset(100),
        brokers=cluster_of(ids, fenced=fenced, draining=draining, racks=racks),
        topics={TOPIC_ID: topic},
        topic_ids={TOPIC: TOPIC_ID},
        **fields,
    )


def elect_unclean(
    state: PartitionRegistration, eligible: frozenset[BrokerId]
) -> tuple[BrokerId | None, bool]:
    """Elect a leader, by an unclean election if need be, of replicas whose logs are all alike.

    Return it, and whether the election was unclean.
    """
    clean = elect_leader(state, eligible)
    if clean is not None:
        return clean, False
    alike = [inspection(state, each) for each in state.replicas]
    chosen = furthest_replica(state, alike, eligible=eligible)
    return (None, False) if chosen is None else (chosen.broker_id, True)


def inspection(state: PartitionRegistration, broker_id: BrokerId) -> ReplicaInspection:
    """Return what was seen of a replica without records, which proves nothing."""
    return ReplicaInspection(
        key=KEY,
        broker_id=broker_id,
        partition_epoch=state.partition_epoch,
        high_watermark=state.high_watermark,
        log_start_offset=Offset(0),
        log_end_offset=Offset(0),
        last_epoch=None,
        epoch_below_high_watermark=None,
        chain_digest=NO_CHAIN,
        chain_at_high_watermark=None,
    )


def address(broker_id: int = 1, *, root: str | None = None, **fields: Any) -> ReplicaAddress:
    given = {
        "root": root or f"memory://{broker_id}",
        "topic": TOPIC,
        "key": KEY,
        "broker_id": BrokerId(broker_id),
        "directory_id": disk(broker_id),
        "replica_uuid": uuid_on(broker_id),
    }
    return ReplicaAddress(**(given | fields))


def identity(broker_id: int = 1) -> ReplicaIdentity:
    return address(broker_id).identity


def stamp(sequence: int, *, producer: str = "p", epoch: int = 0, digest: int = 7) -> ProducerStamp:
    return ProducerStamp(
        producer_id=producer,
        producer_epoch=ProducerEpoch(epoch),
        sequence=sequence,
        payload_digest=digest,
    )


def entry(
    sequence: int | None = None,
    *,
    epoch: int = 0,
    base: int = 0,
    count: int = 1,
    digest: int = 7,
    partitions: int = 1,
    unknown_to: int = -1,
) -> ProducerEntry:
    """Return what a log keeps of a producer whose append `sequence` has no header any more."""
    last = sequence is not None and LastAppend(
        sequence=sequence,
        base_offset=Offset(base),
        record_count=count,
        payload_digest=digest,
        partition_count=partitions,
        appended_at_ms=NOW_MS,
    )
    return ProducerEntry(
        producer_epoch=ProducerEpoch(epoch), last=last or None, unknown_to=unknown_to
    )


def segment(name: str, count: int = 1, *, epoch: int = 0) -> Segment:
    """Return a segment file staged under `epoch`; the same name is the same file."""
    return Segment(
        file_name=segment_name(LeaderEpoch(epoch), name, f"digest{name}"),
        size_bytes=100 * count,
        record_count=count,
        timestamp_min_us=NOW_MS * 1000,
        timestamp_max_us=NOW_MS * 1000 + count - 1,
    )


def staged(
    name: str,
    counts: str = "1",
    *,
    epoch: int = 0,
    producer: ProducerStamp | None = None,
    is_log_append_time: bool = False,
) -> StagedBatch:
    """Return an append of segments with so many records each ("2 1" is two segments)."""
    segments = tuple(
        segment(f"{name}{epoch}x{place}", int(count), epoch=epoch)
        for place, count in enumerate(counts.split())
    )
    return StagedBatch(
        segments=segments,
        partition_count=1,
        producer=producer,
        is_log_append_time=is_log_append_time,
    )


def batch(
    name: str,
    base: int,
    counts: str = "1",
    *,
    epoch: int = 0,
    producer: ProducerStamp | None = None,
    after: ReplicaState | None = None,
) -> Batch:
    """Return the batch that `staged(name, counts)` becomes at offset `base`.

    `after`: the log that it continues, from which its chain is computed.
    """
    before = staged(name, counts, epoch=epoch)
    made = Batch(
        base_offset=Offset(base),
        record_count=before.record_count,
        leader_epoch=LeaderEpoch(epoch),
        partition_count=1,
        producer=producer,
        appended_at_ms=NOW_MS,
        segments=before.segments,
    )
    return made if after is None else after.chained(made)


def log(
    text: str = "",
    *,
    base: int = 0,
    start: int | None = None,
    fence: int | str | None = FIRST,
    stamps: Mapping[str, ProducerStamp] | None = None,
    producers: ProducerEntries | None = None,
    version: int = 0,
    chain_before: ChainDigest = NO_CHAIN,
) -> ReplicaState:
    """Read "0:aab 1:c" as a replica's log that begins at `base`.

    It is fenced at its last epoch (at 0 if empty), unless `fence` says otherwise. `stamps` are
    the producers of batches, by letter.
    """
    batches: list[Batch] = []
    before = ReplicaState(identity=identity(), chain_before=chain_before)
    end, epoch = base, 0
    for word in text.split():
        epoch = int(word.split(":")[0])
        for letter, run in groupby(word.split(":")[1]):
            made = batch(
                letter,
                end,
                str(len(list(run))),
                epoch=epoch,
                producer=(stamps or {}).get(letter),
            )
            batches.append(before.chained(made))
            before = replace(before, batches=tuple(batches))
            end = made.end_offset
    return ReplicaState(
        identity=identity(),
        version=version,
        log_start_offset=Offset(base if start is None else start),
        log_end_offset=Offset(end),
        leader_epoch=epoch if fence == FIRST else fence,
        batches=tuple(batches),
        producers=producers or {},
        chain_before=chain_before,
    )


def merged(
    state: ReplicaState, base: int, end: int, *, name: str = "m", records: int | None = None
) -> MergedSegment:
    """Return the segment that the batches of a log between two borders are merged into.

    `records`: how many are left of them; None: all.
    """
    inputs = state.batches_between(Offset(base), Offset(end))
    first, last = inputs[0], inputs[-1]
    count = sum(each.record_count for each in inputs) if records is None else records
    fence = state.leader_epoch or 0
    return MergedSegment(
        base_offset=first.base_offset,
        end_offset=last.end_offset,
        leader_epoch=first.leader_epoch,
        appended_at_ms=max(each.appended_at_ms for each in inputs),
        segment=replace(segment(f"{name}{fence}x{base}", 1, epoch=fence), record_count=count),
        content_digest=7,
        chain_digest=last.chain_digest,
        has_append_time=first.has_append_time,
    )


def with_merged(state: ReplicaState, base: int, end: int, **given: Any) -> ReplicaState:
    """Return a log after its batches between two borders were merged."""
    made = merged(state, base, end, **given)
    change = operations.replace_neighbours(
        state,
        state.batches_between(Offset(base), Offset(end)),
        made,
        operation="merge",
        leader_epoch=LeaderEpoch(state.leader_epoch or 0),
        stable_offset=state.log_end_offset,
        compaction=state.compaction,
    )
    assert change is not None
    return state.apply(change)


def text_of(state: ReplicaState) -> str:
    """Return a log as the text that `log` reads."""
    words: list[str] = []
    for epoch, run in groupby(state.batches, key=lambda each: each.leader_epoch):
        letters = "".join(each.segments[0].uuid[0] * each.record_count for each in run)
        words.append(f"{epoch}:{letters}")
    return " ".join(words)


def seen(
    broker_id: int,
    leo: int = 0,
    *,
    fence: int | None = 5,
    last_epoch: int | None = 5,
    is_matched: bool = True,
    **fields: Any,
) -> ReplicaReport:
    """Return what was seen of a replica: fenced at the builders' epoch and like the leader's."""
    given = {
        "broker_id": BrokerId(broker_id),
        "replica_uuid": uuid_on(broker_id),
        "directory_id": disk(broker_id),
        "fence": fence,
        "log_end_offset": Offset(leo),
        "last_epoch": last_epoch,
        "chain_digest": digest_at(leo),
        "is_matched": is_matched,
    }
    return ReplicaReport(**(given | fields))


def report(
    leader: ReplicaReport,
    *followers: ReplicaReport,
    epoch: int = 5,
    version: int = 9,
    known_end: int = 0,
    epoch_start: int = 0,
    uncommitted_since_ms: int | None = None,
    key: PartitionKey = KEY,
) -> PartitionReport:
    """Return one round's report on a partition, at the builders' epochs.

    `known_end`: the recorded log end that the round was planned on.
    """
    return PartitionReport(
        key=key,
        leader_epoch=LeaderEpoch(epoch),
        partition_epoch=PartitionEpoch(version),
        known_end=Offset(known_end),
        leader=leader,
        epoch_start_offset=Offset(epoch_start),
        uncommitted_since_ms=uncommitted_since_ms,
        followers=followers,
        now_ms=NOW_MS,
        borders=tuple(
            (Offset(each), digest_at(each)) for each in range(int(leader.log_end_offset) + 1)
        ),
    )


def whole(broker_id: int, partition_epoch: PartitionEpoch) -> WholeReplica:
    """Return what is reported of a lost replica of `KEY` that is whole."""
    return WholeReplica(address(broker_id), partition_epoch)


def subsets(values: Sequence[BrokerId]) -> list[frozenset[BrokerId]]:
    """Return every subset of a few brokers, the empty one first."""
    chosen = [frozenset[BrokerId]()]
    for value in values:
        chosen += [each | {value} for each in chosen]
    return chosen


def image_of_topics(
    topics: Mapping[str, Sequence[PartitionRegistration]], offset: int = 100, **fields: Any
) -> MetadataImage:
    """Return an image of several topics; the id of a topic is "id of" its name, unless `ids` has
    another."""
    ids = {name: TopicId(fields.get("ids", {}).get(name, f"id of {name}")) for name in topics}
    fields.pop("ids", None)
    return MetadataImage(
        offset=Offset(offset),
        cluster_id=fields.pop("cluster_id", "cluster"),
        brokers=cluster_of("1 2 3"),
        topics={
            ids[name]: TopicImage(
                name=name, topic_id=ids[name], partitions=partition_map(dict(enumerate(partitions)))
            )
            for name, partitions in topics.items()
        },
        topic_ids=ids,
        **fields,
    )


def by_name(values):
    return {
        TopicPartition(topic, number): value
        for topic, of_topic in values.items()
        for number, value in of_topic.items()
    }
