"""Reads and writes `upkeep-failures.json` on a metadata root: which upkeep fails, and since when.

For people only. Any process replaces the last note, and its content is never trusted: bytes that
can't be a note count as none.
"""

import json
from typing import Any, Final

from kafka_on_spark.ids import BrokerId
from kafka_on_spark.service.maintain.upkeep_watch import TEXT_MAX, Failures, Seen
from kafka_on_spark.storage.calls.file_limits import SMALL_FILE_BYTES_MAX
from kafka_on_spark.storage.metadata.hints.hint_file import HintFile, HintRoots
from kafka_on_spark.storage.metadata.hints.sweep_hint import checked_int, checked_key, checked_list

NAME: Final = "upkeep-failures.json"
FAILURES_MAX: Final = 64
"""So many are noted: who reads that so many fail looks for what they share."""

_VERSION: Final = 1


class FileUpkeepNotes:
    """UpkeepNotes in a file of one of the cluster's metadata roots."""

    def __init__(self, roots: HintRoots) -> None:
        self._file = HintFile(roots, NAME)

    def read(self, cluster_id: str) -> Failures:
        """Return what was noted last."""
        content = next(self._file.contents(), None)
        return {} if content is None else decode(content, cluster_id)

    def write(self, cluster_id: str, failures: Failures) -> None:
        """Replace the last note."""
        self._file.write(encode(cluster_id, failures))


def encode(cluster_id: str, failures: Failures) -> bytes:
    """Return failures as a note's bytes, at most `SMALL_FILE_BYTES_MAX`: the oldest, if there are
    many."""
    oldest = sorted(failures.items(), key=lambda item: item[1].since_ms)
    rows = [
        [key, broker_id, kind, seen.since_ms, seen.outcome, seen.may_pass]
        for ((key, broker_id), kind), seen in oldest[:FAILURES_MAX]
    ]
    fields = {"version": _VERSION, "cluster_id": cluster_id, "failures": rows}
    content = json.dumps(fields, separators=(",", ":"), ensure_ascii=False).encode(errors="replace")
    if len(content) <= SMALL_FILE_BYTES_MAX:
        return content
    return encode(cluster_id, dict(oldest[: len(rows) // 2]))


def decode(content: bytes, cluster_id: str) -> Failures:
    """Return the failures in a note's bytes; none if they can't be a note of this cluster."""
    try:
        fields = json.loads(content)
        if (fields["version"], fields["cluster_id"]) != (_VERSION, cluster_id):
            return {}
        rows = checked_list(fields["failures"], FAILURES_MAX)
        return dict(map(_failure, rows))
    except (ValueError, TypeError, KeyError, RecursionError):
        return {}


def _failure(row: Any) -> Any:
    key, broker_id, kind, since_ms, outcome, may_pass = row
    place = (
        None if key is None else checked_key(key),
        None if broker_id is None else BrokerId(checked_int(broker_id)),
    )
    if not (isinstance(kind, str) and isinstance(outcome, str) and outcome):
        raise ValueError("not a failure of a note")
    return (place, kind[:TEXT_MAX]), Seen(checked_int(since_ms), outcome[:TEXT_MAX], bool(may_pass))
