"""Append files of a folder or a Delta table, each record once: jobs/append.py

Before the first commit of a number, a run lists the number's files in the checkpoint. The next run
finishes a number that was cut off, and then takes the files that are new as the next one. Records
of a file keep their order, and those with a key follow the order of the files' names, too. A file
must be whole when it appears, and stay as it is until its number is appended.
"""

import argparse
import sys

from pyspark.sql import DataFrame, SparkSession

from jobs.appending.checkpoint import Checkpoint, Listed
from jobs.appending.source import FORMATS, Source
from jobs.command_line import Parser, on_cluster, pair
from kafka_on_spark import Cluster
from kafka_on_spark.cli.call.output import plural

COMMAND = "./spark-submit.sh jobs/append.py"


def parse(arguments: list[str]) -> argparse.Namespace:
    """Return the options."""
    parser = Parser(COMMAND, __doc__)
    add = parser.add_argument
    add("source", help="a folder, a file or a Delta table, as Spark reads it")
    parser.add_cluster()
    add("--topic", required=True, metavar="NAME", help="the topic to append to")
    add(
        "--id",
        required=True,
        type=_name,
        metavar="NAME",
        help="the producer, which nobody else may be",
    )
    add("--checkpoint", required=True, metavar="URL", help="a folder for this job's lists alone")
    add("--format", choices=FORMATS, default="parquet", help="of the files (default parquet)")
    add("--option", action="append", type=pair, metavar="NAME=VALUE", help="of Spark's reader")
    add("--key", metavar="COLUMN", help="the records' keys (default: none)")
    add("--value", metavar="COLUMN", help="their values (default: all columns as a JSON object)")
    add("--headers", metavar="COLUMN", help="a map, or an array of structs of key and value")
    add("--timestamp", metavar="COLUMN", help="times, texts of times, or ms since 1970")
    add("--producer-epoch", type=int, metavar="N", help="given where an error asks for it")
    return parser.parse_args(arguments)


def _name(text: str) -> str:
    if not text:
        raise argparse.ArgumentTypeError("'' is not allowed: give a text of your own")
    return text


def append(spark: SparkSession, cluster: Cluster, given: argparse.Namespace) -> int:
    """Finish the number that was cut off, if there is one, and append what is new."""
    topic_id = str(cluster.image.topic(given.topic).topic_id)
    job = {"id": given.id, "topic": given.topic, "topic_id": topic_id, "format": given.format}
    source = Source(spark, given)
    checkpoint = Checkpoint(given.checkpoint, given.storage_option, {**job, "source": source.path})
    lists = checkpoint.lists()
    if lists and not lists[-1]["is_done"]:
        _append_listed(cluster, given, checkpoint, lists[-1], source.records(lists[-1]))
    new = {"number": len(lists), **source.list_new(lists)}
    if not new["files"]:
        print(f"Nothing is new in {source.path}; appended before: {plural(len(lists), 'number')}")
        return 0
    records = source.records(new)  # columns that are not there are said before it is listed
    checkpoint.add(new)
    image = cluster.image
    if given.producer_epoch is None and given.id in image.expired_producers:
        given.producer_epoch = image.expired_epoch + 1  # nobody has tried what was not listed
    _append_listed(cluster, given, checkpoint, new, records)
    return 0


def _append_listed(
    cluster: Cluster,
    given: argparse.Namespace,
    checkpoint: Checkpoint,
    listed: Listed,
    records: DataFrame,
) -> None:
    number = listed["number"]
    result = cluster.append(
        given.topic,
        records,
        producer_id=given.id,
        sequence=number,
        producer_epoch=given.producer_epoch,
    )
    checkpoint.mark_done(number)
    print(f"Number {number}, {plural(len(listed['files']), 'file')}: {result}", flush=True)


def main(arguments: list[str]) -> int:
    """Append; return the exit code."""
    given = parse(arguments)
    return on_cluster(COMMAND, given, lambda spark, cluster: append(spark, cluster, given))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
