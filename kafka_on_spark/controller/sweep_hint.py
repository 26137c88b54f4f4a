"""Reads and writes `sweep.json` on a metadata root: how far the sweep over all partitions is; and
`upkeep.json`, the same of upkeep.

A process that runs one round and ends leaves this hint for the next process. Any process replaces
the last hint, and its content is never trusted: bytes that can't be a hint count as none.
"""

import json
import math
from typing import Any, Final

from kafka_on_spark.base.ids import PartitionKey, TopicId
from kafka_on_spark.controller.sweep import AGAIN_MAX, SweepPosition
from kafka_on_spark.metadata.hint_file import HintFile, HintRoots

NAME: Final = "sweep.json"
UPKEEP_NAME: Final = "upkeep.json"
_VERSION: Final = 2
_ID_LENGTH_MAX: Final = 64
_NUMBER_MAX: Final = 2**53


class FileSweepHints:
    """SweepHints in a file of one of the cluster's metadata roots."""

    def __init__(self, roots: HintRoots, name: str = NAME) -> None:
        self._file = HintFile(roots, name)

    def read(self, cluster_id: str) -> SweepPosition | None:
        """Return the hint of this cluster, or None if there is none or it can't be one."""
        found = (decode(each, cluster_id) for each in self._file.contents())
        return next((each for each in found if each is not None), None)

    def write(self, cluster_id: str, position: SweepPosition) -> None:
        """Replace the hint."""
        self._file.write(encode(cluster_id, position))


def encode(cluster_id: str, position: SweepPosition) -> bytes:
    """Return a sweep's progress as a hint's bytes, at most `file_limits.SMALL_FILE_BYTES_MAX`."""
    fields = {
        "version": _VERSION,
        "cluster_id": cluster_id,
        "at_ms": position.at_ms,
        "begins_at": position.begins_at,
        "owed": position.owed,
        "partitions": position.ring if isinstance(position.ring, int) else position.ring.count,
        "look_ms": position.inspection_ms,
        "again": position.again,
    }
    return json.dumps(fields, separators=(",", ":")).encode()


def decode(content: bytes, cluster_id: str) -> SweepPosition | None:
    """Return the sweep's progress in a hint's bytes, or None if it can't be one of this cluster."""
    try:
        fields = json.loads(content)
        if (fields["version"], fields["cluster_id"]) != (_VERSION, cluster_id):
            return None
        return _position(fields)
    except (ValueError, TypeError, KeyError, RecursionError):
        return None


def _position(fields: dict[str, Any]) -> SweepPosition:
    again, inspection_ms = fields["again"], fields["look_ms"]
    if not isinstance(again, list) or len(again) > AGAIN_MAX:
        raise ValueError("not a list of a hint")
    return SweepPosition(
        at_ms=_checked_int(fields["at_ms"]),
        begins_at=_checked_key(fields["begins_at"]),
        owed=_checked_float(fields["owed"]),
        ring=_checked_int(fields["partitions"]),
        again=tuple(map(_checked_key, again)),
        inspection_ms=None if inspection_ms is None else _checked_float(inspection_ms),
    )


def _checked_key(value: Any) -> PartitionKey:
    """Return a partition of a hint.

    Raises:
        ValueError, TypeError: It is none.
    """
    topic_id, number = value
    if not isinstance(topic_id, str) or len(topic_id) > _ID_LENGTH_MAX:
        raise ValueError("not a topic's id")
    return PartitionKey(TopicId(topic_id), _checked_int(number))


def _checked_int(value: Any) -> int:
    """Return a whole number of a hint.

    Raises:
        ValueError: It is none.
    """
    if type(value) is not int or not 0 <= value <= _NUMBER_MAX:
        raise ValueError("not a whole number of a hint")
    return value


def _checked_float(value: Any) -> float:
    if type(value) not in (int, float) or not (math.isfinite(value) and 0 <= value <= _NUMBER_MAX):
        raise ValueError("not a number of a hint")
    return float(value)
