"""Makes a decision part of the log, and says what became of it: committed, conflict or unknown.

One commit on the leader's table, then a majority follows, then the answer. Invariants that it
keeps: Q9 (only on a log that is committed to its end), Q2 (what was answered stays).

A decision is put at one version of one table, always the one after the table that it was decided
on. So after an unknown outcome the next decision of this process contradicts nothing: if the table
is as it was, both are puts at one version, of which one counts; if it has gone on, the log tells.
That holds also for a put on a root that hangs, which a thread was left behind with.

A root that refuses this process may take commits of others, or of nobody. So it is replaced like
one that fails, if no other process commits there and another voter takes commits of this one.
Otherwise the process is told that it lacks permission.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Final

from kafka_on_spark.base.errors import (
    CommitConflictError,
    CommitOutcomeUnknownError,
    ProtocolError,
)
from kafka_on_spark.base.ids import Offset
from kafka_on_spark.metadata.quorum.appending import Outcome, append, outcome_of
from kafka_on_spark.metadata.quorum.leadership import Leadership, Led
from kafka_on_spark.metadata.quorum.lookups import find_write
from kafka_on_spark.metadata.quorum.raft_log import RaftBatch
from kafka_on_spark.metadata.quorum.voter_set import VoterSet
from kafka_on_spark.metadata.quorum.voter_table import TableChange, VoterTable
from kafka_on_spark.metadata.quorum.voter_tables import VoterTables, hanging
from kafka_on_spark.metadata.records import MetadataBatch, Record, Stamp

TRIES_MAX: Final = 1000
"""How often the same decision is put; the time that a call has is over long before."""


@dataclass(slots=True)
class _Write:
    """A decision on its way: the commit, the table that it is put after, and the records.

    Attributes:
        may_stand: It was put, perhaps.
        failure: Why it is not known to stand on the leader; None: it does.
    """

    table: VoterTable
    change: TableChange
    batch: MetadataBatch
    may_stand: bool = False
    failure: CommitOutcomeUnknownError | ProtocolError | None = None

    @property
    def header(self) -> RaftBatch:
        return self.change.appended[0]

    def outcome(self, led: Led) -> Outcome:
        """Return what became of it, by a leader that is confirmed."""
        log = led.view.log
        passed = led.table.key == self.table.key and led.table.version > self.table.version
        outcome = outcome_of(log, led.view.committed_end, self.header)
        is_there = find_write(log, self.header.write_id, self.header.base_offset) is not None
        if outcome is Outcome.UNKNOWN and passed and not is_there:
            return Outcome.LOST  # another commit stands where it was put
        return outcome


class Writer:
    """Appends decisions. `new_id` returns an id that nobody else makes."""

    def __init__(
        self, tables: VoterTables, leadership: Leadership, new_id: Callable[[], str]
    ) -> None:
        self._tables = tables
        self._leadership = leadership
        self._new_id = new_id

    def append(
        self,
        records: Sequence[Record],
        stamp: Stamp,
        expected_offset: Offset,
        voters: VoterSet | None = None,
    ) -> MetadataBatch:
        """Append a batch if the log is committed up to `expected_offset` and ends there; return it
        once a majority holds it: of `voters`, if it puts these into force.

        Raises:
            CommitConflictError: The log has gone on. The batch is not in it, and never will be.
            CommitOutcomeUnknownError: It may be in the log, or may still come to be.
            QuorumUnavailableError: There is no leader. Nothing was put.
            KafkaStorageError: So of the only voter. Nothing was put.
            RootAccessDeniedError: The leader's root refuses this process. Nothing was put.
            InconsistentClusterError: One log contradicts another.
        """
        until_ms = self._leadership.deadline_ms(len(records))
        led = self._leadership.led
        if led is None or led.table.log.end_offset != expected_offset:
            led = self._leadership.confirm()
        self._leadership.led = None  # for the case that this call is broken off
        change = append(
            led.table,
            led.view.epoch,
            led.view.committed_end,
            base_offset=expected_offset,
            record_count=len(records),
            write_id=self._new_id(),
            voters=voters,
        )
        batch = MetadataBatch(base_offset=expected_offset, stamp=stamp, records=tuple(records))
        write = _Write(led.table, change, batch)
        began_ms = self._leadership.now_ms()
        try:
            if not self._is_put_and_followed(write):
                self._resolve(write, began_ms, until_ms)
        except (CommitOutcomeUnknownError, ProtocolError) as failure:
            if not write.may_stand or isinstance(failure, CommitOutcomeUnknownError):
                raise
            raise CommitOutcomeUnknownError(
                f"a decision may be in the metadata log, or come to be: {failure.message}"
            ) from failure
        return write.batch

    def _is_put_and_followed(self, write: _Write) -> bool:
        """Return whether a write was put on the leader's table, and followed by a majority; if not,
        what became of it is open.

        It is not put while a call on that table hangs: a put would wait behind it, and be one more.
        What hangs may be this very write: then a look shows it, once it has landed.

        Raises:
            CommitConflictError: Another commit stands at its version. Was it put before, that may
                be its own.
            InconsistentClusterError: One log contradicts another.
        """
        if self._tables.hangs(write.table.key):
            write.failure = hanging(write.table.key)
            return False
        put = partial(self._tables.append, write.table, write.change, write.batch)
        timeout_ms = self._leadership.commit_timeout_ms(len(write.batch.records))
        try:
            leader = self._tables.in_time(write.table.key, put, timeout_ms)
        except (CommitOutcomeUnknownError, ProtocolError) as error:
            write.may_stand |= isinstance(error, CommitOutcomeUnknownError)
            write.failure = error
            return False
        write.may_stand, write.failure = True, None
        self._leadership.committed()
        led = self._leadership.replicate(leader)
        if led.is_confirmed:
            self._leadership.keep(led)
        return led.is_confirmed

    def _resolve(self, write: _Write, began_ms: int, until_ms: int) -> None:
        """Return once a write is committed of which that is open; its first put began at
        `began_ms`. As long as the leader's table is as it was, the same is put again at the same
        version; a leader that takes no commits is replaced.

        Raises: as `append`.
        """
        is_alone = not self._leadership.can_elect
        if write.failure is not None and not is_alone:
            self._leadership.commit_failed(write.table.key, write.header.epoch, began_ms)
        for _ in range(TRIES_MAX):
            if self._is_committed(write):
                self._leadership.committed()
                return
            try:
                if self._is_put_and_followed(write):
                    return
            except CommitConflictError:
                continue  # what stands there, the next look shows
            if write.failure is not None:
                if is_alone:
                    raise write.failure
                self._leadership.wait_for_commits(write.table.key, began_ms, until_ms)
            began_ms = self._leadership.now_ms()
        raise CommitOutcomeUnknownError("it stays open what became of a decision", tries=TRIES_MAX)

    def _is_committed(self, write: _Write) -> bool:
        """Return whether a write is committed; False: the leader's table is as it was.

        Raises:
            CommitConflictError: It is not, and never will be.
            CommitOutcomeUnknownError: Nobody can tell any more.
            RootAccessDeniedError: The leader's root takes commits of others, and none of this
                process.
            And what Leadership.confirm raises.
        """
        led = self._leadership.confirm()
        outcome = write.outcome(led)
        if outcome is Outcome.LOST:
            denial = self._tables.denied.get(led.view.key)
            if denial is not None and led.view.key == write.table.key:
                raise denial
            raise CommitConflictError("another decision was committed first")
        if outcome is Outcome.UNTOLD:
            raise CommitOutcomeUnknownError(
                "a decision may be in the metadata log: what stands at its place was merged"
            )
        return outcome is Outcome.COMMITTED
