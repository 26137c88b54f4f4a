"""Short words for what tests of the data source do."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

from pyspark.errors import StreamingQueryException
from pyspark.sql import functions
from pyspark.sql.streaming import DataStreamWriter

from tests.rigs.soaking.streams import NOT_CONNECTED

ROW = ("key", "value", "partition", "offset")
WAIT_S_MAX = 600  # for a query's end: nothing is timed, and a busy machine is slow
STARTS_MAX = 5


def source(spark, disks, topics, **options):
    return _with(spark.read, {"cluster": disks.metadata_root, "subscribe": topics, **options})


def stream(spark, disks, topics, **options):
    return _with(spark.readStream, {"cluster": disks.metadata_root, "subscribe": topics, **options})


def _with(reader, options):
    reader = reader.format("kafka_on_spark")
    for name, value in options.items():
        reader = reader.option(name, str(value))
    return reader.load()


def sink(frame, disks, topic, **options):
    writer = frame.write.format("kafka_on_spark").mode("append")
    for name, value in {"cluster": disks.metadata_root, "topic": topic, **options}.items():
        if value is not None:
            writer = writer.option(name, str(value))
    return writer


def numbered(spark, count, keys=7, slices=3):
    """Return `count` rows of some keys, in `slices` tasks; a value is its place in the frame."""
    frame = spark.range(0, count, numPartitions=slices)
    key = functions.concat(functions.lit("key-"), functions.col("id") % keys)
    return frame.select(key.alias("key"), frame.id.cast("string").alias("value"))


def rows_of(frame):
    """Return (key, value, partition, offset) of each row, by partition and offset."""
    rows = [(bytes_of(r.key), bytes_of(r.value), r.partition, r.offset) for r in frame.collect()]
    return sorted(rows, key=lambda row: row[2:])


def rows_in(table):
    """Return the same of what Cluster.read returned."""
    return [tuple(row[name] for name in ROW) for row in table.select(ROW).to_pylist()]


def bytes_of(value):
    return None if value is None else bytes(value)


class Started:
    """A streaming query that is started again where Spark did not wait for the process of its
    source: it gives it ten seconds, which a busy machine may take (docs/get-started.md)."""

    def __init__(self, writer: DataStreamWriter):
        self._writer = writer
        self._query = writer.start()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._query, name)

    def processAllAvailable(self) -> None:
        self._wait(lambda: self._query.processAllAvailable())

    def awaitTermination(self, seconds: int | None = None) -> bool | None:
        return self._wait(lambda: self._query.awaitTermination(seconds))

    def _wait(self, wait: Callable[[], bool | None]) -> bool | None:
        for _ in range(STARTS_MAX):
            try:
                return wait()
            except StreamingQueryException as error:
                if NOT_CONNECTED not in str(error):
                    raise
                self._query = self._writer.start()
        raise AssertionError(f"Spark has started no source in {STARTS_MAX} times")


class Batches:
    """Takes a stream's batches in this process, as `foreachBatch` hands them over."""

    def __init__(self):
        self.values = []  # of each batch, by partition and offset
        self.numbers = []

    def __call__(self, frame, number):
        rows = sorted(frame.collect(), key=lambda row: (row.partition, row.offset))
        self.numbers.append(number)
        self.values.append([bytes_of(row.value) for row in rows])

    @property
    def seen(self):
        return [value for batch in self.values for value in batch]

    def start(self, frame, checkpoint: Path, **trigger):
        writer = frame.writeStream.foreachBatch(self).option("checkpointLocation", str(checkpoint))
        return Started(writer.trigger(**trigger) if trigger else writer)

    def run(self, frame, checkpoint: Path):
        """Run a query over what is there now, to its end."""
        query = self.start(frame, checkpoint, availableNow=True)
        assert query.awaitTermination(WAIT_S_MAX)


def sentence_of(error: BaseException) -> str:
    """Return the last line of our own error in what Spark shows of a failure."""
    lines = [line for line in str(error).splitlines() if "kafka_on_spark.base.errors." in line]
    return lines[-1].split("kafka_on_spark.base.errors.", 1)[1]
