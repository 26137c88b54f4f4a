"""What a caller asks of an append, its plan, its checks and its answer.

Between a plan and `append_staged`, tasks stage segments: those of a Spark job, of a data source's
writer, or of this process. `AppendRounds` leads what they have staged to its answer.
"""

import json
import logging
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from hashlib import blake2b
from itertools import islice
from typing import Final, TypeVar

from kafka_on_spark.base.config import check_acks, leaves_auto_controller
from kafka_on_spark.base.errors import (
    ClusterClosedError,
    InvalidRecordError,
    KafkaOnSparkError,
    MessageTooLargeError,
    NotEnoughReplicasAfterAppendError,
    NotEnoughReplicasError,
    UnknownTopicOrPartitionError,
)
from kafka_on_spark.base.ids import (
    BrokerId,
    Clock,
    Offset,
    PartitionKey,
    TopicId,
    check_mapping,
    check_whole_number,
)
from kafka_on_spark.controller.replica_tables import create_replicas
from kafka_on_spark.log.batch import (
    SEGMENTS_A_BATCH_MAX,
    ProducerStamp,
    StagedBatch,
    WriterFence,
)
from kafka_on_spark.log.state import address_of
from kafka_on_spark.metadata.image import MetadataImage, TopicImage
from kafka_on_spark.node.node import Node
from kafka_on_spark.produce.append_rounds import AppendRounds, AppendThreads
from kafka_on_spark.produce.idempotence import (
    EarlierTries,
    NextAppend,
    ProducerRuns,
    check_not_fenced,
    check_producer,
    check_writer_not_fenced,
    partition_count_of_first_try,
    producer_of,
)
from kafka_on_spark.produce.leader_log import PartitionBatch
from kafka_on_spark.produce.records import TopicLimits, topic_limits
from kafka_on_spark.produce.staging import (
    AppendPlan,
    ProducerRun,
    StagedSegment,
    StageOrder,
    is_unreached,
    plan_stage,
    split_differently,
)
from kafka_on_spark.store.counts import (
    BYTES_IN,
    FAILED_APPENDS,
    REQUEST_MS,
)
from kafka_on_spark.store.deadlines import pauses_ms

log = logging.getLogger(__name__)

Appends = Sequence[tuple[AppendPlan, Sequence[StagedSegment]]]
"""What was staged for each of some topics, in task order, and its plan."""

PRODUCE: Final = "Produce"
"""The request of an append, in Kafka's words: from staged records to the answer."""

OPENED_EARLY_MAX: Final = 8
"""Partitions of a topic whose leaders' tables are read before it is known which get records."""

IN_SYNC_PAUSE_MS_MIN: Final = 100.0
IN_SYNC_PAUSE_MS_MAX: Final = 1000.0

_RANGES_MAX: Final = 16
"""Partitions whose offsets a line of text has."""

T = TypeVar("T")


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionAppend:
    """Where one partition's records stand.

    Attributes:
        base_offset: Offset of the first; None if they were appended before and the log no longer
            says where, or if acks=0 waited for nothing.
        record_count: Number of records.
        is_duplicate: An earlier try had appended them: this was a retry.
    """

    base_offset: Offset | None
    record_count: int
    is_duplicate: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class AppendResult:
    """What an acknowledged append has done.

    Attributes:
        topic: The topic's name.
        partitions: By partition number; only those that got records.
        notice: What will become of records by their age, if anything.
    """

    topic: str
    partitions: Mapping[int, PartitionAppend]
    notice: str | None = None

    @property
    def record_count(self) -> int:
        """Records in all partitions."""
        return sum(each.record_count for each in self.partitions.values())

    @property
    def is_duplicate(self) -> bool:
        """Whether all of it stood in the log before."""
        parts = self.partitions.values()
        return bool(parts) and all(each.is_duplicate for each in parts)

    def __str__(self) -> str:
        found = sum(each.record_count for each in self.partitions.values() if each.is_duplicate)
        ranges = [_range(*each) for each in sorted(self.partitions.items())]
        more = len(ranges) - _RANGES_MAX
        ranges[_RANGES_MAX:] = [f"and {more:,} partitions more"] if more > 0 else []
        return (
            f"{self.record_count - found:,} records appended to {self.topic}, {found:,} found as"
            f" appended before; offsets by partition: {', '.join(ranges) or 'none'}"
        )


def _range(number: int, part: PartitionAppend) -> str:
    if part.base_offset is None:
        return f"{number}: not known"
    return f"{number}: {part.base_offset}-{part.base_offset + part.record_count - 1}"


class _Warned:
    """The topics whose retention a process has warned of."""

    def __init__(self, _: Node) -> None:
        self.topics: set[TopicId] = set()


@dataclass(frozen=True, slots=True, kw_only=True)
class AppendRequest:
    """What a caller asks of an append, as in `Cluster.append`; not checked yet."""

    topic: str
    acks: str | int = "all"
    producer_id: str | None = None
    producer_epoch: int | None = None
    sequence: int | None = None
    transactional_id: str | None = None
    expected_offsets: Mapping[int, int] | None = None
    timeout_ms: int | None = None
    configs: Mapping[str, object] | None = None

    @property
    def has_condition(self) -> bool:
        """Whether what stands in the log decides if it is appended."""
        given = self.sequence, self.transactional_id, self.expected_offsets
        return any(each is not None for each in given)


def append_records(
    node: Node,
    request: AppendRequest,
    stage: Callable[[StageOrder], Sequence[StagedSegment]],
    *,
    has_job: bool = False,
) -> AppendResult:
    """Append what `stage` writes; return where it is. Raises as `append_staged`.

    Its order is planned by what this process has read in the last minute. The metadata is read once
    the files are there, a store's in the meantime, since its answer takes long. Where that changes
    the order, the records are staged again. Where a job of Spark stages them (`has_job`), or what
    stands in the log decides, the metadata is read first.
    """
    metadata = node.metadata
    reads_first = has_job or request.has_condition
    if reads_first or metadata.is_old:
        metadata.catch_up()
    if reads_first:
        plan = plan_append(node, request)
        return append_staged(node, [(plan, stage(plan.order))])[0]
    metadata.check_open()
    try:
        known, plan = metadata.image, plan_append(node, request)
    except KafkaOnSparkError:
        known, plan = metadata.catch_up(), plan_append(node, request)
    while True:
        threads = node.part(AppendThreads) if metadata.is_far else None
        read = metadata.news if plan.acks == "all" else metadata.catch_up
        news = None if threads is None else threads.pool(frozenset()).submit(read)
        if threads is not None:
            _open_leaders(node, known, plan.topic_id)
        rows = stage(plan.order)
        image = read() if news is None else news.result()
        if image is not known:
            known, newest = image, plan_append(node, request)
            if replace(newest.order, now_us=plan.order.now_us) != plan.order:
                plan = newest
                continue
        return append_staged(node, [(plan, rows)], image=image)[0]


def _open_leaders(node: Node, image: MetadataImage, topic_id: TopicId) -> None:
    """Begin to read the leaders' tables that this process does not know, while files are staged: on
    a store that takes longer."""
    topic = image.topics.get(topic_id)  # it may be newer than the image
    partitions = {} if topic is None else topic.partitions
    for number, partition in islice(partitions.items(), OPENED_EARLY_MAX):
        leader = partition.leader
        if leader is not None and partition.is_created(leader):
            address = address_of(image, PartitionKey(topic_id, number), partition, leader)
            node.replicas.open(address).open_early()


def plan_append(node: Node, request: AppendRequest) -> AppendPlan:
    """Return the plan of an append, by what this process knows.

    Raises:
        InvalidConfigError: `configs` has something other than auto.controller=false.
        UnknownTopicOrPartitionError, InvalidRequestError, NotEnoughReplicasError,
        ProducerFencedError: Nothing was written.
    """
    acks = check_acks(request.acks)
    may_decide = leaves_auto_controller(request.configs or {})
    image = node.metadata.image
    topic = image.topic(request.topic)
    producer_id, sequence, epoch = request.producer_id, request.sequence, request.producer_epoch
    if sequence is not None:
        producer_id = producer_of(producer_id, sequence, request.transactional_id)
    has_producer = producer_id is not None
    if has_producer or sequence is not None or epoch is not None:
        check_producer(producer_id, epoch, sequence)
    expected: Mapping[int, int] = {}
    if request.expected_offsets is not None:
        expected = request.expected_offsets
        _check_expected(topic, expected)
    timeout_ms = request.timeout_ms
    if timeout_ms is None:
        timeout_ms = image.settings(topic.topic_id).integer("delivery.timeout.ms")
    check_whole_number(timeout_ms, "timeout_ms")
    order = plan_stage(
        image, topic, acks=acks, has_producer=has_producer, now_ms=node.clock.now_ms()
    )
    producer = writer = None
    if request.transactional_id is not None:
        writer = node.part(ProducerRuns).take_over(request.transactional_id)
    if producer_id is not None and sequence is not None:
        begins = NextAppend(producer_id=producer_id, sequence=sequence, producer_epoch=epoch)
        producer = node.part(ProducerRuns).begin(begins)
    plan = AppendPlan(
        topic_id=topic.topic_id,
        topic=topic.name,
        order=order,
        acks=acks,
        producer=producer,
        writer=writer,
        expected_offsets=dict(expected),
        timeout_ms=timeout_ms,
        may_decide=may_decide,
    )
    if producer is None:
        return plan
    targets = order.targets[: _partition_count(node, plan)]
    return replace(plan, order=replace(order, targets=targets))


def plan_topics(
    node: Node,
    image: MetadataImage,
    partition_counts: Mapping[str, int],
    *,
    acks: str,
    producer: ProducerRun | None,
    writer: WriterFence | None,
    expected_offsets: Mapping[str, Mapping[int, int]],
    may_decide: bool = True,
) -> list[AppendPlan]:
    """Return the plans of what was staged on `image`, by topic name and number of partitions.

    0 partitions: nothing was staged for the topic; `expected_offsets` alone names it.
    """
    plans = []
    for name, count in partition_counts.items():
        topic = image.topic(name)
        expected = expected_offsets.get(name, {})
        _check_expected(topic, expected)
        order = plan_stage(
            image,
            topic,
            acks=acks,
            has_producer=producer is not None,
            now_ms=0,
            needs_min_isr=False,  # that is looked at when it is appended
        )
        plan = AppendPlan(
            topic_id=topic.topic_id,
            topic=name,
            order=replace(order, targets=order.targets[:count]),
            acks=acks,
            producer=producer,
            writer=writer,
            expected_offsets=dict(expected),
            timeout_ms=image.settings(topic.topic_id).integer("delivery.timeout.ms"),
            may_decide=may_decide,
        )
        if count and _partition_count(node, plan) != len(plan.order.targets):
            raise split_differently(name)
        plans.append(plan)
    return plans


def _partition_count(node: Node, plan: AppendPlan) -> int:
    """Return into how many partitions a producer's append is split: as many as its first try was,
    or its records would stand twice in a topic that was given partitions since. Without such a try,
    as it is planned.
    """
    topic, run = node.metadata.image.topics.get(plan.topic_id), plan.producer
    count = len(plan.order.targets)
    if topic is None or run is None or not topic.was_resized or (run.is_next and run.is_only):
        return count
    keys = [PartitionKey(topic.topic_id, number) for number in sorted(topic.partitions)]
    has_checked = run.is_next and node.part(EarlierTries).has_checked(plan)
    if not has_checked:
        create_replicas(node, keys)
    reading = AppendRounds(
        node, [], acks="all", timeout_ms=plan.timeout_ms, may_decide=plan.may_decide
    )
    logs = reading.read_leaders(keys, fence=None if has_checked else run)
    found = partition_count_of_first_try([each for each in logs.values() if each is not None], run)
    return min(count, len(keys)) if found is None else found


def append_staged(
    node: Node,
    appends: Appends,
    *,
    reached_elsewhere: frozenset[BrokerId] = frozenset(),
    image: MetadataImage | None = None,
) -> list[AppendResult]:
    """Append what was staged for topics; return what each topic got, in their order. The plans have
    acks, producer and writer in common. Raises as `append_results` and `answer_staged`."""
    batches, notices = answer_staged(
        node, appends, reached_elsewhere=reached_elsewhere, image=image
    )
    topics = {plan.topic_id: plan.topic for plan, _ in appends}
    return append_results(topics, batches, notices, is_waited_for=appends[0][0].acks != "0")


def answer_staged(
    node: Node,
    appends: Appends,
    take: Callable[[PartitionBatch], object] | None = None,
    *,
    reached_elsewhere: frozenset[BrokerId] = frozenset(),
    image: MetadataImage | None = None,
) -> tuple[list[PartitionBatch], dict[TopicId, str]]:
    """Append what was staged for topics; return each partition with its answer or its error,
    and by topic what retention will delete of it. One metadata commit moves high watermarks.

    `take` gets each partition as soon as it has its answer. The plans may be of several appends
    of a producer. `reached_elsewhere`: brokers that tasks on other hosts have written to; they
    count as reached. `image`: the metadata as it was read since files were staged, or meanwhile;
    None: it is read now.

    Raises:
        What refuses all of it before anything is appended: the refusal of a task, for one.
        RootAccessDeniedError: This process may not write to the metadata: nothing is appended.
        ClusterClosedError: Another thread has closed the cluster; the outcome is unknown.
    """
    image = image or node.metadata.catch_up()
    node.metadata.log.check_writable()
    plans = [plan for plan, _ in appends]
    acks, now_ms = plans[0].acks, node.clock.now_ms()
    if acks == "0" and is_unreached([row for _, rows in appends for row in rows]):
        # Append nothing, not even what was staged: a part under the producer's sequence would
        # have another payload than a retry of the whole.
        return [], {}
    batches: list[PartitionBatch] = []
    for plan, rows in appends:
        batches += collect_batches(image, plan, rows, now_ms)
    has_sequence = plans[0].producer is not None
    if has_sequence and not plans[0].is_by_partition:
        stamp_as_one({plan.topic_id: plan.topic for plan in plans}, batches)
    keys = [batch.key for batch in batches]
    began_ms = node.counts.now_ms()
    if lacking := image.lacking_replicas(keys):
        create_replicas(node, lacking)
    rounds = AppendRounds(
        node,
        batches,
        acks=acks,
        timeout_ms=min(plan.timeout_ms for plan in plans),
        may_decide=plans[0].may_decide,
        reached_elsewhere=reached_elsewhere,
        take=take,
    )
    other_ends = {
        PartitionKey(plan.topic_id, number): Offset(offset)
        for plan in plans
        for number, offset in plan.expected_offsets.items()
    }
    for key in keys:
        other_ends.pop(key, None)
    earlier_tries = node.part(EarlierTries) if has_sequence else None
    may_have = earlier_tries.partitions(node.metadata.image, plans) if earlier_tries else []
    try:
        last_sequence = rounds.check(other_ends, may_have)
        batches = rounds.run()
    except ClusterClosedError as error:
        raise ClusterClosedError(
            "the cluster was closed by this process in the middle of an append, which may be"
            " committed: open it again with Cluster.open"
            + ("; a retry with the same sequence is safe" if has_sequence else "")
        ) from error
    if earlier_tries:
        earlier_tries.note_checked(plans, last_sequence)
    _count(node, batches, began_ms)
    node.maintain(replica for batch in batches for replica in batch.replicas)
    return batches, _retention_notices(node, image, batches)


def _count(node: Node, batches: Sequence[PartitionBatch], began_ms: float) -> None:
    counts, topics = node.counts, node.metadata.image.topics
    counts.add(REQUEST_MS, counts.now_ms() - began_ms, request=PRODUCE)
    for batch in batches:
        topic = topics.get(batch.key.topic_id)
        name = "" if topic is None else topic.name
        # 0 of an append that stands, so that the first failure is a rise
        counts.add(FAILED_APPENDS, int(batch.error is not None), topic=name)
        if batch.error is None and not batch.is_duplicate:
            counts.add(BYTES_IN, batch.size_bytes, topic=name)


def _retention_notices(
    node: Node, image: MetadataImage, batches: Iterable[PartitionBatch]
) -> dict[TopicId, str]:
    """Return by topic what retention will delete at once, by age, of what was appended; warn once
    a topic. Retention takes whole batches, by the newest record in each."""
    counts: Counter[TopicId] = Counter()
    now_ms = node.clock.now_ms()
    for batch in batches:
        settings = image.settings(batch.key.topic_id)
        retention_ms = settings.integer("retention.ms")
        is_kept = retention_ms < 0 or "delete" not in settings.policies
        if batch.staged.is_log_append_time or is_kept:
            continue
        newest_us = max(each.timestamp_max_us for each in batch.staged.segments)
        if newest_us < (now_ms - retention_ms) * 1000:
            counts[batch.key.topic_id] += batch.staged.record_count
    notices, warned = {}, node.part(_Warned).topics
    for topic_id, count in counts.items():
        retention_ms = image.settings(topic_id).integer("retention.ms")
        notices[topic_id] = (
            f"{count} of the records of an append to {image.topics[topic_id].name} are older than"
            f" retention.ms ({retention_ms} ms), and retention deletes them with its next pass: to"
            " keep them, set the topic's retention.ms to -1"
        )
        if topic_id not in warned:
            warned.add(topic_id)
            log.warning(notices[topic_id])
    return notices


def collect_batches(
    image: MetadataImage, plan: AppendPlan, rows: Iterable[StagedSegment], now_ms: int
) -> list[PartitionBatch]:
    """Return the batches that `rows`, in task order, make.

    Limits of one record were checked in the tasks, which know only their own; what the topic allows
    of all records of a partition is checked here, and what its log allows in the rounds.

    Raises:
        The refusal of a task, or what the topic does not allow: one of those by which a producer
            knows that nothing was appended (`_BEFORE_COMMITS` of `produce/sender.py`).
        ProducerFencedError: A newer run of the producer, or a newer writer, has begun.
    """
    topic = image.topics.get(plan.topic_id)
    if topic is None:
        raise UnknownTopicOrPartitionError("the topic was deleted during the append")
    by_partition: dict[int, list[StagedSegment]] = {}
    for row in rows:
        if row.refusal is not None:
            raise row.refusal
        by_partition.setdefault(row.partition, []).append(row)
    if plan.writer is not None:
        check_writer_not_fenced(image.producers, plan.writer)
    if plan.producer is not None:
        check_not_fenced(image.producers, plan.producer.producer_id, plan.producer.producer_epoch)
    limits = topic_limits(image, topic)
    batches = []
    for number, of_partition in sorted(by_partition.items()):
        batches.append(_batch(plan, number, of_partition, limits, now_ms))
    return batches


def _batch(
    plan: AppendPlan,
    number: int,
    rows: Sequence[StagedSegment],
    limits: TopicLimits,
    now_ms: int,
) -> PartitionBatch:
    if len(rows) > SEGMENTS_A_BATCH_MAX:
        raise MessageTooLargeError(
            f"an append of {len(rows)} segments to partition {number} of topic {plan.topic!r} is"
            f" more than one commit can name, which is {SEGMENTS_A_BATCH_MAX}: append the records"
            " in several parts or, since each task makes a segment at least, by fewer tasks"
        )
    target, expected = plan.order.targets[number], plan.expected_offsets.get(number)
    holders = set(rows[0].holders).intersection(*(row.holders for row in rows[1:]))
    segments = tuple(row.segment for row in rows if row.segment is not None)
    for segment in segments:
        for timestamp_us in (segment.timestamp_max_us, segment.timestamp_min_us):
            if (refusal := limits.time_refusal(timestamp_us, now_ms)) is not None:
                raise refusal
    return PartitionBatch(
        key=PartitionKey(plan.topic_id, number),
        staged=StagedBatch(
            segments=segments,
            partition_count=len(plan.order.targets),
            producer=None if plan.producer is None else _stamp(plan.producer, rows),
            writer=plan.writer,
            is_log_append_time=limits.before_max_ms is None,
            has_keyless=any(row.has_keyless for row in rows),
        ),
        holders=tuple(
            each for each in (*target.replicas, *target.others) if each.broker_id in holders
        ),
        expected_offset=None if expected is None else Offset(expected),
    )


def _stamp(producer: ProducerRun, rows: Iterable[StagedSegment]) -> ProducerStamp:
    digest = (sum(row.payload_digest for row in rows) + 2**63) % 2**64 - 2**63
    return ProducerStamp(
        producer_id=producer.producer_id,
        producer_epoch=producer.producer_epoch,
        sequence=producer.sequence,
        payload_digest=digest,
    )


def stamp_as_one(names: Mapping[TopicId, str], batches: Sequence[PartitionBatch]) -> None:
    """Give each of an append's batches the digest of the whole append in its header.

    So one partition alone tells a retry from another append with the same number. By the topics'
    `names`: one of them may have been created anew between two tries.
    """
    found = sorted(
        (names[batch.key.topic_id], batch.key.partition, batch.staged.producer.payload_digest)
        for batch in batches
        if batch.staged.producer is not None
    )
    text = json.dumps(found, separators=(",", ":"))
    whole = int.from_bytes(blake2b(text.encode("ascii"), digest_size=8).digest(), signed=True)
    for batch in batches:
        if batch.staged.producer is not None:
            producer = replace(batch.staged.producer, payload_digest=whole)
            batch.staged = replace(batch.staged, producer=producer)


def _check_expected(topic: TopicImage, expected: Mapping[int, int]) -> None:
    check_mapping(expected, "expected_offsets", "partitions and offsets")
    for number, offset in expected.items():
        check_whole_number(number, "a partition of expected_offsets")
        check_whole_number(offset, f"the expected offset of partition {number}")
    unknown = sorted(set(expected) - topic.partitions.keys())
    if unknown:
        raise InvalidRecordError(
            f"expected_offsets names partition {unknown[0]}, but topic {topic.name!r} has"
            f" partitions 0 to {len(topic.partitions) - 1}"
        )


def append_results(
    topics: Mapping[TopicId, str],
    batches: Sequence[PartitionBatch],
    notices: Mapping[TopicId, str],
    *,
    is_waited_for: bool,
) -> list[AppendResult]:
    """Return the results of an append to `topics`, in their order; or raise the first partition's
    error, whose context lists failed and acknowledged partitions. With acks=0 (`is_waited_for`
    false) nothing is raised."""
    answers: defaultdict[TopicId, dict[int, PartitionAppend]] = defaultdict(dict)
    for each in batches:
        if each.error is not None and is_waited_for:
            raise _with_partitions(each.error, topics, batches)
        answers[each.key.topic_id][each.key.partition] = PartitionAppend(
            base_offset=each.base_offset,
            record_count=each.staged.record_count if each.error is None else 0,
            is_duplicate=each.is_duplicate and each.error is None,
        )
    return [
        AppendResult(topic=name, partitions=answers[topic_id], notice=notices.get(topic_id))
        for topic_id, name in topics.items()
    ]


def _with_partitions(
    error: KafkaOnSparkError, topics: Mapping[TopicId, str], batches: Sequence[PartitionBatch]
) -> KafkaOnSparkError:
    """Return `error` with the partitions that failed, their errors, and those acknowledged."""

    def label(each: PartitionBatch) -> int | str:
        number = each.key.partition
        return number if len(topics) == 1 else f"{topics[each.key.topic_id]}-{number}"

    failed = {label(each): each.error for each in batches if each.error is not None}
    context = {
        **error.context,
        "topic": ",".join(topics.values()),
        "failed": list(failed),
        "acknowledged": [label(each) for each in batches if each.error is None],
    }
    if len({type(each) for each in failed.values()}) > 1:
        context["errors"] = {each: type(why).__name__ for each, why in failed.items()}
    return type(error)(error.message, **context)


def append_when_in_sync(
    append: Callable[[], T], catch_up: Callable[[], object], clock: Clock, *, timeout_ms: int
) -> T:
    """Return what `append` returns; call it again while too few replicas are in sync, for
    `timeout_ms` at most. `catch_up` is called before each further try.

    For a stream's batches: nobody is there to append again, and under its number a batch stands
    once, however many tries it takes. What was staged stays good.

    Raises: as both. In the end it is the first refusal, or the last one after a write: what
    may stand is never called not written.
    """
    deadline_ms = clock.monotonic_ms() + timeout_ms
    pauses = pauses_ms(IN_SYNC_PAUSE_MS_MIN, IN_SYNC_PAUSE_MS_MAX)
    failure: KafkaOnSparkError | None = None
    while True:
        pause_ms = next(pauses)
        try:
            return append()
        except (NotEnoughReplicasError, NotEnoughReplicasAfterAppendError) as error:
            if failure is None:
                log.warning("waits for replicas in sync (%d ms at most): %s", timeout_ms, error)
            if failure is None or isinstance(error, NotEnoughReplicasAfterAppendError):
                failure = error
            if clock.monotonic_ms() + pause_ms > deadline_ms:
                raise failure from None
        clock.sleep_ms(pause_ms)
        catch_up()
