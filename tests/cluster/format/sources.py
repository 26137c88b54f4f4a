"""The source's readers, called as Spark calls them: no Spark here."""

import pickle

from pyspark import cloudpickle

from kafka_on_spark.consume.options import parse_source
from kafka_on_spark.spark.source import BatchReader, StreamReader


def options(disks, *, is_stream, **given):
    given = {"cluster": str(disks.metadata_root), "subscribe": "t", **given}
    texts = {name.lower().replace("__", "."): str(text) for name, text in given.items()}
    return parse_source(texts, is_stream=is_stream)


def stream(disks, **given):
    return StreamReader(options(disks, is_stream=True, **{"startingOffsets": "earliest", **given}))


def batch(disks, **given):
    return BatchReader(options(disks, is_stream=False, **given))


def values(reader, partitions):
    return [
        value
        for partition in partitions
        # A task gets a copy.
        for rows in pickle.loads(cloudpickle.dumps(reader)).read(partition)
        for value in rows.column("value").to_pylist()
    ]


def read(reader):
    return values(reader, reader.partitions())
