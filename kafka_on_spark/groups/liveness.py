"""Heartbeats of groups' members: each beats, checks others, and fences the silent ones.

A heartbeat is a small file that its member replaces, `groups/<group>/<member>` on a majority of the
metadata roots; the others read a majority, and compare each root with what it had before. Two
majorities share a root, so a member that can't reach one root still sees all that live. Only what
heartbeats lead to is a record.

Clocks count durations, each in its own process, and no rule of safety rests on them: a member that
was fenced too early joins again, and saves no offset before.

Two threads do it beside the consumer's own: one beats, so that nothing holds that up, and one
checks. So a consumer that is busy for minutes lives for the others. One that asks for no records
for max.poll.interval.ms leaves. Groups of which no member is left are the controller's.
"""

import hashlib
import logging
import re
import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final, TypeVar

from kafka_on_spark.base.errors import ClusterClosedError, KafkaOnSparkError, KafkaStorageError
from kafka_on_spark.base.ids import Clock, MemberId
from kafka_on_spark.groups.membership import fence, leave
from kafka_on_spark.metadata.cluster_roots import HintRoots
from kafka_on_spark.metadata.image import ConsumerGroup, Decide, MetadataImage
from kafka_on_spark.metadata.metadata_service import MetadataService
from kafka_on_spark.metadata.quorum.voter_table import majority_of
from kafka_on_spark.store.counts import CONSUME, operating
from kafka_on_spark.store.deadlines import no_thread_error
from kafka_on_spark.store.local_files import (
    SMALL_FILE_BYTES_MAX,
    UnsafeFileError,
)
from kafka_on_spark.store.root_identity import META_PROPERTIES
from kafka_on_spark.store.roots import RootFiles, is_local

log = logging.getLogger(__name__)

T = TypeVar("T")

SILENCE_MS: Final = 600_000
"""For so long at least all members are silent before the controller fences them."""

# What checks find

GAPS_A_SESSION: Final = 3
"""Two checks may be this part of a session apart. A process that was frozen between two has seen
nothing meanwhile: it begins again."""

BEATS_MISSED_MAX: Final = 3
"""A member that is silent for longer than so many intervals fences none of those behind it."""

Content = Mapping[str, bytes | None]
"""A member's heartbeat on roots, by their URLs; None: no file."""


@dataclass(frozen=True, slots=True)
class Observed:
    """What checks of one member have found, the last of them unchanged.

    Attributes:
        content: What they found, on all roots that one of them read.
        since_ms: When the first of them had ended: it has changed by then, if ever.
        until_ms: When the last of them began: it had not changed by then.
        ended_ms: When the last of them had ended.
        has_beaten: The check before the first of them has found another: the member lived since.
    """

    content: Content
    since_ms: int
    until_ms: int
    ended_ms: int
    has_beaten: bool = False

    @property
    def silent_ms(self) -> int:
        return max(self.until_ms - self.since_ms, 0)

    def is_late(self, interval_ms: int) -> bool:
        """Return whether the member has missed so many heartbeats that it may be dead."""
        return self.silent_ms > BEATS_MISSED_MAX * interval_ms

    def lives(self, interval_ms: int) -> bool:
        """Return whether the member is known to live: a check has found another heartbeat than the
        one before."""
        return self.has_beaten and not self.is_late(interval_ms)


def observe(
    before: Observed | None, content: Content, began_ms: int, ended_ms: int, session_ms: int
) -> Observed:
    """Return what is known of a member after one more check, which began and ended then by a
    monotonic clock, and has found `content` on a majority of the roots.

    Each root is held against itself: what others have of a heartbeat is older or newer, and says
    nothing. Two majorities share a root, so of roots that all were read before one has a heartbeat
    that was written since. One that is read for the first time may have had it: silence counts from
    there.
    """
    known = {} if before is None else before.content
    has_beaten = any(known.get(root, each) != each for root, each in content.items())
    if before is None or has_beaten or began_ms - before.ended_ms > _gap_ms(session_ms):
        return Observed(content, ended_ms, began_ms, ended_ms, has_beaten)
    if content.keys() <= known.keys():
        return replace(before, until_ms=began_ms, ended_ms=ended_ms)
    return Observed({**known, **content}, ended_ms, began_ms, ended_ms)


def _gap_ms(session_ms: int) -> float:
    return session_ms / GAPS_A_SESSION


def members_to_check(
    members: Iterable[MemberId],
    me: MemberId,
    observed: Mapping[MemberId, Observed],
    interval_ms: int,
) -> list[MemberId]:
    """Return the members that one checks: the one after it in a circle; if that is late, those
    behind it, too, up to the first that is known to live.

    So a check of a quiet group is one request. Of many that died at once all but the first are
    fenced at once: the member before them begins to check the whole run behind it together.
    """
    circle = sorted({*members, me})
    place = circle.index(me)
    checked: list[MemberId] = []
    for member in circle[place + 1 :] + circle[:place]:
        is_first = not checked
        checked.append(member)
        known = observed.get(member)
        if is_first and (known is None or not known.is_late(interval_ms)):
            break
        if known is not None and known.lives(interval_ms):
            break
    return checked


# Heartbeats in files

FOLDER: Final = "groups"
_READABLE_MAX: Final = 40
_NOT_HARMLESS: Final = re.compile("[^a-z0-9_-]+")


class HeartbeatFiles:
    """Heartbeats in files of a cluster's metadata roots: written to the first that take them, and
    read from the first that answer, a majority each. Threads may share it."""

    def __init__(self, roots: HintRoots) -> None:
        self._roots = roots

    def beat(self, group: str, member_id: MemberId, count: int) -> None:
        """Replace a member's heartbeat by another, which `count` tells from the one before, on a
        majority of the roots; raise KafkaStorageError if fewer take it."""
        heartbeat = f"{member_id} {count}\n".encode()
        roots = self._roots.in_turn()
        needed = majority_of(len(roots))
        self._of_first(roots, needed, lambda root: _write(root, group, member_id, heartbeat))

    def contents(self, group: str, member_ids: Sequence[MemberId]) -> list[Content]:
        """Return some members' heartbeats, in order, of a majority of the roots: each beat changes
        one of them.

        A member that has changed roots leaves its last one on the root before.

        Raises:
            KafkaStorageError: No majority answers: what fewer have is no evidence of a member that
                they do not have.
        """
        roots = self._roots.in_turn()
        needed = majority_of(len(roots))
        proven: set[str] = set()

        def content_of(member_id: MemberId) -> Content:
            path = f"{_folder(group)}/{name_in_path(member_id)}"
            return self._of_first(roots, needed, lambda root: _read(root, path, proven))

        return [content_of(each) for each in member_ids]

    def _of_first(
        self, roots: list[RootFiles], needed: int, ask: Callable[[RootFiles], T]
    ) -> dict[str, T]:
        """Return what the first of some roots answer, by their URLs; those that fail are not asked
        again, and leave the list."""
        found: dict[str, T] = {}
        failures: list[KafkaStorageError] = []
        for root in list(roots):
            if len(found) == needed:
                break
            try:
                found[root.url] = ask(root)
            except KafkaStorageError as error:
                log.info("%s has failed a heartbeat: %s", root.url, error)
                failures.append(error)
                roots.remove(root)
                self._roots.try_last(root.url)
        if len(found) < needed:
            raise failures[0]
        return found

    def stop(self, group: str, member_id: MemberId) -> None:
        """Remove a member's heartbeat, where it can be, and the folder if that was the last."""
        for root in self._roots.in_turn():
            path = f"{root.url}/{_folder(group)}"
            try:
                root.delete_file(f"{path}/{name_in_path(member_id)}")
                root.delete_empty_folder(path)
            except KafkaStorageError as error:
                log.debug("%s stays: %s", path, error)


def _read(root: RootFiles, path: str, proven: set[str]) -> bytes | None:
    """Return what is under a path of a root; `proven`: roots that are known to be there."""
    try:
        content = root.read(f"{root.url}/{path}", SMALL_FILE_BYTES_MAX)
    except UnsafeFileError:
        return None
    if content is None and root.url not in proven:
        # An empty mount point has no heartbeats, whoever lives.
        if root.read(f"{root.url}/{META_PROPERTIES}", SMALL_FILE_BYTES_MAX) is None:
            raise _not_there(root.url)
        proven.add(root.url)
    return content


def _write(root: RootFiles, group: str, member_id: MemberId, heartbeat: bytes) -> None:
    folder = f"{root.url}/{_folder(group)}"
    if is_local(root.url) and root.size(f"{root.url}/{META_PROPERTIES}") is None:
        raise _not_there(root.url)  # a mount point without its disk
    root.make_folders([f"{root.url}/{FOLDER}", folder])
    root.write(f"{folder}/{name_in_path(member_id)}", heartbeat, is_flushed=False)


def _not_there(root: str) -> KafkaStorageError:
    return KafkaStorageError(
        f"{root} is no metadata root now: it has no {META_PROPERTIES}, as if its disk were away"
    )


def _folder(group: str) -> str:
    return f"{FOLDER}/{name_in_path(group)}"


def name_in_path(name: str) -> str:
    """Return a name as part of a path: of two names never the same, on file systems that know no
    capitals, too."""
    readable = _NOT_HARMLESS.sub("_", name.lower())[:_READABLE_MAX]
    digest = hashlib.sha256(name.encode("utf-8", "surrogatepass")).hexdigest()[:32]
    return f"{readable}-{digest}"


# Who beats and checks


class Liveness:
    """One consumer's heartbeats, and its checks of others'. `session`: the setting that says for
    how long a member may be silent.

    Attributes:
        clock: The process's, which also counts while the machine sleeps.
        polled_at_ms: When the consumer's own thread was last in a call.
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
        session: str = "group.consumer.session.timeout.ms",
    ) -> None:
        self.clock = clock
        self.group = group
        self.timeout_ms = timeout_ms
        self.new_id = new_id
        self.knows_others = False
        self._session = session
        self._metadata = metadata
        self._heartbeats = heartbeats
        self._max_poll_interval_ms = max_poll_interval_ms
        self._member_id: MemberId | None = None
        self._count = 0
        self._observed: dict[MemberId, Observed] = {}
        self._instance_id: str | None = None
        self.polled_at_ms = clock.monotonic_ms()

    @property
    def session_ms(self) -> int:
        return self._metadata.image.settings().integer(self._session)

    @property
    def interval_ms(self) -> int:
        """How often a member beats and checks: often enough for the session at any setting."""
        settings = self._metadata.image.settings()
        interval_ms = settings.integer("group.consumer.heartbeat.interval.ms")
        return max(min(interval_ms, self.session_ms // (GAPS_A_SESSION + 1)), 1)

    # By the consumer's own thread

    def begin(self, member_id: MemberId, instance_id: str | None = None) -> None:
        """Beat as this member, which may be a static one, from now on; raise KafkaStorageError if
        the first heartbeat can't be written."""
        self._instance_id = instance_id
        if self._member_id != member_id:
            self._member_id, self.knows_others = member_id, False
        self.beat()

    def end(self) -> None:
        """Beat no more; remove the heartbeat, where it can be."""
        member_id, self._member_id = self._member_id, None
        if member_id is not None:
            self._heartbeats.stop(self.group, member_id)

    def has_beaten(self, member_id: MemberId) -> bool:
        observed = self._observed.get(member_id)
        return observed is not None and observed.has_beaten

    def begin_threads(self) -> threading.Event:
        """Have daemon threads beat and check; return what ends them when it is set."""
        ended = threading.Event()
        for name, work in (("beat", self.beat), ("check", self.check)):
            thread = threading.Thread(
                target=self._repeat, args=(work, ended), name=f"member_{name}", daemon=True
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
                log.warning("a member of group %r: %s", self.group, error)
            except Exception:
                log.exception("a member's thread has failed")

    # By threads of their own

    def beat(self) -> None:
        """Beat once, unless the consumer has asked for nothing for too long."""
        member_id = self._member_id
        if member_id is None or self._is_idle():
            return
        self._metadata.check_open()
        self._count += 1
        self._heartbeats.beat(self.group, member_id, self._count)
        if self._member_id != member_id:  # it has ended meanwhile
            self._heartbeats.stop(self.group, member_id)

    def check(self) -> None:
        """Check others once, and fence the silent ones; or leave. One that waits for the place of a
        static member checks that one: nobody else may be there to fence it."""
        me = self._member_id
        if me is None:
            return
        group = self._metadata.catch_up().consumer_groups.get(self.group)
        members = {} if group is None else group.members
        holder = None if group is None else group.with_instance(self._instance_id)
        if me in members and self._is_idle():
            log.warning(
                "a consumer leaves group %r: it has asked for nothing for %d ms"
                " (max_poll_interval_ms)",
                self.group,
                self._max_poll_interval_ms,
            )
            now_ms = self.clock.now_ms()
            self._metadata.submit(
                lambda image: leave(image, self.group, me, now_ms), timeout_ms=self.timeout_ms
            )
            self._heartbeats.stop(self.group, me)
            return
        checked: list[MemberId] = []
        if me in members:
            checked = members_to_check(members, me, self._observed, self.interval_ms)
        elif holder is not None:
            checked = [holder.member_id]
        # What is known of members that it did not check is old: it says of none that it lives.
        self._observed = observed = _check(
            self._heartbeats, self.clock, self.group, checked, self._observed, self.session_ms
        )
        self.knows_others = not checked or observed[checked[0]].lives(self.interval_ms)
        self.fence({each: of for each, of in observed.items() if of.silent_ms >= self.session_ms})

    def _is_idle(self) -> bool:
        idle_ms = self.clock.monotonic_ms() - self.polled_at_ms
        return idle_ms >= self._max_poll_interval_ms

    def fence(self, silent: Mapping[MemberId, Observed]) -> None:
        """Fence members whose session is over, in one commit: as many as died at once are out
        before the check of them is old. Of those that were checked long ago none is: this process
        was frozen since, and checks again."""
        since_ms = self.clock.monotonic_ms() - _gap_ms(self.session_ms)
        silent_ms = {
            each: known.silent_ms for each, known in silent.items() if known.ended_ms >= since_ms
        }
        if not silent_ms:
            return
        now_ms = self.clock.now_ms()
        self._metadata.submit(
            lambda image: fence(image, self.group, silent_ms, now_ms), timeout_ms=self.timeout_ms
        )
        for each, duration_ms in silent_ms.items():
            log.warning("fenced member %s of %r, silent for %d ms", each, self.group, duration_ms)
            self._heartbeats.stop(self.group, each)


class SilentGroups:
    """What one controller knows of groups' members: it checks all of them, once in minutes, and
    fences those of a group if all that it knows are silent. While one lives, members check each
    other."""

    def __init__(self, heartbeats: HeartbeatFiles, clock: Clock) -> None:
        self._heartbeats = heartbeats
        self._clock = clock
        self._observed: dict[str, dict[MemberId, Observed]] = {}
        self._checked_at_ms: int | None = None

    def run(self, image: MetadataImage, submit: Callable[[Decide[None]], None]) -> None:
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
        self,
        name: str,
        group: ConsumerGroup,
        silence_ms: int,
        submit: Callable[[Decide[None]], None],
    ) -> None:
        known, members = self._observed.get(name, {}), sorted(group.members)
        observed = _check(self._heartbeats, self._clock, name, members, known, silence_ms)
        self._observed[name] = observed
        silent_ms = {each: known.silent_ms for each, known in observed.items()}
        if min(silent_ms.values()) < silence_ms:
            return
        now_ms = self._clock.now_ms()
        submit(lambda image: fence(image, name, silent_ms, now_ms))
        log.warning("fenced %d members of group %r: none of them lives", len(silent_ms), name)
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
    if not member_ids:
        return {}
    began_ms = clock.monotonic_ms()
    contents = heartbeats.contents(group, member_ids)
    ended_ms = clock.monotonic_ms()
    return {
        each: observe(known.get(each), content, began_ms, ended_ms, session_ms)
        for each, content in zip(member_ids, contents, strict=True)
    }
