"""Liveness of groups' members: each beats, checks others, and fences the silent ones.

Two threads do it beside the consumer's own: one beats, so that nothing holds that up, and one
checks. So a consumer that is busy for minutes lives for the others. One that asks for no records
for max.poll.interval.ms leaves. Groups of which no member is left are the controller's.
"""

import logging
import threading
from collections.abc import Callable, Mapping, Sequence
from typing import Final

from kafka_on_spark.base.errors import ClusterClosedError, KafkaOnSparkError, KafkaStorageError
from kafka_on_spark.base.ids import MemberId
from kafka_on_spark.base.process import Clock
from kafka_on_spark.groups.heartbeat_files import HeartbeatFiles
from kafka_on_spark.groups.heartbeats import (
    GAPS_A_SESSION,
    Beats,
    Observed,
    after_beat,
    members_to_check,
    observe,
)
from kafka_on_spark.groups.membership import fence, leave
from kafka_on_spark.groups.offsets import offsets_kept
from kafka_on_spark.metadata.group import ConsumerGroup
from kafka_on_spark.metadata.image import MetadataImage
from kafka_on_spark.metadata.metadata_service import MetadataService
from kafka_on_spark.metadata.result import ControllerResult
from kafka_on_spark.store.daemon_threads import no_thread_error
from kafka_on_spark.store.requests import CONSUME, operating

log = logging.getLogger(__name__)

STALE_PART: Final = 3
"""A check that ended longer ago than this part of a session fences nobody: its process was frozen
since."""

SILENCE_MS: Final = 600_000
"""For so long at least all members are silent before the controller fences them."""

Decide = Callable[[MetadataImage], ControllerResult[None]]


class Liveness:
    """One consumer's heartbeats, and its checks of others'.

    Attributes:
        clock: The process's, which also counts while the machine sleeps.
        beats: The heartbeats of this life; None: there are none.
        knows_others: The last check has found that the member behind this one lives, or that there
        is no other. Those further behind are checked by the ones that live; what this one knows of
        the first, which may be dead, is lost if it leaves."""

    def __init__(
        self,
        metadata: MetadataService,
        heartbeats: HeartbeatFiles,
        clock: Clock,
        *,
        group: str,
        max_poll_interval_ms: int,
        timeout_ms: int,
        new_id: Callable[[], str],
    ) -> None:
        self.clock = clock
        self.group = group
        self.timeout_ms = timeout_ms
        self.new_id = new_id
        self.beats: Beats | None = None
        self.knows_others = False
        self._metadata = metadata
        self._heartbeats = heartbeats
        self._max_poll_interval_ms = max_poll_interval_ms
        self._lock = threading.Lock()
        self._member_id: MemberId | None = None
        self._count = 0
        self._is_failing = False
        self._observed: dict[MemberId, Observed] = {}
        self._holder: MemberId | None = None
        self._polled_at_ms = clock.monotonic_ms()

    @property
    def session_ms(self) -> int:
        """For how long a member may be silent. Source: group.consumer.session.timeout.ms."""
        return self._metadata.image.settings().integer("group.consumer.session.timeout.ms")

    @property
    def interval_ms(self) -> int:
        """How often a member beats and checks: often enough for the session at any setting."""
        settings = self._metadata.image.settings()
        interval_ms = settings.integer("group.consumer.heartbeat.interval.ms")
        return max(min(interval_ms, self.session_ms // (GAPS_A_SESSION + 1)), 1)

    # By the consumer's own thread

    def begin(self, member_id: MemberId) -> None:
        """Beat as this member from now on; raise KafkaStorageError if the first heartbeat can't be
        written."""
        with self._lock:
            if self._member_id != member_id:
                self._member_id, self.beats = member_id, None
                self.knows_others = False
        self.beat(is_first=True)

    def end(self) -> None:
        """Beat no more; remove the heartbeat, where it can be."""
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
        """Have `check` see to the member that has this static member's place, and fence it if it is
        silent; None: nobody has it any more. Return whether checks have found that it lives."""
        self._holder = holder
        observed = None if holder is None else self._observed.get(holder)
        return observed is not None and observed.has_beaten

    def note_poll(self, now_ms: int) -> None:
        """The consumer's own thread is in a call: it is alive."""
        self._polled_at_ms = now_ms

    def begin_threads(self) -> threading.Event:
        """Have daemon threads beat and check; return what ends them when it is set."""
        ended = threading.Event()
        for name, work in (("beat", self.beat), ("check", self.check)):
            thread = threading.Thread(
                target=self._repeat,
                args=(work, ended),
                name=f"member_{name}",
                daemon=True,
            )
            try:
                thread.start()
            except RuntimeError as error:
                ended.set()
                raise no_thread_error() from error
        return ended

    def _repeat(self, work: Callable[[], None], ended: threading.Event) -> None:
        while not ended.wait(self.interval_ms / 1000):
            try:
                with operating(CONSUME):
                    work()
            except ClusterClosedError:
                return  # nobody beats for a cluster that this process has closed
            except KafkaOnSparkError as error:
                log.warning("a member's check of its group has failed: %s", error)
            except Exception:
                log.exception("a member's thread has failed")

    # By threads of their own

    def beat(self, *, is_first: bool = False) -> None:
        """Beat once, unless the consumer has asked for nothing for too long. Failures are logged,
        but of the first, which is raised."""
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

    def check(self) -> None:
        """Check others once, and fence the silent ones; or leave. One that waits for the end of a
        static member checks that."""
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
        checked: list[MemberId] = []
        if me in members:
            checked = members_to_check(members, me, self._observed, self.interval_ms)
        if holder is not None and holder in members and holder not in checked:
            checked.append(holder)
        # What is known of members that it did not check is old: it says of none that it lives.
        self._observed = observed = _check(
            self._heartbeats, self.clock, self.group, checked, self._observed, self.session_ms
        )
        self.knows_others = not checked or observed[checked[0]].lives(self.interval_ms)
        self.fence({each: of for each, of in observed.items() if of.is_over(self.session_ms)})

    def _is_idle(self) -> bool:
        """Return whether the consumer has asked for nothing for too long."""
        idle_ms = self.clock.monotonic_ms() - self._polled_at_ms
        return idle_ms >= self._max_poll_interval_ms

    def fence(self, silent: Mapping[MemberId, Observed]) -> None:
        """Fence members whose session is over, in one commit: as many as died at once are out
        before the check of them is old. Of those that were checked long ago none is: this process
        was frozen since, and checks again."""
        since_ms = self.clock.monotonic_ms() - self.session_ms / STALE_PART
        silent_ms = {
            each: known.silent_ms for each, known in silent.items() if known.ended_ms >= since_ms
        }
        if not silent_ms:
            return
        self._submit_without(lambda image: fence(image, self.group, silent_ms))
        for each, duration_ms in silent_ms.items():
            log.warning("fenced member %s of %r, silent for %d ms", each, self.group, duration_ms)
            self._heartbeats.stop(self.group, each)

    def _submit_without(self, decide: Decide) -> None:
        """Submit a decision by which a member goes: it may be the last one."""
        now_ms = self.clock.now_ms()
        self._metadata.submit(
            lambda image: offsets_kept(image, self.group, decide(image), now_ms),
            timeout_ms=self.timeout_ms,
        )


class SilentGroups:
    """What one controller knows of groups' members: it checks all of them, once in minutes, and
    fences those of a group of which all are silent. While one lives, members check each other."""

    def __init__(self, heartbeats: HeartbeatFiles, clock: Clock) -> None:
        self._heartbeats = heartbeats
        self._clock = clock
        self._observed: dict[str, dict[MemberId, Observed]] = {}
        self._checked_at_ms: int | None = None

    def run(self, image: MetadataImage, submit: Callable[[Decide], None]) -> None:
        """Check each group, if it is time to, and fence those of which all are silent."""
        now_ms = self._clock.monotonic_ms()
        session_ms = image.settings().integer("group.consumer.session.timeout.ms")
        silence_ms = max(session_ms, SILENCE_MS)
        pause_ms = silence_ms // (GAPS_A_SESSION + 1)
        if self._checked_at_ms is not None and now_ms - self._checked_at_ms < pause_ms:
            return
        self._checked_at_ms = now_ms
        groups = image.consumer_groups
        self._observed = {name: each for name, each in self._observed.items() if name in groups}
        for name, group in groups.items():
            try:
                self._check(name, group, silence_ms, submit)
            except KafkaStorageError as error:
                log.info("heartbeats of group %r can't be read: %s", name, error)

    def _check(
        self, name: str, group: ConsumerGroup, silence_ms: int, submit: Callable[[Decide], None]
    ) -> None:
        known, members = self._observed.get(name, {}), sorted(group.members)
        observed = _check(self._heartbeats, self._clock, name, members, known, silence_ms)
        self._observed[name] = observed
        if not all(each.is_over(silence_ms) for each in observed.values()):
            return
        silent_ms = {each: known.silent_ms for each, known in observed.items()}
        now_ms = self._clock.now_ms()
        submit(
            lambda image: offsets_kept(
                image, name, fence(image, name, silent_ms, is_all_or_none=True), now_ms
            )
        )
        log.warning("fenced all %d members of group %r: none lives", len(silent_ms), name)
        for member in silent_ms:
            self._heartbeats.stop(name, member)


def _check(
    heartbeats: HeartbeatFiles,
    clock: Clock,
    group: str,
    member_ids: Sequence[MemberId],
    known: Mapping[MemberId, Observed],
    session_ms: int,
) -> dict[MemberId, Observed]:
    """Read heartbeats; return what is known of each member after it."""
    if not member_ids:
        return {}
    began_ms = clock.monotonic_ms()
    contents = heartbeats.contents(group, member_ids)
    ended_ms = clock.monotonic_ms()
    return {
        each: observe(known.get(each), content, began_ms, ended_ms, session_ms)
        for each, content in zip(member_ids, contents, strict=True)
    }
