"""The files of a folder or a table: which are new, and their rows as records."""

import argparse
import re
from collections.abc import Iterable
from typing import Final
from urllib.parse import unquote

from pyspark.errors import AnalysisException
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812
from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    DataType,
    MapType,
    NumericType,
    StructType,
)

from jobs.appending.checkpoint import Listed
from jobs.command_line import JobError, let_spark_read, spark_path

FORMATS: Final = ("parquet", "json", "csv", "text", "orc", "delta")
TASK_BYTES: Final = 64 * 1024 * 1024
ACTIONS: Final = "add struct<path:string,dataChange:boolean>, remove struct<dataChange:boolean>"


class Source:
    """The files to append, as Spark lists and reads them."""

    def __init__(self, spark: SparkSession, given: argparse.Namespace) -> None:
        self._spark, self._given = spark, given
        self._options = dict(each.partition("=")[::2] for each in given.option or ())
        self.path, checkpoint = spark_path(given.source), spark_path(given.checkpoint)
        if f"{checkpoint}/".startswith(f"{self.path}/"):
            raise JobError(f"the checkpoint {checkpoint} is in the source: give a folder elsewhere")
        let_spark_read(spark, given.source, given.storage_option)
        files = spark.read.format("binaryFile").options(**self._options)
        found = files.option("recursiveFileLookup", True).load(self.path)
        found = found.select("path", "length", F.unix_millis("modificationTime"))
        self.files = {_plain(path): [size, at_ms] for path, size, at_ms in found.collect()}

    def list_new(self, before: list[Listed]) -> Listed:
        """Return a list of the files that no list has, with their schema."""
        listed: Listed = {"version": None}
        if self._given.format == "delta":
            listed["version"], paths = self._of_delta(before[-1]["version"] if before else None)
        else:
            paths = list(self.files.keys() - {path for each in before for path in each["files"]})
        if lost := next((path for path in paths if path not in self.files), None):
            raise JobError(
                f"version {listed['version']} of {self.path} names {lost}, which is not among the"
                " files in it: run this again, or append a copy of the table if it stays so"
            )
        listed["files"] = {path: self.files[path] for path in sorted(paths)}
        if self._given.format == "delta":
            table = self._spark.read.format("delta").option("versionAsOf", listed["version"])
            return {**listed, "schema": table.load(self.path).schema.jsonValue()}
        return {**listed, "schema": self._read(paths).schema.jsonValue() if paths else None}

    def _of_delta(self, after: int | None) -> tuple[int, list[str]]:
        """Return the table's version, and the files that were added after another one."""
        table = f"delta.`{self.path}`"
        features = self._spark.sql(f"DESCRIBE DETAIL {table}").collect()[0].tableFeatures
        if unread := {"deletionVectors", "columnMapping"}.intersection(features):
            raise JobError(
                f"the table {self.path} has the feature {min(unread)}, so its files are not its"
                " rows: copy it to a table without that, or append it by df.write"
            )
        version = self._spark.sql(f"DESCRIBE HISTORY {table} LIMIT 1").collect()[0].version
        if after is None:
            at = self._spark.read.format("delta").option("versionAsOf", version).load(self.path)
            return version, [_plain(path) for path in at.inputFiles()]
        logs = [f"{self.path}/_delta_log/{n:020}.json" for n in range(after + 1, version + 1)]
        try:
            actions = self._spark.read.schema(ACTIONS).json(logs).collect() if logs else []
        except AnalysisException:
            raise JobError(
                f"the log of {self.path} lacks commits after version {after}, up to which it is"
                " appended: append what came since by df.write, and go on with a new --id and"
                " --checkpoint"
            ) from None
        if any(each.remove and each.remove.dataChange for each in actions):
            raise JobError(
                f"rows of {self.path} were changed or deleted after version {after}, up to which it"
                " is appended: a log only grows, so go on with a new table, --id and --checkpoint"
            )
        added = [each.add.path for each in actions if each.add and each.add.dataChange]
        return version, [f"{self.path}/{unquote(path)}" for path in added]

    def _read(self, paths: Iterable[str], schema: StructType | None = None) -> DataFrame:
        kind = "parquet" if self._given.format == "delta" else self._given.format
        reader = self._spark.read.format(kind).options(**self._options)
        if any(re.search("/[^/]+=[^/]*/", path.removeprefix(self.path)) for path in paths):
            reader = reader.option("basePath", self.path)
        reader = reader if schema is None else reader.schema(schema)
        return reader.load([re.sub(r"([\[\]{}*?\\])", r"\\\1", path) for path in sorted(paths)])

    def records(self, listed: Listed) -> DataFrame:
        """Return the records of a list's files, which must be as they were when it was made."""
        files, given = listed["files"], self._given
        for path, was in files.items():
            if (now := self.files.get(path)) != was:
                raise JobError(
                    f"{path} {'has changed' if now else 'is gone'} since number {listed['number']}"
                    " listed it: bring it back as it was, time of change included, and run this"
                    f" again; or delete {listed['place']} to have the number listed anew, which is"
                    " refused if a part of it stands"
                )
        rows = self._read(files, StructType.fromJson(listed["schema"]))
        names = [F.col(f"`{name.replace('`', '``')}`") for name in rows.columns]
        of = {"value": _text(rows, given.value) if given.value else F.to_json(F.struct(*names))}
        of |= {"key": _text(rows, given.key)} if given.key else {}
        of |= {"headers": _headers(rows, given.headers)} if given.headers else {}
        of |= {"timestamp": _time(rows, given.timestamp)} if given.timestamp else {}
        records = rows.select([column.alias(name) for name, column in of.items()])
        if len(files) == 1 or not given.key or given.format == "delta":
            return records  # parts of a file come in order, and a table's files have none
        place = {"file": F.col("_metadata.file_path"), "at": F.col("_metadata.file_block_start")}
        place |= {"row": F.monotonically_increasing_id()}
        placed = rows.select([each.alias(name) for name, each in (of | place).items()])
        tasks = sum(size for size, _ in files.values()) // TASK_BYTES + 1
        return placed.repartitionByRange(tasks, *place).sortWithinPartitions(*place).drop(*place)


def _plain(path: str) -> str:
    return re.sub("^file:/+", "/", path)


def _kind(rows: DataFrame, name: str) -> DataType:
    try:
        return rows.select(name).schema[0].dataType
    except AnalysisException:
        known = ", ".join(rows.columns) or "none"
        raise JobError(
            f"the source has no column {name!r}: name one of its own ({known})"
        ) from None


def _text(rows: DataFrame, name: str) -> Column:
    kind = _kind(rows, name)
    if isinstance(kind, StructType | ArrayType | MapType):
        return F.to_json(name)
    return F.col(name).cast("binary" if isinstance(kind, BinaryType) else "string")


def _headers(rows: DataFrame, name: str) -> Column:
    kind, pairs = _kind(rows, name), F.col(name)
    if isinstance(kind, StructType):  # an object of JSON
        pairs = F.from_json(F.to_json(name), "map<string,string>")
    elif not isinstance(kind, ArrayType | MapType):
        raise JobError(
            f"--headers can't be {name!r}, a {kind.simpleString()}: give a column of maps, of"
            " objects, or of arrays of structs of key and value"
        )
    if not isinstance(kind, ArrayType):
        pairs = F.map_entries(pairs)
    return pairs.cast("array<struct<key:string,value:binary>>")


def _time(rows: DataFrame, name: str) -> Column:
    is_number = isinstance(_kind(rows, name), NumericType)
    return F.timestamp_millis(name) if is_number else F.col(name).cast("timestamp")
