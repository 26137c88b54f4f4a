"""Histories made by hand: each call of a client is a line, at a moment that rises by itself."""

from dataclasses import dataclass, field
from typing import Any

from tests.rigs.torturing.checks.anomalies import find_anomalies
from tests.rigs.torturing.checks.facts import Facts, facts_of
from tests.rigs.torturing.history import (
    APPEND,
    CRASH,
    END,
    ENDED,
    HEALED,
    INFO,
    INVOKE,
    OK,
    POLL,
    Event,
)

KEY = "orders/0"


@dataclass
class Story:
    """Events in the order of time; one each 1000 ns."""

    events: list[Event] = field(default_factory=list)
    at_ns: int = 0
    calls: int = 0

    def add(self, kind: str, call: str, index: int, process: str, **fields: Any) -> None:
        self.at_ns += 1000
        event = Event(
            kind=kind, call=call, index=index, process=process, at_ns=self.at_ns, fields=fields
        )
        self.events.append(event)

    def begin(self, call: str, process: str, **fields: Any) -> int:
        self.calls += 1
        self.add(INVOKE, call, self.calls, process, **fields)
        return self.calls

    def send(
        self, *values: str, process: str = "a.1", acks: str = "all", seq: int | None = None
    ) -> int:
        """Begin an append; with `seq`, of the client's producer."""
        producer_id = None if seq is None else process.partition(".")[0]
        parts = {KEY: list(values)}
        return self.begin(
            APPEND, process, parts=parts, acks=acks, producer_id=producer_id, sequence=seq
        )

    def answer(
        self, index: int, kind: str = OK, *, base: int | None = None, process: str = "a.1"
    ) -> None:
        self.add(kind, APPEND, index, process, bases={KEY: base})

    def append(
        self,
        *values: str,
        base: int | None = None,
        kind: str = OK,
        process: str = "a.1",
        acks: str = "all",
        seq: int | None = None,
    ) -> None:
        index = self.send(*values, process=process, acks=acks, seq=seq)
        self.answer(index, kind, base=base, process=process)

    def poll(
        self,
        *records: tuple[int, str] | tuple[int, str, int],
        start: int = 0,
        process: str = "r.1",
        assign: int = 0,
        **fields: Any,
    ) -> None:
        index = self.begin(POLL, process)
        rows = [[*record, None][:3] for record in records]
        self.add(
            OK,
            POLL,
            index,
            process,
            starts={KEY: start},
            records={KEY: rows},
            assign=assign,
            **fields,
        )

    def read_log(self, *values: str) -> None:
        """Read the whole log at the end; values from offset 0 on."""
        self.poll(*enumerate(values), process="torture.1", is_final=True)

    def ask_end(self, end: int, process: str = "r.1") -> None:
        index = self.begin(END, process)
        self.add(OK, END, index, process, ends={KEY: end})

    def crash(self, process: str) -> None:
        self.add(INFO, CRASH, -1, "crashes.1", of=[process])

    def heal(self) -> None:
        self.add(INFO, HEALED, -1, "torture.1")

    def end(self) -> None:
        self.add(INFO, ENDED, -1, "torture.1")

    @property
    def facts(self) -> Facts:
        return facts_of(self.events)

    @property
    def anomalies(self) -> list[str]:
        """Names of what is found, `stuck` aside unless the story comes to its end."""
        is_whole = any(event.call == ENDED for event in self.events)
        found = {each.name for each in find_anomalies(self.facts)}
        return sorted(found if is_whole else found - {"stuck"})
