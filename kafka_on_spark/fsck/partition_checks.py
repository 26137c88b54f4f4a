"""I1 to I4, I6, I9, I12, I14, I23, I27: a partition's replicas, held against each other.

The registered chain digest (I23) decides below the high watermark, even where headers and digests
of one replica were all forged to fit, and even against a majority; above it only the tables decide.

Headers and the chain tell what batches hold. Of a merged segment they say what it was made of, and
of a compacted one not even that. So what is in the files is added up and compared, as far as
replicas must hold the same: below the high watermark all that is not compacted (I1), and what is
compacted if they have finished the same decision (I27).

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
from itertools import groupby
from typing import Any, NamedTuple

from kafka_on_spark.fsck.findings import Finding, FindingList, Place
from kafka_on_spark.fsck.log_rules import Flaw, bound_flaws
from kafka_on_spark.fsck.registers import Member, PartitionTimeline, Register, Tenure
from kafka_on_spark.fsck.trace import BatchLifetime, EpochSpan, LoggedBatch, ReplicaTrace
from kafka_on_spark.log.compaction import COUNTERS


class Leadership(NamedTuple):
    """All tenures of one leader epoch."""

    epoch: int
    tenures: tuple[Tenure, ...]

    @property
    def first(self) -> Register:
        return self.tenures[0].begin

    @property
    def last_advanced(self) -> Tenure | None:
        return next((each for each in reversed(self.tenures) if each.is_advanced), None)


def _leaderships(timeline: PartitionTimeline) -> list[Leadership]:
    groups = groupby(timeline.tenures, lambda tenure: tenure.begin.leader_epoch)
    return [Leadership(epoch, tuple(group)) for epoch, group in groups]


def right_copy(
    groups: Mapping[object, Set[Member]], *, leader: Member | None, proven: Set[Member]
) -> tuple[object, str]:
    """Return which of different copies of a batch is right, if that is known, and why.

    `groups`: the replicas that have each copy. `leader`: of the batch's leader epoch. `proven`: the
    replicas with the registered chain digest above the batch.
    """
    right = [copy for copy, members in groups.items() if members & proven]
    if len(right) == 1:
        who = _brokers(groups[right[0]] & proven)
        return right[0], f"{who} has what was committed, by the registered chain digest"
    sizes = sorted((len(members) for members in groups.values()), reverse=True)
    largest = max(groups, key=lambda each: len(groups[each]))
    if len(sizes) == 1 or sizes[0] > sizes[1]:
        return largest, f"most replicas have it as {_brokers(groups[largest])}"
    for copy, members in groups.items():
        if leader is not None and leader in members:
            return copy, f"broker {leader[0]}, which led then, has the right one"
    return None, "which one is right can't be told from the tables"


def _brokers(members: Iterable[Member]) -> str:
    numbers = sorted({broker_id for broker_id, _ in members})
    return f"broker{'s' if len(numbers) > 1 else ''} {', '.join(map(str, numbers))}"


def _epoch_below(batches: Iterable[LoggedBatch], offset: int) -> int | None:
    """Return the leadership of the record below `offset`, or None if it is not there."""
    found = (each.leader_epoch for each in batches if each.base_offset < offset <= each.end_offset)
    return next(found, None)


def _has_registered_chain(trace: ReplicaTrace, register: Register) -> bool:
    return trace.has_chain(register.high_watermark, register.high_watermark_chain)


class PartitionAudit:
    """The checks of one partition, and what they find.

    Tables were read after `before` and before `after`, its timelines in the metadata log: `before`
    says what a table must have, and `after` what it may have. So the audit can check a cluster that
    others write to. `is_whole`: all assigned replicas that were created are among `traces`.
    """

    def __init__(
        self,
        before: PartitionTimeline,
        after: PartitionTimeline,
        traces: Sequence[ReplicaTrace],
        *,
        is_whole: bool,
    ) -> None:
        assert before.register is not None
        assert after.register is not None
        self._before, self._after = before.register, after.register
        self._timelines = (before, after)
        self._traces = traces
        self._is_whole = is_whole
        self._findings = FindingList(Place(partition=after.name))
        self._leaderships = {each.epoch: each for each in _leaderships(after)}
        self._proven = {t.member for t in traces if _has_registered_chain(t, self._before)}
        # What is below the high watermark, by base offset, as it was when it was committed.
        self._committed: dict[int, LoggedBatch] = {}

    def run(self) -> tuple[Finding, ...]:
        for leadership in self._leaderships.values():
            self._commit(leadership)
        for trace in self._traces:
            self._check_alone(trace)
        self._check_log_matching()
        for leadership in _leaderships(self._timelines[0]):
            self._check_advances(leadership)
        self._check_chains()
        self._check_in_sync()
        self._check_leader()
        self._check_retained()
        return self._findings.all()

    def _add(
        self, invariant: str | None, sentence: str, trace: ReplicaTrace | None = None, **where: Any
    ) -> None:
        if trace is not None:
            where = {"broker_id": trace.broker_id, "version": trace.last_version, **where}
        self._findings.add(invariant, sentence, **where)

    def _commit(self, leadership: Leadership) -> None:
        """Take what a leadership has committed, and check that what was committed before is the
        same under it (I12). A batch above the high watermark that an unclean election has set is
        committed no more."""
        mark = leadership.first.high_watermark
        committed = {b: known for b, known in self._committed.items() if known.end_offset <= mark}
        self._committed = committed
        tenure, found = leadership.last_advanced, self._in_sync_span(leadership)
        if tenure is None or found is None:
            return
        trace, span = found
        batches = {
            batch.base_offset: batch
            for batch in trace.batches_in(span)
            if batch.end_offset <= tenure.end.high_watermark
        }
        for base, known in committed.items():
            is_gone = known.end_offset <= span.start_offset
            if is_gone or trace.is_merged_over(known) or _is_same(known, batches.get(base)):
                continue
            records = f"the records [{base}, {known.end_offset}) were committed"
            sentence = f"{records}, and are others under leadership {span.leader_epoch}"
            self._add("I12", sentence, trace, version=span.last_version, offset=base)
        self._committed = batches | committed

    def _in_sync_span(self, leadership: Leadership) -> tuple[ReplicaTrace, EpochSpan] | None:
        """Return a replica that was counted when `leadership` last moved the high watermark, and
        its versions under it; None if no such replica is left.

        Replicas with the chain digest that was registered then come first, and of those the
        leader's. A batch below it that retention has removed since counts as the same.
        """
        tenure = leadership.last_advanced
        if tenure is None:
            return None
        mark, members = tenure.end.high_watermark, tenure.begin.members(tenure.begin.isr)
        found = []
        for trace in self._traces:
            span = trace.span_of(leadership.epoch)
            if trace.member not in members or span is None or span.end_offset < mark:
                continue
            batches = trace.batches_in(span)
            digests = {each.chain_digest for each in batches if each.end_offset == mark}
            has_chain = trace.is_chained and digests <= {tenure.end.high_watermark_chain}
            found.append((not has_chain, trace.member != leadership.first.leading, trace, span))
        if not found:
            return None
        *_, trace, span = min(found, key=lambda each: (each[0], each[1], each[2].broker_id))
        return trace, span

    def _check_alone(self, trace: ReplicaTrace) -> None:
        had_election = self._timelines[1].had_unclean_election
        flaws = register_flaws(trace, self._before, self._after, had_unclean_election=had_election)
        for flaw in (*bound_flaws(trace, self._after), *flaws):
            self._add(flaw.invariant, flaw.sentence, trace, offset=flaw.offset)
        for span in trace.spans:
            if span.end_before is not None and span.end_adopted < span.end_before:
                self._check_cut(trace, span)
        for lifetime in trace.lifetimes:
            leadership = self._leaderships.get(lifetime.batch.leader_epoch)
            leader = None if leadership is None else leadership.first.leading
            if not lifetime.is_own or leadership is None or leader == trace.member:
                continue
            who = "nobody" if leader is None else f"broker {leader[0]}"
            sentence = (
                f"records of leadership {leadership.epoch} were appended here, and {who} led it"
            )
            version, offset = lifetime.added_version, lifetime.batch.base_offset
            self._add("I6", sentence, trace, version=version, offset=offset)

    def _check_cut(self, trace: ReplicaTrace, span: EpochSpan) -> None:
        leadership = self._leaderships.get(span.leader_epoch)
        if leadership is None:
            return
        # The fetch was planned in one of these tenures; no table says in which.
        floor = min(
            tenure.begin.high_watermark if trace.member in tenure.begin.complete else 0
            for tenure in leadership.tenures
        )
        adopting = f"adopting leadership {span.leader_epoch} cut"
        version, end = span.first_version, span.end_adopted
        if end < floor:
            ends = f"from {span.end_before} to {end}, below the high watermark {floor}"
            self._add("I14", f"{adopting} the log {ends}", trace, version=version, offset=end)
        mark = leadership.first.high_watermark
        for lifetime in trace.lifetimes:
            batch = lifetime.batch
            is_cut = lifetime.removed_version == version and batch.end_offset <= mark
            if is_cut and _is_same(self._committed.get(batch.base_offset), batch):
                sentence = f"{adopting} a committed batch: the high watermark was {mark}"
                self._add("I14", sentence, trace, version=version, offset=batch.base_offset)

    def _check_log_matching(self) -> None:
        seen: dict[tuple[int, int], list[tuple[ReplicaTrace, BatchLifetime]]] = defaultdict(list)
        for trace in self._traces:
            for each in trace.lifetimes:
                seen[each.batch.leader_epoch, each.batch.base_offset].append((trace, each))
        for (epoch, base), copies in seen.items():
            self._check_alike(epoch, base, copies)

    def _check_alike(
        self, epoch: int, base: int, copies: Sequence[tuple[ReplicaTrace, BatchLifetime]]
    ) -> None:
        """Check that copies of a batch are equal, and all that is before it."""
        holders: dict[object, set[Member]] = defaultdict(set)
        for trace, lifetime in copies:
            holders[lifetime.batch.fingerprint, lifetime.batch.chain_digest].add(trace.member)
        if len(holders) == 1:
            return
        leadership = self._leaderships.get(epoch)
        right, why = right_copy(
            holders,
            leader=None if leadership is None else leadership.first.leading,
            proven=self._proven if base < self._before.high_watermark else frozenset(),
        )
        for trace, lifetime in copies:
            if (lifetime.batch.fingerprint, lifetime.batch.chain_digest) != right:
                batch = f"the batch of leadership {epoch} at {base}"
                sentence = f"{batch} is not everywhere the same: {why}"
                self._add("I4", sentence, trace, version=lifetime.added_version, offset=base)

    def _check_advances(self, leadership: Leadership) -> None:
        """Check each move of the high watermark against the replicas that were counted for it; of
        one that was after the tables were read they say nothing."""
        advanced = [tenure for tenure in leadership.tenures if tenure.is_advanced]
        for trace in self._traces:
            marks = [
                tenure.end.high_watermark
                for tenure in advanced
                if trace.member in tenure.begin.members(tenure.begin.isr)
            ]
            if marks:
                # The high watermark rises: the last move asks for most.
                self._check_counted(trace, leadership, marks[-1])
        found = self._in_sync_span(leadership)
        if found is None:
            return
        trace, span = found
        mark, said = advanced[-1].end.high_watermark, advanced[-1].end.high_watermark_epoch
        epoch = _epoch_below(trace.batches_in(span), mark)
        if epoch not in (None, said):
            below = f"the record below the high watermark {mark}"
            sentence = f"{below} was said to be of leadership {said}; it is of {epoch}"
            self._add("I9", sentence, trace, version=span.last_version, offset=mark)

    def _check_counted(self, trace: ReplicaTrace, leadership: Leadership, mark: int) -> None:
        span = trace.span_of(leadership.epoch)
        is_cleaned = trace.first_version > 0 and bool(trace.spans)
        if span is None and is_cleaned and trace.spans[0].leader_epoch > leadership.epoch:
            return  # its history no longer has the versions of that epoch
        if span is not None and span.end_offset >= mark:
            return
        ended = "never adopted it" if span is None else f"ended at {span.end_offset} under it"
        moved = f"the high watermark moved to {mark} under leadership {leadership.epoch}"
        sentence = f"{moved} with this replica in sync, which {ended}"
        version = trace.last_version if span is None else span.last_version
        self._add("I1", sentence, trace, version=version, offset=mark)
        if leadership.first.leading == trace.member:
            self._add("I9", sentence, trace, version=version, offset=mark)

    def _check_chains(self) -> None:
        register, mark = self._before, self._before.high_watermark
        has_risen = self._after.high_watermark > mark
        for trace in self._traces:
            is_there = trace.log_start_offset <= mark <= trace.log_end_offset
            if not is_there or trace.member not in register.complete:
                continue
            # Nothing is merged or compacted across the high watermark that is. A merged segment
            # across one that was does not tell where its batches ended.
            is_across = any(each.base_offset < mark < each.end_offset for each in trace.merged)
            if has_risen and is_across and mark not in trace.borders:
                continue
            if trace.member not in self._proven:
                sentence = (
                    f"the log's chain digest at the high watermark {mark} is"
                    f" {trace.borders.get(mark) or 'none'} and the registered one is"
                    f" {register.high_watermark_chain}: it has other records than were committed"
                )
                self._add("I23", sentence, trace, offset=mark)

    def _check_in_sync(self) -> None:
        """Check that every in-sync replica goes as far as is committed (I1); see I23 for what."""
        members, mark = self._before.members(self._before.isr), self._before.high_watermark
        for trace in self._traces:
            end = trace.log_end_offset
            if trace.member in members and end < mark:
                sentence = f"the replica is in sync and ends at {end}, below the high watermark"
                self._add("I1", f"{sentence} {mark}", trace, offset=end)

    def _check_leader(self) -> None:
        found = [trace for trace in self._traces if trace.member == self._before.leading]
        if not found or found[0].leader_epoch != self._before.leader_epoch:
            return  # it has not begun to lead, and proves itself when it does
        leader, mark, end = found[0], self._before.high_watermark, found[0].log_end_offset
        if end < mark:
            sentence = f"the leader ends at {end}, below the high watermark {mark}"
            self._add("I9", sentence, leader, offset=end)
        batches = {batch.base_offset: batch for batch in leader.batches}
        for base, known in self._retained():
            if not leader.is_merged_over(known) and not _is_same(known, batches.get(base)):
                sentence = f"the leader lacks the committed records [{base}, {known.end_offset})"
                self._add("I2", sentence, leader, offset=base)

    def _retained(self) -> Iterator[tuple[int, LoggedBatch]]:
        """Yield the batches that were committed before the tables were read, and are still kept."""
        for base, known in self._committed.items():
            if self._after.log_start_offset < known.end_offset <= self._before.high_watermark:
                yield base, known

    def _check_retained(self) -> None:
        mark = self._before.high_watermark
        if mark <= self._after.log_start_offset:
            return
        held = {(b.base_offset, b.fingerprint) for trace in self._traces for b in trace.batches}
        lost = [
            base
            for base, known in self._retained()
            if (base, known.fingerprint) not in held
            and not any(trace.is_merged_over(known) for trace in self._traces)
        ]
        end = max((trace.log_end_offset for trace in self._traces), default=0)
        if end < mark:
            lost.append(end)
        if not lost:
            return
        first = min(lost)
        sentence = f"no assigned replica has the committed record at {first}"
        if not self._is_whole:
            sentence += "; those that could not be read may have it"
        self._add("I3" if self._is_whole else None, sentence, offset=first)


def _is_same(known: LoggedBatch | None, batch: LoggedBatch | None) -> bool:
    return known is not None and batch is not None and known.fingerprint == batch.fingerprint


def register_flaws(
    trace: ReplicaTrace, before: Register, after: Register, *, had_unclean_election: bool
) -> Iterator[Flaw]:
    """Yield what is wrong with a replica's compaction by the register. The table was read after
    `before` and before `after`; `had_unclean_election`: as its timeline says at `after`."""
    progress = trace.compaction
    # A log that comes back by an unclean election may be compacted as was decided before it.
    if trace.leader_epoch == after.leader_epoch and not had_unclean_election:
        for field in ("compacted_below", "tombstones_below"):
            own, decided = getattr(progress, field), getattr(after, field)
            if own > decided:
                sentence = f"{COUNTERS[field]} is {own}, above what is decided, {decided}"
                yield Flaw("I27", sentence, decided)
    is_same_log = before.unclean_generation == after.unclean_generation
    # A leader that was elected because it has all records finishes the decision afterwards.
    is_asked = trace.broker_id != before.leader and trace.member in before.members(before.isr)
    if is_same_log and is_asked and progress.finished_below < before.cleaned_below:
        sentence = "the replica is in sync and has finished compaction below"
        ends = f"{progress.finished_below}, not below {before.cleaned_below}"
        yield Flaw(
            "I27", f"{sentence} {ends} as each that is read must have", progress.finished_below
        )


def borders_of(register: Register) -> tuple[int, int, int]:
    """Return the offsets between which the records of each replica are added up: the log start,
    where compaction ends, and the high watermark."""
    start, mark = register.log_start_offset, register.high_watermark
    return start, min(max(start, register.compacted_below), mark), mark


def compare_contents(
    traces: Sequence[ReplicaTrace], register: Register, findings: FindingList
) -> Iterator[str]:
    """Compare what is in the files of replicas; yield what could not be compared, in sentences.
    `register`: by whose borders the traces' contents were added up."""
    start, compacted, mark = borders_of(register)
    # Those that must have all that is committed.
    complete = [
        trace
        for trace in traces
        if trace.contents is not None
        and trace.log_end_offset >= mark
        and (trace.member in register.complete or _has_registered_chain(trace, register))
    ]
    whole = [
        trace
        for trace in complete
        if trace.log_start_offset <= start
        and trace.compaction.compacted_below <= register.compacted_below
    ]
    _compare("I1", 1, whole, register, findings)
    left = {trace.member for trace in complete} - {trace.member for trace in whole}
    if left and len(complete) > 1 and start < mark:
        yield (
            f"the records in [{start}, {mark}) on {_brokers(left)}, since logs were cut at their"
            " start or compacted while they were read: try again"
        )
    if len(whole) < 2 or compacted == start:
        return
    groups: dict[tuple[int, int], list[ReplicaTrace]] = defaultdict(list)
    for trace in whole:
        progress = trace.compaction
        if progress.is_finished:
            groups[progress.compacted_below, progress.tombstones_below].append(trace)
    for group in groups.values():
        _compare("I27", 0, group, register, findings)
    largest = max(groups.values(), key=len, default=[])
    alone = [trace.member for trace in whole if trace not in largest]
    if alone:
        yield (
            f"what {_brokers(alone)} keeps below {compacted}, since not all replicas have finished"
            " the same decision of compaction"
        )


def _compare(
    invariant: str,
    place: int,
    traces: Sequence[ReplicaTrace],
    register: Register,
    findings: FindingList,
) -> None:
    """Compare what replicas hold between two borders of `register`, from the `place`-th on, where
    by `invariant` they hold the same."""
    first, end = borders_of(register)[place : place + 2]
    sums = [(each, each.contents[place]) for each in traces if each.contents is not None]
    groups: dict[object, set[Member]] = defaultdict(set)
    for trace, own in sums:
        groups[own].add(trace.member)
    if len(groups) < 2:
        return
    leader = next((each.member for each in traces if each.broker_id == register.leader), None)
    # The chain vouches for the bytes of files as they were appended.
    proven = {
        each.member
        for each in traces
        if not each.has_merged_files and _has_registered_chain(each, register)
    }
    right, why = right_copy(groups, leader=leader, proven=proven)
    for trace, own in sums:
        if own != right:
            findings.add(
                invariant,
                f"the replica's files hold {own.record_count} records in [{first}, {end}), and not"
                f" those that other replicas hold; {why}",
                broker_id=trace.broker_id,
                version=trace.last_version,
                offset=first,
            )
