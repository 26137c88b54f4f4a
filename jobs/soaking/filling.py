"""Fills the tables of a long run before it is measured: each gets as many commits as it keeps.

A table that is new has no commit that may go. Without this the slow ones would still have more and
more commit files an hour later, which is no growth that anybody has to fear.
"""

import time
from typing import Final

from jobs.soaking.clients import Client
from jobs.soaking.folder import PARTITIONS, TABLE, TOPICS, SoakFolder
from jobs.soaking.notes import key_of, value_of
from kafka_on_spark import Cluster

APPENDS: Final = 1150
"""A table keeps 1,000 commits below its newest checkpoint, and has one each 100."""


def fill(folder: SoakFolder, appends: int = APPENDS) -> None:
    """Append so often to all partitions of each topic, and note it as a client does.

    Raises:
        KafkaOnSparkError: An append has failed.
    """
    with Cluster.open(folder.metadata_root) as cluster:
        for topic in TOPICS:
            client = Client(folder, f"filler-{topic}")
            for _ in range(appends):
                _append(client, cluster, topic)
            client.notes.close()


def _append(client: Client, cluster: Cluster, topic: str) -> None:
    """Append a record to each partition; the number says to which, so that a key keeps its own."""
    numbers = client.next_numbers(PARTITIONS)
    rows = [
        {
            "key": key_of(client.name, number) if topic == TABLE else client.name,
            "value": value_of(client.name, number),
            "partition": number % PARTITIONS,
        }
        for number in numbers
    ]
    start = time.perf_counter()
    result = cluster.append(topic, rows)
    took_s = time.perf_counter() - start
    places = [
        (number, number % PARTITIONS, result.partitions[number % PARTITIONS].base_offset or 0)
        for number in numbers
    ]
    client.note_append("fill", topic, took_s, places)
