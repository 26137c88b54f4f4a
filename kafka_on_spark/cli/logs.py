"""The logs of partitions, what is committed of them, how they lie on disks, whether they are sound:
`get-offsets`, `delete-records`, `dump-log`, `log-dirs`, `replica-verification`, `replicas --lost`,
`fsck`.

In a table as in JSON, null, empty, text and bytes of a record differ: text stands in quotes, null
is null, and bytes that are not UTF-8 are `{"base64": "..."}`.
"""

from collections.abc import Iterator
from dataclasses import asdict
from functools import partial
from itertools import islice
from operator import itemgetter
from typing import Any, Final

import typer

from kafka_on_spark.base.errors import (
    InvalidRequestError,
    KafkaOnSparkError,
    ReplicaLostError,
    UnknownTopicOrPartitionError,
)
from kafka_on_spark.base.ids import (
    INTERNAL_TOPICS,
    BrokerId,
    Offset,
    PartitionKey,
    TopicId,
    TopicPartition,
)
from kafka_on_spark.base.text import quoted, visible_json
from kafka_on_spark.cli.kafka_files import all_partitions, named_topics, read_partitions, registered
from kafka_on_spark.cli.lines import Content, content_as_json, headers_as_json
from kafka_on_spark.cli.options import FAILED, FOUND, micros, numbers
from kafka_on_spark.cli.output import Shown, fields, note, plural, time_text
from kafka_on_spark.cli.verbs import CHANGING, Session, alone
from kafka_on_spark.controller.brokers import registered_broker
from kafka_on_spark.controller.replica_tables import is_assigned, tables_on
from kafka_on_spark.log.batch import LogPart
from kafka_on_spark.log.reading import header_pairs
from kafka_on_spark.log.replicas import ReplicaLog
from kafka_on_spark.log.state import ReplicaAddress, address_of
from kafka_on_spark.log.unnamed_files import is_cleaned
from kafka_on_spark.metadata.image import BrokerRegistration, MetadataImage, partition_key
from kafka_on_spark.observe.descriptions import offsets_of
from kafka_on_spark.observe.replicas import (
    LogDescription,
    batch_flaw,
    batch_records,
    compare_replicas,
    find_offset,
)
from kafka_on_spark.store.roots import RootFiles

BATCH_COLUMNS: Final = (
    "partition broker base_offset last_offset record_count leader_epoch producer_id producer_epoch"
    " sequence size_bytes appended_at is_committed segment_count"
)
LOG_FIGURES: Final = (
    "log_start_offset log_end_offset size_bytes waiting_bytes plain_segments plain_bytes"
    " merged_segments merged_bytes record_count earliest_append_ms"
)
LOG_COLUMNS: Final = (
    "broker topic partition size_bytes waiting_bytes log_end_offset offset_lag is_in_sync is_future"
    " plain_segments merged_segments cleaner_offset cleanable_ratio error"
)

SPECIAL_TIMES: Final = {"-1": "latest", "-2": "earliest", "-3": "max-timestamp"}
"""Kafka's numbers, and their names."""


@alone(
    """Show log start, high watermark and log end of partitions, or the offsets of a time.

    Options:
        --partitions 0,1  Only these partitions.
        --exclude-internal-topics  Leave out internal topics.
        --time WHEN
            earliest, latest (the high watermark), max-timestamp, or a time: milliseconds since 1970
            or as 2026-01-31T12:00:00Z. Without it: start, high watermark and end.
    """,
    "as_of",
)
def get_offsets(
    session: Session,
    topic: str | None = None,
    include: str | None = None,
    partitions: str | None = None,
    exclude_internal_topics: bool = False,
    time: str | None = None,
) -> None:
    image, when = session.cluster.image, SPECIAL_TIMES.get(time or "", time)
    names = all_partitions(image, named_topics(image, topic, include))
    if partitions is not None:
        wanted = set(numbers(partitions, "--partitions"))
        missing = wanted.difference(name.partition for name in names)
        if missing:
            raise UnknownTopicOrPartitionError(
                f"none of the topics has a partition {min(missing)}: name other partitions"
            )
        names = [name for name in names if name.partition in wanted]
    is_named = when in (None, "earliest", "latest", "max-timestamp")
    at_us = None if is_named else micros(str(when), "--time")
    rows = (
        {**name._asdict(), **_offsets(session, image, name, when, at_us)}
        for name in names
        if not (exclude_internal_topics and name.topic in INTERNAL_TOPICS)
    )
    session.write_rows(rows)


def _offsets(
    session: Session,
    image: MetadataImage,
    name: TopicPartition,
    when: str | None,
    at_us: int | None,
) -> dict[str, Any]:
    """Return a partition's offsets, or that of a time; of none, with the largest timestamp."""
    known = offsets_of(registered(image, name))
    if when is None:
        return asdict(known)
    if when in ("earliest", "latest"):
        return {"offset": known.log_start_offset if when == "earliest" else known.high_watermark}
    found = find_offset(image, partition_key(image, *name), at_us, session.options)
    if found is None or found.timestamp_us is None:  # no record is as young
        return {"offset": None, "timestamp": None}
    return {"offset": found.offset, "timestamp": time_text(found.timestamp_us // 1000)}


@alone(
    """Delete records below an offset of each partition.

    Options:
        --offset-json-file FILE
            The first offset to keep: {"partitions": [{"topic": "flights", "partition": 0, "offset":
            42}]}; -1 deletes all committed records. - is standard input.
    """,
    *CHANGING,
)
def delete_records(session: Session, offset_json_file: str) -> None:
    given = read_partitions(offset_json_file, "offset", 42)
    image, count = session.cluster.image, 0
    for name, offset in given.items():
        partition = registered(image, name)
        end = partition.high_watermark if offset == -1 else offset
        count += max(0, end - partition.log_start_offset)
    session.confirm(f"deleting {plural(count, 'record')} of {plural(len(given), 'partition')}")
    starts = session.cluster.delete_records(dict(given.items()))
    rows = [{**name._asdict(), "low_watermark": start} for name, start in starts.items()]
    session.conclude({"partitions": rows})


@alone(
    """Show the logs of replicas, committed or not.

    A key or a value is a text "in quotes", {"base64": "…"} where it is not UTF-8, or null. With
    --verify, the exit code is 1 if a file is damaged.

    Options:
        --topic NAME  The topic.
        --broker INTEGER  The broker whose replicas to show; without it, the leaders.
        --print-data-log  Show records rather than batches.
        --verify  Read the files, and check their checksums.
    """
)
def dump_log(
    session: Session,
    topic: str,
    partition: int | None = None,
    broker: int | None = None,
    offset: int = 0,
    limit: int | None = None,
    print_data_log: bool = False,
    verify: bool = False,
) -> None:
    codes = {0}
    columns = f"{BATCH_COLUMNS} flaw" if verify else BATCH_COLUMNS
    rows_of = partial(_batches, is_verified=verify)
    if print_data_log:
        columns = ""
        rows_of = partial(_records, start=offset)

    def found() -> Iterator[dict[str, Any]]:
        for key in _asked_for(session.cluster.image, topic, partition, broker):
            try:
                for row in rows_of(session, _log(session, key, broker, Offset(offset))):
                    codes.add(0 if row.get("flaw") is None else FOUND)
                    yield row
            except KafkaOnSparkError as error:
                if partition is not None:
                    raise
                note(f"partition {key.partition}: {error}")
                codes.add(FAILED)

    session.write_rows(islice(found(), limit), columns)
    raise typer.Exit(max(codes))


def _asked_for(
    image: MetadataImage, name: str, number: int | None, broker: int | None
) -> list[PartitionKey]:
    names = all_partitions(image, [name]) if number is None else [TopicPartition(name, number)]
    replicas = {each: registered(image, each).replicas for each in names}
    found = [each for each in names if broker is None or broker in replicas[each]]
    if not found:
        others = sorted({int(each) for of_one in replicas.values() for each in of_one})
        raise InvalidRequestError(f"broker {broker} has no replica of {name}: name one of {others}")
    return [partition_key(image, *each) for each in found]


Log = Iterator[tuple[ReplicaAddress, LogPart, Offset]]
"""The batches of a replica, with its address and the partition's high watermark."""


def _log(session: Session, key: PartitionKey, broker: int | None, start: Offset) -> Log:
    """Yield the batches of a replica from an offset on; none if it was not begun."""
    image = session.cluster.image
    partition = image.topics[key.topic_id].partitions[key.partition]
    # Without a leader, the preferred leader's log is as good as any.
    chosen = partition.leader if broker is None else BrokerId(broker)
    broker_id = partition.replicas[0] if chosen is None else chosen
    if not partition.was_begun:
        return
    if not partition.is_created(broker_id):
        raise ReplicaLostError(
            f"the replica of {image.name_of(key)} on broker {broker_id} was not created, or is"
            " lost: name another one by --broker, if there is one"
        )
    address = address_of(image, key, partition, broker_id)
    state = ReplicaLog(address, session.options).load()
    for batch in state.batches_between(start, state.log_end_offset):
        yield address, batch, partition.high_watermark


def _batches(session: Session, log: Log, *, is_verified: bool) -> Iterator[dict[str, Any]]:
    for address, batch, high_watermark in log:
        of_producer = dict.fromkeys(("producer_id", "producer_epoch", "sequence"))
        if batch.producer is not None:
            of_producer = fields(batch.producer, "producer_id producer_epoch sequence")
        row = {
            "partition": address.key.partition,
            "broker": int(address.broker_id),
            "base_offset": batch.base_offset,
            "last_offset": batch.end_offset - 1,
            **fields(batch, "record_count leader_epoch partition_count"),
            **of_producer,
            "size_bytes": batch.size_bytes,
            "appended_at": time_text(batch.appended_at_ms),
            "is_committed": batch.end_offset <= high_watermark,
            "segment_count": len(batch.segments),
            "segments": [segment.file_name for segment in batch.segments],
        }
        if is_verified:
            row["flaw"] = batch_flaw(address, batch, session.options)
        yield row


def _records(session: Session, log: Log, *, start: int) -> Iterator[dict[str, Any]]:
    """Yield records from an offset on; in a table, texts stand in quotes."""
    shown = (lambda content: content) if session.is_json else _cell
    for address, batch, high_watermark in log:
        for record in batch_records(address, batch, session.options):
            if record["offset"] >= start:
                headers = headers_as_json(header_pairs(record["headers"]))
                yield {
                    "partition": address.key.partition,
                    "broker": int(address.broker_id),
                    "offset": record["offset"],
                    "timestamp": time_text(record["timestamp_us"] // 1000),
                    "leader_epoch": batch.leader_epoch,
                    "is_committed": record["offset"] < high_watermark,
                    "key": shown(content_as_json(record["key"])),
                    "value": shown(content_as_json(record["value"])),
                    "headers": shown(headers) if headers else headers,
                }


def _cell(content: Content | list[Any]) -> Shown:
    return Shown(quoted(content) if isinstance(content, str) else visible_json(content))


@alone(
    """Show the bytes, the segments and the lag of each replica on each broker's disk.

    A replica that can't be read, or is lost, has an error in place of them. So has one that is
    assigned to nobody; it is removed file.delete.delay.ms later, unless the cluster never knew it.

    Options:
        --describe  No effect: the verb always describes. Kafka's tool requires it.
        --broker-list 1,2  Only these brokers.
        --topic, --topic-list NAMES  Topics, with commas between.
    """
)
def log_dirs(
    session: Session,
    describe: bool = False,
    broker_list: str | None = None,
    topic: str | None = None,
    include: str | None = None,
) -> None:
    image = session.cluster.image
    brokers = None if broker_list is None else numbers(broker_list, "--broker-list")
    for each in brokers or ():
        registered_broker(image, BrokerId(each))
    names = named_topics(image, topic, include)
    partitions = session.cluster.describe_logs(names) if names else ()
    rows = [
        _log_row(image, log, partition.high_watermark)
        for partition in partitions
        for log in partition.replicas
        if log.is_made and (brokers is None or log.broker_id in brokers)
    ]
    is_of_all = topic is None and include is None
    topic_ids = None if is_of_all else frozenset(image.topic_ids[each] for each in names)
    for broker in image.brokers.values():
        if broker.has_upkeep and (brokers is None or broker.broker_id in brokers):
            rows += _waiting_rows(session, broker, topic_ids)
    session.write_rows(sorted(rows, key=itemgetter("broker", "topic", "partition")), LOG_COLUMNS)


def _waiting_rows(
    session: Session, broker: BrokerRegistration, topic_ids: frozenset[TopicId] | None
) -> list[dict[str, Any]]:
    """Return the replicas on a root that belong to no partition any more, with what they hold."""
    files = RootFiles(broker.root, session.options)
    try:
        tables = list(tables_on(broker.broker_id, broker.root, session.options, topic_ids))
        sizes = [files.sizes(table.path) for table in tables]
    except KafkaOnSparkError as error:
        note(f"what waits for deletion on broker {broker.broker_id} is not known: {error}")
        return []
    image = session.cluster.image  # after the listing, so that it has every listed assignment
    return [
        {
            "broker": broker.broker_id,
            "root": broker.root,
            "topic": table.path.split("/")[-2].rpartition("-")[0],
            "partition": table.replica.key.partition,
            "size_bytes": 0,
            "waiting_bytes": sum(size for name, size in found.items() if is_cleaned(name)),
            "error": "it is assigned to nobody",
        }
        for table, found in zip(tables, sizes, strict=True)
        if not is_assigned(image, table.replica)
    ]


def _log_row(image: MetadataImage, log: LogDescription, high_watermark: int) -> dict[str, Any]:
    home = image.brokers.get(log.broker_id)
    partition = registered(image, TopicPartition(log.topic, log.partition))
    figures: dict[str, Any] = dict.fromkeys(("offset_lag", *LOG_FIGURES.split()))
    if log.error is None:
        figures = {"offset_lag": max(0, high_watermark - log.log_end_offset)}
        figures |= fields(log, LOG_FIGURES)
    return {
        "broker": log.broker_id,
        "root": None if home is None else home.root,
        **fields(log, "topic partition is_leader is_in_sync error"),
        "is_future": log.broker_id in partition.adding_replicas,
        **figures,
        **({} if log.compacted is None else asdict(log.compacted)),
    }


@alone(
    """Compare replicas below the high watermark by chain digests; the exit code is 1 if any differ.

    Options:
        --deep  Read the files, too, and compare their bytes.
    """
)
def replica_verification(
    session: Session, topic: str | None = None, include: str | None = None, deep: bool = False
) -> None:
    rows: list[dict[str, Any]] = []
    for name in named_topics(session.cluster.image, topic, include):
        found = compare_replicas(session.cluster.image, name, session.storage_options, is_deep=deep)
        rows += [{"topic": name, **asdict(each)} for each in found]
    is_equal = not any(row["differences"] for row in rows)
    session.show({"is_equal": is_equal, "partitions": rows}, rows=rows)
    raise typer.Exit(0 if is_equal else FOUND)


@alone(
    """Declare a replica lost. It can't be read, and each replication report names it.

    Options:
        --topic NAME  The topic.
        --partition INTEGER  The replica's partition.
        --broker INTEGER  The replica's broker.
        --lost  Give the replica up: it is created again, and fetched from the others.
    """,
    *CHANGING,
)
def replicas(session: Session, topic: str, partition: int, broker: int, lost: bool) -> None:
    name = TopicPartition(topic, partition)
    session.confirm(f"giving up the replica of {name} on broker {broker}")
    session.cluster.lose_replica(topic, partition, broker)
    session.conclude({"topic": topic, "partition": partition, "broker": broker, "state": "lost"})


@alone(
    """Check all tables of a cluster against the invariants, version by version.

    Changes nothing. The exit code is 0 if nothing was found, 1 if something was, 2 if the cluster
    could not be checked.

    Options:
        --quick  Read only the tables' logs, not the segments.
    """,
    is_open=False,
)
def fsck(session: Session, quick: bool = False) -> None:
    # In the function: the other verbs need none of it.
    from kafka_on_spark.fsck.cluster_audit import check_cluster

    report = check_cluster(session.url, deep=not quick, storage_options=session.storage_options)
    findings = [
        {"invariant": each.invariant or "unchecked", "where": each.place, "what": each.sentence}
        for each in report.findings
    ]
    versions = sum(each.last_version - each.first_version + 1 for each in report.coverage)
    files = sum(each.read_files for each in report.coverage if each.table.partition is not None)
    session.show(
        report.as_dict(),
        f"Checked {versions} versions of {len(report.coverage)} tables, and {files} segments.",
        *(f"Not looked at: {each}." for each in report.not_checked),
        "Nothing was found." if report.is_clean else f"{len(findings)} findings.",
        rows=findings,
    )
    raise typer.Exit(0 if report.is_clean else FOUND)
