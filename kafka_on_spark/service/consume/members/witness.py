"""What members of a group do for each other while they read: they beat, and listen to each other.

Two threads call it beside the consumer's own: one beats, so that nothing holds that up, and one
looks. So a consumer that is busy for minutes is alive for the others, and sees who is not. Who asks
for nothing for max.poll.interval.ms leaves.
"""

import logging
import threading
from collections.abc import Callable, Mapping, Sequence
from typing import Final

from kafka_on_spark.controller.commands.emptied_groups import offsets_kept
from kafka_on_spark.controller.groups.heartbeats import (
    Beats,
    Heard,
    Look,
    after_beat,
    after_look,
    to_listen_to,
    turn_ms,
)
from kafka_on_spark.controller.groups.membership import fence, leave
from kafka_on_spark.controller.groups.sharing import share_out
from kafka_on_spark.controller.result import ControllerResult
from kafka_on_spark.errors import KafkaOnSparkError
from kafka_on_spark.ids import MemberId
from kafka_on_spark.metadata.group import ConsumerGroup
from kafka_on_spark.metadata.image import MetadataImage
from kafka_on_spark.ports.metadata import Heartbeats
from kafka_on_spark.ports.process import Clock
from kafka_on_spark.service.consume.members.share_pace import SharePace
from kafka_on_spark.service.metadata.metadata_service import MetadataService

log = logging.getLogger(__name__)

STALE_PART: Final = 3
"""A look that ended longer ago than this part of a session fences nobody: who looked was frozen."""


class Witness:
    """One consumer's heartbeats, and its looks at those of others. `random` gives [0, 1).

    Attributes:
        hears_others: The last look has found that the member behind this one lives, or that there
            is no other. Those further behind are seen to by the ones that live; what this one has
            seen of the first, who may be dead, is lost if it leaves.
    """

    def __init__(
        self,
        metadata: MetadataService,
        heartbeats: Heartbeats,
        clock: Clock,
        *,
        group: str,
        max_poll_interval_ms: int,
        timeout_ms: int,
        random: Callable[[], float],
    ) -> None:
        self._metadata = metadata
        self._heartbeats = heartbeats
        self._clock = clock
        self._group = group
        self._max_poll_interval_ms = max_poll_interval_ms
        self._timeout_ms = timeout_ms
        self._pace = SharePace(random)
        self._lock = threading.Lock()
        self._member_id: MemberId | None = None
        self._beats: Beats | None = None
        self._count = 0
        self._failure: str | None = None
        self._heard: dict[MemberId, Heard] = {}
        self._holder: tuple[MemberId, Heard] | None = None
        self.hears_others = False
        self._asked_for_at_ms = clock.monotonic_ms()

    # Settings, which a cluster may change

    @property
    def session_ms(self) -> int:
        """For how long a member may be silent. Source: group.consumer.session.timeout.ms."""
        return self._metadata.image.settings().integer("group.consumer.session.timeout.ms")

    @property
    def turn_ms(self) -> int:
        """How often a member beats and looks."""
        settings = self._metadata.image.settings()
        interval_ms = settings.integer("group.consumer.heartbeat.interval.ms")
        return turn_ms(interval_ms, self.session_ms)

    # Lives of the consumer, by its own thread

    def begin(self, member_id: MemberId) -> None:
        """Beat as this member from now on.

        Raises:
            KafkaStorageError: The first heartbeat can't be written.
        """
        with self._lock:
            if self._member_id != member_id:
                self._member_id, self._beats = member_id, None
                self.hears_others = False
        self.beat(is_first=True)

    def end(self) -> None:
        """Beat no more; remove what stands, where it can be."""
        with self._lock:
            member_id, self._member_id, self._beats = self._member_id, None, None
        if member_id is not None:
            self._forget(member_id)

    def tidy(self) -> None:
        """Remove heartbeats that killed members have left: none is of a member any more."""
        group = self._metadata.image.consumer_groups.get(self._group)
        if group is not None:
            self._heartbeats.keep_only(self._group, list(group.members))

    def await_holder(self, holder: MemberId) -> Heard:
        """Look at the member that has this static member's place, as `look` does from now on, and
        fence it if it is silent; return what is known of it.

        Raises: as `looked_at` and `fence`.
        """
        known = {} if self._holder is None else dict([self._holder])
        heard = self.looked_at([holder], known)[holder]
        self._holder = holder, heard
        if heard.is_over(self.session_ms):
            self.fence({holder: heard})
        return heard

    def forget_holder(self) -> None:
        """Nobody has the place any more, or somebody who lives."""
        self._holder = None

    def note_asked_for(self, now_ms: int) -> None:
        """The consumer's own thread is in a call: it is alive."""
        self._asked_for_at_ms = now_ms

    @property
    def beats(self) -> Beats | None:
        """The heartbeats of this life."""
        return self._beats

    # Turns, by threads of their own

    def beat(self, *, is_first: bool = False) -> None:
        """Beat once, unless the consumer has asked for nothing for too long.

        Raises:
            KafkaStorageError: It is the first, and can't be written.
            ClusterClosedError: This process has closed the cluster.
        """
        member_id = self._member_id
        if member_id is None or self._is_idle():
            return
        self._metadata.check_open()
        self._count += 1
        began_ms = self._clock.monotonic_ms()
        try:
            self._heartbeats.beat(self._group, member_id, self._count)
        except KafkaOnSparkError as error:
            if is_first:
                raise
            if self._failure != str(error):
                self._failure = str(error)
                log.warning("a heartbeat of group %r was not written: %s", self._group, error)
            return
        if self._failure is not None:
            self._failure = None
            log.info("heartbeats of group %r are written again", self._group)
        ended_ms = self._clock.monotonic_ms()
        with self._lock:
            is_ended = self._member_id != member_id
            if not is_ended:
                self._beats = after_beat(self._beats, began_ms, ended_ms, self.session_ms)
        if is_ended:
            self._forget(member_id)

    def look(self) -> None:
        """Look at others once: fence who is silent, share out what nobody has, or leave. Who waits
        for the end of a static member looks at that.

        Raises:
            ClusterClosedError: This process has closed the cluster.
            And as `MetadataService.submit` and `Heartbeats.listen`.
        """
        member_id = self._member_id
        if member_id is None:
            return
        image = self._metadata.catch_up()
        group = image.consumer_groups.get(self._group)
        if group is None:
            return
        awaited = self._holder
        if awaited is not None and awaited[0] in group.members:
            self.await_holder(awaited[0])
        if member_id not in group.members:
            return
        if self._is_idle():
            self._leave(member_id)
            return
        if self.fence(self._silent(group, member_id)):
            self._pace.claim()
        self.share_out(self._pace, member_id)

    def _is_idle(self) -> bool:
        """Return whether the consumer has asked for nothing for too long."""
        idle_ms = self._clock.monotonic_ms() - self._asked_for_at_ms
        return idle_ms >= self._max_poll_interval_ms

    def _leave(self, member_id: MemberId) -> None:
        log.warning(
            "a consumer leaves group %r: it has asked for nothing for %d ms (max_poll_interval_ms)",
            self._group,
            self._max_poll_interval_ms,
        )
        self._submit_without(lambda image: leave(image, self._group, member_id))
        self._forget(member_id)

    def _silent(self, group: ConsumerGroup, me: MemberId) -> dict[MemberId, Heard]:
        """Look at the members that this one listens to; return those whose session is over."""
        listened = to_listen_to(group.members, me, self._heard, self.turn_ms)
        # What is known of members that it did not look at is old: it tells of none that it lives.
        self._heard = self.looked_at(listened, self._heard)
        self.hears_others = not listened or self._heard[listened[0]].lives(self.turn_ms)
        return {
            each: heard for each, heard in self._heard.items() if heard.is_over(self.session_ms)
        }

    def looked_at(
        self, member_ids: Sequence[MemberId], known: Mapping[MemberId, Heard]
    ) -> dict[MemberId, Heard]:
        """Look at heartbeats; return what is known of each after it.

        Raises:
            KafkaStorageError: No majority of the metadata roots answers.
        """
        if not member_ids:
            return {}
        began_ms = self._clock.monotonic_ms()
        contents = self._heartbeats.listen(self._group, member_ids)
        ended_ms = self._clock.monotonic_ms()
        return {
            each: after_look(known.get(each), Look(began_ms, ended_ms, content), self.session_ms)
            for each, content in zip(member_ids, contents, strict=True)
        }

    def fence(self, silent: Mapping[MemberId, Heard]) -> bool:
        """Fence members whose session is over, in one commit: as many as died at once are out
        before the look at them is old. Return False if there is none, or the look was long ago:
        this process was frozen since, and looks again.

        Raises: as `MetadataService.submit`.
        """
        since_ms = self._clock.monotonic_ms() - self.session_ms / STALE_PART
        silent_ms = {
            each: heard.silent_ms for each, heard in silent.items() if heard.ended_ms >= since_ms
        }
        if not silent_ms:
            return False
        self._submit_without(lambda image: fence(image, self._group, silent_ms))
        for each, duration_ms in silent_ms.items():
            log.warning("fenced member %s of %r, silent for %d ms", each, self._group, duration_ms)
            self._forget(each)
        return True

    def share_out(self, pace: SharePace, me: MemberId) -> bool:
        """Share out, if it is due and this member's turn; return whether it has tried.

        Raises: as `MetadataService.submit`.
        """
        image = self._metadata.image
        group = image.consumer_groups.get(self._group)
        now_ms = self._clock.monotonic_ms()
        if group is None or not pace.is_due(image, group, me, now_ms, self.turn_ms):
            return False
        self._submit(lambda newest: share_out(newest, self._group))
        return True

    def _submit(self, decide: Callable[[MetadataImage], ControllerResult[None]]) -> None:
        self._metadata.submit(decide, timeout_ms=self._timeout_ms)

    def _submit_without(self, decide: Callable[[MetadataImage], ControllerResult[None]]) -> None:
        """Submit a decision by which a member goes: it may be the last one."""
        now_ms = self._clock.now_ms()
        self._submit(lambda image: offsets_kept(image, self._group, decide(image), now_ms))

    def _forget(self, member_id: MemberId) -> None:
        """Remove the heartbeat of who is no member any more; one that is left misleads nobody."""
        self._heartbeats.stop(self._group, member_id)
