"""Replays the recorded history under other settings, and says what would have been different.

The log holds facts and decisions. Facts stay as they are: brokers fail and return, replicas fall
behind and catch up, appends come. Decisions are made again, by the controller's own functions, on
an image that has the other settings. Only settings whose effect the log can tell are allowed: the
log does not say how far a replica lagged, and holds no outage that was too short to be noticed.
"""

from collections.abc import Container, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Final

from kafka_on_spark.config import check_settings
from kafka_on_spark.controller.brokers.broker_changes import (
    fence_broker,
    is_of_append,
    unfence_broker,
)
from kafka_on_spark.controller.partitions.election import (
    Election,
    elect_leader,
    eligible_replicas,
    is_unclean_allowed,
)
from kafka_on_spark.controller.partitions.min_isr import MIN_ISR, min_isr, min_isr_setting
from kafka_on_spark.controller.partitions.partition_change import change_record
from kafka_on_spark.controller.partitions.recovery import elect_where_none, recover
from kafka_on_spark.controller.partitions.reports import ReplicaInspection
from kafka_on_spark.errors import InvalidConfigError
from kafka_on_spark.ids import (
    KEEP,
    NO_CHAIN,
    BrokerId,
    Offset,
    PartitionEpoch,
    PartitionKey,
    TopicPartition,
)
from kafka_on_spark.metadata.broker import BrokerState
from kafka_on_spark.metadata.image import MetadataImage
from kafka_on_spark.metadata.partition import PartitionChange, PartitionRegistration
from kafka_on_spark.metadata.records import (
    BrokerChangeRecord,
    ConfigRecord,
    ControllerRecord,
    HighWatermarkRecord,
    MetadataBatch,
    PartitionChangeRecord,
    PartitionRecord,
    Record,
    RemovePartitionRecord,
    RemoveTopicRecord,
    Stamp,
)
from kafka_on_spark.query.moments import time_of
from kafka_on_spark.visible import visible

UNCLEAN: Final = "unclean.leader.election.enable"
SESSION: Final = "broker.session.timeout.ms"
DECIDABLE: Final = (UNCLEAN, MIN_ISR, SESSION)
CAVEATS: Final = {
    "": "when replicas would have caught up with other leaders; it is taken that they would have"
    " when they did",
    UNCLEAN: "how far replicas out of sync had come: an unclean election loses at most what was"
    " committed since they were last in sync",
    MIN_ISR: "appends that were refused, and that a lower minimum would have let in",
    SESSION: "outages that were too short to be noticed: with a shorter session there may have been"
    " more",
}
"""What the log can't say, of every replay and by the setting."""


@dataclass(frozen=True, slots=True)
class LeaderDifference:
    """A time in which another broker, or none, would have led a partition; it would not have
    answered, if its session would not have ended yet."""

    name: TopicPartition
    start: datetime
    end: datetime
    recorded: BrokerId | None
    instead: BrokerId | None
    is_instead_dead: bool
    cause: str | None

    @property
    def seconds(self) -> float:
        """How long."""
        return (self.end - self.start).total_seconds()

    def __str__(self) -> str:
        instead = f"{_broker_name(self.instead)} would have"
        if self.is_instead_dead:
            instead = f"{_broker_name(self.instead)} still would have, though it did not answer"
        why = f" ({self.cause})" if self.cause else ""
        return visible(
            f"{self.name}, {self.start:%H:%M:%S} to {self.end:%H:%M:%S} UTC ({self.seconds:.1f} s):"
            f" {_broker_name(self.recorded)} led; {instead}{why}"
        )


def _broker_name(broker_id: BrokerId | None) -> str:
    return "nobody" if broker_id is None else f"broker {broker_id}"


@dataclass(slots=True, kw_only=True)
class PolicyFigures:
    """The figures of a timeline, recorded or simulated.

    Attributes:
        offline_seconds: Time without a leader that answers, summed over partitions; the session
            of each broker that was fenced is part of it.
        elections: Leaderships that began, the first of each partition not counted.
        unclean_elections: Those of them that could lose records.
        lost_records_max: Committed records that those lost, at most.
        refused_records: Committed records that acks=all would have refused or kept waiting,
            for want of replicas in sync or of a leader that answers. None of those recorded.
    """

    offline_seconds: float = 0.0
    elections: int = 0
    unclean_elections: int = 0
    lost_records_max: int = 0
    refused_records: int = 0


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class PolicyReplay:
    """What differs under another policy.

    Attributes:
        policy: The settings of the replay.
        differences: Times in which another broker would have led, in order of time.
        recorded: The figures of the log.
        instead: The figures under the other settings.
        caveats: What the log can't say, in sentences.
    """

    policy: Mapping[str, str]
    differences: tuple[LeaderDifference, ...]
    recorded: PolicyFigures
    instead: PolicyFigures
    caveats: tuple[str, ...]

    def __str__(self) -> str:
        settings = ", ".join(f"{name}={value}" for name, value in self.policy.items())
        was, would = self.recorded, self.instead
        lines = [
            f"Under {settings or 'the same settings'} (recorded figures in brackets):",
            f"  {would.offline_seconds:.1f} s without a leader that answers, summed over partitions"
            f" ({was.offline_seconds:.1f})",
            f"  {would.elections} elections ({was.elections}), unclean ones"
            f" {would.unclean_elections} ({was.unclean_elections}), which lose at most"
            f" {would.lost_records_max} committed records ({was.lost_records_max})",
            f"  {would.refused_records} records refused or late with acks=all",
            f"  {len(self.differences)} times with another leader",
            *(f"    {each}" for each in self.differences),
            *(f"  Not known: {each}" for each in self.caveats),
        ]
        return "\n".join(map(visible, lines))

    __repr__ = __str__


def replay(batches: Sequence[MetadataBatch], policy: Mapping[str, object]) -> PolicyReplay:
    """Return what `batches`, a whole log, would have come to under `policy`. Pure.

    Raises:
        InvalidConfigError: The log can't tell, or a value is not allowed.
    """
    checked = check_settings(policy, topic_only=False)
    for name in policy:
        if name not in DECIDABLE:
            raise InvalidConfigError(
                f"can't decide the history again under another {name!r}: the log can tell what"
                f" {', '.join(DECIDABLE)} would have changed"
            )
    replay_of_log = _Replay(checked)
    for batch in batches:
        replay_of_log.take(batch)
    return replay_of_log.result()


@dataclass(slots=True)
class _Tally:
    """Counts both timelines, and remembers how each replica's partition was when it was last in
    sync: so far its log is known to go."""

    recorded: PolicyFigures = field(default_factory=PolicyFigures)
    instead: PolicyFigures = field(default_factory=PolicyFigures)
    causes: dict[PartitionKey, str | None] = field(default_factory=dict)
    differences: list[LeaderDifference] = field(default_factory=list)
    reach: dict[tuple[PartitionKey, BrokerId], PartitionRegistration] = field(default_factory=dict)
    _counted: dict[PartitionKey, tuple[PartitionRegistration, PartitionRegistration]] = field(
        default_factory=dict
    )
    _open: dict[PartitionKey, LeaderDifference] = field(default_factory=dict)

    def leaderless(self) -> list[PartitionKey]:
        """Return the partitions that have no leader in the simulated timeline."""
        return sorted(key for key, each in self._open.items() if each.instead is None)

    def note(
        self,
        keys: Iterable[PartitionKey],
        recorded: MetadataImage,
        instead: MetadataImage,
        dead: Container[BrokerId | None],
        time: datetime,
    ) -> None:
        """Count where both timelines stand in `keys`."""
        for key in sorted(keys):
            was, would = recorded.partition(key), instead.partition(key)
            before = self._counted.pop(key, None)
            if was is None or would is None:
                self._end(key, time)
                continue
            self._counted[key] = was, would
            if before is not None:
                _count_elections(self.recorded, before[0], was)
                _count_elections(self.instead, before[1], would)
            self.reach.update({(key, broker_id): would for broker_id in would.isr})
            last, cause = self._open.get(key), self.causes.get(key)
            if last is not None and last.instead == would.leader:
                cause = last.cause  # it is the recorded leader that changed, if any
            name, is_dead = instead.name_of(key), would.leader in dead
            now = LeaderDifference(name, time, time, was.leader, would.leader, is_dead, cause)
            if last is None or replace(now, start=last.start, end=last.end) != last:
                self._end(key, time)
                self._open[key] = now

    def _end(self, key: PartitionKey, time: datetime) -> None:
        """Count the time for which a partition had the leaders that it had last."""
        if key not in self._open:
            return
        last = replace(self._open.pop(key), end=time)
        is_offline = last.instead is None or last.is_instead_dead
        self.recorded.offline_seconds += last.seconds * (last.recorded is None)
        self.instead.offline_seconds += last.seconds * is_offline
        if last.seconds and (last.recorded != last.instead or last.is_instead_dead):
            self.differences.append(last)

    def close(self, time: datetime) -> None:
        """End what has not ended."""
        for key in sorted(self._open):
            self._end(key, time)
        self.differences.sort(key=lambda each: (each.start, each.name))


def _count_elections(
    figures: PolicyFigures, before: PartitionRegistration, now: PartitionRegistration
) -> None:
    figures.elections += now.leader_epoch - before.leader_epoch
    if now.unclean_generation > before.unclean_generation:
        figures.unclean_elections += 1
        figures.lost_records_max += max(before.high_watermark - now.high_watermark, 0)


class _Replay:
    """Advances two images batch by batch: the recorded one, and `_instead`, the simulated one."""

    def __init__(self, policy: Mapping[str, str]) -> None:
        self._policy = policy
        self._recorded = MetadataImage()
        self._instead = MetadataImage(configs=policy)
        self._time_ms = 0
        self._pending_fences: dict[BrokerId, tuple[int, str]] = {}  # due time and cause
        self._changed_keys: set[PartitionKey] = set()
        self._tally = _Tally()

    def take(self, batch: MetadataBatch) -> None:
        """Replay one recorded batch."""
        # Clocks of committers differ; what is counted here must not go back.
        self._time_ms = max(self._time_ms, batch.stamp.time_ms)
        self._fence_due()
        # A controller's record ends its pass: by now it has decided all that it could.
        if any(isinstance(each, ControllerRecord) for each in batch.records):
            self._elect()
        before, self._recorded = self._recorded, self._recorded.replay(batch)
        self._replay_facts(before, batch)
        self._count(self._time_ms)

    def result(self) -> PolicyReplay:
        """Return what differs, once every batch is replayed."""
        self._fence_due()
        self._elect()
        tally = self._tally
        tally.close(time_of(self._time_ms))
        return PolicyReplay(
            policy=self._policy,
            differences=tuple(tally.differences),
            recorded=tally.recorded,
            instead=tally.instead,
            caveats=tuple(CAVEATS[name] for name in ("", *self._policy)),
        )

    # Facts

    def _replay_facts(self, before: MetadataImage, batch: MetadataBatch) -> None:
        """Apply the facts of a batch, and make its decisions again."""
        brokers = [each for each in batch.records if isinstance(each, BrokerChangeRecord)]
        # The pass of an append decides for its partitions, and for no others.
        is_small = is_of_append(batch)
        for each in brokers:
            self._replay_broker(before, each, is_small=is_small)
        # A broker's failure or return is decided again as a whole, with all its partitions.
        is_decided = not is_small and any(
            BrokerState.FENCED in (each.broker_state, before.brokers[each.broker_id].state)
            for each in brokers
        )
        records: list[Record] = []
        for record in batch.records:
            if isinstance(record, PartitionChangeRecord):
                if not is_decided:
                    records += self._replay_change(before, record)
            elif isinstance(record, HighWatermarkRecord):
                records += self._replay_high_watermark(before, record)
            elif isinstance(record, RemoveTopicRecord):
                self._changed_keys |= _keys(before, record)
                records.append(record)
            elif not isinstance(record, BrokerChangeRecord) and not self._is_overruled(record):
                records.append(record)
        self._apply(records)

    def _is_overruled(self, record: Record) -> bool:
        return isinstance(record, ConfigRecord) and record.config_name in self._policy

    def _replay_broker(
        self, before: MetadataImage, record: BrokerChangeRecord, *, is_small: bool
    ) -> None:
        broker_id, cause = record.broker_id, record.cause or ""
        self._changed_keys |= {
            key for key, each in before.partitions() if broker_id in each.replicas
        }
        if record.broker_state is BrokerState.FENCED:
            self._replay_failure(before, broker_id, cause)
        elif before.brokers[broker_id].state is BrokerState.FENCED:
            self._pending_fences.pop(broker_id, None)
            returned = unfence_broker(self._instead, broker_id, cause).records
            self._apply([record] if is_small else returned)
        else:
            self._apply([record])

    def _replay_failure(self, before: MetadataImage, broker_id: BrokerId, cause: str) -> None:
        recorded_ms = before.settings().integer(SESSION)
        simulated_ms = self._instead.settings().integer(SESSION)
        # So long nobody had noticed.
        unnoticed_ms = min(recorded_ms, simulated_ms)
        tally, instead = self._tally, self._instead
        tally.recorded.offline_seconds += recorded_ms / 1000 * _led_by(broker_id, before)
        tally.instead.offline_seconds += unnoticed_ms / 1000 * _led_by(broker_id, instead)
        if simulated_ms > recorded_ms:
            self._pending_fences[broker_id] = (self._time_ms + simulated_ms - recorded_ms, cause)
        else:
            self._apply(fence_broker(self._instead, broker_id, cause).records)

    def _fence_due(self) -> None:
        """Fence the brokers whose longer simulated session has ended by now."""
        for broker_id, (due_ms, cause) in sorted(
            self._pending_fences.items(), key=lambda item: item[1]
        ):
            if due_ms <= self._time_ms:
                del self._pending_fences[broker_id]
                self._apply(fence_broker(self._instead, broker_id, cause).records)
                self._count(due_ms)

    def _replay_change(self, before: MetadataImage, record: PartitionChangeRecord) -> list[Record]:
        was, now = before.partition(record.key), self._recorded.partition(record.key)
        simulated = self._instead.partition(record.key)
        self._changed_keys.add(record.key)
        if was is None or now is None or simulated is None:
            return [record]  # this very batch creates or removes it
        is_same = _grounds(simulated) == _grounds(was)
        if record.change.unclean_generation is not KEEP:
            allows = is_unclean_allowed(self._instead, record.topic_id)
            return [record] if is_same and allows else []
        # With another minimum, other replicas are eligible once the ISR shrinks.
        minima = (min_isr(each, record.topic_id, now) for each in (self._instead, self._recorded))
        is_same = is_same and len(set(minima)) == 1
        redecided = record if is_same else _redecide(self._instead, record, was, now)
        return [] if redecided is None else [redecided]

    def _replay_high_watermark(
        self, before: MetadataImage, record: HighWatermarkRecord
    ) -> list[Record]:
        was, now = before.partition(record.key), self._recorded.partition(record.key)
        simulated = self._instead.partition(record.key)
        self._changed_keys.add(record.key)
        if was is None or now is None or simulated is None:
            return [record]
        if now == was:
            return []
        joining = _catch_up_as_recorded(self._instead, record.key, now)
        in_sync = len(simulated.isr) if joining is None else len(simulated.isr | now.isr)
        raised = now.high_watermark - was.high_watermark
        is_led = simulated.leader is not None and simulated.leader not in self._pending_fences
        if raised > 0 and not (
            is_led and in_sync >= min_isr(self._instead, record.topic_id, simulated)
        ):
            self._tally.instead.refused_records += raised
            return []
        # The recorded log start may lie above records that the simulation has refused.
        mark = max(record.high_watermark or 0, simulated.high_watermark)
        start = record.log_start_offset
        here = replace(
            record,
            leader_epoch=simulated.leader_epoch,
            partition_epoch=PartitionEpoch(simulated.partition_epoch + (joining is not None)),
            log_start_offset=None if start is None else Offset(min(start, mark)),
        )
        return [here] if joining is None else [joining, here]

    # Decisions

    def _elect(self) -> None:
        """Elect leaders for simulated partitions that have none at the end of a pass."""
        missing = [key for key in self._tally.leaderless() if self._can_differ(key)]
        if not missing:
            return
        eligible = self._instead.eligible_brokers()
        clean = elect_where_none(self._instead, eligible, "an in-sync replica can lead again")
        self._apply([each for each in clean.records if _key_of(each) in missing])
        self._apply(
            recover(self._instead, _known_inspections(self._instead, missing, self._tally)).records
        )
        self._count(self._time_ms)

    def _can_differ(self, key: PartitionKey) -> bool:
        """Return whether an election could end differently from the recorded one."""
        simulated, recorded = self._instead.partition(key), self._recorded.partition(key)
        if simulated is None or recorded is None or simulated.leader is not None:
            return False
        allows = is_unclean_allowed(self._instead, key.topic_id)
        allowed = is_unclean_allowed(self._recorded, key.topic_id)
        return _grounds(simulated) != _grounds(recorded) or allows != allowed

    def _apply(self, records: Sequence[Record]) -> None:
        """Apply records to the simulated image."""
        if not records:
            return
        stamp = Stamp(time_ms=self._time_ms)
        batch = MetadataBatch(base_offset=self._instead.offset, stamp=stamp, records=tuple(records))
        self._instead = self._instead.replay(batch)
        for record in records:
            key = _key_of(record)
            if key is not None:
                self._changed_keys.add(key)
            if isinstance(record, PartitionChangeRecord):
                self._tally.causes[record.key] = record.cause

    def _count(self, time_ms: int) -> None:
        keys, dead = self._changed_keys, self._pending_fences
        self._tally.note(keys, self._recorded, self._instead, dead, time_of(time_ms))
        self._changed_keys = set()


def _key_of(record: Record) -> PartitionKey | None:
    kinds = PartitionRecord | PartitionChangeRecord | HighWatermarkRecord | RemovePartitionRecord
    return record.key if isinstance(record, kinds) else None


def _keys(image: MetadataImage, record: RemoveTopicRecord) -> set[PartitionKey]:
    topic = image.topics.get(record.topic_id)
    return {PartitionKey(record.topic_id, each) for each in (topic.partitions if topic else ())}


def _led_by(broker_id: BrokerId, image: MetadataImage) -> int:
    return sum(partition.leader == broker_id for _, partition in image.partitions())


def _grounds(partition: PartitionRegistration) -> tuple[object, ...]:
    """Return all that a decision on leader and ISR rests on."""
    return (
        *(partition.replicas, partition.directories, partition.isr, partition.elr),
        *(partition.leader, partition.adding_replicas, partition.removing_replicas),
    )


def _redecide(
    image: MetadataImage,
    record: PartitionChangeRecord,
    was: PartitionRegistration,
    now: PartitionRegistration,
) -> PartitionChangeRecord | None:
    """Return what `record`, which led from `was` to `now`, would have been in `image`.

    None: nothing would have changed. The assignment is as recorded. Replicas that left the ISR
    leave it, replicas that joined join it, and the recorded leader is chosen if it may lead.
    """
    simulated = image.partition(record.key)
    assert simulated is not None, "the caller asks of partitions that exist"
    eligible = image.eligible_brokers()
    isr = ((simulated.isr | (now.isr - was.isr) & eligible) - (was.isr - now.isr)).intersection(
        now.replicas
    )
    # The last member stays, unless it is assigned no more.
    isr = isr or simulated.isr.intersection(now.replicas) or now.isr
    stays = simulated.isr.intersection(now.replicas)
    may_lead = simulated.elr.intersection(now.replicas)
    moved = replace(now, isr=stays, elr=may_lead, leader=None)
    elr = eligible_replicas(moved, isr, min_isr_setting(image, record.topic_id)) - isr
    leader = simulated.leader if simulated.leader in stays & isr else None
    chosen = record.change.leader
    if isinstance(chosen, int) and chosen in isr & eligible:
        leader = chosen
    elif leader is None:
        elected = elect_leader(
            replace(moved, isr=isr, elr=elr), eligible=eligible, election=Election.ONLINE
        )
        # One from the ELR is elected when the pass ends.
        leader = elected if elected in isr else None
    change = replace(
        record.change,
        isr=KEEP if isr == simulated.isr else isr,
        elr=KEEP if elr == simulated.elr else elr,
        leader=KEEP if leader == simulated.leader else leader,
        compaction=KEEP,
    )
    if change == PartitionChange():
        return None
    return change_record(image, record.key, simulated, change, record.cause or "")


def _catch_up_as_recorded(
    image: MetadataImage, key: PartitionKey, recorded: PartitionRegistration
) -> PartitionChangeRecord | None:
    """Return the change that lets replicas join the ISR that are in sync in the record; None: no
    replica does.

    A timeline that differs from the record has other replicas out of sync, and the record does not
    say when they would have caught up. They count as caught up once the recorded partition
    commits with them.
    """
    simulated = image.partition(key)
    assert simulated is not None, "the caller asks of partitions that exist"
    joining = (recorded.isr - simulated.isr) & image.eligible_brokers()
    joining = frozenset(each for each in joining if simulated.is_created(each))
    if not joining or simulated.leader is None:
        return None
    minimum = min_isr_setting(image, key.topic_id)
    isr = simulated.isr | joining
    change = PartitionChange(isr=isr, elr=eligible_replicas(simulated, isr, minimum))
    return change_record(image, key, simulated, change, "caught up, as in the record")


def _known_inspections(
    image: MetadataImage, keys: Iterable[PartitionKey], tally: _Tally
) -> list[ReplicaInspection]:
    """Return what the metadata knows of replicas that could lead, as inspections of their logs.

    A replica has what was committed when it was last in sync, and perhaps more.
    """
    eligible = image.eligible_brokers()
    inspections = []
    for key in keys:
        simulated = image.partition(key)
        assert simulated is not None, "the caller asks of partitions that exist"
        for broker_id in simulated.replicas:
            if broker_id not in eligible or not simulated.is_created(broker_id):
                continue
            known = tally.reach.get((key, broker_id))
            end = Offset(0) if known is None else known.high_watermark
            epoch = None if known is None else known.high_watermark_epoch
            has_all = end >= simulated.high_watermark
            inspections.append(
                ReplicaInspection(
                    key=key,
                    broker_id=broker_id,
                    partition_epoch=simulated.partition_epoch,
                    high_watermark=simulated.high_watermark,
                    log_start_offset=simulated.log_start_offset,
                    log_end_offset=max(end, simulated.log_start_offset),
                    last_epoch=epoch,
                    epoch_below_high_watermark=epoch if has_all else None,
                    chain_digest=NO_CHAIN if known is None else known.high_watermark_chain,
                    chain_at_high_watermark=simulated.high_watermark_chain if has_all else None,
                )
            )
    return inspections
