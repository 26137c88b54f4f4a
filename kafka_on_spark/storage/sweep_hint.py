"""`sweep.json` on the metadata root: how far rounds have come in looking at all partitions.

Whoever does one round and ends leaves it for the next one. It is written in the place of the last
one, by whoever comes, and read as what anybody may have put there: what can't be a hint is none.
"""

import json
import math
from typing import Any, Final

from kafka_on_spark.controller.sweep import AGAIN_MAX, RANGES_MAX, LookedAt, SweepCourse
from kafka_on_spark.ids import PartitionKey, TopicId
from kafka_on_spark.storage.limits import SMALL_FILE_BYTES_MAX
from kafka_on_spark.storage.local_files import OddFileError
from kafka_on_spark.storage.options import StorageOptions
from kafka_on_spark.storage.roots import RootFiles

NAME: Final = "sweep.json"
_VERSION: Final = 1
_ID_LENGTH_MAX: Final = 64
_NUMBER_MAX: Final = 2**53


class FileSweepHints:
    """SweepHints in a file of the metadata root."""

    def __init__(self, metadata_root: str, options: StorageOptions) -> None:
        self._path = f"{metadata_root}/{NAME}"
        self._files = RootFiles(metadata_root, options)

    def read(self, cluster_id: str) -> SweepCourse | None:
        """Return the newest hint of this cluster, None if there is none that can be one."""
        try:
            content = self._files.read(self._path, SMALL_FILE_BYTES_MAX)
        except OddFileError:
            return None
        return None if content is None else decode(content, cluster_id)

    def write(self, cluster_id: str, course: SweepCourse) -> None:
        """Leave a hint in the place of the last one."""
        self._files.write(self._path, encode(cluster_id, course), is_flushed=False)


def encode(cluster_id: str, course: SweepCourse) -> bytes:
    """Return a course as a hint's bytes, at most `SMALL_FILE_BYTES_MAX`."""
    fields = {
        "version": _VERSION,
        "cluster_id": cluster_id,
        "at_ms": course.at_ms,
        "begins_at": course.begins_at,
        "owed": course.owed,
        "look_ms": course.look_ms,
        "again": course.again,
        "looked_at": [(each.start, each.end, each.at_ms) for each in course.looked_at],
    }
    return json.dumps(fields, separators=(",", ":")).encode()


def decode(content: bytes, cluster_id: str) -> SweepCourse | None:
    """Return the course that a hint's bytes tell, None if they can't be one of this cluster."""
    try:
        fields = json.loads(content)
        if (fields["version"], fields["cluster_id"]) != (_VERSION, cluster_id):
            return None
        return _course(fields)
    except (ValueError, TypeError, KeyError, RecursionError):
        return None


def _course(fields: dict[str, Any]) -> SweepCourse:
    again, ranges = _list(fields["again"], AGAIN_MAX), _list(fields["looked_at"], RANGES_MAX)
    look_ms = fields["look_ms"]
    return SweepCourse(
        at_ms=_whole(fields["at_ms"]),
        begins_at=_key(fields["begins_at"]),
        owed=_number(fields["owed"]),
        again=tuple(map(_key, again)),
        look_ms=None if look_ms is None else _number(look_ms),
        looked_at=tuple(
            LookedAt(_key(start), None if end is None else _key(end), _whole(at_ms))
            for start, end, at_ms in ranges
        ),
    )


def _list(value: Any, length_max: int) -> list[Any]:
    if not isinstance(value, list) or len(value) > length_max:
        raise ValueError("not a list of a hint")
    return value


def _key(value: Any) -> PartitionKey:
    topic_id, number = value
    if not isinstance(topic_id, str) or len(topic_id) > _ID_LENGTH_MAX:
        raise ValueError("not a topic's id")
    return PartitionKey(TopicId(topic_id), _whole(number))


def _whole(value: Any) -> int:
    if type(value) is not int or not 0 <= value <= _NUMBER_MAX:
        raise ValueError("not a whole number of a hint")
    return value


def _number(value: Any) -> float:
    if type(value) not in (int, float) or not (math.isfinite(value) and 0 <= value <= _NUMBER_MAX):
        raise ValueError("not a number of a hint")
    return float(value)
