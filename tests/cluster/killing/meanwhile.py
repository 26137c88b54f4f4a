"""Processes that go on while others are killed: one appends, one reads, one does upkeep."""

import time
from collections.abc import Callable
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any, Final

from kafka_on_spark import Cluster
from kafka_on_spark.errors import KafkaOnSparkError
from tests.cluster.killing.processes import rows_of
from tests.cluster.killing.stories import PRODUCER, TOPIC, Row

KEYS: Final = 5
TRIES_MAX: Final = 20


def rows_under(sequence: int) -> list[tuple[bytes, bytes]]:
    """Return what is appended under a sequence: a value grows with its key's place in the log."""
    return [
        (b"%d" % (sequence % KEYS), b"%08d" % (2 * sequence)),
        (b"%d" % ((sequence + 1) % KEYS), b"%08d" % (2 * sequence + 1)),
    ]


def append(base: Path, count: int, told: Connection) -> None:
    """Once told to, append so many batches, each until it is acknowledged; tell the offsets, in the
    end, since nobody listens before."""
    with Cluster.open(base / "meta") as cluster:
        told.recv()
        told.send([_append(cluster, sequence) for sequence in range(count)])


def _append(cluster: Cluster, sequence: int) -> int:
    for _ in range(TRIES_MAX):
        try:
            done = cluster.append(
                TOPIC, rows_under(sequence), producer_id=PRODUCER, sequence=sequence
            )
            return int(done.partitions[0].base_offset or 0)
        except KafkaOnSparkError as error:
            failure = error  # the next try tells whether it stands
    raise failure


def maintain(base: Path, told: Connection) -> None:
    """Do upkeep until killed; what it can't do for the appender's commits is done in the end."""
    with Cluster.open(base / "meta") as cluster:
        while not told.poll():  # true as well once the other is gone
            cluster.maintain()


def read(base: Path, check: Callable[[list[Row], Any], tuple[list[str], Any]], told: Any) -> None:
    """Read until somebody says something; tell that it has begun, and in the end what was wrong and
    how often it was read."""
    wrong: list[str] = []
    count, memory = 0, None
    with Cluster.open(base / "meta") as cluster:
        while not told.poll():
            rows = rows_of(cluster)
            found, memory = check(rows, memory)
            wrong += found
            count += 1
            if count == 1:
                told.send("reads")
            time.sleep(0.01)
    told.recv()  # a pipe that is closed with something in it is broken for the other
    told.send((wrong, count))


def check_whole(rows: list[Row], memory: Any) -> tuple[list[str], Any]:
    """Check that what is read is dense from where it starts, and what was appended there."""
    wrong = []
    start = rows[0][0] if rows else 0
    if [offset for offset, _, _ in rows] != list(range(start, start + len(rows))):
        wrong.append(f"offsets {[offset for offset, _, _ in rows]}")
    if [value for _, _, value in rows] != [b"%08d" % offset for offset, _, _ in rows]:
        wrong.append(f"another order or content: {rows}")
    end = start + len(rows)
    if memory is not None and (start < memory[0] or end < memory[1]):
        wrong.append(f"from {start} to {end} after {memory}")
    return wrong, (start, end)


def check_compacted(rows: list[Row], memory: Any) -> tuple[list[str], Any]:
    """Check that what is read was appended there, and that no key's value goes back or away."""
    wrong = []
    if rows != sorted(rows) or any(value != b"%08d" % offset for offset, _, value in rows):
        wrong.append(f"another order or content: {rows}")
    newest = {key: value for _, key, value in rows}
    for key, value in (memory or {}).items():
        if newest.get(key, b"") < value:
            wrong.append(f"{key!r} was {value!r} and is {newest.get(key)!r}")
    return wrong, newest
