"""The metadata quorum at the end of a run: what its voters hold, and how soon decisions were made.

Decisions of the run itself carry values that never repeat, so that each that was acknowledged can be
looked for in the log.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from kafka_on_spark.metadata.quorum.raft import QuorumSettings
from kafka_on_spark.metadata.records import (
    MetadataBatch,
    OffsetCommitRecord,
)
from tests.rigs.torturing.checks.anomalies import Anomaly

PROBE_GROUP: Final = "torture-"
"""What the names of the groups begin with that decisions save an offset of."""

BOUND_S: Final = QuorumSettings().call_timeout_ms / 1000
"""Fetch timeout, election timeout and three seconds."""

JUDGED_MIN: Final = 100
"""First decisions of a run from which on it is judged by the bound: of fewer, one is too many."""


@dataclass(frozen=True, slots=True)
class FirstDecision:
    """A decision that was acknowledged: after what, and the group that it saved an offset of."""

    after: str
    group: str
    seconds: float
    tries: int


def lost_decisions(
    batches: Iterable[MetadataBatch], decisions: Iterable[FirstDecision]
) -> Iterator[Anomaly]:
    """Yield the decisions that were acknowledged and that the metadata log lacks, or has twice."""
    found = Counter(
        record.group
        for batch in batches
        for record in batch.records
        if isinstance(record, OffsetCommitRecord)
    )
    for group in (each.group for each in decisions):
        if found[group] != 1:
            sentence = f"{group} was acknowledged and is there {found[group]} x"
            yield Anomaly("decision-lost", "", sentence)


def times_of(decisions: Sequence[FirstDecision]) -> dict[str, Any]:
    """Return how soon decisions were made: seconds, and how many were within the bound."""
    seconds = sorted(each.seconds for each in decisions)
    if not seconds:
        return {}
    return {
        "count": len(seconds),
        "median_s": round(seconds[len(seconds) // 2], 2),
        "of_100_99_s": round(seconds[max(-(-len(seconds) * 99 // 100) - 1, 0)], 2),
        "longest_s": round(seconds[-1], 2),
        "bound_s": BOUND_S,
        "longest_after": max(decisions, key=lambda each: each.seconds).after,
        "within_bound": sum(each <= BOUND_S for each in seconds),
        "within_four_bounds": sum(each <= 4 * BOUND_S for each in seconds),
    }


def late_decisions(times: Mapping[str, Any]) -> Iterator[Anomaly]:
    """Yield what came too late by the times of `times_of`: 99 of 100 first decisions are to come
    within the bound, and all within four times that."""
    count = times.get("count", 0)
    if count < JUDGED_MIN:
        return
    within, within_four = times["within_bound"], times["within_four_bounds"]
    if 100 * within < 99 * count:
        sentence = f"only {within} of {count} came within {BOUND_S:g} s, which 99 of 100 are to do"
        yield Anomaly("decisions-late", "", sentence)
    if within_four < count:
        longest = f"{times['longest_s']:.2f} s, after {times['longest_after']}"
        sentence = f"{count - within_four} came after {4 * BOUND_S:g} s, the longest took {longest}"
        yield Anomaly("decisions-late", "", sentence)
