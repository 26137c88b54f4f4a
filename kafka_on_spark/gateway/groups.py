"""Members of groups that speak Kafka's protocols, in the cluster's own groups.

A group's partitions are shared out as ever, by the cluster and by no member. So a client of the
classic protocol that joins is told that somebody else leads, and gets its part by SyncGroup; its
generation is the member's epoch. Where its part is to change, a heartbeat says
REBALANCE_IN_PROGRESS, and it joins again with what it still reads: nothing, if its assignor is an
eager one. A client of KIP-848's protocol says what it holds, and is told its part, by heartbeats.

Each answer follows the commit that it tells. Only when a member was heard, and by which protocol,
is not in the log: one gateway coordinates a group, and one that takes over gives each member a
whole session.

Source: GroupMetadataManager.classicGroupJoinToConsumerGroup, and those of SyncGroup, Heartbeat;
consumerGroupHeartbeat.
"""

import logging
import struct
import threading
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from io import BytesIO
from typing import Any, Final, NamedTuple, TypeVar

from kio.index import load_entity_module
from kio.schema.errors import ErrorCode
from kio.serial import entity_reader, entity_writer
from kio.static.constants import EntityType

from kafka_on_spark.base.errors import (
    ClusterClosedError,
    FencedMemberEpochError,
    KafkaOnSparkError,
    StaleMemberEpochError,
)
from kafka_on_spark.base.ids import NO_EPOCH, GroupEpoch, MemberId, PartitionKey, TopicPartition
from kafka_on_spark.gateway.gateways import Gateways
from kafka_on_spark.gateway.wire import RefusedError
from kafka_on_spark.groups.liveness import Liveness
from kafka_on_spark.groups.membership import (
    fence,
    is_to_share,
    join,
    leave,
    reconcile,
    share_out,
    subscribe,
)
from kafka_on_spark.groups.offsets import Membership, check_group, save_offsets
from kafka_on_spark.metadata.image import (
    ConsumerGroup,
    Decide,
    GroupMember,
    MetadataImage,
    names_of,
    submit_if_due,
)
from kafka_on_spark.metadata.records import MemberClient
from kafka_on_spark.node.node import Node, heartbeats
from kafka_on_spark.store.deadlines import WakingClock

log = logging.getLogger(__name__)

T = TypeVar("T")

CONSUMER: Final = "consumer"
"""The type of a protocol by which partitions are shared out; others, as of Connect, are not."""

SHARE_MS: Final = 1_000
"""As long are two targets of a group apart. Source: group.consumer.assignment.interval.ms."""

LOOK_S: Final = 0.5
"""How often it is looked for members that are to beat, or are silent."""

_ILLEGAL: Final = ErrorCode.illegal_generation
_SUBSCRIPTION_MAX: Final = 3
_ASSIGNMENT: Final = 0


class Joined(NamedTuple):
    """A member's id and generation."""

    member_id: MemberId
    generation: GroupEpoch


@dataclass(slots=True)
class _Heard:
    """A member of which a client is connected, or was.

    Attributes:
        at_ms: When it was heard, by the clock of its liveness; it may be silent for `session_ms`.
        by: Which life of this gateway has heard it.
        stale: What another epoch is answered: which code depends on its protocol, of which its
            heartbeats tell; until then it is to try again.
        told: Of KIP-848's protocol: its part as it was told last.
        moved: The epoch that it came with as its epoch changed, and the one that it got.
    """

    liveness: Liveness
    at_ms: int
    session_ms: int
    by: MemberId | None
    beat_at_ms: int = 0
    stale: ErrorCode = ErrorCode.coordinator_load_in_progress
    told: frozenset[PartitionKey] | None = None
    moved: tuple[int, int] | None = None


class Groups:
    """The members whose clients a gateway hears. Threads may share it; calls block."""

    def __init__(self, node: Node, gateways: Gateways) -> None:
        self._node = node
        self._gateways = gateways
        self._metadata = node.metadata
        self._clock = WakingClock()
        self._lock = threading.Lock()
        self._heard: dict[tuple[str, MemberId], _Heard] = {}
        self._shared_at_ms: dict[str, int] = {}
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._run, name="gateway-groups", daemon=True)

    def begin(self) -> None:
        self._thread.start()

    def end(self) -> None:
        self._ended.set()

    # Requests of the classic protocol

    def join(
        self,
        group: str,
        member_id: str,
        protocols: Sequence[tuple[str, bytes]],
        *,
        protocol_type: str,
        instance_id: str | None,
        session_ms: int,
        client: MemberClient,
    ) -> Joined:
        """Have a client become a member, or follow what was shared out; return its generation."""
        check_group(group)
        self._check_coordinates(group)
        if protocol_type != CONSUMER or not protocols:
            raise RefusedError(ErrorCode.inconsistent_group_protocol)
        subscription = _subscription(protocols[0][1])
        topics = sorted(set(subscription.topics))
        me = MemberId(member_id or f"{client.client_id or CONSUMER}-{self._node.ids.new_uuid()}")
        known = self._metadata.catch_up().consumer_groups.get(group)
        if member_id:
            _member(known, me, instance_id)
        elif before := None if known is None else known.with_instance(instance_id):
            # A static member that was restarted takes its place at once. Source: KIP-345.
            self._submit(lambda image: leave(image, group, before.member_id, 0, returns=True))
            self._forget(group, before.member_id)
        self._hear(group, me, session_ms, instance_id).stale = _ILLEGAL
        self._submit(
            lambda image: join(
                image, group, member_id=me, topics=topics, instance_id=instance_id, client=client
            )
        )
        self._submit(lambda image: subscribe(image, group, me, topics))
        self._share(group)
        held = {
            PartitionKey(topic_id, number)
            for each in getattr(subscription, "owned_partitions", ())
            if (topic_id := self._metadata.image.topic_ids.get(each.topic)) is not None
            for number in each.partitions
        }
        member = self._follow(group, me, instance_id, lambda member: member.owned - held)
        return Joined(me, member.member_epoch)

    def sync(self, group: str, generation: int, member_id: str, instance_id: str | None) -> bytes:
        """Return the part of a member, encoded."""
        _, member = self.check_member(group, generation, member_id, instance_id, _ILLEGAL)
        return assignment(names_of(self._metadata.image, member.owned & member.target))

    def heartbeat(
        self, group: str, generation: int, member_id: str, instance_id: str | None
    ) -> None:
        """Hear a member. RefusedError: it is to join again, or is a member no more."""
        me = group, generation, member_id, instance_id, _ILLEGAL
        known, _ = self.check_member(*me)
        if is_to_share(self._metadata.image, known):
            self._share(group)
        known, member = self.check_member(*me)
        others = (each.owned for each in known.members.values() if each is not member)
        free = member.target.difference(member.owned, *others)
        if free or member.to_give_up or member.member_epoch != known.target_epoch:
            raise RefusedError(ErrorCode.rebalance_in_progress)

    # Requests of KIP-848's protocol

    def beat(
        self, asked: Any, client: MemberClient
    ) -> tuple[GroupMember, frozenset[PartitionKey] | None]:
        """Have a member join, or hear it, by a ConsumerGroupHeartbeat; return it, and its part if
        that is news to it. What it is to give up it owns until it holds it no more; then it gets
        what is free of its part.

        Raises:
            FencedMemberEpochError: It is to let go all that it holds, and to join again.
            RefusedError: It is a member no more, or another has its place.
            And what `join` raises.
        """
        group, epoch, topics = asked.group_id, asked.member_epoch, asked.subscribed_topic_names
        check_group(group)
        self._check_coordinates(group)
        me, static = MemberId(asked.member_id or self._node.ids.new_uuid()), asked.instance_id
        if epoch == NO_EPOCH:
            self._submit(
                lambda image: join(
                    image,
                    group,
                    member_id=me,
                    topics=topics or (),
                    instance_id=static,
                    assignor=asked.server_assignor,
                    client=client,
                )
            )
        known, member, heard = self._me(group, epoch, me, static)
        heard.stale = ErrorCode.stale_member_epoch
        held: set[PartitionKey] | None = None
        if (parts := asked.topic_partitions) is not None:
            topic_ids = [(each.topic_id and each.topic_id.hex, each.partitions) for each in parts]
            held = {PartitionKey(name, each) for name, numbers in topic_ids for each in numbers}

        def stopped(member: GroupMember) -> frozenset[PartitionKey]:
            now = member.member_epoch
            # The answer with the new epoch was lost: then it holds nothing that is new. Source:
            # GroupMetadataManager.throwIfConsumerGroupMemberEpochIsInvalid.
            is_again = heard.moved == (epoch, now) and held is not None and held <= member.owned
            if epoch not in (NO_EPOCH, now) and not is_again:
                raise FencedMemberEpochError(
                    f"the member is at epoch {now}, not at {epoch}: let go all, and join again"
                )
            return frozenset() if held is None else member.owned - held

        stopped(member)
        if topics is not None and {*topics} != {*member.subscribed_topics}:
            self._submit(lambda image: subscribe(image, group, me, topics))
        image = self._metadata.image
        if is_to_share(image, image.consumer_groups.get(group, known)):
            self._share(group)
        member = self._follow(group, me, static, stopped)
        if member.member_epoch != epoch:
            heard.moved = (epoch, member.member_epoch)
        # One that says all has joined, or has had no answer.
        before = None if topics is not None and held is not None else heard.told
        heard.told = member.owned & member.target
        return member, heard.told if heard.told != before else None

    # Requests of both

    def check_member(
        self, group: str, epoch: int, me: str, instance_id: str | None, stale: ErrorCode | None
    ) -> tuple[ConsumerGroup, GroupMember]:
        """Hear a member; return its group and itself. RefusedError: it is none, or, by `stale`, if
        its protocol is known, at another epoch."""
        known, member, heard = self._me(group, epoch, me, instance_id)
        heard.stale = stale or heard.stale
        if member.member_epoch != epoch:
            raise RefusedError(heard.stale)
        return known, member

    def leave(
        self, group: str, member_id: str, instance_id: str | None, *, returns: bool = False
    ) -> None:
        """Have a member leave; a static one is named by its instance alone, and may return."""
        known = self._metadata.catch_up().consumer_groups.get(group)
        if known is not None and instance_id is not None and not member_id:
            static = known.with_instance(instance_id)
            member_id = "" if static is None else static.member_id
        me = _member(known, MemberId(member_id), instance_id).member_id
        now_ms = self._node.clock.now_ms()
        self._submit(lambda image: leave(image, group, me, now_ms, returns=returns))
        self._forget(group, me)

    def commit(
        self,
        group: str,
        generation: int,
        member_id: str,
        instance_id: str | None,
        offsets: Mapping[PartitionKey, int],
    ) -> None:
        """Save offsets of a member; or of a client that is none, while the group has no members."""
        check_group(group)
        membership, stale = None, ErrorCode.stale_member_epoch
        if generation >= 0 or member_id:
            _, member, heard = self._me(group, generation, member_id, instance_id)
            membership, stale = Membership(member.member_id, GroupEpoch(generation)), heard.stale
        now_ms = self._node.clock.now_ms()
        try:
            self._submit(lambda image: save_offsets(image, group, offsets, membership, now_ms))
        except StaleMemberEpochError as error:
            raise RefusedError(stale) from error

    # Members

    def _me(
        self, group: str, generation: int, member_id: str, instance_id: str | None
    ) -> tuple[ConsumerGroup, GroupMember, _Heard]:
        """Hear a member; return its group, itself and what was heard, by the newest image if it is
        not there by this one, or is further than that."""
        me, image = MemberId(member_id), self._metadata.image
        self._check_coordinates(group)
        for newest in (image, None):
            known = (newest or self._metadata.catch_up()).consumer_groups.get(group)
            found = None if known is None else known.members.get(me)
            if found is not None and found.member_epoch == generation:
                break
        member = _member(known, me, instance_id)
        assert known is not None, "it has the member"
        return known, member, self._hear(group, me, None, member.instance_id)

    def _follow(
        self,
        group: str,
        me: MemberId,
        instance_id: str | None,
        stopped: Callable[[GroupMember], frozenset[PartitionKey]],
    ) -> GroupMember:
        """Have a member give up what it has stopped to read and is not to own, and take what is
        free; return it. Its epoch is told to its client, so it moves though its part stays."""

        def decide(image: MetadataImage) -> Any:
            member = _member(image.consumer_groups.get(group), me, instance_id)
            return reconcile(image, group, me, member.member_epoch, stopped(member))

        submit_if_due(self._metadata.image, decide, self._submit)
        return _member(self._metadata.image.consumer_groups.get(group), me, instance_id)

    def _check_coordinates(self, group: str) -> None:
        if not self._gateways.coordinates(self._metadata.image, group):
            raise RefusedError(ErrorCode.not_coordinator)

    def _hear(
        self, group: str, me: MemberId, session_ms: int | None, instance_id: str | None
    ) -> _Heard:
        """Note that a member lives; beat for it, if that was not done yet. `session_ms`: None: as
        it has said, or of the cluster."""
        with self._lock:
            heard = self._heard.get((group, me))
            if heard is not None:
                heard.at_ms, heard.by = self._clock.monotonic_ms(), self._gateways.me
                heard.session_ms = session_ms or heard.session_ms
                return heard
            liveness = Liveness(
                self._metadata,
                self._node.part(heartbeats),
                self._clock,
                group=group,
                max_poll_interval_ms=2**31,
                timeout_ms=self._node.timeout_ms,
                new_id=self._node.ids.new_uuid,
            )
            now_ms, by = self._clock.monotonic_ms(), self._gateways.me
            heard = _Heard(liveness, now_ms, session_ms or liveness.session_ms, by)
            self._heard[group, me] = heard
        liveness.begin(me, instance_id)
        return heard

    def _forget(self, group: str, me: MemberId) -> None:
        with self._lock:
            heard = self._heard.pop((group, me), None)
        if heard is not None:
            heard.liveness.end()

    def _share(self, group: str) -> None:
        """Have a group's partitions shared out, if they are to be: of many members that come at
        once few wait for a target of their own."""
        while not self._ended.is_set():
            image = self._metadata.catch_up()
            known = image.consumer_groups.get(group)
            if known is None or not is_to_share(image, known):
                return
            now_ms = self._clock.monotonic_ms()
            due_ms = self._shared_at_ms.get(group, now_ms - SHARE_MS) + SHARE_MS
            if known.target_epoch == NO_EPOCH or now_ms >= due_ms:
                self._shared_at_ms[group] = now_ms
                self._submit(lambda newest: share_out(newest, group))
                return
            self._ended.wait(min(due_ms - now_ms, SHARE_MS / 10) / 1000)

    def _submit(self, decide: Decide[T]) -> T:
        return self._metadata.submit(decide, timeout_ms=self._node.timeout_ms)

    # Who lives

    def _run(self) -> None:
        while not self._ended.wait(LOOK_S):
            with self._lock:
                heard = list(self._heard.items())
            for (group, me), each in heard:
                try:
                    self._look(group, me, each)
                except ClusterClosedError:
                    return
                except KafkaOnSparkError as error:
                    log.warning("member %s of group %r: %s", me, group, error)
                except Exception:
                    log.exception("member %s of group %r could not be looked after", me, group)

    def _look(self, group: str, me: MemberId, heard: _Heard) -> None:
        """Beat for a member that is heard, and check those behind it; fence one that is silent."""
        now_ms = self._clock.monotonic_ms()
        silent_ms = now_ms - heard.at_ms
        is_silent = silent_ms > heard.session_ms
        image = self._metadata.catch_up() if is_silent else self._metadata.image
        if heard.by != self._gateways.me or not self._gateways.coordinates(image, group):
            self._forget(group, me)  # another gateway hears it, or has meanwhile
        elif is_silent:
            time_ms = self._node.clock.now_ms()
            self._submit(lambda image: fence(image, group, {me: silent_ms}, time_ms))
            self._forget(group, me)
            log.warning("member %s of group %r was not heard for %d ms", me, group, silent_ms)
        elif now_ms >= heard.beat_at_ms:
            heard.beat_at_ms = now_ms + heard.liveness.interval_ms
            heard.liveness.polled_at_ms = now_ms
            heard.liveness.beat()
            heard.liveness.check()


def _member(known: ConsumerGroup | None, me: MemberId, instance_id: str | None) -> GroupMember:
    """Return a member. RefusedError: there is none of that id, or its place is another's."""
    member = None if known is None else known.members.get(me)
    static = None if known is None else known.with_instance(instance_id)
    if static is not None and static is not member:
        raise RefusedError(ErrorCode.fenced_instance_id)
    if member is None:
        raise RefusedError(ErrorCode.unknown_member_id)
    return member


# What members say of themselves, and are told


@cache
def _schema(name: str, version: int) -> Any:
    return load_entity_module(name, version, EntityType.data)


def _subscription(content: bytes) -> Any:
    """Return what a consumer says when it joins. Source: ConsumerProtocol."""
    try:
        [version] = struct.unpack_from(">h", content)
        types = _schema("consumer_protocol_subscription", min(version, _SUBSCRIPTION_MAX))
        found, _ = entity_reader(types.ConsumerProtocolSubscription)(content, 2)
    except Exception as error:  # whatever bytes a client sends
        raise RefusedError(ErrorCode.inconsistent_group_protocol) from error
    return found


def assignment(partitions: Iterable[TopicPartition]) -> bytes:
    """Return what a consumer is told to read."""
    types = _schema("consumer_protocol_assignment", _ASSIGNMENT)
    numbers: defaultdict[str, list[int]] = defaultdict(list)
    for topic, number in sorted(partitions):
        numbers[topic].append(number)
    parts = tuple(
        types.TopicPartition(topic=name, partitions=tuple(each)) for name, each in numbers.items()
    )
    buffer = BytesIO()
    buffer.write(struct.pack(">h", _ASSIGNMENT))
    entity_writer(types.ConsumerProtocolAssignment)(
        buffer, types.ConsumerProtocolAssignment(assigned_partitions=parts, user_data=None)
    )
    return buffer.getvalue()
