"""I12: each committed batch, as it was when the high watermark first passed it.

The metadata log says how far a partition was committed; the tables of in-sync replicas say what the
records were. Leader epochs connect both: a high watermark that moved under a leader epoch counted
replicas that were fenced at it, and under one epoch nothing is cut. So what these replicas had at
the end of the epoch includes what was committed.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import groupby

from kafka_on_spark.audit.batches import LoggedBatch
from kafka_on_spark.audit.findings import FindingList
from kafka_on_spark.audit.metadata.partition_timeline import Member, PartitionTimeline, Tenure
from kafka_on_spark.audit.trace import EpochSpan, ReplicaTrace
from kafka_on_spark.ids import BrokerId


@dataclass(frozen=True, slots=True, kw_only=True)
class CommittedBatch:
    """A batch below the high watermark.

    Attributes:
        batch: As it was when it was committed.
        broker_id: The broker whose log has it so.
    """

    batch: LoggedBatch
    broker_id: BrokerId


@dataclass(frozen=True, slots=True, kw_only=True)
class Leadership:
    """All tenures of one leader epoch."""

    tenures: tuple[Tenure, ...]

    @property
    def leader_epoch(self) -> int:
        """Its leader epoch."""
        return self.tenures[0].leader_epoch

    @property
    def leader(self) -> Member | None:
        """The leader and its replica's uuid, or None."""
        return self.tenures[0].leader

    @property
    def high_watermark_before(self) -> int:
        """High watermark when it began."""
        return self.tenures[0].high_watermark_before

    @property
    def last_advanced(self) -> Tenure | None:
        """Its last tenure in which the high watermark moved."""
        return next((each for each in reversed(self.tenures) if each.is_advanced), None)


def leaderships(timeline: PartitionTimeline) -> list[Leadership]:
    """Return a partition's leaderships, oldest first."""
    groups = groupby(timeline.tenures, lambda tenure: tenure.leader_epoch)
    return [Leadership(tenures=tuple(group)) for _, group in groups]


def in_sync_span(
    traces: Sequence[ReplicaTrace], leadership: Leadership
) -> tuple[ReplicaTrace, EpochSpan] | None:
    """Return a replica that was counted when `leadership` last moved the high watermark, and its
    versions under it; None if no such replica is left.

    Replicas with the chain digest that was registered then come first, and of those the leader's.
    """
    tenure = leadership.last_advanced
    if tenure is None:
        return None
    found = []
    for trace in traces:
        member = (trace.broker_id, trace.replica_uuid)
        span = trace.span_of(leadership.leader_epoch)
        if member in tenure.isr and span is not None and span.end_offset >= tenure.high_watermark:
            has_chain = _has_chain(trace, span, tenure)
            found.append((not has_chain, member != tenure.leader, trace, span))
    if not found:
        return None
    *_, trace, span = min(found, key=lambda each: (each[0], each[1], each[2].broker_id))
    return trace, span


def _has_chain(trace: ReplicaTrace, span: EpochSpan, tenure: Tenure) -> bool:
    """Return whether a replica's chain computes and had the registered digest at `tenure`'s high
    watermark. A batch that retention has removed since counts as the same."""
    digests = {
        batch.chain_digest
        for batch in trace.batches_in(span)
        if batch.end_offset == tenure.high_watermark
    }
    return trace.is_chained and digests <= {tenure.high_watermark_chain}


def committed_batches(
    timeline: PartitionTimeline, traces: Sequence[ReplicaTrace], findings: FindingList
) -> dict[int, CommittedBatch]:
    """Return the committed batches by base offset, and find those that changed afterwards (I12).

    A batch above the high watermark that an unclean election has set is committed no more.
    """
    committed: dict[int, CommittedBatch] = {}
    for leadership in leaderships(timeline):
        for base in [
            base
            for base, each in committed.items()
            if each.batch.end_offset > leadership.high_watermark_before
        ]:
            del committed[base]
        tenure = leadership.last_advanced
        found = in_sync_span(traces, leadership)
        if tenure is None or found is None:
            continue
        trace, span = found
        batches = {
            batch.base_offset: batch
            for batch in trace.batches_in(span)
            if batch.end_offset <= tenure.high_watermark
        }
        _check_unchanged(committed, batches, trace, span, findings)
        for base, batch in batches.items():
            committed.setdefault(base, CommittedBatch(batch=batch, broker_id=trace.broker_id))
    return committed


def _check_unchanged(
    committed: dict[int, CommittedBatch],
    batches: dict[int, LoggedBatch],
    trace: ReplicaTrace,
    span: EpochSpan,
    findings: FindingList,
) -> None:
    for base, known in committed.items():
        found = batches.get(base)
        if known.batch.end_offset <= span.start_offset or trace.is_merged_over(known.batch):
            continue
        if found is None or found.fingerprint != known.batch.fingerprint:
            findings.add(
                "I12",
                f"the records [{base}, {known.batch.end_offset}) were committed as broker"
                f" {known.broker_id} has them, and are others under leadership"
                f" {span.leader_epoch}",
                broker_id=trace.broker_id,
                version=span.last_version,
                offset=base,
            )
