"""One process of a torture run, started by tests/rigs/torture.py: it works until SIGTERM, or kill -9.

Roles: an appender with or without idempotence, a reader, a controller (which replicates, too), and
two jobs for spark-submit: one that appends DataFrames and replicates on executors, and one that
reads by a streaming query and by batches.
"""

import argparse
import logging
import os
import random
import signal
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Final

from kafka_on_spark import Cluster
from kafka_on_spark.base.errors import ProducerFencedError
from tests.rigs.torturing.clients.appending import AppendingClient
from tests.rigs.torturing.clients.reading import ReadingClient, ask_directly, read_directly
from tests.rigs.torturing.clients.spark_clients import SparkAppends, SparkReads
from tests.rigs.torturing.folder import TortureFolder
from tests.rigs.torturing.history import HistoryWriter, read_history

log = logging.getLogger("kafka_on_spark.torture")

CONTROL_S_MAX: Final = 15.0


class Client:
    def __init__(self, folder: TortureFolder, name: str, incarnation: int, seed: int) -> None:
        self.folder = folder
        self.name = name
        self._incarnation = incarnation
        self._seed = seed
        self._stop = threading.Event()
        self._parent = os.getppid()

    def stop(self) -> None:
        """Have every loop end after what it is at."""
        self._stop.set()

    def rng(self, purpose: str) -> random.Random:
        """Return a source of choices that no other loop or process has."""
        return random.Random(f"{self._seed} {self.name} {self._incarnation} {purpose}")

    def writer(self, purpose: str = "") -> HistoryWriter:
        return HistoryWriter(self.folder.history, f"{self.name}{purpose}.{self._incarnation}")

    def loop(self, work: Callable[[], None], pause_s: Callable[[], float]) -> None:
        """Work until told to stop; an error is logged, and is no reason to end."""
        # A driver whose JVM was killed, and which nobody would tell, has another parent.
        while not self._stop.is_set() and os.getppid() == self._parent:
            try:
                work()
            except ProducerFencedError:
                log.warning("another process has taken over")
                self._stop.set()
            except Exception:  # what a fault leads to; what matters is in the history
                log.warning("a try has failed", exc_info=True)
            self._stop.wait(pause_s())
        self._stop.set()

    def start(self, work: Callable[[], None], pause_s: Callable[[], float]) -> threading.Thread:
        """Run `loop` in a thread."""
        thread = threading.Thread(target=self.loop, args=(work, pause_s), daemon=True)
        thread.start()
        return thread

    def appending(self, append: Callable[..., object], producer_id: str | None) -> AppendingClient:
        """Return the appending of this process, which goes on where the last one was killed."""
        before = read_history(self.folder.history, self.name)
        return AppendingClient(
            append,  # type: ignore[arg-type]
            self.writer(),
            self.rng("append"),
            producer_id=producer_id,
            before=before,
        )


def run_appender(client: Client, producer_id: str | None) -> None:
    """Append in small batches."""
    with Cluster.open(client.folder.cluster_url) as cluster:

        def append(topic: str, rows: list[tuple[str, int]], **options: object) -> object:
            records = [{"value": value, "partition": number} for value, number in rows]
            return cluster.append(topic, records, **options)  # type: ignore[arg-type]

        rng = client.rng("pause")
        appending = client.appending(append, producer_id)
        client.loop(appending.once, lambda: rng.uniform(0.1, 0.9))


def run_reader(client: Client) -> None:
    with Cluster.open(client.folder.cluster_url) as cluster:
        rng = client.rng("pause")
        reading = ReadingClient(
            read_directly(cluster),
            client.writer(),
            client.rng("read"),
            ends=ask_directly(cluster),
        )
        client.loop(reading.once, lambda: rng.uniform(0.2, 1.2))


def run_controller(client: Client) -> None:
    with Cluster.open(client.folder.cluster_url) as cluster:
        control(client, cluster)


def control(client: Client, cluster: Cluster, *, only_passes: bool = False) -> None:
    """Control in a thread, replicate in this one; `only_passes`: one pass now and then."""
    rng, other_rng = client.rng("control"), client.rng("replicate")

    def control_once() -> None:
        with client.folder.controlling("passes") as may:
            if may:
                seconds = None if only_passes else rng.uniform(2, CONTROL_S_MAX)
                log.info("%s", cluster.run_controller(seconds))

    def replicate_once() -> None:
        # A round decides, too, where nobody controls.
        with client.folder.controlling("rounds") as may:
            if may:
                log.info("%s", cluster.replicate(is_sweep=other_rng.random() < 0.2))

    client.start(control_once, lambda: rng.uniform(3, 9) if only_passes else rng.uniform(0, 0.5))
    client.loop(replicate_once, lambda: other_rng.uniform(0.3, 1.5))


def run_spark_appender(client: Client) -> None:
    """Append DataFrames, control and replicate, all of it on executors."""
    jobs = SparkAppends(client.folder)
    try:
        rng = client.rng("pause")
        appending = client.appending(jobs.append, f"producer-{client.name}")
        client.start(appending.once, lambda: rng.uniform(0.1, 0.8))
        # Controllers are killed all the time, and a driver starts slowly.
        control(client, jobs.cluster, only_passes=True)
    finally:
        jobs.close()


def run_spark_reader(client: Client) -> None:
    jobs = SparkReads(client.folder, client.writer("-stream"))
    try:
        rng = client.rng("pause")
        reading = ReadingClient(jobs.read, client.writer("-batch"), client.rng("read"))
        client.start(reading.once, lambda: rng.uniform(3.0, 8.0))
        client.loop(lambda: _stream_or_end(client, jobs), lambda: 0.5)
    finally:
        jobs.close()


def _stream_or_end(client: Client, jobs: SparkReads) -> None:
    try:
        jobs.keep_streaming()
    except Exception:
        # Spark looks for data sources once a session, in a Python worker: if that is killed, the
        # session knows none for ever. So a job that can't begin its query ends, and is started again.
        client.stop()
        raise


ROLES: Final[dict[str, Callable[[Client], None]]] = {
    "idempotent": lambda client: run_appender(client, f"producer-{client.name}"),
    "appender": lambda client: run_appender(client, None),
    "reader": run_reader,
    "controller": run_controller,
    "spark-appender": run_spark_appender,
    "spark-reader": run_spark_reader,
}


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("role", choices=sorted(ROLES))
    parser.add_argument("--dir", type=Path, required=True)
    parser.add_argument("--name", required=True)
    parser.add_argument("--incarnation", type=int, required=True)
    parser.add_argument("--seed", type=int, required=True)
    parser.add_argument("--voters", type=int, required=True)
    given = parser.parse_args(arguments)
    logging.basicConfig(
        level=logging.INFO, format="%(asctime)s %(levelname)s %(name)s: %(message)s"
    )
    logging.getLogger("py4j").setLevel(logging.ERROR)
    folder = TortureFolder(given.dir, given.voters)
    client = Client(folder, given.name, given.incarnation, given.seed)
    signal.signal(signal.SIGTERM, lambda *_: client.stop())
    ROLES[given.role](client)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
