"""One partition's upkeep as plain values: its replicas' logs, what is due, was decided and done."""

from collections.abc import Iterable
from datetime import datetime
from typing import Any, Final

from kafka_on_spark.service.describe.log_descriptions import LogDescription
from kafka_on_spark.service.describe.partition_logs import PartitionLogs
from kafka_on_spark.service.describe.upkeep_history import UpkeepEvent, UpkeepHistory

EVENTS_MAX: Final = 100

View = dict[str, Any]


def upkeep_view(logs: PartitionLogs, history: UpkeepHistory) -> View:
    """Return a partition's logs, all that was done to them in sums, and the newest events."""
    return {
        "name": f"{logs.topic}-{logs.partition}",
        "logStart": logs.log_start_offset,
        "compactedBelow": logs.compaction.compacted_below,
        "replicas": [_replica(each) for each in logs.replicas],
        "sums": _sums(history.events),
        "events": [_event(each) for each in reversed(history.events[-EVENTS_MAX:])],
        "eventCount": len(history.events),
        "unread": history.unread,
        "incomplete": history.incomplete,
    }


def _replica(log: LogDescription) -> View:
    """Return one replica's log; `log` is None where it is not known."""
    return {
        "broker": log.broker_id,
        "role": "leads" if log.is_leader else "in sync" if log.is_in_sync else "out of sync",
        "log": _figures(log) if log.is_made and log.error is None else None,
        "due": [str(each) for each in log.due],
        "problem": log.error if log.is_made else "not made yet: nothing was appended there",
    }


def _figures(log: LogDescription) -> View:
    return {
        "start": log.log_start_offset,
        "end": log.log_end_offset,
        "records": log.record_count,
        "plain": [log.plain_segments, log.plain_bytes],
        "merged": [log.merged_segments, log.merged_bytes],
        "compactedBelow": None if log.compacted is None else log.compacted.cleaner_offset,
    }


def _sums(events: Iterable[UpkeepEvent]) -> list[list[Any]]:
    """Return what replicas did, by kind: how often, the files and their bytes before and after, and
    by how many records they became fewer."""
    sums: dict[str, list[int]] = {}
    for each in events:
        if each.broker_id is not None:
            known = sums.setdefault(each.kind, [0] * 6)
            gone = each.records_before - each.records_after
            files = [each.files_before, each.files_after, each.bytes_before, each.bytes_after]
            sums[each.kind] = [a + b for a, b in zip(known, [1, *files, gone], strict=True)]
    return [[kind, *each] for kind, each in sorted(sums.items())]


def _event(event: UpkeepEvent) -> list[Any]:
    offsets = [event.start_offset, event.end_offset]
    return [_ms(event.time), event.broker_id, str(event), *offsets, event.by]


def _ms(moment: datetime) -> int:
    return round(moment.timestamp() * 1000)
