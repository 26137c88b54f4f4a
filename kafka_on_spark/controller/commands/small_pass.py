"""What a waiting append may decide itself if no controller is active: a small pass.

It decides only for the partitions that it waits for: silent members leave their ISRs, a lost
member that is whole is taken back, and a member that answers leads. If all that are left are on
fenced brokers, the one that is to lead is unfenced. A small pass fences no broker, moves no replica
and gives up no record: a process that is cut off itself moves only the leaders of its own append.
It checks its facts with care, since the fault may be the process's own.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from kafka_on_spark.controller.commands.lease import next_controller_epoch
from kafka_on_spark.controller.partitions.min_isr import min_isr, min_isr_setting
from kafka_on_spark.controller.partitions.partition_change import change_of_isr, change_record
from kafka_on_spark.controller.result import ControllerResult
from kafka_on_spark.controller.verdicts.lost_replica_restore import WholeReplica, restore
from kafka_on_spark.ids import LOST, BrokerId, Keep, Offset, PartitionKey
from kafka_on_spark.metadata.broker import BrokerState
from kafka_on_spark.metadata.image import ControllerLease, MetadataImage
from kafka_on_spark.metadata.partition import PartitionChange, PartitionRegistration
from kafka_on_spark.metadata.records import (
    BrokerChangeRecord,
    ControllerRecord,
    MetadataBatch,
    PartitionChangeRecord,
    Record,
)

SMALL_PASS: Final = "a small pass of an append"
"""The cause of a small pass's claim, by which its commit is recognised later."""

SESSIONS_UNDISPUTED: Final = 10
"""For so many session timeouts a member that another process has readmitted stays in."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Facts:
    """What an append knows when it asks for a small pass.

    Attributes:
        waits: The partitions that it waits for, as of its last try.
        silent: Brokers whose session is over for this process, and why, in words.
        before: The image that this process had when the first of their probes failed.
        answering: Brokers that answered a probe of this very pass.
        readmitted: Replicas that another process has readmitted to the ISR lately.
        whole: Lost replicas that were found whole.
        reached_elsewhere: Brokers that tasks of this append have written to from other hosts.
        lease: The lease that this process has seen resigned or expired.
        controller_id: The name under which it claims.
        caller: Host and process, for the cause.
    """

    waits: Mapping[PartitionKey, PartitionRegistration]
    silent: Mapping[BrokerId, str]
    before: Mapping[BrokerId, MetadataImage]
    answering: frozenset[BrokerId]
    readmitted: frozenset[tuple[PartitionKey, BrokerId]] = frozenset()
    whole: Sequence[WholeReplica] = ()
    reached_elsewhere: frozenset[BrokerId] = frozenset()
    lease: ControllerLease | None
    controller_id: str
    caller: str


@dataclass(frozen=True, slots=True)
class SmallPass:
    """The result of a small pass.

    Attributes:
        decided: The partitions that it changes.
        refusals: Why it does nothing for others, by partition, in words.
        is_outdated: The facts are too old, or another process has claimed the controller role
            meanwhile: read the log, and try again.
    """

    decided: tuple[PartitionKey, ...] = ()
    refusals: Mapping[PartitionKey, str] = field(default_factory=dict)
    is_outdated: bool = False


def small_pass(image: MetadataImage, facts: Facts) -> ControllerResult[SmallPass]:
    """Decide for the partitions that an append waits for: claim, decision, resignation."""
    if image.controller != facts.lease:
        return ControllerResult([], SmallPass(is_outdated=True))
    if not image.settings().boolean("auto.controller"):
        refusals = dict.fromkeys(facts.waits, "auto.controller=false forbids it: run a controller")
        return ControllerResult([], SmallPass(refusals=refusals))
    changes: list[PartitionChangeRecord] = []
    decided: list[PartitionKey] = []
    refusals = {}
    for key, seen in facts.waits.items():
        partition = image.partition(key)
        if partition is None or not _is_as_seen(partition, seen):
            continue
        for record in _restored(image, facts, key, partition):
            changes.append(record)
            partition = partition.merge(record.change)
        change = _decide(image, facts, key, partition)
        if isinstance(change, str):
            refusals[key] = change
        elif change is not None:
            cause = _cause(facts, partition)
            changes.append(change_record(image, key, partition, change, cause))
            decided.append(key)
    returns = _unfenced(image, facts, changes)
    records = _claimed(image, facts, [*returns, *changes]) if changes else []
    return ControllerResult(records, SmallPass(tuple(decided), refusals))


def _restored(
    image: MetadataImage, facts: Facts, key: PartitionKey, partition: PartitionRegistration
) -> Sequence[PartitionChangeRecord]:
    """Return the record that takes a lost member of the ISR back, if there is no leader."""
    if partition.leader is not None:
        return []
    found = [each for each in facts.whole if each.key == key and each.broker_id in partition.isr]
    records = restore(image, found).records
    return [each for each in records if isinstance(each, PartitionChangeRecord)]


def _is_as_seen(partition: PartitionRegistration, seen: PartitionRegistration) -> bool:
    return (
        partition.leader_epoch == seen.leader_epoch
        and partition.partition_epoch == seen.partition_epoch
    )


def _decide(
    image: MetadataImage, facts: Facts, key: PartitionKey, partition: PartitionRegistration
) -> PartitionChange | str | None:
    """Return the change of one partition; why it can't change, in words; None: no need to."""
    silent = partition.isr & facts.silent.keys()
    if not silent and partition.leader is not None:
        return None
    left = partition.isr - silent
    refusal = next(
        (
            each
            for broker_id in sorted(silent)
            if (each := _own_fault(image, facts, key, broker_id)) is not None
        ),
        None,
    )
    if refusal is not None:
        return refusal
    needed = min_isr(image, key.topic_id, partition)
    # If no member is taken out, a leader alone helps: the others catch up with it.
    if silent and len(left) < max(needed, 1):
        return (
            f"of the ISR {sorted(partition.isr)} there would be {len(left)} left, and"
            f" min.insync.replicas asks for {needed}"
        )
    mute = left - facts.answering
    if mute:
        return f"{_named(mute)}, which would be left in the ISR, does not answer either"
    return _without(image, facts, key, partition, left)


def _own_fault(
    image: MetadataImage, facts: Facts, key: PartitionKey, broker_id: BrokerId
) -> str | None:
    """Return why a broker's silence may be this process's own fault, in words."""
    if broker_id in facts.reached_elsewhere:
        return (
            f"tasks on other hosts have written to broker {broker_id}, so the fault is of"
            f" {facts.caller}"
        )
    place = reached_by_others(facts.before[broker_id], image, broker_id)
    if place is not None:
        return f"others reach broker {broker_id} ({place}), so the fault is of {facts.caller}"
    if (key, broker_id) in facts.readmitted:
        return (
            f"another process reaches broker {broker_id} and has readmitted its replica to the"
            f" ISR, so the fault is of {facts.caller}"
        )
    return None


def _without(
    image: MetadataImage,
    facts: Facts,
    key: PartitionKey,
    partition: PartitionRegistration,
    left: frozenset[BrokerId],
) -> PartitionChange | str:
    answering = image.eligible_brokers() & facts.answering
    returning = frozenset(each for each in left & facts.answering if _is_fenced(image, each))
    for eligible in (answering, answering | returning):
        change = change_of_isr(
            partition,
            left,
            leader=partition.leader if partition.leader in left else None,
            min_isr=min_isr_setting(image, key.topic_id),
            eligible=eligible,
        )
        has_leader = partition.leader in left or (change is not None and _led_by(change))
        if change is not None and has_leader:
            return change
    return _no_leader(partition, left)


def _is_fenced(image: MetadataImage, broker_id: BrokerId) -> bool:
    broker = image.brokers.get(broker_id)
    return broker is not None and broker.state is BrokerState.FENCED


def _led_by(change: PartitionChange) -> BrokerId | None:
    return None if isinstance(change.leader, Keep) else change.leader


def _no_leader(partition: PartitionRegistration, left: frozenset[BrokerId]) -> str:
    return why_all_lost(partition) or (
        f"none of {_named(left)} may lead: let one that drains lead again, or run a controller"
    )


def why_all_lost(partition: PartitionRegistration) -> str | None:
    """Return what can be done if there is no leader and all replicas in sync are lost, in words;
    None if that is not so."""
    lost = [each for each in sorted(partition.isr) if partition.directory_of(each) == LOST]
    if partition.leader is not None or len(lost) < len(partition.isr):
        return None
    others = [
        each for each in partition.replicas if partition.is_created(each) and each not in lost
    ]
    what = f"the last replica in sync, on {_named(lost)}, is lost: give its disk back as it was"
    if not others:
        return f"{what}; there is no other replica, so without it the topic must be made anew"
    return (
        f"{what}, or run a controller, which finds out whether {_named(others)} has all committed"
        " records and may lead; where none has, an unclean election gives up what is lost"
        " (kafka-on-spark leader-election --election-type unclean)"
    )


def _unfenced(
    image: MetadataImage, facts: Facts, changes: Sequence[PartitionChangeRecord]
) -> list[Record]:
    """Return the records that unfence the brokers that are to lead."""
    leaders = {_led_by(each.change) for each in changes} - {None}
    return [
        BrokerChangeRecord(
            broker_id=broker.broker_id,
            broker_epoch=broker.broker_epoch,
            broker_state=BrokerState.ACTIVE,
            cause=f"broker {broker.broker_id} answers an append of {facts.caller}, and is to lead",
        )
        for broker in image.brokers.values()
        if broker.broker_id in leaders and broker.state is BrokerState.FENCED
    ]


def _named(broker_ids: Iterable[BrokerId]) -> str:
    return ", ".join(f"broker {each}" for each in sorted(broker_ids))


def _cause(facts: Facts, partition: PartitionRegistration) -> str:
    silent = sorted(partition.isr & facts.silent.keys())
    why = "; ".join(f"broker {each}: {facts.silent[each]}" for each in silent)
    return f"{why or 'nobody led'}; decided by an append of {facts.caller}: nobody controls"


def _claimed(image: MetadataImage, facts: Facts, changes: Sequence[Record]) -> list[Record]:
    """Return a decision with claim and resignation around it: one commit."""
    epoch = next_controller_epoch(image)
    claim = ControllerRecord(
        controller_id=facts.controller_id, controller_epoch=epoch, cause=SMALL_PASS
    )
    resignation = ControllerRecord(
        controller_id=facts.controller_id,
        controller_epoch=epoch,
        is_resignation=True,
        cause=f"{SMALL_PASS} is done",
    )
    return [claim, *changes, resignation]


def reached_by_others(before: MetadataImage, now: MetadataImage, broker_id: BrokerId) -> str | None:
    """Return which partition shows that a broker was reached between two images, in words; or None.

    A process that records a leader's log end has read that log. A process that raises a high
    watermark, or puts a replica into the ISR, has read every member's log.
    """
    for topic_id, topic in now.topics.items():
        earlier = before.topics.get(topic_id)
        if earlier is None or earlier is topic or earlier.partitions is topic.partitions:
            continue
        for number, partition in topic.partitions.replicas_on(broker_id):
            known = earlier.partitions.get(number)
            if known is not None and known is not partition:
                what = _how_reached(known, partition, broker_id)
                if what is not None:
                    return f"{topic.name}-{number}: {what}"
    return None


def _how_reached(
    before: PartitionRegistration, now: PartitionRegistration, broker_id: BrokerId
) -> str | None:
    if broker_id in now.isr - before.isr:
        return "it was found caught up"
    is_same = before.leader_epoch == now.leader_epoch
    if now.leader == broker_id and is_same and now.log_end_offset > before.log_end_offset:
        return "the log end that it leads to was raised"
    if broker_id in now.isr and now.high_watermark > before.high_watermark:
        return "the high watermark was raised"
    return None


def readmitted_by_others(
    before: MetadataImage,
    batches: Iterable[MetadataBatch],
    key: PartitionKey,
    broker_id: BrokerId,
    *,
    is_own: Callable[[Offset], bool],
) -> bool:
    """Return whether `batches`, which continue `before`, show that another process readmitted a
    replica to the ISR after a small pass had taken it out.

    A replica that was out before the first of them counts as taken out by a small pass.
    """
    partition = before.partition(key)
    is_in = partition is not None and broker_id in partition.isr
    by_small_pass = True
    for batch in batches:
        for record in batch.records:
            if not isinstance(record, PartitionChangeRecord) or record.key != key:
                continue
            isr = record.change.isr
            if isinstance(isr, Keep) or is_in == (broker_id in isr):
                continue
            is_in = not is_in
            if not is_in:
                by_small_pass = is_small_pass(batch)
            elif by_small_pass and not is_own(batch.base_offset):
                return True
    return False


def is_small_pass(batch: MetadataBatch) -> bool:
    """Return whether a commit is a small pass."""
    first = batch.records[0]
    return isinstance(first, ControllerRecord) and first.cause == SMALL_PASS
