"""The sink's writers called as Spark calls them, each in a process of its own: no Spark here."""

import pickle
from contextlib import contextmanager
from dataclasses import dataclass
from types import SimpleNamespace

import pyarrow as pa
from pyspark import cloudpickle
from pyspark.sql.types import BinaryType, IntegerType, StringType, StructField, StructType

from kafka_on_spark.spark import sink
from kafka_on_spark.spark.sink import BatchWriter, StreamWriter
from tests.cluster.disks import new_disks

TYPES = {
    "topic": (StringType(), pa.string()),
    "key": (BinaryType(), pa.binary()),
    "value": (BinaryType(), pa.binary()),
    "partition": (IntegerType(), pa.int32()),
}


@dataclass
class Task:
    number: int
    query: str | None = None
    batch: int | None = None

    def get(self):
        return self

    def partitionId(self):
        return self.number

    def getLocalProperty(self, name):
        texts = {"sql.streaming.queryId": self.query, "streaming.sql.batchId": self.batch}
        found = texts[name]
        return None if found is None else str(found)


def schema_of(rows) -> StructType:
    return StructType([StructField(name, TYPES[name][0]) for name in rows[0]])


def batch_of(rows) -> pa.RecordBatch:
    schema = pa.schema([(name, TYPES[name][1]) for name in rows[0]])
    return pa.RecordBatch.from_pylist(rows, schema)


def options_of(disks, **given) -> dict[str, str]:
    texts = {"cluster": str(disks.metadata_root), **given}
    return {name.replace("__", ".").lower(): str(text) for name, text in texts.items()}


def run_tasks(writer, tasks, monkeypatch, query=None, number=None):
    """Have each task of `tasks` (rows) stage its part; return the messages, last task first."""
    messages = []
    sink._IMAGES.clear()
    for place, rows in enumerate(tasks):
        monkeypatch.setattr(sink, "TaskContext", Task(place, query, number))
        writing = pickle.loads(cloudpickle.dumps(writer))
        messages.append(pickle.loads(cloudpickle.dumps(writing.write(iter([batch_of(rows)])))))
    return messages[::-1]


def write_batch(disks, tasks, monkeypatch, **given):
    """Append one DataFrame of `tasks`, as `df.write` does."""
    writer = BatchWriter(options_of(disks, **given), schema_of(tasks[0]), overwrite=False)
    messages = run_tasks(writer, tasks, monkeypatch)
    pickle.loads(cloudpickle.dumps(writer)).commit(messages)


class Query:
    """One run of a streaming query. `run`: as Spark keeps it, where batches are committed."""

    def __init__(self, disks, monkeypatch, query="q", run="r", **given):
        self.disks = disks
        self.monkeypatch = monkeypatch
        self.query = query
        self.run = run
        self.options = options_of(disks, **given)

    def stage(self, number, tasks):
        """Stage a batch; it is planned and staged by one writer."""
        planner = StreamWriter(
            self.options, schema_of(tasks[0]), overwrite=False, run=f"plan-{number}"
        )
        return run_tasks(planner, tasks, self.monkeypatch, self.query, number)

    def commit(self, number, tasks, messages):
        """Commit it; another writer, in another process, does that."""
        writer = StreamWriter(self.options, schema_of(tasks[0]), overwrite=False, run=self.run)
        writer.commit(messages, number)

    def add(self, number, tasks):
        """Do both."""
        self.commit(number, tasks, self.stage(number, tasks))

    def node(self):
        """Return what the committing process has open, from now on."""
        writer = SimpleNamespace(
            _run=self.run, _options=sink.parse_sink(self.options, is_stream=True)
        )
        return StreamWriter._node(writer)


@contextmanager
def sink_disks():
    """A cluster with topics "one", of two partitions, and "two"; no run is left open."""
    with new_disks() as disks:
        disks.cluster.create_topic("one", partitions=2, replication_factor=2)
        disks.cluster.create_topic("two", replication_factor=2)
        yield disks
        for each in sink._RUNS.values():
            each.close()
        sink._RUNS.clear()


def row(topic, value, key=b"k"):
    return {"topic": topic, "key": key, "value": value}


def both(first=0, count=3):
    """Return rows of two tasks for two topics, interleaved; values rise."""
    names = ["one", "two", "two"]
    rows = [row(names[n % 3], b"%03d" % n) for n in range(first, first + 2 * count)]
    return [rows[:count], rows[count:]]


def expected(tasks, topic):
    return [each["value"] for task in tasks for each in task if each["topic"] == topic]
