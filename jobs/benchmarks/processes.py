"""Eight processes that append at once, each to a topic of its own, in one cluster.

They share the metadata log: each append is one commit to it, so they wait for each other there.
"""

import json
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from jobs.benchmarks.bench import Bench, say
from jobs.benchmarks.report import Budget, Row, percentile, row
from kafka_on_spark import Cluster

HOME = Path(__file__).resolve().parents[2]
PROCESSES = 8
SECONDS = 10


def processes(bench: Bench) -> list[Row]:
    """Measure appends of one record, in all and the slowest, against delta-rs in as many."""
    with bench.make_cluster("processes") as cluster:
        make_topics(cluster)
    peer_folder = bench.folder / "processes-peer"
    span = max(1, min(SECONDS, 3 * bench.runs))
    mine = run_together("append", bench.folder / "processes" / "metadata", span)
    theirs = run_together("delta", peer_folder, span)
    ours, peers = flattened(mine), flattened(theirs)
    say(f"  appends of each process: {' '.join(str(len(each)) for each in mine)}")
    name = f"{PROCESSES} processes append 1 record to topics of their own, 3 replicas, flushed"
    peer = "as many processes append a row by delta-rs (1 copy, not flushed)"
    return [
        row(
            f"{name}: in all",
            [len(ours) / span],
            "appends/s",
            peer=peer,
            peer_values=[len(peers) / span],
            budget=Budget(bound=1.8, on="ratio", is_most=False),
        ),
        row(
            f"{name}: 99 %",
            [percentile(ours, 0.99)],
            "s",
            peer=peer,
            peer_values=[percentile(peers, 0.99)],
            budget=Budget(bound=0.3, on="value"),
        ),
        row(f"{name}: slowest", [max(ours)], "s", peer=peer, peer_values=[max(peers)]),
    ]


def flattened(each: Sequence[Sequence[float]]) -> list[float]:
    """Return the seconds of all appends, whoever made them."""
    return [seconds for one in each for seconds in one]


def make_topics(cluster: Cluster) -> None:
    """Create a topic for each process."""
    for number in range(PROCESSES):
        cluster.create_topic(f"own-{number}", partitions=1, replication_factor=3)


def run_together(work: str, root: Path | str, span: int) -> list[list[float]]:
    """Run `work` in all processes; return the seconds of the appends of each.

    They begin together: each waits, warmed up, for a line of this process.
    """
    started = [
        subprocess.Popen(
            [sys.executable, "-m", "jobs.benchmarks.append_process", work, str(root), *rest],
            cwd=HOME,
            text=True,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
        )
        for rest in ([str(number), str(span)] for number in range(PROCESSES))
    ]
    try:
        for each in started:
            assert each.stdout is not None
            if each.stdout.readline() != "ready\n":
                raise RuntimeError("a process that appends has ended: see above")
        for each in started:
            assert each.stdin is not None
            each.stdin.write("go\n")
            each.stdin.flush()
        outputs = [each.communicate()[0] for each in started]
    finally:
        for each in started:
            if each.poll() is None:
                each.kill()
                each.wait()
    if any(each.returncode for each in started):
        raise RuntimeError("a process that appends has failed: see above")
    return [json.loads(output) for output in outputs]
