"""Lines as records: which part of a line is its key, and which its value.

Bytes stay as they are: a value need not be text. Headers, times and partitions are for lines of
JSON. Source: Kafka's LineMessageReader, whose properties these are.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from kafka_on_spark.cli.lines.columns import BadLine, Columns
from kafka_on_spark.config import unknown_name
from kafka_on_spark.errors import InvalidRequestError
from kafka_on_spark.visible import quoted

SHOWN_MAX: Final = 40
"""Characters of a bad line that its error shows."""

PROPERTIES: Final = ("parse.key", "key.separator", "null.marker")


@dataclass(frozen=True, slots=True, kw_only=True)
class LineFormat:
    """How a line is read: "key<tab>value", the key if asked for.

    Attributes:
        parses_key: Whether a key stands in front. Source: parse.key.
        key_separator: Ends it. Source: key.separator.
        null_marker: A key or a value that is this is null; None: nothing is. Source: null.marker.
    """

    parses_key: bool = False
    key_separator: bytes = b"\t"
    null_marker: bytes | None = None

    def records(self, lines: Sequence[bytes]) -> tuple[Columns, BadLine | None]:
        """Return the records of `lines` up to the first that is none, and that one."""
        if not self.parses_key:
            return Columns(values=self._nulled(lines)), None
        keys: list[bytes] = []
        values: list[bytes] = []
        bad = None
        for place, line in enumerate(lines):
            key, found, value = line.partition(self.key_separator)
            if not found:
                why = f"has no key separator ({_shown(self.key_separator)}): {_shown(line)}"
                bad = BadLine(place, f"{why}; give one, or leave --property parse.key=true out")
                break
            keys.append(key)
            values.append(value)
        return Columns(values=self._nulled(values), keys=self._nulled(keys)), bad

    def _nulled(self, parts: Sequence[bytes]) -> list[bytes | None]:
        if self.null_marker is None:
            return list(parts)
        return [None if each == self.null_marker else each for each in parts]


def _shown(part: bytes) -> str:
    text = part[: 4 * SHOWN_MAX].decode(errors="backslashreplace")
    return quoted(text[:SHOWN_MAX]) + ("…" if len(part) > SHOWN_MAX else "")


def line_format(properties: Mapping[str, str]) -> LineFormat:
    """Return the format that properties of Kafka's reader describe.

    Raises:
        InvalidRequestError: One is unknown, or has a value that is not allowed.
    """
    for name in properties:
        if name not in PROPERTIES:
            raise InvalidRequestError(unknown_name("property", name, list(PROPERTIES)))
    separator = unescaped(properties.get("key.separator", "\t"))
    marker = properties.get("null.marker")
    found = LineFormat(
        parses_key=parsed_flag("parse.key", properties.get("parse.key", "false")),
        key_separator=separator,
        null_marker=None if marker is None else unescaped(marker, keeps_unknown=True),
    )
    if not separator:
        raise InvalidRequestError("property key.separator can't be empty: give a separator")
    if separator == found.null_marker:
        raise InvalidRequestError(
            f"null.marker and key.separator may not be equal: {_shown(separator)}"
        )
    return found


def parsed_flag(name: str, value: str) -> bool:
    """Return a property that is true or false.

    Raises:
        InvalidRequestError: It is neither.
    """
    word = value.strip().lower()
    if word not in ("true", "false"):
        raise InvalidRequestError(f"property {name} can't be {value!r}: give true or false")
    return word == "true"


def properties_of(given: Sequence[str] | None, option: str) -> dict[str, str]:
    """Return properties by name. A value keeps its blanks: a separator may be one.

    Raises:
        InvalidRequestError: One is not NAME=VALUE.
    """
    found = {}
    for each in given or ():
        name, equals, value = each.partition("=")
        if not equals or not name.strip():
            raise InvalidRequestError(f"{option} can't be {each!r}: give NAME=VALUE")
        found[name.strip()] = value
    return found


def check_known(given: Mapping[str, str], known: Sequence[str], client: str) -> None:
    """Check the names of a client's properties.

    Raises:
        InvalidRequestError: One is not `known`.
    """
    for name in given:
        if name not in known:
            raise InvalidRequestError(
                f"property {name!r} means nothing here: {client} takes {', '.join(known)}"
            )


_ESCAPE: Final = re.compile(rb"\\(x[0-9a-fA-F]{1,2}|.)", re.DOTALL)
_NAMED: Final = {b"t": b"\t", b"n": b"\n", b"r": b"\r", b"0": b"\0", b"\\": b"\\"}


def unescaped(text: str, *, keeps_unknown: bool = False) -> bytes:
    r"""Return the bytes that a separator or a marker means: \t, \n, \r, \0, \\ and \xNN.

    A shell passes them on only with quoting of its own. Any other character behind a backslash is
    itself; if unknown escapes are kept, its backslash stays: for null, MySQL and PostgreSQL write
    \N.
    """

    def meaning(match: re.Match[bytes]) -> bytes:
        given = match[1]
        if given[:1] == b"x" and len(given) > 1:
            return bytes([int(given[1:], 16)])
        return _NAMED.get(given, match[0] if keeps_unknown else given)

    return _ESCAPE.sub(meaning, text.encode(errors="surrogateescape"))
