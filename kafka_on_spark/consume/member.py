"""A consumer as a member of its group: it joins, follows its target, and leaves.

The consumer's own thread calls it, between two calls that hand something out: so a partition is
given up when all that was handed out of it counts as processed. A member that may have been fenced
meanwhile asks the metadata log before it hands out more. One that was fenced forgets its positions
without a commit, and joins again under another id.
"""

import logging
import os
import socket
import threading
from collections.abc import Callable, Mapping, Set
from dataclasses import dataclass
from typing import Final, TypeVar

from kafka_on_spark.base.errors import (
    CommitOutcomeUnknownError,
    FencedInstanceIdError,
    FencedMemberEpochError,
    KafkaOnSparkError,
    RequestTimedOutError,
    StaleMemberEpochError,
    UnknownMemberIdError,
    UnreleasedInstanceIdError,
)
from kafka_on_spark.base.ids import NO_EPOCH, MemberId, PartitionKey, TopicPartition
from kafka_on_spark.consume.settings import ConsumerSettings
from kafka_on_spark.consume.subscription import Subscribe, Subscription, partitions_of
from kafka_on_spark.groups.liveness import Liveness
from kafka_on_spark.groups.membership import (
    check_not_replaced,
    follow_target,
    is_to_share,
    join,
    leave_group,
    share_out,
    subscribe,
)
from kafka_on_spark.groups.offsets import NONE, Membership, Position
from kafka_on_spark.metadata.image import (
    ConsumerGroup,
    Decide,
    GroupMember,
    MetadataImage,
    names_of,
    submit_if_due,
)
from kafka_on_spark.metadata.metadata_service import MetadataService, is_failing
from kafka_on_spark.metadata.records import MemberClient

log = logging.getLogger(__name__)

T = TypeVar("T")

RETRY_MS: Final = 500
"""Between two tries of what has failed."""

SHARE_MS: Final = 1_000
"""Between two targets of a group, about, so that many that join at once have few targets between
them. Source: group.consumer.assignment.interval.ms."""

SHARE_PAUSE_MS: Final = 100
"""How often a member checks whether it is to share out."""

FOLLOW_MS: Final = 20
"""How often a member checks what is due, at most, while the metadata is the same."""

ASKED_MS: Final = 1_000
"""So long a member hands out what it has found in the metadata log to be its own. It is about as
long as a reader waits between two requests to a store."""

STEPS_MAX: Final = 10
"""Steps of one call: a member that joins alone takes three."""

SESSIONS_WAITED_MAX: Final = 2
"""A member waits for others for so many sessions: within one a member that was killed is silent,
and soon after those that died with it."""

_PASSING: Final = (
    RequestTimedOutError,
    CommitOutcomeUnknownError,
    # The epoch was that of an older image, or a commit of its own whose outcome was unknown stands.
    FencedMemberEpochError,
    StaleMemberEpochError,
)

OnPartitions = Callable[[list[TopicPartition]], None]
"""Called in a poll, with partitions that come or go."""


@dataclass(frozen=True, slots=True)
class Failure:
    """What fails for now, since when, and when it is tried again; by the monotonic clock."""

    error: KafkaOnSparkError
    since_ms: int
    retry_at_ms: int

    @classmethod
    def after(
        cls, before: "Failure | None", error: KafkaOnSparkError, now_ms: int, timeout_ms: int
    ) -> "Failure":
        """Return what fails after one more try; raise `error` if it has failed for too long."""
        since_ms = now_ms if before is None else before.since_ms
        if now_ms - since_ms >= timeout_ms:
            raise error
        return cls(error, since_ms, now_ms + RETRY_MS)


@dataclass(slots=True)
class Listeners:
    """Called as partitions come and go. Source: ConsumerRebalanceListener.

    Attributes:
        assigned: They are the consumer's from now on.
        revoked: They are about to be given up; their offsets can still be committed.
        lost: They belong to others already: the consumer was fenced.
        in_thread: The thread in which one of these is called just now.
    """

    assigned: OnPartitions | None = None
    revoked: OnPartitions | None = None
    lost: OnPartitions | None = None
    in_thread: int | None = None


def subscribed_topics(image: MetadataImage, subscription: Subscription) -> list[str]:
    """Return the topics that a subscription names in an image; one by name need not exist."""
    if isinstance(subscription, Subscribe):
        return list(subscription.topics)
    found = partitions_of(image, subscription, fails_on_missing=False)
    return list(dict.fromkeys(name.topic for name in found))


class Member:
    """One consumer's place in its group. `processed` returns the positions in some partitions up to
    which all is processed; `forget` hands out nothing more of some.

    Attributes:
        owned: The partitions that it may hand out.
        is_begun: Whether it has tried to join.
    """

    def __init__(
        self,
        metadata: MetadataService,
        liveness: Liveness,
        processed: Callable[[Set[PartitionKey]], Mapping[PartitionKey, Position]],
        forget: Callable[[Set[PartitionKey]], None],
        listeners: Listeners,
        *,
        settings: ConsumerSettings,
        subscription: Subscription,
    ) -> None:
        self.owned: frozenset[PartitionKey] = frozenset()
        self.is_begun = False
        self._group = liveness.group
        self._metadata = metadata
        self._liveness = liveness
        self._clock = liveness.clock
        self._processed = processed
        self._forget = forget
        self._listeners = listeners
        self._settings = settings
        self._subscription = subscription
        self._id: MemberId | None = None
        self._is_member = False
        self._stopped: dict[PartitionKey, Position] = {}
        self._asked_ms = 0
        self._error: Exception | None = None  # raised once all is done that is due
        # When it checks again what is due, and what has kept it from it.
        self._followed: MetadataImage | None = None
        self._follow_at_ms = self._retry_at_ms = 0
        self._failure: Failure | None = None
        self._waits_since_ms: int | None = None
        self._is_awaiting = False
        # What it knows of targets.
        self._is_mine = False
        self._target_epoch: int = NO_EPOCH
        self._target_at_ms = 0
        self._to_share_since_ms: int | None = None

    # What holds of it

    def membership(self) -> Membership:
        """Return its id and epoch, for a commit; raise UnknownMemberIdError if it was fenced, or
        has not joined yet."""
        me = self._me(self._metadata.image)
        if me is None or not self._is_member:
            raise UnknownMemberIdError(
                f"the consumer is not a member of group {self._group!r} now: the next poll joins"
            )
        return Membership(me.member_id, me.member_epoch)

    def _me(self, image: MetadataImage) -> GroupMember | None:
        group = image.consumer_groups.get(self._group)
        return None if group is None or self._id is None else group.members.get(self._id)

    def may_hand_out(self) -> bool:
        """Return whether it may hand out more of what it owns without asking the metadata log."""
        is_sure = self._clock.monotonic_ms() - self._asked_ms < ASKED_MS
        return is_sure and self._is_known(self._metadata.image)

    def _is_known(self, image: MetadataImage) -> bool:
        return self._is_member and self._me(image) is not None

    def pause_ms(self) -> float:
        """Return how long it may be left alone: until it has to be asked for more, and not so long
        that a consumer that waits for records counts as one that asks for none."""
        now_ms, image = self._clock.monotonic_ms(), self._metadata.image
        due_ms: float = self._liveness.interval_ms
        if self._retry_at_ms > now_ms:
            due_ms = self._retry_at_ms - now_ms
        elif (group := image.consumer_groups.get(self._group)) and is_to_share(image, group):
            due_ms = SHARE_PAUSE_MS
        return min(due_ms, self._settings.max_poll_interval_ms / 2)

    @property
    def is_waiting(self) -> bool:
        """Whether it waits for what others have, and not for longer than it takes to fence them if
        they were killed."""
        since_ms, most_ms = self._waits_since_ms, SESSIONS_WAITED_MAX * self._liveness.session_ms
        return since_ms is not None and self._clock.monotonic_ms() - since_ms < most_ms

    @property
    def is_due(self) -> bool:
        now_ms = self._clock.monotonic_ms()
        if now_ms < self._retry_at_ms or now_ms >= self._follow_at_ms:
            return True
        return self._metadata.image is not self._followed

    # What it does

    def follow(self, *, asks: bool = False) -> None:
        """Do what is due: join, give up and take partitions, share out. A root that is away is
        waited for: what is due is done by a later call. `asks`: it is to hand out more, and asks
        the metadata log first whether it may.

        Raises:
            GroupMaxSizeReachedError, UnreleasedInstanceIdError, UnsupportedAssignorError: The group
            does not take the consumer.
            FencedInstanceIdError: It was fenced, and another is the static member now.
            RootAccessDeniedError: This process may not write to the metadata.
            KafkaOnSparkError: The metadata root has been away for too long.
            And what listeners raise."""
        now_ms = self._clock.monotonic_ms()
        self._liveness.polled_at_ms = now_ms
        if not (asks or self.is_due):
            return
        if now_ms >= self._retry_at_ms:
            try:
                self._do_what_is_due(asks)
            except KafkaOnSparkError as error:
                self._note_failure(error)
            else:
                self._failure = None
                is_short = self._is_short()
                self._waits_since_ms = (self._waits_since_ms or now_ms) if is_short else None
            self._followed, self._follow_at_ms = self._metadata.image, now_ms + FOLLOW_MS
        raised, self._error = self._error, None
        if raised is not None:
            raise raised

    def _note_failure(self, error: KafkaOnSparkError) -> None:
        """Try again later, or raise what does not pass, or has lasted."""
        if not (is_failing(error) or isinstance(error, _PASSING)):
            raise error
        before, self._failure = self._failure, None
        timeout_ms = self._metadata.image.settings().integer("metadata.away.timeout.ms")
        self._failure = Failure.after(before, error, self._clock.monotonic_ms(), timeout_ms)
        self._retry_at_ms = self._failure.retry_at_ms
        if before is None:
            log.warning("group %r: tries again: %s", self._group, error)

    def _is_short(self) -> bool:
        """Return whether others have its place, or partitions that it shall own, or have not shared
        out yet; or may have been killed, with partitions that nobody reads."""
        image = self._metadata.image
        group, me = image.consumer_groups.get(self._group), self._me(image)
        if group is None or me is None:
            return self._is_awaiting
        if is_to_share(image, group) or not me.target <= me.owned:
            return True
        return len(group.members) > 1 and not self._liveness.knows_others

    def _do_what_is_due(self, asks: bool) -> None:
        try:
            if asks and self._is_member:
                asked_ms = self._clock.monotonic_ms()
                if self._is_known(self._metadata.catch_up()):
                    self._asked_ms = asked_ms
                else:
                    self._lose()
            for _ in range(STEPS_MAX):
                if not self._step(self._metadata.image):
                    break
        except UnknownMemberIdError:
            self._lose()
        except UnreleasedInstanceIdError as error:
            self._await_holder(error)

    def _step(self, image: MetadataImage) -> bool:
        group, me = image.consumer_groups.get(self._group), self._me(image)
        if group is None or me is None or not self._is_member:
            if self._is_member:
                self._lose()
            self._join()
            return True
        topics = tuple(sorted(set(subscribed_topics(image, self._subscription))))
        if topics != me.subscribed_topics:
            member_id = me.member_id
            self._submit(lambda image: subscribe(image, self._group, member_id, topics))
            self._is_mine = True
            return True
        if self._shares_out(image, group, me.member_id):
            self._submit(lambda newest: share_out(newest, self._group))
            return True
        return self._reconcile(me)

    def _submit(self, decide: Decide[T]) -> T:
        return self._metadata.submit(decide, timeout_ms=self._liveness.timeout_ms)

    def _shares_out(self, image: MetadataImage, group: ConsumerGroup, me: MemberId) -> bool:
        """Return whether it shares out the group's partitions now: any member may, and one is
        enough. The member that has changed the group does, and the first of its members; the others
        do if these have not for an interval. The second one finds nothing to decide."""
        now_ms = self._clock.monotonic_ms()
        if group.target_epoch != self._target_epoch:
            self._target_epoch, self._target_at_ms = group.target_epoch, now_ms
        if not is_to_share(image, group):
            self._to_share_since_ms, self._is_mine = None, False
            return False
        if self._to_share_since_ms is None:
            self._to_share_since_ms = now_ms
        if group.target_epoch == NO_EPOCH:
            return True
        due_ms = self._target_at_ms + SHARE_MS
        first = min(name for name, each in group.members.items() if not each.is_away)
        if not self._is_mine and me != first:
            due_ms = max(due_ms, self._to_share_since_ms + self._liveness.interval_ms)
        return now_ms >= due_ms

    def _join(self) -> None:
        if self._id is None:
            self._id = MemberId(self._liveness.new_id())
        self.is_begun = True
        # Here, because a read-only root would read as one that is away.
        self._metadata.log.check_writable()
        member_id, asked_ms = self._id, self._clock.monotonic_ms()
        client = MemberClient(self._settings.client_id, socket.gethostname(), os.getpid())
        self._liveness.begin(member_id, self._settings.group_instance_id)
        self._submit(
            lambda image: join(
                image,
                self._group,
                member_id=member_id,
                topics=subscribed_topics(image, self._subscription),
                instance_id=self._settings.group_instance_id,
                assignor=self._settings.group_remote_assignor,
                client=client,
            )
        )
        self._is_member, self._asked_ms, self._is_mine = True, asked_ms, True
        self._is_awaiting = False

    def _await_holder(self, error: UnreleasedInstanceIdError) -> None:
        """Wait until the member that has this static member's place is fenced, if it is silent: it
        may be a life of this consumer that was killed. One that lives raises
        UnreleasedInstanceIdError."""
        # A commit that this process has seen since may have ended the member, and its group.
        group = self._metadata.image.consumer_groups.get(self._group)
        holder = None if group is None else group.with_instance(self._settings.group_instance_id)
        self._is_awaiting = holder is not None
        if holder is None:
            return
        if self._liveness.has_beaten(holder.member_id):
            self._liveness.end()
            raise error
        self._retry_at_ms = self._clock.monotonic_ms() + self._liveness.interval_ms

    def _reconcile(self, me: GroupMember) -> bool:
        """Give up and take what is due; return whether the group may have changed by it."""
        if giving_up := me.to_give_up & self.owned:
            self._stop(giving_up)
        member, now_ms, known = self.membership(), self._clock.now_ms(), self._metadata.image
        is_saved, reset = self._settings.enable_auto_commit, self._settings.auto_offset_reset
        owned = submit_if_due(
            known,
            lambda image: follow_target(
                image,
                self._group,
                member,
                held=self.owned,
                processed=self._stopped,
                begins_at=reset if is_saved and reset != NONE else None,
                now_ms=now_ms,
            ),
            self._submit,
        )
        self._stopped = {}
        if owned != self.owned:
            taken, self.owned = owned - self.owned, owned
            self._call(self._listeners.assigned, taken)
        return self._metadata.image is not known

    def _stop(self, keys: frozenset[PartitionKey]) -> None:
        """Hand out no more of some partitions; remember how far they are processed."""
        self._call(self._listeners.revoked, keys)
        if self._settings.enable_auto_commit:
            self._stopped |= self._processed(keys)
        self.owned -= keys
        self._forget(keys)

    def _lose(self) -> None:
        log.warning("the consumer %s is no member of group %r any more", self._id, self._group)
        lost, self.owned = self.owned, frozenset()
        self._forget(lost)
        self._stopped, self._id, self._is_member = {}, None, False
        self._liveness.end()
        self._call(self._listeners.lost, lost)
        try:
            check_not_replaced(self._metadata.image, self._group, self._settings.group_instance_id)
        except FencedInstanceIdError as error:
            self._error = self._error or error

    def _call(self, listener: OnPartitions | None, keys: frozenset[PartitionKey]) -> None:
        """Call a listener with the names of partitions, if they have any; what it raises is raised
        once all is done that is due."""
        names = names_of(self._metadata.image, keys)
        if listener is None or not names:
            return
        self._listeners.in_thread = threading.get_ident()
        try:
            listener(names)
        except Exception as error:
            self._error = self._error or error
        finally:
            self._listeners.in_thread = None

    # The end

    def leave(self) -> None:
        """Leave, with its positions saved if commits are automatic; a static member says that it
        returns. One that was fenced saves nothing. It beats no more in any case, so it is fenced if
        it could not leave."""
        try:
            self._leave()
        except UnknownMemberIdError as error:
            log.warning("what was handed out last is not committed: %s", error)
        finally:
            self._id, self._is_member = None, False
            self._liveness.end()
        if self._error is not None:
            raise self._error

    def _leave(self) -> None:
        if self._id is None:
            return
        self._call(self._listeners.revoked, self.owned)
        # A join whose outcome was unknown may stand in the log.
        me = self._me(self._metadata.catch_up())
        is_saved = self._settings.enable_auto_commit
        processed = self._stopped | dict(self._processed(self.owned)) if is_saved else {}
        member = Membership(self._id, NO_EPOCH if me is None else me.member_epoch)
        now_ms = self._clock.now_ms()
        self._submit(
            lambda image: leave_group(
                image,
                self._group,
                member,
                processed=processed,
                returns=self._settings.group_instance_id is not None,
                now_ms=now_ms,
            )
        )
