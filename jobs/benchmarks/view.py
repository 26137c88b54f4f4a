"""A batch read through `Cluster.view`, against Spark's own read of the same rows from Delta."""

import shutil

from jobs.benchmarks.bench import Bench, seconds
from jobs.benchmarks.report import Budget, Row, row


def view(bench: Bench) -> list[Row]:
    """Measure reads of all columns, and of one that both prune to."""
    if bench.full_topic is None:
        bench.full_topic = bench.new_topic(replicas=3)
        bench.cluster.append(bench.full_topic, bench.frame(bench.records), acks="all")
    ours = bench.cluster.view(bench.full_topic)
    folder = bench.folder / "peer-of-view.delta"
    ours.write.format("delta").option("compression", "zstd").save(str(folder))
    delta = bench.spark.read.format("delta").load(str(folder))
    rows = []
    for name, columns in {"7 columns": ours.columns, "1 column (value)": ["value"]}.items():
        frames = [each.select(columns).write.format("noop") for each in (ours, delta)]
        mine, theirs = (each.mode("overwrite") for each in frames)
        values, peers = bench.alternate(
            lambda _, mine=mine: seconds(mine.save),  # type: ignore[misc]
            lambda _, theirs=theirs: seconds(theirs.save),  # type: ignore[misc]
        )
        rows.append(
            row(
                f"read by view(…), {name}, {bench.records:,} records",
                values,
                "s",
                peer="Spark reads the same columns from Delta (zstd)",
                peer_values=peers,
                budget=Budget(bound=1.1, on="ratio") if columns == ours.columns else None,
            )
        )
    shutil.rmtree(folder)
    return rows
