"""The voters' tables as one metadata log that is committed: what services read and append to.

An image is made of committed batches only (Q6): each read is confirmed by a majority, and ends
where that holds the leader's log. Once committed, a batch is read from any voter that has it.
"""

import logging
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from functools import cached_property, partial
from typing import TypeVar

from kafka_on_spark.base.errors import (
    InconsistentClusterError,
    KafkaOnSparkError,
    ProtocolError,
    RootAccessDeniedError,
)
from kafka_on_spark.base.ids import Offset
from kafka_on_spark.metadata.quorum.description import QuorumDescription, describe
from kafka_on_spark.metadata.quorum.leadership import Leadership, as_met_alone
from kafka_on_spark.metadata.quorum.raft import (
    LeaderView,
    check_generations,
)
from kafka_on_spark.metadata.quorum.voter_changes import VoterChanges
from kafka_on_spark.metadata.quorum.voter_table import (
    UNREADABLE,
    OffsetAndEpoch,
    RaftLog,
    VoterKey,
    is_snapshot_of,
)
from kafka_on_spark.metadata.quorum.voter_tables import (
    follow,
)
from kafka_on_spark.metadata.records import MetadataBatch, Record, Stamp
from kafka_on_spark.metadata.voter_log import VoterLog

log = logging.getLogger(__name__)

T = TypeVar("T")


def newest_snapshot(
    raft_log: RaftLog,
    found: Iterable[tuple[VoterLog, Collection[OffsetAndEpoch]]],
    to_offset: Offset,
) -> MetadataBatch | None:
    """Return the newest readable snapshot of `raft_log` that ends at `to_offset` or before, if any.

    `found`: where the snapshots on each root end; of those that end at one place, the first is
    read.
    """
    of_log = [
        (end, voter)
        for voter, ends in found
        for end in ends
        if end.offset <= to_offset and is_snapshot_of(raft_log, end)
    ]
    for end, voter in sorted(of_log, key=lambda each: each[0], reverse=True):
        try:
            return voter.read_snapshot(end)
        except UNREADABLE as error:
            log.warning("the snapshot up to %s is passed over: %s", end.offset, error)
    return None


class QuorumLog(Leadership):
    """The metadata log of a quorum, of one voter or several. Threads may share it.

    Attributes:
        uri: The table that is named before a leader is known.
    """

    uri = ""
    _read_end: Offset | None = None

    @cached_property
    def changes(self) -> VoterChanges:
        """Changes of the voters that this process makes."""
        return VoterChanges(self)

    def read(self, *, from_offset: Offset, to_offset: Offset | None = None) -> list[MetadataBatch]:
        """Return the committed batches from `from_offset` on, oldest first; up to `to_offset`.

        Raises:
            QuorumUnavailableError: No majority of the voters answers, or none agrees on a leader.
            KafkaStorageError, ReplicaLostError, CorruptLogError: So of the only voter, or of each
                that has the batches.
            InconsistentClusterError: The log ends before `from_offset`, one log contradicts
                another, or the cluster was forced since.
        """
        known = self.confirmed
        if known is not None and to_offset is not None and to_offset <= known.log.end_offset:
            return self._batches(known, from_offset, to_offset)  # it stays as it is
        view = self._confirm_generation()
        end = view.log.end_offset
        if from_offset > end:
            raise InconsistentClusterError(
                f"the metadata log is committed up to {end}, but this process has seen"
                f" {from_offset}: it went back; stop, and restore it"
            )
        batches = self._batches(view, from_offset, end if to_offset is None else to_offset)
        if to_offset is None:
            self._read_end = end  # only now: what could not be read is still to be waited for
        return batches

    def _confirm_generation(self) -> LeaderView:
        """Return the leader as a majority has just confirmed it."""
        view = self.confirm()
        check_generations(self.tables.seen(), view.epoch)
        return view

    def has_next(self) -> bool:
        """Return whether there may be a commit after the newest that was read: one look at the
        leader's table. Where that fails, `read` says why.

        Raises:
            KafkaStorageError, ReplicaLostError, CorruptLogError: So of the only voter.
        """
        known = self.confirmed
        table = None if known is None else self.tables.newest(known.key)
        if table is None or table.log.end_offset != self._read_end:
            return True
        try:
            return not self.tables.log_of(table.key).is_newest(table)
        except UNREADABLE:
            if self.tables.is_alone:
                raise
            return True

    def _batches(self, view: LeaderView, start: Offset, end: Offset) -> list[MetadataBatch]:
        """Return batches that are committed; one that goes on beyond `end` is left out."""
        border = view.log.border_before(end)
        if border <= start:
            return []
        holders = [key for key, held in view.held.items() if held >= border and key != view.key]
        return self._of_first(
            (view.key, *holders), lambda each: each.read(from_offset=start, to_offset=border)
        )

    def _of_first(self, keys: Iterable[VoterKey], ask: Callable[[VoterLog], T]) -> T:
        """Return what the first voter that answers says; those that hang are asked last."""
        # One that hangs holds its table's lock.
        return next(self._answers(sorted(keys, key=self.tables.hangs), ask))

    def _answers(self, keys: Iterable[VoterKey], ask: Callable[[VoterLog], T]) -> Iterator[T]:
        """Yield what voters say that answer; they are asked one after the other.

        Raises:
            KafkaStorageError, ReplicaLostError, CorruptLogError: None answers; of the first.
        """
        first: ProtocolError | None = None
        has_answer = False
        for key in keys:
            try:
                answer = ask(self.tables.log_of(key))
            except UNREADABLE as error:
                log.info("voter %s is passed over: %s", key, error)
                self.tables.failures[key] = error
                first = first or error
            else:
                has_answer = True
                yield answer
        if first is not None and not has_answer:
            raise self._as_met(first)

    def _of_all(self, ask: Callable[[VoterLog], T]) -> list[T]:
        """Return what all voters say that answer. One that fails or hangs would hold up the others,
        and is asked only if all do."""
        keys, troubled = self.tables.voters.keys, self.tables.troubled()
        return list(self._answers([each for each in keys if each not in troubled] or keys, ask))

    def offset_at(self, time_ms: int) -> Offset:
        """Return where the log ended at a moment, as `log_end_at` does."""
        led = self.confirm()
        found = self._of_first((led.key,), lambda each: each.offset_at(time_ms))
        return min(found, led.log.end_offset)

    def root_ms(self) -> int | None:
        """Return the time of the leader's root; None: it tells none now, or nobody leads."""
        leader = self.leader
        return None if leader is None else self.tables.root_ms(leader)

    @property
    def leader(self) -> VoterKey | None:
        """The voter that led when a majority last confirmed it; None: no voter was asked as yet."""
        known = self.confirmed
        return None if known is None else known.key

    @property
    def leader_uri(self) -> str:
        """The leader's table, as it was last confirmed: for people and for Spark."""
        return self.uri if self.leader is None else self.tables.log_of(self.leader).uri

    def describe(self) -> QuorumDescription:
        """Return who leads, and how far each voter is, all of them asked anew."""
        view = self.confirm()
        keys = self.tables.voters.keys
        seen = {each.key: each for each in self.tables.each(keys, self.tables.look)}
        failures = dict(self.tables.failures)  # voters' threads change it
        problems = {key: error.message for key, error in failures.items() if key not in seen}
        return describe(view, seen, problems)

    def last_seen(self) -> QuorumDescription | None:
        """Return the same by what this process has last seen, and ask nobody: no root can hold it
        up. None: it has asked nobody as yet."""
        view, tables = self.confirmed, self.tables
        if view is None:
            return None
        failures = dict(tables.failures)
        problems = {
            key: failures[key].message if key in failures else "calls to it hang"
            for key in tables.troubled()
        }
        return describe(view, tables.newest_of_all(), problems)

    def maintain(self) -> None:
        """Write the checkpoints that are due; have a voter taken back that a candidate left behind,
        which waits for no voter's checkpoint.

        Raises:
            KafkaOnSparkError: No voter answers, which costs time only.
        """
        try:
            self.rescue_stranded()
        finally:
            if any(self._of_all(lambda each: each.maintain())):
                self.led = None  # the next decision is put at a later version

    def expire(self, before_ms: int) -> None:
        """Give up the oldest records of the history on each voter that answers."""
        if any(self._of_all(lambda each: each.expire(before_ms))):
            self.led = None  # the next decision is put at a later version

    def clean(self, now_ms: int) -> int:
        """Delete what no reader needs, on each voter that answers; return how many files."""
        return sum(self._of_all(lambda each: each.clean(now_ms)))

    def check_writable(self) -> None:
        """Check that this process may append: to the leader's root, and a majority's.

        Raises:
            RootAccessDeniedError: It may not, also with all voters there; or the leader's root
                refuses it, and takes commits of others.
            And what voters that are away raise, with which it may.
        """
        led = self.confirm_writable()
        voters, granted = self.tables.voters, {led.key}
        if self.tables.is_alone:
            return
        failures_met: dict[VoterKey, ProtocolError] = {}
        held, failures = led.held, self.tables.failures
        # Voters that have just confirmed the leader answer; others may hang.
        for key in sorted(voters.keys, key=lambda each: (-held.get(each, -1), each in failures)):
            if voters.is_majority(granted):
                return
            try:
                self.tables.check_writable(key)
                granted.add(key)
            except UNREADABLE as error:
                failures_met[key] = error
        if voters.is_majority(granted):
            return
        # Of a voter that is away, if those that do not deny are a majority: waiting helps then.
        denied = {
            key for key, each in failures_met.items() if isinstance(each, RootAccessDeniedError)
        }
        is_passing = voters.is_majority({*voters.keys} - denied)
        raise next(e for key, e in failures_met.items() if (key in denied) is not is_passing)

    def newest_snapshot(self, *, to_offset: Offset | None = None) -> MetadataBatch | None:
        """Return the newest readable snapshot on any voter that answers, as a batch that ends at
        its end offset; the newest of those up to `to_offset`. Only those of the committed log
        count.

        Their names are asked for, and one is read: of those that end at one place, the leader's.
        Voters that are slower than the leader and a majority are not waited for.
        """
        view = self._confirm_generation()
        bound = view.log.end_offset if to_offset is None else to_offset
        voters = self.tables.voters
        found: dict[VoterKey, list[OffsetAndEpoch]] = {}
        for key, ends in self.tables.each(
            voters.keys, lambda key: (key, self.tables.log_of(key).snapshots())
        ):
            found[key] = ends
            if view.key in found and voters.is_majority(found):
                break
        if not found:
            raise self._unavailable()
        leader_first = sorted(found, key=lambda key: key != view.key)
        logs = ((self.tables.log_of(key), found[key]) for key in leader_first)
        return newest_snapshot(view.log, logs, bound)

    def _as_met(self, error: ProtocolError) -> KafkaOnSparkError:
        """Return the error of a voter: what one of several lost, others may have, and nothing need
        stop for it."""
        return as_met_alone(error) if self.tables.is_alone else error

    def write_snapshot(self, records: Sequence[Record], stamp: Stamp, end_offset: Offset) -> None:
        """Write the records that rebuild the image at `end_offset`, which is committed, on each
        voter that takes them: any of them may be left alone one day, and opened. A voter that does
        not hold that end gets none: it may be left alone before it does.
        """
        led = self.confirm()
        end = OffsetAndEpoch(end_offset, led.log.epoch_before(end_offset))
        others = [key for key in self.tables.voters.keys if key != led.key]
        up_to_date = self.tables.each(others, partial(follow, self.tables, led.table))
        holders = [each.key for each in (led.table, *up_to_date) if is_snapshot_of(each.log, end)]
        list(self._answers(holders, lambda each: each.write_snapshot(records, stamp, end)))
