"""The metadata log as a Delta table: one commit per batch, one row per record.

The same commit and counters as a replica's log; the rows are typed metadata records, so that
people can query the table. Snapshots are Parquet files of the same columns beside it.
"""

import logging
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final
from uuid import uuid4

import pyarrow as pa
import pyarrow.parquet as pq
from deltalake.transaction import AddAction

from kafka_on_spark.errors import (
    ClusterNotFoundError,
    CommitConflictError,
    CorruptLogError,
    InconsistentClusterError,
    InvalidRequestError,
    KafkaStorageError,
    ReplicaLostError,
)
from kafka_on_spark.ids import Offset
from kafka_on_spark.metadata.codec import COLUMNS, decode, decode_stamp, encode
from kafka_on_spark.metadata.records import MetadataBatch, Record, Stamp
from kafka_on_spark.storage.delta import DeltaLog
from kafka_on_spark.storage.roots import RootFiles, StorageOptions, flush, is_local

log = logging.getLogger(__name__)

TABLE_NAME: Final = "__cluster_metadata-0"
FORMAT_VERSION: Final = "1"
EPOCH: Final = 0  # the quorum's, while there is one voter
_TYPES: Final[Mapping[str, pa.DataType]] = {
    "string": pa.string(),
    "timestamp": pa.timestamp("us", tz="UTC"),
    "long": pa.int64(),
    "integer": pa.int32(),
    "list<integer>": pa.list_(pa.field("element", pa.int32())),
    "list<string>": pa.list_(pa.field("element", pa.string())),
}
_HEADER: Final = ("base_offset", "epoch")
FILE_SCHEMA: Final = pa.schema(
    [("offset_delta", pa.int32()), *((name, _TYPES[kind]) for name, kind in COLUMNS.items())]
)
TABLE_SCHEMA: Final = pa.schema([("base_offset", pa.int64()), ("epoch", pa.int32()), *FILE_SCHEMA])


def metadata_table_uri(metadata_root: str) -> str:
    """Return the URL of the metadata table, for people and for Spark."""
    return f"{metadata_root}/{TABLE_NAME}"


class DeltaMetadataLog:
    """A MetadataLog on the Delta table under a metadata root."""

    def __init__(self, metadata_root: str, options: StorageOptions) -> None:
        self.uri = metadata_table_uri(metadata_root)
        self._root = metadata_root
        self._files = RootFiles(metadata_root, options)
        self._delta = DeltaLog(self.uri, options)
        self._end_offset: Offset | None = None
        self._version = -1  # at which the log ends there

    @classmethod
    def begin(cls, metadata_root: str, options: StorageOptions, cluster_id: str) -> str:
        """Create the log, or find one that has no record yet; return its cluster id.

        Raises:
            InvalidRequestError: There is a cluster at this root.
        """
        log = cls(metadata_root, options)
        try:
            cls.create(metadata_root, options, cluster_id)
        except InvalidRequestError:
            log.check()
            if log.read(from_offset=Offset(0)):
                raise
        log.check()
        return str(log._delta.handle.metadata().configuration["kos.cluster.id"])

    @classmethod
    def create(
        cls, metadata_root: str, options: StorageOptions, cluster_id: str
    ) -> "DeltaMetadataLog":
        """Create the table, whose version 0 is the empty log.

        Raises:
            InvalidRequestError: There is a cluster at this root.
        """
        try:
            DeltaLog.create(
                metadata_table_uri(metadata_root),
                options,
                schema=TABLE_SCHEMA,
                partition_by=_HEADER,
                configuration={
                    "kos.cluster.id": cluster_id,
                    "kos.format.version": FORMAT_VERSION,
                },
            )
        except CommitConflictError:
            raise InvalidRequestError(
                f"there is a cluster at {metadata_root} already: open it, or give an empty root"
            ) from None
        return cls(metadata_root, options)

    def check(self) -> None:
        """Check that there is a cluster of a format that this version reads.

        Raises:
            ClusterNotFoundError: There is none.
            CorruptLogError: Its format is newer.
        """
        with self._delta.lock:
            try:
                self._refresh()
            except ReplicaLostError:
                raise ClusterNotFoundError(
                    f"there is no cluster at {self._root}: make one with Cluster.create, or"
                    " check the path"
                ) from None
            found = self._delta.handle.metadata().configuration.get("kos.format.version")
            if found != FORMAT_VERSION:
                raise CorruptLogError(
                    f"the cluster at {self._root} has format {found}, this version reads"
                    f" {FORMAT_VERSION}: use a newer kafka_on_spark"
                )

    def _refresh(self) -> int:
        self._end_offset = None
        self._version = self._delta.refresh()
        self._end_offset = Offset(self._delta.counter("log-end-offset") or 0)
        return self._version

    def read(self, *, from_offset: Offset) -> list[MetadataBatch]:
        """Return the batches from `from_offset` on, oldest first.

        Raises:
            InconsistentClusterError: The log ends before `from_offset`: it went back.
        """
        with self._delta.lock:
            if from_offset == self._end_offset and self._delta.is_newest():
                return []
            self._refresh()
            assert self._end_offset is not None
            if from_offset > self._end_offset:
                raise InconsistentClusterError(
                    f"the metadata log at {self._root} ends at {self._end_offset}, but this"
                    f" process has seen {from_offset}: it went back; stop and restore it"
                )
            if from_offset == self._end_offset:
                return []
            files = self._delta.active_files()
        return self._read_files(files, from_offset)

    def _read_files(self, files: pa.Table, from_offset: Offset) -> list[MetadataBatch]:
        bases = files.column("partition.base_offset").to_pylist()
        paths = files.column("path").to_pylist()
        wanted = sorted((base, path) for base, path in zip(bases, paths, strict=True))
        batches = [
            batch
            for base, path in wanted
            if base >= from_offset
            for batch in (self._read_file(f"{self.uri}/{path}", Offset(base)),)
        ]
        expected = from_offset
        for batch in batches:
            if batch.base_offset != expected:
                raise CorruptLogError(
                    "a gap in the metadata log", expected=expected, found=batch.base_offset
                )
            expected = batch.end_offset
        return batches

    def _read_file(self, path: str, base_offset: Offset) -> MetadataBatch:
        content = self._files.read(path)
        if content is None:
            raise CorruptLogError("a file of the metadata log is missing", path=path)
        try:
            table = pq.read_table(pa.BufferReader(content), page_checksum_verification=True)
        except (pa.ArrowException, OSError) as error:
            raise CorruptLogError(
                f"a file of the metadata log can't be read: {error}", path=path
            ) from error
        rows = rows_of(table)
        return MetadataBatch(
            base_offset=base_offset,
            stamp=decode_stamp(rows[0]),
            records=tuple(decode(row) for row in rows),
        )

    def append(
        self, records: Sequence[Record], stamp: Stamp, *, expected_offset: Offset
    ) -> MetadataBatch:
        """Append a batch if the log still ends at `expected_offset`; return it."""
        assert records, "an empty batch would be a version without a decision"
        path = f"{expected_offset:020d}-{uuid4().hex}.parquet"
        with self._delta.lock:
            if self._end_offset != expected_offset:
                version = self._refresh()
                if self._end_offset != expected_offset:
                    raise CommitConflictError("the metadata log has moved on", version=version)
            content = _encode_file(records, stamp)
            self._files.write(f"{self.uri}/{path}", content)
            if is_local(self.uri):
                flush([self.uri])
            end_offset = Offset(expected_offset + len(records))
            try:
                self._delta.commit(
                    self._version,
                    operation="append",
                    schema=TABLE_SCHEMA,
                    partition_by=_HEADER,
                    adds=[_add_action(path, content.size, len(records), expected_offset, stamp)],
                    counters={"log-end-offset": end_offset, "leader-epoch": EPOCH},
                )
            except BaseException:
                self._end_offset = None
                raise
            self._end_offset = end_offset
            self._version += 1
        return MetadataBatch(base_offset=expected_offset, stamp=stamp, records=tuple(records))

    def maintain(self) -> None:
        """Make a checkpoint if one is due."""
        with self._delta.lock:
            self._delta.checkpoint_if_due()

    def newest_snapshot(self) -> MetadataBatch | None:
        """Return the newest readable snapshot as a batch that ends at its end offset."""
        for name in reversed(self._files.names(f"{self._root}/snapshots")):
            if not name.endswith(".parquet"):
                continue
            try:
                return self._read_snapshot(name)
            except (CorruptLogError, ValueError, pa.ArrowException, KafkaStorageError) as error:
                log.warning("snapshot %s can't be read, an older one is used: %s", name, error)
        return None

    def _read_snapshot(self, name: str) -> MetadataBatch:
        end_offset = int(name.split("-")[0])
        batch = self._read_file(f"{self._root}/snapshots/{name}", Offset(0))
        return MetadataBatch(
            base_offset=Offset(end_offset - len(batch.records)),
            stamp=batch.stamp,
            records=batch.records,
        )

    def write_snapshot(self, records: Sequence[Record], stamp: Stamp, end_offset: Offset) -> None:
        """Write the records that rebuild the image at `end_offset`, unless they are there."""
        path = f"{self._root}/snapshots/{end_offset:020d}-{EPOCH:010d}.parquet"
        self._files.write_if_absent(path, _encode_file(records, stamp).to_pybytes())


def _encode_file(records: Sequence[Record], stamp: Stamp) -> pa.Buffer:
    columns = encode(records, stamp)
    arrays = [pa.array(range(len(records)), pa.int32())]
    for name, kind in COLUMNS.items():
        values = columns[name]
        if values is None:
            arrays.append(pa.nulls(len(records), _TYPES[kind]))
        else:
            arrays.append(pa.array(values, _TYPES[kind]))
    sink = pa.BufferOutputStream()
    pq.write_table(
        pa.Table.from_arrays(arrays, schema=FILE_SCHEMA),
        sink,
        compression="zstd",
        write_page_checksum=True,
        store_schema=False,
        write_statistics=False,
    )
    return sink.getvalue()


def _add_action(path: str, size: int, count: int, base_offset: int, stamp: Stamp) -> AddAction:
    return AddAction(
        path=path,
        size=size,
        partition_values={"base_offset": str(base_offset), "epoch": str(EPOCH)},
        modification_time=stamp.time_ms,
        data_change=True,
        stats=f'{{"numRecords":{count}}}',
    )


def rows_of(table: pa.Table) -> list[dict[str, Any]]:
    """Return a metadata table's rows in offset order, `time` as µs since 1970 UTC."""
    table = table.sort_by("offset_delta") if table.num_rows > 1 else table
    place = table.column_names.index("time")
    table = table.set_column(place, "time", table.column("time").cast(pa.int64()))
    columns: list[Iterable[Any]] = [column.to_pylist() for column in table.columns]
    names = table.column_names
    return [dict(zip(names, row, strict=True)) for row in zip(*columns, strict=True)]
