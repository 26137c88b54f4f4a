"""Heartbeats: when a member counts as silent, who checks whom, and how long one may go on. Pure.

A heartbeat is a small file that its member replaces; only what it leads to is a record. Clocks
count durations, each in its own process, and no rule of safety rests on them: a member that was
fenced too early joins again, and saves no offset before.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Final

from kafka_on_spark.base.ids import MemberId

GAPS_A_SESSION: Final = 3
"""Two checks may be this part of a session apart. A process that was frozen between two has seen
nothing meanwhile: it begins again."""

BEATS_MISSED_MAX: Final = 3
"""A member that is silent for longer than so many intervals fences none of those behind it."""

ASKED_MS: Final = 1_000
"""So long a member hands out what it has found in the metadata log to be its own. It is about as
long as a reader waits between two requests to a store."""


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
        """How long the member has been silent at least."""
        return max(self.until_ms - self.since_ms, 0)

    def is_over(self, session_ms: int) -> bool:
        """Return whether the member's session is over: it is to be fenced."""
        return self.silent_ms >= session_ms

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


@dataclass(frozen=True, slots=True)
class Beats:
    """A member's own heartbeats that were written with less than a session between any two: when
    the first and the last of them began. Nobody has a reason to fence it that came up since the
    first."""

    since_ms: int
    last_ms: int


def after_beat(before: Beats | None, began_ms: int, ended_ms: int, session_ms: int) -> Beats:
    """Return what a member knows after one more heartbeat that was written. Others may have seen
    the one before until this one was written whole."""
    if before is None or ended_ms - before.last_ms >= session_ms:
        return Beats(began_ms, began_ms)
    return replace(before, last_ms=began_ms)


def may_go_on(beats: Beats | None, asked_ms: int, now_ms: int, session_ms: int) -> bool:
    """Return whether a member may hand out more without asking the metadata log again, in which it
    has last found itself by a request that began at `asked_ms`.

    It may if nobody can have fenced it since; or for moments, whatever its heartbeats do.
    """
    if now_ms - asked_ms < ASKED_MS:
        return True
    is_unbroken = beats is not None and beats.since_ms <= asked_ms
    return is_unbroken and beats is not None and now_ms - beats.last_ms < session_ms
