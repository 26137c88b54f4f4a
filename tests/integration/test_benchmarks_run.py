"""Each benchmark that needs more than a clock runs to its end, at a size that says nothing."""

from collections.abc import Iterator

import pytest

from jobs.benchmarks import (
    compaction,
    disk,
    failover,
    merged,
    processes,
    quorum,
    small_spark,
    streaming,
    thousand,
)
from jobs.benchmarks.bench import Bench

pytestmark = pytest.mark.integration


@pytest.fixture(scope="module")
def bench(spark, tmp_path_factory) -> Iterator[Bench]:
    bench = Bench(tmp_path_factory.mktemp("benchmark"), records=800, runs=1, batches=2)
    yield bench
    bench.close()


@pytest.fixture(autouse=True)
def small(monkeypatch):
    monkeypatch.setattr(processes, "PROCESSES", 2)
    monkeypatch.setattr(processes, "SECONDS", 1)
    monkeypatch.setattr(streaming, "WARM_UP", 1)
    monkeypatch.setattr(small_spark, "WRITES", 1)
    monkeypatch.setattr(merged, "APPENDS", 64)
    monkeypatch.setattr(merged, "LATER_APPENDS", 10)
    monkeypatch.setattr(merged, "FORGOTTEN_SECONDS", 0.0)
    monkeypatch.setattr(compaction, "KEYS", 1_000)
    monkeypatch.setattr(failover, "PARTITIONS", 20)
    for name in ("WARM_UP", "APPENDS", "STORE_APPENDS", "LOOKS"):
        monkeypatch.setattr(quorum, name, 1)


# fmt: off
CASES = [
    pytest.param(streaming.stream,        2, id="stream", marks=pytest.mark.long),
    pytest.param(streaming.micro_batch,   3, id="micro-batch", marks=pytest.mark.long),
    pytest.param(small_spark.small_spark, 2, id="small-spark", marks=pytest.mark.long),
    pytest.param(merged.merged,           5, id="merged", marks=pytest.mark.long),
    pytest.param(quorum.quorum,           6, id="quorum", marks=pytest.mark.long),
    pytest.param(processes.processes,       3, id="processes"),
    pytest.param(thousand.thousand,         2, id="thousand"),
    pytest.param(disk.disk,                 1, id="disk"),
]
# fmt: on


@pytest.mark.parametrize("measure, row_count", CASES)
def test_a_benchmark_gives_its_rows_with_what_was_measured_of_ours_and_of_the_peer(
    bench, measure, row_count
):
    rows = measure(bench)

    assert len(rows) == row_count
    assert all(each.value > 0 and each.peer_value > 0 for each in rows)
    assert any(each.budget is not None and each.met is not None for each in rows)


@pytest.mark.long
def test_the_benchmark_of_compaction_compacts_each_log_and_judges_its_memory(bench):
    rows = compaction.compaction(bench)

    assert len(rows) == 8
    assert [each.met for each in rows if each.budget is not None] == [True, True]
