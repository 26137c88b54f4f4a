"""`dump-log`: shows the logs of replicas, batch by batch or record by record."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from itertools import islice
from typing import Annotated, Any, Final

import typer

from kafka_on_spark.cli.call.options import (
    FAILED,
    FOUND,
    AsOf,
    ClusterUrl,
    Format,
    StorageOption,
    chosen_action,
    needed,
)
from kafka_on_spark.cli.call.output import Output, note, write_rows
from kafka_on_spark.cli.call.record_rows import BATCH_COLUMNS, time_text
from kafka_on_spark.cli.call.session import Session, opened
from kafka_on_spark.cli.logs.record_content import content_as_json, shown_record
from kafka_on_spark.cli.metadata import READING_LOG, log_rows
from kafka_on_spark.cluster.consuming.consumed import header_pairs
from kafka_on_spark.errors import InvalidRequestError, KafkaOnSparkError, ReplicaLostError
from kafka_on_spark.ids import BrokerId, Offset, PartitionKey
from kafka_on_spark.log.addresses import ReplicaAddress, address_of
from kafka_on_spark.log.merged_segment import LogPart
from kafka_on_spark.metadata.image import MetadataImage
from kafka_on_spark.metadata.partition import PartitionRegistration
from kafka_on_spark.query.partition_names import partition_key
from kafka_on_spark.storage.replicas.replica_inspection import (
    batch_flaw,
    batch_records,
    load_replica,
)

ACTIONS: Final = {
    "replica": (
        *("topic", "partition", "broker", "print_data_log", "full", "verify"),
        *("offset", "limit"),
    ),
    "cluster_metadata": ("offset", "limit", "as_of"),
}
LOG_COLUMNS: Final = {"partition": "partition", "broker": "broker"}
COLUMNS: Final = {
    **LOG_COLUMNS,
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
    **LOG_COLUMNS,
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
    topic: Annotated[str | None, typer.Option("--topic", metavar="NAME", help="The topic.")] = None,
    partition: Annotated[
        int | None, typer.Option("--partition", help="One partition; without it, all of them.")
    ] = None,
    broker: Annotated[
        int | None,
        typer.Option(
            "--broker", help="The broker whose replicas to show; without it, the leaders."
        ),
    ] = None,
    print_data_log: Annotated[
        bool, typer.Option("--print-data-log", help="Show records rather than batches.")
    ] = False,
    full: Annotated[
        bool,
        typer.Option(
            "--full", help="Don't cut long keys and values in tables; JSON never cuts them."
        ),
    ] = False,
    verify: Annotated[
        bool, typer.Option("--verify", help="Read the files, and check their checksums.")
    ] = False,
    cluster_metadata: Annotated[
        bool, typer.Option("--cluster-metadata", help="Show the metadata log instead.")
    ] = False,
    offset: Annotated[int | None, typer.Option("--offset", min=0, help="Begin here.")] = None,
    limit: Annotated[
        int | None, typer.Option("--limit", min=0, help="At most so many rows.")
    ] = None,
    as_of: AsOf = None,
    output: Format = Output.TABLE,
    storage_option: StorageOption = None,
) -> None:
    """Show the logs of replicas, committed or not, or the metadata log.

    Keys, values and headers that are text stand "in quotes"; bytes that are not UTF-8 begin with
    base64:, and null is null. JSON has a text, {"base64": "…"} or null. With --verify, the exit
    code is 1 if a file is damaged.
    """
    chosen_action(context, ACTIONS, default="replica")
    rows: Iterator[dict[str, Any]]
    with opened(cluster, storage_option, output, as_of=as_of) as session:
        if cluster_metadata:
            rows = islice(log_rows(session, offset or 0), limit)
            write_rows(output, BATCH_COLUMNS, rows, words=READING_LOG)
            return
        if full and not print_data_log:
            raise InvalidRequestError(
                "--full shows whole keys and values: give --print-data-log as well, or leave it out"
            )
        dump = _Dump(session, context.params)
        if print_data_log:
            rows = islice(dump.records(), limit)
            if output is Output.TABLE:
                rows = (shown_record(row, is_whole=full) for row in rows)
            write_rows(output, RECORD_COLUMNS, rows, words="reading records")
        else:
            columns = {**COLUMNS, "flaw": "flaw"} if verify else COLUMNS
            rows = islice(dump.batches(is_verified=verify), limit)
            write_rows(
                output, columns, rows, words="checking batches" if verify else "reading logs"
            )
        raise typer.Exit(dump.code)


class _Dump:
    """Replicas' logs from an offset on, partition by partition.

    Of all partitions, one that can't be read is said, and the others go on.
    """

    def __init__(self, session: Session, given: Mapping[str, Any]) -> None:
        self._image = image = session.cluster.image
        self._options = session.options
        self._start = Offset(given["offset"] or 0)
        self._broker = given["broker"]
        self._is_one = given["partition"] is not None
        name = needed(given["topic"], "--topic", "name the topic whose log to show")
        if self._is_one:
            self._keys = [partition_key(image, name, given["partition"])]
        else:
            self._keys = _partitions_on(image, name, self._broker)
        self.code = 0

    def batches(self, *, is_verified: bool) -> Iterator[dict[str, Any]]:
        return self._of_each(partial(self._batches_of, is_verified=is_verified))

    def records(self) -> Iterator[dict[str, Any]]:
        return self._of_each(self._records_of)

    def _of_each(
        self, rows_of: Callable[["_Log"], Iterator[dict[str, Any]]]
    ) -> Iterator[dict[str, Any]]:
        for log in self._logs():
            try:
                yield from rows_of(log)
            except KafkaOnSparkError as error:
                self._continue_after(error, log.name["partition"])

    def _batches_of(self, log: "_Log", *, is_verified: bool) -> Iterator[dict[str, Any]]:
        for batch in log.batches:
            row = _batch_row(batch, is_committed=batch.end_offset <= log.high_watermark)
            if is_verified:
                row["flaw"] = batch_flaw(log.address, batch, self._options)
                if row["flaw"] is not None:
                    self.code = self.code or FOUND
            yield {**log.name, **row}

    def _records_of(self, log: "_Log") -> Iterator[dict[str, Any]]:
        for batch in log.batches:
            for record in batch_records(log.address, batch, self._options):
                if record["offset"] >= self._start:
                    is_committed = record["offset"] < log.high_watermark
                    yield {**log.name, **_record_row(batch, record, is_committed=is_committed)}

    def _logs(self) -> Iterator["_Log"]:
        """Yield the logs of partitions that have a replica."""
        for key in self._keys:
            try:
                log = self._log(key)
            except KafkaOnSparkError as error:
                self._continue_after(error, key.partition)
            else:
                if log is not None:
                    yield log

    def _continue_after(self, error: KafkaOnSparkError, number: int) -> None:
        """Say why a partition can't be shown, and continue; if the call named it, raise."""
        if self._is_one:
            raise error
        note(f"partition {number}: {error}")
        self.code = FAILED

    def _log(self, key: PartitionKey) -> "_Log | None":
        image = self._image
        partition = image.topics[key.topic_id].partitions[key.partition]
        broker_id = _replica_asked_for(partition, self._broker, str(image.name_of(key)))
        if not partition.was_begun:
            return None
        if not partition.is_created(broker_id):
            others = [int(each) for each in partition.replicas if partition.is_created(each)]
            advice = f"name one of {others} by --broker" if others else "no other one is left"
            raise ReplicaLostError(
                f"the replica of {image.name_of(key)} on broker {broker_id} was not created, or"
                f" is lost: {advice}"
            )
        address = address_of(image, key, partition, broker_id)
        state = load_replica(address, self._options)
        if isinstance(state, KafkaOnSparkError):
            raise state
        return _Log(
            name={"partition": key.partition, "broker": int(broker_id)},
            address=address,
            batches=state.batches_between(self._start, state.log_end_offset),
            high_watermark=partition.high_watermark,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class _Log:
    name: dict[str, int]
    address: ReplicaAddress
    batches: tuple[LogPart, ...]
    high_watermark: Offset


def _partitions_on(image: MetadataImage, name: str, broker: int | None) -> list[PartitionKey]:
    """Return a topic's partitions; with a `broker`, those of which it has a replica."""
    topic = image.topic(name)
    keys = [
        PartitionKey(topic.topic_id, number)
        for number, partition in sorted(topic.partitions.items())
        if broker is None or broker in partition.replicas
    ]
    if not keys:
        raise InvalidRequestError(
            f"broker {broker} has no replica of topic {name!r}: topics --describe shows which"
            " brokers have one"
        )
    return keys


def _replica_asked_for(partition: PartitionRegistration, broker: int | None, name: str) -> BrokerId:
    if broker is None:
        # Without a leader, the preferred leader's log is as good as any.
        return partition.replicas[0] if partition.leader is None else partition.leader
    if broker not in partition.replicas:
        raise InvalidRequestError(
            f"broker {broker} has no replica of {name}: name one of {list(partition.replicas)}"
        )
    return BrokerId(broker)


def _batch_row(batch: LogPart, *, is_committed: bool) -> dict[str, Any]:
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
        "segments": [segment.file_name for segment in batch.segments],
    }


def _record_row(batch: LogPart, record: dict[str, Any], *, is_committed: bool) -> dict[str, Any]:
    return {
        "offset": record["offset"],
        "timestamp": time_text(record["timestamp_us"] // 1000),
        "leader_epoch": batch.leader_epoch,
        "is_committed": is_committed,
        "key": content_as_json(record["key"]),
        "value": content_as_json(record["value"]),
        "headers": [
            {"key": name, "value": content_as_json(value)}
            for name, value in header_pairs(record["headers"])
        ],
    }
