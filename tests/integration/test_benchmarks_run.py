"""Each measurement of the benchmark runs to its end, at a size that says nothing."""

import shutil
from collections.abc import Iterator
from math import isfinite

import pytest

from jobs.benchmark import DEFAULT, LONGER
from jobs.benchmarks import (
    compaction,
    console_page,
    failover,
    merged,
    old_log,
    opening,
    processes,
    producer,
    quorum,
    rounds,
    scale,
    serving,
    small_append,
    small_spark,
    streaming,
    tables,
    thousand,
    tools,
)
from jobs.benchmarks.bench import Bench

pytestmark = pytest.mark.integration

SMALL = {
    compaction: {"KEYS": 1_000},
    console_page: {"PARTITIONS": 50, "SCROLLS": 3},
    failover: {"PARTITIONS": 20},
    merged: {"APPENDS": 64, "LATER_APPENDS": 10, "FORGOTTEN_SECONDS": 0.0},
    old_log: {"SIZES": (1_000, 2_000, 3_000)},
    opening: {"COMMITS": 120, "OPENS": 2},
    processes: {"PROCESSES": 2, "SECONDS": 1},
    producer: {"RECORDS": 2_000, "WARM_UP": 10},
    quorum: {"WARM_UP": 1, "APPENDS": 1, "STORE_APPENDS": 1, "LOOKS": 1, "SECONDS": 1},
    rounds: {"PARTITIONS": 20, "APPENDS": 2},
    scale: {
        "TOPIC_PARTITIONS": 20, "YOUNG": 2, "OLD": 20, "DECISIONS": 3, "MANY": 300, "MOST": 600
    },
    serving: {"PARTITIONS": 20, "AT_ONCE": 10, "SAMPLE_S": 1},
    small_append: {"APPENDS": 10, "WARM_UP": 1, "LONG_APPENDS": 20},
    small_spark: {"WRITES": 1},
    streaming: {"WARM_UP": 1, "PEER_BATCHES": 2},
    tables: {"VERSIONS": (10, 20, 30), "FILES": (10, 20, 30, 40), "TRIES": 1},
    thousand: {"PARTITIONS": 20},
    tools: {"LINES": 2_000, "APPENDS": 2, "IDLE_S": 1},
}  # fmt: skip
BY_DEFAULT = ("replicate", "disk")
"""Ours and the peer, and a disk; the others with --long."""


@pytest.fixture(scope="module")
def bench(spark, tmp_path_factory) -> Iterator[Bench]:
    bench = Bench(tmp_path_factory.mktemp("benchmark"), records=800, runs=1, batches=2)
    yield bench
    bench.close()


@pytest.mark.parametrize(
    "name",
    [
        pytest.param(name, marks=[] if name in BY_DEFAULT else pytest.mark.long)
        for name in DEFAULT | LONGER
    ],
)
def test_a_measurement_runs_to_its_end_and_gives_its_rows(bench, monkeypatch, name):
    for module, sizes in SMALL.items():
        for constant, size in sizes.items():
            monkeypatch.setattr(module, constant, size)

    if name == "console" and shutil.which("chromium") is None:
        pytest.skip("there is no Chromium")

    rows = (DEFAULT | LONGER)[name](bench)

    assert rows
    assert all(isfinite(each.value) for each in rows)  # of so little, a difference may be noise
    assert all(each.peer_value is None or each.peer_value > 0 for each in rows)
