"""Opens a cluster whose disk was cut off, as after a power cut: what it keeps and whether it goes on.

One process checks all snapshots, one after the other: a line of JSON in, a line of JSON out. Each
snapshot is mounted before its line comes, and unmounted after the answer.
"""

import json
import sys
import time
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Final

from kafka_on_spark import Cluster, KafkaOnSparkError
from kafka_on_spark.base.errors import InvalidRequestError
from kafka_on_spark.log.worker import replica_store
from kafka_on_spark.store.delta import delta_log
from tests.rigs.cutting.clients import PARTITIONS, TOPIC, create, create_topic, hurry
from tests.rigs.notes import read_notes
from tests.told import Promises

RECHECK_S: Final = 0.05
"""Nobody writes any more: a commit without bytes needs no second look seconds later."""

APPEND_MS: Final = 8000
ROUNDS_MAX: Final = 6


@dataclass(slots=True)
class Verdict:
    """What was found in one snapshot."""

    cut: int
    promised: int = 0
    found: int = 0
    first_commit: int = 0
    wrong: list[str] = field(default_factory=list)
    seconds: float = 0.0


def promises_of(notes: Path, began_at: float, ended_at: float) -> Promises:
    """Return what was promised before a snapshot that was taken between two times."""
    lines = [line for _, line in read_notes(notes)]
    deleted = {
        each["topic"] for each in lines if each["kind"] == "deletes" and each["at"] < ended_at
    }
    kept = [each for each in lines if each["at"] < began_at and each.get("topic") not in deleted]
    records = {
        (each["topic"], each["partition"], each["offset"] + at): value
        for each in kept
        if each["kind"] == "acked"
        for at, value in enumerate(each["values"])
    }
    return Promises(
        records=records,
        topics={each["topic"] for each in kept if each["kind"] == "created"},
        brokers={each["broker_id"] for each in kept if each["kind"] == "registered"},
        is_created=any(each["kind"] == "cluster" for each in kept),
    )


class Check:
    def __init__(self, disk: Path, verdict: Verdict, promises: Promises) -> None:
        self._disk = disk
        self._verdict = verdict
        self._promises = promises

    def run(self) -> None:
        self._look_at_commits()
        try:
            cluster = self._open()
        except KafkaOnSparkError as error:
            self._wrong("it can't be opened", error)
            return
        with cluster:
            self._check_promises(cluster)
            self._fsck(cluster, "as it was found")
            self._read(cluster, "as it was found")
            self._append(cluster, "as it was found")
            self._heal(cluster)
            self._append(cluster, "after the controller")
        with self._open() as cluster:
            self._read(cluster, "after the controller")
            self._fsck(cluster, "after the controller")

    def _wrong(self, what: str, why: object) -> None:
        kind = f"{type(why).__name__}: " if isinstance(why, BaseException) else ""
        self._verdict.wrong.append(f"{what}: {kind}{why}")

    def _look_at_commits(self) -> None:
        firsts = [0]
        for log in self._disk.glob("**/_delta_log"):
            versions = [int(each.stem) for each in log.glob("*.json") if each.stem.isdecimal()]
            firsts.append(min(versions, default=0))
        self._verdict.first_commit = max(firsts)

    def _open(self) -> Cluster:
        replica_store.cache_clear()  # a process after a power cut remembers nothing
        root = self._disk / "meta"
        if not self._promises.is_created:
            # It was cut off while it was created: the same call goes on, or finds it done.
            with suppress(InvalidRequestError):
                create(root, self._disk)
        return Cluster.open(root)

    def _check_promises(self, cluster: Cluster) -> None:
        image = cluster.image
        self._verdict.wrong += self._promises.broken(image.topic_ids, image.brokers)
        lost = self._promises.on_no_root(self._disk, image.topic_ids)
        if lost:
            self._wrong(f"no table has {len(lost)} records", lost[:3])
        create_topic(cluster)

    def _fsck(self, cluster: Cluster, when: str) -> None:
        for each in cluster.fsck().findings:
            self._wrong(f"fsck, {when}", each)

    def _read(self, cluster: Cluster, when: str) -> None:
        records = self._promises.records
        found: dict[tuple[str, int, int], str] = {}
        try:
            for topic in sorted({TOPIC, *(topic for topic, _, _ in records)}):
                for row in cluster.read(topic).to_pylist():
                    found[topic, row["partition"], row["offset"]] = row["value"].decode()
        except KafkaOnSparkError as error:
            self._wrong(f"it can't be read, {when}", error)
            return
        self._verdict.promised, self._verdict.found = len(records), len(found)
        lost = self._promises.lost(found)
        if lost:
            self._wrong(f"{len(lost)} records are lost, {when}", lost[:3])

    def _append(self, cluster: Cluster, when: str) -> None:
        for number in range(PARTITIONS):
            try:
                record = {"value": b"after", "partition": number}
                cluster.append(TOPIC, [record], timeout_ms=APPEND_MS)
            except KafkaOnSparkError as error:
                self._wrong(f"partition {number} takes no append, {when}", error)

    def _heal(self, cluster: Cluster) -> None:
        for _ in range(ROUNDS_MAX):
            try:
                cluster.run_controller()
                cluster.replicate()
                short = [
                    (topic, each.partition, each.isr)
                    for topic in {each.name for each in cluster.image.topics.values()}
                    for each in cluster.describe_topic(topic).partitions
                    if len(each.isr) < len(each.replicas) or each.leader is None
                ]
            except KafkaOnSparkError as error:
                self._wrong("it can't be controlled", error)
                return
            if not short:
                return
        self._wrong("replicas stay out of sync", short)


def check(disk: Path, notes: Path, cut: int, began_at: float, ended_at: float) -> Verdict:
    verdict, begun = Verdict(cut), time.monotonic()
    Check(disk, verdict, promises_of(notes, began_at, ended_at)).run()
    verdict.seconds = time.monotonic() - begun
    return verdict


def main(arguments: list[str]) -> None:
    """Answer orders until there are no more."""
    disk, notes = map(Path, arguments)
    hurry()
    delta_log.RECHECK_SECONDS = RECHECK_S  # type: ignore[misc]
    for line in sys.stdin:
        verdict = check(disk, notes, **json.loads(line))
        print(json.dumps(asdict(verdict)), flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])
