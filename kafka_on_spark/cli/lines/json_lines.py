"""A record as one line of JSON, both ways: what `consume --json` prints, `produce --json` appends.

    {"partition": 0, "offset": 7, "timestamp": "2026-01-31T12:00:00.000000Z", "key": "N1",
     "value": "text", "headers": [{"key": "h", "value": null}]}

A key or a value is a text, null, or {"base64": "…"} for bytes that are not UTF-8. The topic, the
offset and the type of the timestamp are ignored on the way in, so that lines can be appended again.
"""

import binascii
import json
from base64 import b64decode
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import Any, Final, TypeGuard

from kafka_on_spark.cli.lines.columns import BadLine, Columns, Headers
from kafka_on_spark.cli.logs.record_content import content_as_json
from kafka_on_spark.config import unknown_name
from kafka_on_spark.query.moments import EPOCH, MILLIS_MAX, micros_of
from kafka_on_spark.stored_json import without_doubles
from kafka_on_spark.visible import visible_json

TAKEN: Final = ("key", "value", "headers", "timestamp", "partition")
IGNORED: Final = ("topic", "offset", "timestamp_type", "leader_epoch", "is_committed")

PARTITIONS_MAX: Final = 2**31
"""Beyond it, Arrow's column has no such number; the topic allows less."""

_TEXT: Final = 'a text, null or {"base64": "…"}'


class _LineError(Exception):
    """Why one line is no record."""


def parsed_lines(lines: Sequence[bytes]) -> tuple[Columns, BadLine | None]:
    """Return the records of `lines` up to the first that is none, and that one; blank lines are
    passed over."""
    keys: list[bytes | None] = []
    headers: list[Headers] = []
    times: list[int | None] = []
    partitions: list[int | None] = []
    places: list[int] = []
    found = Columns(
        keys=keys, headers=headers, timestamps_us=times, partitions=partitions, places=places
    )
    for place, line in enumerate(lines):
        if not line.strip():
            continue
        try:
            row = _row(line)
            fields = (
                _content("key", row.get("key")),
                _content("value", row.get("value")),
                _headers(row.get("headers")),
                _timestamp_us(row.get("timestamp")),
                _partition(row.get("partition")),
            )
        except _LineError as error:
            return found, BadLine(place, str(error))
        for column, field in zip(
            (keys, found.values, headers, times, partitions), fields, strict=True
        ):
            column.append(field)  # type: ignore[attr-defined]
        places.append(place)
    return found, None


def _row(line: bytes) -> dict[str, Any]:
    try:
        row = json.loads(line, object_pairs_hook=without_doubles)
    except ValueError as error:
        raise _LineError(f"is not JSON: {error}") from None
    except RecursionError:
        raise _LineError("is no record: its JSON is nested too deep") from None
    if not isinstance(row, dict):
        raise _LineError(f'is {_shown(row)}: give an object, such as {{"key": "a", "value": "b"}}')
    for name in row:
        if name not in TAKEN and name not in IGNORED:
            raise _LineError(f"has an {unknown_name('field', name, list(TAKEN))}")
    if "value" not in row:
        raise _LineError('has no "value": give one; null is a tombstone')
    return row


def _content(name: str, given: object) -> bytes | None:
    if given is None:
        return None
    try:
        if isinstance(given, str):
            return given.encode()
        if isinstance(given, dict) and given.keys() == {"base64"}:
            return b64decode(given["base64"], validate=True)
    except UnicodeEncodeError:
        raise _LineError(f'has a "{name}" with half a surrogate pair: give {_TEXT}') from None
    except (binascii.Error, TypeError, ValueError):
        raise _LineError(f'has a "{name}" that is no base64: {_shown(given)}') from None
    raise _LineError(
        f'has a "{name}" that is {_shown(given)}: give {_TEXT}; JSON in a {name} is a text, too'
        r" (jq's tojson makes one)"
    )


def _headers(given: object) -> Headers:
    if given is None:
        return []
    if isinstance(given, dict):
        given = [{"key": name, "value": value} for name, value in given.items()]
    if not isinstance(given, list):
        raise _no_headers(given)
    found = []
    for each in given:
        is_pair = isinstance(each, dict) and each.keys() == {"key", "value"}
        name = each["key"] if is_pair else None
        if not isinstance(name, str) or (not name.isprintable() and not _is_encodable(name)):
            raise _no_headers(each)
        found.append((name, _content("headers", each["value"])))
    return found


def _is_encodable(text: str) -> bool:
    """Return whether UTF-8 has a text: it has no half of a surrogate pair."""
    return not any("\ud800" <= each <= "\udfff" for each in text)


def _no_headers(given: object) -> _LineError:
    return _LineError(
        f'has "headers" that are {_shown(given)}: give {{"name": "value"}}, or'
        ' [{"key": "name", "value": "value"}] where names come twice'
    )


def _timestamp_us(given: object) -> int | None:
    if given is None:
        return None
    if _is_number(given) and 0 <= given < MILLIS_MAX:
        return given * 1000
    try:
        moment = datetime.fromisoformat(given) if isinstance(given, str) else None
    except ValueError:
        moment = None
    if moment is None or moment.tzinfo is None:
        raise _LineError(
            f'has a "timestamp" that is {_shown(given)}: give milliseconds since 1970, or a time'
            ' with its zone, such as "2026-01-31T12:00:00Z"'
        )
    return micros_of(moment)


def _partition(given: object) -> int | None:
    if given is None or (_is_number(given) and 0 <= given < PARTITIONS_MAX):
        return given
    raise _LineError(f'has a "partition" that is {_shown(given)}: give a number from 0 on, or null')


def _is_number(given: object) -> TypeGuard[int]:
    return isinstance(given, int) and not isinstance(given, bool)


def _shown(given: object) -> str:
    text = visible_json(given)
    return text if len(text) <= 60 else f"{text[:60]}…"


def micros_text(timestamp_us: int) -> str:
    """Return µs since 1970 in ISO 8601, in UTC, to the microsecond."""
    moment = EPOCH + timedelta(microseconds=timestamp_us)
    return f"{moment.astimezone(UTC):%Y-%m-%dT%H:%M:%S.%f}Z".rjust(27, "0")


def record_line(
    topic: str,
    partition: int,
    offset: int,
    timestamp_us: int,
    key: bytes | None,
    value: bytes | None,
    headers: Sequence[tuple[str, bytes | None]],
) -> bytes:
    """Return a record as a line, without its end."""
    row = {
        "topic": topic,
        "partition": partition,
        "offset": offset,
        "timestamp": micros_text(timestamp_us),
        "key": content_as_json(key),
        "value": content_as_json(value),
        "headers": [{"key": name, "value": content_as_json(each)} for name, each in headers],
    }
    return visible_json(row).encode()
