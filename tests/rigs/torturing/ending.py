"""The end of a run: all healed and replicated, everything read once more, every table checked."""

import time
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Final

from kafka_on_spark import Cluster, KafkaOnSparkError
from kafka_on_spark.base.ids import Offset
from kafka_on_spark.fsck.findings import Finding, FsckReport
from kafka_on_spark.metadata.image import MetadataImage
from tests.rigs.torturing.checks.anomalies import Anomaly
from tests.rigs.torturing.checks.facts import Facts, facts_of
from tests.rigs.torturing.checks.quorum import FirstDecision, lost_decisions
from tests.rigs.torturing.checks.wholeness import wait_until, what_is_missing
from tests.rigs.torturing.clients.reading import by_partition, rows_of
from tests.rigs.torturing.folder import BROKERS, TOPICS, TortureFolder, key_of, keys
from tests.rigs.torturing.history import ENDED, HEALED, OK, POLL, HistoryWriter, read_history
from tests.rigs.torturing.processes import APPENDING, CONTROLLING, READING, Processes
from tests.told import Promises, replicas_below

ALIVE_S_MAX: Final = 180.0
"""Seconds, as a rule. What was killed last begins again first, on processors that others use, too."""
WHOLE_S_MAX: Final = 300.0
# A driver that was killed by the last fault begins again, and reads on from its checkpoint.
STREAM_S_MAX: Final = 180.0
STOP_S_MAX: Final = 40.0
WERE_CHANGED: Final = frozenset({"I1", "I4", "I9"})
"""What is found of a replica whose table ended below what it was counted for, or had other records
once; I9: as the leader."""


class Ending:
    def __init__(
        self, folder: TortureFolder, cluster: Cluster, processes: Processes, writer: HistoryWriter
    ) -> None:
        self._folder = folder
        self._cluster = cluster
        self._processes = processes
        self._writer = writer
        self.anomalies: list[Anomaly] = []

    def heal(self, say: Callable[[str], None]) -> None:
        self._writer.note(HEALED)
        healed_ns = time.monotonic_ns()
        self._wait(lambda: _is_alive(self._facts(), healed_ns), ALIVE_S_MAX)
        self._writer.note(ENDED)
        say("faults are over; the clients that append are told to end")
        self._stop(APPENDING)
        missing: list[str] = []
        if not self._wait(lambda: not self._missing(missing), WHOLE_S_MAX):
            self._fail("", f"not whole {WHOLE_S_MAX:.0f} s after the end of faults: {missing[0]}")
        say("every replica is in sync" if not missing else f"not whole: {missing[0]}")
        self._wait_for_the_stream()
        self._stop(READING)
        self._stop(CONTROLLING)
        self._processes.end()

    def _wait_for_the_stream(self) -> None:
        if not self._processes.named({"spark-reader"}):
            return
        if not self._wait(lambda: _has_streamed_all(self._facts(), self._ends()), STREAM_S_MAX):
            self._fail("spark-reader-stream", "it has not read what is committed")

    def _stop(self, roles: Collection[str]) -> None:
        self._processes.stop(self._processes.named(roles), STOP_S_MAX)

    def _wait(self, is_true: Callable[[], bool], wait_s: float) -> bool:
        """Wait, and start again what has ended by what befell it before."""

        def is_reached() -> bool:
            self._processes.start()
            return is_true()

        return wait_until(is_reached, wait_s)

    def _missing(self, into: list[str]) -> list[str]:
        into[:] = what_is_missing(self._cluster)
        return into

    def _facts(self) -> Facts:
        return facts_of(read_history(self._folder.history))

    def _ends(self) -> dict[str, int]:
        return {
            key_of(topic, number): int(each.high_watermark)
            for topic in TOPICS
            for number, each in self._cluster.offsets(topic).items()
        }

    def _fail(self, key: str, sentence: str) -> None:
        self.anomalies.append(Anomaly("stuck", key, sentence))

    def read_back(self) -> int:
        """Read all logs from the first offset on, by a newly opened cluster; return the records."""
        count = 0
        with Cluster.open(self._folder.cluster_url) as cluster:
            for topic in TOPICS:
                index = self._writer.invoke(POLL, topic=topic)
                try:
                    records = by_partition(topic, rows_of(cluster.read(topic)))
                except KafkaOnSparkError as error:
                    self._fail(topic, f"it can't be read at the end: {error}")
                    continue
                starts = {key_of(*each): 0 for each in keys() if each[0] == topic}
                self._writer.complete(
                    index,
                    POLL,
                    OK,
                    assign=-1,
                    starts=starts,
                    records=records,
                    is_final=True,
                )
                count += sum(map(len, records.values()))
            roots = map(self._folder.root, BROKERS)
            self.anomalies += lost_in_tables(roots, cluster.image, self._facts())
        return count

    def check_tables(self, rolled_back: Collection[tuple[int, str, int, int]]) -> FsckReport:
        """Check every table at every version.

        A table that was rolled back while its replica was in sync lacks what it had, and
        fsck says so by its newest version then. That is what was done to it.
        """
        with Cluster.open(self._folder.cluster_url) as cluster:
            report = cluster.fsck()
        for finding in report.findings:
            if is_rolled_back(finding, rolled_back):
                continue
            name = f"fsck {finding.invariant or finding.severity}"
            self.anomalies.append(Anomaly(name, str(finding.place), finding.sentence))
        return report

    def check_voters(self, decisions: Sequence[FirstDecision]) -> None:
        """Check that every voter has the whole metadata log, which has each decision once; that all
        have the same is Q7 of fsck."""
        if self._folder.voters == 1:
            return

        def have_followed() -> bool:
            try:
                return self._cluster.describe_quorum().lag_max == 0
            except KafkaOnSparkError:
                return False

        if not wait_until(have_followed, WHOLE_S_MAX):
            found = self._cluster.describe_quorum()
            self._fail("voters", f"one does not follow {WHOLE_S_MAX:.0f} s after all: {found}")
        batches = self._cluster._node.metadata.log.read(from_offset=Offset(0))
        self.anomalies += lost_decisions(batches, decisions)


def lost_in_tables(roots: Iterable[Path], image: MetadataImage, facts: Facts) -> Iterator[Anomaly]:
    """Yield each in-sync replica whose table lacks some of what clients were told of the partition,
    or has it otherwise: by no reader of the product."""
    tables = {
        uuid: {(topic, number, offset): value for offset, value in records.items()}
        for root in roots
        for topic, number, uuid, records in replicas_below(root, image.topic_ids)
    }
    for key, partition in image.partitions():
        topic, number = image.name_of(key)
        seen = facts.seen(key_of(topic, number))
        kept = {
            (topic, number, at): value for at, value in seen if at >= partition.log_start_offset
        }
        for broker_id in sorted(partition.isr):
            lost = Promises(records=kept).lost(tables.get(partition.uuid_of(broker_id), {}))
            if lost:
                sentence = (
                    f"broker {broker_id} lacks {len(lost)} records, the first at {lost[0][2]}"
                )
                yield Anomaly("lost-in-table", key_of(topic, number), sentence)


def is_rolled_back(finding: Finding, rolled_back: Collection[tuple[int, str, int, int]]) -> bool:
    place, table = finding.place, finding.place.partition
    if finding.invariant not in WERE_CHANGED or table is None:
        return False
    return (place.broker_id, table.topic, table.partition, place.version) in rolled_back


def _is_alive(facts: Facts, since_ns: int) -> bool:
    """Return whether every partition got an append that was acknowledged since."""
    alive = {batch.key for batch in facts.batches if (batch.acked_ns or 0) > since_ns}
    return alive.issuperset(key_of(*each) for each in keys())


def _has_streamed_all(facts: Facts, ends: dict[str, int]) -> bool:
    streamed = {poll.key: poll.end for poll in facts.polls if poll.stream_batch is not None}
    return all(streamed.get(key, 0) >= end for key, end in ends.items())


def longest_silence_s(facts: Facts, begun_ns: int, ended_ns: int) -> float:
    """Return the longest time without an acknowledged append to any partition."""
    acked = sorted(each.acked_ns for each in facts.batches if each.acked_ns is not None)
    points = [begun_ns, *(at for at in acked if begun_ns <= at <= ended_ns), ended_ns]
    return max(second - first for first, second in pairwise(points)) / 1e9
