"""Where Spark finds `format("kafka_on_spark")` by its name.

Spark looks for top-level packages called `pyspark_*` and takes their `DefaultSource`. It looks in
folders only, so a real one is kept here, on the path of every session, and the wheel has it at its
top level.

It looks in a Python of its own choice: where a session was made without an import of ours, in the
PATH's python3. What that lacks is said by a source in the place of ours; were this module not to be
imported, Spark would say that there is no such source.
"""

import sys
from typing import TYPE_CHECKING, Any, NoReturn

__all__ = ["DefaultSource"]

if TYPE_CHECKING:
    from kafka_on_spark.spark.data_source import KafkaOnSparkDataSource as DefaultSource
else:
    try:
        from kafka_on_spark.spark.data_source import KafkaOnSparkDataSource as DefaultSource
    except ImportError as error:
        from pyspark.sql.datasource import DataSource

        MISSING = error.name or str(error)

        class DefaultSource(DataSource):
            """Says what is missing, whatever it is asked for."""

            def __init__(self, options: Any) -> NoReturn:
                raise ImportError(
                    f"the Python in which Spark runs data sources, {sys.executable}, has no"
                    f" {MISSING}, which kafka_on_spark needs: import kafka_on_spark before the"
                    " session is made, or set PYSPARK_PYTHON to a Python that has it, and start"
                    " Spark anew"
                )

            @classmethod
            def name(cls) -> str:
                """Return the name that `format` takes."""
                return "kafka_on_spark"
