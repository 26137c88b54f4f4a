"""What members of a group do for each other while they read: they beat, and listen to each other.

Two threads call it beside the consumer's own: one beats, so that nothing holds that up, and one
looks. So a consumer that is busy for minutes is alive for the others, and sees who is not. Who asks
for nothing for max.poll.interval.ms leaves.
"""

import logging
import threading
from collections.abc import Callable, Mapping, Sequence
from typing import Final

from kafka_on_spark.base.errors import KafkaOnSparkError
from kafka_on_spark.base.ids import MemberId
from kafka_on_spark.base.process import Clock
from kafka_on_spark.groups.groups import offsets_kept
from kafka_on_spark.groups.heartbeats import (
    GAPS_A_SESSION,
    Beats,
    Heard,
    after_beat,
    after_look,
    to_listen_to,
)
from kafka_on_spark.groups.membership import fence, leave
from kafka_on_spark.metadata.image import MetadataImage
from kafka_on_spark.metadata.metadata import Heartbeats
from kafka_on_spark.metadata.metadata_service import MetadataService
from kafka_on_spark.metadata.result import ControllerResult

log = logging.getLogger(__name__)

STALE_PART: Final = 3
"""A look that ended longer ago than this part of a session fences nobody: who looked was frozen."""


class Witness:
    """One consumer's heartbeats, and its looks at those of others.

    Attributes:
        clock: The process's, which also counts while the machine sleeps.
        group: The group.
        beats: The heartbeats of this life; None: there are none.
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
    ) -> None:
        self.clock = clock
        self.group = group
        self.beats: Beats | None = None
        self.hears_others = False
        self._metadata = metadata
        self._heartbeats = heartbeats
        self._max_poll_interval_ms = max_poll_interval_ms
        self._timeout_ms = timeout_ms
        self._lock = threading.Lock()
        self._member_id: MemberId | None = None
        self._count = 0
        self._is_failing = False
        self._heard: dict[MemberId, Heard] = {}
        self._holder: MemberId | None = None
        self._asked_for_at_ms = clock.monotonic_ms()

    @property
    def session_ms(self) -> int:
        """For how long a member may be silent. Source: group.consumer.session.timeout.ms."""
        return self._metadata.image.settings().integer("group.consumer.session.timeout.ms")

    @property
    def turn_ms(self) -> int:
        """How often a member beats and looks: often enough for the session at any interval."""
        settings = self._metadata.image.settings()
        interval_ms = settings.integer("group.consumer.heartbeat.interval.ms")
        return max(min(interval_ms, self.session_ms // (GAPS_A_SESSION + 1)), 1)

    # Lives of the consumer, by its own thread

    def begin(self, member_id: MemberId) -> None:
        """Beat as this member from now on.

        Raises:
            KafkaStorageError: The first heartbeat can't be written.
        """
        with self._lock:
            if self._member_id != member_id:
                self._member_id, self.beats = member_id, None
                self.hears_others = False
        self.beat(is_first=True)

    def end(self) -> None:
        """Beat no more; remove what stands, where it can be."""
        with self._lock:
            member_id, self._member_id, self.beats = self._member_id, None, None
        if member_id is not None:
            self._heartbeats.stop(self.group, member_id)

    def tidy(self) -> None:
        """Remove heartbeats that killed members have left: none is of a member any more."""
        group = self._metadata.image.consumer_groups.get(self.group)
        if group is not None:
            self._heartbeats.keep_only(self.group, list(group.members))

    def watch(self, holder: MemberId | None) -> bool:
        """Have `look` see to the member that has this static member's place, and fence it if it is
        silent; None: nobody has it any more. Return whether looks have found that it lives."""
        self._holder = holder
        heard = None if holder is None else self._heard.get(holder)
        return heard is not None and heard.has_beaten

    def note_asked_for(self, now_ms: int) -> None:
        """The consumer's own thread is in a call: it is alive."""
        self._asked_for_at_ms = now_ms

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
        began_ms = self.clock.monotonic_ms()
        try:
            self._heartbeats.beat(self.group, member_id, self._count)
        except KafkaOnSparkError as error:
            if is_first:
                raise
            if not self._is_failing:
                log.warning("a heartbeat of group %r was not written: %s", self.group, error)
            self._is_failing = True
            return
        self._is_failing = False
        ended_ms = self.clock.monotonic_ms()
        with self._lock:
            is_ended = self._member_id != member_id
            if not is_ended:
                self.beats = after_beat(self.beats, began_ms, ended_ms, self.session_ms)
        if is_ended:
            self._heartbeats.stop(self.group, member_id)

    def look(self) -> None:
        """Look at others once, and fence who is silent; or leave. Who waits for the end of a static
        member looks at that.

        Raises:
            ClusterClosedError: This process has closed the cluster.
            And as `MetadataService.submit` and `Heartbeats.listen`.
        """
        me, holder = self._member_id, self._holder
        if me is None:
            return
        group = self._metadata.catch_up().consumer_groups.get(self.group)
        members = {} if group is None else group.members
        if me in members and self._is_idle():
            log.warning(
                "a consumer leaves group %r: it has asked for nothing for %d ms"
                " (max_poll_interval_ms)",
                self.group,
                self._max_poll_interval_ms,
            )
            self._submit_without(lambda image: leave(image, self.group, me))
            self._heartbeats.stop(self.group, me)
            return
        listened = to_listen_to(members, me, self._heard, self.turn_ms) if me in members else []
        if holder is not None and holder in members and holder not in listened:
            listened.append(holder)
        # What is known of members that it did not look at is old: it tells of none that it lives.
        self._heard = heard = looked_at(
            self._heartbeats, self.clock, self.group, listened, self._heard, self.session_ms
        )
        self.hears_others = not listened or heard[listened[0]].lives(self.turn_ms)
        self.fence({each: of for each, of in heard.items() if of.is_over(self.session_ms)})

    def _is_idle(self) -> bool:
        """Return whether the consumer has asked for nothing for too long."""
        idle_ms = self.clock.monotonic_ms() - self._asked_for_at_ms
        return idle_ms >= self._max_poll_interval_ms

    def fence(self, silent: Mapping[MemberId, Heard]) -> None:
        """Fence members whose session is over, in one commit: as many as died at once are out
        before the look at them is old. Of those that were looked at long ago none is: this process
        was frozen since, and looks again.

        Raises: as `MetadataService.submit`.
        """
        since_ms = self.clock.monotonic_ms() - self.session_ms / STALE_PART
        silent_ms = {
            each: heard.silent_ms for each, heard in silent.items() if heard.ended_ms >= since_ms
        }
        if not silent_ms:
            return
        self._submit_without(lambda image: fence(image, self.group, silent_ms))
        for each, duration_ms in silent_ms.items():
            log.warning("fenced member %s of %r, silent for %d ms", each, self.group, duration_ms)
            self._heartbeats.stop(self.group, each)

    def _submit_without(self, decide: Callable[[MetadataImage], ControllerResult[None]]) -> None:
        """Submit a decision by which a member goes: it may be the last one."""
        now_ms = self.clock.now_ms()
        self._metadata.submit(
            lambda image: offsets_kept(image, self.group, decide(image), now_ms),
            timeout_ms=self._timeout_ms,
        )


def looked_at(
    heartbeats: Heartbeats,
    clock: Clock,
    group: str,
    member_ids: Sequence[MemberId],
    known: Mapping[MemberId, Heard],
    session_ms: int,
) -> dict[MemberId, Heard]:
    """Look at heartbeats; return what is known of each member after it.

    Raises:
        KafkaStorageError: No majority of the metadata roots answers.
    """
    if not member_ids:
        return {}
    began_ms = clock.monotonic_ms()
    contents = heartbeats.listen(group, member_ids)
    ended_ms = clock.monotonic_ms()
    return {
        each: after_look(known.get(each), content, began_ms, ended_ms, session_ms)
        for each, content in zip(member_ids, contents, strict=True)
    }
