"""`dump-log`: shows the logs of replicas, batch by batch or record by record.

Null, empty, text and bytes differ. In JSON, text is a string, null is null, and bytes that are not
UTF-8 are `{"base64": "..."}`. In a table, text stands in quotes; null and base64:... without.
"""

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import islice
from typing import Annotated, Any, Final

import typer

from kafka_on_spark.cli.call.actions import Action, verb
from kafka_on_spark.cli.call.options import FAILED, FOUND
from kafka_on_spark.cli.call.output import Output, Shown, note, write_rows
from kafka_on_spark.cli.call.record_rows import BATCH_COLUMNS, time_text
from kafka_on_spark.cli.call.session import Session
from kafka_on_spark.cli.lines import Content, content_as_json
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
from kafka_on_spark.visible import quoted

COLUMNS: Final = (
    "partition broker base_offset last_offset record_count leader_epoch producer_id producer_epoch"
    " sequence size_bytes appended_at is_committed segment_count"
)
RECORD_COLUMNS: Final = (
    "partition broker offset timestamp leader_epoch is_committed key value headers"
)
SHOWN_MAX: Final = 100
"""Characters of a key or value in a table without --full."""

_PLAIN_NAME: Final = re.compile(r"[\w.-]+", re.ASCII)

Begin = Annotated[int, typer.Option("--offset", min=0, help="Begin here.")]
Limit = Annotated[int, typer.Option(min=0, help="At most so many rows.")]


def cluster_metadata(session: Session, offset: Begin = 0, limit: Limit | None = None) -> None:
    """Show the metadata log instead."""
    rows = islice(log_rows(session, offset), limit)
    write_rows(session.output, BATCH_COLUMNS, rows, words=READING_LOG)


def _dump_log(
    session: Session,
    topic: Annotated[str, typer.Option(metavar="NAME", help="The topic.")],
    partition: Annotated[int, typer.Option(help="One partition; without it, all of them.")]
    | None = None,
    broker: Annotated[
        int, typer.Option(help="The broker whose replicas to show; without it, the leaders.")
    ]
    | None = None,
    print_data_log: Annotated[bool, typer.Option(help="Show records rather than batches.")] = False,
    full: Annotated[
        bool, typer.Option(help="Don't cut long keys and values in tables; JSON never cuts them.")
    ] = False,
    verify: Annotated[
        bool, typer.Option(help="Read the files, and check their checksums.")
    ] = False,
    offset: Begin = 0,
    limit: Limit | None = None,
) -> None:
    if full and not print_data_log:
        raise InvalidRequestError(
            "--full shows whole keys and values: give --print-data-log as well, or leave it out"
        )
    rows: Iterable[dict[str, Any]]
    dump = _Dump(session, topic, partition, broker, Offset(offset))
    if print_data_log:
        rows = islice(dump.records(), limit)
        if session.output is Output.TABLE:
            rows = map(partial(_shown_record, is_whole=full), rows)
        write_rows(session.output, RECORD_COLUMNS, rows, words="reading records")
    else:
        rows = islice(dump.batches(is_verified=verify), limit)
        columns, words = COLUMNS, "reading logs"
        if verify:
            columns, words = f"{COLUMNS} flaw", "checking batches"
        write_rows(session.output, columns, rows, words=words)
    raise typer.Exit(dump.code)


class _Dump:
    """Replicas' logs from an offset on, partition by partition.

    Of all partitions, one that can't be read is said, and the others go on.
    """

    def __init__(
        self,
        session: Session,
        topic: str,
        partition: int | None,
        broker: int | None,
        start: Offset,
    ) -> None:
        self._image = image = session.cluster.image
        self._options = session.options
        self._start = start
        self._broker = broker
        self._is_one = partition is not None
        self._keys = (
            _partitions_on(image, topic, broker)
            if partition is None
            else [partition_key(image, topic, partition)]
        )
        self.code = 0

    def batches(self, *, is_verified: bool) -> Iterator[dict[str, Any]]:
        return self._of_each(partial(self._batches_of, is_verified=is_verified))

    def records(self) -> Iterator[dict[str, Any]]:
        return self._of_each(self._records_of)

    def _of_each(
        self, rows_of: Callable[["_Log"], Iterator[dict[str, Any]]]
    ) -> Iterator[dict[str, Any]]:
        """Yield the rows of each partition that has a replica. One that can't be shown is said,
        and raised if the call named it."""
        for key in self._keys:
            try:
                log = self._log(key)
                if log is not None:
                    yield from rows_of(log)
            except KafkaOnSparkError as error:
                if self._is_one:
                    raise
                note(f"partition {key.partition}: {error}")
                self.code = FAILED

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


def _shown_record(row: Mapping[str, Any], *, is_whole: bool) -> dict[str, Any]:
    """Return a record's row with its content as a table shows it; long texts are cut."""
    return {
        **row,
        "key": Shown(_shown(row["key"], is_whole=is_whole)),
        "value": Shown(_shown(row["value"], is_whole=is_whole)),
        "headers": _shown_headers(row["headers"], is_whole=is_whole),
    }


def _shown_headers(headers: Sequence[Mapping[str, Any]], *, is_whole: bool) -> Shown | None:
    pairs = [f"{_name(each['key'])}={_shown(each['value'], is_whole=is_whole)}" for each in headers]
    return Shown(", ".join(pairs)) if pairs else None


def _name(key: str) -> str:
    return key if _PLAIN_NAME.fullmatch(key) else quoted(key)


def _shown(content: Content, *, is_whole: bool) -> str:
    if content is None:
        return "null"
    is_text = isinstance(content, str)
    text = content if isinstance(content, str) else content["base64"]
    kept = text if is_whole else text[:SHOWN_MAX]
    shown = quoted(kept) if is_text else f"base64:{kept}"
    if len(kept) == len(text):
        return shown
    return f"{shown}… ({len(text):,} characters, --full shows them)"


dump_log = verb(
    "Show the logs of replicas, committed or not, or the metadata log.\n\n"
    'Keys, values and headers that are text stand "in quotes"; bytes that are not UTF-8 begin with'
    ' base64:, and null is null. JSON has a text, {"base64": "…"} or null. With --verify, the exit'
    " code is 1 if a file is damaged.",
    Action(cluster_metadata, "as_of"),
    default=Action(_dump_log),
)
