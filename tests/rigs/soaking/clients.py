"""One process of a soak: it works until SIGTERM, and notes what it did.

    python -m tests.rigs.soaking.clients ROLE FOLDER NAME PAUSES

Nothing is broken here, so no append may fail: one that does is noted, and is a finding. What others
meet (a move under way, a controller that lives) is no more than tried again.
"""

import logging
import os
import random
import signal
import sys
import threading
import time
from collections.abc import Callable
from concurrent.futures import Future
from functools import partial
from pathlib import Path
from typing import Any, Final

from kafka_on_spark import Cluster
from kafka_on_spark.base.errors import KafkaOnSparkError
from kafka_on_spark.produce.producer import Producer
from tests.rigs.notes import Notes
from tests.rigs.soaking.folder import BROKERS, EVENTS, PARTITIONS, TABLE, TOPICS, SoakFolder
from tests.rigs.soaking.notes import SENT, is_tombstone, key_of, runs_of, value_of

log = logging.getLogger("kafka_on_spark.soak")

APPEND_RECORDS: Final = 10
SEND_RECORDS: Final = 50
PASSES_S: Final = 60.0
MOVE_WAIT_S_MAX: Final = 120.0


class Client:
    def __init__(self, folder: SoakFolder, name: str, pauses: float) -> None:
        self.folder = folder
        self.name = name
        self.pauses = pauses
        self.rng = random.Random(name)
        self.notes = Notes(folder.notes, name)
        self.sent = 0
        self._stop = threading.Event()
        self._parent = os.getppid()

    def stop(self) -> None:
        self._stop.set()

    @property
    def is_stopped(self) -> bool:
        """Whether it was told to end, or whoever started it is gone."""
        return self._stop.is_set() or os.getppid() != self._parent

    def loop(self, work: Callable[[], None], pause_s: float) -> None:
        """Work until told to stop, with pauses of `pauses` times `pause_s`. An error is noted."""
        while not self.is_stopped:
            try:
                work()
            except KafkaOnSparkError as error:
                log.warning("a try has failed", exc_info=True)
                self.notes.add("error", error=str(error)[:300])
            self._stop.wait(pause_s * self.pauses * self.rng.uniform(0.5, 1.5))

    def timed(self, kind: str, work: Callable[[], Any]) -> Any:
        start = time.perf_counter()
        answer = work()
        self.notes.add(kind, took=time.perf_counter() - start)
        return answer

    def next_numbers(self, count: int) -> range:
        first = self.sent
        self.sent += count
        return range(first, self.sent)

    def note_append(
        self, kind: str, topic: str, took_s: float, places: list[tuple[int, int, int]]
    ) -> None:
        """Note where records stand: (number, partition, offset) of each."""
        runs = [(each.partition, each.offset, each.first, each.count) for each in runs_of(places)]
        self.notes.add(kind, took=took_s, topic=topic, runs=runs)

    def note_unknown(self, topic: str, numbers: range, error: BaseException) -> None:
        """Note an append that failed: its records may stand there, or not."""
        log.warning("an append has failed: %s", error)
        self.notes.add(
            "failed",
            topic=topic,
            first=numbers.start,
            count=len(numbers),
            error=f"{type(error).__name__}: {error}"[:300],
        )


def append(client: Client, cluster: Cluster) -> None:
    """Append a few records to one partition, without a producer."""
    numbers = client.next_numbers(APPEND_RECORDS)
    partition = client.rng.randrange(PARTITIONS)
    rows = [
        {"key": client.name, "value": value_of(client.name, each), "partition": partition}
        for each in numbers
    ]
    start = time.perf_counter()
    try:
        result = cluster.append(EVENTS, rows)
    except KafkaOnSparkError as error:
        client.note_unknown(EVENTS, numbers, error)
        return
    took_s = time.perf_counter() - start
    base = result.partitions[partition].base_offset or 0
    places = [(number, partition, base + place) for place, number in enumerate(numbers)]
    client.note_append("append", EVENTS, took_s, places)


def run_producer(client: Client, topic: str = EVENTS) -> None:
    """Send records one at a time by a producer; to the table, under keys that come again."""
    with Cluster.open(client.folder.metadata_root) as cluster, cluster.producer() as producer:

        def send() -> None:
            numbers = client.next_numbers(SEND_RECORDS)
            start = time.perf_counter()
            sent: list[tuple[int, Future[Any]]] = []
            for number in numbers:
                sent.append((number, _send(client, producer, topic, number)))
            try:
                producer.flush()
                answers = [(number, future.result()) for number, future in sent]
            except KafkaOnSparkError as error:
                client.note_unknown(topic, numbers, error)
                return
            took_s = time.perf_counter() - start
            places = [(number, each.partition, each.offset) for number, each in answers]
            client.note_append("send", topic, took_s, places)

        client.loop(send, 0.5)


def _send(client: Client, producer: Producer, topic: str, number: int) -> Future[Any]:
    value = value_of(client.name, number)
    if topic != TABLE:
        where = number // SEND_RECORDS % PARTITIONS
        return producer.send(topic, client.name, value, partition=where)
    key = key_of(client.name, number)
    if is_tombstone(number):
        return producer.send(topic, key, None, headers=[(SENT, value.encode())])
    return producer.send(topic, key, value)


def run_visitor(client: Client) -> None:
    """Open the cluster, look where its topics end, and close it: what is left open shows."""

    def visit() -> None:
        with Cluster.open(client.folder.metadata_root) as cluster:
            cluster.offsets(EVENTS)

    client.loop(partial(client.timed, "open", visit), 2.0)


def read(client: Client, cluster: Cluster) -> None:
    """Read the newest records of each partition, as a plain process."""
    offsets = cluster.offsets(EVENTS)
    ends = {number: int(each.high_watermark) for number, each in offsets.items()}
    starts = {
        number: max(int(each.log_start_offset), ends[number] - 100)
        for number, each in offsets.items()
    }
    client.timed("read", partial(cluster.read, EVENTS, starts, ends))


def control(client: Client, cluster: Cluster) -> None:
    """Control for a minute, in parts, so that the process ends soon after it is told to."""
    for _ in range(int(PASSES_S / 5)):
        if not client.is_stopped:
            cluster.run_controller(5)


def replicate(client: Client, cluster: Cluster) -> None:
    """Make a round of replication; each does its share of what is due."""
    client.timed("round", cluster.replicate)


def move(client: Client, cluster: Cluster) -> None:
    """Move a partition of any topic to other brokers, and wait until it is there."""
    target = client.rng.sample(BROKERS, 3)
    topic, partition = client.rng.choice([*TOPICS]), client.rng.randrange(PARTITIONS)
    start = time.monotonic()
    cluster.reassign({(topic, partition): target})
    while cluster.reassignments() and not client.is_stopped:
        if time.monotonic() - start > MOVE_WAIT_S_MAX:
            client.notes.add("error", error=f"a move took more than {MOVE_WAIT_S_MAX} s")
            return
        time.sleep(0.5)  # a move tells nobody when it ends
    client.notes.add("move", took=time.monotonic() - start)


def run_work(client: Client, work: Callable[[Client, Cluster], None], pause_s: float) -> None:
    with Cluster.open(client.folder.metadata_root) as cluster:
        client.loop(partial(work, client, cluster), pause_s)


def run_spark(client: Client) -> None:
    # In the function: the others need no Spark.
    from tests.rigs.soaking.streams import run_streams

    run_streams(client)


ROLES: Final[dict[str, Callable[[Client], None]]] = {
    "appender": partial(run_work, work=append, pause_s=0.2),
    "producer": run_producer,
    "table": partial(run_producer, topic=TABLE),
    "visitor": run_visitor,
    "reader": partial(run_work, work=read, pause_s=1.0),
    "controller": partial(run_work, work=control, pause_s=1.0),
    "upkeep": partial(run_work, work=replicate, pause_s=1.0),
    "mover": partial(run_work, work=move, pause_s=20.0),
    "spark": run_spark,
}


def main(role: str, folder: str, name: str, pauses: str) -> None:
    logging.basicConfig(level=logging.WARNING, format="%(asctime)s %(levelname)s %(message)s")
    client = Client(SoakFolder(Path(folder)), name, float(pauses))
    signal.signal(signal.SIGTERM, lambda *_: client.stop())
    ROLES[role](client)


if __name__ == "__main__":
    main(*sys.argv[1:])
