"""Keeps the newest table of each voter that this process has seen, and asks several at once.

A voter that can't be asked is left out of the answers: it counts for nothing. Why is kept, for
people. One error ends everything: a log that contradicts another (InconsistentClusterError).
"""

import logging
import threading
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from typing import Final

from kafka_on_spark.errors import (
    InconsistentClusterError,
    KafkaOnSparkError,
)
from kafka_on_spark.metadata.records import MetadataBatch
from kafka_on_spark.ports.process import Clock
from kafka_on_spark.raft.quorum.discovery import newest_voters
from kafka_on_spark.raft.tables.voter_table import TableChange, VoterTable
from kafka_on_spark.raft.voter_set import Voter, VoterKey, VoterSet
from kafka_on_spark.service.quorum.ports import OpenVoterLog, SideBySide, VoterLog

log = logging.getLogger(__name__)

SLOW_CALLS_MAX: Final = 2
"""A voter that has so many calls under way for longer than an answer waits for it is asked no more
until one of them ends: a root that hangs for hours piles up nothing."""

Ask = Callable[[VoterKey], VoterTable | None]


class VoterTables:
    """The voters' logs, and what was seen of them. Threads share it.

    Attributes:
        voters: The newest set that a leader's log has shown.
        failures: Why a voter did not answer last; who answered is not in it.
    """

    def __init__(
        self,
        voters: VoterSet,
        open_log: OpenVoterLog,
        side_by_side: SideBySide,
        *,
        clock: Clock,
        timeout_ms: int,
    ) -> None:
        self.voters = voters
        self._known = {each.key: each for each in voters.voters}
        self.failures: dict[VoterKey, KafkaOnSparkError] = {}
        self._open_log = open_log
        self._side_by_side = side_by_side
        self._timeout_ms = timeout_ms
        self._lock = threading.Lock()
        self._logs: dict[VoterKey, VoterLog] = {}
        self._newest: dict[VoterKey, VoterTable] = {}
        self._clock = clock
        self._under_way: defaultdict[VoterKey, list[int]] = defaultdict(list)

    def use(self, voters: VoterSet) -> None:
        """Ask these voters from now on. Calls to former ones may still be under way."""
        if voters != self.voters:
            with self._lock:
                self._known |= {each.key: each for each in voters.voters}
            self.voters = voters

    @property
    def known(self) -> tuple[VoterKey, ...]:
        """All that this process has heard of: voters, former ones, and roots that may be some."""
        with self._lock:
            return tuple(self._known)

    def know(self, voter: Voter) -> None:
        """Have a root be asked for by its key, that is no voter as yet."""
        with self._lock:
            self._known[voter.key] = voter

    def log_of(self, key: VoterKey) -> VoterLog:
        """Return a voter's log; a former one's, too.

        Raises:
            ReplicaLostError: The root has another directory now.
            KafkaStorageError: It does not answer.
        """
        with self._lock:
            found, voter = self._logs.get(key), self._known[key]
        if found is None:
            opened = self._open_log(voter)  # without the lock: its root may hang
            with self._lock:
                found = self._logs.setdefault(key, opened)
        return found

    def newest(self, key: VoterKey) -> VoterTable | None:
        """Return a voter's newest table, as this process has seen it."""
        return self._newest.get(key)

    def newest_of_all(self) -> dict[VoterKey, VoterTable]:
        """Return the newest table of each voter that this process has seen."""
        with self._lock:
            return {key: self._newest[key] for key in self.voters.keys if key in self._newest}

    def learn_voters(self, answered: Iterable[VoterTable] | None = None) -> None:
        """Ask the newest voters from now on that any table names which this process has seen, or
        that has just answered: what only a root that is away says may have been cut since."""
        with self._lock:
            found = newest_voters(self._newest.values() if answered is None else answered)
        if found is not None:
            self.use(found)

    def load(self, key: VoterKey) -> VoterTable:
        """Return a voter's table, read anew.

        Raises: as VoterLog.load.
        """
        return self._kept(self.log_of(key).load())

    def look(self, key: VoterKey) -> VoterTable:
        """Return a voter's table as it is now; if nothing was committed since, that is one look.

        Raises: as VoterLog.load.
        """
        known = self._newest.get(key)
        if known is not None and self.log_of(key).is_newest(known):
            return known
        return self.load(key)

    def commit(
        self, table: VoterTable, change: TableChange, source: VoterKey | None = None
    ) -> VoterTable:
        """Commit on a voter's table.

        Raises: as VoterLog.commit.
        """
        copied = None if source is None else self.log_of(source)
        return self._kept(self.log_of(table.key).commit(table, change, copied))

    def append(self, table: VoterTable, change: TableChange, batch: MetadataBatch) -> VoterTable:
        """Commit new records on a voter's table.

        Raises: as `commit`.
        """
        return self._kept(self.log_of(table.key).append(table, change, batch))

    def _kept(self, table: VoterTable) -> VoterTable:
        with self._lock:
            known = self._newest.get(table.key)
            if known is None or table.version >= known.version:
                self._newest[table.key] = table
        return table

    def each(
        self, keys: Iterable[VoterKey], ask: Ask, *, timeout_ms: int | None = None
    ) -> Iterator[VoterTable]:
        """Ask several voters at once; yield the tables that `ask` returns, as they come, for
        `timeout_ms` at most (None: for as long as a voter may take to answer).

        A caller may stop: what is under way goes on by itself.

        Raises:
            InconsistentClusterError: One log contradicts another.
        """
        calls = [partial(self._answer, ask, key) for key in keys]
        limit_ms = self._timeout_ms if timeout_ms is None else timeout_ms
        for found in self._side_by_side.run(calls, limit_ms):
            if isinstance(found, InconsistentClusterError):
                raise found
            if found is not None:
                yield found

    def _answer(self, ask: Ask, key: VoterKey) -> VoterTable | InconsistentClusterError | None:
        began_ms = self._begin(key)
        if began_ms is None:
            return None
        try:
            found = ask(key)
        except InconsistentClusterError as error:
            # Its caller may be gone by now.
            log.error("voter %s: %s", key, error)
            return error
        except KafkaOnSparkError as error:
            log.debug("voter %s is left out: %s", key, error)
            self.failures[key] = error
            return None
        finally:
            with self._lock:
                self._under_way[key].remove(began_ms)
        self.failures.pop(key, None)
        return found

    def _begin(self, key: VoterKey) -> int | None:
        """Note a call and return when it began; None: the voter is too slow, and is left out."""
        now_ms = self._clock.monotonic_ms()
        with self._lock:
            began = self._under_way[key]
            slow = sum(each <= now_ms - self._timeout_ms for each in began)
            if slow >= SLOW_CALLS_MAX and len(self.voters.voters) > 1:
                return None
            began.append(now_ms)
            return now_ms
