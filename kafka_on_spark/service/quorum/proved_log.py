"""Adapts what the voters that answer prove committed to the MetadataLog port: asks no majority.

A decision is only ever made on a log that is committed to its end, so a log proves all before its
last decision, whoever holds it (Q2). It may lack what was committed last, and it may be old: so it
is read, and nothing is committed on it.
"""

from collections.abc import Sequence
from typing import Final, Never

from kafka_on_spark.errors import KafkaOnSparkError, QuorumUnavailableError
from kafka_on_spark.ids import Offset
from kafka_on_spark.metadata.records import MetadataBatch, Record, Stamp
from kafka_on_spark.raft.quorum.generations import check_forced_once, given_up
from kafka_on_spark.service.quorum.snapshots import newest_snapshot
from kafka_on_spark.service.quorum.voter_tables import VoterTables

ANSWER_MS_MAX: Final = 6000
"""So long voters are waited for that are slow to answer: one of them may prove more."""


class ProvedLog:
    """The metadata log up to where the voters that answer prove it committed, as of when it was
    made. It is read only.

    Attributes:
        key: The voter whose log proves most; of several, the lowest.
        end_offset: Up to where.
    """

    def __init__(self, tables: VoterTables) -> None:
        """Ask the voters.

        Raises:
            QuorumUnavailableError: None answers.
            KafkaStorageError, ReplicaLostError, CorruptLogError: So of the only one.
            InconsistentClusterError: The cluster was forced at two places.
        """
        answering, _ = tables.look_at_all(ANSWER_MS_MAX)
        check_forced_once(answering)
        old = given_up(answering)
        found = sorted(
            (each for each in answering if each.key not in old),
            key=lambda each: (-each.log.proved_end, each.key),
        )
        if not found:
            raise _unavailable(tables)
        self.key = found[0].key
        self.end_offset = found[0].log.proved_end
        self._log = found[0].log
        self._tables = tables
        # Another log may end with what was cut since: only what proves as much is as good.
        self._holders = [each.key for each in found if each.log.proved_end == self.end_offset]

    def read(self, *, from_offset: Offset, to_offset: Offset | None = None) -> list[MetadataBatch]:
        """Return the proved batches from `from_offset` on, oldest first; up to `to_offset`.

        Raises:
            KafkaStorageError, ReplicaLostError, CorruptLogError: So of each voter that has them.
        """
        end = self.end_offset if to_offset is None else min(to_offset, self.end_offset)
        border = self._log.border_before(end)
        if border <= from_offset:
            return []
        return self._tables.of_first(
            self._holders, lambda each: each.read(from_offset=from_offset, to_offset=border)
        )

    def has_next(self) -> bool:
        """Return False: it stays as it is."""
        return False

    def root_ms(self) -> int | None:
        """Return None: nothing is committed."""
        return None

    def offset_at(self, time_ms: int) -> Offset:
        """Return where the proved log ended at a moment.

        Raises: as `read`.
        """
        found = self._tables.of_first(self._holders, lambda each: each.offset_at(time_ms))
        return min(found, self.end_offset)

    def newest_snapshot(self, *, to_offset: Offset | None = None) -> MetadataBatch | None:
        """Return the newest readable snapshot of the proved log, up to `to_offset`.

        Raises: as `read`.
        """
        bound = self.end_offset if to_offset is None else min(to_offset, self.end_offset)
        of_voters = [
            (self._tables.log_of(key), ends)
            for key, ends in self._tables.each(
                self._holders, lambda key: (key, self._tables.log_of(key).snapshots())
            )
        ]
        return newest_snapshot(self._log, of_voters, bound)

    def append(
        self, records: Sequence[Record], stamp: Stamp, *, expected_offset: Offset
    ) -> MetadataBatch:
        """Refuse: no majority was asked.

        Raises:
            QuorumUnavailableError: Always.
        """
        self._refuse()

    def check_writable(self) -> None:
        """Refuse, as `append`."""
        self._refuse()

    def _refuse(self) -> Never:
        raise QuorumUnavailableError(
            f"the metadata log was opened as far as voter {self.key} proves it committed, without a"
            " majority of the voters, and is read-only: open the cluster without as_of"
        )

    def maintain(self) -> None:
        """Do nothing: who reads changes nothing."""

    def clean(self, now_ms: int) -> int:
        """Do nothing, as `maintain`."""
        return 0

    def write_snapshot(self, records: Sequence[Record], stamp: Stamp, end_offset: Offset) -> None:
        """Do nothing, as `maintain`."""


def _unavailable(tables: VoterTables) -> KafkaOnSparkError:
    failures = dict(tables.failures)
    if len(tables.known) == 1 and failures:
        return next(iter(failures.values()))
    why = "; ".join(f"{key}: {error.message}" for key, error in sorted(failures.items()))
    return QuorumUnavailableError(
        f"no voter of the metadata quorum answers ({why or 'all hang'}): make one of their roots"
        " reachable, or try again"
    )
