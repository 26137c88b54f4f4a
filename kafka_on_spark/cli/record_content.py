"""Keys, values and headers of records, shown so that null, empty, text and bytes are told apart.

In JSON text is a string, null is null, and what is no UTF-8 is `{"base64": "..."}`. In a table text
stands in quotes, null is the word without them, and bytes begin with base64: and have none either.
"""

import re
from base64 import b64encode
from collections.abc import Mapping, Sequence
from typing import Any, Final

from kafka_on_spark.cli.output import Shown
from kafka_on_spark.visible import quoted

Content = str | dict[str, str] | None
"""Bytes as JSON has them."""

SHOWN_MAX: Final = 100
"""Characters of a key or value in a table, unless they are asked for whole."""

_PLAIN_NAME: Final = re.compile(r"[\w.-]+", re.ASCII)


def content_as_json(content: bytes | None) -> Content:
    """Return a key or value as a plain value, from which its bytes can be had again."""
    if content is None:
        return None
    try:
        return content.decode()
    except UnicodeDecodeError:
        return {"base64": b64encode(content).decode()}


def shown_record(row: Mapping[str, Any], *, is_whole: bool) -> dict[str, Any]:
    """Return a record's row with its content as a table has it; long texts are cut."""
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
