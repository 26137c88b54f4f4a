"""`topics --describe --logs`: the logs of replicas, what was decided of them, and what is due."""

from collections.abc import Iterator, Sequence
from dataclasses import asdict
from typing import Any, Final

from kafka_on_spark.cli.call.output import Output, plural, progress, say, write_json, write_table
from kafka_on_spark.cli.call.session import Session
from kafka_on_spark.errors import InvalidRequestError
from kafka_on_spark.query.moments import in_seconds
from kafka_on_spark.service.describe.log_descriptions import DueUpkeep, LogDescription
from kafka_on_spark.service.describe.partition_history import HistoryEntry
from kafka_on_spark.service.describe.partition_logs import PartitionLogs

COLUMNS: Final = (
    "topic partition broker log_start_offset log_end_offset size_bytes plain_segments"
    " merged_segments cleaner_offset cleanable_ratio"
)


def show_logs(session: Session, topics: Sequence[str]) -> None:
    """Show the logs of topics' replicas.

    Raises:
        InvalidRequestError: The cluster is one of the past.
    """
    if session.is_past:
        raise InvalidRequestError(
            "--logs does not go with --as-of, since it reads the logs as they are now: leave one"
            " out"
        )
    with progress("reading logs"):
        partitions = session.cluster.describe_logs(topics) if topics else []
    if session.output is Output.JSON:
        write_json([logs_as_dict(each) for each in partitions])
        return
    logs = [log for each in partitions for log in each.replicas]
    write_table(COLUMNS, [_row(log) for log in logs if log.is_made and not log.error])
    for each in partitions:
        say(*_decided(each))
    missing = sum(not log.is_made for log in logs)
    if missing:
        say(f"{plural(missing, 'replica')} not made yet: nothing was appended there.")
    say(*(_due_of(logs) or ["Nothing is due."]))


def logs_as_dict(logs: PartitionLogs) -> dict[str, Any]:
    """Return a partition's logs as plain values."""
    return {
        "topic": logs.topic,
        "partition": logs.partition,
        "log_start_offset": logs.log_start_offset,
        "log_start": _decision(logs.log_start),
        "high_watermark": logs.high_watermark,
        "compaction": asdict(logs.compaction),
        "compacted": _decision(logs.compacted),
        "replicas": [_replica_as_dict(each) for each in logs.replicas],
    }


def _replica_as_dict(log: LogDescription) -> dict[str, Any]:
    fields = asdict(log)
    for each in ("topic", "partition"):
        del fields[each]
    return {"broker": fields.pop("broker_id"), **fields, "size_bytes": log.size_bytes}


def _decision(entry: HistoryEntry | None) -> dict[str, Any] | None:
    if entry is None:
        return None
    return {
        "time": entry.time.isoformat(),
        "cause": entry.cause,
        "by": entry.by,
        "metadata_offset": entry.metadata_offset,
    }


def _row(log: LogDescription) -> dict[str, Any]:
    part = log.compacted
    return {
        "topic": log.topic,
        "partition": log.partition,
        "broker": log.broker_id,
        "log_start_offset": log.log_start_offset,
        "log_end_offset": log.log_end_offset,
        "size_bytes": log.size_bytes,
        "plain_segments": log.plain_segments,
        "merged_segments": log.merged_segments,
        "cleaner_offset": None if part is None else part.cleaner_offset,
        "cleanable_ratio": None if part is None else round(part.cleanable_ratio, 2),
    }


def _decided(logs: PartitionLogs) -> Iterator[str]:
    name = f"{logs.topic}-{logs.partition}"
    if logs.log_start is not None:
        when = f"{logs.log_start.time:%Y-%m-%d %H:%M:%S} UTC"
        yield f"{name} starts at {logs.log_start_offset} since {when}: {logs.log_start.cause}"
    if logs.compacted is not None:
        when = f"{logs.compacted.time:%Y-%m-%d %H:%M:%S} UTC"
        yield f"{name} since {when}: {logs.compacted.cause}"


def _due_of(logs: Sequence[LogDescription]) -> list[str]:
    """Return a line for each thing that is due; one for all replicas of a partition that share
    it."""
    brokers: dict[tuple[str, str], list[int]] = {}
    for log in logs:
        name = f"{log.topic}-{log.partition}"
        said = [] if log.error is None else [f"could not be looked at: {log.error}"]
        for words in (*said, *map(_due, log.due)):
            brokers.setdefault((name, words), []).append(log.broker_id)
    return [
        f"{name} on broker{'' if len(found) == 1 else 's'} {', '.join(map(str, found))}: {words}"
        for (name, words), found in brokers.items()
    ]


def _due(due: DueUpkeep) -> str:
    if due.error:
        return str(due)
    since = "now" if due.since_ms is None else f"since {in_seconds(due.since_ms)}"
    return f"due {since}: {due}"
