"""One record by a batch write of ``format("kafka_on_spark")``, against delta-spark's one row."""

from jobs.benchmarks import kafka_recorded
from jobs.benchmarks.bench import Bench, seconds
from jobs.benchmarks.report import Budget, Row, percentile, row

WRITES = 50


def small_spark(bench: Bench) -> list[Row]:
    """Measure warm writes of one row; the slowest ones are a row, too."""
    topic = bench.new_topic(replicas=3, partitions=1)
    folder = str(bench.folder / "small-spark.delta")
    record = bench.frame(1)
    ours = record.write.format("kafka_on_spark").mode("append")
    ours = ours.options(cluster=bench.cluster_url, topic=topic)
    delta = record.write.format("delta").mode("append")

    writes = max(1, min(WRITES, 10 * bench.runs))
    for _ in range(writes // 5):
        ours.save()
        delta.save(folder)
    mine, theirs = bench.alternate(
        lambda _: seconds(ours.save), lambda _: seconds(lambda: delta.save(folder)), writes
    )
    name = "write of 1 record by format(…), warm, 3 replicas, acks=all, flushed"
    peer = "delta-spark writes one row (1 copy, not flushed)"
    return [
        row(
            f"{name}: median",
            mine,
            "s",
            peer=peer,
            peer_values=theirs,
            budget=Budget(bound=0.11, on="value"),
            recorded=kafka_recorded.SMALL_SPARK,
        ),
        row(
            f"{name}: 95 %",
            [percentile(mine, 0.95)],
            "s",
            peer=peer,
            peer_values=[percentile(theirs, 0.95)],
        ),
    ]
