"""Waits for the metadata root: for one that is away, and for the next commit, asking seldom.

`CommitWait` is the one place where an idle reader waits. On a disk it looks for the next commit
file, nine times a second at most, which also works where another machine commits (a network mount
tells no watcher of that). On a store it sends one request in FETCH_MAX_WAIT_MS.
"""

import logging
from collections.abc import Callable
from typing import Final, TypeVar

from kafka_on_spark.base.errors import (
    KafkaOnSparkError,
    KafkaStorageError,
    QuorumUnavailableError,
    RootAccessDeniedError,
)
from kafka_on_spark.base.ids import Clock, Offset
from kafka_on_spark.metadata.image import MetadataDecider, MetadataImage
from kafka_on_spark.store.process import pause_ms, pauses_ms

T = TypeVar("T")

AWAY_PAUSE_MS_MIN: Final = 100.0
AWAY_PAUSE_MS_MAX: Final = 5000.0

ROOTS_AWAY: Final = (KafkaStorageError, QuorumUnavailableError)
"""Errors of a metadata root that fails: of the only one, and of a majority of several."""


def is_failing(error: KafkaOnSparkError) -> bool:
    """Return whether the root fails, or a majority of several do, and not the caller: waiting
    grants no permission."""
    return isinstance(error, ROOTS_AWAY) and not isinstance(error, RootAccessDeniedError)


def wait_for_root(
    ask: Callable[[], T],
    clock: Clock,
    *,
    timeout_ms: int,
    is_away: Callable[[KafkaOnSparkError], bool] = is_failing,
) -> T:
    """Return what `ask` returns; call it again while the metadata root is away, for `timeout_ms` at
    most. `is_away` says whether an error means that the root is away.
    """
    deadline_ms = clock.monotonic_ms() + timeout_ms
    pauses = pauses_ms(AWAY_PAUSE_MS_MIN, AWAY_PAUSE_MS_MAX)
    while True:
        pause_ms = next(pauses)
        try:
            return ask()
        except KafkaOnSparkError as error:
            if not is_away(error) or clock.monotonic_ms() + pause_ms > deadline_ms:
                raise
            if pause_ms == AWAY_PAUSE_MS_MIN:
                log.warning("waits for the metadata root (%d ms at most): %s", timeout_ms, error)
        clock.sleep_ms(pause_ms)


log = logging.getLogger(__name__)

FETCH_MAX_WAIT_MS: Final = 500
"""Pause between two requests to a store. Source: fetch.max.wait.ms."""

LOCAL_PAUSE_MS_MIN: Final = 5
LOCAL_PAUSE_MS_MAX: Final = 105
"""A look at a disk takes 0.5 to 0.9 ms of a processor, most of it for waking two threads: 0.9 % of
a core at most. What waits here longest is a record that is to be printed within 150 ms of its
append."""

SLICE_MS: Final = 105
"""How often a wait sees that it is over, or that this process has committed."""

LOOKS_A_READ: Final = 9
"""Of so many looks one reads the log as everybody does: the next commit file of the leader alone
does not tell of another leader, nor of a log that was cleaned or went back. On a disk it takes
twice as much as a look."""

STORE_LOOKS_A_READ: Final = 20
"""The same of a store, where a look comes each half second."""


class CommitWait:
    """The pace of one reader's looks for commits. Not for two threads at once.

    `is_local`: the metadata root is a folder, where a look costs next to nothing.
    """

    def __init__(self, metadata: MetadataDecider, clock: Clock, *, is_local: bool) -> None:
        self._metadata = metadata
        self._clock = clock
        self._is_local = is_local
        self._look_at_ms = clock.monotonic_ms()
        self._idle_looks = 0
        self._away_since_ms: int | None = None
        self._failures = 0

    @property
    def is_away(self) -> bool:
        """Whether the metadata root has failed at the last look, and is waited for."""
        return self._away_since_ms is not None

    @property
    def is_due(self) -> bool:
        return self._clock.monotonic_ms() >= self._look_at_ms

    def newest(self) -> MetadataImage:
        """Return the newest image; look for commits, if the last look is long enough ago.

        An outage of the metadata root is no error until it has lasted `metadata.away.timeout.ms`.
        """
        if self.is_due:
            self._look()
        return self._metadata.image

    def wait(
        self, seen: Offset, timeout_ms: float, is_over: Callable[[], bool] = lambda: False
    ) -> MetadataImage:
        """Wait until the log ends elsewhere than at `seen`, for `timeout_ms` at most; return the
        newest image. `is_over` ends the wait within moments.
        """
        end_ms = self._clock.monotonic_ms() + timeout_ms
        while (image := self.newest()).offset == seen and not is_over():
            now_ms = self._clock.monotonic_ms()
            if now_ms >= end_ms:
                break
            pause = min(max(self._look_at_ms - now_ms, 1), SLICE_MS, end_ms - now_ms)
            self._clock.sleep_ms(pause)
        return image

    def _look(self) -> None:
        """Read the log, unless a look says that there is nothing."""
        metadata = self._metadata
        before, looks = metadata.image.offset, self._idle_looks + 1
        looks_a_read = LOOKS_A_READ if self._is_local else STORE_LOOKS_A_READ
        try:
            is_read = looks % looks_a_read == 0 or metadata.has_next()
            if is_read:
                metadata.catch_up()
        except KafkaOnSparkError as error:
            self._note_failure(error)
            return
        self._away_since_ms, self._failures = None, 0
        self._idle_looks = looks if metadata.image.offset == before else 0
        if self._is_local:
            pause = int(pause_ms(self._idle_looks, LOCAL_PAUSE_MS_MIN, LOCAL_PAUSE_MS_MAX))
        else:  # to read a log that has nothing new takes two requests
            pause = FETCH_MAX_WAIT_MS * (2 if is_read and self._idle_looks else 1)
        self._look_at_ms = self._clock.monotonic_ms() + pause

    def _note_failure(self, error: KafkaOnSparkError) -> None:
        """Look again later, or raise if the root is away for too long."""
        if not is_failing(error):
            raise error
        now_ms = self._clock.monotonic_ms()
        since_ms = now_ms if self._away_since_ms is None else self._away_since_ms
        timeout_ms = self._metadata.image.settings().integer("metadata.away.timeout.ms")
        if now_ms - since_ms >= timeout_ms:
            self._away_since_ms = None
            raise error
        if self._away_since_ms is None:
            log.warning("waits for the metadata root (%d ms at most): %s", timeout_ms, error)
        self._away_since_ms = since_ms
        self._look_at_ms = now_ms + int(pause_ms(self._failures, 100, AWAY_PAUSE_MS_MAX))
        self._failures += 1
