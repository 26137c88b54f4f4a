"""Where to begin and where to end: `--offset`, as kafka-console-consumer and kcat take it. Pure."""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from kafka_on_spark.cli.call.options import micros
from kafka_on_spark.errors import InvalidRequestError

EARLIEST: Final = "earliest"
LATEST: Final = "latest"

_NAMES: Final = {
    "earliest": EARLIEST,
    "beginning": EARLIEST,
    "latest": LATEST,
    "end": LATEST,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Span:
    """Which records are asked for, of each partition.

    Attributes:
        start: EARLIEST or LATEST, an offset, so many records before the end if it is below 0; or
            None: as without --offset.
        start_ms: The first record not older than this time, ms since 1970; None: `start` says.
        end_ms: The records before the first that is not older; None: no such end.
    """

    start: str | int | None = None
    start_ms: int | None = None
    end_ms: int | None = None

    @property
    def has_start(self) -> bool:
        """Whether it says where to begin."""
        return self.start is not None or self.start_ms is not None


def span_of(given: Sequence[str]) -> Span:
    """Return what the values of --offset ask for: one where to begin, one where to end.

    Raises:
        InvalidRequestError: One has another form, or there are two of a kind.
    """
    start: str | int | None = None
    times: dict[str, int] = {}
    ends = [text for text in given if text.startswith("e@")]
    if len(ends) > 1 or len(given) - len(ends) > 1:
        raise InvalidRequestError(
            f"--offset is given as {', '.join(given)}: give one where to begin, and one e@TIME"
            " where to end"
        )
    for text in given:
        letter, at, moment = text.partition("@")
        if at and letter in ("s", "e"):
            times[letter] = micros(moment, f"--offset {letter}@") // 1000
        else:
            start = _start(text)
    return Span(start=start, start_ms=times.get("s"), end_ms=times.get("e"))


def _start(text: str) -> str | int:
    if text in _NAMES:
        return _NAMES[text]
    if re.fullmatch(r"-?\d{1,18}", text, re.ASCII):
        return int(text)
    raise InvalidRequestError(
        f"--offset can't be {text!r}: give an offset, -N for the last N records, earliest, latest,"
        " s@TIME to begin at a time or e@TIME to end there"
    )


def start_offset(span: Span, default: str, log_start: int, end: int, at_start: int | None) -> int:
    """Return where to begin in a partition; `at_start` is the offset of `span.start_ms`, None: all
    records are older.

    An offset that is not there yet is the log's end. One that is gone stays: the read tells of it.
    """
    if span.start_ms is not None:
        return end if at_start is None else at_start
    start = default if span.start is None else span.start
    if isinstance(start, str):
        return log_start if start == EARLIEST else end
    wanted = max(end + start, log_start) if start < 0 else start
    return min(wanted, end)
