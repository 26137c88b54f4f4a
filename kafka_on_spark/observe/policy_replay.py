"""Replays the recorded history under other settings, and says what would have been different.

The log holds facts and decisions. Facts stay as they are: brokers fail and return, replicas fall
behind and catch up, appends come. Leaders, ISRs and high watermarks are decided again, wherever the
other settings or an earlier difference could change them; a partition that does not differ is as
recorded, and so are assignments, balance and log starts. What the log can't say: when replicas
would have caught up with other leaders, which is taken to be when they did; how far replicas out of
sync had come, so that an unclean election loses at most what was committed since they were last in
sync; and appends that were refused, and that a lower minimum would have let in.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from operator import attrgetter
from typing import Final

from kafka_on_spark.base.config import check_settings
from kafka_on_spark.base.errors import InvalidConfigError
from kafka_on_spark.base.ids import (
    BrokerId,
    LeaderEpoch,
    Offset,
    PartitionKey,
    TopicPartition,
    time_of,
)
from kafka_on_spark.base.text import visible
from kafka_on_spark.controller.election import elect_leader, eligible_replicas, is_unclean_allowed
from kafka_on_spark.metadata.image import MetadataImage
from kafka_on_spark.metadata.partition import PartitionRegistration
from kafka_on_spark.metadata.records import (
    BrokerChangeRecord,
    ControllerRecord,
    HighWatermarkRecord,
    MetadataBatch,
    PartitionChangeRecord,
    PartitionRecord,
    RemovePartitionRecord,
    RemoveTopicRecord,
)
from kafka_on_spark.metadata.reports import MIN_ISR, min_isr_setting

UNCLEAN: Final = "unclean.leader.election.enable"
DECIDABLE: Final = frozenset({UNCLEAN, MIN_ISR})


@dataclass(frozen=True, slots=True)
class LeaderDifference:
    """A time in which another broker, or none, would have led a partition."""

    name: TopicPartition
    start: datetime
    end: datetime
    recorded: BrokerId | None
    instead: BrokerId | None
    cause: str | None

    @property
    def seconds(self) -> float:
        """How long."""
        return (self.end - self.start).total_seconds()

    def __str__(self) -> str:
        leaders = (self.recorded, self.instead)
        led, would = ("nobody" if each is None else f"broker {each}" for each in leaders)
        why = f" ({self.cause})" if self.cause else ""
        return visible(
            f"{self.name}, {self.start:%H:%M:%S} to {self.end:%H:%M:%S} UTC ({self.seconds:.1f} s):"
            f" {led} led; {would} would have{why}"
        )


@dataclass(slots=True, kw_only=True)
class PolicyFigures:
    """The figures of a timeline, recorded or simulated.

    Attributes:
        offline_seconds: Time without a leader, summed over partitions.
        elections: Leaderships that began, the first of each partition not counted.
        unclean_elections: Those of them that could lose records.
        lost_records_max: Committed records that those lost, at most.
        refused_records: Committed records that acks=all would have refused or kept waiting,
            for want of replicas in sync or of a leader. None of those recorded.
    """

    offline_seconds: float = 0.0
    elections: int = 0
    unclean_elections: int = 0
    lost_records_max: int = 0
    refused_records: int = 0


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class PolicyReplay:
    """What differs under another policy: times in which another broker would have led, in order,
    and the figures of the log and of the replay."""

    policy: Mapping[str, str]
    differences: tuple[LeaderDifference, ...]
    recorded: PolicyFigures
    instead: PolicyFigures

    def __str__(self) -> str:
        settings = ", ".join(f"{name}={value}" for name, value in self.policy.items())
        was, would = self.recorded, self.instead
        lines = [
            f"Under {settings or 'the same settings'} (recorded figures in brackets):",
            f"  {would.offline_seconds:.1f} s without a leader, summed over partitions"
            f" ({was.offline_seconds:.1f})",
            f"  {would.elections} elections ({was.elections}), unclean ones"
            f" {would.unclean_elections} ({was.unclean_elections}), which lose at most"
            f" {would.lost_records_max} committed records ({was.lost_records_max})",
            f"  {would.refused_records} records refused or late with acks=all",
            f"  {len(self.differences)} times with another leader",
            *(f"    {each}" for each in self.differences),
        ]
        return "\n".join(map(visible, lines))

    __repr__ = __str__


def replay(batches: Sequence[MetadataBatch], policy: Mapping[str, object]) -> PolicyReplay:
    """Return what `batches`, a whole log, would have come to under `policy`; raise
    InvalidConfigError if the log can't tell, or a value is not allowed. Pure."""
    checked = check_settings(policy, topic_only=False)
    for name in sorted(policy.keys() - DECIDABLE):
        raise InvalidConfigError(
            f"can't decide the history again under another {name!r}: the log can tell what"
            f" {' and '.join(sorted(DECIDABLE))} would have changed"
        )
    return _Replay(checked).run(batches)


class _Replay:
    """Advances two timelines batch by batch: the recorded image, and the partitions that would be
    apart from it."""

    def __init__(self, policy: Mapping[str, str]) -> None:
        self._policy = policy
        self._image = MetadataImage()
        self._apart: dict[PartitionKey, PartitionRegistration] = {}
        self._time_ms = 0
        self._reach: dict[tuple[PartitionKey, BrokerId], Offset] = {}
        """The high watermark when a replica was last in sync: so far its log is known to go."""
        self._open: dict[PartitionKey, LeaderDifference] = {}
        self._differences: list[LeaderDifference] = []
        self._was, self._would = PolicyFigures(), PolicyFigures()

    def run(self, batches: Sequence[MetadataBatch]) -> PolicyReplay:
        """Replay a whole log; return what differs."""
        for batch in batches:
            self._take(batch)
        self._elect()
        for key in sorted(self._open):
            self._end(key)
        return PolicyReplay(
            policy=self._policy,
            differences=tuple(sorted(self._differences, key=lambda each: (each.start, each.name))),
            recorded=self._was,
            instead=self._would,
        )

    def _take(self, batch: MetadataBatch) -> None:
        # Clocks of committers differ; what is counted here must not go back.
        self._time_ms = max(self._time_ms, batch.stamp.time_ms)
        # A controller's record ends its pass: by now it has decided all that it could.
        if any(isinstance(each, ControllerRecord) for each in batch.records):
            self._elect()
        before, self._image = self._image, self._image.replay(batch)
        causes: dict[PartitionKey, str | None] = {}
        for record in batch.records:
            match record:
                case BrokerChangeRecord():
                    named = record.broker_id
                    on_it = (key for key, each in before.partitions() if named in each.replicas)
                    causes |= dict.fromkeys(on_it, record.cause)
                case RemoveTopicRecord():
                    causes |= {key: None for key in self._open if key.topic_id == record.topic_id}
                case PartitionChangeRecord():
                    causes[record.key] = record.cause
                case PartitionRecord() | HighWatermarkRecord() | RemovePartitionRecord():
                    causes.setdefault(record.key, None)
        for key in sorted(causes):
            self._step(key, before.partition(key), causes[key])

    def _step(
        self, key: PartitionKey, was: PartitionRegistration | None, cause: str | None
    ) -> None:
        now, apart = self._image.partition(key), self._apart.pop(key, None)
        if now is None:
            self._end(key)
            return
        would = now
        if was is not None:
            before, is_unclean = apart or was, now.unclean_generation > was.unclean_generation
            recorded = min_isr_setting(self._image, key.topic_id)
            minimum = int(self._policy.get(MIN_ISR, recorded))
            is_other = len({min(each, len(now.replicas)) for each in (recorded, minimum)}) > 1
            is_forbidden = is_unclean and self._policy.get(UNCLEAN) == "false"
            if apart is not None or is_other or is_forbidden:  # it could differ under the policy
                would = self._decide(minimum, before, was, now)
            _count_elections(self._was, was, now)
            _count_elections(self._would, before, would)
        self._note(key, now, would, cause)

    def _decide(
        self,
        minimum: int,
        before: PartitionRegistration,
        was: PartitionRegistration,
        now: PartitionRegistration,
    ) -> PartitionRegistration:
        """Return what `before` would have become when the recorded partition went from `was` to
        `now`.

        The assignment is as recorded. Replicas that fell behind or caught up do so here, too, and
        those of fenced brokers leave. A leader that was replaced while it lived is replaced.
        """
        eligible = self._image.eligible_brokers()
        left, joined = was.isr - now.isr, (now.isr - was.isr) & eligible
        if now.unclean_generation > was.unclean_generation:
            left = joined = frozenset()  # an election, and not a fact
        assigned = before.isr.intersection(now.replicas)
        isr = ((assigned | joined) - left).intersection(now.replicas)
        # The last member stays, unless it is assigned no more.
        isr = isr & eligible or assigned or now.isr
        elr = before.elr.intersection(now.replicas) - assigned
        moved = replace(now, isr=assigned, elr=elr, leader=None)
        state = replace(moved, isr=isr, elr=eligible_replicas(moved, isr, minimum) - isr)
        is_moved = now.leader != was.leader and was.leader in eligible
        wanted = [now.leader] * is_moved + [before.leader]
        leader = next((each for each in wanted if each in isr & eligible), None)
        if leader is None:
            leader = elect_leader(state, eligible)
            isr = isr if leader is None or leader in isr else frozenset({leader})
        high_watermark, raised = before.high_watermark, now.high_watermark - was.high_watermark
        if raised > 0:
            if leader is not None:  # who commits in the record has caught up here
                isr |= frozenset(each for each in now.isr & eligible if now.is_created(each))
            if leader is not None and len(isr) >= min(minimum, len(now.replicas)):
                high_watermark = max(now.high_watermark, high_watermark)
            else:
                self._would.refused_records += raised
        is_as_recorded = (before.leader, leader) == (was.leader, now.leader)
        begun = now.leader_epoch - was.leader_epoch if is_as_recorded else leader != before.leader
        return replace(
            _up_to(now, high_watermark),
            isr=isr,
            elr=eligible_replicas(state, isr, minimum) - isr,
            leader=leader,
            leader_epoch=LeaderEpoch(before.leader_epoch + begun),
            unclean_generation=before.unclean_generation,
        )

    def _elect(self) -> None:
        """Elect leaders at the end of a pass where there are none, by what replicas are known to
        have: what was committed when they were last in sync, and perhaps more."""
        for key in sorted(key for key, each in self._open.items() if each.instead is None):
            now = self._image.partition(key)
            assert now is not None, "it is open"
            recorded = is_unclean_allowed(self._image, key.topic_id)
            before = self._apart.get(key, now)
            allows = self._policy.get(UNCLEAN, str(recorded).lower()) == "true"
            known = {
                each: self._reach.get((key, each), Offset(0))
                for each in before.replicas
                if each in self._image.eligible_brokers() and before.is_created(each)
            }
            if not known or (before is now and allows == recorded):
                continue  # or nothing differs from the record, in which nobody was elected
            leader = max(known, key=known.__getitem__)
            end = Offset(max(min(known[leader], before.high_watermark), before.log_start_offset))
            is_unclean = end < before.high_watermark
            if is_unclean and not allows:
                continue
            lost = f"unclean election, offsets {end} to {before.high_watermark - 1} are lost"
            proof = f"proves to have all {before.high_watermark} committed offsets"
            would = replace(
                _up_to(before, end),
                isr=frozenset({leader}),
                elr=frozenset(),
                leader=leader,
                leader_epoch=LeaderEpoch(before.leader_epoch + 1),
                unclean_generation=before.unclean_generation + is_unclean,
            )
            _count_elections(self._would, before, would)
            self._note(key, now, would, f"broker {leader}: {lost if is_unclean else proof}")

    def _note(
        self,
        key: PartitionKey,
        now: PartitionRegistration,
        would: PartitionRegistration,
        cause: str | None,
    ) -> None:
        rests_on = attrgetter("isr", "elr", "leader", "high_watermark")  # a later decision
        if rests_on(would) != rests_on(now):
            self._apart[key] = would
        self._reach.update({(key, broker_id): would.high_watermark for broker_id in would.isr})
        last, time, name = self._open.get(key), time_of(self._time_ms), self._image.name_of(key)
        if last is not None and last.instead == would.leader:
            cause = last.cause  # it is the recorded leader that changed, if any
        current = LeaderDifference(name, time, time, now.leader, would.leader, cause)
        if last is None or replace(current, start=last.start, end=last.end) != last:
            self._end(key)
            self._open[key] = current

    def _end(self, key: PartitionKey) -> None:
        """Count the time for which a partition had the leaders that it had last."""
        if key not in self._open:
            return
        last = replace(self._open.pop(key), end=time_of(self._time_ms))
        self._was.offline_seconds += last.seconds * (last.recorded is None)
        self._would.offline_seconds += last.seconds * (last.instead is None)
        if last.seconds and last.recorded != last.instead:
            self._differences.append(last)


def _count_elections(
    figures: PolicyFigures, before: PartitionRegistration, now: PartitionRegistration
) -> None:
    figures.elections += now.leader_epoch - before.leader_epoch
    if now.unclean_generation > before.unclean_generation:
        figures.unclean_elections += 1
        figures.lost_records_max += max(before.high_watermark - now.high_watermark, 0)


def _up_to(partition: PartitionRegistration, high_watermark: Offset) -> PartitionRegistration:
    """Return a partition with another high watermark, and what can't be above it."""
    return replace(
        partition,
        high_watermark=high_watermark,
        log_start_offset=min(partition.log_start_offset, high_watermark),
        compaction=partition.compaction.lowered_to(high_watermark),
    )
