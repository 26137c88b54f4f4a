"""Clusters of many partitions: a new controller, a dead broker, all leaders, a large topic, a
long history."""

import json
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from statistics import median
from typing import Any

from jobs.benchmarks.bench import Bench, say, seconds
from jobs.benchmarks.report import Budget, Row, row
from kafka_on_spark import Cluster

HOME = Path(__file__).resolve().parents[2]
TOPIC_PARTITIONS = 10_000
MANY, MOST = 100_000, 1_000_000  # partitions of a cluster
YOUNG, OLD = 100, 10_000  # versions of the metadata log
DECISIONS = 200


def hundred_thousand(bench: Bench) -> list[Row]:
    """Measure a controller of 100,000 partitions."""
    root = _make(bench, MANY)
    return _rows(f"a new controller, {MANY:,} partitions", _repeat(bench, "ready", root), 3)


def million(bench: Bench) -> list[Row]:
    """Measure a controller of 1,000,000 partitions on 100 brokers."""
    name = f"{MOST:,} partitions on 100 brokers"
    root = _make(bench, MOST)
    copy = _copier(root)
    rows = _rows(f"a new controller, {name}", _repeat(bench, "ready", root), 20)
    rows += _rows(
        f"{name}, one dies: its share, one commit", _repeat(bench, "fence", root, copy), 3, gib=4
    )
    rows += _rows(
        f"{name}: all leaders re-elected, one commit", _repeat(bench, "elect", root, copy), 20
    )
    _work("elect", copy(0))
    rows += _rows(
        f"a new controller, {name}, the tail as long as the snapshot", [_work("ready", root)], None
    )
    shutil.rmtree(root)
    shutil.rmtree(_kept(root))
    return rows


def _make(bench: Bench, partitions: int) -> Path:
    root = bench.folder / f"metadata-{partitions}"
    root.mkdir()
    say(f"  creating {partitions:,} partitions: {_work('make', root, partitions)}")
    return root


def _copier(root: Path) -> Callable[[int], Path]:
    """Return what puts a root back as it is now, at its place: at another it is not opened."""
    shutil.copytree(root, _kept(root))

    def copy(run: int) -> Path:
        shutil.rmtree(root)
        shutil.copytree(_kept(root), root)
        os.sync()
        return root

    return copy


def _kept(root: Path) -> Path:
    return root.with_name(f"{root.name}-copy")


def _repeat(
    bench: Bench, work: str, root: Path, place: Callable[[int], Path] | None = None
) -> list[dict[str, Any]]:
    """Do the work as often as asked for, each time in a new process, on the same state."""
    return [_work(work, root if place is None else place(run)) for run in range(bench.runs)]


def _work(work: str, root: Path, *counts: int) -> dict[str, Any]:
    return work_in_process("jobs.benchmarks.scale_process", work, root, *counts)


def work_in_process(module: str, work: str, root: Path | str, *counts: int) -> dict[str, Any]:
    """Do the `work` of a module in a process of its own; return what it says.

    Raises:
        subprocess.CalledProcessError: It failed; why is on standard error.
    """
    order = [sys.executable, "-m", module, work, str(root)]
    path = os.pathsep.join([str(HOME), *filter(None, [os.environ.get("PYTHONPATH")])])
    done = subprocess.run(
        [*order, *map(str, counts)],
        check=True,
        stdout=subprocess.PIPE,
        cwd=HOME,
        env=os.environ | {"PYTHONPATH": path},
    )
    said: dict[str, Any] = json.loads(done.stdout)
    say(f"  {work}: {said}")
    return said


def _rows(
    name: str, found: list[dict[str, Any]], seconds_max: float | None, *, gib: float | None = None
) -> list[Row]:
    wall = None if seconds_max is None else Budget(bound=seconds_max, on="value")
    memory = None if gib is None else Budget(bound=gib, on="value")
    return [
        row(name, [each["seconds"] for each in found], "s", budget=wall),
        row(f"{name}: processor time", [each["processor_seconds"] for each in found], "s"),
        row(
            f"{name}: peak memory of the process",
            [each["peak_gib"] for each in found],
            "GiB",
            budget=memory,
        ),
    ]


def creation(bench: Bench) -> list[Row]:
    """Measure creating a topic of 10,000 partitions."""
    with bench.make_cluster("creation") as cluster:
        times = [
            seconds(
                partial(
                    cluster.create_topic,
                    f"many-{run}",
                    partitions=TOPIC_PARTITIONS,
                    replication_factor=3,
                )
            )
            for run in range(bench.runs + 1)
        ]
    return [
        row(
            f"create a topic of {TOPIC_PARTITIONS:,} partitions, 3 replicas, one commit",
            times[1:],
            "s",
            budget=Budget(bound=0.5, on="value"),
        )
    ]


def history(bench: Bench) -> list[Row]:
    """Measure a decision at version 10,000 of the metadata log against one at version 100.

    Each is a command: catch up, decide, commit flushed, replay; maintenance runs behind it.
    """
    with bench.make_cluster("old") as old, bench.make_cluster("young") as young:
        _live(old, OLD)
        _live(young, YOUNG)
        mine, theirs = [], []
        for decision in range(DECISIONS):
            mine.append(_decide(old, decision))
            theirs.append(_decide(young, decision))
    return [
        row(
            f"one decision at version {OLD:,} of the metadata log",
            mine,
            "ms",
            peer=f"at version {YOUNG}",
            peer_values=theirs,
            # The medians of two series of the same differ by as much on a shared machine.
            budget=Budget(bound=1.2, on="ratio"),
        )
    ]


def _live(cluster: Cluster, versions: int) -> None:
    cluster.create_topic("topic", partitions=8, replication_factor=3)
    times = []
    for decision in range(versions):
        times.append(_decide(cluster, decision))
        if len(times) % 1000 == 0:
            say(
                f"  {len(times):,} decisions, the last thousand {median(times[-1000:]):.1f} ms each"
            )


def _decide(cluster: Cluster, decision: int) -> float:
    """Return the milliseconds of one decision."""
    start = time.perf_counter()
    cluster.alter_topic_configs("topic", {"retention.ms": 1_000_000 + decision})
    return 1000 * (time.perf_counter() - start)
