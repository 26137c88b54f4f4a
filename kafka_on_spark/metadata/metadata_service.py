"""Catches up with the metadata log, decides, and commits: the one way to learn and change metadata.

`MetadataService` holds the image of the process; it decides nothing itself. After a conflict the
decision runs again on the image that the winner's commit led to, so it must be pure. Its
`CommitClock` says what time a commit has, and `count_decisions` counts what was committed.

`CommitWait` is the one place where an idle reader waits. On a disk it looks for the next commit
file, nine times a second at most, which also works where another machine commits (a network mount
tells no watcher of that). On a store it sends one request in FETCH_MAX_WAIT_MS.
`wait_for_root` waits for a metadata root that is away.
"""

import gc
import logging
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import replace
from itertools import chain
from typing import Final, TypeVar

from kafka_on_spark.base.errors import (
    ClusterClosedError,
    CommitConflictError,
    CommitOutcomeUnknownError,
    HistoryExpiredError,
    KafkaOnSparkError,
    KafkaStorageError,
    QuorumUnavailableError,
    RequestTimedOutError,
    RootAccessDeniedError,
)
from kafka_on_spark.base.ids import (
    Clock,
    ControllerEpoch,
    Offset,
    ReplicaUuid,
    stamp_ms,
    too_old_by_ms,
)
from kafka_on_spark.metadata.cluster_roots import DeltaMetadataLog
from kafka_on_spark.metadata.commit_lock import NO_LOCK, CommitLock
from kafka_on_spark.metadata.image import (
    ControllerResult,
    MetadataImage,
    snapshot_records,
)
from kafka_on_spark.metadata.quorum.raft import QuorumSettings
from kafka_on_spark.metadata.records import (
    AdminRequestRecord,
    AdminResultRecord,
    HighWatermarkRecord,
    MetadataBatch,
    PartitionChangeRecord,
    Stamp,
)
from kafka_on_spark.store.counts import (
    COMMIT_MS,
    COMMITS,
    COMMITTED,
    CONFLICT,
    ELECTIONS,
    FAILED,
    ISR_EXPANDS,
    ISR_SHRINKS,
    MESSAGES_IN,
    UNCLEAN_ELECTIONS,
    UNKNOWN,
    Counts,
)
from kafka_on_spark.store.deadlines import is_local, pause_ms, pauses_ms, until_committed
from kafka_on_spark.store.delta.log_cleaning import COMMITS_KEPT_MS

log = logging.getLogger(__name__)

T = TypeVar("T")

AfterReplay = Callable[[MetadataImage, Sequence[MetadataBatch], MetadataImage], None]

ASK_AGAIN_MS: Final = 1000
"""A process whose clock is wrong asks the root again at most so often: `send` asks for the time of
each record. One that no root has answered asks each time: its own clock alone would stamp."""


class CommitClock:
    """A Clock whose wall clock says what `stamp_ms` says: a process whose clock is wrong decides as
    any other, and gives its time to nobody else. Threads may share it.

    The root's time costs no request on S3, which tells it with each answer; on a disk it is that of
    a small file.

    `ask_root_ms` returns the time of the metadata root; None: it does not tell it now. `newest_ms`
    returns that of the newest commit, and `ahead_max_ms` the setting. Between two questions the
    root's time goes on by the monotonic clock.
    """

    def __init__(
        self,
        clock: Clock,
        *,
        ask_root_ms: Callable[[], int | None],
        newest_ms: Callable[[], int],
        ahead_max_ms: Callable[[], int],
    ) -> None:
        self._clock = clock
        self.monotonic_ms, self.sleep_ms = clock.monotonic_ms, clock.sleep_ms
        self._ask_root_ms = ask_root_ms
        self._newest_ms = newest_ms
        self._ahead_max_ms = ahead_max_ms
        self._lock = threading.Lock()
        self._root_at_zero_ms: int | None = None  # the root's time minus the monotonic clock's
        self._asked_at_ms: int | None = None
        self._has_warned = False

    def now_ms(self) -> int:
        """Return the time of what is committed or appended now."""
        own_ms, ahead_max_ms = self._clock.now_ms(), self._ahead_max_ms()
        root_ms = self._root_ms(own_ms, ahead_max_ms)
        now_ms = stamp_ms(own_ms, root_ms, self._newest_ms(), ahead_max_ms)
        if root_ms is not None and abs(now_ms - own_ms) > ahead_max_ms and not self._has_warned:
            self._has_warned = True
            log.warning(
                "the clock of this process is %d s %s that of the metadata root: what this process"
                " commits and appends has the root's time, or that of the newest commit; set the"
                " clock right, this one or the root's",
                abs(own_ms - root_ms) // 1000,
                "ahead of" if own_ms > root_ms else "behind",
            )
        return now_ms

    def too_old_by_ms(self) -> int | None:
        """Return the time by which what the metadata alone knows is too old; None: the metadata
        root tells none now, so nothing is."""
        own_ms, now_ms = self._clock.now_ms(), self.now_ms()
        root_ms = self._root_ms(own_ms, self._ahead_max_ms())
        return None if root_ms is None else too_old_by_ms(own_ms, root_ms, now_ms)

    def _root_ms(self, own_ms: int, ahead_max_ms: int) -> int | None:
        """Return the root's time. The root is asked at first, and whenever both clocks differ: its
        answer tells which of the two is wrong, or was set right since."""
        monotonic_ms = self._clock.monotonic_ms()
        zero_ms, asked_ms = self._root_at_zero_ms, self._asked_at_ms
        if zero_ms is not None and abs(own_ms - zero_ms - monotonic_ms) <= ahead_max_ms:
            return zero_ms + monotonic_ms
        with self._lock:
            if zero_ms is None or asked_ms is None or monotonic_ms - asked_ms >= ASK_AGAIN_MS:
                self._asked_at_ms = monotonic_ms
                root_ms = self._ask_root_ms()
                if root_ms is not None:
                    self._root_at_zero_ms = root_ms - monotonic_ms
            zero_ms = self._root_at_zero_ms
        return None if zero_ms is None else zero_ms + monotonic_ms


HISTORY_KEPT_MS_MIN: Final = 3_600_000
"""So much of the history is kept in any case: a running process looks back for some sessions."""

SNAPSHOT_RECORDS_MIN: Final = 1000
"""A snapshot is due when the log after the last one has as many records as the image, and at least
these: snapshots then cost a constant share of the writes."""

COUNTED_ALONE_MAX: Final = 64
"""Batches that are replayed one by one, so that each decision is counted. Of more, as after a
sleep, what they come to is counted: each replay copies the map of topics."""

AcquireLock = Callable[[str, Callable[[], bytes] | None], AbstractContextManager[CommitLock]]
"""Waits for the commit lock on a table. Its other argument encodes reports that the lock's holder
may decide on meanwhile; None: there are none."""


class CollectorPaused:
    """A context in which the garbage collector pauses, where all that is made is kept, as in the
    replay of a large log: to look for cycles among millions of values takes a third of the time. It
    can go once a collector scans young values only.

    If two threads are in one, the first to leave resumes it, which costs the other one time only.
    """

    # No generator: each read of the metadata log enters one, and most find nothing.
    __slots__ = ("_was_enabled",)

    def __enter__(self) -> None:
        self._was_enabled = gc.isenabled()
        gc.disable()

    def __exit__(self, *_: object) -> None:
        if self._was_enabled:
            gc.enable()


PAUSE_MS_MIN: Final = 1.0
PAUSE_MS_MAX: Final = 200.0


class MetadataService:
    """The image of one process, and its commits to the metadata log.

    Threads may share it. `random` gives [0, 1): jitter between tries, nothing else.
    `acquire_lock` waits for the commit lock of the log, where there is one. The lock saves
    conflicts; what keeps the log right is the conditional commit, with or without the lock.
    `counts`: of commits, and of what was decided since this process first read the log; None:
    nobody asks for them.

    Attributes:
        after_commit: Called after each commit; it has `maintain` called in another thread.
        after_replay: Called with the image before, with batches that came since this process first
            read the log, and with the image after.
        refusal: Why nothing may be committed by this process; None: it may.
        read_at_ms: By the monotonic clock, when the newest read began that came to its end: what
            others committed since may be missing.
    """

    def __init__(
        self,
        metadata_log: DeltaMetadataLog,
        clock: Clock,
        *,
        random: Callable[[], float],
        application_id: str | None = None,
        acquire_lock: AcquireLock = lambda uri, reports: nullcontext(NO_LOCK),
        counts: Counts | None = None,
    ) -> None:
        self._counts = counts
        self.log = metadata_log
        metadata_log.settings = lambda: QuorumSettings.of(self.image.settings())
        self._clock = clock
        self.clock = CommitClock(
            clock,
            ask_root_ms=metadata_log.root_ms,
            newest_ms=self._newest_ms,
            ahead_max_ms=lambda: self.image.settings().integer("clock.ahead.max.ms"),
        )
        self._random = random
        self._application_id = application_id
        self.after_commit: Callable[[], None] = lambda: None
        self.after_replay: AfterReplay = lambda before, batches, after: None
        self._acquire_lock = acquire_lock
        self._lock = threading.RLock()
        self.image = MetadataImage()
        self._replayed_at_ms = self.read_at_ms = clock.monotonic_ms()
        self._snapshot_offset = 0
        self._snapshot_record_count = 0
        self._results_lock = threading.Lock()
        self._awaited: dict[str, AdminResultRecord | None] = {}
        self._reads_begun = self._last_read = 0  # numbers of reads: the newest, and one that ended
        self._is_closed = False
        self.refusal: KafkaOnSparkError | None = None
        self.suspects: frozenset[ReplicaUuid] = frozenset()
        self.lock = NO_LOCK

    def close(self) -> None:
        self._is_closed = True

    def check_open(self) -> None:
        if self._is_closed:
            raise ClusterClosedError()

    @contextmanager
    def turn(self) -> Iterator[Stamp]:
        """Yield the stamp of a commit that is made on the log itself, while no process that waits
        for its turn commits."""
        self.check_open()
        if self.refusal is not None:
            raise self.refusal
        with self._acquire_lock(self.log.leader_uri, None), self._lock:
            yield self._stamp(None)

    @property
    def is_far(self) -> bool:
        """Whether the log lies on a store, each of whose answers takes long."""
        return not is_local(self.log.leader_uri)

    @property
    def is_old(self) -> bool:
        """Whether it was not caught up with the log for so long that later commits may have come
        and been cleaned."""
        return self._clock.monotonic_ms() - self.read_at_ms > COMMITS_KEPT_MS / 2

    def catch_up(self) -> MetadataImage:
        """Replay what was committed before this call; return the newest image.

        Threads that call it while another one reads share the next read."""
        self.check_open()
        begun = self._reads_begun
        with self._lock, CollectorPaused():
            if self._last_read > begun:
                return self.image
            self._reads_begun += 1
            began_ms = self._clock.monotonic_ms()
            is_first = self.image.offset == 0
            try:
                if is_first:
                    batches = self._read_from_snapshot()
                else:
                    batches = self.log.read(from_offset=self.image.offset)
            except HistoryExpiredError:  # this process was away for so long, or is slow
                before, is_first = self.image, True
                batches = self._read_from_snapshot()
                if self.image.offset < before.offset:
                    self.image = before
                    raise
            if batches:
                self._replay(batches, is_first=is_first)
            self._last_read, self.read_at_ms = self._reads_begun, began_ms
            return self.image

    def has_next(self) -> bool:
        """Return whether there may be commits that this process has not replayed: one request to a
        store, where `catch_up` sends two. If they may have been cleaned, `catch_up` tells."""
        self.check_open()
        return self.log.has_successor(self.image.offset)

    def news(self) -> MetadataImage:
        """Do as `catch_up`, but on a store by one request where nothing is new and that was asked
        not long ago. A process that is frozen for long before it is answered gets an old image: so
        only what it commits right after that one may count, since that commit is refused."""
        self.check_open()
        image = self.image
        if not self.is_far or self.is_old or self.log.has_successor(image.offset):
            return self.catch_up()
        return image

    def catch_up_waiting(self) -> MetadataImage:
        """Do as `catch_up`, and wait for a metadata root that is away, for as long as
        `metadata.away.timeout.ms` says: a process that runs for days outlives that."""
        timeout_ms = self.image.settings().integer("metadata.away.timeout.ms")
        return wait_for_root(self.catch_up, self._clock, timeout_ms=timeout_ms)

    @contextmanager
    def watching(
        self, record: AdminRequestRecord
    ) -> Iterator[Callable[[], AdminResultRecord | None]]:
        """Yield a function that returns the result of a request, once this process has replayed it.
        Begin before the request is in the log: an image keeps open requests, and no results."""
        with self._results_lock:
            self._awaited[record.request] = None
        try:
            yield lambda: self._awaited[record.request]
        finally:
            with self._results_lock:
                del self._awaited[record.request]

    def _replay(self, batches: Sequence[MetadataBatch], *, is_first: bool = False) -> None:
        """Replay batches; count what they decide, unless they are what stood there at first."""
        if is_first or self._counts is None:
            self.image = self.image.replay(*batches)
        else:
            is_long = len(batches) > COUNTED_ALONE_MAX
            for part in [batches] if is_long else [[each] for each in batches]:
                before, self.image = self.image, self.image.replay(*part)
                count_decisions(self._counts, before, part, self.image)
                self.after_replay(before, part, self.image)
        self._replayed_at_ms = self._clock.monotonic_ms()
        if self._awaited:
            with self._results_lock:
                for record in (record for batch in batches for record in batch.records):
                    if isinstance(record, AdminResultRecord) and record.request in self._awaited:
                        self._awaited[record.request] = record

    def image_at(self, offset: Offset, after: MetadataImage | None = None) -> MetadataImage:
        """Return the image at `offset`, replayed from `after`, if that is old enough, else from the
        newest snapshot that is."""
        if after is not None and after.offset == offset:
            return after
        if after is not None and 0 < after.offset < offset:
            return after.replay(*self.log.read(from_offset=after.offset, to_offset=offset))
        image = self._newest_snapshot(to_offset=offset)
        return image.replay(*self.log.read(from_offset=image.offset, to_offset=offset))

    def _read_from_snapshot(self) -> list[MetadataBatch]:
        """Begin with the newest snapshot, if any; return the batches after it."""
        snapshot, batches = self.log.read_from_snapshot()
        if snapshot is not None:
            self.image = MetadataImage.of_snapshot(snapshot)
            self._replayed_at_ms = self._clock.monotonic_ms()
            self._snapshot_offset = self.image.offset
            self._snapshot_record_count = len(snapshot.records)
        return batches

    def submit(
        self,
        decide: Callable[[MetadataImage], ControllerResult[T]],
        *,
        timeout_ms: int,
        controller: tuple[str, ControllerEpoch] | None = None,
        queued: Callable[[], bytes] | None = None,
    ) -> T:
        """Commit what `decide` says of the newest image; return its response.

        While this process waits for the commit lock, its holder may decide on the reports in
        `queued`; `lock` has the reports that others have queued. The holder's word is not trusted:
        this process decides again on the image that it reads. That leads to no records if the
        holder has committed them.

        Raises:
            RequestTimedOutError: Commits kept conflicting; nothing of it is committed.
            CommitOutcomeUnknownError: The store failed. It ends a controller's term; the next
                one reads the truth off the log.
            ClusterClosedError: This process has closed the cluster.
            And what `decide` raises.
        """
        if self.refusal is not None:
            raise self.refusal

        def commit(_: object) -> ControllerResult[T]:
            with (
                self._acquire_lock(self.log.leader_uri, queued) as lock,
                self._lock,
                CollectorPaused(),
            ):
                self.lock = lock
                if lock.needs_refresh:
                    self.catch_up()  # with the commits of earlier holders
                image, suspects = self.image, self.suspects
                result = decide(replace(image, suspects=suspects) if suspects else image)
                if not result.records:
                    return result
                try:
                    stamp = self._stamp(controller)
                    with _counted(self._counts):
                        batch = self.log.append(result.records, stamp, expected_offset=image.offset)
                except CommitConflictError:
                    self.catch_up()
                    raise
                self._replay([batch])
                lock.mark_committed()
                return result

        result = until_committed(
            self.check_open,
            commit,
            clock=self._clock,
            timeout_ms=timeout_ms,
            pauses=(each * self._random() for each in pauses_ms(PAUSE_MS_MIN, PAUSE_MS_MAX)),
            late=RequestTimedOutError,
        )
        if result.records:
            self.after_commit()
        return result.response

    def expect(self, decide: Callable[[MetadataImage], ControllerResult[T]]) -> None:
        """Have the file of a decision put that is likely to be the next one: if it is, `submit` has
        one step less on a store. Nothing comes of a failure, or while another thread commits.
        """
        if self.refusal is not None or not self._lock.acquire(blocking=False):
            return
        try:
            image = self.image
            if records := decide(image).records:
                self.log.put_early(records, self._stamp(None), expected_offset=image.offset)
        except Exception as error:  # `submit` says why, if it fails too
            log.debug("a decision's file was not put early: %s", error)
        finally:
            self._lock.release()

    def _newest_ms(self) -> int:
        """Return the time of the newest commit, and what has passed since this process replayed it:
        also where nobody else commits, a process whose clock is behind does not stand still."""
        return self.image.time_ms + self._clock.monotonic_ms() - self._replayed_at_ms

    def _stamp(self, controller: tuple[str, ControllerEpoch] | None) -> Stamp:
        controller_id, controller_epoch = controller or (None, None)
        return Stamp(
            time_ms=self.clock.now_ms(),
            controller_id=controller_id,
            controller_epoch=controller_epoch,
            application_id=self._application_id,
        )

    def _is_snapshot_due(self, image: MetadataImage) -> bool:
        records_min = max(SNAPSHOT_RECORDS_MIN, self._snapshot_record_count)
        return image.offset - self._snapshot_offset >= records_min

    def may_need_upkeep(self) -> bool:
        """Return whether `maintain` may have something to do: without a request, or a lock."""
        return self._is_snapshot_due(self.image) or self.log.may_need_upkeep()

    def maintain(self) -> None:
        """Do what is due after an answer was given: a snapshot, a checkpoint of the log. A failure
        costs time only; the log has everything."""
        image = self.image
        cleans = not image.settings().holds_deletes(self._clock.now_ms())
        try:
            if self._is_snapshot_due(image):
                records = snapshot_records(image)
                self._snapshot_offset, self._snapshot_record_count = image.offset, len(records)
                # With the image's own time, so that an image from the snapshot has it as well.
                stamp = replace(self._stamp(None), time_ms=image.time_ms)
                self.log.write_snapshot(records, stamp, image.offset)
                if cleans:
                    self._expire_history(image)
            self.log.maintain(cleans=cleans)
        except KafkaOnSparkError as error:
            log.warning("no snapshot at offset %s: %s", image.offset, error)

    def _expire_history(self, image: MetadataImage) -> None:
        """Give up the history that is older than metadata.max.retention.ms says, and more than an
        hour: running processes look back for some sessions."""
        retention_ms = image.settings().integer("metadata.max.retention.ms")
        root_ms = None if retention_ms < 0 else self.log.root_ms()
        if root_ms is not None:
            now_ms = too_old_by_ms(self._clock.now_ms(), root_ms, image.time_ms)
            self.log.expire(now_ms - max(retention_ms, HISTORY_KEPT_MS_MIN))

    def clean(self) -> int:
        """Delete files of the metadata roots that no reader needs; return how many. After each
        checkpoint of a root this is done in any case."""
        self.check_open()
        return self.log.clean(self.clock.now_ms())

    def pieces_newest_first(self) -> Iterator[tuple[MetadataImage, list[MetadataBatch]]]:
        """Yield the log between its snapshots, the newest piece first, each with the image that it
        continues. A search for a recent batch reads no more than it must."""
        self.check_open()
        end = self.image.offset
        while end > 0:
            before = self._newest_snapshot(to_offset=Offset(end - 1))
            yield before, self.log.read(from_offset=before.offset, to_offset=end)
            end = before.offset

    def _newest_snapshot(self, *, to_offset: Offset) -> MetadataImage:
        """Return the image of the newest snapshot up to an offset; an empty one without any."""
        return MetadataImage.of_snapshot(self.log.newest_snapshot(to_offset=to_offset))

    def history(self, *, to_offset: Offset | None = None) -> list[MetadataBatch]:
        self.check_open()
        return self.log.read(from_offset=Offset(0), to_offset=to_offset)


@contextmanager
def _counted(counts: Counts | None) -> Iterator[None]:
    """Count and time the commit that the block makes, by its outcome."""
    if counts is None:
        yield
        return
    outcome = UNKNOWN
    try:
        with counts.timed(COMMIT_MS):
            yield
        outcome = COMMITTED
    except CommitConflictError:
        outcome = CONFLICT
        raise
    except Exception as error:
        outcome = UNKNOWN if isinstance(error, CommitOutcomeUnknownError) else FAILED
        raise
    finally:
        counts.add(COMMITS, outcome=outcome)


def count_decisions(
    counts: Counts, before: MetadataImage, batches: Iterable[MetadataBatch], after: MetadataImage
) -> None:
    """Count what batches decided of partitions, which lead from one image to another."""
    kinds = HighWatermarkRecord | PartitionChangeRecord
    records = chain.from_iterable(each.records for each in batches)
    for key in {record.key for record in records if isinstance(record, kinds)}:
        then, now = before.partition(key), after.partition(key)
        if then is None or now is None:
            continue
        if now.high_watermark > then.high_watermark:
            more = now.high_watermark - then.high_watermark
            counts.add(MESSAGES_IN, more, topic=after.topics[key.topic_id].name)
        if then.isr - now.isr:
            counts.add(ISR_SHRINKS)
        if now.isr - then.isr:
            counts.add(ISR_EXPANDS)
        if now.leader not in (None, then.leader):
            counts.add(ELECTIONS)
            if now.unclean_generation > then.unclean_generation:
                counts.add(UNCLEAN_ELECTIONS)


# Waiting.

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
    """The pace of one reader's looks for commits. Not for two threads at once."""

    def __init__(self, metadata: MetadataService, clock: Clock) -> None:
        self._metadata = metadata
        self._clock = clock
        self._is_local = is_local(metadata.log.leader_uri)  # where a look costs next to nothing
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
        metadata = self._metadata
        if not self.is_due:
            return metadata.image
        before, looks = metadata.image.offset, self._idle_looks + 1
        looks_a_read = LOOKS_A_READ if self._is_local else STORE_LOOKS_A_READ
        try:
            is_read = looks % looks_a_read == 0 or metadata.has_next()
            if is_read:
                metadata.catch_up()
        except KafkaOnSparkError as error:
            self._note_failure(error)
            return metadata.image
        self._away_since_ms, self._failures = None, 0
        self._idle_looks = looks if metadata.image.offset == before else 0
        if self._is_local:
            pause = int(pause_ms(self._idle_looks, LOCAL_PAUSE_MS_MIN, LOCAL_PAUSE_MS_MAX))
        else:  # a look is a request, to read a log that has nothing new is one and one a voter
            voters = len(metadata.image.registered_voters) or 1
            pause = FETCH_MAX_WAIT_MS * (STORE_LOOKS_A_READ + voters) // STORE_LOOKS_A_READ
        self._look_at_ms = self._clock.monotonic_ms() + pause
        return metadata.image

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
