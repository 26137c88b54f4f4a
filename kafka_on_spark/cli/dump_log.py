"""`dump-log`: shows the logs of replicas, batch by batch or record by record.

Null, empty, text and bytes differ: text stands in quotes, null is null, and bytes that are not
UTF-8 are `{"base64": "..."}`, in a table as in JSON.
"""

from collections.abc import Iterator, Mapping
from functools import partial
from itertools import islice
from typing import Annotated, Any, Final

import typer

from kafka_on_spark.base.errors import InvalidRequestError, KafkaOnSparkError, ReplicaLostError
from kafka_on_spark.base.ids import BrokerId, Offset, PartitionKey
from kafka_on_spark.base.visible import quoted, visible_json
from kafka_on_spark.cli.actions import alone
from kafka_on_spark.cli.lines import Content, content_as_json
from kafka_on_spark.cli.options import FAILED, FOUND
from kafka_on_spark.cli.output import Output, Shown, note, write_rows
from kafka_on_spark.cli.record_rows import time_text
from kafka_on_spark.cli.session import Session
from kafka_on_spark.consume.consumed import header_pairs
from kafka_on_spark.log.addresses import ReplicaAddress, address_of
from kafka_on_spark.log.merged_segment import LogPart
from kafka_on_spark.metadata.image import MetadataImage, partition_key
from kafka_on_spark.metadata.partition import PartitionRegistration
from kafka_on_spark.observe.replica_inspection import (
    batch_flaw,
    batch_records,
    load_replica,
)

COLUMNS: Final = (
    "partition broker base_offset last_offset record_count leader_epoch producer_id producer_epoch"
    " sequence size_bytes appended_at is_committed segment_count"
)
RECORD_COLUMNS: Final = (
    "partition broker offset timestamp leader_epoch is_committed key value headers"
)


@alone()
def dump_log(
    session: Session,
    topic: Annotated[str, typer.Option(metavar="NAME", help="The topic.")],
    partition: Annotated[int, typer.Option(help="One partition; without it, all of them.")]
    | None = None,
    broker: Annotated[
        int, typer.Option(help="The broker whose replicas to show; without it, the leaders.")
    ]
    | None = None,
    print_data_log: Annotated[bool, typer.Option(help="Show records rather than batches.")] = False,
    verify: Annotated[
        bool, typer.Option(help="Read the files, and check their checksums.")
    ] = False,
    offset: Annotated[int, typer.Option(min=0, help="Begin here.")] = 0,
    limit: Annotated[int, typer.Option(min=0, help="At most so many rows.")] | None = None,
) -> None:
    """Show the logs of replicas, committed or not.

    A key or a value is a text "in quotes", {"base64": "…"} where it is not UTF-8, or null. With
    --verify, the exit code is 1 if a file is damaged.
    """
    image, codes = session.cluster.image, {0}
    if partition is None:
        keys = _partitions_on(image, topic, broker)
    else:
        keys = [partition_key(image, topic, partition)]
    columns = COLUMNS
    rows_of = partial(_batches, codes=codes, is_verified=verify)
    if print_data_log:
        columns = RECORD_COLUMNS
        rows_of = partial(_records, start=offset)
    elif verify:
        columns = f"{COLUMNS} flaw"

    def found() -> Iterator[dict[str, Any]]:
        for key in keys:
            try:
                yield from rows_of(session, _log(session, key, broker, Offset(offset)))
            except KafkaOnSparkError as error:
                if partition is not None:
                    raise
                note(f"partition {key.partition}: {error}")
                codes.add(FAILED)

    write_rows(session.output, columns, islice(found(), limit))
    raise typer.Exit(max(codes))


Log = Iterator[tuple[ReplicaAddress, LogPart, Offset]]
"""The batches of a replica, with its address and the partition's high watermark."""


def _log(session: Session, key: PartitionKey, broker: int | None, start: Offset) -> Log:
    """Yield the batches of a replica from an offset on; none if it was not begun.

    Raises:
        InvalidRequestError, ReplicaLostError: The broker has no replica of the partition.
        KafkaStorageError: It can't be read.
    """
    image = session.cluster.image
    partition = image.topics[key.topic_id].partitions[key.partition]
    broker_id = _replica_asked_for(partition, broker, str(image.name_of(key)))
    if not partition.was_begun:
        return
    if not partition.is_created(broker_id):
        others = [int(each) for each in partition.replicas if partition.is_created(each)]
        advice = f"name one of {others} by --broker" if others else "no other one is left"
        raise ReplicaLostError(
            f"the replica of {image.name_of(key)} on broker {broker_id} was not created, or is"
            f" lost: {advice}"
        )
    address = address_of(image, key, partition, broker_id)
    state = load_replica(address, session.options)
    if isinstance(state, KafkaOnSparkError):
        raise state
    for batch in state.batches_between(start, state.log_end_offset):
        yield address, batch, partition.high_watermark


def _batches(
    session: Session, log: Log, *, codes: set[int], is_verified: bool
) -> Iterator[dict[str, Any]]:
    for address, batch, high_watermark in log:
        row = _batch_row(address, batch, is_committed=batch.end_offset <= high_watermark)
        if is_verified:
            row["flaw"] = batch_flaw(address, batch, session.options)
            codes.add(0 if row["flaw"] is None else FOUND)
        yield row


def _records(session: Session, log: Log, *, start: int) -> Iterator[dict[str, Any]]:
    for address, batch, high_watermark in log:
        for record in batch_records(address, batch, session.options):
            if record["offset"] >= start:
                is_committed = record["offset"] < high_watermark
                row = _record_row(address, batch, record, is_committed=is_committed)
                is_for_people = session.output is Output.TABLE
                yield _shown_record(row) if is_for_people else row


def _partitions_on(image: MetadataImage, name: str, broker: int | None) -> list[PartitionKey]:
    """Return a topic's partitions, or those of which a `broker` has a replica."""
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


def _batch_row(address: ReplicaAddress, batch: LogPart, *, is_committed: bool) -> dict[str, Any]:
    producer = batch.producer
    return {
        "partition": address.key.partition,
        "broker": int(address.broker_id),
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


def _record_row(
    address: ReplicaAddress, batch: LogPart, record: dict[str, Any], *, is_committed: bool
) -> dict[str, Any]:
    return {
        "partition": address.key.partition,
        "broker": int(address.broker_id),
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


def _shown_record(row: Mapping[str, Any]) -> dict[str, Any]:
    """Return a record's row with its content as a table shows it."""
    headers = Shown(visible_json(row["headers"])) if row["headers"] else None
    return {**row, "key": _cell(row["key"]), "value": _cell(row["value"]), "headers": headers}


def _cell(content: Content) -> Shown:
    return Shown(quoted(content) if isinstance(content, str) else visible_json(content))
