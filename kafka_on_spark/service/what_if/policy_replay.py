"""Replays the recorded history under other settings, and says what would have been different.

The log holds facts and decisions. Facts stay as they are: brokers fail and return, replicas fall
behind and catch up, appends come. Decisions are made again, by the controller's own functions, on
an image that has the other settings. Only settings whose effect the log can tell are allowed: the
log does not say how far a replica lagged, and holds no outage that was too short to be noticed.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

from kafka_on_spark.config import check_settings
from kafka_on_spark.controller.brokers.broker_changes import fence_broker, unfence_broker
from kafka_on_spark.controller.commands.small_pass import is_small_pass
from kafka_on_spark.controller.partitions.election import is_unclean_allowed
from kafka_on_spark.controller.partitions.min_isr import MIN_ISR, min_isr
from kafka_on_spark.controller.partitions.recovery import elect_where_none, recover
from kafka_on_spark.errors import InvalidConfigError
from kafka_on_spark.ids import BrokerId, Offset, PartitionEpoch, PartitionKey
from kafka_on_spark.metadata.broker import BrokerState
from kafka_on_spark.metadata.image import MetadataImage
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
from kafka_on_spark.service.what_if.policy_changes import (
    catch_up_as_recorded,
    has_same_grounds,
    is_unclean,
    known_inspections,
    redecide,
)
from kafka_on_spark.service.what_if.policy_tally import LeaderDifference, PolicyFigures, PolicyTally
from kafka_on_spark.visible import visible

UNCLEAN: Final = "unclean.leader.election.enable"
SESSION: Final = "broker.session.timeout.ms"
DECIDABLE: Final = (UNCLEAN, MIN_ISR, SESSION)


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


class _Replay:
    """Advances two images batch by batch: the recorded one, and `_instead`, the simulated one."""

    def __init__(self, policy: Mapping[str, str]) -> None:
        self._policy = policy
        self._recorded = MetadataImage()
        self._instead = MetadataImage(configs=policy)
        self._time_ms = 0
        self._is_session_shorter = False
        self._pending_fences: dict[BrokerId, tuple[int, str]] = {}  # due time and cause
        self._changed_keys: set[PartitionKey] = set()
        self._tally = PolicyTally()

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
        tally.close(self._time_ms)
        return PolicyReplay(
            policy=self._policy,
            differences=tuple(tally.differences),
            recorded=tally.recorded.figures,
            instead=tally.instead.figures,
            caveats=self._caveats(),
        )

    def _caveats(self) -> tuple[str, ...]:
        sentences = [
            "when replicas would have caught up with other leaders; it is taken that they would"
            " have when they did"
        ]
        if UNCLEAN in self._policy:
            sentences.append(
                "how far replicas out of sync had come: an unclean election loses at most what"
                " was committed since they were last in sync"
            )
        if MIN_ISR in self._policy:
            sentences.append(
                "appends that were refused, and that a lower minimum would have let in"
            )
        if self._is_session_shorter:
            sentences.append("outages that were too short to be noticed: there may have been more")
        return tuple(sentences)

    # Facts

    def _replay_facts(self, before: MetadataImage, batch: MetadataBatch) -> None:
        """Apply the facts of a batch, and make its decisions again."""
        brokers = [each for each in batch.records if isinstance(each, BrokerChangeRecord)]
        # A small pass decides for the partitions of one append, and for no others.
        is_small = is_small_pass(batch)
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
        self._is_session_shorter |= simulated_ms < recorded_ms
        self._tally.add_undetected(
            recorded_ms / 1000 * _led_by(broker_id, before),
            min(recorded_ms, simulated_ms) / 1000 * _led_by(broker_id, self._instead),
        )
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
        is_same = has_same_grounds(simulated, was)
        if is_unclean(record):
            allows = is_unclean_allowed(self._instead, record.topic_id)
            return [record] if is_same and allows else []
        # With another minimum, other replicas are eligible once the ISR shrinks.
        minima = (min_isr(each, record.topic_id, now) for each in (self._instead, self._recorded))
        is_same = is_same and len(set(minima)) == 1
        redecided = record if is_same else redecide(self._instead, record, was, now)
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
        joining = catch_up_as_recorded(self._instead, record.key, now)
        in_sync = len(simulated.isr) if joining is None else len(simulated.isr | now.isr)
        raised = now.high_watermark - was.high_watermark
        is_led = simulated.leader is not None and simulated.leader not in self._pending_fences
        if raised > 0 and not (
            is_led and in_sync >= min_isr(self._instead, record.topic_id, simulated)
        ):
            self._tally.instead.figures.refused_records += raised
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
        missing = [key for key in sorted(self._tally.leaderless()) if self._can_differ(key)]
        if not missing:
            return
        eligible = self._instead.eligible_brokers()
        clean = elect_where_none(self._instead, eligible, "an in-sync replica can lead again")
        self._apply([each for each in clean.records if _key_of(each) in missing])
        self._apply(
            recover(self._instead, known_inspections(self._instead, missing, self._tally)).records
        )
        self._count(self._time_ms)

    def _can_differ(self, key: PartitionKey) -> bool:
        """Return whether an election could end differently from the recorded one."""
        simulated, recorded = self._instead.partition(key), self._recorded.partition(key)
        if simulated is None or recorded is None or simulated.leader is not None:
            return False
        allows = is_unclean_allowed(self._instead, key.topic_id)
        allowed = is_unclean_allowed(self._recorded, key.topic_id)
        return not has_same_grounds(simulated, recorded) or allows != allowed

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
        dead = frozenset(self._pending_fences)
        self._tally.note(self._changed_keys, self._recorded, self._instead, dead, time_ms)
        self._changed_keys = set()


def _key_of(record: Record) -> PartitionKey | None:
    kinds = PartitionRecord | PartitionChangeRecord | HighWatermarkRecord | RemovePartitionRecord
    return record.key if isinstance(record, kinds) else None


def _keys(image: MetadataImage, record: RemoveTopicRecord) -> set[PartitionKey]:
    topic = image.topics.get(record.topic_id)
    return {PartitionKey(record.topic_id, each) for each in (topic.partitions if topic else ())}


def _led_by(broker_id: BrokerId, image: MetadataImage) -> int:
    return sum(partition.leader == broker_id for _, partition in image.partitions())
