"""I6, I7, I11, I15: requests and controllers; no deposed controller decides or answers.

I7: nothing is committed under a controller epoch once a higher one was claimed. I6: no controller
epoch has two owners. I11: a request is asked once and answered once at most. I15: both can be read.
"""

from collections.abc import Iterator, Sequence
from typing import Any, Final

from kafka_on_spark.audit.metadata.registers import Row
from kafka_on_spark.stored_json import parse_json

Flaw = tuple[str, str, int]
"""An invariant, a sentence, and the place in the commit of the row that breaks it."""

_REQUEST: Final = "AdminRequestRecord"
_RESULT: Final = "AdminResultRecord"
_CONTROLLER: Final = "ControllerRecord"


class RequestReplay:
    """Replays the commits of the metadata log in order; holds the requests without a result."""

    def __init__(self) -> None:
        self._pending: dict[str, None] = {}
        self._epoch = -1
        self._owner: str | None = None

    @property
    def pending(self) -> list[str]:
        """The requests without a result, in order."""
        return list(self._pending)

    def take(self, rows: Sequence[Row]) -> Iterator[Flaw]:
        """Replay the next commit; yield what is wrong with it."""
        stamped = max(
            (place for place, row in enumerate(rows) if self._is_of_deposed_controller(row)),
            default=None,
        )
        if stamped is not None:
            sentence = (
                f"committed under controller epoch {rows[stamped]['controller_epoch']}, though"
                f" {self._epoch} was claimed before"
            )
            yield "I7", sentence, stamped
        for place, row in enumerate(rows):
            if row["record_type"] == _CONTROLLER:
                yield from self._claim(row, place)
            elif row["record_type"] in (_REQUEST, _RESULT):
                yield from self._request(row, place)

    def _is_of_deposed_controller(self, row: Row) -> bool:
        """Return whether a deposed controller committed a decision. A controller's own record is
        checked with the epochs that must rise."""
        epoch = row["controller_epoch"]
        is_decision = row["record_type"] != _CONTROLLER
        return is_decision and isinstance(epoch, int) and epoch < self._epoch

    def _claim(self, row: Row, place: int) -> Iterator[Flaw]:
        epoch, owner = row["controller_epoch"], row["controller_id"]
        if not isinstance(epoch, int):
            return  # reported as a record that lacks a value
        if epoch == self._epoch and owner != self._owner:
            sentence = f"controller epoch {epoch} has two owners, {self._owner} and {owner}"
            yield "I6", sentence, place
        if epoch > self._epoch:
            self._epoch, self._owner = epoch, owner

    def _request(self, row: Row, place: int) -> Iterator[Flaw]:
        text, is_request = row["request"], row["record_type"] == _REQUEST
        if not isinstance(text, str) or not (is_request or isinstance(row["result"], str)):
            yield "I15", f"a {row['record_type']} lacks a value", place
        elif is_request:
            yield from self._ask(text, place)
        else:
            yield from self._answer(text, row["result"], place)

    def _ask(self, text: str, place: int) -> Iterator[Flaw]:
        if not _has(text, "id", str):
            yield "I15", "a request is none: it has no id", place
        if text in self._pending:
            yield "I11", "a request is asked for that is pending already", place
        self._pending[text] = None

    def _answer(self, text: str, result: str, place: int) -> Iterator[Flaw]:
        if not _has(result, "code", int):
            yield "I15", "a result is none: it has no code", place
        if text not in self._pending:
            yield "I11", "a result answers no pending request: it was run before, or never", place
        self._pending.pop(text, None)


def _has(text: str, name: str, kind: type) -> bool:
    """Return whether a text is JSON of an object that has `name`, of that kind."""
    try:
        said: Any = parse_json(text)
    except ValueError:
        return False
    return isinstance(said, dict) and isinstance(said.get(name), kind)
