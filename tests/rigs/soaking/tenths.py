"""Cuts a run into tenths and sums each up: pure.

A *sample* is what the watcher has seen at one moment; a *latency* is how long one call took, at the
moment of its answer. Both have times in seconds since the measured part of the run began.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import median

PARTS = 10
DESCRIPTORS = "descriptors of "
"""How series of open files begin. Of these a tenth counts the lowest: what is open for a piece of
work is closed with it, and comes in bursts, as when delta-rs writes a checkpoint and reads 64
commits at once for it; what is never closed stays."""


@dataclass(frozen=True, slots=True)
class Sample:
    """What was seen at one moment.

    Attributes:
        at_s: When.
        values: By the name of a series: bytes, files, memory, descriptors.
    """

    at_s: float
    values: Mapping[str, float]


@dataclass(frozen=True, slots=True)
class Latency:
    """How long one call took.

    Attributes:
        at_s: When it was answered.
        kind: What was called.
        took_s: How long it took.
    """

    at_s: float
    kind: str
    took_s: float


@dataclass(frozen=True, slots=True)
class Tenth:
    """A tenth of the run.

    Attributes:
        values: The median of each series (of open files the lowest), and p50 and p99 of each kind
            of call in ms; what was not seen in this tenth is not there.
        calls: The number of calls of each kind.
    """

    values: Mapping[str, float]
    calls: Mapping[str, int]


def percentile(values: Sequence[float], part: float) -> float:
    """Return the value below which `part` of them lie (nearest rank)."""
    ordered = sorted(values)
    return ordered[min(int(part * len(ordered)), len(ordered) - 1)]


def tenths_of(samples: Sequence[Sample], latencies: Sequence[Latency], run_s: float) -> list[Tenth]:
    """Return the ten tenths of a run of `run_s` seconds; what lies outside of it counts nowhere."""
    seen: list[list[Sample]] = [[] for _ in range(PARTS)]
    called: list[list[Latency]] = [[] for _ in range(PARTS)]
    for sample in samples:
        if 0 <= sample.at_s < run_s:
            seen[int(PARTS * sample.at_s / run_s)].append(sample)
    for latency in latencies:
        if 0 <= latency.at_s < run_s:
            called[int(PARTS * latency.at_s / run_s)].append(latency)
    return [_tenth(*each) for each in zip(seen, called, strict=True)]


def _tenth(samples: Sequence[Sample], latencies: Sequence[Latency]) -> Tenth:
    series: dict[str, list[float]] = {}
    for sample in samples:
        for name, value in sample.values.items():
            series.setdefault(name, []).append(value)
    values = {
        name: min(each) if name.startswith(DESCRIPTORS) else median(each)
        for name, each in series.items()
    }
    took: dict[str, list[float]] = {}
    for latency in latencies:
        took.setdefault(latency.kind, []).append(1000 * latency.took_s)
    for kind, each in took.items():
        values[p50_of(kind)] = percentile(each, 0.5)
        values[p99_of(kind)] = percentile(each, 0.99)
    return Tenth(values, {kind: len(each) for kind, each in took.items()})


def p50_of(kind: str) -> str:
    """Return the name of the median of a kind of call."""
    return f"{kind}: p50 (ms)"


def p99_of(kind: str) -> str:
    """Return the name of the 99th percentile of a kind of call."""
    return f"{kind}: p99 (ms)"
