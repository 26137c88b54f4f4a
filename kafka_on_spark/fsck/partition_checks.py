"""I1, I2, I3, I4, I5, I6, I9, I12, I14, I16, I23, I27: a partition's replicas, held against each
other.

I1: in-sync replicas have all that is committed, now and at the end of each leader epoch. I2: the
leader has all of it. I3: some replica has each committed record. I4: the same epoch at the same
offset is the same batch, in every version of every replica. I5: fences are at most the registered
leader epoch. I6: the records of a leader epoch come from its leader. I9: the high watermark is
within the leader's log. I12: each committed batch is as it was when the high watermark first passed
it. I14: adopting a leadership cuts no committed record. I16: log starts. I23: in-sync replicas have
the registered chain digest, which decides below the high watermark, even where headers and digests
of one replica were all forged to fit, and even against a majority; above it only the tables can
decide.

Headers and the chain say that of batches. Of a merged segment they say what it was made of, and of
a compacted one not even that: so what is in the files is added up, and the sums are compared, as
far as the replicas must hold the same: below the high watermark all that is not compacted (I1), and
what is compacted if they have finished the same decision (I27).

Tables do not say which appends were acknowledged, nor when. The audit takes all records below the
high watermark for acknowledged, which is more. Only the histories of clients show an append that
was answered "ok" and was never committed.

The metadata log says how far a partition was committed; the tables of in-sync replicas say what the
records were. Leader epochs connect both: a high watermark that moved under a leader epoch counted
replicas that were fenced at it, and under one epoch nothing is cut. So what these replicas had at
the end of the epoch includes what was committed.
"""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass
from itertools import groupby
from typing import NamedTuple

from kafka_on_spark.base.ids import BrokerId
from kafka_on_spark.fsck.findings import Finding, FindingList, Place
from kafka_on_spark.fsck.partition_timeline import Member, PartitionTimeline, Register, Tenure
from kafka_on_spark.fsck.trace import (
    BatchLifetime,
    ContentSum,
    EpochSpan,
    LoggedBatch,
    ReplicaTrace,
)
from kafka_on_spark.log.compaction import COUNTERS


def has_chain(trace: ReplicaTrace, register: Register) -> bool:
    return trace.has_chain(register.high_watermark, register.high_watermark_chain)


def chain_flaws(
    traces: Sequence[ReplicaTrace], register: Register, after: Register
) -> Iterable[tuple[ReplicaTrace, str]]:
    """Yield the replicas that must be complete and have another chain digest (I23), with why.

    The tables were read after `register` and before `after`.
    """
    complete, mark = register.members(register.isr | register.elr), register.high_watermark
    has_risen = after.high_watermark > mark
    for trace in traces:
        is_there = trace.log_start_offset <= mark <= trace.log_end_offset
        is_asked = is_there and (trace.broker_id, trace.replica_uuid) in complete
        if has_risen and _is_merged_across(trace, mark):
            continue
        if is_asked and not has_chain(trace, register):
            yield (
                trace,
                f"the log's chain digest at the high watermark {mark} is"
                f" {trace.borders.get(mark) or 'none'} and the registered one is"
                f" {register.high_watermark_chain}: it has other records than were committed",
            )


def _is_merged_across(trace: ReplicaTrace, mark: int) -> bool:
    """Return whether a merged segment that does not tell where its batches ended lies across a high
    watermark that was: nothing is merged or compacted across the one that is."""
    is_across = any(each.base_offset < mark < each.end_offset for each in trace.merged)
    return is_across and trace.borders.get(mark) is None


def right_copy(
    groups: Mapping[str, Set[Member]], *, leader: Member | None, proven: Set[Member]
) -> tuple[str | None, str]:
    """Return which of different copies of a batch is right, if that is known, and why.

    `groups`: the replicas that have each copy. `leader`: of the batch's leader epoch. `proven`: the
    replicas with the registered chain digest above the batch.
    """
    right = [copy for copy, members in groups.items() if members & proven]
    if len(right) == 1:
        who = brokers_of(groups[right[0]] & proven)
        return right[0], f"{who} has what was committed, by the registered chain digest"
    sizes = sorted((len(members) for members in groups.values()), reverse=True)
    largest = max(groups, key=lambda each: len(groups[each]))
    if len(sizes) == 1 or sizes[0] > sizes[1]:
        return largest, f"most replicas have it as {brokers_of(groups[largest])}"
    for copy, members in groups.items():
        if leader is not None and leader in members:
            return copy, f"broker {leader[0]}, which led then, has the right one"
    return None, "which one is right can't be told from the tables"


def brokers_of(members: Iterable[Member]) -> str:
    numbers = sorted({broker_id for broker_id, _ in members})
    return f"broker{'s' if len(numbers) > 1 else ''} {', '.join(map(str, numbers))}"


def register_flaws(
    trace: ReplicaTrace, before: Register, after: Register, *, had_unclean_election: bool
) -> Iterable[tuple[str, int]]:
    """Yield what is wrong with a replica's compaction by the register, and an offset.

    The table was read after `before` and before `after`; `had_unclean_election`: as its timeline
    says at `after`.
    """
    progress = trace.compaction
    # A log that comes back by an unclean election may be compacted as was decided before it.
    if trace.fence == after.leader_epoch and not had_unclean_election:
        for field in ("compacted_below", "tombstones_below"):
            own, decided = getattr(progress, field), getattr(after, field)
            if own > decided:
                yield f"{COUNTERS[field]} is {own}, above what is decided, {decided}", decided
    is_same_log = before.unclean_generation == after.unclean_generation
    member = (trace.broker_id, trace.replica_uuid)
    # A leader that was elected because it has all records finishes the decision afterwards.
    is_asked = trace.broker_id != before.leader and member in before.members(before.isr)
    if is_same_log and is_asked and progress.finished_below < before.cleaned_below:
        yield (
            f"the replica is in sync and has finished compaction below {progress.finished_below},"
            f" not below {before.cleaned_below} as each that is read must have",
            progress.finished_below,
        )


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
        return self.tenures[0].leader_epoch

    @property
    def leader(self) -> Member | None:
        return self.tenures[0].leader

    @property
    def high_watermark_before(self) -> int:
        return self.tenures[0].high_watermark_before

    @property
    def last_advanced(self) -> Tenure | None:
        return next((each for each in reversed(self.tenures) if each.is_advanced), None)


def leaderships(timeline: PartitionTimeline) -> list[Leadership]:
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


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionHistory:
    """Everything that was read of one partition.

    Tables were read after `before` and before `after`: `before` says what a table must have, and
    `after` what it may have. So the audit can check a cluster that others write to.

    Attributes:
        before: Its timeline in the metadata log before its tables were read.
        after: The same after its tables were read.
        traces: Its assigned replicas' histories that could be read to the end.
        is_whole: All assigned replicas that were created are among them.
    """

    before: PartitionTimeline
    after: PartitionTimeline
    traces: Sequence[ReplicaTrace]
    is_whole: bool


def audit_partition(history: PartitionHistory) -> tuple[Finding, ...]:
    return _PartitionAudit(history).run()


def _member(trace: ReplicaTrace) -> Member:
    return (trace.broker_id, trace.replica_uuid)


def _epoch_below(batches: Iterable[LoggedBatch], offset: int) -> int | None:
    """Return the leadership of the record below `offset`, or None if it is not there."""
    for batch in batches:
        if batch.base_offset < offset <= batch.end_offset:
            return batch.leader_epoch
    return None


def _copy(batch: LoggedBatch) -> str:
    """Return what is equal for a batch and all that is before it: copies of one log."""
    return f"{batch.fingerprint} {batch.chain_digest}"


class _PartitionAudit:
    """The checks of one partition, and what they find."""

    def __init__(self, history: PartitionHistory) -> None:
        self._history = history
        self._traces = history.traces
        self._findings = FindingList(Place(partition=history.after.name))
        self._leaderships = leaderships(history.after)
        self._committed = committed_batches(history.after, history.traces, self._findings)
        self._high_watermark = 0  # and the replicas with the registered chain digest there
        self._proven: frozenset[Member] = frozenset()

    def run(self) -> tuple[Finding, ...]:
        before, after = self._history.before.register, self._history.after.register
        assert before is not None
        assert after is not None
        self._high_watermark = before.high_watermark
        self._proven = frozenset(_member(t) for t in self._traces if has_chain(t, before))
        for trace in self._traces:
            self._check_against_register(trace, after)
            self._check_own_batches(trace)
            for span in trace.spans:
                if span.end_before is not None and span.end_adopted < span.end_before:
                    self._check_cut(trace, span)
        self._check_log_matching()
        self._check_advances()
        for trace, sentence in chain_flaws(self._traces, before, after):
            self._add("I23", sentence, trace, offset=before.high_watermark)
        self._check_in_sync(before)
        self._check_leader(before, after)
        self._check_retained(before, after)
        return self._findings.all()

    def _add(
        self,
        invariant: str | None,
        sentence: str,
        trace: ReplicaTrace | None = None,
        *,
        version: int | None = None,
        offset: int | None = None,
    ) -> None:
        if trace is not None and version is None:
            version = trace.last_version
        broker_id = None if trace is None else trace.broker_id
        self._findings.add(invariant, sentence, broker_id=broker_id, version=version, offset=offset)

    def _check_against_register(self, trace: ReplicaTrace, after: Register) -> None:
        if trace.fence is not None and trace.fence > after.leader_epoch:
            self._add(
                "I5",
                f"the table is fenced at {trace.fence}, the metadata log knows leadership"
                f" {after.leader_epoch}: the metadata went back",
                trace,
            )
        if trace.log_start_offset > after.log_start_offset:
            self._add(
                "I16",
                f"the log starts at {trace.log_start_offset}, above the decided log start"
                f" {after.log_start_offset}",
                trace,
            )

    def _check_own_batches(self, trace: ReplicaTrace) -> None:
        leaders = {each.leader_epoch: each.leader for each in self._leaderships}
        for lifetime in trace.lifetimes:
            epoch = lifetime.batch.leader_epoch
            if not lifetime.is_own or epoch not in leaders or leaders[epoch] == _member(trace):
                continue
            leader = leaders[epoch]
            who = "nobody" if leader is None else f"broker {leader[0]}"
            self._add(
                "I6",
                f"records of leadership {epoch} were appended here, and {who} led it",
                trace,
                version=lifetime.added_version,
                offset=lifetime.batch.base_offset,
            )

    def _check_cut(self, trace: ReplicaTrace, span: EpochSpan) -> None:
        found = [each for each in self._leaderships if each.leader_epoch == span.leader_epoch]
        if not found:
            return
        leadership = found[0]
        # The fetch was planned in one of these tenures; no table says in which.
        floor = min(
            tenure.high_watermark_before if _member(trace) in tenure.complete else 0
            for tenure in leadership.tenures
        )
        if span.end_adopted < floor:
            self._add(
                "I14",
                f"adopting leadership {span.leader_epoch} cut the log from {span.end_before} to"
                f" {span.end_adopted}, below the high watermark {floor}",
                trace,
                version=span.first_version,
                offset=span.end_adopted,
            )
        mark = leadership.high_watermark_before
        for lifetime in trace.lifetimes:
            known = self._committed.get(lifetime.batch.base_offset)
            is_cut = lifetime.removed_version == span.first_version and known is not None
            if (
                not is_cut
                or lifetime.batch.end_offset > mark
                or not self._is_same(known, lifetime.batch)
            ):
                continue
            self._add(
                "I14",
                f"adopting leadership {span.leader_epoch} cut a committed batch: the high"
                f" watermark was {mark}",
                trace,
                version=span.first_version,
                offset=lifetime.batch.base_offset,
            )

    def _is_same(self, known: CommittedBatch | None, batch: LoggedBatch | None) -> bool:
        return (
            known is not None and batch is not None and known.batch.fingerprint == batch.fingerprint
        )

    def _check_log_matching(self) -> None:
        seen: dict[tuple[int, int], list[tuple[ReplicaTrace, BatchLifetime]]] = defaultdict(list)
        for trace in self._traces:
            for lifetime in trace.lifetimes:
                seen[lifetime.batch.leader_epoch, lifetime.batch.base_offset].append(
                    (trace, lifetime)
                )
        for (epoch, base), copies in seen.items():
            self._check_alike(epoch, base, copies)

    def _check_alike(
        self, epoch: int, base: int, copies: Sequence[tuple[ReplicaTrace, BatchLifetime]]
    ) -> None:
        holders: dict[str, set[Member]] = defaultdict(set)
        for trace, lifetime in copies:
            holders[_copy(lifetime.batch)].add(_member(trace))
        if len(holders) == 1:
            return
        leader = next((e.leader for e in self._leaderships if e.leader_epoch == epoch), None)
        right, why = right_copy(
            holders,
            leader=leader,
            proven=self._proven if base < self._high_watermark else frozenset(),
        )
        for trace, lifetime in copies:
            if _copy(lifetime.batch) == right:
                continue
            self._add(
                "I4",
                f"the batch of leadership {epoch} at {base} is not everywhere the same: {why}",
                trace,
                version=lifetime.added_version,
                offset=base,
            )

    def _check_advances(self) -> None:
        """Check each move of the high watermark against the replicas that were counted for it; of
        one that was after the tables were read they say nothing."""
        for leadership in leaderships(self._history.before):
            for trace in self._traces:
                tenures = [
                    tenure
                    for tenure in leadership.tenures
                    if tenure.is_advanced and _member(trace) in tenure.isr
                ]
                if tenures:
                    # The high watermark rises: the last move asks for most.
                    self._check_counted(trace, leadership.leader_epoch, tenures[-1].high_watermark)
            tenure, found = leadership.last_advanced, in_sync_span(self._traces, leadership)
            if tenure is None or found is None:
                continue
            trace, span = found
            epoch = _epoch_below(trace.batches_in(span), tenure.high_watermark)
            if epoch is not None and epoch != tenure.high_watermark_epoch:
                self._add(
                    "I9",
                    f"the record below the high watermark {tenure.high_watermark} was said to be"
                    f" of leadership {tenure.high_watermark_epoch}; it is of {epoch}",
                    trace,
                    version=span.last_version,
                    offset=tenure.high_watermark,
                )

    def _check_counted(self, trace: ReplicaTrace, leader_epoch: int, mark: int) -> None:
        span = trace.span_of(leader_epoch)
        is_cleaned = trace.first_version > 0 and bool(trace.spans)
        if span is None and is_cleaned and trace.spans[0].leader_epoch > leader_epoch:
            return  # its history no longer has the versions of that epoch
        if span is not None and span.end_offset >= mark:
            return
        ended = "never adopted it" if span is None else f"ended at {span.end_offset} under it"
        sentence = (
            f"the high watermark moved to {mark} under leadership {leader_epoch} with this replica"
            f" in sync, which {ended}"
        )
        version = trace.last_version if span is None else span.last_version
        self._add("I1", sentence, trace, version=version, offset=mark)
        if any(
            each.leader_epoch == leader_epoch and each.leader == _member(trace)
            for each in self._leaderships
        ):
            self._add("I9", sentence, trace, version=version, offset=mark)

    def _check_in_sync(self, register: Register) -> None:
        """Check that every in-sync replica goes as far as is committed (I1). That it holds the same
        up to there, its chain digest says (I23)."""
        members = register.members(register.isr)
        in_sync = [trace for trace in self._traces if _member(trace) in members]
        mark = register.high_watermark
        for trace in in_sync:
            if trace.log_end_offset < mark:
                self._add(
                    "I1",
                    f"the replica is in sync and ends at {trace.log_end_offset}, below the high"
                    f" watermark {mark}",
                    trace,
                    offset=trace.log_end_offset,
                )

    def _check_leader(self, before: Register, after: Register) -> None:
        """Check that the leader has all committed records that are still kept (I2, I9)."""
        member = (before.leader, before.uuid_of(before.leader))
        found = [trace for trace in self._traces if _member(trace) == member]
        if not found or found[0].fence != before.leader_epoch:
            return  # it has not begun to lead, and proves itself when it does
        leader, mark = found[0], before.high_watermark
        if leader.log_end_offset < mark:
            sentence = (
                f"the leader ends at {leader.log_end_offset}, below the high watermark {mark}"
            )
            self._add("I9", sentence, leader, offset=leader.log_end_offset)
        batches = {batch.base_offset: batch for batch in leader.batches}
        for base, known in self._retained_batches(before, after):
            is_there = leader.is_merged_over(known.batch)
            if not is_there and not self._is_same(known, batches.get(base)):
                sentence = (
                    f"the leader lacks the committed records [{base}, {known.batch.end_offset})"
                )
                self._add("I2", sentence, leader, offset=base)
        epoch = _epoch_below(batches.values(), mark)
        if mark > after.log_start_offset and epoch not in (None, before.high_watermark_epoch):
            sentence = (
                f"the record below the high watermark {mark} is of leadership {epoch}, and"
                f" registered as of {before.high_watermark_epoch}"
            )
            self._add("I9", sentence, leader, offset=mark)

    def _retained_batches(
        self, before: Register, after: Register
    ) -> Iterable[tuple[int, CommittedBatch]]:
        """Yield the batches that were committed before the tables were read, and are still kept."""
        for base, known in self._committed.items():
            end = known.batch.end_offset
            if after.log_start_offset < end <= before.high_watermark:
                yield base, known

    def _check_retained(self, before: Register, after: Register) -> None:
        """Check that some replica has each committed record (I3)."""
        if before.high_watermark <= after.log_start_offset:
            return
        held = {(b.base_offset, b.fingerprint) for trace in self._traces for b in trace.batches}
        lost = [
            base
            for base, known in self._retained_batches(before, after)
            if (base, known.batch.fingerprint) not in held
            and not any(trace.is_merged_over(known.batch) for trace in self._traces)
        ]
        end = max((trace.log_end_offset for trace in self._traces), default=0)
        if not lost and end >= before.high_watermark:
            return
        first = min([*lost, end] if end < before.high_watermark else lost)
        if self._history.is_whole:
            sentence = f"no assigned replica has the committed record at {first}"
            self._add("I3", sentence, offset=first)
        else:
            sentence = (
                f"no replica that could be read has the committed record at {first}; those that"
                " could not be read may have it"
            )
            self._add(None, sentence, offset=first)


def borders_of(register: Register) -> tuple[int, int, int]:
    """Return the offsets between which the records of each replica are added up: the log start,
    where compaction ends, and the high watermark."""
    start, mark = register.log_start_offset, register.high_watermark
    return start, min(max(start, register.compacted_below), mark), mark


def compare_contents(
    traces: Sequence[ReplicaTrace], register: Register, findings: FindingList
) -> tuple[str, ...]:
    """Compare what is in the files of replicas; return what could not be compared, in sentences.

    `register`: by whose borders the traces' contents were added up.
    """
    start, compacted, mark = borders_of(register)
    complete = [trace for trace in traces if _is_complete(trace, register)]
    summed = [t for t in complete if t.log_start_offset <= register.log_start_offset]
    # A decision that was made since the register was read may have taken records above its own.
    whole = [t for t in summed if t.compaction.compacted_below <= register.compacted_below]
    _compare(_Range("I1", compacted, mark, 1), whole, register, findings)
    return (
        *_left_out(complete, summed, start, mark, "logs were cut at their start"),
        *_left_out(summed, whole, compacted, mark, "logs were compacted further"),
        *_compare_compacted(summed, register, findings),
    )


def _left_out(
    traces: Sequence[ReplicaTrace],
    compared: Sequence[ReplicaTrace],
    first: int,
    end: int,
    why: str,
) -> Iterator[str]:
    """Say which of replicas that could be compared were not, where there was anything."""
    left = {_member(trace) for trace in traces} - {_member(trace) for trace in compared}
    if left and len(traces) > 1 and first < end:
        yield (
            f"the records in [{first}, {end}) on {brokers_of(left)}, since {why} while they were"
            " read: try again"
        )


def _compare_compacted(
    summed: Sequence[ReplicaTrace], register: Register, findings: FindingList
) -> tuple[str, ...]:
    start, compacted, _ = borders_of(register)
    if len(summed) < 2 or compacted == start:
        return ()
    groups: dict[tuple[int, int], list[ReplicaTrace]] = defaultdict(list)
    for trace in summed:
        progress = trace.compaction
        if progress.is_finished:
            groups[progress.compacted_below, progress.tombstones_below].append(trace)
    for group in groups.values():
        _compare(_Range("I27", start, compacted, 0), group, register, findings)
    largest = max(groups.values(), key=len, default=[])
    alone = [_member(trace) for trace in summed if trace not in largest]
    if not alone:
        return ()
    return (
        f"what {brokers_of(alone)} keeps below {compacted}, since not all replicas have finished"
        " the same decision of compaction",
    )


class _Range(NamedTuple):
    """Offsets, the invariant by which replicas have the same records there, and which of a trace's
    contents it is."""

    invariant: str
    first: int
    end: int
    place: int

    def sum_of(self, trace: ReplicaTrace) -> ContentSum:
        assert trace.contents is not None, "it was added up"
        return trace.contents[self.place]


def _is_complete(trace: ReplicaTrace, register: Register) -> bool:
    """Return whether a replica was added up, and must have all that is committed and was not cut
    from its start since."""
    is_member = _member(trace) in register.members(register.isr | register.elr)
    return (
        trace.contents is not None
        and trace.log_end_offset >= register.high_watermark
        and (is_member or has_chain(trace, register))
    )


def _compare(
    where: _Range, traces: Sequence[ReplicaTrace], register: Register, findings: FindingList
) -> None:
    groups: dict[str, set[Member]] = defaultdict(set)
    for trace in traces:
        groups[str(where.sum_of(trace))].add(_member(trace))
    if len(groups) < 2:
        return
    leader = next((_member(each) for each in traces if each.broker_id == register.leader), None)
    # The chain vouches for the bytes of files as they were appended.
    proven = {_member(t) for t in traces if not t.has_merged_files and has_chain(t, register)}
    right, why = right_copy(groups, leader=leader, proven=proven)
    for trace in traces:
        own = where.sum_of(trace)
        if str(own) != right:
            findings.add(
                where.invariant,
                f"the replica's files hold {own.record_count} records in [{where.first},"
                f" {where.end}), and not those that other replicas hold; {why}",
                broker_id=trace.broker_id,
                version=trace.last_version,
                offset=where.first,
            )
