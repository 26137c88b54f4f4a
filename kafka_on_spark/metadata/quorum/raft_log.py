"""A voter's log: the headers of its batches, from the first one on.

Records are not here: the quorum asks only where a batch ends, in which epoch it was appended, by
which write, and whether it is a decision. Old batches stand as *runs*: what a table has merged is
committed, so nobody asks for the borders in it. A log is then as long as its table has files.
"""

from bisect import bisect_left, bisect_right
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from enum import Enum
from typing import Final, NamedTuple

from kafka_on_spark.base.errors import ensure
from kafka_on_spark.base.ids import Offset, QuorumEpoch
from kafka_on_spark.metadata.quorum.voter_set import VoterKey, VoterSet


class OffsetAndEpoch(NamedTuple):
    """A place in a log: an exclusive end, and the epoch of the batch before it."""

    offset: Offset
    epoch: QuorumEpoch


LOG_BEGINNING: Final = OffsetAndEpoch(Offset(0), QuorumEpoch(0))
"""Where each log begins: it is kept whole."""


class BatchKind(Enum):
    """What a batch is to the quorum."""

    NO_OP = "no-op"
    """The `LeaderChangeRecord` with which an epoch begins (Raft §8)."""

    DECISION = "decision"
    """Anything else: it was decided on a log that was committed to its end."""

    RUN = "run"
    """Several batches of one epoch that a table has merged: all of them are committed."""


@dataclass(frozen=True, slots=True)
class RaftBatch:
    """A batch's header, or that of a run of batches.

    Attributes:
        base_offset: Offset of its first record.
        end_offset: Offset after its last record.
        epoch: The quorum's epoch in which it was appended.
        write_id: Its writer's name for it, unique: who wonders what became of it looks for this. A
            run has that of its last batch.
        kind: What it is to the quorum.
        voters: The voters that its `VotersRecord` names, the last one of a run; None: it has none.
    """

    base_offset: Offset
    end_offset: Offset
    epoch: QuorumEpoch
    write_id: str
    kind: BatchKind = BatchKind.DECISION
    voters: VoterSet | None = None

    def __post_init__(self) -> None:
        ensure(0 <= self.base_offset < self.end_offset, self)
        ensure(self.epoch >= 0, self)


@dataclass(frozen=True, slots=True)
class RaftLog:
    """A log: dense from offset 0 to its end, epochs never fall.

    Attributes:
        batches: Oldest first.
    """

    batches: tuple[RaftBatch, ...] = ()
    _voters_batch: list[RaftBatch | None] = field(
        default_factory=list, init=False, repr=False, compare=False
    )
    """What `voters_batch` has found: each look asks for it, and the log is long."""

    def __post_init__(self) -> None:
        # Of a long log only the newest batch is new.
        for earlier, later in zip(self.batches[-2:], self.batches[-1:], strict=False):
            if earlier is not later:
                ensure(earlier.end_offset == later.base_offset, self.batches[-2:])
                ensure(earlier.epoch <= later.epoch, self.batches[-2:])
        if self.batches:
            ensure(self.batches[0].base_offset == 0, self.batches[0])

    @property
    def end(self) -> OffsetAndEpoch:
        """Its end, and the epoch of its last batch: what votes are given by."""
        if not self.batches:
            return LOG_BEGINNING
        return OffsetAndEpoch(self.batches[-1].end_offset, self.batches[-1].epoch)

    @property
    def end_offset(self) -> Offset:
        """Offset after its last record."""
        return self.end.offset

    @property
    def voters(self) -> VoterSet | None:
        """The newest set of voters, committed or not: it is in force when appended (KIP-853)."""
        found = self.voters_batch
        return None if found is None else found.voters

    @property
    def voters_batch(self) -> RaftBatch | None:
        """The batch of the newest set of voters; None: none names any."""
        if not self._voters_batch:
            found = (each for each in reversed(self.batches) if each.voters is not None)
            self._voters_batch.append(next(found, None))
        return self._voters_batch[0]

    def root_of(self, key: VoterKey) -> str | None:
        """Return the root that the newest set with this voter, or former voter, registers for it;
        None: no set has it."""
        for batch in reversed(self.batches):
            voter = None if batch.voters is None else batch.voters.voter_of(key.node_id)
            if voter is not None and voter.key == key:
                return voter.root
        return None

    @property
    def proved_end(self) -> Offset:
        """Up to where the log itself proves that it was committed: a decision is only ever made
        on a log that is committed to its end, so all before the last one is. So far a voter's
        table may merge its files."""
        for each in reversed(self.batches):
            if each.kind is BatchKind.RUN:
                return each.end_offset
            if each.kind is BatchKind.DECISION:
                return each.base_offset
        return Offset(0)

    def epoch_start(self, epoch: QuorumEpoch) -> Offset | None:
        """Return where the batches of `epoch` begin; None: there is none."""
        place = bisect_left(self.batches, epoch, key=lambda each: each.epoch)
        if place == len(self.batches) or self.batches[place].epoch != epoch:
            return None
        return self.batches[place].base_offset

    def first_epoch_from(self, epoch: QuorumEpoch) -> QuorumEpoch | None:
        """Return the first epoch from `epoch` on that has batches; None: there is none."""
        place = bisect_left(self.batches, epoch, key=lambda each: each.epoch)
        return self.batches[place].epoch if place < len(self.batches) else None

    def epoch_before(self, offset: Offset) -> QuorumEpoch:
        """Return the epoch of the record before `offset`."""
        if offset <= 0:
            return LOG_BEGINNING.epoch
        place = bisect_left(self.batches, offset, key=lambda each: each.end_offset)
        return self.batches[place].epoch if place < len(self.batches) else self.end.epoch

    def has_border(self, offset: Offset) -> bool:
        """Return whether a batch ends at `offset`, or the log begins there."""
        return offset == 0 or self.batch_before(offset) is not None

    def batch_before(self, offset: Offset) -> RaftBatch | None:
        """Return the batch that ends at `offset`, or None."""
        place = bisect_left(self.batches, offset, key=lambda each: each.end_offset)
        found = self.batches[place : place + 1]
        return found[0] if found and found[0].end_offset == offset else None

    def run_at(self, offset: Offset) -> RaftBatch | None:
        """Return the run that holds the record at `offset`, or None."""
        place = bisect_right(self.batches, offset, key=lambda each: each.end_offset)
        found = self.batches[place : place + 1]
        is_run = bool(found) and found[0].kind is BatchKind.RUN
        return found[0] if is_run and found[0].base_offset <= offset else None

    def from_offset(self, offset: Offset) -> tuple[RaftBatch, ...]:
        """Return the batches from the border `offset` on, oldest first. A border within a run is
        none of this log's, but may be another's with the same batches: then the rest of the run
        comes first."""
        found = self.batches[bisect_right(self.batches, offset, key=lambda each: each.end_offset) :]
        run = self.run_at(offset)
        return found if run is None else (replace(run, base_offset=offset), *found[1:])

    def appended(self, batch: RaftBatch) -> "RaftLog":
        """Return the log with one batch more."""
        ensure(batch.base_offset == self.end_offset, (batch, self.end))
        return replace(self, batches=(*self.batches, batch))

    def border_before(self, offset: Offset) -> Offset:
        """Return the last border that is not above `offset`; `offset` itself within a run, since
        the voter's table knows the borders there."""
        return offset if self.run_at(offset) is not None else self.cut_to(offset).end_offset

    def cut_to(self, offset: Offset) -> "RaftLog":
        """Return the log as it was before everything from `offset` on: whole batches go.

        An offset within a batch takes all of it: batches are indivisible.
        """
        place = bisect_right(self.batches, offset, key=lambda each: each.end_offset)
        return replace(self, batches=self.batches[:place])


def log_of(headers: Iterable[RaftBatch]) -> RaftLog:
    """Return the log of batches that don't say which are no-ops: an epoch begins with its no-op,
    and with nothing else (Q8).

    Raises:
        ImpossibleValueError: They don't follow each other.
    """
    batches: list[RaftBatch] = []
    for batch in headers:
        is_first = batch.epoch > (batches[-1].epoch if batches else 0)
        is_no_op = is_first and batch.kind is not BatchKind.RUN
        batches.append(replace(batch, kind=BatchKind.NO_OP) if is_no_op else batch)
    return RaftLog(tuple(batches))


EMPTY_LOG: Final = RaftLog()
"""A log that nothing was ever written to."""
