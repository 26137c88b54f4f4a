"""The orders and results of upkeep, and the signature that each kind of work has.

An order is one replica of one partition; a task runs all kinds of work on it, one after the other
(`replica_upkeep`). A kind of work is restartable at any moment: it does one piece after the other,
each a commit or a deletion of its own, and leaves the rest to the next order when the allowance is
spent. Orders may run twice, also at the same time.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Final, Self

from kafka_on_spark.base.config import Settings
from kafka_on_spark.base.errors import (
    NO_ERROR,
    UNKNOWN_SERVER_ERROR,
    KafkaOnSparkError,
    ProtocolError,
)
from kafka_on_spark.base.ids import BrokerId, Clock, PartitionKey
from kafka_on_spark.log.batch import Segment
from kafka_on_spark.log.evidence import is_evidence
from kafka_on_spark.log.producer_state import RegisteredProducers
from kafka_on_spark.log.state import ReplicaAddress, ReplicaState
from kafka_on_spark.log.worker import Worker
from kafka_on_spark.metadata.partition import PartitionRegistration


@dataclass(frozen=True, slots=True, kw_only=True)
class UpkeepOrder:
    """Upkeep of one replica, planned on an image. Picklable.

    Attributes:
        partition: Its registration in that image, which was taken before the table is read.
        leader: The leader's replica, which may be this one; None: the partition has no leader, or
            its replica can't be reached.
        bytes_max: Bytes that may be read and rewritten; one piece of work at least, unless 0. None:
            no bound.
        work_ms_max: How long the task may work; it ends the piece that it is at, and each kind of
            work has its part whatever those before it have taken. None: no bound.
        works: The names of the kinds of work to do; None: all.
        registered: The producer ids that have not expired, in that image; None: none ever has.
    """

    key: PartitionKey
    partition: PartitionRegistration
    address: ReplicaAddress
    leader: ReplicaAddress | None
    settings: Settings
    bytes_max: int | None = None
    work_ms_max: float | None = None
    is_dry_run: bool = False
    works: tuple[str, ...] | None = None
    registered: RegisteredProducers | None = None

    @property
    def is_of_leader(self) -> bool:
        return self.leader == self.address


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkDone:
    """What one kind of work has done on one replica. In a dry run: what is due.

    Attributes:
        count: Pieces of work: files deleted, merges committed, and so on.
        has_advanced: The next order has less to do, also if no piece of work was done.
        what: The pieces in a word or two, in the plural ("files deleted").
        size_bytes: Bytes that these pieces were about.
        written_bytes: Bytes that were written in place of these.
        is_left: More is due now than was done.
        orphan_bytes: Bytes of files of the current leader epoch that no commit names.
        error_code: Why it ended early; NO_ERROR: it did not.
        suspect: The file that the error is about; None: the log.
    """

    count: int = 0
    has_advanced: bool = False
    what: str = ""
    size_bytes: int = 0
    written_bytes: int = 0
    is_left: bool = False
    orphan_bytes: int = 0
    error_code: int = NO_ERROR
    error: str = ""
    is_evidence: bool = False
    suspect: Segment | None = None

    def with_piece(self, size_bytes: int, written_bytes: int) -> Self:
        return replace(
            self,
            count=self.count + 1,
            size_bytes=self.size_bytes + size_bytes,
            written_bytes=self.written_bytes + written_bytes,
        )

    def failed(self, error: KafkaOnSparkError, suspect: Segment | None = None) -> Self:
        """Return the same work, which `error`, about the file `suspect`, has ended."""
        code = error.code if isinstance(error, ProtocolError) else UNKNOWN_SERVER_ERROR
        return replace(
            self,
            error_code=code,
            error=error.message,
            is_evidence=is_evidence(error),
            suspect=suspect,
        )


def suspect_in(state: ReplicaState, error: KafkaOnSparkError) -> Segment | None:
    """Return the segment of a log that an error is about; None: it is about none."""
    name = error.context.get("segment")
    if name is None:
        return None
    segments = (segment for part in state.batches for segment in part.segments)
    return next((segment for segment in segments if segment.file_name == name), None)


NOTHING_DONE = WorkDone()
"""Nothing was due."""

CLEAN: Final = "clean"
"""The kind of work that deletes the files which no log names, and finds orphans."""

MERGE: Final = "merge"
KIND_PART: Final = 0.2
"""Which part of an order's time and bytes each of five kinds of work has at least, whatever those
before it have taken: what has always more to do would starve those after it."""

VISIT_TIMES_MAX: Final = 1 + 4 * KIND_PART
"""How many times its order's time a visit takes at most, but for the pieces that it is at: the
first kind takes all of it, and each of the four others has its part."""

WHOLE: Final = "upkeep"
"""The kind of work that stands for all of a task."""


@dataclass(frozen=True, slots=True, kw_only=True)
class UpkeepResult:
    """What a task has done on one replica: one row back to the driver."""

    key: PartitionKey
    broker_id: BrokerId
    done: tuple[tuple[str, WorkDone], ...]
    moved_bytes: int = 0

    @classmethod
    def failed(cls, order: UpkeepOrder, error: KafkaOnSparkError) -> "UpkeepResult":
        """Return the result of a task that was abandoned: its root hangs."""
        return cls(
            key=order.key,
            broker_id=order.address.broker_id,
            done=((WHOLE, NOTHING_DONE.failed(error)),),
        )

    @property
    def is_left(self) -> bool:
        return any(work.is_left for _, work in self.done)

    @property
    def has_failed(self) -> bool:
        return any(work.error for _, work in self.done)

    @property
    def has_progressed(self) -> bool:
        """Whether the next order has less to do."""
        return any(work.count or work.has_advanced for _, work in self.done)

    @property
    def orphan_bytes(self) -> int:
        """Bytes of files of the current leader epoch that no log names."""
        return sum(work.orphan_bytes for _, work in self.done)


class Allowance:
    """The bytes and the time that a task has left. `clock`: of the machine that works."""

    def __init__(self, order: UpkeepOrder, clock: Clock) -> None:
        self._clock = clock
        self._started_ms = clock.monotonic_ms()
        self._order = order
        self.moved_bytes = 0
        self._until_ms = 0.0
        self._until_bytes = 0.0

    def begin_kind(self) -> None:
        """Give the kind of work that begins now its part of the order's bytes and time."""
        self._until_ms = self.took_ms + KIND_PART * (self._order.work_ms_max or 0.0)
        self._until_bytes = self.moved_bytes + KIND_PART * (self._order.bytes_max or 0)

    @property
    def took_ms(self) -> int:
        return self._clock.monotonic_ms() - self._started_ms

    @property
    def is_time_over(self) -> bool:
        """Whether no further piece of work may begin."""
        work_ms_max = self._order.work_ms_max
        return work_ms_max is not None and self.took_ms >= max(work_ms_max, self._until_ms)

    @property
    def bytes_left(self) -> int | None:
        """Bytes that may still be rewritten; a first piece may have more. None: no bound."""
        bytes_max = self._order.bytes_max
        if bytes_max is None:
            return None
        return max(0, int(max(bytes_max, self._until_bytes)) - self.moved_bytes)

    @property
    def is_spent(self) -> bool:
        """Whether no further piece may begin that reads or rewrites records."""
        return self.is_time_over or self.bytes_left == 0

    def charge(self, size_bytes: int) -> None:
        self.moved_bytes += size_bytes


Work = Callable[[UpkeepOrder, Worker, Allowance], WorkDone]
"""One kind of work. It does what is due, as far as the allowance goes; KafkaOnSparkErrors that it
raises become its row. In a dry run it says what is due."""
