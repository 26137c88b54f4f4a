"""Append files of a folder or a Delta table, each record once: jobs/append.py

Spark lists new files in the checkpoint under a number, before the number's first commit. The next
run finishes a number that was cut off. A file must be whole when it appears, and stay until then.
"""

import argparse
import re
import sys
from functools import partial
from urllib.parse import quote, unquote

from pyspark.errors import AnalysisException
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812
from pyspark.sql.types import ArrayType, BinaryType, MapType, NumericType, StructType

from jobs.command_line import JobError, Parser, escaped, found, let_spark_read, on_cluster, pair
from kafka_on_spark import Cluster

COMMAND = "./spark-submit.sh jobs/append.py"
FILES = {"recursiveFileLookup": "true", "maxFileAge": "100000d"}  # old ones, too


def parse(arguments: list[str]) -> argparse.Namespace:
    """Return the options."""
    parser = Parser(COMMAND, __doc__)
    add = parser.add_argument
    add("source", help="a folder, a file or a Delta table, as Spark reads it")
    parser.add_cluster()
    add("--topic", required=True, metavar="NAME", help="the topic to append to")
    add("--id", required=True, metavar="NAME", help="the producer, which nobody else may be")
    add("--checkpoint", required=True, metavar="URL", help="a folder for the lists of this job")
    add("--format", default="parquet", help="delta, or of the files: json, csv… (default parquet)")
    add("--option", action="append", type=pair, metavar="NAME=VALUE", help="of Spark's reader")
    add("--key", metavar="COLUMN", help="the records' keys (default: none)")
    add("--value", metavar="COLUMN", help="their values (default: all columns as a JSON object)")
    add("--headers", metavar="COLUMN", help="a map, or an array of structs of key and value")
    add("--timestamp", metavar="COLUMN", help="times, texts of times, or ms since 1970")
    add("--producer-epoch", type=int, metavar="N", help="given where an error asks for it")
    given = parser.parse_args(arguments)
    given.option = dict(each.partition("=")[::2] for each in given.option or ())
    return given


def append(spark: SparkSession, cluster: Cluster, given: argparse.Namespace) -> int:
    """Finish the number that was cut off, if there is one, and append what is new."""
    source = given.source = let_spark_read(spark, given.source, given.storage_option)
    checkpoint = let_spark_read(spark, given.checkpoint, given.storage_option)
    if f"{checkpoint}/".startswith(f"{source}/"):
        raise JobError(f"the checkpoint {checkpoint} is in the source: give a folder elsewhere")
    # The numbers of another id, or of a topic that was made anew, are others.
    lists = f"{checkpoint}/{quote(given.id, safe='')}-{cluster.image.topic(given.topic).topic_id}"
    tried, is_table = _ends(spark, lists), given.format == "delta"
    said, errors = list[str](), list[Exception]()

    def append_number(new: DataFrame, number: int) -> None:
        try:
            rows = new if is_table else _rows_in(spark, lists, number, given)
            epoch, image = given.producer_epoch, cluster.image
            if epoch is None and number not in tried and given.id in image.expired_producers:
                epoch = image.expired_epoch + 1  # nobody has tried what was not listed
            run = partial(cluster.append, producer_id=given.id, producer_epoch=epoch)
            said.append(
                f"Number {number}: {run(given.topic, _records(rows, given), sequence=number)}"
            )
        except Exception as error:
            errors.append(error)
            raise
        print(said[-1], flush=True)

    # Of files only the names are used: each number has columns of its own.
    options = {"path": source} if is_table else FILES | {"path": found(source)}
    stream = spark.readStream.format("delta" if is_table else "text").options(**given.option)
    new = stream.load(**options).writeStream.foreachBatch(append_number)
    query = new.option("checkpointLocation", lists).trigger(availableNow=True).start()
    try:
        query.awaitTermination()
    except Exception as error:
        raise [*errors, error][0] from None  # Spark's tells ours with a trace
    if not said:
        print(f"Nothing is new in {source}")
    return 0


def _ends(spark: SparkSession, lists: str) -> dict[int, int]:
    """Return with which of its lists of files each number ends, as Spark's checkpoint has it."""
    try:
        offsets = spark.read.schema("logOffset long").json(f"{lists}/offsets")
    except AnalysisException:
        return {}  # no run has begun
    ends = offsets.groupBy("_metadata.file_name").agg(F.max("logOffset").alias("end"))
    return {int(row.file_name): row.end for row in ends.collect()}


def _rows_in(spark: SparkSession, lists: str, number: int, given: argparse.Namespace) -> DataFrame:
    """Return the rows of a number's files, in the order of their names if records have keys."""
    ends = _ends(spark, lists)
    listed = spark.read.schema("path string, batchId long").json(f"{lists}/sources/0")
    files = listed.where(F.col("batchId").between(ends.get(number - 1, -1) + 1, ends[number]))
    names = {unquote(file.path) for file in files.select("path").collect()}
    paths = sorted(re.sub("^file:/+", "/", name) for name in names)
    reader = spark.read.format(given.format).options(**given.option)
    if any(re.search("/[^/]+=[^/]*/", path.removeprefix(given.source)) for path in paths):
        reader = reader.option("basePath", given.source)
    rows = reader.load([escaped(path) for path in paths])
    if len(paths) == 1 or not given.key:
        return rows  # parts of a file come in order
    by = {"_file": F.col("_metadata.file_path"), "_at": F.col("_metadata.file_block_start")}
    by |= {"_row": F.monotonically_increasing_id()}
    return rows.withColumns(by).repartitionByRange(*by).sortWithinPartitions(*by).drop(*by)


def _records(rows: DataFrame, given: argparse.Namespace) -> DataFrame:
    columns = {"value": _text(rows, given.value) if given.value else F.to_json(F.struct("*"))}
    if given.key:
        columns["key"] = _text(rows, given.key)
    if given.headers:
        columns["headers"] = _headers(rows, given.headers)
    if given.timestamp:
        time = F.col(given.timestamp)
        is_ms = isinstance(rows.select(time).schema[0].dataType, NumericType)
        columns["timestamp"] = F.timestamp_millis(time) if is_ms else time.cast("timestamp")
    return rows.select([column.alias(name) for name, column in columns.items()])


def _text(rows: DataFrame, name: str) -> Column:
    kind = rows.select(name).schema[0].dataType
    if isinstance(kind, StructType | ArrayType | MapType):
        return F.to_json(name)
    return F.col(name).cast("binary" if isinstance(kind, BinaryType) else "string")


def _headers(rows: DataFrame, name: str) -> Column:
    kind, pairs = rows.select(name).schema[0].dataType, F.col(name)
    if isinstance(kind, StructType):  # an object of JSON
        pairs = F.from_json(F.to_json(name), "map<string,string>")
    if not isinstance(kind, ArrayType):
        pairs = F.map_entries(pairs)
    return pairs.cast("array<struct<key:string,value:binary>>")


def main(arguments: list[str]) -> int:
    """Append; return the exit code."""
    given = parse(arguments)
    return on_cluster(COMMAND, given, lambda spark, cluster: append(spark, cluster, given))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
