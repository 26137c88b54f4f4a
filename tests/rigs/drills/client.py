"""One `cluster.producer()` that sends to each partition in turn until SIGTERM, and notes each answer.

python -m tests.rigs.drills.client CLUSTER NOTES NAME TOPIC PARTITIONS
"""

import itertools
import logging
import signal
import sys
import threading
from functools import partial
from pathlib import Path
from typing import Any, Final

from kafka_on_spark import Cluster, KafkaOnSparkError
from tests.rigs.notes import Notes
from tests.rigs.soaking.notes import value_of

PAUSE_S: Final = 0.05


def main(url: str, folder: str, name: str, topic: str, partitions: str) -> None:
    logging.basicConfig(level=logging.WARNING, format="%(asctime)s %(levelname)s %(message)s")
    stop, lock, notes = threading.Event(), threading.Lock(), Notes(Path(folder), name)
    signal.signal(signal.SIGTERM, lambda *_: stop.set())

    def answered(number: int, metadata: Any, error: BaseException | None) -> None:
        with lock:
            if error is None:
                run = (metadata.partition, metadata.offset, number, 1)
                notes.add("acked", topic=topic, runs=[run])
            else:
                said = f"{type(error).__name__}: {error}"
                notes.add("failed", topic=topic, first=number, count=1, error=said)

    with Cluster.open(url) as cluster, cluster.producer() as producer:
        for number in itertools.count():
            if stop.wait(PAUSE_S):
                return
            at, value = number % int(partitions), value_of(name, number)
            try:
                producer.send(topic, name, value, partition=at, callback=partial(answered, number))
            except KafkaOnSparkError as error:
                answered(number, None, error)


if __name__ == "__main__":
    main(*sys.argv[1:])
