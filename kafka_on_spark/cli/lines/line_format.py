"""Lines as records: which part of a line is headers, key and value.

Bytes stay as they are: a value need not be text. Source: Kafka's LineMessageReader, whose
properties these are; kcat's -K and -Z.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Final

from kafka_on_spark.cli.lines.columns import BadLine, Columns, Headers
from kafka_on_spark.cli.lines.escapes import unescaped
from kafka_on_spark.config import unknown_name
from kafka_on_spark.errors import InvalidRequestError
from kafka_on_spark.visible import quoted

SHOWN_MAX: Final = 40
"""Characters of a bad line that its error shows."""


class _LineError(Exception):
    """Why one line is no record."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LineFormat:
    """How a line is read: "h1:v1,h2:v2<tab>key<tab>value", the first two parts if asked for.

    Attributes:
        parses_key: Whether a key stands in front. Source: parse.key.
        key_separator: Ends it. Source: key.separator.
        parses_headers: Whether headers stand in front of that. Source: parse.headers.
        headers_delimiter: Ends them. Source: headers.delimiter.
        headers_separator: Stands between two. Source: headers.separator, no expression.
        headers_key_separator: Ends a header's name. Source: headers.key.separator.
        null_marker: A key, a value, a header's value or all headers that are this are null; None:
            nothing is. Source: null.marker.
        ignores_error: A line without a separator has no key, or no headers. Source: ignore.error.
    """

    parses_key: bool = False
    key_separator: bytes = b"\t"
    parses_headers: bool = False
    headers_delimiter: bytes = b"\t"
    headers_separator: bytes = b","
    headers_key_separator: bytes = b":"
    null_marker: bytes | None = None
    ignores_error: bool = False

    def records(self, lines: Sequence[bytes]) -> tuple[Columns, BadLine | None]:
        """Return the records of `lines` up to the first that is none, and that one."""
        if not self.parses_key and not self.parses_headers:
            return Columns(values=self._nulled(lines)), None
        values: list[bytes | None] = []
        keys: list[bytes | None] = []
        headers: list[Headers] = []
        bad = None
        for place, line in enumerate(lines):
            try:
                of_line, key, value = self._parts(line)
            except _LineError as error:
                bad = BadLine(place, str(error))
                break
            headers.append(of_line)
            keys.append(key)
            values.append(value)
        columns = Columns(
            values=self._nulled(values),
            keys=self._nulled(keys) if self.parses_key else None,
            headers=headers if self.parses_headers else None,
        )
        return columns, bad

    def _nulled(self, parts: Sequence[bytes | None]) -> list[bytes | None]:
        if self.null_marker is None:
            return list(parts)
        return [None if each == self.null_marker else each for each in parts]

    def _parts(self, line: bytes) -> tuple[Headers, bytes | None, bytes]:
        headers: Headers = []
        key, rest = None, line
        if self.parses_headers:
            given, rest = self._cut(line, rest, self.headers_delimiter, "headers delimiter")
            if given is not None and given != self.null_marker:
                headers = [self._header(each) for each in given.split(self.headers_separator)]
        if self.parses_key:
            key, rest = self._cut(line, rest, self.key_separator, "key separator")
        return headers, key, rest

    def _cut(
        self, line: bytes, rest: bytes, separator: bytes, name: str
    ) -> tuple[bytes | None, bytes]:
        part, found, behind = rest.partition(separator)
        if found:
            return part, behind
        if self.ignores_error:
            return None, rest
        raise _LineError(
            f"has no {name} ({_shown(separator)}): {_shown(line)}; give one, or"
            " --property ignore.error=true"
        )

    def _header(self, pair: bytes) -> tuple[str, bytes | None]:
        name, found, value = pair.partition(self.headers_key_separator)
        if not found and not self.ignores_error:
            raise _LineError(
                f"has a header {_shown(pair)} without a separator"
                f" ({_shown(self.headers_key_separator)}): give NAME and VALUE with it between"
            )
        if name == self.null_marker:
            raise _LineError(f"has a header whose name is the null marker {_shown(name)}: name it")
        try:
            return name.decode(), value if found and value != self.null_marker else None
        except UnicodeDecodeError:
            raise _LineError(f"has a header whose name is not UTF-8: {_shown(pair)}") from None


def _shown(part: bytes) -> str:
    text = part[: 4 * SHOWN_MAX].decode(errors="backslashreplace")
    return quoted(text[:SHOWN_MAX]) + ("…" if len(part) > SHOWN_MAX else "")


PROPERTIES: Final = {
    "parse.key": "parses_key",
    "key.separator": "key_separator",
    "parse.headers": "parses_headers",
    "headers.delimiter": "headers_delimiter",
    "headers.separator": "headers_separator",
    "headers.key.separator": "headers_key_separator",
    "null.marker": "null_marker",
    "ignore.error": "ignores_error",
}


def line_format(properties: Mapping[str, str]) -> LineFormat:
    """Return the format that properties of Kafka's reader describe.

    Raises:
        InvalidRequestError: One is unknown, or two contradict each other.
    """
    given: dict[str, object] = {}
    flags = {each.name for each in fields(LineFormat) if each.type is bool}
    for name, value in properties.items():
        if name not in PROPERTIES:
            raise InvalidRequestError(unknown_name("property", name, list(PROPERTIES)))
        place = PROPERTIES[name]
        if place in flags:
            given[place] = parsed_flag(name, value)
        else:
            given[place] = unescaped(value, keeps_unknown=place == "null_marker")
    found = LineFormat(**given)  # type: ignore[arg-type]
    _check(found)
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


def _check(given: LineFormat) -> None:
    parts = {
        name: getattr(given, place)
        for name, place in PROPERTIES.items()
        if name.endswith(("separator", "delimiter"))
    }
    for name, value in parts.items():
        if not value:
            raise InvalidRequestError(f"property {name} can't be empty: give a separator")
        if value == given.null_marker:
            raise InvalidRequestError(f"null.marker and {name} may not be equal: {_shown(value)}")
    in_headers = [parts[name] for name in parts if name.startswith("headers.")]
    if len(set(in_headers)) < len(in_headers):
        raise InvalidRequestError(
            "headers.delimiter, headers.separator and headers.key.separator may not be equal:"
            f" {', '.join(map(_shown, in_headers))}"
        )
