"""The least that a Python source of Spark's can do: it yields Arrow files that are there already.

What a stream of it takes is what Spark itself takes: to start a process for the query, to plan, to
log offsets, to bring rows from Python to the JVM. It opens nothing and checks nothing.
"""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
from pyspark.sql.datasource import DataSource, DataSourceStreamReader, InputPartition
from pyspark.sql.types import StructType


class BareSource(DataSource):
    """Streams the Arrow files of the folder `folder`, a task each; `schema` is their rows'."""

    @classmethod
    def name(cls) -> str:
        """Return the name for ``format``."""
        return "bare"

    def schema(self) -> str:
        """Return the schema that the option names."""
        return self.options["ddl"]

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:  # noqa: N802
        """Return the reader."""
        return BareReader(self.options["folder"])


class BareReader(DataSourceStreamReader):
    """Offsets are counts of files."""

    def __init__(self, folder: str) -> None:
        self._files = sorted(map(str, Path(folder).glob("*.arrow")))

    def initialOffset(self) -> dict[str, Any]:  # noqa: N802
        """Return none."""
        return {"files": 0}

    def latestOffset(self) -> dict[str, Any]:  # type: ignore[override]  # noqa: N802
        """Return all."""
        return {"files": len(self._files)}

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> Sequence[InputPartition]:
        """Return a task a file."""
        return [InputPartition(file) for file in self._files[start["files"] : end["files"]]]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Yield a file's batches from the page cache, as they are."""
        with pa.memory_map(partition.value) as source:
            reader = pa.ipc.open_file(source)
            for number in range(reader.num_record_batches):
                yield reader.get_batch(number)


def write_rows(folder: Path, parts: Sequence[Iterator[pa.RecordBatch]]) -> None:
    """Write each part's batches as one file of `folder`."""
    folder.mkdir()
    for number, batches in enumerate(parts):
        first = next(batches)
        with pa.ipc.new_file(str(folder / f"{number:04d}.arrow"), first.schema) as file:
            file.write_batch(first)
            for each in batches:
                file.write_batch(each)
