"""What a broker's registration, failure (failover), return, draining and removal lead to.

One event, one commit: the failover of 10,000 partitions is one batch of records. Draining is
controlled shutdown (KIP-841's draining state), in steps that are each one commit: leaderships move
first, the broker leaves the ISRs after. The image alone says which step is next, so another
controller continues where the last one stopped.
"""

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Final

from kafka_on_spark.base.errors import (
    BrokerIdNotRegisteredError,
    DuplicateBrokerRegistrationError,
    InvalidRequestError,
)
from kafka_on_spark.base.ids import (
    BrokerEpoch,
    BrokerId,
    DirectoryId,
    Keep,
    PartitionKey,
    ReplicaUuid,
)
from kafka_on_spark.controller.election import (
    change_of_isr,
    change_record,
    change_records,
    elect_where_none,
    eligible_replicas,
    lost_change,
)
from kafka_on_spark.metadata.image import BrokerRegistration, ControllerResult, MetadataImage
from kafka_on_spark.metadata.partition import PartitionChange, PartitionRegistration
from kafka_on_spark.metadata.records import (
    BrokerChangeRecord,
    BrokerRecord,
    BrokerState,
    ControllerRecord,
    MetadataBatch,
    PartitionChangeRecord,
    Record,
    RefusedWrite,
    UnregisterBrokerRecord,
)
from kafka_on_spark.metadata.reports import min_isr, min_isr_setting

HOSTS_ENOUGH: Final = 2
"""A refusal that so many hosts meet is the root's fault, not that of one host."""

OF_APPEND: Final = "an append's own pass"
"""The cause of the claim of an append's pass, by which its commit is recognised later."""

SESSIONS_UNDISPUTED: Final = 10
"""For so many session timeouts a member that others have readmitted stays in, for an append."""


def register_broker(
    image: MetadataImage,
    broker_id: BrokerId,
    root: str,
    *,
    rack: str | None,
    directory_id: DirectoryId,
    cause: str,
) -> ControllerResult[BrokerEpoch]:
    """Decide a registration: a new broker, or another disk under a known id: then another broker
    epoch, and this broker's replicas lost, in one commit. `rack`: "" for none; None: as before."""
    known = image.brokers.get(broker_id)
    for other in image.brokers.values():
        is_taken = other.directory_id == directory_id or other.root == root
        if is_taken and other is not known:
            raise DuplicateBrokerRegistrationError(
                f"the root {root} is registered already, as broker {other.broker_id}:"
                " give each broker a root of its own"
            )
    if known is not None and known.directory_id == directory_id:
        raise DuplicateBrokerRegistrationError(
            f"broker {broker_id} is registered already, with this very root {known.root}:"
            " give a new broker another id, or this one another rack by brokers --alter"
        )
    if known is not None and known.state is not BrokerState.FENCED:
        raise DuplicateBrokerRegistrationError(
            f"broker {broker_id} is registered already, with the root {known.root}, and answers:"
            " another disk can take its place only after it was fenced"
        )
    last_epoch = image.past_brokers.get(broker_id, -1) if known is None else known.broker_epoch
    broker_epoch = BrokerEpoch(last_epoch + 1)
    records: list[Record] = [
        BrokerRecord(
            broker_id=broker_id,
            broker_epoch=broker_epoch,
            root=root,
            rack=known.rack if rack is None and known is not None else rack or None,
            directory_id=directory_id,
            broker_state=BrokerState.ACTIVE,
            cause=cause,
        )
    ]
    for key, partition in image.partitions_on(broker_id):
        if partition.is_created(broker_id):
            change = lost_change(image, partition, broker_id)
            records.append(change_record(image, key, partition, change, cause))
    return ControllerResult(records, broker_epoch)


def fence_broker(
    image: MetadataImage,
    broker_id: BrokerId,
    cause: str,
    refused: RefusedWrite | None = None,
) -> ControllerResult[list[PartitionKey]]:
    """Decide a broker's failure: it leads nothing and is in no ISR. Answer: the partitions it led.

    A new leader begins when an append or a fetch fences its table, which needs no controller.
    The last member of an ISR stays in it, without a leader: no other replica has its records. So a
    broker that answers, and only refuses writes (`refused`), is not fenced while it is that
    anywhere: its records can be read, and retention may give it room.
    """
    broker = image.brokers.get(broker_id)
    if broker is None or broker.state is BrokerState.FENCED:
        return ControllerResult([], [])
    if refused is not None and is_last_in_sync(image, broker_id):
        return ControllerResult([], [])
    records: list[Record] = [state_record(broker, BrokerState.FENCED, cause, refused)]
    eligible = image.eligible_brokers() - {broker_id}
    led: list[PartitionKey] = []
    # Thousands of partitions have few shapes. Each shape is decided and checked by a merge once,
    # since the change depends on nothing else.
    decided: dict[tuple[object, ...], PartitionChange | None] = {}
    for topic in image.topics.values():
        minimum = min_isr_setting(image, topic.topic_id)
        changed = []
        for number, partition in topic.partitions.items():
            if broker_id not in partition.isr:
                continue
            # Most images have none, and a broker may have ten thousand partitions.
            suspects = image.suspects and image.suspects.intersection(partition.replica_uuids)
            # All that `_leave_isr` reads.
            shape = (
                suspects,
                minimum,
                partition.replicas,
                partition.directories,
                partition.isr,
                partition.elr,
                partition.leader,
            )
            if shape not in decided:
                decided[shape] = _leave_isr(partition, broker_id, minimum, eligible, suspects)
            change = decided[shape]
            if change is not None:
                changed.append((number, partition, change))
        records.extend(change_records(topic, changed, cause))
        led.extend(
            PartitionKey(topic.topic_id, number)
            for number, partition, _ in changed
            if partition.leader == broker_id
        )
    return ControllerResult(records, led)


def _leave_isr(
    partition: PartitionRegistration,
    broker_id: BrokerId,
    min_isr: int,
    eligible: frozenset[BrokerId],
    suspects: frozenset[ReplicaUuid],
) -> PartitionChange | None:
    change = change_of_isr(
        partition,
        partition.isr - {broker_id},
        leader=None if partition.leader == broker_id else partition.leader,
        min_isr=min_isr,
        eligible=eligible,
        suspects=suspects,
    )
    if change is not None:
        partition.merge(change)  # to have it checked
    return change


def is_last_in_sync(image: MetadataImage, broker_id: BrokerId) -> bool:
    return any(each.isr == {broker_id} for _, each in image.partitions_on(broker_id))


def refusing_most(refusing: Collection[BrokerId], image: MetadataImage) -> bool:
    """Return whether more than half of the brokers refuse a process's writes: the fault may be its
    own, so it decides nothing by that."""
    return 2 * len(refusing) > len(image.brokers)


@dataclass(frozen=True, slots=True)
class GoneOn:
    """Which partitions that an append waits for go on without the brokers that fail; and why others
    stay as they are, in words."""

    moved: tuple[PartitionKey, ...] = ()
    kept: Mapping[PartitionKey, str] = field(default_factory=dict)


def leave_isrs(
    image: MetadataImage,
    failing: Mapping[BrokerId, str],
    only: Mapping[PartitionKey, PartitionRegistration],
    answering: frozenset[BrokerId],
    why: str,
) -> ControllerResult[GoneOn]:
    """Decide that failing brokers (each with its reason) leave ISRs and others lead: what a
    controller decides by a fence, for the partitions `only` and so that nothing is given up.

    No broker is fenced, no ISR falls below its minimum, nobody leads uncleanly, and whoever stays
    in an ISR is `answering`. A fenced one of these returns if it is to lead. A partition that has
    changed since it was tried, as `only` has it, is left alone.
    """
    records: list[Record] = []
    moved: list[PartitionKey] = []
    kept: dict[PartitionKey, str] = {}
    returned: set[BrokerId] = set()
    for key, tried in only.items():
        partition = image.partition(key)
        if partition is None or partition.partition_epoch != tried.partition_epoch:
            continue
        gone = partition.isr & failing.keys()
        if not gone and partition.leader is not None:
            continue
        change = _without(image, key, partition, gone, answering)
        if isinstance(change, str):
            kept[key] = change
            continue
        causes = [f"broker {each}: {failing[each]}" for each in sorted(gone)]
        cause = f"{'; '.join(causes) or 'nobody led'}; {why}"
        records.append(change_record(image, key, partition, change, cause))
        moved.append(key)
        leader = partition.merge(change).leader
        if leader is not None and not image.brokers[leader].is_online:
            returned.add(leader)
    returns = [
        state_record(image.brokers[each], BrokerState.ACTIVE, f"broker {each} answers; {why}")
        for each in sorted(returned)
    ]
    return ControllerResult([*returns, *records], GoneOn(tuple(moved), kept))


def _without(
    image: MetadataImage,
    key: PartitionKey,
    partition: PartitionRegistration,
    gone: frozenset[BrokerId],
    answering: frozenset[BrokerId],
) -> PartitionChange | str:
    """Return the change by which some leave an ISR and another leads; or why not, in words."""
    left, needed = partition.isr - gone, max(min_isr(image, key.topic_id, partition), 1)
    if gone and len(left) < needed:
        return (
            f"of the ISR {sorted(partition.isr)} there would be {len(left)} left, and"
            f" min.insync.replicas asks for {needed}"
        )
    if not left <= answering:
        mute = sorted(left - answering)
        return f"brokers {mute}, which would be left in the ISR, do not answer"
    change = change_of_isr(
        partition,
        left,
        leader=partition.leader if partition.leader in left else None,
        min_isr=min_isr_setting(image, key.topic_id),
        eligible=frozenset(
            each for each in left if image.brokers[each].state is not BrokerState.DRAINING
        ),
        suspects=image.suspects,
    )
    if change is None or partition.merge(change).leader is None:
        return (
            f"none of brokers {sorted(left)} may lead: let one lead again that drains, or inspect"
            " again what was found bad"
        )
    return change


def reached_by_others(before: MetadataImage, now: MetadataImage, broker_id: BrokerId) -> str | None:
    """Return what shows that another process has reached a broker between two images, in words.

    Whoever raises a high watermark has read the log of every member of the ISR, and whoever
    registers a broker, or puts its replica into an ISR, has read its disk.
    """
    was, is_now = before.brokers.get(broker_id), now.brokers.get(broker_id)
    if was is not None and is_now is not None and was.broker_epoch != is_now.broker_epoch:
        return "another disk was registered"
    for topic_id, topic in now.topics.items():
        earlier = before.topics.get(topic_id)
        if earlier is None or earlier is topic or earlier.partitions is topic.partitions:
            continue
        for number, partition in topic.partitions.where("replicas", frozenset({broker_id})):
            known = earlier.partitions.get(number)
            if known is None or known is partition or broker_id not in partition.isr:
                continue
            if broker_id not in known.isr:
                return f"{topic.name}-{number}: it was found caught up"
            if partition.high_watermark > known.high_watermark:
                return f"{topic.name}-{number}: the high watermark was raised"
    return None


def readmitted_at_ms(
    before: MetadataImage, batches: Iterable[MetadataBatch], key: PartitionKey, broker_id: BrokerId
) -> float:
    """Return when a replica last came back into its ISR after an append had taken it out, by
    `batches`, which continue `before`; -inf: it did not. One that was out before them counts as
    taken out by an append."""
    partition = before.partition(key)
    is_in = partition is None or broker_id in partition.isr
    by_append, at_ms = True, float("-inf")
    for batch in batches:
        for record in batch.records:
            if not isinstance(record, PartitionChangeRecord) or record.key != key:
                continue
            if isinstance(record.change.isr, Keep) or is_in == (broker_id in record.change.isr):
                continue
            is_in = not is_in
            if not is_in:
                by_append = is_of_append(batch)
            elif by_append:
                at_ms = batch.stamp.time_ms
    return at_ms


def is_of_append(batch: MetadataBatch) -> bool:
    first = batch.records[0]
    return isinstance(first, ControllerRecord) and first.cause == OF_APPEND


def note_refused(
    image: MetadataImage,
    refused: Mapping[BrokerId, RefusedWrite],
    only: Mapping[PartitionKey, PartitionRegistration],
    met_by: str,
) -> ControllerResult[GoneOn]:
    """Decide what an append does whose writes roots refuse, or a round, which waits for nothing.

    A root refuses only what was not written, so there is nothing to wait for: it leaves the ISRs of
    the partitions `only`. Whether the broker is fenced is the active controller's to say, which
    finds here which roots to ask.
    """
    if refusing_most(refused, image):
        return ControllerResult([], GoneOn())
    records: list[Record] = []
    for broker_id, met in refused.items():
        broker = image.brokers.get(broker_id)
        if broker is None or not broker.is_online:
            continue
        known = broker.refused
        hosts = met.hosts if known is None else (*known.hosts, *met.hosts)
        hosts = tuple(dict.fromkeys(hosts))[:HOSTS_ENOUGH]
        if known is None or hosts != known.hosts:
            cause = f"broker {broker_id}: its root is {met}; met by {met_by}"
            seen = RefusedWrite(met.size_bytes, hosts)
            records.append(state_record(broker, broker.state, cause, seen))
    led = {key: each for key, each in only.items() if not each.isr.isdisjoint(refused)}
    words = {each: f"its root is {met}" for each, met in refused.items()}
    everyone = frozenset(image.brokers)
    gone_on = leave_isrs(image, words, led, everyone, f"met by {met_by}")
    return ControllerResult([*records, *gone_on.records], gone_on.response)


def alter_broker(
    image: MetadataImage, broker_id: BrokerId, rack: str, cause: str
) -> ControllerResult[None]:
    """Decide that a broker has another rack, or ("") none. Partitions that exist stay as placed."""
    broker = registered_broker(image, broker_id)
    if rack == (broker.rack or ""):
        return ControllerResult([], None)
    record = state_record(broker, broker.state, cause, broker.refused)
    return ControllerResult([replace(record, rack=rack)], None)


def forget_refused(
    image: MetadataImage, broker_id: BrokerId, cause: str
) -> ControllerResult[list[PartitionKey]]:
    """Decide that a broker that is not fenced takes writes again, of any size that is known."""
    broker = image.brokers.get(broker_id)
    if broker is None or not broker.is_online or broker.refused is None:
        return ControllerResult([], [])
    return ControllerResult([state_record(broker, broker.state, cause)], [])


def state_record(
    broker: BrokerRegistration,
    state: BrokerState,
    cause: str,
    refused: RefusedWrite | None = None,
) -> BrokerChangeRecord:
    return BrokerChangeRecord(
        broker_id=broker.broker_id,
        broker_epoch=broker.broker_epoch,
        broker_state=state,
        refused=refused,
        cause=cause,
    )


def unfence_broker(
    image: MetadataImage, broker_id: BrokerId, cause: str
) -> ControllerResult[list[PartitionKey]]:
    """Decide a broker's return: it rejoins ISRs only after its replicas have caught up. Answer:
    partitions that get a leader by it."""
    broker = image.brokers.get(broker_id)
    if broker is None or broker.state is not BrokerState.FENCED:
        return ControllerResult([], [])
    records: list[Record] = [state_record(broker, BrokerState.ACTIVE, cause)]
    elected = elect_where_none(image, image.eligible_brokers() | {broker_id}, cause)
    return ControllerResult([*records, *elected.records], elected.response)


def drain_broker(
    image: MetadataImage, broker_id: BrokerId, cause: str
) -> ControllerResult[list[PartitionKey]]:
    """Decide that a broker takes no leadership any more and hands over those it has.

    Answer: the partitions that another broker leads now. A partition that no other replica in sync
    can lead stays with it, until `continue_draining` moves it; there it also leaves the ISRs, in a
    later commit. Source: ControlledShutdownPartitionLeaderElectionStrategy.
    """
    broker = registered_broker(image, broker_id)
    if broker.state is BrokerState.FENCED:
        raise InvalidRequestError(
            f"broker {broker_id} is fenced, so it leads nothing: drain one that is active, or bring"
            " it back first"
        )
    records: list[Record] = []
    if broker.state is not BrokerState.DRAINING:
        records.append(state_record(broker, BrokerState.DRAINING, cause))
    draining = _draining(image) | {broker_id}
    moved = _hand_over_leaderships(image, records, draining, cause)
    return ControllerResult(records, moved)


def continue_draining(image: MetadataImage) -> ControllerResult[list[PartitionKey]]:
    """Decide the next step of all draining brokers. Answer: partitions whose leader moves.

    Leaderships move first; in a commit without any, draining followers leave the ISRs. The last
    member of an ISR stays in it, and a leader without a successor leads on: no partition goes
    offline.
    """
    draining = _draining(image)
    if not draining:
        return ControllerResult([], [])
    names = ", ".join(str(each) for each in sorted(draining))
    records: list[Record] = []
    moved = _hand_over_leaderships(image, records, draining, f"broker {names}: draining")
    if moved:
        return ControllerResult(records, moved)
    cause = f"broker {names}: draining, leads nothing here and leaves the ISR"
    for key, partition in image.partitions_on(*draining, field="isr"):
        leaving = (partition.isr & draining) - {partition.leader}
        rest = partition.isr - leaving
        if leaving and rest and partition.leader is not None:
            elr = eligible_replicas(partition, rest, min_isr(image, key.topic_id, partition))
            change = PartitionChange(isr=rest, elr=elr)
            records.append(change_record(image, key, partition, change, cause))
    return ControllerResult(records, [])


def resume_broker(image: MetadataImage, broker_id: BrokerId, cause: str) -> ControllerResult[None]:
    """Decide that a draining broker may lead and be in sync again; nothing if it is active."""
    broker = registered_broker(image, broker_id)
    if broker.state is BrokerState.FENCED:
        raise InvalidRequestError(
            f"broker {broker_id} is fenced, not draining: it comes back once its root answers"
        )
    if broker.state is BrokerState.ACTIVE:
        return ControllerResult([], None)
    return ControllerResult([state_record(broker, BrokerState.ACTIVE, cause)], None)


def unregister_broker(
    image: MetadataImage, broker_id: BrokerId, cause: str
) -> ControllerResult[None]:
    broker = check_empty(image, broker_id)
    record = UnregisterBrokerRecord(
        broker_id=broker_id, broker_epoch=broker.broker_epoch, cause=cause
    )
    return ControllerResult([record], None)


def check_empty(image: MetadataImage, broker_id: BrokerId) -> BrokerRegistration:
    """Return the registration of a broker that has no replicas."""
    broker = registered_broker(image, broker_id)
    held = [key for key, _ in image.partitions_on(broker_id)]
    if held:
        raise InvalidRequestError(
            f"broker {broker_id} has replicas of {len(held)} partitions, {image.name_of(held[0])}"
            " among them: only an empty broker can be unregistered, reassign them to others first"
        )
    return broker


def registered_broker(image: MetadataImage, broker_id: BrokerId) -> BrokerRegistration:
    broker = image.brokers.get(broker_id)
    if broker is None:
        raise BrokerIdNotRegisteredError(
            f"there is no broker {broker_id}: name a registered one ({sorted(image.brokers)})"
        )
    return broker


def _draining(image: MetadataImage) -> frozenset[BrokerId]:
    return frozenset(
        each for each, broker in image.brokers.items() if broker.state is BrokerState.DRAINING
    )


def _hand_over_leaderships(
    image: MetadataImage, records: list[Record], draining: frozenset[BrokerId], cause: str
) -> list[PartitionKey]:
    """Append records that move leaderships off `draining` brokers; return the partitions."""
    eligible = image.eligible_brokers() - draining
    moved = []
    for key, partition in image.partitions_on(*draining, field="isr"):  # a leader always is in it
        if partition.leader not in draining:
            continue
        # Not elect_leader: if the ISR has no other member, the leader leads on.
        successor = next(
            (
                each
                for each in partition.replicas
                if each in partition.isr & eligible
                and partition.uuid_of(each) not in image.suspects
            ),
            None,
        )
        if successor is None:
            continue
        change = PartitionChange(leader=successor)
        records.append(change_record(image, key, partition, change, cause))
        moved.append(key)
    return moved
