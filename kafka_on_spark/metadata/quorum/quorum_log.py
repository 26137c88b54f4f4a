"""The voters' tables as one metadata log that is committed: what services read and append to.

A read looks at the leader's table, and at as many other voters' as make a majority. If they do not
hold the leader's end, this module commits the rest of the leader's log first. If the leader's table
can't be read, another voter is elected (`elector`). Invariants: Q3 and Q6 (the leader's epoch and
mark say what is committed), Q9 (a decision is made only on a log that is committed to its end), Q10
(a majority was seen to hold the leader's end, after the read began). A committed batch is read from
any voter that has it.

A decision is put at one version of one table: the version after the one that it was decided on. So
the next decision of this process is safe after an unknown outcome. Either the table is as it was:
then both are puts at one version, and one of them counts. Or it has gone on: then the log tells.
The same holds for a put on a root that hangs, which a thread still waits for.
"""

import logging
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial
from math import inf
from typing import Final, TypeVar

from kafka_on_spark.base.errors import (
    CommitConflictError,
    CommitOutcomeUnknownError,
    InconsistentClusterError,
    KafkaOnSparkError,
    KafkaStorageError,
    ProtocolError,
    RootAccessDeniedError,
)
from kafka_on_spark.base.ids import Clock, Offset
from kafka_on_spark.metadata.quorum.description import (
    QuorumDescription,
    VoterDescription,
    describe,
    describe_voters,
)
from kafka_on_spark.metadata.quorum.elector import Elections
from kafka_on_spark.metadata.quorum.raft import (
    AskSettings,
    LeaderView,
    Outcome,
    QuorumSettings,
    append,
    check_generations,
    leader_among,
    outcome_of,
    view_of,
)
from kafka_on_spark.metadata.quorum.voter_log import OpenVoterLog, VoterLog
from kafka_on_spark.metadata.quorum.voter_table import (
    UNREADABLE,
    OffsetAndEpoch,
    RaftBatch,
    RaftLog,
    TableChange,
    VoterKey,
    VoterSet,
    VoterTable,
    best_log,
    find_write,
    has_write,
    is_snapshot_of,
)
from kafka_on_spark.metadata.quorum.voter_tables import SideBySide, VoterTables, follow, hanging
from kafka_on_spark.metadata.records import MetadataBatch, Record, Stamp

log = logging.getLogger(__name__)

T = TypeVar("T")

DISCOVERIES_MAX: Final = 8
"""So often a table may name a newer set of voters, of whom others are to be asked."""

EARLY_MS_MAX: Final = 5_000
"""A file that was put longer ago names no decision: its time is that of the decision."""

OPENED_MS_MAX: Final = 5_000
"""Voters' tables that were opened longer ago are looked at again, before a log is read by them."""

COPIED_A_MS: Final = 20
"""Records that the slowest voter which is waited for copies in a millisecond: a decision for many
partitions takes its time, and one that is left out of its answer is unknown."""


def likely_voters(tables: VoterTables) -> Sequence[VoterKey]:
    """Return the leader that is known and as few other voters as may confirm it, those first that
    have not failed; all, if all are needed or no leader is known."""
    keys, majority = tables.voters.keys, tables.voters.majority
    view = leader_among(tables.newest_of_all()) if majority < len(keys) else None
    if view is None:
        return keys
    failed, held = tables.troubled(), view.held
    others = sorted(
        (each for each in keys if each != view.key),
        key=lambda each: (each in failed, -held.get(each, -1)),
    )
    return [view.key, *others[: majority - 1]]


def newest_snapshot(
    raft_log: RaftLog,
    found: Iterable[tuple[VoterLog, Collection[OffsetAndEpoch]]],
    to: Offset,
) -> MetadataBatch | None:
    """Return the newest readable snapshot of a log that ends at `to` or before, if any; `found`:
    where those on each root end, of which the first is read."""
    ends = [(end, voter) for voter, each in found for end in each]
    for end, voter in sorted(ends, key=lambda each: each[0], reverse=True):
        if end.offset <= to and is_snapshot_of(raft_log, end):
            try:
                return voter.read_snapshot(end)
            except UNREADABLE as error:
                log.warning("the snapshot up to %s is passed over: %s", end.offset, error)
    return None


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

    def is_for(self, table: VoterTable, batch: MetadataBatch) -> bool:
        """Return whether it would append this batch after this table, with a stamp of just now."""
        own, stamp = self.batch, batch.stamp
        is_new = 0 <= stamp.time_ms - own.stamp.time_ms <= EARLY_MS_MAX
        stamped = replace(batch, stamp=replace(stamp, time_ms=own.stamp.time_ms))
        return table is self.table and is_new and own == stamped

    def outcome(self, led: LeaderView) -> Outcome:
        """Return what became of it, by a leader that is confirmed."""
        log = led.log
        passed = led.table.key == self.table.key and led.table.version > self.table.version
        outcome = outcome_of(log, led.committed_end, self.header)
        is_there = find_write(log, self.header.write_id, self.header.base_offset) is not None
        if outcome is Outcome.UNKNOWN and passed and not is_there:
            return Outcome.LOST  # another commit stands where it was put
        return outcome


class QuorumLog:
    """The metadata log of a quorum, of one voter or several. Threads may share it.

    `random` and `new_id`: as of `Elections`.

    Attributes:
        uri: The table that is named before a leader is known.
        leader_uri: The leader's table, as it was last confirmed: for people and for Spark.
        settings: Says how patient it is, once it knows what the cluster's settings say.
        led: The leader as it was last confirmed, for a decision on it; None: look first.
        confirmed: The log that a majority was last seen to hold. It stays committed, whoever leads.
    """

    uri = ""
    _opened_ms = -inf

    def __init__(
        self,
        voters: VoterSet,
        open_log: OpenVoterLog,
        side_by_side: SideBySide,
        clock: Clock,
        *,
        random: Callable[[], float],
        new_id: Callable[[], str],
        settings: QuorumSettings,
    ) -> None:
        self.leader_uri = self.uri
        self.led: LeaderView | None = None
        self.confirmed: LeaderView | None = None
        self._early: _Write | None = None
        self.settings: AskSettings = lambda: settings
        self.tables = VoterTables(
            voters,
            open_log,
            side_by_side,
            clock=clock,
            timeout_ms=lambda: self._times().answer_timeout_ms,
        )
        self.elections = Elections(
            self.tables, clock, random=random, new_id=new_id, settings=self._times
        )
        self._clock = clock
        self._new_id = new_id

    def _times(self) -> QuorumSettings:
        return self.settings().for_roots(self.tables.answer_ms())

    def _patience_ms(self, record_count: int = 0) -> int:
        """Return how long a call waits for a leader; so many records are copied meanwhile."""
        return record_count // COPIED_A_MS + self._times().call_timeout_ms

    def confirm(self) -> LeaderView:
        """Return the leader, all of whose log a majority was seen to hold, after this call began.

        Raises:
            QuorumUnavailableError: No majority of the voters answers, or none agrees on a leader.
            RootAccessDeniedError: The leader's root refuses this process, and no other voter can
                lead, or others hear the leader.
            KafkaStorageError, ReplicaLostError, CorruptLogError: So of the only voter.
            InconsistentClusterError: A log went back behind what this process has seen.
        """
        start_ms, known, has_elected = self._clock.monotonic_ms(), self.confirmed, False
        reading = self.elections.reading
        while True:
            began_ms = self._clock.monotonic_ms()
            if known is not None and len(self.tables.known) == 1:
                seen, led = self._look_at_only(known)
            else:
                seen, led = self._look_around()
            if led is not None and led is not known and not led.is_confirmed:
                led = self._end_tail()
            if led is not None and (led is known or led.is_confirmed):
                if reading.waiting is not None:
                    reading.end()
                if known is not None and known.log is not led.log:
                    _check_continues(led, known.log)
                self._keep(led)
                return led
            until_ms = start_ms + self._patience_ms()
            last_ms = until_ms if has_elected else None
            has_elected |= self.elections.wait_or_elect(reading, seen, began_ms, until_ms, last_ms)

    def _look_at_only(
        self, known: LeaderView
    ) -> tuple[dict[VoterKey, VoterTable], LeaderView | None]:
        """Do as `_look_around` where this process has heard of one voter only. What that voter's
        table confirmed alone it confirms again if it has not changed: no other set of voters, and
        no other generation of the cluster, was ever asked. If it fails, those are asked that its
        table names as this process has seen it."""
        tables = self.tables
        try:
            table = tables.look(known.key)
        except UNREADABLE as error:
            tables.failures[known.key] = error
            tables.learn_voters()
            return ({}, None) if tables.is_alone else self._look_around()
        tables.failures.pop(known.key, None)
        if table is known.table:
            return {table.key: table}, known
        led = view_of(table)
        if led is None or not led.is_confirmed:
            return self._look_around()
        tables.use(led.voters)
        return {table.key: table}, led

    def _look_around(self) -> tuple[dict[VoterKey, VoterTable], LeaderView | None]:
        """Return voters' tables as they are now, those that confirm a leader or all that answer,
        and the leader that they show.

        The list of voters that this process began with may be old: the voters that any table names
        are asked, too, until none names a newer set (KIP-853). Where they don't answer, former
        voters and those of the first list are asked: they may know of newer ones.
        """
        seen: dict[VoterKey, VoterTable] = {}
        asked: set[VoterKey] = set()
        tables = self.tables
        keys = likely_voters(tables)
        for _ in range(DISCOVERIES_MAX):
            for table in tables.each(keys, tables.look):
                seen[table.key] = table
                led = leader_among(seen)
                if led is not None and led.is_confirmed:
                    tables.use(led.voters)
                    return seen, led
            asked.update(keys)
            tables.learn_voters()
            keys = [key for key in tables.voters.keys if key not in asked]
            if not keys and not tables.voters.is_majority(seen):
                keys = [key for key in tables.known if key not in asked]
            if not keys:
                break
        tables.learn_voters(seen.values())
        return seen, leader_among(seen)

    def _end_tail(self) -> LeaderView | None:
        """Return the leader once a majority holds its end: its writer has a commit's time for that,
        then this process brings the others up."""
        self._clock.sleep_ms(self._times().commit_ms)
        _, led = self._look_around()
        if led is None or led.is_confirmed:
            return led
        return self.replicate(led.table)

    def replicate(self, leader: VoterTable) -> LeaderView:
        """Have voters follow a leader, whose table is as of now, until a majority does; return who
        was seen to hold its log. The others are brought up after the answer."""
        view = view_of(leader)
        assert view is not None, leader
        self.tables.use(view.voters)  # a change of voters is in force when it is appended
        if view.is_confirmed:
            return view
        others = [key for key in self.tables.voters.keys if key != leader.key]
        newest = sum(each.end_offset - each.base_offset for each in view.log.batches[-1:])
        ask = partial(follow, self.tables, leader)
        for table in self.tables.each(others, ask, timeout_ms=self._answer_ms(newest)):
            view = view.seen(table)
            if view.is_confirmed:
                break
        return view

    def _answer_ms(self, record_count: int) -> int:
        return self._times().answer_timeout_ms + record_count // COPIED_A_MS

    def _keep(self, led: LeaderView) -> None:
        """Keep a leader that is confirmed; what failed on one before it is over."""
        self.led = led
        waiting = self.elections.committing.waiting
        if waiting is not None and waiting.epoch < led.epoch:
            self.elections.committing.end()
        known = self.confirmed
        self.elections.note_leader(led.key, led.epoch, is_news=known is not None)
        if known is None or led.log.end_offset >= known.log.end_offset:
            self.confirmed = led
            self.leader_uri = self.tables.log_of(led.key).uri

    # Appending.

    def append(
        self,
        records: Sequence[Record],
        stamp: Stamp,
        *,
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
        assert records, "an empty batch would be a version without a decision"
        start_ms = self._clock.monotonic_ms()
        led = self.led
        if led is None or led.log.end_offset != expected_offset:
            led = self.confirm()
        self.led = None  # for the case that this call is broken off
        batch = MetadataBatch(base_offset=expected_offset, stamp=stamp, records=tuple(records))
        early, self._early = self._early, None
        is_early = early is not None and voters is None and early.is_for(led.table, batch)
        write = early if early and is_early else self._write(led, batch, voters)
        began_ms = self._clock.monotonic_ms()
        try:
            if not self._is_put_and_followed(write):
                until_ms = start_ms + self._patience_ms(len(records))
                self._resolve(write, began_ms, until_ms)
        except (CommitOutcomeUnknownError, ProtocolError) as failure:
            if not write.may_stand or isinstance(failure, CommitOutcomeUnknownError):
                raise
            raise CommitOutcomeUnknownError(
                f"a decision may be in the metadata log, or come to be: {failure.message}"
            ) from failure
        return write.batch

    def _write(self, led: LeaderView, batch: MetadataBatch, voters: VoterSet | None) -> _Write:
        change = append(
            led.table,
            led.epoch,
            led.committed_end,
            base_offset=batch.base_offset,
            record_count=len(batch.records),
            write_id=self._new_id(),
            voters=voters,
        )
        return _Write(led.table, change, batch)

    def put_early(
        self, records: Sequence[Record], stamp: Stamp, *, expected_offset: Offset
    ) -> None:
        """Put the file of a batch that is likely to be appended next: if these very records are
        appended there within moments, that has one step less on a store.

        Raises:
            KafkaStorageError, CommitOutcomeUnknownError: The leader's root failed, or hangs.
        """
        led, tables = self.led, self.tables
        if led is None or led.log.end_offset != expected_offset or tables.hangs(led.key):
            return
        batch = MetadataBatch(base_offset=expected_offset, stamp=stamp, records=tuple(records))
        write = self._write(led, batch, None)
        put = partial(tables.log_of(led.key).put_early, write.change, batch)
        tables.in_time(led.key, put, self._answer_ms(len(batch.records)))
        self._early = write

    def _is_put_and_followed(self, write: _Write) -> bool:
        """Return whether a write was put on the leader's table, and followed by a majority; if not,
        what became of it is open.

        It is not put while a call on that table hangs: a put would wait behind it, and be one more.
        What hangs may be this very write: then a look shows it, once it has landed.

        Raises:
            CommitConflictError: Another commit stands at its version. Was it put before, that may
                be its own.
        """
        key, tables = write.table.key, self.tables
        put = partial(tables.commit, write.table, write.change, write.batch)
        try:
            if tables.is_alone:
                leader = put()
            elif tables.hangs(key):
                raise hanging(key)
            else:
                leader = tables.in_time(key, put, self._answer_ms(len(write.batch.records)))
        except (CommitOutcomeUnknownError, ProtocolError) as error:
            write.may_stand |= isinstance(error, CommitOutcomeUnknownError)
            write.failure = error
            return False
        write.may_stand, write.failure = True, None
        if self.elections.committing.waiting is not None:
            self.elections.committing.end()
        led = self.replicate(leader)
        if led.is_confirmed:
            self._keep(led)
        return led.is_confirmed

    def _resolve(self, write: _Write, began_ms: int, until_ms: int) -> None:
        """Return once a write whose outcome is open is committed; its first put began at
        `began_ms`. As long as the leader's table is as it was, the same is put again at the same
        version; a leader that takes no commits is replaced."""
        is_alone = self.tables.is_alone
        if write.failure is not None and not is_alone:
            self.elections.commit_failed(write.table.key, write.header.epoch, began_ms)
        while not self._is_committed(write):
            try:
                if self._is_put_and_followed(write):
                    return
            except CommitConflictError as error:  # what stands there, the next look shows
                if self._clock.monotonic_ms() > until_ms:
                    raise CommitOutcomeUnknownError("it is open what became of it") from error
                continue
            if write.failure is not None:
                if is_alone:
                    raise write.failure
                self.elections.wait_for_commits(write.table.key, began_ms, until_ms)
            began_ms = self._clock.monotonic_ms()
        self.elections.committing.end()

    def _is_committed(self, write: _Write) -> bool:
        """Return whether a write is committed; False: the leader's table is as it was.

        Raises:
            CommitConflictError: It is not, and never will be.
            CommitOutcomeUnknownError: Nobody can tell any more.
            RootAccessDeniedError: The leader's root takes commits of others, and none of this
                process.
            And what `confirm` raises.
        """
        led = self.confirm()
        outcome = write.outcome(led)
        if outcome is Outcome.LOST:
            denial = self.tables.denied.get(led.key)
            if denial is not None and led.key == write.table.key:
                raise denial
            raise CommitConflictError("another decision was committed first")
        if outcome is Outcome.UNTOLD:
            raise CommitOutcomeUnknownError(
                "a decision may be in the metadata log: what stands at its place was merged"
            )
        return outcome is Outcome.COMMITTED

    # Reading.

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
        view = self.confirm()
        if len(self.tables.known) > 1:
            check_generations(self.tables.seen(), view.epoch)
        end = view.log.end_offset
        if from_offset > end:
            raise InconsistentClusterError(
                f"the metadata log is committed up to {end}, but this process has seen"
                f" {from_offset}: it went back; stop, and restore it"
            )
        if to_offset is not None:
            return self._batches(view, from_offset, to_offset)
        return self._batches(view, from_offset, end) if from_offset < end else []

    def has_successor(self, offset: Offset) -> bool:
        """Return whether there may be a commit after the one that ends at `offset`, by one look at
        the leader's table; as of DeltaLog."""
        known = self.confirmed
        table = None if known is None else self.tables.newest(known.key)
        if table is None or table.log.end_offset != offset:
            return True
        try:
            return self.tables.log_of(table.key).has_successor(table)
        except UNREADABLE:
            return True  # `read` says why

    def _batches(self, view: LeaderView, start: Offset, end: Offset) -> list[MetadataBatch]:
        """Return batches that are committed; one that goes on beyond `end` is left out."""
        border = view.log.border_before(end)
        if border <= start:
            return []
        holders = [key for key, held in view.held.items() if held >= border and key != view.key]
        # One that hangs holds its table's lock.
        keys = sorted((view.key, *holders), key=self.tables.hangs)
        return next(
            self._answers(keys, lambda each: each.read(from_offset=start, to_offset=border))
        )

    def _answers(self, keys: Iterable[VoterKey], ask: Callable[[VoterLog], T]) -> Iterator[T]:
        """Yield what voters say that answer; they are asked one after the other."""
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
            raise self.tables.as_met(first)

    def _of_all(self, ask: Callable[[VoterLog], T]) -> list[T]:
        """Return what all voters say that answer. One that fails or hangs would hold up the others,
        and is asked only if all do."""
        keys: Sequence[VoterKey] = self.tables.voters.keys
        if not self.tables.is_alone:
            troubled = self.tables.troubled()
            keys = [each for each in keys if each not in troubled] or keys
        return list(self._answers(keys, ask))

    def offset_at(self, time_ms: int) -> Offset:
        """Return where the log ended at a moment, as `log_end_at` does."""
        led = self.confirm()
        found = next(self._answers([led.key], lambda each: each.offset_at(time_ms)))
        return min(found, led.log.end_offset)

    def root_ms(self) -> int | None:
        """Return the time of the leader's root; None: it tells none now, or nobody leads."""
        known = self.confirmed
        return None if known is None else self.tables.root_ms(known.key)

    def describe(self) -> QuorumDescription:
        """Return who leads, and how far each voter is, all of them asked anew."""
        view = self.confirm()
        return describe(view, *self._looks())

    def describe_voters(self) -> tuple[tuple[VoterDescription, ...], VoterKey]:
        """Return how far each voter is by its own root, also where no majority answers, and the
        voter with the best log.

        Raises:
            QuorumUnavailableError: No voter answers.
        """
        self.tables.look_at_all(self._patience_ms())  # who names newer voters
        seen, failures = self._looks()
        if not seen:
            raise self.elections.unavailable()
        found = describe_voters(self.tables.voters, None, seen, failures)
        return found, best_log(seen.values()).key

    def _looks(self) -> tuple[dict[VoterKey, VoterTable], dict[VoterKey, KafkaOnSparkError]]:
        """Look at all voters; return the tables of those that answer, and why others do not, or
        take no writes."""
        tables, refusals = self.tables, dict[VoterKey, KafkaOnSparkError]()

        def look(key: VoterKey) -> VoterTable:
            table = tables.look(key)
            try:
                with suppress(RootAccessDeniedError):  # to ask it takes no right to write
                    tables.log_of(key).try_write()
            except KafkaStorageError as error:
                refusals[key] = error
            return table

        seen = {each.key: each for each in tables.each(tables.voters.keys, look)}
        failures = dict(tables.failures)  # voters' threads change it
        return seen, {key: failures[key] for key in failures.keys() - seen} | refusals

    def last_seen(self) -> QuorumDescription | None:
        """Return the same by what this process has last seen, and ask nobody: no root can hold it
        up. None: it has asked nobody as yet."""
        view, tables = self.confirmed, self.tables
        if view is None:
            return None
        failures = dict(tables.failures)
        troubled = {key: failures.get(key) or hanging(key) for key in tables.troubled()}
        return describe(view, tables.newest_of_all(), tables.refusals | troubled)

    def may_need_upkeep(self) -> bool:
        """Return whether `maintain` may have something to do, without a request. Of several voters
        one may be stranded, or be behind what this process has seen of it: each time."""
        tables = self.tables
        return not tables.is_alone or tables.log_of(tables.voters.keys[0]).may_need_upkeep()

    def maintain(self, *, cleans: bool = True) -> None:
        """Do what is due of `VoterLog.maintain` on each voter that answers; have one taken back
        that a candidate left behind, which waits for no voter's checkpoint."""
        try:
            led = None if self.tables.is_alone else self.led
            if led is not None and self.elections.rescue_stranded(led):
                self.led = None
        finally:
            if any(self._of_all(lambda each: each.maintain(cleans=cleans))):
                self.led = None  # the next decision is put at a later version

    def expire(self, before_ms: int) -> None:
        if any(self._of_all(lambda each: each.expire(before_ms))):
            self.led = None  # the next decision is put at a later version

    def clean(self, now_ms: int) -> int:
        """Delete what no reader needs, on each voter that answers; return how many files."""
        return sum(self._of_all(lambda each: each.clean(now_ms)))

    def check_writable(self) -> None:
        """Check that this process may append: to the leader's root, and a majority's, as far as can
        be seen without a commit. A leader that refuses is replaced as after a commit.

        Raises:
            RootAccessDeniedError: It may not, also with all voters there; or the leader's root
                refuses it, and takes commits of others.
        """
        start_ms = self._clock.monotonic_ms()
        while True:
            began_ms = self._clock.monotonic_ms()
            led = self.led or self.confirm()
            try:
                self.tables.check_writable(led.key)
                break
            except RootAccessDeniedError:
                if self.tables.is_alone:
                    raise
                self.elections.wait_for_commits(led.key, began_ms, start_ms + self._patience_ms())
                self.led = None
        if not self.tables.is_alone:
            self._check_followers_writable(led)

    def _check_followers_writable(self, led: LeaderView) -> None:
        voters, may_take, denials = self.tables.voters, {led.key}, []
        held, failures = led.held, self.tables.failures
        # Voters that have just confirmed the leader answer; others may hang.
        for key in sorted(voters.keys, key=lambda each: (-held.get(each, -1), each in failures)):
            if voters.is_majority(may_take):
                return
            try:
                self.tables.check_writable(key)
            except RootAccessDeniedError as error:
                denials.append(error)
                continue
            except UNREADABLE as error:  # waiting helps, if anything does
                log.debug("voter %s may take commits once it answers: %s", key, error)
            may_take.add(key)
        if not voters.is_majority(may_take):
            raise denials[0]

    def newest_snapshot(self, *, to_offset: Offset | None = None) -> MetadataBatch | None:
        """Return the newest readable snapshot on any voter that answers, as a batch that ends at
        its end offset; the newest of those up to `to_offset`. Only those of the committed log
        count. Voters that are slower than the leader and a majority are not waited for."""
        view = self.confirm()
        return self._newest_snapshot(view, view.log.end_offset if to_offset is None else to_offset)

    def read_from_snapshot(self) -> tuple[MetadataBatch | None, list[MetadataBatch]]:
        """Return the newest readable snapshot, if any, and the committed batches after it; as
        `newest_snapshot` and `read`, with one look at the voters. A process that has just opened
        their tables needs none."""
        is_new = self._clock.monotonic_ms() - self._opened_ms < OPENED_MS_MAX
        self._opened_ms = -inf
        opened = leader_among(self.tables.newest_of_all()) if is_new else None
        if opened is not None and opened.is_confirmed:
            self.tables.use(opened.voters)
            self._keep(view := opened)
        else:
            view = self.confirm()
        snapshot = self._newest_snapshot(view, view.log.end_offset)
        start = Offset(0) if snapshot is None else snapshot.end_offset
        return snapshot, self._batches(view, start, view.log.end_offset)

    def _newest_snapshot(self, view: LeaderView, bound: Offset) -> MetadataBatch | None:
        check_generations(self.tables.seen(), view.epoch)
        tables = self.tables
        found: dict[VoterKey, Collection[OffsetAndEpoch]] = {}
        names = tables.each(tables.voters.keys, lambda key: (key, tables.log_of(key).snapshots()))
        for key, ends in names:
            found[key] = ends
            if view.key in found and tables.voters.is_majority(found):
                break
        if not found:
            raise self.elections.unavailable()
        leader_first = sorted(found, key=lambda key: key != view.key)
        logs = ((tables.log_of(key), found[key]) for key in leader_first)
        return newest_snapshot(view.log, logs, bound)

    def write_snapshot(self, records: Sequence[Record], stamp: Stamp, end_offset: Offset) -> None:
        """Write the records that rebuild the image at `end_offset`, which is committed, on each
        voter that takes them: any of them may be left alone one day, and opened. A voter that does
        not hold that end gets none: it may be left alone before it does."""
        led = self.confirm()
        end = OffsetAndEpoch(end_offset, led.log.epoch_before(end_offset))
        others = [key for key in self.tables.voters.keys if key != led.key]
        up_to_date = self.tables.each(others, partial(follow, self.tables, led.table))
        holders = [each.key for each in (led.table, *up_to_date) if is_snapshot_of(each.log, end)]
        list(self._answers(holders, lambda each: each.write_snapshot(records, stamp, end)))


def _check_continues(led: LeaderView, known: RaftLog) -> None:
    """Check a confirmed log against what was confirmed before it was looked at."""
    newest = known.batches[-1] if known.batches else None
    if newest is not None and not has_write(led.log, newest):
        raise InconsistentClusterError(
            f"the metadata log of voter {led.key} went back behind {newest.end_offset}, which"
            " this process has seen committed: a voter was restored from a copy, then stop, and"
            " remove it; or the quorum was forced to go on without that, then begin anew",
            epoch=led.epoch,
        )
