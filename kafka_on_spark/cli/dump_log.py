"""`dump-log`: what stands in one replica's log, batch by batch or record by record."""

from collections.abc import Iterator, Mapping
from itertools import islice
from typing import Annotated, Any, Final

import typer

from kafka_on_spark.cli.metadata import log_rows
from kafka_on_spark.cli.options import (
    FOUND,
    AsOf,
    ClusterUrl,
    Format,
    StorageOption,
    chosen_action,
    needed,
)
from kafka_on_spark.cli.output import Output, write_rows
from kafka_on_spark.cli.record_rows import BATCH_COLUMNS, time_text
from kafka_on_spark.cli.session import Session, opened
from kafka_on_spark.errors import InvalidRequestError, KafkaOnSparkError, ReplicaLostError
from kafka_on_spark.ids import BrokerId, Offset
from kafka_on_spark.log.batch import Batch
from kafka_on_spark.metadata.partition import PartitionRegistration
from kafka_on_spark.ports import ReplicaAddress
from kafka_on_spark.service.addresses import address_of
from kafka_on_spark.service.partition_names import partition_key
from kafka_on_spark.storage.looking import batch_flaw, batch_records, load_replica

ACTIONS: Final = {
    "replica": ("topic", "partition", "broker", "print_data_log", "verify", "offset", "limit"),
    "cluster_metadata": ("offset", "limit", "as_of"),
}
COLUMNS: Final = {
    "base_offset": "base offset",
    "last_offset": "last offset",
    "record_count": "records",
    "leader_epoch": "leader epoch",
    "producer_id": "producer",
    "producer_epoch": "its epoch",
    "sequence": "sequence",
    "size_bytes": "bytes",
    "appended_at": "appended at",
    "is_committed": "committed",
    "segment_count": "files",
}
RECORD_COLUMNS: Final = {
    "offset": "offset",
    "timestamp": "timestamp",
    "leader_epoch": "leader epoch",
    "is_committed": "committed",
    "key": "key",
    "value": "value",
    "headers": "headers",
}


def dump_log(
    context: typer.Context,
    cluster: ClusterUrl,
    topic: Annotated[str | None, typer.Option("--topic", metavar="NAME", help="Which.")] = None,
    partition: Annotated[
        int | None, typer.Option("--partition", help="Which; 0 if not said.")
    ] = None,
    broker: Annotated[
        int | None, typer.Option("--broker", help="Whose replica; the leader's if not said.")
    ] = None,
    print_data_log: Annotated[
        bool, typer.Option("--print-data-log", help="Records rather than batches.")
    ] = False,
    verify: Annotated[
        bool, typer.Option("--verify", help="Read the files, and say whether they are sound.")
    ] = False,
    cluster_metadata: Annotated[
        bool, typer.Option("--cluster-metadata", help="The metadata log instead.")
    ] = False,
    offset: Annotated[int | None, typer.Option("--offset", min=0, help="Begin here.")] = None,
    limit: Annotated[
        int | None, typer.Option("--limit", min=0, help="At most so many rows.")
    ] = None,
    as_of: AsOf = None,
    output: Format = Output.TABLE,
    storage_option: StorageOption = None,
) -> None:
    """Show what stands in a replica's log, committed or not; or in the metadata log.

    With --verify, exits with 1 if a file is not sound.
    """
    chosen_action(context, ACTIONS, default="replica")
    with opened(cluster, storage_option, output, as_of=as_of) as session:
        if cluster_metadata:
            write_rows(output, BATCH_COLUMNS, islice(log_rows(session, offset or 0), limit))
            return
        dump = _Dump(session, context.params)
        if print_data_log:
            write_rows(output, RECORD_COLUMNS, islice(dump.records(), limit))
        else:
            columns = {**COLUMNS, "flaw": "flaw"} if verify else COLUMNS
            write_rows(output, columns, islice(dump.batches(is_verified=verify), limit))
        raise typer.Exit(FOUND if dump.has_flaws else 0)


class _Dump:
    """One replica's log, from an offset on."""

    def __init__(self, session: Session, given: Mapping[str, Any]) -> None:
        image = session.cluster.image
        name = needed(given["topic"], "--topic", "name the topic whose log to show")
        key = partition_key(image, name, given["partition"] or 0)
        partition = image.topics[key.topic_id].partitions[key.partition]
        broker_id = _replica_asked_for(partition, given["broker"], str(image.name_of(key)))
        self._options = session.options
        self._start = Offset(given["offset"] or 0)
        self._high_watermark = partition.high_watermark
        self.has_flaws = False
        self._address: ReplicaAddress | None = None
        self._batches: tuple[Batch, ...] = ()
        if not any(map(partition.is_made, partition.replicas)):
            return  # nothing was ever appended, so no table was made
        if not partition.is_made(broker_id):
            raise ReplicaLostError(
                f"the replica of {image.name_of(key)} on broker {broker_id} was not made, or is"
                " lost: name another --broker"
            )
        self._address = address_of(image, key, partition, broker_id)
        state = load_replica(self._address, session.options)
        if isinstance(state, KafkaOnSparkError):
            raise state
        self._batches = state.batches_between(self._start, state.log_end_offset)

    def batches(self, *, is_verified: bool) -> Iterator[dict[str, Any]]:
        for batch in self._batches:
            row = _batch_row(batch, is_committed=batch.end_offset <= self._high_watermark)
            if is_verified and self._address is not None:
                row["flaw"] = batch_flaw(self._address, batch, self._options)
                self.has_flaws = self.has_flaws or row["flaw"] is not None
            yield row

    def records(self) -> Iterator[dict[str, Any]]:
        if self._address is None:
            return
        for batch in self._batches:
            for record in batch_records(self._address, batch, self._options):
                if record["offset"] >= self._start:
                    is_committed = record["offset"] < self._high_watermark
                    yield _record_row(batch, record, is_committed=is_committed)


def _replica_asked_for(partition: PartitionRegistration, broker: int | None, name: str) -> BrokerId:
    if broker is None:
        # Without a leader the preferred one's log is as good as any to look into.
        return partition.replicas[0] if partition.leader is None else partition.leader
    if broker not in partition.replicas:
        raise InvalidRequestError(
            f"broker {broker} has no replica of {name}: name one of {list(partition.replicas)}"
        )
    return BrokerId(broker)


def _batch_row(batch: Batch, *, is_committed: bool) -> dict[str, Any]:
    producer = batch.producer
    return {
        "base_offset": batch.base_offset,
        "last_offset": batch.end_offset - 1,
        "record_count": batch.record_count,
        "leader_epoch": batch.leader_epoch,
        "partition_count": batch.partition_count,
        "producer_id": None if producer is None else producer.producer_id,
        "producer_epoch": None if producer is None else producer.producer_epoch,
        "sequence": None if producer is None else producer.sequence,
        "size_bytes": batch.size_bytes,
        "appended_at": time_text(batch.appended_at_ms),
        "is_committed": is_committed,
        "segment_count": len(batch.segments),
        "segments": [segment.path for segment in batch.segments],
    }


def _record_row(batch: Batch, record: dict[str, Any], *, is_committed: bool) -> dict[str, Any]:
    headers = [f"{each['key']}={_text(each['value'])}" for each in record["headers"] or ()]
    return {
        "offset": record["offset"],
        "timestamp": time_text(record["timestamp_us"] // 1000),
        "leader_epoch": batch.leader_epoch,
        "is_committed": is_committed,
        "key": _text(record["key"]),
        "value": _text(record["value"]),
        "headers": headers,
    }


def _text(content: bytes | None) -> str | None:
    """Return bytes as text; what is no UTF-8 as \\x escapes, so that all bytes are told."""
    return None if content is None else content.decode("utf-8", "backslashreplace")
