"""Processes that append to a cluster that nobody controls, and say what happened."""

import json
import os

from kafka_on_spark import Cluster
from kafka_on_spark.base.errors import KafkaOnSparkError


def _live(root: str, topic: str, number: int) -> None:
    """Append a record, and say what came of it."""
    error = None
    try:
        with Cluster.open(root) as cluster:
            cluster.append(topic, [(b"key", f"{number}".encode())], acks="all")
    except KafkaOnSparkError as caught:
        error = f"{type(caught).__name__}: {caught}"
    # In one piece: others write to the same pipe.
    os.write(1, f"{json.dumps({'error': error})}\n".encode())


def appends(root: str, topic: str, count: int) -> None:
    """Have `count` processes, forked before the first use of the cluster, append a record each."""
    children = []
    for number in range(count):
        child = os.fork()
        if child == 0:
            _live(root, topic, number)
            os._exit(0)
        children.append(child)
    for child in children:
        os.waitpid(child, 0)
