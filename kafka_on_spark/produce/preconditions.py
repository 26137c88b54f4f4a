"""Refuses an append before its first commit, so that nothing is half done."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from kafka_on_spark.base.errors import (
    DuplicateSequenceError,
    InvalidRecordError,
    NotEnoughReplicasAfterAppendError,
    NotEnoughReplicasError,
    OutOfOrderSequenceError,
    UnexpectedOffsetError,
)
from kafka_on_spark.base.ids import Offset, PartitionKey, TopicId
from kafka_on_spark.controller.compaction import is_compacted
from kafka_on_spark.log.batch import ProducerStamp, StagedBatch
from kafka_on_spark.log.operations import check_end
from kafka_on_spark.log.producer_state import (
    find_append,
    find_sequence,
    known_producer,
    split_of,
)
from kafka_on_spark.log.state import ReplicaState
from kafka_on_spark.metadata.high_watermark import is_under_min_isr, too_few_in_sync
from kafka_on_spark.metadata.image import MetadataImage
from kafka_on_spark.metadata.partition import PartitionRegistration
from kafka_on_spark.produce.stage_plan import AppendPlan, ProducerRun
from kafka_on_spark.produce.stages import StagedPart

LOOKED_AT_MAX: Final = 10_000
"""Topics by run that a process remembers to have looked at: it may live for months."""

Logs = Mapping[PartitionKey, ReplicaState | None]
"""The logs of leaders, as they were read; None: nothing was ever appended to the partition."""


def check_replicas(image: MetadataImage, parts: Sequence[StagedPart]) -> None:
    """Check that acks=all can be kept for every partition of an append.

    Raises:
        NotEnoughReplicasError: One is under its minimum.
    """
    for part in parts:
        partition = image.partition(part.key)
        if partition is not None:
            check_min_isr(image, part.key, partition, is_appended=False)


def check_min_isr(
    image: MetadataImage,
    key: PartitionKey,
    partition: PartitionRegistration,
    *,
    is_appended: bool,
) -> None:
    """Check that acks=all can be kept for a partition now, before or after its write.

    Raises:
        NotEnoughReplicasError: It can't, and nothing was written.
        NotEnoughReplicasAfterAppendError: It can't, and the write may be committed later.
    """
    if not is_under_min_isr(image, key.topic_id, partition):
        return
    kind = NotEnoughReplicasAfterAppendError if is_appended else NotEnoughReplicasError
    raise kind(too_few_in_sync(image, key, partition))


def check_keys(image: MetadataImage, parts: Sequence[StagedPart]) -> None:
    """Check that a compacted topic gets records with keys only (KIP-135).

    Raises:
        InvalidRecordError: A record has none, and nothing was written.
    """
    for part in parts:
        if not part.batch.has_keyless or part.key.topic_id not in image.topics:
            continue
        settings = image.settings(part.key.topic_id)
        if is_compacted(settings):
            raise InvalidRecordError(
                f"a record for {image.name_of(part.key)} has no key, and its topic is compacted"
                f" (cleanup.policy={settings.text('cleanup.policy')}): give each record a key, or"
                " alter the setting"
            )


def has_unknown_end(partition: PartitionRegistration) -> bool:
    """Return whether nobody can say now where a partition's log ends: it has no leader, and may
    have records."""
    is_unmade = partition.known_log_end == 0 and not any(partition.directories)
    is_led = partition.leader is not None and partition.is_created(partition.leader)
    return not (is_led or is_unmade)


def keys_of_ends(
    parts: Sequence[StagedPart], others: Mapping[PartitionKey, Offset]
) -> list[PartitionKey]:
    """Return the partitions whose logs `check_ends` looks at: for where they end, or for an earlier
    try of the append."""
    asked = [part.key for part in parts if part.expected_offset is not None or others]
    return [*asked, *others]


def check_ends(
    logs: Logs, parts: Sequence[StagedPart], others: Mapping[PartitionKey, Offset]
) -> None:
    """Check that logs end where a conditional append expects: of its parts, and of `others`.

    What an earlier try has appended already is no reason to refuse its retry.

    Raises:
        UnexpectedOffsetError: One ends elsewhere.
    """
    is_retry = False
    for part in parts:
        if part.expected_offset is None and not others:
            continue
        state = logs[part.key]
        if state is not None and find_append(state, part.batch) is not None:
            is_retry = True
        elif part.expected_offset is not None:
            _check_end(state, part.expected_offset)
    for key, expected in () if is_retry else others.items():
        _check_end(logs[key], expected)


def _check_end(state: ReplicaState | None, expected: Offset) -> None:
    if state is not None:
        check_end(state, expected)
    elif expected != 0:
        raise UnexpectedOffsetError(
            f"the log ends at 0, not at the expected {expected}: nothing was appended to it yet"
        )


class EarlierTries:
    """Tells where earlier tries of appends may stand. One a process; threads may share it.

    A run that this process has begun fences those before it. So once it has looked at a topic, only
    the appends that stood there then, and those that it has begun itself, can be tried again.
    """

    def __init__(self) -> None:
        self._looked_at: dict[tuple[TopicId, str, int, int], int] = {}  # above which none stood

    def partitions(
        self, image: MetadataImage, plans: Iterable[AppendPlan]
    ) -> dict[PartitionKey, int]:
        """Return the partitions to look at before the first commit of an append: all of its topics,
        also those that get no record; none, if no earlier try can stand there. `check_tries` notes
        which number stands last in each, and `looked_at` is told."""
        return {
            PartitionKey(plan.topic_id, number): -1
            for plan in plans
            if plan.topic_id in image.topics and self._may_stand(plan)
            for number in sorted(image.topics[plan.topic_id].partitions)
        }

    def looked_at(self, plans: Iterable[AppendPlan], tried: Mapping[PartitionKey, int]) -> None:
        """Remember that the topics of an append were looked at."""
        if len(self._looked_at) >= LOOKED_AT_MAX:
            self._looked_at.clear()  # each run that goes on looks once more
        last = max(tried.values(), default=-1)
        for key in filter(None, map(_run_at, plans)):
            self._looked_at[key] = max(last, self._looked_at.get(key, -1))

    def has_looked_at(self, plan: AppendPlan) -> bool:
        """Return whether an append of the run was looked for that is split as the plan is."""
        return _run_at(plan) in self._looked_at

    def _may_stand(self, plan: AppendPlan) -> bool:
        run, key = plan.producer, _run_at(plan)
        if run is None or key is None:
            return False
        is_above = key in self._looked_at and run.sequence > self._looked_at[key]
        return not (run.is_next and (run.is_only or is_above))


def _run_at(plan: AppendPlan) -> tuple[TopicId, str, int, int] | None:
    run = plan.producer
    if run is None or plan.is_by_partition:
        return None
    return plan.topic_id, run.producer_id, int(run.producer_epoch), len(plan.order.targets)


def split_before(logs: Sequence[ReplicaState], run: ProducerRun) -> int | None:
    """Return into how many partitions an append was split that stands in one of the logs of its
    topic; None: it is new.

    Raises:
        OutOfOrderSequenceError: It stands nowhere, and a later one does.
    """
    for log in logs:
        count = split_of(log, run.producer_id, run.sequence)
        if count is not None:
            return count
    last = max((known_producer(log, run.producer_id).sequence for log in logs), default=-1)
    if run.sequence <= last:
        raise OutOfOrderSequenceError(
            f"producer {run.producer_id!r} sent sequence {run.sequence} after {last}: it stands"
            " nowhere, or retention has taken it, and the topic has more partitions since; give"
            " each append the next number"
        )
    return None


def check_tries(
    image: MetadataImage, logs: Logs, parts: Sequence[StagedPart], tried: dict[PartitionKey, int]
) -> None:
    """Check that what stands of an earlier try, in any partition, is of the same append: of a retry
    with other records nothing is appended. Set for each partition which number stands last in it.

    It is no fence: of two tries at once, each may look before the other commits.

    Raises:
        DuplicateSequenceError: Other records stand under the number.
        ProducerFencedError, OutOfOrderSequenceError, UnknownProducerIdError: As `find_append`.
    """
    by_key = {part.key: part.batch for part in parts}
    stamp = next((each.producer for each in by_key.values() if each.producer is not None), None)
    if stamp is None:
        return
    others = []
    for key in tried:
        if (state := logs[key]) is None:
            continue
        tried[key] = known_producer(state, stamp.producer_id).sequence
        if (text := _other_records(state, stamp, by_key.get(key))) is not None:
            others.append(f"{image.name_of(key)} {text}")
    if others:
        raise DuplicateSequenceError(
            f"producer {stamp.producer_id!r} appended sequence {stamp.sequence} before, with other"
            f" records, which stand in {', '.join(others)}: nothing was appended now; append the"
            " records of that try again to finish it, or these under a later sequence"
        )


def _other_records(
    state: ReplicaState, stamp: ProducerStamp, batch: StagedBatch | None
) -> str | None:
    """Return which other records stand in a log under an append's number, or None. `batch`: what
    the append brings to the log's partition, if anything."""
    try:
        if batch is None:
            find_sequence(state, stamp)
        else:
            find_append(state, batch)
    except DuplicateSequenceError as error:
        return "({record_count} from offset {base_offset})".format(**error.context)
    except OutOfOrderSequenceError:
        if batch is not None:
            raise
        # of a partition that gets no record, it says that nothing stands there
    return None
