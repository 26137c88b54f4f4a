"""Shows keys, values and headers of records, so that null, empty, text and bytes differ.

In JSON, text is a string, null is null, and bytes that are not UTF-8 are `{"base64": "..."}`. In a
table, text stands in quotes; null and base64:... stand without quotes.
"""

import re
from base64 import b64encode
from collections.abc import Mapping, Sequence
from typing import Any, Final

from kafka_on_spark.cli.call.output import Shown
from kafka_on_spark.visible import quoted

Content = str | dict[str, str] | None
"""A key or value as JSON has it."""

SHOWN_MAX: Final = 100
"""Characters of a key or value in a table without --full."""

_PLAIN_NAME: Final = re.compile(r"[\w.-]+", re.ASCII)


def content_as_json(content: bytes | None) -> Content:
    """Return a key or value as a plain value, which determines its bytes."""
    if content is None:
        return None
    try:
        return content.decode()
    except UnicodeDecodeError:
        return {"base64": b64encode(content).decode()}


def shown_record(row: Mapping[str, Any], *, is_whole: bool) -> dict[str, Any]:
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
