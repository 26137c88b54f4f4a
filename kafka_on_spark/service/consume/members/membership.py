"""A consumer as a member of its group: it joins, follows its target, and leaves.

The consumer's own thread calls it, between two calls that hand something out: so a partition is
given up when all that was handed out of it counts as processed. A member that may have been fenced
meanwhile asks the metadata log before it hands out more. Who was fenced forgets its positions
without a commit, and joins again under another id.
"""

import logging
from collections.abc import Callable, Mapping, Set
from dataclasses import dataclass
from typing import Final, Protocol

from kafka_on_spark.controller.groups.checks import Membership, check_not_replaced
from kafka_on_spark.controller.groups.heartbeats import may_go_on
from kafka_on_spark.controller.groups.membership import join, subscribe
from kafka_on_spark.controller.groups.sharing import is_to_share
from kafka_on_spark.errors import (
    FencedInstanceIdError,
    FencedMemberEpochError,
    KafkaOnSparkError,
    StaleMemberEpochError,
    UnknownMemberIdError,
    UnreleasedInstanceIdError,
)
from kafka_on_spark.ids import NO_EPOCH, MemberId, PartitionKey
from kafka_on_spark.metadata.group import ConsumerGroup, GroupMember
from kafka_on_spark.metadata.image import MetadataImage
from kafka_on_spark.ports.process import Clock
from kafka_on_spark.query.consuming.settings import NONE, ConsumerSettings
from kafka_on_spark.query.consuming.standing import Standing
from kafka_on_spark.query.offsets.following import follow_target, leave_group, subscribed_topics
from kafka_on_spark.query.subscription import Subscription
from kafka_on_spark.service.consume.members.retries import Retries
from kafka_on_spark.service.consume.members.share_pace import SharePace
from kafka_on_spark.service.consume.members.witness import Witness
from kafka_on_spark.service.metadata.metadata_service import MetadataService

log = logging.getLogger(__name__)

SHARE_PAUSE_MS: Final = 100
"""How often a member looks whether it is its turn to share out."""

FOLLOW_MS: Final = 20
"""How often a member looks at what is due, at most, while the metadata is the same."""

STEPS_MAX: Final = 10
"""Steps of one call: a member that joins alone takes three."""

Tell = Callable[[Set[PartitionKey]], None]
"""Tells the user of partitions."""


@dataclass(frozen=True, slots=True)
class Listeners:
    """Whom a consumer tells of its partitions. Source: ConsumerRebalanceListener.

    Attributes:
        assigned: They are the consumer's from now on.
        revoked: They are about to be given up; their offsets can still be committed.
        lost: They belong to others already: the consumer was fenced.
    """

    assigned: Tell
    revoked: Tell
    lost: Tell


class Hands(Protocol):
    """What a member asks of the consumer whose hands the records go through."""

    def processed(self, keys: Set[PartitionKey]) -> Mapping[PartitionKey, Standing]:
        """Return the positions in some partitions up to which all is processed."""
        ...

    def leave(self, keys: Set[PartitionKey]) -> None:
        """Forget partitions: nothing of them is handed out any more."""
        ...


class Member:
    """One consumer's place in its group.

    Attributes:
        owned: The partitions that it may hand out.
        is_begun: Whether it has tried to join.
        is_sure: Whether it might, when `follow` looked last.
    """

    def __init__(
        self,
        metadata: MetadataService,
        witness: Witness,
        clock: Clock,
        hands: Hands,
        listeners: Listeners,
        *,
        settings: ConsumerSettings,
        subscription: Subscription,
        new_id: Callable[[], str],
        pace: SharePace,
        timeout_ms: int,
    ) -> None:
        assert settings.group is not None, "a member is one of a group"
        self.owned: frozenset[PartitionKey] = frozenset()
        self._group = settings.group
        self._metadata = metadata
        self._witness = witness
        self._clock = clock
        self._hands = hands
        self._listeners = listeners
        self._settings = settings
        self._subscription = subscription
        self._new_id = new_id
        self._pace = pace
        self._timeout_ms = timeout_ms
        self._retries = Retries(
            metadata, witness, clock, group=self._group, instance_id=settings.group_instance_id
        )
        self.is_begun = False
        self._id: MemberId | None = None
        self._is_member = False
        self._stopped: dict[PartitionKey, Standing] = {}
        self._asked_ms = 0
        self._quiet: object = None
        self._told: Exception | None = None
        self._followed: MetadataImage | None = None
        self._follow_at_ms = 0
        self.is_sure = False

    # What holds of it

    def speaker(self) -> Membership:
        """Return who it is, for a commit.

        Raises:
            UnknownMemberIdError: It was fenced, or has not joined yet.
        """
        if self._id is None or not self._is_member:
            raise UnknownMemberIdError(
                f"the consumer is no member of group {self._group!r} now: the next poll joins"
            )
        return self._known_as(self._id)

    def _known_as(self, member_id: MemberId) -> Membership:
        group = self._metadata.image.consumer_groups.get(self._group)
        me = None if group is None else group.members.get(member_id)
        return Membership(member_id, NO_EPOCH if me is None else me.member_epoch)

    def may_hand_out(self) -> bool:
        """Return whether it may hand out more of what it owns without asking the metadata log."""
        now_ms = self._clock.monotonic_ms()
        return self._is_known(self._metadata.image) and may_go_on(
            self._witness.beats, self._asked_ms, now_ms, self._witness.session_ms
        )

    def _is_known(self, image: MetadataImage) -> bool:
        """Return whether it has joined, and an image has it as a member."""
        group = image.consumer_groups.get(self._group)
        return self._is_member and group is not None and self._id in group.members

    def pause_ms(self) -> float:
        """Return how long it may be left alone: until it has to be asked for more, and not so long
        that a consumer that waits for records counts as one that asks for none."""
        return min(self._until_due_ms(), self._settings.max_poll_interval_ms / 2)

    def _until_due_ms(self) -> float:
        if left_ms := self._retries.left_ms(self._clock.monotonic_ms()):
            return left_ms
        image = self._metadata.image
        group = image.consumer_groups.get(self._group)
        is_waiting = group is not None and is_to_share(image, group)
        return SHARE_PAUSE_MS if is_waiting else self._witness.turn_ms

    @property
    def is_waiting(self) -> bool:
        """Whether it waits for what others have, as `Retries.is_waiting` says."""
        return self._retries.is_waiting

    @property
    def is_due(self) -> bool:
        """Whether it is time to `follow`."""
        now_ms = self._clock.monotonic_ms()
        return self._retries.left_ms(now_ms) > 0 or self._is_time_to_look(now_ms)

    def _is_time_to_look(self, now_ms: int) -> bool:
        return now_ms >= self._follow_at_ms or self._metadata.image is not self._followed

    # What it does

    def follow(self) -> None:
        """Do what is due: join, ask, give up and take partitions, share out.

        A root that is away is waited for: what is due is done by a later call.

        Raises:
            GroupMaxSizeReachedError, UnreleasedInstanceIdError, UnsupportedAssignorError: The group
                does not take the consumer.
            FencedInstanceIdError: It was fenced, and another is the static member now.
            RootAccessDeniedError: This process may not write to the metadata.
            KafkaOnSparkError: The metadata root has been away for too long.
            And what listeners raise.
        """
        now_ms = self._clock.monotonic_ms()
        self._witness.note_asked_for(now_ms)
        if self._retries.left_ms(now_ms) > 0:
            self.is_sure = self.may_hand_out()
            return
        if not self._is_time_to_look(now_ms):
            return
        try:
            self._attempt()
        except KafkaOnSparkError as error:
            self._retries.note_failure(error)
        else:
            self._retries.note_success(self._id)
        self.is_sure = self.may_hand_out()
        self._followed, self._follow_at_ms = self._metadata.image, now_ms + FOLLOW_MS
        told, self._told = self._told, None
        if told is not None:
            raise told

    def _attempt(self) -> None:
        try:
            self._ask_if_unsure()
            for _ in range(STEPS_MAX):
                if not self._step(self._metadata.image):
                    break
        except (FencedMemberEpochError, StaleMemberEpochError):
            self._metadata.catch_up()  # a commit of its own whose outcome was unknown
            raise
        except UnknownMemberIdError:
            self._lose()
        except UnreleasedInstanceIdError as error:
            self._retries.await_holder(error)

    def _step(self, image: MetadataImage) -> bool:
        """Do the next thing that is due; return whether there was one."""
        group = image.consumer_groups.get(self._group)
        me = None if group is None or self._id is None else group.members.get(self._id)
        if group is None or me is None or not self._is_member:
            if self._is_member:
                self._lose()
            self._join()
            return True
        topics = tuple(sorted(set(subscribed_topics(image, self._subscription))))
        if topics != me.subscribed_topics:
            self._subscribe(me, topics)
            return True
        if self._witness.share_out(self._pace, me.member_id):
            return True
        return self._reconcile(group, me)

    def _join(self) -> None:
        if self._id is None:
            self._id = MemberId(self._new_id())
        self.is_begun = True
        # A process that may not write is told so: a read-only root would read as one that is away.
        self._metadata.check_writable()
        member_id, asked_ms = self._id, self._clock.monotonic_ms()
        self._witness.begin(member_id)
        self._metadata.submit(
            lambda image: join(
                image,
                self._group,
                member_id=member_id,
                topics=subscribed_topics(image, self._subscription),
                instance_id=self._settings.group_instance_id,
                assignor=self._settings.group_remote_assignor,
            ),
            timeout_ms=self._timeout_ms,
        )
        self._is_member, self._asked_ms, self._quiet = True, asked_ms, None
        self._retries.note_joined()
        self._pace.claim()
        self._witness.tidy()

    def _subscribe(self, me: GroupMember, topics: tuple[str, ...]) -> None:
        self._metadata.submit(
            lambda image: subscribe(image, self._group, me.member_id, topics, me.assignor),
            timeout_ms=self._timeout_ms,
        )
        self._pace.claim()

    def _reconcile(self, group: ConsumerGroup, me: GroupMember) -> bool:
        """Give up and take what is due; return whether there was something."""
        if self._quiet is group and self.owned == me.owned:
            return False
        if giving_up := me.to_give_up & self.owned:
            self._stop(giving_up)
        member, now_ms = self.speaker(), self._clock.now_ms()
        owned = self._metadata.submit(
            lambda image: follow_target(
                image,
                self._group,
                member,
                held=self.owned,
                processed=self._stopped,
                begins_at=self._begins_at(),
                now_ms=now_ms,
            ),
            timeout_ms=self._timeout_ms,
        )
        self._stopped = {}
        taken = owned - self.owned
        self.owned = owned
        after = self._metadata.image.consumer_groups.get(self._group)
        self._quiet = after if after is group else None
        if taken:
            self._tell(self._listeners.assigned, taken)
        return after is not group

    def _begins_at(self) -> str | None:
        settings = self._settings
        is_saved = settings.is_beginning_committed and settings.auto_offset_reset != NONE
        return settings.auto_offset_reset if is_saved else None

    def _stop(self, keys: frozenset[PartitionKey]) -> None:
        """Hand out no more of some partitions; remember how far they are processed."""
        self._tell(self._listeners.revoked, keys)
        if self._settings.is_auto_commit:
            self._stopped |= self._hands.processed(keys)
        self.owned -= keys
        self._hands.leave(keys)

    def _ask_if_unsure(self) -> None:
        if self._is_member and not self.may_hand_out():
            asked_ms = self._clock.monotonic_ms()
            if self._is_known(self._metadata.catch_up()):
                self._asked_ms = asked_ms
            else:
                self._lose()

    def _lose(self) -> None:
        """Forget all partitions: they are others'."""
        log.warning("the consumer %s is no member of group %r any more", self._id, self._group)
        lost, self.owned = self.owned, frozenset()
        self._hands.leave(lost)
        self._stopped, self._id, self._is_member = {}, None, False
        self._witness.end()
        if lost:
            self._tell(self._listeners.lost, lost)
        try:
            check_not_replaced(self._metadata.image, self._group, self._settings.group_instance_id)
        except FencedInstanceIdError as error:
            self._told = self._told or error

    def _tell(self, tell: Tell, keys: frozenset[PartitionKey]) -> None:
        """Tell the user; what that raises is raised once all is done that is due."""
        try:
            tell(keys)
        except Exception as error:
            self._told = self._told or error

    # The end

    def leave(self) -> None:
        """Leave, with its positions saved if commits are automatic; a static member says that it
        returns. One that was fenced saves nothing.

        Raises: as `MetadataService.submit`, and what listeners raise; it beats no more in any case,
            so it is fenced if it could not leave.
        """
        try:
            if self._id is not None:
                self._leave(self._id)
        except UnknownMemberIdError as error:
            log.warning("what was handed out last is not committed: %s", error)
        finally:
            self._id, self._is_member = None, False
            self._witness.end()
        if self._told is not None:
            raise self._told

    def _leave(self, member_id: MemberId) -> None:
        if self.owned:
            self._tell(self._listeners.revoked, self.owned)
        self._metadata.catch_up()  # a join whose outcome was unknown may stand in the log
        is_saved = self._settings.is_auto_commit
        processed = self._stopped | dict(self._hands.processed(self.owned)) if is_saved else {}
        member, now_ms = self._known_as(member_id), self._clock.now_ms()
        self._metadata.submit(
            lambda image: leave_group(
                image,
                self._group,
                member,
                processed=processed,
                returns=self._settings.group_instance_id is not None,
                now_ms=now_ms,
            ),
            timeout_ms=self._timeout_ms,
        )
