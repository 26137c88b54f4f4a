"""The quickstart's records: all flights out of New York in 2013 (see data/README.md).

The key is the tail number, the value the flight as JSON, the timestamp its scheduled departure.
Each depends on the row alone: a repeated append has the same bytes in every time zone of the
session.
"""

from pathlib import Path
from typing import Final

import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import DataFrame, SparkSession, functions

FLIGHTS: Final = Path(__file__).parents[2] / "data" / "flights.parquet"
IDENTITY: Final = ("year", "month", "day", "sched_dep_time", "carrier", "flight", "origin")
APPENDS_PER_HALF: Final = 4
"""Readers see an append as a whole: several appends give the stream several batches."""


def flight_count() -> int:
    """Return how many flights there are."""
    return int(pq.read_metadata(FLIGHTS).num_rows)


def read_flights(rows: int) -> pa.Table:
    """Return the first `rows` flights, in file order."""
    return pq.read_table(FLIGHTS).slice(0, rows)


def appends_of(rows: int) -> list[range]:
    """Return the rows of each append, in order; the two halves have as many appends each.

    The place in the list is the append's sequence: a run that is continued repeats it.
    """
    half = rows // 2
    return [*_split(range(half)), *_split(range(half, rows))]


def _split(rows: range) -> list[range]:
    bounds = [len(rows) * part // APPENDS_PER_HALF for part in range(APPENDS_PER_HALF + 1)]
    return [rows[bounds[part] : bounds[part + 1]] for part in range(APPENDS_PER_HALF)]


def flight_records(spark: SparkSession, rows: range) -> DataFrame:
    """Return the records of the flights at `rows`, in file order.

    The driver reads them, since executors on other machines have no checkout; Spark makes its tasks
    in the order of the rows. The quickstart checks the order of each key in what was committed.
    """
    flights = spark.createDataFrame(read_flights(rows.stop).slice(rows.start))
    # The zone is an option, since Spark would write times in the session's zone.
    value = functions.to_json(
        functions.struct("*"), {"timeZone": "UTC", "ignoreNullFields": "false"}
    )
    return flights.select(
        functions.col("tailnum").alias("key"),
        value.alias("value"),
        functions.expr("timestampadd(MINUTE, minute, time_hour)").alias("timestamp"),
    )
