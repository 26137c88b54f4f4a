"""Catch up, decide, commit: the one way in which a process learns and changes metadata.

Holds the image; decides nothing itself. After a conflict the decision runs again on what the
winner wrote, so it must be pure.
"""

import logging
import threading
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import replace
from functools import partial
from typing import Final, TypeVar

from kafka_on_spark.controller.replication import conclude
from kafka_on_spark.controller.reports import PartitionReport
from kafka_on_spark.controller.result import ControllerResult
from kafka_on_spark.errors import (
    ClusterClosedError,
    CommitConflictError,
    KafkaOnSparkError,
    RequestTimedOutError,
)
from kafka_on_spark.ids import ControllerEpoch, Offset
from kafka_on_spark.metadata.columns import nothing_to_collect
from kafka_on_spark.metadata.image import MetadataImage
from kafka_on_spark.metadata.records import (
    AdminRequestRecord,
    AdminResultRecord,
    MetadataBatch,
    PartitionChangeRecord,
    Stamp,
)
from kafka_on_spark.metadata.snapshot import snapshot_records
from kafka_on_spark.ports import NO_TURN, Clock, MetadataLog, Turn
from kafka_on_spark.service.handed_in import encode_reports, handed_in
from kafka_on_spark.service.metadata_away import waiting_for_root

log = logging.getLogger(__name__)

T = TypeVar("T")

SNAPSHOT_RECORDS_MIN: Final = 1000
"""A snapshot is made when the tail has grown to the image's size, and to this at least, so that
snapshots cost a constant share of the writes."""

OWN_CHANGES_MAX: Final = 1000
"""Of so many of its own commits that change partitions a process knows that they are its own."""

TakeTurn = Callable[[Callable[[], bytes] | None], AbstractContextManager[Turn]]
"""Waits for a turn; given is what tells what whoever has it may decide meanwhile, or None."""

PAUSE_MS_MIN: Final = 1.0
PAUSE_MS_MAX: Final = 200.0


class MetadataService:
    """The image of one process, and its commits to the metadata log.

    Threads may share it. `random` gives [0, 1): jitter between tries, nothing else.
    `after_commit` is told of each commit, to have `maintain` called off the answer's path.
    `take_turn` waits for this process's turn among those that commit to the log, if there is a
    way to take turns: a courtesy that saves conflicts. What keeps the log right is the
    conditional commit, whoever has a turn. `table` is where people find the log, for SQL.
    """

    def __init__(
        self,
        metadata_log: MetadataLog,
        clock: Clock,
        *,
        random: Callable[[], float],
        application_id: str | None = None,
        after_commit: Callable[[], None] = lambda: None,
        take_turn: TakeTurn = lambda note: nullcontext(NO_TURN),
        table: str = "",
    ) -> None:
        self.table = table
        self._log = metadata_log
        self._clock = clock
        self._random = random
        self._application_id = application_id
        self._after_commit = after_commit
        self._take_turn = take_turn
        self._lock = threading.RLock()
        self._image = MetadataImage()
        self._snapshot_offset = 0
        self._snapshot_size = 0
        self._watched: dict[str, AdminResultRecord | None] = {}
        self._changes: deque[Offset] = deque(maxlen=OWN_CHANGES_MAX)
        self._is_closed = False

    def close(self) -> None:
        """Have whatever is asked from now on refused: nothing is read or committed any more."""
        self._is_closed = True

    def check_open(self) -> None:
        """Check that nobody has closed the cluster.

        Raises:
            ClusterClosedError: This process has.
        """
        if self._is_closed:
            raise ClusterClosedError()

    def check_writable(self) -> None:
        """Check that this process may commit, as far as that can be seen without a commit.

        Raises:
            RootAccessDeniedError: It may not.
        """
        self._log.check_writable()

    @property
    def image(self) -> MetadataImage:
        """The newest image that this process knows."""
        return self._image

    def catch_up(self) -> MetadataImage:
        """Replay what was committed since; return the newest image.

        Raises:
            ClusterClosedError: This process has closed the cluster.
        """
        self.check_open()
        with self._lock, nothing_to_collect():
            if self._image.offset == 0:
                self._start_from_snapshot()
            batches = self._log.read(from_offset=self._image.offset)
            if batches:
                self._image = self._image.replay(*batches)
                self._keep_results(*batches)
            return self._image

    def catch_up_waiting(self) -> MetadataImage:
        """Do as `catch_up`, and wait for a metadata root that is away, for as long as
        `metadata.away.timeout.ms` says: what goes on for days outlives that.

        Raises: as `catch_up`.
        """
        timeout_ms = self._image.settings().integer("metadata.away.timeout.ms")
        return waiting_for_root(self.catch_up, self._clock, timeout_ms=timeout_ms)

    @contextmanager
    def watching(
        self, record: AdminRequestRecord
    ) -> Iterator[Callable[[], AdminResultRecord | None]]:
        """Give what tells the result of a request that is not in the log yet, once this process
        has replayed it. An image keeps no results, only what waits for one."""
        with self._lock:
            self._watched[record.request] = None
        try:
            yield lambda: self._watched[record.request]
        finally:
            with self._lock:
                del self._watched[record.request]

    def _keep_results(self, *batches: MetadataBatch) -> None:
        if not self._watched:
            return
        for batch in batches:
            for record in batch.records:
                if isinstance(record, AdminResultRecord) and record.request in self._watched:
                    self._watched[record.request] = record

    def _keep_changes(self, batch: MetadataBatch) -> None:
        if any(isinstance(record, PartitionChangeRecord) for record in batch.records):
            self._changes.append(batch.base_offset)

    def is_own_change(self, base_offset: Offset) -> bool:
        """Return whether this process has committed the changes of partitions at an offset; of
        its last ones."""
        return base_offset in self._changes

    def image_at(self, offset: Offset, after: MetadataImage | None = None) -> MetadataImage:
        """Return the image that the log gave up to `offset`; a decision is in it as a whole.

        From `after`, if it is old enough, else from the newest snapshot that is, and what was
        committed between.
        """
        if after is not None and after.offset == offset:
            return after
        if after is not None and 0 < after.offset < offset:
            return after.replay(*self._log.read(from_offset=after.offset, to_offset=offset))
        image = self._newest_snapshot(to_offset=offset)
        return image.replay(*self._log.read(from_offset=image.offset, to_offset=offset))

    def offset_at(self, time_ms: int) -> Offset:
        """Return where the log ended at a moment, by the clocks of those who committed."""
        return self._log.offset_at(time_ms)

    def _start_from_snapshot(self) -> None:
        snapshot = self._log.newest_snapshot()
        if snapshot is None:
            return
        start = MetadataImage(offset=snapshot.base_offset)
        self._image = start.replay(snapshot)
        self._snapshot_offset = self._image.offset
        self._snapshot_size = len(snapshot.records)

    def submit(
        self,
        decide: Callable[[MetadataImage], ControllerResult[T]],
        *,
        timeout_ms: int,
        controller: tuple[str, ControllerEpoch] | None = None,
    ) -> T:
        """Commit what `decide` says of the newest image; return its response.

        Raises:
            RequestTimedOutError: Commits kept conflicting; nothing of it is committed.
            CommitOutcomeUnknownError: The store failed. It ends a controller's term; the next
                one reads the truth off the log.
            ClusterClosedError: This process has closed the cluster.
            And what `decide` raises.
        """
        return self._submit(lambda image, _: decide(image), timeout_ms, controller, None)

    def conclude(self, reports: Sequence[PartitionReport], *, timeout_ms: int) -> int:
        """Commit what `reports` lead to, and with it what others hand in who wait for a turn;
        return how many ISRs change.

        While this process waits, another may do so with its reports. A report is a fact, and
        what follows from it is decided on the image of whoever commits: it makes no difference
        who does, nor when. Nobody takes another's word that it was done: decided again on the
        image that this process reads, it leads to nothing if it was, and else it is committed.

        Raises: as `submit`.
        """
        mine = {report.key for report in reports}

        def decide(image: MetadataImage, turn: Turn) -> ControllerResult[int]:
            own = conclude(image, reports)
            try:
                others = handed_in(turn.handed_in(), besides=mine) if own.records else []
                return conclude(image, [*reports, *others]) if others else own
            except Exception:  # whoever handed it in decides on it, too, and fails for itself
                log.warning("what others have handed in is left to them", exc_info=True)
                return own

        return self._submit(decide, timeout_ms, None, partial(encode_reports, reports))

    def _submit(
        self,
        decide: Callable[[MetadataImage, Turn], ControllerResult[T]],
        timeout_ms: int,
        controller: tuple[str, ControllerEpoch] | None,
        note: Callable[[], bytes] | None,
    ) -> T:
        self.check_open()
        deadline_ms = self._clock.monotonic_ms() + timeout_ms
        pause_ms = PAUSE_MS_MIN
        while True:
            with self._take_turn(note) as turn, self._lock, nothing_to_collect():
                if turn.has_news:
                    self.catch_up()  # with what those before have committed
                image = self._image
                result = decide(image, turn)
                if not result.records:
                    return result.response
                try:
                    batch = self._log.append(
                        result.records, self._stamp(controller), expected_offset=image.offset
                    )
                except CommitConflictError:
                    self.catch_up()
                else:
                    self._image = image.replay(batch)
                    self._keep_results(batch)
                    self._keep_changes(batch)
                    turn.done()
                    break
            if self._clock.monotonic_ms() > deadline_ms:
                raise RequestTimedOutError("commits to the metadata log keep conflicting")
            self._clock.sleep_ms(pause_ms * self._random())
            pause_ms = min(2 * pause_ms, PAUSE_MS_MAX)
        self._after_commit()
        return result.response

    def _stamp(self, controller: tuple[str, ControllerEpoch] | None) -> Stamp:
        controller_id, controller_epoch = controller or (None, None)
        return Stamp(
            time_ms=self._clock.now_ms(),
            controller_id=controller_id,
            controller_epoch=controller_epoch,
            application_id=self._application_id,
        )

    def maintain(self) -> None:
        """Do what is due after an answer was given: a snapshot, a checkpoint of the log.

        A failure costs time only; the log has everything.
        """
        image = self._image
        try:
            if image.offset - self._snapshot_offset >= max(
                SNAPSHOT_RECORDS_MIN, self._snapshot_size
            ):
                records = snapshot_records(image)
                self._snapshot_offset, self._snapshot_size = image.offset, len(records)
                # The time of what it holds, so that an image from it says the same.
                stamp = replace(self._stamp(None), time_ms=image.time_ms)
                self._log.write_snapshot(records, stamp, image.offset)
            self._log.maintain()
        except KafkaOnSparkError as error:
            log.warning("no snapshot at offset %s: %s", image.offset, error)

    def batches(self, start: Offset, end: Offset) -> list[MetadataBatch]:
        """Return the batches between two offsets at which one begins or ends, oldest first."""
        return self._log.read(from_offset=start, to_offset=end)

    def pieces(self) -> Iterator[tuple[MetadataImage, list[MetadataBatch]]]:
        """Yield the log between its snapshots, the newest piece first, each with the image that it
        continues. Who looks for what happened lately reads no more than it must."""
        self.check_open()
        end = self._image.offset
        while end > 0:
            before = self._newest_snapshot(to_offset=Offset(end - 1))
            yield before, self._log.read(from_offset=before.offset, to_offset=end)
            end = before.offset

    def _newest_snapshot(self, *, to_offset: Offset) -> MetadataImage:
        """Return the image of the newest snapshot up to an offset; an empty one without any."""
        snapshot = self._log.newest_snapshot(to_offset=to_offset)
        if snapshot is None:
            return MetadataImage()
        return MetadataImage(offset=snapshot.base_offset).replay(snapshot)

    def history(self, *, to_offset: Offset | None = None) -> list[MetadataBatch]:
        """Return every batch of the log, oldest first; those up to `to_offset`."""
        self.check_open()
        return self._log.read(from_offset=Offset(0), to_offset=to_offset)
