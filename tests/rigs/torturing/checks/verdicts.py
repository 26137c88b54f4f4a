"""Which replicas were found bad, by the metadata log; and which of them must not have been."""

from collections.abc import Iterable
from functools import partial
from typing import Final

from kafka_on_spark import Cluster
from tests.rigs.torturing.checks.anomalies import Anomaly
from tests.rigs.torturing.checks.wholeness import patiently
from tests.rigs.torturing.folder import PARTITIONS, TOPICS, key_of

BAD: Final = "replica is bad"
SMALL_PASS: Final = "nobody controls"
"""What causes of the metadata log say of a verdict, and of a decision of an append."""

Verdict = tuple[str, int, str]
"""A partition, where the record stands in the metadata log, and its cause."""


def causes(cluster: Cluster, words: str) -> frozenset[Verdict]:
    return frozenset(
        (key_of(topic, number), int(entry.metadata_offset), entry.cause)
        for topic in TOPICS
        for number in range(PARTITIONS)
        for entry in patiently(partial(cluster.history, topic, number))
        if entry.cause is not None and words in entry.cause
    )


def verdicts(cluster: Cluster) -> frozenset[Verdict]:
    return causes(cluster, BAD)


def false_verdicts(before: Iterable[Verdict], after: Iterable[Verdict]) -> list[Anomaly]:
    """Return what was found bad in between, while every replica was intact."""
    new = sorted(set(after) - set(before))
    return [
        Anomaly("false-verdict", key, f"errors passed, and an intact replica was lost: {cause}")
        for key, _, cause in new
    ]
