"""Processes beside a Spark session: one appends to three topics, others do their upkeep until they
are killed at a change of one kind."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Final

from kafka_on_spark import Cluster
from kafka_on_spark.errors import KafkaOnSparkError
from kafka_on_spark.service.metadata import metadata_service
from kafka_on_spark.storage.delta import conditional_commit, log_cleaning
from kafka_on_spark.storage.metadata import metadata_log
from tests.cluster.killing.reaper import Reaper, watch
from tests.cluster.killing.stories import COMPACTED

MERGED, RETAINED, PRICES = "merged", "retained", "prices"
TOPICS: Final[Mapping[str, Mapping[str, str]]] = {
    MERGED: {},
    # Of less than 32 appends: what stays is never merged, so upkeep commits log starts alone.
    RETAINED: {"retention.bytes": "50000"},
    PRICES: COMPACTED,
}
KEYS: Final = 7
TRIES_MAX: Final = 20
IDLE_S: Final = 0.05

INTERVALS: Final = (
    (conditional_commit, "CHECKPOINT_INTERVAL", 10),
    (log_cleaning, "COMMITS_KEPT", 60),
    (log_cleaning, "COMMITS_KEPT_MS", 0),
    (metadata_log, "MERGE_INTERVAL", 10),
    (metadata_service, "SNAPSHOT_RECORDS_MIN", 50),
)
"""So short in the process that does upkeep that a few hundred appends have each kind of change."""

_FILE: Final = r"[^/]*/[^/]*/\d+-[^/]*\.parquet"
_COMMIT: Final = r"[^/]*/[^/]*/_delta_log/\d+\.json"


@dataclass(frozen=True, slots=True)
class Kill:
    """At which change a process that does upkeep is killed.

    Attributes:
        work: What the change belongs to.
        topic: Whose upkeep the process does; None: all there is, with the roots.
        change: A pattern of the change, as the Reaper names them.
        at: At how many-th such change of the process.
        is_after: Right after the change, or else right before.
    """

    work: str
    topic: str | None
    change: str
    at: int = 1
    is_after: bool = True


# fmt: off
KINDS: Final = (
    ("merge",      MERGED,   rf"rename broker-\d/merged-{_FILE}"),
    ("merge",      MERGED,   r"put broker-\d/merged-[^/]*/[^/]*/producers-\d+\.parquet"),
    ("merge",      MERGED,   rf"put broker-\d/merged-{_COMMIT}"),
    ("compaction", PRICES,   r"put meta/[^/]*/_delta_log/\d+\.json"),
    ("compaction", PRICES,   rf"rename broker-\d/prices-{_FILE}"),
    ("compaction", PRICES,   rf"put broker-\d/prices-{_COMMIT}"),
    ("retention",  RETAINED, r"put meta/[^/]*/_delta_log/\d+\.json"),
    ("retention",  RETAINED, rf"put broker-\d/retained-{_COMMIT}"),
    ("cleaning",   None,     rf"unlink broker-\d/{_FILE}"),
    ("cleaning",   None,     rf"unlink broker-\d/{_COMMIT}"),
    ("cleaning",   None,     r"checkpoint broker-\d/.*"),
    ("cleaning",   None,     r"unlink broker-\d/.*checkpoint.*parquet"),
    ("cleaning",   None,     r"unlink meta/[^/]*/[^/]*\.parquet"),
    ("cleaning",   None,     r"unlink meta/[^/]*/_delta_log/\d+\.json"),
    ("cleaning",   None,     r"unlink meta/snapshots/.*"),
)
# fmt: on

AFTER_EACH: Final = tuple(Kill(*kind, at=1, is_after=True) for kind in KINDS)
BEFORE_EACH: Final = tuple(Kill(*kind, at=2, is_after=False) for kind in KINDS)
FEW: Final = (
    Kill(*KINDS[5], at=1, is_after=False),
    Kill(*KINDS[7], at=2, is_after=False),
    Kill(*KINDS[0], at=1, is_after=True),
    Kill(*KINDS[2], at=2, is_after=True),
    Kill(*KINDS[8], at=1, is_after=True),
)
"""One kill of each work, and one more."""


def row_of(topic: str, number: int) -> tuple[bytes, bytes]:
    """Return key and value of what is appended to a topic at an offset."""
    return b"%d" % (number % KEYS), b"%s %06d" % (topic.encode(), number)


def append(base: Path, pause_s: float, told: Connection) -> None:
    """Append to each topic, one record after the other, each until it is acknowledged, until
    somebody says something; tell how many each has got."""
    number = 0
    with Cluster.open(base / "meta") as cluster:
        while not told.poll(pause_s):
            for topic in TOPICS:
                _append(cluster, topic, number)
            number += 1
    told.recv()  # a pipe that is closed with something in it is broken for the other
    told.send(number)


def _append(cluster: Cluster, topic: str, number: int) -> None:
    for _ in range(TRIES_MAX):
        try:
            cluster.append(topic, [row_of(topic, number)], producer_id="p", sequence=number)
            return
        except KafkaOnSparkError as error:
            failure = error  # the next try tells whether it stands
    raise failure


def maintain(base: Path, kill: Kill, told: Connection) -> None:
    """Do upkeep until it is killed at its change, or somebody says something; tell what fails, as
    a tuple, and the change."""
    for module, name, value in INTERVALS:
        setattr(module, name, value)
    reaper = Reaper(base, kill.at, is_after=kill.is_after, last_words=told.send, counts=kill.change)
    watch(reaper)
    with Cluster.open(base / "meta") as cluster:
        while not told.poll(IDLE_S):
            for row in cluster.maintain(kill.topic).rows:
                if row.error:
                    told.send(("failed", str(row)))


Rows = Sequence[tuple[int, bytes | None, bytes | None]]
"""Offset, key and value."""


def wrong_with(topic: str, rows: Rows, before: Rows) -> Iterator[str]:
    """Yield what is wrong with a topic's rows that are read after others: they must go on from
    there, and all be there but for what retention or compaction takes."""
    yield from wrong_rows(topic, rows)
    offsets = [offset for offset, _, _ in rows]
    if before and (not rows or offsets[0] < before[0][0] or offsets[-1] < before[-1][0]):
        yield f"{topic} has {rows[:1]} to {rows[-1:]} after {before[:1]} to {before[-1:]}"
    if not rows:
        return
    end = offsets[-1] + 1
    if topic == PRICES:
        needed = set({number % KEYS: number for number in range(end)}.values())
    else:
        needed = set(range(offsets[0] if topic == RETAINED else 0, end))
    if missing := needed - set(offsets):
        yield f"{topic} up to {end} lacks {sorted(missing)}"


def wrong_rows(topic: str, rows: Rows) -> Iterator[str]:
    """Yield which rows are not what was appended there, or come twice or not in order."""
    place = -1
    for offset, key, value in rows:
        if offset <= place:
            yield f"{topic}: {offset} comes after {place}"
        if (key, value) != row_of(topic, offset):
            yield f"{topic} has {key!r}, {value!r} at {offset}"
        place = offset
