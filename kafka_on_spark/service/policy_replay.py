"""The recorded history decided again under other settings: what would have come out differently.

The log says what happened to brokers and replicas, and what was decided on it. What happened is
taken from it as it is: brokers fail and return, replicas fall behind and catch up, appends come.
What is a decision is taken again, by the controller's own functions, on an image that lives under
the other settings. Only settings whose effect the log can tell are allowed: how far a replica
lagged is not in it, nor is an outage that was too short to be noticed.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

from kafka_on_spark.config import check_settings
from kafka_on_spark.controller.brokers import elect_where_none, fence_broker, unfence_broker
from kafka_on_spark.controller.high_watermark import min_isr
from kafka_on_spark.controller.recovery import recover
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
from kafka_on_spark.service.policy_books import LeaderDifference, PolicyBooks, PolicyFigures
from kafka_on_spark.service.policy_changes import (
    caught_up,
    decided_anew,
    has_same_grounds,
    is_unclean,
    known_looks,
)
from kafka_on_spark.visible import visible

UNCLEAN: Final = "unclean.leader.election.enable"
MIN_ISR: Final = "min.insync.replicas"
SESSION: Final = "broker.session.timeout.ms"
DECIDABLE: Final = (UNCLEAN, MIN_ISR, SESSION)


@dataclass(frozen=True, slots=True, kw_only=True)
class PolicyReplay:
    """What differs under another policy.

    Attributes:
        policy: The settings that it was decided under.
        differences: Times in which others would have led, by time.
        recorded: What the log comes to.
        instead: What it would have come to.
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
    again = _Again(checked)
    for batch in batches:
        again.take(batch)
    return again.result()


class _Again:
    """Two images, the recorded one and the one that is decided again, batch by batch."""

    def __init__(self, policy: Mapping[str, str]) -> None:
        self._policy = policy
        self._recorded = MetadataImage()
        self._instead = MetadataImage(configs=policy)
        self._time_ms = 0
        self._is_session_shorter = False
        self._due: dict[BrokerId, tuple[int, str]] = {}  # failures that are not noticed yet
        self._touched: set[PartitionKey] = set()
        self._books = PolicyBooks()

    def take(self, batch: MetadataBatch) -> None:
        """Go on with one recorded decision."""
        # Clocks of committers differ; what is counted here must not go back.
        self._time_ms = max(self._time_ms, batch.stamp.time_ms)
        self._notice()
        # The end of a controller's pass: what it could have decided by now, it has.
        if any(isinstance(each, ControllerRecord) for each in batch.records):
            self._elect()
        before, self._recorded = self._recorded, self._recorded.replay(batch)
        self._follow(before, batch)
        self._note(self._time_ms)

    def result(self) -> PolicyReplay:
        """Return what differs, once all is taken."""
        self._notice()
        self._elect()
        books = self._books
        books.close(self._time_ms)
        return PolicyReplay(
            policy=self._policy,
            differences=tuple(books.differences),
            recorded=books.recorded.figures,
            instead=books.instead.figures,
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

    # What happened

    def _follow(self, before: MetadataImage, batch: MetadataBatch) -> None:
        """Apply the facts of a batch, and decide again what is a decision."""
        brokers = [each for each in batch.records if isinstance(each, BrokerChangeRecord)]
        for each in brokers:
            self._follow_broker(before, each)
        # A broker's failure and return are decided again as a whole, with all partitions.
        is_decided = any(
            BrokerState.FENCED in (each.broker_state, before.brokers[each.broker_id].state)
            for each in brokers
        )
        records: list[Record] = []
        for record in batch.records:
            if isinstance(record, PartitionChangeRecord):
                if not is_decided:
                    records += self._change(before, record)
            elif isinstance(record, HighWatermarkRecord):
                records += self._high_watermark(before, record)
            elif isinstance(record, RemoveTopicRecord):
                self._touched |= _keys(before, record)
                records.append(record)
            elif not isinstance(record, BrokerChangeRecord) and not self._is_overruled(record):
                records.append(record)
        self._commit(records)

    def _is_overruled(self, record: Record) -> bool:
        return isinstance(record, ConfigRecord) and record.config_name in self._policy

    def _follow_broker(self, before: MetadataImage, record: BrokerChangeRecord) -> None:
        broker_id, cause = record.broker_id, record.cause or ""
        self._touched |= {key for key, each in before.partitions() if broker_id in each.replicas}
        if record.broker_state is BrokerState.FENCED:
            self._fail(before, broker_id, cause)
        elif before.brokers[broker_id].state is BrokerState.FENCED:
            self._due.pop(broker_id, None)
            self._commit(unfence_broker(self._instead, broker_id, cause).records)
        else:
            self._commit([record])

    def _fail(self, before: MetadataImage, broker_id: BrokerId, cause: str) -> None:
        recorded_ms = before.settings().integer(SESSION)
        mine_ms = self._instead.settings().integer(SESSION)
        self._is_session_shorter |= mine_ms < recorded_ms
        self._books.undetected(
            recorded_ms / 1000 * _led_by(broker_id, before),
            min(recorded_ms, mine_ms) / 1000 * _led_by(broker_id, self._instead),
        )
        if mine_ms > recorded_ms:
            self._due[broker_id] = (self._time_ms + mine_ms - recorded_ms, cause)
        else:
            self._commit(fence_broker(self._instead, broker_id, cause).records)

    def _notice(self) -> None:
        """Fence the brokers whose longer session is over by now."""
        for broker_id, (due_ms, cause) in sorted(self._due.items(), key=lambda item: item[1]):
            if due_ms <= self._time_ms:
                del self._due[broker_id]
                self._commit(fence_broker(self._instead, broker_id, cause).records)
                self._note(due_ms)

    def _change(self, before: MetadataImage, record: PartitionChangeRecord) -> list[Record]:
        was, now = before.partition(record.key), self._recorded.partition(record.key)
        mine = self._instead.partition(record.key)
        self._touched.add(record.key)
        if was is None or now is None or mine is None:
            return [record]  # made or removed by this very batch: nothing was decided on it
        is_same = has_same_grounds(mine, was)
        if is_unclean(record):
            allows = self._instead.settings(record.topic_id).boolean(UNCLEAN)
            return [record] if is_same and allows else []
        # With another minimum, another one is eligible once the ISR shrinks.
        minima = (min_isr(each, record.topic_id, now) for each in (self._instead, self._recorded))
        is_same = is_same and len(set(minima)) == 1
        anew = record if is_same else decided_anew(self._instead, record, was, now)
        return [] if anew is None else [anew]

    def _high_watermark(self, before: MetadataImage, record: HighWatermarkRecord) -> list[Record]:
        was, now = before.partition(record.key), self._recorded.partition(record.key)
        mine = self._instead.partition(record.key)
        self._touched.add(record.key)
        if was is None or now is None or mine is None:
            return [record]
        if now == was:
            return []
        joining = caught_up(self._instead, record.key, now)
        in_sync = len(mine.isr) if joining is None else len(mine.isr | now.isr)
        raised = now.high_watermark - was.high_watermark
        is_led = mine.leader is not None and mine.leader not in self._due
        if raised > 0 and not (is_led and in_sync >= min_isr(self._instead, record.topic_id, mine)):
            self._books.instead.figures.refused_records += raised
            return []
        # What was refused here may be below the recorded log start.
        mark = max(record.high_watermark or 0, mine.high_watermark)
        start = record.log_start_offset
        here = replace(
            record,
            leader_epoch=mine.leader_epoch,
            partition_epoch=PartitionEpoch(mine.partition_epoch + (joining is not None)),
            log_start_offset=None if start is None else Offset(min(start, mark)),
        )
        return [here] if joining is None else [joining, here]

    # What would have been decided

    def _elect(self) -> None:
        """Decide leaders for partitions that have none here, though a pass is over."""
        missing = [key for key in sorted(self._books.leaderless()) if self._can_differ(key)]
        if not missing:
            return
        eligible = self._instead.eligible_brokers()
        clean = elect_where_none(self._instead, eligible, "an in-sync replica can lead again")
        self._commit([each for each in clean.records if _key_of(each) in missing])
        self._commit(
            recover(self._instead, known_looks(self._instead, missing, self._books)).records
        )
        self._note(self._time_ms)

    def _can_differ(self, key: PartitionKey) -> bool:
        """Return whether the record does not say already that nobody could lead."""
        mine, recorded = self._instead.partition(key), self._recorded.partition(key)
        if mine is None or recorded is None or mine.leader is not None:
            return False
        allows = self._instead.settings(key.topic_id).boolean(UNCLEAN)
        return not has_same_grounds(mine, recorded) or allows != self._recorded.settings(
            key.topic_id
        ).boolean(UNCLEAN)

    def _commit(self, records: Sequence[Record]) -> None:
        """Take records into the image that is decided again."""
        if not records:
            return
        stamp = Stamp(time_ms=self._time_ms)
        batch = MetadataBatch(base_offset=self._instead.offset, stamp=stamp, records=tuple(records))
        self._instead = self._instead.replay(batch)
        for record in records:
            key = _key_of(record)
            if key is not None:
                self._touched.add(key)
            if isinstance(record, PartitionChangeRecord):
                self._books.causes[record.key] = record.cause

    def _note(self, time_ms: int) -> None:
        dead = frozenset(self._due)
        self._books.note(self._touched, self._recorded, self._instead, dead, time_ms)
        self._touched = set()


def _key_of(record: Record) -> PartitionKey | None:
    kinds = PartitionRecord | PartitionChangeRecord | HighWatermarkRecord | RemovePartitionRecord
    return record.key if isinstance(record, kinds) else None


def _keys(image: MetadataImage, record: RemoveTopicRecord) -> set[PartitionKey]:
    topic = image.topics.get(record.topic_id)
    return {PartitionKey(record.topic_id, each) for each in (topic.partitions if topic else ())}


def _led_by(broker_id: BrokerId, image: MetadataImage) -> int:
    return sum(partition.leader == broker_id for _, partition in image.partitions())
